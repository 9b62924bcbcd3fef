/*
 * Real-time policies: who may set them, what is told, what a child has; and on one CPU who runs before whom. There nothing is left to chance: who has the
 * highest priority alone runs, and says so in a log that all share.
 */
#include "t.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max;
};
enum { OTHER = 0, FIFO = 1, RR = 2, BATCH = 3, IDLE = 5, RESET = 0x40000000 };

static struct shared {
	volatile int at, last, turns, signals;
	int words[2];
	char log[64];
} *shared;

static long set(pid_t pid, int policy, int priority) { return syscall(SYS_sched_setscheduler, pid, policy, &priority); }
static long set_param(pid_t pid, int priority) { return syscall(SYS_sched_setparam, pid, &priority); }

static long set_attr(pid_t pid, uint32_t policy, uint64_t flags, int nice, uint32_t priority)
{
	struct attr attr = { sizeof attr, policy, flags, nice, priority, 0, 0, 0, 0, 0 };
	return syscall(SYS_sched_setattr, pid, &attr, 0);
}

static void show(const char *when, pid_t pid)
{
	struct attr attr = { 0 };
	int param = -1;
	long got = syscall(SYS_sched_getattr, pid, &attr, sizeof attr, 0);
	syscall(SYS_sched_getparam, pid, &param);
	say("%s: scheduler %#lx, attr %ld: policy %u flags %#lx nice %d priority %u, param %d, nice value %d", when,
	    (long)syscall(SYS_sched_getscheduler, pid), got, attr.policy, (unsigned long)attr.flags, attr.nice, attr.priority, param,
	    getpriority(PRIO_PROCESS, (id_t)pid));
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/stat", pid ? pid : getpid());
	char *text = read_file(path), *field = text ? strrchr(text, ')') : 0;
	/* Field 2 ends there. */
	for (int n = 3; field && (field = strchr(field + 1, ' ')); n++)
		if (n == 18 || n == 19 || n == 40 || n == 41)
			say("  field %d: %ld", n, strtol(field, 0, 10));
	free(text);
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

static void interval(const char *what)
{
	struct timespec turn = { -1, -1 };
	errno = 0;
	long got = syscall(SYS_sched_rr_get_interval, 0, &turn);
	say("%s: interval %ld: %ld s %ld ns", what, got, (long)turn.tv_sec, turn.tv_nsec);
}

#define DO(call) (SHOW(call), show("  now", 0))
static void as_root(void)
{
	section("root");
	DO(set(0, FIFO, 10));
	interval("FIFO");
	child("its child");
	DO(set(0, RR, 99));
	interval("RR");
	DO(set(0, RR | RESET, 1));
	child("child of one that resets");
	SHOW(set(0, RR, 0));
	SHOW(set(0, RR, 100));
	SHOW(set(0, FIFO, -1));
	SHOW(set(0, OTHER, 1));
	SHOW(set(0, BATCH, 5));
	DO(set_param(0, 50));
	SHOW(set_param(0, 0));
	SHOW(set_param(0, 100));
	DO(setpriority(PRIO_PROCESS, 0, 7));
	DO(set_attr(0, FIFO, 0, -3, 20));
	DO(set_attr(0, FIFO, 1, 3, 30));
	DO(set_attr(0, FIFO, 0x08, 3, 31));
	DO(set_attr(0, FIFO, 0x10, 3, 32));
	DO(set_attr(0, FIFO, 0x18, 3, 33));
	DO(set_attr(0, OTHER, 0x10, 3, 0));
	DO(set_attr(0, OTHER, 0x10, 3, 5));
	SHOW(set_attr(0, FIFO, 0, 0, 0));
	SHOW(set_attr(0, FIFO, 0, 0, 100));
	DO(set(0, IDLE, 0));
	DO(set_attr(0, RR, 0, 0, 4));
	DO(set_attr(0, OTHER, 0, -4, 0));
	child("its child");
	SHOW(prctl(PR_SET_TIMERSLACK, 70000));
	SHOW(set(0, FIFO, 1));
	SHOW(prctl(PR_GET_TIMERSLACK));
	SHOW(prctl(PR_SET_TIMERSLACK, 90000));
	SHOW(set(0, OTHER, 0));
	SHOW(prctl(PR_GET_TIMERSLACK));
}

static void limit(int resource, rlim_t soft, rlim_t hard)
{
	struct rlimit limit = { soft, hard };
	if (setrlimit(resource, &limit) != 0)
		say("setrlimit: %s", error_name(errno));
}

static void as_user(void)
{
	setpgid(0, 0);
	setresuid(1000, 1000, 1000);
}

static void in_own_group(void) { setpgid(0, 0); }

static void users(void)
{
	section("a user");
	pid_t own = parked(as_user), roots = parked(in_own_group);
	limit(RLIMIT_RTPRIO, 0, 10);
	setgroups(0, 0);
	setresuid(1000, 1000, 1000);
	SHOW(set(0, FIFO, 1));
	SHOW(set(0, RR, 1));
	SHOW(set(0, FIFO, 0));
	limit(RLIMIT_RTPRIO, 10, 10);
	DO(set(0, FIFO, 11));
	DO(set(0, FIFO, 10));
	DO(set_param(0, 11));
	DO(set_param(0, 3));
	DO(set_param(0, 10));
	DO(set(0, RR, 10));
	limit(RLIMIT_RTPRIO, 5, 10);
	DO(set_param(0, 9));
	DO(set_param(0, 10));
	DO(set(0, FIFO, 9));
	DO(set(0, RR, 10));
	limit(RLIMIT_RTPRIO, 0, 10);
	DO(set(0, RR, 4));
	DO(set(0, FIFO, 9));
	DO(set(0, FIFO, 8));
	DO(set_param(0, 7));
	DO(set(0, OTHER, 0));
	DO(set(0, FIFO, 1));
	limit(RLIMIT_RTPRIO, 10, 10);
	DO(set(0, FIFO | RESET, 5));
	DO(set(0, FIFO, 5));
	DO(set(0, OTHER | RESET, 0));
	DO(set_attr(0, FIFO, 1, 0, 6));
	SHOW(set(own, FIFO, 10));
	SHOW(set(own, FIFO, 1));
	SHOW(set(roots, FIFO, 1));
	SHOW(set(roots, OTHER, 0));
	SHOW(set_param(roots, 0));
	show("root's", roots);
	show("own", own);
	kill(own, SIGKILL);
}

static void pin(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0)
		say("no CPU 0");
}

