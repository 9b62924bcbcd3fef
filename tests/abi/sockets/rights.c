/* Files and credentials in messages: SCM_RIGHTS, SCM_CREDENTIALS, SCM_PIDFD, truncation, limits, cycles, who the peer is. */
#include "s.h"

#include <sys/resource.h>

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#define SO_PEERPIDFD 77
#endif
#ifndef SCM_PIDFD
#define SCM_PIDFD 4
#endif

static char data[4096];

static long give(int to, const char *text, const int *fds, int count, int flags)
{
	union { char bytes[CMSG_SPACE(sizeof(int) * 300)]; struct cmsghdr align; } control;
	memset(&control, 0, sizeof control);
	struct iovec v = { (void *)text, strlen(text) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	if (count >= 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)count);
	}
	return sendmsg(to, &m, flags);
}

static long give_ids(int to, pid_t pid, uid_t uid, gid_t gid)
{
	union { char bytes[CMSG_SPACE(sizeof(struct ucred))]; struct cmsghdr align; } control;
	memset(&control, 0, sizeof control);
	struct iovec v = { "ids", 3 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_CREDENTIALS, c->cmsg_len = CMSG_LEN(sizeof(struct ucred));
	memcpy(CMSG_DATA(c), &(struct ucred) { pid, uid, gid }, sizeof(struct ucred));
	return sendmsg(to, &m, MSG_DONTWAIT);
}

static int got[300], got_count;
static pid_t root;

/* Receives, and tells what came; the descriptors are in `got`. */
static long take(int from, size_t room, size_t control_room, int flags)
{
	static union { char bytes[4096]; struct cmsghdr align; } control;
	memset(&control, 0, sizeof control);
	memset(data, 0, sizeof data);
	struct iovec v = { data, room };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control_room ? control.bytes : 0, .msg_controllen = control_room };
	got_count = 0;
	errno = 0;
	long n = recvmsg(from, &m, flags | MSG_DONTWAIT);
	say("%ld %s \"%s\", flags %#x, control %ld", n, error_name(errno), data, n < 0 ? 0 : m.msg_flags, n < 0 ? 0 : (long)m.msg_controllen);
	if (n < 0)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		say("  level %d, type %d, length %ld", c->cmsg_level, c->cmsg_type, (long)c->cmsg_len);
		if (c->cmsg_type == SCM_RIGHTS) {
			got_count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(got, CMSG_DATA(c), sizeof(int) * (size_t)got_count);
			for (int i = 0; i < got_count && i < 3; i++)
				say("  descriptor: %s, FD_CLOEXEC %d", fcntl(got[i], F_GETFD) >= 0 ? "open" : "none", fcntl(got[i], F_GETFD));
		} else if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len >= CMSG_LEN(sizeof(struct ucred))) {
			struct ucred who;
			memcpy(&who, CMSG_DATA(c), sizeof who);
			say("  pid %s, uid %d, gid %d", who.pid == getpid() ? "own" : who.pid == root ? "first" : who.pid ? "other" : "0", who.uid, who.gid);
		} else if (c->cmsg_type == SCM_PIDFD) {
			int fd;
			memcpy(&fd, CMSG_DATA(c), sizeof fd);
			say("  pidfd: %s", fcntl(fd, F_GETFD) == FD_CLOEXEC ? "closed by exec" : "?");
			close(fd);
		}
	}
	return n;
}

static void drop(void)
{
	for (int i = 0; i < got_count; i++)
		close(got[i]);
	got_count = 0;
}

