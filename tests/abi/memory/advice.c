/* Advice that changes what memory holds, advice that is refused, and mappings that are moved but stay. */
#include "t.h"

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
enum { PAGE = 4096, DONTUNMAP = 4 };

static char *map(int pages, int flags, int fd)
{
	char *at = mmap(0, (size_t)pages * PAGE, RW, flags, fd, 0);
	if (at == MAP_FAILED)
		say("mmap failed: %s", error_name(errno));
	return at;
}

/* The first byte of each page; a zero is a dot. */
static void bytes(const char *at, int pages)
{
	char text[16] = { 0 };
	for (int i = 0; i < pages; i++)
		text[i] = at[i * PAGE] ? at[i * PAGE] : '.';
	say("  %s", text);
}

static void fill(char *at, int pages)
{
	for (int i = 0; i < pages; i++)
		at[i * PAGE] = (char)('a' + i);
}

static void freeing(void)
{
	section("MADV_FREE");
	char *at = map(4, ANON, -1);
	fill(at, 4);
	SHOW(madvise(at, 2 * PAGE, MADV_FREE));
	/* What is written again stays. What is not may be gone, or not yet. */
	at[0] = 'A';
	CHECK(at[0] == 'A' && (at[PAGE] == 'b' || at[PAGE] == 0) && at[2 * PAGE] == 'c');
	int fd = open("free", O_CREAT | O_RDWR, 0600);
	ftruncate(fd, 4 * PAGE);
	char *file = map(4, MAP_SHARED, fd);
	SHOW(madvise(file, PAGE, MADV_FREE));
	SHOW(madvise(at + 1, PAGE, MADV_FREE));
	SHOW(mlock(at, PAGE));
	SHOW(madvise(at, PAGE, MADV_FREE));
	munmap(at, 4 * PAGE), munmap(file, 4 * PAGE), close(fd);
}

static void removing(void)
{
	section("MADV_REMOVE");
	int fd = open("removed", O_CREAT | O_RDWR, 0600);
	ftruncate(fd, 4 * PAGE);
	char *shared = map(4, MAP_SHARED, fd), *private = map(4, MAP_PRIVATE, fd), *anonymous = map(4, ANON, -1), *both = map(4, MAP_SHARED | MAP_ANONYMOUS, -1);
	fill(shared, 4), fill(both, 4), fill(anonymous, 4);
	private[2 * PAGE] = 'X';
	SHOW(madvise(shared + PAGE, 2 * PAGE, MADV_REMOVE));
	bytes(shared, 4);
	bytes(private, 4);
	struct stat st;
	fstat(fd, &st);
	say("  size %ld, blocks %ld", (long)st.st_size, (long)st.st_blocks);
	SHOW(madvise(private, PAGE, MADV_REMOVE));
	SHOW(madvise(anonymous, PAGE, MADV_REMOVE));
	SHOW(madvise(both, PAGE, MADV_REMOVE));
	bytes(both, 4);
	char *reads = mmap(0, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	SHOW(madvise(reads, PAGE, MADV_REMOVE));
	int ro = open("removed", O_RDONLY);
	char *never = mmap(0, PAGE, PROT_READ, MAP_SHARED, ro, 0);
	SHOW(madvise(never, PAGE, MADV_REMOVE));
	SHOW(mlock(shared, PAGE));
	SHOW(madvise(shared, PAGE, MADV_REMOVE));
	bytes(shared, 4);
	munlock(shared, PAGE);
	SHOW(madvise((char *)(16 * PAGE), PAGE, MADV_REMOVE));
	int sealed = (int)syscall(SYS_memfd_create, "sealed", 2);
	ftruncate(sealed, PAGE);
	char *of_sealed = map(1, MAP_SHARED, sealed);
	of_sealed[0] = 's';
	munmap(of_sealed, PAGE);
	SHOW(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK));
	of_sealed = map(1, MAP_SHARED, sealed);
	SHOW(madvise(of_sealed, PAGE, MADV_REMOVE));
	bytes(of_sealed, 1);
	/* It counts as a write of the file. */
	fchmod(fd, 04755), futimens(fd, (struct timespec[2]){ { 1, 0 }, { 1, 0 } });
	SHOW(madvise(shared, PAGE, MADV_REMOVE));
	fstat(fd, &st);
	say("  mode %o, written %d", st.st_mode & 07777, st.st_mtime > 1);
}

static void hints(void)
{
	section("hints");
	char *at = map(4, ANON, -1);
	fill(at, 4);
	static const struct { int advice; const char *name; } hints[] = {
		{ MADV_HUGEPAGE, "HUGEPAGE" }, { MADV_NOHUGEPAGE, "NOHUGEPAGE" }, { MADV_COLD, "COLD" }, { MADV_PAGEOUT, "PAGEOUT" }, { MADV_MERGEABLE, "MERGEABLE" },
		{ MADV_UNMERGEABLE, "UNMERGEABLE" }, { 25, "COLLAPSE" },
	};
	for (unsigned i = 0; i < sizeof hints / sizeof *hints; i++) {
		errno = 0;
		long all = madvise(at, 4 * PAGE, hints[i].advice);
		say("%s: %ld %s", hints[i].name, all, error_name(errno));
		errno = 0;
		madvise(at + 1, 4 * PAGE, hints[i].advice);
		say("  misaligned: %s", error_name(errno));
		errno = 0;
		madvise((char *)(16 * PAGE), PAGE, hints[i].advice);
		say("  not mapped: %s", error_name(errno));
		errno = 0;
		madvise(at, 0, hints[i].advice);
		say("  nothing: %s", error_name(errno));
		bytes(at, 4);
	}
}

