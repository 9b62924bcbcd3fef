/* What semop undoes when those who did it have ended (SEM_UNDO), and who has that in common. */
#include "ipc.h"

#include <sys/prctl.h>

#define CTL(id, number, command, ...) syscall(SYS_semctl, id, number, command, ##__VA_ARGS__)

static int id, other;

static long op(int set, int number, int change)
{
	struct sembuf one = { (unsigned short)number, (short)change, SEM_UNDO };
	return syscall(SYS_semop, set, &one, 1);
}

static void values(const char *what)
{
	say("%s: %ld %ld %ld, other %ld", what, CTL(id, 0, GETVAL), CTL(id, 1, GETVAL), CTL(id, 2, GETVAL), CTL(other, 0, GETVAL));
}

static void adds(void)
{
	SHOW(op(id, 0, 3));
	SHOW(op(id, 1, 2));
	SHOW(op(id, 1, -1));
	SHOW(op(other, 0, 9));
	values("before the end");
	_exit(0);
}

static void takes(void)
{
	SHOW(op(id, 2, -4));
	values("before the end");
	raise(SIGKILL);
}

static void sets_between(void)
{
	op(id, 0, 3);
	op(id, 1, 3);
	CTL(id, 0, SETVAL, 10);
	values("set one");
	_exit(0);
}

static void sets_all_between(void)
{
	op(id, 0, 3);
	op(id, 1, 3);
	unsigned short all[3] = { 20, 20, 20 };
	CTL(id, 0, SETALL, all);
	op(id, 2, 1);
	values("set all");
	_exit(0);
}

static void goes_below(void)
{
	op(id, 0, 5);
	struct sembuf one = { 0, -100, 0 };
	CTL(id, 1, SETVAL, 32767);
	op(id, 1, -10);
	struct sembuf more = { 1, 10, 0 };
	syscall(SYS_semop, id, &more, 1);
	one.sem_op = (short)-CTL(id, 0, GETVAL);
	syscall(SYS_semop, id, &one, 1);
	values("below and above");
	_exit(0);
}

static void too_much(void)
{
	CTL(id, 0, SETVAL, 0);
	SHOW(op(id, 0, 32767));
	struct sembuf down = { 0, -32767, 0 };
	SHOW(syscall(SYS_semop, id, &down, 1));
	SHOW(op(id, 0, 1));
	SHOW(op(id, 0, 1));
	values("limit");
	struct sembuf both[2] = { { 1, 0, 0 }, { 0, 1, SEM_UNDO } };
	CTL(id, 1, SETVAL, 0);
	SHOW(syscall(SYS_semop, id, both, 2));
	_exit(0);
}

static void forks(void)
{
	op(id, 0, 1);
	if (must_fork() == 0) {
		op(id, 0, 1);
		_exit(0);
	}
	wait(NULL);
	values("the child's is undone");
	_exit(0);
}

static void executes(void)
{
	op(id, 0, 1);
	char a[16], b[16];
	snprintf(a, sizeof a, "%d", id);
	snprintf(b, sizeof b, "%d", other);
	execl("/proc/self/exe", "semundo", a, b, NULL);
	_exit(9);
}

static void *thread_adds(void *unused)
{
	op(id, 0, 1);
	return unused;
}

static void threads(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, thread_adds, NULL);
	pthread_join(thread, NULL);
	values("the thread has ended");
	_exit(0);
}

static void *thread_unshares(void *unused)
{
	op(id, 0, 1);
	SHOW(unshare(CLONE_SYSVSEM));
	op(id, 1, 1);
	values("thread on its own");
	return unused;
}

static void unshares_thread(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, thread_unshares, NULL);
	pthread_join(thread, NULL);
	/* A thread's undo comes after it can be joined. */
	for (int tries = 0; tries < 5000 && semctl(id, 1, GETVAL) != 0; tries++)
		usleep(1000);
	values("its own is undone");
	_exit(0);
}

static void unshares(void)
{
	op(id, 0, 1);
	values("done");
	SHOW(unshare(CLONE_SYSVSEM));
	values("unshared");
	op(id, 0, 2);
	values("again");
	_exit(0);
}

static char stack[65536] __attribute__((aligned(16)));

