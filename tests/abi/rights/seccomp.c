/* seccomp: which programs are taken, what their verdicts do, who has them after fork, exec and thread creation, and strict mode. */
#include "t.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <ucontext.h>

/* Of Linux's headers, which musl comes without. */
struct sock_filter { unsigned short code; unsigned char jt, jf; unsigned k; };
struct sock_fprog { unsigned short len; struct sock_filter *code; };
struct seccomp_data { int nr; unsigned arch; unsigned long instruction_pointer, args[6]; };
#define BPF_STMT(code, k) { code, 0, 0, k }
#define BPF_JUMP(code, k, jt, jf) { code, jt, jf, k }
enum {
	BPF_LD = 0, BPF_LDX = 1, BPF_ST = 2, BPF_STX = 3, BPF_ALU = 4, BPF_JMP = 5, BPF_RET = 6, BPF_MISC = 7, BPF_W = 0, BPF_IMM = 0, BPF_ABS = 0x20,
	BPF_MEM = 0x60, BPF_LEN = 0x80, BPF_DIV = 0x30, BPF_LSH = 0x60, BPF_NEG = 0x80, BPF_JA = 0, BPF_JEQ = 0x10, BPF_JGT = 0x20, BPF_JGE = 0x30,
	BPF_JSET = 0x40, BPF_K = 0, BPF_X = 8, BPF_A = 0x10, BPF_TAX = 0, BPF_TXA = 0x80
};
enum { SECCOMP_SET_MODE_STRICT, SECCOMP_SET_MODE_FILTER, SECCOMP_GET_ACTION_AVAIL, SECCOMP_GET_NOTIF_SIZES };
enum { SECCOMP_MODE_STRICT = 1, SECCOMP_MODE_FILTER };
enum { SECCOMP_FILTER_FLAG_TSYNC = 1, SECCOMP_FILTER_FLAG_LOG = 2, SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4, SECCOMP_FILTER_FLAG_TSYNC_ESRCH = 16 };
#define SECCOMP_RET_KILL_PROCESS 0x80000000u
#define SECCOMP_RET_KILL_THREAD 0u
#define SECCOMP_RET_TRAP 0x00030000u
#define SECCOMP_RET_ERRNO 0x00050000u
#define SECCOMP_RET_USER_NOTIF 0x7fc00000u
#define SECCOMP_RET_TRACE 0x7ff00000u
#define SECCOMP_RET_LOG 0x7ffc0000u
#define SECCOMP_RET_ALLOW 0x7fff0000u
#define AUDIT_ARCH_X86_64 0xc000003eu

#define N(array) (sizeof(array) / sizeof *(array))
/* A call that no kernel has, for filters to refuse. */
enum { NOWHERE = 5000 };

static long seccomp(unsigned operation, unsigned flags, void *argument)
{
	return syscall(SYS_seccomp, operation, flags, argument);
}

static long take(struct sock_filter *code, unsigned len, unsigned flags)
{
	struct sock_fprog program = { (unsigned short)len, code };
	errno = 0;
	return seccomp(SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* `verdict` for call `number`, and everything else is allowed. */
static long refuse(int number, unsigned verdict, unsigned flags)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, verdict),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	return take(code, N(code), flags);
}

