/*
 * SCHED_DEADLINE: which parameters may be set, by whom, and how much of the CPUs; what is told; forks, affinity, overruns. What runs when is shown only as far
 * as it is sure: who has had its run time waits.
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
enum { OTHER = 0, FIFO = 1, DEADLINE = 6, RESET = 0x40000000 };
enum { RESETS = 1, RECLAIM = 2, OVERRUN = 4, KEEP_POLICY = 8, KEEP_PARAMS = 16, CLAMP = 32 };
#define SUGOV 0x10000000
#define MS 1000000ULL

static long set_attr(pid_t pid, uint32_t policy, uint64_t flags, uint32_t priority, uint64_t runtime, uint64_t deadline, uint64_t period)
{
	struct attr attr = { sizeof attr, policy, flags, 3, priority, runtime, deadline, period, 0, 0 };
	return syscall(SYS_sched_setattr, pid, &attr, 0);
}

static long set(pid_t pid, uint64_t flags, uint64_t runtime, uint64_t deadline, uint64_t period)
{
	return set_attr(pid, DEADLINE, flags, 0, runtime, deadline, period);
}

static long leave(pid_t pid) { return set_attr(pid, OTHER, 0, 0, 0, 0, 0); }

static long set_policy(pid_t pid, int policy, int priority) { return syscall(SYS_sched_setscheduler, pid, policy, &priority); }

static void show(const char *when, pid_t pid)
{
	struct attr attr = { 0 };
	int param = -1;
	long got = syscall(SYS_sched_getattr, pid, &attr, sizeof attr, 0);
	syscall(SYS_sched_getparam, pid, &param);
	say("%s: scheduler %#lx, attr %ld: size %u policy %u flags %#lx nice %d priority %u, param %d", when,
	    (long)syscall(SYS_sched_getscheduler, pid), got, attr.size, attr.policy, (unsigned long)attr.flags, attr.nice, attr.priority, param);
	/* That of others is their slice. */
	if (attr.policy == DEADLINE)
		say("  runtime %lu deadline %lu period %lu", (unsigned long)attr.runtime, (unsigned long)attr.deadline, (unsigned long)attr.period);
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/stat", pid ? pid : getpid());
	char *text = read_file(path), *field = text ? strrchr(text, ')') : 0;
	for (int n = 3; field && (field = strchr(field + 1, ' ')); n++)
		if (n == 18 || n == 19 || n == 40 || n == 41)
			say("  field %d: %ld", n, strtol(field, 0, 10));
	free(text);
}
#define DO(call) (SHOW(call), show("  now", 0))

/* With so little the one who asks would not get on; nor does the child, which has more before it ends. */
static void of_child(uint64_t runtime, uint64_t deadline, uint64_t period)
{
	pid_t pid = parked(0);
	SHOW(set(pid, 0, runtime, deadline, period));
	show("  child", pid);
	set(pid, 0, 30 * MS, 100 * MS, 0);
	kill(pid, SIGKILL);
	wait_for(pid);
}

