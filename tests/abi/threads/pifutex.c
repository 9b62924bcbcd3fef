/* Futexes that lend priority: what their calls return, what the word says, clocks, and the end of an owner. Whom they lend what is in inherit.c. */
#include "pi.h"

#define OP_OR_NE ((2u << 28) | (1u << 24))
#include <sys/wait.h>

static unsigned word, other;
static struct worker a, b, c;

static void alone(void)
{
	section("alone");
	word = 0;
	SHOW(LOCK(&word));
	WORD(word, tid());
	SHOW(LOCK(&word));
	SHOW(TRYLOCK(&word));
	SHOW(UNLOCK(&word));
	WORD(word, tid());
	SHOW(UNLOCK(&word));
	SHOW(TRYLOCK(&word));
	WORD(word, tid());
	SHOW(UNLOCK(&word));
	SHOW(futex(&word, LOCK_PI2 | PRIVATE, 0, 0, 0, 0));
	SHOW(UNLOCK(&word));
	/* Bits that nobody needs. */
	word = WAITERS;
	SHOW(LOCK(&word));
	WORD(word, tid());
	word = DIED | WAITERS;
	SHOW(LOCK(&word));
	WORD(word, tid());
	SHOW(UNLOCK(&word));
	WORD(word, tid());
	word = DIED;
	SHOW(TRYLOCK(&word));
	WORD(word, tid());
	word |= WAITERS;
	SHOW(UNLOCK(&word));
	WORD(word, tid());
}

static void wrong(void)
{
	section("wrong");
	char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned *bad = (unsigned *)(page + 4096);
	munmap(bad, 4096);
	for (int flags = 0; flags <= PRIVATE; flags += PRIVATE) {
		SHOW(futex(bad, LOCK_PI | flags, 0, 0, 0, 0));
		SHOW(futex(bad, TRYLOCK_PI | flags, 0, 0, 0, 0));
		SHOW(futex(bad, UNLOCK_PI | flags, 0, 0, 0, 0));
		SHOW(futex((char *)&word + 1, LOCK_PI | flags, 0, 0, 0, 0));
		SHOW(futex((char *)&word + 1, UNLOCK_PI | flags, 0, 0, 0, 0));
		SHOW(futex((void *)-4096, LOCK_PI | flags, 0, 0, 0, 0));
	}
	/* Of nobody: the bit for those that wait is set all the same. */
	word = 0x3ffffff0;
	SHOW(LOCK(&word));
	SHOW(word == (0x3ffffff0 | WAITERS));
	SHOW(TRYLOCK(&word));
	SHOW(UNLOCK(&word));
	pid_t gone = must_fork();
	if (gone == 0)
		_exit(0);
	wait_for(gone);
	word = gone;
	SHOW(LOCK(&word));
	word = gone | DIED;
	SHOW(LOCK(&word));
	/* Only read. */
	unsigned *fixed = (unsigned *)page;
	*fixed = 0;
	mprotect(page, 4096, PROT_READ);
	SHOW(LOCK(fixed));
	SHOW(TRYLOCK(fixed));
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	*fixed = (unsigned)tid();
	mprotect(page, 4096, PROT_READ);
	SHOW(UNLOCK(fixed));
	/* A page that is written for the first time. */
	unsigned *fresh = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(LOCK(fresh));
	WORD(*fresh, tid());
	/* Clocks. */
	word = 0;
	SHOW(futex(&word, LOCK_PI | REALTIME, 0, 0, 0, 0));
	SHOW(futex(&word, TRYLOCK_PI | REALTIME, 0, 0, 0, 0));
	SHOW(futex(&word, UNLOCK_PI | REALTIME, 0, 0, 0, 0));
	SHOW(futex(&word, LOCK_PI2 | REALTIME, 0, 0, 0, 0));
	SHOW(futex(&word, UNLOCK_PI, 0, 0, 0, 0));
	SHOW(futex(&word, CMP_REQUEUE_PI | REALTIME, 1, 0, &other, 0));
	struct timespec none = { 0, 1000000000 }, before = { -1, 0 };
	SHOW(futex(&word, LOCK_PI, 0, &none, 0, 0));
	SHOW(futex(&word, LOCK_PI2, 0, &before, 0, 0));
	SHOW(futex(&word, LOCK_PI, 0, (void *)8, 0, 0));
	SHOW(futex(&word, WAIT_REQUEUE_PI, 0, &none, &other, 0));
	/* Not a time there. */
	SHOW(futex(&word, TRYLOCK_PI, 0, (void *)8, 0, 0));
	SHOW(futex(&word, UNLOCK_PI, 0, (void *)8, 0, 0));
}

