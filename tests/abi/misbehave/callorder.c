/*
 * Calls on memory, clocks and limits with more than one fault: which of them is told. Found by comparing random programs with Linux
 * (darter-fuzz compare).
 */
#include "t.h"
#include <sys/resource.h>
#include <sys/time.h>

static char *pages, *shared;
/* Volatile, so that the compiler does not see through it. */
static void *volatile bad_pointer = (void *)0x10;
#define BAD bad_pointer
#define PAGE 4096ul

static void locking(void)
{
	section("mlock");
	SHOW(mlock((void *)-1, 0x4000));
	SHOW(mlock((void *)-1, 0));
	SHOW(mlock((void *)-4096, 4096));
	SHOW(mlock((void *)-4096, 8192));
	SHOW(mlock(pages, -1));
	SHOW(mlock(pages + 1, -1));
	SHOW(mlock(pages, -4096));
	SHOW(mlock(BAD, 0));
	SHOW(mlock((void *)0xffffffff80200000, 0));
	SHOW(mlock2((void *)0xffffffff80200000, 0, 1));
	SHOW(mlock2((void *)0xffffffff80200000, 0, 2));
	SHOW(mlock2((void *)0xffffffff80200000, 1, 1));
	SHOW(munlock((void *)0xffffffff80200000, 0));
	SHOW(munlock((void *)0xffffffff80200000, 1));
	SHOW(munlock((void *)-1, 0x4000));
	SHOW(munlock(pages, -1));
	SHOW(munlock(pages + 3 * PAGE, 2 * PAGE));
	section("advice for what is locked");
	static const int advice[] = { MADV_DONTNEED, MADV_FREE, MADV_COLD, MADV_PAGEOUT, MADV_WILLNEED, MADV_NORMAL };
	SHOW(mlock(pages + PAGE, PAGE));
	for (unsigned n = 0; n < sizeof advice / sizeof *advice; n++) {
		memset(pages, 1, 4 * PAGE);
		SHOW(madvise(pages, 6 * PAGE, advice[n]));
		SHOW(madvise(pages + 2 * PAGE, 6 * PAGE, advice[n]));
		SHOW(madvise(pages + PAGE, PAGE, advice[n]));
		SHOW(madvise(shared, PAGE, advice[n]));
		SHOW(madvise(shared, 0, advice[n]));
		if (advice[n] == MADV_DONTNEED)
			say("%d %d %d", pages[0], pages[PAGE], pages[2 * PAGE]);
	}
	SHOW(munlock(pages + PAGE, PAGE));
}

static void populating(void)
{
	static const int rights[] = { PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC, PROT_READ | PROT_WRITE };
	section("populating");
	for (unsigned n = 0; n < sizeof rights / sizeof *rights; n++) {
		char *memory = mmap(0, PAGE, rights[n], MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		SHOW(madvise(memory, PAGE, 22));
		SHOW(madvise(memory, PAGE, 23));
		/* Linux may have protection keys, so that nobody reads what may only be executed. */
		if (rights[n] != PROT_EXEC)
			SHOW(mlock(memory, PAGE));
		SHOW(munmap(memory, PAGE));
	}
}

static void moving(void)
{
	section("mremap");
	char *hole = pages + 4 * PAGE;
	SHOW(mremap(hole, -4096, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0) == MAP_FAILED);
	SHOW_PTR(mremap(hole, -4096, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)0));
	SHOW_PTR(mremap(hole, PAGE, PAGE, 0));
	SHOW_PTR(mremap(hole, PAGE, 0, 0));
	SHOW_PTR(mremap(hole + 1, PAGE, PAGE, 0));
	SHOW_PTR(mremap(hole, PAGE, PAGE, 8));
	SHOW(mremap(pages, -4096, -4096, 0) == pages);
	SHOW(mremap(pages, 1ul << 60, 1ul << 60, 0) == pages);
	SHOW_PTR(mremap(pages, -1, PAGE, 0));
	SHOW_PTR(mremap(pages, PAGE, -1, 0));
	SHOW_PTR(mremap(pages, 1ul << 46, 1ul << 60, MREMAP_MAYMOVE));
	SHOW_PTR(mremap(pages, 1ul << 59, 1ul << 60, MREMAP_MAYMOVE));
	SHOW_PTR(mremap(pages, -8192, -4096, MREMAP_MAYMOVE));
	section("mmap");
	int zero = open("/dev/zero", O_RDWR), file = open("file", O_RDWR | O_CREAT, 0600);
	SHOW_PTR(mmap(0, PAGE, PROT_READ, MAP_SHARED_VALIDATE | 0x80000, zero, 0x7ffffffffffff000));
	SHOW_PTR(mmap(0, PAGE, PROT_READ, MAP_SHARED_VALIDATE | 0x80000, file, 0x7ffffffffffff000));
	SHOW_PTR(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, zero, 0x7ffffffffffff000));
	SHOW_PTR(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, file, 0x7ffffffffffff000));
	close(zero), close(file);
}