static void large(void)
{
	section("missing");
	enum { LARGE = 2 << 20 };
	char *at = mmap(0, 2 * LARGE, RW, ANON, -1, 0);
	char *aligned = (char *)(((uintptr_t)at + LARGE - 1) & ~(uintptr_t)(LARGE - 1));
	memset(aligned, 7, LARGE);
	MISSING(madvise(aligned, LARGE, 25), EINVAL);
	CHECK(aligned[0] == 7 && aligned[LARGE - 1] == 7);
	MISSING(madvise(aligned, PAGE, 101), EINVAL);
	CHECK(aligned[0] == 7);
	/* Linux ends a program whose page is said to be broken. */
	pid_t pid = must_fork();
	if (pid == 0) {
		madvise(aligned + PAGE, PAGE, MADV_HWPOISON);
		_exit(0);
	}
	wait_for(pid);
	munmap(at, 2 * LARGE);
}

static void staying(void)
{
	section("MREMAP_DONTUNMAP");
	char *at = map(4, ANON, -1), *to = map(4, ANON, -1);
	fill(at, 4), fill(to, 2);
	SHOW_PTR(mremap(at, 4 * PAGE, 4 * PAGE, DONTUNMAP));
	SHOW_PTR(mremap(at, 4 * PAGE, 8 * PAGE, DONTUNMAP | MREMAP_MAYMOVE));
	SHOW_PTR(mremap(at, 0, 4 * PAGE, DONTUNMAP | MREMAP_MAYMOVE));
	char *moved = SHOW_PTR(mremap(at, 4 * PAGE, 4 * PAGE, DONTUNMAP | MREMAP_MAYMOVE));
	CHECK(moved != at);
	bytes(moved, 4);
	bytes(at, 4);
	fill(at, 2);
	bytes(moved, 4);
	SHOW_PTR(mremap(at, 2 * PAGE, 2 * PAGE, DONTUNMAP | MREMAP_MAYMOVE | MREMAP_FIXED, to));
	bytes(at, 4);
	bytes(to, 4);
	SHOW_PTR(mremap(at, 2 * PAGE, 2 * PAGE, DONTUNMAP | MREMAP_MAYMOVE | MREMAP_FIXED, at + PAGE));
	section("of a file");
	int fd = open("stays", O_CREAT | O_RDWR, 0600);
	ftruncate(fd, 4 * PAGE);
	char *file = map(4, MAP_SHARED, fd), *second;
	fill(file, 4);
	second = SHOW_PTR(mremap(file, 2 * PAGE, 2 * PAGE, DONTUNMAP | MREMAP_MAYMOVE));
	if (second != MAP_FAILED) {
		second[0] = 'Z';
		bytes(second, 2);
		bytes(file, 4);
	}
	section("MAP_UNINITIALIZED");
	char *zero = mmap(0, PAGE, RW, ANON | 0x4000000, -1, 0);
	bytes(zero, 1);
}

/* What lies above user memory is not mapped; prot has 64 bits. */
static void beyond(void)
{
	section("beyond user memory");
	const size_t rest = 0x7ffffffff000 + (size_t)PAGE;
	char *at = map(2, ANON, -1);
	fill(at, 2);
	SHOW(madvise(at, rest, MADV_NORMAL));
	SHOW(madvise((char *)0x7ffffffff000, PAGE, MADV_NORMAL));
	SHOW(madvise((char *)0x7ffffffff000, PAGE, MADV_DONTNEED));
	SHOW(madvise((char *)0x800000000000, PAGE, MADV_COLD));
	SHOW(madvise((char *)-PAGE, PAGE, MADV_DONTNEED));
	SHOW(madvise(at, -(size_t)PAGE, MADV_DONTNEED));
	SHOW(madvise((char *)0x7ffffffff000, PAGE, 9999));
	bytes(at, 2);
	SHOW(syscall(SYS_mprotect, at, PAGE, 1ul << 32 | PROT_READ));
	SHOW(syscall(SYS_mprotect, at, PAGE, 1ul << 63));
	SHOW(syscall(SYS_mprotect, at, 0, 1ul << 32));
	SHOW(syscall(SYS_mprotect, at, PAGE, 1ul << 32 | 0x03000000));
	bytes(at, 2);
	munmap(at, 2 * PAGE);
}

int main(void)
{
	freeing();
	removing();
	hints();
	large();
	staying();
	beyond();
	return 0;
}
