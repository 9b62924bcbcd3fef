/* Unix sockets. Each worker has a pair, or a name, of its own; one object: all workers on the two ends of one pair. */
#include "calls.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

static void s_kind(struct work *w, int kind)
{
	int ends[2];
	ok(w, socketpair(AF_UNIX, kind, 0, ends));
	w->fd = ends[0], w->fd2 = ends[1];
}

static void s_stream(struct work *w)
{
	s_kind(w, SOCK_STREAM);
}

static void s_datagram(struct work *w)
{
	s_kind(w, SOCK_DGRAM);
}

/* The worker's name: abstract, or a path in its directory. */
static socklen_t name_of(struct work *w, struct sockaddr_un *name, int is_path)
{
	memset(name, 0, sizeof *name);
	name->sun_family = AF_UNIX;
	int n = is_path ? snprintf(name->sun_path, sizeof name->sun_path, "%s/s", w->dir)
	                : 1 + snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "calls %d %u", (int)getpid(), w->i);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + (is_path ? 1 : 0));
}

static void s_listener(struct work *w)
{
	struct sockaddr_un *name = (struct sockaddr_un *)(w->buf + 512);
	s_dir(w);
	w->len = name_of(w, name, w->k->v[0] == 1);
	if (w->k->v[0] == 1)
		unlink(name->sun_path); /* of an earlier window */
	w->fd = (int)ok(w, socket(AF_UNIX, SOCK_STREAM, 0));
	ok(w, bind(w->fd, (struct sockaddr *)name, (socklen_t)w->len));
	ok(w, listen(w->fd, 16));
}

static long op_socket(struct work *w)
{
	return close((int)ok(w, syscall(SYS_socket, AF_UNIX, w->k->v[0], 0)));
}

static long op_socketpair(struct work *w)
{
	int ends[2];
	ok(w, syscall(SYS_socketpair, AF_UNIX, w->k->v[0], 0, ends));
	return close(ends[0]) + close(ends[1]);
}

static long op_through(struct work *w)
{
	ok(w, write(w->fd2, w->buf, (size_t)w->k->v[0]));
	return ok(w, read(w->fd, w->buf, (size_t)w->k->v[0]));
}

static long op_sendto(struct work *w)
{
	ok(w, syscall(SYS_sendto, w->fd2, w->buf, w->k->v[0], 0, 0, 0));
	return ok(w, syscall(SYS_recvfrom, w->fd, w->buf, w->k->v[0], 0, 0, 0));
}

