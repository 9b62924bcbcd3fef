/* Calls that a filter leaves to the tracer: PTRACE_EVENT_SECCOMP, and what becomes of the call. */
#include "tracer.h"
#include "../rights/seccomp.h"

#define TRACESECCOMP 128
/* Each of these calls is made by nothing else here. */
#define ASKED SYS_getppid
#define ASKED_TOO SYS_getpgrp
#define REFUSED SYS_getpriority
#define TRAPPED SYS_sched_get_priority_max
#define FATAL SYS_sched_get_priority_min

static void takes_filters(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ASKED, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | 0x1234),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ASKED_TOO, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | 0xffff),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, REFUSED, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 99),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TRAPPED, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 7),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FATAL, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	no_privileges();
	/* One filter beside it, which is older and has nothing to say. */
	refuse(NOWHERE + 1, SECCOMP_RET_ERRNO | 1, 0);
	if (take(code, N(code), 0) != 0)
		say("no filter: %s", error_name(errno));
}

static void asks(void)
{
	takes_filters();
	errno = 0;
	long got = syscall(ASKED, 1, 2, 3);
	say("  %s %s", got == -1 ? "refused" : got == getpid() ? "its number" : got == 42 ? "forty-two" : "another number", error_name(errno));
	_exit(4);
}

static void asks_both(void)
{
	takes_filters();
	syscall(ASKED, 1, 2, 3);
	syscall(ASKED_TOO, 4, 5, 6);
	_exit(4);
}

static void show(pid_t pid)
{
	struct { unsigned char op, pad[3]; unsigned arch; unsigned long ip, sp, number, arguments[6]; unsigned data, rest; } info;
	memset(&info, 0x55, sizeof info);
	unsigned long message = 0;
	long size = trace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, AT(&info));
	trace(PTRACE_GETEVENTMSG, pid, 0, AT(&message));
	struct user_regs_struct regs;
	trace(PTRACE_GETREGS, pid, 0, AT(&regs));
	siginfo_t signal;
	trace(PTRACE_GETSIGINFO, pid, 0, AT(&signal));
	say("  size %ld op %d number %ld, %ld %ld %ld, data %#x, rest %#x, message %#lx", size, info.op, info.op & 1 ? (long)info.number : 0,
	    info.op & 1 ? (long)info.arguments[0] : 0, info.op & 1 ? (long)info.arguments[1] : 0, info.op & 1 ? (long)info.arguments[2] : 0, info.op == 3 ? info.data : 0,
	    info.op == 3 ? info.rest : 0, message);
	say("  %s code %#x, of itself %d, orig_rax %ld, rax %s", signal_name(signal.si_signo), signal.si_code, signal.si_pid == pid, (long)regs.orig_rax,
	    regs.rax == -(unsigned long)ENOSYS ? "ENOSYS" : "another");
}

/* It is stopped by its filter when this returns. */
static pid_t at_filter(const char *what, void (*body)(void))
{
	say("-- %s", what);
	pid_t pid = traced(body);
	if (trace(PTRACE_SETOPTIONS, pid, 0, TRACESECCOMP | PTRACE_O_TRACESYSGOOD) != 0)
		say("no option: %s", error_name(errno));
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("filter", pid);
	return pid;
}

static void goes_on(pid_t pid)
{
	trace(PTRACE_CONT, pid, 0, 0);
	int status = waits(pid);
	while (WIFSTOPPED(status)) {
		siginfo_t info;
		memset(&info, 0, sizeof info);
		trace(PTRACE_GETSIGINFO, pid, 0, AT(&info));
		say("  %s, code %d, errno %d", stop_text(status), info.si_code, info.si_signo == SIGSYS ? info.si_errno : 0);
		trace(PTRACE_CONT, pid, 0, status >> 16 ? 0 : WSTOPSIG(status));
		status = waits(pid);
	}
	/* With a core or without. */
	say("ends: %s", WIFSIGNALED(status) ? signal_name(WTERMSIG(status)) : status_text(status));
}

static void becomes(const char *what, unsigned long number, unsigned long result)
{
	pid_t pid = at_filter(what, asks);
	trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, orig_rax), number);
	if (result)
		trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rax), result);
	goes_on(pid);
}

static void calls(void)
{
	pid_t pid = at_filter("with its calls", asks_both);
	show(pid);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("end", pid);
	show(pid);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("beginning", pid);
	show(pid);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("filter", pid);
	show(pid);
	trace(PTRACE_SYSCALL, pid, 0, SIGUSR1);
	show_stop("end", pid);
	goes_on(pid);
	pid = at_filter("a step", asks_both);
	trace(PTRACE_SINGLESTEP, pid, 0, 0);
	show_stop("step", pid);
	goes_on(pid);
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	section("without the option");
	pid_t pid = traced(asks);
	goes_on(pid);
	section("without a tracer");
	pid = must_fork();
	if (pid == 0)
		asks();
	say("ends: %s", status_text(wait_for(pid)));

	section("what becomes of the call");
	pid = at_filter("as it is", asks);
	show(pid);
	goes_on(pid);
	becomes("another call", SYS_getpid, 0);
	becomes("none, and a result", -1ul, 42);
	becomes("none", -1ul, 0);
	becomes("none in 32 bits, and a result", 0xffffffff, 42);
	becomes("none of another kind, and a result", -7ul, 42);
	becomes("one that is not there", 5000, 0);
	becomes("one that is asked for too", ASKED_TOO, 0);
	becomes("one that is refused", REFUSED, 0);
	becomes("one that traps", TRAPPED, 0);
	becomes("one that is fatal", FATAL, 0);
	calls();

	pid = at_filter("detached", asks);
	trace(PTRACE_DETACH, pid, 0, 0);
	say("ends: %s", status_text(wait_for(pid)));
	pid = at_filter("killed", asks);
	ends(pid);
	pid = at_filter("the option is taken back", asks_both);
	SHOW(trace(PTRACE_SETOPTIONS, pid, 0, 0));
	goes_on(pid);

	section("its tracer ends");
	int through[2];
	pipe(through);
	pid = must_fork();
	if (pid == 0) {
		pid_t child = at_filter("left", asks_both);
		write(through[1], &child, sizeof child);
		_exit(0);
	}
	say("tracer: %s", status_text(wait_for(pid)));
	close(through[1]);
	pid_t child;
	read(through[0], &child, sizeof child);
	/* Until it has gone nobody closes the other end. */
	char byte;
	SHOW(read(through[0], &byte, 1));
	close(through[0]);
	return 0;
}
