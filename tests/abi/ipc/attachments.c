/* Attaching segments: where, how they are counted through fork, exec, exit and changes of mappings, and their end. */
#include "ipc.h"

#define GET(key, size, flags) (int)syscall(SYS_shmget, key, (size_t)(size), flags)
static void *AT(int id, const void *address, int flags)
{
	return (void *)syscall(SYS_shmat, id, address, flags);
}
#define FAILED ((void *)-1)

static char *place; /* 64 pages that nothing else uses */

static long attached(int id)
{
	struct shmid_ds ds;
	return shmctl(id, IPC_STAT, &ds) < 0 ? -errno : (long)ds.shm_nattch;
}

static void count(const char *what, int id)
{
	struct shmid_ds ds;
	if (shmctl(id, IPC_STAT, &ds) < 0)
		say("%s: %s", what, error_name(errno));
	else
		say("%s: attached %lu, mode %o, key %#x, last %s, attach %s, detach %s", what, (unsigned long)ds.shm_nattch, ds.shm_perm.mode,
		    ds.shm_perm.__ipc_perm_key, who(ds.shm_lpid), when(ds.shm_atime), when(ds.shm_dtime));
}

/* The lines of /proc/self/maps of segments and around them, addresses as pages from `place` on. */
static void maps(const char *what, int id)
{
	char *text = read_file("/proc/self/maps");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned long start, end, offset, inode;
		char rights[8], device[8];
		int name = 0;
		sscanf(line, "%lx-%lx %7s %lx %7s %lu %n", &start, &end, rights, &offset, device, &inode, &name);
		if (strstr(line, "SYSV"))
			say("%s: %ld+%ld %s %lx %s inode %s %s", what, ((long)start - (long)place) / PAGE, (end - start) / PAGE, rights, offset, device,
			    (int)inode == id ? "is the id" : "other", line + name);
	}
	free(text);
}

static void places(void)
{
	section("places");
	int id = GET(IPC_PRIVATE, 2 * PAGE + 1, 0600);
	char *a = AT(id, NULL, 0);
	CHECK(a != FAILED && (uintptr_t)a % PAGE == 0);
	strcpy(a, "shared");
	a[3 * PAGE - 1] = 1;
	char *b = AT(id, NULL, SHM_RDONLY);
	CHECK(b != FAILED && b != a && !strcmp(b, "shared"));
	SHOW(mprotect(b, PAGE, PROT_READ | PROT_WRITE));
	SHOW(mprotect(b, PAGE, PROT_READ | PROT_EXEC));
	count("three", id);
	SHOW(shmdt(b));
	SHOW(shmdt(a));
	SHOW(shmdt(a));
	SHOW(shmdt(a + 1));
	SHOW(shmdt(NULL));
	count("none", id);
	SHOW(AT(-1, NULL, 0) == FAILED ? errno : 0);
	SHOW(AT(id + (1 << 15), NULL, 0) == FAILED ? errno : 0);
	SHOW(AT(id, place + 1, 0) == FAILED ? errno : 0);
	SHOW(AT(id, NULL, SHM_REMAP) == FAILED ? errno : 0);
	SHOW(AT(id, (void *)100, SHM_RND | SHM_REMAP) == FAILED ? errno : 0);
	SHOW(AT(id, (void *)(1ul << 60), 0) == FAILED ? errno : 0);
	SHOW(AT(id, (void *)-4096ul, 0) == FAILED ? errno : 0);
	CHECK(AT(id, place, 0) == place);
	SHOW(AT(id, place + PAGE, 0) == FAILED ? errno : 0);
	SHOW(AT(id, place + 2 * PAGE, 0) == FAILED ? errno : 0);
	CHECK(AT(id, place + 3 * PAGE + 77, SHM_RND) == place + 3 * PAGE);
	maps("two", id);
	CHECK(AT(id, place + PAGE, SHM_REMAP) == place + PAGE);
	count("replaced parts", id);
	maps("replaced parts", id);
	SHOW(shmdt(place + PAGE));
	count("middle gone", id);
	SHOW(shmdt(place));
	SHOW(shmdt(place + 3 * PAGE));
	count("all gone", id);
	CHECK(AT(id, place, SHM_EXEC) == place);
	maps("to execute", id);
	SHOW(shmdt(place));
	int key = GET(KEY(5), PAGE, 0600 | IPC_CREAT);
	CHECK(AT(key, place, SHM_RDONLY) == place);
	maps("with a key", key);
	SHOW(shmdt(place));
	shmctl(key, IPC_RMID, NULL);
	struct rlimit old, few = { 0, 0 };
	getrlimit(RLIMIT_AS, &old);
	few.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_AS, &few);
	SHOW(AT(id, NULL, 0) == FAILED ? errno : 0);
	setrlimit(RLIMIT_AS, &old);
	count("refused", id);
	shmctl(id, IPC_RMID, NULL);
}

