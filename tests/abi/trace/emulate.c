/* Calls that a tracer emulates (PTRACE_SYSEMU), and the last stop of who is killed. */
#include "tracer.h"

#define SYSEMU 31
#define SYSEMU_SINGLESTEP 32

static struct user_regs_struct registers(pid_t pid)
{
	struct user_regs_struct regs;
	memset(&regs, 0, sizeof regs);
	trace(PTRACE_GETREGS, pid, 0, AT(&regs));
	return regs;
}

static void set_result(pid_t pid, long result)
{
	struct user_regs_struct regs = registers(pid);
	regs.rax = result;
	trace(PTRACE_SETREGS, pid, 0, AT(&regs));
}

static void calls(void)
{
	errno = 0;
	long one = syscall(1000, 11, 22), error = errno;
	say("an unknown call: %ld %s", one, error_name(error));
	say("getppid: %ld", syscall(SYS_getppid));
	say("getuid: %ld", syscall(SYS_getuid));
}

static void emulated(void)
{
	section("emulated");
	pid_t pid = traced(calls);
	trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
	/* The library's raise ends with a call. */
	for (int i = 0; i < 2; i++) {
		trace(PTRACE_SYSCALL, pid, 0, 0);
		waits(pid);
	}
	SHOW(trace(SYSEMU, pid, 0, 0));
	show_stop("the first", pid);
	struct user_regs_struct regs = registers(pid);
	say("call %ld (%ld, %ld), result %s", regs.orig_rax, regs.rdi, regs.rsi, error_name(-(int)regs.rax));
	unsigned long message = 9;
	trace(PTRACE_GETEVENTMSG, pid, 0, AT(&message));
	say("message %lu", message);
	set_result(pid, 4711);
	/* What it says next is a write, which is made: by PTRACE_SYSCALL. */
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("its end", pid);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("write", pid);
	say("is write: %d", (int)(registers(pid).orig_rax == SYS_write));
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("its end", pid);
	trace(SYSEMU, pid, 0, 0);
	show_stop("getppid", pid);
	say("is getppid: %d", (int)(registers(pid).orig_rax == SYS_getppid));
	set_result(pid, 12);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("on", pid);
	ends(pid);
}

static void one_call(void)
{
	__asm__ volatile("mov $1000, %%eax\n\tsyscall\n\tnop\n\tnop\n\tnop" ::: "rax", "rcx", "r11", "memory");
}

static void stepped(void)
{
	section("stepped");
	pid_t pid = traced(one_call);
	trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
	int steps = 0, status = 0;
	/* The rest of raise, whose call is over. */
	do {
		trace(SYSEMU_SINGLESTEP, pid, 0, 0);
		status = waits(pid);
		steps++;
		if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80) && registers(pid).orig_rax != 1000) {
			/* What the library asks for on its way is made up. */
			set_result(pid, 0);
		}
	} while (WIFSTOPPED(status) && registers(pid).orig_rax != 1000 && steps < 3000);
	say("stopped at the call: %s", stop_text(status));
	unsigned long long pc = registers(pid).rip;
	set_result(pid, 5);
	trace(SYSEMU_SINGLESTEP, pid, 0, 0);
	show_stop("after it", pid);
	struct user_regs_struct regs = registers(pid);
	say("one instruction on: %d, result %ld", regs.rip == pc + 1, regs.rax);
	ends(pid);
}

static void spin(void)
{
	for (;;)
		pause();
}

static void leaves(void)
{
	_exit(3);
}

/* The stop before the end: how it comes, and that no signal ends it once the process ends. */
static void last(const char *what, void (*body)(void), int signal, unsigned long options)
{
	section(what);
	pid_t pid = traced(body);
	trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT | options);
	trace(PTRACE_CONT, pid, 0, 0);
	if (signal) {
		usleep(50000);
		kill(pid, signal);
		if (signal != SIGKILL) {
			show_stop("the signal", pid);
			trace(PTRACE_CONT, pid, 0, signal);
		}
	}
	int status = waits(pid);
	say("first: %s", stop_text(status));
	if (!WIFSTOPPED(status))
		return;
	unsigned long message = 0;
	SHOW(trace(PTRACE_GETEVENTMSG, pid, 0, AT(&message)));
	say("message %#lx", message);
	say("state %.1s", status_line(pid, "State") + 1);
	kill(pid, SIGKILL);
	usleep(50000);
	int again = 0;
	say("killed again: %s", waitpid(pid, &again, WNOHANG | __WALL) == pid ? "ends" : "stays");
	SHOW(trace(PTRACE_GETEVENTMSG, pid, 0, AT(&message)));
	long done = trace(PTRACE_CONT, pid, 0, 0);
	say("goes on: %s", done ? error_name(errno) : "yes");
	if (!again)
		say("ends: %s", status_text(waits(pid)));
}

int main(void)
{
	emulated();
	stepped();
	last("killed", spin, SIGKILL, 0);
	last("ended by a signal", spin, SIGTERM, 0);
	last("ends itself", leaves, 0, 0);
	return 0;
}
