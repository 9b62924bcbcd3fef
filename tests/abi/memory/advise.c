/* process_madvise: advice for another process's memory, what is refused, and how far it came. */
#include "t.h"

#include <sys/uio.h>

#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define LARGE (2ul << 20)
enum { PAGE = 4096, COUNT = 512 };

static long advise(int fd, const struct iovec *parts, size_t count, int advice, unsigned flags)
{
	return syscall(SYS_process_madvise, fd, parts, count, advice, flags);
}

static char *at;                /* three mapped leaves, then nothing */
static int go[2], told[2];      /* pipes to the child and from it */

/* Three whole leaves; what follows is not mapped. */
static char *map(void)
{
	char *all = mmap(0, 5 * LARGE, RW, ANON, -1, 0);
	char *first = (char *)(((uintptr_t)all + LARGE - 1) & -LARGE);
	munmap(first + 3 * LARGE, all + 5 * LARGE - (first + 3 * LARGE));
	return first;
}

static int wrong(void)
{
	int count = 0;
	for (int i = 0; i < COUNT; i++)
		count += *(int *)(at + (long)i * PAGE) != i + 1;
	return count;
}

/* How much of the caller's memory is in large pages, in KiB. */
static long in_large_pages(void)
{
	char *text = read_file("/proc/self/smaps_rollup"), *line = strstr(text, "AnonHugePages:");
	long kib = line ? atol(line + 14) : -1;
	free(text);
	return kib;
}

/* A child that fills a leaf of its own, and then says what it has, whenever it is asked. */
static pid_t child(void)
{
	pipe(go), pipe(told);
	pid_t pid = must_fork();
	if (!pid) {
		close(go[1]), close(told[0]);
		/* Its own pages, which no other process has. */
		munmap(at, 3 * LARGE);
		mmap(at, 3 * LARGE, RW, ANON | MAP_FIXED, -1, 0);
		for (int i = 0; i < COUNT; i++)
			*(int *)(at + (long)i * PAGE) = i + 1;
		char byte;
		do {
			int answer[] = { wrong(), (int)in_large_pages() };
			write(told[1], answer, sizeof answer);
		} while (read(go[0], &byte, 1) == 1);
		_exit(0);
	}
	close(go[0]), close(told[1]);
	return pid;
}

static void hear(void)
{
	int answer[2] = { -1, -1 };
	read(told[0], answer, sizeof answer);
	say("child: %d wrong, %d KiB in large pages", answer[0], answer[1]);
}

static void ask(void)
{
	write(go[1], "g", 1);
	hear();
}

static int fd;
static struct iovec one;

static void by_user(void)
{
	setuid(1000);
	SHOW(advise(fd, &one, 1, MADV_COLD, 0));
	SHOW(advise(fd, &one, 1, MADV_DONTNEED, 0));
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
	SHOW(advise(self, &one, 1, MADV_COLD, 0));
}

static void without_nice(void)
{
	enum { VERSION_3 = 0x20080522, SYS_NICE = 23 };
	struct { uint32_t version; int pid; } header = { VERSION_3, 0 };
	struct { uint32_t effective, permitted, inheritable; } sets[2];
	syscall(SYS_capget, &header, sets);
	sets[0].effective &= ~(1u << SYS_NICE);
	SHOW(syscall(SYS_capset, &header, sets));
	SHOW(advise(fd, &one, 1, MADV_COLD, 0));
	SHOW(advise(fd, &one, 0, MADV_COLD, 0));
}

static const char *const enabled = "/sys/kernel/mm/transparent_hugepage/enabled";

/* The word in brackets, which is the machine's mode. */
static void read_mode(char *mode, size_t size)
{
	char *text = read_file(enabled), *open_at = text ? strchr(text, '[') : 0;
	if (open_at)
		snprintf(mode, size, "%.*s", (int)strcspn(open_at + 1, "]"), open_at + 1);
	free(text);
}

