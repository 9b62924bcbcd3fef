/* set_mempolicy, get_mempolicy, mbind, set_mempolicy_home_node: what they refuse, what they tell, and how policies are kept with mappings, threads and
 * processes. On a machine with one node. */
#include "t.h"
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/shm.h>

/* As set_mempolicy(2) has them. */
enum { MPOL_DEFAULT, MPOL_PREFERRED, MPOL_BIND, MPOL_INTERLEAVE, MPOL_LOCAL, MPOL_PREFERRED_MANY, MPOL_WEIGHTED_INTERLEAVE };
enum { MPOL_F_NUMA_BALANCING = 1 << 13, MPOL_F_RELATIVE_NODES = 1 << 14, MPOL_F_STATIC_NODES = 1 << 15 };
enum { MPOL_F_NODE = 1, MPOL_F_ADDR = 2, MPOL_F_MEMS_ALLOWED = 4 };
enum { MPOL_MF_STRICT = 1, MPOL_MF_MOVE = 2, MPOL_MF_MOVE_ALL = 4 };

#ifndef SYS_set_mempolicy_home_node
#define SYS_set_mempolicy_home_node 450
#endif
#define PAGE 4096L
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define BAD ((void *)8L)

typedef unsigned long word;

static long set(int mode, const word *mask, word bits)
{
	return syscall(SYS_set_mempolicy, mode, mask, bits);
}

static long get(int *mode, word *mask, word bits, void *at, word flags)
{
	return syscall(SYS_get_mempolicy, mode, mask, bits, at, flags);
}

static long bind_to(void *at, word len, int mode, const word *mask, word bits, unsigned flags)
{
	return syscall(SYS_mbind, at, len, mode, mask, bits, flags);
}

static long home(void *at, word len, word node, word flags)
{
	return syscall(SYS_set_mempolicy_home_node, at, len, node, flags);
}

static void tell(const char *what, void *at)
{
	int mode = -1;
	word mask = 99;
	long r = get(&mode, &mask, 64, at, at ? MPOL_F_ADDR : 0);
	say("  %s: %ld, mode %x, nodes %lx", what, r < 0 ? -errno : r, mode, r < 0 ? 0 : mask);
}

static const word one = 1, two = 2, both = 3, none;

static void setting(void)
{
	section("set_mempolicy");
	tell("at first", 0);
	for (int mode = -1; mode <= 8; mode++) {
		say(" mode %d", mode);
		SHOW(set(mode, 0, 0));
		SHOW(set(mode, &none, 64));
		SHOW(set(mode, &one, 64));
		tell("told", 0);
		SHOW(set(mode, &two, 64));
		SHOW(set(mode, &both, 64));
		tell("told", 0);
		SHOW(set(mode | MPOL_F_STATIC_NODES, &one, 64));
		tell("told", 0);
		SHOW(set(mode | MPOL_F_STATIC_NODES, &both, 64));
		tell("told", 0);
		SHOW(set(mode | MPOL_F_STATIC_NODES, 0, 0));
		SHOW(set(mode | MPOL_F_RELATIVE_NODES, &two, 64));
		tell("told", 0);
		SHOW(set(mode | MPOL_F_RELATIVE_NODES, 0, 0));
		SHOW(set(mode | MPOL_F_RELATIVE_NODES | MPOL_F_STATIC_NODES, &one, 64));
		SHOW(set(mode | 1 << 12, &one, 64));
		SHOW(set(MPOL_DEFAULT, 0, 0));
	}
}

