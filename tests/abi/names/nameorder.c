/*
 * Calls on names with more than one fault: which of them is told. Found by comparing random programs with Linux (darter-fuzz compare).
 */
#include "t.h"
#include <sys/mount.h>
#include <sys/sysmacros.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

/* A name that is too long, and a path that is. */
static char name[300], path[5000], slashed[302];
static int proc;
/* Volatile, so that the compiler does not see through it. */
static void *volatile bad_pointer = (void *)0x10;
#define BAD bad_pointer

static int rename2(int old_fd, const char *old, int new_fd, const char *new, unsigned flags)
{
	return syscall(SYS_renameat2, old_fd, old, new_fd, new, flags);
}

/* Where a name is too long, its directory is asked for it. */
static void too_long(void)
{
	section("a name that is too long");
	SHOW(mkdir(name, 0755));
	SHOW(mkdir(slashed, 0755));
	SHOW(mknod(name, S_IFREG | 0600, 0));
	SHOW(mknod(slashed, S_IFREG | 0600, 0));
	SHOW(symlink("file", name));
	SHOW(link("file", name));
	SHOW(link("nowhere", name));
	SHOW(link("dir", name));
	SHOW(unlink(name));
	SHOW(rmdir(name));
	SHOW(rmdir(slashed));
	SHOW(open(name, O_RDONLY));
	SHOW(open(name, O_RDONLY | O_CREAT, 0600));
	SHOW(open(slashed, O_RDONLY | O_CREAT, 0600));
	SHOW(rename(name, "nowhere/new"));
	SHOW(rename(name, "."));
	SHOW(rename(name, "new"));
	SHOW(rename("nowhere", name));
	SHOW(rename("nowhere", slashed));
	SHOW(rename("file", name));
	SHOW(rename("file", slashed));
	SHOW(rename(".", name));
	SHOW(renameat(AT_FDCWD, name, proc, "new"));
	SHOW(rename2(AT_FDCWD, "nowhere", AT_FDCWD, name, RENAME_EXCHANGE));
	section("in a directory that nobody may write");
	SHOW(mkdir("closed/new", 0755));
	chdir("closed");
	SHOW(mkdir(name, 0755));
	SHOW(unlink(name));
	SHOW(rename(name, "new"));
	SHOW(rename("new", name));
	SHOW(open(name, O_WRONLY | O_CREAT, 0600));
	chdir("..");
}

static void paths(void)
{
	section("two paths");
	SHOW(rename2(AT_FDCWD, path, AT_FDCWD, path, 8));
	SHOW(rename2(AT_FDCWD, BAD, AT_FDCWD, path, RENAME_NOREPLACE | RENAME_EXCHANGE));
	SHOW(rename2(99, path, AT_FDCWD, BAD, 0));
	SHOW(rename2(99, "file", AT_FDCWD, path, 0));
	SHOW(rename2(AT_FDCWD, "nowhere/a", 99, path, 0));
	SHOW(rename2(AT_FDCWD, "nowhere/a", 99, "a", 0));
	SHOW(rename2(AT_FDCWD, "nowhere", 99, "a", 0));
	SHOW(rename2(AT_FDCWD, "", AT_FDCWD, path, 0));
	SHOW(rename2(AT_FDCWD, "file", AT_FDCWD, "", 0));
	SHOW(linkat(99, path, 98, BAD, 0));
	SHOW(linkat(99, "file", 98, BAD, 1));
	SHOW(linkat(99, "file", 98, BAD, 0));
	SHOW(linkat(AT_FDCWD, "file", 98, BAD, 0));
	SHOW(symlinkat(path, 99, BAD));
	SHOW(symlinkat("", 99, BAD));
	SHOW(symlinkat("file", 99, path));
	SHOW(symlinkat("file", 99, "new"));
	section("what is too long for one page");
	SHOW(open(path, O_RDONLY));
	SHOW(openat(99, path, O_RDONLY));
	section("no name");
	SHOW(unlinkat(99, "", AT_REMOVEDIR));
	SHOW(mkdirat(99, "", 0755));
	SHOW(openat(99, "", O_RDONLY));
	SHOW(openat(99, "", O_RDONLY | O_CREAT, 0600));
	SHOW(fchmodat(99, "", 0600, 0));
	SHOW(syscall(SYS_faccessat, 99, "", 0));
	SHOW(readlinkat(99, "", path, 8));
	SHOW(linkat(99, "", AT_FDCWD, "new", 0));
	SHOW(linkat(99, "", AT_FDCWD, "new", AT_EMPTY_PATH));
	SHOW(linkat(AT_FDCWD, "file", 99, "", 0));
	SHOW(renameat(99, "", 99, ""));
	SHOW(renameat(AT_FDCWD, "file", 99, ""));
	SHOW(mknodat(99, "", S_IFIFO, 0));
	SHOW(symlinkat("file", 99, ""));
	section("changing a link");
	SHOW(syscall(452, AT_FDCWD, "link", 0600, AT_SYMLINK_NOFOLLOW));
	SHOW(syscall(452, AT_FDCWD, "/proc/self/exe", 0600, AT_SYMLINK_NOFOLLOW));
	SHOW(syscall(452, proc, "", 0600, AT_EMPTY_PATH));
	SHOW(unlinkat(99, path, 8));
	SHOW(fchmodat(99, path, 0600, 0));
	SHOW(mkdirat(99, path, 0));
	SHOW(mknodat(99, path, S_IFIFO, 0));
	SHOW(mknodat(99, path, S_IFDIR, 0));
}

