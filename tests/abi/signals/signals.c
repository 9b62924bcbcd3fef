/* Signals: handlers, siginfo, masks, restart, alternate stacks, faults, queues, pending across fork and exec. */
#include "t.h"

#include <setjmp.h>
#include <sys/time.h>

static volatile int count, last;
static volatile siginfo_t seen;

static void on(int number)
{
	count++;
	last = number;
}

static void on_info(int number, siginfo_t *info, void *context)
{
	(void)context;
	count++;
	last = number;
	memcpy((void *)&seen, info, sizeof *info);
}

static void install(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	sigaction(number, &action, 0);
}

static void install_info(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO };
	sigaction(number, &action, 0);
}

static void block(int how, int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(how, &set, 0);
}

static void basics(void)
{
	section("basics");
	install(SIGUSR1, on, 0);
	SHOW(raise(SIGUSR1));
	say("count %d last %s", count, signal_name(last));
	struct sigaction old;
	install(SIGUSR1, on, SA_RESETHAND);
	raise(SIGUSR1);
	sigaction(SIGUSR1, 0, &old);
	say("count %d, default again %d", count, old.sa_handler == SIG_DFL);
	SHOW(sigaction(SIGKILL, 0, &old));
	install(SIGUSR1, on, 0);
	sigaction(SIGUSR1, 0, &old);
	struct sigaction action = { .sa_handler = on };
	SHOW(sigaction(SIGKILL, &action, 0));
	SHOW(sigaction(SIGSTOP, &action, 0));
	SHOW(sigaction(65, &action, 0));
	SHOW(sigaction(0, &action, 0));
	SHOW(syscall(SYS_rt_sigaction, SIGUSR1, 16, 0, 8));
	SHOW(syscall(SYS_rt_sigaction, SIGUSR1, 0, 16, 8));
	SHOW(syscall(SYS_rt_sigaction, SIGUSR1, 0, 0, 4));
	SHOW(syscall(SYS_rt_sigprocmask, 9, &(uint64_t){ 0 }, 0, 8));
	SHOW(syscall(SYS_rt_sigprocmask, SIG_BLOCK, 16, 0, 8));
	uint64_t all = ~0ull, got = 0;
	SHOW(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8));
	SHOW(syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, &got, 8));
	say("%llx", (unsigned long long)got);
	all = 0;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8);
	count = 0;
	block(SIG_BLOCK, SIGUSR1);
	for (int i = 0; i < 5; i++)
		raise(SIGUSR1);
	say("blocked: count %d", count);
	sigset_t pending;
	sigpending(&pending);
	say("pending %d", sigismember(&pending, SIGUSR1));
	block(SIG_UNBLOCK, SIGUSR1);
	say("unblocked: count %d", count);
	count = 0;
	install(40, on, 0);
	block(SIG_BLOCK, 40);
	for (int i = 0; i < 5; i++)
		kill(getpid(), 40);
	block(SIG_UNBLOCK, 40);
	say("real-time queue: %d", count);
	block(SIG_BLOCK, SIGUSR2);
	install(SIGUSR2, SIG_DFL, 0);
	raise(SIGUSR2);
	install(SIGUSR2, SIG_IGN, 0);
	sigpending(&pending);
	say("ignoring drops the pending one: %d", !sigismember(&pending, SIGUSR2));
	install(SIGUSR2, SIG_DFL, 0);
	block(SIG_UNBLOCK, SIGUSR2);
	raise(SIGCHLD);
	raise(SIGWINCH);
	say("still here");
}

static void wait_for_signal(void)
{
	while (count == 0)
		nap(1);
}

static pid_t idle_child(void)
{
	pid_t pid = must_fork();
	while (pid == 0)
		pause();
	return pid;
}

