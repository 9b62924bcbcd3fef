/*
 * What the executor's files have in common. Layout of a program's memory: data at DATA, free addresses at WINDOW (the first pages mapped),
 * stacks at STACKS, results at RESULTS.
 */
#ifndef EXECUTOR_H
#define EXECUTOR_H

#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

#define DATA 0x10000000ul
#define DATA_BYTES 0x10000ul
/* What a digest is of: programs that are compared keep below. */
#define DIGEST_BYTES 0x2000ul
#define WINDOW 0x20000000ul
#define WINDOW_BYTES 0x10000ul
#define STACKS 0x30000000ul
#define STACK_BYTES 0x8000ul
#define MOST_TASKS 6
#define RESULTS 0x40000000ul
#define MOST_SLOTS 1024

enum { TASK_PROCESS, TASK_THREAD, TASK_SHARED_MEMORY, TASK_SHARED_FILES };
enum { SHARED_DATA = 1, SAY_RESULTS = 2 };
enum { CALL_BEGUN = 1, CALL_ENDED = 2 };

struct slot {
	int64_t value;
	uint64_t digest;
	uint32_t state, task;
};

struct results {
	struct slot slot[MOST_SLOTS];
	uint32_t calls, successes, ended, forks;
	int32_t leader, task[MOST_TASKS];
};

static struct results *const results = (struct results *)RESULTS;

struct task {
	int number, kind;
	const uint8_t *ops, *end;
};

/* The program that runs, taken out of the batch. */
extern struct program {
	uint32_t number, limit;
	int uid, flags, tasks;
	struct task task[MOST_TASKS];
} program;

static inline uint16_t u16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t u32(const uint8_t *at)
{
	return u16(at) | (uint32_t)u16(at + 2) << 16;
}

static inline uint64_t u64(const uint8_t *at)
{
	return u32(at) | (uint64_t)u32(at + 4) << 32;
}

/* program.c */
void map(unsigned long at, size_t bytes, int flags);
/* The first process of a program, which runs its first task and starts the others. */
_Noreturn void lead(void);

/* home.c */
/* The directory above those of programs: as a descriptor, so that no chroot or mount of a program hides it. */
extern int home;
void empty(int dir, int depth);
int furnish(void);

#endif
