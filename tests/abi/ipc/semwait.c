/* Waiting for semaphores: order, counts, signals, removal; and what is undone when a process ends. */
#include "ipc.h"

#define CTL(id, number, command, ...) syscall(SYS_semctl, id, number, command, ##__VA_ARGS__)

static long ops(int id, const struct sembuf *list, int count)
{
	return syscall(SYS_semop, id, list, count);
}

static long op(int id, int number, int change, int flags)
{
	struct sembuf one = { (unsigned short)number, (short)change, (short)flags };
	return ops(id, &one, 1);
}

static int set(int count)
{
	return (int)syscall(SYS_semget, IPC_PRIVATE, count, 0600);
}

static int log_pipe[2];

/* A child that does the operations and then writes its letter and the outcome; it waits when this returns. */
static pid_t waiter(char letter, int id, const struct sembuf *list, int count)
{
	int before = 0, now = 0;
	for (int n = 0; n < 4; n++)
		before += (int)(CTL(id, n, GETNCNT) + CTL(id, n, GETZCNT));
	pid_t pid = must_fork();
	if (pid == 0) {
		long r = ops(id, list, count);
		char text[3] = { letter, r == 0 ? '+' : errno == EINTR ? 'i' : errno == EIDRM ? 'r' : errno == EAGAIN ? 'a' : errno == ERANGE ? 'o' : '?', ' ' };
		write(log_pipe[1], text, 3);
		_exit(0);
	}
	do {
		now = 0;
		for (int n = 0; n < 4; n++)
			now += (int)(CTL(id, n, GETNCNT) + CTL(id, n, GETZCNT));
	} while (now == before && usleep(1000) == 0);
	return pid;
}

static pid_t waiter1(char letter, int id, int number, int change, int flags)
{
	struct sembuf one = { (unsigned short)number, (short)change, (short)flags };
	return waiter(letter, id, &one, 1);
}

/* What the next `count` of them wrote, in the order of their letters: they write when they get to run. */
static void done(const char *what, int count)
{
	char parts[8][4] = { "" }, text[64] = "";
	for (int n = 0; n < count; n++) {
		read(log_pipe[0], parts[n], 3);
		wait(NULL);
	}
	qsort(parts, (size_t)count, 4, (int (*)(const void *, const void *))strcmp);
	for (int n = 0; n < count; n++)
		strcat(text, parts[n]);
	say("%s: %s", what, text);
}

static void counts(const char *what, int id)
{
	say("%s: values %ld %ld %ld %ld, for more %ld %ld %ld %ld, for zero %ld %ld %ld %ld", what, CTL(id, 0, GETVAL), CTL(id, 1, GETVAL), CTL(id, 2, GETVAL),
	    CTL(id, 3, GETVAL), CTL(id, 0, GETNCNT), CTL(id, 1, GETNCNT), CTL(id, 2, GETNCNT), CTL(id, 3, GETNCNT), CTL(id, 0, GETZCNT), CTL(id, 1, GETZCNT),
	    CTL(id, 2, GETZCNT), CTL(id, 3, GETZCNT));
}