static void note(char letter)
{
	if (shared->at < (int)sizeof shared->log - 1)
		shared->log[shared->at++] = letter;
}

/* What was noted since the last time. */
static void tell(const char *what)
{
	shared->log[shared->at] = 0;
	say("%s: %s", what, shared->log);
	shared->at = 0;
}

/* A child that does `body` when its turn comes. */
static pid_t task(int policy, int priority, void (*body)(char), char letter)
{
	pid_t pid = must_fork();
	if (pid == 0) {
		body(letter);
		_exit(0);
	}
	if (set(pid, policy, priority) != 0)
		say("set: %s", error_name(errno));
	return pid;
}

static void wait_all(void)
{
	while (wait(0) > 0)
		;
}

static void yields(char letter)
{
	for (int n = 0; n < 3; n++) {
		note(letter);
		syscall(SYS_sched_yield);
	}
}

static long futex(int word, int operation, long value, long more, int other)
{
	return syscall(SYS_futex, &shared->words[word], operation, value, more, &shared->words[other], 0);
}

static void waits(char letter)
{
	futex(0, 0, 0, 0, 0);
	note(letter);
}

/* Those who wait on a futex are woken by priority; fair ones last, as they came. */
static void futexes(void)
{
	section("futexes");
	pin();
	set(0, FIFO, 99);
	static const int priorities[] = { 0, 10, 30, 20, 0, 30 };
	for (int n = 0; n < 2; n++) {
		for (int i = 0; i < 6; i++) {
			task(priorities[i] ? FIFO : OTHER, priorities[i], waits, (char)('a' + i));
			nap(20);
		}
		if (n == 1) {
			/* FUTEX_REQUEUE */
			say("moved: %ld", futex(0, 3, 0, 4, 1));
			for (int i = 0; i < 4; i++) {
				futex(1, 1, 1, 0, 0);
				nap(20);
			}
			note(',');
		}
		for (int i = 0; i < 6; i++) {
			futex(0, 1, 1, 0, 0);
			nap(20);
		}
		wait_all();
		tell("woken one by one");
	}
}

/* Who is woken by whom. */
static int wakes[2];

static void is_woken(char letter)
{
	char byte;
	read(wakes[0], &byte, 1);
	note(letter);
}

static void wakes_one(char letter)
{
	note(letter);
	write(wakes[1], "", 1);
	note(letter);
}

static void lowers(char letter)
{
	note(letter);
	set_param(0, 10);
	note(letter);
}

static void lowers_below(char letter)
{
	note(letter);
	set_param(0, 5);
	note(letter);
}

static void becomes_fair(char letter)
{
	note(letter);
	set(0, OTHER, 0);
	note(letter);
}

