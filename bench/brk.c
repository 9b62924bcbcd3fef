/*
 * brk: grow the heap by BYTES (default 16 pages), touch each page, shrink it again. An operation is one growth.
 * On Linux the system call itself, because a C library may refuse sbrk() with anything but zero.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

static char *move_break(char *to)
{
#if defined(__linux__)
	return (char *)syscall(SYS_brk, to);
#else
	return brk(to) == 0 ? to : 0;
#endif
}

static char *start;
static size_t page;

static void setup(struct task *task)
{
	(void)task;
	page = (size_t)sysconf(_SC_PAGESIZE);
#if defined(__linux__)
	start = (char *)syscall(SYS_brk, 0);
#else
	start = sbrk(0);
#endif
}

static uint64_t op(struct task *task)
{
	(void)task;
	char *end = start + opt.bytes;
	if (move_break(end) != end) {
		errno = ENOMEM;
		bench_fail("brk up");
	}
	for (char *at = start; at < end; at += page)
		*(volatile char *)at = 1;
	if (move_break(start) != start) {
		errno = ENOMEM;
		bench_fail("brk down");
	}
	return 1;
}

static const struct bench bench = {
	.name = "brk", .what = "grow the heap, touch, shrink", .flags = "b", .warm = 1000, .bytes = 16 * 4096,
	.setup = setup, .op = op,
};

BENCH_MAIN(bench)
