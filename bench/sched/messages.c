/*
 * messages: groups of senders and receivers over pipes.
 *
 *   messages GROUPS MESSAGES [-t]
 *
 * In each group each of five senders sends MESSAGES to each of five receivers, in turn; a receiver has a pipe. An operation is one message. What is
 * late is a message: from before it is written until it has been read. Processes, or with -t threads of one.
 */
#define _GNU_SOURCE
#include "sched.h"

#define FAN 5
#define BYTES 100

union message {
	uint64_t sent_ns;
	char bytes[BYTES];
};

static unsigned messages;
static int (*pipes)[2];

static unsigned sender(const int (*to)[2])
{
	int cpu = sched_getcpu();
	unsigned moves = 0;
	union message message = { .bytes = "" };
	for (unsigned at = 0; at < messages; at++)
		for (unsigned receiver = 0; receiver < FAN; receiver++) {
			message.sent_ns = now_ns();
			if (write(to[receiver][1], &message, BYTES) != BYTES)
				die("write");
			look_where(&cpu, &moves);
		}
	return moves;
}

static unsigned receiver(int from, struct samples *late)
{
	int cpu = sched_getcpu();
	unsigned moves = 0;
	union message message;
	for (unsigned at = 0; at < messages * FAN; at++) {
		if (read(from, &message, BYTES) != BYTES)
			die("read");
		sample(late, now_ns() - message.sent_ns);
		look_where(&cpu, &moves);
	}
	return moves;
}

static unsigned body(unsigned i, struct samples *late)
{
	unsigned group = i / (2 * FAN), place = i % (2 * FAN);
	const int (*own)[2] = (const int (*)[2])&pipes[group * FAN];
	return place < FAN ? sender(own) : receiver(own[place - FAN][0], late);
}

int main(int argc, char **argv)
{
	unsigned groups = argc > 1 ? (unsigned)strtoul(argv[1], 0, 10) : 0;
	messages = argc > 2 ? (unsigned)strtoul(argv[2], 0, 10) : 0;
	int threads = argc > 3 && strcmp(argv[3], "-t") == 0;
	if (groups == 0 || groups > 100 || messages == 0) {
		fprintf(stderr, "usage: messages GROUPS MESSAGES [-t]\n");
		return 2;
	}
	limit_time();
	pipes = calloc(groups * FAN, sizeof *pipes);
	for (unsigned at = 0; at < groups * FAN; at++)
		if (!pipes || pipe(pipes[at]) != 0)
			die("pipe");
	run_load(&(struct tasks){ "messages", groups * 2 * FAN, (unsigned long long)groups * FAN * FAN * messages, threads,
		shared_memory(sizeof(struct load)), body });
	return 0;
}
