/* mseal: what is refused of a sealed mapping, what is not, and what is left when only part of a range is sealed. */
#include "t.h"
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/shm.h>

#define PAGE 4096L
#define RW (PROT_READ | PROT_WRITE)
#define PAGES 8
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static long seal(const void *at, long len, unsigned long flags)
{
	return syscall(SYS_mseal, at, len, flags);
}

static char *area(int pages, int prot, int flags)
{
	return mmap(0, pages * PAGE, prot, flags, -1, 0);
}

/* What maps and smaps tell of the pages from `at` on: rights, and a star where sealed; "-" where nothing is mapped. */
static void show(const char *what, const char *at, int pages)
{
	char text[8 * PAGES + 1] = "", *smaps = read_file("/proc/self/smaps");
	for (int i = 0; i < pages; i++) {
		unsigned long page = (unsigned long)(at + i * PAGE), start, end;
		char rights[5] = "", *line = smaps, *next;
		int found = 0, sealed = 0;
		for (; line && *line; line = next) {
			next = strchr(line, '\n');
			next = next ? next + 1 : 0;
			if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3)
				found = start <= page && page < end;
			else if (found && !strncmp(line, "VmFlags:", 8)) {
				char *sl = strstr(line, " sl");
				sealed = sl && (!next || sl < next);
				break;
			}
		}
		sprintf(text + strlen(text), " %s%s", found ? rights : "-", found && sealed ? "*" : "");
	}
	free(smaps);
	say("  %s:%s", what, text);
}

static void arguments(void)
{
	section("arguments");
	char *at = area(PAGES, RW, ANON);
	SHOW(seal(at, PAGE, 1));
	SHOW(seal(at, PAGE, 1UL << 63));
	SHOW(seal(at + 1, PAGE, 0));
	SHOW(seal(at + 1, 0, 0));
	SHOW(seal(at + 1, 0, 2));
	SHOW(seal(at, 0, 0));
	SHOW(seal(at, -1, 0));
	SHOW(seal(at, -PAGE, 0));
	SHOW(seal((void *)-PAGE, PAGE, 0));
	SHOW(seal((void *)-PAGE, 0, 0));
	SHOW(seal((void *)-PAGE, 2 * PAGE, 0));
	SHOW(seal((void *)0x7ffffffff000, PAGE, 0));
	SHOW(seal((void *)0x7ffffffff000, 0, 0));
	SHOW(seal((void *)0x8000000000000000, PAGE, 0));
	SHOW(seal(0, PAGE, 0));
	munmap(at + 2 * PAGE, PAGE);
	SHOW(seal(at, PAGES * PAGE, 0));
	SHOW(seal(at + 2 * PAGE, PAGE, 0));
	SHOW(seal(at + PAGE, 2 * PAGE, 0));
	SHOW(seal(at + 2 * PAGE, 2 * PAGE, 0));
	show("with a hole", at, 5);
	SHOW(seal(at + 3 * PAGE, 1, 0));
	SHOW(seal(at + 4 * PAGE, PAGE + 1, 0));
	show("rounded", at, PAGES);
	SHOW(seal(at + 3 * PAGE, 3 * PAGE, 0));
	SHOW(seal(at + 3 * PAGE, 5 * PAGE, 0));
	show("again, and more", at, PAGES);
}

/* Of eight pages, the middle four are sealed. */
static char *sealed(int prot)
{
	char *at = area(PAGES, RW, ANON);
	memset(at, 'a', PAGES * PAGE);
	mprotect(at, PAGES * PAGE, prot);
	if (seal(at + 2 * PAGE, 4 * PAGE, 0))
		say("  not sealed: %s", error_name(errno));
	return at;
}

static void unmap(void)
{
	section("munmap");
	char *at = sealed(RW);
	SHOW(munmap(at + 2 * PAGE, 4 * PAGE));
	SHOW(munmap(at + 3 * PAGE, PAGE));
	SHOW(munmap(at + 2 * PAGE, PAGE));
	SHOW(munmap(at + 5 * PAGE, PAGE));
	SHOW(munmap(at, PAGES * PAGE));
	SHOW(munmap(at, 3 * PAGE));
	SHOW(munmap(at + 5 * PAGE, 3 * PAGE));
	show("all there", at, PAGES);
	SHOW(munmap(at, 2 * PAGE));
	SHOW(munmap(at + 7 * PAGE, PAGE));
	show("around", at, PAGES);
	say("  %c", at[2 * PAGE]);
	at[2 * PAGE] = 'b';
	say("  %c", at[2 * PAGE]);
}

