/*
 * forkexit: fork, exit, wait. -m MIB: the parent has touched that much memory. An operation is one child.
 * forkexec (-DEXEC): fork (-v: vfork), exec, exit, wait. It executes itself, or -x PROGRAM (`tiny` is the smallest).
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void reap(pid_t child)
{
	int status;
	pid_t pid;
	do
		pid = waitpid(child, &status, 0);
	while (pid < 0 && errno == EINTR);
	if (pid != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		errno = ECHILD;
		bench_fail("a child failed");
	}
}

#ifdef EXEC

static const char *program = "";
static char *arguments[3];

static void prepare(void)
{
	program = opt.program ? opt.program : bench_self(program);
	arguments[0] = (char *)program;
	arguments[1] = (char *)(opt.program ? 0 : "@exit");
}

static uint64_t op(struct task *task)
{
	(void)task;
	static char *nothing[] = { 0 };
	pid_t child = opt.vfork ? vfork() : fork();
	if (child == 0) {
		execve(program, arguments, nothing);
		_exit(127);
	}
	if (child < 0)
		bench_fail("fork");
	reap(child);
	return 1;
}

static const struct bench bench = {
	.name = "forkexec", .what = "fork, exec, exit, wait", .flags = "vx", .warm = 100, .prepare = prepare, .op = op,
};

#ifndef GRID
int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "@exit") == 0)
		return 0;
	program = argv[0];
	return bench_main(argc, argv, &bench);
}
#else
BENCH_MAIN(bench)
#endif

#else

static void setup(struct task *task)
{
	(void)task;
	size_t length = (size_t)opt.mib << 20;
	if (length == 0)
		return;
	char *area = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
	if (area == MAP_FAILED)
		bench_fail("mmap");
	memset(area, 1, length);
}

static uint64_t op(struct task *task)
{
	(void)task;
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	if (child < 0)
		bench_fail("fork");
	reap(child);
	return 1;
}

static const struct bench bench = {
	.name = "forkexit", .what = "fork, exit, wait", .flags = "m", .warm = 200, .setup = setup, .op = op,
};

BENCH_MAIN(bench)

#endif
