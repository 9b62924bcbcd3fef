/* Breakpoints of the processor, set by a tracer: debug registers, what they take, where a thread stops by them, and who has none. */
#include "tracer.h"

#define DR(n) (offsetof(struct user, u_debugreg) + (n) * 8)
/* Of breakpoint n: in effect, and kind and length. */
#define ON(n) (1ul << ((n) * 2))
#define KIND(n, kind, len) ((unsigned long)((kind) | (len) << 2) << (16 + (n) * 4))
enum { EXECUTE, WRITE, TRANSFER, READ_WRITE };
enum { ONE, TWO, EIGHT, FOUR };
#define FORK 2

static volatile unsigned long words[8] __attribute__((aligned(64)));

static void poke(const char *what, pid_t pid, int n, unsigned long value)
{
	long done = trace(PTRACE_POKEUSER, pid, DR(n), value);
	say("%s: %s", what, done ? error_name(errno) : "ok");
}

static unsigned long peek(pid_t pid, int n)
{
	unsigned long word = 0x55;
	if (trace(PTRACE_PEEKUSER, pid, DR(n), AT(&word)) != 0)
		say("DR%d: %s", n, error_name(errno));
	return word;
}

static void show_registers(const char *what, pid_t pid)
{
	say("%s: DR7 %#lx, DR6 %#lx", what, peek(pid, 7), peek(pid, 6));
}

/* Where it has stopped, of the places that are known. */
static void show(const char *what, pid_t pid, unsigned long place)
{
	int status = waits(pid);
	if (!WIFSTOPPED(status)) {
		say("%s: %s", what, status_text(status));
		return;
	}
	siginfo_t info;
	memset(&info, 0, sizeof info);
	trace(PTRACE_GETSIGINFO, pid, 0, AT(&info));
	struct user_regs_struct regs;
	trace(PTRACE_GETREGS, pid, 0, AT(&regs));
	unsigned long word = 0;
	trace(PTRACE_PEEKDATA, pid, AT(&words[0]), AT(&word));
	say("%s: %s, code %d, its address is that of the instruction %d, DR6 %#lx, word %lu", what, stop_text(status), info.si_code, AT(info.si_addr) == regs.rip, peek(pid, 6), word);
	if (place)
		say("  at the place %d, RF %d", regs.rip == place, (regs.eflags & 0x10000) != 0);
}

static void go_on(pid_t pid, int signal)
{
	trace(PTRACE_CONT, pid, 0, signal);
}

static void refused(void)
{
	section("registers");
	pid_t pid = traced(0);
	for (int n = 0; n < 8; n++)
		say("DR%d %#lx", n, peek(pid, n));
	for (int n = 0; n < 8; n++)
		poke("zero", pid, n, 0);
	unsigned long at = AT(&words[0]);
	poke("an address", pid, 0, at);
	say("same %d", peek(pid, 0) == at);
	poke("DR6", pid, 6, 0x1234);
	say("DR6 %#lx", peek(pid, 6));
	poke("in and out", pid, 7, ON(0) | KIND(0, TRANSFER, ONE));
	poke("in and out, of one not in effect", pid, 7, KIND(0, TRANSFER, ONE));
	poke("the same of one that was never named", pid, 7, KIND(1, TRANSFER, ONE));
	poke("executed, four bytes", pid, 7, ON(0) | KIND(0, EXECUTE, FOUR));
	poke("reserved bits", pid, 7, 0xffffffff0000fc00);
	show_registers("reserved bits", pid);
	poke("ends", pid, 7, 0);
	poke("odd", pid, 0, at + 1);
	poke("one byte", pid, 7, ON(0) | KIND(0, WRITE, ONE));
	poke("two bytes", pid, 7, ON(0) | KIND(0, WRITE, TWO));
	show_registers("as before", pid);
	poke("even", pid, 0, at + 2);
	poke("two bytes", pid, 7, ON(0) | KIND(0, WRITE, TWO));
	poke("odd", pid, 0, at + 3);
	say("as before %d", peek(pid, 0) == at + 2);
	poke("four bytes", pid, 7, ON(0) | KIND(0, READ_WRITE, FOUR));
	poke("eight bytes", pid, 7, ON(0) | KIND(0, READ_WRITE, EIGHT));
	poke("a multiple of four", pid, 0, at + 4);
	poke("four bytes", pid, 7, ON(0) | KIND(0, READ_WRITE, FOUR));
	poke("eight bytes", pid, 7, ON(0) | KIND(0, READ_WRITE, EIGHT));
	/* One of two is wrong: neither is set. */
	poke("another", pid, 1, at + 1);
	poke("both", pid, 7, ON(0) | KIND(0, WRITE, TWO) | ON(1) | KIND(1, WRITE, TWO));
	show_registers("as before", pid);
	poke("four bytes are checked", pid, 0, at + 6);
	poke("global", pid, 7, 2 | KIND(0, WRITE, ONE));
	show_registers("global", pid);
	/* One that was never named is at zero. */
	poke("unnamed", pid, 7, ON(3) | KIND(3, WRITE, EIGHT));
	say("DR3 %#lx", peek(pid, 3));
	poke("at the end", pid, 3, 0x7fffffffefff);
	poke("at the end", pid, 3, 0x7fffffffeff8);
	SHOW(trace(PTRACE_POKEUSER, pid, DR(0) + 4, 0));
	SHOW(trace(PTRACE_PEEKUSER, pid, DR(0) + 4, AT(&at)));
	SHOW(trace(PTRACE_POKEUSER, pid, DR(8), 0));
	SHOW(trace(PTRACE_PEEKUSER, pid, DR(8), AT(&at)));
	ends(pid);
	pid = traced(0);
	static const unsigned long beyond[] = { ~0ul, 0xffff800000000000, 0xffffffff81000000, 0xffffffffff600000, 0xdead000000000000 };
	for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
		poke("no program's", pid, 1, beyond[i]);
		poke("in effect", pid, 7, ON(1) | KIND(1, WRITE, ONE));
		poke("executed", pid, 7, ON(1) | KIND(1, EXECUTE, ONE));
		say("same %d", peek(pid, 1) == beyond[i]);
		poke("none", pid, 7, 0);
	}
	poke("eight bytes", pid, 7, ON(2) | KIND(2, WRITE, EIGHT));
	ends(pid);
}