static void parameters(void)
{
	section("parameters");
	signal(SIGXCPU, SIG_IGN);
	SHOW(set(0, 0, 0, 0, 0));
	SHOW(set(0, 0, 10 * MS, 0, 0));
	SHOW(set(0, 0, 0, 20 * MS, 0));
	SHOW(set(0, 0, 10 * MS, 0, 20 * MS));
	SHOW(set(0, 0, 21 * MS, 20 * MS, 0));
	SHOW(set(0, 0, 4 * MS, 40 * MS, 19 * MS));
	SHOW(set(0, 0, 10 * MS, 9 * MS, 20 * MS));
	SHOW(set(0, 0, 1023, 20 * MS, 20 * MS));
	SHOW(set(0, 0, 10000, 99999, 0));
	SHOW(set(0, 0, 10000, 20000, 99999));
	SHOW(set(0, 0, 4 * MS, 40 * MS, 4194304001));
	SHOW(set(0, 0, 10 * MS, 4194304001, 0));
	SHOW(set(0, 0, 10 * MS, 1ULL << 63, 0));
	SHOW(set(0, 0, 4 * MS, 40 * MS, 1ULL << 63));
	SHOW(set(0, 0, ~0ULL, ~0ULL, ~0ULL));
	SHOW(set_attr(0, DEADLINE, 0, 1, 4 * MS, 40 * MS, 0));
	SHOW(set_attr(0, DEADLINE, 0, 100, 4 * MS, 40 * MS, 0));
	SHOW(set_attr(0, DEADLINE, 0x80, 0, 4 * MS, 40 * MS, 0));
	SHOW(set_attr(0, DEADLINE, CLAMP, 0, 4 * MS, 40 * MS, 0));
	SHOW(set_attr(0, DEADLINE, SUGOV, 0, 4 * MS, 40 * MS, 0));
	SHOW(set_attr(0, DEADLINE, SUGOV, 0, 0, 0, 0));
	SHOW(set_attr(0, OTHER, SUGOV, 0, 0, 0, 0));
	SHOW(set_policy(0, DEADLINE, 0));
	SHOW(set_policy(0, DEADLINE | RESET, 0));
	show("none was set", 0);
	of_child(50 * MS, 4194304000, 4194304000);
	of_child(1024, 100000, 0);
	DO(set(0, 0, 4 * MS, 40 * MS, 0));
	DO(set(0, 0, 4 * MS, 20 * MS, 40 * MS));
	DO(set(0, RECLAIM | OVERRUN | RESETS, 3 * MS, 30 * MS, 30 * MS));
	DO(set(0, OVERRUN, 3 * MS, 30 * MS, 30 * MS));
	SHOW(set(0, 0, 10 * MS, 9 * MS, 0));
	DO(set(0, RECLAIM, 4 * MS, 40 * MS, 0));
	/* What stays of it. */
	DO(set_attr(0, OTHER, KEEP_POLICY, 0, 3 * MS, 16 * MS, 32 * MS));
	DO(set_attr(0, OTHER, KEEP_POLICY | KEEP_PARAMS, 0, 0, 0, 0));
	DO(set_attr(0, DEADLINE, KEEP_PARAMS | RESETS, 7, 1, 2, 3));
	SHOW(set_attr(0, OTHER, KEEP_POLICY, 0, 0, 0, 0));
	int priority = 0;
	SHOW(syscall(SYS_sched_setparam, 0, &priority));
	priority = 5;
	SHOW(syscall(SYS_sched_setparam, 0, &priority));
	SHOW(setpriority(PRIO_PROCESS, 0, 5));
	show("nice", 0);
	struct timespec turn = { -1, -1 };
	SHOW(syscall(SYS_sched_rr_get_interval, 0, &turn));
	say("interval %ld s %ld ns", (long)turn.tv_sec, turn.tv_nsec);
	SHOW(syscall(SYS_sched_get_priority_max, DEADLINE));
	SHOW(syscall(SYS_sched_get_priority_min, DEADLINE));
	SHOW(prctl(PR_GET_TIMERSLACK));
	DO(set_policy(0, FIFO, 10));
	DO(set(0, 0, 4 * MS, 40 * MS, 0));
	DO(leave(0));
	SHOW(prctl(PR_GET_TIMERSLACK));
	char *text = read_file("/proc/self/sched");
	CHECK(text && !strstr(text, "dl."));
	free(text);
	SHOW(set(0, 0, 4 * MS, 40 * MS, 0));
	text = read_file("/proc/self/sched");
	for (char *line = text ? strtok(text, "\n") : 0; line; line = strtok(0, "\n"))
		if (!strncmp(line, "policy", 6) || !strncmp(line, "prio ", 5))
			say("%s", line);
		else if (!strncmp(line, "dl.", 3))
			say("%.47s", line);
	free(text);
}

