/*
 * Barrier, window and report, shared by every benchmark. See bench.h.
 *
 * Who does what: the controller (the first process) starts the tasks, prints a line a second, says stop when time is up,
 * and otherwise sleeps in wait(). Each task, pinned, marks its own window on its own CPU, between the barrier at the
 * beginning and the one at the end; task 0 reads the clock outside of them. So nothing but operations (and, with -s, the
 * controller's waking once a second) happens between the marks. With -c no clock is read in the loop.
 */
#define _GNU_SOURCE
#include "bench.h"
#include "marker.h"
#include "pin.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

_Noreturn void bench_fail(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	_exit(1);
}

uint64_t bench_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const char *bench_tmp(void)
{
	const char *dir = getenv("TMPDIR");
	return dir && *dir ? dir : "/tmp";
}

const char *bench_self(const char *argv0)
{
	static char path[PATH_MAX];
	static const char *const links[] = { "/proc/self/exe", "/proc/curproc/file", "/proc/curproc/exe" };
	for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
		ssize_t length = readlink(links[i], path, sizeof path - 1);
		if (length > 0 && path[0] == '/') {
			path[length] = 0;
			return path;
		}
	}
	return argv0;
}

void bench_pin(unsigned index)
{
	if (!opt.unpinned && pin_to(index) != 0)
		bench_fail("cannot pin");
}

static size_t shared_size(unsigned tasks)
{
	return sizeof(struct shared) + tasks * sizeof(struct slot);
}

struct shared *bench_map_shared(int fd, unsigned tasks)
{
	int flags = fd < 0 ? MAP_SHARED | MAP_ANON : MAP_SHARED;
	void *area = mmap(0, shared_size(tasks), PROT_READ | PROT_WRITE, flags, fd, 0);
	if (area == MAP_FAILED)
		bench_fail("cannot map the shared area");
	return area;
}

/* The shared area as an unlinked file, for tasks that exec: they inherit the descriptor. */
struct shared *bench_shared_file(int *fd)
{
	char name[PATH_MAX];
	snprintf(name, sizeof name, "%s/bench.XXXXXX", bench_tmp());
	*fd = mkstemp(name);
	if (*fd < 0)
		bench_fail(name);
	unlink(name);
	if (ftruncate(*fd, (off_t)shared_size(opt.tasks)) != 0)
		bench_fail("ftruncate");
	return bench_map_shared(*fd, opt.tasks);
}

/*
 * $BENCH_LIMIT: SIGALRM ends the first process after so many seconds, and costs nothing until then. $BENCH_WINDOW: the window's number.
 * Programs that a benchmark executes are given neither.
 */
void bench_begin(struct shared *shared)
{
	const char *limit = getenv("BENCH_LIMIT"), *window = getenv("BENCH_WINDOW");
	if (limit)
		alarm((unsigned)strtoul(limit, 0, 10));
	if (window)
		shared->window = (uint32_t)strtoul(window, 0, 10);
	unsetenv("BENCH_LIMIT");
	unsetenv("BENCH_WINDOW");
	MARK_WATCH();
}

/* Parts of a warm-up with -c; and what `ready` is when it is done, whatever the number of parts. */
enum { WARM_PARTS = 32, READY };

/*
 * Waits until a flag is as high as that. Spins first, which costs the kernel nothing; then sleeps for longer and longer, because with more
 * virtual CPUs than real ones a spinning task takes time from the one it waits for. -S never sleeps.
 */
static void wait_for(volatile uint32_t *flag, uint32_t least)
{
	long nap = 1000000;
	for (unsigned spins = 0; __atomic_load_n(flag, __ATOMIC_ACQUIRE) < least;) {
		if (opt.spin || spins < (opt.spins ? opt.spins : 20000)) {
			spins++;
			CPU_RELAX();
			continue;
		}
		struct timespec pause = { 0, nap };
		nanosleep(&pause, 0);
		if (nap < 16000000)
			nap *= 2;
	}
}

/*
 * Before the warm-up and before a window that is counted: the kernel does what the start and the warm-up left behind (memory given
 * back late), and a nap's end puts the clock's ticks at the same place in every run. What the start left comes to the warm-up in this
 * way, not to the window: pages that another CPU wrote last, among others.
 */
void bench_settle(void)
{
	struct timespec pause = { 0, opt.nap_ms ? opt.nap_ms * 1000000l : 100000000 };
	nanosleep(&pause, 0);
}

void bench_enter_window(struct shared *shared, unsigned index, unsigned tasks, int counted)
{
	if (counted)
		bench_settle();
	__atomic_store_n(&shared->slot[index].ready, READY, __ATOMIC_RELEASE);
	if (index == 0) {
		for (unsigned i = 0; i < tasks; i++)
			wait_for(&shared->slot[i].ready, READY);
		shared->open_ns = bench_now_ns();
		__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	} else {
		wait_for(&shared->go, 1);
	}
}

