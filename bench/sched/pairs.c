/*
 * pairs: tasks that send each other a byte by pipes, to and fro, wherever the kernel puts them.
 *
 *   pairs PAIRS ROUNDS [-t]
 *
 * An operation is there and back. What is late is a task: from before the partner writes until it has read. Processes, or with -t threads of one.
 */
#define _GNU_SOURCE
#include "sched.h"

static unsigned rounds;
static int (*pipes)[2];

static void take(int from, struct samples *late)
{
	uint64_t sent;
	if (read(from, &sent, sizeof sent) != sizeof sent)
		die("read");
	sample(late, now_ns() - sent);
}

static void give(int to)
{
	uint64_t now = now_ns();
	if (write(to, &now, sizeof now) != sizeof now)
		die("write");
}

static unsigned body(unsigned i, struct samples *late)
{
	int first = i % 2 == 0, cpu = sched_getcpu();
	/* Two pipes a pair: there and back. */
	int from = pipes[first ? i + 1 : i - 1][0], to = pipes[i][1];
	unsigned moves = 0;
	for (unsigned at = 0; at < rounds; at++) {
		if (first)
			give(to);
		take(from, late);
		if (!first)
			give(to);
		look_where(&cpu, &moves);
	}
	return moves;
}

int main(int argc, char **argv)
{
	unsigned pairs = argc > 1 ? (unsigned)strtoul(argv[1], 0, 10) : 0;
	rounds = argc > 2 ? (unsigned)strtoul(argv[2], 0, 10) : 0;
	int threads = argc > 3 && strcmp(argv[3], "-t") == 0;
	if (pairs == 0 || pairs > 1000 || rounds == 0) {
		fprintf(stderr, "usage: pairs PAIRS ROUNDS [-t]\n");
		return 2;
	}
	limit_time();
	pipes = calloc(pairs * 2, sizeof *pipes);
	for (unsigned at = 0; at < pairs * 2; at++)
		if (!pipes || pipe(pipes[at]) != 0)
			die("pipe");
	run_load(&(struct tasks){ "pairs", pairs * 2, (unsigned long long)pairs * rounds, threads, shared_memory(sizeof(struct load)), body });
	return 0;
}
