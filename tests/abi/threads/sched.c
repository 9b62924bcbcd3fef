/* Scheduling: affinity, yielding, priorities, policies, where a task runs, fairness in the rough. */
#include "t.h"

#include <sys/resource.h>

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void affinity(void)
{
	section("affinity");
	cpu_set_t all, set;
	CPU_ZERO(&all);
	SHOW(sched_getaffinity(0, sizeof all, &all));
	say("CPUs %d", CPU_COUNT(&all));
	SHOW(syscall(SYS_sched_getaffinity, 0, sizeof all, &all) % 8);
	SHOW(syscall(SYS_sched_getaffinity, 0, 0, &all));
	SHOW(syscall(SYS_sched_getaffinity, 0, 3, &all));
	SHOW(syscall(SYS_sched_getaffinity, 99999999, sizeof all, &all));
	SHOW(sched_setaffinity(99999999, sizeof all, &all));
	CPU_ZERO(&set);
	SHOW(sched_setaffinity(0, sizeof set, &set));
	CPU_SET(1000, &set);
	SHOW(sched_setaffinity(0, sizeof set, &set));
	for (int cpu = 0; cpu < CPU_COUNT(&all); cpu++) {
		CPU_ZERO(&set), CPU_SET(cpu, &set);
		SHOW(sched_setaffinity(0, sizeof set, &set));
		unsigned here = 99, node = 99;
		SHOW(syscall(SYS_getcpu, &here, &node, 0));
		say("on %u node %u, by sched_getcpu %d", here, node, sched_getcpu());
		pid_t pid = must_fork();
		if (pid == 0) {
			int right = 1;
			for (int i = 0; i < 50; i++) {
				sched_yield();
				right &= sched_getcpu() == cpu;
			}
			cpu_set_t own;
			sched_getaffinity(0, sizeof own, &own);
			say("child stays %d, inherits %d", right, CPU_EQUAL(&own, &set));
			_exit(0);
		}
		wait_for(pid);
	}
	SHOW(sched_setaffinity(0, sizeof all, &all));
	/* Another process is moved while it runs. */
	volatile int *where = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*where = -1;
	pid_t pid = must_fork();
	if (pid == 0)
		for (;;)
			*where = sched_getcpu();
	int last = CPU_COUNT(&all) - 1;
	for (int cpu = 0; cpu <= last; cpu++) {
		CPU_ZERO(&set), CPU_SET(cpu, &set);
		sched_setaffinity(pid, sizeof set, &set);
		for (int i = 0; i < 200 && *where != cpu; i++)
			nap(5);
		say("moved to %d: %d", cpu, *where == cpu);
	}
	/* The same while the task is just being switched away from, for one that wakes on its CPU and sleeps again. */
	pid_t waker[8];
	int bell[8][2], rung = last + 1 < 8 ? last + 1 : 8;
	for (int cpu = 0; cpu < rung; cpu++) {
		pipe(bell[cpu]);
		waker[cpu] = must_fork();
		if (waker[cpu] != 0)
			continue;
		CPU_ZERO(&set), CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof set, &set);
		for (char byte;;)
			read(bell[cpu][0], &byte, 1);
	}
	int late = 0, at = last;
	double start = seconds(), since = start;
	for (int move = 0; !late && since - start < 1; move++) {
		int to = move % rung;
		CPU_ZERO(&set), CPU_SET(to, &set);
		if (at < rung)
			write(bell[at][1], "", 1);
		for (volatile int spin = move % 16 * 64; spin > 0; spin--)
			;
		sched_setaffinity(pid, sizeof set, &set);
		for (since = seconds(); *where != to && !late; late = seconds() - since > 1)
			sched_yield();
		at = to;
	}
	say("always moved: %d", !late);
	for (int cpu = 0; cpu < rung; cpu++)
		kill(waker[cpu], SIGKILL), wait_for(waker[cpu]), close(bell[cpu][0]), close(bell[cpu][1]);
	kill(pid, SIGKILL);
	wait_for(pid);
}

static void priorities(void)
{
	section("priorities");
	SHOW(getpriority(PRIO_PROCESS, 0));
	SHOW(setpriority(PRIO_PROCESS, 0, 5));
	SHOW(getpriority(PRIO_PROCESS, 0));
	SHOW(syscall(SYS_getpriority, PRIO_PROCESS, 0));
	SHOW(nice(3));
	SHOW(setpriority(PRIO_PROCESS, 0, 100));
	SHOW(getpriority(PRIO_PROCESS, 0));
	SHOW(setpriority(PRIO_PROCESS, 0, -100));
	SHOW(getpriority(PRIO_PROCESS, 0));
	SHOW(setpriority(PRIO_PROCESS, 0, 0));
	SHOW(getpriority(99, 0));
	SHOW(getpriority(PRIO_PROCESS, 99999999));
	SHOW(setpriority(PRIO_PROCESS, 99999999, 1));
	pid_t pid = must_fork();
	if (pid == 0) {
		nice(7);
		pid_t child = must_fork();
		if (child == 0) {
			say("inherited %d", getpriority(PRIO_PROCESS, 0));
			_exit(0);
		}
		wait_for(child);
		_exit(0);
	}
	wait_for(pid);
	SHOW(sched_yield());
	SHOW(syscall(SYS_sched_getscheduler, 0));
	struct sched_param parameter = { 0 };
	SHOW(syscall(SYS_sched_getparam, 0, &parameter));
	SHOW(parameter.sched_priority);
	SHOW(syscall(SYS_sched_get_priority_max, SCHED_OTHER));
	SHOW(syscall(SYS_sched_get_priority_min, SCHED_FIFO));
	SHOW(syscall(SYS_sched_get_priority_max, SCHED_FIFO));
	SHOW(syscall(SYS_sched_get_priority_max, 99));
	SHOW(syscall(SYS_sched_getscheduler, 99999999));
}

