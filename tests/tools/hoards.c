/*
 * hoards CPUS PERCENT: memory that CPUs have freed is there for another one at once, though they run programs that never enter the kernel.
 *
 * A process on each CPU takes its share of free memory and gives it back, then stays in user mode for good. After that the last CPU
 * takes PERCENT of what MemFree says, all of it at once, and forks with it. A kernel that lets CPUs keep for themselves what they freed
 * runs out and kills. Status 0: everybody got it; 1: not; 2: usage.
 */
#include "meminfo.h"
#include "t.h"

static void stay_on(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set) != 0)
		_exit(3);
}

static char *take(long kib)
{
	char *area = mmap(0, kib << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		_exit(4);
	for (long at = 0; at < kib << 10; at += 4096)
		area[at] = 1;
	return area;
}

/* Takes memory on this CPU, gives it back, says so and never enters the kernel again. */
static void hoard(int cpu, long kib, int done)
{
	stay_on(cpu);
	munmap(take(kib), kib << 10);
	write(done, "", 1);
	for (;;)
		;
}

/* Takes memory and forks a child that changes some of it. */
static int spend(int cpu, long kib)
{
	stay_on(cpu);
	char *area = take(kib);
	pid_t child = fork();
	if (child == 0) {
		for (long at = 0; at < 1 << 20; at += 4096)
			area[at] = 2;
		_exit(0);
	}
	return child < 0 ? 5 : WEXITSTATUS(wait_for(child));
}

int main(int argc, char **argv)
{
	int cpus = argc == 3 ? atoi(argv[1]) : 0, percent = argc == 3 ? atoi(argv[2]) : 0, ends[2];
	if (cpus < 2 || percent < 1 || percent > 99 || pipe(ends) != 0) {
		say("usage: hoards CPUS PERCENT");
		return 2;
	}
	long before = mem_free(), share = before / cpus * percent / 100;
	pid_t children[cpus];
	for (int i = 0; i < cpus - 1; i++)
		if ((children[i] = must_fork()) == 0)
			hoard(i, share, ends[1]);
	char byte;
	for (int i = 0; i < cpus - 1; i++)
		read(ends[0], &byte, 1);
	long after = mem_free();
	pid_t spender = must_fork();
	if (spender == 0)
		_exit(spend(cpus - 1, after * percent / 100));
	int status = wait_for(spender);
	for (int i = 0; i < cpus - 1; i++) {
		kill(children[i], SIGKILL);
		if (wait_for(children[i]) != SIGKILL)
			status = 1;
	}
	int short_of = after < before - before / 20;
	say("free before %ld KiB, after %ld KiB; the last CPU took %d per cent: %s", before, after, percent, status_text(status));
	return status != 0 || short_of;
}
