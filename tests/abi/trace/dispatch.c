/* Calls that a thread wants as signals (PR_SET_SYSCALL_USER_DISPATCH), and its tracer's hand in it. */
#include "tracer.h"

#include <sys/prctl.h>

#define SET_DISPATCH 59
#define OFF 0ul
#define ON 1ul
#define SET_CONFIG 0x4210
#define GET_CONFIG 0x4211

struct config {
	uint64_t mode, selector, offset, len;
};

static volatile unsigned char selector;
static volatile int count;
static volatile long number, error, code;
static volatile int address_is_after;

static void note(int signal, siginfo_t *info, void *context)
{
	unsigned char was = selector;
	selector = 0;
	ucontext_t *frame = context;
	(void)signal;
	count++;
	number = info->si_syscall;
	error = info->si_errno;
	code = info->si_code;
	address_is_after = (unsigned long)info->si_call_addr == (unsigned long)frame->uc_mcontext.gregs[REG_RIP] && frame->uc_mcontext.gregs[REG_RAX] == number;
	frame->uc_mcontext.gregs[REG_RAX] = 99;
	(void)was;
}

static long set(unsigned long mode, unsigned long offset, unsigned long len, volatile unsigned char *at)
{
	return syscall(SYS_prctl, SET_DISPATCH, mode, offset, len, at);
}

static void refused(void)
{
	section("refused");
	SHOW(set(OFF, 1, 0, 0));
	SHOW(set(OFF, 0, 1, 0));
	SHOW(set(OFF, 0, 0, &selector));
	SHOW(set(2, 0, 0, 0));
	SHOW(set(ON | 1ul << 32, 0, 0, &selector));
	SHOW(set(ON, 16, 0, &selector));
	SHOW(set(ON, 16, -16ul, &selector));
	SHOW(set(ON, 16, -17ul, &selector));
	SHOW(set(OFF, 0, 0, 0));
	SHOW(set(ON, 0, 0, (void *)-1ul));
	SHOW(set(OFF, 0, 0, 0));
}

static void handled(void)
{
	section("handled");
	struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO };
	sigaction(SIGSYS, &action, 0);
	SHOW(set(ON, 0, 0, &selector));
	pid_t pid = getpid();
	say("allowed: %d, %d signals", syscall(SYS_getpid) == pid, count);
	selector = 1;
	long got = syscall(SYS_getppid, 1, 2, 3);
	say("blocked: %ld, %d signals, call %d, errno %ld, code %ld, %d", got, count, number == SYS_getppid, error, code, address_is_after);
	selector = 1;
	got = syscall(7777);
	say("unknown: %ld, %d signals, call %ld", got, count, number);
	/* All code may. */
	SHOW(set(ON, 1, -2ul, &selector));
	selector = 1;
	say("in the range: %d, %d signals", syscall(SYS_getpid) == pid, count);
	selector = 0;
	SHOW(set(ON, 0, 0, &selector));
	pid_t child = must_fork();
	if (child == 0) {
		selector = 1;
		say("a child's: %d, %d signals", syscall(SYS_getppid) == pid, count);
		_exit(0);
	}
	wait_for(child);
	SHOW(set(OFF, 0, 0, 0));
	selector = 1;
	say("off: %d, %d signals", syscall(SYS_getpid) == pid, count);
	selector = 0;
}

static void ended(const char *what, int value, volatile unsigned char *at)
{
	pid_t child = must_fork();
	if (child == 0) {
		selector = value;
		set(ON, 0, 0, at);
		getppid();
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	say("%s: %s", what, status_text(status));
}

static void body(void)
{
	getppid();
	raise(SIGUSR1);
}

static void by_tracer(void)
{
	section("by the tracer");
	pid_t pid = traced(body);
	struct config config = { 9, 9, 9, 9 };
	SHOW(trace(GET_CONFIG, pid, 31, AT(&config)));
	SHOW(trace(GET_CONFIG, pid, sizeof config, 1));
	SHOW(trace(GET_CONFIG, pid, sizeof config, AT(&config)));
	say("mode %d selector %d offset %d len %d", (int)config.mode, (int)config.selector, (int)config.offset, (int)config.len);
	config = (struct config){ 1, 0, 16, 0 };
	SHOW(trace(SET_CONFIG, pid, sizeof config, AT(&config)));
	config = (struct config){ 1, 0, 0, 0 };
	SHOW(trace(SET_CONFIG, pid, 8, AT(&config)));
	SHOW(trace(SET_CONFIG, pid, sizeof config, 1));
	config.mode = 3;
	SHOW(trace(SET_CONFIG, pid, sizeof config, AT(&config)));
	config = (struct config){ 1, (uint64_t)&selector, 5, 6 };
	SHOW(trace(SET_CONFIG, pid, sizeof config, AT(&config)));
	memset(&config, 0, sizeof config);
	SHOW(trace(GET_CONFIG, pid, sizeof config, AT(&config)));
	say("mode %d selector %d offset %d len %d", (int)config.mode, config.selector == (uint64_t)&selector, (int)config.offset, (int)config.len);
	config = (struct config){ 1, 0, 0, 0 };
	SHOW(trace(SET_CONFIG, pid, sizeof config, AT(&config)));
	trace(PTRACE_SYSCALL, pid, 0, 0);
	show_stop("its call", pid);
	siginfo_t info;
	trace(PTRACE_GETSIGINFO, pid, 0, AT(&info));
	say("code %d", info.si_code);
	config = (struct config){ 0, 0, 0, 0 };
	SHOW(trace(SET_CONFIG, pid, sizeof config, AT(&config)));
	trace(PTRACE_CONT, pid, 0, 0);
	show_stop("on", pid);
	ends(pid);
}

int main(void)
{
	signal(SIGSYS, SIG_DFL);
	refused();
	handled();
	section("ended");
	ended("wrong byte", 7, &selector);
	ended("no byte", 0, (void *)64);
	by_tracer();
	return 0;
}
