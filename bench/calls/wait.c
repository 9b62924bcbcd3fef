/* Waiting: poll, select, epoll and futexes. What is waited for is a pipe: never ready, or ready at once. */
#include "calls.h"

#include <poll.h>
#include <sys/epoll.h>
#include <time.h>

static void s_ready(struct work *w)
{
	s_pipe(w);
	ok(w, write(w->fd2, "x", 1));
}

static long op_select(struct work *w)
{
	unsigned long *set = (unsigned long *)w->buf;
	memset(set, 0, 128);
	set[w->fd / 64] |= 1ul << w->fd % 64;
	struct timespec *zero = (struct timespec *)(w->buf + w->k->v[1]);
	struct timespec limit = { zero->tv_sec, w->k->v[0] == SYS_select ? zero->tv_nsec / 1000 : zero->tv_nsec };
	return ok(w, syscall(w->k->v[0], w->fd + 1, set, 0, 0, &limit, 0));
}

static long op_poll_late(struct work *w)
{
	struct timespec limit = { 0, 50000 };
	return ok(w, syscall(SYS_ppoll, w->buf + C_POLL, 1, &limit, w->buf + C_NONE, 8));
}

/* One epoll file that watches the pipe's reading end: x[0]. */
static void watch(struct work *w, unsigned how)
{
	w->x[0] = ok(w, syscall(SYS_epoll_create1, 0));
	struct epoll_event event = { .events = EPOLLIN | how };
	ok(w, syscall(SYS_epoll_ctl, w->x[0], EPOLL_CTL_ADD, w->fd, &event));
}

static void s_epoll(struct work *w)
{
	s_pipe(w);
	watch(w, 0);
}

static void s_epoll_ready(struct work *w)
{
	s_ready(w);
	watch(w, 0);
}

static void s_epoll_edge(struct work *w)
{
	s_pipe(w);
	watch(w, EPOLLET);
}

static long op_epoll_edge(struct work *w)
{
	ok(w, write(w->fd2, "x", 1));
	ok(w, syscall(SYS_epoll_wait, w->x[0], w->buf, 1, 0));
	return ok(w, read(w->fd, w->buf, 1));
}

static void s_epoll_empty(struct work *w)
{
	s_pipe(w);
	w->x[0] = ok(w, syscall(SYS_epoll_create1, 0));
}

static long op_epoll_add(struct work *w)
{
	ok(w, syscall(SYS_epoll_ctl, w->x[0], EPOLL_CTL_ADD, w->fd, w->buf + C_EVENT));
	return ok(w, syscall(SYS_epoll_ctl, w->x[0], EPOLL_CTL_DEL, w->fd, 0));
}

/* In the one epoll file each worker has a pipe of its own. */
static void j_pipe(struct work *w)
{
	s_pipe(w);
}

static long op_epoll_create(struct work *w)
{
	return close((int)ok(w, syscall(w->k->v[0], w->k->v[1])));
}

/* The word: the worker's own, or in `one` a word of one shared page. */
static void *word(struct work *w)
{
	return w->map ? (void *)w->map : (void *)(w->buf + C_WORD);
}

static long op_futex(struct work *w)
{
	long result = syscall(SYS_futex, word(w), w->k->v[0], w->k->v[1], w->k->v[2] ? w->buf + w->k->v[2] : 0, w->buf + C_WORD2, w->k->v[3]);
	if (w->k->v[4] ? result != -1 || errno != w->k->v[4] : result < 0)
		wrong(w, result);
	return 0;
}

/* Requeue: v[2] is how many, not a time. */
static long op_requeue(struct work *w)
{
	return ok(w, syscall(SYS_futex, word(w), w->k->v[0], 1, 1, w->buf + C_WORD2, 0));
}

/* Waits on four words, the last of which has changed (v[0]), or up to a moment. */
static long op_waitv(struct work *w)
{
	struct { uint64_t value, address; uint32_t flags, reserved; } list[4];
	struct timespec until;
	for (int n = 0; n < 4; n++) {
		list[n].value = n == 3 && w->k->v[0], list[n].address = (uint64_t)(uintptr_t)word(w) + 4 * (unsigned)n;
		list[n].flags = (uint32_t)w->k->v[1], list[n].reserved = 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += 50000;
	until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
	if (syscall(SYS_futex_waitv, list, 4, 0, &until, CLOCK_MONOTONIC) != -1 || errno != (int)w->k->v[2])
		wrong(w, -1);
	return 0;
}

static long op_futex_wait(struct work *w)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += 50000;
	until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
	if (syscall(SYS_futex_wait, word(w), w->k->v[0], -1u, w->k->v[1], &until, CLOCK_MONOTONIC) != -1 || errno != (int)w->k->v[2])
		wrong(w, -1);
	return 0;
}

static long op_futex_wake(struct work *w)
{
	return ok(w, syscall(SYS_futex_wake, word(w), -1u, 1, w->k->v[0]));
}

