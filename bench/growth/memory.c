/* Worlds of memory: mappings of the process, and processes that map one file. */
#include "growth.h"

static char *region;
static unsigned count;

/* Pages with a page between, so that none joins its neighbour and each leaves a hole. */
static void make_mappings(unsigned n)
{
	size_t size = (size_t)n * 2 * 4096;
	count = n;
	region = mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (region == MAP_FAILED)
		fail("mmap");
	ok("munmap", munmap(region, size));
	for (unsigned i = 0; i < n; i++) {
		char *page = mmap(region + (size_t)i * 8192, 4096, PROT_READ | PROT_WRITE,
		                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (page == MAP_FAILED)
			fail("mmap");
		*page = 1;
	}
}

static char *middle(void)
{
	return region + (size_t)count / 2 * 8192;
}

static void op_map_page(void)
{
	char *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		fail("mmap");
	ok("munmap", munmap(map, 4096));
}

static void op_remap_middle(void)
{
	ok("munmap", munmap(middle(), 4096));
	if (mmap(middle(), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		fail("mmap");
}

static void op_fault_middle(void)
{
	ok("madvise", madvise(middle(), 4096, MADV_DONTNEED));
	*(volatile char *)middle() = 1;
}

static void op_protect(void)
{
	ok("mprotect", mprotect(middle(), 4096, PROT_READ));
	ok("mprotect", mprotect(middle(), 4096, PROT_READ | PROT_WRITE));
}

static void op_brk(void)
{
	char *end = (char *)syscall(SYS_brk, 0);
	if ((char *)syscall(SYS_brk, end + 8192) != end + 8192)
		fail("brk");
	*(volatile char *)end = 1;
	syscall(SYS_brk, end);
}

static void op_mremap(void)
{
	char *moved = mremap(middle(), 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, middle() + 4096);
	if (moved == MAP_FAILED || mremap(moved, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, middle()) == MAP_FAILED)
		fail("mremap");
}

static void op_mincore(void)
{
	unsigned char there;
	ok("mincore", mincore(middle(), 4096, &there));
}

const struct world mappings = { "mappings", "mappings-of-the-process", 10000, make_mappings, (const struct row[]){
	ROW("getpid", op_getpid, CHEAP),
	ROW("mmap-munmap", op_map, CHEAP),
	ROW("mmap-munmap-page", op_map_page, CHEAP),
	ROW("munmap-mmap-fixed", op_remap_middle, CHEAP),
	ROW("fault", op_fault_middle, CHEAP),
	ROW("mprotect", op_protect, CHEAP),
	ROW("mremap", op_mremap, CHEAP),
	ROW("mincore", op_mincore, CHEAP),
	ROW("brk", op_brk, CHEAP),
	ROW("thread", op_thread, CHEAP),
	ROW("vfork-exec-wait", op_exec, FREEING),
	ROW("fork-exit-wait", op_fork, DEAR),
	END }, 0 };

static char *file;

static void map_file(void)
{
	file = mmap(0, 16 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, own_file, 0);
	if (file == MAP_FAILED)
		fail("mmap");
	for (int page = 0; page < 16; page++)
		*(volatile char *)(file + page * 4096) = 1;
}

static void make_sharers(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sleeper(map_file);
	settle(n);
	map_file();
}

static void op_map_file(void)
{
	void *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, own_file, 0);
	if (map == MAP_FAILED)
		fail("mmap");
	*(volatile char *)map = 1;
	ok("munmap", munmap(map, 4096));
}

static void op_write(void)
{
	ok("pwrite", pwrite(own_file, own_page, 64, 0));
}

static void op_extend(void)
{
	ok("ftruncate", ftruncate(own_file, 65536 + 4096));
	ok("ftruncate", ftruncate(own_file, 65536));
}

const struct world sharers = { "sharers", "processes-that-map-one-file", 10000, make_sharers, (const struct row[]){
	ROW("mmap-touch-munmap", op_map_file, CHEAP),
	ROW("pread", op_read, CHEAP),
	ROW("pwrite", op_write, CHEAP),
	ROW("fork-exit-wait", op_fork, DEAR),
	ROW("ftruncate-behind", op_extend, DEAR),
	END }, 0 };
