/* Memory that is locked: what is faulted in, counted, inherited, refused. And flags of mmap and mprotect that few programs use. */
#include <sys/mount.h>
#include <sys/resource.h>
#include "t.h"

#define PAGE 4096L
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1
#endif
#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

static long locked(void)
{
	char *text = read_file("/proc/self/status"), *row = strstr(text, "VmLck:");
	long value = row ? atol(row + 6) : -1;

	free(text);
	return value;
}

static void show_locked(const char *when) { say("%s: VmLck %ld kB", when, locked()); }

/* Which of `count` pages at `at` are in memory: a digit each. */
static void show_resident(const char *what, char *at, int count)
{
	unsigned char flags[64] = {0};
	char text[65] = {0};

	mincore(at, count * PAGE, flags);
	for (int i = 0; i < count; i++)
		text[i] = flags[i] & 1 ? '1' : '0';
	say("%s: %s", what, text);
}

static char *area(int pages) { return mmap(0, pages * PAGE, RW, ANON, -1, 0); }

static void in_child_of_fork(void)
{
	show_locked("the child");
}

static void basics(void)
{
	section("mlock");
	char *at = area(8);
	show_resident("before", at, 8);
	SHOW(mlock(at + PAGE + 1, 2 * PAGE - 2));
	show_locked("two pages");
	show_resident("two pages", at, 8);
	SHOW(mlock(at + 2 * PAGE, 2 * PAGE));
	show_locked("three pages");
	in_child("fork", in_child_of_fork);
	SHOW(munlock(at + 2 * PAGE, PAGE));
	show_locked("one unlocked");
	SHOW(syscall(SYS_mlock2, at + 5 * PAGE, 2 * PAGE, MLOCK_ONFAULT));
	show_locked("two on fault");
	show_resident("two on fault", at, 8);
	at[6 * PAGE] = 1;
	show_resident("one touched", at, 8);
	SHOW(munmap(at + PAGE, PAGE));
	show_locked("one unmapped");
	SHOW(munlock(at, 8 * PAGE));
	SHOW(munlock(at + 2 * PAGE, 6 * PAGE));
	show_locked("all unlocked");
	section("errors");
	SHOW(mlock(at, 8 * PAGE));
	show_locked("up to the hole");
	munlock(at, PAGE);
	SHOW(syscall(SYS_mlock2, at, PAGE, 2));
	SHOW(mlock(at, 0));
	SHOW(mlock((void *)(16 * PAGE), PAGE));
	SHOW(mlock((void *)-PAGE, 2 * PAGE));
	SHOW(munlock((void *)-PAGE, 2 * PAGE));
	SHOW(mlock((void *)(1L << 47), PAGE));
	SHOW(mlock(at, -1L));
	SHOW(mlockall(0));
	SHOW(mlockall(8));
	SHOW(mlockall(MCL_ONFAULT));
	char *none = mmap(0, PAGE, PROT_NONE, ANON, -1, 0);
	SHOW(mlock(none, PAGE));
	show_locked("PROT_NONE");
	SHOW(munlock(none, PAGE));
	int fd = open("short", O_CREAT | O_RDWR, 0644);
	ftruncate(fd, PAGE);
	char *file = mmap(0, 2 * PAGE, RW, MAP_SHARED, fd, 0);
	SHOW(mlock(file, PAGE));
	SHOW(mlock(file, 2 * PAGE));
	show_locked("a file");
	SHOW(msync(file, PAGE, MS_INVALIDATE));
	SHOW(msync(file, PAGE, MS_SYNC));
	SHOW(munlock(file, 2 * PAGE));
	SHOW(msync(file, PAGE, MS_INVALIDATE));

	section("advice");
	at = area(4);
	at[0] = 1;
	SHOW(mlock(at + 2 * PAGE, PAGE));
	SHOW(madvise(at, 4 * PAGE, MADV_DONTNEED));
	say("before what is locked: %d", at[0]);
	SHOW(madvise(at, 4 * PAGE, MADV_FREE));
	SHOW(madvise(at + 2 * PAGE, PAGE, MADV_DONTNEED));
	SHOW(madvise(at, 4 * PAGE, MADV_DONTNEED_LOCKED));
	show_resident("dropped", at, 4);
	SHOW(munlock(at, 4 * PAGE));
	SHOW(madvise(at, 4 * PAGE, MADV_DONTNEED));

	section("MAP_LOCKED, mremap, mprotect");
	char *map = mmap(0, 3 * PAGE, RW, ANON | MAP_LOCKED, -1, 0);
	show_resident("MAP_LOCKED", map, 3);
	show_locked("MAP_LOCKED");
	map = mremap(map, 3 * PAGE, 6 * PAGE, MREMAP_MAYMOVE);
	show_resident("grown", map, 6);
	show_locked("grown");
	SHOW(mprotect(map, PAGE, PROT_NONE));
	show_locked("PROT_NONE");
	munmap(map, 6 * PAGE);
	show_locked("unmapped");
	map = mmap(0, 4 * PAGE, RW, ANON | MAP_POPULATE, -1, 0);
	show_resident("MAP_POPULATE", map, 4);
	map = mmap(0, 4 * PAGE, RW, ANON | MAP_POPULATE | MAP_NONBLOCK, -1, 0);
	show_resident("MAP_NONBLOCK", map, 4);
	map = mmap(0, 4 * PAGE, RW, ANON | MAP_LOCKED | MAP_NONBLOCK, -1, 0);
	show_resident("MAP_LOCKED|MAP_NONBLOCK", map, 4);
	munmap(map, 4 * PAGE);
}

