/* What the parent is told of a process of many threads that is stopped and continued: each change once. */
#include "t.h"

#include <pthread.h>

#define THREADS 8

struct shared {
	pid_t tids[THREADS];
	int ready;
};
static struct shared *shared;

static void *waits(void *place)
{
	*(pid_t *)place = (pid_t)syscall(SYS_gettid);
	__atomic_fetch_add(&shared->ready, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return NULL;
}

/* A child of many threads, all of which wait. */
static pid_t many_threads(void)
{
	shared->ready = 0;
	pid_t pid = must_fork();
	if (pid == 0) {
		pthread_t thread;
		for (int i = 1; i < THREADS; i++)
			pthread_create(&thread, NULL, waits, &shared->tids[i]);
		waits(&shared->tids[0]);
	}
	while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < THREADS)
		nap(1);
	return pid;
}

/* How many SIGCHLD with this code come: the first in its time, others until none has come for a while. SIGCHLD is blocked. */
static int told(int code)
{
	sigset_t set;
	siginfo_t info;
	struct timespec limit = { .tv_sec = 20 };
	int count = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	while (sigtimedwait(&set, &info, &limit) == SIGCHLD) {
		count += info.si_code == code;
		limit = (struct timespec){ .tv_nsec = 100000000 };
	}
	return count;
}

static void one_stop(void)
{
	siginfo_t info;
	pid_t pid = many_threads();

	section("stopped and continued");
	for (int round = 0; round < 5; round++) {
		kill(pid, SIGSTOP);
		say("stopped: told %d", told(CLD_STOPPED));
		SHOW(waitid(P_PID, (id_t)pid, &info, WSTOPPED));
		kill(pid, SIGCONT);
		say("continued: told %d", told(CLD_CONTINUED));
		SHOW(waitid(P_PID, (id_t)pid, &info, WCONTINUED));
	}
	kill(pid, SIGKILL);
	say("killed: told %d, %s", told(CLD_KILLED), status_text(wait_for(pid)));
}

/* Each thread is sent SIGSTOP: that is one stop. */
static void many_stops(void)
{
	siginfo_t info;
	pid_t pid = many_threads();
	int again = 0;

	section("each thread stopped");
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < THREADS; i++)
			syscall(SYS_tgkill, pid, shared->tids[i], SIGSTOP);
		waitid(P_PID, (id_t)pid, &info, WSTOPPED);
		nap(2);
		info.si_pid = 0;
		waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG);
		again += info.si_pid != 0;
		kill(pid, SIGCONT);
		waitid(P_PID, (id_t)pid, &info, WCONTINUED);
	}
	say("told of a stop again: %d", again);
	kill(pid, SIGSTOP);
	waitid(P_PID, (id_t)pid, &info, WSTOPPED);
	kill(pid, SIGKILL);
	say("killed while it is stopped: %s", status_text(wait_for(pid)));
}

int main(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	one_stop();
	many_stops();
	return 0;
}