/* A directory of /proc says that a name is not there before anybody asks whether it may be made. */
static void in_proc(void)
{
	section("names in /proc");
	SHOW(mkdirat(proc, "new", 0755));
	SHOW(mkdirat(proc, "stat", 0755));
	SHOW(mkdirat(proc, name, 0755));
	SHOW(mknodat(proc, "new", S_IFREG | 0600, 0));
	SHOW(mknodat(proc, "new", S_IFCHR | 0600, 0));
	SHOW(mknodat(proc, "new/", S_IFREG | 0600, 0));
	SHOW(symlinkat("file", proc, "new"));
	SHOW(symlinkat("file", proc, "stat"));
	SHOW(symlinkat("file", proc, name));
	SHOW(linkat(AT_FDCWD, "file", proc, "new", 0));
	SHOW(linkat(AT_FDCWD, "file", proc, "stat", 0));
	SHOW(linkat(proc, "stat", proc, "new", 0));
	SHOW(unlinkat(proc, "new", 0));
	SHOW(unlinkat(proc, name, 0));
	SHOW(unlinkat(proc, "stat", 0));
	SHOW(unlinkat(proc, "fd", AT_REMOVEDIR));
	SHOW(openat(proc, "new", O_RDWR | O_CREAT, 0600));
	SHOW(openat(proc, name, O_RDWR | O_CREAT, 0600));
	SHOW(renameat(proc, "new", proc, "newer"));
	SHOW(renameat(proc, "stat", proc, "new"));
	SHOW(renameat(proc, "stat", proc, "status"));
	SHOW(mkdir("/proc/new", 0755));
	SHOW(mkdir("/proc/sys/new", 0755));
	SHOW(mkdir("/proc/self/fd/new", 0755));
	SHOW(open("/proc/new", O_RDWR | O_CREAT, 0600));
	SHOW(openat(proc, ".", O_RDWR | O_TMPFILE | O_DIRECTORY, 0600));
}

