/* seccomp: a filter for all threads of a process, whatever they do meanwhile. */
#include "rights/seccomp.h"

static pthread_barrier_t together;
static volatile pid_t other;

static void *follows(void *stray)
{
	other = (pid_t)syscall(SYS_gettid);
	if (stray)
		refuse(NOWHERE + 1, SECCOMP_RET_ERRNO | 21, 0);
	pthread_barrier_wait(&together);
	pthread_barrier_wait(&together);
	shows("the other");
	return NULL;
}

static void for_all(int is_stray)
{
	pthread_t thread;
	pthread_barrier_init(&together, NULL, 2);
	if (is_stray)
		no_privileges();
	pthread_create(&thread, NULL, follows, is_stray ? "" : NULL);
	pthread_barrier_wait(&together);
	no_privileges();
	SHOW(refuse(NOWHERE + 2, SECCOMP_RET_ERRNO | 23, 0));
	long result = refuse(NOWHERE, SECCOMP_RET_ERRNO | 22, SECCOMP_FILTER_FLAG_TSYNC);
	say("for all: %s", result == 0 ? "done" : result == other ? "the other" : error_name(errno));
	result = refuse(NOWHERE, SECCOMP_RET_ERRNO | 22, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH);
	say("for all: %s", result == 0 ? "done" : result == other ? "the other" : error_name(errno));
	pthread_barrier_wait(&together);
	pthread_join(thread, NULL);
	shows("the caller");
}

static void of_all(void)
{
	for_all(0);
}

static void of_strays(void)
{
	for_all(1);
}

/* Threads that are made while all get a filter have it too, whoever makes them. */
enum { MAKERS = 4, MADE = 24, ROUNDS = 10 };
static volatile int filtered;
static volatile int free_ones;

static void *is_filtered(void *unused)
{
	(void)unused;
	while (!filtered)
		sched_yield();
	if (syscall(NOWHERE) != -1 || errno != 22)
		__atomic_fetch_add(&free_ones, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void *makes(void *unused)
{
	(void)unused;
	pthread_t made[MADE];
	for (int n = 0; n < MADE; n++)
		pthread_create(&made[n], NULL, is_filtered, NULL);
	is_filtered(NULL);
	for (int n = 0; n < MADE; n++)
		pthread_join(made[n], NULL);
	return NULL;
}

static void among_makers(void)
{
	no_privileges();
	pthread_t makers[MAKERS];
	for (int n = 0; n < MAKERS; n++)
		pthread_create(&makers[n], NULL, makes, NULL);
	long result = refuse(NOWHERE, SECCOMP_RET_ERRNO | 22, SECCOMP_FILTER_FLAG_TSYNC);
	filtered = 1;
	for (int n = 0; n < MAKERS; n++)
		pthread_join(makers[n], NULL);
	if (result || free_ones)
		say("%d of %d are free, %ld", free_ones, MAKERS * (MADE + 1), result);
}

static void among_makers_again(void)
{
	for (int n = 0; n < ROUNDS; n++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			among_makers();
			_exit(0);
		}
		int status = wait_for(pid);
		if (status)
			say("%s", status_text(status));
	}
}

int main(void)
{
	in_child("all", of_all);
	in_child("one has others", of_strays);
	in_child("while threads are made", among_makers_again);
	return 0;
}
