/* Sets of semaphores: semget, semctl, and operations that do not wait. */
#include "ipc.h"

#define GET(key, count, flags) (int)syscall(SYS_semget, key, count, flags)
#define CTL(id, number, command, ...) syscall(SYS_semctl, id, number, command, ##__VA_ARGS__)

static long op(int id, int number, int change, int flags)
{
	struct sembuf one = { (unsigned short)number, (short)change, (short)flags };
	return syscall(SYS_semop, id, &one, 1);
}

static void show(const char *what, int id)
{
	struct semid_ds ds;
	memset(&ds, 0xff, sizeof ds);
	if (CTL(id, 0, IPC_STAT, &ds) < 0) {
		say("%s: %s", what, error_name(errno));
		return;
	}
	show_perm(what, &ds.sem_perm, id);
	unsigned long *words = (unsigned long *)&ds;
	say("%s: %lu semaphores, operation %s, change %s, unused %lx %lx %lx %lx", what, (unsigned long)words[10], when(words[6]), when(words[8]), words[7], words[9],
	    words[11], words[12]);
}

static void values(const char *what, int id, int count)
{
	unsigned short all[64];
	memset(all, 0xff, sizeof all);
	if (CTL(id, 0, GETALL, all) < 0) {
		say("%s: %s", what, error_name(errno));
		return;
	}
	for (int n = 0; n < count; n++)
		say("%s: %d is %u, by %s", what, n, all[n], who(CTL(id, n, GETPID)));
	say("%s: behind %x", what, all[count]);
}

static void making(void)
{
	section("making");
	SHOW(GET(KEY(20), 1, 0600));
	SHOW(GET(KEY(20), 0, 0600 | IPC_CREAT));
	SHOW(GET(KEY(20), -1, 0600 | IPC_CREAT));
	SHOW(GET(KEY(20), 32001, 0600 | IPC_CREAT));
	int id = GET(KEY(20), 3, 0640 | IPC_CREAT);
	CHECK(id >= 0);
	show("new", id);
	values("new", id, 3);
	CHECK(GET(KEY(20), 0, 0) == id);
	CHECK(GET(KEY(20), 3, 0640) == id);
	CHECK(GET(KEY(20), 3, 0777 | IPC_EXCL) == id);
	SHOW(GET(KEY(20), 4, 0));
	SHOW(GET(KEY(20), -1, 0));
	SHOW(GET(KEY(20), 3, IPC_CREAT | IPC_EXCL));
	int large = GET(IPC_PRIVATE, 32000, 0600);
	CHECK(large >= 0);
	SHOW(op(large, 31999, 1, 0));
	SHOW(CTL(large, 31999, GETVAL));
	SHOW(CTL(large, 0, IPC_RMID));
	SHOW(CTL(large, 0, IPC_RMID));
	SHOW(CTL(id, 0, IPC_RMID));
	SHOW(CTL(id, 0, GETVAL));
	SHOW(op(id, 0, 1, 0));
}