static void files(int kind)
{
	int ends[2], pipes[2];
	socketpair(AF_UNIX, kind, 0, ends);
	pipe(pipes);
	SHOW(give(ends[0], "file", pipes, 1, 0));
	SHOW(close(pipes[0]));
	SHOW(write(pipes[1], "through", 7));
	SHOW(take(ends[1], 100, 200, MSG_PEEK));
	drop();
	SHOW(take(ends[1], 100, 200, MSG_CMSG_CLOEXEC));
	SHOW(read(got[0], data, 100));
	drop();
	signal(SIGPIPE, SIG_IGN);
	SHOW(write(pipes[1], "x", 1));
	/* What nobody receives is closed. */
	pipe(pipes);
	SHOW(give(ends[0], "lost", pipes, 2, 0));
	close(pipes[1]);
	SHOW(read(ends[1], data, 2));
	SHOW(recv(ends[1], data, 100, MSG_DONTWAIT));
	SHOW(read(pipes[0], data, 1));
	/* Room for some, for none, and no place for any. */
	int many[5] = { 0, 1, 2, 0, 1 };
	SHOW(give(ends[0], "some", many, 5, 0));
	SHOW(take(ends[1], 100, CMSG_LEN(8), 0));
	drop();
	SHOW(give(ends[0], "none", many, 5, 0));
	SHOW(take(ends[1], 100, CMSG_LEN(3), 0));
	SHOW(give(ends[0], "no place", many, 5, 0));
	SHOW(take(ends[1], 100, 0, 0));
	SHOW(give(ends[0], "short", many, 1, 0));
	SHOW(take(ends[1], 100, 10, 0));
	/* Bytes around files. */
	SHOW(give(ends[0], "plain", 0, -1, 0));
	SHOW(give(ends[0], "one", many, 1, 0));
	SHOW(give(ends[0], "two", many, 2, 0));
	SHOW(give(ends[0], "after", 0, -1, 0));
	SHOW(take(ends[1], 7, 200, 0));
	drop();
	SHOW(take(ends[1], 100, 200, 0));
	drop();
	SHOW(take(ends[1], 100, 200, 0));
	drop();
	SHOW(take(ends[1], 100, 200, 0));
	drop();
	/* What is wrong. */
	many[1] = 999;
	SHOW(give(ends[0], "bad", many, 2, 0));
	many[1] = -1;
	SHOW(give(ends[0], "bad", many, 2, 0));
	int lots[300];
	for (int i = 0; i < 300; i++)
		lots[i] = 0;
	SHOW(give(ends[0], "253", lots, 253, 0));
	SHOW(give(ends[0], "254", lots, 254, 0));
	SHOW(give(ends[0], "0", lots, 0, 0));
	SHOW(take(ends[1], 3, 4096, 0));
	SHOW(got_count);
	drop();
	SHOW(take(ends[1], 100, 4096, 0));
	SHOW(give(ends[0], "", lots, 1, 0));
	SHOW(take(ends[1], 100, 4096, 0));
	drop();
	close(ends[1]);
	SHOW(give(ends[0], "closed", lots, 1, MSG_NOSIGNAL));
	int path_only = open("/", O_PATH);
	socketpair(AF_UNIX, kind, 0, ends);
	SHOW(give(ends[0], "path", &path_only, 1, 0));
	SHOW(take(ends[1], 100, 4096, 0));
	SHOW(fcntl(got[0], F_GETFL) & O_PATH ? 1 : 0);
	drop();
}

static void control(void)
{
	section("control messages");
	int ends[2];
	socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
	union { char bytes[200]; struct cmsghdr align; } control;
	struct iovec v = { "x", 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes };
	struct cmsghdr *c = &control.align;
	memset(&control, 0, sizeof control);
	static const struct { int level, type; size_t len, room; } tries[] = {
		{ SOL_SOCKET, SCM_RIGHTS, 20, 24 }, { SOL_SOCKET, SCM_RIGHTS, 20, 20 }, { SOL_SOCKET, SCM_RIGHTS, 16, 24 },
		{ SOL_SOCKET, SCM_RIGHTS, 18, 24 }, { SOL_SOCKET, SCM_RIGHTS, 15, 24 }, { SOL_SOCKET, SCM_RIGHTS, 0, 24 },
		{ SOL_SOCKET, SCM_RIGHTS, 25, 24 }, { SOL_SOCKET, 77, 20, 24 }, { 41, 77, 20, 24 }, { 41, 77, 0, 24 },
		{ SOL_SOCKET, SCM_CREDENTIALS, 20, 24 }, { SOL_SOCKET, SCM_CREDENTIALS, 29, 40 }, { SOL_SOCKET, SCM_RIGHTS, 20, 15 },
		{ SOL_SOCKET, SCM_RIGHTS, 20, 8 },
	};
	for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
		c->cmsg_level = tries[i].level, c->cmsg_type = tries[i].type, c->cmsg_len = tries[i].len;
		m.msg_controllen = tries[i].room;
		errno = 0;
		say("%zu: %ld %s", i, (long)sendmsg(ends[0], &m, 0), error_name(errno));
		while (recv(ends[1], data, 1, MSG_DONTWAIT) == 1)
			;
	}
	m.msg_controllen = 24;
	m.msg_control = (void *)16;
	SHOW(sendmsg(ends[0], &m, 0));
	m.msg_control = 0;
	SHOW(sendmsg(ends[0], &m, 0));
	m.msg_controllen = 0;
	m.msg_iovlen = 1025;
	SHOW(sendmsg(ends[0], &m, 0));
	SHOW(recvmsg(ends[0], &m, 0));
	m.msg_iovlen = 1;
	SHOW(syscall(SYS_sendmsg, ends[0], 16, 0));
	SHOW(syscall(SYS_recvmsg, ends[0], 16, MSG_DONTWAIT));
	SHOW(sendmsg(ends[0], &m, (int)0x80000000));
	SHOW(recvmsg(ends[0], &m, (int)0x80000000));
}

