/* vm.overcommit_memory: which requests are refused as more than memory could ever fill, and that none is where the administrator says so. */
#include "t.h"

#include <sys/shm.h>
#include <sys/sysinfo.h>

static const char *knob = "/proc/sys/vm/overcommit_memory";
static size_t more, half;

static void mapped(const char *what, size_t len, int prot, int flags)
{
	char *at = mmap(NULL, len, prot, flags, -1, 0);
	say("%s: %s", what, at == MAP_FAILED ? error_name(errno) : "ok");
	if (at != MAP_FAILED)
		munmap(at, len);
}

static void protections(void)
{
	char *at = mmap(NULL, more, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(mprotect(at, 1 << 20, PROT_READ | PROT_WRITE));
	SHOW(mprotect(at + (2 << 20), half, PROT_READ | PROT_WRITE));
	munmap(at, more);
	at = mmap(NULL, more, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW(mprotect(at, more, PROT_READ | PROT_WRITE));
	SHOW(mprotect(at, more, PROT_NONE));
	SHOW(mprotect(at, more, PROT_READ));
	munmap(at, more);
}

static void moved(void)
{
	char *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *to = mremap(at, 1 << 20, more, MREMAP_MAYMOVE);
	say("mremap: %s", to == MAP_FAILED ? error_name(errno) : "ok");
	munmap(to == MAP_FAILED ? at : to, to == MAP_FAILED ? 1 << 20 : more);
	at = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	to = mremap(at, 1 << 20, more, MREMAP_MAYMOVE);
	say("mremap of what is only read: %s", to == MAP_FAILED ? error_name(errno) : "ok");
	munmap(to == MAP_FAILED ? at : to, to == MAP_FAILED ? 1 << 20 : more);
}

static void segment(const char *what, size_t len, int flags)
{
	int id = shmget(IPC_PRIVATE, len, IPC_CREAT | 0600 | flags);
	say("%s: %s", what, id < 0 ? error_name(errno) : "ok");
	if (id >= 0)
		shmctl(id, IPC_RMID, NULL);
}

static void all(void)
{
	const int own = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
	mapped("private", more, both, own);
	mapped("half of memory", half, both, own);
	mapped("only written", more, PROT_WRITE, own);
	mapped("only read", more, PROT_READ, own);
	mapped("not to be touched", more, PROT_NONE, own);
	mapped("without reserve", more, both, own | MAP_NORESERVE);
	mapped("shared", more, both, MAP_SHARED | MAP_ANONYMOUS);
	mapped("shared, only read", more, PROT_READ, MAP_SHARED | MAP_ANONYMOUS);
	mapped("shared, without reserve", more, both, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE);
	protections();
	moved();
	char *now = sbrk(0);
	SHOW(brk(now + more) == 0);
	SHOW(sbrk(0) == now);
	brk(now);
	segment("segment", more, 0);
	segment("segment without reserve", more, SHM_NORESERVE);
}

static void set(const char *text)
{
	int fd = open(knob, O_WRONLY);
	errno = 0;
	long n = write(fd, text, strlen(text));
	close(fd);
	char *now = read_file(knob);
	say("set %s: %ld %s, now %.1s", text, n, error_name(n < 0 ? errno : 0), now);
	free(now);
}

int main(void)
{
	struct sysinfo info;
	sysinfo(&info);
	more = (info.totalram * info.mem_unit * 3 / 2) & ~0x1fffffUL;
	half = more / 3;
	section("0");
	set("0");
	all();
	section("1");
	set("1");
	all();
	section("values");
	set("3"), set("-1"), set("x"), set(" 0\n"), set("0x1"), set("0");
	return 0;
}
