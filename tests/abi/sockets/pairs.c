/* socketpair: kinds, flags, errors; bytes and messages both ways; ends; what fstat and fcntl say. */
#include "s.h"

static char block[1 << 18];

static void errors(void)
{
	section("errors");
	int ends[2] = { -7, -7 };
	SHOW(socketpair(AF_UNIX, SOCK_STREAM | 0x10000, 0, ends));
	SHOW(socketpair(-1, SOCK_STREAM, 0, ends));
	SHOW(socketpair(46, SOCK_STREAM, 0, ends));
	SHOW(socketpair(45, SOCK_STREAM, 0, ends));
	SHOW(socketpair(45, 11, 0, ends));
	SHOW(socketpair(0, SOCK_STREAM, 0, ends));
	SHOW(socketpair(AF_UNIX, 11, 0, ends));
	SHOW(socketpair(AF_UNIX, 0, 0, ends));
	SHOW(socketpair(AF_UNIX, 4, 0, ends));
	SHOW(socketpair(AF_UNIX, 4, 7, ends));
	SHOW(socketpair(AF_UNIX, SOCK_STREAM, 7, ends));
	SHOW(socketpair(AF_UNIX, SOCK_STREAM, -1, ends));
	SHOW(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, 16));
	SHOW(syscall(SYS_socketpair, AF_UNIX, 4, 0, 16));
	SHOW(socket(AF_UNIX, SOCK_STREAM | 0x10000, 0));
	SHOW(socket(46, SOCK_STREAM, 0));
	SHOW(socket(AF_UNIX, 11, 0));
	SHOW(socket(AF_UNIX, SOCK_STREAM, 2));
	SHOW(socket(AF_UNIX, 4, 0));
	SHOW_OK(socket(AF_UNIX, SOCK_RAW, 0));
	SHOW(listen(0, 1));
	SHOW(listen(99, 1));
	SHOW(send(0, "", 0, 0));
	SHOW(send(99, "", 0, 0));
	SHOW(option(1, SO_TYPE));
	int path_only = open("/", O_PATH);
	SHOW(listen(path_only, 1));
	SHOW(shutdown(path_only, 0));
}

