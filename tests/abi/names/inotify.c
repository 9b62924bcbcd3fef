/* inotify: what is told of each operation, to the file and to its directory, in which order, byte for byte. */
#include "t.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <utime.h>

static int in;

static const char *bits(unsigned mask)
{
	static const char *const names[] = { "ACCESS", "MODIFY", "ATTRIB", "CLOSE_WRITE", "CLOSE_NOWRITE", "OPEN", "MOVED_FROM", "MOVED_TO",
		"CREATE", "DELETE", "DELETE_SELF", "MOVE_SELF", 0, "UNMOUNT", "Q_OVERFLOW", "IGNORED" };
	static char text[200];
	text[0] = 0;
	for (int i = 0; i < 16; i++)
		if (mask >> i & 1 && names[i])
			strcat(strcat(text, text[0] ? "|" : ""), names[i]), mask &= ~(1u << i);
	if (mask & IN_ISDIR)
		strcat(text, "|ISDIR"), mask &= ~IN_ISDIR;
	if (mask)
		sprintf(text + strlen(text), "|%#x", mask);
	return text;
}

/* Cookies become letters, in the order in which they are seen. */
static int letter(uint32_t cookie)
{
	static uint32_t seen[100];
	static int n;
	if (!cookie)
		return '-';
	for (int i = 0; i < n; i++)
		if (seen[i] == cookie)
			return 'a' + i % 26;
	seen[n % 100] = cookie;
	return 'a' + n++ % 26;
}

/* All that is there to read. */
static void told_by(int fd, const char *what)
{
	static char buffer[1 << 16] __attribute__((aligned(8)));
	say("%s:", what);
	for (;;) {
		ssize_t n = read(fd, buffer, sizeof buffer);
		if (n <= 0) {
			if (errno != EAGAIN)
				say("  read: %s", error_name(errno));
			return;
		}
		for (char *at = buffer; at < buffer + n;) {
			struct inotify_event *e = (void *)at;
			int clean = 1;
			for (unsigned i = e->len ? (unsigned)strlen(e->name) : 0; i < e->len; i++)
				clean &= !e->name[i];
			say("  %d %s %c %u%s%s%s", e->wd, bits(e->mask), letter(e->cookie), e->len, e->len ? " " : "", e->len ? e->name : "", clean ? "" : " (unclean)");
			at += sizeof *e + e->len;
		}
	}
}

static void told(const char *what)
{
	told_by(in, what);
}

#define TOLD(call) do { errno = 0; if ((long)(call) == -1) say("%s: %s", #call, error_name(errno)); told(#call); } while (0)

static void fresh(void)
{
	if (in > 0)
		close(in);
	in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
}

static void watch(const char *path, uint32_t mask)
{
	say("watch %s: %d %s", path, inotify_add_watch(in, path, mask), bits(mask & 0xffff));
}

