/* Clocks, sleeping and timers. */
#include "calls.h"

#include <sys/timerfd.h>
#include <time.h>

static long op_clock_settime(struct work *w)
{
	struct timespec now;
	ok(w, syscall(SYS_clock_gettime, CLOCK_REALTIME, &now));
	return ok(w, syscall(SYS_clock_settime, CLOCK_REALTIME, &now));
}

static long op_adjtimex(struct work *w)
{
	long timex[26] = { 0 };
	return ok(w, syscall(SYS_adjtimex, timex) < 0 ? -1 : 0);
}

static long op_clock_adjtime(struct work *w)
{
	/* ADJ_MAXERROR: a change that nobody sees. */
	long timex[26] = { 4, 0, 0, 16000000 };
	return ok(w, syscall(SYS_clock_adjtime, CLOCK_REALTIME, timex) < 0 ? -1 : 0);
}

static long op_settimeofday(struct work *w)
{
	long now[2];
	ok(w, syscall(SYS_gettimeofday, now, 0));
	return ok(w, syscall(SYS_settimeofday, now, 0));
}

static long op_vdso(struct work *w)
{
	struct timespec now;
	return ok(w, clock_gettime((clockid_t)w->k->v[0], &now));
}

static long op_absolute(struct work *w)
{
	struct timespec then;
	clock_gettime(CLOCK_MONOTONIC, &then);
	then.tv_nsec += 50000;
	if (then.tv_nsec >= 1000000000)
		then.tv_nsec -= 1000000000, then.tv_sec++;
	return ok(w, syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &then, 0));
}

static long op_timer(struct work *w)
{
	int timer;
	ok(w, syscall(SYS_timer_create, w->k->v[0], w->buf + C_SIGEV, &timer));
	return ok(w, syscall(SYS_timer_delete, timer));
}

static void s_timer(struct work *w)
{
	int timer;
	ok(w, syscall(SYS_timer_create, CLOCK_MONOTONIC, w->buf + C_SIGEV, &timer));
	w->x[0] = timer;
}

static long op_set_timer(struct work *w)
{
	ok(w, syscall(SYS_timer_settime, w->x[0], 0, w->buf + C_ITIMER, 0));
	return ok(w, syscall(SYS_timer_settime, w->x[0], 0, w->buf + C_OFF, 0));
}

static void s_timerfd(struct work *w)
{
	w->fd = (int)ok(w, syscall(SYS_timerfd_create, CLOCK_MONOTONIC, 0));
}

static void s_timerfd_now(struct work *w)
{
	w->fd = (int)ok(w, syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_NONBLOCK));
}

static long op_timerfd(struct work *w)
{
	return close((int)ok(w, syscall(SYS_timerfd_create, w->k->v[0], 0)));
}

static long op_timerfd_set(struct work *w)
{
	ok(w, syscall(SYS_timerfd_settime, w->fd, 0, w->buf + C_ITIMER, 0));
	return ok(w, syscall(SYS_timerfd_settime, w->fd, 0, w->buf + C_OFF, 0));
}

static long op_timerfd_read(struct work *w)
{
	struct itimerspec soon = { .it_value = { 0, 20000 } };
	ok(w, syscall(SYS_timerfd_settime, w->fd, 0, &soon, 0));
	return ok(w, read(w->fd, w->buf, 8));
}

static long op_setitimer(struct work *w)
{
	struct timespec *value = (struct timespec *)(w->buf + C_ITIMER);
	(void)value;
	ok(w, syscall(SYS_setitimer, w->k->v[0], w->buf + C_ITIMER, 0));
	return ok(w, syscall(SYS_setitimer, w->k->v[0], w->buf + C_OFF, 0));
}

static long op_alarm(struct work *w)
{
	ok(w, syscall(SYS_alarm, 3600));
	return ok(w, syscall(SYS_alarm, 0));
}

