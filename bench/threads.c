/* threads: create a thread and join it. An operation is one thread. A process per task, or with -t one process for all. */
#include "bench.h"

#include <errno.h>
#include <pthread.h>

static void *body(void *argument)
{
	return argument;
}

static uint64_t op(struct task *task)
{
	pthread_t thread;
	if ((errno = pthread_create(&thread, 0, body, task)) != 0)
		bench_fail("pthread_create");
	if ((errno = pthread_join(thread, 0)) != 0)
		bench_fail("pthread_join");
	return 1;
}

static const struct bench bench = {
	.name = "threads", .what = "create and join a thread", .flags = "t", .warm = 4000, .op = op,
};

BENCH_MAIN(bench)
