/* Calls on files and paths, each with each of its flags and commands, made directly: what the other programs do not make (docs/syscalls.md). */
#include "t.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#define TMPFILE 020200000
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)

/* The fields of struct statx that are looked at, at their places. */
struct fields {
	uint32_t mask, block;
	uint64_t attributes;
	uint32_t links, uid, gid;
	uint16_t mode, pad;
	uint64_t inode, size, blocks, known;
	int64_t accessed, accessed_part, born, rest[20];
};

static struct stat st;
static const char *size_and_mode(const char *path)
{
	static char text[64];
	if (lstat(path, &st) != 0)
		return "none";
	if (S_ISDIR(st.st_mode))
		st.st_size = 0; /* A matter of the file system. */
	snprintf(text, sizeof text, "%o %ld", st.st_mode, (long)st.st_size);
	return text;
}

static void opening(void)
{
	static const struct { int flag; const char *name; } flags[] = {
		{ O_RDONLY, "O_RDONLY" }, { O_WRONLY, "O_WRONLY" }, { O_RDWR, "O_RDWR" }, { O_CREAT, "O_CREAT" }, { O_CREAT | O_EXCL | O_RDWR, "O_EXCL" },
		{ O_NOCTTY, "O_NOCTTY" }, { O_WRONLY | O_TRUNC, "O_TRUNC" }, { O_WRONLY | O_APPEND, "O_APPEND" }, { O_NONBLOCK, "O_NONBLOCK" },
		{ O_WRONLY | O_DSYNC, "O_DSYNC" }, { O_WRONLY | O_SYNC, "O_SYNC" }, { 0100000, "O_LARGEFILE" }, { O_DIRECTORY, "O_DIRECTORY" },
		{ O_NOFOLLOW, "O_NOFOLLOW" }, { O_NOATIME, "O_NOATIME" }, { O_CLOEXEC, "O_CLOEXEC" }, { O_PATH, "O_PATH" }, { 3, "O_ACCMODE" },
	};
	section("open and openat, flag by flag");
	for (int at = 0; at < 2; at++)
		for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
			write_file("f", "hello");
			unlink("new");
			symlink("f", "link");
			const char *path = flags[i].flag & O_EXCL ? "new" : flags[i].flag == O_NOFOLLOW ? "link" : "f";
			long fd = at ? CALL(openat, AT_FDCWD, path, flags[i].flag, 0640) : CALL(open, path, flags[i].flag, 0640);
			int got = fd < 0 ? errno : 0;
			char byte;
			int can_read = fd >= 0 && read(fd, &byte, 1) == 1, can_write = fd >= 0 && write(fd, "x", 1) == 1;
			say("%s: %s, reads %d writes %d, flags %o, descriptor flags %d, f: %s", flags[i].name, error_name(got), can_read, can_write,
			    fd >= 0 ? fcntl(fd, F_GETFL) : 0, fd >= 0 ? fcntl(fd, F_GETFD) : 0, size_and_mode("f"));
			close(fd);
		}
	SHOW_OK(CALL(openat, AT_FDCWD, ".", O_DIRECTORY, 0));
	SHOW_OK(CALL(openat, AT_FDCWD, "f", O_NOFOLLOW, 0));
	int fd = CALL(openat, AT_FDCWD, ".", TMPFILE | O_RDWR, 0600);
	say("unnamed: writes %ld", (long)write(fd, "abc", 3));
	SHOW(CALL(linkat, fd, "", AT_FDCWD, "named", AT_EMPTY_PATH));
	say("named: %s", size_and_mode("named"));
	int pipe_ends[2];
	SHOW(CALL(pipe2, pipe_ends, O_NONBLOCK | O_CLOEXEC));
	char byte;
	SHOW(read(pipe_ends[0], &byte, 1));
	say("descriptor flags %d", fcntl(pipe_ends[1], F_GETFD));
	for (int i = 3; i < 20; i++)
		close(i);
}