const struct kase clocks[] = {
	RAW("time", time, PT, 0, BUF(0)),
	RAW("gettimeofday", gettimeofday, PT, 0, BUF(0), 0),
	RAW("clock_gettime-realtime", clock_gettime, PT, 0, 0, BUF(0)),
	RAW("clock_gettime-monotonic", clock_gettime, PT, 0, 1, BUF(0)),
	RAW("clock_gettime-process", clock_gettime, PT, 0, 2, BUF(0)),
	RAW("clock_gettime-thread", clock_gettime, PT, 0, 3, BUF(0)),
	RAW("clock_gettime-raw", clock_gettime, PT, 0, 4, BUF(0)),
	RAW("clock_gettime-realtime-coarse", clock_gettime, PT, 0, 5, BUF(0)),
	RAW("clock_gettime-monotonic-coarse", clock_gettime, PT, 0, 6, BUF(0)),
	RAW("clock_gettime-boottime", clock_gettime, PT, 0, 7, BUF(0)),
	OP("clock_gettime-vdso", clock_gettime, PT, 0, op_vdso, 1),
	RAW("clock_getres", clock_getres, PT, 0, 1, BUF(0)),
	OP("clock_settime", clock_settime, P, 0, op_clock_settime),
	OP("adjtimex", adjtimex, P, 0, op_adjtimex),
	OP("clock_adjtime", clock_adjtime, P, 0, op_clock_adjtime),
	OP("settimeofday", settimeofday, P, 0, op_settimeofday),
	RAW("nanosleep", nanosleep, PT, 0, BUF(C_50US), 0),
	RAW("nanosleep-nothing", nanosleep, PT, 0, BUF(C_ZERO), 0),
	RAW("clock_nanosleep-realtime", clock_nanosleep, PT, 0, 0, 0, BUF(C_50US), 0),
	RAW("clock_nanosleep-monotonic", clock_nanosleep, PT, 0, 1, 0, BUF(C_50US), 0),
	OP("clock_nanosleep-absolute", clock_nanosleep, PT, 0, op_absolute),
	RAW("clock_nanosleep-past", clock_nanosleep, PT, 0, 1, 1, BUF(C_ZERO), 0),
	RAW("getitimer-real", getitimer, PT, 0, 0, BUF(0)),
	RAW("getitimer-virtual", getitimer, PT, 0, 1, BUF(0)),
	RAW("getitimer-prof", getitimer, PT, 0, 2, BUF(0)),
	OP("setitimer-real", setitimer, P, 0, op_setitimer, 0),
	OP("setitimer-virtual", setitimer, P, 0, op_setitimer, 1),
	OP("setitimer-prof", setitimer, P, 0, op_setitimer, 2),
	OP("alarm", alarm, P, 0, op_alarm),
	OP("timer_create-monotonic", timer_create, PT, 0, op_timer, 1),
	OP("timer_create-realtime", timer_create, PT, 0, op_timer, 0),
	OP("timer_create-process", timer_create, PT, 0, op_timer, 2),
	OP("timer_create-thread", timer_create, PT, 0, op_timer, 3),
	OP("timer_delete", timer_delete, P, 0, op_timer, 1),
	OP("timer_settime", timer_settime, PT, s_timer, op_set_timer),
	RAW("timer_gettime", timer_gettime, PT, s_timer, X(0), BUF(0)),
	RAW("timer_getoverrun", timer_getoverrun, PT, s_timer, X(0)),
	OP("timerfd_create", timerfd_create, PT, 0, op_timerfd, 1),
	OP("timerfd_create-realtime", timerfd_create, PT, 0, op_timerfd, 0),
	OP("timerfd_settime", timerfd_settime, PTO | SAME, s_timerfd, op_timerfd_set),
	RAW("timerfd_gettime", timerfd_gettime, PTO | SAME, s_timerfd, FD, BUF(0)),
	OP("timerfd-read", timerfd_settime, PT, s_timerfd, op_timerfd_read),
	FAILS("timerfd-read-nothing", read, PT, s_timerfd_now, EAGAIN, FD, BUF(0), 8),
	END
};
