/* The wall clock is set: who waits for a moment on it waits longer or less, who waits for a length of time does not notice. */
#include "t.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/timerfd.h>

#define FUTEX_WAIT_BITSET 9
#define FUTEX_CLOCK_REALTIME 256
#define HOUR 3600

static struct timespec in(clockid_t clock, long seconds, long milliseconds)
{
	struct timespec at;
	clock_gettime(clock, &at);
	at.tv_nsec += milliseconds * 1000000;
	at.tv_sec += seconds + at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

/* Moves the wall clock by so many seconds. */
static void move(long seconds)
{
	struct timespec to = in(CLOCK_REALTIME, seconds, 0);
	if (clock_settime(CLOCK_REALTIME, &to))
		say("clock_settime: %s", error_name(errno));
}

/* A wait that a thread makes while another sets the clock. */
struct wait {
	const char *name;
	int (*make)(void);
	int result;
	long took;     /* ms */
	pid_t tid;
};

static void *make_wait(void *of)
{
	struct wait *wait = of;
	__atomic_store_n(&wait->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	long began = ms(CLOCK_MONOTONIC);
	wait->result = wait->make();
	wait->took = ms(CLOCK_MONOTONIC) - began;
	return 0;
}

/* Waits until the thread sleeps. */
static void until_asleep(pid_t *tid)
{
	char path[64];
	for (int i = 0; i < 5000; i++) {
		pid_t id = __atomic_load_n(tid, __ATOMIC_SEQ_CST);
		if (id) {
			snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
			char *text = read_file(path), *state = text ? strrchr(text, ')') : 0;
			int sleeps = state && state[2] == 'S';
			free(text);
			if (sleeps)
				return;
		}
		nap(1);
	}
	say("does not sleep");
}

/* Makes the waits at once, moves the clock by `seconds` and says which of them took less than `limit` and how they ended. */
static void meanwhile(const char *text, long seconds, long limit, struct wait *waits, int count)
{
	pthread_t threads[16];
	section(text);
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], 0, make_wait, &waits[i]);
	for (int i = 0; i < count; i++)
		until_asleep(&waits[i].tid);
	move(seconds);
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i], 0);
		say("%s: %s, %s", waits[i].name, error_name(waits[i].result), waits[i].took < limit ? "early" : "late");
	}
	move(-seconds);
}

static int sleep_on(clockid_t clock, int flags, long seconds, long milliseconds)
{
	struct timespec time = flags ? in(clock, seconds, milliseconds) : (struct timespec){ seconds, milliseconds * 1000000 };
	return clock_nanosleep(clock, flags, &time, 0);
}

static int futex_wait(clockid_t clock, long seconds, long milliseconds)
{
	struct timespec at = in(clock, seconds, milliseconds);
	int word = 1, op = FUTEX_WAIT_BITSET | (clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);
	return syscall(SYS_futex, &word, op, 1, &at, 0, -1) ? errno : 0;
}

static int far_sleep(void) { return sleep_on(CLOCK_REALTIME, TIMER_ABSTIME, HOUR, 0); }
static int far_sleep_tai(void) { return sleep_on(CLOCK_TAI, TIMER_ABSTIME, HOUR, 0); }
static int far_sleep_alarm(void) { return sleep_on(CLOCK_REALTIME_ALARM, TIMER_ABSTIME, HOUR, 0); }
static int long_sleep_tai(void) { return sleep_on(CLOCK_TAI, 0, HOUR, 0); }
static int long_sleep_alarm(void) { return sleep_on(CLOCK_REALTIME_ALARM, 0, HOUR, 0); }
static int far_futex(void) { return futex_wait(CLOCK_REALTIME, HOUR, 0); }
static int later_sleep(void) { return sleep_on(CLOCK_REALTIME, TIMER_ABSTIME, HOUR + 1, 200); }
static int short_sleep(void) { return sleep_on(CLOCK_REALTIME, 0, 0, 900); }
static int short_sleep_monotonic(void) { return sleep_on(CLOCK_MONOTONIC, TIMER_ABSTIME, 0, 900); }
static int short_futex_monotonic(void) { return futex_wait(CLOCK_MONOTONIC, 0, 900); }
static int near_sleep(void) { return sleep_on(CLOCK_REALTIME, TIMER_ABSTIME, 0, 400); }
static int near_futex(void) { return futex_wait(CLOCK_REALTIME, 0, 400); }
static int near_sleep_monotonic(void) { return sleep_on(CLOCK_MONOTONIC, TIMER_ABSTIME, 0, 400); }

