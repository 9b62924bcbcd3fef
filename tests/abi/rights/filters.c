/* seccomp: which programs are taken, from whom, and how many there is room for. */
#include "rights/seccomp.h"

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
	SHOW(seccomp(SECCOMP_GET_ACTION_AVAIL, 0, &listens));
	SHOW(seccomp(SECCOMP_GET_NOTIF_SIZES, 1, sizes));
	SHOW(seccomp(SECCOMP_GET_NOTIF_SIZES, 0, NULL));
	SHOW(seccomp(SECCOMP_GET_NOTIF_SIZES, 0, sizes));
	say("%u %u %u", sizes[0], sizes[1], sizes[2]);
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

int main(void)
{
	in_child("programs", programs);
	in_child("rights", rights);
	actions();
	room();
	return 0;
}
