/*
 * Every system call, and each of its variants that takes another path, as a case: what one operation is, and on which objects.
 *
 * A case is a row of a table: RAW where the operation is one call with fixed arguments, OP where it is a function. It runs in up to
 * three forms: P, a process per worker with objects of its own; T, threads of one process, each with objects of its own; O, all workers on
 * the one object that the call is about (OT: these are threads). What a worker's objects are, a case's setup says.
 *
 * Invariant: between the markers a worker does its operations alone, and what it writes outside of the kernel's objects is its own page.
 */
#ifndef CALLS_H
#define CALLS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/xattr.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_set_mempolicy_home_node
#define SYS_set_mempolicy_home_node 450
#endif
#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif
#ifndef SYS_fsopen
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#define SYS_fspick 433
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_statmount
#define SYS_statmount 457
#define SYS_listmount 458
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_futex_wake
#define SYS_futex_wake 454
#define SYS_futex_wait 455
#define SYS_futex_requeue 456
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

enum { P = 1, T = 2, O = 4, OT = 8 | O, PT = P | T, PTO = P | T | O };
/* With O: the workers use one open description, not one each. */
enum { SAME = 16 };
/* The worker's pages lie below one table with the area that all workers share, which the bench maps. */
enum { BESIDE = 32 };

struct work;

struct kase {
	const char *name, *call;
	unsigned forms;
	void (*setup)(struct work *);
	long (*op)(struct work *);
	long number;          /* RAW: the call, and its arguments */
	long v[6];
	int expect;           /* 0: it must succeed; ANY; or the errno that it must fail with */
	unsigned part;        /* a dear operation: so many times fewer of them */
	void (*join)(struct work *); /* O: what each worker does with the one object */
};
enum { ANY = -1 };

/* One worker. */
struct work {
	const struct kase *k;
	unsigned i;
	int one;
	char *buf;            /* a page of its own: results at its beginning, constants behind (enum constants) */
	char dir[48], path[64], own[64], own2[64];
	int fd, fd2;
	char *map;
	unsigned long len;
	long pid;
	long x[4];
	long arg[6];
};

/* Arguments of RAW that each worker has its own of. */
#define TAG(kind, offset) (0x7a6b000000000000L + ((long)(kind) << 32) + (offset))
enum { TAG_BUF = 1, TAG_MAP, TAG_FD, TAG_FD2, TAG_DIR, TAG_PATH, TAG_OWN, TAG_OWN2, TAG_PID, TAG_TID, TAG_PPID, TAG_LEN, TAG_X, TAG_CHILD };
#define BUF(offset) TAG(TAG_BUF, offset)
#define MAP(offset) TAG(TAG_MAP, offset)
#define FD TAG(TAG_FD, 0)
#define FD2 TAG(TAG_FD2, 0)
#define DIRECTORY TAG(TAG_DIR, 0)
#define PATH TAG(TAG_PATH, 0)
#define OWN TAG(TAG_OWN, 0)
#define OWN2 TAG(TAG_OWN2, 0)
#define PID TAG(TAG_PID, 0)
#define TID TAG(TAG_TID, 0)
#define PPID TAG(TAG_PPID, 0)
#define LEN TAG(TAG_LEN, 0)
#define CHILD TAG(TAG_CHILD, 0)
#define X(index) TAG(TAG_X, index)
#define TEXT(text) ((long)(text))

/* What stands in a worker's page. */
enum constants {
	C_ZERO = 2048, C_50US = 2064, C_HOUR = 2080, C_OFF = 2112, C_ITIMER = 2144, C_USR1 = 2176, C_NONE = 2184, C_IOV = 2208,
	C_RLIMIT = 2272, C_IGNORE = 2304, C_POLL = 2368, C_EVENT = 2400, C_CAPS = 2464, C_CAPDATA = 2480, C_SIGEV = 2688,
	C_PARAM = 2752, C_ATTR = 2784, C_LOCK = 3040, C_UNLOCK = 3080, C_MASK = 3136, C_WORD = 3200, C_WORD2 = 3264, C_INFO = 3328,
	C_STACK = 3472, C_ROBUST = 3520, C_SPLIT = 3584, C_NOW = 3648, C_DEADLINE = 3712,
};

/* Rows. tests/table reads them: each names its case and its call at the beginning of a line. */
#define RAW(name, call, forms, setup, ...) { name, #call, forms, setup, op_raw, SYS_##call, { __VA_ARGS__ }, 0, 0, 0 }
#define FAILS(name, call, forms, setup, errno, ...) { name, #call, forms, setup, op_raw, SYS_##call, { __VA_ARGS__ }, errno, 0, 0 }
#define OP(name, call, forms, setup, op, ...) { name, #call, forms, setup, op, 0, { __VA_ARGS__ }, 0, 0, 0 }
#define DEAR(name, call, forms, setup, op, ...) { name, #call, forms, setup, op, 0, { __VA_ARGS__ }, 0, 8, 0 }
#define END { 0, 0, 0, 0, 0, 0, { 0 }, 0, 0, 0 }

extern const struct kase ids[], files[], names[], memory[], faults[], process[], signals[], clocks[], waits[], descriptors[], sockets[], ipc[];

long op_raw(struct work *);
_Noreturn void wrong(const struct work *, long result);
/* The operation must succeed. */
static inline long ok(const struct work *w, long result)
{
	if (__builtin_expect(result < 0, 0))
		wrong(w, result);
	return result;
}

/* What a process does that is to share nothing with the others, main.c. */
void own_streams(void);
void own_table(void);

/* Setups, main.c. Directories, the file (64 KiB, open as fd), names beside it. */
void s_dir(struct work *);
void s_file(struct work *);
void s_attribute(struct work *);
void s_names(struct work *);
void s_link(struct work *);
void s_map(struct work *);
void s_shared(struct work *);
void s_pipe(struct work *);
void s_child(struct work *);
void s_handler(struct work *);

#endif
