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

double quantile(const struct samples *samples, double part);

/* A load's tasks, processes or threads. */
struct load {
	volatile uint32_t go;
	uint64_t moves; /* how often tasks found themselves on another CPU, of all */
	struct samples late;
};
/* Processor time of this process and of those that it has waited for. */
uint64_t processor_us(void);
/* `load SAMPLES MEDIAN_US P99_US WORST_US MOVES CPU_US`. */
void print_load(struct load *load, uint64_t cpu_us);
struct tasks {
	const char *name;
	unsigned count;
	unsigned long long ops;
	int threads;
	struct load *load;
	/* Returns the moves of the task; `late` is its own. */
	unsigned (*body)(unsigned i, struct samples *late);
};
/* Starts all, opens the window, lets them go, closes it when all have ended, and prints load and closing line. */
void run_load(const struct tasks *tasks);
/* Counts up where the CPU is not the one of the last time. */
void look_where(int *cpu, unsigned *moves);
/* Marks on each CPU, for a plugin that counts the kernel's instructions between them. */
void open_window(void);
void close_window(void);
/* futex(2) of words of one process, or of several. */
void wait_while(volatile uint32_t *word, uint32_t value);
void wake(volatile uint32_t *word, int most);

/* What programs read: operations and seconds of the window. */
void closing_line(const char *name, unsigned long long ops, double seconds);

#endif
