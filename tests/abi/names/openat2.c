/* openat2: the structure and what it refuses, and how far a path may lead. */
#include "t.h"

#include <sys/mount.h>

struct how {
	uint64_t flags, mode, resolve, more[2];
};
enum { NO_XDEV = 1, NO_MAGICLINKS = 2, NO_SYMLINKS = 4, BENEATH = 8, IN_ROOT = 16, CACHED = 32 };

static int dir;

static long open2(int fd, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
	struct how how = { flags, mode, resolve, { 0, 0 } };
	long got = syscall(437, fd, path, &how, (size_t)24);
	if (got >= 0)
		close((int)got);
	return got >= 0 ? 0 : got;
}

static void structure(void)
{
	section("structure");
	struct how how = { O_RDONLY, 0, 0, { 0, 0 } };
	SHOW(syscall(437, AT_FDCWD, "f", &how, (size_t)0));
	SHOW(syscall(437, AT_FDCWD, "f", &how, (size_t)23));
	SHOW_OK(syscall(437, AT_FDCWD, "f", &how, (size_t)24));
	SHOW_OK(syscall(437, AT_FDCWD, "f", &how, sizeof how));
	SHOW(syscall(437, AT_FDCWD, "f", &how, (size_t)4097));
	SHOW(syscall(437, AT_FDCWD, "f", (void *)1, (size_t)24));
	SHOW(syscall(437, AT_FDCWD, (void *)1, &how, (size_t)24));
	how.more[1] = 1;
	SHOW(syscall(437, AT_FDCWD, "f", &how, sizeof how));
	SHOW_OK(syscall(437, AT_FDCWD, "f", &how, (size_t)32));
	SHOW(open2(AT_FDCWD, "", O_RDONLY, 0, 0));
	SHOW(open2(99, "f", O_RDONLY, 0, 0));
	SHOW(open2(AT_FDCWD, "f", 1ull << 40, 0, 0));
	SHOW(open2(AT_FDCWD, "f", 010, 0, 0));
	SHOW(open2(AT_FDCWD, "f", O_RDONLY, 0600, 0));
	SHOW(open2(AT_FDCWD, "new", O_CREAT | O_RDWR, 0600, 0));
	SHOW(open2(AT_FDCWD, "new", O_CREAT | O_RDWR, 010600, 0));
	SHOW(open2(AT_FDCWD, "new", O_CREAT | O_DIRECTORY, 0600, 0));
	SHOW(open2(AT_FDCWD, ".", O_TMPFILE | O_RDWR, 0600, 0));
	SHOW(open2(AT_FDCWD, ".", O_TMPFILE | O_RDONLY, 0600, 0));
	SHOW(open2(AT_FDCWD, "f", O_PATH, 0, 0));
	SHOW(open2(AT_FDCWD, "f", O_PATH | O_NONBLOCK, 0, 0));
	SHOW(open2(AT_FDCWD, "f", O_PATH | O_CLOEXEC | O_NOFOLLOW, 0, 0));
	SHOW(open2(AT_FDCWD, "f", O_RDONLY, 0, 64));
	SHOW(open2(AT_FDCWD, "f", O_RDONLY, 0, BENEATH | IN_ROOT));
	SHOW(open2(AT_FDCWD, "f", O_CREAT | O_RDWR, 0600, CACHED));
	SHOW(open2(AT_FDCWD, "f", O_RDWR | O_TRUNC, 0, CACHED));
	SHOW(open2(AT_FDCWD, "f", O_RDWR, 0, CACHED));
	how = (struct how){ O_RDWR | O_APPEND | O_CLOEXEC, 0, 0, { 0, 0 } };
	int fd = (int)syscall(437, AT_FDCWD, "f", &how, (size_t)24);
	SHOW(fcntl(fd, F_GETFD));
	SHOW(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND));
	close(fd);
}

