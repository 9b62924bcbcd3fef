/* remap_file_pages: other pages of the same file in the place of shared ones. */
#include "t.h"
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/shm.h>

#define PAGE 4096L
#define RW (PROT_READ | PROT_WRITE)
#define PAGES 8

static long repage(void *at, long len, long prot, long page, long flags)
{
	return syscall(SYS_remap_file_pages, at, len, prot, page, flags);
}

static void show(const char *what, const char *at, int pages)
{
	char text[2 * PAGES + 1] = "";
	for (int i = 0; i < pages; i++)
		sprintf(text + strlen(text), " %c", at[i * PAGE] ? at[i * PAGE] : '.');
	say("  %s:%s", what, text);
}

static int file(void)
{
	int fd = memfd_create("pages", MFD_ALLOW_SEALING);
	ftruncate(fd, PAGES * PAGE);
	for (int i = 0; i < PAGES; i++)
		pwrite(fd, (char[1]){ 'a' + i }, 1, i * PAGE);
	return fd;
}

static int lines_of(const char *name)
{
	char *maps = read_file("/proc/self/maps"), *at = maps;
	int n = 0;
	while (at && (at = strstr(at, name)))
		n++, at++;
	free(maps);
	return n;
}

static void order(void)
{
	section("pages in another order");
	int fd = file();
	char *at = mmap(0, PAGES * PAGE, RW, MAP_SHARED, fd, 0);
	show("before", at, PAGES);
	for (int i = 0; i < PAGES; i++)
		repage(at + i * PAGE, PAGE, 0, PAGES - 1 - i, 0);
	show("turned", at, PAGES);
	at[0] = 'Z';
	char c = 0;
	pread(fd, &c, 1, (PAGES - 1) * PAGE);
	say("  the file's last: %c; lines of maps: %d", c, lines_of("memfd:pages"));
	SHOW(repage(at + PAGE, 2 * PAGE, 0, 0, MAP_NONBLOCK));
	show("two", at, PAGES);
	SHOW(repage(at, PAGES * PAGE, 0, 0, 0));
	show("all", at, PAGES);
	say("  lines of maps: %d", lines_of("memfd:pages"));
	SHOW(repage(at + 1, PAGE + 5, 0, 3, 0));
	show("not at a page's start", at, PAGES);
	SHOW(repage(at, PAGE, 0, PAGES + 4, 0));
	unsigned char in = 9;
	SHOW(mincore(at, PAGE, &in));
	say("  beyond the end: in memory %d", in & 1);
	SHOW(mprotect(at + 2 * PAGE, PAGE, PROT_READ));
	SHOW(repage(at + 2 * PAGE, PAGE, 0, 7, 0));
	SHOW(repage(at + PAGE, 3 * PAGE, 0, 0, 0));
	show("of what is read only", at + 2 * PAGE, 1);
	munmap(at, PAGES * PAGE);
	close(fd);
}

static void errors(void)
{
	section("errors");
	int fd = file();
	char *at = mmap(0, PAGES * PAGE, RW, MAP_SHARED, fd, 0);
	SHOW(repage(at, PAGE, PROT_READ, 1, 0));
	SHOW(repage(at, PAGE, -1, 1, 0));
	SHOW(repage(at, 0, 0, 1, 0));
	SHOW(repage(at, PAGE - 1, 0, 1, 0));
	SHOW(repage(at, -PAGE, 0, 1, 0));
	SHOW(repage(at, PAGE, 0, -1, 0));
	SHOW(repage(at, PAGE, 0, 1L << 51, 0));
	SHOW(repage(at, PAGE, 0, 1L << 60, 0));
	SHOW(repage(at, PAGE, 0, (1L << 51) - 1, 0));
	SHOW(repage(at, PAGE, 0, 1, ~MAP_NONBLOCK));
	show("flags", at, 1);
	SHOW(munmap(at + 3 * PAGE, PAGE));
	SHOW(repage(at + 3 * PAGE, PAGE, 0, 1, 0));
	SHOW(repage(at + 2 * PAGE, 2 * PAGE, 0, 1, 0));
	SHOW(repage(at + 2 * PAGE, 3 * PAGE, 0, 1, 0));
	SHOW(repage(at + 7 * PAGE, 2 * PAGE, 0, 1, 0));
	SHOW(repage((void *)(1L << 47), PAGE, 0, 1, 0));
	SHOW(repage((void *)-PAGE, PAGE, 0, 1, 0));
	char *private = mmap(0, PAGE, RW, MAP_PRIVATE, fd, 0);
	SHOW(repage(private, PAGE, 0, 1, 0));
	char *memory = mmap(0, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(repage(memory, PAGE, 0, 1, 0));
	char *shared = mmap(0, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared[0] = 'x', shared[PAGE] = 'y';
	SHOW(repage(shared, PAGE, 0, 1, 0));
	show("shared memory", shared, 2);
	int other = file();
	char *two = mmap(0, 2 * PAGE, RW, MAP_SHARED, fd, 0);
	mmap(two + PAGE, PAGE, RW, MAP_SHARED | MAP_FIXED, other, 0);
	SHOW(repage(two, 2 * PAGE, 0, 1, 0));
	write_file("pages", "0123456789");
	int only = open("pages", O_RDONLY);
	char *read_only = mmap(0, PAGE, PROT_READ, MAP_SHARED, only, 0);
	SHOW(repage(read_only, PAGE, 0, 0, 0));
	unlink("pages");
	close(fd), close(other), close(only);
}

static void segment(void)
{
	section("a segment of System V");
	int id = shmget(IPC_PRIVATE, 4 * PAGE, 0600);
	char *at = shmat(id, 0, 0);
	for (int i = 0; i < 4; i++)
		at[i * PAGE] = 'a' + i;
	SHOW(repage(at, PAGE, 0, 3, 0));
	show("remapped", at, 4);
	struct shmid_ds ds;
	shmctl(id, IPC_STAT, &ds);
	say("  attached %lu", (unsigned long)ds.shm_nattch);
	SHOW(shmctl(id, IPC_RMID, 0));
	munmap(at, 4 * PAGE);
}

static void locks(void)
{
	section("locked");
	int fd = file();
	char *at = mmap(0, 2 * PAGE, RW, MAP_SHARED, fd, 0);
	SHOW(mlock(at, PAGE));
	SHOW(repage(at, 2 * PAGE, 0, 3, 0));
	SHOW(repage(at, PAGE, 0, 3, 0));
	struct rlimit none = { 0, 0 };
	setrlimit(RLIMIT_MEMLOCK, &none);
	if (setresuid(1, 1, 1) != 0)
		say("setresuid: %s", error_name(errno));
	SHOW(repage(at, PAGE, 0, 2, 0));
	show("not changed", at, 1);
}

static void seals(void)
{
	section("sealed");
	int fd = file();
	char *at = mmap(0, 2 * PAGE, RW, MAP_SHARED, fd, 0);
	SHOW(fcntl(fd, F_ADD_SEALS, 0x10 /* F_SEAL_FUTURE_WRITE */));
	SHOW(repage(at, PAGE, 0, 2, 0));
	show("not changed", at, 1);
}

int main(void)
{
	order();
	errors();
	segment();
	in_child("locks", locks);
	in_child("seals", seals);
	return 0;
}