static void names(void)
{
	section("calls at a directory");
	mkdir("d", 0755);
	int dir = open("d", O_RDONLY | O_DIRECTORY);
	SHOW(CALL(mkdirat, dir, "sub", 0711));
	SHOW(CALL(mknodat, dir, "regular", S_IFREG | 0640, 0));
	SHOW(CALL(mknodat, dir, "fifo", S_IFIFO | S_ISUID | S_ISGID | S_ISVTX | 0700, 0));
	SHOW(CALL(mknodat, dir, "socket", S_IFSOCK | 0600, 0));
	SHOW(CALL(mknodat, dir, "null", S_IFCHR | 0600, makedev(1, 3)));
	SHOW(CALL(mknodat, dir, "disk", S_IFBLK | 0600, makedev(7, 0)));
	SHOW(CALL(mknod, "disk", S_IFBLK | 0600, makedev(7, 0)));
	SHOW(CALL(mknod, "socket", S_IFSOCK | S_ISUID | S_ISGID | S_ISVTX | 0100, 0));
	static const char *const made[] = { "d/sub", "d/regular", "d/fifo", "d/socket", "d/null", "d/disk", "disk", "socket" };
	for (unsigned i = 0; i < sizeof made / sizeof *made; i++)
		say("%s: %s", made[i], size_and_mode(made[i])), say("device %x", (unsigned)st.st_rdev);
	SHOW(CALL(symlinkat, "regular", dir, "link"));
	char text[16] = "";
	SHOW(CALL(readlinkat, dir, "link", text, sizeof text));
	say("%.7s", text);
	SHOW(CALL(renameat, dir, "regular", dir, "renamed"));
	SHOW(CALL(symlinkat, "renamed", dir, "to"));
	SHOW(CALL(fchmodat, dir, "renamed", 0604));
	SHOW(CALL(fchmodat2, dir, "renamed", 0606, 0));
	SHOW(CALL(fchmodat2, dir, "to", 0606, AT_SYMLINK_NOFOLLOW));
	int file = open("d/renamed", O_RDWR);
	SHOW(CALL(fchmodat2, file, "", 0644, AT_EMPTY_PATH));
	say("%s", size_and_mode("d/renamed"));
	SHOW(CALL(fchmod, file, 0600));
	SHOW(CALL(fchownat, dir, "renamed", 1, 2, 0));
	SHOW(CALL(fchownat, dir, "to", 3, 4, AT_SYMLINK_NOFOLLOW));
	SHOW(CALL(fchown, file, 5, -1));
	say("%s", size_and_mode("d/renamed")), say("%u %u", st.st_uid, st.st_gid);
	SHOW(CALL(fchownat, file, "", 7, 8, AT_EMPTY_PATH));
	say("%s", size_and_mode("d/renamed")), say("%u %u", st.st_uid, st.st_gid);
	say("%s", size_and_mode("d/to")), say("%u %u", st.st_uid, st.st_gid);
	for (int mode = 0; mode < 8; mode++)
		say("faccessat %d: %ld, faccessat2: %ld", mode, CALL(faccessat, dir, "sub", mode), CALL(faccessat2, dir, "sub", mode, 0));
	SHOW(CALL(faccessat2, dir, "to", R_OK | W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW));
	SHOW(CALL(faccessat2, file, "", R_OK, AT_EMPTY_PATH));
	SHOW(CALL(newfstatat, dir, "to", &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT));
	say("%o", st.st_mode);
	SHOW(CALL(newfstatat, dir, "to", &st, AT_STATX_FORCE_SYNC));
	SHOW(CALL(newfstatat, dir, "to", &st, AT_STATX_DONT_SYNC));
	SHOW(CALL(newfstatat, dir, "to", &st, AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC));
	SHOW(CALL(newfstatat, dir, "to", &st, 0x8000));
	struct timeval times[2] = { { 1000, 5 }, { 2000, 6 } };
	SHOW(CALL(futimesat, dir, "renamed", times));
	size_and_mode("d/renamed");
	say("%ld %ld", (long)st.st_atime, (long)st.st_mtime);
	times[1].tv_sec = 3000;
	SHOW(CALL(utimes, "d/renamed", times));
	long pair[2] = { 77, 88 };
	size_and_mode("d/renamed");
	say("%ld %ld", (long)st.st_atime, (long)st.st_mtime);
	SHOW(CALL(utime, "d/renamed", pair));
	size_and_mode("d/renamed");
	say("%ld %ld", (long)st.st_atime, (long)st.st_mtime);
	struct timespec stamps[2] = { { 9, 9 }, { 10, 10 } };
	SHOW(CALL(utimensat, file, "", stamps, AT_EMPTY_PATH));
	size_and_mode("d/renamed");
	say("%ld %ld", (long)st.st_atime, (long)st.st_mtime);
	SHOW(CALL(unlinkat, dir, "sub", AT_REMOVEDIR));
	SHOW(CALL(fchdir, dir));
	say("%s", size_and_mode("renamed"));
	chdir("..");
	struct statfs fs;
	SHOW(CALL(fstatfs, file, &fs));
	say("block %ld, names %ld", (long)fs.f_bsize, (long)fs.f_namelen);
	section("statx");
	static const int how[] = { 0, AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT, AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC };
	for (unsigned i = 0; i < 5; i++) {
		struct fields x = { 0 };
		long got = CALL(statx, dir, "to", how[i], 0xfff, &x);
		say("%ld mode %o size %ld", got, x.mode, (long)x.size);
	}
	struct fields x = { 0 };
	SHOW(CALL(statx, file, "", AT_EMPTY_PATH, 0xfff | 0x1000, &x));
	CHECK(x.born > 0 && (x.mask & 0x800));
	CHECK((x.mask & 0x1000) != 0);
	for (int i = 3; i < 20; i++)
		close(i);
}

