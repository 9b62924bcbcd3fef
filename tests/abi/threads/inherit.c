/*
 * Whom a futex lends what: its owner runs at the highest priority of those that wait, along chains too, and nobody runs longer than it should at a
 * priority that was lent. All on one CPU, where the one with the highest priority alone runs. The first thread has a higher one than all others.
 */
#include "pi.h"

#include <sys/resource.h>

enum { TOP = 90 };
static unsigned word, words[4];
static struct worker low, middle, high, more;

static void show(const char *name, struct worker *w) { say("%s: %ld", name, priority_of(w->tid)); }
#define PRIORITY(worker) show(#worker, &worker)
/* What it was given stays what it is. */
static void given(const char *name, int thread)
{
	int param = -1;
	syscall(SYS_sched_getparam, thread, &param);
	say("%s: policy %ld, priority %d, nice %d", name, (long)syscall(SYS_sched_getscheduler, thread), param, getpriority(PRIO_PROCESS, (id_t)thread));
}

static volatile int go, order, finished[3];
static volatile long spins;

static void *inverted_low(void *argument)
{
	*(volatile int *)argument = tid();
	LOCK(&word);
	go = 1;
	while (go != 2)
		;
	UNLOCK(&word);
	finished[0] = ++order;
	return 0;
}

static void *inverted_high(void *argument)
{
	*(volatile int *)argument = tid();
	LOCK(&word);
	finished[2] = ++order;
	UNLOCK(&word);
	return 0;
}

/* It would keep the one that has the futex from its CPU for as long as the one that waits for it has not got it. */
static void *inverted_middle(void *argument)
{
	*(volatile int *)argument = tid();
	long from = ms(CLOCK_MONOTONIC);
	while (finished[2] == 0 && ms(CLOCK_MONOTONIC) - from < 10000)
		spins++;
	finished[1] = ++order;
	return 0;
}

static void spawn(pthread_t *thread, void *(*body)(void *), volatile int *number, int policy, int priority)
{
	pthread_attr_t attr;
	struct sched_param param = { .sched_priority = priority };
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, policy);
	pthread_attr_setschedparam(&attr, &param);
	if (pthread_create(thread, &attr, body, (void *)number) != 0)
		say("no thread");
}

static void inversion(void)
{
	section("inversion");
	pthread_t threads[3];
	volatile int numbers[3] = { 0, 0, 0 };
	word = 0;
	spawn(&threads[0], inverted_low, &numbers[0], SCHED_OTHER, 0);
	while (go != 1)
		nap(1);
	say("low: %ld", priority_of(numbers[0]));
	spawn(&threads[2], inverted_high, &numbers[2], SCHED_FIFO, 50);
	while (numbers[2] == 0 || state_of(numbers[2], 0) != 'S' || !(*(volatile unsigned *)&word & WAITERS))
		nap(1);
	say("low: %ld", priority_of(numbers[0]));
	given("low", numbers[0]);
	spawn(&threads[1], inverted_middle, &numbers[1], SCHED_FIFO, 40);
	/* It gets no part of the CPU while the first one spins in its stead. */
	nap(50);
	SHOW(spins);
	SHOW(numbers[1]);
	go = 2;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	say("high %d, middle before low: %d", finished[2], finished[1] < finished[0]);
	CHECK(spins == 0);
}

