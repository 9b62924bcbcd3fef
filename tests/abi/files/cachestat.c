/* cachestat: how many pages of a range of a file are in memory, and who may ask. */
#include "t.h"

#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/prctl.h>

struct range { uint64_t offset, len; };
struct counts { uint64_t cached, dirty, writeback, evicted, recently_evicted; };

#define CALL(fd, range, to, flags) syscall(451, fd, range, to, flags)

static void count(const char *what, int fd, uint64_t offset, uint64_t len)
{
	struct range range = { offset, len };
	struct counts c;
	memset(&c, 0x55, sizeof c);
	errno = 0;
	long result = CALL(fd, &range, &c, 0);
	if (result < 0)
		say("%s: %s", what, error_name(errno));
	else
		say("%s: %d cached, %d others", what, (int)c.cached, (int)(c.dirty + c.writeback + c.evicted + c.recently_evicted));
}

static void user(void)
{
	setgid(1000), setuid(1000);
	int own = open("mine", O_RDONLY), readable = open("readable", O_RDONLY), writable = open("writable", O_RDONLY), ends[2], event = eventfd(0, 0);
	count("own", own, 0, 0);
	count("readable", readable, 0, 0);
	count("writable", writable, 0, 0);
	pipe(ends);
	count("pipe", ends[0], 0, 0);
	count("event, open for writing", event, 0, 0);
	count("directory", open("dir", O_RDONLY), 0, 0);
	struct range range = { 0, 0 };
	struct counts c;
	SHOW(CALL(readable, &range, &c, 1));
	SHOW(CALL(readable, 1L, &c, 1));
}

int main(void)
{
	section("tmpfs");
	/* One of its own: what /tmp and the like are differs. */
	mkdir("m", 0755);
	mount("none", "m", "tmpfs", 0, NULL);
	chdir("m");
	int fd = open("file", O_RDWR | O_CREAT, 0644);
	count("empty", fd, 0, 0);
	char page[4096];
	memset(page, 'x', sizeof page);
	for (int n = 0; n < 20; n++)
		if (n < 5 || n >= 10)
			pwrite(fd, page, 4096, n * 4096);
	pwrite(fd, page, 1, 100 * 4096);
	count("whole", fd, 0, 0);
	count("whole, by length", fd, 0, 101 * 4096);
	count("a byte", fd, 3 * 4096 + 7, 1);
	count("two pages", fd, 4096 - 1, 2);
	count("hole", fd, 5 * 4096, 5 * 4096);
	count("across it", fd, 4 * 4096, 7 * 4096);
	count("from within", fd, 15 * 4096, 0);
	count("behind the end", fd, 200 * 4096, 4096);
	count("far behind", fd, 1ull << 60, 0);
	count("a sum that wraps", fd, 4096, -4096ull);
	count("nearly so", fd, 4096, -4097ull);
	ftruncate(fd, 12 * 4096);
	count("shorter", fd, 0, 0);
	/* Reading a hole takes no page, and mapping it does. */
	pread(fd, page, 4096, 6 * 4096);
	count("read", fd, 5 * 4096, 5 * 4096);
	char *map = mmap(0, 12 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	map[7 * 4096] = 1;
	count("mapped and written", fd, 5 * 4096, 5 * 4096);
	fallocate(fd, 3, 0, 2 * 4096);
	count("punched", fd, 0, 5 * 4096);
	fallocate(fd, 0, 0, 4096);
	count("allocated", fd, 0, 5 * 4096);
	int only = open("file", O_RDONLY);
	count("for reading", only, 0, 0);

	section("others");
	int ends[2];
	pipe(ends);
	count("pipe", ends[1], 0, 0);
	count("directory", open(".", O_RDONLY), 0, 0);
	count("null", open("/dev/null", O_RDWR), 0, 0);
	count("event", eventfd(0, 0), 0, 0);
	count("proc", open("/proc/self/stat", O_RDONLY), 0, 0);
	count("a place", open("file", O_PATH), 0, 0);
	count("none", 99, 0, 0);
	int memory = (int)syscall(SYS_memfd_create, "m", 0);
	write(memory, page, 100);
	count("memory", memory, 0, 0);
	struct range range = { 0, 0 };
	struct counts c;
	SHOW(CALL(fd, &range, &c, 1));
	SHOW(CALL(fd, 1L, &c, 1));
	SHOW(CALL(fd, &range, 1L, 1));
	SHOW(CALL(fd, &range, 1L, 0));
	SHOW(CALL(99, 1L, 1L, 1));

	section("rights");
	write_file("mine", "text"), write_file("readable", "text"), write_file("writable", "text");
	chown("mine", 1000, 1000), chmod("mine", 0400), chmod("readable", 0644), chmod("writable", 0646);
	chmod(".", 0755), mkdir("dir", 0755);
	in_child("user", user);
	chdir("..");
	umount2("m", MNT_DETACH);
	return 0;
}