static void waits(void)
{
	struct wait forward[] = {
		{ .name = "clock_nanosleep", .make = far_sleep },
		{ .name = "clock_nanosleep TAI", .make = far_sleep_tai },
		{ .name = "clock_nanosleep alarm", .make = far_sleep_alarm },
		{ .name = "clock_nanosleep TAI, relative", .make = long_sleep_tai },
		{ .name = "clock_nanosleep alarm, relative", .make = long_sleep_alarm },
		{ .name = "futex", .make = far_futex },
	};
	meanwhile("forward beyond the moment", HOUR + 1, 10000, forward, 6);
	struct wait nearly[] = { { .name = "clock_nanosleep", .make = later_sleep } };
	meanwhile("forward to a moment before", HOUR, 1000, nearly, 1);
	struct wait lengths[] = {
		{ .name = "clock_nanosleep, relative", .make = short_sleep },
		{ .name = "clock_nanosleep, monotonic", .make = short_sleep_monotonic },
		{ .name = "futex, monotonic", .make = short_futex_monotonic },
	};
	meanwhile("lengths of time, forward", HOUR, 900, lengths, 3);
	struct wait back[] = {
		{ .name = "clock_nanosleep", .make = near_sleep },
		{ .name = "futex", .make = near_futex },
		{ .name = "clock_nanosleep, monotonic", .make = near_sleep_monotonic },
	};
	meanwhile("back", -1, 1200, back, 3);
}

static timer_t timer_on(clockid_t clock, int notify)
{
	struct sigevent event = { .sigev_notify = notify, .sigev_signo = SIGRTMIN };
	timer_t timer;
	if (timer_create(clock, &event, &timer))
		say("timer_create: %s", error_name(errno));
	return timer;
}

static void set(timer_t timer, int flags, struct timespec value, long interval)
{
	struct itimerspec to = { .it_interval = { interval, 0 }, .it_value = value };
	if (timer_settime(timer, flags, &to, 0))
		say("timer_settime: %s", error_name(errno));
}

/* Whole seconds to the next expiry, to the nearest ten: what the test itself takes does not show. */
static void tell(const char *text, timer_t timer)
{
	struct itimerspec now;
	timer_gettime(timer, &now);
	say("%s: %ld, each %ld", text, (long)(now.it_value.tv_sec + 5) / 10 * 10, (long)now.it_interval.tv_sec);
}

/* Takes the signal, if it comes within `milliseconds`. */
static int taken(int milliseconds)
{
	sigset_t signals;
	sigemptyset(&signals), sigaddset(&signals, SIGRTMIN);
	struct timespec limit = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
	return sigtimedwait(&signals, 0, &limit) == SIGRTMIN;
}

static void posix_timers(void)
{
	section("POSIX timers");
	sigset_t signals;
	sigemptyset(&signals), sigaddset(&signals, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &signals, 0);
	timer_t timer = timer_on(CLOCK_REALTIME, SIGEV_SIGNAL);
	set(timer, TIMER_ABSTIME, in(CLOCK_REALTIME, HOUR, 0), 0);
	tell("set", timer);
	move(HOUR / 2);
	tell("half an hour forward", timer);
	move(-HOUR);
	tell("an hour back", timer);
	CHECK(!taken(0));
	move(2 * HOUR);
	CHECK(taken(10000));
	tell("beyond", timer);
	move(-HOUR - HOUR / 2);
	CHECK(!taken(50));

	set(timer, 0, (struct timespec){ HOUR, 0 }, 0);
	move(2 * HOUR);
	tell("relative, two hours forward", timer);
	CHECK(!taken(0));
	move(-2 * HOUR);

	set(timer, TIMER_ABSTIME, in(CLOCK_REALTIME, 100, 0), 600);
	move(HOUR);
	CHECK(taken(10000));
	SHOW(timer_getoverrun(timer));
	tell("periodic, an hour forward", timer);
	move(-HOUR);
	tell("and back", timer);
	move(2 * HOUR);
	CHECK(taken(10000));
	SHOW(timer_getoverrun(timer));
	move(-2 * HOUR);
	set(timer, 0, (struct timespec){ 100, 0 }, 600);
	move(HOUR);
	tell("relative and periodic, an hour forward", timer);
	move(-HOUR);
	timer_delete(timer);

	timer = timer_on(CLOCK_REALTIME, SIGEV_NONE);
	set(timer, TIMER_ABSTIME, in(CLOCK_REALTIME, 1000, 0), 0);
	move(500);
	tell("silent, forward", timer);
	move(1000);
	tell("silent, beyond", timer);
	move(-1500);
	tell("silent, back", timer);
	set(timer, TIMER_ABSTIME, in(CLOCK_REALTIME, 1000, 0), 300);
	move(1500);
	tell("silent and periodic, beyond", timer);
	move(-1500);
	timer_delete(timer);

	timer = timer_on(CLOCK_TAI, SIGEV_SIGNAL);
	set(timer, 0, (struct timespec){ HOUR, 0 }, 0);
	move(HOUR / 2);
	tell("TAI, relative, forward", timer);
	move(HOUR);
	CHECK(taken(10000));
	move(-HOUR - HOUR / 2);
	timer_delete(timer);

	timer = timer_on(CLOCK_MONOTONIC, SIGEV_SIGNAL);
	set(timer, TIMER_ABSTIME, in(CLOCK_MONOTONIC, HOUR, 0), 0);
	move(2 * HOUR);
	tell("monotonic, forward", timer);
	move(-2 * HOUR);
	timer_delete(timer);

	struct itimerval real = { .it_value = { HOUR, 0 } };
	setitimer(ITIMER_REAL, &real, 0);
	move(2 * HOUR);
	getitimer(ITIMER_REAL, &real);
	CHECK(real.it_value.tv_sec > HOUR - 100);
	move(-2 * HOUR);
	alarm(0);
}