static void ids(void)
{
	section("credentials");
	int ends[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	write(ends[0], "before", 6);
	SHOW(set_option(ends[1], SO_PASSCRED, 1));
	write(ends[0], "after", 5);
	pid_t child = must_fork();
	if (child == 0) {
		write(ends[0], "child", 5);
		setgid(1000);
		setuid(1001);
		write(ends[0], "user", 4);
		SHOW(give_ids(ends[0], getpid(), 1001, 1000));
		SHOW(give_ids(ends[0], getppid(), 1001, 1000));
		SHOW(give_ids(ends[0], getpid(), 0, 1000));
		SHOW(give_ids(ends[0], getpid(), 1001, 0));
		SHOW(give_ids(ends[0], getpid(), (uid_t)-1, 1000));
		_exit(0);
	}
	wait_for(child);
	for (int i = 0; i < 6; i++)
		SHOW(take(ends[1], 100, 200, 0));
	SHOW(give_ids(ends[0], getpid(), 7, 8));
	SHOW(give_ids(ends[0], 1, 0, 0));
	SHOW(give_ids(ends[0], 999999, 0, 0));
	SHOW(take(ends[1], 100, 200, 0));
	SHOW(take(ends[1], 100, 20, 0));
	write(ends[0], "no place", 8);
	SHOW(take(ends[1], 100, 0, 0));
	SHOW(set_option(ends[1], SO_PASSPIDFD, 1));
	int fd = 1;
	SHOW(give(ends[0], "all", &fd, 1, 0));
	SHOW(take(ends[1], 100, 200, 0));
	drop();
	SHOW(option(ends[1], SO_PASSCRED));
	SHOW(option(ends[0], SO_PASSCRED));
	/* A datagram tells who sent it, and a socket that asks has a name. */
	socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
	write(ends[0], "untold", 6);
	SHOW(set_option(ends[1], SO_PASSCRED, 1));
	write(ends[0], "told", 4);
	SHOW(take(ends[1], 100, 200, 0));
	SHOW(take(ends[1], 100, 200, 0));
	write(ends[1], "x", 1);
	struct sockaddr_un name;
	socklen_t len = sizeof name;
	SHOW(getsockname(ends[1], (struct sockaddr *)&name, &len));
	SHOW(len);
}

static void show_peer(const char *what, int fd)
{
	struct ucred who = { -7, 7, 7 };
	socklen_t len = sizeof who;
	int r = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len);
	say("%s: %d, length %u, pid %s, uid %d, gid %d", what, r, len, who.pid == getpid() ? "own" : who.pid == 0 ? "0" : "other", (int)who.uid, (int)who.gid);
}

static void peers(void)
{
	section("peers");
	int ends[2];
	show_peer("alone", socket(AF_UNIX, SOCK_STREAM, 0));
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	show_peer("pair", ends[0]);
	int l = listener(SOCK_STREAM, "@peers", 3);
	show_peer("listener", l);
	pid_t child = must_fork();
	if (child == 0) {
		setgid(1000);
		setuid(1001);
		int s = connected(SOCK_STREAM, "@peers");
		show_peer("child sees", s);
		write(s, "x", 1);
		read(s, data, 1);
		_exit(0);
	}
	int a = accept(l, 0, 0);
	read(a, data, 1);
	show_peer("accepted", a);
	int value = -1;
	socklen_t len = sizeof value;
	SHOW(getsockopt(a, SOL_SOCKET, SO_PEERPIDFD, &value, &len));
	CHECK(fcntl(value, F_GETFD) == FD_CLOEXEC);
	gid_t groups[3] = { 5, 6, 7 }, told[8] = { 0 };
	write(a, "x", 1);
	wait_for(child);
	show_peer("gone", a);
	SHOW(getsockopt(a, SOL_SOCKET, SO_PEERPIDFD, &value, &len));
	SHOW(setgroups(3, groups));
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	len = sizeof told;
	SHOW(getsockopt(ends[0], SOL_SOCKET, SO_PEERGROUPS, told, &len));
	say("%u: %d %d %d", len, told[0], told[1], told[2]);
	len = 4;
	SHOW(getsockopt(ends[0], SOL_SOCKET, SO_PEERGROUPS, told, &len));
	SHOW(len);
}

