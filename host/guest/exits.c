/*
 * Operations between two marks at which a virtual CPU leaves the guest: CPUID with a leaf of our own, which no processor has and which
 * every hypervisor answers itself. So a trace of the hypervisor shows exactly what lies between the marks (host/src/exits).
 *
 *   exits CASE...    a line "NUMBER CASE OPERATIONS" for each window, in the order of the marks' numbers
 *   exits list       the cases
 *
 * Each case is run ROUNDS times, most of them after a run that is not measured. Memory has been touched before: a host gives it at the first touch, which is no
 * operation's cost. A case for two CPUs is left out on one.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OPEN 0x44415201u
#define CLOSE 0x44415202u
#define ROUNDS 3
#define PAGE 4096
#define PAGES 512
#define WARM_BYTES (64ul << 20)
#define MOST_CPUS 64

static unsigned number, cpus;

static void mark(unsigned leaf)
{
	unsigned a, b, c, d;
	__cpuid_count(leaf, number, a, b, c, d);
}

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(unsigned cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		fail("sched_setaffinity");
}

static void sleep_ns(long ns)
{
	struct timespec pause = { ns / 1000000000, ns % 1000000000 };
	nanosleep(&pause, 0);
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static char *map(size_t bytes)
{
	char *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	madvise(at, bytes, MADV_NOHUGEPAGE);
	return at;
}

/* Each case: opens and closes its window itself, and returns how many operations lay in it. */

static unsigned syscalls(void)
{
	mark(OPEN);
	for (unsigned i = 0; i < 1000; i++)
		getppid();
	mark(CLOSE);
	return 1000;
}

static unsigned faults(void)
{
	char *at = map(PAGES * PAGE);
	mark(OPEN);
	for (unsigned i = 0; i < PAGES; i++)
		*(volatile char *)(at + i * PAGE) = 1;
	mark(CLOSE);
	munmap(at, PAGES * PAGE);
	return PAGES;
}

static unsigned forks(void)
{
	mark(OPEN);
	for (unsigned i = 0; i < 50; i++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		if (pid < 0 || waitpid(pid, 0, 0) != pid)
			fail("fork");
	}
	mark(CLOSE);
	return 50;
}

static void exec(void)
{
	char *const argv[] = { "tiny", 0 };
	int status;
	pid_t pid = vfork();
	if (pid == 0) {
		execv("/bin/tiny", argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		fail("/bin/tiny");
}

static unsigned execs(void)
{
	mark(OPEN);
	for (unsigned i = 0; i < 25; i++)
		exec();
	mark(CLOSE);
	return 25;
}

/* A byte to and fro through two pipes: each way wakes one that sleeps. */
static unsigned wake(unsigned other)
{
	int to[2], from[2];
	char byte = 0;
	if (pipe(to) != 0 || pipe(from) != 0)
		fail("pipe");
	pid_t pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		pin(other);
		close(to[1]);
		while (read(to[0], &byte, 1) == 1)
			(void)!write(from[1], &byte, 1);
		_exit(0);
	}
	for (unsigned i = 0; i < 120; i++) {
		if (i == 20)
			mark(OPEN);
		if (write(to[1], &byte, 1) != 1 || read(from[0], &byte, 1) != 1)
			fail("pipe");
	}
	mark(CLOSE);
	for (unsigned i = 0; i < 2; i++) {
		close(to[i]);
		close(from[i]);
	}
	waitpid(pid, 0, 0);
	return 200;
}

static unsigned wakes(void)
{
	return wake(0);
}

static unsigned wakes_elsewhere(void)
{
	return wake(1);
}

static unsigned timers(void)
{
	mark(OPEN);
	for (unsigned i = 0; i < 50; i++)
		sleep_ns(2000000);
	mark(CLOSE);
	return 50;
}

/* A page that all CPUs have read is unmapped: the others, which are busy in user mode, must forget it. */
static char *volatile shared;
static volatile unsigned turn, over, seen[MOST_CPUS];

static void *reader(void *cpu)
{
	volatile unsigned *own = &seen[(uintptr_t)cpu];
	pin((unsigned)(uintptr_t)cpu);
	while (!over)
		if (*own != turn) {
			(void)*(volatile char *)shared;
			*own = turn;
		}
	return cpu;
}

static unsigned flushes(void)
{
	pthread_t thread[MOST_CPUS];
	turn = over = 0;
	for (unsigned cpu = 1; cpu < cpus; cpu++) {
		seen[cpu] = 0;
		if (pthread_create(&thread[cpu], 0, reader, (void *)(uintptr_t)cpu) != 0)
			fail("pthread_create");
	}
	mark(OPEN);
	for (unsigned i = 1; i <= 100; i++) {
		char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED)
			fail("mmap");
		*at = 1;
		shared = at;
		turn = i;
		for (unsigned cpu = 1; cpu < cpus; cpu++)
			while (seen[cpu] != i)
				;
		munmap(at, PAGE);
	}
	mark(CLOSE);
	over = 1;
	for (unsigned cpu = 1; cpu < cpus; cpu++)
		pthread_join(thread[cpu], 0);
	return 100;
}