static void arguments(void)
{
	section("arguments");
	write_file("f", "x");
	mkdir("d", 0755);
	symlink("f", "l");
	symlink("none", "dangling");
	SHOW_OK(syscall(SYS_inotify_init));
	SHOW(inotify_init1(1));
	SHOW_OK(inotify_init1(IN_NONBLOCK));
	SHOW_OK(inotify_init1(IN_CLOEXEC));
	int flags = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	SHOW(fcntl(flags, F_GETFL));
	SHOW(fcntl(flags, F_GETFD));
	close(flags);
	in = inotify_init1(IN_NONBLOCK);
	int f = open("f", O_RDWR), path = open("f", O_PATH);
	SHOW(inotify_add_watch(in, "f", 0));
	SHOW(inotify_add_watch(in, "f", 0x1000));
	SHOW(inotify_add_watch(in, "f", 0x08000000));
	SHOW(inotify_add_watch(in, "f", 0x00010000));
	SHOW(inotify_add_watch(-1, "f", 0));
	SHOW(inotify_add_watch(-1, "f", IN_OPEN));
	SHOW(inotify_add_watch(f, "f", IN_OPEN));
	SHOW(inotify_add_watch(path, "f", IN_OPEN));
	SHOW(inotify_add_watch(f, "f", IN_OPEN | IN_MASK_ADD | IN_MASK_CREATE));
	SHOW(inotify_add_watch(in, "f", IN_OPEN | IN_MASK_ADD | IN_MASK_CREATE));
	SHOW(inotify_add_watch(in, "none", IN_OPEN));
	SHOW(inotify_add_watch(in, "", IN_OPEN));
	SHOW(inotify_add_watch(in, "f/x", IN_OPEN));
	SHOW(inotify_add_watch(in, (char *)16, IN_OPEN));
	SHOW(inotify_add_watch(in, "f", IN_OPEN | IN_ONLYDIR));
	SHOW(inotify_add_watch(in, "l", IN_OPEN | IN_ONLYDIR));
	SHOW(inotify_add_watch(in, "dangling", IN_OPEN));
	SHOW(inotify_add_watch(in, "f", IN_UNMOUNT));
	SHOW(inotify_add_watch(in, "d", IN_ONLYDIR));
	SHOW(inotify_add_watch(in, "l", IN_OPEN));
	SHOW(inotify_add_watch(in, "l", IN_OPEN | IN_DONT_FOLLOW));
	SHOW(inotify_add_watch(in, "dangling", IN_OPEN | IN_DONT_FOLLOW));
	SHOW(inotify_add_watch(in, "f", IN_OPEN | IN_MASK_CREATE));
	SHOW(inotify_add_watch(in, ".", IN_DELETE_SELF | IN_MASK_CREATE));
	SHOW(inotify_add_watch(in, "f", IN_Q_OVERFLOW | IN_IGNORED | IN_ISDIR));
	SHOW(inotify_rm_watch(in, 99));
	SHOW(inotify_rm_watch(in, 0));
	SHOW(inotify_rm_watch(in, -1));
	SHOW(inotify_rm_watch(-1, 1));
	SHOW(inotify_rm_watch(f, 1));
	SHOW(inotify_rm_watch(path, 1));
	told("nothing so far");
	SHOW(inotify_rm_watch(in, 1));
	SHOW(inotify_rm_watch(in, 1));
	told("rm_watch");
	SHOW(inotify_add_watch(in, "f", IN_OPEN));
	close(f), close(path);
	char link[64] = { 0 }, name[64];
	snprintf(name, sizeof name, "/proc/self/fd/%d", in);
	SHOW(readlink(name, link, sizeof link - 1));
	say("%s", link);
	struct stat st;
	fstat(in, &st);
	say("mode %o, size %ld, links %ld", st.st_mode, (long)st.st_size, (long)st.st_nlink);
	char byte;
	SHOW(write(in, "x", 1));
	SHOW(lseek(in, 0, SEEK_SET));
	SHOW(pread(in, &byte, 1, 0));
	SHOW(ftruncate(in, 0));
	SHOW_PTR(mmap(0, 4096, PROT_READ, MAP_SHARED, in, 0));
	int ends[2];
	pipe(ends);
	SHOW(splice(in, 0, ends[1], 0, 100, 0));
	SHOW(fsync(in));
	SHOW(ioctl(in, 0x1234, 0));
	close(ends[0]), close(ends[1]);
	unlink("f"), rmdir("d"), unlink("l"), unlink("dangling");
}

static void reading(void)
{
	section("reading");
	fresh();
	char buffer[4096], longname[256];
	memset(longname, 'n', 255), longname[255] = 0;
	mkdir("d", 0755);
	watch("d", IN_CREATE);
	SHOW(read(in, buffer, 0));
	SHOW(read(in, buffer, sizeof buffer));
	int bytes = -1;
	SHOW(ioctl(in, FIONREAD, &bytes));
	say("%d bytes", bytes);
	chdir("d");
	const char *names[] = { "1", "fifteenletters1", "sixteenletters16", longname };
	for (int i = 0; i < 4; i++)
		close(creat(names[i], 0644));
	SHOW(ioctl(in, FIONREAD, &bytes));
	say("%d bytes", bytes);
	SHOW(ioctl(in, FIONREAD, (void *)16));
	SHOW(read(in, buffer, 0));
	SHOW(read(in, buffer, 15));
	SHOW(read(in, buffer, 16));
	SHOW(read(in, buffer, 31));
	SHOW(read(in, buffer, 32));
	SHOW(read(in, buffer, 32 + 47));
	SHOW(read(in, buffer, 48));
	SHOW(read(in, buffer, 271));
	SHOW(read(in, (char *)16, 272));
	SHOW(read(in, buffer, 4096));
	for (int i = 0; i < 4; i++)
		unlink(names[i]);
	close(creat("a", 0644)), close(creat("b", 0644)), close(creat("c", 0644));
	struct iovec two[2] = { { buffer, 40 }, { buffer + 100, 100 } };
	SHOW(readv(in, two, 2));
	two[0].iov_len = 32, two[1].iov_len = 16;
	SHOW(readv(in, two, 2));
	SHOW(readv(in, two, 2));
	SHOW(readv(in, two, 2));
	close(creat("e", 0644)), close(creat("f", 0644)), close(creat("g", 0644));
	two[1].iov_len = 64;
	SHOW(readv(in, two, 2));
	close(creat("h", 0644));
	two[0].iov_base = (char *)16;
	SHOW(read(in, (char *)16, 4096));
	SHOW(syscall(SYS_preadv2, in, two, 2, -1L, -1L, 8));
	SHOW(syscall(SYS_preadv2, in, two, 2, -1L, -1L, 1));
	SHOW(preadv(in, two, 2, 0));
	told("the rest");
	for (const char *n = "abcefgh"; *n; n++)
		unlink((char[]){ *n, 0 });
	chdir("..");
	rmdir("d");
}

