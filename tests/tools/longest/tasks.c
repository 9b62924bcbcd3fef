/* longest: calls on processes, threads, signals and timers. */
#include "longest.h"
#include <pthread.h>
#include <time.h>

static void children(int n, void (*then)(void))
{
	int p[2];
	pipe(p);
	setpgid(0, 0);
	for (int i = 0; i < n; i++)
		if (fork() == 0) {
			char c;
			close(p[1]);
			read(p[0], &c, 1);
			_exit(0);
		}
	then();
	close(p[1]);
	while (wait(0) > 0)
		;
}

static void kill_group_0(void) { kill(0, 0); }
static void signal_group(void) { signal(SIGURG, SIG_IGN); kill(0, SIGURG); }
static void signal_all(void) { kill(-1, 0); }
static void kill_group(void) { children(400, signal_group); }
static void kill_all(void) { children(400, signal_all); }
static void priority(void) { setpriority(PRIO_USER, getuid(), 5); }
static void set_priority(void) { children(400, priority); }
static void zombies(void) { children(400, kill_group_0); }

static void queued(void)
{
	sigset_t set;
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, 0);
	/* To the process, and to the thread. */
	for (int i = 0; i < 30000; i++)
		if (sigqueue(getpid(), SIGRTMIN + i % 20, (union sigval){ 0 }) || syscall(SYS_tkill, getpid(), SIGRTMIN))
			cannot();
}

static void timers(int n, struct sigevent *ev, struct itimerspec *to)
{
	timer_t t;
	for (int i = 0; i < n; i++)
		if (timer_create(CLOCK_MONOTONIC, ev, &t) || timer_settime(t, TIMER_ABSTIME, to, 0))
			cannot();
}

static void exit_timers(void)
{
	timers(20000, &(struct sigevent){ .sigev_notify = SIGEV_NONE }, &(struct itimerspec){ { 0, 0 }, { 1 << 30, 0 } });
}

static void exec_timers(void)
{
	struct itimerspec far = { { 0, 0 }, { 1 << 30, 0 } };
	timers(20000, &(struct sigevent){ .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG }, &far);
	execl("/bin/true", "true", NULL);
}

/* All at one moment, and their signals wait. */
static void due_timers(void)
{
	struct timespec now;
	sigset_t set;
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	timers(15000, &(struct sigevent){ .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN }, &(struct itimerspec){ { 0, 0 }, { now.tv_sec + 2, 0 } });
	sleep(3);
	timers(1, &(struct sigevent){ .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1 }, &(struct itimerspec){ { 0, 0 }, { 1, 0 } });
	for (int i = 0; i < 20; i++)
		sigwaitinfo(&set, 0);
}

static void futex_wake_all(void) { static int word; syscall(SYS_futex, &word, 1, 1 << 30, 0, 0, 0); }

void *sleeper(void *word) { syscall(SYS_futex, word, 0, 0, 0, 0, 0); return 0; }

/* As many as LONGEST_THREADS says. */
static int many_threads(void)
{
	const char *n = getenv("LONGEST_THREADS");
	return n ? atoi(n) : 3500;
}

void threads(void *(*f)(void *), void *argument)
{
	pthread_attr_t a;
	pthread_t t;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 16384);
	for (int i = 0; i < many_threads(); i++)
		if (pthread_create(&t, &a, f, argument))
			cannot();
	sleep(1);
}

static void wake_futex(void)
{
	static int word, other;
	threads(sleeper, &word);
	/* All change over to another word, and are woken there. */
	long moved = syscall(SYS_futex, &word, 3, 0, 1 << 30, &other, 0), woken = syscall(SYS_futex, &other, 1, 1 << 30, 0, 0, 0);
	if (moved != many_threads() || woken != many_threads())
		cannot();
}

/* Many wait on one word, and others on words beside it: a bucket with the many splits. */
static void split_bucket(void)
{
	static int word, others[1024];
	pthread_attr_t a;
	pthread_t t;
	threads(sleeper, &word);
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 16384);
	for (int i = 0; i < 1024; i++)
		if (pthread_create(&t, &a, sleeper, &others[i]))
			cannot();
	sleep(1);
}

static void kill_threads(void)
{
	static int word;
	threads(sleeper, &word);
	kill(getpid(), SIGKILL);
}

const struct call task_calls[] = {
	CASE(kill_group), CASE(kill_all), CASE(set_priority), CASE(zombies), CASE(queued), CASE(exit_timers), CASE(exec_timers), CASE(due_timers),
	CASE(futex_wake_all), CASE(wake_futex), CASE(split_bucket), CASE(kill_threads),
	{ 0, 0 },
};
