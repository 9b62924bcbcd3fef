/*
 * faultzf: zero-fill page faults. Maps anonymous memory, touches every page, unmaps it, again and again.
 * An operation is one fault. Tasks are processes, or threads of one process with -t. With -k nothing is unmapped until
 * 64 MiB per task have been touched, so that the faults stand without their share of munmap. With -o there is one mapping,
 * made before the tasks start; each touches a span of its own in it and drops its pages (MADV_DONTNEED) in between.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEEP_MIB 64
/* Spans with -o begin at multiples of this: what one page-table page translates on the processors of today. */
#define SPAN (2ul << 20)

static char *common;

struct own {
	size_t length, page;
	unsigned kept, limit;
	void *map[];
};

static size_t span_length(void)
{
	return (((size_t)opt.mib << 20) + SPAN - 1) & ~(SPAN - 1);
}

static void prepare(void)
{
	if (opt.mib == 0 || opt.mib > 1 << 20) {
		errno = EINVAL;
		bench_fail("-m");
	}
	if (!opt.shared)
		return;
	char *area = mmap(0, opt.tasks * span_length() + SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
	if (area == MAP_FAILED)
		bench_fail("mmap");
	common = area + (SPAN - (uintptr_t)area % SPAN) % SPAN;
}

static void setup(struct task *task)
{
	unsigned limit = opt.mib >= KEEP_MIB ? 1 : (unsigned)(KEEP_MIB / opt.mib);
	struct own *own = malloc(sizeof *own + limit * sizeof(void *));
	if (!own)
		bench_fail("malloc");
	own->length = (size_t)opt.mib << 20;
	own->page = (size_t)sysconf(_SC_PAGESIZE);
	own->kept = 0;
	own->limit = limit;
	task->state = own;
}

static void drop(struct own *own)
{
	while (own->kept > 0)
		if (munmap(own->map[--own->kept], own->length) != 0)
			bench_fail("munmap");
}

static uint64_t op(struct task *task)
{
	struct own *own = task->state;
	if (opt.shared) {
		char *span = common + task->index * span_length();
		for (size_t at = 0; at < own->length; at += own->page)
			*(volatile char *)(span + at) = 1;
		if (madvise(span, own->length, MADV_DONTNEED) != 0)
			bench_fail("madvise");
		return own->length / own->page;
	}
	if (own->kept == own->limit)
		drop(own);
	char *area = mmap(0, own->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
	if (area == MAP_FAILED)
		bench_fail("mmap");
	for (size_t at = 0; at < own->length; at += own->page)
		*(volatile char *)(area + at) = 1;
	if (opt.keep)
		own->map[own->kept++] = area;
	else if (munmap(area, own->length) != 0)
		bench_fail("munmap");
	return own->length / own->page;
}

static void between(struct task *task)
{
	drop(task->state);
}

static const struct bench bench = {
	.name = "faultzf", .what = "zero-fill faults; an operation is one page", .flags = "tokm", .warm = 2048, .mib = 8,
	.prepare = prepare, .setup = setup, .op = op, .between = between,
};

BENCH_MAIN(bench)
