/*
 * The null calls, one program each by -DCALL_...: what it costs to enter the kernel and come back.
 *   getppid    one system call that does next to nothing
 *   clock      clock_gettime(CLOCK_MONOTONIC), which a good kernel answers without being entered
 *   openclose  open and close a file: path lookup, a file object, a descriptor. -o: one file for all tasks
 *   pipe       write and read BYTES through a pipe of the task's own
 *   tick       ten milliseconds in user mode alone, in which a timer interrupt comes as a rule
 *   raise      a signal to oneself, with a handler: as raise(3), also two changes of the mask, and the return from the handler
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(CALL_GETPPID)
static uint64_t op(struct task *task)
{
	(void)task;
	getppid();
	return 1;
}

static const struct bench bench = {
	.name = "getppid", .what = "one trivial system call", .flags = "t", .warm = 1000, .op = op,
};

#elif defined(CALL_CLOCK)
static uint64_t op(struct task *task)
{
	(void)task;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1;
}

static const struct bench bench = {
	.name = "clock", .what = "clock_gettime(CLOCK_MONOTONIC)", .flags = "t", .warm = 1000, .op = op,
};

#elif defined(CALL_TICK)
/* As long as Darter's ticks are apart where nobody waits. Linux's are as its CONFIG_HZ says. */
enum { TICK_NS = 10 * 1000 * 1000 };

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t op(struct task *task)
{
	(void)task;
	uint64_t until = now_ns() + TICK_NS;
	while (now_ns() < until)
		;
	return 1;
}

static const struct bench bench = {
	.name = "tick", .what = "ten milliseconds in user mode alone", .flags = "t", .warm = 10, .op = op,
};

#elif defined(CALL_OPENCLOSE)
static pid_t owner;

static char *name_of(unsigned index)
{
	char *name = malloc(PATH_MAX);
	if (!name)
		bench_fail("malloc");
	if (opt.live)
		bench_live_name(name, opt.shared ? 0 : index, "file");
	else
		snprintf(name, PATH_MAX, "%s/openclose.%ld.%u", bench_tmp(), (long)owner, opt.shared ? 0 : index);
	return name;
}

static void prepare(void)
{
	owner = getpid();
}

static void setup(struct task *task)
{
	task->state = name_of(task->index);
	int fd = open(task->state, opt.live ? O_RDONLY : O_CREAT | O_RDWR, 0600);
	if (fd < 0)
		bench_fail(task->state);
	close(fd);
}

static uint64_t op(struct task *task)
{
	int fd = open(task->state, O_RDONLY);
	if (fd < 0)
		bench_fail("open");
	close(fd);
	return 1;
}

static void teardown(struct task *task)
{
	if (!opt.live && unlink(task->state) != 0 && errno != ENOENT)
		bench_fail("unlink");
	free(task->state);
}

static const struct bench bench = {
	.name = "openclose", .what = "open and close a file", .flags = "tol", .warm = 1000,
	.prepare = prepare, .setup = setup, .op = op, .teardown = teardown,
};

#elif defined(CALL_PIPE)
struct own {
	int ends[2];
	char *buffer;
};

static void setup(struct task *task)
{
	struct own *own = malloc(sizeof *own);
	if (!own || opt.bytes == 0 || opt.bytes > 4096 || !(own->buffer = calloc(1, opt.bytes))) {
		errno = EINVAL;
		bench_fail("-b takes 1 to 4096");
	}
	if (pipe(own->ends) != 0)
		bench_fail("pipe");
	task->state = own;
}

static uint64_t op(struct task *task)
{
	struct own *own = task->state;
	ssize_t length = (ssize_t)opt.bytes;
	if (write(own->ends[1], own->buffer, opt.bytes) != length || read(own->ends[0], own->buffer, opt.bytes) != length)
		bench_fail("pipe");
	return 1;
}

static const struct bench bench = {
	.name = "pipe", .what = "write and read through an own pipe", .flags = "tb", .warm = 200, .bytes = 512,
	.setup = setup, .op = op,
};

#elif defined(CALL_RAISE)
static _Thread_local volatile uint64_t taken;

static void handler(int signal)
{
	(void)signal;
	taken++;
}

static void setup(struct task *task)
{
	(void)task;
	if (signal(SIGUSR1, handler) == SIG_ERR)
		bench_fail("signal");
}

static uint64_t op(struct task *task)
{
	(void)task;
	uint64_t before = taken;
	if (raise(SIGUSR1) != 0 || taken != before + 1)
		bench_fail("raise");
	return 1;
}

static const struct bench bench = {
	.name = "raise", .what = "a signal to oneself", .flags = "t", .warm = 500, .setup = setup, .op = op,
};
#endif

BENCH_MAIN(bench)