static void walk(const char *name, uint64_t resolve)
{
	section(name);
	static const char *const paths[] = { "a", "a/b/c", "a/../a/b", "..", "a/../..", "a/../../d/a", "/", "/proc", "link", "far", "up", "down/c",
		"absolute", "a/b/up2/b", "proc", "point", "point/x", "point/..", "point/../a", "loop" };
	for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
		errno = 0;
		long got = open2(dir, paths[i], O_RDONLY, 0, resolve);
		say("%s: %ld %s", paths[i], got, error_name(errno));
	}
	SHOW(open2(dir, "link", O_PATH | O_NOFOLLOW, 0, resolve));
	SHOW(open2(dir, "link", O_RDONLY | O_NOFOLLOW, 0, resolve));
	SHOW(open2(dir, "link/", O_PATH | O_NOFOLLOW, 0, resolve));
	SHOW(open2(dir, "a/fresh", O_RDWR | O_CREAT | O_EXCL, 0600, resolve));
	SHOW(unlinkat(dir, "a/fresh", 0));
	SHOW(open2(dir, "../fresh", O_RDWR | O_CREAT | O_EXCL, 0600, resolve));
	SHOW(unlink("fresh"));
	SHOW(unlinkat(dir, "fresh", 0));
	SHOW(open2(dir, "outlink", O_RDWR | O_CREAT, 0600, resolve));
	SHOW(unlink("out"));
	SHOW(unlinkat(dir, "out", 0));
	SHOW(open2(dir, "point/new", O_RDWR | O_CREAT, 0600, resolve));
	SHOW(open2(dir, "../f", O_PATH, 0, resolve));
	SHOW(open2(dir, "a", O_TMPFILE | O_RDWR, 0600, resolve));
	SHOW(open2(AT_FDCWD, "d/a", O_RDONLY, 0, resolve));
	SHOW(open2(AT_FDCWD, "d/up", O_RDONLY, 0, resolve));
}

static void magic(void)
{
	section("links of /proc");
	int file = open("f", O_RDONLY), proc = open("/proc/self", O_RDONLY);
	char path[64];
	snprintf(path, sizeof path, "fd/%d", file);
	SHOW(open2(proc, path, O_RDONLY, 0, 0));
	SHOW(open2(proc, path, O_RDONLY, 0, NO_MAGICLINKS));
	SHOW(open2(proc, path, O_RDONLY, 0, NO_SYMLINKS));
	SHOW(open2(proc, path, O_RDONLY, 0, NO_XDEV));
	SHOW(open2(proc, path, O_RDONLY, 0, BENEATH));
	SHOW(open2(proc, path, O_RDONLY, 0, IN_ROOT));
	SHOW(open2(proc, path, O_PATH | O_NOFOLLOW, 0, NO_MAGICLINKS));
	SHOW(open2(proc, "cwd/f", O_RDONLY, 0, NO_MAGICLINKS));
	SHOW(open2(proc, "cwd/f", O_RDONLY, 0, BENEATH));
	SHOW(open2(AT_FDCWD, "/proc/self/stat", O_RDONLY, 0, NO_MAGICLINKS));
	SHOW(open2(AT_FDCWD, "/proc/self/stat", O_RDONLY, 0, NO_SYMLINKS));
	SHOW(open2(AT_FDCWD, "/proc/version", O_RDONLY, 0, NO_XDEV));
	SHOW(open2(AT_FDCWD, "/proc/version", O_RDONLY, 0, BENEATH));
	SHOW(open2(proc, "/version", O_RDONLY, 0, IN_ROOT));
	SHOW(open2(proc, "/stat", O_RDONLY, 0, IN_ROOT));
	SHOW(open2(file, "/stat", O_RDONLY, 0, IN_ROOT));
	SHOW(open2(99, "/stat", O_RDONLY, 0, IN_ROOT));
	SHOW(open2(99, "/proc/version", O_RDONLY, 0, 0));
	close(file), close(proc);
}

int main(void)
{
	write_file("f", "x");
	structure();
	mkdir("d", 0755), mkdir("d/a", 0755), mkdir("d/a/b", 0755), mkdir("d/d", 0755), mkdir("d/point", 0755);
	write_file("d/a/b/c", "c");
	symlink("a", "d/link"), symlink("../f", "d/far"), symlink("..", "d/up"), symlink("a/b", "d/down"), symlink("/a", "d/absolute");
	symlink("../..", "d/a/b/up2"), symlink("/proc/version", "d/proc"), symlink("loop", "d/loop"), symlink("../out", "d/outlink");
	SHOW(mount("t", "d/point", "tmpfs", 0, NULL));
	write_file("d/point/x", "x");
	dir = open("d", O_RDONLY | O_DIRECTORY);
	walk("free", 0);
	walk("one mount", NO_XDEV);
	walk("no magic", NO_MAGICLINKS);
	walk("no links", NO_SYMLINKS);
	walk("beneath", BENEATH);
	walk("in root", IN_ROOT);
	walk("beneath, one mount, no links", BENEATH | NO_XDEV | NO_SYMLINKS);
	section("cached");
	SHOW(open2(dir, "a/b/c", O_RDONLY, 0, CACHED | BENEATH));
	SHOW(open2(dir, "..", O_RDONLY, 0, CACHED | BENEATH));
	SHOW(open2(dir, "a/../..", O_RDONLY, 0, CACHED | BENEATH));
	SHOW(open2(dir, "far", O_RDONLY, 0, CACHED | BENEATH));
	SHOW(open2(dir, "/", O_RDONLY, 0, CACHED | BENEATH));
	magic();
	SHOW(umount("d/point"));
	return 0;
}