static void contents(void)
{
	section("contents");
	int fd = open("c", O_RDWR | O_CREAT | O_TRUNC, 0600), other = open("o", O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct iovec parts[2] = { { "abc", 3 }, { "defgh", 5 } };
	char a[4] = "", b[8] = "";
	struct iovec into[2] = { { a, 3 }, { b, 5 } };
	SHOW(CALL(writev, fd, parts, 2));
	lseek(fd, 0, SEEK_SET);
	SHOW(CALL(readv, fd, into, 2));
	say("%s %s", a, b);
	for (int flag = 0; flag < 8; flag++) {
		say("pwritev2 %d: %ld", flag, CALL(pwritev2, fd, parts, 2, 4L, 0L, flag));
		say("preadv2 %d: %ld %s %s", flag, CALL(preadv2, fd, into, 2, 0L, 0L, flag), a, b);
	}
	long from = 0, to = 100;
	SHOW(CALL(copy_file_range, fd, &from, other, &to, 5, 0));
	say("%ld %ld %s", from, to, size_and_mode("o"));
	for (int advice = 0; advice < 6; advice++)
		say("fadvise64 %d: %ld", advice, CALL(fadvise64, fd, 0, 0, advice));
	SHOW(CALL(readahead, fd, 0, 4096));
	SHOW(CALL(syncfs, fd));
	SHOW(CALL(sync));
	SHOW(CALL(fallocate, fd, 1, 0, 20000));
	say("%s", size_and_mode("c"));
	SHOW(CALL(fallocate, fd, 0, 0, 20000));
	SHOW(pwrite(fd, "tail", 4, 19990));
	SHOW(CALL(fallocate, fd, 1 | 2, 0, 19992));
	SHOW(pread(fd, b, 7, 19989));
	say("%d %d %d %d", b[0], b[1], b[2], b[3]);
	SHOW(CALL(lseek, fd, 0, SEEK_HOLE) == 0);
	SHOW(CALL(lseek, fd, 0, SEEK_DATA) > 0);
	section("locks");
	static const short kinds[] = { F_RDLCK, F_WRLCK, F_UNLCK };
	for (int command = F_SETLK; command <= F_SETLKW; command++)
		for (int kind = 0; kind < 3; kind++)
			for (int whence = 0; whence < 3; whence++) {
				struct flock lock = { .l_type = kinds[kind], .l_whence = whence, .l_start = whence == SEEK_END ? -3 : 2, .l_len = 2 };
				say("command %d kind %d whence %d: %ld", command, kind, whence, CALL(fcntl, fd, command, &lock));
			}
	for (int kind = 0; kind < 2; kind++)
		for (int whence = 0; whence < 3; whence++) {
			struct flock lock = { .l_type = kinds[kind], .l_whence = whence, .l_start = 0, .l_len = 2 };
			say("F_GETLK kind %d whence %d: %ld, then %d", kind, whence, CALL(fcntl, fd, F_GETLK, &lock), lock.l_type);
		}
	section("descriptors");
	static const int settable[] = { O_APPEND, O_NONBLOCK, O_NOATIME, O_SYNC, O_DSYNC, O_CREAT, O_EXCL, O_TRUNC, O_NOCTTY, O_CLOEXEC, O_WRONLY, 3, O_DIRECTORY, O_NOFOLLOW };
	for (unsigned i = 0; i < sizeof settable / sizeof *settable; i++) {
		long set = CALL(fcntl, fd, F_SETFL, settable[i]);
		say("F_SETFL %o: %ld, flags %o", settable[i], set, fcntl(fd, F_GETFL));
	}
	dup2(0, 50), dup2(0, 51);
	SHOW(CALL(close_range, 50, 51, 4));
	say("descriptor flags %d %d", fcntl(50, F_GETFD), fcntl(51, F_GETFD));
	SHOW(CALL(close_range, 50, 51, 0));
	SHOW(fcntl(50, F_GETFD));
	for (int i = 3; i < 20; i++)
		close(i);
}

static void waiting(void)
{
	section("poll and epoll");
	static const short events[] = { POLLIN, POLLPRI, POLLOUT, POLLRDNORM, POLLRDBAND, POLLWRNORM, POLLWRBAND, POLLRDHUP };
	int ends[2];
	SHOW(CALL(pipe, ends));
	write(ends[1], "x", 1);
	struct timespec none = { 0, 0 };
	int epoll = CALL(epoll_create, 5);
	for (unsigned i = 0; i < 8; i++)
		for (int end = 0; end < 2; end++) {
			struct pollfd one = { ends[end], events[i], 0 }, same = one;
			long got = CALL(poll, &one, 1, 0), got2 = CALL(ppoll, &same, 1, &none, 0, 8);
			struct epoll_event event = { events[i], { .u64 = 7 } }, out = { 0 };
			long added = CALL(epoll_ctl, epoll, EPOLL_CTL_ADD, ends[end], &event);
			long ready = CALL(epoll_wait, epoll, &out, 1, 0);
			say("%x end %d: poll %ld %x, ppoll %ld %x, epoll %ld %ld %x", events[i], end, got, one.revents, got2, same.revents, added, ready, out.events);
			CALL(epoll_ctl, epoll, EPOLL_CTL_DEL, ends[end], 0);
		}
	struct epoll_event event = { EPOLLIN | EPOLLWAKEUP | EPOLLEXCLUSIVE, { .u64 = 9 } }, out = { 0 };
	SHOW(CALL(epoll_ctl, epoll, EPOLL_CTL_ADD, ends[0], &event));
	SHOW(CALL(epoll_pwait2, epoll, &out, 1, &none, 0, 8));
	say("%x", out.events);
	SHOW_OK(CALL(eventfd, 3));
	int counter = CALL(eventfd2, 3, O_CLOEXEC | 1);
	uint64_t count = 0;
	SHOW(read(counter, &count, 8));
	say("%d, descriptor flags %d", (int)count, fcntl(counter, F_GETFD));
	section("splice");
	int more[2];
	pipe(more);
	for (int flag = 1; flag < 16; flag *= 2) {
		write(ends[1], "data", 4);
		struct iovec part = { "vm", 2 };
		say("tee %ld", CALL(tee, ends[0], more[1], 4, flag));
		say("splice %ld", CALL(splice, ends[0], 0, more[1], 0, 3, flag));
		say("vmsplice %ld", CALL(vmsplice, more[1], &part, 1, flag));
	}
	char text[128] = "";
	say("%ld", (long)read(more[0], text, sizeof text - 1)), say("%s", text);
	for (int i = 3; i < 20; i++)
		close(i);
}

static void mounts(void)
{
	section("mounts");
	static const struct { unsigned long flag; const char *name; } flags[] = {
		{ MS_RDONLY, "MS_RDONLY" }, { MS_NOSUID, "MS_NOSUID" }, { MS_NODEV, "MS_NODEV" }, { MS_NOEXEC, "MS_NOEXEC" },
		{ MS_SYNCHRONOUS, "MS_SYNCHRONOUS" }, { MS_NOATIME, "MS_NOATIME" }, { MS_NODIRATIME, "MS_NODIRATIME" }, { MS_SILENT, "MS_SILENT" },
		{ MS_RELATIME, "MS_RELATIME" }, { MS_STRICTATIME, "MS_STRICTATIME" }, { MS_LAZYTIME, "MS_LAZYTIME" },
	};
	mkdir("m", 0755), mkdir("n", 0755);
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
		long got = CALL(mount, "none", "m", "tmpfs", flags[i].flag, 0);
		int fd = open("m/file", O_CREAT | O_RDWR, 0700);
		say("%s: %ld, a file: %s", flags[i].name, got, error_name(fd < 0 ? errno : 0));
		close(fd);
		SHOW(CALL(umount2, "m", i == 1 ? 2 : i == 2 ? 8 : 0));
	}
	SHOW(mount("none", "m", "tmpfs", 0, 0));
	write_file("m/here", "here");
	SHOW(CALL(mount, "none", "m", 0, MS_REMOUNT | MS_RDONLY, 0));
	SHOW(open("m/x", O_CREAT | O_RDWR, 0600));
	SHOW(CALL(mount, "m", "n", 0, MS_BIND, 0));
	say("%s", size_and_mode("n/here"));
	SHOW(CALL(umount2, "n", 0));
	SHOW(CALL(mount, "m", "n", 0, MS_BIND | MS_REC, 0));
	SHOW(CALL(mount, 0, "n", 0, MS_PRIVATE, 0));
	SHOW(CALL(mount, 0, "n", 0, MS_SLAVE, 0));
	SHOW(CALL(mount, 0, "n", 0, MS_UNBINDABLE, 0));
	SHOW(CALL(umount2, "n", 0));
	SHOW(CALL(umount2, "m", 0));
	SHOW(CALL(umount2, "m", 0));
	SHOW(CALL(umount2, "m", 16));
}

int main(void)
{
	umask(022);
	opening();
	names();
	contents();
	waiting();
	mounts();
	return 0;
}
