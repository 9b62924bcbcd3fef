/* Calls on the system and on the running machine: the log, ends that are refused, thread pointers, what prctl has not. */
#include "t.h"

#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>

#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)

static char text[4096];

static void log_calls(void)
{
	section("the kernel's log");
	SHOW(CALL(syslog, 0, 0, 0));
	SHOW(CALL(syslog, 1, 0, 0));
	SHOW(CALL(syslog, 2, 0, 10));
	SHOW(CALL(syslog, 2, text, -1));
	SHOW(CALL(syslog, 2, text, 0));
	SHOW(CALL(syslog, 3, text, -1));
	SHOW(CALL(syslog, 3, text, 0));
	SHOW(CALL(syslog, 4, 0, 1));
	SHOW(CALL(syslog, 4, text, sizeof text) >= 0);
	SHOW(CALL(syslog, 3, text, sizeof text));
	SHOW(CALL(syslog, 5, 0, 0));
	SHOW(CALL(syslog, 6, 0, 0));
	SHOW(CALL(syslog, 7, 0, 0));
	for (int level = 0; level < 10; level++) {
		errno = 0;
		long set = CALL(syslog, 8, 0, level);
		say("level %d: %ld %s", level, set, error_name(errno));
	}
	SHOW(CALL(syslog, 8, 0, 7));
	SHOW(CALL(syslog, 9, 0, 0) >= 0);
	SHOW(CALL(syslog, 10, 0, 0) >= 0);
	SHOW(CALL(syslog, 11, 0, 0));
	SHOW(CALL(syslog, -1, 0, 0));
}

static void ends(void)
{
	section("reboot");
	SHOW(CALL(reboot, 0xfee1dead, 672274793, 0, 0));
	SHOW(CALL(reboot, 0xfee1dead, 672274793, 0x89abcdef, 0));
	SHOW(CALL(reboot, 0xfee1dead, 672274793, 0x12345, 0));
	SHOW(CALL(reboot, 0xfee1dead, 1, 0, 0));
	SHOW(CALL(reboot, 1, 672274793, 0, 0));
	/* A path that cannot be read, and no kernel that was loaded. */
	SHOW(CALL(reboot, 0xfee1dead, 672274793, 0xa1b2c3d4, 8) == -1 && (errno == EFAULT || errno == EINVAL));
	SHOW(CALL(reboot, 0xfee1dead, 672274793, 0x45584543, 0));
	section("what is restarted");
	SHOW(CALL(restart_syscall));
}

static void pointers(void)
{
	section("GS");
	static uint64_t area[2] = { 7, 8 };
	unsigned long got = 1, seen;
	SHOW(CALL(arch_prctl, 0x1004, &got));
	say("  %lu", got);
	SHOW(CALL(arch_prctl, 0x1001, area));
	SHOW(CALL(arch_prctl, 0x1004, &got));
	__asm__ volatile("movq %%gs:8, %0" : "=r"(seen));
	say("  %d, word %lu", got == (unsigned long)area, seen);
	SHOW(CALL(arch_prctl, 0x1001, 1ul << 56));
	SHOW(CALL(arch_prctl, 0x1001, -1l));
	SHOW(CALL(arch_prctl, 0x1004, 8));
	SHOW(CALL(arch_prctl, 0x1001, 0));
	got = 0;
	SHOW(CALL(arch_prctl, 0x1021, &got) == 0 ? (got & 3) == 3 : errno == EINVAL);
}

static void prctls(void)
{
	section("prctl");
	int *address = 0, word = 0;
	SHOW(prctl(PR_GET_TID_ADDRESS, &address, 0, 0, 0));
	CALL(set_tid_address, &word);
	SHOW(prctl(PR_GET_TID_ADDRESS, &address, 0, 0, 0));
	CHECK(address == &word);
	SHOW(prctl(PR_GET_TID_ADDRESS, 8, 0, 0, 0));
	SHOW(prctl(PR_GET_UNALIGN, &word, 0, 0, 0));
	SHOW(prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
	SHOW(prctl(PR_SET_SECCOMP, 3, 0, 0, 0));
	SHOW(prctl(PR_SET_MM, 99, 0, 0, 0));
	MISSING(prctl(PR_GET_SPECULATION_CTRL, 0, 0, 0, 0), EINVAL);
	/* ENXIO: this machine's processor leaves nothing to choose. */
	SHOW(prctl(PR_SET_SPECULATION_CTRL, 0, 4, 0, 0) == -1 && (errno == EINVAL || errno == ENXIO || errno == EPERM));
	SHOW(prctl(62, 99, 0, 0, 0));
}

/* The priority of all that a user has. */
static void users(void)
{
	section("priorities of a user");
	SHOW(getpriority(PRIO_USER, 4242));
	SHOW(setpriority(PRIO_USER, 4242, 5));
	int ends[2];
	if (pipe(ends) != 0)
		return;
	pid_t theirs[2];
	for (int i = 0; i < 2; i++) {
		theirs[i] = must_fork();
		if (theirs[i] == 0) {
			char byte;
			close(ends[1]);
			setresuid(4242, 4242, 4242);
			setpriority(PRIO_PROCESS, 0, 3 + i);
			read(ends[0], &byte, 1);
			_exit(0);
		}
	}
	while (getpriority(PRIO_USER, 4242) != 3 || getpriority(PRIO_PROCESS, (id_t)theirs[1]) != 4)
		nap(1);
	SHOW(getpriority(PRIO_USER, 4242));
	SHOW(setpriority(PRIO_USER, 4242, 7));
	SHOW(getpriority(PRIO_PROCESS, (id_t)theirs[0]));
	SHOW(getpriority(PRIO_PROCESS, (id_t)theirs[1]));
	SHOW(setpriority(PRIO_USER, 4242, 99));
	SHOW(getpriority(PRIO_USER, 4242));
	SHOW(getpriority(PRIO_PROCESS, 0));
	close(ends[1]);
	for (int i = 0; i < 2; i++)
		wait_for(theirs[i]);
	SHOW(getpriority(PRIO_USER, 4242));
	SHOW(getpriority(3, 0));
}

static void actions(void)
{
	section("flags of an action");
	/* Linux keeps the flags that it knows, clears SA_UNSUPPORTED, and so tells that it would clear one. */
	struct { void *handler; unsigned long flags; void *restorer; uint64_t mask; } set = { (void *)1, 0x400 | 0x800 | 0x04000000, (void *)0x1000, 0 }, got = { 0 };
	SHOW(CALL(rt_sigaction, SIGUSR1, &set, 0, 8));
	SHOW(CALL(rt_sigaction, SIGUSR1, 0, &got, 8));
	say("  %#lx", got.flags);
	set.flags = 0x1000 | 0x04000000;
	SHOW(CALL(rt_sigaction, SIGUSR1, &set, 0, 8));
	SHOW(CALL(rt_sigaction, SIGUSR1, 0, &got, 8));
	say("  %#lx", got.flags);
}

int main(void)
{
	log_calls();
	ends();
	pointers();
	prctls();
	users();
	actions();
	return 0;
}
