/* Another process's memory by process_vm_readv and process_vm_writev: what is copied, what is refused and in which order, and who may. */
#include "t.h"

#include <sys/prctl.h>
#include <sys/uio.h>

enum { PAGE = 4096, PAGES = 8 };

static char *area;          /* PAGES pages, at one address in parent and child */
static pid_t child;

#define READ(pid, to, n, from, m, flags) syscall(SYS_process_vm_readv, pid, to, n, from, m, flags)
#define WRITE(pid, from, n, to, m, flags) syscall(SYS_process_vm_writev, pid, from, n, to, m, flags)

/* One segment on either side. */
static long get(pid_t pid, void *to, const void *from, size_t len)
{
	struct iovec own = { to, len }, other = { (void *)from, len };
	return READ(pid, &own, 1L, &other, 1L, 0L);
}

static long put(pid_t pid, const void *from, void *to, size_t len)
{
	struct iovec own = { (void *)from, len }, other = { to, len };
	return WRITE(pid, &own, 1L, &other, 1L, 0L);
}

static void fill(void)
{
	for (int at = 0; at < PAGES * PAGE; at++)
		area[at] = (char)(at / PAGE * 16 + at % 13);
	mprotect(area + 3 * PAGE, PAGE, PROT_NONE);
	munmap(area + 5 * PAGE, PAGE);
	mprotect(area + 6 * PAGE, PAGE, PROT_READ);
}

static void arguments(void)
{
	section("arguments");
	char buf[64];
	struct iovec own = { buf, 16 }, other = { area, 16 }, none = { buf, 0 }, wild = { (void *)-1L, 16 }, negative = { buf, -1 };
	static struct iovec many[1025];
	pid_t nobody = 0x3ffffe;
	for (int at = 0; at < 1025; at++)
		many[at] = (struct iovec){ buf, at < 16 };
	SHOW(READ(child, &own, 1L, &other, 1L, 1L));
	SHOW(READ(nobody, (void *)1, 2000L, (void *)1, 2000L, 1L));
	SHOW(READ(child, many, 1025L, &other, 1L, 0L));
	SHOW(READ(child, many, 1024L, &other, 1L, 0L));
	SHOW(READ(child, &own, 1L, many, 1025L, 0L));
	SHOW(READ(child, &own, 1L, many, -1L, 0L));
	SHOW(READ(child, (void *)1, 1L, (void *)1, 1025L, 0L));
	SHOW(READ(child, &own, 1L, (void *)1, 1L, 0L));
	SHOW(READ(child, &negative, 1L, &negative, 1L, 0L));
	SHOW(READ(child, &own, 1L, &negative, 1L, 0L));
	SHOW(READ(child, &wild, 1L, &other, 1L, 0L));
	SHOW(READ(child, &own, 1L, &wild, 1L, 0L));
	/* Without a byte on one side nobody is looked for. */
	SHOW(READ(nobody, &none, 1L, (void *)1, 2000L, 0L));
	SHOW(READ(nobody, 0, 0L, &other, 1L, 0L));
	SHOW(READ(nobody, &own, 1L, &none, 1L, 0L));
	SHOW(READ(nobody, &own, 1L, 0, 0L, 0L));
	SHOW(READ(nobody, &own, 1L, &wild, 1L, 0L));
	SHOW(READ(0, &own, 1L, &other, 1L, 0L));
	SHOW(READ(-1, &own, 1L, &other, 1L, 0L));
	SHOW(get(getpid(), buf, "sixteen letters.", 16));
	say("%.16s", buf);
	SHOW(WRITE(child, &own, 1L, &other, 1L, 1L));
	SHOW(WRITE(child, &own, 1025L, &other, 1L, 0L));
	SHOW(WRITE(nobody, &own, 1L, &other, 1L, 0L));
	SHOW(WRITE(child, &wild, 1L, &other, 1L, 0L));
	SHOW(WRITE(child, &own, 1L, &wild, 1L, 0L));
	SHOW(WRITE(nobody, &none, 1L, &wild, 1L, 0L));
}

/* Do `len` bytes at `got` equal what `fill` put at offset `at`? */
static int is_filled(const char *got, int at, int len)
{
	for (int n = 0; n < len; n++)
		if (got[n] != (char)((at + n) / PAGE * 16 + (at + n) % 13))
			return 0;
	return 1;
}