static void future(void)
{
	section("MCL_FUTURE");
	long before = locked();
	char *early = area(2);
	SHOW(mlockall(MCL_FUTURE));
	char *at = area(4);
	show_resident("early", early, 2);
	show_resident("later", at, 4);
	say("%ld kB more", locked() - before);
	char *heap = (char *)syscall(SYS_brk, 0);
	CHECK(syscall(SYS_brk, heap + 2 * PAGE) == (long)heap + 2 * PAGE);
	say("%ld kB more", locked() - before);
	show_resident("heap", (char *)(((uintptr_t)heap + PAGE - 1) & -PAGE), 2);
	in_child("fork", in_child_of_fork);
	SHOW(mlockall(MCL_FUTURE | MCL_ONFAULT));
	at = area(4);
	show_resident("on fault", at, 4);
	say("%ld kB more", locked() - before);
	SHOW(munlockall());
	show_locked("munlockall");
	at = area(4);
	show_resident("after munlockall", at, 4);
	at = area(2);
	SHOW(mlockall(MCL_CURRENT));
	show_resident("MCL_CURRENT", at, 2);
	CHECK(locked() > 100);
	SHOW(munlockall());
	show_locked("munlockall");
}

static void limited(void)
{
	struct rlimit limit = {4 * PAGE, 4 * PAGE};

	setresuid(1000, 1000, 1000);
	setrlimit(RLIMIT_MEMLOCK, &limit);
	char *at = area(16);
	SHOW(mlock(at, 5 * PAGE));
	SHOW(mlock(at, 4 * PAGE));
	SHOW(mlock(at, 4 * PAGE));
	SHOW(mlock(at + 4 * PAGE, 1));
	SHOW(mlock(at + 4 * PAGE, 0));
	SHOW(mlock(at + PAGE, 4 * PAGE));
	SHOW_PTR(mmap(0, PAGE, RW, ANON | MAP_LOCKED, -1, 0));
	SHOW_PTR(mremap(at, 4 * PAGE, 32 * PAGE, MREMAP_MAYMOVE));
	SHOW(mlockall(MCL_CURRENT));
	SHOW(mlockall(MCL_FUTURE));
	SHOW_PTR(mmap(0, PAGE, RW, ANON, -1, 0));
	long heap = syscall(SYS_brk, 0);
	CHECK(syscall(SYS_brk, heap + 8 * PAGE) == heap);
	SHOW(munlock(at, 2 * PAGE));
	SHOW_PTR(mmap(0, 2 * PAGE, RW, ANON, -1, 0));
	SHOW_PTR(mmap(0, PAGE, RW, ANON, -1, 0));
	SHOW(munlockall());
	limit.rlim_cur = limit.rlim_max = 0;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	SHOW(mlock(at, PAGE));
	SHOW(mlock(at, 0));
	SHOW(syscall(SYS_mlock2, at, PAGE, 4));
	SHOW(munlock(at, PAGE));
	SHOW(mlockall(MCL_FUTURE));
	SHOW(munlockall());
	SHOW_PTR(mmap(0, PAGE, RW, ANON | MAP_LOCKED, -1, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_ANONYMOUS | MAP_LOCKED, -1, 0));
}

