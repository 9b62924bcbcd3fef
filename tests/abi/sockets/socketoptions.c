/* getsockopt and setsockopt on Unix sockets; shutdown; readiness by poll and epoll; many messages in one call; SIGIO. */
#include "s.h"

static char buffer[4096];

static void numbers(void)
{
	section("numbers");
	static const int kinds[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET };
	for (int i = 0; i < 4; i++) {
		int fd = socket(AF_UNIX, kinds[i], 0);
		say("type %d, domain %d, protocol %d, error %d, accepts %d", option(fd, SO_TYPE), option(fd, SO_DOMAIN), option(fd, SO_PROTOCOL), option(fd, SO_ERROR), option(fd, SO_ACCEPTCONN));
		close(fd);
	}
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	static const int flags[] = { SO_REUSEADDR, SO_KEEPALIVE, SO_BROADCAST, SO_OOBINLINE, SO_DONTROUTE, SO_PASSCRED, 76 };
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		int before = option(fd, flags[i]);
		int set = set_option(fd, flags[i], 7);
		say("%d: %d, set %d, %d", flags[i], before, set, option(fd, flags[i]));
		set_option(fd, flags[i], 0);
		SHOW(option(fd, flags[i]));
	}
	static const int sizes[] = { 0, 1, 5000, 100000, 212992, 1 << 30, -1 };
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		SHOW(set_option(fd, SO_SNDBUF, sizes[i]));
		SHOW(set_option(fd, SO_RCVBUF, sizes[i]));
		say("%d: %d %d", sizes[i], option(fd, SO_SNDBUF), option(fd, SO_RCVBUF));
		SHOW(set_option(fd, SO_SNDBUFFORCE, sizes[i]));
		SHOW(set_option(fd, SO_RCVBUFFORCE, sizes[i]));
		say("%d: %d %d", sizes[i], option(fd, SO_SNDBUF), option(fd, SO_RCVBUF));
	}
	SHOW(option(fd, SO_RCVLOWAT));
	SHOW(set_option(fd, SO_RCVLOWAT, 0));
	SHOW(option(fd, SO_RCVLOWAT));
	SHOW(set_option(fd, SO_RCVLOWAT, 9));
	SHOW(option(fd, SO_RCVLOWAT));
	SHOW(set_option(fd, SO_RCVLOWAT, -1));
	SHOW(option(fd, SO_RCVLOWAT));
	SHOW(option(fd, SO_SNDLOWAT));
	SHOW(set_option(fd, SO_SNDLOWAT, 1));
	SHOW(option(fd, SO_PRIORITY));
	SHOW(set_option(fd, SO_PRIORITY, 3));
	SHOW(option(fd, SO_PRIORITY));
	struct linger linger = { 1, 5 };
	SHOW(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
	socklen_t len = sizeof linger;
	memset(&linger, 0, sizeof linger);
	SHOW(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len));
	say("%d %d, %u", linger.l_onoff, linger.l_linger, len);
	static const struct timeval times[] = { { 0, 0 }, { 1, 500000 }, { 0, 1000000 }, { 0, -1 }, { -1, 0 }, { 5, 0 } };
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		SHOW(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &times[i], sizeof times[i]));
		SHOW(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &times[i], sizeof times[i]));
		struct timeval told = { 9, 9 };
		len = sizeof told;
		SHOW(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &told, &len));
		say("%ld %ld, %u", (long)told.tv_sec, (long)told.tv_usec, len);
		len = sizeof told;
		SHOW(getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &told, &len));
		say("%ld %ld, %u", (long)told.tv_sec, (long)told.tv_usec, len);
	}
	SHOW(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &times[1], 8));
	int one = 1;
	SHOW(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, 3));
	SHOW(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, -1));
	SHOW(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, (void *)16, 4));
	SHOW(setsockopt(fd, SOL_SOCKET, SO_TYPE, &one, 4));
	SHOW(setsockopt(fd, SOL_SOCKET, SO_ERROR, &one, 4));
	SHOW(setsockopt(fd, SOL_SOCKET, 9999, &one, 4));
	SHOW(setsockopt(fd, 6, 1, &one, 4));
	SHOW(setsockopt(fd, 0, 1, &one, 4));
	len = 4;
	SHOW(getsockopt(fd, 6, 1, &one, &len));
	SHOW(getsockopt(fd, SOL_SOCKET, 9999, &one, &len));
	len = 2;
	one = -1;
	SHOW(getsockopt(fd, SOL_SOCKET, SO_TYPE, &one, &len));
	say("%u %#x", len, one);
	len = (socklen_t)-1;
	SHOW(getsockopt(fd, SOL_SOCKET, SO_TYPE, &one, &len));
	len = 100;
	SHOW(getsockopt(fd, SOL_SOCKET, SO_TYPE, &one, &len));
	SHOW(len);
	SHOW(getsockopt(fd, SOL_SOCKET, SO_TYPE, (void *)16, &len));
	SHOW(syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &one, 16));
	setuid(1000);
	SHOW(set_option(fd, SO_SNDBUFFORCE, 1));
	SHOW(set_option(fd, SO_PRIORITY, 7));
	SHOW(set_option(fd, SO_PRIORITY, 6));
}

