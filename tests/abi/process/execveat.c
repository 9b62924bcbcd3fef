/* execveat: by directory, by descriptor, and what a link is. The program runs itself and says which name it was given. */
#include "t.h"

#define EMPTY AT_EMPTY_PATH
#define NOFOLLOW AT_SYMLINK_NOFOLLOW

static int dir, program, closes, path_only;

/* In a child: what `execveat` says, or what the program that it started says. */
static void try(const char *what, int fd, const char *path, int flags)
{
	pid_t pid = must_fork();
	if (pid == 0) {
		char *arguments[] = { "execveat", "child", (char *)what, 0 }, *none[] = { 0 };
		syscall(SYS_execveat, fd, path, arguments, none, flags);
		say("%s: %s", what, error_name(errno));
		_exit(1);
	}
	say("  %s", status_text(wait_for(pid)));
}

/* AT_EXECFN: the name by which the kernel started it. Descriptors are numbers, which differ. */
static void child(const char *what)
{
	char *name = (char *)0;
	uint64_t pair[2];
	int auxv = open("/proc/self/auxv", O_RDONLY);
	while (auxv >= 0 && read(auxv, pair, sizeof pair) == sizeof pair)
		if (pair[0] == 31)
			name = (char *)pair[1];
	int by_fd = name && strncmp(name, "/dev/fd/", 8) == 0;
	say("%s: runs, named %s, comm known %d", what, by_fd ? strchr(name + 8, '/') ? strchr(name + 8, '/') : "/dev/fd/N" : name ? name : "?", access("/proc/self/comm", R_OK) == 0);
	exit(0);
}

int main(int count, char **arguments)
{
	if (count == 3 && strcmp(arguments[1], "child") == 0)
		child(arguments[2]);
	mkdir("dir", 0755);
	char self[PATH_MAX] = { 0 };
	readlink("/proc/self/exe", self, sizeof self - 1);
	int from = open(self, O_RDONLY), to = open("dir/execveat", O_CREAT | O_WRONLY, 0755);
	static char block[65536];
	for (ssize_t n; (n = read(from, block, sizeof block)) > 0;)
		write(to, block, (size_t)n);
	close(from), close(to);
	symlink("execveat", "dir/link"), symlink("nowhere", "dir/dangling");
	write_file("dir/script", "#!/bin/busybox echo\n"), chmod("dir/script", 0755);
	write_file("dir/plain", "text"), write_file("dir/text", "text"), chmod("dir/text", 0755);
	dir = open("dir", O_RDONLY | O_DIRECTORY), program = open("dir/execveat", O_RDONLY), closes = open("dir/script", O_RDONLY | O_CLOEXEC), path_only = open("dir/execveat", O_PATH);
	section("by name");
	try("in a directory", dir, "execveat", 0);
	try("a link", dir, "link", 0);
	try("an absolute path", -1, "/proc/self/exe", 0);
	try("from where it stands", AT_FDCWD, "dir/execveat", 0);
	try("a link, not followed", dir, "link", NOFOLLOW);
	try("no link, not followed", dir, "execveat", NOFOLLOW);
	try("nothing there", dir, "none", 0);
	try("a link to nothing", dir, "dangling", 0);
	try("a link to nothing, not followed", dir, "dangling", NOFOLLOW);
	try("in no directory", program, "execveat", 0);
	try("of no descriptor", 99, "execveat", 0);
	try("a directory", AT_FDCWD, "dir", 0);
	try("not executable", dir, "plain", 0);
	try("no program", dir, "text", 0);
	try("a script", dir, "script", 0);
	section("by descriptor");
	try("a descriptor", program, "", EMPTY);
	try("a path's descriptor", path_only, "", EMPTY);
	try("a descriptor, not followed", program, "", EMPTY | NOFOLLOW);
	try("without the flag", program, "", 0);
	try("with a path beside it", dir, "execveat", EMPTY);
	try("of no descriptor", 99, "", EMPTY);
	try("a directory", dir, "", EMPTY);
	try("the working directory", AT_FDCWD, "", EMPTY);
	try("a script that is closed by it", closes, "", EMPTY);
	int link = open("dir/link", O_PATH | O_NOFOLLOW);
	try("a link's descriptor", link, "", EMPTY);
	try("a link's descriptor, not followed", link, "", EMPTY | NOFOLLOW);
	section("flags");
	try("unknown", dir, "execveat", 0x8000);
	try("unknown, and no path", dir, (char *)8, 0x8000);
	try("no path", dir, (char *)8, 0);
	return 0;
}