static void sizes(void)
{
	section("sizes");
	static const uint32_t given[] = { 0, 1, 47, 48, 55, 56, 57, 128, 4096, 4097, 0xffffffff };
	char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < sizeof given / sizeof *given; i++)
		for (int rest = 0; rest < 2; rest++) {
			struct attr attr = { given[i], DEADLINE, 0, 0, 0, 4 * MS, 40 * MS, 0, 0, 0 };
			memset(page, 0, 8192);
			memcpy(page, &attr, sizeof attr);
			page[127] = (char)rest;
			errno = 0;
			long got = syscall(SYS_sched_setattr, 0, page, 0);
			say("size %u, rest %d: %ld %s, says %u", given[i], rest, got, error_name(errno), *(uint32_t *)page);
		}
	static const uint32_t asked[] = { 0, 47, 48, 52, 56, 60, 4096, 4097 };
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		memset(page, 0x55, 8192);
		errno = 0;
		long got = syscall(SYS_sched_getattr, 0, page, asked[i], 0);
		int written = 0;
		while (written < 8192 && page[8191 - written] == 0x55)
			written++;
		say("asked for %u: %ld %s, %d bytes, says %u", asked[i], got, error_name(errno), 8192 - written, *(uint32_t *)page);
	}
	SHOW(syscall(SYS_sched_setattr, 0, page, 1));
	SHOW(syscall(SYS_sched_setattr, 0, 0, 0));
	SHOW(syscall(SYS_sched_setattr, -1, page, 0));
}

static void as_user(void) { setresuid(1000, 1000, 1000); }

static void users(void)
{
	section("a user");
	struct rlimit most = { 99, 99 };
	setrlimit(RLIMIT_RTPRIO, &most);
	pid_t own = parked(as_user), deadline = parked(as_user);
	SHOW(set(deadline, 0, 10 * MS, 1000 * MS, 0));
	setgroups(0, 0);
	setresuid(1000, 1000, 1000);
	SHOW(set(0, 0, 4 * MS, 40 * MS, 0));
	SHOW(set(0, 0, 10 * MS, 9 * MS, 0));
	SHOW(set_attr(0, DEADLINE, SUGOV, 0, 0, 0, 0));
	SHOW(set_attr(0, DEADLINE, CLAMP, 0, 4 * MS, 40 * MS, 0));
	SHOW(set(own, 0, 4 * MS, 40 * MS, 0));
	SHOW(set(deadline, 0, 5 * MS, 1000 * MS, 0));
	SHOW(set_attr(deadline, OTHER, KEEP_POLICY | KEEP_PARAMS, 0, 0, 0, 0));
	SHOW(set(1, 0, 4 * MS, 40 * MS, 0));
	show("of its own", deadline);
	kill(own, SIGKILL);
	kill(deadline, SIGKILL);
}

static int thread(void *nothing)
{
	(void)nothing;
	return 0;
}

static void forks(void)
{
	section("forks");
	static char stack[65536];
	SHOW(set(0, 0, 8 * MS, 80 * MS, 0));
	SHOW(fork());
	SHOW(clone(thread, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, 0));
	SHOW(clone(thread, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, 0));
	SHOW(set(0, RESETS | RECLAIM, 8 * MS, 80 * MS, 0));
	pid_t pid = fork();
	if (pid == 0) {
		show("child", 0);
		_exit(0);
	}
	say("%s", status_text(wait_for(pid)));
	show("parent", 0);
	SHOW(leave(0));
	show("parent", 0);
}

static long affinity(pid_t pid, int cpus)
{
	cpu_set_t mask;
	CPU_ZERO(&mask);
	for (int cpu = 0; cpu < cpus; cpu++)
		CPU_SET(cpu, &mask);
	return sched_setaffinity(pid, sizeof mask, &mask);
}