static void shut(void)
{
	static const int kinds[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	static const char *names[] = { "shutdown of a stream", "of datagrams", "of packets" };
	for (int k = 0; k < 3; k++) {
		section(names[k]);
		int ends[2];
		socketpair(AF_UNIX, kinds[k] | SOCK_NONBLOCK, 0, ends);
		SHOW(shutdown(ends[0], 3));
		SHOW(shutdown(ends[0], -1));
		show_poll("fresh", ends[0]);
		SHOW(send(ends[1], "left", 4, 0));
		show_poll("filled", ends[0]);
		SHOW(shutdown(ends[0], SHUT_RD));
		show_poll("no reading here", ends[0]);
		show_poll("no writing there", ends[1]);
		SHOW(send(ends[1], "x", 1, MSG_NOSIGNAL));
		SHOW(recv(ends[0], buffer, 10, 0));
		SHOW(recv(ends[0], buffer, 10, 0));
		SHOW(send(ends[0], "back", 4, MSG_NOSIGNAL));
		SHOW(recv(ends[1], buffer, 10, 0));
		SHOW(shutdown(ends[0], SHUT_WR));
		show_poll("neither here", ends[0]);
		show_poll("neither there", ends[1]);
		SHOW(send(ends[0], "x", 1, MSG_NOSIGNAL));
		SHOW(recv(ends[1], buffer, 10, 0));
		close(ends[0]);
		show_poll("closed", ends[1]);
		SHOW(recv(ends[1], buffer, 10, 0));
		SHOW(shutdown(ends[1], SHUT_RDWR));
		close(ends[1]);
		int alone = socket(AF_UNIX, kinds[k], 0);
		SHOW(shutdown(alone, SHUT_RDWR));
		show_poll("alone", alone);
	}
}

static int watcher;

static void events(const char *what)
{
	struct epoll_event e[4];
	int n = epoll_wait(watcher, e, 4, 0);
	say("%s: %d", what, n);
	for (int i = 0; i < n; i++)
		say("  %d: %#x", e[i].data.fd, e[i].events);
}

static void edges(void)
{
	section("epoll");
	int ends[2];
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends);
	watcher = epoll_create1(0);
	struct epoll_event e = { EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, { .fd = 0 } };
	SHOW(epoll_ctl(watcher, EPOLL_CTL_ADD, ends[0], &e));
	events("new");
	events("again");
	write(ends[1], "a", 1);
	events("bytes");
	events("again");
	write(ends[1], "b", 1);
	events("more bytes");
	read(ends[0], buffer, 10);
	events("taken");
	while (write(ends[0], buffer, 4096) > 0)
		;
	events("full");
	while (read(ends[1], buffer, 4096) > 0)
		;
	events("room");
	SHOW(shutdown(ends[1], SHUT_WR));
	events("no more");
	SHOW(close(ends[1]));
	events("closed");
	int l = listener(SOCK_STREAM, "@edges", 4);
	e.events = EPOLLIN | EPOLLET, e.data.fd = 1;
	SHOW(epoll_ctl(watcher, EPOLL_CTL_ADD, l, &e));
	events("nobody");
	int c = connected(SOCK_STREAM, "@edges");
	events("somebody");
	events("again");
	SHOW_OK(accept(l, 0, 0));
	events("accepted");
	close(c);
}

