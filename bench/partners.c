/*
 * What it costs to hand a CPU on, one program each by -DPARTNERS_...: each task has a partner of its own.
 *   handoff  a thread and its partner, a thread of the same process, wake each other by a futex. An operation is there and back: two wake-ups
 *            and two waits
 *   pingpong a process and its partner, a process, send each other a byte by two pipes
 *   yield    a process and its partner, a process, both call sched_yield; an operation is one call of the task, and the partner's in between
 * The partner is on the task's CPU; with -a (handoff, pingpong) on the next one, so that each wake-up goes to another CPU.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned partners_cpu(const struct task *task)
{
	return task->index + (opt.across ? 1 : 0);
}

#if defined(PARTNERS_HANDOFF)
/* futex(2) of words that no other process uses. */
enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };
enum { MINE, PARTNERS, END };

struct pair {
	_Alignas(2 * BENCH_LINE) uint32_t turn;
	const struct task *task;
	pthread_t partner;
};

static void pass(uint32_t *turn, uint32_t to)
{
	__atomic_store_n(turn, to, __ATOMIC_RELEASE);
	syscall(SYS_futex, turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

/* As long as it is `whose`. */
static uint32_t wait_while(uint32_t *turn, uint32_t whose)
{
	uint32_t now;
	while ((now = __atomic_load_n(turn, __ATOMIC_ACQUIRE)) == whose)
		syscall(SYS_futex, turn, FUTEX_WAIT_PRIVATE, whose, 0, 0, 0);
	return now;
}

static void *partner(void *argument)
{
	struct pair *pair = argument;
	bench_pin(partners_cpu(pair->task));
	while (wait_while(&pair->turn, MINE) != END)
		pass(&pair->turn, MINE);
	return 0;
}

static void setup(struct task *task)
{
	struct pair *pair = aligned_alloc(_Alignof(struct pair), sizeof *pair);
	if (!pair)
		bench_fail("aligned_alloc");
	pair->turn = MINE;
	pair->task = task;
	if ((errno = pthread_create(&pair->partner, 0, partner, pair)) != 0)
		bench_fail("pthread_create");
	task->state = pair;
}

static uint64_t op(struct task *task)
{
	struct pair *pair = task->state;
	pass(&pair->turn, PARTNERS);
	wait_while(&pair->turn, PARTNERS);
	return 1;
}

static void teardown(struct task *task)
{
	struct pair *pair = task->state;
	pass(&pair->turn, END);
	pthread_join(pair->partner, 0);
	free(pair);
}

static const struct bench bench = {
	.name = "handoff", .what = "wake a thread by a futex and wait for it to wake this one", .flags = "a", .warm = 300,
	.setup = setup, .op = op, .teardown = teardown,
};

#else

struct pair {
	int there[2], back[2];
	pid_t partner;
};

static struct pair *start(struct task *task, void (*body)(struct pair *))
{
	struct pair *pair = malloc(sizeof *pair);
	if (!pair || pipe(pair->there) != 0 || pipe(pair->back) != 0)
		bench_fail("pipe");
	pair->partner = fork();
	if (pair->partner < 0)
		bench_fail("fork");
	if (pair->partner == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		bench_pin(partners_cpu(task));
		close(pair->there[1]);
		body(pair);
		_exit(0);
	}
	close(pair->there[0]);
	task->state = pair;
	return pair;
}

static void teardown(struct task *task)
{
	struct pair *pair = task->state;
	kill(pair->partner, SIGKILL);
	waitpid(pair->partner, 0, 0);
	close(pair->there[1]);
	close(pair->back[0]);
	close(pair->back[1]);
	free(pair);
}

#if defined(PARTNERS_PINGPONG)
static void partner(struct pair *pair)
{
	char byte;
	while (read(pair->there[0], &byte, 1) == 1)
		if (write(pair->back[1], &byte, 1) != 1)
			bench_fail("write");
}

static void setup(struct task *task)
{
	start(task, partner);
}

static uint64_t op(struct task *task)
{
	struct pair *pair = task->state;
	char byte = 'x';
	if (write(pair->there[1], &byte, 1) != 1 || read(pair->back[0], &byte, 1) != 1)
		bench_fail("pingpong");
	return 1;
}

static const struct bench bench = {
	.name = "pingpong", .what = "send a byte to a process by a pipe and wait for its answer", .flags = "a", .warm = 300,
	.setup = setup, .op = op, .teardown = teardown,
};

#elif defined(PARTNERS_YIELD)
static void partner(struct pair *pair)
{
	(void)pair;
	for (;;)
		sched_yield();
}

static void setup(struct task *task)
{
	start(task, partner);
}

static uint64_t op(struct task *task)
{
	(void)task;
	sched_yield();
	return 1;
}

static const struct bench bench = {
	.name = "yield", .what = "sched_yield to a process that does the same", .flags = "", .warm = 300,
	.setup = setup, .op = op, .teardown = teardown,
};
#endif
#endif

BENCH_MAIN(bench)