static void raises_lowest(char letter)
{
	/* The one that was made just before. */
	note(letter);
	set_param(getpid() - 1, 90);
	note(letter);
}

static void order(void)
{
	section("order on one CPU");
	pin();
	SHOW(set(0, FIFO, 99));
	task(FIFO, 10, note, 'a');
	task(FIFO, 30, note, 'b');
	task(FIFO, 20, note, 'c');
	task(FIFO, 30, note, 'd');
	task(OTHER, 0, note, 'e');
	task(RR, 30, note, 'f');
	task(RR, 40, note, 'g');
	tell("before they may");
	wait_all();
	tell("by priority, and then as they came");
	for (char c = 'a'; c < 'd'; c++)
		task(FIFO, 10, yields, c);
	wait_all();
	tell("yield");
	task(FIFO, 10, yields, 'a');
	task(FIFO, 9, yields, 'b');
	wait_all();
	tell("yield to a lower one");
	pipe(wakes);
	task(FIFO, 20, is_woken, 'h');
	task(FIFO, 10, wakes_one, 'a');
	task(FIFO, 10, note, 'b');
	wait_all();
	tell("a higher one is woken");
	task(FIFO, 10, is_woken, 'h');
	task(FIFO, 10, wakes_one, 'a');
	task(FIFO, 10, note, 'b');
	wait_all();
	tell("an equal one is woken");
	task(FIFO, 20, lowers, 'a');
	task(FIFO, 10, note, 'b');
	wait_all();
	tell("who runs is lowered to another's priority");
	task(FIFO, 20, lowers_below, 'a');
	task(FIFO, 10, note, 'b');
	wait_all();
	tell("who runs is lowered below another's priority");
	task(FIFO, 20, becomes_fair, 'a');
	task(FIFO, 10, note, 'b');
	wait_all();
	tell("who runs becomes a fair one");
	pid_t low = task(FIFO, 10, note, 'a');
	pid_t high = task(FIFO, 20, raises_lowest, 'b');
	if (high == low + 1)
		wait_all();
	tell("who waits is raised");
	low = task(FIFO, 30, note, 'a');
	task(FIFO, 20, note, 'b');
	task(FIFO, 20, note, 'c');
	set_param(low, 20);
	wait_all();
	tell("who waits is lowered to others' priority");
	low = task(FIFO, 10, note, 'a');
	task(FIFO, 20, note, 'b');
	set_param(low, 20);
	wait_all();
	tell("who waits is raised to another's priority");
	low = task(OTHER, 0, note, 'a');
	task(FIFO, 20, note, 'b');
	set(low, RR, 21);
	wait_all();
	tell("a fair one is raised");
}

static long own_ms(void) { return ms(CLOCK_THREAD_CPUTIME_ID); }

/* Runs for 240 ms of its own, and counts how often it finds that another has run. */
static void takes_turns(char letter)
{
	while (own_ms() < 240) {
		if (shared->last != letter) {
			shared->last = letter;
			shared->turns++;
		}
	}
}

static void turns(void)
{
	section("turns");
	pin();
	set(0, FIFO, 99);
	static const int policies[] = { FIFO, RR };
	for (int n = 0; n < 2; n++) {
		shared->turns = shared->last = 0;
		task(policies[n], 10, takes_turns, 'a');
		task(policies[n], 10, takes_turns, 'b');
		wait_all();
		if (n == 0)
			CHECK(shared->turns == 2);
		else
			CHECK(shared->turns >= 4 && shared->turns <= 8);
		nap(300);
	}
}

static void count_signal(int number)
{
	(void)number;
	shared->signals++;
}

static void rests(void)
{
	for (int n = 0; n < 3; n++) {
		long until = own_ms() + 100;
		while (own_ms() < until)
			;
		nap(5);
	}
}

static void runs_on(void)
{
	for (;;)
		;
}

static void times(void)
{
	section("RLIMIT_RTTIME");
	signal(SIGXCPU, count_signal);
	limit(RLIMIT_RTTIME, 200000, 500000);
	SHOW(set(0, FIFO, 10));
	in_child("one that sleeps", rests);
	CHECK(shared->signals == 0);
	in_child("one that runs on", runs_on);
	CHECK(shared->signals == 1);
	signal(SIGXCPU, SIG_DFL);
	in_child("without a handler", runs_on);
	set(0, OTHER, 0);
	in_child("a fair one", rests);
}

