/* Storms of Unix sockets: sockets in sockets, in cycles and in chains, connections that nobody accepts, messages that nobody reads. */
#include "storm.h"
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static char bytes[1 << 16];

static int give(int to, const int *fds, int n)
{
	union { char bytes[CMSG_SPACE(sizeof(int) * 253)]; struct cmsghdr align; } control;
	struct iovec v = { bytes, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n) };
	memset(&control, 0, sizeof control);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
	memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n);
	return sendmsg(to, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

static void drop(const int *ends) { close(ends[0]), close(ends[1]); }

static int pair(int kind, int *ends) { return socketpair(AF_UNIX, kind | SOCK_NONBLOCK, 0, ends) == 0; }

/* Each end lies in the other's queue, and nobody else has it: made and left behind without end. */
static void make_cycles(void)
{
	int a[2], b[2];
	for (;;) {
		if (!pair(SOCK_STREAM, a) || !pair(SOCK_DGRAM, b))
			break;
		give(a[0], b, 2), give(b[0], a, 2), give(a[1], a, 1);
		drop(a), drop(b);
		did();
	}
	refused(errno);
}

static void cycles(void) { crowd(3, make_cycles); }

/* As many files under way as may be, all of them the sender's own sockets. Killed like this. */
static void hold_cycle(void)
{
	int ends[2], fds[253], n = 0;
	many_descriptors();
	while (n < 252 && pair(n & 2 ? SOCK_STREAM : SOCK_SEQPACKET, fds + n))
		n += 2;
	if (!pair(SOCK_STREAM, ends))
		return;
	for (int i = 0; give(fds[i % n], fds, n); i++)
		did();
	refused(errno);
	drop(ends);
}

static void carried(void) { crowd(3, hold_cycle); }

/* A socket in a socket in a socket; then the outermost is closed. */
static void chains(void)
{
	int held[2], next[2];
	many_descriptors();
	for (;;) {
		int depth = 0;
		if (!pair(SOCK_DGRAM, held))
			break;
		while (depth < 400 && pair(SOCK_DGRAM, next) && give(next[0], held, 2)) {
			drop(held);
			held[0] = next[0], held[1] = next[1];
			depth++;
			did();
		}
		drop(held);
		if (depth < 400)
			break;
	}
	refused(errno);
}

static int listens(struct sockaddr_un *name, socklen_t *len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	*len = sizeof *name;
	name->sun_family = AF_UNIX;
	if (fd < 0 || bind(fd, (struct sockaddr *)name, sizeof name->sun_family) != 0 || listen(fd, 1 << 20) != 0 ||
	    getsockname(fd, (struct sockaddr *)name, len) != 0)
		return -1;
	return fd;
}

/* Connections of which nobody has a descriptor: the client has sent something and is gone, and nobody accepts. */
static void fill_backlogs(void)
{
	struct sockaddr_un name;
	socklen_t len;
	int fd;
	many_descriptors();
	while (listens(&name, &len) >= 0)
		for (;;) {
			fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
			if (fd < 0)
				return refused(errno);
			if (connect(fd, (struct sockaddr *)&name, len) != 0) {
				int full = errno == EAGAIN;
				if (!full)
					return refused(errno);
				close(fd);
				break;
			}
			send(fd, bytes, 100, MSG_NOSIGNAL);
			close(fd);
			did();
		}
	refused(errno);
}

static void backlogs(void) { crowd(2, fill_backlogs); }

/* Bytes that nobody reads. */
static void fill_queues(void)
{
	int ends[2];
	many_descriptors();
	while (pair(SOCK_STREAM, ends)) {
		while (send(ends[0], bytes, sizeof bytes, MSG_NOSIGNAL) > 0)
			did();
		if (errno != EAGAIN)
			break;
	}
	refused(errno);
}

static void unread(void) { crowd(3, fill_queues); }

/* Many look whether there is room in one full queue, in which there now is room and now none; others send to it and wait. */
static void lookers(void)
{
	struct sockaddr_un name = { AF_UNIX, "" };
	socklen_t len = sizeof name;
	static struct pollfd many[900];
	int receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	many_descriptors();
	if (bind(receiver, (struct sockaddr *)&name, sizeof name.sun_family) != 0 || getsockname(receiver, (struct sockaddr *)&name, &len) != 0)
		_exit(3);
	for (int i = 0; i < 900; i++) {
		many[i] = (struct pollfd){ socket(AF_UNIX, SOCK_DGRAM, 0), POLLOUT, 0 };
		if (connect(many[i].fd, (struct sockaddr *)&name, len) != 0)
			_exit(3);
	}
	for (int i = 0; i < 20; i++)
		if (must_fork() == 0) {
			close(receiver);
			while (send(many[i].fd, "x", 1, MSG_NOSIGNAL) == 1)
				did();
			_exit(0);
		}
	for (;;) {
		while (send(many[0].fd, "x", 1, MSG_DONTWAIT) == 1)
			;
		poll(many, 900, 0);
		recv(receiver, bytes, 1, 0);
		did();
	}
}

/* Names, as many as there are descriptors for, in four processes. */
static void take_names(void)
{
	struct sockaddr_un name;
	socklen_t len;
	many_descriptors();
	while (listens(&name, &len) >= 0)
		did();
	refused(errno);
}

static void socket_names(void) { crowd(4, take_names); }

const struct storm socket_storms[] = {
	{ "cycles", cycles, UNBOUNDED, 300, 600, 0 },
	{ "carried", carried, ETOOMANYREFS, 10, 900, 0 },
	{ "chains", chains, UNBOUNDED, 1000, 600, 0 },
	{ "backlogs", backlogs, ENFILE, 5000, 3000, 0 },
	{ "unread", unread, ENOMEM, 500, 3000, 0 },
	{ "lookers", lookers, UNBOUNDED, 50, 600, 0 },
	{ "socket-names", socket_names, EMFILE, 2000, 3000, 0 },
	{ 0 },
};
