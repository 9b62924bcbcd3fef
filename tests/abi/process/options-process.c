/* Calls on processes, their limits and scheduling, each with each of its flags and commands, made directly: what the other programs do
 * not make (docs/syscalls.md). */
#include "t.h"

#include <sys/resource.h>

#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)

/* clone3 with the first version of its argument. No function is called, so a child that shares the memory leaves the parent's stack as it is. */
static inline __attribute__((always_inline)) long clone3_with(uint64_t flags, uint64_t signal, int *parent, int *child)
{
	volatile uint64_t arguments[8] = { flags, 0, (uint64_t)child, (uint64_t)parent, signal, 0, 0, 0 };
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(435), "D"(arguments), "S"(sizeof arguments) : "rcx", "r11", "memory");
	return result;
}

static void clones(void)
{
	section("clone3, flag by flag");
	static const struct { uint64_t flag; const char *name; } flags[] = {
		{ 0, "none" }, { CLONE_FS, "CLONE_FS" }, { CLONE_FILES, "CLONE_FILES" }, { CLONE_VM | CLONE_VFORK, "CLONE_VFORK" },
		{ CLONE_VM | CLONE_VFORK | CLONE_SIGHAND, "CLONE_SIGHAND" }, { CLONE_SYSVSEM, "CLONE_SYSVSEM" }, { CLONE_UNTRACED, "CLONE_UNTRACED" },
		{ CLONE_PARENT_SETTID, "CLONE_PARENT_SETTID" }, { CLONE_CHILD_SETTID, "CLONE_CHILD_SETTID" }, { CLONE_CHILD_CLEARTID, "CLONE_CHILD_CLEARTID" },
		{ 0x100000000, "CLONE_CLEAR_SIGHAND" }, { CLONE_IO, "CLONE_IO" }, { 0x00400000, "CLONE_DETACHED" }, { CLONE_PTRACE, "CLONE_PTRACE" },
	};
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
		int parent = 0, child = 0, status = 0;
		signal(SIGUSR1, SIG_IGN);
		chdir("/");
		volatile long pid = clone3_with(flags[i].flag, SIGCHLD, &parent, &child);
		if (pid == 0) {
			chdir("/proc");
			_exit(flags[i].flag & CLONE_CHILD_SETTID ? child == CALL(gettid) : 3);
		}
		waitpid(pid, &status, __WALL);
		char *cwd = getcwd(0, 0);
		say("%s: child %d, %s, parent's word %d, directory %s", flags[i].name, pid > 0, status_text(status), parent == pid && pid > 0, cwd);
		free(cwd);
	}
	SHOW(clone3_with(CLONE_THREAD, 0, 0, 0));
	SHOW(clone3_with(CLONE_SIGHAND, SIGCHLD, 0, 0));
	SHOW(clone3_with(0, 65, 0, 0));
	SHOW(clone3_with(17, 0, 0, 0));
}

static void limits(void)
{
	section("limits");
	for (int resource = 0; resource < 17; resource++) {
		struct rlimit got = { 1, 2 }, same = { 3, 4 };
		long one = CALL(getrlimit, resource, &got), two = CALL(prlimit64, 0, resource, 0, &same);
		say("%d: %ld %ld, same %d", resource, one, two, memcmp(&got, &same, sizeof got) == 0);
		if (one != 0)
			continue;
		say("set %ld %ld", CALL(setrlimit, resource, &got), CALL(prlimit64, 0, resource, &got, 0));
		struct rlimit wrong = { 2, 1 };
		SHOW(CALL(setrlimit, resource, &wrong));
	}
}

static void scheduling(void)
{
	section("scheduling");
	for (int policy = -1; policy < 7; policy++)
		say("%d: %ld %ld", policy, CALL(sched_get_priority_max, policy), CALL(sched_get_priority_min, policy));
	static const int idle[] = { SCHED_OTHER, SCHED_BATCH };
	for (unsigned i = 0; i < 2; i++) {
		int priority = 0;
		say("policy %d: %ld", idle[i], CALL(sched_setscheduler, 0, idle[i], &priority));
	}
	int zero = 0;
	SHOW(CALL(sched_setscheduler, 0, SCHED_OTHER, &zero));
	SHOW(CALL(sched_setparam, 0, &zero));
	for (int which = 0; which < 2; which++) {
		errno = 0;
		long got = CALL(getpriority, which, 0);
		say("getpriority %d: %ld %s", which, got, error_name(errno));
	}
	SHOW(CALL(setpriority, PRIO_PGRP, 0, 3));
	SHOW(CALL(getpriority, PRIO_PGRP, 0));
	SHOW(CALL(setpriority, PRIO_PROCESS, 0, 0));
	SHOW(CALL(getpriority, PRIO_PROCESS, 0));
}

static void rest(void)
{
	section("ids, waiting, the system");
	CHECK(CALL(getgid) == 0 && CALL(getegid) == 0);
	CHECK(CALL(getpgrp) == getpgid(0));
	SHOW(CALL(setregid, 0, 0));
	SHOW(CALL(setfsgid, 0));
	SHOW(CALL(setdomainname, "domain", 6));
	SHOW(CALL(setdomainname, "(none)", 6));
	static const int options[] = { 0, WNOHANG, WUNTRACED, WCONTINUED, __WALL, __WCLONE, 0x20000000 };
	for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
		pid_t pid = must_fork();
		if (pid == 0)
			_exit(5);
		siginfo_t info = { 0 };
		long waited = CALL(waitid, P_ALL, 0, &info, WEXITED | WNOWAIT, 0);
		errno = 0;
		int status = 0;
		long got = CALL(wait4, pid, &status, options[i], 0);
		say("wait4 %x: waited %ld, then %d %s %d", options[i], waited, got == pid, error_name(errno), status >> 8);
		if (got != pid)
			wait_for(pid);
		pid = must_fork();
		if (pid == 0)
			_exit(6);
		errno = 0;
		got = CALL(waitid, i % 2 ? P_PGID : P_PID, i % 2 ? 0 : pid, &info, WEXITED | (options[i] & ~WNOHANG & ~WUNTRACED), 0);
		say("waitid: %ld %s %d", got, error_name(errno), info.si_status);
		if (got != 0)
			wait_for(pid);
	}
	SHOW(CALL(reboot, 0xfee1dead, 672274793, 0, 0));
	SHOW(CALL(reboot, 0xfee1dead, 672274793, 0x89abcdef, 0));
	SHOW(CALL(reboot, 0xfee1dead, 672274793, 0x12345, 0));
	SHOW(CALL(reboot, 0xfee1dead, 1, 0, 0));
	char random[4];
	SHOW(CALL(getrandom, random, 4, 2));
	SHOW(CALL(getrandom, random, 4, 4));
	SHOW(CALL(getrandom, random, 4, 6));
}

int main(void)
{
	clones();
	limits();
	scheduling();
	rest();
	return 0;
}
