/* Datagrams: names, connect and its end, who may send, how many wait, autobind, poll; SOCK_SEQPACKET by name. */
#include "s.h"

static char buffer[300000];

static long from(int fd, int flags)
{
	struct sockaddr_un name;
	socklen_t len = sizeof name;
	memset(&name, 0, sizeof name);
	errno = 0;
	long n = recvfrom(fd, buffer, 100, flags, (struct sockaddr *)&name, &len);
	if (n < 0) {
		say("recvfrom: %s", error_name(errno));
		return n;
	}
	say("%ld bytes, %.*s", n, (int)n, buffer);
	say_name("from", &name, len);
	return n;
}

static long to(int fd, const char *text, const char *what, int flags)
{
	struct sockaddr_un name;
	socklen_t len = name_of(&name, text);
	return sendto(fd, what, strlen(what), flags | MSG_DONTWAIT, (struct sockaddr *)&name, len);
}

static void names(void)
{
	section("names");
	int a = socket(AF_UNIX, SOCK_DGRAM, 0), b = socket(AF_UNIX, SOCK_DGRAM, 0);
	show_poll("new", a);
	SHOW(send(a, "x", 1, 0));
	SHOW(recv(a, buffer, 1, MSG_DONTWAIT));
	SHOW(listen(a, 1));
	SHOW(accept(a, 0, 0));
	SHOW(bind_to(a, "@a"));
	SHOW(bind_to(b, "@a"));
	SHOW(bind_to(b, "b"));
	show_names(a);
	show_names(b);
	SHOW(to(a, "b", "hello", 0));
	SHOW(to(b, "@a", "answer", 0));
	SHOW(to(a, "@none", "x", 0));
	SHOW(to(a, "none", "x", 0));
	from(b, MSG_DONTWAIT);
	from(a, MSG_DONTWAIT);
	from(a, MSG_DONTWAIT);
	int c = socket(AF_UNIX, SOCK_DGRAM, 0);
	SHOW(to(c, "b", "nameless", 0));
	from(b, MSG_DONTWAIT);
	SHOW(to(c, "b", "", 0));
	from(b, MSG_DONTWAIT);
	SHOW(connect_to(a, "b"));
	SHOW(to(c, "@a", "stranger", 0));
	SHOW(connect_to(c, "@a"));
	SHOW(send(a, "to peer", 7, 0));
	from(b, MSG_DONTWAIT);
	SHOW(to(b, "@a", "from peer", 0));
	from(a, MSG_DONTWAIT);
	show_names(a);
	SHOW(connect_to(b, "@a"));
	SHOW(close(b));
	SHOW(send(a, "x", 1, 0));
	SHOW(send(a, "x", 1, 0));
	struct sockaddr_un none = { AF_UNSPEC, "" };
	SHOW(connect(a, (struct sockaddr *)&none, 2));
	SHOW(connect(a, (struct sockaddr *)&none, 1));
	SHOW(connect(a, (struct sockaddr *)&none, 0));
	SHOW(connect_to(a, "b"));
	SHOW(connect_to(c, "@a"));
	SHOW(send(c, "still", 5, 0));
	from(a, MSG_DONTWAIT);
	SHOW(connect_to(a, "@a"));
	SHOW(send(a, "self", 4, 0));
	from(a, MSG_DONTWAIT);
	SHOW(send(c, "x", 1, 0));
	SHOW(shutdown(a, SHUT_RD));
	SHOW(send(a, "x", 1, MSG_NOSIGNAL));
	SHOW(recv(a, buffer, 1, MSG_DONTWAIT));
	SHOW(recv(a, buffer, 1, 0));
	SHOW(shutdown(a, SHUT_WR));
	SHOW(send(a, "x", 1, MSG_NOSIGNAL));
	show_poll("shut", a);
}

static void sizes(void)
{
	section("sizes");
	int ends[2];
	socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends);
	SHOW(send(ends[0], buffer, 212993, 0));
	SHOW(send(ends[0], buffer, 212992 - 31, 0));
	SHOW(send(ends[0], buffer, 212992 - 32, 0));
	SHOW(send(ends[0], buffer, 1, 0));
	SHOW(recv(ends[1], buffer, sizeof buffer, 0));
	for (long size = 0; size < 200000; size = size * 2 + 77) {
		int count = 0, n = 0;
		while (send(ends[0], buffer, (size_t)size, 0) == size)
			count++;
		int error = errno;
		SHOW(ioctl(ends[0], SIOCOUTQ, &n));
		say("%d of %ld, counted %d, then %s", count, size, n, error_name(error));
		for (int i = 0; i < count; i++)
			recv(ends[1], buffer, sizeof buffer, 0);
	}
	SHOW(set_option(ends[0], SO_SNDBUF, 1));
	SHOW(send(ends[0], buffer, 4608 - 31, 0));
	SHOW(send(ends[0], buffer, 4608 - 32, 0));
	SHOW(send(ends[0], buffer, 1, 0));
	SHOW(recv(ends[1], buffer, 10, MSG_TRUNC));
	struct sockaddr_un name;
	name_of(&name, "@q");
	int s = socket(AF_UNIX, SOCK_DGRAM, 0), c = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	SHOW(bind_to(s, "@q"));
	SHOW(connect_to(c, "@q"));
	int count = 0;
	while (send(c, "x", 1, 0) == 1)
		count++;
	say("%d, then %s", count, error_name(errno));
	show_poll("full", c);
	int ep = epoll_create1(0);
	struct epoll_event event = { EPOLLOUT | EPOLLET, { 0 } };
	SHOW(epoll_ctl(ep, EPOLL_CTL_ADD, c, &event));
	SHOW(epoll_wait(ep, &event, 1, 0));
	SHOW(recv(s, buffer, 1, 0));
	SHOW(epoll_wait(ep, &event, 1, 1000));
	show_poll("room", c);
	SHOW(send(c, "x", 1, 0));
	fcntl(c, F_SETFL, 0);
	pid_t child = must_fork();
	if (child == 0) {
		say("child sends: %ld", (long)send(c, "y", 1, 0));
		_exit(0);
	}
	nap(20);
	count = 0;
	while (recv(s, buffer, 1, MSG_DONTWAIT) == 1)
		count++;
	wait_for(child);
	while (recv(s, buffer, 1, MSG_DONTWAIT) == 1)
		count++;
	SHOW(count);
	struct timeval time = { 0, 20000 };
	SHOW(setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
	SHOW(recv(s, buffer, 1, 0));
}

