/*
 * doexec: each task executes itself again and again. An operation is one exec. Each task executes a copy of the file of
 * its own; doexecsh (-DSHARED) has all tasks execute one file. Both exist statically and dynamically linked.
 *
 * Exec takes the program's memory away, so the state travels in one argument of fixed-width hexadecimal words, which
 * costs a few hundred instructions. The shared area is an unlinked file on an inherited descriptor: it is mapped only
 * to enter and to leave the window, never between two execs. With -s a task looks at the clock after each exec, and
 * every TICK publishes its count and looks whether it is told to stop, by pwrite and pread.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "marker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef NAME
#define NAME "doexec"
#endif
#define TICK 50000000u /* ns */
#define DIGITS 16

enum { FD, TASKS, INDEX, SPIN, IN_WINDOW, DONE, LIMIT, WINDOW_LIMIT, NEXT_TICK, USER, SYS, WORDS };

static char text[WORDS * DIGITS + 1];

static void encode(const uint64_t state[WORDS])
{
	for (int word = 0; word < WORDS; word++)
		for (int digit = 0; digit < DIGITS; digit++)
			text[word * DIGITS + digit] = "0123456789abcdef"[state[word] >> (4 * (DIGITS - 1 - digit)) & 15];
}

static void decode(const char *from, uint64_t state[WORDS])
{
	if (strlen(from) != WORDS * DIGITS) {
		errno = EINVAL;
		bench_fail("state");
	}
	for (int word = 0; word < WORDS; word++) {
		uint64_t value = 0;
		for (int digit = 0; digit < DIGITS; digit++) {
			char c = *from++;
			value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
		}
		state[word] = value;
	}
}

static void exec_again(const char *path, const uint64_t state[WORDS])
{
	static char *nothing[] = { 0 };
	encode(state);
	char *arguments[] = { (char *)path, (char *)"@", text, 0 };
	execve(path, arguments, nothing);
	bench_fail(path);
}

static off_t slot_offset(const uint64_t state[WORDS])
{
	return (off_t)(offsetof(struct shared, slot) + state[INDEX] * sizeof(struct slot));
}

/* Publishes the count; true if the task is told to stop. */
static int tick(uint64_t state[WORDS])
{
	uint64_t ops = state[DONE];
	uint32_t stop = 0;
	int fd = (int)state[FD];
	if (pwrite(fd, &ops, sizeof ops, slot_offset(state) + (off_t)offsetof(struct slot, ops)) != sizeof ops ||
	    pread(fd, &stop, sizeof stop, offsetof(struct shared, stop)) != sizeof stop)
		bench_fail("shared file");
	state[NEXT_TICK] += TICK;
	return stop != 0;
}

static void open_window(uint64_t state[WORDS])
{
	unsigned tasks = (unsigned)state[TASKS];
	struct shared *shared = bench_map_shared((int)state[FD], tasks);
	bench_processor_time(&state[USER], &state[SYS]);
	state[IN_WINDOW] = 1;
	state[DONE] = 0;
	state[LIMIT] = state[WINDOW_LIMIT];
	bench_enter_window(shared, (unsigned)state[INDEX], tasks, state[NEXT_TICK] == UINT64_MAX);
	if (state[NEXT_TICK] != UINT64_MAX)
		state[NEXT_TICK] = shared->open_ns + TICK;
	MARK_OPEN(shared->window);
}

static void close_window(const uint64_t state[WORDS])
{
	MARK_CLOSE();
	unsigned tasks = (unsigned)state[TASKS], index = (unsigned)state[INDEX];
	struct shared *shared = bench_map_shared((int)state[FD], tasks);
	uint64_t user, sys;
	shared->slot[index].ops = state[DONE];
	bench_leave_window(shared, index, tasks);
	bench_processor_time(&user, &sys);
	shared->slot[index].user_us = user - state[USER];
	shared->slot[index].sys_us = sys - state[SYS];
	_exit(0);
}

/* The program after an exec. */
static void reborn(const char *path, const char *argument)
{
	uint64_t state[WORDS];
	decode(argument, state);
	opt.spin = (int)state[SPIN];
	state[DONE]++;
	if (!state[IN_WINDOW]) {
		if (state[DONE] >= state[LIMIT])
			open_window(state);
	} else if (state[DONE] >= state[LIMIT] ||
		   (state[NEXT_TICK] != UINT64_MAX && bench_now_ns() >= state[NEXT_TICK] && tick(state))) {
		close_window(state);
	}
	exec_again(path, state);
}

static int area_fd;
static const char *self;
static pid_t owner;

static const char *path_of(unsigned index)
{
	static char path[PATH_MAX];
#ifdef SHARED
	(void)index;
	snprintf(path, sizeof path, "%s", self);
#else
	if (opt.live)
		bench_live_name(path, index, NAME);
	else
		snprintf(path, sizeof path, "%s/%s.%ld.%u", bench_tmp(), NAME, (long)owner, index);
#endif
	return path;
}

#ifndef SHARED
static void copy_self(const char *to)
{
	static char block[1 << 16];
	int in = open(self, O_RDONLY), out = open(to, O_CREAT | O_TRUNC | O_WRONLY, 0700);
	if (in < 0 || out < 0)
		bench_fail(to);
	for (ssize_t length; (length = read(in, block, sizeof block)) != 0;)
		if (length < 0 || write(out, block, (size_t)length) != length)
			bench_fail(to);
	fchmod(out, 0700);
	close(in);
	close(out);
}

static void remove_copies(void)
{
	if (getpid() == owner && !opt.live)
		for (unsigned i = 0; i < opt.tasks; i++)
			unlink(path_of(i));
}
#endif

static void body(struct task *task)
{
	uint64_t state[WORDS] = {
		[FD] = (uint64_t)area_fd, [TASKS] = opt.tasks, [INDEX] = task->index, [SPIN] = (uint64_t)opt.spin,
		[LIMIT] = opt.warm, [WINDOW_LIMIT] = opt.ops ? opt.ops : UINT64_MAX,
		[NEXT_TICK] = opt.ops ? UINT64_MAX : 0,
	};
	bench_pin(task->index);
	if (opt.ops)
		bench_settle();
	exec_again(path_of(task->index), state);
}

int main(int argc, char **argv)
{
	static const struct bench bench = { .name = NAME, .what = "exec itself again and again", .flags = "l", .warm = 100 };
	if (argc == 3 && strcmp(argv[1], "@") == 0)
		reborn(argv[0], argv[2]);
	bench_options(argc, argv, &bench);
	self = bench_self(argv[0]);
	owner = getpid();
	struct shared *shared = bench_shared_file(&area_fd);
	bench_begin(shared);
#ifndef SHARED
	atexit(remove_copies);
	for (unsigned i = 0; i < opt.tasks && !opt.live; i++)
		copy_self(path_of(i));
#endif
	bench_processes(&bench, shared, body);
	bench_report(&bench, shared);
	return 0;
}
