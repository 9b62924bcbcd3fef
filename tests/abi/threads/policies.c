/* Scheduling policies that are not real-time: who may set which, on whom, what is told, and what a child has. */
#include "t.h"

#include <grp.h>
#include <sys/resource.h>

struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max;
};
enum { OTHER = 0, BATCH = 3, IDLE = 5, RESET = 0x40000000 };

static long set_attr(pid_t pid, uint32_t policy, uint64_t flags, int nice, uint32_t priority)
{
	struct attr attr = { sizeof attr, policy, flags, nice, priority, 0, 0, 0, 0, 0 };
	return syscall(SYS_sched_setattr, pid, &attr, 0);
}

static void show(const char *when, pid_t pid)
{
	struct attr attr = { 0 };
	errno = 0;
	long got = syscall(SYS_sched_getattr, pid, &attr, sizeof attr, 0);
	say("%s: scheduler %#lx, attr %ld: policy %u flags %#lx nice %d, priority %d", when, (long)syscall(SYS_sched_getscheduler, pid), got, attr.policy,
	    (unsigned long)attr.flags, attr.nice, getpriority(PRIO_PROCESS, (id_t)pid));
}

static long set(pid_t pid, int policy, int priority)
{
	struct { int priority; } param = { priority };
	return syscall(SYS_sched_setscheduler, pid, policy, &param);
}

static void child(const char *what)
{
	pid_t pid = must_fork();
	if (pid == 0) {
		show(what, 0);
		_exit(0);
	}
	wait_for(pid);
}

#define DO(call) (SHOW(call), show("  now", 0))
static void all(void)
{
	show("first", 0);
	DO(set(0, BATCH, 0));
	DO(set(0, BATCH, 1));
	DO(set(0, IDLE, 0));
	DO(setpriority(PRIO_PROCESS, 0, 5));
	child("child of idle");
	DO(set(0, OTHER, 0));
	DO(set(0, OTHER | RESET, 0));
	child("child of one that resets");
	DO(set(0, OTHER, 0));
	DO(setpriority(PRIO_PROCESS, 0, -5));
	DO(set(0, BATCH | RESET, 0));
	child("child of one that resets");
	DO(set_attr(0, IDLE, 0, 7, 0));
	DO(set_attr(0, OTHER, 0, 7, 0));
	DO(set_attr(0, OTHER, 0, 3, 0));
	DO(set_attr(0, BATCH, 1, 30, 0));
	DO(set_attr(0, OTHER, 0x08, 9, 0));
	DO(set_attr(0, OTHER, 0x18, 4, 0));
	DO(set_attr(0, OTHER, 0x10, 4, 0));
	DO(set_attr(0, OTHER, 0x10, 4, 1));
	DO(set_attr(0, OTHER, 0x06, 4, 0));
	DO(set_attr(0, OTHER, 0x20, 4, 0));
	DO(set_attr(0, OTHER, 0x80, 4, 0));
	DO(set_attr(0, 4, 0, 0, 0));
	DO(set_attr(0, 9, 0, 0, 0));
	DO(set_attr(0, -1, 0, 0, 0));
	DO(set_attr(0, -1, 8, 12, 0));
	DO(set(0, 4, 0));
	DO(set(0, -1, 0));
	DO(set(0, 1, 0));
	DO(set(0, 1, 100));
	SHOW(set(-1, OTHER, 0));
	SHOW(set(99999999, OTHER, 0));
	SHOW(syscall(SYS_sched_setscheduler, 0, OTHER, 0));
	SHOW(syscall(SYS_sched_setscheduler, 0, OTHER, 8));
	SHOW(syscall(SYS_sched_setparam, 0, 0));
	SHOW(syscall(SYS_sched_setparam, -1, 0));
	SHOW(syscall(SYS_sched_setparam, 0, 8));
	int priority = 1;
	SHOW(syscall(SYS_sched_setparam, 0, &priority));
	priority = 0;
	SHOW(syscall(SYS_sched_setparam, 0, &priority));
	SHOW(syscall(SYS_sched_setparam, 99999999, &priority));
	SHOW(syscall(SYS_sched_getparam, -1, &priority));
	SHOW(syscall(SYS_sched_getparam, 99999999, &priority));
	SHOW(syscall(SYS_sched_getscheduler, -1));
	SHOW(syscall(SYS_sched_getscheduler, 99999999));
	cpu_set_t set;
	SHOW(syscall(SYS_sched_getaffinity, -1, sizeof set, &set));
	SHOW(syscall(SYS_sched_setaffinity, -1, sizeof set, &set));
	SHOW(getpriority(PRIO_PROCESS, -1));
	SHOW(getpriority(PRIO_PGRP, -1));
	SHOW(getpriority(3, 0));
	SHOW(setpriority(3, 0, 0));
}

