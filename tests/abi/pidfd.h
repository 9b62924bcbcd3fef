/* What the programs about descriptors of processes and of threads share: the calls, and what poll and waitid tell of one. */
#ifndef PIDFD_H
#define PIDFD_H

#include "t.h"

#include <poll.h>

#define OPEN(pid, flags) ((int)syscall(434, pid, flags))
#define SEND(fd, signal, info, flags) syscall(424, fd, signal, info, flags)
#define GETFD(fd, number, flags) ((int)syscall(438, fd, number, flags))
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
#define ID_PIDFD 3

static const char *ready(int fd, int wait)
{
	struct pollfd p = { fd, POLLIN | POLLOUT | POLLPRI, 0 };
	int n = poll(&p, 1, wait);
	static char text[64];
	snprintf(text, sizeof text, "%d%s%s%s%s", n, p.revents & POLLIN ? " in" : "", p.revents & POLLHUP ? " hup" : "", p.revents & POLLOUT ? " out" : "", p.revents & POLLERR ? " err" : "");
	return text;
}

static void waited(int fd, int options)
{
	siginfo_t info;
	memset(&info, 0, sizeof info);
	errno = 0;
	long n = syscall(SYS_waitid, ID_PIDFD, fd, &info, options, NULL);
	say("waitid: %ld %s, code %d, status %d", n, error_name(errno), info.si_code, info.si_status);
}

/* A group whose leader has ended, and the one member that stays. */
static pid_t group_without_leader(pid_t *leader)
{
	int ends[2];
	pipe(ends);
	*leader = must_fork();
	if (*leader == 0) {
		setpgid(0, 0);
		pid_t member = parked(NULL);
		write(ends[1], &member, sizeof member);
		_exit(0);
	}
	pid_t member = 0;
	read(ends[0], &member, sizeof member);
	close(ends[0]), close(ends[1]);
	return member;
}

#endif
