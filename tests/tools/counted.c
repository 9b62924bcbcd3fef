/*
 * Executes known numbers of instructions in three functions, six, three and one parts of ten, so many rounds as its argument says. For the tests of
 * `darter flame --exact`, which build it with names and without frame pointers.
 */
#include <stdlib.h>

/* An instruction, two in each iteration, and the return: 2,002 in a part. */
#define FUNCTION(name)                                                                                                 \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                                    \
		"mov $1000, %ecx\n1: dec %ecx\njnz 1b\nret\n.size " #name ", . - " #name "\n");                         \
	void name(void)

FUNCTION(six_parts);
FUNCTION(three_parts);
FUNCTION(one_part);

static __attribute__((noinline)) void both(int six)
{
	if (six)
		six_parts();
	else
		three_parts();
	__asm__ volatile("");
}

/* The parts of a round come in an order that is another one each time: in the same order, samples would meet the same one again and again. */
static void shuffle(char *parts, int count)
{
	static unsigned long state = 1;
	for (int left = count; left > 1; left--) {
		state ^= state << 13, state ^= state >> 7, state ^= state << 17;
		int at = state % left;
		char part = parts[at];
		parts[at] = parts[left - 1];
		parts[left - 1] = part;
	}
}

int main(int argc, char **argv)
{
	char parts[] = { 6, 6, 6, 6, 6, 6, 3, 3, 3, 1 };
	for (long rounds = argc > 1 ? atol(argv[1]) : 1; rounds > 0; rounds--) {
		shuffle(parts, sizeof parts);
		for (unsigned i = 0; i < sizeof parts; i++) {
			if (parts[i] == 1)
				one_part();
			else
				both(parts[i] == 6);
		}
	}
	return 6;
}