static void lent(void)
{
	section("lent");
	word = 0;
	owned_by(&low, &word);
	PRIORITY(low);
	set(middle.tid, FIFO, 20);
	set(high.tid, RR, 60);
	lock_by(&middle, &word);
	CHECK(sleeps(&middle));
	PRIORITY(low);
	lock_by(&high, &word);
	CHECK(sleeps(&high));
	PRIORITY(low);
	given("low", low.tid);
	struct timespec turn = { 1, 1 };
	syscall(SYS_sched_rr_get_interval, low.tid, &turn);
	say("turn: %ld %ld", (long)turn.tv_sec, turn.tv_nsec);
	/* Another priority for one that waits. */
	set(high.tid, RR, 70);
	PRIORITY(low);
	set(high.tid, RR, 10);
	PRIORITY(low);
	set(middle.tid, OTHER, 0);
	PRIORITY(low);
	set(high.tid, OTHER, 0);
	PRIORITY(low);
	set(high.tid, FIFO, 33);
	PRIORITY(low);
	/* And for one to which it is lent. */
	set(low.tid, FIFO, 10);
	PRIORITY(low);
	given("low", low.tid);
	set(low.tid, RR, 40);
	PRIORITY(low);
	set(low.tid, OTHER, 0);
	setpriority(PRIO_PROCESS, (id_t)low.tid, 5);
	PRIORITY(low);
	given("low", low.tid);
	/* It comes to the one with the highest priority, and what it was lent is gone. */
	unlock_by(&low, &word);
	outcome("high", &high);
	WORD(word, high.tid);
	PRIORITY(low);
	unlock_by(&high, &word);
	outcome("middle", &middle);
	unlock_by(&middle, &word);
	setpriority(PRIO_PROCESS, (id_t)low.tid, 0);
	/* A nice value is not lent, but shown. */
	set(middle.tid, OTHER, 0), set(high.tid, OTHER, 0);
	setpriority(PRIO_PROCESS, (id_t)middle.tid, -10);
	setpriority(PRIO_PROCESS, (id_t)high.tid, -15);
	owned_by(&low, &word);
	lock_by(&middle, &word);
	CHECK(sleeps(&middle));
	lock_by(&high, &word);
	CHECK(sleeps(&high));
	PRIORITY(low);
	given("low", low.tid);
	setpriority(PRIO_PROCESS, (id_t)low.tid, 3);
	PRIORITY(low);
	setpriority(PRIO_PROCESS, (id_t)low.tid, 0);
	unlock_by(&low, &word);
	finish(&middle);
	PRIORITY(low), PRIORITY(middle);
	unlock_by(&middle, &word);
	finish(&high);
	unlock_by(&high, &word);
	setpriority(PRIO_PROCESS, (id_t)middle.tid, 0);
	setpriority(PRIO_PROCESS, (id_t)high.tid, 0);
	/* Who waits no more lends no more: a time, a signal. */
	owned_by(&low, &word);
	struct timespec soon = in(CLOCK_REALTIME, 20);
	tell(&high, LOCK_PI | PRIVATE, &word, 0, &soon, 0, 0);
	outcome("high", &high);
	PRIORITY(low);
	/* By two futexes. */
	memset(words, 0, sizeof words);
	owned_by(&low, &words[0]);
	set(middle.tid, FIFO, 20);
	set(high.tid, FIFO, 30);
	lock_by(&middle, &word);
	CHECK(sleeps(&middle));
	lock_by(&high, &words[0]);
	CHECK(sleeps(&high));
	PRIORITY(low);
	unlock_by(&low, &words[0]);
	outcome("high", &high);
	PRIORITY(low);
	unlock_by(&low, &word);
	PRIORITY(low);
	finish(&middle);
	unlock_by(&middle, &word), unlock_by(&high, &words[0]);
}

static void chains(void)
{
	section("chains");
	memset(words, 0, sizeof words);
	set(low.tid, OTHER, 0), set(middle.tid, FIFO, 5), set(high.tid, FIFO, 50), set(more.tid, FIFO, 7);
	owned_by(&low, &words[0]);
	owned_by(&middle, &words[1]);
	owned_by(&more, &words[2]);
	lock_by(&middle, &words[0]);
	CHECK(sleeps(&middle));
	lock_by(&more, &words[1]);
	CHECK(sleeps(&more));
	PRIORITY(low), PRIORITY(middle), PRIORITY(more);
	lock_by(&high, &words[2]);
	CHECK(sleeps(&high));
	PRIORITY(low), PRIORITY(middle), PRIORITY(more);
	set(high.tid, FIFO, 6);
	PRIORITY(low), PRIORITY(middle), PRIORITY(more);
	set(high.tid, FIFO, 61);
	PRIORITY(low), PRIORITY(middle), PRIORITY(more);
	/* In a circle. */
	tell(&low, LOCK_PI | PRIVATE, &words[2], 0, 0, 0, 0);
	outcome("low", &low);
	tell(&low, TRYLOCK_PI | PRIVATE, &words[2], 0, 0, 0, 0);
	outcome("low", &low);
	PRIORITY(low), PRIORITY(middle), PRIORITY(more);
	unlock_by(&low, &words[0]);
	outcome("middle", &middle);
	PRIORITY(low), PRIORITY(middle), PRIORITY(more);
	unlock_by(&middle, &words[1]);
	outcome("more", &more);
	PRIORITY(middle), PRIORITY(more);
	unlock_by(&more, &words[2]);
	outcome("high", &high);
	PRIORITY(more);
	unlock_by(&middle, &words[0]), unlock_by(&more, &words[1]), unlock_by(&high, &words[2]);
	/* An owner that ends. */
	owned_by(&more, &words[0]);
	owned_by(&middle, &words[1]);
	lock_by(&middle, &words[0]);
	CHECK(sleeps(&middle));
	lock_by(&high, &words[1]);
	CHECK(sleeps(&high));
	PRIORITY(more), PRIORITY(middle);
	vanish(&more);
	outcome("middle", &middle);
	PRIORITY(middle);
	unlock_by(&middle, &words[1]);
	PRIORITY(middle);
	outcome("high", &high);
	unlock_by(&high, &words[1]), unlock_by(&middle, &words[0]);
	start(&more);
}

