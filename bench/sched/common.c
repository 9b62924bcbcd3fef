/* See sched.h. */
#define _GNU_SOURCE
#include "sched.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

_Noreturn void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	fflush(stderr);
	_exit(1);
}

uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;
	if (clock_gettime(clock, &now) != 0)
		die("clock_gettime");
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

void nap_ms(unsigned ms)
{
	struct timespec time = { ms / 1000, (long)(ms % 1000) * 1000000 };
	while (nanosleep(&time, &time) != 0 && errno == EINTR)
		;
}

void compute(unsigned rounds)
{
	for (volatile unsigned at = 0; at < rounds; at++)
		;
}

void *shared_memory(size_t bytes)
{
	void *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("mmap");
	return memory;
}

void limit_time(void)
{
	const char *limit = getenv("BENCH_LIMIT");
	if (limit)
		alarm((unsigned)strtoul(limit, 0, 10));
}

pid_t start_process(void)
{
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

void wait_for_all(void)
{
	int status, bad = 0;
	for (;;) {
		pid_t child = wait(&status);
		if (child < 0 && errno == ECHILD)
			break;
		if (child < 0 && errno != EINTR)
			die("wait");
		if (child > 0 && status != 0)
			bad = 1;
	}
	if (bad) {
		errno = ECHILD;
		die("a process failed");
	}
}

void sample(struct samples *samples, uint64_t ns)
{
	if (samples->count < MOST_SAMPLES)
		samples->ns[samples->count++] = ns;
}

void join_samples(struct samples *all, const struct samples *more)
{
	for (unsigned at = 0; at < more->count; at++)
		sample(all, more->ns[at]);
}

static int compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
	return (a > b) - (a < b);
}

void sort_samples(struct samples *samples)
{
	qsort(samples->ns, samples->count, sizeof samples->ns[0], compare);
}

unsigned long long quantile_us(const struct samples *samples, double part)
{
	if (samples->count == 0)
		return 0;
	unsigned at = (unsigned)(part * samples->count);
	return samples->ns[at < samples->count ? at : samples->count - 1] / 1000;
}

void closing_line(const char *name, unsigned long long ops, double seconds)
{
	printf("bench=%s ops=%llu seconds=%f rate=%.2f min_per_task=0 max_per_task=0 user=0 sys=0\n", name, ops, seconds,
		seconds > 0 ? (double)ops / seconds : 0);
}