void bench_leave_window(struct shared *shared, unsigned index, unsigned tasks)
{
	__atomic_store_n(&shared->slot[index].done, 1, __ATOMIC_RELEASE);
	if (index != 0) {
		wait_for(&shared->leave, 1);
		return;
	}
	for (unsigned i = 0; i < tasks; i++)
		wait_for(&shared->slot[i].done, 1);
	shared->close_ns = bench_now_ns();
	__atomic_store_n(&shared->leave, 1, __ATOMIC_RELEASE);
}

static uint64_t micros(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_usec;
}

/* Processor time of this process and of the children it has reaped. */
void bench_processor_time(uint64_t *user, uint64_t *sys)
{
	struct rusage own, children;
	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &children);
	*user = micros(own.ru_utime) + micros(children.ru_utime);
	*sys = micros(own.ru_stime) + micros(children.ru_stime);
}

/*
 * The warm-up in parts, after each of which the tasks wait for each other. So all come by in turns, however the host schedules their CPUs,
 * and what a kernel learns from that (who shares what) it has learnt before the window.
 */
static void warm_up_in_turns(struct task *task)
{
	uint64_t done = 0;
	unsigned parts = opt.parts ? opt.parts : WARM_PARTS;
	for (unsigned part = 1; part <= parts; part++) {
		while (done < opt.warm * part / parts)
			done += task->bench->op(task);
		__atomic_store_n(&task->slot->ready, part, __ATOMIC_RELEASE);
		for (unsigned i = 0; i < opt.tasks; i++)
			wait_for(&task->shared->slot[i].ready, part);
	}
}

void bench_task(struct task *task)
{
	const struct bench *bench = task->bench;
	struct shared *shared = task->shared;
	volatile uint64_t *count = &task->slot->ops;
	uint64_t user = 0, sys = 0, user_end, sys_end;

	bench_pin(task->index);
	if (bench->setup)
		bench->setup(task);
	if (opt.ops)
		bench_settle();
	if (opt.ops && opt.tasks > 1)
		warm_up_in_turns(task);
	/* In one go: the kernel gathers what it gathers under load. */
	for (uint64_t done = 0; done < opt.warm;)
		done += bench->op(task);
	if (bench->between)
		bench->between(task);
	/* Threads share one account; task 0 reads it for all. */
	int account = !opt.threads || task->index == 0;
	if (account)
		bench_processor_time(&user, &sys);

	/* The loop's own lines, or the window begins with taking them from whoever cleared the page. */
	*count = 0;
	(void)shared->stop;
	uint64_t limit = opt.ops ? opt.ops : UINT64_MAX;
	bench_enter_window(shared, task->index, opt.tasks, opt.ops != 0);
	MARK_OPEN(shared->window);
	for (uint64_t done = 0; done < limit && !shared->stop;)
		*count = done += bench->op(task);
	MARK_CLOSE();
	bench_leave_window(shared, task->index, opt.tasks);

	if (account) {
		bench_processor_time(&user_end, &sys_end);
		task->slot->user_us = user_end - user;
		task->slot->sys_us = sys_end - sys;
	}
	if (bench->teardown)
		bench->teardown(task);
}

static uint64_t total(const struct shared *shared)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < opt.tasks; i++)
		sum += shared->slot[i].ops;
	return sum;
}

void bench_report(const struct bench *bench, const struct shared *shared)
{
	uint64_t ops = total(shared), least = UINT64_MAX, most = 0, user = 0, sys = 0;
	for (unsigned i = 0; i < opt.tasks; i++) {
		uint64_t own = shared->slot[i].ops;
		least = own < least ? own : least;
		most = own > most ? own : most;
		user += shared->slot[i].user_us;
		sys += shared->slot[i].sys_us;
	}
	double seconds = (double)(shared->close_ns - shared->open_ns) / 1e9;
	printf("bench=%s cpus=%u ops=%llu seconds=%.6f rate=%.2f min_per_task=%llu max_per_task=%llu user=%.3f sys=%.3f\n",
	       bench->name, opt.tasks, (unsigned long long)ops, seconds, seconds > 0 ? (double)ops / seconds : 0,
	       (unsigned long long)least, (unsigned long long)most, (double)user / 1e6, (double)sys / 1e6);
	fflush(stdout);
}

/* A task that ends badly ends the run: the others would wait for it forever. */
static void reaped(const struct bench *bench, int status, pid_t *tasks)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (WIFSIGNALED(status))
		fprintf(stderr, "%s: a task was ended by signal %d\n", bench->name, WTERMSIG(status));
	else
		fprintf(stderr, "%s: a task ended with status %d\n", bench->name, WEXITSTATUS(status));
	for (unsigned i = 0; i < opt.tasks; i++)
		if (tasks[i] > 0)
			kill(tasks[i], SIGKILL);
	exit(1);
}

