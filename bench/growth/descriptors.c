/* Worlds of descriptors and of who waits on files: descriptors, watches of an epoll, sleepers in poll and read, waiters on futexes, record locks. */
#include "growth.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>

static int highest;

static void make_descriptors(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		highest = (int)ok("dup", dup(own_file));
}

static void op_read_highest(void)
{
	ok("pread", pread(highest, own_page, 64, 0));
}

static void op_getfl(void)
{
	ok("fcntl", fcntl(highest, F_GETFL));
}

/* The one hole, in the middle. */
static void op_hole(void)
{
	int middle = highest / 2;
	ok("close", close(middle));
	if (ok("dup", dup(own_file)) != middle)
		fail("not the lowest");
}

const struct world descriptors = { "descriptors", "open-descriptors", 10000, make_descriptors, (const struct row[]){
	ROW("getpid", op_getpid, CHEAP),
	ROW("open-close", op_open, CHEAP),
	ROW("dup-close", op_dup, CHEAP),
	ROW("close-dup-hole", op_hole, CHEAP),
	ROW("pread", op_read_highest, CHEAP),
	ROW("fcntl-getfl", op_getfl, CHEAP),
	ROW("poll-one", op_poll, CHEAP),
	ROW("pipe", op_pipe, CHEAP),
	ROW("thread", op_thread, CHEAP),
	ROW("fork-exit-wait", op_fork, DEAR),
	END }, 0 };

static int epoll, ready, silent;

