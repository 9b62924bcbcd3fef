/* The calls on futexes that came after futex(2): waits on several, and one call for each command. */
#include "t.h"
#include <pthread.h>

enum { SIZE_8, SIZE_16, SIZE_32, SIZE_64, NUMA = 4, PRIVATE = 128 };

struct waiter { uint64_t value, address; uint32_t flags, reserved; };

#define WAITV(list, count, flags, timeout, clock) syscall(449, list, count, flags, timeout, clock)
#define WAKE(word, mask, count, flags) syscall(454, word, mask, count, flags)
#define WAIT(word, value, mask, flags, timeout, clock) syscall(455, word, value, mask, flags, timeout, clock)
#define REQUEUE(list, flags, wake, move) syscall(456, list, flags, wake, move)

static int words[256];
static struct waiter list[129];

static struct waiter of(int *word, uint64_t value, uint32_t flags)
{
	return (struct waiter){ value, (uint64_t)(uintptr_t)word, flags, 0 };
}

/* A moment of that clock, so many milliseconds from now. */
static struct timespec *in(clockid_t clock, long milliseconds)
{
	static struct timespec at;
	clock_gettime(clock, &at);
	long all = at.tv_nsec + milliseconds * 1000000;
	at.tv_sec += all / 1000000000, at.tv_nsec = all % 1000000000;
	return &at;
}

static void arguments(void)
{
	section("arguments");
	struct timespec past = { 1, 0 }, wrong = { 1, 1000000000 }, negative = { -1, 0 };
	int *odd = (int *)((char *)words + 1);
	SHOW(WAIT(words, 0L, -1L, SIZE_32, &past, 0));
	for (unsigned flags = 0; flags < 8; flags++)
		SHOW(WAIT(words, 1L, 1L, flags, 0, 0));
	SHOW(WAIT(words, 1L, 1L, SIZE_32 | PRIVATE, 0, 0));
	SHOW(WAIT(words, 1L, 1L, SIZE_32 | 8, 0, 0));
	SHOW(WAIT(words, 1L, 1L, SIZE_32 | 256, 0, 0));
	SHOW(WAIT(words, 1L << 32, 1L, SIZE_32, 0, 0));
	SHOW(WAIT(words, 1L, 1L << 32, SIZE_32, 0, 0));
	SHOW(WAIT(words, 1L, 0L, SIZE_32, 0, 0));
	SHOW(WAIT(words, 1L, 0L, SIZE_32, 1L, 0));
	SHOW(WAIT(words, 1L, 1L, SIZE_32, 0, 99));
	SHOW(WAIT(words, 1L, 1L, SIZE_32, &past, 99));
	SHOW(WAIT(words, 1L, 1L, SIZE_32, &past, CLOCK_BOOTTIME));
	SHOW(WAIT(words, 1L, 1L, SIZE_32, 1L, 99));
	SHOW(WAIT(words, 1L, 1L, SIZE_32, &wrong, 0));
	SHOW(WAIT(words, 1L, 1L, SIZE_32, &negative, 0));
	SHOW(WAIT(odd, 1L, 1L, SIZE_32, 0, 0));
	SHOW(WAIT(odd, 1L, 1L, SIZE_32 | PRIVATE, 0, 0));
	SHOW(WAIT((int *)4, 1L, 1L, SIZE_32, 0, 0));
	SHOW(WAIT((int *)4, 1L, 1L, SIZE_32 | PRIVATE, 0, 0));
	SHOW(WAIT((int *)-4L, 1L, 1L, SIZE_32 | PRIVATE, 0, 0));
	for (unsigned flags = 0; flags < 8; flags++)
		SHOW(WAKE(words, -1U, 1, flags));
	SHOW(WAKE(words, -1U, 1, SIZE_32 | PRIVATE));
	SHOW(WAKE(words, -1L, 1, SIZE_32));
	SHOW(WAKE(words, 0L, 1, SIZE_32));
	SHOW(WAKE(odd, 1L, 0, SIZE_32));
	SHOW(WAKE((int *)4, 1L, 0, SIZE_32));
	SHOW(WAKE((int *)4, 1L, 0, SIZE_32 | PRIVATE));
	list[0] = of(words, 1, SIZE_32), list[1] = of(words + 1, 1, SIZE_32);
	SHOW(WAITV(list, 1, 1, 0, 0));
	SHOW(WAITV(list, 0, 0, 0, 0));
	SHOW(WAITV(list, 129, 0, 0, 0));
	SHOW(WAITV(0, 1, 0, 0, 0));
	SHOW(WAITV(1L, 1, 0, 0, 0));
	SHOW(WAITV(1L, 1, 0, &past, 99));
	SHOW(WAITV(1L, 1, 0, 1L, 0));
	SHOW(WAITV(list, 1, 0, 0, 99));
	SHOW(WAITV(list, 1, 0, &wrong, 0));
	SHOW(WAITV(list, 2, 0, &past, 0));
	for (unsigned flags = 0; flags < 8; flags++) {
		list[1].flags = flags;
		SHOW(WAITV(list, 2, 0, 0, 0));
	}
	list[1] = of(words + 1, 1L << 32, SIZE_32);
	SHOW(WAITV(list, 2, 0, 0, 0));
	list[1] = of(words + 1, 1, SIZE_32), list[1].reserved = 1;
	SHOW(WAITV(list, 2, 0, 0, 0));
	/* Where all are comes before what they hold. */
	list[1] = of(odd, 0, SIZE_32);
	SHOW(WAITV(list, 2, 0, 0, 0));
	list[1] = of((int *)4, 0, SIZE_32);
	SHOW(WAITV(list, 2, 0, 0, 0));
	list[1] = of((int *)4, 0, SIZE_32 | PRIVATE);
	SHOW(WAITV(list, 2, 0, 0, 0));
	list[0] = of(words, 0, SIZE_32);
	SHOW(WAITV(list, 2, 0, 0, 0));
	SHOW(REQUEUE(list, 1, 0, 0));
	SHOW(REQUEUE(0, 0, 0, 0));
	SHOW(REQUEUE(1L, 0, 0, 0));
	SHOW(REQUEUE(list, 0, 0, 0));
	list[1] = of(words + 1, 9, SIZE_32);
	SHOW(REQUEUE(list, 0, 0, 0));
	SHOW(REQUEUE(list, 0, -1, 0));
	SHOW(REQUEUE(list, 0, 0, -1));
	list[0].value = 1;
	SHOW(REQUEUE(list, 0, 0, 0));
	list[1].flags = SIZE_64;
	SHOW(REQUEUE(list, 0, 0, 0));
}

