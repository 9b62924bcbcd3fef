/*
 * faultfile: faults on resident file pages. Maps a file, reads one byte of every page, unmaps it, again and again.
 * An operation is one page touched. Each task has a file of its own, or all map one file with -o; shared mappings, or
 * private ones with -p.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct own {
	size_t length, page;
	int fd;
};

static int common = -1;

/* A file of the size asked for, filled (not sparse) and already unlinked. */
static int make_file(size_t length)
{
	char name[PATH_MAX], block[4096];
	snprintf(name, sizeof name, "%s/faultfile.XXXXXX", bench_tmp());
	int fd = mkstemp(name);
	if (fd < 0)
		bench_fail(name);
	unlink(name);
	memset(block, 'x', sizeof block);
	for (size_t at = 0; at < length; at += sizeof block)
		if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
			bench_fail("write");
	return fd;
}

static void prepare(void)
{
	if (opt.mib == 0 || opt.mib > 1 << 20) {
		errno = EINVAL;
		bench_fail("-m");
	}
	if (opt.shared)
		common = make_file((size_t)opt.mib << 20);
}

static void setup(struct task *task)
{
	struct own *own = malloc(sizeof *own);
	if (!own)
		bench_fail("malloc");
	own->length = (size_t)opt.mib << 20;
	own->page = (size_t)sysconf(_SC_PAGESIZE);
	own->fd = opt.shared ? common : make_file(own->length);
	task->state = own;
}

static uint64_t op(struct task *task)
{
	struct own *own = task->state;
	char *area = mmap(0, own->length, PROT_READ, opt.private_map ? MAP_PRIVATE : MAP_SHARED, own->fd, 0);
	if (area == MAP_FAILED)
		bench_fail("mmap");
	for (size_t at = 0; at < own->length; at += own->page)
		(void)*(volatile char *)(area + at);
	if (munmap(area, own->length) != 0)
		bench_fail("munmap");
	return own->length / own->page;
}

static const struct bench bench = {
	.name = "faultfile", .what = "faults on resident file pages; an operation is one page", .flags = "topm",
	.warm = 65536, .mib = 8, .prepare = prepare, .setup = setup, .op = op,
};

BENCH_MAIN(bench)
