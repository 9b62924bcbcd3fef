/* A child that has itself traced: its stops, what its tracer asks of it, signals that it is given or spared, system calls, steps, exec. */
#include "tracer.h"

#include <sys/prctl.h>

static volatile int got;

static void note(int signal)
{
	got = signal;
}

static void show_info(const char *what, pid_t pid)
{
	siginfo_t info;
	memset(&info, 0, sizeof info);
	long done = trace(PTRACE_GETSIGINFO, pid, 0, AT(&info));
	if (done != 0) {
		say("%s: info %s", what, error_name(errno));
		return;
	}
	say("%s: signo %s code %#x, of %s", what, signal_name(info.si_signo), info.si_code,
	    info.si_code > 0 && info.si_code < 5 ? "a fault" : info.si_pid == pid ? "itself" : info.si_pid == getpid() ? "its tracer" : info.si_pid ? "another" : "nobody");
}

static void refused(void)
{
	section("refused");
	pid_t pid = parked(0);
	SHOW(trace(PTRACE_CONT, pid, 0, 0));
	SHOW(trace(PTRACE_PEEKDATA, pid, 0, 0));
	SHOW(trace(PTRACE_KILL, pid, 0, 0));
	SHOW(trace(PTRACE_DETACH, pid, 0, 0));
	SHOW(trace(PTRACE_CONT, 999999, 0, 0));
	SHOW(trace(PTRACE_ATTACH, getpid(), 0, 0));
	SHOW(trace(PTRACE_ATTACH, 999999, 0, 0));
	SHOW(trace(PTRACE_ATTACH, -1, 0, 0));
	kill(pid, SIGKILL);
	siginfo_t info;
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	SHOW(trace(PTRACE_ATTACH, pid, 0, 0));
	wait_for(pid);
	SHOW(trace(PTRACE_ATTACH, pid, 0, 0));
	pid = traced(0);
	SHOW(trace(12345, pid, 0, 0));
	static const struct { const char *what; int request; } missing[] = {
		{ "PTRACE_SINGLEBLOCK", 33 }, { "PTRACE_ARCH_PRCTL", 30 },
		{ "PTRACE_SECCOMP_GET_FILTER", 0x420c },
	};
	for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
		/* Arguments with which Linux refuses it too, or does nothing. */
		long done = trace(missing[i].request, pid, -1, -1);
		say("%s: %s", missing[i].what, done ? "refused" : "done");
	}
	SHOW(trace(PTRACE_CONT, pid, 0, 65));
	SHOW(trace(PTRACE_DETACH, pid, 0, 65));
	SHOW(trace(PTRACE_SETOPTIONS, pid, 0, 1 << 24));
	for (int option = 1; option < 8; option++) {
		long done = trace(PTRACE_SETOPTIONS, pid, 0, 1ul << option);
		if (done && errno != EINVAL)
			say("option %d: %s", option, error_name(errno));
	}
	SHOW(trace(21, pid, 0, PTRACE_O_EXITKILL));
	SHOW(trace(PTRACE_SETOPTIONS, pid, 0, 0));
	SHOW(trace(PTRACE_GETEVENTMSG, pid, 0, 1));
	SHOW(trace(PTRACE_GETSIGINFO, pid, 0, 1));
	SHOW(trace(PTRACE_GETSIGMASK, pid, 4, AT(&info)));
	SHOW(trace(PTRACE_GETREGS, pid, 0, 1));
	SHOW(trace(PTRACE_PEEKDATA, pid, 1, AT(&info)));
	SHOW(trace(PTRACE_PEEKDATA, pid, AT(&info), 1));
	SHOW(trace(PTRACE_POKEDATA, pid, 1, 0));
	SHOW(trace(PTRACE_PEEKUSER, pid, 4, AT(&info)));
	SHOW(trace(PTRACE_PEEKUSER, pid, 928, AT(&info)));
	SHOW(trace(PTRACE_POKEUSER, pid, 920, 0));
	SHOW(trace(PTRACE_ATTACH, pid, 0, 0));
	ends(pid);
	SHOW(trace(PTRACE_CONT, pid, 0, 0));
}

static void twice(void)
{
	SHOW(trace(PTRACE_TRACEME, 0, 0, 0));
}

