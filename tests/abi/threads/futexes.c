/* Futexes: the clocks of a wait, and who is woken. Those that lend priority are in pifutex.c. */
#include "t.h"
#include <pthread.h>
#include <sys/time.h>

enum { WAIT, WAKE, FD, REQUEUE, CMP_REQUEUE, WAKE_OP, WAIT_BITSET = 9, WAKE_BITSET };
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
}

enum { CROWD = 600 };
static int words[CROWD], target;
static int came, went;

static void *sleeper(void *argument)
{
	int *own = argument;
	__atomic_add_fetch(&came, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(own, __ATOMIC_SEQ_CST) == 0)
		syscall(SYS_futex, own, WAIT | PRIVATE, 0, 0, 0, 0);
	__atomic_add_fetch(&went, 1, __ATOMIC_SEQ_CST);
	return 0;
}

/* So many threads on a word each: a wake of one reaches its thread and no other, however many others wait. */
static void crowd(void)
{
	section("crowd");
	static pthread_t threads[CROWD];
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	for (int i = 0; i < CROWD; i++)
		if (pthread_create(&threads[i], &small, sleeper, &words[i]) != 0)
			say("no thread");
	while (__atomic_load_n(&came, __ATOMIC_SEQ_CST) != CROWD)
		nap(1);
	nap(50);
	long woken = 0;
	for (int i = 0; i < CROWD; i += 3) {
		__atomic_store_n(&words[i], 1, __ATOMIC_SEQ_CST);
		woken += syscall(SYS_futex, &words[i], WAKE | PRIVATE, 9, 0, 0, 0);
		pthread_join(threads[i], 0);
	}
	say("%ld %d", woken, __atomic_load_n(&went, __ATOMIC_SEQ_CST));
	/* The others on one word, and from there with one wake. */
	long moved = 0;
	for (int i = 0; i < CROWD; i++)
		if (i % 3 != 0)
			moved += syscall(SYS_futex, &words[i], CMP_REQUEUE | PRIVATE, 0, 9, &target, 0);
	say("%ld", moved);
	for (int i = 0; i < CROWD; i++)
		__atomic_store_n(&words[i], 1, __ATOMIC_SEQ_CST);
	SHOW(syscall(SYS_futex, &target, WAKE | PRIVATE, 100, 0, 0, 0));
	SHOW(syscall(SYS_futex, &target, WAKE | PRIVATE, CROWD, 0, 0, 0));
	for (int i = 0; i < CROWD; i++)
		if (i % 3 != 0)
			pthread_join(threads[i], 0);
	say("%d", __atomic_load_n(&went, __ATOMIC_SEQ_CST));
}

struct waiter {
	int *word;
	int operation;
	volatile int tid;
	long result;
};

static void *wait_once(void *argument)
{
	struct waiter *waiter = argument;
	waiter->tid = (int)syscall(SYS_gettid);
	struct timespec limit = { 30, 0 };
	waiter->result = syscall(SYS_futex, waiter->word, waiter->operation, 0, &limit, 0, 0);
	return 0;
}

/* In memory of one process a futex that is said to be private is another than the one that is not. */
static void kinds(void)
{
	section("kinds");
	for (int n = 0; n < 4; n++) {
		int mine = 0, waits = n & 1 ? PRIVATE : 0, wakes = n & 2 ? PRIVATE : 0;
		struct waiter waiter = { &mine, WAIT | waits, 0, -1 };
		pthread_t thread;
		pthread_create(&thread, 0, wait_once, &waiter);
		while (waiter.tid == 0)
			nap(1);
		nap(20);
		say("%d %d %ld", waits != 0, wakes != 0, syscall(SYS_futex, &mine, WAKE | wakes, 1, 0, 0, 0));
		syscall(SYS_futex, &mine, WAKE | waits, 1, 0, 0, 0);
		pthread_join(thread, 0);
		say("%ld", waiter.result);
	}
}

/* One who waits on shared memory is moved to a word in the memory of another process, from there back, and woken; or it is left there by a
 * process that ends, and killed. */
static void strangers(void)
{
	section("strangers");
	int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int left = 0; left < 2; left++) {
		pid_t stranger = must_fork();
		if (stranger == 0)
			_exit(syscall(SYS_futex, shared, WAIT, 0, 0, 0, 0) == 0 ? 7 : 8);
		nap(50);
		pid_t mover = must_fork();
		if (mover == 0) {
			static int own;
			/* The table of this process is there, or is not. */
			struct timespec soon = { 0, 1000 };
			if (left)
				syscall(SYS_futex, &own, WAIT | PRIVATE, 0, &soon, 0, 0);
			SHOW(syscall(SYS_futex, shared, REQUEUE, 0, 9, &own, 0));
			SHOW(syscall(SYS_futex, shared, CMP_REQUEUE, 0, 9, &own, 0));
			SHOW(syscall(SYS_futex, shared, WAKE, 9, 0, 0, 0));
			if (!left) {
				SHOW(syscall(SYS_futex, &own, CMP_REQUEUE, 0, 9, shared + 1, 0));
				SHOW(syscall(SYS_futex, &own, WAKE, 9, 0, 0, 0));
				SHOW(syscall(SYS_futex, shared + 1, WAKE, 9, 0, 0, 0));
			}
			_exit(0);
		}
		wait_for(mover);
		if (left)
			kill(stranger, SIGKILL);
		wait_for(stranger);
	}
	/* The other way: a thread that waits on a word of its process is moved to shared memory, and woken by another process. */
	static int own;
	struct waiter waiter = { &own, WAIT, 0, -1 };
	pthread_t thread;
	pthread_create(&thread, 0, wait_once, &waiter);
	while (waiter.tid == 0)
		nap(1);
	nap(20);
	SHOW(syscall(SYS_futex, &own, REQUEUE, 0, 9, shared, 0));
	SHOW(syscall(SYS_futex, &own, WAKE, 9, 0, 0, 0));
	pid_t waker = must_fork();
	if (waker == 0)
		_exit((int)syscall(SYS_futex, shared, WAKE, 9, 0, 0, 0));
	wait_for(waker);
	pthread_join(thread, 0);
	say("%ld", waiter.result);
}

/* A process that shares memory and is no thread waits on the same private futexes. */
static int cousin(void *argument)
{
	return syscall(SYS_futex, argument, WAIT | PRIVATE, 0, 0, 0, 0) == 0 ? 5 : 6;
}

static void cousins(void)
{
	section("cousins");
	static char stack[65536] __attribute__((aligned(16)));
	static int own;
	pid_t pid = clone(cousin, stack + sizeof(stack), CLONE_VM | SIGCHLD, &own);
	nap(50);
	SHOW(syscall(SYS_futex, &own, WAKE | PRIVATE, 9, 0, 0, 0));
	wait_for(pid);
}

int main(void)
{
	crowd();
	kinds();
	strangers();
	cousins();
	clocks();
	woken();
	missing();
	return 0;
}
