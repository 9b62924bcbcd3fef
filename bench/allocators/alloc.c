/*
 * alloc: malloc and free by threads of one process, each pinned to its CPU, with whatever library the program is linked with or that
 * LD_PRELOAD names. Every block holds what its owner wrote, and is looked at before it is freed.
 *
 *     alloc list                      a line for each pattern: its name, the operations of each task in a window, what it does
 *     alloc PATTERN [N] [OPTIONS]     as every benchmark (../bench.h); the tasks are threads
 */
#include "alloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t draw(struct worker *worker)
{
	worker->seed = worker->seed * 6364136223846793005u + 1442695040888963407u;
	return worker->seed >> 33;
}

/* First and last word: a block that two owners have, or whose pages were another's, is found when it is freed. */
static uint64_t mark(const void *block, size_t size)
{
	return (uint64_t)(uintptr_t)block * 0x9e3779b97f4a7c15u ^ size;
}

static uint64_t *last(void *block, size_t size)
{
	return (uint64_t *)((char *)block + (size & ~(size_t)7) - 8);
}

_Noreturn void bad(const char *what, const void *block, size_t size)
{
	fprintf(stderr, "alloc: %s in the block of %zu bytes at %p\n", what, size, block);
	_exit(1);
}

void *take(size_t size)
{
	uint64_t *block = malloc(size);
	if (!block)
		bench_fail("malloc");
	*block = mark(block, size);
	*last(block, size) = mark(block, size);
	return block;
}

void give(void *block, size_t size)
{
	if (*(uint64_t *)block != mark(block, size) || *last(block, size) != mark(block, size))
		bad("foreign bytes", block, size);
	free(block);
}

static void setup(struct task *task)
{
	struct worker *worker = calloc(1, sizeof *worker);
	if (!worker)
		bench_fail("calloc");
	worker->seed = task->index + 1;
	task->state = worker;
}

static void teardown(struct task *task)
{
	struct worker *worker = task->state;
	for (unsigned i = 0; i < SLOTS; i++)
		free(worker->slot[i].block);
	free(worker);
}

/* Replaces one of `count` blocks at random by one of a size below `most`. */
static struct slot_block *replace(struct worker *worker, unsigned count, size_t least, size_t most)
{
	struct slot_block *slot = &worker->slot[draw(worker) % count];
	if (slot->block)
		give(slot->block, slot->size);
	slot->size = least + draw(worker) % (most - least);
	slot->block = take(slot->size);
	return slot;
}

static uint64_t churn(struct task *task)
{
	replace(task->state, SLOTS, 16, 1024);
	return 1;
}

/* All of a wave are held at once, then freed: the odd ones first, then the even ones. */
static uint64_t wave(struct task *task)
{
	struct worker *worker = task->state;
	for (unsigned i = 0; i < SLOTS; i++) {
		worker->slot[i].size = 1024 + draw(worker) % 16384;
		worker->slot[i].block = take(worker->slot[i].size);
	}
	for (unsigned odd = 2; odd-- > 0;)
		for (unsigned i = odd; i < SLOTS; i += 2) {
			give(worker->slot[i].block, worker->slot[i].size);
			worker->slot[i].block = 0;
		}
	return SLOTS;
}

enum { PAGE = 4096 };

/* Every second one is asked for as zeros and looked at: what was given back to the kernel must not come again with its content. */
static uint64_t large(struct task *task)
{
	struct worker *worker = task->state;
	struct slot_block *slot = replace(worker, 4, 32 << 10, 512 << 10);
	for (size_t at = PAGE; at + PAGE < slot->size; at += PAGE)
		((volatile char *)slot->block)[at] = 1;
	size_t size = (32 << 10) + draw(worker) % (256 << 10);
	char *zeros = calloc(1, size);
	if (!zeros)
		bench_fail("calloc");
	for (size_t at = 0; at < size; at += PAGE) {
		if (zeros[at])
			bad("no zero", zeros, size);
		((volatile char *)zeros)[at] = 1;
	}
	free(zeros);
	return 1;
}

/* A vector that grows by half of what it is, up to a MiB. An operation is one vector. */
static uint64_t grow(struct task *task)
{
	(void)task;
	uint64_t *vector = 0;
	size_t have = 0;
	for (size_t want = 64; want < 1 << 20; want += want / 2 & ~(size_t)7) {
		vector = realloc(vector, want);
		if (!vector)
			bench_fail("realloc");
		if (have && vector[have / 8 - 1] != have)
			bad("foreign bytes", vector, want);
		for (size_t at = have; at < want; at += PAGE)
			vector[at / 8] = 1;
		have = want & ~(size_t)7;
		vector[have / 8 - 1] = have;
	}
	free(vector);
	return 1;
}

/*
 * Blocks that one thread takes and the next one frees, in a ring of threads and in batches. All do the same number of batches, and none is
 * ahead of its neighbours by more than DEPTH of them; who has to wait spins, and does nothing in the kernel.
 */
