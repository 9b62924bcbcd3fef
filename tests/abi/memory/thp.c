/* Memory in large pages: what asks for them, what is told of them, and that it holds what it held whatever is done to parts of it. */
#include "t.h"
#include <sys/prctl.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define LARGE (2ul << 20)
enum { PAGE = 4096, COUNT = 512 };

static const char *const enabled = "/sys/kernel/mm/transparent_hugepage/enabled";

static char *read_whole(const char *path)
{
	static char text[1 << 20];
	int fd = open(path, O_RDONLY);
	size_t length = 0;
	for (ssize_t n; fd >= 0 && length < sizeof text - 1 && (n = read(fd, text + length, sizeof text - 1 - length)) > 0;)
		length += n;
	text[length] = 0;
	close(fd);
	return text;
}

static void set(const char *mode)
{
	int fd = open(enabled, O_WRONLY);
	errno = 0;
	show_value(mode, write(fd, mode, strlen(mode)));
	close(fd);
	say("  %s", strtok(read_whole(enabled), "\n"));
}

/* What smaps tells of the mapping that begins at `at`: whether it has the flag, or the number of the field. */
static char *part_of(const char *at)
{
	char start[32];
	snprintf(start, sizeof start, "%lx-", (unsigned long)at);
	char *text = read_whole("/proc/self/smaps"), *part = strstr(text, start);
	char *flags = part ? strstr(part, "VmFlags:") : 0, *end = flags ? strchr(flags, '\n') : 0;
	if (end)
		*end = 0;
	return part;
}

static void tell(const char *what, const char *at)
{
	char *part = part_of(at);
	if (!part) {
		say("%s: no mapping begins there", what);
		return;
	}
	char *large = strstr(part, "AnonHugePages:"), *eligible = strstr(part, "THPeligible:"), *rss = strstr(part, "Rss:"), *flags = strstr(part, "VmFlags:");
	say("%s: Rss %ld, AnonHugePages %ld, THPeligible %ld,%s%s", what, atol(rss + 4), atol(large + 14), atol(eligible + 12),
	    strstr(flags, " hg") ? " hg" : "", strstr(flags, " nh") ? " nh" : "");
}

