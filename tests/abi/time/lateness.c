/*
 * Timer slack: a sleep may end late so that it ends with others, but never early. How late, a busy host decides, and on Linux other timers of the
 * CPU: that sleeps end together, and no later than their slack, the hosted tests of the queue show (kernel/src/sched/timer/tests.rs).
 */
#include "t.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/timerfd.h>

#define TRIES 3
#define SLEEPERS 8
#define STEP 10
#define SLACK 50

static const struct timespec ten_ms = { 0, 10000000 };

static struct timespec moment(long at)
{
	return (struct timespec){ at / 1000, at % 1000 * 1000000 };
}

static void use_nanosleep(void)
{
	nanosleep(&ten_ms, NULL);
}
static void use_clock_nanosleep(void)
{
	struct timespec end = moment(ms(CLOCK_REALTIME) + 11);
	clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &end, NULL);
}
static void use_poll(void)
{
	poll(NULL, 0, 10);
}
static void use_select(void)
{
	struct timeval tv = { 0, 10000 };
	select(0, NULL, NULL, NULL, &tv);
}
static void use_epoll(void)
{
	int fd = epoll_create1(0);
	struct epoll_event event;
	epoll_wait(fd, &event, 1, 10);
	close(fd);
}
static void use_futex(void)
{
	int word = 0;
	syscall(SYS_futex, &word, 128 /* FUTEX_WAIT_PRIVATE */, 0, &ten_ms, NULL, 0);
}
static void use_sigtimedwait(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigtimedwait(&set, NULL, &ten_ms);
}
static void use_timerfd(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec in = { .it_value = ten_ms };
	uint64_t count;
	timerfd_settime(fd, 0, &in, NULL);
	read(fd, &count, sizeof count);
	close(fd);
}
static void use_timer(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec in = { .it_value = ten_ms };
	timer_t timer;
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &in, NULL);
	int signal;
	sigwait(&set, &signal);
	timer_delete(timer);
}

/* Who started this program sleeps for short times, and stays on the first CPU; the tries are made on the others, if there are any. */
static int others;
static void use_cpu(int n)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(others ? 1 + n % others : 0, &one);
	sched_setaffinity(0, sizeof one, &one);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(getppid(), sizeof one, &one);
}

/* Does it ever end early? */
static void lateness(const char *name, void (*wait_ten_ms)(void))
{
	int early = 0;
	for (int n = 0; n < TRIES; n++) {
		use_cpu(n);
		long before = ms(CLOCK_MONOTONIC);
		wait_ten_ms();
		early |= ms(CLOCK_MONOTONIC) - before < 9;
	}
	say("%s: %s", name, early ? "early" : "not early");
}

static long begin;
static long woke[SLEEPERS];

static void *sleeper(void *argument)
{
	long n = (long)argument;
	struct timespec end = moment(begin + STEP * (n + 2));
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
	woke[n] = ms(CLOCK_MONOTONIC);
	return NULL;
}

/* Sleeps to near times on one CPU, which may end together. */
static void together(void)
{
	int early = 0;
	for (int n = 0; n < TRIES; n++) {
		pthread_t threads[SLEEPERS];
		use_cpu(n);
		begin = ms(CLOCK_MONOTONIC) + 60;
		for (long i = 0; i < SLEEPERS; i++)
			pthread_create(&threads[i], NULL, sleeper, (void *)i);
		for (long i = 0; i < SLEEPERS; i++) {
			pthread_join(threads[i], NULL);
			early |= woke[i] < begin + STEP * (i + 2);
		}
	}
	say("together: %s", early ? "early" : "not early");
}

int main(void)
{
	/* musl counts those that the thread may use, so before it has chosen. */
	others = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
	cpu_set_t before;
	sched_getaffinity(getppid(), sizeof before, &before);
	prctl(PR_SET_TIMERSLACK, SLACK * 1000000L);
	lateness("nanosleep", use_nanosleep);
	lateness("clock_nanosleep", use_clock_nanosleep);
	lateness("poll", use_poll);
	lateness("select", use_select);
	lateness("epoll_wait", use_epoll);
	lateness("futex", use_futex);
	lateness("sigtimedwait", use_sigtimedwait);
	lateness("timerfd", use_timerfd);
	lateness("timer", use_timer);
	together();
	/* Back to what the program began with. */
	prctl(PR_SET_TIMERSLACK, 0);
	lateness("nanosleep without", use_nanosleep);
	sched_setaffinity(getppid(), sizeof before, &before);
	return 0;
}