static void waiter(int signal)
{
	(void)signal;
	say("signal");
}

static void waiting(void)
{
	section("waiting");
	fresh();
	mkdir("d", 0755);
	watch("d", IN_CREATE | IN_DELETE);
	struct pollfd p = { in, POLLIN | POLLOUT | POLLPRI | POLLRDNORM | POLLRDBAND, 0 };
	SHOW(poll(&p, 1, 0));
	int ep = epoll_create1(0);
	struct epoll_event ev = { EPOLLIN, { .u32 = 7 } };
	SHOW(epoll_ctl(ep, EPOLL_CTL_ADD, in, &ev));
	SHOW(epoll_wait(ep, &ev, 1, 0));
	mkdir("d/a", 0755);
	SHOW(poll(&p, 1, 0));
	say("revents %#x", p.revents);
	SHOW(epoll_wait(ep, &ev, 1, 0));
	say("events %#x, data %u", ev.events, ev.data.u32);
	told("mkdir");
	SHOW(epoll_wait(ep, &ev, 1, 0));
	signal(SIGIO, waiter);
	SHOW(fcntl(in, F_SETOWN, getpid()));
	SHOW(fcntl(in, F_SETFL, O_ASYNC | O_NONBLOCK));
	rmdir("d/a");
	SHOW(fcntl(in, F_SETFL, O_NONBLOCK));
	told("rmdir");
	/* Blocking. */
	SHOW(fcntl(in, F_SETFL, 0));
	pid_t child = must_fork();
	if (!child) {
		nap(100);
		mkdir("d/b", 0755);
		_exit(0);
	}
	char buffer[400] __attribute__((aligned(8)));
	SHOW(read(in, buffer, 4));
	SHOW(read(in, buffer, sizeof buffer));
	wait_for(child);
	child = must_fork();
	if (!child) {
		nap(100);
		rmdir("d/b");
		_exit(0);
	}
	SHOW(poll(&p, 1, 5000));
	SHOW(read(in, buffer, sizeof buffer));
	wait_for(child);
	struct sigaction act = { .sa_handler = waiter };
	sigaction(SIGALRM, &act, 0);
	struct itimerval soon = { { 0, 0 }, { 0, 50000 } };
	setitimer(ITIMER_REAL, &soon, 0);
	SHOW(read(in, buffer, sizeof buffer));
	close(ep);
	rmdir("d");
}

/* A file in a watched directory, both watched. */
static void contents(void)
{
	section("contents");
	fresh();
	mkdir("d", 0755);
	write_file("d/f", "0123456789");
	write_file("g", "0123456789");
	watch("d", IN_ALL_EVENTS);
	watch("d/f", IN_ALL_EVENTS);
	char b[64];
	int fd, other = open("g", O_RDWR), ends[2];
	pipe(ends);
	TOLD(fd = open("d/f", O_RDWR));
	TOLD(read(fd, b, 4));
	TOLD(read(fd, b, 0));
	TOLD(read(fd, b, 60));
	TOLD(read(fd, b, 60));
	TOLD(pread(fd, b, 4, 0));
	TOLD(pread(fd, b, 4, 100));
	struct iovec v[2] = { { b, 2 }, { b + 2, 2 } };
	TOLD(readv(fd, v, 2));
	TOLD(preadv(fd, v, 2, 0));
	TOLD(readv(fd, v, 0));
	TOLD(write(fd, "x", 1));
	TOLD(write(fd, "x", 0));
	TOLD(pwrite(fd, "x", 1, 3));
	TOLD(writev(fd, v, 2));
	TOLD(writev(fd, v, 0));
	TOLD(pwritev(fd, v, 2, 0));
	TOLD(write(fd, (char *)16, 1));
	TOLD(lseek(fd, 0, SEEK_SET));
	TOLD(ftruncate(fd, 5));
	TOLD(ftruncate(fd, 5));
	TOLD(truncate("d/f", 20));
	TOLD(fallocate(fd, 0, 0, 30));
	TOLD(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 30));
	TOLD(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 10));
	TOLD(fsync(fd));
	off_t zero = 0;
	TOLD(sendfile(other, fd, &zero, 5));
	TOLD(sendfile(fd, other, &zero, 1));
	zero = 0;
	TOLD(copy_file_range(fd, &zero, other, 0, 5, 0));
	zero = 0;
	TOLD(copy_file_range(other, &zero, fd, 0, 5, 0));
	zero = 0;
	TOLD(splice(fd, &zero, ends[1], 0, 5, 0));
	zero = 0;
	TOLD(splice(ends[0], 0, fd, &zero, 5, 0));
	char *map;
	TOLD((map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED ? -1 : 0);
	TOLD((map[0] = 'y', 0));
	TOLD(msync(map, 4096, MS_SYNC));
	TOLD(munmap(map, 4096));
	TOLD(flock(fd, 2));
	int twice;
	TOLD(twice = dup(fd));
	TOLD(close(fd));
	TOLD(close(twice));
	TOLD(fd = open("d/f", O_RDONLY));
	TOLD(close(fd));
	TOLD(fd = open("d/f", O_WRONLY | O_TRUNC));
	TOLD(close(fd));
	TOLD(fd = open("d/f", O_RDONLY | O_TRUNC));
	TOLD(close(fd));
	TOLD(fd = open("d/f", O_RDWR | O_CREAT, 0644));
	TOLD(close(fd));
	TOLD(fd = creat("d/f", 0644));
	TOLD(close(fd));
	TOLD(fd = open("d/f", O_RDWR | O_CREAT | O_EXCL, 0644));
	TOLD(fd = open("d/f", O_PATH));
	TOLD(close(fd));
	TOLD(fd = open("d/f", O_RDONLY | O_DIRECTORY));
	TOLD(fd = open("d", O_RDONLY));
	char names[1024];
	TOLD(syscall(SYS_getdents64, fd, names, sizeof names));
	TOLD(syscall(SYS_getdents64, fd, names, sizeof names));
	TOLD(syscall(SYS_getdents64, fd, names, 2));
	TOLD(close(fd));
	struct stat st;
	TOLD(stat("d/f", &st));
	TOLD(access("d/f", R_OK));
	close(other), close(ends[0]), close(ends[1]);
	TOLD(unlink("d/f"));
	TOLD(rmdir("d"));
	unlink("g");
}