static void in_own_group(void) { setpgid(0, 0); }
static void as_user(void) { in_own_group(); setresuid(1000, 1000, 1000); }

static void users(void)
{
	section("a user");
	pid_t own = parked(as_user), roots = parked(in_own_group);
	setgroups(0, 0);
	setresuid(1000, 1000, 1000);
	struct rlimit limit = { 0, 0 };
	setrlimit(RLIMIT_NICE, &limit);
	show("first", 0);
	DO(set(0, BATCH, 0));
	DO(set(0, OTHER | RESET, 0));
	DO(set(0, OTHER, 0));
	DO(set(0, IDLE, 0));
	DO(set(0, IDLE | RESET, 0));
	DO(set(0, OTHER | RESET, 0));
	DO(set_attr(0, IDLE, 0, -5, 0));
	DO(set_attr(0, IDLE, 1, -5, 0));
	DO(set_attr(0, OTHER, 1, -5, 0));
	DO(setpriority(PRIO_PROCESS, 0, 5));
	DO(setpriority(PRIO_PROCESS, 0, 4));
	SHOW(set(own, BATCH, 0));
	SHOW(set_attr(own, BATCH, 0, 10, 0));
	SHOW(set_attr(own, BATCH, 0, 9, 0));
	SHOW(set_attr(own, BATCH, 0x20, 10, 0));
	SHOW(setpriority(PRIO_PGRP, (id_t)own, 11));
	SHOW(set(roots, BATCH, 0));
	SHOW(set_attr(roots, OTHER, 0, 10, 0));
	SHOW(set_attr(roots, OTHER, 0x20, 10, 0));
	SHOW(set_attr(roots, 99, 0, 10, 0));
	SHOW(setpriority(PRIO_PROCESS, (id_t)roots, 10));
	SHOW(setpriority(PRIO_PROCESS, (id_t)roots, -10));
	SHOW(setpriority(PRIO_USER, 0, -10));
	int none = 0;
	SHOW(syscall(SYS_sched_setparam, roots, &none));
	show("root's", roots);
	show("own", own);
}

/* RLIMIT_NICE lets a user be better than it is. */
static void limits(void)
{
	section("RLIMIT_NICE");
	struct rlimit limit = { 15, 15 };
	setrlimit(RLIMIT_NICE, &limit);
	setpriority(PRIO_PROCESS, 0, 19);
	setresuid(1000, 1000, 1000);
	DO(setpriority(PRIO_PROCESS, 0, 4));
	DO(setpriority(PRIO_PROCESS, 0, 5));
	DO(set_attr(0, OTHER, 0, 4, 0));
	DO(set(0, IDLE, 0));
	DO(set(0, OTHER, 0));
}

/* What real-time policies refuse; what they do is in realtime.c. That of deadlines Darter refuses; on Linux it is set in a child, which does nothing else. */
static void real_time(void)
{
	struct attr deadline = { sizeof deadline, 6, 0, 0, 0, 1000000, 10000000, 10000000, 0, 0 };
	MISSING(syscall(SYS_sched_setattr, 0, &deadline, 0), EINVAL);
	SHOW(set(0, OTHER, 0) == 0 || errno == EPERM);
	SHOW(set(0, 1, 0));
	SHOW(set(0, 1, 100));
	SHOW(set(0, 2, 0));
	SHOW(set(0, 6, 0));
	SHOW(set_attr(0, 1, 0, 0, 0));
	SHOW(set_attr(0, OTHER, 0x40, 4, 0));
	SHOW(set_attr(0, OTHER, 0x60, 4, 0));
}

/* How long a turn is: of those that share a processor by their nice values it says nothing exact. */
static void intervals(void)
{
	section("sched_rr_get_interval");
	struct timespec turn = { -1, -1 };
	SHOW(sched_rr_get_interval(0, &turn));
	CHECK(turn.tv_sec == 0 && turn.tv_nsec >= 0 && turn.tv_nsec <= 100000000);
	SHOW(sched_rr_get_interval(getppid(), &turn));
	SHOW(sched_rr_get_interval(-1, &turn));
	SHOW(sched_rr_get_interval(0x3fffffff, &turn));
	SHOW(sched_rr_get_interval(0, (struct timespec *)8));
	SHOW(sched_rr_get_interval(-1, (struct timespec *)8));
	SHOW(sched_rr_get_interval(0x3fffffff, (struct timespec *)8));
}

int main(void)
{
	section("real time");
	in_child("real time", real_time);
	intervals();
	setvbuf(stdout, 0, _IONBF, 0);
	in_child("root", all);
	/* What the bodies leave behind ends with their own process group. */
	static void (*const bodies[])(void) = { users, limits };
	for (int i = 0; i < 2; i++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			bodies[i]();
			_exit(0);
		}
		wait_for(pid);
	}
	return 0;
}