/* `leaves` of 2 MiB that begin where a large page may, with a hole before and behind. */
static char *map(int leaves)
{
	char *room = mmap(0, (leaves + 2) * LARGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
	char *at = (char *)(((unsigned long)room + 2 * LARGE - 1) & ~(LARGE - 1));
	if (mmap(at, leaves * LARGE, RW, ANON | MAP_FIXED, -1, 0) != at)
		say("mmap: %s", error_name(errno));
	return at;
}

static void fill(char *at, int leaves)
{
	for (int i = 0; i < leaves * COUNT; i++)
		*(int *)(at + (long)i * PAGE) = i + 1;
}

/* How many pages do not hold what `fill` put there. */
static int wrong(const char *at, int from, int to)
{
	int count = 0;
	for (int i = from; i < to; i++)
		count += *(const int *)(at + (long)i * PAGE) != i + 1;
	return count;
}

static void asking(void)
{
	section("asking");
	char *at = map(2);
	tell("new", at);
	at[0] = 1;
	tell("written", at);
	SHOW(madvise(at, 2 * LARGE, MADV_HUGEPAGE));
	at[LARGE] = 1;
	tell("asked for", at);
	SHOW(madvise(at, 2 * LARGE, MADV_NOHUGEPAGE));
	tell("refused", at);
	SHOW(madvise(at, 2 * LARGE, MADV_DONTNEED));
	at[0] = at[LARGE] = 1;
	tell("written", at);
	SHOW(madvise(at, PAGE, MADV_HUGEPAGE));
	tell("asked for one page", at);
	tell("the rest", at + PAGE);
	SHOW(madvise(at, 2 * LARGE, MADV_HUGEPAGE));
	tell("all", at);
	SHOW(madvise(at + 1, LARGE, MADV_HUGEPAGE));
	SHOW(madvise(at - LARGE, 4 * LARGE, MADV_HUGEPAGE));
	munmap(at, LARGE);
	SHOW(madvise(at, 2 * LARGE, MADV_HUGEPAGE));
	SHOW(madvise(at, 2 * LARGE, MADV_NOHUGEPAGE));
	munmap(at + LARGE, LARGE);

	section("PR_SET_THP_DISABLE");
	at = map(1);
	madvise(at, LARGE, MADV_HUGEPAGE);
	SHOW(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	at[0] = 1;
	tell("disabled", at);
	SHOW(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	pid_t child = must_fork();
	if (!child) {
		say("child: %d", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
		prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
		say("child: %d", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
		_exit(0);
	}
	wait_for(child);
	SHOW(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	SHOW(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	/* (Where Linux has a table already it makes no large page.) */
	munmap(at, LARGE);
	at = map(1);
	madvise(at, LARGE, MADV_HUGEPAGE);
	at[0] = 1;
	tell("enabled", at);
	munmap(at, LARGE);
}

static char *large(int leaves)
{
	char *at = map(leaves);
	madvise(at, leaves * LARGE, MADV_HUGEPAGE);
	fill(at, leaves);
	return at;
}

static void parts(void)
{
	section("parts");
	char *at = large(3);
	tell("filled", at);
	SHOW(munmap(at + LARGE + 7 * PAGE, PAGE));
	tell("before the hole", at);
	say("%d wrong", wrong(at, 0, COUNT + 7) + wrong(at, COUNT + 8, 3 * COUNT));
	SHOW(madvise(at + 9 * PAGE, PAGE, MADV_DONTNEED));
	tell("with a page dropped", at);
	say("%d wrong, %d", wrong(at, 0, 9) + wrong(at, 10, COUNT), at[9 * PAGE]);
	SHOW(madvise(at + 2 * LARGE, LARGE, MADV_DONTNEED));
	say("%d %d", at[2 * LARGE], at[3 * LARGE - 1]);
	at[2 * LARGE] = 5;
	tell("behind the hole", at + LARGE + 8 * PAGE);
	munmap(at, 3 * LARGE);

	section("rights of a part");
	at = large(1);
	SHOW(mprotect(at + 3 * PAGE, PAGE, PROT_READ));
	tell("one page may be read", at + 3 * PAGE);
	tell("before", at);
	int fd = open("/dev/zero", O_RDONLY);
	SHOW(read(fd, at + 3 * PAGE, 4));
	SHOW(read(fd, at + 4 * PAGE, 4));
	say("%d wrong, %d", wrong(at, 0, 4) + wrong(at, 5, COUNT), at[4 * PAGE]);
	close(fd);
	munmap(at, LARGE);

	section("moving");
	at = large(2);
	char *to = map(2);
	char *moved = mremap(at, 2 * LARGE, 2 * LARGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	say("%s, %d wrong", moved == to ? "moved" : error_name(errno), wrong(to, 0, 2 * COUNT));
	to[0] = 1;
	moved = mremap(to + PAGE, LARGE, LARGE, MREMAP_MAYMOVE | MREMAP_FIXED, at);
	say("%s", moved == at ? "moved" : error_name(errno));
	int bad = 0;
	for (int i = 0; i < COUNT; i++)
		bad += *(int *)(at + (long)i * PAGE) != i + 2;
	say("%d wrong, %d wrong", bad, wrong(to, COUNT + 1, 2 * COUNT));
	munmap(at, LARGE), munmap(to, PAGE), munmap(to + PAGE + LARGE, LARGE - PAGE);
}

static void forking(void)
{
	section("fork");
	char *at = large(2);
	int ends[2];
	pipe(ends);
	pid_t child = must_fork();
	if (!child) {
		char go;
		read(ends[0], &go, 1);
		say("child: %d wrong", wrong(at, 0, 2 * COUNT));
		*(int *)at = 77;
		say("child: %d wrong", wrong(at, 1, 2 * COUNT));
		_exit(0);
	}
	*(int *)(at + 5 * PAGE) = 99;
	say("parent: %d wrong", wrong(at, 0, 5) + wrong(at, 6, 2 * COUNT));
	write(ends[1], "g", 1);
	wait_for(child);
	say("parent: %d wrong", wrong(at, 0, 5) + wrong(at, 6, 2 * COUNT));
	for (int i = 0; i < 20; i++) {
		child = must_fork();
		if (!child)
			_exit(wrong(at, 6, 2 * COUNT));
		*(int *)(at + (long)(i + 20) * PAGE) = i + 21;
		waitpid(child, 0, 0);
	}
	say("parent: %d wrong", wrong(at, 6, 2 * COUNT));
	munmap(at, 2 * LARGE);
}

static void calls(void)
{
	section("calls on parts");
	char *at = large(1);
	int ends[2];
	pipe(ends);
	SHOW(write(ends[1], at + 8 * PAGE, 4));
	SHOW(read(ends[0], at + 100, 4));
	say("%d", *(int *)(at + 100));
	unsigned char resident[COUNT] = { 0 };
	SHOW(mincore(at, LARGE, resident));
	int count = 0;
	for (int i = 0; i < COUNT; i++)
		count += resident[i] & 1;
	say("%d resident", count);
	SHOW(mlock(at + PAGE, PAGE));
	SHOW(munlock(at, LARGE));
	SHOW(madvise(at, LARGE, MADV_DONTFORK));
	SHOW(madvise(at + 9 * PAGE, PAGE, MADV_DOFORK));
	say("%d wrong", wrong(at, 0, COUNT));
	munmap(at, LARGE);
}

/* Large pages of what is there already. */
static void collapsing(void)
{
	section("MADV_COLLAPSE");
	char *at = map(2);
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	say("%d", at[LARGE]);
	SHOW(madvise(at + LARGE, LARGE, MADV_COLLAPSE));
	fill(at, 1);
	for (int i = 100; i < 200; i++)
		madvise(at + (long)i * PAGE, PAGE, MADV_DONTNEED);
	say("%d", at[150 * PAGE]);
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	tell("collapsed", at);
	say("%d wrong, %d %d", wrong(at, 0, 100) + wrong(at, 200, COUNT), at[150 * PAGE], at[160 * PAGE]);
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	fill(at, 1);
	say("%d wrong", wrong(at, 0, COUNT));
	SHOW(madvise(at + 7 * PAGE, PAGE, MADV_DONTNEED));
	tell("with a page dropped", at);
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	tell("once more", at);
	say("%d wrong, %d", wrong(at, 0, 7) + wrong(at, 8, COUNT), at[7 * PAGE]);

	section("ranges");
	SHOW(madvise(at, 2 * LARGE, MADV_COLLAPSE));
	SHOW(madvise(at, PAGE, MADV_COLLAPSE));
	SHOW(madvise(at + PAGE, LARGE - PAGE, MADV_COLLAPSE));
	SHOW(madvise(at + PAGE, 2 * LARGE - 2 * PAGE, MADV_COLLAPSE));
	SHOW(madvise(at + 1, LARGE, MADV_COLLAPSE));
	SHOW(madvise(at - LARGE, 2 * LARGE, MADV_COLLAPSE));
	munmap(at + LARGE, LARGE);
	SHOW(madvise(at, 2 * LARGE, MADV_COLLAPSE));
	SHOW(madvise(at + LARGE, LARGE, MADV_COLLAPSE));
	munmap(at, LARGE);
	char *small = mmap(0, LARGE - PAGE, RW, ANON, -1, 0);
	small[0] = 1;
	SHOW(madvise(small, LARGE - PAGE, MADV_COLLAPSE));
	munmap(small, LARGE - PAGE);

	section("who refuses");
	at = map(1);
	fill(at, 1);
	madvise(at, LARGE, MADV_NOHUGEPAGE);
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	madvise(at, LARGE, MADV_HUGEPAGE);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	mprotect(at, LARGE, PROT_READ);
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	mprotect(at, LARGE, RW);
	at[0] = 1;
	mprotect(at + 9 * PAGE, PAGE, PROT_READ);
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	mprotect(at, LARGE, RW);
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	tell("collapsed", at);
	say("%d wrong", wrong(at, 0, COUNT));
	munmap(at, LARGE);

	section("what a child has too");
	at = map(1);
	fill(at, 1);
	int ends[2];
	pipe(ends);
	pid_t child = must_fork();
	if (!child) {
		char go;
		read(ends[0], &go, 1);
		say("child: %d wrong", wrong(at, 0, COUNT));
		*(int *)at = 1;
		SHOW(madvise(at, LARGE, MADV_COLLAPSE));
		tell("child", at);
		say("child: %d wrong", wrong(at, 0, COUNT));
		_exit(0);
	}
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	*(int *)(at + 5 * PAGE) = 99;
	SHOW(madvise(at, LARGE, MADV_COLLAPSE));
	tell("parent", at);
	say("parent: %d wrong", wrong(at, 0, 5) + wrong(at, 6, COUNT));
	write(ends[1], "g", 1);
	wait_for(child);
	say("parent: %d wrong", wrong(at, 0, 5) + wrong(at, 6, COUNT));
	close(ends[0]), close(ends[1]);
	munmap(at, LARGE);
}

/* Linux has a thread that makes large pages of small ones when it likes. It is to leave leaves with holes alone; answers what it was told before, or 0. */
static char *leave_holes(const char *most_holes)
{
	static const char *const limit = "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none";
	if (access(limit, F_OK))
		return 0;
	char *before = read_file(limit);
	write_file(limit, most_holes);
	return before;
}

int main(void)
{
	char *holes = leave_holes("0");
	char before[64] = "madvise", *open_at = strchr(read_whole(enabled), '[');
	if (open_at)
		snprintf(before, sizeof before, "%.*s", (int)strcspn(open_at + 1, "]"), open_at + 1);
	section("the switch");
	set("never");
	set("always\n");
	set("madvise");
	set("sometimes");
	set("");
	asking();
	parts();
	forking();
	calls();
	collapsing();
	section("always");
	set("always");
	char *at = map(1);
	at[5] = 1;
	tell("written", at);
	munmap(at, LARGE);
	section("never");
	set("never");
	at = map(1);
	madvise(at, LARGE, MADV_HUGEPAGE);
	at[5] = 1;
	tell("written", at);
	write_file(enabled, before);
	if (holes)
		leave_holes(holes);
	return 0;
}
