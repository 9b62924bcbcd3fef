/*
 * Spends nine parts of its time in one function and one in another; or, as `hot calls`, nearly all in the kernel. For the tests of `darter flame`, which build it with
 * frame pointers and names.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

static double now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static __attribute__((noinline, noclone)) void spin(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i;
}

/* Built without optimization, so that each has a frame. */
static __attribute__((noinline, noclone)) void hot_function(void)
{
	spin(900000);
	sink++;
}

static __attribute__((noinline, noclone)) void cool_function(void)
{
	spin(100000);
	sink++;
}

int main(int argc, char **argv)
{
	int calls = argc > 1 && !strcmp(argv[1], "calls");
	double end = now() + 3;
	while (now() < end) {
		if (calls) {
			for (int i = 0; i < 10000; i++)
				syscall(SYS_getpriority, 0, 0);
			continue;
		}
		hot_function();
		cool_function();
	}
	return 5;
}
