/* renameat2 with RENAME_WHITEOUT: what stays under the old name, and who may. */
#include "t.h"

#include <dirent.h>
#include <sys/sysmacros.h>

enum { NOREPLACE = 1, EXCHANGE = 2, WHITEOUT = 4 };

#define MOVE(from, to, flags) syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags)

static void show(const char *path)
{
	struct stat st;
	if (lstat(path, &st) < 0) {
		say("%s: %s", path, error_name(errno));
		return;
	}
	if (S_ISDIR(st.st_mode))
		say("%s: %o, %u:%u, links %u", path, st.st_mode, st.st_uid, st.st_gid, (unsigned)st.st_nlink);
	else
		say("%s: %o, %u:%u, links %u, device %u:%u, size %u", path, st.st_mode, st.st_uid, st.st_gid, (unsigned)st.st_nlink, major(st.st_rdev), minor(st.st_rdev), (unsigned)st.st_size);
}

static void listing(const char *path)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort);
	for (int i = 0; i < n; i++)
		if (names[i]->d_name[0] != '.')
			say("%s/%s: type %d", path, names[i]->d_name, names[i]->d_type);
}

static void moving(void)
{
	section("moving");
	umask(0);
	write_file("a", "text");
	SHOW(MOVE("a", "b", WHITEOUT));
	show("a"), show("b");
	SHOW(open("a", O_RDONLY));
	SHOW(unlink("a"));
	/* Over another, and into another directory. */
	SHOW(mkdir("d", 0755));
	write_file("d/c", "other");
	SHOW(MOVE("b", "d/c", WHITEOUT));
	show("b"), show("d/c");
	listing("."), listing("d");
	SHOW(MOVE("d/c", "b", WHITEOUT));
	show("b"), show("d/c");
	SHOW(MOVE("b", "e", WHITEOUT | NOREPLACE));
	SHOW(MOVE("e", "b", WHITEOUT | NOREPLACE));
	SHOW(MOVE("e", "b", WHITEOUT | EXCHANGE));
	SHOW(MOVE("e", "b", WHITEOUT | EXCHANGE | NOREPLACE));
	SHOW(MOVE("e", "b", 8 | WHITEOUT));
	show("e"), show("b");
	/* What stays moves as any other. */
	SHOW(MOVE("b", "f", WHITEOUT));
	show("b"), show("f");
	SHOW(MOVE("b", "f", EXCHANGE));
	SHOW(MOVE("nowhere", "f", WHITEOUT));
	/* Two names of one file: nothing is done. */
	SHOW(link("e", "e2"));
	SHOW(MOVE("e", "e2", WHITEOUT));
	show("e"), show("e2");
	/* Directories. */
	SHOW(MOVE("d", "g", WHITEOUT));
	show("d"), show("g"), show(".");
	SHOW(MOVE("e", "g", WHITEOUT));
	SHOW(mkdir("h", 0700));
	SHOW(MOVE("h", "g", WHITEOUT));
	SHOW(MOVE("g", "g/x", WHITEOUT));
	SHOW(unlink("g/c"));
	SHOW(MOVE("h", "g", WHITEOUT));
	show("h"), show("g"), show(".");
	SHOW(rmdir("h"));
	SHOW(unlink("h"));
}

static void rights(void)
{
	section("rights");
	SHOW(mkdir("mine", 0777));
	SHOW(mkdir("group", 0777));
	SHOW(chown("group", 0, 7));
	SHOW(chmod("group", 02777));
	SHOW(mkdir("closed", 0755));
	write_file("closed/x", "x");
	pid_t pid = must_fork();
	if (pid == 0) {
		syscall(SYS_setresgid, 1000, 1000, 1000);
		syscall(SYS_setresuid, 1000, 1000, 1000);
		umask(077);
		write_file("mine/a", "a");
		SHOW(MOVE("mine/a", "mine/b", WHITEOUT));
		show("mine/a");
		SHOW(MOVE("mine/b", "group/b", WHITEOUT));
		SHOW(MOVE("group/b", "mine/c", WHITEOUT));
		show("group/b");
		SHOW(MOVE("closed/x", "mine/x", WHITEOUT));
		/* One that is made so. */
		SHOW(mknod("mine/n", S_IFCHR | 0666, 0));
		show("mine/n");
		SHOW(mknod("mine/o", S_IFBLK | 0666, 0));
		SHOW(mknod("mine/o", S_IFCHR | 0666, makedev(0, 1)));
		SHOW(mknod("mine/o", S_IFCHR | 0666, makedev(1, 0)));
		SHOW(open("mine/n", O_RDWR));
		_exit(0);
	}
	wait_for(pid);
}

static void elsewhere(void)
{
	section("elsewhere");
	SHOW(MOVE("/proc/self/stat", "/proc/self/x", WHITEOUT));
	SHOW(MOVE("/proc/version", "x", WHITEOUT));
}

int main(void)
{
	moving();
	rights();
	elsewhere();
	return 0;
}
