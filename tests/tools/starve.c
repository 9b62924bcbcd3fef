/*
 * starve [NAME...]: calls that a program can make as long as it likes leave the CPU to others, and end when the program is killed.
 *
 * Each of the calls below is made in a child, without end and as an ordinary user, beside a process that sleeps 2 ms at a time, on one CPU. The
 * child is killed after RUN ms. No sleep may end later than LATE ms, and the child must be gone within GONE ms. Printed are the latest
 * sleep and how long the child lived on. Status 0: all kept to both; 1: not; 2: usage.
 */
#include "t.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { LATE = 30, GONE = 100, RUN = 300 };
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#define ZERO_RANGE 0x10
#define PAGE 4096L
#define MIB (1L << 20)
#define TIB (1L << 40)
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static int sparse_file(long size)
{
	int fd = open("sparse", O_CREAT | O_RDWR | O_TRUNC, 0600);
	unlink("sparse");
	if (fd < 0 || ftruncate(fd, size) != 0)
		_exit(3);
	return fd;
}

static char *area(long size, int prot, int flags, int fd)
{
	char *at = mmap(0, size, prot, flags, fd, 0);
	if (at == MAP_FAILED)
		_exit(4);
	return at;
}

/* The first byte of data lies at the end, the first hole behind as many pages as there is memory for. */
static void seek_data(void)
{
	int fd = sparse_file(4 * TIB);
	pwrite(fd, "x", 1, 4 * TIB - 1);
	for (;;)
		lseek(fd, 0, SEEK_DATA);
}

static void seek_hole(void)
{
	int fd = sparse_file(4 * TIB);
	for (long at = 0; at < 128 * MIB; at += PAGE)
		if (pwrite(fd, "x", 1, at) != 1)
			break;
	for (;;)
		lseek(fd, 0, SEEK_HOLE);
}

static void populate(void)
{
	for (;;)
		munmap(mmap(0, 4 * TIB, PROT_READ, ANON | MAP_POPULATE, -1, 0), 4 * TIB);
}

static void populate_file(void)
{
	int fd = sparse_file(4 * TIB);
	for (;;)
		munmap(mmap(0, 4 * TIB, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0), 4 * TIB);
}

static void populate_read(void)
{
	char *at = area(4 * TIB, PROT_READ, ANON, -1);
	for (;;)
		madvise(at, 4 * TIB, MADV_POPULATE_READ);
}

static void populate_write(void)
{
	char *at = area(64 * MIB, RW, ANON, -1);
	for (;;)
		for (int i = 0; i < 64; i++)
			madvise(at, 64 * MIB, i ? MADV_POPULATE_WRITE : MADV_DONTNEED);
}

/* One call that moves 1 GiB through a MiB of memory. */
static void move(int fd, ssize_t (*call)(int, const struct iovec *, int))
{
	struct iovec parts[1024];
	char *at = area(MIB, RW, ANON, -1);
	for (int i = 0; i < 1024; i++)
		parts[i] = (struct iovec){ at, MIB };
	for (;;) {
		lseek(fd, 0, SEEK_SET);
		call(fd, parts, 1024);
	}
}

static void urandom(void) { move(open("/dev/urandom", O_RDONLY), readv); }
static void stir(void) { move(open("/dev/urandom", O_WRONLY), writev); }
static void zero(void) { move(open("/dev/zero", O_RDONLY), readv); }
static void read_hole(void) { move(sparse_file(4 * TIB), readv); }
static void rewrite(void) { move(sparse_file(0), writev); }

static void getrandom_(void)
{
	char *at = area(128 * MIB, RW, ANON, -1);
	for (;;)
		syscall(SYS_getrandom, at, 128 * MIB, 0);
}

static void copy_range(void)
{
	int from = sparse_file(4 * TIB), to = sparse_file(0);
	for (;;) {
		loff_t in = 0, out = 0;
		syscall(SYS_copy_file_range, from, &in, to, &out, 128 * MIB, 0);
	}
}

static void send_file(void)
{
	int from = sparse_file(4 * TIB), to = open("/dev/null", O_WRONLY);
	for (;;) {
		off_t in = 0;
		sendfile(to, from, &in, 1L << 30);
	}
}

static void vmsplice_(void)
{
	int ends[2];
	if (pipe(ends) != 0)
		_exit(3);
	if (fork() == 0) {
		char *at = area(MIB, RW, ANON, -1);
		close(ends[1]);
		while (read(ends[0], at, MIB) > 0)
			;
		_exit(0);
	}
	close(ends[0]);
	move(ends[1], writev);
}

static void incore(void)
{
	char *at = area(128L << 30, PROT_READ, ANON, -1);
	unsigned char *to = (unsigned char *)area(32 * MIB, RW, ANON, -1);
	for (;;)
		syscall(SYS_mincore, at, 128L << 30, to);
}

static void fallocate_(void)
{
	int fd = sparse_file(4 * TIB);
	for (;;)
		fallocate(fd, ZERO_RANGE, 1, 4 * TIB - 2);
}