static void order(void)
{
	section("order");
	int id = set(4);
	waiter1('a', id, 0, -1, 0);
	waiter1('b', id, 0, -2, 0);
	waiter1('c', id, 0, -1, 0);
	counts("three", id);
	op(id, 0, 1, 0);
	done("one for one", 1);
	op(id, 0, 1, 0);
	done("one for the third", 1);
	op(id, 0, 5, 0);
	done("five", 1);
	counts("left", id);
	waiter1('z', id, 0, 0, 0);
	waiter1('y', id, 0, 0, 0);
	waiter1('m', id, 0, -4, 0);
	counts("for zero and more", id);
	op(id, 0, -2, 0);
	counts("not yet", id);
	op(id, 0, -1, 0);
	done("zero", 2);
	op(id, 0, 4, 0);
	done("four", 1);
	counts("none", id);
	struct sembuf two[2] = { { 1, -1, 0 }, { 2, -1, 0 } };
	waiter('A', id, two, 2);
	waiter1('B', id, 1, -1, 0);
	counts("two at once", id);
	op(id, 1, 1, 0);
	done("the first lacks one", 1);
	op(id, 2, 1, 0);
	counts("the other", id);
	waiter1('C', id, 1, -1, 0);
	op(id, 1, 1, 0);
	done("in order", 1);
	op(id, 1, 1, 0);
	done("then", 1);
	counts("none", id);
	struct sembuf chain[2] = { { 1, -1, 0 }, { 2, 1, 0 } }, last[2] = { { 2, -1, 0 }, { 3, 1, 0 } };
	waiter('D', id, last, 2);
	waiter('E', id, chain, 2);
	op(id, 1, 1, 0);
	done("one lets the other", 2);
	counts("chain", id);
	struct sembuf turn[2] = { { 0, -1, 0 }, { 1, 0, IPC_NOWAIT } };
	waiter('F', id, turn, 2);
	struct sembuf give[2] = { { 1, 1, 0 }, { 0, 1, 0 } };
	ops(id, give, 2);
	done("may not wait for the second", 1);
	counts("after", id);
	CTL(id, 0, SETVAL, 0);
	CTL(id, 3, SETVAL, 0);
	waiter1('G', id, 0, -3, 0);
	waiter1('H', id, 3, -1, 0);
	unsigned short all[4] = { 3, 0, 0, 1 };
	CTL(id, 0, SETALL, all);
	done("set all", 2);
	waiter1('I', id, 0, -3, 0);
	CTL(id, 0, SETVAL, 4);
	done("set", 1);
	struct sembuf large[2] = { { 2, -1, 0 }, { 0, 32767, 0 } };
	waiter('J', id, large, 2);
	op(id, 2, 1, 0);
	done("too much by then", 1);
	counts("end", id);
	CTL(id, 0, IPC_RMID);
}

static void nothing(int signal)
{
	(void)signal;
}

static void *late_signal(void *to)
{
	nap(30);
	kill(*(pid_t *)to, SIGUSR1);
	return NULL;
}

static void endings(void)
{
	section("endings");
	int id = set(4);
	struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	sigaction(SIGUSR1, &action, NULL);
	pid_t pid = waiter1('a', id, 0, -1, 0);
	kill(pid, SIGUSR1);
	done("signal with SA_RESTART", 1);
	counts("after", id);
	pid = waiter1('b', id, 0, -1, 0);
	kill(pid, SIGSTOP);
	nap(20);
	kill(pid, SIGCONT);
	nap(20);
	done("a stop ends it too", 1);
	pid = waiter1('d', id, 0, -1, 0);
	struct sembuf two[2] = { { 1, -1, 0 }, { 2, 0, 0 } };
	waiter('e', id, two, 2);
	SHOW(CTL(id, 0, IPC_RMID));
	done("removed", 2);
	SHOW(CTL(id, 0, GETVAL));
	id = set(1);
	struct timespec soon = { 0, 30000000 }, later = { 20, 0 };
	struct sembuf one = { 0, -1, 0 };
	long begin = ms(CLOCK_MONOTONIC);
	SHOW(syscall(SYS_semtimedop, id, &one, 1, &soon));
	CHECK(ms(CLOCK_MONOTONIC) - begin >= 30);
	pid_t me = getpid();
	pthread_t thread;
	pthread_create(&thread, NULL, late_signal, &me);
	SHOW(syscall(SYS_semtimedop, id, &one, 1, &later));
	pthread_join(thread, NULL);
	pid = must_fork();
	if (pid == 0) {
		nap(30);
		op(id, 0, 1, 0);
		_exit(0);
	}
	SHOW(syscall(SYS_semtimedop, id, &one, 1, &later));
	CHECK(CTL(id, 0, GETPID) == me);
	waitpid(pid, NULL, 0);
	pid = must_fork();
	if (pid == 0) {
		op(id, 0, -1, 0);
		_exit(0);
	}
	while (CTL(id, 0, GETNCNT) == 0)
		usleep(1000);
	kill(pid, SIGKILL);
	say("killed: %s", status_text(wait_for(pid)));
	SHOW(CTL(id, 0, GETNCNT));
	CTL(id, 0, IPC_RMID);
}

int main(void)
{
	pipe(log_pipe);
	order();
	endings();
	return 0;
}
