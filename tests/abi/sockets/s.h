/* What the programs about sockets share. */
#ifndef S_H
#define S_H
#include "t.h"

#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#ifndef SIOCOUTQ
#define SIOCOUTQ TIOCOUTQ
#endif
#ifndef SIOCINQ
#define SIOCINQ FIONREAD
#endif

/* The calls themselves: musl's functions copy what they are given, and so read what no kernel would. */
#define sendmsg(fd, m, flags) syscall(SYS_sendmsg, fd, m, flags)
#define recvmsg(fd, m, flags) syscall(SYS_recvmsg, fd, m, flags)
#define sendmmsg(fd, m, n, flags) syscall(SYS_sendmmsg, fd, m, n, flags)
#define recvmmsg(fd, m, n, flags, time) syscall(SYS_recvmmsg, fd, m, n, flags, time)

/* The address of a path, or where the text begins with '@' of an abstract name; its length. */
static inline socklen_t name_of(struct sockaddr_un *name, const char *text)
{
	memset(name, 0, sizeof *name);
	name->sun_family = AF_UNIX;
	strncpy(name->sun_path, text, sizeof name->sun_path - 1);
	if (text[0] == '@')
		name->sun_path[0] = 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(text) + (text[0] != '@'));
}

static inline int bind_to(int fd, const char *text)
{
	struct sockaddr_un name;
	socklen_t len = name_of(&name, text);
	return bind(fd, (struct sockaddr *)&name, len);
}

static inline int connect_to(int fd, const char *text)
{
	struct sockaddr_un name;
	socklen_t len = name_of(&name, text);
	return connect(fd, (struct sockaddr *)&name, len);
}

/* A socket that listens at a name. */
static inline int listener(int kind, const char *text, int backlog)
{
	int fd = socket(AF_UNIX, kind, 0);
	if (bind_to(fd, text) || listen(fd, backlog))
		say("listener %s: %s", text, error_name(errno));
	return fd;
}

static inline int connected(int kind, const char *text)
{
	int fd = socket(AF_UNIX, kind, 0);
	if (connect_to(fd, text))
		say("connect %s: %s", text, error_name(errno));
	return fd;
}

/* A name as it is told, with its length. */
static inline void say_name(const char *what, const struct sockaddr_un *name, socklen_t len)
{
	char text[256];
	size_t n = 0;
	for (size_t i = 0; i + offsetof(struct sockaddr_un, sun_path) < len && i < sizeof name->sun_path; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, name->sun_path[i] >= 32 ? "%c" : "\\%d", name->sun_path[i]);
	text[n] = 0;
	say("%s: length %u, family %d, \"%s\"", what, len, len >= 2 ? name->sun_family : -1, text);
}

static inline void show_names(int fd)
{
	struct sockaddr_un name;
	socklen_t len = sizeof name;
	memset(&name, 0, sizeof name);
	if (getsockname(fd, (struct sockaddr *)&name, &len))
		say("getsockname: %s", error_name(errno));
	else
		say_name("own name", &name, len);
	len = sizeof name;
	memset(&name, 0, sizeof name);
	if (getpeername(fd, (struct sockaddr *)&name, &len))
		say("getpeername: %s", error_name(errno));
	else
		say_name("peer's name", &name, len);
}

/* What poll says of a descriptor now. */
static inline void show_poll(const char *what, int fd)
{
	struct pollfd p = { fd, POLLIN | POLLPRI | POLLOUT | POLLRDHUP | POLLRDNORM | POLLWRNORM | POLLWRBAND, 0 };
	int n = poll(&p, 1, 0);
	say("%s: %d%s%s%s%s%s%s%s%s%s", what, n, p.revents & POLLIN ? " IN" : "", p.revents & POLLPRI ? " PRI" : "",
	    p.revents & POLLOUT ? " OUT" : "", p.revents & POLLERR ? " ERR" : "", p.revents & POLLHUP ? " HUP" : "",
	    p.revents & POLLRDHUP ? " RDHUP" : "", p.revents & POLLRDNORM ? " RDNORM" : "",
	    p.revents & POLLWRNORM ? " WRNORM" : "", p.revents & POLLWRBAND ? " WRBAND" : "");
}

static inline int option(int fd, int which)
{
	int value = -12345;
	socklen_t len = sizeof value;
	if (getsockopt(fd, SOL_SOCKET, which, &value, &len))
		return -errno;
	return value;
}

static inline int set_option(int fd, int which, int value)
{
	return setsockopt(fd, SOL_SOCKET, which, &value, sizeof value);
}
#endif