/* Timers of one clock, set by `flags` to a time in ns, and then every `period`. Their signal is ignored or blocked. */
static void timers(clockid_t clock, int blocked, int flags, long value, long period)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct itimerspec when = { { 0, period }, { value / 1000000000, value % 1000000000 } };
	int made = 0, id[4000];
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, SIGRTMIN);
	if (blocked)
		sigprocmask(SIG_BLOCK, &set, 0);
	else
		signal(SIGRTMIN, SIG_IGN);
	while (made < 4000 && syscall(SYS_timer_create, clock, &event, &id[made]) == 0)
		made++;
	for (;;) {
		for (int i = 0; i < made; i++)
			syscall(SYS_timer_settime, id[i], flags, &when, 0);
		for (volatile int spin = 0; spin < 20000000; spin++)
			;
	}
}

static void cpu_timers(void) { timers(CLOCK_PROCESS_CPUTIME_ID, 0, 0, 1L << 50, 1); }
static void due_cpu_timers(void) { timers(CLOCK_PROCESS_CPUTIME_ID, 0, 0, 1000, 1000); }
static void thread_timers(void) { timers(CLOCK_THREAD_CPUTIME_ID, 1, TIMER_ABSTIME, 1, 1000); }
static void wall_timers(void) { timers(CLOCK_MONOTONIC, 1, 0, 20000000, 0); }

static void maps(void)
{
	char *at = area(64 * MIB, RW, ANON, -1), text[4096];
	for (long page = 0; page < 16384; page += 2)
		mprotect(at + page * PAGE, PAGE, PROT_READ);
	for (;;) {
		int fd = open("/proc/self/maps", O_RDONLY);
		while (read(fd, text, sizeof text) > 0)
			;
		close(fd);
		madvise(at, 64 * MIB, MADV_WILLNEED);
	}
}

static void epoll_watches(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	int event = eventfd(0, EFD_NONBLOCK), poll = epoll_create1(0), fd;
	struct epoll_event want = { .events = EPOLLIN };
	for (int i = 0; i < 4000 && (fd = dup(event)) >= 0; i++)
		epoll_ctl(poll, EPOLL_CTL_ADD, fd, &want);
	for (;;) {
		eventfd_write(event, 1);
		eventfd_t value;
		struct epoll_event found[64];
		epoll_wait(poll, found, 64, 0);
		eventfd_read(event, &value);
	}
}

static const struct attack {
	const char *name;
	void (*run)(void);
} attacks[] = {
	{ .name = "seek_data", .run = seek_data },
	{ .name = "seek_hole", .run = seek_hole },
	{ .name = "populate", .run = populate },
	{ .name = "populate_file", .run = populate_file },
	{ .name = "populate_read", .run = populate_read },
	{ .name = "populate_write", .run = populate_write },
	{ .name = "urandom", .run = urandom },
	{ .name = "getrandom", .run = getrandom_ },
	{ .name = "stir", .run = stir },
	{ .name = "zero", .run = zero },
	{ .name = "read_hole", .run = read_hole },
	{ .name = "rewrite", .run = rewrite },
	{ .name = "copy_range", .run = copy_range },
	{ .name = "send_file", .run = send_file },
	{ .name = "vmsplice", .run = vmsplice_ },
	{ .name = "incore", .run = incore },
	{ .name = "fallocate", .run = fallocate_ },
	{ .name = "cpu_timers", .run = cpu_timers },
	{ .name = "due_cpu_timers", .run = due_cpu_timers },
	{ .name = "thread_timers", .run = thread_timers },
	{ .name = "wall_timers", .run = wall_timers },
	{ .name = "maps", .run = maps },
	{ .name = "epoll_watches", .run = epoll_watches },
};
enum { ATTACKS = sizeof attacks / sizeof *attacks };

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000L + time.tv_nsec / 1000;
}

static int judge(const struct attack *attack)
{
	pid_t child = must_fork();
	if (child == 0) {
		if (setresgid(1000, 1000, 1000) != 0 || setresuid(1000, 1000, 1000) != 0)
			_exit(5);
		setpgid(0, 0);
		attack->run();
		_exit(0);
	}
	long began = now(), latest = 0;
	while (now() - began < RUN * 1000L) {
		long due = now() + 2000;
		nap(2);
		if (now() - due > latest)
			latest = now() - due;
	}
	long killed = now();
	kill(-child, SIGKILL);
	kill(child, SIGKILL);
	int status = wait_for(child);
	long gone = now() - killed;
	int good = latest <= LATE * 1000L && gone <= GONE * 1000L && WIFSIGNALED(status);
	say("%-16s latest %6ld us  gone after %6ld us  %s%s", attack->name, latest, gone, status_text(status),
	    good ? "" : "  TOO LONG");
	return good;
}

int main(int argc, char **argv)
{
	int status = 0, judged = 0;
	for (int i = 0; i < ATTACKS; i++) {
		int wanted = argc == 1;
		for (int n = 1; n < argc; n++)
			wanted |= strcmp(argv[n], attacks[i].name) == 0;
		if (wanted) {
			judged++;
			status |= !judge(&attacks[i]);
		}
	}
	if (judged < (argc == 1 ? ATTACKS : argc - 1)) {
		say("usage: starve [NAME...]");
		return 2;
	}
	return status;
}