static void attributes(void)
{
	section("attributes");
	fresh();
	mkdir("d", 0755);
	write_file("d/f", "0123456789");
	mkdir("d/s", 0755);
	watch("d", IN_ALL_EVENTS);
	watch("d/f", IN_ALL_EVENTS);
	watch("d/s", IN_ALL_EVENTS);
	TOLD(chmod("d/f", 0600));
	TOLD(chmod("d/f", 0600));
	TOLD(chmod("d/s", 0700));
	TOLD(chmod("d", 0700));
	TOLD(chown("d/f", 5, 5));
	TOLD(chown("d/f", -1, 6));
	TOLD(chown("d/f", -1, -1));
	TOLD(lchown("d/s", 5, -1));
	chmod("d/f", 06755), told("chmod 6755");
	TOLD(chown("d/f", -1, -1));
	struct timespec both[2] = { { 5, 6 }, { 7, 8 } }, first[2] = { { 5, 6 }, { 0, UTIME_OMIT } }, second[2] = { { 0, UTIME_OMIT }, { 7, 8 } },
		none[2] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } }, now[2] = { { 0, UTIME_NOW }, { 0, UTIME_OMIT } };
	TOLD(utimensat(AT_FDCWD, "d/f", both, 0));
	TOLD(utimensat(AT_FDCWD, "d/f", first, 0));
	TOLD(utimensat(AT_FDCWD, "d/f", second, 0));
	TOLD(utimensat(AT_FDCWD, "d/f", none, 0));
	TOLD(utimensat(AT_FDCWD, "d/f", now, 0));
	TOLD(utimensat(AT_FDCWD, "d/f", 0, 0));
	TOLD(utimensat(AT_FDCWD, "d/s", 0, 0));
	TOLD(utime("d/f", 0));
	TOLD(utimes("d/f", 0));
	TOLD(setxattr("d/f", "user.a", "x", 1, 0));
	TOLD(setxattr("d/f", "user.a", "x", 1, 0));
	TOLD(setxattr("d/f", "user.a", "x", 1, XATTR_CREATE));
	TOLD(getxattr("d/f", "user.a", both, sizeof both));
	TOLD(removexattr("d/f", "user.a"));
	TOLD(removexattr("d/f", "user.a"));
	int fd = open("d/f", O_RDWR);
	told("open");
	TOLD(fchmod(fd, 0644));
	TOLD(fchown(fd, 0, 0));
	TOLD(futimens(fd, both));
	TOLD(fsetxattr(fd, "user.b", "x", 1, 0));
	TOLD(fremovexattr(fd, "user.b"));
	chmod("d/f", 06755), told("chmod 6755");
	TOLD(ftruncate(fd, 3));
	close(fd);
	told("close");
	unlink("d/f"), rmdir("d/s"), rmdir("d");
	told("all gone");
}