static void reading(void)
{
	section("reading");
	static char buf[PAGES * PAGE];
	SHOW(get(child, buf, area + PAGE - 100, 200));
	CHECK(is_filled(buf, PAGE - 100, 200));
	SHOW(get(child, buf, area, 3 * PAGE));
	CHECK(is_filled(buf, 0, 3 * PAGE));
	/* What is not there ends it. */
	SHOW(get(child, buf, area + PAGE + 7, 4 * PAGE));
	CHECK(is_filled(buf, PAGE + 7, 2 * PAGE - 7));
	SHOW(get(child, buf, area + 3 * PAGE, 1));
	SHOW(get(child, buf, area + 5 * PAGE, 1));
	SHOW(get(child, buf, area + 6 * PAGE, PAGE));
	/* Pieces of other sizes on either side, with empty ones between. */
	struct iovec own[4] = { { buf, 3 }, { buf + 3, 0 }, { buf + 3, 5000 }, { buf + 5003, 40 } };
	struct iovec other[5] = { { area, 4000 }, { (void *)-1L, 0 }, { area + 4000, 1 }, { area + 4001, 2000 }, { area + 6001, 99 } };
	SHOW(READ(child, own, 4L, other, 5L, 0L));
	CHECK(is_filled(buf, 0, 5043));
	SHOW(READ(child, own, 1L, other, 5L, 0L));
	SHOW(READ(child, own, 4L, other + 2, 1L, 0L));
	/* A later segment that is not there counts when it is reached. */
	other[4].iov_base = (void *)-1L;
	SHOW(READ(child, own, 3L, other, 5L, 0L));
	SHOW(READ(child, own, 4L, other, 4L, 0L));
	other[2] = (struct iovec){ area + 3 * PAGE + 1, 10 };
	SHOW(READ(child, own, 4L, other, 5L, 0L));
	/* The caller's own memory ends it. */
	char *edge = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(edge + PAGE, PAGE);
	SHOW(get(child, edge + PAGE - 10, area, 20));
	CHECK(is_filled(edge + PAGE - 10, 0, 10));
	SHOW(get(child, edge + PAGE, area, 20));
	mprotect(edge, PAGE, PROT_READ);
	SHOW(get(child, edge, area, 20));
	munmap(edge, PAGE);
}

/* What the child has beside the area, each a page with another protection; and its stack. */
static char *kinds[5];
static char *stack_end;

static void make_kinds(void)
{
	static const int protections[5] = { PROT_WRITE, PROT_EXEC, PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE };
	for (int n = 0; n < 5; n++) {
		kinds[n] = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (n < 3)
			*kinds[n] = (char)('a' + n);
		mprotect(kinds[n], PAGE, protections[n]);
	}
}

static void protections(void)
{
	section("protections");
	static const char *const names[5] = { "write", "exec", "read, exec", "read, untouched", "read and write, untouched" };
	for (int n = 0; n < 5; n++) {
		char byte = '?';
		errno = 0;
		long got = get(child, &byte, kinds[n], 1);
		say("%s: %ld %s, %d", names[n], got, error_name(errno), byte);
		errno = 0;
		long gave = put(child, "x", kinds[n], 1);
		say("%s: %ld %s", names[n], gave, error_name(errno));
	}
	/* A stack grows for its program alone. */
	char byte;
	SHOW(get(child, &byte, stack_end, 1));
	SHOW(put(child, "x", stack_end, 1));
}

static void writing(void)
{
	section("writing");
	char buf[64] = "";
	SHOW(put(child, "written by another", area + 2 * PAGE - 5, 19));
	/* Fork has left both the page: it is the child's alone that has changed. */
	CHECK(is_filled(area + 2 * PAGE - 5, 2 * PAGE - 5, 19));
	SHOW(get(child, buf, area + 2 * PAGE - 5, 19));
	say("%s", buf);
	static char much[4 * PAGE];
	SHOW(put(child, much, area + PAGE + 8, 4 * PAGE));
	SHOW(put(child, much, area + 6 * PAGE, 8));
	SHOW(put(child, much, area + 5 * PAGE, 8));
	SHOW(put(child, "x", (void *)"constant", 1));
	char *edge = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(edge + PAGE, PAGE);
	memset(edge, 'e', PAGE);
	SHOW(put(child, edge + PAGE - 3, area, 10));
	SHOW(get(child, buf, area, 5));
	say("%.3s", buf);
	CHECK(buf[3] == 3 && buf[4] == 4);
	SHOW(put(child, edge + PAGE, area, 10));
	munmap(edge, PAGE);
	/* Shared memory is everybody's. */
	char *shared = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t other = parked(NULL);
	SHOW(put(other, "shared", shared, 7));
	say("%s", shared);
	kill(other, SIGKILL);
	wait_for(other);
	/* Of one's own. */
	SHOW(put(getpid(), "own", buf, 4));
	say("%s", buf);
}