static void writes(void)
{
	words[1] = 1;
	words[0] = 7;
	words[1] = 2;
	say("  word %lu", words[0]);
	words[0] = 8;
	*(volatile unsigned char *)&words[0] = 9;
	((volatile unsigned *)words)[1] = 1;
}

static void data(const char *what, unsigned long control, unsigned long off)
{
	say("-- %s", what);
	pid_t pid = traced(writes);
	trace(PTRACE_POKEUSER, pid, DR(0), AT(&words[0]) + off);
	poke("set", pid, 7, control);
	for (int i = 0; i < 8; i++) {
		go_on(pid, 0);
		int status = 0;
		siginfo_t info;
		if (waitid(P_PID, pid, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL) != 0 || info.si_code != CLD_TRAPPED) {
			say("ends: %s", status_text(waits(pid)));
			return;
		}
		(void)status;
		show("hit", pid, 0);
	}
	ends(pid);
}

static __attribute__((noinline)) void place(void)
{
	__asm__ volatile("nop" ::: "memory");
}

static volatile int handled;

static void note(int signal)
{
	(void)signal;
	handled++;
}

static void comes_by(void)
{
	signal(SIGTRAP, note);
	for (int i = 0; i < 3; i++)
		place();
	say("  handled %d", handled);
}

static void instructions(void)
{
	section("instructions");
	pid_t pid = traced(comes_by);
	trace(PTRACE_POKEUSER, pid, DR(2), AT(place));
	poke("set", pid, 7, ON(2) | KIND(2, EXECUTE, ONE));
	go_on(pid, 0);
	show("first", pid, AT(place));
	go_on(pid, 0);
	show("second", pid, AT(place));
	/* With the signal its handler comes between. */
	go_on(pid, SIGTRAP);
	show("third", pid, AT(place));
	poke("no more", pid, 7, 0);
	go_on(pid, 0);
	show("ends", pid, 0);
	pid = traced(comes_by);
	trace(PTRACE_POKEUSER, pid, DR(2), AT(place));
	trace(PTRACE_POKEUSER, pid, DR(3), AT(place) + 1);
	poke("two", pid, 7, ON(2) | KIND(2, EXECUTE, ONE) | ON(3) | KIND(3, EXECUTE, ONE));
	go_on(pid, 0);
	show("first", pid, AT(place));
	trace(PTRACE_SINGLESTEP, pid, 0, 0);
	show("step", pid, AT(place) + 1);
	trace(PTRACE_SINGLESTEP, pid, 0, 0);
	show("then", pid, 0);
	ends(pid);
}

static int ends_of[2];

/* The kernel writes it, and then it does. */
static void is_read_to(void)
{
	read(ends_of[0], (void *)&words[0], 8);
	say("  word %lu", words[0]);
	words[0] = 5;
}

static void kernel_copies(void)
{
	section("the kernel's own copies");
	pipe(ends_of);
	unsigned long word = 77;
	write(ends_of[1], &word, 8);
	pid_t pid = traced(is_read_to);
	trace(PTRACE_POKEUSER, pid, DR(0), AT(&words[0]));
	poke("set", pid, 7, ON(0) | KIND(0, WRITE, EIGHT));
	go_on(pid, 0);
	show("hit", pid, 0);
	go_on(pid, 0);
	show("ends", pid, 0);
	close(ends_of[0]), close(ends_of[1]);
}