/* Set-id bits go by writes of who is not root. */
static void ordinary(void)
{
	section("ordinary");
	fresh();
	mkdir("d", 0777), chmod("d", 0777);
	write_file("d/f", "x");
	chmod("d/f", 06777);
	watch("d", IN_ALL_EVENTS);
	watch("d/f", IN_ALL_EVENTS);
	if (!must_fork()) {
		if (setgid(1000) || setuid(1000))
			_exit(1);
		int fd = open("d/f", O_RDWR);
		told("open");
		TOLD(write(fd, "y", 1));
		TOLD(write(fd, "y", 1));
		_exit(0);
	}
	wait(0);
	told("exit");
	chmod("d/f", 06777), told("chmod");
	if (!must_fork()) {
		if (setgid(1000) || setuid(1000))
			_exit(1);
		TOLD(truncate("d/f", 1));
		_exit(0);
	}
	wait(0);
	chmod("d/f", 06777), told("chmod");
	if (!must_fork()) {
		if (setgid(1000) || setuid(1000))
			_exit(1);
		int fd;
		TOLD(fd = open("d/f", O_WRONLY | O_TRUNC));
		_exit(0);
	}
	wait(0);
	told("exit");
	unlink("d/f"), rmdir("d");
	/* What may not be read is not watched. */
	write_file("secret", "x");
	chmod("secret", 0300);
	if (!must_fork()) {
		if (setgid(1000) || setuid(1000))
			_exit(1);
		SHOW(inotify_add_watch(in, "secret", IN_OPEN));
		_exit(0);
	}
	wait(0);
	unlink("secret");
}

static void names(void)
{
	section("names");
	fresh();
	mkdir("d", 0755), mkdir("e", 0755);
	watch("d", IN_ALL_EVENTS);
	watch("e", IN_ALL_EVENTS);
	int fd;
	TOLD(fd = open("d/new", O_RDWR | O_CREAT, 0644));
	TOLD(close(fd));
	TOLD(mkdir("d/s", 0755));
	TOLD(mkdir("d/s", 0755));
	TOLD(symlink("new", "d/link"));
	TOLD(mknod("d/fifo", S_IFIFO | 0644, 0));
	TOLD(mknod("d/node", S_IFREG | 0644, 0));
	struct sockaddr_un name = { AF_UNIX, "d/socket" };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	TOLD(bind(s, (void *)&name, sizeof name));
	TOLD(close(s));
	TOLD(open("d/link", O_RDONLY | O_NOFOLLOW));
	TOLD(fd = open("d/link", O_RDONLY));
	TOLD(close(fd));
	watch("d/new", IN_ALL_EVENTS);
	watch("d/s", IN_ALL_EVENTS);
	TOLD(link("d/new", "d/two"));
	TOLD(link("d/new", "d/two"));
	TOLD(link("d/new", "e/three"));
	TOLD(fd = open("e/three", O_RDONLY));
	TOLD(close(fd));
	TOLD(chmod("d/two", 0600));
	TOLD(rename("d/two", "d/four"));
	TOLD(rename("d/four", "d/new"));
	TOLD(rename("d/new", "e/new"));
	TOLD(rename("e/new", "d/new"));
	TOLD(rename("d/s", "e/s"));
	TOLD(fd = open("e/s", O_RDONLY | O_DIRECTORY));
	TOLD(close(fd));
	TOLD(rename("e/s", "d/s"));
	TOLD(rename("d/none", "d/s"));
	write_file("d/other", "x"), told("write_file");
	TOLD(syscall(SYS_renameat2, AT_FDCWD, "d/other", AT_FDCWD, "d/new", 1));
	TOLD(syscall(SYS_renameat2, AT_FDCWD, "d/other", AT_FDCWD, "d/new", 2));
	TOLD(syscall(SYS_renameat2, AT_FDCWD, "d/other", AT_FDCWD, "e/three", 2));
	TOLD(syscall(SYS_renameat2, AT_FDCWD, "d/s", AT_FDCWD, "e/three", 2));
	TOLD(syscall(SYS_renameat2, AT_FDCWD, "d/s", AT_FDCWD, "e/three", 2));
	TOLD(unlink("d/four"));
	TOLD(unlink("d/link"));
	TOLD(unlink("d/fifo"));
	TOLD(unlink("d/node"));
	TOLD(unlink("d/socket"));
	TOLD(unlink("d/s"));
	TOLD(rmdir("d/s"));
	TOLD(rmdir("d/s"));
	TOLD(unlink("d/new"));
	TOLD(unlink("d/other"));
	TOLD(unlink("e/three"));
	TOLD(rmdir("d"));
	TOLD(rmdir("e"));
}

