/* Extended attributes: set, got, listed and removed by path, of a link itself, and by descriptor; on every kind of file; who may; what counts. */
#include "t.h"

#include <grp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static char value[70000];

static void show_names(const char *what, ssize_t n)
{
	char line[1200];
	int at = snprintf(line, sizeof line, "%s: %s", what, n < 0 ? error_name(errno) : "");
	/* The names that are no test's own are the host's. */
	for (char *name = value; n > 0 && name < value + n; name += strlen(name) + 1)
		at += snprintf(line + at, sizeof line - (size_t)at, " %s", name);
	say("%s", line);
}
#define NAMES(call) (memset(value, 0, sizeof value), show_names(#call, call))

static void show_bytes_of(const char *what, ssize_t n)
{
	if (n < 0)
		say("%s: %s", what, error_name(errno));
	else
		say("%s: %zd '%.*s'", what, n, (int)(n > 40 ? 40 : n), value);
}
#define VALUE(call) (memset(value, 0, sizeof value), show_bytes_of(#call, call))

static void all_ways(void)
{
	write_file("file", "f");
	int fd = open("file", O_RDONLY), path = open("file", O_PATH);
	static const int flags[] = { 0, XATTR_CREATE, XATTR_REPLACE, XATTR_CREATE | XATTR_REPLACE };
	for (int i = 0; i < 4; i++) {
		say("flags %d", flags[i]);
		SHOW(setxattr("file", "user.a", "one", 3, flags[i]));
		SHOW(lsetxattr("file", "user.b", "zwei", 4, flags[i]));
		SHOW(fsetxattr(fd, "user.c", "", 0, flags[i]));
	}
	SHOW(setxattr("file", "user.new", "v", 1, XATTR_REPLACE));
	SHOW(setxattr("file", "user.new", "v", 1, XATTR_CREATE | XATTR_REPLACE));
	SHOW(setxattr("file", "user.new", "v", 1, XATTR_CREATE));
	SHOW(lsetxattr("file", "user.new2", "v", 1, XATTR_CREATE));
	SHOW(fsetxattr(fd, "user.new3", "v", 1, XATTR_CREATE));
	VALUE(getxattr("file", "user.a", value, sizeof value));
	VALUE(lgetxattr("file", "user.b", value, sizeof value));
	VALUE(fgetxattr(fd, "user.c", value, sizeof value));
	NAMES(listxattr("file", value, sizeof value));
	NAMES(llistxattr("file", value, sizeof value));
	NAMES(flistxattr(fd, value, sizeof value));
	SHOW(setxattr("file", "user.a", "one and more", 12, 0));
	VALUE(getxattr("file", "user.a", value, sizeof value));
	SHOW(getxattr("file", "user.a", 0, 0));
	SHOW(getxattr("file", "user.a", value, 11));
	SHOW(getxattr("file", "user.a", value, 12));
	SHOW(getxattr("file", "user.a", (void *)8, 12));
	SHOW(listxattr("file", 0, 0));
	SHOW(listxattr("file", value, 5));
	SHOW(listxattr("file", (void *)8, 500));
	SHOW(removexattr("file", "user.a"));
	SHOW(lremovexattr("file", "user.b"));
	SHOW(fremovexattr(fd, "user.c"));
	SHOW(removexattr("file", "user.a"));
	SHOW(lremovexattr("file", "user.b"));
	SHOW(fremovexattr(fd, "user.c"));
	SHOW(getxattr("file", "user.a", value, sizeof value));
	NAMES(listxattr("file", value, sizeof value));

	section("errors");
	SHOW(setxattr("file", "", "v", 1, 0));
	SHOW(setxattr("file", "plain", "v", 1, 0));
	SHOW(setxattr("file", "other.v", "v", 1, 0));
	SHOW(setxattr("file", "user", "v", 1, 0));
	SHOW(setxattr("file", "user.", "v", 1, 0));
	SHOW(setxattr("file", "trusted.", "v", 1, 0));
	SHOW(setxattr("file", "security.", "v", 1, 0));
	SHOW(getxattr("file", "", value, 1));
	SHOW(getxattr("file", "plain", value, 1));
	SHOW(getxattr("file", "user.", value, 1));
	SHOW(removexattr("file", ""));
	SHOW(removexattr("file", "plain"));
	SHOW(removexattr("file", "user."));
	SHOW(setxattr("file", "user.v", "v", 1, 4));
	SHOW(setxattr("nowhere", "user.v", "v", 1, 0));
	SHOW(setxattr("file", "user.v", value, 65537, 0));
	SHOW(setxattr("file", "user.v", (void *)8, 5, 0));
	SHOW(setxattr("file", "user.v", (void *)8, 0, 0));
	SHOW(removexattr("file", "user.v"));
	SHOW(syscall(SYS_setxattr, "file", 8, value, 1, 0));
	SHOW(fsetxattr(path, "user.v", "v", 1, 0));
	SHOW(fgetxattr(path, "user.new", value, 1));
	SHOW(flistxattr(path, value, 1));
	SHOW(fremovexattr(path, "user.new"));
	SHOW(fgetxattr(-1, "user.v", value, 1));
	SHOW(setxattr("/proc/self/status", "user.v", "v", 1, 0));
	SHOW(getxattr("/proc/self/status", "user.v", value, 1));
	char name[300] = "user.";
	memset(name + 5, 'n', 250);
	SHOW(setxattr("file", name, "v", 1, 0));
	SHOW(getxattr("file", name, value, 10));
	SHOW(removexattr("file", name));
	strcat(name, "n");
	SHOW(setxattr("file", name, "v", 1, 0));
	close(fd), close(path);
}

