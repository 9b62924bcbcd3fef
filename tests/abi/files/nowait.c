/* preadv2 and pwritev2 with RWF_NOWAIT: which files take it, and what would wait. */
#include "t.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/ioctl.h>

enum { HIPRI = 1, NOWAIT = 8, APPEND = 16 };

static char room[8192];

static long move(long call, int fd, size_t length, int flags)
{
	struct iovec one = { room, length };
	return syscall(call, fd, &one, 1, -1L, 0L, flags);
}

#define put(fd, length, flags) move(SYS_pwritev2, fd, length, flags)
#define get(fd, length, flags) move(SYS_preadv2, fd, length, flags)

static void pipes(void)
{
	section("pipes");
	int ends[2];
	pipe(ends);
	SHOW(get(ends[0], 10, NOWAIT));
	SHOW(get(ends[0], 10, NOWAIT | HIPRI));
	SHOW(get(ends[0], 0, NOWAIT));
	SHOW(put(ends[1], 5, NOWAIT));
	SHOW(get(ends[0], 10, NOWAIT));
	SHOW(get(ends[1], 10, NOWAIT));
	SHOW(put(ends[0], 10, NOWAIT));
	fcntl(ends[1], F_SETPIPE_SZ, 4096);
	SHOW(put(ends[1], 4096, NOWAIT));
	SHOW(put(ends[1], 1, NOWAIT | APPEND));
	SHOW(put(ends[1], 8000, NOWAIT));
	SHOW(get(ends[0], 8192, NOWAIT));
	SHOW(put(ends[1], 8000, NOWAIT));
	SHOW(put(ends[1], 1, NOWAIT));
	close(ends[1]);
	SHOW(get(ends[0], 8192, NOWAIT));
	SHOW(get(ends[0], 10, NOWAIT));
	close(ends[0]);
	pipe(ends);
	close(ends[0]);
	signal(SIGPIPE, SIG_IGN);
	SHOW(put(ends[1], 1, NOWAIT));
	close(ends[1]);
	/* A pipe with a name. */
	SHOW(mkfifo("p", 0600));
	int fifo = open("p", O_RDWR);
	SHOW(get(fifo, 10, NOWAIT));
	SHOW(put(fifo, 10, NOWAIT));
	close(fifo);
	/* A pipe opened once more. */
	pipe(ends);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
	int again = open(path, O_RDWR);
	SHOW(get(again, 10, NOWAIT));
	close(again), close(ends[0]), close(ends[1]);
}

static void counters(void)
{
	section("counters");
	int fd = eventfd(0, 0);
	SHOW(get(fd, 8, NOWAIT));
	SHOW(get(fd, 4, NOWAIT));
	SHOW(put(fd, 8, NOWAIT));
	uint64_t one = 1;
	write(fd, &one, 8);
	SHOW(get(fd, 8, NOWAIT));
	close(fd);
	fd = timerfd_create(CLOCK_MONOTONIC, 0);
	SHOW(get(fd, 8, NOWAIT));
	SHOW(get(fd, 4, NOWAIT));
	struct itimerspec soon = { { 0, 0 }, { 0, 1 } };
	timerfd_settime(fd, 0, &soon, NULL);
	nap(20);
	SHOW(get(fd, 8, NOWAIT));
	close(fd);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, 0);
	SHOW(get(fd, 128, NOWAIT));
	SHOW(get(fd, 12, NOWAIT));
	raise(SIGUSR1);
	SHOW(get(fd, 256, NOWAIT));
	close(fd);
	fd = epoll_create1(0);
	SHOW(get(fd, 8, NOWAIT));
	close(fd);
}

static void others(void)
{
	section("others");
	write_file("f", "0123456789");
	int fd = open("f", O_RDWR);
	SHOW(get(fd, 8, NOWAIT));
	SHOW(put(fd, 8, NOWAIT));
	SHOW(put(fd, 0, NOWAIT));
	close(fd);
	fd = (int)syscall(SYS_memfd_create, "m", 0);
	SHOW(get(fd, 8, NOWAIT));
	SHOW(put(fd, 8, NOWAIT));
	close(fd);
	static const char *const names[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/proc/version", "/proc/self/status", "/proc/self/comm" };
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		fd = open(names[i], O_RDWR);
		if (fd < 0)
			fd = open(names[i], O_RDONLY);
		say("%s", names[i]);
		SHOW(get(fd, 8, NOWAIT));
		if (i < 5)
			SHOW(put(fd, 8, NOWAIT));
		close(fd);
	}
	fd = open(".", O_RDONLY);
	SHOW(get(fd, 8, NOWAIT));
	close(fd);
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY), number = 0, unlock = 0;
	ioctl(master, TIOCSPTLCK, &unlock);
	ioctl(master, TIOCGPTN, &number);
	char path[64];
	snprintf(path, sizeof path, "/dev/pts/%d", number);
	int slave = open(path, O_RDWR | O_NOCTTY);
	CHECK(slave >= 0);
	SHOW(get(master, 8, NOWAIT));
	SHOW(put(master, 1, NOWAIT));
	SHOW(get(slave, 8, NOWAIT));
	SHOW(put(slave, 1, NOWAIT));
	close(slave), close(master);
}

int main(void)
{
	pipes();
	counters();
	others();
	return 0;
}