static long op_futex_requeue(struct work *w)
{
	struct { uint64_t value, address; uint32_t flags, reserved; } list[2];
	for (int n = 0; n < 2; n++) {
		list[n].value = 0, list[n].address = (uint64_t)(uintptr_t)word(w) + 4 * (unsigned)n;
		list[n].flags = (uint32_t)w->k->v[0], list[n].reserved = 0;
	}
	return ok(w, syscall(SYS_futex_requeue, list, 0, 1, 1));
}

/* A futex that lends priority, through the kernel: the word is v[1] before. */
static long op_pi(struct work *w)
{
	unsigned *at = (unsigned *)(w->buf + C_WORD);
	*at = (unsigned)w->k->v[1];
	/* Not every kernel has it. */
	if (syscall(SYS_futex, at, w->k->v[0], 0, 0, 0, 0) != 0 && errno == ENOSYS)
		return 0;
	return ok(w, syscall(SYS_futex, at, 7 | 128, 0, 0, 0, 0));
}

/* One that another thread of the worker's process has, x[0]. */
static long op_pi_held(struct work *w)
{
	*(unsigned *)(w->buf + C_WORD) = (unsigned)w->x[0];
	return op_futex(w);
}

/* Nobody waits to be moved to one. */
static long op_pi_requeue(struct work *w)
{
	if (syscall(SYS_futex, word(w), 12 | 128, 1, 1, w->buf + C_WORD2, 0) < 0 && errno != ENOSYS)
		wrong(w, -1);
	return 0;
}

/* Two threads of one CPU hand a word to and fro. */
struct pair {
	struct work *w;
	volatile int turn;
};

int clone(int (*)(void *), void *, int, void *, ...);

static int partner(void *argument)
{
	volatile int *turn = argument;
	for (;;) {
		while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != 1)
			syscall(SYS_futex, turn, 128, 0, 0, 0, 0);
		__atomic_store_n(turn, 0, __ATOMIC_RELEASE);
		syscall(SYS_futex, turn, 129, 1, 0, 0, 0);
	}
	return 0;
}

static void s_partner(struct work *w)
{
	s_map(w);
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	memset(w->buf + C_WORD, 0, 4);
	ok(w, clone(partner, w->map + w->len, flags, w->buf + C_WORD));
}

static int owner(void *argument)
{
	for (;;)
		syscall(SYS_futex, argument, 128, 0, 0, 0, 0);
	return 0;
}

static void s_owner(struct work *w)
{
	s_map(w);
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	memset(w->buf + C_WORD2, 0, 4);
	w->x[0] = ok(w, clone(owner, w->map + w->len, flags, w->buf + C_WORD2));
	w->map = 0;
}

static long op_handoff(struct work *w)
{
	volatile int *turn = (volatile int *)(w->buf + C_WORD);
	__atomic_store_n(turn, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, turn, 129, 1, 0, 0, 0);
	while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != 0)
		syscall(SYS_futex, turn, 128, 1, 0, 0, 0);
	return 0;
}

/* Two processes of one CPU hand a byte to and fro by pipes. */
static void s_echo(struct work *w)
{
	int there[2], back[2];
	ok(w, pipe(there));
	ok(w, pipe(back));
	if (ok(w, fork()) == 0) {
		char byte;
		close(there[1]);
		while (read(there[0], &byte, 1) == 1)
			(void)!write(back[1], &byte, 1);
		_exit(0);
	}
	close(there[0]);
	w->fd = back[0], w->fd2 = there[1];
}

static long op_echo(struct work *w)
{
	ok(w, write(w->fd2, "x", 1));
	return ok(w, read(w->fd, w->buf, 1));
}

#define PRIVATE 128