static void kinds(void)
{
	section("kinds of file");
	mkdir("dir", 0755);
	symlink("file", "link"), symlink("nowhere", "dangling");
	mkfifo("fifo", 0644);
	mknod("null", S_IFCHR | 0644, makedev(1, 3));
	static const char *const names[] = { "user.k", "trusted.k", "security.k" };
	static const char *const files[] = { "file", "dir", "link", "dangling", "fifo", "null" };
	for (int f = 0; f < 6; f++)
		for (int n = 0; n < 3; n++) {
			say("%s %s", files[f], names[n]);
			SHOW(lsetxattr(files[f], names[n], "abc", 3, 0));
			VALUE(lgetxattr(files[f], names[n], value, 100));
			SHOW(lremovexattr(files[f], names[n]));
		}
	/* Through the link. */
	SHOW(setxattr("link", "user.through", "v", 1, 0));
	VALUE(getxattr("file", "user.through", value, 100));
	SHOW(setxattr("dangling", "user.through", "v", 1, 0));
	link("file", "hard");
	VALUE(getxattr("hard", "user.through", value, 100));
	rename("file", "moved");
	VALUE(getxattr("moved", "user.through", value, 100));
	rename("moved", "file");
	int memory = (int)syscall(SYS_memfd_create, "m", 0);
	SHOW(fsetxattr(memory, "user.m", "v", 1, 0));
	VALUE(fgetxattr(memory, "user.m", value, 100));
	int pipes[2];
	if (pipe(pipes) == 0)
		SHOW(fsetxattr(pipes[0], "user.p", "v", 1, 0));
	SHOW(fgetxattr(pipes[0], "user.p", value, 10));
	close(memory), close(pipes[0]), close(pipes[1]);
	/* Times: contents stay, the change is told. */
	struct stat before, after;
	stat("file", &before);
	usleep(20000);
	setxattr("file", "user.t", "v", 1, 0);
	stat("file", &after);
	CHECK(after.st_mtim.tv_nsec == before.st_mtim.tv_nsec && after.st_mtim.tv_sec == before.st_mtim.tv_sec);
	CHECK(after.st_ctim.tv_nsec != before.st_ctim.tv_nsec);
	usleep(20000);
	removexattr("file", "user.t");
	stat("file", &before);
	CHECK(after.st_ctim.tv_nsec != before.st_ctim.tv_nsec);
}