static void clocks(void)
{
	struct timespec bad = { 0, -1 }, far = { 0x7fffffffffffffff, 0 }, end = { 8277292036, 0 }, ok = { 0, 1 };
	section("setting the clock");
	SHOW(clock_settime(CLOCK_MONOTONIC, BAD));
	SHOW(clock_settime(99, &ok));
	SHOW(syscall(SYS_clock_settime, CLOCK_REALTIME, BAD));
	SHOW(clock_settime(CLOCK_REALTIME, &bad));
	SHOW(clock_settime(CLOCK_REALTIME, &far));
	SHOW(clock_settime(CLOCK_REALTIME, &end));
	SHOW(clock_settime(CLOCK_REALTIME, &(struct timespec){ 0, 0 }));
	SHOW(syscall(SYS_settimeofday, &(struct timeval){ 0x7ffffffffffffffe, 0x26 }, 0));
	SHOW(syscall(SYS_settimeofday, &(struct timeval){ 8277292036, 0 }, BAD));
	SHOW(syscall(SYS_settimeofday, &(struct timeval){ 1, 1000001 }, BAD));
	SHOW(syscall(SYS_settimeofday, &(struct timeval){ 1, -1 }, BAD));
	SHOW(syscall(SYS_settimeofday, &(struct timeval){ -1, 0 }, BAD));
	SHOW(syscall(SYS_settimeofday, &(struct timeval){ 1, 1000000 }, 0));
	SHOW(syscall(SYS_settimeofday, 0, &(int[2]){ 901, 0 }));
	SHOW(syscall(SYS_settimeofday, &(struct timeval){ 8277292036, 0 }, &(int[2]){ 901, 0 }));
	section("sleeping");
	SHOW(syscall(SYS_clock_nanosleep, CLOCK_BOOTTIME_ALARM, 0x200000, &ok, 0));
	SHOW(syscall(SYS_clock_nanosleep, CLOCK_BOOTTIME_ALARM, 0x200000, &bad, 0));
	SHOW(syscall(SYS_clock_nanosleep, CLOCK_BOOTTIME, 0x200000, &ok, 0));
	SHOW(syscall(SYS_clock_nanosleep, 99, 0, BAD, 0));
	SHOW(syscall(SYS_clock_nanosleep, 10, 0, BAD, 0));
	SHOW(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC_RAW, 0, BAD, 0));
	SHOW(syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &bad, 0));
	SHOW(syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, 0, BAD, 0));
	SHOW(syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, 0, &bad, 0));
	section("futex");
	int word = 1;
	SHOW(syscall(SYS_futex, &word, 256, 0, &bad, 0, 0));
	SHOW(syscall(SYS_futex, &word, 256, 0, BAD, 0, 0));
	SHOW(syscall(SYS_futex, &word, 256 | 1, 0, BAD, 0, 0));
	SHOW(syscall(SYS_futex, &word, 9, 1, &bad, 0, 0));
	SHOW(syscall(SYS_futex, &word, 9, 1, BAD, 0, 0));
	SHOW(syscall(SYS_futex, BAD, 0, 1, &bad, 0, 0));
	SHOW(syscall(SYS_futex, (char *)&word + 1, 0, 1, &bad, 0, 0));
}

static void limits(void)
{
	struct rlimit files = { 4096, 8 << 20 };
	section("a limit of its own");
	SHOW(syscall(SYS_prlimit64, getpid(), RLIMIT_FSIZE, &files, 0));
	if (setresuid(1001, 1001, -1) != 0)
		exit(1);
	SHOW(syscall(SYS_prlimit64, getpid(), RLIMIT_FSIZE, 0, &files));
	SHOW(syscall(SYS_prlimit64, getpid(), RLIMIT_FSIZE, &files, 0));
	SHOW(syscall(SYS_prlimit64, getppid(), RLIMIT_FSIZE, 0, &files));
	exit(0);
}

static void everything(void)
{
	locking();
	populating();
	moving();
	clocks();
}

static void unprivileged(void)
{
	if (setresuid(1000, 1000, 1000) != 0)
		exit(1);
	everything();
	exit(0);
}

int main(void)
{
	pages = mmap(0, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(pages + 4 * PAGE, 12 * PAGE);
	shared = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	chmod(".", 0777);
	in_child("as root", everything);
	in_child("limits", limits);
	section("without rights");
	in_child("without rights", unprivileged);
	return 0;
}