/* A loop leaves something to fair tasks. */
static void leaves(void)
{
	section("what is left");
	pin();
	pid_t pid = must_fork();
	if (pid == 0)
		runs_on();
	set(0, FIFO, 10);
	long until = ms(CLOCK_MONOTONIC) + 4000;
	while (ms(CLOCK_MONOTONIC) < until)
		;
	set(0, OTHER, 0);
	clockid_t clock;
	clock_getcpuclockid(pid, &clock);
	long had = ms(clock);
	CHECK(had >= 50 && had <= 1000);
	kill(pid, SIGKILL);
	wait_for(pid);
}

static void set_and_show(const char *name, const char *value)
{
	char path[64], now[32];
	snprintf(path, sizeof path, "/proc/sys/kernel/%s", name);
	int fd = open(path, O_RDWR);
	errno = 0;
	long wrote = write(fd, value, strlen(value));
	/* The bandwidth of a task with a deadline stays for some time after it. */
	for (int tries = 0; wrote < 0 && errno == EBUSY && tries < 100; tries++) {
		nap(50);
		wrote = write(fd, value, strlen(value));
	}
	int error = wrote < 0 ? errno : 0;
	close(fd);
	fd = open(path, O_RDONLY);
	long got = read(fd, now, sizeof now - 1);
	now[got > 0 ? got - 1 : 0] = 0;
	say("%s: %s: %ld %s: %s", name, value, wrote, error_name(error), now);
	close(fd);
}

static void settings(void)
{
	section("settings");
	/* What Linux says of 0 goes by what programs with deadlines have left behind. */
	static const char *const values[] = { "-1", "-2", "50", "1000001", "2147483648", "none", "", "950000" };
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		set_and_show("sched_rt_runtime_us", values[i]);
	static const char *const periods[] = { "0", "-1", "1", "949999", "950000", "1000000" };
	for (size_t i = 0; i < sizeof periods / sizeof *periods; i++)
		set_and_show("sched_rt_period_us", periods[i]);
	set(0, RR, 1);
	static const char *const slices[] = { "40", "0", "-1", "-7" };
	for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
		set_and_show("sched_rr_timeslice_ms", slices[i]);
		interval("RR");
	}
}

static void slice(const char *when)
{
	struct attr attr = { 0 };
	long got = syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0);
	say("%s: %ld: policy %u, runtime %ld", when, got, attr.policy, (long)attr.runtime);
	interval("  of it");
}

static long set_slice(uint32_t policy, uint64_t flags, uint64_t runtime)
{
	struct attr attr = { sizeof attr, policy, flags, 0, policy == FIFO, runtime, 0, 0, 0, 0 };
	return syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void slices(void)
{
	section("slices");
	slice("first");
	static const long runtimes[] = { 1, 99999, 4000000, 9000000, 100000000, 100000001, -1, 0, 5000000 };
	for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++) {
		SHOW(set_slice(OTHER, 0, (uint64_t)runtimes[i]));
		slice("  set");
	}
	SHOW(set(0, BATCH, 0));
	slice("  batch");
	SHOW(set(0, IDLE, 0));
	slice("  idle");
	SHOW(set(0, OTHER, 0));
	slice("  other");
	SHOW(set_slice(FIFO, 0, 7000000));
	slice("  FIFO");
	SHOW(set(0, OTHER, 0));
	slice("  other");
	SHOW(set_param(0, 0));
	slice("  set_param");
	SHOW(setpriority(PRIO_PROCESS, 0, 3));
	slice("  nice");
	SHOW(set_slice(OTHER, 0x10, 7000000));
	slice("  keeps parameters");
	for (int n = 0; n < 2; n++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			slice("  child");
			_exit(0);
		}
		wait_for(pid);
		SHOW(set_slice(OTHER, 1, 6000000));
	}
	slice("  resets");
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static void (*const bodies[])(void) = { as_root, users, order, futexes, slices, turns, times, leaves, settings };
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			bodies[i]();
			_exit(0);
		}
		say("ended: %s", status_text(wait_for(pid)));
	}
	section("bounds");
	/* 7 is a class that not every Linux has. */
	for (int policy = -1; policy <= 8; policy++)
		if (policy != 7)
			say("%d: %ld to %ld", policy, syscall(SYS_sched_get_priority_min, policy), syscall(SYS_sched_get_priority_max, policy));
	char *text = read_file("/proc/sys/kernel/sched_rr_timeslice_ms");
	say("sched_rr_timeslice_ms: %s", text ? text : "none");
	text = read_file("/proc/sys/kernel/sched_rt_period_us");
	say("sched_rt_period_us: %s", text ? text : "none");
	text = read_file("/proc/sys/kernel/sched_rt_runtime_us");
	say("sched_rt_runtime_us: %s", text ? text : "none");
	return 0;
}