/* What is replaced, and files that stay open. */
static void ends(void)
{
	section("ends");
	fresh();
	mkdir("d", 0755);
	write_file("d/a", "x"), write_file("d/b", "y"), write_file("d/c", "z");
	mkdir("d/p", 0755), mkdir("d/q", 0755);
	watch("d", IN_ALL_EVENTS);
	watch("d/a", IN_ALL_EVENTS);
	watch("d/b", IN_ALL_EVENTS);
	watch("d/p", IN_ALL_EVENTS);
	watch("d/q", IN_ALL_EVENTS);
	TOLD(rename("d/a", "d/b"));
	TOLD(rename("d/p", "d/q"));
	watch("d/c", IN_ALL_EVENTS);
	int fd = open("d/c", O_RDWR), again = open("d/c", O_RDONLY);
	told("open twice");
	TOLD(unlink("d/c"));
	TOLD(write(fd, "1", 1));
	TOLD(fchmod(fd, 0600));
	TOLD(ftruncate(fd, 0));
	TOLD(close(again));
	TOLD(close(fd));
	/* Replaced while it is open. */
	write_file("d/c", "z"), told("write_file");
	watch("d/c", IN_ALL_EVENTS);
	fd = open("d/c", O_RDWR);
	told("open");
	TOLD(rename("d/b", "d/c"));
	TOLD(close(fd));
	/* A directory in which somebody stands. */
	int up = open(".", O_RDONLY);
	TOLD(fd = open("d/q", O_RDONLY | O_DIRECTORY));
	TOLD(rmdir("d/q"));
	TOLD(close(fd));
	close(up);
	/* One of several names. */
	watch("d/c", IN_ALL_EVENTS);
	TOLD(link("d/c", "d/c2"));
	TOLD(unlink("d/c"));
	fd = open("d/c2", O_RDONLY);
	told("open");
	TOLD(unlink("d/c2"));
	TOLD(close(fd));
	/* A watch that leaves out what has no name. */
	write_file("d/x", "z"), write_file("d/y", "z"), told("write_file");
	SHOW(inotify_add_watch(in, "d", IN_ALL_EVENTS | IN_EXCL_UNLINK));
	watch("d/y", IN_ALL_EVENTS | IN_EXCL_UNLINK);
	fd = open("d/x", O_RDWR), again = open("d/y", O_RDWR);
	told("open");
	unlink("d/x"), unlink("d/y");
	told("unlink");
	TOLD(write(fd, "1", 1));
	TOLD(write(again, "1", 1));
	TOLD(fchmod(fd, 0600));
	TOLD(fchmod(again, 0600));
	TOLD(ftruncate(fd, 0));
	TOLD(close(fd));
	TOLD(close(again));
	/* One that never had a name, and gets one. */
	SHOW(inotify_add_watch(in, "d", IN_CREATE | IN_DELETE | IN_MOVE));
	fd = open("d", O_TMPFILE | O_RDWR, 0644);
	told("O_TMPFILE");
	char name[64];
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	TOLD(linkat(AT_FDCWD, name, AT_FDCWD, "d/named", AT_SYMLINK_FOLLOW));
	close(fd);
	unlink("d/named"), rmdir("d");
	told("all gone");
}

static void asked(void)
{
	section("asked");
	fresh();
	mkdir("d", 0755);
	write_file("d/f", "x");
	watch("d/f", IN_OPEN);
	int fd = open("d/f", O_RDONLY);
	close(fd);
	told("IN_OPEN");
	SHOW(inotify_add_watch(in, "d/f", IN_CLOSE | IN_MASK_ADD));
	close(open("d/f", O_RDONLY));
	told("IN_CLOSE added");
	SHOW(inotify_add_watch(in, "d/f", IN_CLOSE));
	close(open("d/f", O_RDONLY));
	told("IN_CLOSE alone");
	close(open("d/f", O_RDONLY)), close(open("d/f", O_RDONLY));
	told("the same twice");
	/* One event. */
	SHOW(inotify_add_watch(in, "d/f", IN_OPEN | IN_CLOSE | IN_ONESHOT));
	close(open("d/f", O_RDONLY));
	told("IN_ONESHOT");
	SHOW(inotify_add_watch(in, "d", IN_CREATE | IN_ONESHOT));
	mkdir("d/s", 0755), rmdir("d/s");
	told("IN_ONESHOT of a directory");
	SHOW(inotify_add_watch(in, "d", IN_ALL_EVENTS | IN_ONESHOT | IN_MASK_ADD));
	SHOW(inotify_add_watch(in, "d", IN_ALL_EVENTS));
	close(open("d/f", O_RDONLY));
	told("no longer IN_ONESHOT");
	/* Two instances. */
	int other = inotify_init1(IN_NONBLOCK);
	SHOW(inotify_add_watch(other, "d/f", IN_OPEN));
	SHOW(inotify_add_watch(other, "d", IN_OPEN));
	close(open("d/f", O_RDONLY));
	told("one");
	told_by(other, "another");
	close(other);
	close(open("d/f", O_RDONLY));
	told("one alone");
	/* A copy of the descriptor keeps it. */
	int copy = dup(in);
	close(in);
	in = copy;
	close(open("d/f", O_RDONLY));
	told("by the copy");
	/* Numbers. */
	SHOW(ioctl(in, 0x40044900, 100));
	write_file("d/g", "x");
	watch("d/g", IN_OPEN);
	SHOW(ioctl(in, 0x40044900, 0));
	SHOW(ioctl(in, 0x40044900, -1));
	SHOW(ioctl(in, 0x40044900, 0x80000000u));
	SHOW(ioctl(in, 0x40044900, 0x7fffffff));
	write_file("d/h", "x"), write_file("d/i", "x");
	watch("d/h", IN_OPEN);
	watch("d/i", IN_OPEN);
	SHOW(inotify_rm_watch(in, 0x7fffffff));
	told("numbers");
	unlink("d/f"), unlink("d/g"), unlink("d/h"), unlink("d/i"), rmdir("d");
}