static void times(void)
{
	section("times");
	word = 0;
	owned_by(&a, &word);
	struct timespec past = { 1, 0 }, real, steady;
	SHOW(futex(&word, LOCK_PI | PRIVATE, 0, &past, 0, 0));
	SHOW(futex(&word, LOCK_PI2 | PRIVATE, 0, &past, 0, 0));
	SHOW(futex(&word, LOCK_PI2 | PRIVATE | REALTIME, 0, &past, 0, 0));
	long from = ms(CLOCK_MONOTONIC);
	real = in(CLOCK_REALTIME, 30);
	SHOW(futex(&word, LOCK_PI | PRIVATE, 0, &real, 0, 0));
	CHECK(ms(CLOCK_MONOTONIC) - from >= 29);
	from = ms(CLOCK_MONOTONIC);
	steady = in(CLOCK_MONOTONIC, 30);
	SHOW(futex(&word, LOCK_PI2 | PRIVATE, 0, &steady, 0, 0));
	CHECK(ms(CLOCK_MONOTONIC) - from >= 29);
	from = ms(CLOCK_MONOTONIC);
	real = in(CLOCK_REALTIME, 30);
	SHOW(futex(&word, LOCK_PI2 | PRIVATE | REALTIME, 0, &real, 0, 0));
	CHECK(ms(CLOCK_MONOTONIC) - from >= 29);
	WORD(word, a.tid);
	SHOW(TRYLOCK(&word));
	SHOW(UNLOCK(&word));
	/* Free: a time that is past matters to nobody. */
	unlock_by(&a, &word);
	SHOW(futex(&word, LOCK_PI | PRIVATE, 0, &past, 0, 0));
	SHOW(UNLOCK(&word));
	/* It comes free in time. */
	owned_by(&a, &word);
	real = in(CLOCK_REALTIME, 60000);
	tell(&b, LOCK_PI | PRIVATE, &word, 0, &real, 0, 0);
	CHECK(sleeps(&b));
	WORD(word, a.tid);
	unlock_by(&a, &word);
	outcome("b", &b);
	WORD(word, b.tid);
	unlock_by(&b, &word);
	WORD(word, b.tid);
}

static void others(void)
{
	section("other calls");
	word = 0, other = 0;
	owned_by(&a, &word);
	lock_by(&b, &word);
	CHECK(sleeps(&b));
	SHOW(futex(&word, WAKE | PRIVATE, 1, 0, 0, 0));
	SHOW(futex(&word, WAKE, 1, 0, 0, 0));
	SHOW(futex(&word, WAKE_BITSET | PRIVATE, 1, 0, 0, 1));
	SHOW(futex(&word, REQUEUE | PRIVATE, 0, (void *)1, &other, 0));
	SHOW(futex(&word, CMP_REQUEUE | PRIVATE, 1, (void *)1, &other, word));
	SHOW(futex(&word, WAKE_OP | PRIVATE, 1, (void *)1, &other, 0));
	SHOW(futex(&other, WAKE_OP | PRIVATE, 1, (void *)1, &word, OP_OR_NE));
	SHOW(futex(&word, CMP_REQUEUE_PI | PRIVATE, 1, 0, &other, word));
	SHOW(UNLOCK(&word));
	unlock_by(&a, &word);
	outcome("b", &b);
	/* Somebody waits on the word in another way. */
	struct timespec late = { 60, 0 };
	word = 0x3ffffff0;
	tell(&a, WAIT | PRIVATE, &word, word, &late, 0, 0);
	CHECK(sleeps(&a));
	SHOW(LOCK(&word));
	SHOW(TRYLOCK(&word));
	word = (unsigned)tid();
	SHOW(UNLOCK(&word));
	SHOW(futex(&word, CMP_REQUEUE_PI | PRIVATE, 1, 0, &other, word));
	SHOW(futex(&word, WAKE | PRIVATE, 1, 0, 0, 0));
	outcome("a", &a);
	/* The program writes the word while others wait. */
	word = 0;
	owned_by(&a, &word);
	lock_by(&b, &word);
	CHECK(sleeps(&b));
	unsigned kept = word;
	word = 0;
	SHOW(LOCK(&word));
	word = WAITERS;
	SHOW(TRYLOCK(&word));
	word = DIED;
	SHOW(TRYLOCK(&word));
	word = (unsigned)tid();
	SHOW(UNLOCK(&word));
	word = (unsigned)b.tid | WAITERS;
	SHOW(TRYLOCK(&word));
	word = (unsigned)a.tid;
	SHOW(TRYLOCK(&word));
	/* Without the bit the owner is told to try again, and then finds it. */
	unlock_by(&a, &word);
	outcome("b", &b);
	WORD(word, b.tid);
	CHECK(kept == ((unsigned)a.tid | WAITERS));
	unlock_by(&b, &word);
}