static void bits(void)
{
	section("how many bits");
	word wide[1024] = { 1 };
	SHOW(set(MPOL_BIND, wide, 0));
	SHOW(set(MPOL_BIND, wide, 1));
	SHOW(set(MPOL_BIND, wide, 2));
	SHOW(set(MPOL_BIND, wide, 65));
	SHOW(set(MPOL_BIND, wide, 1024));
	SHOW(set(MPOL_BIND, wide, 1025));
	SHOW(set(MPOL_BIND, wide, 1026));
	SHOW(set(MPOL_BIND, wide, 4096 * 8));
	SHOW(set(MPOL_BIND, wide, 4096 * 8 + 1));
	SHOW(set(MPOL_BIND, wide, 4096 * 8 + 2));
	SHOW(set(MPOL_BIND, wide, -1));
	wide[3] = 1;
	SHOW(set(MPOL_BIND, wide, 1025));
	wide[15] = 1L << 63;
	SHOW(set(MPOL_BIND, wide, 1025));
	SHOW(set(MPOL_BIND, wide, 2000));
	wide[16] = 1;
	SHOW(set(MPOL_BIND, wide, 1025));
	SHOW(set(MPOL_BIND, wide, 1026));
	SHOW(set(MPOL_BIND, wide, 1100));
	wide[16] = 0, wide[511] = 1L << 63;
	SHOW(set(MPOL_BIND, wide, 4096 * 8));
	SHOW(set(MPOL_BIND, wide, 4096 * 8 + 1));
	wide[0] = 0;
	SHOW(set(MPOL_PREFERRED, wide, 1025));
	SHOW(set(MPOL_LOCAL, wide, 1025));
	SHOW(set(MPOL_PREFERRED | MPOL_F_RELATIVE_NODES, wide, 1025));
	SHOW(set(MPOL_BIND, BAD, 64));
	SHOW(set(MPOL_BIND, BAD, 1));
	SHOW(set(MPOL_BIND, BAD, 4096 * 9));
	SHOW(set(99, BAD, 64));
	SHOW(set(MPOL_DEFAULT, 0, 0));
}

static void getting(void)
{
	section("get_mempolicy");
	int mode = 7;
	word mask[1024];
	memset(mask, 0xff, sizeof mask);
	SHOW(get(0, 0, 0, 0, 0));
	SHOW(get(&mode, 0, 0, 0, 0));
	SHOW(get(BAD, 0, 0, 0, 0));
	SHOW(get(&mode, mask, 0, 0, 0));
	SHOW(get(&mode, mask, 1, 0, 0));
	say("  %lx", mask[0]);
	SHOW(get(&mode, mask, 2, 0, 0));
	say("  %lx %lx", mask[0], mask[1]);
	SHOW(get(&mode, mask, 1024, 0, MPOL_F_MEMS_ALLOWED));
	say("  mode %d: %lx %lx .. %lx %lx", mode, mask[0], mask[1], mask[15], mask[16]);
	SHOW(get(&mode, mask, 1026, 0, MPOL_F_MEMS_ALLOWED));
	say("  %lx %lx", mask[16], mask[17]);
	SHOW(get(&mode, mask, 4096 * 8, (void *)1, MPOL_F_MEMS_ALLOWED) * 0);
	SHOW(get(&mode, mask, 4096 * 8 + 2, 0, MPOL_F_MEMS_ALLOWED));
	SHOW(get(&mode, mask, -1, 0, MPOL_F_MEMS_ALLOWED));
	SHOW(get(&mode, BAD, 64, 0, MPOL_F_MEMS_ALLOWED));
	SHOW(get(&mode, mask, 64, 0, MPOL_F_MEMS_ALLOWED | MPOL_F_NODE));
	SHOW(get(&mode, mask, 64, mask, MPOL_F_MEMS_ALLOWED | MPOL_F_ADDR));
	SHOW(get(&mode, mask, 64, 0, 8));
	SHOW(get(&mode, mask, 64, mask, 0));
	SHOW(get(&mode, mask, 64, 0, MPOL_F_NODE));
	SHOW(get(&mode, mask, 64, BAD, MPOL_F_ADDR));
	SHOW(get(&mode, mask, 64, BAD, MPOL_F_ADDR | MPOL_F_NODE));
	SHOW(get(&mode, mask, 64, mask, MPOL_F_ADDR));
	SHOW(get(&mode, mask, 64, mask, MPOL_F_ADDR | MPOL_F_NODE));
	say("  on node %d", mode);
	char *at = mmap(0, PAGE, PROT_NONE, ANON, -1, 0);
	SHOW(get(&mode, 0, 0, at, MPOL_F_ADDR | MPOL_F_NODE));
	mprotect(at, PAGE, PROT_READ);
	SHOW(get(&mode, 0, 0, at + 5, MPOL_F_ADDR | MPOL_F_NODE));
	say("  on node %d", mode);
	munmap(at, PAGE);
	SHOW(set(MPOL_INTERLEAVE, &one, 64));
	SHOW(get(&mode, mask, 64, 0, MPOL_F_NODE));
	say("  next %d", mode);
	SHOW(set(MPOL_WEIGHTED_INTERLEAVE, &one, 64));
	SHOW(get(&mode, mask, 64, 0, MPOL_F_NODE));
	say("  next %d", mode);
	SHOW(set(MPOL_BIND, &one, 64));
	SHOW(get(&mode, mask, 64, 0, MPOL_F_NODE));
	SHOW(set(MPOL_DEFAULT, 0, 0));
}

