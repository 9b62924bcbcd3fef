/* seccomp: what verdicts do, what a filter sees, who has one after fork, exec and thread creation, and strict mode. */
#include "rights/seccomp.h"

#include <sys/signalfd.h>
#include <ucontext.h>

static unsigned verdict;

static void meets(void)
{
	no_privileges();
	if (refuse(NOWHERE, verdict, 0))
		say("no filter: %s", error_name(errno));
	errno = 0;
	long value;
	/* musl's own is free to take results for errors that Linux does not. */
	__asm__ volatile("syscall" : "=a"(value) : "a"((long)NOWHERE) : "rcx", "r11", "memory");
	say("result %ld", value);
}

static void *meets_beside(void *unused)
{
	(void)unused;
	meets();
	return NULL;
}

static void in_thread(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, meets_beside, NULL);
	/* It may never end in a way that lets it be joined. */
	nap(100);
	say("the process goes on");
	_exit(3);
}

static void verdicts(void)
{
	section("verdicts");
	static const unsigned all[] = {
		SECCOMP_RET_ERRNO, SECCOMP_RET_ERRNO | 1, SECCOMP_RET_ERRNO | 512, SECCOMP_RET_ERRNO | 4095, SECCOMP_RET_ERRNO | 4096, SECCOMP_RET_ERRNO | 65535,
		SECCOMP_RET_TRACE | 5, SECCOMP_RET_USER_NOTIF | 5, SECCOMP_RET_LOG | 5, SECCOMP_RET_ALLOW | 5, SECCOMP_RET_TRAP | 5, SECCOMP_RET_KILL_THREAD | 5,
		SECCOMP_RET_KILL_PROCESS | 5, 0x7ffe0000, 0x00040000, 0xffffffff, 0x80010000,
	};
	for (unsigned n = 0; n < N(all); n++) {
		char text[40];
		verdict = all[n];
		snprintf(text, sizeof text, "verdict %08x", verdict);
		in_child(text, meets);
		snprintf(text, sizeof text, "%08x in a thread", verdict);
		in_child(text, in_thread);
	}
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	say("%s: code %d, reason %d, call %d, machine %x, there %d, rax %lld, rdi %lld", signal_name(number), info->si_code, info->si_errno,
	    info->si_syscall, info->si_arch, (long)info->si_call_addr == regs[REG_RIP], (long long)regs[REG_RAX], (long long)regs[REG_RDI]);
	regs[REG_RAX] = 77;
}

static void traps(void)
{
	no_privileges();
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	sigaction(SIGSYS, &action, NULL);
	SHOW(refuse(NOWHERE, SECCOMP_RET_TRAP | 1234, 0));
	SHOW(syscall(NOWHERE, 42));
	SHOW(refuse(-1, SECCOMP_RET_TRAP | 7, 0));
	SHOW(syscall(-1L, 43));
	SHOW(refuse(NOWHERE + 1, SECCOMP_RET_TRAP, 0));
	SHOW(syscall(NOWHERE + 1, 44));
}

static void trap_blocked(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	sigprocmask(SIG_BLOCK, &set, NULL);
	traps();
}

static void trap_ignored(void)
{
	no_privileges();
	signal(SIGSYS, SIG_IGN);
	SHOW(refuse(NOWHERE, SECCOMP_RET_TRAP, 0));
	SHOW(syscall(NOWHERE));
}

/* The end comes with a handler too. */
static void kill_handled(void)
{
	no_privileges();
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	sigaction(SIGSYS, &action, NULL);
	SHOW(refuse(NOWHERE, SECCOMP_RET_KILL_PROCESS, 0));
	SHOW(syscall(NOWHERE));
}

/* Each word of what a filter sees is what the program gave. */
static void sees(void)
{
	no_privileges();
	static const unsigned long given[6] = { 0x1111222233334444, 2, 0x8000000000000003, 4, ~0ul, 6ul << 32 };
	for (unsigned n = 0; n < 6; n++)
		for (unsigned half = 0; half < 2; half++) {
			struct sock_filter code[] = {
				BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
				BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NOWHERE + 1 + n * 2 + half, 0, 4),
				BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, args) + n * 8 + half * 4),
				BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(given[n] >> (half * 32)), 0, 1),
				BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77),
				BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 78),
				BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
			};
			if (take(code, N(code), 0))
				say("no filter: %s", error_name(errno));
			errno = 0;
			long result = syscall(NOWHERE + 1 + n * 2 + half, given[0], given[1], given[2], given[3], given[4], given[5]);
			say("argument %u, half %u: %ld %d", n, half, result, errno);
		}
	struct sock_filter machine[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 79),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	SHOW(take(machine, N(machine), 0));
	/* The low half of rax is the call. */
	SHOW(refuse(getpid() ? SYS_getppid : 0, SECCOMP_RET_ERRNO | 80, 0));
	SHOW(syscall(SYS_getppid | 1L << 32));
	SHOW(syscall(SYS_getppid));
}