/* Who comes first: by priority, then by the time of coming. And who comes before the one to whom it was left. */
static void orders(void)
{
	section("orders");
	static struct worker waiters[6];
	static const int priorities[6] = { 0, 10, 30, 10, 0, 20 };
	memset(words, 0, sizeof words);
	SHOW(LOCK(&words[0]));
	for (int i = 0; i < 6; i++) {
		start(&waiters[i]);
		if (priorities[i])
			set(waiters[i].tid, FIFO, priorities[i]);
		else
			set(waiters[i].tid, OTHER, 0);
		lock_by(&waiters[i], &words[0]);
		sleeps(&waiters[i]);
	}
	SHOW(UNLOCK(&words[0]));
	for (int n = 0; n < 6; n++)
		for (int i = 0; i < 6; i++)
			if ((words[0] & OWNER) == (unsigned)waiters[i].tid) {
				finish(&waiters[i]);
				say("waiter %d", i);
				unlock_by(&waiters[i], &words[0]);
				break;
			}
	for (int i = 0; i < 6; i++)
		stop(&waiters[i]);
	/* It is left for one of a lower priority, which has no CPU yet. */
	set(high.tid, FIFO, 50);
	SHOW(LOCK(&words[1]));
	lock_by(&high, &words[1]);
	CHECK(sleeps(&high));
	SHOW(UNLOCK(&words[1]));
	WORD(words[1], high.tid);
	SHOW(LOCK(&words[1]));
	WORD(words[1], tid());
	SHOW(UNLOCK(&words[1]));
	SHOW(TRYLOCK(&words[1]));
	WORD(words[1], tid());
	CHECK(sleeps(&high));
	SHOW(UNLOCK(&words[1]));
	outcome("high", &high);
	unlock_by(&high, &words[1]);
	/* Of the same priority: not. */
	SHOW(LOCK(&words[1]));
	set(high.tid, FIFO, 50);
	lock_by(&high, &words[1]);
	CHECK(sleeps(&high));
	set(tid(), FIFO, 50);
	SHOW(UNLOCK(&words[1]));
	SHOW(TRYLOCK(&words[1]));
	WORD(words[1], high.tid);
	set(tid(), FIFO, TOP);
	outcome("high", &high);
	unlock_by(&high, &words[1]);
}

/* As long as Linux walks along one. */
static void longest(void)
{
	section("longest");
	enum { MANY = 1030 };
	static struct worker links[MANY];
	static unsigned own[MANY];
	int at;
	for (at = 0; at < MANY; at++) {
		start(&links[at]);
		set(links[at].tid, OTHER, 0);
		owned_by(&links[at], &own[at]);
		if (at == 0)
			continue;
		lock_by(&links[at], &own[at - 1]);
		if (!sleeps(&links[at]))
			break;
	}
	say("%d", at);
	outcome("the last", &links[at]);
	/* The last link but one leads a priority along all others. */
	set(links[at - 1].tid, FIFO, 3);
	show("the first", &links[0]);
	show("the third", &links[2]);
	for (int i = 0; i < at; i++) {
		unlock_by(&links[i], &own[i]);
		if (i + 1 < at)
			finish(&links[i + 1]);
		if (i > 0)
			unlock_by(&links[i], &own[i - 1]);
	}
	show("the first", &links[0]);
	for (int i = 0; i <= at; i++)
		stop(&links[i]);
}

int main(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof one, &one);
	start(&low), start(&middle), start(&high), start(&more);
	SHOW(set(0, FIFO, TOP));
	inversion();
	lent();
	chains();
	orders();
	longest();
	return 0;
}