/* Lines of maps, and of numa_maps with their policies, in [at, at + pages). */
static void maps(const char *what, char *at, int pages)
{
	char *text = read_file("/proc/self/numa_maps");
	say(" %s", what);
	for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n")) {
		char *start = (char *)strtoul(line, &line, 16), policy[64];
		if (start < at || start >= at + pages * PAGE)
			continue;
		sscanf(line, " %63s", policy);
		say("  page %ld: %s%s%s", (start - at) / PAGE, policy, strstr(line, "(many)") ? " (many)" : "",
		    strstr(line, "N0=") ? strstr(line, "N0=") : "");
	}
	free(text);
}

static void binding(void)
{
	section("mbind");
	char *at = mmap(0, 16 * PAGE, RW, ANON, -1, 0);
	for (int i = 0; i < 16; i++)
		at[i * PAGE] = 1;
	maps("whole", at, 16);
	SHOW(bind_to(at, 4 * PAGE, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at + 8 * PAGE, 4 * PAGE, MPOL_INTERLEAVE, &one, 64, 0));
	SHOW(bind_to(at + 12 * PAGE, PAGE, MPOL_PREFERRED, 0, 0, 0));
	SHOW(bind_to(at + 13 * PAGE, PAGE, MPOL_PREFERRED_MANY, &one, 64, 0));
	SHOW(bind_to(at + 14 * PAGE, PAGE, MPOL_BIND | MPOL_F_STATIC_NODES, &both, 64, 0));
	SHOW(bind_to(at + 15 * PAGE, PAGE, MPOL_BIND | MPOL_F_RELATIVE_NODES, &two, 64, 0));
	maps("cut", at, 16);
	tell("bound", at + 5);
	tell("left alone", at + 5 * PAGE);
	tell("interleaved", at + 9 * PAGE);
	tell("local", at + 12 * PAGE);
	tell("static", at + 14 * PAGE);
	tell("relative", at + 15 * PAGE);
	SHOW(bind_to(at + 4 * PAGE, 4 * PAGE, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at + 8 * PAGE, 8 * PAGE, MPOL_BIND, &one, 64, 0));
	maps("joined", at, 16);
	int kid = fork();
	if (!kid) {
		tell("a child", at);
		bind_to(at, PAGE, MPOL_DEFAULT, 0, 0, 0);
		at[0] = 2;
		_exit(0);
	}
	waitpid(kid, 0, 0);
	tell("its parent", at);
	/* Where it has no neighbours that it could join. */
	char *hole = mmap(0, 34 * PAGE, PROT_NONE, ANON, -1, 0);
	char *to = mremap(at, 16 * PAGE, 32 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, hole + PAGE);
	tell("moved", to);
	tell("grown", to + 20 * PAGE);
	at = to;
	SHOW(bind_to(at, 32 * PAGE, MPOL_DEFAULT, 0, 0, 0));
	maps("default", at, 32);
	SHOW(set(MPOL_BIND, &one, 64));
	maps("the thread's", at, 32);
	tell("mapping", at);
	SHOW(bind_to(at, PAGE, MPOL_LOCAL, 0, 0, 0));
	maps("its own", at, 32);
	SHOW(set(MPOL_DEFAULT, 0, 0));
	munmap(hole, 34 * PAGE);
}