/* The hardest verdict counts, and of equals the newest. */
static void several(void)
{
	no_privileges();
	SHOW(refuse(NOWHERE, SECCOMP_RET_ERRNO | 1, 0));
	SHOW(refuse(NOWHERE, SECCOMP_RET_ERRNO | 2, 0));
	SHOW(syscall(NOWHERE));
	SHOW(refuse(NOWHERE, SECCOMP_RET_TRACE, 0));
	SHOW(syscall(NOWHERE));
	SHOW(refuse(NOWHERE, SECCOMP_RET_ALLOW, 0));
	SHOW(syscall(NOWHERE));
	signal(SIGSYS, SIG_IGN);
	SHOW(refuse(SYS_seccomp, SECCOMP_RET_ERRNO | 33, 0));
	SHOW(refuse(NOWHERE, SECCOMP_RET_KILL_PROCESS, 0));
	SHOW(prctl(PR_GET_SECCOMP));
	SHOW(refuse(NOWHERE, SECCOMP_RET_ALLOW, 0));
}

static void heirs(void)
{
	show_status("at first");
	no_privileges();
	SHOW(refuse(NOWHERE, SECCOMP_RET_ERRNO | 11, 0));
	SHOW(refuse(NOWHERE + 1, SECCOMP_RET_ERRNO | 12, 0));
	show_status("then");
	pid_t pid = must_fork();
	if (pid == 0) {
		shows("child");
		char *arguments[] = { "seccomp", "heir", NULL };
		execv("/proc/self/exe", arguments);
		_exit(9);
	}
	wait_for(pid);
	pthread_t thread;
	pthread_create(&thread, NULL, shows, "thread");
	pthread_join(thread, NULL);
}

static void strict(void)
{
	int fds[2];
	pipe(fds);
	write(fds[1], "x", 1);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	char byte;
	long n = syscall(SYS_read, fds[0], &byte, 1);
	syscall(SYS_write, 1, n == 1 ? "read and write\n" : "nothing read\n", n == 1 ? 15 : 13);
	syscall(SYS_exit, 4);
}

static void strict_refuses(void)
{
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	syscall(SYS_getppid);
	syscall(SYS_exit, 5);
}

static volatile int rang;

static void on_alarm(int number)
{
	rang = number;
	static const char text[] = "a handler, and back\n";
	syscall(SYS_write, 1, text, sizeof text - 1);
}

static void strict_returns(void)
{
	signal(SIGALRM, on_alarm);
	alarm(1);
	SHOW(seccomp(SECCOMP_SET_MODE_STRICT, 0, NULL));
	char byte;
	while (!rang)
		syscall(SYS_read, -1, &byte, 1);
	syscall(SYS_exit, 6);
}

static void strict_exits_the_group(void)
{
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	_exit(7);
}

/* What a signal file says of a refused call. */
static void file_of_signals(void)
{
	section("a signal file");
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, 0);
	siginfo_t info = { .si_signo = SIGSYS, .si_code = 1, .si_errno = 5 };
	info.si_call_addr = (void *)0x123456789a, info.si_syscall = 39, info.si_arch = AUDIT_ARCH_X86_64;
	SHOW(syscall(SYS_rt_sigqueueinfo, getpid(), SIGSYS, &info));
	struct signalfd_siginfo read_info = { 0 };
	SHOW(read(fd, &read_info, sizeof read_info));
	say("%u %d %d pid %u address %llx call %d machine %x", read_info.ssi_signo, read_info.ssi_code, read_info.ssi_errno, read_info.ssi_pid,
	    (unsigned long long)read_info.ssi_call_addr, read_info.ssi_syscall, read_info.ssi_arch);
	close(fd);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "heir")) {
		shows("its program");
		return 0;
	}
	verdicts();
	section("traps");
	in_child("handled", traps);
	in_child("blocked", trap_blocked);
	in_child("ignored", trap_ignored);
	in_child("killed with a handler", kill_handled);
	section("what a filter sees");
	in_child("words", sees);
	section("several");
	in_child("several", several);
	section("heirs");
	in_child("heirs", heirs);
	section("strict");
	in_child("allowed calls", strict);
	in_child("another", strict_refuses);
	in_child("a handler", strict_returns);
	in_child("exit_group", strict_exits_the_group);
	file_of_signals();
	return 0;
}