static void steps_by(void)
{
	__asm__ volatile("int3\n nop\n nop\n .byte 0xf1\n nop\n" ::: "memory");
}

static void steps(void)
{
	section("steps");
	pid_t pid = traced(steps_by);
	trace(PTRACE_POKEUSER, pid, DR(1), AT(&words[0]));
	poke("set", pid, 7, ON(1) | KIND(1, WRITE, EIGHT));
	go_on(pid, 0);
	show_stop("breakpoint", pid);
	trace(PTRACE_SINGLESTEP, pid, 0, 0);
	/* No step writes what is watched: QEMU does not get over that. */
	show("step", pid, 0);
	go_on(pid, 0);
	show("INT1", pid, 0);
	go_on(pid, 0);
	show("ends", pid, 0);
}

static void forks(void)
{
	pid_t pid = (pid_t)syscall(SYS_fork);
	words[0] = 4;
	if (pid == 0)
		_exit(3);
	wait_for(pid);
	_exit(4);
}

static char stack[65536] __attribute__((aligned(16)));
static volatile int thread_done;

static int thread_body(void *unused)
{
	(void)unused;
	words[0] = 6;
	thread_done = 1;
	syscall(SYS_exit, 0);
	return 0;
}

static void has_thread(void)
{
	clone(thread_body, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, NULL);
	while (!thread_done)
		nap(1);
	words[0] = 7;
}

static void executes(void)
{
	execl("/proc/self/exe", "again", (char *)0);
	_exit(1);
}

static pid_t watched(void (*body)(void))
{
	pid_t pid = traced(body);
	trace(PTRACE_POKEUSER, pid, DR(0), AT(&words[0]));
	trace(PTRACE_POKEUSER, pid, DR(7), ON(0) | KIND(0, WRITE, EIGHT));
	return pid;
}

static void others(void)
{
	section("a child");
	pid_t pid = watched(forks);
	trace(PTRACE_SETOPTIONS, pid, 0, FORK);
	go_on(pid, 0);
	show_stop("maker", pid);
	unsigned long message = 0;
	trace(PTRACE_GETEVENTMSG, pid, 0, AT(&message));
	pid_t child = (pid_t)message;
	show_stop("made", child);
	say("DR0 %#lx DR6 %#lx", peek(child, 0), peek(child, 6));
	go_on(child, 0);
	say("made: %s", status_text(waits(child)));
	go_on(pid, 0);
	show("maker", pid, 0);
	ends(pid);
	section("a thread");
	pid = watched(has_thread);
	go_on(pid, 0);
	show("the other", pid, 0);
	go_on(pid, 0);
	show("ends", pid, 0);
	section("another program");
	pid = watched(executes);
	go_on(pid, 0);
	show_stop("exec", pid);
	say("DR0 %#lx", peek(pid, 0));
	show_registers("exec", pid);
	go_on(pid, 0);
	show("ends", pid, 0);
	section("detached");
	pid = watched(writes);
	SHOW(trace(PTRACE_DETACH, pid, 0, 0));
	int status = wait_for(pid);
	say("ends: %s", WIFSIGNALED(status) ? signal_name(WTERMSIG(status)) : status_text(status));
	/* Others touch the same addresses on the same CPUs. */
	section("strangers");
	pid = watched(writes);
	go_on(pid, 0);
	show("hit", pid, 0);
	int wrong = 0;
	for (int round = 0; round < 20; round++) {
		trace(PTRACE_SINGLESTEP, pid, 0, 0);
		waits(pid);
		pid_t touches = must_fork();
		if (touches == 0) {
			for (int i = 0; i < 50; i++)
				words[0]++, place(), sched_yield();
			_exit(0);
		}
		words[0]++;
		wrong += wait_for(touches) != 0;
	}
	say("wrong %d, own %lu", wrong, words[0]);
	ends(pid);
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, 0, _IONBF, 0);
	if (strcmp(argv[0], "again") == 0) {
		words[0] = 1;
		return 6;
	}
	refused();
	section("data");
	data("eight bytes, written", ON(0) | KIND(0, WRITE, EIGHT), 0);
	data("eight bytes, read or written", ON(0) | KIND(0, READ_WRITE, EIGHT), 0);
	data("one byte", ON(0) | KIND(0, WRITE, ONE), 1);
	data("four bytes behind", ON(0) | KIND(0, WRITE, FOUR), 4);
	data("none in effect", KIND(0, WRITE, EIGHT), 0);
	instructions();
	kernel_copies();
	steps();
	others();
	return 0;
}
