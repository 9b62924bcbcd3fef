/* Filters of system calls: many, long, for many threads. */
#include "longest.h"

#define LOAD 0x0000000000000000UL     /* LD | IMM */
#define ALLOW 0x7fff000000000006UL    /* RET | K */

static uint64_t code[4096];

static int add(unsigned long len, unsigned flags)
{
	struct { uint64_t len, code; } program = { len, (uint64_t)code };
	code[len - 1] = ALLOW;
	return syscall(SYS_seccomp, 1, flags, &program) == 0;
}

/* The shortest that there are: each call asks all of them, and the end drops them. */
static void many_filters(void)
{
	while (add(1, 0)) {}
	for (int i = 0; i < 100; i++)
		getppid();
}

static void long_filters(void)
{
	for (int i = 0; i < 4095; i++)
		code[i] = LOAD;
	while (add(4096, 0)) {}
	for (int i = 0; i < 100; i++)
		getppid();
}

static void filters_of_all(void)
{
	static uint32_t word;
	threads(sleeper, &word);
	for (int i = 0; i < 20; i++)
		if (!add(1, 1))
			cannot();
}

const struct call filter_calls[] = { CASE(many_filters), CASE(long_filters), CASE(filters_of_all), { 0, 0 } };
