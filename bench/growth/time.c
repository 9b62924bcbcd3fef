/* Worlds of what waits for its time, and of signals that wait to be taken. */
#include "growth.h"

#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

static void make_timers(unsigned n)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	for (unsigned i = 0; i < n; i++) {
		struct itimerspec far = { { 0, 0 }, { 3600 + i, 0 } };
		timer_t timer;
		ok("timer_create", timer_create(i % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &event, &timer));
		ok("timer_settime", timer_settime(timer, 0, &far, 0));
	}
}

static void op_timer_create(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	timer_t timer;
	ok("timer_create", timer_create(CLOCK_MONOTONIC, &event, &timer));
	ok("timer_delete", timer_delete(timer));
}

static void op_itimer(void)
{
	struct itimerval far = { { 0, 0 }, { 1800, 0 } }, never = { { 0, 0 }, { 0, 0 } };
	ok("setitimer", setitimer(ITIMER_VIRTUAL, &far, 0));
	ok("setitimer", setitimer(ITIMER_VIRTUAL, &never, 0));
}

const struct world timers = { "timers", "armed-timers-of-the-process", 10000, make_timers, (const struct row[]){
	ROW("timer_settime", op_timer, CHEAP),
	ROW("timer_create-delete", op_timer_create, CHEAP),
	ROW("setitimer", op_itimer, CHEAP),
	ROW("nap", op_nap, CHEAP),
	ROW("kill-self", op_kill, CHEAP),
	ROW("signal", op_signal, CHEAP),
	ROW("fork-exit-wait", op_fork, DEAR),
	ROW("clock_settime", op_clock_settime, DEAR),
	END }, 0 };

static int timer_file;

static void make_timerfds(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct itimerspec far = { { 0, 0 }, { 3600 + i, 0 } };
		int clock = i % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
		timer_file = (int)ok("timerfd_create", timerfd_create(clock, 0));
		ok("timerfd_settime", timerfd_settime(timer_file, 0, &far, 0));
	}
}

static void op_timerfd(void)
{
	struct itimerspec near = { { 0, 0 }, { 1800, 0 } }, far = { { 0, 0 }, { 36000, 0 } };
	ok("timerfd_settime", timerfd_settime(timer_file, 0, &near, 0));
	ok("timerfd_settime", timerfd_settime(timer_file, 0, &far, 0));
}

static void op_timerfd_create(void)
{
	ok("close", close((int)ok("timerfd_create", timerfd_create(CLOCK_MONOTONIC, 0))));
}

const struct world timerfds = { "timerfds", "armed-timerfds", 10000, make_timerfds, (const struct row[]){
	ROW("timerfd_settime", op_timerfd, CHEAP),
	ROW("timerfd_create-close", op_timerfd_create, CHEAP),
	ROW("nap", op_nap, CHEAP),
	ROW("clock_settime", op_clock_settime, DEAR),
	END }, 0 };

static void make_queued(unsigned n)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	ok("sigprocmask", sigprocmask(SIG_BLOCK, &set, 0));
	for (unsigned i = 0; i < n; i++)
		ok("sigqueue", sigqueue(getpid(), SIGRTMIN + 3, (union sigval){ .sival_int = 1 }));
}

static void op_queue(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	ok("sigqueue", sigqueue(getpid(), SIGRTMIN + 3, (union sigval){ .sival_int = 1 }));
	if (ok("sigwaitinfo", sigwaitinfo(&set, 0)) != SIGRTMIN + 3)
		fail("another signal");
}

static void op_pending(void)
{
	sigset_t set;
	ok("sigpending", sigpending(&set));
}

const struct world queued = { "queued", "queued-signals", 10000, make_queued, (const struct row[]){
	ROW("signal", op_signal, CHEAP),
	ROW("sigqueue-take", op_queue, CHEAP),
	ROW("kill-self", op_kill, CHEAP),
	ROW("sigpending", op_pending, CHEAP),
	ROW("getpid", op_getpid, CHEAP),
	ROW("fork-exit-wait", op_fork, DEAR),
	END }, 0 };
