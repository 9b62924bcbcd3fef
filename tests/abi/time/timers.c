/* POSIX timers, timers that are files, and clocks of processor time. */
#include "t.h"

#include <poll.h>
#include <sys/timerfd.h>

static volatile int rings;
static void on(int number) { (void)number; rings++; }

#define SECOND 1000000000L

/* Times in milliseconds. */
static struct itimerspec every(long value, long interval)
{
	return (struct itimerspec){ .it_value = { value / 1000, value % 1000 * 1000000 }, .it_interval = { interval / 1000, interval % 1000 * 1000000 } };
}

static long left(const struct itimerspec *spec)
{
	return spec->it_value.tv_sec * 1000 + (spec->it_value.tv_nsec + 999999) / 1000000;
}

static void *burn(void *argument)
{
	for (long begin = ms(CLOCK_THREAD_CPUTIME_ID); ms(CLOCK_THREAD_CPUTIME_ID) - begin < (long)argument;)
		;
	return 0;
}

static void posix_timers(void)
{
	section("POSIX timers");
	timer_t id;
	siginfo_t info;
	sigset_t set;
	struct itimerspec spec, old;
	struct timespec soon = { 3, 0 }, now;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	event.sigev_value.sival_int = 7;
	sigemptyset(&set), sigaddset(&set, SIGRTMIN), sigaddset(&set, SIGALRM), sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, 0);
	static const struct { clockid_t id; const char *name; } clocks[] = {
		{ CLOCK_REALTIME, "REALTIME" }, { CLOCK_MONOTONIC, "MONOTONIC" }, { CLOCK_BOOTTIME, "BOOTTIME" }, { CLOCK_TAI, "TAI" },
		{ CLOCK_MONOTONIC_RAW, "MONOTONIC_RAW" }, { CLOCK_MONOTONIC_COARSE, "MONOTONIC_COARSE" }, { CLOCK_REALTIME_COARSE, "REALTIME_COARSE" },
		{ CLOCK_PROCESS_CPUTIME_ID, "PROCESS_CPUTIME" }, { CLOCK_THREAD_CPUTIME_ID, "THREAD_CPUTIME" }, { -1, "-1" }, { 16, "16" },
	};
	for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
		say("%s", clocks[i].name);
		if (SHOW(timer_create(clocks[i].id, &event, &id)) != 0)
			continue;
		SHOW(timer_gettime(id, &old));
		say("not set: %ld %ld", left(&old), old.it_interval.tv_nsec);
		/* Far away, so that it is still to come when it is asked for. */
		spec = every(20000, 0);
		SHOW(timer_settime(id, 0, &spec, &old));
		say("was %ld %ld", left(&old), old.it_interval.tv_nsec);
		timer_gettime(id, &old);
		CHECK(left(&old) > 10000 && left(&old) <= 20000);
		spec = every(20, 0);
		SHOW(timer_settime(id, 0, &spec, &old));
		CHECK(left(&old) > 10000 && left(&old) <= 20000);
		if (i >= 7)
			burn((void *)60);
		CHECK(sigtimedwait(&set, &info, &soon) == SIGRTMIN);
		say("code %d overrun %d value %d errno %d", info.si_code, info.si_overrun, info.si_value.sival_int, info.si_errno);
		SHOW(timer_gettime(id, &old));
		say("over: %ld %ld", left(&old), old.it_interval.tv_nsec);
		SHOW(timer_getoverrun(id));
		/* An absolute time that is past goes off at once. */
		clock_gettime(clocks[i].id, &now);
		spec.it_value = now;
		SHOW(timer_settime(id, TIMER_ABSTIME, &spec, 0));
		CHECK(sigtimedwait(&set, &info, &soon) == SIGRTMIN);
		/* One that is not past does not. */
		clock_gettime(clocks[i].id, &now);
		now.tv_sec += 1000;
		spec.it_value = now;
		SHOW(timer_settime(id, TIMER_ABSTIME, &spec, 0));
		timer_gettime(id, &old);
		CHECK(left(&old) > 990000 && left(&old) <= 1000000);
		CHECK(sigtimedwait(&set, &info, &(struct timespec){ 0, 30000000 }) < 0);
		SHOW(timer_delete(id));
	}
	section("periods");
	timer_create(CLOCK_MONOTONIC, &event, &id);
	spec = every(5, 5);
	SHOW(timer_settime(id, 0, &spec, 0));
	for (int i = 0; i < 3; i++)
		CHECK(sigtimedwait(&set, &info, &soon) == SIGRTMIN);
	nap(100);
	CHECK(sigtimedwait(&set, &info, &soon) == SIGRTMIN);
	CHECK(info.si_overrun >= 5 && info.si_overrun == timer_getoverrun(id));
	timer_gettime(id, &old);
	say("interval %ld", old.it_interval.tv_nsec);
	CHECK(left(&old) <= 5);
	spec = every(0, 5);
	SHOW(timer_settime(id, 0, &spec, &old));
	say("interval %ld", old.it_interval.tv_nsec);
	SHOW(timer_gettime(id, &old));
	say("stopped: %ld %ld", left(&old), old.it_interval.tv_nsec);
	while (sigtimedwait(&set, &info, &(struct timespec){ 0 }) > 0)
		;
	/* Ignored: it goes on, and is there when it is wanted again. */
	sigset_t none;
	sigemptyset(&none), sigaddset(&none, SIGRTMIN);
	sigprocmask(SIG_UNBLOCK, &none, 0);
	signal(SIGRTMIN, SIG_IGN);
	spec = every(1, 1);
	timer_settime(id, 0, &spec, 0);
	nap(30);
	rings = 0;
	signal(SIGRTMIN, on);
	for (int i = 0; i < 300 && rings < 3; i++)
		nap(1);
	CHECK(rings >= 3);
	/* Blocked first: the timer goes on, and the default is to die. */
	sigprocmask(SIG_BLOCK, &none, 0);
	signal(SIGRTMIN, SIG_DFL);
	SHOW(timer_delete(id));
	while (sigtimedwait(&set, &info, &(struct timespec){ 0 }) > 0)
		;
	section("notification");
	SHOW(timer_create(CLOCK_MONOTONIC, 0, &id));
	spec = every(1, 0);
	timer_settime(id, 0, &spec, 0);
	SHOW(sigtimedwait(&set, &info, &soon));
	CHECK(info.si_value.sival_int == info.si_timerid);
	timer_delete(id);
	event = (struct sigevent){ .sigev_notify = SIGEV_NONE };
	SHOW(timer_create(CLOCK_MONOTONIC, &event, &id));
	spec = every(10, 0);
	SHOW(timer_settime(id, 0, &spec, 0));
	nap(20);
	timer_gettime(id, &old);
	say("silent, over: %ld", left(&old));
	spec = every(10, 7);
	timer_settime(id, 0, &spec, 0);
	nap(20);
	timer_gettime(id, &old);
	CHECK(left(&old) > 0 && left(&old) <= 7);
	timer_delete(id);
	static const struct { int notify, number; } wrong[] = {
		{ SIGEV_SIGNAL, 0 }, { SIGEV_SIGNAL, 65 }, { SIGEV_SIGNAL, -1 }, { SIGEV_NONE, 99 }, { 3, 10 }, { 99, 10 }, { SIGEV_THREAD, 10 },
		{ SIGEV_SIGNAL, SIGKILL },
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		event = (struct sigevent){ .sigev_notify = wrong[i].notify, .sigev_signo = wrong[i].number };
		int number = -1;
		say("notify %d signal %d: %s", wrong[i].notify, wrong[i].number,
		    syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &number) == 0 ? "ok" : error_name(errno));
		if (number >= 0)
			syscall(SYS_timer_delete, number);
	}
	event = (struct sigevent){ .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2 };
	((int *)&event)[4] = (int)syscall(SYS_gettid);
	SHOW(timer_create(CLOCK_MONOTONIC, &event, &id));
	spec = every(1, 0);
	timer_settime(id, 0, &spec, 0);
	SHOW(sigtimedwait(&set, &info, &soon));
	timer_delete(id);
	((int *)&event)[4] = 1;
	SHOW(timer_create(CLOCK_MONOTONIC, &event, &id));
	((int *)&event)[4] = -5;
	SHOW(timer_create(CLOCK_MONOTONIC, &event, &id));
	section("misuse");
	event = (struct sigevent){ .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
	SHOW(syscall(SYS_timer_create, CLOCK_MONOTONIC, 16, &id));
	SHOW(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, 16));
	SHOW(syscall(SYS_timer_create, 99, &event, 16));
	int number;
	SHOW(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &number));
	SHOW(syscall(SYS_timer_settime, number, 0, 0, 0));
	SHOW(syscall(SYS_timer_settime, number, 0, 16, 0));
	SHOW(syscall(SYS_timer_settime, number + 1, 0, 0, 0));
	spec = every(1, 0);
	SHOW(syscall(SYS_timer_settime, number + 1, 0, &spec, 0));
	spec.it_value.tv_nsec = SECOND;
	SHOW(syscall(SYS_timer_settime, number, 0, &spec, 0));
	spec.it_value = (struct timespec){ -1, 0 };
	SHOW(syscall(SYS_timer_settime, number, 0, &spec, 0));
	spec = every(1000, 0), spec.it_interval.tv_nsec = -1;
	SHOW(syscall(SYS_timer_settime, number, 0, &spec, 0));
	spec = every(1000000, 0);
	SHOW(syscall(SYS_timer_settime, number, 0, &spec, 16));
	SHOW(syscall(SYS_timer_gettime, number, 16));
	SHOW(syscall(SYS_timer_gettime, -1, &spec));
	SHOW(syscall(SYS_timer_getoverrun, -1));
	SHOW(syscall(SYS_timer_delete, number + 1));
	/* Neither fork nor exec hands a timer on, and many of them end with the process. */
	pid_t pid = must_fork();
	if (pid == 0) {
		SHOW(syscall(SYS_timer_gettime, number, &spec));
		spec = every(1, 1);
		event.sigev_signo = SIGALRM;
		for (int i = 0; i < 200; i++) {
			timer_create(i % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &event, &id);
			timer_settime(id, 0, &spec, 0);
		}
		nap(20);
		_exit(4);
	}
	say("child: %s", status_text(wait_for(pid)));
	syscall(SYS_timer_delete, number);
	section("clocks of others");
	pid = must_fork();
	if (pid == 0) {
		burn((void *)30);
		for (;;)
			pause();
	}
	clockid_t clock = (~(clockid_t)pid << 3) | 2;
	for (int i = 0; i < 300 && ms(clock) < 30; i++)
		nap(10);
	CHECK(ms(clock) >= 30 && ms(clock) < 5000);
	SHOW(clock_getres(clock, &now));
	kill(pid, SIGKILL);
	wait_for(pid);
	SHOW(clock_gettime(clock, &now));
	SHOW(clock_gettime((~0u << 3) | 2, &now));
	SHOW(clock_gettime((~0u << 3) | 6, &now));
	SHOW(clock_gettime((~0u << 3) | 3, &now));
	SHOW(syscall(SYS_clock_nanosleep, CLOCK_THREAD_CPUTIME_ID, 0, &(struct timespec){ 0, 1000 }, 0));
	SHOW(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC_RAW, 0, &(struct timespec){ 0, 1000 }, 0));
	SHOW(syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, TIMER_ABSTIME, &(struct timespec){ 0, 1000 }, 0));
	sigprocmask(SIG_UNBLOCK, &set, 0);
}

