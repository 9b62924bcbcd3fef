/* See sched.h. */
#define _GNU_SOURCE
#include "sched.h"

#include "../marker.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

double quantile(const struct samples *samples, double part)
{
	unsigned at = (unsigned)(part * samples->count);
	if (samples->count == 0)
		return 0;
	return (double)samples->ns[at < samples->count ? at : samples->count - 1] / 1000;
}

void look_where(int *cpu, unsigned *moves)
{
	int now = sched_getcpu();
	*moves += now != *cpu;
	*cpu = now;
}

static void on_each_cpu(void (*mark)(void))
{
	cpu_set_t all, one;
	if (sched_getaffinity(0, sizeof all, &all) != 0)
		die("sched_getaffinity");
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof one, &one) != 0)
			die("sched_setaffinity");
		mark();
	}
	if (sched_setaffinity(0, sizeof all, &all) != 0)
		die("sched_setaffinity");
}

static void mark_open(void)
{
	const char *window = getenv("BENCH_WINDOW");
	MARK_OPEN(window ? strtoul(window, 0, 10) : 0);
}

static void mark_close(void)
{
	MARK_CLOSE();
}

void open_window(void)
{
	MARK_WATCH();
	on_each_cpu(mark_open);
}

void close_window(void)
{
	on_each_cpu(mark_close);
}

void wait_while(volatile uint32_t *word, uint32_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value)
		syscall(SYS_futex, word, 0, value, 0, 0, 0);
}

void wake(volatile uint32_t *word, int most)
{
	syscall(SYS_futex, word, 1, most, 0, 0, 0);
}

static uint64_t micros(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

uint64_t processor_us(void)
{
	struct rusage own, children;
	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &children);
	return micros(own.ru_utime) + micros(own.ru_stime) + micros(children.ru_utime) + micros(children.ru_stime);
}

void print_load(struct load *load, uint64_t cpu_us)
{
	sort_samples(&load->late);
	printf("load %u %.1f %.1f %.1f %llu %llu\n", load->late.count, quantile(&load->late, 0.5), quantile(&load->late, 0.99),
		quantile(&load->late, 1), (unsigned long long)load->moves, (unsigned long long)cpu_us);
}

struct start {
	const struct tasks *tasks;
	unsigned i;
	struct samples *late;
};

static void *task_main(void *argument)
{
	struct start *start = argument;
	struct load *load = start->tasks->load;
	wait_while(&load->go, 0);
	unsigned moves = start->tasks->body(start->i, start->late);
	__atomic_add_fetch(&load->moves, moves, __ATOMIC_RELAXED);
	return 0;
}

void run_load(const struct tasks *tasks)
{
	struct load *load = tasks->load;
	struct samples *late = shared_memory(tasks->count * sizeof *late);
	struct start *starts = calloc(tasks->count, sizeof *starts);
	pthread_t *threads = calloc(tasks->count, sizeof *threads);
	if (!starts || !threads)
		die("calloc");
	for (unsigned i = 0; i < tasks->count; i++) {
		starts[i] = (struct start){ tasks, i, &late[i] };
		if (tasks->threads) {
			if ((errno = pthread_create(&threads[i], 0, task_main, &starts[i])) != 0)
				die("pthread_create");
		} else if (start_process() == 0) {
			task_main(&starts[i]);
			_exit(0);
		}
	}
	/* They go to sleep. */
	nap_ms(200);
	open_window();
	uint64_t begin = now_ns(), cpu_us = processor_us();
	__atomic_store_n(&load->go, 1, __ATOMIC_RELEASE);
	wake(&load->go, INT_MAX);
	for (unsigned i = 0; tasks->threads && i < tasks->count; i++)
		pthread_join(threads[i], 0);
	wait_for_all();
	uint64_t end = now_ns();
	cpu_us = processor_us() - cpu_us;
	close_window();
	for (unsigned i = 0; i < tasks->count; i++)
		join_samples(&load->late, &late[i]);
	print_load(load, cpu_us);
	closing_line(tasks->name, tasks->ops, (double)(end - begin) / 1e9);
}

void closing_line(const char *name, unsigned long long ops, double seconds)
{
	printf("bench=%s ops=%llu seconds=%f rate=%.2f min_per_task=0 max_per_task=0 user=0 sys=0\n", name, ops, seconds,
		seconds > 0 ? (double)ops / seconds : 0);
}