static void raises(void)
{
	signal(SIGUSR1, note);
	signal(SIGUSR2, SIG_IGN);
	raise(SIGUSR1);
	say("  handled %s", signal_name(got));
	got = 0;
	raise(SIGUSR1);
	say("  handled %s", signal_name(got));
	raise(SIGUSR2);
	raise(SIGUSR1);
	say("  handled %s", signal_name(got));
	raise(SIGTERM);
	_exit(3);
}

static void signals(void)
{
	section("signals");
	pid_t pid = traced(raises);
	say("State %s, traced by this one: %d", status_line(pid, "State:"), atoi(status_line(pid, "TracerPid:")) == getpid());
	show_info("first", pid);
	SHOW(trace(PTRACE_CONT, pid, 0, 0));
	show_stop("raised", pid);
	show_info("raised", pid);
	trace(PTRACE_CONT, pid, 0, SIGUSR1);
	show_stop("again", pid);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("an ignored one", pid);
	trace(PTRACE_CONT, pid, 0, SIGUSR2);
	show_stop("once more", pid);
	siginfo_t info;
	trace(PTRACE_GETSIGINFO, pid, 0, AT(&info));
	info.si_signo = SIGUSR1;
	SHOW(trace(PTRACE_SETSIGINFO, pid, 0, AT(&info)));
	trace(PTRACE_CONT, pid, 0, SIGUSR1);
	show_stop("one that ends it", pid);
	trace(PTRACE_CONT, pid, 0, 0);
	say("spared: %s", status_text(waits(pid)));
	pid = traced(raises);
	trace(PTRACE_CONT, pid, 0, SIGKILL);
	say("killed by its tracer: %s", status_text(waits(pid)));
	pid = traced(raises);
	SHOW(trace(PTRACE_KILL, pid, 0, 0));
	say("PTRACE_KILL: %s", status_text(waits(pid)));
	pid = traced(raises);
	trace(PTRACE_CONT, pid, 0, SIGTERM);
	say("another signal: %s", status_text(waits(pid)));
	pid = traced(raises);
	SHOW(trace(PTRACE_DETACH, pid, 0, SIGTERM));
	say("detached with a signal: %s", status_text(waits(pid)));
	pid = traced(twice);
	trace(PTRACE_CONT, pid, 0, 0);
	say("twice: %s", status_text(waits(pid)));
}

static volatile unsigned long words[4] = { 1, 2, 3, 4 };
static const unsigned long constant[2] = { 11, 12 };

static void looks(void)
{
	say("  words %lu %lu, constant %lu", words[0], words[1], *(const volatile unsigned long *)&constant[0]);
}

static void memory(void)
{
	section("memory");
	pid_t pid = traced(looks);
	unsigned long word = 0;
	SHOW(trace(PTRACE_PEEKDATA, pid, AT(&words[1]), AT(&word)));
	say("word %lu", word);
	SHOW(trace(PTRACE_PEEKTEXT, pid, AT(&constant[1]), AT(&word)));
	say("word %lu", word);
	SHOW(trace(PTRACE_POKEDATA, pid, AT(&words[1]), 22));
	SHOW(trace(PTRACE_POKETEXT, pid, AT(&constant[0]), 33));
	SHOW(trace(PTRACE_PEEKTEXT, pid, AT(&constant[0]), AT(&word)));
	say("word %lu, own %lu", word, *(const volatile unsigned long *)&constant[0]);
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
}

static void spins(void)
{
	unsigned long in = 5, out;
	__asm__ volatile("mov %1, %%rbx\n int3\n mov %%rbx, %0" : "=r"(out) : "r"(in) : "rbx", "memory");
	say("  rbx %#lx", out);
}

static void registers(void)
{
	section("registers");
	pid_t pid = traced(spins);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("breakpoint", pid);
	show_info("breakpoint", pid);
	struct user_regs_struct regs;
	SHOW(trace(PTRACE_GETREGS, pid, 0, AT(&regs)));
	say("rbx %lu, orig_rax %ld, cs %#lx, ss %#lx, ds %lu, flags %#lx", regs.rbx, (long)regs.orig_rax, regs.cs, regs.ss, regs.ds, regs.eflags & 0x100);
	unsigned long word;
	SHOW(trace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rbx), AT(&word)));
	say("peeked %lu", word);
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rbx), 0x1234));
	trace(PTRACE_GETREGS, pid, 0, AT(&regs));
	say("rbx %#lx", regs.rbx);
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, cs), 0));
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, cs), 0x10));
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, ss), 0x18));
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, ds), 0x2a));
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, fs_base), -1));
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, gs_base), -1));
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, eflags), -1));
	trace(PTRACE_GETREGS, pid, 0, AT(&regs));
	say("flags %#lx", regs.eflags & ~0x8d5ul);
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, eflags), 0x202));
	SHOW(trace(PTRACE_PEEKUSER, pid, 848 + 6 * 8, AT(&word)));
	say("dr6 %#lx", word);
	SHOW(trace(PTRACE_PEEKUSER, pid, 848 + 7 * 8, AT(&word)));
	say("dr7 %#lx", word);
	SHOW(trace(PTRACE_POKEUSER, pid, 848 + 7 * 8, 0));
	regs.rbx = 0xabcd, regs.eflags = 0x202;
	SHOW(trace(PTRACE_SETREGS, pid, 0, AT(&regs)));
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
}