static void fairness(void)
{
	section("fairness");
	/* Four busy tasks on one CPU all get on. */
	volatile long *count = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cpu_set_t set;
	CPU_ZERO(&set), CPU_SET(0, &set);
	pid_t tasks[4];
	for (int i = 0; i < 4; i++) {
		tasks[i] = must_fork();
		if (tasks[i] == 0) {
			sched_setaffinity(0, sizeof set, &set);
			for (;;)
				count[i * 64]++;
		}
	}
	nap(600);
	for (int i = 0; i < 4; i++)
		kill(tasks[i], SIGKILL);
	long least = LONG_MAX, most = 0;
	for (int i = 0; i < 4; i++) {
		wait_for(tasks[i]);
		least = count[i * 64] < least ? count[i * 64] : least;
		most = count[i * 64] > most ? count[i * 64] : most;
	}
	CHECK(least > 0);
	CHECK(most / (least + 1) < 8);
	/* One that sleeps is not kept waiting by one that works. */
	pid_t busy = must_fork();
	if (busy == 0) {
		sched_setaffinity(0, sizeof set, &set);
		for (;;)
			;
	}
	pid_t sleeper = must_fork();
	if (sleeper == 0) {
		sched_setaffinity(0, sizeof set, &set);
		struct timespec start, end;
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (int i = 0; i < 20; i++)
			nap(2);
		clock_gettime(CLOCK_MONOTONIC, &end);
		_exit(end.tv_sec - start.tv_sec > 1);
	}
	say("sleeper: %s", status_text(wait_for(sleeper)));
	kill(busy, SIGKILL);
	wait_for(busy);
}

struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t least, most;
	uint8_t more[64];
};

static long set_attributes(struct attributes with)
{
	return syscall(SYS_sched_setattr, 0, &with, 0);
}

static void attributes(void)
{
	section("attributes");
	struct attributes got;
	memset(&got, 0x55, sizeof got);
	SHOW(syscall(SYS_sched_getattr, 0, &got, 56, 0));
	say("size %u policy %u flags %d nice %d priority %u deadline %d period %d", got.size, got.policy, (int)got.flags, got.nice, got.priority,
	    (int)got.deadline, (int)got.period);
	SHOW(syscall(SYS_sched_getattr, 0, &got, 48, 0));
	say("size %u", got.size);
	SHOW(syscall(SYS_sched_getattr, 0, &got, 100, 0));
	say("size %u", got.size);
	SHOW(syscall(SYS_sched_getattr, 0, &got, 47, 0));
	SHOW(syscall(SYS_sched_getattr, 0, &got, 5000, 0));
	SHOW(syscall(SYS_sched_getattr, 0, &got, 56, 1));
	SHOW(syscall(SYS_sched_getattr, 0, 0, 56, 0));
	SHOW(syscall(SYS_sched_getattr, 0, 16, 56, 0));
	SHOW(syscall(SYS_sched_getattr, -1, &got, 56, 0));
	SHOW(syscall(SYS_sched_getattr, 99999999, &got, 56, 0));
	SHOW(set_attributes((struct attributes){ .size = 48, .nice = 7 }));
	SHOW(getpriority(PRIO_PROCESS, 0));
	SHOW(set_attributes((struct attributes){ .nice = 5 }));
	syscall(SYS_sched_getattr, 0, &got, 56, 0);
	say("nice %d", got.nice);
	SHOW(set_attributes((struct attributes){ .size = 56, .nice = 99 }));
	SHOW(getpriority(PRIO_PROCESS, 0));
	SHOW(set_attributes((struct attributes){ .size = 56, .flags = 8 | 16, .nice = 3 }));
	SHOW(getpriority(PRIO_PROCESS, 0));
	SHOW(set_attributes((struct attributes){ .size = 80, .nice = 2 }));
	SHOW(set_attributes((struct attributes){ .size = 80, .more = { 1 } }));
	SHOW(set_attributes((struct attributes){ .size = 10 }));
	SHOW(set_attributes((struct attributes){ .size = 5000 }));
	SHOW(set_attributes((struct attributes){ .size = 56, .policy = 99 }));
	SHOW(set_attributes((struct attributes){ .size = 56, .policy = -1 }));
	SHOW(set_attributes((struct attributes){ .size = 56, .flags = 0x1000 }));
	SHOW(set_attributes((struct attributes){ .size = 56, .policy = 0, .priority = 5 }));
	SHOW(syscall(SYS_sched_setattr, 0, 0, 0));
	SHOW(syscall(SYS_sched_setattr, 0, 16, 0));
	SHOW(syscall(SYS_sched_setattr, 0, &got, 1));
	SHOW(syscall(SYS_sched_setattr, -1, &got, 0));
	SHOW(getpriority(PRIO_PROCESS, 0));
}

int main(void)
{
	affinity();
	priorities();
	in_child("attributes", attributes);
	fairness();
	return 0;
}
