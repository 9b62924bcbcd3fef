/* Signals read as a file. */
#include "t.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/time.h>

static sigset_t set_of(int a, int b, int c)
{
	sigset_t set;
	sigemptyset(&set);
	if (a)
		sigaddset(&set, a);
	if (b)
		sigaddset(&set, b);
	if (c)
		sigaddset(&set, c);
	return set;
}

static struct signalfd_siginfo info[8];

static void show(int fd)
{
	memset(info, 0x55, sizeof info);
	errno = 0;
	long got = read(fd, info, sizeof info);
	if (got < 0) {
		say("read: %s", error_name(errno));
		return;
	}
	say("read %ld", got);
	for (long i = 0; i < got / (long)sizeof *info; i++)
		say("  %s errno %d code %d mine %d uid %u int %d overrun %u status %d rest %d", signal_name((int)info[i].ssi_signo),
		    info[i].ssi_errno, info[i].ssi_code, (pid_t)info[i].ssi_pid == getpid(), info[i].ssi_uid, info[i].ssi_int,
		    info[i].ssi_overrun, info[i].ssi_status, info[i].ssi_fd == 0 && info[i].ssi_band == 0 && info[i].ssi_trapno == 0);
}

static void readiness(int fd)
{
	struct pollfd ready = { fd, POLLIN | POLLOUT, 0 };
	int n = poll(&ready, 1, 0);
	say("poll %d revents %#x", n, (unsigned)ready.revents);
}

int main(void)
{
	section("errors");
	sigset_t set = set_of(SIGUSR1, SIGUSR2, SIGRTMIN + 1);
	sigprocmask(SIG_BLOCK, &set, 0);
	SHOW(syscall(SYS_signalfd4, -1, &set, 4, 0));
	SHOW(syscall(SYS_signalfd4, -1, &set, 16, 0));
	SHOW(syscall(SYS_signalfd4, -1, 16, 8, 0));
	SHOW(syscall(SYS_signalfd4, -1, &set, 8, 1));
	SHOW(syscall(SYS_signalfd4, 999, &set, 8, 0));
	SHOW(syscall(SYS_signalfd4, 0, &set, 8, 0));
	SHOW(syscall(SYS_signalfd4, -2, &set, 8, 0));
	int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	CHECK(fd >= 0);
	say("%#x %#x", (unsigned)fcntl(fd, F_GETFD), (unsigned)fcntl(fd, F_GETFL));
	SHOW(read(fd, info, 127));
	SHOW(write(fd, info, 128));
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(pread(fd, info, 128, 0));
	show(fd);
	readiness(fd);
	section("signals");
	kill(getpid(), SIGUSR1);
	readiness(fd);
	SHOW(syscall(SYS_read, fd, 16, 128));
	show(fd);
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGUSR2);
	sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = 5 });
	sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = 6 });
	raise(SIGUSR2);
	show(fd);
	show(fd);
	kill(getpid(), SIGUSR1), kill(getpid(), SIGUSR2);
	SHOW(read(fd, info, 200));
	say("%s", signal_name((int)info[0].ssi_signo));
	show(fd);
	timer_t timer;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	event.sigev_value.sival_int = 42;
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &(struct itimerspec){ .it_value = { 0, 1000000 } }, 0);
	nap(30);
	show(fd);
	section("other sets");
	set = set_of(SIGCHLD, 0, 0);
	sigprocmask(SIG_BLOCK, &set, 0);
	kill(getpid(), SIGUSR1);
	CHECK(signalfd(fd, &set, 0) == fd);
	readiness(fd);
	pid_t pid = must_fork();
	if (pid == 0)
		_exit(3);
	struct pollfd ready = { fd, POLLIN, 0 };
	SHOW(poll(&ready, 1, 3000));
	memset(info, 0, sizeof info);
	SHOW(read(fd, info, sizeof info));
	say("%s code %d status %d mine %d", signal_name((int)info[0].ssi_signo), info[0].ssi_code, info[0].ssi_status, (pid_t)info[0].ssi_pid == pid);
	wait_for(pid);
	set = set_of(SIGUSR1, SIGKILL, SIGSTOP);
	CHECK(signalfd(fd, &set, 0) == fd);
	show(fd);
	section("waiting");
	fcntl(fd, F_SETFL, O_RDWR);
	pid = must_fork();
	if (pid == 0) {
		nap(20);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	show(fd);
	wait_for(pid);
	int epoll = epoll_create1(0);
	SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLIN }));
	struct epoll_event event_of;
	SHOW(epoll_wait(epoll, &event_of, 1, 0));
	pid = must_fork();
	if (pid == 0) {
		nap(20);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	SHOW(epoll_wait(epoll, &event_of, 1, 3000));
	show(fd);
	wait_for(pid);
	section("in a child");
	kill(getpid(), SIGUSR1);
	pid = must_fork();
	if (pid == 0) {
		readiness(fd);
		kill(getpid(), SIGUSR1);
		readiness(fd);
		show(fd);
		_exit(0);
	}
	wait_for(pid);
	readiness(fd);
	show(fd);
	pid = must_fork();
	if (pid == 0) {
		show(fd);
		_exit(0);
	}
	nap(20);
	kill(pid, SIGUSR1);
	wait_for(pid);
	return 0;
}