static long op_sendmsg(struct work *w)
{
	struct iovec v = { w->buf, 64 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	ok(w, syscall(SYS_sendmsg, w->fd2, &m, 0));
	return ok(w, syscall(SYS_recvmsg, w->fd, &m, 0));
}

static long op_sendmmsg(struct work *w)
{
	struct iovec v[2] = { { w->buf, 64 }, { w->buf, 64 } };
	struct mmsghdr m[2];
	memset(m, 0, sizeof m);
	for (int i = 0; i < 2; i++)
		m[i].msg_hdr.msg_iov = &v[i], m[i].msg_hdr.msg_iovlen = 1;
	ok(w, syscall(SYS_sendmmsg, w->fd2, m, 2, 0));
	return ok(w, syscall(SYS_recvmmsg, w->fd, m, 2, 0, 0));
}

/* A descriptor goes with the bytes, and the new one is closed. */
static long op_rights(struct work *w)
{
	union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control;
	memset(&control, 0, sizeof control);
	struct iovec v = { w->buf, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
	int fd = w->k->v[0] ? w->fd : (int)w->x[0];
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	ok(w, syscall(SYS_sendmsg, w->fd2, &m, 0));
	ok(w, syscall(SYS_recvmsg, w->fd, &m, 0));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	return close(fd);
}

static void s_rights(struct work *w)
{
	int ends[2];
	s_stream(w);
	ok(w, pipe(ends));
	w->x[0] = ends[0];
}

static long op_connect(struct work *w)
{
	int fd = (int)ok(w, socket(AF_UNIX, SOCK_STREAM, 0));
	ok(w, syscall(SYS_connect, fd, w->buf + 512, w->len));
	int end = (int)ok(w, w->k->v[1] ? syscall(SYS_accept4, w->fd, 0, 0, SOCK_CLOEXEC) : syscall(SYS_accept, w->fd, 0, 0));
	return close(fd) + close(end);
}

static long op_bind(struct work *w)
{
	struct sockaddr_un *name = (struct sockaddr_un *)(w->buf + 512);
	int fd = (int)ok(w, socket(AF_UNIX, SOCK_DGRAM, 0));
	socklen_t len = name_of(w, name, w->k->v[0] == 1);
	ok(w, syscall(SYS_bind, fd, name, len));
	if (w->k->v[0] == 1)
		ok(w, unlink(name->sun_path));
	return close(fd);
}

static long op_shutdown(struct work *w)
{
	return ok(w, syscall(SYS_shutdown, w->fd, SHUT_RD));
}

static long op_name(struct work *w)
{
	struct sockaddr_un name;
	socklen_t len = sizeof name;
	return ok(w, syscall(w->k->v[0] ? SYS_getpeername : SYS_getsockname, w->fd, &name, &len));
}

static long op_getsockopt(struct work *w)
{
	char room[16];
	socklen_t len = sizeof room;
	return ok(w, syscall(SYS_getsockopt, w->fd, SOL_SOCKET, w->k->v[0], room, &len));
}

static long op_setsockopt(struct work *w)
{
	int one = 1;
	return ok(w, syscall(SYS_setsockopt, w->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one));
}

static long op_poll(struct work *w)
{
	struct { int fd; short events, revents; } p = { w->fd, 4, 0 };
	return ok(w, syscall(SYS_poll, &p, 1, 0));
}

const struct kase sockets[] = {
	OP("socket-stream", socket, PT, 0, op_socket, SOCK_STREAM),
	OP("socket-datagram", socket, PT, 0, op_socket, SOCK_DGRAM),
	FAILS("socket-family", socket, PT, 0, EAFNOSUPPORT, 45, SOCK_STREAM, 0),
	OP("socketpair-stream", socketpair, PT, 0, op_socketpair, SOCK_STREAM),
	OP("socketpair-datagram", socketpair, PT, 0, op_socketpair, SOCK_DGRAM),
	OP("socket-through", write, PT, s_stream, op_through, 512),
	OP("socket-through-byte", write, PT, s_stream, op_through, 1),
	OP("sendto-stream", sendto, PT, s_stream, op_sendto, 512),
	OP("recvfrom-datagram", recvfrom, PT, s_datagram, op_sendto, 64),
	FAILS("recvfrom-empty", recvfrom, PT, s_stream, EAGAIN, FD, BUF(0), 64, 0x40, 0, 0),
	OP("sendmsg-stream", sendmsg, PT, s_stream, op_sendmsg),
	OP("recvmsg-datagram", recvmsg, PT, s_datagram, op_sendmsg),
	OP("sendmsg-rights", sendmsg, PT, s_rights, op_rights, 0),
	OP("sendmmsg", sendmmsg, PT, s_datagram, op_sendmmsg),
	OP("recvmmsg", recvmmsg, PT, s_datagram, op_sendmmsg),
	OP("connect-accept", connect, PT, s_listener, op_connect, 0, 0),
	OP("accept", accept, PT, s_listener, op_connect, 0, 0),
	OP("accept4", accept4, PT, s_listener, op_connect, 0, 1),
	OP("connect-path", connect, PT, s_listener, op_connect, 1, 0),
	OP("bind-abstract", bind, PT, s_dir, op_bind, 0),
	OP("bind-path", bind, PT, s_dir, op_bind, 1),
	RAW("listen", listen, PT, s_listener, FD, 16),
	OP("shutdown", shutdown, PT, s_datagram, op_shutdown),
	OP("getsockname", getsockname, PT, s_stream, op_name, 0),
	OP("getpeername", getpeername, PT, s_stream, op_name, 1),
	OP("getsockopt-type", getsockopt, PT, s_stream, op_getsockopt, SO_TYPE),
	OP("getsockopt-peercred", getsockopt, PT, s_stream, op_getsockopt, SO_PEERCRED),
	OP("setsockopt", setsockopt, PT, s_stream, op_setsockopt),
	OP("poll-socket", poll, PT, s_stream, op_poll),
	END
};