static void infos(void)
{
	section("siginfo");
	install_info(SIGUSR1, on_info, 0);
	kill(getpid(), SIGUSR1);
	say("kill: code %d pid right %d uid %d", seen.si_code, seen.si_pid == getpid(), (int)seen.si_uid);
	raise(SIGUSR1);
	say("tgkill: code %d", seen.si_code);
	sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = 1234 });
	say("sigqueue: code %d value %d", seen.si_code, seen.si_value.sival_int);
	install_info(SIGCHLD, on_info, 0);
	count = 0;
	pid_t pid = must_fork();
	if (pid == 0)
		_exit(17);
	wait_for_signal();
	say("SIGCHLD: code %d status %d pid right %d", seen.si_code, seen.si_status, seen.si_pid == pid);
	wait_for(pid);
	count = 0;
	pid = idle_child();
	kill(pid, SIGSTOP);
	wait_for_signal();
	say("stopped: code %d status %s", seen.si_code, signal_name(seen.si_status));
	count = 0;
	kill(pid, SIGCONT);
	wait_for_signal();
	say("continued: code %d status %s", seen.si_code, signal_name(seen.si_status));
	count = 0;
	kill(pid, SIGKILL);
	wait_for_signal();
	say("killed: code %d status %s", seen.si_code, signal_name(seen.si_status));
	wait_for(pid);
	install_info(SIGCHLD, on_info, SA_NOCLDSTOP);
	count = 0;
	pid = idle_child();
	kill(pid, SIGSTOP);
	int status;
	waitpid(pid, &status, WUNTRACED);
	nap(10);
	say("SA_NOCLDSTOP: count %d", count);
	kill(pid, SIGKILL);
	wait_for(pid);
	install_info(SIGCHLD, on_info, SA_NOCLDWAIT);
	count = 0;
	pid = must_fork();
	if (pid == 0)
		_exit(1);
	wait_for_signal();
	nap(20);
	SHOW(waitpid(pid, &status, 0));
	install(SIGCHLD, SIG_DFL, 0);
}

static sigjmp_buf back;
static char *target;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	say("  %s code %d, address %s", signal_name(number), info->si_code,
	    info->si_addr == target ? "right" : info->si_addr == 0 ? "null" : "other");
	siglongjmp(back, 1);
}

#define FAULT(text, statement) do { say("%s", text); if (sigsetjmp(back, 1) == 0) { statement; say("  nothing"); } } while (0)

static void faults(void)
{
	section("faults");
	install_info(SIGSEGV, on_fault, 0);
	install_info(SIGBUS, on_fault, 0);
	install_info(SIGFPE, on_fault, 0);
	install_info(SIGILL, on_fault, 0);
	install_info(SIGTRAP, on_fault, 0);
	target = (char *)0x10;
	FAULT("read of nothing", (void)*(volatile char *)target);
	FAULT("write of nothing", *(volatile char *)target = 1);
	FAULT("jump to nothing", ((void (*)(void))target)());
	char *area = mmap(0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	target = area + 100;
	FAULT("write of read-only", *(volatile char *)target = 1);
	FAULT("execution of data", ((void (*)(void))target)());
	target = (char *)0xffff800000001000;
	FAULT("kernel address", (void)*(volatile char *)target);
	target = (char *)0x8000000000000000;
	FAULT("non-canonical", (void)*(volatile char *)target);
	int fd = open("short", O_CREAT | O_RDWR, 0644);
	ftruncate(fd, 4096);
	char *view = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	target = view + 4096 + 8;
	FAULT("past the end of a file", (void)*(volatile char *)target);
	static volatile int zero, one = 1;
	target = 0;
	FAULT("division by zero", one = one / zero);
	static volatile int least = INT_MIN, minus = -1;
	FAULT("division overflow", one = least / minus);
	FAULT("ud2", __asm__ volatile("ud2"));
	FAULT("hlt", __asm__ volatile("hlt"));
	FAULT("int3", __asm__ volatile("int3"));
	FAULT("int $0x0d", __asm__ volatile("int $0x0d"));
	FAULT("trap flag", __asm__ volatile("pushf; orl $0x100, (%%rsp); popf; nop" ::: "memory", "cc"));
	unsigned control = 0x1f80 & ~(1u << 9);
	FAULT("SSE division by zero", __asm__ volatile("ldmxcsr %0; xorps %%xmm0, %%xmm0; movd %1, %%xmm1; divss %%xmm0, %%xmm1" ::"m"(control), "r"(0x3f800000) : "xmm0", "xmm1"));
	control = 0x1f80;
	__asm__ volatile("ldmxcsr %0" ::"m"(control));
	static char unaligned[64] __attribute__((aligned(16)));
	FAULT("unaligned movaps", __asm__ volatile("movaps (%0), %%xmm0" ::"r"(unaligned + 1) : "xmm0"));
	/* Blocked or ignored, a fault ends the program all the same. */
	pid_t pid = must_fork();
	if (pid == 0) {
		block(SIG_BLOCK, SIGSEGV);
		*(volatile char *)0x10 = 1;
		_exit(1);
	}
	say("blocked SIGSEGV: %s", status_text(wait_for(pid)));
	pid = must_fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_IGN);
		*(volatile char *)0x10 = 1;
		_exit(1);
	}
	say("ignored SIGSEGV: %s", status_text(wait_for(pid)));
	for (int number = 1; number < 16; number++)
		signal(number, SIG_DFL);
}

