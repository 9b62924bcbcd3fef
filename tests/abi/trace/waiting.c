/* Signals that wait for a traced thread, shown to its tracer without being taken: PTRACE_PEEKSIGINFO. */
#include "tracer.h"


#define PEEKSIGINFO 0x4209
#define SHARED 1

struct arguments { unsigned long from; unsigned flags; int count; };

static siginfo_t infos[100];

static void peek(const char *what, pid_t pid, unsigned long from, unsigned flags, int count)
{
	struct arguments arguments = { from, flags, count };
	memset(infos, 0x55, sizeof infos);
	long shown = trace(PEEKSIGINFO, pid, AT(&arguments), AT(infos));
	say("%s: %ld%s%s", what, shown, shown < 0 ? " " : "", shown < 0 ? error_name(errno) : "");
	for (long i = 0; i < shown; i++)
		say("  %s code %d, value %d, of its tracer %d, of itself %d", signal_name(infos[i].si_signo), infos[i].si_code, infos[i].si_code == SI_QUEUE ? infos[i].si_value.sival_int : 0,
		    infos[i].si_pid == getpid(), infos[i].si_pid == pid);
	if (shown >= 0 && shown < 100)
		say("  left alone %d", *(unsigned char *)&infos[shown] == 0x55);
}

static void queues(pid_t pid, pid_t tid, int signal, int value)
{
	siginfo_t info;
	memset(&info, 0, sizeof info);
	info.si_code = SI_QUEUE, info.si_pid = getpid(), info.si_value.sival_int = value;
	long done = tid ? syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, &info) : syscall(SYS_rt_sigqueueinfo, pid, signal, &info);
	if (done != 0)
		say("not queued: %s", error_name(errno));
}

static void blocks(void)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, 0);
	syscall(SYS_tkill, syscall(SYS_gettid), SIGUSR1);
	/* Its tracer gives all of them first. */
	syscall(SYS_getppid);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1), sigaddset(&set, SIGRTMIN + 2), sigaddset(&set, SIGUSR2);
	siginfo_t info;
	for (int i = 0; i < 4; i++) {
		int signal = sigwaitinfo(&set, &info);
		say("  took %s %d", signal_name(signal), info.si_code == SI_QUEUE ? info.si_value.sival_int : 0);
	}
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	section("none");
	pid_t pid = traced(blocks);
	peek("none", pid, 0, 0, 5);
	peek("none shared", pid, 0, SHARED, 5);
	section("refused");
	peek("a flag", pid, 0, 2, 1);
	peek("a flag beside", pid, 0, 3, 0);
	peek("less than none", pid, 0, 0, -1);
	peek("no place", pid, -1, 0, 1);
	show_value("arguments nowhere", trace(PEEKSIGINFO, pid, 1, AT(infos)));
	struct arguments one = { 0, 0, 1 };
	show_value("nobody", trace(PEEKSIGINFO, 999999, AT(&one), AT(infos)));
	show_value("oneself", trace(PEEKSIGINFO, getpid(), AT(&one), AT(infos)));
	/* To the beginning of the call behind its own signal. */
	trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
	struct user_regs_struct regs;
	do {
		trace(PTRACE_SYSCALL, pid, 0, 0);
		waits(pid);
		trace(PTRACE_GETREGS, pid, 0, AT(&regs));
	} while (regs.orig_rax != SYS_getppid);
	section("its own");
	peek("its own", pid, 0, 0, 5);
	peek("shared", pid, 0, SHARED, 5);
	for (int i = 0; i < 3; i++)
		queues(pid, pid, SIGRTMIN + 2 - i % 2, i), queues(pid, 0, SIGRTMIN + 1 + i % 2, 10 + i);
	kill(pid, SIGUSR2), kill(pid, SIGUSR2);
	peek("as they came", pid, 0, 0, 10);
	peek("shared", pid, 0, SHARED, 10);
	peek("two of them", pid, 1, 0, 2);
	peek("none of them", pid, 1, 0, 0);
	peek("the last", pid, 3, SHARED, 100);
	peek("behind the last", pid, 4, SHARED, 1);
	section("nowhere to put");
	struct arguments some = { 0, 0, 3 };
	show_value("nowhere", trace(PEEKSIGINFO, pid, AT(&some), 1));
	char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(page + 4096, 4096, PROT_NONE);
	show_value("room for one", trace(PEEKSIGINFO, pid, AT(&some), AT(page + 4096 - 200)));
	section("many");
	for (int i = 0; i < 90; i++)
		queues(pid, 0, SIGRTMIN + 3, 100 + i);
	some = (struct arguments){ 4, SHARED, 100 };
	show_value("many", trace(PEEKSIGINFO, pid, AT(&some), AT(infos)));
	int in_order = 1;
	for (int i = 0; i < 90; i++)
		in_order &= infos[i].si_value.sival_int == 100 + i;
	say("in order %d", in_order);
	section("still there");
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
	return 0;
}
