/* Flags of calls on files and names: what each changes, and those that are missing. */
#include "t.h"
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)

static char buffer[8192] __attribute__((aligned(4096)));

static void opening(void)
{
	section("opening");
	int fd = SHOW(open("file", O_CREAT | O_RDWR | O_DIRECT, 0644) >= 0) ? open("file", O_RDWR | O_DIRECT) : -1;
	SHOW(fcntl(fd, F_GETFL) & O_DIRECT);
	/* Memory asks for no alignment. */
	SHOW(pwrite(fd, buffer + 1, 10, 3));
	SHOW(pread(fd, buffer + 5, 7, 1));
	SHOW(fcntl(fd, F_SETFL, 0));
	SHOW(fcntl(fd, F_GETFL) & O_DIRECT);
	SHOW(fcntl(fd, F_SETFL, O_DIRECT | O_PATH | O_TMPFILE));
	SHOW(fcntl(fd, F_GETFL) == (O_DIRECT | O_RDWR | 0100000));
	SHOW(CALL(openat, AT_FDCWD, "file", O_RDWR | O_DIRECT, 0) >= 0);
	int async = (int)CALL(openat, AT_FDCWD, "file", O_RDWR | O_ASYNC, 0);
	SHOW(fcntl(async, F_GETFL) & O_ASYNC);
	SHOW(open("/proc/self/status", O_RDONLY | O_DIRECT));
	SHOW(open("/dev/null", O_RDONLY | O_DIRECT));
	SHOW(open(".", O_RDONLY | O_DIRECT) >= 0);
	int proc = open("/proc/self/status", O_RDONLY), null = open("/dev/null", O_RDWR), dir = open(".", O_RDONLY);
	SHOW(fcntl(proc, F_SETFL, O_DIRECT));
	SHOW(fcntl(null, F_SETFL, O_DIRECT));
	SHOW(fcntl(dir, F_SETFL, O_DIRECT));
	int ends[2];
	SHOW(CALL(pipe2, ends, O_DIRECT));
	close(ends[0]), close(ends[1]);
	SHOW(CALL(pipe2, ends, 0200) == -1 && (errno == EINVAL || errno == ENOPKG));
	close(fd), close(async);
}

static void fallocating(void)
{
	section("fallocate");
	int fd = open("room", O_CREAT | O_RDWR, 0644);
	ftruncate(fd, 8192);
	static const struct { int mode; const char *name; } modes[] = {
		{ 16, "ZERO_RANGE" }, { 17, "ZERO_RANGE, size kept" }, { 8, "COLLAPSE_RANGE" }, { 32, "INSERT_RANGE" }, { 64, "UNSHARE_RANGE" }, { 65, "UNSHARE_RANGE, size kept" },
	};
	for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
		pwrite(fd, "text", 4, 0);
		errno = 0;
		long got = fallocate(fd, modes[i].mode, 0, 4096);
		pread(fd, buffer, 4, 0);
		say("%s: %ld %s, begins with %d, size %ld", modes[i].name, got, error_name(errno), buffer[0], (long)lseek(fd, 0, SEEK_END));
	}
	close(fd);
}

static void names(void)
{
	section("names");
	SHOW(CALL(mknodat, AT_FDCWD, "directory", S_IFDIR | 0755, 0));
	write_file("old", "old"), write_file("new", "new");
	int whiteout = (int)MISSING(CALL(renameat2, AT_FDCWD, "old", AT_FDCWD, "newest", 4), EINVAL);
	struct stat st;
	/* Where it is done the old name is a device without a number. */
	SHOW(stat("old", &st) == 0 && (whiteout == 0 ? S_ISCHR(st.st_mode) && st.st_rdev == 0 : S_ISREG(st.st_mode)));
	SHOW(CALL(renameat2, AT_FDCWD, "new", AT_FDCWD, "other", 4 | 2));
	SHOW(CALL(renameat2, AT_FDCWD, "new", AT_FDCWD, "other", 8));
	symlink("new", "link");
	SHOW(CALL(fchmodat2, AT_FDCWD, "new", 0640, AT_SYMLINK_NOFOLLOW));
	SHOW(CALL(fchmodat2, AT_FDCWD, "link", 0600, AT_SYMLINK_NOFOLLOW));
	lstat("link", &st);
	say("  link %#o", st.st_mode);
	SHOW(CALL(fchmodat2, AT_FDCWD, "link", 0604, 0));
	stat("new", &st);
	say("  file %#o", st.st_mode);
	SHOW(CALL(fchmodat2, AT_FDCWD, "new", 0604, 0x8000));
	MISSING(CALL(memfd_create, "huge", 4), ENOSYS);
}

