/*
 * wakes: threads that hand out work wake threads that do it, by futexes.
 *
 *   wakes MESSENGERS WORKERS ROUNDS
 *
 * Each messenger has WORKERS. A worker says that it has nothing to do and sleeps until its messenger gives it something; then it computes for a while.
 * An operation is one piece of work. What is late is a worker: from before it is woken until it runs.
 */
#define _GNU_SOURCE
#include "sched.h"

/* Additions that a piece of work takes. */
#define WORK 20000

enum { BUSY, WANTS, DONE };

struct worker {
	_Alignas(128) volatile uint32_t state;
	volatile uint64_t given_ns;
};

struct messenger {
	_Alignas(128) volatile uint32_t calls; /* of workers that want something, or are done */
	struct worker *workers;
};

static unsigned workers, rounds;
static struct messenger *messengers;

static void say(struct messenger *messenger, struct worker *worker, uint32_t state)
{
	__atomic_store_n(&worker->state, state, __ATOMIC_RELEASE);
	__atomic_add_fetch(&messenger->calls, 1, __ATOMIC_RELEASE);
	wake(&messenger->calls, 1);
}

static unsigned work(struct messenger *messenger, struct worker *worker, struct samples *late)
{
	int cpu = sched_getcpu();
	unsigned moves = 0;
	for (unsigned at = 0; at < rounds; at++) {
		say(messenger, worker, WANTS);
		wait_while(&worker->state, WANTS);
		sample(late, now_ns() - worker->given_ns);
		look_where(&cpu, &moves);
		compute(WORK);
		look_where(&cpu, &moves);
	}
	say(messenger, worker, DONE);
	return moves;
}

/* Returns how many of the workers are done. */
static unsigned look_around(struct messenger *messenger)
{
	unsigned done = 0;
	for (unsigned at = 0; at < workers; at++) {
		struct worker *worker = &messenger->workers[at];
		uint32_t state = __atomic_load_n(&worker->state, __ATOMIC_ACQUIRE);
		done += state == DONE;
		if (state != WANTS)
			continue;
		worker->given_ns = now_ns();
		__atomic_store_n(&worker->state, BUSY, __ATOMIC_RELEASE);
		wake(&worker->state, 1);
	}
	return done;
}

static unsigned give(struct messenger *messenger)
{
	int cpu = sched_getcpu();
	unsigned moves = 0;
	for (;;) {
		uint32_t calls = __atomic_load_n(&messenger->calls, __ATOMIC_ACQUIRE);
		if (look_around(messenger) == workers)
			return moves;
		wait_while(&messenger->calls, calls);
		look_where(&cpu, &moves);
	}
}

static unsigned body(unsigned i, struct samples *late)
{
	struct messenger *messenger = &messengers[i / (workers + 1)];
	unsigned place = i % (workers + 1);
	return place == 0 ? give(messenger) : work(messenger, &messenger->workers[place - 1], late);
}

int main(int argc, char **argv)
{
	unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], 0, 10) : 0;
	workers = argc > 2 ? (unsigned)strtoul(argv[2], 0, 10) : 0;
	rounds = argc > 3 ? (unsigned)strtoul(argv[3], 0, 10) : 0;
	if (count == 0 || count > 100 || workers == 0 || workers > 100 || rounds == 0) {
		fprintf(stderr, "usage: wakes MESSENGERS WORKERS ROUNDS\n");
		return 2;
	}
	limit_time();
	messengers = shared_memory(count * sizeof *messengers);
	for (unsigned at = 0; at < count; at++)
		messengers[at].workers = shared_memory(workers * sizeof(struct worker));
	run_load(&(struct tasks){ "wakes", count * (workers + 1), (unsigned long long)count * workers * rounds, 1,
		shared_memory(sizeof(struct load)), body });
	return 0;
}
