/* From a plain word to a futex that lends priority: FUTEX_WAIT_REQUEUE_PI and FUTEX_CMP_REQUEUE_PI, and a condition variable made of them. */
#include "pi.h"

#include <limits.h>

static unsigned condition, mutex, third;
static struct worker a, b, c;

#define MOVE(limit, expected) futex(&condition, CMP_REQUEUE_PI | PRIVATE, 1, (void *)(long)(limit), &mutex, expected)

static void wait_by(struct worker *w, const void *until)
{
	tell(w, WAIT_REQUEUE_PI | PRIVATE, &condition, condition, until, &mutex, 0);
	if (!sleeps(w))
		outcome("does not sleep", w);
}

static void wrong(void)
{
	section("wrong");
	struct timespec past = { 1, 0 };
	condition = 1, mutex = 0;
	SHOW(futex(&condition, WAIT_REQUEUE_PI | PRIVATE, 1, &past, &mutex, 0));
	SHOW(futex(&condition, WAIT_REQUEUE_PI | PRIVATE | REALTIME, 1, &past, &mutex, 0));
	SHOW(futex(&condition, WAIT_REQUEUE_PI | PRIVATE, 2, &past, &mutex, 0));
	SHOW(futex(&condition, WAIT_REQUEUE_PI | PRIVATE, 1, &past, &condition, 0));
	SHOW(futex(&condition, WAIT_REQUEUE_PI | PRIVATE, 1, &past, (char *)&mutex + 1, 0));
	SHOW(futex((char *)&condition + 1, WAIT_REQUEUE_PI | PRIVATE, 1, &past, &mutex, 0));
	SHOW(futex((void *)8, WAIT_REQUEUE_PI | PRIVATE, 1, &past, &mutex, 0));
	SHOW(futex(&condition, WAIT_REQUEUE_PI, 1, &past, (void *)8, 0));
	SHOW(MOVE(0, 1));
	SHOW(MOVE(0, 2));
	SHOW(MOVE(-1, 1));
	SHOW(futex(&condition, CMP_REQUEUE_PI | PRIVATE, 0, 0, &mutex, 1));
	SHOW(futex(&condition, CMP_REQUEUE_PI | PRIVATE, 2, 0, &mutex, 1));
	SHOW(futex(&condition, CMP_REQUEUE_PI | PRIVATE, -1, 0, &mutex, 1));
	SHOW(futex(&condition, CMP_REQUEUE_PI | PRIVATE, 1, 0, &condition, 1));
	SHOW(futex(&condition, CMP_REQUEUE_PI | PRIVATE, 1, 0, (char *)&mutex + 2, 1));
	SHOW(futex(&condition, CMP_REQUEUE_PI | PRIVATE, 1, 0, (void *)8, 1));
	SHOW(futex((void *)8, CMP_REQUEUE_PI | PRIVATE, 1, 0, &mutex, 1));
	WORD(mutex, tid());
	/* Two addresses of one word. */
	char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), *twin = mremap(page, 0, 4096, MREMAP_MAYMOVE);
	SHOW(futex(page, WAIT_REQUEUE_PI, 0, &past, twin, 0));
	SHOW(futex(page, CMP_REQUEUE_PI, 1, 0, twin, 0));
}

static void free_mutex(void)
{
	section("a free mutex");
	condition = 1, mutex = 0;
	wait_by(&a, 0);
	SHOW(MOVE(0, 1));
	outcome("a", &a);
	WORD(mutex, a.tid);
	unlock_by(&a, &mutex);
	wait_by(&a, 0);
	SHOW(MOVE(INT_MAX, 1));
	outcome("a", &a);
	WORD(mutex, a.tid);
	unlock_by(&a, &mutex);
	WORD(mutex, a.tid);
	wait_by(&a, 0), wait_by(&b, 0), wait_by(&c, 0);
	SHOW(MOVE(1, 1));
	outcome("a", &a);
	WORD(mutex, a.tid);
	CHECK(sleeps(&b));
	unlock_by(&a, &mutex);
	outcome("b", &b);
	WORD(mutex, b.tid);
	unlock_by(&b, &mutex);
	CHECK(sleeps(&c));
	SHOW(futex(&condition, WAKE | PRIVATE, 1, 0, 0, 0));
	SHOW(futex(&condition, REQUEUE | PRIVATE, 0, (void *)1, &third, 0));
	SHOW(futex(&condition, CMP_REQUEUE_PI | PRIVATE, 1, 0, &third, 1));
	SHOW(LOCK(&condition));
	SHOW(MOVE(7, 1));
	outcome("c", &c);
	WORD(mutex, c.tid);
	unlock_by(&c, &mutex);
}

static void held_mutex(void)
{
	section("a mutex that is held");
	condition = 1, mutex = 0;
	wait_by(&a, 0), wait_by(&b, 0), wait_by(&c, 0);
	SHOW(LOCK(&mutex));
	condition = 2;
	SHOW(MOVE(INT_MAX, 1));
	SHOW(MOVE(INT_MAX, 2));
	WORD(mutex, tid());
	CHECK(sleeps(&a) && sleeps(&b) && sleeps(&c));
	SHOW(UNLOCK(&mutex));
	outcome("a", &a);
	WORD(mutex, a.tid);
	unlock_by(&a, &mutex);
	outcome("b", &b);
	unlock_by(&b, &mutex);
	outcome("c", &c);
	unlock_by(&c, &mutex);
	WORD(mutex, c.tid);
	/* One at a time. */
	wait_by(&a, 0), wait_by(&b, 0);
	SHOW(LOCK(&mutex));
	SHOW(MOVE(0, 2));
	SHOW(UNLOCK(&mutex));
	outcome("a", &a);
	CHECK(sleeps(&b));
	unlock_by(&a, &mutex);
	SHOW(MOVE(0, 2));
	outcome("b", &b);
	unlock_by(&b, &mutex);
	/* The owner that waits for it itself. */
	wait_by(&a, 0);
	mutex = (unsigned)a.tid;
	SHOW(MOVE(0, 2));
	mutex = 0x3ffffff0;
	SHOW(MOVE(0, 2));
	mutex = 0;
	SHOW(MOVE(0, 2));
	outcome("a", &a);
	unlock_by(&a, &mutex);
}

