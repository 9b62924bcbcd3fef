/*
 * Executes known numbers of instructions in three functions, six, three and one parts of ten, so many rounds as its argument says. For the tests of
 * `darter flame --exact`, which build it with names and without frame pointers.
 */
#include <stdlib.h>

/* A round is much shorter than the time between two samples, or they would meet the same function again and again.
 * An instruction, two in each iteration, and the return: 2 * COUNT + 2 in a round. */
#define FUNCTION(name, count)                                                                                          \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                                    \
		"mov $" #count ", %ecx\n1: dec %ecx\njnz 1b\nret\n.size " #name ", . - " #name "\n");                  \
	void name(void)

FUNCTION(six_parts, 6000);
FUNCTION(three_parts, 3000);
FUNCTION(one_part, 1000);

static __attribute__((noinline)) void both(void)
{
	six_parts();
	three_parts();
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	for (long rounds = argc > 1 ? atol(argv[1]) : 1; rounds > 0; rounds--) {
		both();
		one_part();
	}
	return 6;
}