static void as_user(void) { setgid(1000), setuid(1000), prctl(PR_SET_DUMPABLE, 1); }
static void as_other(void) { setgid(1000), setuid(1001), prctl(PR_SET_DUMPABLE, 1); }
static void of_other_group(void) { setgid(1001), setuid(1000), prctl(PR_SET_DUMPABLE, 1); }
static void as_changed(void) { setgid(1000), setuid(1000); }
static void saved(void) { setgid(1000), setresuid(1000, 1000, 0), prctl(PR_SET_DUMPABLE, 1); }
static void effective(void) { setgid(1000), setresuid(0, 1000, 1000), prctl(PR_SET_DUMPABLE, 1); }

static void try_all(const pid_t *all, int count)
{
	for (int n = 0; n < count; n++) {
		char byte;
		errno = 0;
		long got = get(all[n], &byte, area, 1);
		say("%d: %ld %s", n, got, error_name(errno));
		errno = 0;
		long gave = put(all[n], "x", area + PAGE, 1);
		say("%d: %ld %s", n, gave, error_name(errno));
	}
}

static pid_t all[7];

static void try_user(void) { as_user(), try_all(all, 7); }
static void try_effective(void) { setgid(1000), setresuid(0, 1000, 0), try_all(all, 7); }
static void try_real(void) { setgid(1000), setresuid(1000, 0, 0), prctl(PR_SET_DUMPABLE, 1), try_all(all, 7); }

static int same_memory(void *zero)
{
	(void)zero;
	char byte = 0;
	setgid(1000), setuid(1000);
	say("same memory: %ld", get(getppid(), &byte, "s", 1));
	_exit(byte == 's' ? 0 : 1);
}

static void rights(void)
{
	section("rights");
	static void (*const kinds[])(void) = { as_user, as_other, of_other_group, as_changed, saved, effective };
	for (int n = 0; n < 6; n++)
		all[n] = parked(kinds[n]);
	all[6] = getpid();
	say("root");
	try_all(all, 6);
	in_child("user", try_user);
	in_child("effective", try_effective);
	in_child("real", try_real);
	for (int n = 0; n < 6; n++)
		kill(all[n], SIGKILL), wait_for(all[n]);
	static char stack[65536] __attribute__((aligned(16)));
	prctl(PR_SET_DUMPABLE, 0);
	pid_t pid = clone(same_memory, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
	say("%s", status_text(wait_for(pid)));
	prctl(PR_SET_DUMPABLE, 1);
}

static void others(void)
{
	section("others");
	char byte;
	SHOW(get(parked_thread(), &byte, "thread", 1));
	let_thread_go();
	/* A zombie has no memory. */
	pid_t pid = parked(NULL);
	kill(pid, SIGKILL);
	siginfo_t info;
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	SHOW(get(pid, &byte, area, 1));
	wait_for(pid);
	SHOW(get(pid, &byte, area, 1));
	/* One that exits meanwhile: what has been copied counts, and nothing breaks. */
	enum { LARGE = 16 << 20 };
	char *large = mmap(0, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *copy = mmap(0, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(large, 7, LARGE);
	int fine = 1;
	for (int round = 0; round < 8; round++) {
		pid = parked(NULL);
		pid_t killer = must_fork();
		if (killer == 0) {
			nap(round);
			kill(pid, SIGKILL);
			_exit(0);
		}
		long got;
		while ((got = get(pid, copy, large, LARGE)) > 0)
			fine &= copy[got - 1] == 7;
		fine &= got == -1 && errno == ESRCH;
		wait_for(pid), wait_for(killer);
	}
	CHECK(fine);
	/* A killed copier ends at once. */
	pid = must_fork();
	if (pid == 0)
		for (;;)
			get(getppid(), copy, large, LARGE);
	nap(20);
	kill(pid, SIGKILL);
	say("copier: %s", status_text(wait_for(pid)));
}

int main(void)
{
	area = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int at = 0; at < PAGES * PAGE; at++)
		area[at] = (char)(at / PAGE * 16 + at % 13);
	make_kinds();
	/* Far below what the stack has been used for, and above its limit. */
	stack_end = (char *)((uintptr_t)__builtin_frame_address(0) - (2 << 20));
	child = parked(fill);
	arguments();
	reading();
	protections();
	writing();
	kill(child, SIGKILL);
	wait_for(child);
	rights();
	others();
	return 0;
}
