/*
 * mmap: map a few pages, touch each, unmap. An operation is one mapping. Processes, or with -t threads of one process,
 * which is where a kernel with one lock per address space shows. -b BYTES: the size (default four pages).
 */
#define _GNU_SOURCE
#include "bench.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t page;

static void prepare(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
}

static uint64_t op(struct task *task)
{
	(void)task;
	char *area = mmap(0, opt.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
	if (area == MAP_FAILED)
		bench_fail("mmap");
	for (size_t at = 0; at < opt.bytes; at += page)
		*(volatile char *)(area + at) = 1;
	if (munmap(area, opt.bytes) != 0)
		bench_fail("munmap");
	return 1;
}

static const struct bench bench = {
	.name = "mmap", .what = "map, touch, unmap", .flags = "tb", .warm = 1000, .bytes = 4 * 4096,
	.prepare = prepare, .op = op,
};

BENCH_MAIN(bench)
