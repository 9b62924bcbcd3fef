/*
 * shares: processes that only compute, how much of the CPUs each of them gets, and how late a process wakes beside them.
 *
 *   shares TASKS SECONDS [NICE:NICE:...] [WARM]
 *
 * TASKS processes spin, with the nice values in turn; one more, the ticker, sleeps 2 ms at a time. They begin together, and WARM seconds
 * (1) later the window opens, for SECONDS. It prints for each task `share NICE CPU_US MOVES` (processor time in the window, and how often it
 * found itself on another CPU), then `ticker CPU_US NAPS MEDIAN_US P99_US WORST_US`, how much later than asked it woke.
 *
 * Each task reads its own processor time when it first sees that the window is open, and when it first sees that it is closed. A task that does
 * not run at that time has the same processor time when it runs again, so the figures are exact to one round of its loop.
 */
#define _GNU_SOURCE
#include "sched.h"

#include <sys/resource.h>

#define NAP_NS 2000000u
/* Additions between two looks at the clock. */
#define ROUND 1000

struct task {
	int nice;
	unsigned moves;
	uint64_t cpu_ns;
};

struct area {
	volatile uint64_t open_ns, close_ns;
	uint64_t ticker_ns;
	uint64_t naps;
	struct samples late;
	struct task task[];
};

static struct area *area;
static int gate[2];

static void wait_for_start(void)
{
	char byte;
	close(gate[1]);
	if (read(gate[0], &byte, 1) != 0)
		die("the start");
}

static uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static void spin_until(uint64_t when, unsigned *moves)
{
	int cpu = sched_getcpu();
	while (now_ns() < when) {
		compute(ROUND);
		int now_on = sched_getcpu();
		*moves += now_on != cpu;
		cpu = now_on;
	}
}

static void spinner(struct task *task)
{
	unsigned moves = 0;
	if (setpriority(PRIO_PROCESS, 0, task->nice) != 0)
		die("setpriority");
	wait_for_start();
	spin_until(area->open_ns, &moves);
	uint64_t before = cpu_ns();
	moves = 0;
	spin_until(area->close_ns, &moves);
	task->cpu_ns = cpu_ns() - before;
	task->moves = moves;
}

/* Naps in the window are noted. */
static void ticker(void)
{
	const struct timespec nap = { 0, NAP_NS };
	wait_for_start();
	uint64_t before = 0;
	for (uint64_t now = now_ns(); now < area->close_ns;) {
		if (now >= area->open_ns && before == 0)
			before = cpu_ns();
		nanosleep(&nap, 0);
		uint64_t woke = now_ns();
		if (now >= area->open_ns)
			sample(&area->late, woke - now - NAP_NS);
		now = woke;
	}
	area->ticker_ns = cpu_ns() - before;
}

int main(int argc, char **argv)
{
	unsigned tasks = argc > 1 ? (unsigned)strtoul(argv[1], 0, 10) : 0;
	double seconds = argc > 2 ? strtod(argv[2], 0) : 0, warm = argc > 4 ? strtod(argv[4], 0) : 1;
	if (tasks == 0 || tasks > 100000 || !(seconds > 0)) {
		fprintf(stderr, "usage: shares TASKS SECONDS [NICE:NICE:...] [WARM]\n");
		return 2;
	}
	limit_time();
	area = shared_memory(sizeof *area + tasks * sizeof area->task[0]);
	const char *pattern = argc > 3 ? argv[3] : "0", *at = pattern;
	if (pipe(gate) != 0)
		die("pipe");
	for (unsigned i = 0; i < tasks; i++) {
		char *end;
		area->task[i].nice = (int)strtol(at, &end, 10);
		at = *end == ':' ? end + 1 : pattern;
		if (start_process() == 0) {
			spinner(&area->task[i]);
			_exit(0);
		}
	}
	if (start_process() == 0) {
		ticker();
		_exit(0);
	}
	/* They go to sleep. */
	nap_ms(200);
	area->open_ns = now_ns() + (uint64_t)(warm * 1e9);
	area->close_ns = area->open_ns + (uint64_t)(seconds * 1e9);
	close(gate[1]);
	wait_for_all();
	for (unsigned i = 0; i < tasks; i++) {
		const struct task *task = &area->task[i];
		printf("share %d %llu %u\n", task->nice, (unsigned long long)task->cpu_ns / 1000, task->moves);
	}
	const struct samples *late = &area->late;
	sort_samples(&area->late);
	printf("ticker %llu %u %llu %llu %llu\n", (unsigned long long)area->ticker_ns / 1000, late->count, quantile_us(late, 0.5),
		quantile_us(late, 0.99), quantile_us(late, 1));
	closing_line("shares", tasks, seconds);
	return 0;
}