/* Who may write where nobody does. */
static void closed_directories(void)
{
	static const char *const directories[] = { "/proc", "/proc/self/.", "/proc/self/fd", "/proc/self/task", "/proc/thread-self/.", "/proc/sys",
						   "/proc/sys/kernel", "/proc/sys/kernel/hostname", "/proc/version", "/proc/self/stat", "/proc/self/comm" };
	for (unsigned n = 0; n < sizeof directories / sizeof *directories; n++) {
		section(directories[n]);
		SHOW(access(directories[n], W_OK));
		SHOW(faccessat(AT_FDCWD, directories[n], R_OK | W_OK, AT_EACCESS));
	}
	section("removing");
	SHOW(unlink("/proc/version"));
	SHOW(unlink("/proc/sys/kernel/hostname"));
	SHOW(unlink("/proc/self/fd/0"));
	SHOW(rmdir("/proc/self/fd"));
	SHOW(rmdir("/proc/sys/kernel"));
	SHOW(unlink("/proc/sys/kernel"));
	SHOW(rmdir("/proc/version"));
	SHOW(unlink("/proc/self/task"));
}

/* What a flag of open says against another is told before the name is looked at. */
static void flags(void)
{
	section("flags of open");
	SHOW(openat(99, BAD, O_CREAT | O_DIRECTORY));
	SHOW(openat(99, "nowhere", O_CREAT | O_DIRECTORY));
	SHOW(openat(99, "nowhere", O_TMPFILE | O_RDONLY));
	SHOW(openat(99, "nowhere", O_TMPFILE | O_CREAT | O_RDWR));
	SHOW(openat(99, "nowhere", (O_TMPFILE & ~O_DIRECTORY) | O_RDWR));
	SHOW(openat(99, "nowhere", O_TMPFILE | O_RDWR));
	SHOW(openat(99, "nowhere", O_PATH | O_CREAT | O_DIRECTORY));
	SHOW(open("nowhere", O_TMPFILE | 3, 0600));
	SHOW(open("file", O_TMPFILE | 3, 0600));
	SHOW(open("file", O_TMPFILE | O_RDWR, 0600));
	int odd = open(".", O_TMPFILE | 3, 0600);
	CHECK(odd >= 0);
	SHOW(write(odd, "a", 1));
	SHOW(read(odd, path, 1));
	close(odd);
	SHOW(open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600) >= 0);
	SHOW(open("link-to-dir", O_TMPFILE | O_RDWR | O_NOFOLLOW, 0600));
	SHOW(open("link-to-dir", O_TMPFILE | O_RDWR, 0600) >= 0);
	section("what is opened");
	SHOW(mknod("socket", S_IFSOCK | 0200, 0));
	SHOW(open("socket", O_RDONLY));
	SHOW(open("socket", O_WRONLY));
	SHOW(open("socket", O_WRONLY | O_NOATIME));
	SHOW(open("socket", O_RDONLY | O_DIRECTORY));
	SHOW(open("socket", O_RDONLY | O_CREAT, 0600));
	SHOW(open("dir", O_RDONLY | O_CREAT | O_EXCL, 0600));
	SHOW(open("dir", O_RDONLY | O_CREAT, 0600));
	SHOW(open("dir/", O_RDONLY | O_CREAT | O_EXCL, 0600));
	SHOW(open("link", O_RDONLY | O_NOFOLLOW));
	SHOW(open("link", O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
	SHOW(open("link", O_WRONLY | O_NOFOLLOW | O_CREAT, 0600));
	SHOW(open("file", O_RDONLY | O_DIRECTORY));
	SHOW(open("closed-file", O_RDONLY | O_DIRECTORY));
	SHOW(open("closed", O_WRONLY | O_DIRECTORY));
	SHOW(open("closed", O_RDWR | O_TRUNC));
	SHOW(open("closed", 3));
}

static void propagation(void)
{
	section("propagation");
	mkdir("point", 0755);
	SHOW(mount("none", "dir", 0, MS_PRIVATE, 0));
	SHOW(mount("none", "point", "tmpfs", 0, 0));
	SHOW(mount("none", "point", 0, MS_PRIVATE, 0));
	SHOW(mount("none", "point", 0, MS_PRIVATE | MS_REC | MS_SILENT, 0));
	SHOW(mount("none", "point", 0, MS_PRIVATE | MS_SLAVE, 0));
	SHOW(mount("none", "point", 0, MS_PRIVATE | MS_RDONLY, 0));
	SHOW(mount("none", "point", 0, MS_UNBINDABLE | MS_MOVE, 0));
	SHOW(mount("none", "point", 0, MS_PRIVATE | MS_NOSUID, 0));
	SHOW(mount("none", "dir", 0, 1ul << 31, 0));
	SHOW(umount("point"));
	section("move");
	SHOW(mount("", "dir", 0, MS_MOVE, 0));
	SHOW(mount("nowhere", "dir", 0, MS_MOVE, 0));
	SHOW(mount("file", "dir", 0, MS_MOVE, 0));
	section("options of devpts");
	mkdir("pts", 0755);
	SHOW(mount("none", "pts", "devpts", 0, "mode=0777"));
	SHOW(umount("pts"));
	SHOW(mount("none", "pts", "devpts", 0, "mode=9"));
	SHOW(mount("none", "pts", "devpts", 0, "uid=0,gid=5,ptmxmode=000,newinstance,max=3"));
	SHOW(umount("pts"));
	SHOW(mount("none", "pts", "devpts", 0, "uid=a"));
	SHOW(mount("none", "pts", "devpts", 0, "max=99999999"));
	SHOW(mount("none", "pts", "devpts", 0, "ptmxmode=8"));
	SHOW(mount("none", "pts", "devpts", 0, "what"));
	SHOW(mount("none", "pts", "devpts", 0, "size=4k,nr_inodes=8"));
	SHOW(mount("none", "pts", "devpts", 0, ",,"));
	SHOW(umount("pts"));
	section("options of proc");
	SHOW(mount("none", "pts", "proc", 0, "what"));
	SHOW(mount("none", "pts", "proc", 0, "gid=a"));
	SHOW(mount("none", "pts", "proc", 0, ""));
	SHOW(umount("pts"));
	section("options of devtmpfs, sysfs and ramfs");
	SHOW(mount("none", "pts", "devtmpfs", 0, "what"));
	SHOW(mount("none", "pts", "devtmpfs", 0, "mode=9"));
	SHOW(mount("none", "pts", "devtmpfs", 0, "mode=0755"));
	SHOW(umount("pts"));
	SHOW(mount("none", "pts", "sysfs", 0, "what"));
	if (mount("none", "pts", "sysfs", 0, "") == 0)
		umount("pts");
	SHOW(mount("none", "pts", "nothing", 0, "what"));
	SHOW(mount("none", "pts", "", 0, ""));
	SHOW(mount("none", "pts", 0, 0, ""));
	SHOW(mount("none", "file", "tmpfs", 0, ""));
	SHOW(mount("none", "file", "tmpfs", 0, "what"));
	SHOW(mount("none", "file", "nothing", 0, "what"));
}

static void unprivileged(void)
{
	if (setresuid(1000, 1000, 1000) != 0)
		exit(1);
	too_long();
	paths();
	in_proc();
	closed_directories();
	flags();
	section("mounting");
	SHOW(mount("none", "dir", 0, 1ul << 31, 0));
	SHOW(mount("none", "dir", "tmpfs", 0, 0));
	exit(0);
}

int main(void)
{
	memset(name, 'n', sizeof name - 1);
	memset(slashed, 'n', sizeof slashed - 2), slashed[sizeof slashed - 2] = '/';
	memset(path, 'p', sizeof path - 1);
	for (int i = 100; i < 4900; i += 100)
		path[i] = '/';
	write_file("file", "0123456789");
	write_file("closed-file", "");
	chmod("closed-file", 0);
	mkdir("dir", 0755);
	mkdir("closed", 0555);
	symlink("file", "link");
	symlink("dir", "link-to-dir");
	chmod("dir", 0777);
	chmod(".", 0777);
	proc = open("/proc/self", O_RDONLY | O_DIRECTORY);
	too_long();
	paths();
	in_proc();
	closed_directories();
	flags();
	propagation();
	section("without rights");
	unlink("socket");
	in_child("without rights", unprivileged);
	return 0;
}
