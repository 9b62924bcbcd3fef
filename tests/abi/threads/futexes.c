/* Futexes: the clocks of a wait, and the commands that Darter has not (those that lend priority). */
#include "t.h"
#include <sys/time.h>

enum { WAIT, WAKE, FD, REQUEUE, CMP_REQUEUE, WAKE_OP, LOCK_PI, UNLOCK_PI, TRYLOCK_PI, WAIT_BITSET, WAKE_BITSET, WAIT_REQUEUE_PI, CMP_REQUEUE_PI, LOCK_PI2 };
enum { PRIVATE = 128, REALTIME = 256 };

static int word, other;

static long call(int operation, int value, void *extra, int *second, int third)
{
	return syscall(SYS_futex, &word, operation, value, extra, second, third);
}

/* A moment of that clock, so many milliseconds from now. */
static struct timespec in(clockid_t clock, long milliseconds)
{
	struct timespec now;
	clock_gettime(clock, &now);
	long all = now.tv_nsec + milliseconds * 1000000;
	now.tv_sec += all / 1000000000, now.tv_nsec = all % 1000000000;
	return now;
}

static void clocks(void)
{
	section("clocks");
	word = 1;
	/* Before the moments are made: the test may lose its CPU there. */
	long from = ms(CLOCK_MONOTONIC);
	struct timespec real = in(CLOCK_REALTIME, 30), monotonic = in(CLOCK_MONOTONIC, 30), past = { 1, 0 }, wrong = { 1, 1000000000 };
	SHOW(call(WAIT_BITSET | REALTIME, 1, &real, 0, -1));
	CHECK(ms(CLOCK_MONOTONIC) - from >= 29);
	from = ms(CLOCK_MONOTONIC);
	SHOW(call(WAIT_BITSET, 1, &monotonic, 0, -1));
	CHECK(ms(CLOCK_MONOTONIC) - from < 5000);
	/* A moment of the clock of the day is far away on the other. */
	SHOW(call(WAIT_BITSET | REALTIME | PRIVATE, 1, &past, 0, -1));
	SHOW(call(WAIT_BITSET | REALTIME, 2, &real, 0, -1));
	SHOW(call(WAIT_BITSET | REALTIME, 1, &wrong, 0, -1));
	SHOW(call(WAIT_BITSET | REALTIME, 1, &past, 0, 0));
	/* Of a length of time, whichever clock it is. */
	struct timespec length = { 0, 20000000 };
	from = ms(CLOCK_MONOTONIC);
	SHOW(call(WAIT | REALTIME, 1, &length, 0, 0));
	CHECK(ms(CLOCK_MONOTONIC) - from >= 19);
	SHOW(call(WAIT | REALTIME, 2, &length, 0, 0));
	SHOW(call(WAKE | REALTIME, 1, 0, 0, 0));
	SHOW(call(WAKE_BITSET | REALTIME, 1, 0, 0, -1));
	SHOW(call(REQUEUE | REALTIME, 1, 0, &other, 0));
}

/* Woken in time. */
static void woken(void)
{
	int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct timespec late = in(CLOCK_REALTIME, 30000);
	pid_t pid = must_fork();
	if (pid == 0) {
		while (syscall(SYS_futex, shared, WAKE, 1, 0, 0, 0) != 1)
			nap(1);
		_exit(0);
	}
	SHOW(syscall(SYS_futex, shared, WAIT_BITSET | REALTIME, 0, &late, 0, -1));
	wait_for(pid);
}

static void missing(void)
{
	section("missing");
	SHOW(call(FD, 0, 0, 0, 0));
	SHOW(call(14, 0, 0, 0, 0));
	struct timespec past = { 1, 0 };
	word = 0;
	MISSING(call(LOCK_PI, 0, &past, 0, 0), ENOSYS);
	MISSING(call(UNLOCK_PI, 0, 0, 0, 0), ENOSYS);
	MISSING(call(TRYLOCK_PI, 0, 0, 0, 0), ENOSYS);
	MISSING(call(UNLOCK_PI, 0, 0, 0, 0), ENOSYS);
	MISSING(call(LOCK_PI2, 0, &past, 0, 0), ENOSYS);
	MISSING(call(UNLOCK_PI, 0, 0, 0, 0), ENOSYS);
	word = 1;
	say("%d", call(WAIT_REQUEUE_PI, 1, &past, &other, 0) == -1 && (errno == ETIMEDOUT || errno == ENOSYS));
	MISSING(call(CMP_REQUEUE_PI, 1, (void *)1, &other, 1), ENOSYS);
}

int main(void)
{
	clocks();
	woken();
	missing();
	return 0;
}