const struct kase waits[] = {
	RAW("poll-nothing", poll, PTO | SAME, s_pipe, BUF(C_POLL), 1, 0),
	RAW("poll-ready", poll, PTO | SAME, s_ready, BUF(C_POLL), 1, -1),
	RAW("poll-two", poll, PT, s_ready, BUF(C_POLL), 2, -1),
	RAW("poll-late", poll, PT, s_pipe, BUF(C_POLL), 1, 1),
	RAW("ppoll-nothing", ppoll, PT, s_pipe, BUF(C_POLL), 1, BUF(C_ZERO), BUF(C_NONE), 8),
	RAW("ppoll-ready", ppoll, PT, s_ready, BUF(C_POLL), 1, 0, BUF(C_NONE), 8),
	OP("ppoll-late", ppoll, PTO | SAME, s_pipe, op_poll_late),
	OP("select-nothing", select, PT, s_pipe, op_select, SYS_select, C_ZERO),
	OP("select-ready", select, PT, s_ready, op_select, SYS_select, C_HOUR),
	OP("select-late", select, PT, s_pipe, op_select, SYS_select, C_50US),
	OP("pselect6-nothing", pselect6, PT, s_pipe, op_select, SYS_pselect6, C_ZERO),
	OP("pselect6-ready", pselect6, PT, s_ready, op_select, SYS_pselect6, C_HOUR),
	OP("pselect6-late", pselect6, PT, s_pipe, op_select, SYS_pselect6, C_50US),
	OP("epoll_create", epoll_create, PT, 0, op_epoll_create, SYS_epoll_create, 1),
	OP("epoll_create1", epoll_create1, PT, 0, op_epoll_create, SYS_epoll_create1, 0),
	OP("epoll_ctl-add", epoll_ctl, PT, s_epoll_empty, op_epoll_add),
	{ "epoll_ctl-add-one", "epoll_ctl", O | SAME, s_epoll_empty, op_epoll_add, 0, { 0 }, 0, 0, j_pipe },
	RAW("epoll_ctl-mod", epoll_ctl, PTO | SAME, s_epoll, X(0), 3, FD, BUF(C_EVENT)),
	RAW("epoll_wait-nothing", epoll_wait, PTO | SAME, s_epoll, X(0), BUF(0), 4, 0),
	RAW("epoll_wait-ready", epoll_wait, PTO | SAME, s_epoll_ready, X(0), BUF(0), 4, -1),
	RAW("epoll_wait-late", epoll_wait, PT, s_epoll, X(0), BUF(0), 4, 1),
	OP("epoll_wait-edge", epoll_wait, PT, s_epoll_edge, op_epoll_edge),
	RAW("epoll_pwait", epoll_pwait, PT, s_epoll_ready, X(0), BUF(0), 4, -1, BUF(C_NONE), 8),
	RAW("epoll_pwait2-nothing", epoll_pwait2, PT, s_epoll, X(0), BUF(0), 4, BUF(C_ZERO), 0, 8),
	RAW("epoll_pwait2-late", epoll_pwait2, PT, s_epoll, X(0), BUF(0), 4, BUF(C_50US), 0, 8),
	OP("futex-wait-changed", futex, PT, 0, op_futex, 0 | PRIVATE, 1, 0, 0, EAGAIN),
	OP("futex-wait-late", futex, PT, 0, op_futex, 0 | PRIVATE, 0, C_50US, 0, ETIMEDOUT),
	OP("futex-wait-shared-changed", futex, PTO, s_shared, op_futex, 0, 1, 0, 0, EAGAIN),
	OP("futex-wait-shared-late", futex, PTO, s_shared, op_futex, 0, 0, C_50US, 0, ETIMEDOUT),
	OP("futex_waitv-changed", futex_waitv, PT, 0, op_waitv, 1, 2 | PRIVATE, EAGAIN),
	OP("futex_waitv-late", futex_waitv, PT, 0, op_waitv, 0, 2 | PRIVATE, ETIMEDOUT),
	OP("futex_waitv-shared-changed", futex_waitv, PTO, s_shared, op_waitv, 1, 2, EAGAIN),
	OP("futex_wait-changed", futex_wait, PT, 0, op_futex_wait, 1, 2 | PRIVATE, EAGAIN),
	OP("futex_wait-late", futex_wait, PT, 0, op_futex_wait, 0, 2 | PRIVATE, ETIMEDOUT),
	OP("futex_wake-none", futex_wake, PT, 0, op_futex_wake, 2 | PRIVATE),
	OP("futex_wake-shared-none", futex_wake, PTO, s_shared, op_futex_wake, 2),
	OP("futex_requeue-none", futex_requeue, PT, 0, op_futex_requeue, 2 | PRIVATE),
	OP("futex-wake-none", futex, PT, 0, op_futex, 1 | PRIVATE, 1),
	OP("futex-wake-shared-none", futex, PTO, s_shared, op_futex, 1, 1),
	OP("futex-wait-bitset-late", futex, PT, 0, op_futex, 9 | PRIVATE, 0, C_50US, -1, ETIMEDOUT),
	OP("futex-wake-bitset", futex, PT, 0, op_futex, 10 | PRIVATE, 1, 0, -1),
	OP("futex-wake-op", futex, PT, 0, op_requeue, 5 | PRIVATE),
	OP("futex-requeue", futex, PT, 0, op_requeue, 3 | PRIVATE),
	OP("futex-cmp-requeue", futex, PT, 0, op_requeue, 4 | PRIVATE),
	OP("futex-lock-pi", futex, PT, 0, op_pi, 6 | PRIVATE),
	OP("futex-lock-pi-waiters", futex, PT, 0, op_pi, 6 | PRIVATE, 1l << 31),
	OP("futex-lock-pi-held", futex, PT, s_owner, op_pi_held, 6 | PRIVATE, 0, C_50US, 0, ETIMEDOUT),
	OP("futex-trylock-pi", futex, PT, 0, op_pi, 8 | PRIVATE),
	OP("futex-trylock-pi-held", futex, PT, s_owner, op_pi_held, 8 | PRIVATE, 0, 0, 0, EAGAIN),
	OP("futex-lock-pi2", futex, PT, 0, op_pi, 13 | PRIVATE),
	OP("futex-wait-requeue-pi-late", futex, PT, 0, op_futex, 11 | PRIVATE, 0, C_50US, 0, ETIMEDOUT),
	OP("futex-cmp-requeue-pi", futex, PT, 0, op_pi_requeue),
	OP("futex-handoff", futex, PT, s_partner, op_handoff),
	OP("pipe-echo", read, P, s_echo, op_echo),
	END
};
