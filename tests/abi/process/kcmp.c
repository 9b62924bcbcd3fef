/* kcmp: what two processes or threads have in common, and who may ask. */
#include "t.h"

#include <sys/epoll.h>
#include <sys/prctl.h>

enum { FILES_ = 0, VM = 1, TABLE = 2, FS = 3, SIGHAND = 4, IO = 5, SYSVSEM = 6, WATCHED = 7 };
#define KCMP(a, b, kind, x, y) syscall(SYS_kcmp, a, b, kind, x, y)

struct slot { uint32_t epoll, fd, before; };

/* "same", "other" (with an order that holds both ways, and each time), or the error. */
static const char *between(pid_t a, pid_t b, int kind, long x, long y)
{
	errno = 0;
	long there = KCMP(a, b, kind, x, y);
	if (there < 0)
		return error_name(errno);
	if (there == 0)
		return "same";
	long back = kind == WATCHED ? 3 - there : KCMP(b, a, kind, y, x);
	if (there + back != 3 || there > 2 || KCMP(a, b, kind, x, y) != there)
		return "no order";
	return "other";
}

static void all(const char *who, pid_t a, pid_t b)
{
	say("%s: memory %s, table %s, fs %s, actions %s, io %s, undo %s, file 1 %s", who, between(a, b, VM, 0, 0), between(a, b, TABLE, 0, 0),
	    between(a, b, FS, 0, 0), between(a, b, SIGHAND, 0, 0), between(a, b, IO, 0, 0), between(a, b, SYSVSEM, 0, 0), between(a, b, FILES_, 1, 1));
}

static char stacks[8][65536] __attribute__((aligned(16)));

static int waits(void *zero)
{
	(void)zero;
	for (;;)
		pause();
	return 0;
}

static pid_t made(int n, int flags)
{
	return clone(waits, stacks[n] + sizeof stacks[n], flags | SIGCHLD, NULL);
}

static void sharing(void)
{
	section("sharing");
	pid_t me = getpid();
	all("myself", me, me);
	static const int flags[] = { 0, CLONE_VM, CLONE_FILES, CLONE_FS, CLONE_VM | CLONE_SIGHAND, CLONE_VM | CLONE_FS, 0x80000000, CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND };
	pid_t made_by[8];
	for (int n = 0; n < 8; n++) {
		made_by[n] = made(n, flags[n]);
		char name[32];
		snprintf(name, sizeof name, "flags %#x", flags[n]);
		all(name, me, made_by[n]);
	}
	all("children", made_by[0], made_by[1]);
	for (int n = 0; n < 8; n++)
		kill(made_by[n], SIGKILL);
	for (int n = 0; n < 8; n++)
		waitpid(made_by[n], NULL, __WALL);
}

static void threads(void)
{
	section("threads");
	all("thread", getpid(), parked_thread());
	let_thread_go();
}

static void io(void)
{
	section("io");
	/* ioprio_set for one process: who has something said of it is told apart. */
	pid_t a = parked(NULL), b = parked(NULL);
	say("none: %s", between(a, b, IO, 0, 0));
	syscall(SYS_ioprio_set, 1, a, 2 << 13 | 4);
	say("one: %s", between(a, b, IO, 0, 0));
	syscall(SYS_ioprio_set, 1, b, 2 << 13 | 4);
	say("both: %s", between(a, b, IO, 0, 0));
	kill(a, SIGKILL), kill(b, SIGKILL);
	wait_for(a), wait_for(b);
}