static void affinities(void)
{
	section("affinity");
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), is_one = cpus == 1;
	SHOW(affinity(0, 1));
	errno = 0;
	CHECK(set(0, 0, 4 * MS, 40 * MS, 0) == (is_one ? 0 : -1) && errno == (is_one ? 0 : EPERM));
	SHOW(set(0, 0, 10 * MS, 9 * MS, 0));
	SHOW(affinity(0, cpus));
	SHOW(set(0, 0, 4 * MS, 40 * MS, 0));
	errno = 0;
	CHECK(affinity(0, 1) == (is_one ? 0 : -1) && errno == (is_one ? 0 : EBUSY));
	SHOW(affinity(0, cpus));
	SHOW(affinity(0, 1024));
	errno = 0;
	/* Which is asked first. */
	CHECK(affinity(0, 0) == -1 && errno == EBUSY);
	SHOW(leave(0));
	SHOW(affinity(0, 0));
	SHOW(affinity(0, 1));
}

static long wrote(const char *name, const char *value)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/sys/kernel/%s", name);
	int fd = open(path, O_WRONLY);
	long got = write(fd, value, strlen(value));
	int error = errno;
	close(fd);
	errno = error;
	return got;
}

/* What others had may not be free yet, and is soon. */
static long set_soon(pid_t pid, uint64_t runtime, uint64_t deadline)
{
	for (int n = 0; n < 100; n++) {
		long got = set(pid, 0, runtime, deadline, 0);
		if (got == 0 || errno != EBUSY)
			return got;
		nap(50);
	}
	return -1;
}

static void admission(void)
{
	section("admission");
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), most = (int)(cpus * 0.95 / 0.3), n = 0;
	pid_t pids[1024], last = parked(0);
	for (; n < most && n < 1024; n++) {
		pids[n] = parked(0);
		if (set_soon(pids[n], 30 * MS, 100 * MS) != 0) {
			say("%d of %d: %s", n, most, error_name(errno));
			break;
		}
	}
	CHECK(n == most);
	SHOW(set(last, 0, 30 * MS, 100 * MS, 0));
	SHOW(set(last, 0, 30 * MS, 100 * MS, 0));
	SHOW(set(last, RECLAIM, 30 * MS, 100 * MS, 0));
	SHOW(set(0, 0, 30 * MS, 30 * MS, 100 * MS));
	SHOW(set(pids[0], 0, 100 * MS, 100 * MS, 0));
	show("the first", pids[0]);
	SHOW(set(pids[0], 0, 30 * MS, 50 * MS, 100 * MS));
	SHOW(set(pids[0], 0, 20 * MS, 100 * MS, 0));
	SHOW(set(last, 0, 1 * MS, 100 * MS, 0));
	SHOW(set(pids[0], 0, 60 * MS, 100 * MS, 0));
	SHOW(wrote("sched_rt_runtime_us", "500000"));
	SHOW(wrote("sched_rt_period_us", "2000000"));
	SHOW(wrote("sched_rt_runtime_us", "-1"));
	SHOW(set(pids[0], 0, 100 * MS, 100 * MS, 0));
	SHOW(affinity(pids[0], 1));
	SHOW(wrote("sched_rt_runtime_us", "500000"));
	SHOW(set(pids[0], 0, 20 * MS, 100 * MS, 0));
	SHOW(wrote("sched_rt_runtime_us", "950000"));
	show("the last", last);
	kill(last, SIGKILL);
	while (n-- > 0)
		kill(pids[n], SIGKILL);
	while (wait(0) > 0)
		;
	/* What they had is free again. */
	pid_t one = parked(0);
	SHOW(set_soon(one, 90 * MS, 100 * MS));
	kill(one, SIGKILL);
	wait(0);
}

static void yields(void)
{
	section("sched_yield");
	SHOW(set(0, 0, 4 * MS, 40 * MS, 0));
	long begun = ms(CLOCK_MONOTONIC);
	for (int n = 0; n < 5; n++)
		if (syscall(SYS_sched_yield) != 0)
			say("yield: %s", error_name(errno));
	CHECK(ms(CLOCK_MONOTONIC) - begun >= 4 * 40);
	SHOW(leave(0));
}