static void clocks(void)
{
	section("clocks");
	static const clockid_t both[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };
	list[0] = of(words, 0, SIZE_32), list[1] = of(words + 1, 0, SIZE_32 | PRIVATE);
	for (int n = 0; n < 2; n++) {
		long from = ms(CLOCK_MONOTONIC);
		SHOW(WAITV(list, 2, 0, in(both[n], 30), both[n]));
		CHECK(ms(CLOCK_MONOTONIC) - from >= 29);
		from = ms(CLOCK_MONOTONIC);
		SHOW(WAIT(words, 0L, -1U, SIZE_32, in(both[n], 30), both[n]));
		CHECK(ms(CLOCK_MONOTONIC) - from >= 29);
	}
}

struct sleeper { pthread_t thread; struct waiter list[128]; int count; long result; int tid, done; struct timespec *until; };

static void *sleeps(void *argument)
{
	struct sleeper *s = argument;
	__atomic_store_n(&s->tid, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	errno = 0;
	s->result = WAITV(s->list, s->count, 0, s->until, CLOCK_MONOTONIC);
	if (s->result < 0)
		s->result = -errno;
	__atomic_store_n(&s->done, 1, __ATOMIC_SEQ_CST);
	return 0;
}

/* Is the thread asleep? */
static int asleep(int tid)
{
	char path[64], *text;
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	text = read_file(path);
	int yes = text && strstr(text, ") S ") != 0;
	free(text);
	return yes;
}

static void start(struct sleeper *s, int first, int count, uint32_t flags)
{
	memset(s, 0, sizeof *s);
	for (int n = 0; n < count; n++)
		s->list[n] = of(words + first + n, 0, flags);
	s->count = count;
	pthread_create(&s->thread, 0, sleeps, s);
	while (!__atomic_load_n(&s->tid, __ATOMIC_SEQ_CST) || !asleep(s->tid))
		nap(1);
}

static void ended(const char *how, struct sleeper *s)
{
	pthread_join(s->thread, 0);
	say("%s: %ld %s", how, s->result < 0 ? -1 : s->result, error_name(s->result < 0 ? (int)-s->result : 0));
}

static void waking(void)
{
	section("waking");
	static struct sleeper a, b, c;
	static const uint32_t flags[] = { SIZE_32, SIZE_32 | PRIVATE };
	for (int n = 0; n < 2; n++) {
		start(&a, 0, 128, flags[n]);
		SHOW(WAKE(words + 128, -1U, 1, flags[n]));
		SHOW(WAKE(words + 5, -1U, 1, flags[n] ^ PRIVATE));
		SHOW(WAKE(words + 127, 2L, 1, flags[n]));
		ended("the last", &a);
		start(&a, 0, 128, flags[n]);
		SHOW(WAKE(words, -1U, 9, flags[n]));
		ended("the first", &a);
		start(&a, 0, 3, flags[n]);
		SHOW(syscall(SYS_futex, words + 1, flags[n] & PRIVATE ? 129 : 1, 9, 0, 0, 0));
		ended("by futex", &a);
		/* Nobody is left behind anywhere. */
		long left = 0;
		for (int at = 0; at < 128; at++)
			left += WAKE(words + at, -1U, 9, flags[n]);
		SHOW(left);
	}
	/* The same word twice; several who wait on it, in the order in which they came. */
	start(&a, 0, 2, SIZE_32 | PRIVATE);
	start(&b, 0, 2, SIZE_32 | PRIVATE);
	start(&c, 0, 2, SIZE_32 | PRIVATE);
	SHOW(WAKE(words, -1U, 0, SIZE_32 | PRIVATE));
	SHOW(WAKE(words, -1U, -5, SIZE_32 | PRIVATE));
	ended("one", &a);
	/* futex(2) takes less than none as one, too. */
	SHOW(syscall(SYS_futex, words + 1, 129, -1, 0, 0, 0));
	ended("two", &b);
	SHOW(WAKE(words + 1, -1U, 2, SIZE_32 | PRIVATE));
	ended("three", &c);
	memset(&a, 0, sizeof a);
	a.list[0] = a.list[1] = of(words, 0, SIZE_32 | PRIVATE), a.count = 2;
	pthread_create(&a.thread, 0, sleeps, &a);
	while (!a.tid || !asleep(a.tid))
		nap(1);
	SHOW(WAKE(words, -1U, 9, SIZE_32 | PRIVATE));
	ended("twice", &a);
	/* What has changed is seen wherever it stands. */
	for (int n = 0; n < 128; n++)
		list[n] = of(words + n, n == 100, SIZE_32 | PRIVATE);
	SHOW(WAITV(list, 128, 0, 0, 0));
	long left = 0;
	for (int n = 0; n < 128; n++)
		left += WAKE(words + n, -1U, 9, SIZE_32 | PRIVATE);
	SHOW(left);
}

static void moving(void)
{
	section("moving");
	static struct sleeper a, b, c;
	start(&a, 0, 2, SIZE_32 | PRIVATE);
	start(&b, 0, 2, SIZE_32 | PRIVATE);
	start(&c, 0, 2, SIZE_32 | PRIVATE);
	list[0] = of(words, 0, SIZE_32 | PRIVATE), list[1] = of(words + 200, 0, SIZE_32 | PRIVATE);
	SHOW(REQUEUE(list, 0, 1, 1));
	ended("woken", &a);
	SHOW(WAKE(words, -1U, 0, SIZE_32 | PRIVATE));
	SHOW(WAKE(words + 200, -1U, 9, SIZE_32 | PRIVATE));
	ended("moved", &b);
	SHOW(REQUEUE(list, 0, 0, 9));
	SHOW(REQUEUE(list, 0, 9, 9));
	SHOW(WAKE(words + 1, -1U, 9, SIZE_32 | PRIVATE));
	ended("the other word", &c);
	SHOW(WAKE(words + 200, -1U, 9, SIZE_32 | PRIVATE));
}

static void handler(int signal) { (void)signal; }

static void signals(void)
{
	section("signals");
	static struct sleeper a;
	struct sigaction action = { .sa_handler = handler };
	sigaction(SIGUSR1, &action, 0);
	start(&a, 0, 3, SIZE_32);
	pthread_kill(a.thread, SIGUSR1);
	ended("a handler", &a);
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, 0);
	start(&a, 0, 3, SIZE_32);
	pthread_kill(a.thread, SIGUSR1);
	nap(20);
	SHOW(a.done);
	SHOW(WAKE(words + 2, -1U, 1, SIZE_32));
	ended("restarted", &a);
	static struct timespec until;
	until = *in(CLOCK_MONOTONIC, 200);
	memset(&a, 0, sizeof a);
	a.list[0] = of(words, 0, SIZE_32), a.count = 1, a.until = &until;
	long from = ms(CLOCK_MONOTONIC);
	pthread_create(&a.thread, 0, sleeps, &a);
	while (!a.tid || !asleep(a.tid))
		nap(1);
	pthread_kill(a.thread, SIGUSR1);
	ended("restarted, up to the same moment", &a);
	CHECK(ms(CLOCK_MONOTONIC) - from < 5000);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, 0);
	kill(getpid(), SIGUSR1);
	SHOW(WAITV(list, 1, 0, in(CLOCK_MONOTONIC, 10), CLOCK_MONOTONIC));
	sigprocmask(SIG_UNBLOCK, &set, 0);
}

