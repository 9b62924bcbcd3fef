/* What the cases of `longest` share (judge.c). */
#ifndef LONGEST_H
#define LONGEST_H

#include "t.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define PAGE 4096L
#define MIB (1L << 20)
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* Megabytes of what is touched page by page. */
enum { SIZE = 32 };

struct call {
	const char *name;
	void (*make)(void);
};
#define CASE(f) { #f, f }

/* Each ends with a name that is null. */
extern const struct call memory_calls[], file_calls[], task_calls[], crowd_calls[], socket_calls[], attribute_calls[], root_calls[], socket_root_calls[],
	attribute_root_calls[], filter_calls[];

/* Opens as many files. */
void many_files(int n);
/* Makes three and a half thousand threads, or LONGEST_THREADS, that run `f`, and waits until they sleep. */
void threads(void *(*f)(void *), void *argument);
/* Sleeps on the futex at `word`. */
void *sleeper(void *word);

/* The case could not be made. */
static inline void cannot(void) { _exit(4); }

/* Memory of its own, each page written. */
static inline char *touched(long size)
{
	char *at = mmap(0, size, RW, ANON, -1, 0);
	if (at == MAP_FAILED)
		cannot();
	for (long i = 0; i < size; i += PAGE)
		at[i] = 1;
	return at;
}

/* A page in each leaf of 2 MiB. */
static inline char *sparse(long leaves)
{
	char *at = mmap(0, leaves * 2 * MIB, RW, ANON, -1, 0);
	if (at == MAP_FAILED)
		cannot();
	for (long i = 0; i < leaves; i++)
		at[i * 2 * MIB] = 1;
	return at;
}

static inline void fork_once(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, 0, 0);
}

#endif