static void many(void)
{
	section("many");
	int ends[2];
	socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
	struct iovec v[5];
	struct mmsghdr m[5];
	memset(m, 0, sizeof m);
	static const char *texts[] = { "a", "bb", "", "dddd", "eeeee" };
	for (int i = 0; i < 5; i++) {
		v[i].iov_base = (void *)texts[i], v[i].iov_len = strlen(texts[i]);
		m[i].msg_hdr.msg_iov = &v[i], m[i].msg_hdr.msg_iovlen = 1;
	}
	SHOW(sendmmsg(ends[0], m, 5, 0));
	for (int i = 0; i < 5; i++)
		say("%u", m[i].msg_len);
	char room[5][8];
	memset(room, 0, sizeof room);
	for (int i = 0; i < 5; i++)
		v[i].iov_base = room[i], v[i].iov_len = 4;
	SHOW(recvmmsg(ends[1], m, 2, 0, 0));
	SHOW(recvmmsg(ends[1], m + 2, 3, MSG_WAITFORONE, 0));
	for (int i = 0; i < 5; i++)
		say("%u %#x \"%s\"", m[i].msg_len, m[i].msg_hdr.msg_flags, room[i]);
	SHOW(recvmmsg(ends[1], m, 2, MSG_DONTWAIT, 0));
	write(ends[0], "x", 1);
	struct timespec time = { 0, 1000000 };
	SHOW(recvmmsg(ends[1], m, 1, 0, &time));
	time.tv_nsec = -1;
	SHOW(recvmmsg(ends[1], m, 1, 0, &time));
	write(ends[0], "x", 1);
	SHOW(recvmmsg(ends[1], m, 5, MSG_WAITFORONE, 0));
	m[1].msg_hdr.msg_iov = (void *)16;
	v[0].iov_len = 1;
	SHOW(sendmmsg(ends[0], m, 3, 0));
	SHOW(sendmmsg(ends[0], m + 1, 1, 0));
	SHOW(sendmmsg(ends[0], m, 0, 0));
	SHOW(recvmmsg(ends[0], m, 0, 0, 0));
	SHOW(sendmmsg(ends[0], (void *)16, 1, 0));
}

static void peeks(void)
{
	section("SO_PEEK_OFF");
	for (int k = 0; k < 2; k++) {
		int ends[2];
		socketpair(AF_UNIX, k ? SOCK_DGRAM : SOCK_STREAM, 0, ends);
		write(ends[0], "abcd", 4);
		write(ends[0], "efgh", 4);
		SHOW(option(ends[1], SO_PEEK_OFF));
		SHOW(set_option(ends[1], SO_PEEK_OFF, 0));
		for (int i = 0; i < 4; i++) {
			memset(buffer, 0, 8);
			long n = recv(ends[1], buffer, 3, MSG_PEEK | MSG_DONTWAIT);
			say("%ld \"%s\", %d", n, buffer, option(ends[1], SO_PEEK_OFF));
		}
		SHOW(recv(ends[1], buffer, 4, 0));
		SHOW(option(ends[1], SO_PEEK_OFF));
		SHOW(set_option(ends[1], SO_PEEK_OFF, 1));
		memset(buffer, 0, 8);
		SHOW(recv(ends[1], buffer, 8, MSG_PEEK));
		say("\"%s\"", buffer);
		SHOW(set_option(ends[1], SO_PEEK_OFF, -1));
		memset(buffer, 0, 8);
		SHOW(recv(ends[1], buffer, 8, MSG_PEEK));
		say("\"%s\"", buffer);
	}
}

static volatile int signalled;

static void on_io(int number)
{
	(void)number;
	signalled++;
}