static void commands(void)
{
	section("commands");
	int id = GET(KEY(21), 3, 0600 | IPC_CREAT);
	struct semid_ds ds;
	SHOW(CTL(-1, 0, IPC_STAT, &ds));
	SHOW(CTL(id, 0, 99, &ds));
	SHOW(CTL(id, 0, -1, &ds));
	SHOW(CTL(id, 0, IPC_STAT | 0x100, &ds));
	SHOW(CTL(id, 0, IPC_STAT, NULL));
	SHOW(CTL(id, 0, IPC_SET, NULL));
	SHOW(CTL(id, 3, GETVAL));
	SHOW(CTL(id, -1, GETVAL));
	SHOW(CTL(id, -1, GETALL, NULL));
	SHOW(CTL(id, 77, SETALL, NULL));
	SHOW(CTL(id, 3, SETVAL, 1));
	SHOW(CTL(id, 3, SETVAL, 40000));
	SHOW(CTL(id, 0, SETVAL, -1));
	SHOW(CTL(id, 0, SETVAL, 32768));
	SHOW(CTL(id, 0, SETVAL, 32767));
	SHOW(CTL(id, 1, SETVAL, 0x100000005));
	SHOW(CTL(id + (1 << 15), 1, SETVAL, 1));
	values("set", id, 3);
	unsigned short all[3] = { 1, 2, 32768 };
	SHOW(CTL(id, 0, SETALL, all));
	all[2] = 7;
	SHOW(CTL(id, 99, SETALL, all));
	values("all set", id, 3);
	ds.sem_perm.uid = 7;
	ds.sem_perm.gid = 8;
	ds.sem_perm.mode = 07641;
	SHOW(CTL(id, 0, IPC_SET, &ds));
	show("given away", id);
	CHECK(CTL(id, 0, SEM_STAT_ANY_, &ds) == id);
	CHECK(CTL(id & 0x7fff, 0, SEM_STAT, &ds) == id);
	SHOW(CTL(0x7ffe, 0, SEM_STAT, &ds));
	int info[10];
	memset(info, 0xff, sizeof info);
	CHECK(CTL(0, 0, IPC_INFO, info) >= (id & 0x7fff));
	say("limits %d %d %d %d %d %d %d %d %d %d", info[0], info[1], info[2], info[3], info[4], info[5], info[6], info[7], info[8], info[9]);
	CHECK(CTL(0, 0, SEM_INFO, info) >= (id & 0x7fff));
	say("sums %d %d %d %d %d %d %d %d %d %d", info[0], info[1], info[2], info[3], info[4], info[5], info[6], info[7], info[8], info[9]);
	SHOW(CTL(0, 0, SEM_INFO, NULL));
	show_line("sem", id, 0, 8);
	SHOW(CTL(id, 0, GETNCNT));
	SHOW(CTL(id, 0, GETZCNT));
	SHOW(CTL(id, 0, IPC_RMID));
}

static void operations(void)
{
	section("operations");
	int id = GET(IPC_PRIVATE, 4, 0600);
	struct sembuf ops[600];
	memset(ops, 0, sizeof ops);
	SHOW(syscall(SYS_semop, id, ops, 0));
	SHOW(syscall(SYS_semop, -1, ops, 1));
	SHOW(syscall(SYS_semop, id + (1 << 15), ops, 1));
	SHOW(syscall(SYS_semop, id, NULL, 1));
	SHOW(syscall(SYS_semop, id, NULL, 501));
	SHOW(syscall(SYS_semop, id, NULL, 500));
	SHOW(syscall(SYS_semop, -1, ops, 501));
	SHOW(syscall(SYS_semop, id, ops, 500));
	SHOW(syscall(SYS_semop, id, ops, 0xffffffff));
	SHOW(op(id, 4, 1, 0));
	SHOW(op(id, 65535, 0, 0));
	SHOW(op(id, 0, 5, IPC_NOWAIT));
	SHOW(op(id, 0, -6, IPC_NOWAIT));
	SHOW(op(id, 0, 0, IPC_NOWAIT));
	SHOW(op(id, 0, 32767, 0));
	SHOW(op(id, 0, -32768, IPC_NOWAIT));
	SHOW(op(id, 0, 32762, 0));
	SHOW(CTL(id, 0, GETVAL));
	SHOW(op(id, 0, 1, 0));
	SHOW(op(id, 0, -32767, 0));
	SHOW(op(id, 0, 0, 0));
	values("single", id, 4);
	struct sembuf both[3] = { { 0, 2, 0 }, { 1, 3, 0 }, { 0, -3, IPC_NOWAIT } };
	SHOW(syscall(SYS_semop, id, both, 3));
	values("not all", id, 4);
	both[2].sem_op = -2;
	SHOW(syscall(SYS_semop, id, both, 3));
	struct sembuf swap[4] = { { 1, -3, 0 }, { 1, 0, 0 }, { 2, 1, 0 }, { 1, 1, IPC_NOWAIT } };
	SHOW(syscall(SYS_semop, id, swap, 4));
	values("all", id, 4);
	struct sembuf far[2] = { { 0, 1, 0 }, { 4, 0, 0 } };
	SHOW(syscall(SYS_semop, id, far, 2));
	struct sembuf over[2] = { { 3, 1, 0 }, { 3, 32767, 0 } };
	SHOW(syscall(SYS_semop, id, over, 2));
	SHOW(CTL(id, 3, GETVAL));
	struct timespec bad[] = { { 0, 1000000000 }, { -1, 0 }, { 0, -1 }, { 0, 0 }, { 0, 20000000 } };
	struct sembuf waits = { 3, -1, 0 };
	for (int n = 0; n < 5; n++)
		SHOW(syscall(SYS_semtimedop, id, &waits, 1, &bad[n]));
	SHOW(syscall(SYS_semtimedop, id, &waits, 1, (void *)8));
	SHOW(syscall(SYS_semtimedop, id, NULL, 1, (void *)8));
	SHOW(syscall(SYS_semtimedop, id, NULL, 1, &bad[0]));
	SHOW(syscall(SYS_semtimedop, -1, &waits, 1, &bad[0]));
	SHOW(syscall(SYS_semtimedop, -1, &waits, 1, &bad[4]));
	SHOW(syscall(SYS_semtimedop, id, &waits, 501, &bad[0]));
	waits.sem_op = 1;
	SHOW(syscall(SYS_semtimedop, id, &waits, 1, NULL));
	SHOW(CTL(id, 3, GETVAL));
	SHOW(CTL(id, 0, IPC_RMID));
}

