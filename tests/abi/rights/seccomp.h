/* Filters of system calls, as programs of Linux's headers would make them. */
#pragma once
#include "t.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>

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

/* What the caller says of its filters, and what they do. */
static inline void show_status(const char *who)
{
	char *text = read_file("/proc/thread-self/status");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strncmp(line, "Seccomp", 7) || !strncmp(line, "NoNewPrivs", 10))
			say("%s: %s", who, line);
	free(text);
}

static inline void *shows(void *who)
{
	show_status(who);
	SHOW(syscall(NOWHERE));
	SHOW(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	return NULL;
}
