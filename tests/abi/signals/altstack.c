/* Alternate signal stacks: what sigaltstack tells and takes, and SS_AUTODISARM, which takes the stack away while a handler runs. */
#include "t.h"

#include <setjmp.h>
#include <ucontext.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

enum { SIZE = 64 * 1024 };
static char *low, *other;
static sigjmp_buf out;

static const char *place(const void *p)
{
	const char *c = p;
	return !c ? "nowhere" : c >= low && c < low + SIZE ? "the alternate stack" : c >= other && c < other + SIZE ? "the other stack" : "the main stack";
}

static long set(void *sp, unsigned flags, size_t size)
{
	stack_t s = { .ss_sp = sp, .ss_flags = (int)flags, .ss_size = size };
	return syscall(SYS_sigaltstack, &s, 0);
}

static void show(const char *when)
{
	stack_t s;
	memset(&s, 0x5a, sizeof s);
	long result = syscall(SYS_sigaltstack, 0, &s);
	say("%s: %ld, %s, flags %#x, %zu bytes", when, result, place(s.ss_sp), (unsigned)s.ss_flags, s.ss_size);
}

static void handler(int signal, siginfo_t *info, void *context)
{
	(void)info;
	char here;
	ucontext_t *u = context;
	say("%s on %s; the context has %s, %zu bytes, disarming %d", signal_name(signal), place(&here), place(u->uc_stack.ss_sp), u->uc_stack.ss_size,
	    (unsigned)u->uc_stack.ss_flags >> 31);
	show("in the handler");
	if (signal == SIGUSR1) {
		SHOW(set(other, 0, SIZE));
		show("set in the handler");
		raise(SIGUSR2);
	}
	if (signal == SIGALRM)
		siglongjmp(out, 1);
}

static void all(unsigned flags)
{
	SHOW(set(low, flags, SIZE));
	show("set");
	raise(SIGUSR1);
	show("after the handler");
	SHOW(set(low, flags, SIZE));
	if (!sigsetjmp(out, 1))
		raise(SIGALRM);
	show("left by longjmp");
	SHOW(set(low, flags | SS_DISABLE, SIZE));
	show("disabled");
	raise(SIGUSR2);
	pid_t pid = must_fork();
	if (pid == 0) {
		show("in a child");
		_exit(0);
	}
	wait_for(pid);
	SHOW(set(low, flags | SS_ONSTACK, SIZE));
	show("with SS_ONSTACK");
	SHOW(set(low, flags | 4, SIZE));
	SHOW(set(low, flags | 3, SIZE));
	SHOW(set(low, flags, 100));
	show("refused");
}

int main(void)
{
	low = malloc(SIZE), other = malloc(SIZE);
	struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	sigaction(SIGUSR1, &a, 0);
	sigaction(SIGUSR2, &a, 0);
	sigaction(SIGALRM, &a, 0);
	show("first");
	section("plain");
	all(0);
	section("disarmed");
	all(SS_AUTODISARM);
	return 0;
}