static void handler(int number) { (void)number; }

static void early(void)
{
	section("early");
	struct sigaction action = { .sa_handler = handler };
	sigaction(SIGUSR1, &action, 0);
	condition = 1, mutex = 0;
	struct timespec soon = in(CLOCK_MONOTONIC, 20);
	tell(&a, WAIT_REQUEUE_PI | PRIVATE, &condition, 1, &soon, &mutex, 0);
	outcome("a", &a);
	soon = in(CLOCK_REALTIME, 20);
	tell(&a, WAIT_REQUEUE_PI | PRIVATE | REALTIME, &condition, 1, &soon, &mutex, 0);
	outcome("a", &a);
	SHOW(MOVE(0, 1));
	/* After the move. */
	SHOW(LOCK(&mutex));
	soon = in(CLOCK_MONOTONIC, 200);
	tell(&a, WAIT_REQUEUE_PI | PRIVATE, &condition, 1, &soon, &mutex, 0);
	sleeps(&a);
	long moved = MOVE(0, 1);
	outcome("a", &a);
	CHECK(moved == 1 || moved == 0);
	WORD(mutex, tid());
	/* A signal: before the move the call is made again, after it it returns. */
	wait_by(&a, 0);
	syscall(SYS_tgkill, getpid(), a.tid, SIGUSR1);
	nap(20);
	CHECK(sleeps(&a));
	SHOW(MOVE(0, 1));
	CHECK(sleeps(&a));
	syscall(SYS_tgkill, getpid(), a.tid, SIGUSR1);
	outcome("a", &a);
	SHOW(UNLOCK(&mutex));
	WORD(mutex, tid());
	wait_by(&a, 0);
	condition = 2;
	syscall(SYS_tgkill, getpid(), a.tid, SIGUSR1);
	outcome("a", &a);
}

/* It would wait for itself: it goes on waiting where it was. */
static void circle(void)
{
	section("circle");
	condition = 1, mutex = third = 0;
	owned_by(&a, &third);
	owned_by(&b, &mutex);
	lock_by(&b, &third);
	CHECK(sleeps(&b));
	wait_by(&a, 0);
	SHOW(MOVE(0, 1));
	CHECK(sleeps(&a));
	SHOW(MOVE(0, 1));
	SHOW(MOVE(0, 2));
	CHECK(sleeps(&a));
	mutex = 0;
	SHOW(futex(&condition, CMP_REQUEUE_PI | PRIVATE, 1, 0, &mutex, 1));
	outcome("a", &a);
	WORD(mutex, a.tid);
	unlock_by(&a, &mutex);
	unlock_by(&a, &third);
	outcome("b", &b);
	unlock_by(&b, &third);
}

/* A condition variable whose mutex lends priority, as the C library of GNU had it: those who wait are moved when they are told, and none is woken for nothing. */
enum { EATERS = 8, MEALS = 50 };
static unsigned event, table;
static int food, eaten;

static void lock_table(void)
{
	unsigned free = 0;
	if (!__atomic_compare_exchange_n(&table, &free, (unsigned)tid(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		LOCK(&table);
}

static void unlock_table(void)
{
	unsigned own = (unsigned)tid();
	if (!__atomic_compare_exchange_n(&table, &own, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		UNLOCK(&table);
}

static void *eats(void *argument)
{
	(void)argument;
	lock_table();
	for (int i = 0; i < MEALS; i++) {
		while (food == 0) {
			unsigned seen = event;
			unlock_table();
			if (futex(&event, WAIT_REQUEUE_PI | PRIVATE, seen, 0, &table, 0) != 0)
				lock_table();
		}
		food--, eaten++;
	}
	unlock_table();
	return 0;
}

static void meals(void)
{
	section("meals");
	pthread_t threads[EATERS];
	for (int i = 0; i < EATERS; i++)
		pthread_create(&threads[i], 0, eats, 0);
	for (int served = 0; served < EATERS * MEALS;) {
		lock_table();
		int more = served % 3 + 1;
		if (more > EATERS * MEALS - served)
			more = EATERS * MEALS - served;
		food += more, served += more;
		unsigned now = ++event;
		while (futex(&event, CMP_REQUEUE_PI | PRIVATE, 1, (void *)(long)INT_MAX, &table, now) == -1 && errno == EAGAIN)
			;
		unlock_table();
	}
	for (int i = 0; i < EATERS; i++)
		pthread_join(threads[i], 0);
	say("%d of %d, %d left", eaten, EATERS * MEALS, food);
	WORD(table, 0);
}

int main(void)
{
	start(&a), start(&b), start(&c);
	wrong();
	free_mutex();
	held_mutex();
	early();
	circle();
	meals();
	return 0;
}
