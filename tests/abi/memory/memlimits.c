/* RLIMIT_AS, DATA, STACK and MEMLOCK where mlock.c does not look: brk, mremap, shmat, what locks by itself, and the arguments of exec. */
#include "t.h"

#include <sys/resource.h>
#include <sys/shm.h>

#define PAGE 4096L
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static void limit(int resource, rlim_t soft)
{
	struct rlimit l;
	getrlimit(resource, &l);
	l.rlim_cur = soft;
	if (setrlimit(resource, &l))
		say("no limit: %s", error_name(errno));
}

static void addresses(void)
{
	char *at = mmap(0, 2 << 20, PROT_READ, ANON, -1, 0);
	int id = shmget(IPC_PRIVATE, 8 << 20, IPC_CREAT | 0600);
	limit(RLIMIT_AS, 6 << 20);
	SHOW_PTR(mremap(at, 2 << 20, 8 << 20, MREMAP_MAYMOVE));
	SHOW_PTR(at = mremap(at, 2 << 20, 3 << 20, MREMAP_MAYMOVE));
	SHOW_PTR(at = mremap(at, 3 << 20, 1 << 20, 0));
	/* Once more, and the old one stays. */
	SHOW_PTR(mremap(at, 1 << 20, 1 << 20, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
	SHOW_PTR(shmat(id, NULL, 0));
	shmctl(id, IPC_RMID, NULL);
	char *now = sbrk(0);
	SHOW(brk(now + (8 << 20)));
	SHOW(sbrk(0) == now);
	SHOW(brk(now + PAGE));
	/* In place of what is there. */
	SHOW_PTR(mmap(at, 1 << 20, RW, ANON | MAP_FIXED, -1, 0) == at ? at : MAP_FAILED);
	SHOW(mprotect(at, 1 << 20, RW));
	limit(RLIMIT_AS, PAGE);
	SHOW_PTR(mmap(0, PAGE, PROT_READ, ANON, -1, 0));
	SHOW(munmap(at + PAGE, PAGE));
	SHOW(munmap(at, PAGE));
}

static void data(void)
{
	char *at = mmap(0, 4 << 20, PROT_READ, ANON, -1, 0);
	char *own = mmap(0, 1 << 20, RW, ANON, -1, 0);
	char *now = sbrk(0);
	limit(RLIMIT_DATA, 3 << 20);
	SHOW(brk(now + (1 << 20)));
	SHOW(brk(now + (8 << 20)));
	SHOW(brk(now));
	SHOW_PTR(mremap(own, 1 << 20, 8 << 20, MREMAP_MAYMOVE));
	SHOW_PTR(mremap(at, 4 << 20, 8 << 20, MREMAP_MAYMOVE) == MAP_FAILED ? MAP_FAILED : own);
	at = mmap(0, 4 << 20, PROT_READ, ANON, -1, 0);
	SHOW(mprotect(at, 4 << 20, RW));
	SHOW(mprotect(at, 4 << 20, PROT_READ | PROT_EXEC));
	SHOW(mprotect(own, 1 << 20, PROT_READ));
	SHOW(mprotect(own, 1 << 20, RW));
	SHOW_PTR(mmap(0, 16 << 20, RW, ANON | MAP_GROWSDOWN, -1, 0));
	SHOW_PTR(mmap(0, 16 << 20, RW, ANON | MAP_NORESERVE, -1, 0));
	limit(RLIMIT_DATA, 0);
	SHOW_PTR(mmap(0, PAGE, RW, ANON, -1, 0));
	SHOW_PTR(mmap(0, PAGE, PROT_WRITE, ANON, -1, 0));
	SHOW_PTR(mmap(0, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	SHOW(brk(now + PAGE));
}

static void locked(void)
{
	int id = shmget(IPC_PRIVATE, 16 * PAGE, IPC_CREAT | 0600);
	shmctl(id, IPC_SET, &(struct shmid_ds){ .shm_perm = { .uid = 1000, .gid = 1000, .mode = 0600 } });
	int other = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
	shmctl(other, IPC_SET, &(struct shmid_ds){ .shm_perm = { .uid = 1000, .gid = 1000, .mode = 0600 } });
	setresgid(1000, 1000, 1000), setresuid(1000, 1000, 1000);
	limit(RLIMIT_MEMLOCK, 8 * PAGE);
	SHOW(shmctl(id, SHM_LOCK, NULL));
	SHOW(shmctl(other, SHM_LOCK, NULL));
	SHOW(shmctl(other, SHM_LOCK, NULL));
	/* What segments have locked is counted for the user, and what is mapped for the process. */
	char *at = mmap(0, 32 * PAGE, RW, ANON, -1, 0);
	SHOW(mlock(at, 8 * PAGE));
	SHOW_PTR(mremap(at, 32 * PAGE, 40 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED ? MAP_FAILED : at);
	SHOW_PTR(mremap(at, 8 * PAGE, 9 * PAGE, MREMAP_MAYMOVE));
	SHOW(munlockall());
	SHOW(mlockall(MCL_FUTURE));
	SHOW_PTR(mmap(0, 9 * PAGE, PROT_NONE, ANON, -1, 0));
	SHOW_PTR(mmap(0, 9 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	SHOW_PTR(shmat(id, NULL, 0));
	void *attached = shmat(other, NULL, 0);
	SHOW_PTR(attached);
	char *now = sbrk(0);
	SHOW(brk(now + 5 * PAGE));
	SHOW(brk(now + 2 * PAGE));
	SHOW(brk(now));
	SHOW(shmdt(attached));
	char *one = mmap(0, PAGE, RW, ANON, -1, 0);
	SHOW_PTR(mremap(one, PAGE, 9 * PAGE, MREMAP_MAYMOVE));
	SHOW_PTR(mremap(one, PAGE, 8 * PAGE, MREMAP_MAYMOVE));
	SHOW(shmctl(other, SHM_UNLOCK, NULL));
	limit(RLIMIT_MEMLOCK, 0);
	SHOW(shmctl(other, SHM_LOCK, NULL));
	SHOW(mlockall(MCL_CURRENT));
	SHOW_PTR(mmap(0, PAGE, RW, ANON, -1, 0));
	shmctl(id, IPC_RMID, NULL), shmctl(other, IPC_RMID, NULL);
}

/* How many arguments of 100,000 bytes a program may get. */
static void arguments(void)
{
	static char large[100000];
	static char *all[40];
	memset(large, 'x', sizeof large - 1);
	static const rlim_t stacks[] = { 1 << 20, 4 << 20, 8 << 20 };
	for (unsigned i = 0; i < sizeof stacks / sizeof *stacks; i++) {
		limit(RLIMIT_STACK, stacks[i]);
		int n = 1;
		for (; n < 39; n++) {
			all[0] = "nothing";
			for (int j = 1; j <= n; j++)
				all[j] = large;
			all[n + 1] = NULL;
			char *none[] = { NULL };
			/* It is no program, which is told after its arguments were taken. */
			execve("nothing", all, none);
			if (errno == E2BIG)
				break;
		}
		say("stack %lld KiB: %d are too many", (long long)stacks[i] >> 10, n);
	}
}

int main(void)
{
	section("RLIMIT_AS");
	in_child("addresses", addresses);
	section("RLIMIT_DATA");
	in_child("data", data);
	section("RLIMIT_MEMLOCK");
	in_child("locked", locked);
	section("arguments");
	write_file("nothing", "no program\n");
	chmod("nothing", 0755);
	in_child("arguments", arguments);
	return 0;
}