/* Registers with which no program goes on: a signal, and never the kernel's end. */
static void odd(void)
{
	static const struct { const char *what; size_t at; unsigned long value; } wrong[] = {
		{ "cs of data", offsetof(struct user_regs_struct, cs), 0x2b },
		{ "a cs that is not there", offsetof(struct user_regs_struct, cs), 0x53 },
		{ "ss of code", offsetof(struct user_regs_struct, ss), 0x33 },
		{ "rip of the kernel", offsetof(struct user_regs_struct, rip), 0xffffffff81000000 },
		{ "rip that is not canonical", offsetof(struct user_regs_struct, rip), 0x8000000000000000 },
		{ "rip at the end", offsetof(struct user_regs_struct, rip), 0x7ffffffff000 },
	};
	section("odd registers");
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		pid_t pid = traced(spins);
		trace(PTRACE_CONT, pid, 0, 0);
		waits(pid);
		long set = trace(PTRACE_POKEUSER, pid, wrong[i].at, wrong[i].value);
		trace(PTRACE_CONT, pid, 0, 0);
		say("%s: %s, %s", wrong[i].what, set ? error_name(errno) : "set", stop_text(waits(pid)));
		trace(PTRACE_CONT, pid, 0, SIGSEGV);
		say("ends: %s", status_text(waits(pid)));
	}
	/* Selectors that nobody may load are none. */
	pid_t pid = traced(spins);
	trace(PTRACE_CONT, pid, 0, 0);
	waits(pid);
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, ds), 0xfff3));
	SHOW(trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, es), 0x2b));
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
}

static void vectors(void)
{
	section("vector registers");
	pid_t pid = traced(spins);
	static struct user_fpregs_struct fp, again;
	SHOW(trace(PTRACE_GETFPREGS, pid, 0, AT(&fp)));
	say("cwd %#x mxcsr %#x", fp.cwd, fp.mxcsr);
	static char area[16384] __attribute__((aligned(64)));
	struct iovec part = { area, sizeof area };
	SHOW(trace(PTRACE_GETREGSET, pid, NT_PRSTATUS, AT(&part)));
	say("length %zu", part.iov_len);
	part.iov_len = sizeof area;
	SHOW(trace(PTRACE_GETREGSET, pid, NT_PRFPREG, AT(&part)));
	say("length %zu, same %d", part.iov_len, memcmp(area, &fp, 160) == 0);
	part.iov_len = sizeof area;
	SHOW(trace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, AT(&part)));
	say("more than FXSAVE: %d, same %d", part.iov_len > 576, memcmp(area, &fp, 160) == 0);
	size_t whole = part.iov_len;
	part.iov_len = 12;
	SHOW(trace(PTRACE_GETREGSET, pid, NT_PRSTATUS, AT(&part)));
	part.iov_len = 16;
	SHOW(trace(PTRACE_GETREGSET, pid, NT_PRSTATUS, AT(&part)));
	say("length %zu", part.iov_len);
	SHOW(trace(PTRACE_GETREGSET, pid, 77, AT(&part)));
	SHOW(trace(PTRACE_GETREGSET, pid, NT_PRSTATUS, 1));
	fp.xmm_space[0] = 0x11223344;
	fp.mxcsr = 0x9fc0;
	part = (struct iovec){ &fp, sizeof fp };
	SHOW(trace(PTRACE_SETREGSET, pid, NT_PRFPREG, AT(&part)));
	trace(PTRACE_GETFPREGS, pid, 0, AT(&again));
	say("xmm0 %#x mxcsr %#x", again.xmm_space[0], again.mxcsr);
	part.iov_len = 8;
	SHOW(trace(PTRACE_SETREGSET, pid, NT_PRFPREG, AT(&part)));
	fp.mxcsr = -1;
	part.iov_len = sizeof fp;
	SHOW(trace(PTRACE_SETREGSET, pid, NT_PRFPREG, AT(&part)));
	SHOW(trace(PTRACE_SETFPREGS, pid, 0, AT(&fp)));
	fp.mxcsr = 0x1f80;
	SHOW(trace(PTRACE_SETFPREGS, pid, 0, AT(&fp)));
	part = (struct iovec){ area, whole };
	trace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, AT(&part));
	*(unsigned *)(area + 160) = 0x55667788;
	area[512] |= 2;
	SHOW(trace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, AT(&part)));
	trace(PTRACE_GETFPREGS, pid, 0, AT(&again));
	say("xmm0 %#x", again.xmm_space[0]);
	part.iov_len = 512;
	SHOW(trace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, AT(&part)));
	part.iov_len = whole;
	area[512 + 7] = 0x40;
	SHOW(trace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, AT(&part)));
	area[512 + 7] = 0, area[520] = 1;
	SHOW(trace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, AT(&part)));
	area[520] = 0, area[530] = 1;
	SHOW(trace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, AT(&part)));
	area[530] = 0;
	*(unsigned *)(area + 24) = -1;
	SHOW(trace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, AT(&part)));
	static struct user_regs_struct regs;
	part = (struct iovec){ &regs, sizeof regs };
	trace(PTRACE_GETREGSET, pid, NT_PRSTATUS, AT(&part));
	SHOW(trace(PTRACE_SETREGSET, pid, NT_PRSTATUS, AT(&part)));
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("goes on", pid);
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
}