/* Shared words, between processes; and a pool of threads that take turns at many words, with nothing lost. */
static int *shared;

static void *pool(void *argument)
{
	int n = (int)(long)argument;
	long *sum = calloc(1, sizeof *sum);
	for (;;) {
		struct waiter all[8];
		for (int at = 0; at < 8; at++) {
			int seen = __atomic_load_n(&words[64 + at], __ATOMIC_SEQ_CST);
			while (seen > 0 && !__atomic_compare_exchange_n(&words[64 + at], &seen, seen - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
				;
			if (seen > 0) {
				++*sum;
				at--;
				continue;
			}
			all[(at + n) % 8] = of(&words[64 + at], (uint32_t)seen, SIZE_32 | PRIVATE);
		}
		int stop = 0;
		for (int at = 0; at < 8; at++)
			stop |= (int)all[at].value < 0;
		if (stop)
			return sum;
		WAITV(all, 8, 0, 0, 0);
	}
}

static void *waker(void *word)
{
	while (WAKE(word, 4L, 1, SIZE_32 | PRIVATE) != 1)
		nap(1);
	return 0;
}

static void together(void)
{
	section("together");
	shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;
	pthread_create(&thread, 0, waker, words + 250);
	SHOW(WAIT(words + 250, 0L, 6L, SIZE_32 | PRIVATE, in(CLOCK_MONOTONIC, 30000), CLOCK_MONOTONIC));
	pthread_join(thread, 0);
	pid_t pid = must_fork();
	if (pid == 0) {
		while (WAKE(shared + 7, -1U, 1, SIZE_32) != 1)
			nap(1);
		_exit(0);
	}
	SHOW(WAIT(shared + 7, 0L, -1U, SIZE_32, in(CLOCK_REALTIME, 30000), CLOCK_REALTIME));
	wait_for(pid);
	pid = must_fork();
	if (pid == 0) {
		while (WAKE(shared + 3, -1U, 1, SIZE_32) != 1)
			nap(1);
		_exit(0);
	}
	for (int n = 0; n < 5; n++)
		list[n] = of(shared + n, 0, SIZE_32);
	SHOW(WAITV(list, 5, 0, 0, 0));
	say("%s", status_text(wait_for(pid)));
	enum { THREADS = 6, GIVEN = 4000 };
	pthread_t threads[THREADS];
	for (long n = 0; n < THREADS; n++)
		pthread_create(&threads[n], 0, pool, (void *)n);
	for (int n = 0; n < GIVEN; n++) {
		__atomic_add_fetch(&words[64 + n % 8], 1, __ATOMIC_SEQ_CST);
		WAKE(&words[64 + n % 8], -1U, 1, SIZE_32 | PRIVATE);
	}
	/* All that was given is taken, though nobody wakes anybody any more. */
	for (int at = 0; at < 8; at++)
		while (__atomic_load_n(&words[64 + at], __ATOMIC_SEQ_CST) > 0)
			nap(1);
	for (int at = 0; at < 8; at++) {
		__atomic_store_n(&words[64 + at], -1, __ATOMIC_SEQ_CST);
		WAKE(&words[64 + at], -1U, THREADS, SIZE_32 | PRIVATE);
	}
	long sum = 0;
	for (int n = 0; n < THREADS; n++) {
		void *own;
		pthread_join(threads[n], &own);
		sum += *(long *)own;
	}
	say("%ld of %d", sum, GIVEN);
	/* A killed waiter leaves nothing behind. */
	pid = must_fork();
	if (pid == 0) {
		WAITV(list, 5, 0, 0, 0);
		_exit(0);
	}
	nap(20);
	kill(pid, SIGKILL);
	say("%s", status_text(wait_for(pid)));
	SHOW(WAKE(shared + 3, -1U, 1, SIZE_32));
}

int main(void)
{
	arguments();
	clocks();
	waking();
	moving();
	signals();
	together();
	return 0;
}