static void automatic(void)
{
	section("automatic names");
	int s = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct sockaddr_un name = { AF_UNIX, "" };
	SHOW(bind(s, (struct sockaddr *)&name, 2));
	SHOW(bind(s, (struct sockaddr *)&name, 2));
	socklen_t len = sizeof name;
	SHOW(getsockname(s, (struct sockaddr *)&name, &len));
	SHOW(len);
	int good = name.sun_path[0] == 0;
	for (int i = 1; i < 6; i++)
		good &= strchr("0123456789abcdef", name.sun_path[i]) != 0;
	CHECK(good);
	SHOW(bind_to(s, "@late"));
	len = 4;
	memset(&name, 7, sizeof name);
	SHOW(getsockname(s, (struct sockaddr *)&name, &len));
	say("%u %d", len, name.sun_path[2]);
	len = 0;
	SHOW(getsockname(s, 0, &len));
	SHOW(len);
	len = (socklen_t)-1;
	SHOW(getsockname(s, (struct sockaddr *)&name, &len));
	SHOW(syscall(SYS_getsockname, s, &name, 16));
	len = sizeof name;
	SHOW(syscall(SYS_getsockname, s, 16, &len));
	SHOW(getpeername(s, (struct sockaddr *)&name, &len));
	/* The longest names. */
	memset(&name, 'x', sizeof name);
	name.sun_family = AF_UNIX;
	int t = socket(AF_UNIX, SOCK_DGRAM, 0);
	SHOW(bind(t, (struct sockaddr *)&name, sizeof name));
	char told[128];
	len = sizeof told;
	SHOW(getsockname(t, (struct sockaddr *)told, &len));
	SHOW(len);
	int u = socket(AF_UNIX, SOCK_DGRAM, 0);
	name.sun_path[0] = 0;
	SHOW(bind(u, (struct sockaddr *)&name, sizeof name));
	len = sizeof told;
	SHOW(getsockname(u, (struct sockaddr *)told, &len));
	SHOW(len);
	SHOW(bind(u, (struct sockaddr *)&name, sizeof name + 1));
	SHOW(bind(u, (struct sockaddr *)&name, 1));
	SHOW(bind(u, (struct sockaddr *)&name, 0));
	SHOW(bind(u, (struct sockaddr *)16, 20));
	/* One zero byte is a name. */
	int v = socket(AF_UNIX, SOCK_DGRAM, 0);
	memset(&name, 0, sizeof name);
	name.sun_family = AF_UNIX;
	SHOW(bind(v, (struct sockaddr *)&name, 3));
	len = sizeof told;
	SHOW(getsockname(v, (struct sockaddr *)told, &len));
	SHOW(len);
	/* Names of different kinds are apart. */
	SHOW(bind_to(socket(AF_UNIX, SOCK_STREAM, 0), "@kind"));
	SHOW(bind_to(socket(AF_UNIX, SOCK_DGRAM, 0), "@kind"));
	SHOW(bind_to(socket(AF_UNIX, SOCK_STREAM, 0), "@kind"));
}

static void packets(void)
{
	section("packets");
	int s = listener(SOCK_SEQPACKET, "@packets", 4);
	int c = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	show_poll("new", c);
	SHOW(send(c, "x", 1, MSG_NOSIGNAL));
	SHOW(recv(c, buffer, 1, 0));
	SHOW(connect_to(c, "@packets"));
	SHOW(send(c, "first", 5, 0));
	SHOW(send(c, "second", 6, 0));
	int a = accept(s, 0, 0);
	SHOW_OK(a);
	show_poll("accepted", a);
	SHOW(recv(a, buffer, 3, 0));
	from(a, 0);
	SHOW(recv(a, buffer, 3, MSG_DONTWAIT));
	SHOW(to(a, "@none", "named", 0));
	from(c, 0);
	SHOW(shutdown(a, SHUT_WR));
	show_poll("no more", c);
	SHOW(recv(c, buffer, 3, 0));
	SHOW(recv(c, buffer, 3, MSG_DONTWAIT));
	SHOW(send(a, "x", 1, MSG_NOSIGNAL));
	SHOW(send(c, "x", 1, 0));
	SHOW(close(a));
	SHOW(send(c, "x", 1, 0));
	SHOW(send(c, "x", 1, 0));
	SHOW(recv(c, buffer, 3, 0));
}

int main(void)
{
	names();
	sizes();
	automatic();
	packets();
	return 0;
}
