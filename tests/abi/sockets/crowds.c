/* Many who wait at one socket for room, by a call or by poll; sockets deep in each other's queues; too many sockets, too long messages. */
#include "s.h"

#include <sys/resource.h>

static char byte;

static int peer_of(const char *name)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (connect_to(fd, name))
		say("connect: %s", error_name(errno));
	return fd;
}

static int full(const char *name)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0), sender = peer_of((bind_to(fd, name), name));
	while (send(sender, "x", 1, MSG_DONTWAIT) == 1)
		;
	return fd;
}

/* Eight wait to send; each message taken makes room for one. Then a close ends those that still wait (a shutdown does not wake them on Linux). */
static void senders(const char *name, int taken)
{
	int s = full(name), errors = 0, sent = 0;
	pid_t children[8];
	for (int i = 0; i < 8; i++)
		if ((children[i] = must_fork()) == 0) {
			close(s);
			int fd = peer_of(name);
			signal(SIGPIPE, SIG_IGN);
			_exit(send(fd, "y", 1, 0) == 1 ? 0 : errno);
		}
	nap(100);
	for (int i = 0; i < taken; i++)
		recv(s, &byte, 1, 0);
	nap(50);
	SHOW(close(s));
	for (int i = 0; i < 8; i++) {
		int status = WEXITSTATUS(wait_for(children[i]));
		if (status)
			errors = status;
		else
			sent++;
	}
	say("%d taken: %d sent, the others %s", taken, sent, errors ? error_name(errors) : "-");
}

/* One who waits is killed when it is its turn, or its time is over: the next goes on. */
static void passed_on(void)
{
	int s = full("@passed");
	pid_t children[3];
	for (int i = 0; i < 3; i++) {
		if ((children[i] = must_fork()) == 0) {
			close(s);
			int fd = peer_of("@passed");
			struct timeval time = { 0, 30000 };
			if (i == 1)
				setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
			_exit(send(fd, "y", 1, 0) == 1 ? 0 : errno);
		}
		nap(30);
	}
	kill(children[0], SIGKILL);
	nap(30);
	SHOW(recv(s, &byte, 1, 0));
	say("killed: %s", status_text(wait_for(children[0])));
	say("late: %s", error_name(WEXITSTATUS(wait_for(children[1]))));
	say("last: %s", status_text(wait_for(children[2])));
	close(s);
}

static void connectors(void)
{
	int l = listener(SOCK_STREAM, "@accepts", 1), accepted = 0, good = 0;
	fcntl(l, F_SETFL, O_NONBLOCK);
	pid_t children[10];
	for (int i = 0; i < 10; i++)
		if ((children[i] = must_fork()) == 0) {
			close(l);
			_exit(connect_to(socket(AF_UNIX, SOCK_STREAM, 0), "@accepts") ? errno : 0);
		}
	nap(100);
	for (int i = 0; i < 500 && accepted < 7; i++) {
		if (accept(l, 0, 0) >= 0)
			accepted++;
		else
			nap(5);
	}
	nap(50);
	SHOW(accepted);
	SHOW(close(l));
	int refused = 0;
	for (int i = 0; i < 10; i++) {
		int status = WEXITSTATUS(wait_for(children[i]));
		good += status == 0, refused += status == ECONNREFUSED;
	}
	say("%d connected, %d refused", good, refused);
}

/* Who polls is told when there is room: each of many, once; and an epoll as often as it looks. */
static void pollers(void)
{
	enum { MANY = 200 };
	struct pollfd all[MANY];
	int s = full("@polled"), ep = epoll_create1(0), ready = 0;
	for (int i = 0; i < MANY; i++) {
		all[i] = (struct pollfd){ peer_of("@polled"), POLLOUT, 0 };
		struct epoll_event event = { EPOLLOUT, { 0 } };
		epoll_ctl(ep, EPOLL_CTL_ADD, all[i].fd, &event);
	}
	struct epoll_event events[MANY];
	SHOW(poll(all, MANY, 0));
	SHOW(epoll_wait(ep, events, MANY, 0));
	pid_t child = must_fork();
	if (child == 0) {
		close(s);
		_exit(poll(all, MANY, 5000) == MANY ? 0 : 1);
	}
	nap(50);
	SHOW(recv(s, &byte, 1, 0));
	say("poller: %s", status_text(wait_for(child)));
	SHOW(epoll_wait(ep, events, MANY, 1000));
	SHOW(send(all[3].fd, "x", 1, MSG_DONTWAIT));
	SHOW(send(all[4].fd, "x", 1, MSG_DONTWAIT));
	SHOW(epoll_wait(ep, events, MANY, 0));
	/* Half turn elsewhere, or go. */
	int other = socket(AF_UNIX, SOCK_DGRAM, 0);
	bind_to(other, "@polled instead");
	for (int i = 0; i < 100; i++)
		if (i & 1)
			close(all[i].fd);
		else if (connect_to(all[i].fd, "@polled instead"))
			say("connect: %s", error_name(errno));
	SHOW(ready = epoll_wait(ep, events, MANY, 0));
	SHOW(recv(s, &byte, 1, 0));
	SHOW(epoll_wait(ep, events, MANY, 1000));
	SHOW(send(all[150].fd, "x", 1, MSG_DONTWAIT));
	SHOW(epoll_wait(ep, events, MANY, 0));
	/* The peer goes: the next send will say so. */
	SHOW(close(s));
	SHOW(epoll_wait(ep, events, MANY, 1000));
	SHOW(send(all[150].fd, "x", 1, MSG_DONTWAIT));
}