static void kind(const char *what, int kind)
{
	section(what);
	int ends[2];
	char got[64];
	SHOW(socketpair(AF_UNIX, kind, 0, ends));
	SHOW(write(ends[0], "one", 3));
	SHOW(write(ends[0], "two", 3));
	SHOW(send(ends[0], "", 0, 0));
	SHOW(send(ends[0], "three", 5, MSG_EOR));
	int n = -1;
	SHOW(ioctl(ends[1], FIONREAD, &n));
	SHOW(n);
	SHOW(recv(ends[1], got, 2, MSG_PEEK));
	SHOW(recv(ends[1], got, 2, MSG_PEEK | MSG_TRUNC));
	SHOW(recv(ends[1], got, 2, 0));
	SHOW(recv(ends[1], got, 2, MSG_TRUNC));
	memset(got, 0, sizeof got);
	SHOW(recv(ends[1], got, sizeof got, MSG_DONTWAIT));
	say("%s", got);
	SHOW(recv(ends[1], got, sizeof got, MSG_DONTWAIT));
	SHOW(recv(ends[1], got, sizeof got, MSG_DONTWAIT));
	SHOW(recv(ends[1], got, 0, MSG_DONTWAIT));
	SHOW(read(ends[1], got, 0));
	SHOW(write(ends[1], "back", 4));
	SHOW(read(ends[0], got, sizeof got));
	SHOW(sendto(ends[0], "x", 1, 0, 0, 0));
	struct sockaddr_un name = { AF_UNIX, "nowhere" };
	SHOW(sendto(ends[0], "x", 1, 0, (struct sockaddr *)&name, sizeof name));
	SHOW(connect(ends[0], (struct sockaddr *)&name, sizeof name));
	SHOW(listen(ends[0], 1));
	SHOW(accept(ends[0], 0, 0));
	SHOW(recv(ends[1], got, sizeof got, MSG_DONTWAIT));
	show_names(ends[0]);
	struct iovec v[2] = { { "ab", 2 }, { "cde", 3 } };
	SHOW(writev(ends[0], v, 2));
	struct iovec in[3] = { { got, 1 }, { got + 1, 0 }, { got + 1, 30 } };
	SHOW(readv(ends[1], in, 3));
	say("%.5s", got);
	SHOW(send(ends[0], (void *)16, 5, 0));
	SHOW(send(ends[0], "fault", 5, 0));
	SHOW(recv(ends[1], (void *)16, 5, 0));
	SHOW(recv(ends[1], got, 5, MSG_DONTWAIT));
	SHOW(lseek(ends[0], 0, SEEK_CUR));
	SHOW(pread(ends[0], got, 1, 0));
	SHOW(pwrite(ends[0], got, 1, 0));
	SHOW(ftruncate(ends[0], 0));
	SHOW(fsync(ends[0]));
	SHOW(fallocate(ends[0], 0, 0, 1));
	SHOW_PTR(mmap(0, 4096, PROT_READ, MAP_SHARED, ends[0], 0));
	struct stat st;
	SHOW(fstat(ends[0], &st));
	say("%o %ld %ld", st.st_mode, (long)st.st_size, (long)st.st_nlink);
	SHOW(fchmod(ends[0], 0600));
	SHOW(fstat(ends[0], &st));
	say("%o", st.st_mode);
	SHOW(fcntl(ends[0], F_GETFL));
	SHOW(fcntl(ends[0], F_GETFD));
	char path[64], link[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
	ssize_t len = readlink(path, link, sizeof link - 1);
	link[len < 0 ? 0 : len] = 0;
	char expected[64];
	snprintf(expected, sizeof expected, "socket:[%ld]", (long)st.st_ino);
	CHECK(strcmp(link, expected) == 0);
	SHOW(open(path, O_RDWR));
	SHOW(close(ends[0]));
	SHOW(recv(ends[1], got, sizeof got, MSG_DONTWAIT));
	SHOW(send(ends[1], "x", 1, MSG_NOSIGNAL));
	show_poll("other end closed", ends[1]);
	SHOW(close(ends[1]));
}

static void flags(void)
{
	section("flags");
	int ends[2];
	char byte;
	SHOW(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, AF_UNIX, ends));
	SHOW(fcntl(ends[0], F_GETFL));
	SHOW(fcntl(ends[1], F_GETFD));
	SHOW(read(ends[0], &byte, 1));
	long total = 0, got;
	while ((got = write(ends[0], block, 4096)) > 0)
		total += got;
	say("%ld bytes in pages, then %s", total, error_name(errno));
	SHOW(write(ends[0], "x", 1));
	show_poll("full", ends[0]);
	int n = 0;
	SHOW(ioctl(ends[0], SIOCOUTQ, &n));
	SHOW(n);
	SHOW(ioctl(ends[1], SIOCINQ, &n));
	SHOW(n);
	int pages = 0;
	while (show_poll("taking", ends[0]), pages < 40 && read(ends[1], block, 4096) > 0)
		pages++;
	SHOW(pages);
	SHOW(read(ends[1], block, sizeof block));
	long small = 0;
	while (write(ends[0], block, 1) == 1)
		small++;
	say("%ld single bytes", small);
	SHOW(read(ends[1], block, sizeof block));
	for (long size = 100; size < 1 << 18; size = size * 3 / 2) {
		long first = write(ends[0], block, (size_t)size), second = write(ends[0], block, (size_t)size), all = 0, more;
		while ((more = write(ends[0], block, (size_t)size)) > 0)
			all += more;
		SHOW(ioctl(ends[0], SIOCOUTQ, &n));
		say("%ld: %ld %ld %ld, counted %d", size, first, second, all, n);
		while (read(ends[1], block, sizeof block) > 0)
			;
	}
	SHOW(ioctl(ends[0], SIOCOUTQ, &n));
	SHOW(n);
}

static void signals(void)
{
	int ends[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	close(ends[0]);
	write(ends[1], "x", 1);
	say("not reached");
}

static void quiet(void)
{
	int ends[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	close(ends[0]);
	SHOW(send(ends[1], "x", 1, MSG_NOSIGNAL));
	SHOW(send(ends[1], "", 0, 0));
}

static void blocking(void)
{
	section("blocking");
	int ends[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	pid_t child = must_fork();
	if (child == 0) {
		close(ends[0]);
		long total = 0, got;
		while ((got = read(ends[1], block, 10000)) > 0)
			total += got;
		say("child has read %ld", total);
		_exit(0);
	}
	close(ends[1]);
	long total = 0;
	for (int i = 0; i < 20; i++)
		total += write(ends[0], block, 100000);
	say("parent has written %ld", total);
	close(ends[0]);
	wait_for(child);
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	child = must_fork();
	if (child == 0) {
		for (int i = 0; i < 5; i++) {
			nap(10);
			write(ends[1], "ab", 2);
		}
		_exit(0);
	}
	SHOW(recv(ends[0], block, 10, MSG_WAITALL));
	wait_for(child);
	SHOW(write(ends[1], "ab", 2));
	close(ends[1]);
	SHOW(recv(ends[0], block, 10, MSG_WAITALL));
	SHOW(recv(ends[0], block, 10, MSG_WAITALL));
}

int main(void)
{
	errors();
	kind("stream", SOCK_STREAM);
	kind("datagram", SOCK_DGRAM);
	kind("seqpacket", SOCK_SEQPACKET);
	flags();
	section("SIGPIPE");
	in_child("a write", signals);
	in_child("quiet", quiet);
	blocking();
	return 0;
}
