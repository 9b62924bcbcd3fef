/* Files as large as a signed number of 64 bits can tell: their sizes, bytes at their ends, holes, mappings, on tmpfs and as memory files. */
#include "t.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { FALLOC_KEEP_SIZE = 1, FALLOC_PUNCH_HOLE = 2 };

static long long size_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? -1 : (long long)st.st_size;
}

static long long blocks_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? -1 : (long long)st.st_blocks;
}

/* A file that ends at each power of two, with its last byte written, seen, mapped and taken away. */
static void powers(int fd)
{
	for (int power = 30; power < 63; power++) {
		off_t end = (off_t)1 << power;
		char byte = 0;

		say("2^%d:", power);
		CHECK(ftruncate(fd, end) == 0 && size_of(fd) == end && blocks_of(fd) == 0);
		CHECK(pwrite(fd, "x", 1, end - 1) == 1 && blocks_of(fd) == 8);
		CHECK(pread(fd, &byte, 1, end - 1) == 1 && byte == 'x');
		CHECK(lseek(fd, 0, SEEK_DATA) == end - 4096);
		CHECK(lseek(fd, end - 4096, SEEK_HOLE) == end);
		CHECK(lseek(fd, -1, SEEK_END) == end - 1);
		char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, end - 4096);
		CHECK(page != MAP_FAILED && page[4095] == 'x');
		if (page != MAP_FAILED)
			munmap(page, 4096);
		SHOW(fallocate(fd, FALLOC_KEEP_SIZE, end, 4096));
		CHECK(size_of(fd) == end && blocks_of(fd) == 16);
		SHOW(fallocate(fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, end - 8192, 8192));
		CHECK(blocks_of(fd) == 8);
		SHOW(fallocate(fd, 0, end, 4096));
		CHECK(size_of(fd) == end + 4096);
		SHOW(ftruncate(fd, 0));
		CHECK(blocks_of(fd) == 0);
	}
}

/* The last sizes there are, and those that are none. */
static void last(int fd)
{
	static const long long sizes[] = { LLONG_MAX, LLONG_MAX - 1, LLONG_MAX - 4094, LLONG_MAX - 4095, LLONG_MAX - 4096, LLONG_MIN, -1 };
	char bytes[8] = "";

	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		say("LLONG_MAX - %lld:", (long long)(LLONG_MAX - (unsigned long long)sizes[i]));
		SHOW(ftruncate(fd, 0));
		SHOW(ftruncate(fd, sizes[i]));
		CHECK(size_of(fd) == sizes[i]);
		SHOW(pwrite(fd, "12345678", 8, sizes[i]));
		SHOW(pread(fd, bytes, 8, sizes[i]));
		CHECK(lseek(fd, 0, SEEK_END) == sizes[i]);
		SHOW(write(fd, "x", 1));
		SHOW(lseek(fd, 1, SEEK_CUR) == -1);
		SHOW(fallocate(fd, 0, sizes[i], 1));
		SHOW(fallocate(fd, 0, sizes[i] - 4096, 4096));
		SHOW(fallocate(fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, sizes[i] - 1, 1));
		say("%lld short of it", (long long)(LLONG_MAX - size_of(fd)));
	}
	SHOW(ftruncate(fd, 0));
	static const long long places[] = { LLONG_MAX & ~4095ll, (LLONG_MAX & ~4095ll) - 4096, (LLONG_MAX & ~4095ll) - 8192 };
	for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
		for (unsigned pages = 1; pages < 4; pages++) {
			void *at = mmap(0, pages * 4096, PROT_READ, MAP_SHARED, fd, places[i]);

			say("%u pages of the last %u: %s", pages, i + 1, at == MAP_FAILED ? "refused" : "mapped");
			if (at != MAP_FAILED)
				munmap(at, pages * 4096);
		}
}

int main(void)
{
	int file = open("file", O_RDWR | O_CREAT, 0600), memory = memfd_create("memory", 0);

	say("tmpfs");
	powers(file);
	last(file);
	say("memory");
	powers(memory);
	last(memory);
	return 0;
}
