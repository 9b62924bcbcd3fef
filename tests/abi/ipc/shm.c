/* Segments of shared memory: shmget, shmctl, and what shmat refuses. */
#include "ipc.h"

#define GET(key, size, flags) (int)syscall(SYS_shmget, key, (size_t)(size), flags)
#define CTL(id, command, buffer) syscall(SYS_shmctl, id, command, buffer)
static void *AT(int id, const void *address, int flags)
{
	return (void *)syscall(SYS_shmat, id, address, flags);
}

static void show(const char *what, int id)
{
	struct shmid_ds ds;
	memset(&ds, 0xff, sizeof ds);
	if (CTL(id, IPC_STAT, &ds) < 0) {
		say("%s: %s", what, error_name(errno));
		return;
	}
	show_perm(what, &ds.shm_perm, id);
	say("%s: size %zu, attached %lu, by %s, last %s, attach %s, detach %s, change %s", what, ds.shm_segsz, (unsigned long)ds.shm_nattch, who(ds.shm_cpid),
	    who(ds.shm_lpid), when(ds.shm_atime), when(ds.shm_dtime), when(ds.shm_ctime));
	unsigned long *words = (unsigned long *)&ds;
	say("%s: unused %lx %lx %lx %lx", what, words[4], words[5], words[12], words[13]);
}

static void making(void)
{
	section("making");
	SHOW(GET(KEY(1), 100, 0600));
	int id = GET(KEY(1), 100, 0640 | IPC_CREAT);
	CHECK(id >= 0);
	show("new", id);
	CHECK(GET(KEY(1), 100, 0) == id);
	CHECK(GET(KEY(1), 0, 0) == id);
	CHECK(GET(KEY(1), 50, 0600 | IPC_CREAT) == id);
	SHOW(GET(KEY(1), 101, 0));
	SHOW(GET(KEY(1), 4096, IPC_CREAT));
	SHOW(GET(KEY(1), 100, IPC_CREAT | IPC_EXCL));
	SHOW(GET(KEY(1), 101, IPC_CREAT | IPC_EXCL));
	CHECK(GET(KEY(1), 100, IPC_EXCL) == id);
	SHOW(GET(KEY(2), 0, IPC_CREAT | 0600));
	SHOW(GET(KEY(2), -1, IPC_CREAT | 0600));
	SHOW(GET(KEY(2), 1ul << 60, IPC_CREAT | 0600));
	SHOW(GET(IPC_PRIVATE, 0, 0600));
	int a = GET(IPC_PRIVATE, 1, 0600), b = GET(IPC_PRIVATE, 1, 0777);
	CHECK(a >= 0 && b >= 0 && a != b);
	show("private", b);
	int huge = GET(IPC_PRIVATE, 1ul << 40, 0600 | SHM_NORESERVE);
	show("not reserved", huge);
	SHOW(CTL(huge, IPC_RMID, 0));
	SHOW(GET(KEY(3), 1 << 21, 0600 | IPC_CREAT | SHM_HUGETLB));
	SHOW(GET(KEY(3), 1 << 21, 0600 | SHM_HUGETLB));
	SHOW(GET(IPC_PRIVATE, 1 << 21, 0600 | SHM_HUGETLB));
	SHOW(GET(IPC_PRIVATE, 1 << 21, 0600 | SHM_HUGETLB | 17 << 26));
	SHOW(GET(IPC_PRIVATE, 0, 0600 | SHM_HUGETLB));
	CHECK(GET(KEY(1), 100, SHM_HUGETLB) == id);
	SHOW(GET(KEY(1), 100, SHM_HUGETLB | IPC_CREAT | IPC_EXCL));
	SHOW(CTL(a, IPC_RMID, 0));
	SHOW(CTL(a, IPC_RMID, 0));
	SHOW(CTL(b, IPC_RMID, NULL));
	SHOW(CTL(id, IPC_RMID, NULL));
	SHOW(CTL(id, IPC_STAT, NULL));
	SHOW(GET(KEY(1), 100, 0));
}

static void commands(void)
{
	section("commands");
	int id = GET(KEY(1), 3 * PAGE + 5, 0600 | IPC_CREAT);
	struct shmid_ds ds;
	SHOW(CTL(-1, IPC_STAT, &ds));
	SHOW(CTL(id, -1, &ds));
	SHOW(CTL(id, 99, &ds));
	SHOW(CTL(id, IPC_STAT | 0x100, &ds));
	SHOW(CTL(id, 4, &ds));
	SHOW(CTL(id, IPC_STAT, NULL));
	SHOW(CTL(id, IPC_SET, NULL));
	SHOW(CTL(id + (1 << 15), IPC_STAT, &ds));
	SHOW(CTL(id ^ 0x4000, IPC_RMID, NULL));
	ds.shm_perm.uid = 7;
	ds.shm_perm.gid = 8;
	ds.shm_perm.mode = 07641;
	SHOW(CTL(id, IPC_SET, &ds));
	show("set", id);
	ds.shm_perm.uid = -1;
	SHOW(CTL(id, IPC_SET, &ds));
	ds.shm_perm.uid = 0;
	ds.shm_perm.gid = -1;
	SHOW(CTL(id, IPC_SET, &ds));
	SHOW(CTL(id, SHM_LOCK, NULL));
	show("locked", id);
	SHOW(CTL(id, SHM_LOCK, NULL));
	SHOW(CTL(id, SHM_UNLOCK, NULL));
	SHOW(CTL(id, SHM_UNLOCK, NULL));
	show("unlocked", id);
	SHOW(CTL(id + (1 << 15), SHM_LOCK, NULL));
	CHECK(CTL(id, SHM_STAT_ANY, &ds) == id);
	CHECK(CTL(id & 0x7fff, SHM_STAT, &ds) == id);
	say("by index: size %zu, key %#x", ds.shm_segsz, ds.shm_perm.__ipc_perm_key);
	SHOW(CTL(0x7ffe, SHM_STAT, &ds));
	SHOW(CTL(-1, SHM_STAT, &ds));
	struct { unsigned long max, min, mni, seg, all, unused[4]; } info;
	memset(&info, 0xff, sizeof info);
	CHECK(CTL(0, IPC_INFO, &info) >= (id & 0x7fff));
	say("limits %lu %lu %lu %lu %lu, unused %lx %lx", info.max, info.min, info.mni, info.seg, info.all, info.unused[0], info.unused[3]);
	SHOW(CTL(0, IPC_INFO, NULL));
	struct { int used; unsigned long all, resident, swapped, attempts, successes; } sums;
	memset(&sums, 0xff, sizeof sums);
	CHECK(CTL(0, SHM_INFO, &sums) >= (id & 0x7fff));
	say("sums %d %lu %lu %lu %lu %lu", sums.used, sums.all, sums.resident, sums.swapped, sums.attempts, sums.successes);
	char *p = AT(id, NULL, 0);
	p[0] = p[2 * PAGE] = 1;
	CTL(0, SHM_INFO, &sums);
	say("touched: sums %d %lu %lu", sums.used, sums.all, sums.resident);
	show_line("shm", id, 4, 11);
	SHOW(CTL(0, SHM_INFO, NULL));
	SHOW(shmdt(p));
	show_line("shm", id, 4, 11);
	SHOW(CTL(id, IPC_RMID, NULL));
	CTL(0, SHM_INFO, &sums);
	say("removed: sums %d %lu %lu", sums.used, sums.all, sums.resident);
}