static void limits(void)
{
	section("limits");
	int ends[2], fds[50];
	pid_t child = must_fork();
	if (child == 0) {
		struct rlimit few = { 40, 40 };
		SHOW(setrlimit(RLIMIT_NOFILE, &few));
		socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
		for (int i = 0; i < 50; i++)
			fds[i] = 0;
		SHOW(give(ends[0], "many", fds, 50, 0));
		SHOW(take(ends[1], 100, 4096, 0));
		SHOW(got_count);
		drop();
		setgid(1000);
		setuid(1002);
		SHOW(give(ends[0], "30", fds, 30, 0));
		SHOW(give(ends[0], "10", fds, 10, 0));
		SHOW(give(ends[0], "1", fds, 1, 0));
		SHOW(give(ends[0], "1", fds, 1, 0));
		SHOW(take(ends[1], 100, 4096, 0));
		drop();
		SHOW(give(ends[0], "1", fds, 1, 0));
		_exit(0);
	}
	wait_for(child);
}

/* Sockets that only messages in each other's queues refer to: a pipe whose end they hold is closed, sooner or later. */
static void cycles(void)
{
	section("cycles");
	int pipes[2];
	for (int round = 0; round < 3; round++) {
		pipe(pipes);
		int a[2], b[2];
		socketpair(AF_UNIX, SOCK_STREAM, 0, a);
		socketpair(AF_UNIX, SOCK_DGRAM, 0, b);
		if (round == 0) {
			int both[2] = { a[1], pipes[1] };
			give(a[0], "itself", both, 2, 0);
		} else if (round == 1) {
			int one[2] = { a[1], pipes[1] }, two[2] = { b[1], a[0] };
			give(b[0], "across", one, 2, 0);
			give(a[0], "back", two, 2, 0);
		} else {
			int l = listener(SOCK_STREAM, "@cycle", 3);
			int c = connected(SOCK_STREAM, "@cycle");
			int all[3] = { l, c, pipes[1] };
			give(c, "waiting", all, 3, 0);
			close(l);
			close(c);
		}
		close(a[0]), close(a[1]), close(b[0]), close(b[1]), close(pipes[1]);
		/* Any close of a socket looks. */
		char byte;
		fcntl(pipes[0], F_SETFL, O_NONBLOCK);
		for (int i = 0; i < 200 && read(pipes[0], &byte, 1) < 0; i++) {
			socketpair(AF_UNIX, SOCK_STREAM, 0, a);
			close(a[0]), close(a[1]);
			nap(5);
		}
		SHOW(read(pipes[0], &byte, 1));
		close(pipes[0]);
	}
	/* A long chain, each in the queue of the next. */
	int last = -1;
	for (int i = 0; i < 2000; i++) {
		int a[2];
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, a))
			break;
		if (last >= 0) {
			give(a[0], "x", &last, 1, 0);
			close(last);
		}
		close(a[0]);
		last = a[1];
	}
	SHOW(close(last));
	/* What can be reached stays. */
	int a[2], b[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, a);
	socketpair(AF_UNIX, SOCK_STREAM, 0, b);
	give(a[0], "b", b, 2, 0);
	give(b[0], "in b", a, 1, 0);
	close(b[0]), close(b[1]);
	for (int i = 0; i < 5; i++) {
		int c[2];
		socketpair(AF_UNIX, SOCK_STREAM, 0, c);
		close(c[0]), close(c[1]);
	}
	SHOW(take(a[1], 100, 200, 0));
	SHOW(recv(got[1], data, 100, MSG_DONTWAIT));
}

int main(void)
{
	root = getpid();
	section("streams");
	files(SOCK_STREAM);
	section("datagrams");
	files(SOCK_DGRAM);
	control();
	ids();
	peers();
	limits();
	cycles();
	return 0;
}
