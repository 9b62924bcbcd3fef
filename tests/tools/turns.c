/*
 * turns ROUNDS: two processes take turns without entering the kernel, so that on one CPU each turn ends only at a tick.
 *
 * A kernel whose tick does not run hangs here. Status 0: all turns were taken; 2: usage.
 */
#include "t.h"

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : 0;
	volatile int *turn = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rounds < 1 || turn == MAP_FAILED) {
		say("usage: turns ROUNDS");
		return 2;
	}
	int mine = 0;
	pid_t child = must_fork();
	if (child == 0)
		mine = 1;
	for (int now; (now = *turn) < 2 * rounds;)
		if (now % 2 == mine)
			*turn = now + 1;
	if (child == 0)
		_exit(0);
	if (wait_for(child) != 0)
		return 1;
	say("%d turns", *turn);
	return 0;
}
