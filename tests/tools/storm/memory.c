/* Storms of memory: until it is full, or until there are as many mappings as may be. */
#include "storm.h"

#define PAGE 4096L
#define MIB (1L << 20)
#define TIB (1L << 40)

static void fill(void)
{
	char *at = reserve(TIB);
	for (long i = 0; i < TIB; i += PAGE, did())
		at[i] = 1;
}

/* Private pages, in several processes. */
static void pages(void) { crowd(4, fill); }

/* A page here and there: most of the memory is page tables. */
static void tables(void)
{
	char *at = reserve(32 * TIB);
	for (long i = 0; i < 32 * TIB; i += 2 * MIB, did())
		at[i] = 1;
}

/* Neighbours with different rights, so that none is joined with another. */
static void mappings(void)
{
	char *at = reserve(4 * PAGE * 1000000);
	for (long i = 0; i < 1000000; i++) {
		if (mprotect(at + 2 * i * PAGE, PAGE, PROT_READ) != 0) {
			refused(errno);
			break;
		}
		did();
		if (i % 64 == 0)
			at[(2 * i + 1) * PAGE] = 1;
	}
}

/* Shared memory without a name: nothing but memory bounds it. */
static void memfd(void)
{
	int fd = memfd_create("storm", 0);
	static char bytes[MIB];
	while (write(fd, bytes, sizeof bytes) > 0)
		did();
	refused(errno);
	nap(20);
}

const struct storm memory_storms[] = {
	{ "pages", pages, KILLED, 10000, 4000, 0 },
	{ "tables", tables, KILLED, 10000, 4000, 0 },
	{ "mappings", mappings, ENOMEM, 30000, 4000, 0 },
	{ "memfd", memfd, ENOSPC, 20, 4000, 0 },
	{ 0 },
};
