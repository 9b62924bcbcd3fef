/* longest: calls on an address space: mappings, pages, tables, fork, exec. */
#include "longest.h"

static void unmap(void) { munmap(touched(SIZE * MIB), SIZE * MIB); }
static void unmap_sparse(void) { munmap(sparse(1000), 2000 * MIB); }
static void protect(void) { mprotect(touched(SIZE * MIB), SIZE * MIB, PROT_READ); }
static void protect_sparse(void) { mprotect(sparse(1000), 2000 * MIB, PROT_READ); }
static void dont_need(void) { madvise(touched(SIZE * MIB), SIZE * MIB, MADV_DONTNEED); }
static void dont_need_sparse(void) { madvise(sparse(1000), 2000 * MIB, MADV_DONTNEED); }
static void dont_fork(void) { madvise(sparse(1000), 2000 * MIB, MADV_DONTFORK); }
static void lock_sparse(void) { mlock(sparse(1000), 2000 * MIB); }
static void sync_sparse(void) { msync(sparse(1000), 2000 * MIB, MS_SYNC); }
static void map_over(void) { mmap(sparse(1000), 2000 * MIB, RW, ANON | MAP_FIXED, -1, 0); }
static void move_touched(void) { mremap(touched(SIZE * MIB), SIZE * MIB, SIZE * MIB, 3, mmap(0, SIZE * MIB, 0, ANON, -1, 0)); }
static void move_sparse(void) { mremap(sparse(1000), 2000 * MIB, 8000 * MIB, 3, mmap(0, 8000 * MIB, 0, ANON, -1, 0)); }
static void exit_touched(void) { touched(SIZE * MIB); }
static void exit_sparse(void) { sparse(1000); }

static void pieces(void)
{
	char *at = mmap(0, 60000 * PAGE, RW, ANON, -1, 0);
	for (long i = 0; i < 60000; i += 2)
		mprotect(at + i * PAGE, PAGE, PROT_READ);
	munmap(at, 60000 * PAGE);
}

static void fork_touched(void) { touched(SIZE * MIB); fork_once(); }
static void fork_sparse(void) { sparse(1000); fork_once(); }
static void fork_leaves(void) { sparse(8000); fork_once(); }
static void exit_leaves(void) { sparse(8000); }

static void status_leaves(void)
{
	char buffer[4096];
	sparse(8000);
	int fd = open("/proc/self/statm", O_RDONLY);
	read(fd, buffer, sizeof buffer);
}

static void move_leaves(void) { mremap(sparse(1000), 2000 * MIB, 2000 * MIB, 3, mmap(0, 2000 * MIB, 0, ANON, -1, 0)); }

static void empty_tables(void)
{
	/* A page in each GiB: tables that stay when the pages go. */
	char *at = mmap(0, 4096L << 30, RW, ANON, -1, 0);
	if (at == MAP_FAILED)
		cannot();
	for (long i = 0; i < 4096; i++)
		at[i << 30] = 1;
	munmap(at, 4096L << 30);
	mmap(at, 4096L << 30, RW, ANON | MAP_FIXED, -1, 0);
	mprotect(at, 4096L << 30, PROT_READ);
	munmap(at, 4096L << 30);
}

static void lock_pieces(void)
{
	char *at = mmap(0, 20000 * PAGE, RW, ANON, -1, 0);
	for (long i = 0; i < 20000; i += 2)
		mprotect(at + i * PAGE, PAGE, PROT_READ);
	mlock2(at, 20000 * PAGE, 1);
	madvise(at, 20000 * PAGE, MADV_DONTNEED);
	munlock(at, 20000 * PAGE);
	madvise(at, 20000 * PAGE, MADV_DONTNEED);
	madvise(at, 20000 * PAGE, MADV_WIPEONFORK);
	msync(at, 20000 * PAGE, MS_SYNC);
}

static void exec_sparse(void)
{
	sparse(1000);
	execl("/bin/true", "true", NULL);
}

static void mincore_(void)
{
	static unsigned char vec[2000 * 256];
	mincore(sparse(1000), 2000 * MIB, vec);
}

static void maps(void)
{
	char *at = mmap(0, 60000 * PAGE, RW, ANON, -1, 0), buffer[65536];
	for (long i = 0; i < 60000; i += 2)
		mprotect(at + i * PAGE, PAGE, PROT_READ);
	int fd = open("/proc/self/maps", O_RDONLY);
	while (read(fd, buffer, sizeof buffer) > 0)
		;
	fork_once();
}

static void proc_stat(void)
{
	sparse(1000);
	char buffer[4096];
	int fd = open("/proc/self/smaps_rollup", O_RDONLY);
	read(fd, buffer, sizeof buffer);
	fd = open("/proc/self/status", O_RDONLY);
	read(fd, buffer, sizeof buffer);
}

static void arguments(void)
{
	static char *list[30001];
	for (int i = 0; i < 30000; i++)
		list[i] = "an argument that is as long as this";
	execv("/bin/true", list);
}

/* In small pages. */
static void exit_large(void)
{
	for (int i = 0; i < 256; i++)
		touched(MIB);
}

const struct call memory_calls[] = {
	CASE(unmap), CASE(unmap_sparse), CASE(protect), CASE(protect_sparse), CASE(dont_need), CASE(dont_need_sparse), CASE(dont_fork),
	CASE(lock_sparse), CASE(sync_sparse), CASE(map_over), CASE(move_touched), CASE(move_sparse), CASE(exit_touched), CASE(exit_sparse),
	CASE(pieces), CASE(fork_touched), CASE(fork_sparse), CASE(fork_leaves), CASE(exit_leaves), CASE(status_leaves), CASE(move_leaves),
	CASE(empty_tables), CASE(lock_pieces), CASE(exec_sparse), CASE(exit_large), CASE(mincore_), CASE(maps), CASE(proc_stat), CASE(arguments),
	{ 0, 0 },
};