static void flags(void)
{
	section("flags of mmap");
	char *low = mmap(0, PAGE, RW, ANON | MAP_32BIT, -1, 0);
	CHECK((uintptr_t)low >= 1L << 30 && (uintptr_t)low < 1L << 31);
	char *high = mmap((void *)(1L << 40), PAGE, RW, ANON | MAP_32BIT, -1, 0);
	CHECK((uintptr_t)high >= 1L << 30 && (uintptr_t)high < 1L << 31);
	SHOW_PTR(mmap(0, 1L << 30, PROT_NONE, ANON | MAP_32BIT | MAP_NORESERVE, -1, 0));
	SHOW_PTR(mmap(0, 2L << 20, RW, ANON | MAP_HUGETLB, -1, 0));
	SHOW_PTR(mmap(0, 2L << 20, RW, ANON | MAP_HUGETLB | 21 << 26, -1, 0));
	SHOW_PTR(mmap(0, 1L << 30, RW, ANON | MAP_HUGETLB | 30 << 26, -1, 0));
	SHOW_PTR(mmap(0, 2L << 20, RW, ANON | MAP_HUGETLB | 22 << 26, -1, 0));
	SHOW_PTR(mmap(0, 2L << 20, RW, ANON | 22 << 26, -1, 0));
	int fd = open("short", O_RDWR);
	SHOW_PTR(mmap(0, PAGE, RW, MAP_PRIVATE | MAP_HUGETLB, fd, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_SHARED_VALIDATE | 0x80000, fd, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_SHARED | 0x80000, fd, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_PRIVATE | MAP_GROWSDOWN, fd, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0));
	SHOW_PTR((void *)syscall(SYS_mmap, 0x1001, -1L, RW, ANON | MAP_FIXED, -1, 0));
	SHOW_PTR((void *)syscall(SYS_mmap, 0x1001, PAGE, RW, MAP_ANONYMOUS | MAP_FIXED, -1, 0));

	section("PROT_GROWSDOWN");
	char *stack = mmap(0, 64 * PAGE, PROT_NONE, ANON, -1, 0);
	munmap(stack, 64 * PAGE);
	char *at = mmap(stack + 32 * PAGE, 4 * PAGE, RW, ANON | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
	SHOW(mprotect(at + 2 * PAGE, PAGE, PROT_READ | PROT_GROWSDOWN));
	SHOW(mprotect(at + 2 * PAGE, PAGE, PROT_READ | PROT_GROWSUP));
	SHOW(mprotect(at + 2 * PAGE, PAGE, PROT_READ | PROT_GROWSUP | PROT_GROWSDOWN));
	SHOW(mprotect((char *)(16 * PAGE), PAGE, PROT_READ | PROT_GROWSUP));
	SHOW(mprotect((char *)(16 * PAGE), PAGE, PROT_READ | PROT_GROWSDOWN));
	char *plain = area(2);
	SHOW(mprotect(plain, PAGE, PROT_READ | PROT_GROWSDOWN));
	SHOW(mprotect(plain, PAGE, PROT_READ | PROT_GROWSUP));
	SHOW(mprotect(plain, PAGE, PROT_READ | 8));
	SHOW(mprotect(plain, PAGE, PROT_READ | 16));
	int reader = open("short", O_RDONLY);
	char *first = mmap(0, 2 * PAGE, RW, ANON, -1, 0);
	mmap(first + PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, reader, 0);
	first[0] = 1;
	mprotect(first, PAGE, PROT_READ);
	SHOW(mprotect(first, 2 * PAGE, RW));
	first[0] = 2;
	say("what lies before is changed: %d", first[0]);
}

static void no_exec(void)
{
	section("noexec");
	mkdir("mnt", 0755);
	SHOW(mount("none", "mnt", "tmpfs", MS_NOEXEC, NULL));
	int fd = open("mnt/file", O_CREAT | O_RDWR, 0755);
	write(fd, "#!/bin/sh\n", 10);
	ftruncate(fd, PAGE);
	SHOW_PTR(mmap(0, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0));
	SHOW_PTR(mmap(0, PAGE, PROT_EXEC, MAP_SHARED, fd, 0));
	char *at = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	SHOW(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
	SHOW(mprotect(at, PAGE, RW));
	at[0] = 1;
	SHOW(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
	close(fd);
	SHOW(execl("mnt/file", "file", NULL));
	SHOW(umount2("mnt", MNT_DETACH));
}

static volatile char sink;
static void deep(int pages)
{
	char room[PAGE];

	memset(room, pages, sizeof room);
	if (pages)
		deep(pages - 1);
	sink = room[pages % PAGE];
}

static void stack_of_one_mib(void)
{
	struct rlimit limit = {1 << 20, RLIM_INFINITY};

	setrlimit(RLIMIT_STACK, &limit);
	deep(200);
	say("200 pages deep");
	deep(300);
}

static void no_more(void)
{
	struct rlimit limit = {4 << 20, RLIM_INFINITY};

	setrlimit(RLIMIT_AS, &limit);
	SHOW_PTR(mmap(0, 8 << 20, PROT_NONE, ANON, -1, 0));
	SHOW_PTR(mmap(0, 1 << 20, PROT_NONE, ANON, -1, 0));
	deep(2000);
}

static void data(void)
{
	struct rlimit limit = {8 << 20, RLIM_INFINITY};
	char *at = mmap(0, 316 << 20, PROT_READ, ANON, -1, 0);
	int fd = open("short", O_RDWR);

	setrlimit(RLIMIT_DATA, &limit);
	SHOW_PTR(mmap(0, 16 << 20, RW, ANON, -1, 0));
	SHOW_PTR(mmap(0, 16 << 20, PROT_READ, ANON, -1, 0));
	SHOW_PTR(mmap(0, 16 << 20, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	SHOW_PTR(mmap(0, 16 << 20, RW, MAP_PRIVATE, fd, 0));
	SHOW(mprotect(at, 16 << 20, RW));
	SHOW(mprotect(at, PAGE, RW));
	SHOW_PTR(mremap(at, PAGE, 16 << 20, MREMAP_MAYMOVE));
	long heap = syscall(SYS_brk, 0);
	CHECK(syscall(SYS_brk, heap + (16 << 20)) == heap);
	char *own = mmap(0, 4 << 20, RW, ANON, -1, 0);
	SHOW_PTR(mmap(own, 4 << 20, RW, ANON | MAP_FIXED, -1, 0) == own ? own : MAP_FAILED);
	SHOW_PTR(mmap(0, 4 << 20, RW, ANON, -1, 0));
}

int main(void)
{
	basics();
	in_child("future", future);
	section("RLIMIT_MEMLOCK");
	in_child("limited", limited);
	flags();
	no_exec();
	section("RLIMIT_STACK, AS, DATA");
	in_child("a stack of 1 MiB", stack_of_one_mib);
	in_child("4 MiB of addresses", no_more);
	in_child("8 MiB of data", data);
	return 0;
}