/* Private and shared, in memory of one process and of two. */
static void kinds(void)
{
	section("kinds");
	word = 0;
	owned_by(&a, &word);
	lock_by(&b, &word);
	CHECK(sleeps(&b));
	/* Another futex there, of which nobody knows: the owner is found by the number. */
	SHOW(futex(&word, TRYLOCK_PI, 0, 0, 0, 0));
	unlock_by(&a, &word);
	outcome("b", &b);
	unlock_by(&b, &word);
	unsigned *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	SHOW(futex(shared, LOCK_PI, 0, 0, 0, 0));
	pid_t pid = must_fork();
	if (pid == 0) {
		SHOW(futex(shared, TRYLOCK_PI, 0, 0, 0, 0));
		SHOW(futex(shared, UNLOCK_PI, 0, 0, 0, 0));
		shared[1] = 1;
		SHOW(futex(shared, LOCK_PI, 0, 0, 0, 0));
		WORD(*shared, getpid());
		SHOW(futex(shared, UNLOCK_PI, 0, 0, 0, 0));
		/* It ends with another one locked. */
		SHOW(futex(shared + 2, LOCK_PI, 0, 0, 0, 0));
		shared[1] = 2;
		while (shared[1] != 3)
			nap(1);
		_exit(0);
	}
	while (*(volatile unsigned *)&shared[1] != 1 || !(*(volatile unsigned *)shared & WAITERS))
		nap(1);
	/* One of two prints at a time. */
	long unlocked = futex(shared, UNLOCK_PI, 0, 0, 0, 0);
	while (*(volatile unsigned *)&shared[1] != 2)
		nap(1);
	SHOW(unlocked);
	tell(&a, LOCK_PI, shared + 2, 0, 0, 0, 0);
	CHECK(sleeps(&a));
	shared[1] = 3;
	outcome("a", &a);
	WORD(shared[2], a.tid);
	wait_for(pid);
}

static void handler(int number) { (void)number; }

static void signals(void)
{
	section("signals");
	struct sigaction action = { .sa_handler = handler };
	sigaction(SIGUSR1, &action, 0);
	word = 0;
	owned_by(&a, &word);
	lock_by(&b, &word);
	CHECK(sleeps(&b));
	/* The call is made again, whatever the handler asks for. */
	syscall(SYS_tgkill, getpid(), b.tid, SIGUSR1);
	nap(20);
	CHECK(sleeps(&b));
	WORD(word, a.tid);
	unlock_by(&a, &word);
	outcome("b", &b);
	unlock_by(&b, &word);
	/* A process that is killed waits no more, and nobody else does. */
	unsigned *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	SHOW(futex(shared, LOCK_PI, 0, 0, 0, 0));
	pid_t pid = must_fork();
	if (pid == 0)
		_exit((int)futex(shared, LOCK_PI, 0, 0, 0, 0));
	while (!(*(volatile unsigned *)shared & WAITERS))
		nap(1);
	nap(20);
	kill(pid, SIGKILL);
	wait_for(pid);
	SHOW(futex(shared, UNLOCK_PI, 0, 0, 0, 0));
	WORD(*shared, tid());
}

