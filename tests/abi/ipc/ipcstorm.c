/* Many processes that make, use and remove objects of the same few keys, and are killed meanwhile. What must hold is printed in the end. */
#include "ipc.h"

#include <sys/time.h>

enum { WORKERS = 24, KEYS = 3, MS = 1500 };

static unsigned seed;
static unsigned draw(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static void segments(void)
{
	int id = shmget(KEY(80 + draw(KEYS)), 3 * PAGE, 0600 | (draw(2) ? IPC_CREAT : 0));
	if (id < 0)
		return;
	char *p = shmat(id, NULL, draw(2) ? SHM_RDONLY : 0);
	struct shmid_ds ds;
	shmctl(id, IPC_STAT, &ds);
	if (draw(3) == 0)
		shmctl(id, IPC_RMID, NULL);
	if (p == (void *)-1)
		return;
	if (draw(4) == 0 && fork() == 0) {
		(void)*(volatile char *)p;
		_exit(0);
	}
	if (draw(3) == 0)
		munmap(p + PAGE, PAGE);
	if (draw(3) == 0)
		mprotect(p + 2 * PAGE, PAGE, PROT_READ);
	if (draw(5))
		shmdt(p);
	else
		munmap(p, 3 * PAGE);
}

static void semaphores(void)
{
	int id = semget(KEY(80 + draw(KEYS)), 4, 0600 | (draw(2) ? IPC_CREAT : 0));
	if (id < 0)
		return;
	struct timespec soon = { 0, 1000 * draw(3000) };
	struct sembuf ops[3];
	for (int n = 0; n < 3; n++)
		ops[n] = (struct sembuf){ (unsigned short)draw(4), (short)((int)draw(5) - 2), (short)((draw(2) ? SEM_UNDO : 0) | (draw(3) ? 0 : IPC_NOWAIT)) };
	switch (draw(8)) {
	case 0:
		semctl(id, 0, IPC_RMID);
		break;
	case 1:
		semctl(id, (int)draw(4), SETVAL, draw(3));
		break;
	case 2:
		semctl(id, (int)draw(4), draw(2) ? GETNCNT : GETZCNT);
		break;
	default:
		syscall(SYS_semtimedop, id, ops, 1 + draw(3), &soon);
	}
}

static void nothing(int signal)
{
	(void)signal;
}

static void messages(void)
{
	int id = msgget(KEY(80 + draw(KEYS)), 0600 | (draw(2) ? IPC_CREAT : 0));
	if (id < 0)
		return;
	struct { long kind; char text[3000]; } m = { 1 + (long)draw(4), { 0 } };
	struct msqid_ds ds;
	switch (draw(8)) {
	case 0:
		if (draw(4) == 0)
			msgctl(id, IPC_RMID, NULL);
		break;
	case 1:
		if (msgctl(id, IPC_STAT, &ds) == 0) {
			ds.msg_qbytes = 2000 + draw(9000);
			msgctl(id, IPC_SET, &ds);
		}
		break;
	case 2:
	case 3:
	case 4:
		msgsnd(id, &m, draw(3000), draw(2) ? IPC_NOWAIT : 0);
		break;
	default:
		msgrcv(id, &m, draw(3000), (long)draw(9) - 4, (int)((draw(2) ? IPC_NOWAIT : 0) | (draw(2) ? MSG_NOERROR : 0)));
	}
}

static void work(unsigned n)
{
	seed = n * 7919 + 1;
	struct sigaction action = { .sa_handler = nothing };
	sigaction(SIGALRM, &action, NULL);
	signal(SIGCHLD, SIG_IGN);
	/* No sleep is for ever. */
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } };
	setitimer(ITIMER_REAL, &often, NULL);
	long end = ms(CLOCK_MONOTONIC) + MS;
	while (ms(CLOCK_MONOTONIC) < end) {
		switch (draw(3)) {
		case 0:
			segments();
			break;
		case 1:
			semaphores();
			break;
		default:
			messages();
		}
	}
	_exit(0);
}