static void map(void)
{
	section("mmap");
	char *at = sealed(RW);
	SHOW_PTR(mmap(at + 2 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	SHOW_PTR(mmap(at + 3 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0));
	SHOW_PTR(mmap(at, PAGES * PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0));
	SHOW_PTR(mmap(at, 3 * PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0));
	SHOW_PTR(mmap(at + 5 * PAGE, 3 * PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0));
	SHOW_PTR(mmap(at + 2 * PAGE, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0));
	char *other = mmap(at + 2 * PAGE, PAGE, RW, ANON, -1, 0);
	CHECK(other != MAP_FAILED && (other < at || other >= at + PAGES * PAGE));
	show("as it was", at, PAGES);
	SHOW_PTR(mmap(at, 2 * PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0));
	show("beside it", at, PAGES);
	SHOW(munmap(at + PAGE, PAGE));
	CHECK(mmap(at + PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) == at + PAGE);
	show("next to it", at, PAGES);
}

static void protect(void)
{
	section("mprotect");
	char *at = sealed(RW);
	SHOW(mprotect(at + 2 * PAGE, PAGE, PROT_READ));
	SHOW(mprotect(at + 2 * PAGE, PAGE, RW));
	SHOW(mprotect(at + 3 * PAGE, PAGE, PROT_NONE));
	SHOW(syscall(SYS_pkey_mprotect, at + 3 * PAGE, PAGE, PROT_NONE, -1));
	show("as it was", at, PAGES);
	SHOW(mprotect(at, PAGES * PAGE, PROT_READ));
	show("before it", at, PAGES);
	SHOW(mprotect(at + 4 * PAGE, 4 * PAGE, PROT_READ));
	SHOW(mprotect(at + 6 * PAGE, 2 * PAGE, PROT_NONE));
	SHOW(mprotect(at + 2 * PAGE, 0, PROT_NONE));
	show("behind it", at, PAGES);
	at = sealed(PROT_READ);
	SHOW(mprotect(at + 2 * PAGE, PAGE, RW));
	SHOW(mprotect(at, 3 * PAGE, RW));
	munmap(at + PAGE, PAGE);
	SHOW(mprotect(at, 4 * PAGE, PROT_NONE));
	show("a hole first", at, PAGES);
	/* What may never be written is told before. */
	int fd = open("/proc/self/exe", O_RDONLY);
	char *file = mmap(0, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	SHOW(seal(file, PAGE, 0));
	SHOW(mprotect(file, PAGE, RW));
	SHOW(mprotect(file, PAGE, PROT_NONE));
	close(fd);
}

static void remap(void)
{
	section("mremap");
	char *at = sealed(RW), *free = area(PAGES, RW, ANON), *own = area(PAGES, RW, ANON);
	memset(own, 'o', PAGES * PAGE);
	SHOW_PTR(mremap(at + 2 * PAGE, PAGE, PAGE, 0));
	SHOW_PTR(mremap(at + 2 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE));
	SHOW_PTR(mremap(at + 2 * PAGE, 4 * PAGE, PAGE, 0));
	SHOW_PTR(mremap(at + 2 * PAGE, 4 * PAGE, 5 * PAGE, 0));
	SHOW_PTR(mremap(at + 2 * PAGE, 4 * PAGE, 5 * PAGE, MREMAP_MAYMOVE));
	SHOW_PTR(mremap(at + 2 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, free));
	SHOW_PTR(mremap(at + 2 * PAGE, 2 * PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, free));
	SHOW_PTR(mremap(at + 2 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
	SHOW_PTR(mremap(at + 2 * PAGE, 0, PAGE, MREMAP_MAYMOVE));
	SHOW_PTR(mremap(at + 2 * PAGE, PAGE, 0, MREMAP_MAYMOVE));
	SHOW_PTR(mremap(at + 2 * PAGE, PAGE, PAGE, 64));
	SHOW_PTR(mremap(at + 2 * PAGE, PAGE, PAGE, MREMAP_FIXED, free));
	SHOW_PTR(mremap(at + 2 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, free + 1));
	show("as it was", at, PAGES);
	show("nothing came", free, PAGES);
	SHOW_PTR(mremap(own, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + 2 * PAGE));
	SHOW_PTR(mremap(own, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + PAGE));
	SHOW_PTR(mremap(own, 4 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + PAGE));
	SHOW_PTR(mremap(own, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + PAGE));
	SHOW_PTR(mremap(own, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP | MREMAP_FIXED, at + 3 * PAGE));
	show("not replaced", at, PAGES);
	show("where it was", own, PAGES);
	/* A range that begins before the seal and reaches into it. */
	SHOW_PTR(mremap(at, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, free));
	SHOW_PTR(mremap(at, 4 * PAGE, PAGE, 0));
	show("cut", at, PAGES);
	SHOW_PTR(mremap(at, 2 * PAGE, PAGE, 0));
	show("cut before it", at, PAGES);
	CHECK(mremap(own, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + PAGE) == at + PAGE);
	say("  %c", at[PAGE]);
	show("beside it", at, PAGES);
}

static void heap(void)
{
	section("brk");
	char *base = sbrk(0);
	base = (char *)(((uintptr_t)base + PAGE - 1) & -PAGE);
	CHECK((char *)syscall(SYS_brk, base + 4 * PAGE) == base + 4 * PAGE);
	SHOW(seal(base + PAGE, PAGE, 0));
	CHECK((char *)syscall(SYS_brk, base) == base + 4 * PAGE);
	CHECK((char *)syscall(SYS_brk, base + PAGE) == base + 4 * PAGE);
	show("as it was", base, 4);
	CHECK((char *)syscall(SYS_brk, base + 2 * PAGE) == base + 2 * PAGE);
	CHECK((char *)syscall(SYS_brk, base + PAGE + 5) == base + PAGE + 5);
	CHECK((char *)syscall(SYS_brk, base + PAGE) == base + PAGE + 5);
	CHECK((char *)syscall(SYS_brk, base + 3 * PAGE) == base + 3 * PAGE);
	show("grown behind it", base, 4);
}

static const struct { const char *name; int advice; } advices[] = {
	{ "NORMAL", MADV_NORMAL }, { "RANDOM", MADV_RANDOM }, { "SEQUENTIAL", MADV_SEQUENTIAL }, { "WILLNEED", MADV_WILLNEED },
	{ "POPULATE_READ", MADV_POPULATE_READ }, { "COLD", MADV_COLD }, { "PAGEOUT", MADV_PAGEOUT },
	{ "DOFORK", MADV_DOFORK }, { "KEEPONFORK", MADV_KEEPONFORK }, { "DONTDUMP", MADV_DONTDUMP }, { "DODUMP", MADV_DODUMP },
	{ "DONTNEED", MADV_DONTNEED }, { "DONTNEED_LOCKED", MADV_DONTNEED_LOCKED }, { "FREE", MADV_FREE }, { "REMOVE", MADV_REMOVE },
	{ "DONTFORK", MADV_DONTFORK }, { "WIPEONFORK", MADV_WIPEONFORK },
};

static void advise_all(const char *what, char *at)
{
	for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
		say("  %s, %s: %s", what, advices[i].name, madvise(at, PAGE, advices[i].advice) ? error_name(errno) : "0");
}

static void advise(void)
{
	section("madvise");
	char *at = sealed(RW);
	advise_all("written", at + 2 * PAGE);
	at = sealed(PROT_READ);
	advise_all("read", at + 2 * PAGE);
	CHECK(at[2 * PAGE] == 'a');
	at = sealed(PROT_NONE);
	advise_all("neither", at + 2 * PAGE);
	char *shared = area(2, PROT_READ, MAP_SHARED | MAP_ANONYMOUS);
	SHOW(seal(shared, PAGE, 0));
	advise_all("shared", shared);
	int fd = memfd_create("pages", 0);
	ftruncate(fd, 4 * PAGE);
	char *file = mmap(0, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	SHOW(seal(file, PAGE, 0));
	advise_all("of a file", file);
	close(fd);
	at = sealed(PROT_READ);
	mlock(at + 2 * PAGE, PAGE);
	SHOW(madvise(at + 2 * PAGE, PAGE, MADV_DONTNEED));
	SHOW(madvise(at + 2 * PAGE, PAGE, MADV_DONTNEED_LOCKED));
	/* What lies before the seal goes. */
	at = sealed(PROT_READ);
	SHOW(madvise(at, PAGES * PAGE, MADV_DONTNEED));
	say("  %d %d %c %c %c", at[0], at[PAGE], at[2 * PAGE], at[5 * PAGE], at[6 * PAGE]);
	SHOW(madvise(at + 6 * PAGE, 2 * PAGE, MADV_DONTNEED));
	say("  %d", at[6 * PAGE]);
	at = sealed(PROT_READ);
	munmap(at, PAGE);
	SHOW(madvise(at, PAGES * PAGE, MADV_DONTNEED));
	say("  %d %c", at[PAGE], at[2 * PAGE]);
	/* Beside what is written. */
	at = sealed(RW);
	SHOW(madvise(at, PAGES * PAGE, MADV_DONTNEED));
	say("  %d %d %d", at[0], at[2 * PAGE], at[7 * PAGE]);
}

static void files(void)
{
	section("remap_file_pages");
	int fd = memfd_create("pages", 0);
	ftruncate(fd, 4 * PAGE);
	char *at = mmap(0, 4 * PAGE, RW, MAP_SHARED, fd, 0);
	SHOW(seal(at + PAGE, PAGE, 0));
	SHOW(syscall(SYS_remap_file_pages, at + PAGE, PAGE, 0, 3, 0));
	SHOW(syscall(SYS_remap_file_pages, at, 2 * PAGE, 0, 2, 0));
	SHOW(syscall(SYS_remap_file_pages, at, PAGE, 0, 2, 0));
	show("sealed", at, 4);
	close(fd);

	section("shared memory");
	int id = shmget(IPC_PRIVATE, 2 * PAGE, IPC_CREAT | 0600);
	at = area(4, RW, ANON);
	SHOW(seal(at + PAGE, PAGE, 0));
	SHOW_PTR(shmat(id, at, SHM_REMAP));
	SHOW_PTR(shmat(id, at + PAGE, SHM_REMAP));
	CHECK(shmat(id, at + 2 * PAGE, SHM_REMAP) == at + 2 * PAGE);
	show("beside it", at, 4);
	char *segment = shmat(id, 0, 0);
	SHOW(seal(segment, PAGE, 0));
	SHOW(munmap(segment, PAGE));
	SHOW(shmdt(segment));
	show("half of a segment", segment, 2);
	SHOW(shmdt(segment));
	struct shmid_ds ds;
	shmctl(id, IPC_STAT, &ds);
	say("  attached: %ld", (long)ds.shm_nattch);
	shmctl(id, IPC_RMID, 0);
}

static void others(void)
{
	section("not refused");
	char *at = sealed(RW);
	SHOW(mlock(at + 2 * PAGE, PAGE));
	SHOW(munlock(at + 2 * PAGE, PAGE));
	SHOW(msync(at + 2 * PAGE, PAGE, MS_SYNC));
	unsigned char in[1];
	SHOW(mincore(at + 2 * PAGE, PAGE, in));
	int fd = memfd_create("bytes", 0);
	write(fd, "bytes", 5);
	SHOW(pread(fd, at + 2 * PAGE, 5, 0));
	say("  %.6s", at + 2 * PAGE);
	close(fd);
	struct rlimit limit = { 1 << 20, 1 << 20 };
	SHOW(setrlimit(RLIMIT_CORE, &limit));
}

static char *inherited;

static void in_a_child(void)
{
	show("in a child", inherited, PAGES);
	SHOW(munmap(inherited + 3 * PAGE, PAGE));
	SHOW(mprotect(inherited + 3 * PAGE, PAGE, PROT_NONE));
	inherited[3 * PAGE] = 'c';
	SHOW(seal(inherited, PAGE, 0));
	SHOW(munmap(inherited, PAGE));
	SHOW(munmap(inherited + PAGE, PAGE));
}

static void read_none(void)
{
	*(volatile char *)inherited;
}

static void forks(void)
{
	section("fork");
	inherited = sealed(RW);
	in_child("child", in_a_child);
	say("  %c", inherited[3 * PAGE]);
	show("in the parent", inherited, PAGES);
	/* What a child would get otherwise. */
	char *at = sealed(RW);
	SHOW(madvise(at + 2 * PAGE, PAGE, MADV_DONTFORK));
	inherited = at + 2 * PAGE;
	in_child("not for children", read_none);
	SHOW(munmap(at + 2 * PAGE, PAGE));
}

static void stack(void)
{
	section("a stack");
	char *at = area(64, PROT_NONE, ANON);
	char *top = mmap(at + 62 * PAGE, 2 * PAGE, RW, ANON | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
	munmap(at, 62 * PAGE);
	SHOW(seal(top, PAGE, 0));
	SHOW(munmap(top, PAGE));
	SHOW(mprotect(top, PAGE, PROT_READ | PROT_GROWSDOWN));
	show("as it was", top, 2);
}

int main(void)
{
	arguments();
	unmap();
	map();
	protect();
	remap();
	heap();
	advise();
	files();
	others();
	forks();
	stack();
	return 0;
}