static int shares(void *unused)
{
	(void)unused;
	op(id, 0, 1);
	_exit(0);
}

static void shared_by_processes(void)
{
	pid_t pid = clone(shares, stack + sizeof stack, CLONE_SYSVSEM | SIGCHLD, NULL);
	waitpid(pid, NULL, 0);
	values("who shared it has ended");
	say("compared: %ld", syscall(SYS_kcmp, getpid(), getpid(), 6, 0, 0));
	_exit(0);
}

static void shared_by_processes_first(void)
{
	op(id, 1, 1);
	pid_t pid = clone(shares, stack + sizeof stack, CLONE_SYSVSEM | SIGCHLD, NULL);
	waitpid(pid, NULL, 0);
	values("who shared it has ended");
	_exit(0);
}

static void removed(void)
{
	int set = (int)syscall(SYS_semget, IPC_PRIVATE, 1, 0600);
	SHOW(op(set, 0, 1));
	CTL(set, 0, IPC_RMID);
	SHOW(op(set, 0, 1));
	_exit(0);
}

static void many(void)
{
	int sets[40];
	for (int n = 0; n < 40; n++) {
		sets[n] = (int)syscall(SYS_semget, IPC_PRIVATE, 2, 0600);
		op(sets[n], 1, n + 1);
	}
	for (int n = 0; n < 40; n += 2)
		CTL(sets[n], 0, IPC_RMID);
	int made = 0;
	for (int n = 0; n < 40; n += 2) {
		sets[n] = (int)syscall(SYS_semget, IPC_PRIVATE, 1, 0600);
		made += op(sets[n], 0, 1) == 0;
	}
	if (must_fork() == 0) {
		for (int n = 1; n < 40; n += 2)
			op(sets[n], 1, 1);
		_exit(0);
	}
	wait(NULL);
	int right = 0;
	for (int n = 1; n < 40; n += 2)
		right += CTL(sets[n], 1, GETVAL) == n + 1;
	say("%d made again, %d right", made, right);
	for (int n = 0; n < 40; n++)
		CTL(sets[n], 0, IPC_RMID);
	_exit(0);
}

static void wakes(void)
{
	section("wakes");
	CTL(id, 0, SETVAL, 1);
	pid_t holder = must_fork();
	if (holder == 0) {
		op(id, 0, -1);
		for (;;)
			pause();
	}
	while (CTL(id, 0, GETVAL) != 0)
		usleep(1000);
	pid_t waiter = must_fork();
	if (waiter == 0) {
		struct sembuf one = { 0, -1, 0 };
		SHOW(syscall(SYS_semop, id, &one, 1));
		_exit(0);
	}
	while (CTL(id, 0, GETNCNT) == 0)
		usleep(1000);
	kill(holder, SIGKILL);
	wait_for(holder);
	wait_for(waiter);
	say("last by its holder: %s", CTL(id, 0, GETPID) == waiter ? "waiter" : "other");
	values("woken");
}

int main(int argc, char **argv)
{
	if (argc > 2) {
		id = atoi(argv[1]);
		other = atoi(argv[2]);
		values("after exec");
		return 0;
	}
	id = (int)syscall(SYS_semget, IPC_PRIVATE, 3, 0600);
	other = (int)syscall(SYS_semget, IPC_PRIVATE, 1, 0600);
	CTL(id, 2, SETVAL, 5);
	static const struct { const char *name; void (*f)(void); } all[] = { { "adds", adds }, { "takes", takes }, { "set between", sets_between },
		{ "all set between", sets_all_between }, { "clamped", goes_below }, { "too much", too_much }, { "fork", forks }, { "exec", executes },
		{ "threads", threads }, { "thread unshares", unshares_thread }, { "unshares", unshares }, { "shared", shared_by_processes },
		{ "shared later", shared_by_processes_first }, { "removed", removed }, { "many", many } };
	for (unsigned n = 0; n < sizeof all / sizeof *all; n++) {
		section(all[n].name);
		in_child(all[n].name, all[n].f);
		values("after");
	}
	wakes();
	CTL(id, 0, IPC_RMID);
	CTL(other, 0, IPC_RMID);
	return 0;
}
