/*
 * tmpfs: create a file, write it, rename it, unlink it. An operation is one file's life. A directory per task, or one
 * for all with -o. -b BYTES: how much is written. The directory is made in $TMPDIR or /tmp: put a tmpfs there.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct own {
	char dir[PATH_MAX];
	char from[PATH_MAX + 32], to[PATH_MAX + 32];
	char *block;
};

static pid_t owner;

static void prepare(void)
{
	owner = getpid();
}

static void setup(struct task *task)
{
	struct own *own = malloc(sizeof *own);
	if (!own || !(own->block = calloc(1, opt.bytes + 1)))
		bench_fail("malloc");
	unsigned which = opt.shared ? 0 : task->index;
	snprintf(own->dir, sizeof own->dir, "%s/tmpfs.%ld.%u", bench_tmp(), (long)owner, which);
	if (mkdir(own->dir, 0700) != 0 && errno != EEXIST)
		bench_fail(own->dir);
	snprintf(own->from, sizeof own->from, "%s/new.%u", own->dir, task->index);
	snprintf(own->to, sizeof own->to, "%s/old.%u", own->dir, task->index);
	task->state = own;
}

static uint64_t op(struct task *task)
{
	struct own *own = task->state;
	int fd = open(own->from, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0)
		bench_fail("create");
	if (write(fd, own->block, opt.bytes) != (ssize_t)opt.bytes)
		bench_fail("write");
	close(fd);
	if (rename(own->from, own->to) != 0)
		bench_fail("rename");
	if (unlink(own->to) != 0)
		bench_fail("unlink");
	return 1;
}

static void teardown(struct task *task)
{
	struct own *own = task->state;
	if (rmdir(own->dir) != 0 && !opt.shared)
		bench_fail("rmdir");
	free(own->block);
	free(own);
}

static const struct bench bench = {
	.name = "tmpfs", .what = "create, write, rename, unlink", .flags = "tolb", .warm = 200, .bytes = 4096,
	.prepare = prepare, .setup = setup, .op = op, .teardown = teardown,
};

BENCH_MAIN(bench)
