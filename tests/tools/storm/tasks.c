/* Storms of tasks: processes that make processes, programs that begin programs, threads. */
#include "storm.h"
#include <pthread.h>

enum { TASKS = 200 };

/* Everybody forks, as long as anybody lives. */
static void bomb(void)
{
	at_most_tasks(TASKS * scale);
	for (;;) {
		if (fork() >= 0) {
			did();
		} else {
			refused(errno);
			sched_yield();
		}
	}
}

/* Children that have ended, and for whom nobody waits. */
static void zombies(void)
{
	at_most_tasks(5 * TASKS * scale);
	for (;;) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		if (pid < 0)
			break;
		did();
	}
	refused(errno);
}

static void exec_self(void)
{
	execl("/proc/self/exe", "storm", "@exec", (char *)0);
	_exit(6);
}

static void exec(void) { crowd(16 * scale, exec_self); }

static void *sleeper(void *unused)
{
	did();
	for (;;)
		nap(100);
	return unused;
}

static void threads(void)
{
	pthread_attr_t attributes;
	pthread_t id;
	at_most_tasks(5 * TASKS * scale);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 16384);
	int error;
	while ((error = pthread_create(&id, &attributes, sleeper, 0)) == 0)
		;
	refused(error);
	nap(50);
}

const struct storm task_storms[] = {
	{ "bomb", bomb, EAGAIN, 150, 400, 0 },
	{ "zombies", zombies, EAGAIN, 900, 1000, 0 },
	{ "exec", exec, UNBOUNDED, 200, 400, 0 },
	{ "threads", threads, EAGAIN, 900, 1000, 0 },
	{ 0 },
};