static void number_is(const char *path, int fd)
{
	char name[64], *all;
	snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
	all = read_file(name);
	struct stat st;
	stat(path, &st);
	for (char *line = strtok(all, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned wd, dev, mask, ignored, bytes, type;
		unsigned long ino;
		int at = 0;
		if (sscanf(line, "inotify wd:%x ino:%lx sdev:%x mask:%x ignored_mask:%x fhandle-bytes:%x fhandle-type:%x f_handle:%n", &wd, &ino, &dev, &mask,
			   &ignored, &bytes, &type, &at) == 7)
			say("wd %x ino %s dev %s mask %x ignored %x, %x bytes of type %x: %zu digits", wd, ino == st.st_ino ? "of the file" : "another",
			    dev == (unsigned)st.st_dev ? "of the file" : "another", mask, ignored, bytes, type, strlen(line + at));
		else if (strncmp(line, "ino:", 4) && strncmp(line, "mnt_id:", 7))
			say("%s", line);
	}
	free(all);
}

static void told_in_proc(void)
{
	section("fdinfo");
	fresh();
	mkdir("d", 0755);
	write_file("d/f", "x");
	number_is("d/f", in);
	SHOW(inotify_add_watch(in, "d", IN_ALL_EVENTS | IN_ONLYDIR | IN_EXCL_UNLINK));
	SHOW(inotify_add_watch(in, "d/f", IN_OPEN | IN_ONESHOT | IN_UNMOUNT));
	number_is("d/f", in);
	unlink("d/f"), rmdir("d");
}

static void mounts(void)
{
	section("mounts");
	fresh();
	mkdir("d", 0755);
	mkdir("d/m", 0755);
	watch("d", IN_ALL_EVENTS);
	watch("d/m", IN_ALL_EVENTS);
	TOLD(mount("none", "d/m", "tmpfs", 0, ""));
	watch("d/m", IN_ALL_EVENTS);
	int fd;
	TOLD(fd = creat("d/m/f", 0644));
	TOLD(close(fd));
	mkdir("d/m/s", 0755), told("mkdir");
	watch("d/m/f", IN_OPEN);
	watch("d/m/s", IN_OPEN);
	TOLD(fd = open("d/m", O_RDONLY));
	TOLD(umount("d/m"));
	TOLD(close(fd));
	TOLD(umount("d/m"));
	TOLD(mount("none", "d/m", "tmpfs", 0, ""));
	watch("d/m", IN_ALL_EVENTS);
	mkdir("b", 0755);
	SHOW(mount("d/m", "b", 0, MS_BIND, 0));
	TOLD(umount("d/m"));
	TOLD(mkdir("b/x", 0755));
	TOLD(umount("b"));
	rmdir("b"), rmdir("d/m"), rmdir("d");
	told("all gone");
}

static void executes(void)
{
	section("exec");
	fresh();
	mkdir("d", 0755);
	int from = open("/proc/self/exe", O_RDONLY), to = open("d/prog", O_WRONLY | O_CREAT, 0755);
	while (sendfile(to, from, 0, 1 << 20) > 0)
		;
	close(from), close(to);
	write_file("d/script", "#!d/prog nothing\n");
	chmod("d/script", 0755);
	watch("d", IN_ALL_EVENTS);
	watch("d/prog", IN_ALL_EVENTS);
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		pid_t child = must_fork();
		if (!child) {
			execl("d/prog", "prog", "nothing", NULL);
			_exit(9);
		}
		say("%s", status_text(wait_for(child)));
		told("exec");
	}
	pid_t child = must_fork();
	if (!child) {
		execl("d/script", "script", NULL);
		_exit(9);
	}
	say("%s", status_text(wait_for(child)));
	told("script");
	unlink("d/prog"), unlink("d/script"), rmdir("d");
}

static long setting(const char *name, long to)
{
	char path[64], text[32];
	snprintf(path, sizeof path, "/proc/sys/fs/inotify/%s", name);
	char *all = read_file(path);
	long old = all ? atol(all) : -1;
	free(all);
	if (to >= 0) {
		snprintf(text, sizeof text, "%ld", to);
		int fd = open(path, O_WRONLY);
		if (write(fd, text, strlen(text)) < 0)
			say("%s to %ld: %s", name, to, error_name(errno));
		close(fd);
	}
	return old;
}