static void timer_files(void)
{
	section("timerfd");
	uint64_t count = 0;
	struct itimerspec spec, old;
	struct timespec now;
	struct pollfd ready;
	static const int flags[] = { 0, TFD_CLOEXEC, TFD_NONBLOCK, 1, TFD_CLOEXEC | 0x10 };
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		int fd = timerfd_create(CLOCK_MONOTONIC, flags[i]);
		say("flags %#x: %s", flags[i], fd >= 0 ? "ok" : error_name(errno));
		if (fd >= 0)
			say("%#x %#x", (unsigned)fcntl(fd, F_GETFD), (unsigned)fcntl(fd, F_GETFL));
		close(fd);
	}
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME };
	for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
		int fd = timerfd_create(clocks[i], 0);
		spec = every(20, 0);
		SHOW(timerfd_settime(fd, 0, &spec, &old));
		say("was %ld %ld", left(&old), old.it_interval.tv_nsec);
		SHOW(read(fd, &count, 8));
		say("count %d", (int)count);
		timerfd_gettime(fd, &old);
		say("over: %ld", left(&old));
		clock_gettime(clocks[i], &now);
		spec.it_value = now;
		spec.it_interval = (struct timespec){ 1000, 0 };
		SHOW(timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, 0));
		SHOW(read(fd, &count, 8));
		say("count %d", (int)count);
		SHOW(timerfd_gettime(fd, &old));
		CHECK(left(&old) > 990000 && left(&old) <= 1000000);
		ready = (struct pollfd){ fd, POLLIN | POLLOUT, 0 };
		SHOW(poll(&ready, 1, 20));
		spec = every(1, 0);
		SHOW(timerfd_settime(fd, 0, &spec, &old));
		say("interval was %ld", (long)old.it_interval.tv_sec);
		SHOW(poll(&ready, 1, 3000));
		say("revents %#x", (unsigned)ready.revents);
		/* Setting it again takes back what has come. */
		spec = every(0, 0);
		timerfd_settime(fd, 0, &spec, 0);
		SHOW(poll(&ready, 1, 0));
		close(fd);
	}
	int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK), other = open("/dev/null", O_RDWR);
	SHOW(write(fd, &count, 8));
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(pread(fd, &count, 8, 0));
	SHOW(syscall(SYS_read, fd, 16, 8));
	SHOW(ftruncate(fd, 0));
	spec = every(1000, 0);
	SHOW(timerfd_settime(fd, 4, &spec, 0));
	SHOW(timerfd_settime(fd, TFD_TIMER_CANCEL_ON_SET, &spec, 0));
	SHOW(timerfd_settime(other, 0, &spec, 0));
	SHOW(timerfd_settime(-1, 0, &spec, 0));
	SHOW(timerfd_gettime(other, &spec));
	SHOW(timerfd_gettime(-1, &spec));
	SHOW(syscall(SYS_timerfd_settime, fd, 0, 16, 0));
	SHOW(syscall(SYS_timerfd_settime, fd, 0, &spec, 16));
	SHOW(syscall(SYS_timerfd_gettime, fd, 16));
	spec.it_value.tv_nsec = SECOND;
	SHOW(timerfd_settime(fd, 0, &spec, 0));
	/* The clock is set: a timer on it that is asked to says so, others come when the clock says. */
	int second = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
	clock_gettime(CLOCK_REALTIME, &now);
	spec = (struct itimerspec){ .it_value = { now.tv_sec + 1000, 0 } };
	timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &spec, 0);
	timerfd_settime(second, TFD_TIMER_ABSTIME, &spec, 0);
	struct timespec later = { now.tv_sec + 2000, now.tv_nsec };
	SHOW(clock_settime(CLOCK_REALTIME, &later));
	SHOW(read(fd, &count, 8));
	ready = (struct pollfd){ second, POLLIN, 0 };
	SHOW(poll(&ready, 1, 3000));
	SHOW(read(second, &count, 8));
	SHOW(clock_settime(CLOCK_REALTIME, &now));
	close(fd), close(second), close(other);
}

int main(void)
{
	posix_timers();
	timer_files();
	return 0;
}
