/*
 * What a program does with a file that is there: read or write the first -b bytes of an open one (FILE_READ, FILE_WRITE), stat it by its name (FILE_STAT), list its directory
 * (FILE_LIST). A file and a directory per task, one for all with -o. With -l they are the host's (live.c).
 */
#define _GNU_SOURCE
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct own {
	char dir[PATH_MAX], file[PATH_MAX + 16];
	char *block;
	int fd;
};

static pid_t owner;

static void prepare(void)
{
	owner = getpid();
}

static void setup(struct task *task)
{
	struct own *own = calloc(1, sizeof *own);
	unsigned index = opt.shared ? 0 : task->index;
	if (!own || !(own->block = malloc(opt.bytes + 1)))
		bench_fail("malloc");
	memset(own->block, 'x', opt.bytes + 1);
	if (opt.live) {
		bench_live_name(own->dir, index, "");
	} else {
		snprintf(own->dir, sizeof own->dir, "%s/files.%ld.%u", bench_tmp(), (long)owner, index);
		if (mkdir(own->dir, 0700) != 0 && errno != EEXIST)
			bench_fail(own->dir);
	}
	snprintf(own->file, sizeof own->file, "%s/file", own->dir);
#if defined(FILE_LIST)
	own->fd = open(own->dir, O_RDONLY | O_DIRECTORY);
#else
	own->fd = open(own->file, FILE_MODE | (opt.live ? 0 : O_CREAT | O_RDWR), 0600);
	if (own->fd >= 0 && !opt.live && pwrite(own->fd, own->block, opt.bytes, 0) != (ssize_t)opt.bytes)
		bench_fail("write");
#endif
	if (own->fd < 0)
		bench_fail(own->file);
	task->state = own;
}

static uint64_t op(struct task *task)
{
	struct own *own = task->state;
#if defined(FILE_READ)
	if (pread(own->fd, own->block, opt.bytes, 0) != (ssize_t)opt.bytes)
		bench_fail("read");
#elif defined(FILE_WRITE)
	if (pwrite(own->fd, own->block, opt.bytes, 0) != (ssize_t)opt.bytes)
		bench_fail("write");
#elif defined(FILE_STAT)
	struct stat found;
	if (stat(own->file, &found) != 0)
		bench_fail(own->file);
#elif defined(FILE_LIST)
	if (lseek(own->fd, 0, SEEK_SET) != 0)
		bench_fail("lseek");
	while (syscall(SYS_getdents64, own->fd, own->block, opt.bytes) > 0)
		;
#endif
	return 1;
}

static void teardown(struct task *task)
{
	struct own *own = task->state;
	close(own->fd);
	if (!opt.live) {
		if (unlink(own->file) != 0 && errno != ENOENT)
			bench_fail("unlink");
		if (rmdir(own->dir) != 0 && !opt.shared)
			bench_fail("rmdir");
	}
	free(own->block);
	free(own);
}

static const struct bench bench = {
	.name = NAME, .what = WHAT, .flags = "tolb", .warm = 200, .bytes = 4096,
	.prepare = prepare, .setup = setup, .op = op, .teardown = teardown,
};

BENCH_MAIN(bench)
