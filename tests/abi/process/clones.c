/* clone and clone3, flag by flag: whose child it is, what it shares, and the flags of what is not there. */
#include "t.h"

#include <sys/prctl.h>

#define INTO_CGROUP 0x200000000ull

struct arguments {
	uint64_t flags, pidfd, child, parent, signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

/* The child shares nothing that the parent needs, unless the flags say so: the callers see to that. */
static long clone3_with(uint64_t flags, uint64_t signal, int *pidfd)
{
	struct arguments arguments = { .flags = flags, .pidfd = (uint64_t)pidfd, .signal = signal };
	return syscall(SYS_clone3, &arguments, sizeof arguments);
}

static long clone_with(uint64_t flags, int *parent)
{
	return syscall(SYS_clone, flags, 0, parent, 0, 0);
}

/* The child of a child becomes a child of this one. */
static void siblings(void)
{
	section("CLONE_PARENT");
	for (int third = 0; third < 2; third++) {
		int report[2], status = 0;
		pid_t sibling = 0;
		if (pipe(report) != 0)
			return;
		pid_t middle = must_fork();
		if (middle == 0) {
			long made = third ? clone3_with(CLONE_PARENT, 0, 0) : clone_with(CLONE_PARENT | SIGUSR1, 0);
			if (made == 0)
				_exit(9);
			int number = (int)made;
			write(report[1], &number, sizeof number);
			_exit(waitpid((pid_t)made, 0, __WALL) == -1 && errno == ECHILD ? 3 : 4);
		}
		say("middle: %s", status_text(wait_for(middle)));
		if (read(report[0], &sibling, sizeof sibling) == sizeof sibling && sibling > 0)
			say("sibling is ours: %d, %s", waitpid(sibling, &status, 0) == sibling, status_text(status));
		close(report[0]), close(report[1]);
	}
	SHOW(clone3_with(CLONE_PARENT, SIGCHLD, 0));
	SHOW(clone3_with(CLONE_PARENT | CLONE_THREAD, SIGCHLD, 0));
}

static void hints(void)
{
	section("accepted");
	static const struct { uint64_t flag; const char *name; } flags[] = { { CLONE_PTRACE, "PTRACE" }, { CLONE_UNTRACED, "UNTRACED" }, { CLONE_IO, "IO" } };
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
		long pid = clone_with(flags[i].flag | SIGCHLD, 0);
		if (pid == 0)
			_exit(5);
		say("%s: %s", flags[i].name, status_text(wait_for((pid_t)pid)));
	}
}

/* Each in a child, which may end up in a namespace of its own. */
static uint64_t flag;
static int third;
static void in_namespace(void)
{
	long pid = third ? clone3_with(flag, SIGCHLD, 0) : clone_with(flag | SIGCHLD, 0);
	if (pid == 0)
		_exit(0);
	if (pid == -1 && errno != EINVAL)
		say("  %s", error_name(errno));
	if (pid > 0)
		wait_for((pid_t)pid);
}

static void missing(void)
{
	section("namespaces and groups: done, or EINVAL");
	static const struct { uint64_t flag; const char *name; } flags[] = {
		{ CLONE_NEWNS, "NEWNS" }, { CLONE_NEWUTS, "NEWUTS" }, { CLONE_NEWIPC, "NEWIPC" }, { CLONE_NEWUSER, "NEWUSER" }, { CLONE_NEWPID, "NEWPID" },
		{ CLONE_NEWNET, "NEWNET" }, { CLONE_NEWCGROUP, "NEWCGROUP" },
	};
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
		for (third = 0; third < 2; third++) {
			flag = flags[i].flag;
			in_child(flags[i].name, in_namespace);
		}
	/* Of an argument that is too short to name one. */
	struct arguments group = { .flags = INTO_CGROUP, .signal = SIGCHLD };
	SHOW(syscall(SYS_clone3, &group, 64));
}

/* Threads made by clone3: a stack and a thread pointer of their own, and a word that is cleared at the end. */
static char stack[16384] __attribute__((aligned(16)));
static uint64_t area[8];
static volatile int ran, tid_word;

static void threads(void)
{
	section("threads by clone3");
	struct arguments a = {
		.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SETTLS | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID | CLONE_SYSVSEM,
		.child = (uint64_t)&tid_word, .parent = (uint64_t)&tid_word, .stack = (uint64_t)stack, .stack_size = sizeof stack, .tls = (uint64_t)area,
	};
	area[1] = 42;
	long result;
	/* The thread reads a word at its thread pointer, says so, and ends. */
	__asm__ volatile("syscall\n\ttest %%eax, %%eax\n\tjnz 1f\n\tmovl %%fs:8, %%eax\n\tmovl %%eax, %1\n\tmovl $60, %%eax\n\txorl %%edi, %%edi\n\tsyscall\n1:"
	                 : "=a"(result), "=m"(ran) : "a"(SYS_clone3), "D"(&a), "S"(sizeof a) : "rcx", "r11", "memory");
	CHECK(result > 0);
	while (tid_word)
		nap(1);
	say("it saw %d", ran);
	a.flags &= ~(uint64_t)CLONE_SIGHAND;
	SHOW(syscall(SYS_clone3, &a, sizeof a));
	a.flags |= CLONE_SIGHAND, a.signal = SIGCHLD;
	SHOW(syscall(SYS_clone3, &a, sizeof a));
	a.signal = 0, a.stack_size = 0;
	SHOW(syscall(SYS_clone3, &a, sizeof a));
	a.stack = 0, a.stack_size = 16;
	SHOW(syscall(SYS_clone3, &a, sizeof a));
}

/* __WCLONE waits for children that tell of their end by another signal than SIGCHLD. */
static void wclone(void)
{
	section("__WCLONE");
	siginfo_t info = { 0 };
	pid_t plain = must_fork();
	if (plain == 0)
		_exit(1);
	signal(SIGUSR1, SIG_IGN);
	long other = clone_with(SIGUSR1, 0);
	if (other == 0)
		_exit(2);
	SHOW(waitid(P_PID, (id_t)plain, &info, WEXITED | __WCLONE));
	SHOW(waitid(P_PID, (id_t)other, &info, WEXITED));
	SHOW(waitid(P_PID, (id_t)other, &info, WEXITED | __WCLONE));
	say("status %d", info.si_status);
	SHOW(waitid(P_ALL, 0, &info, WEXITED));
	say("status %d", info.si_status);
	SHOW(waitid(P_ALL, 0, &info, WEXITED | __WALL));
}

int main(void)
{
	siblings();
	hints();
	missing();
	threads();
	wclone();
	return 0;
}
