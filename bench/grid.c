/*
 * grid: task 0 does one operation on CPU 0 while task 1 does another on CPU 1, in one window: do they touch common lines?
 *
 *     grid "faultzf -m 2 -c 512" "tmpfs -o -c 50"
 *
 * Each operation is a benchmark with its own options. Tasks are processes; with -t before the operations, threads of one.
 */
#include "bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EACH(op) op(faultzf) op(faultfile) op(mmap) op(brk) op(threads) op(tmpfs) op(forkexec) op(forkexit) op(getppid) \
	op(clock) op(openclose) op(pipe)
#define DECLARE(name) extern const struct bench *const grid_##name;
#define LIST(name) &grid_##name,
EACH(DECLARE)
static const struct bench *const *const operations[] = { EACH(LIST) };

static const struct bench grid = { .name = "grid", .what = "two operations at a time", .flags = "" };

static struct side {
	const struct bench *bench;
	struct options options;
} sides[2];
static int threads;

static const struct bench *find(const char *name)
{
	for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
		if (strcmp((*operations[i])->name, name) == 0)
			return *operations[i];
	fprintf(stderr, "grid: no operation is called %s; there are:", name);
	for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
		fprintf(stderr, " %s", (*operations[i])->name);
	fputc('\n', stderr);
	exit(2);
}

/* An operation with its options, in one word of the command line. */
static void read_side(struct side *side, char *text)
{
	char *words[16];
	int count = 0;
	for (char *word = strtok(text, " "); word && count < 15; word = strtok(0, " "))
		words[count++] = word;
	words[count] = 0;
	if (count == 0)
		find("");
	side->bench = find(words[0]);
	optind = 1;
	bench_options(count, words, side->bench);
	if (opt.threads || opt.ops == 0) {
		fprintf(stderr, "grid: %s: -c OPS must be there, -t stands before the operations\n", words[0]);
		exit(2);
	}
	opt.tasks = 2;
	opt.threads = threads;
	side->options = opt;
	if (side->bench->prepare)
		side->bench->prepare();
}

static void body(struct task *task)
{
	opt = sides[task->index].options;
	task->bench = sides[task->index].bench;
	bench_task(task);
}

static void *thread_main(void *task)
{
	body(task);
	return 0;
}

static void run_threads(struct shared *shared)
{
	pthread_t thread[2];
	struct task task[2];
	for (unsigned i = 0; i < 2; i++) {
		task[i] = (struct task){ .bench = &grid, .index = i, .shared = shared, .slot = &shared->slot[i] };
		if ((errno = pthread_create(&thread[i], 0, thread_main, &task[i])) != 0)
			bench_fail("pthread_create");
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], 0);
}

int main(int argc, char **argv)
{
	/* What forkexec executes. */
	if (argc == 2 && strcmp(argv[1], "@exit") == 0)
		return 0;
	if (argc > 1 && strcmp(argv[1], "-t") == 0) {
		threads = 1;
		argc--, argv++;
	}
	if (argc != 3) {
		fprintf(stderr, "usage: grid [-t] \"OPERATION -c OPS [OPTION]\" \"OPERATION -c OPS [OPTION]\"\n");
		return 2;
	}
	read_side(&sides[0], argv[1]);
	read_side(&sides[1], argv[2]);
	struct shared *shared = bench_map_shared(-1, 2);
	bench_begin(shared);
	if (threads)
		run_threads(shared);
	else
		bench_processes(&grid, shared, body);
	for (int i = 0; i < 2; i++)
		if (sides[i].bench->cleanup)
			sides[i].bench->cleanup();
	bench_report(&grid, shared);
	return 0;
}