/* The list of a thread that ends: one futex on it that lends priority, which the pointer to it says; one that is just being locked. */
struct robust_entry {
	void *next;
	unsigned word;
};
static struct robust_entry first, second;
static struct {
	void *first;
	long offset;
	void *pending;
} list;
static volatile int locked;

static void *robust(void *argument)
{
	syscall(SYS_set_robust_list, &list, sizeof list);
	int lends = argument != 0;
	list.offset = offsetof(struct robust_entry, word);
	first.next = &list;
	list.first = (char *)&first + lends;
	list.pending = (char *)&second + lends;
	first.word = second.word = (unsigned)tid();
	locked = tid();
	while (locked != 0)
		nap(1);
	syscall(SYS_exit, 0);
	return 0;
}

static void deaths(void)
{
	section("deaths");
	for (int waits = 0; waits < 2; waits++) {
		pthread_t thread;
		pthread_create(&thread, 0, robust, &list);
		while (locked == 0)
			nap(1);
		int dead = locked;
		if (waits) {
			lock_by(&a, &first.word);
			CHECK(sleeps(&a));
			lock_by(&b, &second.word);
			CHECK(sleeps(&b));
		}
		locked = 0;
		while (state_of(dead, 0) != 'X')
			nap(1);
		if (waits) {
			outcome("a", &a);
			WORD(first.word, a.tid);
			outcome("b", &b);
			WORD(second.word, b.tid);
			unlock_by(&a, &first.word), unlock_by(&b, &second.word);
			WORD(first.word, a.tid);
		} else {
			WORD(first.word, dead);
			WORD(second.word, dead);
			SHOW(LOCK(&first.word));
			WORD(first.word, tid());
			SHOW(UNLOCK(&first.word));
			WORD(first.word, tid());
		}
	}
	/* A thread that has no list: who waits gets it, who comes later does not. */
	word = 0;
	owned_by(&c, &word);
	lock_by(&a, &word);
	CHECK(sleeps(&a));
	lock_by(&b, &word);
	CHECK(sleeps(&b));
	vanish(&c);
	outcome("a", &a);
	WORD(word, a.tid);
	unlock_by(&a, &word);
	outcome("b", &b);
	WORD(word, b.tid);
	unlock_by(&b, &word);
	start(&c);
	owned_by(&c, &word);
	vanish(&c);
	SHOW(LOCK(&word));
	start(&c);
}

static void *holds(void *argument)
{
	pthread_mutex_lock(argument);
	return 0;
}

static int count, refused;
static void *counts(void *argument)
{
	for (int i = 0; i < 400; i++) {
		if (pthread_mutex_lock(argument) != 0)
			__atomic_add_fetch(&refused, 1, __ATOMIC_SEQ_CST);
		int seen = count;
		if (i % 20 == 0)
			sched_yield();
		count = seen + 1;
		pthread_mutex_unlock(argument);
	}
	return 0;
}

/* As the C library uses them. */
static void mutexes(void)
{
	section("mutexes");
	pthread_mutexattr_t kind;
	pthread_mutexattr_init(&kind);
	SHOW(pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT));
	pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_t mutex;
	SHOW(pthread_mutex_init(&mutex, &kind));
	SHOW(pthread_mutex_lock(&mutex));
	SHOW(pthread_mutex_lock(&mutex));
	SHOW(pthread_mutex_unlock(&mutex));
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, counts, &mutex);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	SHOW(count);
	SHOW(refused);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_t robust;
	SHOW(pthread_mutex_init(&robust, &kind));
	pthread_create(&threads[0], 0, holds, &robust);
	pthread_join(threads[0], 0);
	say("%s", error_name(pthread_mutex_lock(&robust)));
	SHOW(pthread_mutex_consistent(&robust));
	SHOW(pthread_mutex_unlock(&robust));
	struct timespec past = { 1, 0 };
	pthread_mutex_lock(&mutex);
	SHOW(pthread_mutex_timedlock(&robust, &past));
	SHOW(pthread_mutex_trylock(&mutex));
}

int main(void)
{
	start(&a), start(&b), start(&c);
	alone();
	wrong();
	times();
	others();
	kinds();
	signals();
	deaths();
	mutexes();
	return 0;
}