static void files(void)
{
	section("files");
	pid_t me = getpid(), child;
	int fd = open("/dev/null", O_RDONLY), copy = dup(fd), again = open("/dev/null", O_RDONLY), place = open("/", O_PATH);
	say("a copy: %s", between(me, me, FILES_, fd, copy));
	say("opened again: %s", between(me, me, FILES_, fd, again));
	say("a place: %s, %s", between(me, me, FILES_, place, place), between(me, me, FILES_, place, fd));
	child = parked(NULL);
	say("inherited: %s, %s", between(me, child, FILES_, fd, copy), between(me, child, FILES_, fd, again));
	SHOW(KCMP(me, me, FILES_, fd, 99));
	SHOW(KCMP(me, me, FILES_, 99, fd));
	SHOW(KCMP(me, me, FILES_, -1L, fd));
	SHOW(KCMP(me, me, FILES_, fd, 1L << 32 | fd));
	SHOW(KCMP(me, child, FILES_, 99, 99));
	/* An order for three. */
	int least = fd, most = fd, list[3] = { fd, again, place };
	for (int n = 1; n < 3; n++) {
		if (KCMP(me, me, FILES_, list[n], least) == 1)
			least = list[n];
		if (KCMP(me, me, FILES_, list[n], most) == 2)
			most = list[n];
	}
	CHECK(KCMP(me, me, FILES_, least, most) == 1);

	section("epoll");
	int ends[2];
	pipe(ends);
	int set = epoll_create1(0), other = dup(ends[0]);
	struct epoll_event event = { .events = EPOLLIN };
	epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
	struct slot slot = { (uint32_t)set, (uint32_t)ends[0], 0 };
	say("watched: %s", between(me, me, WATCHED, ends[0], (long)&slot));
	say("its copy: %s", between(me, me, WATCHED, other, (long)&slot));
	say("another: %s", between(me, me, WATCHED, ends[1], (long)&slot));
	slot.before = 1;
	say("a second: %s", between(me, me, WATCHED, ends[0], (long)&slot));
	/* The number goes to another file, and both are watched by it. */
	dup2(fd, ends[0]);
	int pair[2];
	pipe(pair);
	dup2(pair[0], ends[0]);
	say("added: %d", epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
	slot.before = 0;
	const char *first = between(me, me, WATCHED, other, (long)&slot), *first_new = between(me, me, WATCHED, pair[0], (long)&slot);
	slot.before = 1;
	const char *second = between(me, me, WATCHED, other, (long)&slot), *second_new = between(me, me, WATCHED, pair[0], (long)&slot);
	CHECK(first != first_new && second != second_new && first != second);
	slot.before = 2;
	say("a third: %s", between(me, me, WATCHED, other, (long)&slot));
	slot = (struct slot){ (uint32_t)set, 99, 0 };
	say("not watched: %s", between(me, me, WATCHED, other, (long)&slot));
	slot.epoll = (uint32_t)fd;
	say("no epoll: %s", between(me, me, WATCHED, other, (long)&slot));
	slot.epoll = 99;
	say("no descriptor: %s", between(me, me, WATCHED, other, (long)&slot));
	SHOW(KCMP(me, me, WATCHED, 99, &slot));
	SHOW(KCMP(me, me, WATCHED, 99, 1L));
	SHOW(KCMP(me, me, WATCHED, other, 1L));
	kill(child, SIGKILL);
	wait_for(child);
}

static void as_user(void) { setgid(1000), setuid(1000), prctl(PR_SET_DUMPABLE, 1); }
static void as_other(void) { setgid(1000), setuid(1001), prctl(PR_SET_DUMPABLE, 1); }
static void hidden(void) { setgid(1000), setuid(1000); }

static pid_t list[4];

static void ask(void)
{
	as_user();
	for (int n = 0; n < 4; n++) {
		say("%d: %s, %s", n, between(getpid(), list[n], VM, 0, 0), between(list[n], getpid(), VM, 0, 0));
		say("%d: %s, %s", n, between(list[0], list[n], FILES_, 99, 99), between(list[n], list[n], 99, 0, 0));
	}
}

static void rights(void)
{
	section("rights");
	list[0] = parked(as_user), list[1] = parked(as_other), list[2] = parked(hidden), list[3] = parked(NULL);
	for (int n = 0; n < 4; n++)
		say("root, %d: %s", n, between(getpid(), list[n], VM, 0, 0));
	in_child("user", ask);
	for (int n = 0; n < 4; n++)
		kill(list[n], SIGKILL), wait_for(list[n]);
	pid_t me = getpid();
	SHOW(KCMP(me, 0x3ffffe, VM, 0, 0));
	SHOW(KCMP(0x3ffffe, me, 99, 0, 0));
	SHOW(KCMP(me, 0, VM, 0, 0));
	SHOW(KCMP(-1, me, VM, 0, 0));
	SHOW(KCMP(me, me, 8, 0, 0));
	SHOW(KCMP(me, me, -1, 0, 0));
	/* Zombies have nothing left. */
	pid_t a = must_fork();
	if (a == 0)
		_exit(0);
	pid_t b = must_fork();
	if (b == 0)
		_exit(0);
	siginfo_t info;
	waitid(P_PID, (id_t)a, &info, WEXITED | WNOWAIT);
	waitid(P_PID, (id_t)b, &info, WEXITED | WNOWAIT);
	all("zombies", a, b);
	all("zombie and I", me, a);
	wait_for(a), wait_for(b);
}

int main(void)
{
	sharing();
	threads();
	io();
	files();
	rights();
	return 0;
}