static void handles(void)
{
	signal(SIGUSR1, note);
	raise(SIGUSR1);
	syscall(SYS_getppid);
	_exit(8);
}

static void calls(void)
{
	syscall(SYS_getppid);
	syscall(SYS_close, -1);
	say("  number -1: %ld %s", syscall(SYS_getuid, 1), error_name(errno));
	errno = 0;
	long pid = syscall(SYS_getpid);
	say("  instead: %ld", pid);
}

static void show_call(pid_t pid)
{
	struct { unsigned char op, pad[3]; unsigned arch; unsigned long ip, sp, words[7]; } info;
	memset(&info, 0, sizeof info);
	unsigned long message = 99;
	long size = trace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, AT(&info));
	trace(PTRACE_GETEVENTMSG, pid, 0, AT(&message));
	struct user_regs_struct regs;
	trace(PTRACE_GETREGS, pid, 0, AT(&regs));
	int is_pid = info.op == 2 && info.words[0] > 0 && info.words[0] < 10000000;
	say("  size %ld op %d arch %#x ip %d sp %d, message %lu: %ld %#lx, orig %ld rax %s", size, info.op, info.arch, info.ip == regs.rip, info.sp == regs.rsp, message,
	    is_pid ? 0 : (long)info.words[0], info.op == 2 ? info.words[1] & 0xff : info.words[1] >> 32 ? info.words[1] + 1 ? 1 : info.words[1] : info.words[1], (long)regs.orig_rax, regs.rax == -(unsigned long)ENOSYS ? "ENOSYS" : "another");
}

static void system_calls(void)
{
	section("system calls");
	pid_t pid = traced(calls);
	SHOW(trace(PTRACE_SYSCALL, pid, 0, 0));
	show_stop("without the option", pid);
	show_info("it", pid);
	show_call(pid);
	SHOW(trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD));
	/* The end of the call that has begun, then two calls. */
	for (int i = 0; i < 5; i++) {
		trace(PTRACE_SYSCALL, pid, 0, 0);
		show_stop("call", pid);
		show_info("call", pid);
		show_call(pid);
	}
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("to be none", pid);
	trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, orig_rax), -1);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("was none", pid);
	show_call(pid);
	/* The line that it says. */
	trace(PTRACE_SYSCALL, pid, 0, 0), waits(pid);
	trace(PTRACE_SYSCALL, pid, 0, 0), waits(pid);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("another call", pid);
	trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, orig_rax), SYS_getppid);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("another result", pid);
	trace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rax), 42);
	trace(PTRACE_SYSCALL, pid, 0, 0), waits(pid);
	trace(PTRACE_SYSCALL, pid, 0, SIGUSR1);
	show_stop("with a signal", pid);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("the signal", pid);
	show_info("the signal", pid);
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
}