int main(void)
{
	char mode[64] = "madvise";
	read_mode(mode, sizeof mode);
	/* Nothing is large unless it is collapsed. */
	write_file(enabled, "madvise");
	at = map();
	pid_t pid = child();
	hear();
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0), null = open("/dev/null", O_RDONLY), folder = open("/proc/self", O_PATH);
	one = (struct iovec){ at, LARGE };

	section("each kind of advice");
	for (int advice = -1; advice < 28; advice++) {
		char text[32];
		snprintf(text, sizeof text, "advice %d", advice);
		errno = 0;
		show_value(text, advise(fd, &one, 1, advice, 0));
	}
	SHOW(advise(fd, &one, 1, 100, 0));
	SHOW(advise(fd, &one, 1, 102, 0));
	ask();

	section("which is looked at first");
	SHOW(advise(-1, 0, 0, MADV_COLD, 1));
	SHOW(advise(-1, 0, 0, MADV_COLD, 0));
	SHOW(advise(-1, 0, 1, MADV_COLD, 0));
	SHOW(advise(-1, 0, 1025, MADV_COLD, 0));
	SHOW(advise(null, &one, 1, MADV_DONTNEED, 0));
	SHOW(advise(null, &one, 1, MADV_COLD, 0));
	SHOW(advise(folder, &one, 1, MADV_COLD, 0));
	SHOW(advise(fd, 0, 0, MADV_DONTNEED, 0));
	SHOW(advise(fd, 0, 0, MADV_COLD, 0));
	SHOW(advise(fd, &one, 1, MADV_COLD, 0x800));

	section("segments");
	struct iovec parts[] = { { at, PAGE }, { at + LARGE, 0 }, { at + 2 * PAGE, 5 * PAGE }, { at + 3 * LARGE, PAGE }, { at, PAGE } };
	SHOW(advise(fd, parts, 3, MADV_COLD, 0));
	SHOW(advise(fd, parts, 5, MADV_COLD, 0));
	SHOW(advise(fd, parts + 3, 2, MADV_COLD, 0));
	SHOW(advise(fd, parts + 1, 1, MADV_COLD, 0));
	struct iovec odd[] = { { at + 1, PAGE }, { at, PAGE } };
	SHOW(advise(fd, odd, 2, MADV_COLD, 0));
	struct iovec behind[] = { { at, PAGE }, { at + 1, PAGE } };
	SHOW(advise(fd, behind, 2, MADV_COLD, 0));
	struct iovec uneven[] = { { at, 1 }, { at + PAGE, 100 } };
	SHOW(advise(fd, uneven, 2, MADV_WILLNEED, 0));
	struct iovec far[] = { { (void *)0xffff800000000000ul, PAGE } };
	SHOW(advise(fd, far, 1, MADV_COLD, 0));
	struct iovec negative[] = { { at, PAGE }, { at, -1ul } };
	SHOW(advise(fd, negative, 2, MADV_COLD, 0));
	struct iovec across[] = { { at + 2 * LARGE, 2 * LARGE } };
	SHOW(advise(fd, across, 1, MADV_COLD, 0));
	SHOW(advise(fd, across, 1, MADV_WILLNEED, 0));

	section("collapsed by another");
	struct iovec leaves[] = { { at, LARGE }, { at + LARGE, LARGE } };
	SHOW(advise(fd, leaves, 1, MADV_COLLAPSE, 0));
	ask();
	SHOW(advise(fd, leaves, 2, MADV_COLLAPSE, 0));
	SHOW(advise(fd, leaves + 1, 1, MADV_COLLAPSE, 0));

	section("one's own");
	memset(at, 1, LARGE);
	SHOW(advise(self, leaves, 1, MADV_COLLAPSE, 0));
	say("%ld KiB in large pages", in_large_pages());
	SHOW(advise(self, leaves, 1, MADV_DONTNEED, 0));
	SHOW(advise(self, parts, 5, MADV_COLD, 0));

	section("who may");
	in_child("a user", by_user);
	in_child("without CAP_SYS_NICE", without_nice);

	section("whose it is");
	pid_t tid = parked_thread();
	int thread = (int)syscall(SYS_pidfd_open, tid, O_EXCL), first = (int)syscall(SYS_pidfd_open, getpid(), O_EXCL);
	SHOW(advise(thread, &one, 1, MADV_COLD, 0));
	SHOW(advise(thread, &one, 1, MADV_DONTNEED, 0));
	SHOW(advise(first, &one, 1, MADV_COLD, 0));
	let_thread_go();
	kill(pid, SIGKILL);
	siginfo_t info;
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	SHOW(advise(fd, &one, 1, MADV_COLD, 0));
	SHOW(advise(fd, &one, 1, MADV_DONTNEED, 0));
	wait_for(pid);
	SHOW(advise(fd, &one, 1, MADV_COLD, 0));
	SHOW(advise(fd, &one, 1, MADV_DONTNEED, 0));
	write_file(enabled, mode);
	return 0;
}