static void refused(void)
{
	section("mbind: refused");
	char *at = mmap(0, 8 * PAGE, RW, ANON, -1, 0);
	SHOW(bind_to(at + 1, PAGE, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at, 0, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at, 0, MPOL_BIND, 0, 0, 0));
	SHOW(bind_to(at, 0, 99, &one, 64, 0));
	SHOW(bind_to(at, 1, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at, PAGE, MPOL_BIND, &two, 64, 0));
	SHOW(bind_to(at, PAGE, MPOL_BIND, 0, 0, 0));
	SHOW(bind_to(at, PAGE, MPOL_DEFAULT, &one, 64, 0));
	SHOW(bind_to(at, PAGE, MPOL_LOCAL, &one, 64, 0));
	SHOW(bind_to(at, PAGE, MPOL_BIND, BAD, 64, 0));
	SHOW(bind_to(at, PAGE, MPOL_BIND, &one, 64, 8));
	SHOW(bind_to(at, PAGE, MPOL_BIND, &one, 64, 16));
	SHOW(bind_to(at + 1, PAGE, MPOL_BIND, &one, 64, 8));
	SHOW(bind_to(at, -1, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at, -PAGE, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at, -2 * PAGE, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to((void *)-PAGE, PAGE, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to((void *)(1L << 47), PAGE, MPOL_DEFAULT, 0, 0, 0));
	SHOW(bind_to(at, 8 * PAGE, 2 | 1 << 12, &one, 64, 0));
	munmap(at + 2 * PAGE, PAGE);
	SHOW(bind_to(at, 8 * PAGE, MPOL_BIND, &one, 64, 0));
	tell("before the hole", at);
	SHOW(bind_to(at + 2 * PAGE, 2 * PAGE, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at + PAGE, 2 * PAGE, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at + 2 * PAGE, PAGE, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at + 2 * PAGE, PAGE, MPOL_DEFAULT, 0, 0, 0));
	SHOW(bind_to(at, 8 * PAGE, MPOL_DEFAULT, 0, 0, 0));
	SHOW(bind_to(at, PAGE, MPOL_BIND, &one, 64, 0));
	SHOW(bind_to(at, 8 * PAGE, MPOL_DEFAULT, 0, 0, 0));
	tell("default", at);
	munmap(at, 8 * PAGE);
}

static void homes(void)
{
	section("home nodes");
	char *at = mmap(0, 8 * PAGE, RW, ANON, -1, 0);
	SHOW(home(at, 8 * PAGE, 0, 0));
	SHOW(home(at + 1, PAGE, 0, 0));
	SHOW(home(at, PAGE, 0, 1));
	SHOW(home(at, PAGE, 1, 0));
	SHOW(home(at, PAGE, -1, 0));
	SHOW(home(at, 0, 0, 0));
	SHOW(home(at, -PAGE, 0, 0));
	bind_to(at, 2 * PAGE, MPOL_BIND, &one, 64, 0);
	SHOW(home(at, 8 * PAGE, 0, 0));
	tell("bound", at);
	bind_to(at + 2 * PAGE, 2 * PAGE, MPOL_PREFERRED_MANY, &one, 64, 0);
	SHOW(home(at + 2 * PAGE, PAGE, 0, 0));
	maps("cut", at, 8);
	bind_to(at + 6 * PAGE, 2 * PAGE, MPOL_INTERLEAVE, &one, 64, 0);
	SHOW(home(at, 8 * PAGE, 0, 0));
	SHOW(home(at + 6 * PAGE, PAGE, 0, 0));
	munmap(at, 8 * PAGE);
	SHOW(home(at, 8 * PAGE, 0, 0));
}

static void shared(void)
{
	section("shared memory");
	int fd = memfd_create("pages", 0);
	ftruncate(fd, 8 * PAGE);
	char *at = mmap(0, 8 * PAGE, RW, MAP_SHARED, fd, 0);
	char *other = mmap(0, 8 * PAGE, RW, MAP_SHARED, fd, 0);
	char *own = mmap(0, 8 * PAGE, RW, MAP_PRIVATE, fd, 0);
	SHOW(bind_to(at + 2 * PAGE, 2 * PAGE, MPOL_BIND, &one, 64, 0));
	tell("page 2", at + 2 * PAGE);
	tell("page 4", at + 4 * PAGE);
	tell("page 2 elsewhere", other + 2 * PAGE);
	tell("page 4 elsewhere", other + 4 * PAGE);
	tell("page 2 of a private mapping", own + 2 * PAGE);
	maps("here", at, 8);
	maps("there", other, 8);
	SHOW(bind_to(other + 3 * PAGE, PAGE, MPOL_DEFAULT, 0, 0, 0));
	tell("page 3", at + 3 * PAGE);
	munmap(at, 8 * PAGE);
	munmap(other, 8 * PAGE);
	munmap(own, 8 * PAGE);
	at = mmap(0, 8 * PAGE, RW, MAP_SHARED, fd, 0);
	tell("page 2 mapped again", at + 2 * PAGE);
	munmap(at, 8 * PAGE);
	close(fd);
	at = mmap(0, 4 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int kid = fork();
	if (!kid) {
		bind_to(at, PAGE, MPOL_INTERLEAVE, &one, 64, 0);
		_exit(0);
	}
	waitpid(kid, 0, 0);
	tell("what a child said", at);
	tell("what it did not", at + PAGE);
	munmap(at, 4 * PAGE);
	int id = shmget(IPC_PRIVATE, 4 * PAGE, 0600);
	at = shmat(id, 0, 0);
	SHOW(bind_to(at, 4 * PAGE, MPOL_PREFERRED, &one, 64, 0));
	shmdt(at);
	at = shmat(id, 0, 0);
	tell("a segment attached again", at + PAGE);
	shmdt(at);
	shmctl(id, IPC_RMID, 0);
}

static long move(int pid, word count, void **pages, const int *nodes, int *status, int flags)
{
	return syscall(SYS_move_pages, pid, count, pages, nodes, status, flags);
}

static void moving(void)
{
	section("moving pages");
	char *at = mmap(0, 8 * PAGE, RW, ANON, -1, 0);
	at[0] = 1, at[2 * PAGE] = 2;
	volatile char zero = at[3 * PAGE];
	(void)zero;
	munmap(at + 7 * PAGE, PAGE);
	SHOW(bind_to(at, 4 * PAGE, MPOL_BIND, &one, 64, MPOL_MF_STRICT));
	SHOW(bind_to(at, 4 * PAGE, MPOL_BIND, &one, 64, MPOL_MF_MOVE));
	SHOW(bind_to(at, 4 * PAGE, MPOL_BIND, &one, 64, MPOL_MF_MOVE | MPOL_MF_STRICT));
	SHOW(bind_to(at, 4 * PAGE, MPOL_BIND, &one, 64, MPOL_MF_MOVE_ALL));
	SHOW(bind_to(at, 4 * PAGE, MPOL_PREFERRED, 0, 0, MPOL_MF_STRICT));
	SHOW(bind_to(at, 4 * PAGE, MPOL_PREFERRED, 0, 0, MPOL_MF_STRICT | MPOL_MF_MOVE));
	SHOW(bind_to(at, 4 * PAGE, MPOL_DEFAULT, 0, 0, MPOL_MF_STRICT));
	SHOW(bind_to(at, 4 * PAGE, MPOL_DEFAULT, 0, 0, MPOL_MF_MOVE));
	SHOW(bind_to(at, 8 * PAGE, MPOL_BIND, &one, 64, MPOL_MF_MOVE));
	say("  %d %d %d", at[0], at[2 * PAGE], at[3 * PAGE]);
	void *pages[] = { at, at + PAGE, at + 2 * PAGE + 7, at + 3 * PAGE, at + 7 * PAGE, (void *)-PAGE };
	int status[6] = { 9, 9, 9, 9, 9, 9 }, nodes[6] = { 0 }, bad[6] = { 0, 1, -1, 1024, 0, 0 };
	SHOW(move(0, 6, pages, 0, status, 0));
	for (int i = 0; i < 6; i++)
		say("  page %d: %d", i, status[i]);
	SHOW(move(0, 6, pages, nodes, status, MPOL_MF_MOVE));
	for (int i = 0; i < 6; i++)
		say("  page %d: %d", i, status[i]);
	SHOW(move(getpid(), 6, pages, nodes, status, MPOL_MF_MOVE_ALL));
	SHOW(move(0, 0, 0, 0, 0, 0));
	SHOW(move(0, 1, pages, bad + 1, status, MPOL_MF_MOVE));
	SHOW(move(0, 1, pages, bad + 2, status, MPOL_MF_MOVE));
	SHOW(move(0, 1, pages, bad + 3, status, MPOL_MF_MOVE));
	SHOW(move(0, 2, pages, bad, status, MPOL_MF_MOVE));
	SHOW(move(0, 1, pages, nodes, status, MPOL_MF_STRICT));
	SHOW(move(0, 1, pages, nodes, status, 8));
	SHOW(move(0, 1, BAD, nodes, status, MPOL_MF_MOVE));
	SHOW(move(0, 1, BAD, 0, status, 0));
	SHOW(move(0, 1, pages, BAD, status, MPOL_MF_MOVE));
	SHOW(move(0, 1, pages, nodes, BAD, MPOL_MF_MOVE));
	SHOW(move(0, 1, pages, 0, 0, 0));
	SHOW(move(1 << 23, 1, pages, 0, status, 0));
	SHOW(move(-1, 1, pages, 0, status, 0));
	SHOW(syscall(SYS_migrate_pages, 0, 64, &one, &one));
	SHOW(syscall(SYS_migrate_pages, 0, 64, &both, &one));
	SHOW(syscall(SYS_migrate_pages, 0, 64, &one, &two));
	SHOW(syscall(SYS_migrate_pages, 0, 64, &one, &none));
	SHOW(syscall(SYS_migrate_pages, 0, 64, &none, &one));
	SHOW(syscall(SYS_migrate_pages, 0, 64, 0, &one));
	SHOW(syscall(SYS_migrate_pages, 0, 64, &one, 0));
	SHOW(syscall(SYS_migrate_pages, 0, 64, BAD, &one));
	SHOW(syscall(SYS_migrate_pages, 0, 64, &one, BAD));
	SHOW(syscall(SYS_migrate_pages, 0, 0, &one, &one));
	SHOW(syscall(SYS_migrate_pages, 1 << 23, 64, &one, &one));
	SHOW(syscall(SYS_migrate_pages, getpid(), 64, &one, &one));
	MISSING(set(MPOL_BIND | MPOL_F_NUMA_BALANCING, &one, 64), EINVAL);
	MISSING(bind_to(at, PAGE, MPOL_BIND | MPOL_F_NUMA_BALANCING, &one, 64, 0), EINVAL);
	SHOW(set(MPOL_INTERLEAVE | MPOL_F_NUMA_BALANCING, &one, 64));
	for (int mode = MPOL_DEFAULT; mode <= MPOL_WEIGHTED_INTERLEAVE; mode++)
		SHOW(bind_to(at, PAGE, mode, mode == MPOL_DEFAULT || mode == MPOL_LOCAL ? 0 : &one, 64, 0));
	munmap(at, 8 * PAGE);
	set(MPOL_DEFAULT, 0, 0);
}

/* A process of another user is not to be looked into. */
static void others(void)
{
	section("other users");
	int kid = fork();
	if (!kid) {
		setresuid(1000, 1000, 1000);
		void *page = (void *)1;
		int status = 0, node = 0;
		SHOW(move(1, 1, &page, 0, &status, 0));
		SHOW(syscall(SYS_migrate_pages, 1, 64, &one, &one));
		SHOW(move(0, 1, &page, &node, &status, MPOL_MF_MOVE_ALL));
		SHOW(bind_to(0, PAGE, MPOL_BIND, &one, 64, MPOL_MF_MOVE_ALL));
		SHOW(syscall(SYS_migrate_pages, 0, 64, &one, &both));
		SHOW(syscall(SYS_migrate_pages, 0, 64, &one, &one));
		_exit(0);
	}
	waitpid(kid, 0, 0);
}

static void *thread(void *unused)
{
	tell("a thread", 0);
	set(MPOL_LOCAL, 0, 0);
	tell("its own", 0);
	return unused;
}

static void inherited(char **argv)
{
	section("inherited");
	set(MPOL_INTERLEAVE, &one, 64);
	pthread_t t;
	pthread_create(&t, 0, thread, 0);
	pthread_join(t, 0);
	tell("its maker", 0);
	int kid = fork();
	if (!kid) {
		tell("a child", 0);
		execl(argv[0], argv[0], "again", (char *)0);
		_exit(1);
	}
	waitpid(kid, 0, 0);
	set(MPOL_DEFAULT, 0, 0);
	char *status = read_file("/proc/self/status"), *mems = strstr(status, "Mems_allowed:");
	say("  %.*s", (int)(strchr(strchr(mems, '\n') + 1, '\n') - mems), mems);
	free(status);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		tell("its program", 0);
		return 0;
	}
	setting();
	bits();
	getting();
	binding();
	refused();
	homes();
	shared();
	moving();
	others();
	inherited(argv);
	return 0;
}
