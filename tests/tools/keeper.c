/*
 * keeper PROCESSES MIB: memory keeps what was written to it, whatever the machine does with the rest.
 *
 * Each process has MIB of memory, and goes over it in pieces of 64 pages: every word of a page must be what was written last; then the piece is written anew,
 * or given back and must be zeros, and is written then. The first process reads its input to the end, and has the others stop after that.
 * Prints how many pieces were looked at. Status 0: all of it was right; 1: not, or a process was killed; 2: usage.
 */
#include "t.h"

enum { PIECE = 64, WORDS = 4096 / 8 };

static volatile sig_atomic_t stops;

static void stop(int signal)
{
	(void)signal;
	stops = 1;
}

static void put(uint64_t *page, uint64_t value)
{
	for (int n = 0; n < WORDS; n++)
		page[n] = value + n;
}

/* The first page that is not as it was written: value 0 is zeros. */
static int look(uint64_t *page, uint64_t value)
{
	for (int n = 0; n < WORDS; n++)
		if (page[n] != (value ? value + n : 0))
			return 0;
	return 1;
}

static uint64_t value_of(long page, long round, pid_t pid)
{
	return ((uint64_t)pid << 48) + ((uint64_t)round << 32) + (uint64_t)page * WORDS + 1;
}

static int keep(long pages, long *looked)
{
	uint64_t *area = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid = getpid();
	if (area == MAP_FAILED)
		return 0;
	for (long page = 0; page < pages; page++)
		put(area + page * WORDS, value_of(page, 0, pid));
	for (long round = 1; !stops; round++)
		for (long first = 0; first < pages && !stops; first += PIECE, ++*looked) {
			long last = first + PIECE < pages ? first + PIECE : pages;
			for (long page = first; page < last; page++)
				if (!look(area + page * WORDS, value_of(page, round - 1, pid)))
					return 0;
			if ((first / PIECE + round) % 3 == 0) {
				madvise(area + first * WORDS, (last - first) * 4096, MADV_DONTNEED);
				for (long page = first; page < last; page++)
					if (!look(area + page * WORDS, 0))
						return 0;
			}
			for (long page = first; page < last; page++)
				put(area + page * WORDS, value_of(page, round, pid));
		}
	return 1;
}

int main(int argc, char **argv)
{
	int processes = argc == 3 ? atoi(argv[1]) : 0;
	long pages = argc == 3 ? atol(argv[2]) * 256 : 0;
	if (processes < 1 || processes > 64 || pages < 1)
		return 2;
	signal(SIGTERM, stop);
	pid_t children[64];
	int counts[2];
	if (pipe(counts) != 0)
		return 2;
	for (int n = 0; n < processes; n++)
		if ((children[n] = fork()) == 0) {
			long looked = 0;
			int good = keep(pages, &looked);
			write(counts[1], &looked, sizeof looked);
			_exit(!good);
		}
	char byte;
	while (read(0, &byte, 1) > 0)
		;
	int good = 1;
	long all = 0;
	for (int n = 0; n < processes; n++)
		kill(children[n], SIGTERM);
	for (int n = 0; n < processes; n++) {
		int status;
		waitpid(children[n], &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			printf("process %d: status %#x\n", n, status);
			good = 0;
		}
	}
	close(counts[1]);
	for (long looked; read(counts[0], &looked, sizeof looked) == sizeof looked;)
		all += looked;
	fprintf(stderr, "%ld pieces\n", all);
	printf("%s\n", good && all > 0 ? "kept" : "not kept");
	return !good || all == 0;
}