enum { BATCH = 64, DEPTH = 4 };

struct ring {
	_Alignas(2 * BENCH_LINE) volatile uint64_t filled;
	_Alignas(2 * BENCH_LINE) volatile uint64_t emptied;
	_Alignas(2 * BENCH_LINE) struct slot_block batch[DEPTH][BATCH];
};

static struct ring *rings;

static void make_rings(void)
{
	if (posix_memalign((void **)&rings, 2 * BENCH_LINE, opt.tasks * sizeof *rings) != 0)
		bench_fail("posix_memalign");
	memset(rings, 0, opt.tasks * sizeof *rings);
}

/* False: time is up, and whoever is waited for may have left. */
static int wait_below(struct task *task, volatile uint64_t *count, uint64_t least)
{
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < least) {
		if (task->shared->stop)
			return 0;
		CPU_RELAX();
	}
	return 1;
}

static uint64_t handover(struct task *task)
{
	struct worker *worker = task->state;
	struct ring *to = &rings[(task->index + 1) % opt.tasks], *from = &rings[task->index];
	uint64_t turn = worker->turn++;
	if (turn >= DEPTH && !wait_below(task, &to->emptied, turn - DEPTH + 1))
		return 0;
	for (unsigned i = 0; i < BATCH; i++) {
		size_t size = 16 + draw(worker) % 2048;
		to->batch[turn % DEPTH][i] = (struct slot_block){ take(size), size };
	}
	__atomic_store_n(&to->filled, turn + 1, __ATOMIC_RELEASE);
	if (!wait_below(task, &from->filled, turn + 1))
		return 0;
	for (unsigned i = 0; i < BATCH; i++)
		give(from->batch[turn % DEPTH][i].block, from->batch[turn % DEPTH][i].size);
	__atomic_store_n(&from->emptied, turn + 1, __ATOMIC_RELEASE);
	return BATCH;
}

/* A thread that takes blocks and frees half of them; the other half is freed by who joins it. */
static void *young(void *argument)
{
	struct slot_block *slots = argument;
	for (unsigned i = 0; i < BATCH; i++)
		slots[i].block = take(slots[i].size = 16 + i * 61);
	for (unsigned i = 0; i < BATCH; i += 2)
		give(slots[i].block, slots[i].size);
	return 0;
}

static uint64_t threads(struct task *task)
{
	struct worker *worker = task->state;
	pthread_t thread;
	if ((errno = pthread_create(&thread, 0, young, worker->slot)) != 0)
		bench_fail("pthread_create");
	if ((errno = pthread_join(thread, 0)) != 0)
		bench_fail("pthread_join");
	for (unsigned i = 0; i < BATCH; i++) {
		if (i % 2)
			give(worker->slot[i].block, worker->slot[i].size);
		worker->slot[i].block = 0;
	}
	return 1;
}

#define PATTERN(pattern, ops, text, ...) \
	{ ops, { .name = #pattern, .what = text, .flags = "", .setup = setup, .op = pattern, .teardown = teardown, __VA_ARGS__ } }

#ifdef OBJECTS
static uint64_t objects(struct task *task)
{
	struct worker *worker = task->state;
	if (objects_round(&worker->seed) != 300 + 300 + 150 + 255 + 1)
		bad("lost objects", 0, 0);
	return 1;
}
#endif

/* Operations of a window, and the pattern; `warm` as many as bring an allocator to where it stays. */
static const struct pattern {
	unsigned ops;
	struct bench bench;
} patterns[] = {
	PATTERN(churn, 8000, "replace one of 512 small blocks", .warm = 2000),
	PATTERN(wave, 1024, "512 blocks of 1 to 17 KiB, all freed again; an operation is one block", .warm = 512),
	PATTERN(large, 24, "replace one of four large blocks, and take and free a large one of zeros", .warm = 12),
	PATTERN(grow, 20, "a vector that grows to a MiB by realloc", .warm = 10),
	PATTERN(handover, 4096, "a block that the next thread frees", .warm = 2048, .prepare = make_rings),
	PATTERN(threads, 100, "a thread that takes 64 blocks and leaves half of them to who joins it", .warm = 50),
#ifdef OBJECTS
	PATTERN(objects, 30, "C++ strings, vectors, maps and shared pointers, made and destroyed", .warm = 20),
#endif
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
		const struct pattern *pattern = &patterns[i];
		if (argc == 2 && strcmp(argv[1], "list") == 0) {
			printf("%s %u %s\n", pattern->bench.name, pattern->ops, pattern->bench.what);
		} else if (argc > 1 && strcmp(argv[1], pattern->bench.name) == 0) {
			bench_options(argc - 1, argv + 1, &pattern->bench);
			opt.threads = 1;
			bench_run(&pattern->bench);
			return 0;
		}
	}
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return 0;
	fprintf(stderr, "usage: alloc list | PATTERN [N] [OPTIONS]\n");
	return 2;
}