static int shared;
static long gets(int id)
{
	return CTL(id, 0, GETVAL);
}
static long counts(int id)
{
	return CTL(id, 0, GETNCNT);
}
static long all_of(int id)
{
	unsigned short all[2];
	return CTL(id, 0, GETALL, all);
}
static long sets_value(int id)
{
	return CTL(id, 0, SETVAL, 3);
}
static long sets_all(int id)
{
	unsigned short all[2] = { 0, 0 };
	return CTL(id, 0, SETALL, all);
}
static long zero(int id)
{
	return op(id, 1, 0, 0);
}
static long adds(int id)
{
	return op(id, 1, 1, 0);
}
static long far(int id)
{
	return op(id, 9, 1, 0);
}
static long stat_of(int id)
{
	struct semid_ds ds;
	return CTL(id, 0, IPC_STAT, &ds);
}
static long stat_any(int id)
{
	struct semid_ds ds;
	return CTL(id & 0x7fff, 0, SEM_STAT_ANY_, &ds) == shared;
}
static long removes(int id)
{
	return CTL(id, 0, IPC_RMID);
}
static long out_of_range(int id)
{
	return CTL(id, 9, SETVAL, 1);
}
static long get_out_of_range(int id)
{
	return CTL(id, 9, GETVAL);
}

static void rights(void)
{
	section("rights");
	static const struct { const char *name; long (*f)(int); } calls[] = { { "value", gets }, { "waiting", counts }, { "values", all_of },
		{ "set value", sets_value }, { "set all", sets_all }, { "zero", zero }, { "add", adds }, { "far", far }, { "stat", stat_of }, { "stat any", stat_any },
		{ "set none", out_of_range }, { "get none", get_out_of_range }, { "remove", removes } };
	static const int modes[] = { 0600, 0004, 0006, 0002 };
	for (unsigned m = 0; m < 4; m++)
		for (unsigned c = 0; c < sizeof calls / sizeof *calls; c++) {
			shared = GET(IPC_PRIVATE, 2, modes[m]);
			long r = as_user(100, 100, calls[c].f, shared);
			say("mode %o, %s: %ld %s", modes[m], calls[c].name, r < 0 ? -1 : r, r < 0 ? error_name(errno) : "ok");
			CTL(shared, 0, IPC_RMID);
		}
}

int main(void)
{
	remove_all();
	making();
	commands();
	operations();
	rights();
	return 0;
}