static void as_user(void)
{
	setgroups(0, 0);
	if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
		say("no other ids");
	SHOW(setxattr("theirs", "user.x", "v", 1, 0));
	SHOW(getxattr("theirs", "user.x", value, 10));
	SHOW(getxattr("theirs", "user.there", value, 10));
	SHOW(removexattr("theirs", "user.there"));
	SHOW(getxattr("closed", "user.there", value, 10));
	SHOW(getxattr("closed", "trusted.there", value, 10));
	SHOW(getxattr("closed", "security.there", value, 10));
	NAMES(listxattr("closed", value, sizeof value));
	SHOW(setxattr("own", "user.x", "v", 1, 0));
	SHOW(setxattr("own", "trusted.x", "v", 1, 0));
	SHOW(setxattr("own", "security.x", "v", 1, 0));
	SHOW(setxattr("own", "plain", "v", 1, 0));
	SHOW(getxattr("own", "trusted.x", value, 10));
	SHOW(removexattr("own", "trusted.x"));
	SHOW(removexattr("own", "security.x"));
	SHOW(removexattr("own", "security.capability"));
	SHOW(lsetxattr("ownlink", "user.x", "v", 1, 0));
	SHOW(lgetxattr("ownlink", "user.x", value, 10));
	SHOW(setxattr("sticky", "user.x", "v", 1, 0));
	SHOW(getxattr("sticky", "user.there", value, 10));
	SHOW(setxattr("ownsticky", "user.x", "v", 1, 0));
	NAMES(listxattr("own", value, sizeof value));
}

static void rights(void)
{
	section("rights");
	write_file("theirs", "t"), chmod("theirs", 0644);
	write_file("closed", "c"), chmod("closed", 0600);
	write_file("own", "o"), chown("own", 1000, 1000);
	symlink("own", "ownlink"), lchown("ownlink", 1000, 1000);
	mkdir("sticky", 0755), chmod("sticky", 01777), mkdir("ownsticky", 0755), chmod("ownsticky", 01777), chown("ownsticky", 1000, 1000);
	chmod(".", 0755);
	setxattr("theirs", "user.there", "v", 1, 0), setxattr("sticky", "user.there", "v", 1, 0);
	setxattr("closed", "user.there", "v", 1, 0), setxattr("closed", "trusted.there", "v", 1, 0), setxattr("closed", "security.there", "v", 1, 0);
	setxattr("own", "user.zz", "v", 1, 0), setxattr("own", "trusted.there", "v", 1, 0);
	NAMES(listxattr("closed", value, sizeof value));
	NAMES(listxattr("own", value, sizeof value));
	in_child("a user", as_user);
	NAMES(listxattr("own", value, sizeof value));
}

static long files_free(void)
{
	struct statfs facts;
	statfs("mount", &facts);
	return (long)facts.f_ffree;
}

static void limits(void)
{
	section("limits");
	mkdir("mount", 0755);
	SHOW(mount("none", "mount", "tmpfs", 0, "nr_inodes=40"));
	write_file("mount/file", "f");
	long before = files_free();
	memset(value, 'x', sizeof value);
	SHOW(setxattr("mount/file", "user.a", value, 10, 0));
	say("%ld", before - files_free());
	SHOW(setxattr("mount/file", "user.a", value, 20000, 0));
	say("%ld", before - files_free());
	SHOW(setxattr("mount/file", "user.b", value, 30000, 0));
	SHOW(setxattr("mount/file", "user.a", value, 60000, 0));
	SHOW(getxattr("mount/file", "user.a", 0, 0));
	say("%ld", before - files_free());
	SHOW(removexattr("mount/file", "user.a"));
	say("%ld", before - files_free());
	SHOW(setxattr("mount/file", "trusted.b", value, 39000, 0));
	SHOW(setxattr("mount/file", "trusted.b", value, 30000, 0));
	unlink("mount/file");
	nap(50);
	say("%ld", before - files_free());
	SHOW(mount("none", "mount", 0, MS_REMOUNT | MS_RDONLY, 0));
	SHOW(setxattr("mount", "user.a", value, 1, 0));
	SHOW(removexattr("mount", "user.a"));
	SHOW(getxattr("mount", "user.a", value, 1));
	umount("mount");

	/* Longer than a list may be. */
	write_file("many", "m");
	char name[256];
	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof name, "user.%03d", i);
		memset(name + 8, 'y', 200), name[208] = 0;
		if (setxattr("many", name, "v", 1, 0) != 0)
			say("%d: %s", i, error_name(errno));
	}
	SHOW(listxattr("many", 0, 0));
	SHOW(listxattr("many", value, 65535));
	SHOW(listxattr("many", value, 65536));
	SHOW(listxattr("many", value, sizeof value));
	for (int i = 0; i < 200; i++) {
		snprintf(name, sizeof name, "user.%03d", i * 2);
		memset(name + 8, 'y', 200), name[208] = 0;
		removexattr("many", name);
	}
	SHOW(listxattr("many", value, sizeof value));
	say("%.8s %.8s", value, value + 209);
}

int main(void)
{
	all_ways();
	kinds();
	rights();
	limits();
	return 0;
}
