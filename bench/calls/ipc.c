/*
 * System V IPC: segments, sets of semaphores, queues of messages. One object: one of each. A worker's objects have no key where the case is not about keys.
 *
 * x[0]: the object's number.
 */
#include "calls.h"

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#define KEY(w) (0x51000000 + (w)->i)

static void s_shm(struct work *w)
{
	w->x[0] = ok(w, syscall(SYS_shmget, IPC_PRIVATE, 8192, 0600));
}

static void s_shm_key(struct work *w)
{
	w->x[0] = ok(w, syscall(SYS_shmget, KEY(w), 8192, 0600 | IPC_CREAT));
	w->x[1] = KEY(w);
}

static void s_shm_at(struct work *w)
{
	s_shm(w);
	w->map = (char *)ok(w, syscall(SYS_shmat, w->x[0], 0, 0));
}

static long op_shmget(struct work *w)
{
	long id = ok(w, syscall(SYS_shmget, w->k->v[0] ? (int)KEY(w) : IPC_PRIVATE, 8192, 0600 | IPC_CREAT));
	return syscall(SYS_shmctl, id, IPC_RMID, 0);
}

static long op_shmat(struct work *w)
{
	char *at = (char *)ok(w, syscall(SYS_shmat, w->x[0], 0, w->k->v[0]));
	if (w->k->v[1])
		*(volatile char *)at;
	return syscall(SYS_shmdt, at);
}

static void s_sem(struct work *w)
{
	w->x[0] = ok(w, syscall(SYS_semget, IPC_PRIVATE, 4, 0600));
}

static void s_sem_key(struct work *w)
{
	w->x[0] = ok(w, syscall(SYS_semget, KEY(w), 4, 0600 | IPC_CREAT));
	w->x[1] = KEY(w);
}

static long op_semget(struct work *w)
{
	long id = ok(w, syscall(SYS_semget, w->k->v[0] ? (int)KEY(w) : IPC_PRIVATE, 4, 0600 | IPC_CREAT));
	return syscall(SYS_semctl, id, 0, IPC_RMID, 0);
}

/* Up and down. */
static long op_semop(struct work *w)
{
	struct sembuf up = { 1, 1, (short)w->k->v[0] }, down = { 1, -1, (short)w->k->v[0] };
	ok(w, syscall(SYS_semop, w->x[0], &up, 1));
	return syscall(SYS_semop, w->x[0], &down, 1);
}

static long op_semop_many(struct work *w)
{
	struct sembuf all[4] = { { 0, 1, 0 }, { 1, 1, 0 }, { 0, -1, 0 }, { 1, -1, 0 } };
	return syscall(SYS_semop, w->x[0], all, 4);
}

static long op_semtimedop(struct work *w)
{
	struct sembuf up = { 1, 1, 0 }, down = { 1, -1, 0 };
	struct timespec hour = { 3600, 0 };
	ok(w, syscall(SYS_semtimedop, w->x[0], &up, 1, &hour));
	return syscall(SYS_semtimedop, w->x[0], &down, 1, &hour);
}

static long op_semop_again(struct work *w)
{
	struct sembuf down = { 2, -1, IPC_NOWAIT };
	return syscall(SYS_semop, w->x[0], &down, 1);
}

static long op_setall(struct work *w)
{
	unsigned short all[4] = { 0, 0, 0, 0 };
	return syscall(SYS_semctl, w->x[0], 0, SETALL, all);
}

static void s_msg(struct work *w)
{
	w->x[0] = ok(w, syscall(SYS_msgget, IPC_PRIVATE, 0600));
}

static void s_msg_key(struct work *w)
{
	w->x[0] = ok(w, syscall(SYS_msgget, KEY(w), 0600 | IPC_CREAT));
	w->x[1] = KEY(w);
}

static long op_msgget(struct work *w)
{
	long id = ok(w, syscall(SYS_msgget, w->k->v[0] ? (int)KEY(w) : IPC_PRIVATE, 0600 | IPC_CREAT));
	return syscall(SYS_msgctl, id, IPC_RMID, 0);
}

/* One is sent and one received: on the one queue by all, so that there is always one. */
static long op_message(struct work *w)
{
	struct { long kind; char text[64]; } m = { 1, { 0 } };
	ok(w, syscall(SYS_msgsnd, w->x[0], &m, w->k->v[0], 0));
	return syscall(SYS_msgrcv, w->x[0], &m, 64, w->k->v[1], 0) < 0 ? -1 : 0;
}

const struct kase ipc[] = {
	OP("shmget", shmget, PT, 0, op_shmget, 0),
	OP("shmget-key", shmget, PT, 0, op_shmget, 1),
	RAW("shmget-there", shmget, PTO, s_shm_key, X(1), 8192, 0600),
	FAILS("shmget-none", shmget, PT, 0, ENOENT, 0x52000000, 8192, 0600),
	OP("shmat", shmat, PTO, s_shm, op_shmat, 0),
	OP("shmat-read", shmat, PTO, s_shm, op_shmat, SHM_RDONLY, 1),
	FAILS("shmdt-none", shmdt, PT, s_shm_at, EINVAL, 4096),
	OP("shmdt", shmdt, PT, s_shm_at, op_shmat, 0),
	RAW("shmctl-stat", shmctl, PTO, s_shm, X(0), IPC_STAT, BUF(0)),
	RAW("shmctl-info", shmctl, PT, s_shm, 0, IPC_INFO, BUF(0)),
	OP("semget", semget, PT, 0, op_semget, 0),
	OP("semget-key", semget, PT, 0, op_semget, 1),
	RAW("semget-there", semget, PTO, s_sem_key, X(1), 4, 0600),
	OP("semop", semop, PTO, s_sem, op_semop, 0),
	OP("semop-undo", semop, PTO, s_sem, op_semop, 0x1000),
	OP("semop-many", semop, PTO, s_sem, op_semop_many, 0),
	{ "semop-nowait", "semop", PTO, s_sem, op_semop_again, 0, { 0 }, EAGAIN, 0, 0 },
	OP("semtimedop", semtimedop, PTO, s_sem, op_semtimedop, 0),
	RAW("semctl-getval", semctl, PTO, s_sem, X(0), 1, GETVAL, 0),
	RAW("semctl-setval", semctl, PTO, s_sem, X(0), 2, SETVAL, 0),
	OP("semctl-setall", semctl, PTO, s_sem, op_setall, 0),
	RAW("semctl-stat", semctl, PTO, s_sem, X(0), 0, IPC_STAT, BUF(0)),
	OP("msgget", msgget, PT, 0, op_msgget, 0),
	OP("msgget-key", msgget, PT, 0, op_msgget, 1),
	RAW("msgget-there", msgget, PTO, s_msg_key, X(1), 0600),
	OP("msgsnd", msgsnd, PTO, s_msg, op_message, 64, 0),
	OP("msgrcv", msgrcv, PTO, s_msg, op_message, 1, -5),
	FAILS("msgrcv-none", msgrcv, PTO, s_msg, ENOMSG, X(0), BUF(0), 64, 0, IPC_NOWAIT),
	RAW("msgctl-stat", msgctl, PTO, s_msg, X(0), IPC_STAT, BUF(0)),
	END
};
