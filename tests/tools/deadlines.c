/*
 * Loops with deadlines, three for each CPU with three tenths of one each, among real-time and fair loops on every CPU. Runs what it is told to beside them, as a
 * fair task, and says how many of the loops had their share and no more.
 */
#include "t.h"

enum { DEADLINE = 6, PERIOD = 20000000, RUNTIME = 6000000 };

static pid_t loops[6 * 1024];
static int count;

static pid_t loop(void)
{
	pid_t pid = must_fork();
	if (pid != 0)
		loops[count++] = pid;
	return pid;
}

static void spin(void)
{
	for (;;)
		;
}

static void stays_on(int cpu)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0)
		say("setaffinity: %s", error_name(errno));
}

static void with_deadline(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { sizeof attr, DEADLINE, 0, 0, 0, RUNTIME, PERIOD, PERIOD };
	if (loop() != 0)
		return;
	if (syscall(SYS_sched_setattr, 0, &attr, 0) != 0)
		say("setattr: %s", error_name(errno));
	spin();
}

static long had_ms(pid_t pid)
{
	clockid_t clock;
	return clock_getcpuclockid(pid, &clock) == 0 ? ms(clock) : -1;
}

int main(int argc, char **argv)
{
	(void)argc;
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), many = 3 * cpus, right = 0, priority = 99;
	for (int n = 0; n < many; n++)
		with_deadline();
	for (int cpu = 0; cpu < cpus; cpu++) {
		if (loop() == 0) {
			stays_on(cpu);
			if (syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &priority) != 0)
				say("setscheduler: %s", error_name(errno));
			spin();
		}
		if (loop() == 0) {
			stays_on(cpu);
			spin();
		}
	}
	nap(500);
	static long before[3 * 1024];
	for (int n = 0; n < many; n++)
		before[n] = had_ms(loops[n]);
	long begun = ms(CLOCK_MONOTONIC);
	nap(4000);
	for (int n = 0; n < many; n++) {
		long had = had_ms(loops[n]) - before[n], wall = ms(CLOCK_MONOTONIC) - begun;
		if (had >= wall / 10 && had <= wall * 36 / 100)
			right++;
		else
			say("loop %d had %ld of %ld ms", n, had, wall);
	}
	say("%d had their share", right);
	pid_t pid = must_fork();
	if (pid == 0) {
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	say("%s", status_text(wait_for(pid)));
	for (int n = 0; n < count; n++)
		kill(loops[n], SIGKILL);
	int ended = 0;
	for (int status; wait(&status) > 0;)
		ended += WIFSIGNALED(status);
	say("%d ended", ended);
	return 0;
}