static void parts(void)
{
	section("parts");
	int id = GET(IPC_PRIVATE, 8 * PAGE, 0600);
	char *p = AT(id, place, 0);
	for (int n = 0; n < 8; n++)
		p[n * PAGE] = (char)('a' + n);
	SHOW(munmap(p + 2 * PAGE, PAGE));
	count("hole", id);
	maps("hole", id);
	SHOW(mprotect(p + 5 * PAGE, PAGE, PROT_READ));
	count("read-only page", id);
	maps("read-only page", id);
	SHOW(munmap(p + 7 * PAGE, PAGE));
	count("end cut", id);
	SHOW(munmap(p, PAGE));
	count("begin cut", id);
	SHOW(mmap(p + 5 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + 5 * PAGE);
	count("mapped over", id);
	maps("mapped over", id);
	SHOW(shmdt(p + PAGE));
	SHOW(shmdt(p));
	count("detached", id);
	SHOW(*(p + 5 * PAGE));
	SHOW(munmap(p, 8 * PAGE));
	p = AT(id, place, 0);
	say("kept: %c%c%c%c%c%c%c%c", p[0], p[PAGE], p[2 * PAGE], p[3 * PAGE], p[4 * PAGE], p[5 * PAGE], p[6 * PAGE], p[7 * PAGE]);
	char *moved = mremap(p, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 16 * PAGE);
	CHECK(moved == p + 16 * PAGE && moved[PAGE] == 'b');
	count("moved", id);
	maps("moved", id);
	CHECK(mremap(moved, 0, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p);
	count("twice", id);
	SHOW(shmdt(p));
	SHOW(shmdt(moved));
	count("gone", id);
	p = AT(id, place, 0);
	CHECK(mremap(p, 8 * PAGE, 3 * PAGE, 0) == p);
	count("shrunk", id);
	maps("shrunk", id);
	CHECK(mremap(p, 3 * PAGE, 10 * PAGE, 0) == p);
	count("grown", id);
	maps("grown", id);
	SHOW(p[2 * PAGE]);
	SHOW(shmdt(p));
	SHOW(munmap(p, 16 * PAGE));
	SHOW(shmctl(id, IPC_RMID, NULL));
}

static int id_of_child;
static void looks(void)
{
	count("child", id_of_child);
	_exit(0);
}
static void detaches(void)
{
	SHOW(shmdt(place));
	count("child without", id_of_child);
	_exit(0);
}

static void processes(char *self)
{
	section("processes");
	int id = id_of_child = GET(IPC_PRIVATE, PAGE, 0600);
	AT(id, place, 0);
	AT(id, place + PAGE, SHM_RDONLY);
	in_child("looks", looks);
	count("after", id);
	in_child("detaches", detaches);
	count("after", id);
	SHOW(madvise(place, PAGE, MADV_DONTFORK));
	in_child("looks", looks);
	count("after", id);
	pid_t pid = must_fork();
	if (pid == 0) {
		char text[16];
		snprintf(text, sizeof text, "%d", id);
		execl(self, self, text, NULL);
		_exit(9);
	}
	waitpid(pid, NULL, 0);
	count("after exec", id);
	pid = parked(NULL);
	say("parked: %ld", attached(id));
	SHOW(shmctl(id, IPC_RMID, NULL));
	count("removed", id);
	CHECK(AT(id, place + 2 * PAGE, 0) == place + 2 * PAGE);
	SHOW(shmctl(id, IPC_RMID, NULL));
	count("removed and attached", id);
	show_line("shm", id, 4, 11);
	SHOW(shmdt(place));
	SHOW(shmdt(place + PAGE));
	SHOW(shmdt(place + 2 * PAGE));
	count("the child's", id);
	kill(pid, SIGKILL);
	wait_for(pid);
	count("nobody's", id);
	id = GET(KEY(6), PAGE, 0600 | IPC_CREAT);
	AT(id, place, 0);
	SHOW(shmctl(id, IPC_RMID, NULL));
	SHOW(GET(KEY(6), PAGE, 0600));
	int other = GET(KEY(6), PAGE, 0600 | IPC_CREAT);
	CHECK(other >= 0 && other != id);
	maps("removed", id);
	place[0] = 'x';
	shmctl(other, IPC_RMID, NULL);
	SHOW(munmap(place, PAGE));
	count("unmapped", id);
}

static void ends(const char *what, int how)
{
	int ready[2], id = GET(IPC_PRIVATE, PAGE, 0600);
	pipe(ready);
	pid_t pid = must_fork();
	if (pid == 0) {
		AT(id, NULL, 0);
		shmctl(id, IPC_RMID, NULL);
		write(ready[1], "x", 1);
		if (how == 0)
			_exit(0);
		if (how == 1)
			abort();
		for (;;)
			pause();
	}
	char byte;
	read(ready[0], &byte, 1);
	if (how == 2)
		kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	count(what, id);
	close(ready[0]);
	close(ready[1]);
}

static void forced(void)
{
	section("forced");
	char path[] = "/proc/sys/kernel/shm_rmid_forced";
	int id = GET(IPC_PRIVATE, PAGE, 0600);
	int orphan = -1, ends[2];
	pipe(ends);
	if (must_fork() == 0) {
		orphan = GET(IPC_PRIVATE, PAGE, 0600);
		write(ends[1], &orphan, sizeof orphan);
		_exit(0);
	}
	read(ends[0], &orphan, sizeof orphan);
	wait(NULL);
	count("orphan", orphan);
	write_file(path, "1");
	count("orphan, forced", orphan);
	count("own, forced", id);
	AT(id, place, 0);
	shmdt(place);
	count("own, used", id);
	if (must_fork() == 0) {
		orphan = GET(IPC_PRIVATE, PAGE, 0600);
		write(ends[1], &orphan, sizeof orphan);
		_exit(0);
	}
	read(ends[0], &orphan, sizeof orphan);
	wait(NULL);
	count("made by who ended", orphan);
	write_file(path, "0");
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		say("exec: attached %ld", attached(atoi(argv[1])));
		return 0;
	}
	place = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(place, 64 * PAGE);
	place += 8 * PAGE;
	places();
	parts();
	processes(argv[0]);
	section("ends");
	ends("exit", 0);
	ends("signal", 1);
	ends("kill", 2);
	forced();
	return 0;
}