static void shares(void)
{
	section("share");
	SHOW(set(0, 0, 10 * MS, 100 * MS, 0));
	long begun = ms(CLOCK_MONOTONIC), had = ms(CLOCK_THREAD_CPUTIME_ID), wall;
	while ((wall = ms(CLOCK_MONOTONIC) - begun) < 3000)
		;
	had = ms(CLOCK_THREAD_CPUTIME_ID) - had;
	CHECK(had >= wall / 30);
	CHECK(had <= wall / 4);
	SHOW(leave(0));
}

static volatile int signals, code;

static void count(int number, siginfo_t *info, void *context)
{
	(void)number, (void)context;
	signals++;
	code = info->si_code;
}

static void runs_over(void)
{
	set(0, OVERRUN, 2 * MS, 20 * MS, 0);
	for (;;)
		;
}

static void overruns(void)
{
	section("overrun");
	struct sigaction action = { .sa_sigaction = count, .sa_flags = SA_SIGINFO };
	sigaction(SIGXCPU, &action, 0);
	SHOW(set(0, 0, 2 * MS, 20 * MS, 0));
	long begun = ms(CLOCK_MONOTONIC);
	while (ms(CLOCK_MONOTONIC) - begun < 300)
		;
	CHECK(signals == 0);
	SHOW(set(0, OVERRUN, 2 * MS, 20 * MS, 0));
	while (signals < 3)
		;
	CHECK(code == SI_KERNEL);
	SHOW(leave(0));
	nap(100);
	int had = signals;
	begun = ms(CLOCK_MONOTONIC);
	while (ms(CLOCK_MONOTONIC) - begun < 300)
		;
	CHECK(signals == had);
	struct rlimit none = { 0, 0 };
	setrlimit(RLIMIT_CORE, &none);
	signal(SIGXCPU, SIG_DFL);
	in_child("without a handler", runs_over);
}

static void set_and_show(const char *name, const char *value)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/sys/kernel/%s", name);
	errno = 0;
	long got = wrote(name, value);
	int error = errno;
	char *text = read_file(path);
	say("%s: %s: %ld %s: %s", name, value, got, error_name(error), text ? text : "none");
	free(text);
}

static void settings(void)
{
	section("settings");
	set_and_show("sched_deadline_period_max_us", "4194304");
	set_and_show("sched_deadline_period_min_us", "100");
	set_and_show("sched_deadline_period_max_us", "99");
	set_and_show("sched_deadline_period_max_us", "-1");
	set_and_show("sched_deadline_period_max_us", "4294967296");
	set_and_show("sched_deadline_period_max_us", "none");
	set_and_show("sched_deadline_period_max_us", "40000");
	set_and_show("sched_deadline_period_min_us", "40001");
	set_and_show("sched_deadline_period_min_us", "20000");
	SHOW(set(0, 0, 4 * MS, 20 * MS - 1, 0));
	SHOW(set(0, 0, 4 * MS, 40 * MS, 40 * MS + 1));
	SHOW(set(0, 0, 2 * MS, 15 * MS, 20 * MS));
	SHOW(set(0, 0, 4 * MS, 20 * MS, 40 * MS));
	SHOW(leave(0));
	set_and_show("sched_deadline_period_min_us", "0");
	of_child(2000, 50000, 0);
	set_and_show("sched_deadline_period_max_us", "4294967295");
	set_and_show("sched_deadline_period_max_us", "4194304");
	set_and_show("sched_deadline_period_min_us", "100");
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	static void (*const bodies[])(void) = {
		parameters, sizes, users, forks, affinities, yields, shares, overruns, settings, admission,
	};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			bodies[i]();
			_exit(0);
		}
		say("ended: %s", status_text(wait_for(pid)));
	}
	return 0;
}