static void asynchronous(void)
{
	section("SIGIO");
	int ends[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	signal(SIGIO, on_io);
	SHOW(fcntl(ends[0], F_SETOWN, getpid()));
	SHOW(fcntl(ends[0], F_SETFL, O_ASYNC));
	write(ends[1], "x", 1);
	CHECK(signalled > 0);
	signalled = 0;
	close(ends[1]);
	CHECK(signalled > 0);
}

static void moved(void)
{
	section("splice and sendfile");
	int ends[2], pipes[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	pipe(pipes);
	write_file("file", "contents");
	int fd = open("file", O_RDWR);
	long at = 0;
	SHOW(syscall(SYS_sendfile, ends[0], fd, 0, 100));
	memset(buffer, 0, 20);
	SHOW(read(ends[1], buffer, 20));
	say("%s", buffer);
	write(ends[0], "spliced", 7);
	SHOW(splice(ends[1], 0, pipes[1], 0, 100, SPLICE_F_NONBLOCK));
	memset(buffer, 0, 20);
	SHOW(read(pipes[0], buffer, 20));
	say("%s", buffer);
	write(pipes[1], "onwards", 7);
	SHOW(splice(pipes[0], 0, ends[0], 0, 100, 0));
	memset(buffer, 0, 20);
	SHOW(read(ends[1], buffer, 20));
	say("%s", buffer);
	SHOW(splice(ends[1], 0, pipes[1], 0, 100, SPLICE_F_NONBLOCK));
	SHOW(splice(ends[1], &at, pipes[1], 0, 100, SPLICE_F_NONBLOCK));
	SHOW(syscall(SYS_sendfile, fd, ends[1], 0, 100));
	SHOW(tee(ends[0], pipes[1], 1, 0));
	close(ends[0]);
	SHOW(splice(ends[1], 0, pipes[1], 0, 100, 0));
	struct { int a; } unused;
	SHOW(ioctl(ends[1], 0x5401, &unused));
}

/* Each flag, by each call that takes it. */
static void flags(void)
{
	section("flags");
	static const int sends[] = { MSG_DONTROUTE, MSG_DONTWAIT, MSG_EOR, MSG_CONFIRM, MSG_NOSIGNAL, MSG_MORE };
	static const int receives[] = { MSG_PEEK, MSG_TRUNC, MSG_DONTWAIT, MSG_WAITALL, MSG_CMSG_CLOEXEC, MSG_WAITFORONE };
	int ends[2];
	socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
	struct iovec v = { buffer, 4 };
	struct mmsghdr m;
	for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) {
		memset(&m, 0, sizeof m);
		m.msg_hdr.msg_iov = &v, m.msg_hdr.msg_iovlen = 1;
		SHOW(sendto(ends[0], buffer, 4, sends[i], 0, 0));
		SHOW(sendmsg(ends[0], &m.msg_hdr, sends[i]));
		SHOW(sendmmsg(ends[0], &m, 1, sends[i]));
	}
	for (size_t i = 0; i < sizeof receives / sizeof *receives; i++) {
		memset(&m, 0, sizeof m);
		m.msg_hdr.msg_iov = &v, m.msg_hdr.msg_iovlen = 1;
		if (receives[i] != MSG_WAITFORONE) {
			SHOW(recvfrom(ends[1], buffer, 4, receives[i], 0, 0));
			SHOW(recvmsg(ends[1], &m.msg_hdr, receives[i]));
		}
		SHOW(recvmmsg(ends[1], &m, 1, receives[i], 0));
	}
}

/* What Linux has and these sockets do not. */
static void missing(void)
{
	section("missing");
	int ends[2];
	MISSING(socket(AF_INET, SOCK_STREAM, 0), EAFNOSUPPORT);
	MISSING(socket(AF_INET6, SOCK_STREAM, 0), EAFNOSUPPORT);
	MISSING(socket(AF_NETLINK, SOCK_RAW, 0), EAFNOSUPPORT);
	/* Linux has these families, but no pairs of them. */
	static const int families[] = { AF_INET, AF_INET6, AF_NETLINK };
	for (int i = 0; i < 3; i++) {
		int r = socketpair(families[i], families[i] == AF_NETLINK ? SOCK_RAW : SOCK_STREAM, 0, ends);
		CHECK(r < 0 && (errno == EOPNOTSUPP || errno == EAFNOSUPPORT));
	}
	struct iovec v = { buffer, 1 };
	struct mmsghdr m;
	memset(&m, 0, sizeof m);
	m.msg_hdr.msg_iov = &v, m.msg_hdr.msg_iovlen = 1;
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	MISSING(sendto(ends[0], buffer, 1, MSG_OOB, 0, 0), EOPNOTSUPP);
	MISSING(recvfrom(ends[1], buffer, 1, MSG_OOB, 0, 0), EOPNOTSUPP);
	MISSING(sendmsg(ends[0], &m.msg_hdr, MSG_OOB), EOPNOTSUPP);
	MISSING(recvmsg(ends[1], &m.msg_hdr, MSG_OOB), EOPNOTSUPP);
	MISSING(sendmmsg(ends[0], &m, 1, MSG_OOB), EOPNOTSUPP);
	MISSING(recvmmsg(ends[1], &m, 1, MSG_OOB, 0), EOPNOTSUPP);
	struct { unsigned short code; unsigned char yes, no; unsigned value; } all = { 6, 0, 0, 0xffffffff };
	struct { unsigned short len; void *filter; } program = { 1, &all };
	MISSING(setsockopt(ends[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), ENOPROTOOPT);
	int one = 1;
	socklen_t len = sizeof one;
	MISSING(setsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMP, &one, sizeof one), ENOPROTOOPT);
	MISSING(getsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMP, &one, &len), ENOPROTOOPT);
	/* The name of the other side, as an option. */
	int l = listener(SOCK_STREAM, "@named", 2), c = connected(SOCK_STREAM, "@named");
	char name[16];
	len = 8;
	SHOW(getsockopt(c, SOL_SOCKET, SO_PEERNAME, name, &len));
	len = 16;
	SHOW(getsockopt(c, SOL_SOCKET, SO_PEERNAME, name, &len));
	SHOW(socketpair(AF_UNIX, SOCK_RAW, 0, ends));
	SHOW_OK(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	close(l);
}

static void listed(void)
{
	section("/proc/net/unix");
	int l = listener(SOCK_STREAM, "listed", 4), d = socket(AF_UNIX, SOCK_DGRAM, 0);
	bind_to(d, "@listed too");
	char *text = read_file("/proc/net/unix"), *line = strtok(text, "\n");
	say("%s", line);
	char shown[2][64] = { "", "" };
	while ((line = strtok(0, "\n"))) {
		unsigned long number, references, protocol, flags, inode;
		unsigned kind, state;
		char name[128] = "";
		if (sscanf(line, "%lx: %lx %lx %lx %x %x %lu %127[^\n]", &number, &references, &protocol, &flags, &kind, &state, &inode, name) == 8 && strstr(name, "listed"))
			snprintf(shown[name[0] == '@'], 64, "%lx %lx %x %x %.40s", protocol, flags, kind, state, name);
	}
	/* In which order they come is the kernel's own affair. */
	say("%s", shown[0]);
	say("%s", shown[1]);
	close(l);
	close(d);
	text = read_file("/proc/net/unix");
	CHECK(!strstr(text, "listed"));
	static const char *settings[] = { "unix/max_dgram_qlen", "core/somaxconn", "core/wmem_default", "core/rmem_default", "core/wmem_max", "core/rmem_max" };
	for (int i = 0; i < 6; i++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/sys/net/%s", settings[i]);
		text = read_file(path);
		say("%s: %s", settings[i], text ? text : "none");
	}
}

int main(void)
{
	pid_t child = must_fork();
	if (child == 0) {
		numbers();
		_exit(0);
	}
	wait_for(child);
	shut();
	edges();
	many();
	peeks();
	asynchronous();
	moved();
	flags();
	missing();
	listed();
	return 0;
}