static void no_privileges(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Which codes are taken with `k` as their constant: all of a byte, and those with one bit above. */
static void codes_with(unsigned k)
{
	int fds[2];
	if (pipe(fds))
		return;
	pid_t pid = must_fork();
	if (pid == 0) {
		char text[4000];
		int len = 0;
		for (unsigned code = 0; code < 65536; code += code < 256 ? 1 : code) {
			struct sock_filter program[] = {
				BPF_STMT(BPF_ST, 0), { (unsigned short)code, 0, 0, k }, BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
				BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
			};
			if (take(program, N(program), 0) == 0)
				len += snprintf(text + len, sizeof text - (size_t)len, " %x", code);
			else if (errno != EINVAL)
				len += snprintf(text + len, sizeof text - (size_t)len, " %x:%s", code, error_name(errno));
		}
		write(fds[1], text, (size_t)len);
		_exit(0);
	}
	close(fds[1]);
	static char text[4001];
	ssize_t len = 0, n;
	while ((n = read(fds[0], text + len, sizeof text - 1 - (size_t)len)) > 0)
		len += n;
	text[len] = 0;
	close(fds[0]);
	wait_for(pid);
	say("codes with constant %u:%s", k, text);
}

static void programs(void)
{
	section("which programs are taken");
	codes_with(0);
	codes_with(4);
	codes_with(15);
	codes_with(16);
	codes_with(31);
	codes_with(32);
	codes_with(60);
	codes_with(64);
	codes_with(0xfffff000);
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	SHOW(take(allow, 0, 0));
	SHOW(take(allow, 4097, 0));
	SHOW(take(NULL, 1, 0));
	SHOW(seccomp(SECCOMP_SET_MODE_FILTER, 0, NULL));
	SHOW(seccomp(SECCOMP_SET_MODE_FILTER, 0, (void *)1));
	static struct sock_filter many[4097];
	for (unsigned n = 0; n < N(many); n++)
		many[n] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	SHOW(take(many, 4096, 0));
	struct sock_filter endless[] = { BPF_STMT(BPF_LD | BPF_IMM, 1) };
	SHOW(take(endless, 1, 0));
	struct sock_filter out[] = { BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 1, 0), BPF_STMT(BPF_RET | BPF_A, 0) };
	SHOW(take(out, 2, 0));
	out[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 255);
	SHOW(take(out, 2, 0));
	out[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0);
	SHOW(take(out, 2, 0));
	struct sock_filter cell[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 1, 0), BPF_STMT(BPF_ST, 3), BPF_STMT(BPF_LD | BPF_MEM, 3),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	SHOW(take(cell, 4, 0));
	cell[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
	SHOW(take(cell, 4, 0));
}

static void rights(void)
{
	section("who may");
	SHOW(prctl(PR_GET_SECCOMP));
	SHOW(refuse(NOWHERE, SECCOMP_RET_ERRNO | 7, 0));
	SHOW(prctl(PR_GET_SECCOMP));
	setresuid(1000, 1000, 1000);
	SHOW(refuse(NOWHERE, SECCOMP_RET_ERRNO | 8, 0));
	/* The length comes first, the rights next, the code last. */
	struct sock_fprog program = { 0, NULL };
	SHOW(seccomp(SECCOMP_SET_MODE_FILTER, 0, &program));
	program.len = 1;
	SHOW(seccomp(SECCOMP_SET_MODE_FILTER, 0, &program));
	SHOW(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	no_privileges();
	SHOW(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	SHOW(refuse(NOWHERE, SECCOMP_RET_ERRNO | 8, 0));
	SHOW(syscall(NOWHERE));
	SHOW(seccomp(SECCOMP_SET_MODE_FILTER, 64, &program));
	SHOW(seccomp(SECCOMP_SET_MODE_FILTER, ~0u, &program));
	SHOW(seccomp(SECCOMP_SET_MODE_STRICT, 1, NULL));
	SHOW(seccomp(SECCOMP_SET_MODE_STRICT, 0, &program));
	SHOW(seccomp(SECCOMP_SET_MODE_STRICT, 0, NULL));
	SHOW(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0));
	SHOW(prctl(PR_SET_SECCOMP, 0, 0));
	SHOW(prctl(PR_SET_SECCOMP, 3, 0));
	SHOW(seccomp(4, 0, &program));
	SHOW(seccomp(~0u, 0, &program));
	SHOW(refuse(NOWHERE, SECCOMP_RET_ERRNO | 9, SECCOMP_FILTER_FLAG_LOG | SECCOMP_FILTER_FLAG_SPEC_ALLOW));
	SHOW(refuse(NOWHERE, SECCOMP_RET_ERRNO | 9, SECCOMP_FILTER_FLAG_TSYNC_ESRCH));
	SHOW(syscall(NOWHERE));
}

static void actions(void)
{
	section("actions that there are");
	static const unsigned known[] = {
		SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP, SECCOMP_RET_ERRNO, SECCOMP_RET_TRACE, SECCOMP_RET_LOG,
		SECCOMP_RET_ALLOW, 1, 0x7ffe0000, 0x00040000,
	};
	for (unsigned n = 0; n < N(known); n++) {
		unsigned action = known[n];
		say("%08x", action);
		SHOW(seccomp(SECCOMP_GET_ACTION_AVAIL, 0, &action));
		SHOW(seccomp(SECCOMP_GET_ACTION_AVAIL, 1, &action));
	}
	SHOW(seccomp(SECCOMP_GET_ACTION_AVAIL, 0, NULL));
	unsigned listens = SECCOMP_RET_USER_NOTIF;
	unsigned short sizes[3];
	MISSING(seccomp(SECCOMP_GET_ACTION_AVAIL, 0, &listens), EOPNOTSUPP);
	MISSING(seccomp(SECCOMP_GET_NOTIF_SIZES, 0, sizes), EINVAL);
}

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

static void show_status(const char *who)
{
	char *text = read_file("/proc/thread-self/status");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strncmp(line, "Seccomp", 7) || !strncmp(line, "NoNewPrivs", 10))
			say("%s: %s", who, line);
	free(text);
}

static void *shows(void *who)
{
	show_status(who);
	SHOW(syscall(NOWHERE));
	SHOW(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	return NULL;
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

static pthread_barrier_t together;
static volatile pid_t other;

static void *follows(void *stray)
{
	other = (pid_t)syscall(SYS_gettid);
	if (stray)
		refuse(NOWHERE + 1, SECCOMP_RET_ERRNO | 21, 0);
	pthread_barrier_wait(&together);
	pthread_barrier_wait(&together);
	shows("the other");
	return NULL;
}

static void for_all(int is_stray)
{
	pthread_t thread;
	pthread_barrier_init(&together, NULL, 2);
	if (is_stray)
		no_privileges();
	pthread_create(&thread, NULL, follows, is_stray ? "" : NULL);
	pthread_barrier_wait(&together);
	no_privileges();
	SHOW(refuse(NOWHERE + 2, SECCOMP_RET_ERRNO | 23, 0));
	long result = refuse(NOWHERE, SECCOMP_RET_ERRNO | 22, SECCOMP_FILTER_FLAG_TSYNC);
	say("for all: %s", result == 0 ? "done" : result == other ? "the other" : error_name(errno));
	result = refuse(NOWHERE, SECCOMP_RET_ERRNO | 22, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH);
	say("for all: %s", result == 0 ? "done" : result == other ? "the other" : error_name(errno));
	pthread_barrier_wait(&together);
	pthread_join(thread, NULL);
	shows("the caller");
}

static void of_all(void)
{
	for_all(0);
}

static void of_strays(void)
{
	for_all(1);
}

/* Threads that are made while all get a filter have it too, whoever makes them. */
enum { MAKERS = 4, MADE = 24, ROUNDS = 10 };
static volatile int filtered;
static volatile int free_ones;

static void *is_filtered(void *unused)
{
	(void)unused;
	while (!filtered)
		sched_yield();
	if (syscall(NOWHERE) != -1 || errno != 22)
		__atomic_fetch_add(&free_ones, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void *makes(void *unused)
{
	(void)unused;
	pthread_t made[MADE];
	for (int n = 0; n < MADE; n++)
		pthread_create(&made[n], NULL, is_filtered, NULL);
	is_filtered(NULL);
	for (int n = 0; n < MADE; n++)
		pthread_join(made[n], NULL);
	return NULL;
}

static void among_makers(void)
{
	no_privileges();
	pthread_t makers[MAKERS];
	for (int n = 0; n < MAKERS; n++)
		pthread_create(&makers[n], NULL, makes, NULL);
	long result = refuse(NOWHERE, SECCOMP_RET_ERRNO | 22, SECCOMP_FILTER_FLAG_TSYNC);
	filtered = 1;
	for (int n = 0; n < MAKERS; n++)
		pthread_join(makers[n], NULL);
	if (result || free_ones)
		say("%d of %d are free, %ld", free_ones, MAKERS * (MADE + 1), result);
}

static void among_makers_again(void)
{
	for (int n = 0; n < ROUNDS; n++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			among_makers();
			_exit(0);
		}
		int status = wait_for(pid);
		if (status)
			say("%s", status_text(status));
	}
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

/* How many filters of one kind there is room for. */
static struct sock_filter *kind;
static unsigned kind_len;

static void fills(void)
{
	no_privileges();
	int n = 0;
	while (take(kind, kind_len, 0) == 0)
		n++;
	int error = errno;
	say("%d, then %s", n, error_name(error));
}

static void room(void)
{
	section("room");
	struct sock_filter loads[100];
	for (unsigned n = 0; n < N(loads); n++)
		loads[n] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, n);
	loads[N(loads) - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_filter jumps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 5, 0, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 5, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 5, 0, 1), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 5, 0, 1), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_X, 5, 1, 1),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x80000000, 1, 1), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 0xffffffff, 0, 0), BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_filter sums[] = {
		BPF_STMT(BPF_LDX | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_LD | BPF_IMM, 7), BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 3),
		BPF_STMT(BPF_ALU | BPF_LSH | BPF_X, 0), BPF_STMT(BPF_ALU | BPF_NEG, 0), BPF_STMT(BPF_STX, 3), BPF_STMT(BPF_LD | BPF_MEM, 3), BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_MISC | BPF_TXA, 0), BPF_STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_A, 0),
	};
	kind = loads, kind_len = N(loads);
	in_child("loads", fills);
	kind = jumps, kind_len = N(jumps);
	in_child("jumps", fills);
	kind = sums, kind_len = N(sums);
	in_child("sums", fills);
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
	in_child("programs", programs);
	in_child("rights", rights);
	actions();
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
	section("for all threads");
	in_child("all", of_all);
	in_child("one has others", of_strays);
	in_child("while threads are made", among_makers_again);
	section("strict");
	in_child("allowed calls", strict);
	in_child("another", strict_refuses);
	in_child("a handler", strict_returns);
	in_child("exit_group", strict_exits_the_group);
	room();
	file_of_signals();
	return 0;
}
