/* Advice and flags of mappings that other programs do not use: what is accepted, what is refused, and what a program sees of it. */
#include "t.h"

#define PAGES 4
#define PAGE 4096

static char *fresh(void)
{
	char *at = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(at, 'x', PAGES * PAGE);
	return at;
}

static void advice(const char *name, int advice)
{
	char *at = fresh();
	long result = syscall(SYS_madvise, at, PAGES * PAGE, advice);
	say("%s: %s, then %s", name, error_name(result < 0 ? errno : 0), at[0] == 'x' && at[PAGES * PAGE - 1] == 'x' ? "as before" : "changed");
	result = syscall(SYS_madvise, at + 1, PAGE, advice);
	say("%s within a page: %s", name, error_name(result < 0 ? errno : 0));
	result = syscall(SYS_madvise, at, 0, advice);
	say("%s of nothing: %s", name, error_name(result < 0 ? errno : 0));
	munmap(at, PAGES * PAGE);
	result = syscall(SYS_madvise, at, PAGE, advice);
	say("%s of what is not mapped: %s", name, error_name(result < 0 ? errno : 0));
}

int main(void)
{
	section("advice");
	advice("MADV_NORMAL", 0);
	advice("MADV_RANDOM", 1);
	advice("MADV_SEQUENTIAL", 2);
	advice("MADV_DONTFORK", 10);
	advice("MADV_DOFORK", 11);
	advice("MADV_DONTDUMP", 16);
	advice("MADV_DODUMP", 17);
	advice("MADV_COLD", 20);
	advice("MADV_POPULATE_READ", 22);
	advice("MADV_POPULATE_WRITE", 23);
	advice("no advice", 99);
	section("flags");
	int file = open("file", O_RDWR | O_CREAT, 0600);
	ftruncate(file, PAGE);
	CHECK(mmap(0, PAGE, PROT_READ, MAP_PRIVATE | 0x800, file, 0) != MAP_FAILED);   /* MAP_DENYWRITE */
	CHECK(mmap(0, PAGE, PROT_READ, MAP_PRIVATE | 0x1000, file, 0) != MAP_FAILED);  /* MAP_EXECUTABLE */
	CHECK(mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_STACK | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	CHECK(mmap(0, PAGE, PROT_READ | 8, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);  /* PROT_SEM */
	CHECK(mmap(0, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) != MAP_FAILED);
	section("executed");
	/* mov $7, %eax; ret */
	static const unsigned char code[] = { 0xb8, 7, 0, 0, 0, 0xc3 };
	char *at = fresh();
	memcpy(at, code, sizeof code);
	SHOW(mprotect(at, PAGE, PROT_READ | PROT_EXEC));
	SHOW(((int (*)(void))at)());
	char *both = mmap(0, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(both, code, sizeof code);
	SHOW(((int (*)(void))both)());
	section("msync");
	char *shared = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	shared[0] = 'y';
	SHOW(msync(shared, PAGE, MS_ASYNC));
	SHOW(msync(shared, PAGE, MS_ASYNC | MS_INVALIDATE));
	char byte = 0;
	SHOW(pread(file, &byte, 1, 0));
	CHECK(byte == 'y');
	SHOW(msync(at + PAGES * PAGE * 1024L * 1024, PAGE, MS_ASYNC));
	return 0;
}