static void statx_masks(void)
{
	section("statx");
	static const struct { unsigned mask; const char *name; } masks[] = {
		{ 0x2000, "DIOALIGN" }, { 0x4000, "MNT_ID_UNIQUE" }, { 0x8000, "SUBVOL" }, { 0x1000, "MNT_ID" }, { 0x5000, "both MNT_IDs" }, { 0x10000, "one of a later kernel" },
	};
	static const char *const paths[] = { "old", ".", "/proc", "/dev/null" };
	for (unsigned i = 0; i < sizeof masks / sizeof *masks; i++)
		for (unsigned p = 0; p < sizeof paths / sizeof *paths; p++) {
			uint32_t got[64] = { 0 };
			long result = CALL(statx, AT_FDCWD, paths[p], 0, masks[i].mask, got);
			say("%s %s: %ld, told %#x", paths[p], masks[i].name, result, got[0] & masks[i].mask);
		}
	uint32_t got[64];
	SHOW(CALL(statx, AT_FDCWD, "old", 0, 0x80000000u, got));
}

/* CLOSE_RANGE_UNSHARE: a table of its own first, so that who shared it keeps what is closed. */
static int shared_fd;
static int unshares(void *flags)
{
	return CALL(close_range, shared_fd, ~0u, (long)flags) == 0 ? fcntl(shared_fd, F_GETFD) == -1 ? 3 : fcntl(shared_fd, F_GETFD) : 4;
}

static void closing(void)
{
	section("close_range");
	static char stack[65536];
	for (long flags = 0; flags < 8; flags += 2) {
		shared_fd = dup2(open("file", O_RDONLY), 100);
		int high = dup2(shared_fd, 200);
		pid_t pid = clone(unshares, stack + sizeof stack, CLONE_FILES | CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)flags);
		say("flags %ld: %s", flags, status_text(wait_for(pid)));
		errno = 0;
		int here = fcntl(100, F_GETFD), there = fcntl(high, F_GETFD);
		say("  here %d and %d", here, there);
		close(100), close(200);
	}
	SHOW(CALL(close_range, 10, 9, 2));
	SHOW(CALL(close_range, 300, ~0u, 2));
	SHOW(CALL(close_range, 300, ~0u, 8));
}

static void missing(void)
{
	section("missing");
	int fd = open("file", O_RDWR), console = open("/dev/console", O_RDWR | O_NOCTTY);
	SHOW(ioctl(fd, TIOCCONS));
	MISSING(ioctl(console, TIOCCONS), EINVAL);
	close(console), close(fd);
	/* PR_SET_VMA: Debian's Linux does not have it either. */
	void *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(prctl(0x53564d41, 0, memory, 8192, "name"));
	SHOW(prctl(0x53564d41, 1, memory, 8192, "name"));
	munmap(memory, 8192);
}

/* Leases, on a file that nobody else has open. */
static void leases(void)
{
	section("leases");
	int fd = open("leased", O_CREAT | O_RDWR, 0644);
	SHOW(fcntl(fd, F_SETLEASE, F_WRLCK));
	SHOW(fcntl(fd, F_GETLEASE));
	SHOW(fcntl(fd, F_SETLEASE, F_UNLCK));
	SHOW(fcntl(fd, F_SETLEASE, 7));
	close(fd);
	fd = open("leased", O_RDONLY);
	SHOW(fcntl(fd, F_SETLEASE, F_RDLCK));
	close(fd);
}

/* On a file system in memory there is nothing to force. */
static void forcing(void)
{
	section("forced");
	mkdir("point", 0700);
	SHOW(mount("none", "point", "tmpfs", 0, NULL));
	int fd = open("point/file", O_CREAT | O_RDWR, 0644);
	SHOW(umount2("point", MNT_FORCE));
	close(fd);
	SHOW(umount2("point", MNT_FORCE | MNT_EXPIRE));
	MISSING(mount("none", "point", NULL, MS_SHARED, NULL), EINVAL);
	SHOW(umount2("point", MNT_FORCE));
	SHOW(umount2("point", MNT_FORCE));
	rmdir("point");
}

int main(void)
{
	umask(022);
	write_file("file", "0123456789");
	opening();
	fallocating();
	names();
	statx_masks();
	closing();
	missing();
	leases();
	forcing();
	return 0;
}