static void on_alternate(int number)
{
	(void)number;
	char here;
	stack_t now;
	sigaltstack(0, &now);
	say("on the alternate stack: %d, flags %d", &here >= (char *)now.ss_sp && &here < (char *)now.ss_sp + now.ss_size, now.ss_flags);
	stack_t other = { .ss_sp = now.ss_sp, .ss_size = now.ss_size };
	SHOW(sigaltstack(&other, 0));
}

static int recurse(int depth)
{
	volatile char room[4096];
	room[0] = (char)depth;
	return recurse(depth + 1) + room[0];
}

static void on_overflow(int number)
{
	say("overflow: %s", signal_name(number));
	_exit(0);
}

static void overflow(void)
{
	static char room[16384];
	stack_t stack = { .ss_sp = room, .ss_size = sizeof room };
	sigaltstack(&stack, 0);
	install(SIGSEGV, on_overflow, SA_ONSTACK);
	recurse(0);
}

static void overflow_alone(void)
{
	install(SIGSEGV, on_overflow, 0);
	recurse(0);
}

static void stacks(void)
{
	section("sigaltstack");
	static char room[16384];
	stack_t stack = { .ss_sp = room, .ss_size = sizeof room }, old;
	SHOW(sigaltstack(&stack, &old));
	say("old flags %d", old.ss_flags);
	install(SIGUSR1, on_alternate, SA_ONSTACK);
	raise(SIGUSR1);
	stack.ss_size = 100;
	SHOW(sigaltstack(&stack, 0));
	stack.ss_size = sizeof room, stack.ss_flags = 77;
	SHOW(sigaltstack(&stack, 0));
	SHOW(syscall(SYS_sigaltstack, 16, 0));
	stack.ss_flags = SS_DISABLE;
	SHOW(sigaltstack(&stack, 0));
	in_child("stack overflow with an alternate stack", overflow);
	in_child("stack overflow without", overflow_alone);
}

static void on_nested(int number)
{
	say("enter %s", signal_name(number));
	if (number == SIGUSR1) {
		raise(SIGUSR1);
		raise(SIGUSR2);
	}
	say("leave %s", signal_name(number));
}

static void nesting(void)
{
	section("nesting");
	install(SIGUSR1, on_nested, 0);
	install(SIGUSR2, on_nested, 0);
	count = 0;
	pid_t pid = must_fork();
	if (pid == 0) {
		install(SIGUSR1, on_nested, SA_RESETHAND);
		raise(SIGUSR1);
		_exit(0);
	}
	say("%s", status_text(wait_for(pid)));
	struct sigaction action = { .sa_handler = on_nested };
	sigaddset(&action.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &action, 0);
	install(SIGUSR1, on_nested, 0);
	block(SIG_BLOCK, SIGUSR1), block(SIG_BLOCK, SIGUSR2), block(SIG_BLOCK, 35);
	install(35, on_nested, 0);
	raise(35), raise(SIGUSR2);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, 0);
}

static void alarm_in(int milliseconds, int interval)
{
	struct itimerval timer = { { 0, interval * 1000 }, { 0, milliseconds * 1000 } };
	setitimer(ITIMER_REAL, &timer, 0);
}

/* An alarm that interrupts the next call. It comes again and again, for one that comes before the call interrupts nothing. */
static void interrupt_soon(void)
{
	alarm_in(20, 100);
}