static volatile int go;

static void *spinner(void *cpu)
{
	pin((unsigned)(uintptr_t)cpu);
	while (!go)
		;
	while (go == 1)
		;
	return cpu;
}

/* A second in which every CPU runs one thread in user mode. */
static unsigned busy(void)
{
	unsigned others = cpus - 1;
	pthread_t thread[others + 1];
	go = 0;
	for (unsigned i = 0; i < others; i++)
		if (pthread_create(&thread[i], 0, spinner, (void *)(uintptr_t)(i + 1)) != 0)
			fail("pthread_create");
	sleep_ns(100000000);
	double end = now() + 1;
	mark(OPEN);
	for (go = 1; now() < end;)
		;
	mark(CLOSE);
	go = 2;
	for (unsigned i = 0; i < others; i++)
		pthread_join(thread[i], 0);
	return others + 1;
}

/* Seconds in which nobody does anything. */
static unsigned idle(void)
{
	sleep_ns(500000000);
	mark(OPEN);
	sleep_ns(3000000000);
	mark(CLOSE);
	return 3 * cpus;
}

static const struct {
	const char *name;
	unsigned (*run)(void);
	unsigned least;
	int at_once;               /* without a first, unmeasured run */
} all[] = {
	{ "system-call", syscalls, 1, 0 },
	{ "fault", faults, 1, 0 },
	{ "fork", forks, 1, 0 },
	{ "exec", execs, 1, 0 },
	{ "wake-up", wakes, 1, 0 },
	{ "wake-up-elsewhere", wakes_elsewhere, 2, 0 },
	{ "timer", timers, 1, 0 },
	{ "tlb-flush", flushes, 2, 0 },
	{ "busy-second", busy, 1, 1 },
	{ "idle-second", idle, 1, 1 },
};

int main(int argc, char **argv)
{
	/* Before this one is pinned: musl counts the CPUs that it may run on. */
	cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	cpus = cpus < MOST_CPUS ? cpus : MOST_CPUS;
	int list = argc == 2 && !strcmp(argv[1], "list");
	if (!list) {
		char *warm = map(WARM_BYTES);
		for (size_t at = 0; at < WARM_BYTES; at += PAGE)
			warm[at] = 1;
		munmap(warm, WARM_BYTES);
		pin(0);
	}
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		int wanted = argc < 2 || list;
		for (int j = 1; j < argc; j++)
			wanted |= !strcmp(argv[j], all[i].name);
		if (list) {
			puts(all[i].name);
		} else if (wanted && cpus >= all[i].least) {
			number = 0;
			if (!all[i].at_once)
				all[i].run();
			for (unsigned round = 1; round <= ROUNDS; round++) {
				number = (unsigned)i * 10 + round;
				unsigned operations = all[i].run();
				printf("%u %s %u\n", number, all[i].name, operations);
			}
		}
	}
	return 0;
}