static void alarm_clocks(void)
{
	section("alarm clocks");
	timer_t timer;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	if (SHOW(timer_create(CLOCK_REALTIME_ALARM, &event, &timer)))
		return;
	set(timer, 0, (struct timespec){ HOUR, 0 }, 0);
	move(HOUR / 2);
	tell("relative, half an hour forward", timer);
	move(HOUR);
	CHECK(taken(10000));
	move(-HOUR - HOUR / 2);
	timer_delete(timer);
	int fd = timerfd_create(CLOCK_REALTIME_ALARM, TFD_NONBLOCK);
	struct itimerspec to = { .it_value = { HOUR, 0 } };
	SHOW(timerfd_settime(fd, 0, &to, 0));
	move(HOUR / 2);
	timerfd_gettime(fd, &to);
	say("%ld", (long)(to.it_value.tv_sec + 5) / 10 * 10);
	move(-HOUR / 2);
	close(fd);
}

static void tell_file(const char *text, int fd)
{
	struct itimerspec now;
	timerfd_gettime(fd, &now);
	say("%s: %ld, each %ld", text, (long)(now.it_value.tv_sec + 5) / 10 * 10, (long)now.it_interval.tv_sec);
}

static int set_file(int fd, int flags, struct timespec value, long interval)
{
	struct itimerspec to = { .it_interval = { interval, 0 }, .it_value = value };
	return timerfd_settime(fd, flags, &to, 0);
}

/* What a poll, a read and another poll find. */
static void ask_file(const char *text, int fd, int milliseconds)
{
	uint64_t count = 0;
	struct pollfd before = { fd, POLLIN, 0 }, after = before;
	int polled = poll(&before, 1, milliseconds);
	errno = 0;
	long got = read(fd, &count, 8);
	int error = errno;
	poll(&after, 1, 0);
	say("%s: poll %d %x, read %ld %s, %llu, then %x", text, polled, before.revents, got, error_name(error), (unsigned long long)count,
	    after.revents);
}

static void ready(int fd)
{
	struct pollfd one = { fd, POLLIN, 0 };
	poll(&one, 1, 10000);
}

static void timer_files(void)
{
	section("timer files");
	int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
	set_file(fd, TFD_TIMER_ABSTIME, in(CLOCK_REALTIME, HOUR, 0), 0);
	move(HOUR / 2);
	tell_file("half an hour forward", fd);
	ask_file("half an hour forward", fd, 0);
	move(HOUR);
	ask_file("beyond", fd, 10000);
	tell_file("beyond", fd);
	move(-HOUR - HOUR / 2);
	set_file(fd, TFD_TIMER_ABSTIME, in(CLOCK_REALTIME, 100, 0), 600);
	move(HOUR);
	ask_file("periodic", fd, 10000);
	tell_file("periodic", fd);
	move(-HOUR);
	tell_file("periodic, back", fd);
	move(2 * HOUR);
	ask_file("periodic, again", fd, 10000);
	move(-2 * HOUR);
	set_file(fd, 0, (struct timespec){ HOUR, 0 }, 0);
	move(2 * HOUR);
	tell_file("relative", fd);
	ask_file("relative", fd, 0);
	move(-2 * HOUR);
	/* The clock goes back after it went off, and before it is read. */
	set_file(fd, TFD_TIMER_ABSTIME, in(CLOCK_REALTIME, 0, 20), 600);
	ready(fd);
	move(-HOUR);
	ask_file("periodic, set back", fd, 0);
	tell_file("periodic, set back", fd);
	move(HOUR);
	set_file(fd, TFD_TIMER_ABSTIME, in(CLOCK_REALTIME, 0, 20), 600);
	ready(fd);
	fcntl(fd, F_SETFL, 0);
	move(-HOUR);
	ask_file("periodic and blocking, set back", fd, 0);
	move(HOUR);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	set_file(fd, TFD_TIMER_ABSTIME, in(CLOCK_REALTIME, 0, 20), 0);
	ready(fd);
	move(-HOUR);
	tell_file("once, set back", fd);
	ask_file("once, set back", fd, 0);
	tell_file("once, read", fd);
	move(HOUR);
	close(fd);
}