static void interruption(void)
{
	section("interruption");
	int ends[2];
	char byte;
	pipe(ends);
	install(SIGALRM, on, 0);
	interrupt_soon();
	SHOW(read(ends[0], &byte, 1));
	interrupt_soon();
	SHOW(pause());
	interrupt_soon();
	struct timespec rest = { 0 };
	SHOW(nanosleep(&(struct timespec){ 10, 0 }, &rest));
	CHECK(rest.tv_sec == 9 && rest.tv_nsec > 0);
	interrupt_soon();
	sigset_t none;
	sigemptyset(&none);
	SHOW(sigsuspend(&none));
	alarm_in(0, 0);
	pid_t pid = must_fork();
	if (pid == 0) {
		nap(200);
		write(ends[1], "r", 1);
		nap(200);
		_exit(3);
	}
	install(SIGALRM, on, SA_RESTART);
	count = 0;
	alarm_in(20, 0);
	SHOW(read(ends[0], &byte, 1));
	say("count %d", count);
	alarm_in(20, 0);
	int status;
	SHOW(waitpid(pid, &status, 0) == pid);
	say("count %d", count);
	interrupt_soon();
	SHOW(nanosleep(&(struct timespec){ 10, 0 }, &rest));
	install(SIGALRM, on, 0);
	pid = must_fork();
	if (pid == 0)
		for (;;)
			pause();
	interrupt_soon();
	SHOW(waitpid(pid, &status, 0));
	alarm_in(0, 0);
	kill(pid, SIGKILL);
	wait_for(pid);
	/* Stop and continue without a handler does not show. */
	pid = must_fork();
	if (pid == 0) {
		SHOW(read(ends[0], &byte, 1));
		_exit(0);
	}
	nap(20);
	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
	kill(pid, SIGCONT);
	nap(10);
	write(ends[1], "x", 1);
	wait_for(pid);
}

/* A sleep goes on after a stop, and after another. */
static void restarted(void)
{
	section("restarted");
	pid_t pid = must_fork();
	if (pid == 0)
		_exit(nanosleep(&(struct timespec){ 0, 300000000 }, 0) ? errno : 0);
	int status;
	for (int stops = 0; stops < 3; stops++) {
		nap(30);
		kill(pid, SIGSTOP);
		waitpid(pid, &status, WUNTRACED);
		kill(pid, SIGCONT);
	}
	say("%s", status_text(wait_for(pid)));
}

static void waiting(void)
{
	section("sigtimedwait");
	sigset_t set;
	siginfo_t info;
	sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, 41);
	sigprocmask(SIG_BLOCK, &set, 0);
	struct timespec none = { 0 }, little = { 0, 20000000 };
	SHOW(sigtimedwait(&set, &info, &none));
	SHOW(sigtimedwait(&set, &info, &little));
	sigqueue(getpid(), 41, (union sigval){ .sival_int = 1 });
	sigqueue(getpid(), 41, (union sigval){ .sival_int = 2 });
	raise(SIGUSR1);
	for (int i = 0; i < 3; i++) {
		SHOW(sigtimedwait(&set, &info, &little));
		if (info.si_signo == 41)
			say("value %d", info.si_value.sival_int);
	}
	little.tv_nsec = 2000000000;
	SHOW(sigtimedwait(&set, &info, &little));
	raise(SIGUSR1);
	int number;
	SHOW(sigwait(&set, &number));
	say("%s", signal_name(number));
	raise(SIGUSR1);
	pid_t pid = must_fork();
	if (pid == 0) {
		sigset_t pending;
		sigpending(&pending);
		say("child: pending %d", sigismember(&pending, SIGUSR1));
		sigset_t mask;
		sigprocmask(SIG_BLOCK, 0, &mask);
		say("child: blocked %d", sigismember(&mask, SIGUSR1));
		_exit(0);
	}
	wait_for(pid);
	SHOW(syscall(SYS_tgkill, getpid(), 99999999, SIGUSR1));
	SHOW(syscall(SYS_tgkill, 1, getpid(), SIGUSR1));
	SHOW(syscall(SYS_tgkill, -1, getpid(), SIGUSR1));
	SHOW(syscall(SYS_tkill, getpid(), 0));
	SHOW(syscall(SYS_tkill, 0, 0));
	SHOW(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, 16));
	siginfo_t forged = { .si_code = SI_USER };
	SHOW(syscall(SYS_rt_sigqueueinfo, getppid(), 0, &forged));
	install(SIGUSR1, SIG_IGN, 0);
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, 0);
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	basics();
	infos();
	faults();
	stacks();
	nesting();
	interruption();
	restarted();
	waiting();
	return 0;
}
