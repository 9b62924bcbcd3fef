/* longest: sockets, of which a program chooses how many look at one, wait for one, lie in one. */
#include "longest.h"
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { MANY = 3500 };

static struct sockaddr_un name;
static socklen_t name_len;

static int named(int kind)
{
	int fd = socket(AF_UNIX, kind | SOCK_NONBLOCK, 0);
	name.sun_family = AF_UNIX;
	name_len = sizeof name;
	if (bind(fd, (struct sockaddr *)&name, sizeof name.sun_family) != 0 || getsockname(fd, (struct sockaddr *)&name, &name_len) != 0)
		cannot();
	return fd;
}

static int connected(int kind)
{
	int fd = socket(AF_UNIX, kind, 0);
	if (connect(fd, (struct sockaddr *)&name, name_len) != 0)
		cannot();
	return fd;
}

static void more_descriptors(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int full(void)
{
	int fd = named(SOCK_DGRAM), sender = connected(SOCK_DGRAM);
	while (send(sender, "x", 1, MSG_DONTWAIT) == 1)
		;
	return fd;
}

/* All look at one queue that is full; then a message is taken out of it. */
static void socket_lookers(void)
{
	static struct pollfd all[MANY];
	more_descriptors();
	int fd = full();
	for (int i = 0; i < MANY; i++)
		all[i] = (struct pollfd){ connected(SOCK_DGRAM), POLLOUT, 0 };
	poll(all, MANY, 0);
	char byte;
	if (recv(fd, &byte, 1, 0) != 1 || poll(all, MANY, 0) <= 0)
		cannot();
	/* And a close, with all of them there again. */
	while (send(all[0].fd, "x", 1, MSG_DONTWAIT) == 1)
		;
	poll(all, MANY, 0);
	close(fd);
}

static int receiver;

static void *sends(void *unused)
{
	(void)unused;
	send(connected(SOCK_DGRAM), "x", 1, MSG_NOSIGNAL);
	return 0;
}

/* Threads wait until there is room. */
static void socket_waiters(void)
{
	more_descriptors();
	receiver = full();
	threads(sends, 0);
	char byte;
	recv(receiver, &byte, 1, 0);
	close(receiver);
}

static int give(int to, const int *fds, int n)
{
	union { char bytes[CMSG_SPACE(sizeof(int) * 253)]; struct cmsghdr align; } control;
	struct iovec v = { "x", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n) };
	memset(&control, 0, sizeof control);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
	memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n);
	return sendmsg(to, &m, MSG_DONTWAIT) == 1;
}

/* As many sockets in messages as may be, which nobody can receive: the close of one more finds them. */
static void socket_cycles(void)
{
	int fds[252];
	more_descriptors();
	for (int i = 0; i < 252; i += 2)
		socketpair(AF_UNIX, SOCK_STREAM, 0, fds + i);
	for (int i = 0; give(fds[i % 252], fds, 252); i++)
		;
	for (int i = 0; i < 252; i++)
		close(fds[i]);
	for (int i = 0; i < 20; i++)
		close(socket(AF_UNIX, SOCK_STREAM, 0));
}

/* A listener goes, to whom thousands have connected and sent something. */
static void socket_backlog(void)
{
	more_descriptors();
	int fd = named(SOCK_STREAM);
	if (listen(fd, MANY) != 0)
		cannot();
	for (int i = 0; i < MANY; i++) {
		int client = connected(SOCK_STREAM);
		send(client, "x", 1, 0);
		close(client);
	}
	close(fd);
}

static void socket_list(void)
{
	static char text[1 << 20];
	more_descriptors();
	for (int i = 0; i < MANY; i++)
		named(SOCK_DGRAM);
	int fd = open("/proc/net/unix", O_RDONLY);
	while (read(fd, text, sizeof text) > 0)
		;
}

/* By root: a buffer in which tens of thousands of messages lie; counted, looked through, taken out and dropped. */
static void socket_queue(void)
{
	int ends[2], most = 1 << 27, n = 0;
	char byte;
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends);
	if (setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &most, sizeof most) != 0)
		cannot();
	for (int i = 0; i < 40000; i++)
		if (send(ends[0], "x", 1, 0) != 1)
			cannot();
	syscall(SYS_ioctl, ends[1], 0x541b, &n);
	int at = 39999;
	setsockopt(ends[1], SOL_SOCKET, 42, &at, sizeof at);
	if (n != 40000 || recv(ends[1], &byte, 1, MSG_PEEK) != 1)
		cannot();
	static char room[20000];
	if (recv(ends[1], room, sizeof room, 0) != sizeof room)
		cannot();
	close(ends[1]);
}

const struct call socket_calls[] = {
	CASE(socket_lookers), CASE(socket_waiters), CASE(socket_cycles), CASE(socket_backlog), CASE(socket_list), { 0 },
};
const struct call socket_root_calls[] = { CASE(socket_queue), { 0 } };
