/*
 * What the ABI programs share. A program prints what it sees, one line a fact, with nothing that differs from run to run:
 * no address, no process id, no time. What it prints on Linux is what it must print on Darter.
 */
#ifndef T_H
#define T_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A line, written at once, so that output of parents and children never mixes within a line. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *error_name(int error);        /* "ENOENT"; "0" for none */
const char *signal_name(int number);      /* "SIGSEGV" */
const char *status_text(int status);      /* "exit 3", "signal SIGSEGV", "signal SIGSEGV (core)" without the core flag, "stopped SIGTSTP" */

/* Prints "text = value" or "text = -1 EXXX". Returns the value. */
long show_value(const char *text, long value);
#define SHOW(call) (errno = 0, show_value(#call, (long)(call)))
/* The same where the value itself is arbitrary (a descriptor, an address): prints ">= 0", "ok" or the error. */
long show_success(const char *text, long value);
#define SHOW_OK(call) (errno = 0, show_success(#call, (long)(call)))
#define SHOW_PTR(call) show_pointer(#call, (errno = 0, (void *)(call)))
void *show_pointer(const char *text, void *value);
/*
 * A call that Linux carries out and Darter refuses with this error, as the table of calls says ("missing"): either is as good, and anything
 * else differs. That Darter refuses it with just this error, `make check` sees in tests/table/shown.
 */
#define MISSING(call, error) (errno = 0, show_missing(#call, (long)(call), error))
long show_missing(const char *text, long value, int error);
/* Prints "text: yes" or "text: no". */
void show_truth(const char *text, int truth);
#define CHECK(condition) show_truth(#condition, (condition) != 0)

/* Runs `body` in a child and prints how it ended, as "text: exit 0". Returns the wait status. */
int in_child(const char *text, void (*body)(void));
/* Forks with nothing buffered; ends the program if it fails. */
pid_t must_fork(void);
/* A child that calls `prepare`, if there is one, and then only waits for signals; it is ready when this returns. */
pid_t parked(void (*prepare)(void));
/* Waits for that child, through interruptions; its status. */
int wait_for(pid_t pid);
/* A thread of this process that only waits, until it is let go of; one at a time. */
pid_t parked_thread(void);
void let_thread_go(void);
void nap(int milliseconds);
/* What the clock shows, in milliseconds. */
long ms(clockid_t clock);
void write_file(const char *path, const char *text);
/* Reads a whole file into a fresh string; null if it cannot be opened. */
char *read_file(const char *path);
void section(const char *name);

#endif
