/* What the loads of the scheduler share: clocks, processes, memory that all of them see, samples and the closing line. */
#ifndef SCHED_LOADS_H
#define SCHED_LOADS_H

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* More are left out, and the last of the list says so by being full. */
#define MOST_SAMPLES 65536

/* Nanoseconds, for one writer; in shared memory. */
struct samples {
	unsigned count;
	uint64_t ns[MOST_SAMPLES];
};

_Noreturn void die(const char *what);
uint64_t clock_ns(clockid_t clock);
uint64_t now_ns(void);
void nap_ms(unsigned ms);
/* So many additions that the compiler does not leave out. */
void compute(unsigned rounds);
/* Zeroed, the same for all processes. */
void *shared_memory(size_t bytes);
/* $BENCH_LIMIT seconds from now on SIGALRM ends this process, and with it those that it started. */
void limit_time(void);
/* fork; the child ends with its parent. */
pid_t start_process(void);
/* All children; dies where one did not end well. */
void wait_for_all(void);

void sample(struct samples *samples, uint64_t ns);
/* Puts those of `more` behind those of `all`. */
void join_samples(struct samples *all, const struct samples *more);
void sort_samples(struct samples *samples);
/* Of sorted ones, in microseconds; 1 is the worst. */
unsigned long long quantile_us(const struct samples *samples, double part);

/* What programs read: operations and seconds of the window. */
void closing_line(const char *name, unsigned long long ops, double seconds);

#endif