static int give(int to, const int *fds, int n)
{
	union { char bytes[CMSG_SPACE(sizeof(int) * 2)]; struct cmsghdr align; } control;
	struct iovec v = { "x", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n) };
	memset(&control, 0, sizeof control);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
	memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n);
	return (int)sendmsg(to, &m, MSG_DONTWAIT);
}

/* How deep sockets lie in each other's queues, and that the innermost comes out again. */
static void depth(void)
{
	int last[2], deep = 0;
	socketpair(AF_UNIX, SOCK_DGRAM, 0, last);
	write(last[0], "inmost", 6);
	for (; deep < 300; deep++) {
		int next[2];
		socketpair(AF_UNIX, SOCK_DGRAM, 0, next);
		if (give(next[0], last + 1, 1) != 1)
			break;
		close(last[0]), close(last[1]);
		last[0] = next[0], last[1] = next[1];
	}
	SHOW(deep);
	for (; deep > 0; deep--) {
		union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control;
		struct iovec v = { &byte, 1 };
		struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
		if (recvmsg(last[1], &m, MSG_DONTWAIT) != 1)
			break;
		close(last[1]);
		memcpy(last + 1, CMSG_DATA(&control.align), sizeof(int));
	}
	char text[7] = "";
	SHOW(recv(last[1], text, 6, MSG_DONTWAIT));
	say("%s", text);
}

static void long_messages(void)
{
	int ends[2], most = 1 << 24;
	socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
	SHOW(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &most, sizeof most));
	char *bytes = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(send(ends[0], bytes, 1 << 20, MSG_DONTWAIT));
	SHOW(recv(ends[1], bytes, 8 << 20, MSG_DONTWAIT));
	SHOW(send(ends[0], bytes, 5 << 20, MSG_DONTWAIT));
	SHOW(send(ends[0], bytes, 8 << 20, MSG_DONTWAIT));
	/* Many short ones: counted, looked through, taken out. */
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends);
	SHOW(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &most, sizeof most));
	int n = 0, at = 19999;
	for (int i = 0; i < 20000; i++)
		n += send(ends[0], &byte, 1, 0) == 1;
	SHOW(n);
	SHOW(ioctl(ends[1], SIOCINQ, &n));
	SHOW(n);
	SHOW(setsockopt(ends[1], SOL_SOCKET, SO_PEEK_OFF, &at, sizeof at));
	SHOW(recv(ends[1], bytes, 10, MSG_PEEK));
	SHOW(recv(ends[1], bytes, 10, MSG_PEEK));
	SHOW(recv(ends[1], bytes, 15000, 0));
	SHOW(ioctl(ends[0], SIOCOUTQ, &n));
	SHOW(n);
	close(ends[1]);
	SHOW(recv(ends[0], bytes, 1, 0));
}

/* Twice as many as files may be open. No other limit stands in the way of root. */
static void too_many(void)
{
	char before[64];
	int fd = open("/proc/sys/fs/file-max", O_RDWR);
	long n = read(fd, before, sizeof before);
	struct rlimit many = { 10000, 10000 };
	setrlimit(RLIMIT_NOFILE, &many);
	SHOW(pwrite(fd, "1000\n", 5, 0));
	int sockets[2], made = 0, all[2500], error = 0;
	while (made < 2498) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) {
			error = errno;
			break;
		}
		all[made++] = sockets[0], all[made++] = sockets[1];
	}
	say("%s, then %s", made > 1500 && made <= 2000 ? "about 2000" : "another number", error_name(error));
	SHOW(pipe(sockets));
	for (int i = 0; i < made; i++)
		close(all[i]);
	nap(200);
	SHOW_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	SHOW(pwrite(fd, before, (size_t)n, 0) == n);
}

int main(void)
{
	section("senders");
	senders("@taken", 8);
	senders("@closed", 3);
	passed_on();
	section("connectors");
	connectors();
	section("pollers");
	pollers();
	section("depth");
	depth();
	section("sizes");
	long_messages();
	section("too many");
	too_many();
	return 0;
}
