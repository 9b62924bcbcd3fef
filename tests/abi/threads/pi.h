/* What the programs about futexes that lend priority share: threads that do as they are told, one call after the other. */
#ifndef PI_H
#define PI_H

#include "t.h"
#include <stddef.h>
#include <pthread.h>

enum { WAIT, WAKE, FD, REQUEUE, CMP_REQUEUE, WAKE_OP, LOCK_PI, UNLOCK_PI, TRYLOCK_PI, WAIT_BITSET, WAKE_BITSET, WAIT_REQUEUE_PI, CMP_REQUEUE_PI, LOCK_PI2 };
enum { PRIVATE = 128, REALTIME = 256 };
enum { OTHER, FIFO, RR };
#define WAITERS 0x80000000u
#define DIED 0x40000000u
#define OWNER 0x3fffffffu

static inline int tid(void) { return (int)syscall(SYS_gettid); }

static inline long futex(void *word, int operation, long value, const void *extra, void *second, unsigned third)
{
	return syscall(SYS_futex, word, operation, value, extra, second, third);
}

#define LOCK(word) futex(word, LOCK_PI | PRIVATE, 0, 0, 0, 0)
#define UNLOCK(word) futex(word, UNLOCK_PI | PRIVATE, 0, 0, 0, 0)
#define TRYLOCK(word) futex(word, TRYLOCK_PI | PRIVATE, 0, 0, 0, 0)

/* The word without its number: whose it is. */
static inline void show_word(const char *name, unsigned word, int owner)
{
	unsigned who = word & OWNER;
	say("%s:%s%s %s", name, word & WAITERS ? " waiters" : "", word & DIED ? " died" : "", who == 0 ? "nobody" : who == (unsigned)owner ? "owner" : "another");
}
#define WORD(word, owner) show_word(#word, word, owner)

struct worker {
	pthread_t thread;
	volatile int tid, told, begun, done;
	/* The call. */
	void *word, *second;
	int operation;
	unsigned value, third;
	const void *extra;
	volatile long result;
	volatile int error;
};

enum { STOP = 1000, VANISH };

static inline void *work(void *argument)
{
	struct worker *w = argument;
	w->tid = tid();
	for (int seen = 0;; seen++) {
		while (w->told == seen)
			futex((void *)&w->told, WAIT | PRIVATE, seen, 0, 0, 0);
		w->begun = seen + 1;
		if (w->operation == STOP)
			return 0;
		/* Without what the library does at the end of a thread. */
		if (w->operation == VANISH)
			syscall(SYS_exit, 0);
		errno = 0;
		w->result = futex(w->word, w->operation, w->value, w->extra, w->second, w->third);
		w->error = errno;
		w->done = seen + 1;
		futex((void *)&w->done, WAKE | PRIVATE, 1, 0, 0, 0);
	}
}

/* Its letter and its priority, as the kernel shows them. */
static inline char state_of(int thread, long *priority)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
	char *text = read_file(path), *field = text ? strrchr(text, ')') : 0;
	char letter = field ? field[2] : 'X';
	for (int n = 3; priority && field && (field = strchr(field + 1, ' ')); n++)
		if (n == 18)
			*priority = strtol(field, 0, 10);
	free(text);
	return letter;
}

static inline long priority_of(int thread)
{
	long priority = 0;
	state_of(thread, &priority);
	return priority;
}

static inline long set(int thread, int policy, int priority) { return syscall(SYS_sched_setscheduler, thread, policy, &priority); }

static inline void start(struct worker *w)
{
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	if (pthread_create(&w->thread, &small, work, w) != 0)
		say("no thread");
	while (w->tid == 0)
		nap(1);
}

static inline void tell(struct worker *w, int operation, void *word, unsigned value, const void *extra, void *second, unsigned third)
{
	w->operation = operation, w->word = word, w->value = value, w->extra = extra, w->second = second, w->third = third;
	w->told++;
	futex((void *)&w->told, WAKE | PRIVATE, 1, 0, 0, 0);
}

/* Waits until it has done what it was told, or sleeps meanwhile; true if it sleeps. */
static inline int sleeps(struct worker *w)
{
	for (;;) {
		if (w->done == w->told)
			return 0;
		if (w->begun == w->told && state_of(w->tid, 0) == 'S' && w->done != w->told)
			return 1;
		nap(1);
	}
}

static inline void finish(struct worker *w)
{
	while (w->done != w->told)
		futex((void *)&w->done, WAIT | PRIVATE, w->told - 1, 0, 0, 0);
}

/* What the call came to. */
static inline void outcome(const char *who, struct worker *w)
{
	finish(w);
	if (w->result < 0)
		say("%s: %ld %s", who, w->result, error_name(w->error));
	else
		say("%s: %ld", who, w->result);
}

static inline void stop(struct worker *w)
{
	tell(w, STOP, 0, 0, 0, 0, 0);
	pthread_join(w->thread, 0);
	memset(w, 0, sizeof *w);
}

/* It ends as a thread that is killed does. */
static inline void vanish(struct worker *w)
{
	tell(w, VANISH, 0, 0, 0, 0, 0);
	while (state_of(w->tid, 0) != 'X')
		nap(1);
	memset(w, 0, sizeof *w);
}

static inline void lock_by(struct worker *w, void *word) { tell(w, LOCK_PI | PRIVATE, word, 0, 0, 0, 0); }

/* It has the futex when this returns. */
static inline void owned_by(struct worker *w, void *word)
{
	lock_by(w, word);
	finish(w);
	if (w->result != 0)
		say("not locked: %s", error_name(w->error));
}

static inline void unlock_by(struct worker *w, void *word)
{
	tell(w, UNLOCK_PI | PRIVATE, word, 0, 0, 0, 0);
	finish(w);
	if (w->result != 0)
		say("not unlocked: %s", error_name(w->error));
}

/* A moment of that clock, so many milliseconds from now. */
static inline struct timespec in(clockid_t clock, long milliseconds)
{
	struct timespec now;
	clock_gettime(clock, &now);
	long all = now.tv_nsec + milliseconds * 1000000;
	now.tv_sec += all / 1000000000, now.tv_nsec = all % 1000000000;
	return now;
}

#endif
