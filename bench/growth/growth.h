/*
 * What a system call costs among N of something that it might look at: other processes, descriptors, mappings, names.
 *
 * A world is N things of a kind, made once; its rows are operations that are measured among them. A row's operation has objects of its
 * own (enum objects, main.c): it should cost the same however large N is, or, where the kernel has to find one thing among them, little more.
 *
 * Invariants: one CPU. Whoever was made is asleep before the first window opens, and what a window holds are the row's operations alone.
 */
#ifndef GROWTH_H
#define GROWTH_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

struct row {
	const char *name;
	void (*op)(void);
	unsigned times;       /* operations in a window */
	int alone;            /* it opens its window itself, for one operation: mark_open(), mark_close() */
};

struct world {
	const char *name, *of;
	unsigned most;        /* of N */
	void (*make)(unsigned n);
	const struct row *rows;
	void (*unmake)(void); /* what does not end with the process */
};

#define CHEAP 32
#define DEAR 8
/* Of what frees much by callbacks: so many that a batch of these more or less in a window counts little. */
#define FREEING 128
#define ROW(name, op, times) { name, op, times, 0 }
#define ALONE(name, op) { name, op, 1, 1 }
#define END { 0, 0, 0, 0 }

extern const struct world children, zombies, group, sessions, threads, elsewhere, descriptors, watches, pollers, readers,
	waiters, mappings, sharers, names, links, mounts, timers, timerfds, locks, queued;

_Noreturn void fail(const char *what);
/* What must not fail. */
static inline long ok(const char *what, long result)
{
	if (__builtin_expect(result < 0, 0))
		fail(what);
	return result;
}

void mark_open(void);
void mark_close(void);

/* main.c: whoever is made says come() as it goes to sleep; settle() returns when n have and sleep. */
void come(void);
void settle(unsigned n);
/* A child that sleeps until the world ends, when it is killed; `first` runs in it before. */
pid_t sleeper(void (*first)(void));
/* A thread that runs body(i), which never returns. */
void thread(unsigned n, void (*body)(unsigned i));

/* The objects that the operations below have. */
extern int own_file, own_pipe[2];
extern char *own_page;
extern uint32_t *own_word;
#define OWN_PATH "/tmp/growth/own"

/* Operations that several worlds have, common.c. */
void op_getpid(void);
void op_fork(void);
void op_fork_any(void);
void op_exec(void);
void op_open(void);
void op_dup(void);
void op_stat(void);
void op_read(void);
void op_pipe(void);
void op_poll(void);
void op_map(void);
void op_fault(void);
void op_kill(void);
void op_kill_group(void);
void op_signal(void);
void op_setsid(void);
void op_setpgid(void);
void op_thread(void);
void op_wake(void);
void op_nap(void);
void op_timer(void);
void op_clock_settime(void);

#endif