static void limits(void)
{
	section("limits");
	long events = setting("max_queued_events", 4), instances = setting("max_user_instances", -1), watches = setting("max_user_watches", -1);
	say("events %ld, instances %ld, watches %d", events, instances, watches >= 8192);
	int before = inotify_init1(IN_NONBLOCK);
	setting("max_queued_events", 3);
	fresh();
	mkdir("d", 0755);
	watch("d", IN_CREATE | IN_DELETE);
	SHOW(inotify_add_watch(before, "d", IN_CREATE | IN_DELETE));
	for (int i = 0; i < 3; i++)
		mkdir("d/s", 0755), rmdir("d/s");
	int bytes;
	ioctl(in, FIONREAD, &bytes);
	say("%d bytes", bytes);
	told("three");
	told_by(before, "four");
	mkdir("d/s", 0755), rmdir("d/s");
	told("room again");
	for (int i = 0; i < 3; i++)
		mkdir("d/s", 0755), rmdir("d/s");
	SHOW(inotify_rm_watch(in, 1));
	told("no room for IGNORED");
	close(before);
	setting("max_queued_events", 0);
	fresh();
	watch("d", IN_CREATE | IN_DELETE);
	mkdir("d/s", 0755);
	told("none");
	rmdir("d/s");
	setting("max_queued_events", events);
	if (!must_fork()) {
		setuid(1234);
		int n = 0;
		while (inotify_init1(IN_CLOEXEC) >= 0)
			n++;
		say("%d instances, %s", n, error_name(errno));
		close(3 + 1 + 3);
		SHOW_OK(inotify_init());
		_exit(0);
	}
	wait(0);
	setting("max_user_watches", 5);
	if (!must_fork()) {
		setuid(1235);
		int one = inotify_init(), other = inotify_init();
		SHOW(inotify_add_watch(one, "/", IN_OPEN));
		SHOW(inotify_add_watch(one, "/proc", IN_OPEN));
		SHOW(inotify_add_watch(one, "/dev", IN_OPEN));
		SHOW(inotify_add_watch(other, "/", IN_OPEN));
		SHOW(inotify_add_watch(other, "/proc", IN_OPEN));
		SHOW(inotify_add_watch(other, "/dev", IN_OPEN));
		SHOW(inotify_add_watch(other, "/", IN_OPEN));
		SHOW(inotify_rm_watch(other, 1));
		SHOW(inotify_add_watch(other, "/dev", IN_OPEN));
		SHOW(inotify_add_watch(one, "/dev/null", IN_OPEN));
		close(one);
		SHOW(inotify_add_watch(other, "/dev/null", IN_OPEN));
		_exit(0);
	}
	wait(0);
	setting("max_user_watches", watches);
	setting("max_user_instances", -1);
	int fd = open("/proc/sys/fs/inotify/max_user_instances", O_WRONLY);
	SHOW(write(fd, "-1", 2));
	SHOW(write(fd, "2147483648", 10));
	SHOW(write(fd, "x", 1));
	close(fd);
	say("%d", setting("max_user_instances", instances) == instances);
	rmdir("d");
}

/* Pipes by name, devices, sockets' names, terminals' names. */
static void others(void)
{
	section("others");
	fresh();
	mkdir("d", 0755);
	mkfifo("d/fifo", 0644);
	watch("d", IN_ALL_EVENTS);
	int r, w;
	char b[16];
	TOLD(r = open("d/fifo", O_RDONLY | O_NONBLOCK));
	TOLD(w = open("d/fifo", O_WRONLY));
	TOLD(write(w, "123", 3));
	TOLD(read(r, b, 2));
	struct iovec v = { b, 1 };
	TOLD(vmsplice(w, &v, 1, 0));
	TOLD(read(r, b, 16));
	TOLD(close(w));
	TOLD(read(r, b, 2));
	TOLD(close(r));
	SHOW(inotify_add_watch(in, "/dev/zero", IN_ALL_EVENTS));
	TOLD(r = open("/dev/zero", O_RDWR));
	TOLD(write(r, "x", 1));
	TOLD(read(r, b, 1));
	TOLD(close(r));
	SHOW(inotify_rm_watch(in, 2));
	int pty = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	SHOW(inotify_add_watch(in, "/dev/pts", IN_CREATE | IN_DELETE));
	int more = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	told("a terminal more");
	close(more);
	told("a terminal less");
	close(pty);
	unlink("d/fifo"), rmdir("d");
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "nothing"))
		return 0;
	if (argc > 2)
		return 0;
	arguments();
	reading();
	waiting();
	contents();
	attributes();
	ordinary();
	names();
	ends();
	asked();
	told_in_proc();
	mounts();
	executes();
	limits();
	others();
	return 0;
}