static void *read_file_timer(void *fd)
{
	uint64_t count;
	return (void *)(long)(read(*(int *)fd, &count, 8) < 0 ? errno : 0);
}

struct reader {
	int fd, result;
	pid_t tid;
};

static void *block(void *of)
{
	struct reader *reader = of;
	__atomic_store_n(&reader->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	reader->result = (int)(long)read_file_timer(&reader->fd);
	return 0;
}

static void cancelled(void)
{
	section("timer files that want to know");
	const int both = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
	const struct timespec never = { 0x7fffffff, 0 }, none = { 0, 0 };
	int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
	SHOW(set_file(fd, both, never, 0));
	move(1);
	ask_file("set", fd, 10000);
	ask_file("read again", fd, 0);
	move(-1);
	ask_file("set again", fd, 10000);
	move(1);
	SHOW(set_file(fd, both, never, 0));
	ask_file("set before it was set anew", fd, 0);
	SHOW(set_file(fd, both, none, 0));
	move(1);
	ask_file("without a time", fd, 0);
	move(1);
	SHOW(set_file(fd, both, none, 0));
	ask_file("without a time, set anew", fd, 0);
	move(-1);
	SHOW(set_file(fd, TFD_TIMER_ABSTIME, never, 0));
	ask_file("no longer", fd, 0);
	move(1);
	ask_file("no longer", fd, 0);
	SHOW(set_file(fd, TFD_TIMER_CANCEL_ON_SET, never, 0));
	move(1);
	ask_file("relative", fd, 0);
	SHOW(set_file(fd, both, never, 0));
	ask_file("after it was set without asking", fd, 0);
	struct itimerspec old = { .it_value = { 7, 7 } }, to = { .it_value = never };
	move(1);
	SHOW(timerfd_settime(fd, both, &to, &old));
	say("%ld", (long)old.it_value.tv_sec);
	close(fd);

	/* It goes off as well. */
	fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
	SHOW(set_file(fd, both, in(CLOCK_REALTIME, 100, 0), 600));
	move(HOUR);
	nap(20);
	ask_file("it went off too", fd, 10000);
	tell_file("it went off too", fd);
	move(-HOUR);
	ask_file("back", fd, 0);
	tell_file("back", fd);
	close(fd);

	fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	SHOW(set_file(fd, both, in(CLOCK_MONOTONIC, HOUR, 0), 0));
	move(1);
	ask_file("monotonic", fd, 0);
	move(-1);
	close(fd);

	/* Who waits. */
	int blocking = timerfd_create(CLOCK_REALTIME, 0);
	SHOW(set_file(blocking, both, never, 0));
	struct reader reader = { .fd = blocking };
	pthread_t thread;
	pthread_create(&thread, 0, block, &reader);
	until_asleep(&reader.tid);
	move(1);
	pthread_join(thread, 0);
	say("a read that waited: %s", error_name(reader.result));
	int epoll = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u32 = 1 }, got;
	epoll_ctl(epoll, EPOLL_CTL_ADD, blocking, &event);
	SHOW(epoll_wait(epoll, &got, 1, 0));
	struct timeval now;
	gettimeofday(&now, 0);
	now.tv_sec--;
	SHOW(settimeofday(&now, 0));
	SHOW(epoll_wait(epoll, &got, 1, 10000));
	SHOW(epoll_wait(epoll, &got, 1, 0));

	/* Others of the same file, and many files. */
	int copy = dup(blocking);
	close(blocking);
	move(1);
	ask_file("a duplicate", copy, 0);
	move(-1);
	close(copy), close(epoll);
	enum { MANY = 300 };
	static int many[MANY];
	for (int i = 0; i < MANY; i++) {
		many[i] = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
		set_file(many[i], both, never, 0);
	}
	for (int i = 0; i < MANY; i += 3)
		close(many[i]);
	move(1);
	int told = 0;
	for (int i = 0; i < MANY; i++) {
		uint64_t count;
		told += read(many[i], &count, 8) < 0 && errno == ECANCELED;
	}
	say("of 200: %d", told);
	move(-1);
}

int main(void)
{
	waits();
	posix_timers();
	alarm_clocks();
	timer_files();
	cancelled();
	return 0;
}