static void watch(int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
	ok("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
}

static void make_watches(unsigned n)
{
	epoll = (int)ok("epoll_create1", epoll_create1(0));
	ready = (int)ok("eventfd", eventfd(1, 0));
	silent = (int)ok("eventfd", eventfd(0, 0));
	watch(ready);
	for (unsigned i = 1; i < n; i++)
		watch((int)ok("eventfd", eventfd(0, 0)));
}

static void op_epoll_wait(void)
{
	struct epoll_event events[4];
	if (ok("epoll_wait", epoll_wait(epoll, events, 4, 0)) != 1)
		fail("not one");
}

static void op_epoll_ctl(void)
{
	watch(silent);
	ok("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_DEL, silent, 0));
}

static void op_epoll_mod(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = ready };
	ok("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_MOD, ready, &event));
}

static void op_event(void)
{
	uint64_t one = 1;
	ok("write", write(ready, &one, 8));
}

static void op_epoll_close(void)
{
	int fd = (int)ok("eventfd", eventfd(0, 0));
	watch(fd);
	ok("close", close(fd));
}

const struct world watches = { "watches", "watches-of-one-epoll", 10000, make_watches, (const struct row[]){
	ROW("epoll_wait", op_epoll_wait, CHEAP),
	ROW("epoll_ctl-add-del", op_epoll_ctl, CHEAP),
	ROW("epoll_ctl-mod", op_epoll_mod, CHEAP),
	ROW("write-watched", op_event, CHEAP),
	ROW("close-watched", op_epoll_close, CHEAP),
	END }, 0 };

static int (*ends)[2];

static void poll_own(unsigned i)
{
	struct pollfd one = { ends[i][0], POLLIN, 0 };
	come();
	for (;;)
		syscall(SYS_poll, &one, 1, -1);
}

static void make_pollers(unsigned n)
{
	ends = mmap(0, n * sizeof *ends, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ends == MAP_FAILED)
		fail("mmap");
	for (unsigned i = 0; i < n; i++)
		ends[i][0] = (int)ok("eventfd", eventfd(0, 0));
	thread(n, poll_own);
	settle(n);
}

const struct world pollers = { "pollers", "threads-asleep-in-poll-of-others", 10000, make_pollers, (const struct row[]){
	ROW("poll-one", op_poll, CHEAP),
	ROW("pipe", op_pipe, CHEAP),
	ROW("futex-wake", op_wake, CHEAP),
	ROW("nap", op_nap, CHEAP),
	ROW("timer_settime", op_timer, CHEAP),
	END }, 0 };

static int crowd[2];

static void read_crowd(unsigned i)
{
	char byte;
	(void)i;
	come();
	for (;;)
		syscall(SYS_read, crowd[0], &byte, 1);
}

static void make_readers(unsigned n)
{
	ok("pipe", pipe(crowd));
	thread(n, read_crowd);
	settle(n);
}

/* One of them takes it, and sleeps again while this naps. */
static void op_feed(void)
{
	ok("write", write(crowd[1], own_page, 1));
	op_nap();
}

const struct world readers = { "readers", "readers-asleep-on-one-pipe", 10000, make_readers, (const struct row[]){
	ROW("write-one", op_feed, CHEAP),
	ROW("pipe", op_pipe, CHEAP),
	END }, 0 };

static uint32_t *words, one_word;

static void wait_own(unsigned i)
{
	come();
	for (;;)
		syscall(SYS_futex, &words[i], 0 | 128, 0, 0, 0, 0);
}

static void wait_one(unsigned i)
{
	(void)i;
	come();
	for (;;)
		syscall(SYS_futex, &one_word, 0 | 128, 0, 0, 0, 0);
}

/* Half of them on one word, half on words of their own. */
static void make_waiters(unsigned n)
{
	words = mmap(0, n * 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (words == MAP_FAILED)
		fail("mmap");
	thread(n / 2, wait_own);
	thread(n - n / 2, wait_one);
	settle(n);
}

static void op_wake_one(void)
{
	if (ok("futex", syscall(SYS_futex, &one_word, 1 | 128, 1, 0, 0, 0)) != 1)
		fail("nobody waits");
	op_nap();
}

static void op_wake_own(void)
{
	if (ok("futex", syscall(SYS_futex, &words[3], 1 | 128, 1, 0, 0, 0)) != 1)
		fail("nobody waits");
	op_nap();
}

static void op_wait_timeout(void)
{
	struct timespec { long s, ns; } none = { 0, 1 };
	if (syscall(SYS_futex, own_word, 0 | 128, 1, &none, 0, 0) != -1 || errno != ETIMEDOUT)
		fail("futex");
}

const struct world waiters = { "waiters", "threads-asleep-on-futexes", 10000, make_waiters, (const struct row[]){
	ROW("wake-none", op_wake, CHEAP),
	ROW("wake-of-one-word", op_wake_one, CHEAP),
	ROW("wake-of-own-word", op_wake_own, CHEAP),
	ROW("wait-timeout", op_wait_timeout, CHEAP),
	END }, 0 };

static struct flock part(short type, off_t start)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 10 };
}

static unsigned lock_count;

static void make_locks(unsigned n)
{
	lock_count = n;
	for (unsigned i = 0; i < n; i++) {
		struct flock lock = part(F_WRLCK, (off_t)i * 20);
		ok("F_SETLK", fcntl(own_file, F_SETLK, &lock));
	}
}

static void lock_unlock(off_t start)
{
	struct flock lock = part(F_WRLCK, start), unlock = part(F_UNLCK, start);
	ok("F_SETLK", fcntl(own_file, F_SETLK, &lock));
	ok("F_SETLK", fcntl(own_file, F_SETLK, &unlock));
}

static void op_lock_last(void)
{
	lock_unlock((off_t)lock_count * 20 + 100);
}

static void op_lock_middle(void)
{
	lock_unlock((off_t)lock_count / 2 * 20);
	struct flock lock = part(F_WRLCK, (off_t)lock_count / 2 * 20);
	ok("F_SETLK", fcntl(own_file, F_SETLK, &lock));
}

static void op_getlk(void)
{
	struct flock lock = part(F_WRLCK, (off_t)lock_count * 20 + 100);
	ok("F_GETLK", fcntl(own_file, F_GETLK, &lock));
}

static void op_flock(void)
{
	ok("flock", flock(own_file, LOCK_EX));
	ok("flock", flock(own_file, LOCK_UN));
}

const struct world locks = { "locks", "record-locks-of-one-file", 10000, make_locks, (const struct row[]){
	ROW("lock-unlock-end", op_lock_last, DEAR),
	ROW("lock-unlock-middle", op_lock_middle, DEAR),
	ROW("getlk", op_getlk, DEAR),
	ROW("flock", op_flock, CHEAP),
	ROW("pread", op_read, CHEAP),
	ROW("fork-exit-wait", op_fork, DEAR),
	END }, 0 };