static int shared;
static long stat_of(int id)
{
	struct shmid_ds ds;
	return CTL(id, IPC_STAT, &ds);
}
static long stat_any(int id)
{
	struct shmid_ds ds;
	return CTL(id & 0x7fff, SHM_STAT_ANY, &ds) == shared;
}
static long stat_at(int id)
{
	struct shmid_ds ds;
	return CTL(id & 0x7fff, SHM_STAT, &ds) == shared;
}
static long at_read(int id)
{
	return AT(id, NULL, SHM_RDONLY) == (void *)-1 ? -1 : 0;
}
static long at_write(int id)
{
	return AT(id, NULL, 0) == (void *)-1 ? -1 : 0;
}
static long at_exec(int id)
{
	return AT(id, NULL, SHM_RDONLY | SHM_EXEC) == (void *)-1 ? -1 : 0;
}
static long get_read(int id)
{
	(void)id;
	return GET(KEY(4), 1, 0400) == shared ? 1 : -1;
}
static long get_write(int id)
{
	(void)id;
	return GET(KEY(4), 1, 0600) == shared ? 1 : -1;
}
static long get_other(int id)
{
	(void)id;
	return GET(KEY(4), 1, 0006 | IPC_CREAT) == shared ? 1 : -1;
}
static long removes(int id)
{
	return CTL(id, IPC_RMID, NULL);
}
static long sets(int id)
{
	struct shmid_ds ds = { .shm_perm = { .uid = 1, .gid = 1, .mode = 0777 } };
	return CTL(id, IPC_SET, &ds);
}
static long locks(int id)
{
	return CTL(id, SHM_LOCK, NULL);
}
static long unlocks(int id)
{
	return CTL(id, SHM_UNLOCK, NULL);
}
static long locks_with_none(int id)
{
	struct rlimit none = { 0, 0 };
	setrlimit(RLIMIT_MEMLOCK, &none);
	return CTL(id, SHM_LOCK, NULL);
}
static long locks_with_few(int id)
{
	struct rlimit few = { PAGE, PAGE };
	setrlimit(RLIMIT_MEMLOCK, &few);
	return CTL(id, SHM_LOCK, NULL);
}
static long huge(int id)
{
	return GET(IPC_PRIVATE, 1 << 21, 0600 | SHM_HUGETLB) + 0 * id;
}

static void rights(void)
{
	section("rights");
	static const struct { const char *name; long (*f)(int); } calls[] = { { "stat", stat_of }, { "stat any", stat_any }, { "stat at", stat_at },
		{ "attach to read", at_read }, { "attach to write", at_write }, { "attach to execute", at_exec }, { "get to read", get_read },
		{ "get to write", get_write }, { "get for others", get_other }, { "lock", locks }, { "unlock", unlocks }, { "lock with none", locks_with_none },
		{ "lock with few", locks_with_few }, { "huge", huge }, { "set", sets }, { "remove", removes } };
	static const struct { uid_t uid, gid; } users[] = { { 7, 99 }, { 100, 8 }, { 100, 100 } };
	static const int modes[] = { 0600, 0400, 0060, 0040, 0006, 0004, 0050, 0777 };
	for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++)
		for (unsigned u = 0; u < 3; u++)
			for (unsigned c = 0; c < sizeof calls / sizeof *calls; c++) {
				if (c > 8 && m != 0)
					continue;
				shared = GET(KEY(4), 2 * PAGE, 0600 | IPC_CREAT);
				struct shmid_ds ds = { .shm_perm = { .uid = 7, .gid = 8, .mode = modes[m] } };
				CTL(shared, IPC_SET, &ds);
				long r = as_user(users[u].uid, users[u].gid, calls[c].f, shared);
				say("mode %o, user %u %u, %s: %ld %s", modes[m], users[u].uid, users[u].gid, calls[c].name, r < 0 ? -1 : r, r < 0 ? error_name(errno) : "ok");
				CTL(shared, IPC_RMID, NULL);
			}
}

int main(void)
{
	remove_all();
	making();
	commands();
	rights();
	return 0;
}