/* A handler changes nothing of how the thread goes on. */
static void calls_beside_handlers(void)
{
	section("system calls and a handler");
	pid_t pid = traced(handles);
	int status, stops = 0, seen = 0;
	for (;;) {
		trace(PTRACE_SYSCALL, pid, 0, seen);
		status = waits(pid);
		if (!WIFSTOPPED(status))
			break;
		stops++;
		seen = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		struct user_regs_struct regs;
		trace(PTRACE_GETREGS, pid, 0, AT(&regs));
		say("  %s, orig_rax %ld", stop_text(status), (long)regs.orig_rax);
	}
	say("%d stops, %s", stops, status_text(status));
}

static void steps(void)
{
	signal(SIGUSR1, note);
	__asm__ volatile("int3\n nop\n nop\n mov $39, %%eax\n syscall\n nop\n pushf\n pop %%rbx\n nop\n" ::: "rax", "rbx", "rcx", "r11", "memory");
	_exit(5);
}

static void single_steps(void)
{
	section("steps");
	pid_t pid = traced(steps);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("breakpoint", pid);
	struct user_regs_struct regs;
	trace(PTRACE_GETREGS, pid, 0, AT(&regs));
	unsigned long start = regs.rip;
	for (int i = 0; i < 8; i++) {
		trace(PTRACE_SINGLESTEP, pid, 0, 0);
		int status = waits(pid);
		siginfo_t info;
		trace(PTRACE_GETSIGINFO, pid, 0, AT(&info));
		trace(PTRACE_GETREGS, pid, 0, AT(&regs));
		say("step %d: %s, code %d, at +%lu, TF %d", i, stop_text(status), info.si_code, (unsigned long)regs.rip - start, (regs.eflags & 0x100) != 0);
	}
	trace(PTRACE_SINGLESTEP, pid, 0, SIGUSR1);
	show_stop("into a handler", pid);
	show_info("into a handler", pid);
	trace(PTRACE_GETREGS, pid, 0, AT(&regs));
	say("at the handler %d, rdi %lu, TF %d", regs.rip == AT(note), regs.rdi, (regs.eflags & 0x100) != 0);
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
}

static void executes(void)
{
	execl("/proc/self/exe", "again", (char *)0);
	say("no exec: %s", error_name(errno));
}

static void exec(void)
{
	section("exec");
	pid_t pid = traced(executes);
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("exec", pid);
	show_info("exec", pid);
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
	pid = traced(executes);
	trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
	for (int i = 0; i < 20; i++) {
		trace(PTRACE_SYSCALL, pid, 0, 0);
		waits(pid);
		struct user_regs_struct regs;
		trace(PTRACE_GETREGS, pid, 0, AT(&regs));
		if (regs.orig_rax == SYS_execve)
			break;
	}
	show_call(pid);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("end of exec", pid);
	show_call(pid);
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("exec's signal", pid);
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
}

static void masks(void)
{
	section("masks");
	pid_t pid = traced(raises);
	unsigned long mask = 99;
	SHOW(trace(PTRACE_GETSIGMASK, pid, 8, AT(&mask)));
	say("mask %#lx", mask);
	mask = -1;
	SHOW(trace(PTRACE_SETSIGMASK, pid, 8, AT(&mask)));
	trace(PTRACE_GETSIGMASK, pid, 8, AT(&mask));
	say("mask %#lx", mask);
	trace(PTRACE_CONT, pid, 0, 0);
	/* Its library gives it back a mask of its own. */
	say("all blocked: %s", status_text(waits(pid)));
	ends(pid);
	struct { unsigned long address; unsigned size, signature, flags, pad; } rseq;
	pid = traced(0);
	say("rseq %ld", trace(GET_RSEQ_CONFIGURATION, pid, sizeof rseq, AT(&rseq)));
	say("address %d size %u", rseq.address != 0, rseq.size);
	ends(pid);
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, 0, _IONBF, 0);
	if (strcmp(argv[0], "again") == 0) {
		say("  executed");
		return 4;
	}
	prctl(PR_SET_DUMPABLE, 1);
	refused();
	signals();
	memory();
	registers();
	odd();
	vectors();
	system_calls();
	calls_beside_handlers();
	single_steps();
	exec();
	masks();
	return 0;
}