/* Processes that add one to a number under a semaphore, of whom some are killed while they have it. */
static void counter(void)
{
	int set = semget(IPC_PRIVATE, 1, 0600), segment = shmget(IPC_PRIVATE, PAGE, 0600);
	volatile long *number = shmat(segment, NULL, 0);
	semctl(set, 0, SETVAL, 1);
	pid_t workers[8];
	for (int n = 0; n < 8; n++) {
		workers[n] = must_fork();
		if (workers[n] == 0) {
			struct sembuf take = { 0, -1, SEM_UNDO }, give = { 0, 1, SEM_UNDO };
			for (int round = 0; round < 500 || n >= 6; round++) {
				if (semop(set, &take, 1) < 0)
					_exit(1);
				long was = number[0];
				number[0] = was + 1;
				number[1 + n]++;
				semop(set, &give, 1);
			}
			_exit(0);
		}
	}
	for (int n = 0; n < 6; n++)
		waitpid(workers[n], NULL, 0);
	for (int n = 6; n < 8; n++) {
		kill(workers[n], SIGKILL);
		waitpid(workers[n], NULL, 0);
	}
	long sum = 0;
	for (int n = 0; n < 8; n++)
		sum += number[1 + n];
	/* Who was killed may have counted in one place and not in the other. */
	CHECK(number[0] - sum >= 0 && number[0] - sum <= 2);
	SHOW(semctl(set, 0, GETVAL));
	semctl(set, 0, IPC_RMID);
	shmctl(segment, IPC_RMID, NULL);
	shmdt((void *)number);
}

/* Each message that is sent is received once. */
static void conserved(void)
{
	enum { EACH = 400, SENDERS = 4, RECEIVERS = 3 };
	int queue = msgget(IPC_PRIVATE, 0600), segment = shmget(IPC_PRIVATE, PAGE, 0600);
	int *sums = shmat(segment, NULL, 0);
	for (int n = 0; n < SENDERS + RECEIVERS; n++) {
		if (must_fork() != 0)
			continue;
		struct { long kind; int value; char rest[600]; } m = { 0 };
		if (n < SENDERS) {
			for (int round = 0; round < EACH; round++) {
				m.kind = 1 + round % RECEIVERS;
				m.value = n * EACH + round;
				msgsnd(queue, &m, sizeof m - sizeof m.kind, 0);
			}
			_exit(0);
		}
		long kind = 1 + n - SENDERS;
		for (;;) {
			msgrcv(queue, &m, sizeof m - sizeof m.kind, kind, 0);
			if (m.value < 0)
				_exit(0);
			__atomic_add_fetch(&sums[0], 1, __ATOMIC_RELAXED);
			__atomic_add_fetch(&sums[1], m.value, __ATOMIC_RELAXED);
		}
	}
	for (int n = 0; n < SENDERS; n++)
		wait(NULL);
	struct { long kind; int value; } last = { 0, -1 };
	for (last.kind = 1; last.kind <= RECEIVERS; last.kind++)
		msgsnd(queue, &last, sizeof last.value, 0);
	for (int n = 0; n < RECEIVERS; n++)
		wait(NULL);
	int all = SENDERS * EACH;
	CHECK(sums[0] == all && sums[1] == all * (all - 1) / 2);
	struct msqid_ds ds;
	msgctl(queue, IPC_STAT, &ds);
	say("left: %lu messages", (unsigned long)ds.msg_qnum);
	msgctl(queue, IPC_RMID, NULL);
	shmctl(segment, IPC_RMID, NULL);
	shmdt(sums);
}

int main(void)
{
	remove_all();
	section("storm");
	pid_t workers[WORKERS];
	for (unsigned n = 0; n < WORKERS; n++) {
		workers[n] = must_fork();
		if (workers[n] == 0)
			work(n);
	}
	seed = 5;
	for (int n = 0; n < 8; n++) {
		nap(MS / 10);
		kill(workers[n * 3], SIGKILL);
	}
	for (unsigned n = 0; n < WORKERS; n++)
		waitpid(workers[n], NULL, 0);
	while (wait(NULL) > 0) {}
	nap(50);
	for (int n = 0; n < KEYS; n++) {
		shmctl(shmget(KEY(80 + n), 0, 0), IPC_RMID, NULL);
		semctl(semget(KEY(80 + n), 0, 0), 0, IPC_RMID);
		msgctl(msgget(KEY(80 + n), 0), IPC_RMID, NULL);
	}
	struct { int used; unsigned long all, resident, swapped, attempts, successes; } shm;
	int sem[10], msg[8];
	syscall(SYS_shmctl, 0, SHM_INFO, &shm);
	syscall(SYS_semctl, 0, 0, SEM_INFO, sem);
	syscall(SYS_msgctl, 0, MSG_INFO, msg);
	say("left: %d segments, %lu pages, %d sets, %d semaphores, %d queues, %d messages, %d bytes", shm.used, shm.all, sem[7], sem[9], msg[0], msg[1], msg[6]);
	section("counter");
	counter();
	section("messages");
	conserved();
	return 0;
}