static unsigned reap_one(const struct bench *bench, pid_t *tasks, int flags)
{
	int status;
	pid_t pid = waitpid(-1, &status, flags);
	if (pid < 0 && errno != EINTR)
		bench_fail("waitpid");
	if (pid <= 0)
		return 0;
	for (unsigned i = 0; i < opt.tasks; i++)
		if (tasks[i] == pid) {
			tasks[i] = 0;
			reaped(bench, status, tasks);
			return 1;
		}
	return 0;
}

static void sleep_until(uint64_t when)
{
	uint64_t now = bench_now_ns();
	while (now < when) {
		uint64_t left = when - now;
		struct timespec pause = { (time_t)(left / 1000000000u), (long)(left % 1000000000u) };
		nanosleep(&pause, 0);
		now = bench_now_ns();
	}
}

/* Prints the line a second and says stop. `tasks` are the processes, or null for threads. Returns how many were reaped. */
static unsigned keep_time(const struct bench *bench, struct shared *shared, pid_t *tasks)
{
	unsigned gone = 0;
	while (!__atomic_load_n(&shared->go, __ATOMIC_ACQUIRE)) {
		struct timespec pause = { 0, 5000000 };
		nanosleep(&pause, 0);
		if (tasks)
			gone += reap_one(bench, tasks, WNOHANG);
	}
	uint64_t start = shared->open_ns, end = start + (uint64_t)(opt.seconds * 1e9), then = start, before = 0;
	for (uint64_t next = start + 1000000000u; !shared->leave; next += 1000000000u) {
		sleep_until(next < end ? next : end);
		uint64_t now = bench_now_ns(), ops = total(shared);
		if (!opt.quiet && now > then && (next <= end || opt.seconds < 1)) {
			printf("%s %u %.2f/sec\n", bench->name, opt.tasks, (double)(ops - before) * 1e9 / (double)(now - then));
			fflush(stdout);
		}
		then = now, before = ops;
		if (next >= end)
			break;
	}
	__atomic_store_n(&shared->stop, 1, __ATOMIC_RELEASE);
	return gone;
}

void bench_control(const struct bench *bench, struct shared *shared, pid_t *tasks)
{
	unsigned gone = opt.ops ? 0 : keep_time(bench, shared, tasks);
	while (tasks && gone < opt.tasks)
		gone += reap_one(bench, tasks, 0);
}

static void *thread_main(void *task)
{
	bench_task(task);
	return 0;
}

static void run_threads(const struct bench *bench, struct shared *shared)
{
	struct task *tasks = calloc(opt.tasks, sizeof *tasks);
	pthread_t *threads = calloc(opt.tasks, sizeof *threads);
	pthread_attr_t attr;
	if (!tasks || !threads || pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, 128 << 10) != 0)
		bench_fail("threads");
	for (unsigned i = 0; i < opt.tasks; i++) {
		tasks[i] = (struct task){ .bench = bench, .index = i, .shared = shared, .slot = &shared->slot[i] };
		if ((errno = pthread_create(&threads[i], &attr, thread_main, &tasks[i])) != 0)
			bench_fail("pthread_create");
	}
	bench_control(bench, shared, 0);
	for (unsigned i = 0; i < opt.tasks; i++)
		pthread_join(threads[i], 0);
	free(threads);
	free(tasks);
}

void bench_processes(const struct bench *bench, struct shared *shared, void (*body)(struct task *))
{
	pid_t *pids = calloc(opt.tasks, sizeof *pids);
	if (!pids)
		bench_fail("calloc");
	fflush(stdout);
	for (unsigned i = 0; i < opt.tasks; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct task task = { .bench = bench, .index = i, .shared = shared, .slot = &shared->slot[i] };
			body(&task);
			_exit(0);
		}
		if (pids[i] < 0) {
			int error = errno;
			for (unsigned j = 0; j < i; j++)
				kill(pids[j], SIGKILL);
			errno = error;
			bench_fail("fork");
		}
	}
	bench_control(bench, shared, pids);
	free(pids);
}

int bench_main(int argc, char **argv, const struct bench *bench)
{
	bench_options(argc, argv, bench);
	bench_run(bench);
	return 0;
}

void bench_run(const struct bench *bench)
{
	struct shared *shared = bench_map_shared(-1, opt.tasks);
	bench_begin(shared);
	if (bench->prepare)
		bench->prepare();
	if (opt.threads)
		run_threads(bench, shared);
	else
		bench_processes(bench, shared, bench_task);
	if (bench->cleanup)
		bench->cleanup();
	bench_report(bench, shared);
}
