/* Time: clocks and their order, sleeps, interval timers, alarm, processor time. POSIX timers and timerfd: see timers.c. */
#include "t.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>

static volatile int rings;
static void on(int number) { (void)number; rings++; }

static void clocks(void)
{
	section("clocks");
	static const struct { clockid_t id; const char *name; } list[] = {
		{ CLOCK_REALTIME, "REALTIME" }, { CLOCK_MONOTONIC, "MONOTONIC" }, { CLOCK_PROCESS_CPUTIME_ID, "PROCESS_CPUTIME" },
		{ CLOCK_THREAD_CPUTIME_ID, "THREAD_CPUTIME" }, { CLOCK_MONOTONIC_RAW, "MONOTONIC_RAW" }, { CLOCK_REALTIME_COARSE, "REALTIME_COARSE" },
		{ CLOCK_MONOTONIC_COARSE, "MONOTONIC_COARSE" }, { CLOCK_BOOTTIME, "BOOTTIME" },
	};
	struct timespec now, then;
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		int got = clock_gettime(list[i].id, &then), backwards = 0;
		for (int n = 0; n < 2000 && got == 0; n++) {
			got = clock_gettime(list[i].id, &now);
			if (now.tv_sec < then.tv_sec || (now.tv_sec == then.tv_sec && now.tv_nsec < then.tv_nsec))
				backwards++;
			then = now;
		}
		/* The system call itself, without the vDSO. */
		long raw = syscall(SYS_clock_gettime, list[i].id, &now);
		say("%s: %d backwards %d, by system call %ld, nanoseconds in range %d, not behind %d", list[i].name, got, backwards, raw,
		    now.tv_nsec >= 0 && now.tv_nsec < 1000000000, now.tv_sec > then.tv_sec || (now.tv_sec == then.tv_sec && now.tv_nsec >= then.tv_nsec));
	}
	SHOW(clock_gettime(99, &now));
	SHOW(clock_gettime(-1, &now));
	SHOW(clock_getres(CLOCK_MONOTONIC, &now));
	say("%ld %ld", (long)now.tv_sec, now.tv_nsec);
	SHOW(clock_getres(CLOCK_REALTIME_COARSE, &now));
	CHECK(now.tv_nsec >= 1000000 && now.tv_nsec <= 10000000);
	SHOW(clock_getres(99, &now));
	struct timeval day;
	SHOW(gettimeofday(&day, 0));
	clock_gettime(CLOCK_REALTIME, &now);
	CHECK(now.tv_sec - day.tv_sec <= 1 && now.tv_sec >= day.tv_sec);
	CHECK(time(0) >= day.tv_sec - 1 && time(0) <= day.tv_sec + 2);
	CHECK(day.tv_sec > 1700000000);
	struct tms tms;
	CHECK(times(&tms) > 0);
	SHOW(sysconf(_SC_CLK_TCK));
}

static void sleeping(void)
{
	section("sleep");
	long start = ms(CLOCK_MONOTONIC);
	SHOW(nanosleep(&(struct timespec){ 0, 30000000 }, 0));
	long took = ms(CLOCK_MONOTONIC) - start;
	CHECK(took >= 30 && took < 1000);
	SHOW(nanosleep(&(struct timespec){ 0, 0 }, 0));
	SHOW(nanosleep(&(struct timespec){ -1, 0 }, 0));
	SHOW(nanosleep(&(struct timespec){ 0, 1000000000 }, 0));
	SHOW(nanosleep(&(struct timespec){ 0, -1 }, 0));
	struct timespec when;
	start = ms(CLOCK_MONOTONIC);
	clock_gettime(CLOCK_MONOTONIC, &when);
	when.tv_nsec += 30000000;
	if (when.tv_nsec >= 1000000000)
		when.tv_sec++, when.tv_nsec -= 1000000000;
	SHOW(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, 0));
	took = ms(CLOCK_MONOTONIC) - start;
	CHECK(took >= 29 && took < 1000);
	SHOW(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, 0));
	clock_gettime(CLOCK_REALTIME, &when);
	when.tv_sec--;
	SHOW(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &when, 0));
	SHOW(clock_nanosleep(99, 0, &when, 0));
	SHOW(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &when, 0));
	/* Ten sleepers at once take as long as one. */
	start = ms(CLOCK_MONOTONIC);
	for (int i = 0; i < 10; i++)
		if (must_fork() == 0) {
			nap(500);
			_exit(0);
		}
	while (wait(0) > 0)
		;
	took = ms(CLOCK_MONOTONIC) - start;
	CHECK(took >= 500 && took < 4500);
}

/* A sleep that a handler ended is not gone on with by restart_syscall, which is only for the kernel to make a program call. */
static void restarted(void)
{
	section("restart_syscall");
	signal(SIGALRM, on);
	setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 20000 } }, 0);
	SHOW(nanosleep(&(struct timespec){ 5, 0 }, 0));
	SHOW(syscall(SYS_restart_syscall));
	rings = 0;
}

/* Works until the bell rings, but not for ever. */
static void work(void)
{
	for (long start = ms(CLOCK_MONOTONIC); rings == 0 && ms(CLOCK_MONOTONIC) - start < 5000;)
		;
}

static void timers(void)
{
	section("timers");
	struct itimerval timer = { .it_value = { 0, 20000 } }, old;
	signal(SIGALRM, on);
	SHOW(setitimer(ITIMER_REAL, &timer, 0));
	SHOW(pause());
	SHOW(rings);
	timer.it_interval.tv_usec = 10000;
	rings = 0;
	setitimer(ITIMER_REAL, &timer, 0);
	while (rings < 5)
		pause();
	SHOW(getitimer(ITIMER_REAL, &old));
	say("interval %ld, value in range %d", (long)old.it_interval.tv_usec, old.it_value.tv_sec == 0 && old.it_value.tv_usec <= 10000);
	timer = (struct itimerval){ 0 };
	SHOW(setitimer(ITIMER_REAL, &timer, &old));
	say("interval %ld", (long)old.it_interval.tv_usec);
	SHOW(getitimer(ITIMER_REAL, &old));
	say("%ld %ld", (long)old.it_value.tv_sec, (long)old.it_value.tv_usec);
	timer.it_value.tv_usec = 1000000;
	SHOW(setitimer(ITIMER_REAL, &timer, 0));
	SHOW(setitimer(99, &(struct itimerval){ 0 }, 0));
	SHOW(getitimer(99, &old));
	SHOW(alarm(100));
	SHOW(alarm(50) > 90);
	SHOW(alarm(0) > 40);
	SHOW(alarm(0));
	alarm(50);
	pid_t pid = must_fork();
	if (pid == 0) {
		say("child's alarm: %u", alarm(0));
		_exit(0);
	}
	wait_for(pid);
	alarm(0);
	/* Processor time, not the clock's. */
	signal(SIGVTALRM, on), signal(SIGPROF, on);
	rings = 0;
	timer = (struct itimerval){ .it_value = { 0, 30000 } };
	setitimer(ITIMER_VIRTUAL, &timer, 0);
	nap(60);
	say("asleep: %d", rings);
	work();
	say("after work: %d", rings);
	rings = 0;
	setitimer(ITIMER_PROF, &timer, 0);
	work();
	say("profiling: %d", rings);
	timer_t id;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	event.sigev_value.sival_int = 99;
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, SIGUSR1), sigprocmask(SIG_BLOCK, &set, 0);
	if (SHOW(timer_create(CLOCK_MONOTONIC, &event, &id)) == 0) {
		struct itimerspec spec = { .it_value = { 0, 20000000 } };
		SHOW(timer_settime(id, 0, &spec, 0));
		siginfo_t info;
		SHOW(sigtimedwait(&set, &info, &(struct timespec){ 3, 0 }));
		say("code %d value %d", info.si_code, info.si_value.sival_int);
		spec.it_interval.tv_nsec = 5000000;
		timer_settime(id, 0, &spec, 0);
		nap(60);
		sigtimedwait(&set, &info, &(struct timespec){ 3, 0 });
		CHECK(timer_getoverrun(id) > 0);
		SHOW(timer_delete(id));
		SHOW(timer_delete(id));
	}
	SHOW(timer_create(99, &event, &id));
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	if (fd < 0) {
		say("timerfd: %s", error_name(errno));
		return;
	}
	uint64_t expired = 0;
	SHOW(read(fd, &expired, 8));
	struct itimerspec spec = { .it_value = { 0, 10000000 }, .it_interval = { 0, 10000000 } };
	SHOW(timerfd_settime(fd, 0, &spec, 0));
	struct pollfd ready = { fd, POLLIN, 0 };
	SHOW(poll(&ready, 1, 3000));
	nap(50);
	SHOW(read(fd, &expired, 8));
	CHECK(expired >= 4 && expired < 100);
	SHOW(read(fd, &expired, 4));
	SHOW(timerfd_gettime(fd, &spec));
	say("interval %ld", spec.it_interval.tv_nsec);
	SHOW(timerfd_create(99, 0));
}

static void usage(void)
{
	section("processor time");
	struct rusage before, after;
	SHOW(getrusage(RUSAGE_SELF, &before));
	long start = ms(CLOCK_PROCESS_CPUTIME_ID);
	while (ms(CLOCK_PROCESS_CPUTIME_ID) - start < 50)
		;
	getrusage(RUSAGE_SELF, &after);
	long used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000 + (after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1000 +
		    (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000 + (after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1000;
	CHECK(used >= 30 && used < 500);
	SHOW(getrusage(RUSAGE_CHILDREN, &before));
	pid_t pid = must_fork();
	if (pid == 0) {
		long begin = ms(CLOCK_PROCESS_CPUTIME_ID);
		while (ms(CLOCK_PROCESS_CPUTIME_ID) - begin < 50)
			;
		_exit(0);
	}
	wait_for(pid);
	getrusage(RUSAGE_CHILDREN, &after);
	used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000 + (after.ru_utime.tv_usec - before.ru_utime.tv_usec) / 1000 +
	       (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000 + (after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1000;
	CHECK(used >= 30 && used < 500);
	SHOW(getrusage(RUSAGE_THREAD, &after));
	SHOW(getrusage(99, &after));
	getrusage(RUSAGE_SELF, &before);
	char *area = mmap(0, 100 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 100; i++)
		area[i * 4096] = 1;
	getrusage(RUSAGE_SELF, &after);
	CHECK(after.ru_minflt - before.ru_minflt >= 1 && after.ru_minflt - before.ru_minflt <= 110);
	CHECK(after.ru_maxrss > 100);
	struct rlimit limit = { 1, 2 };
	pid = must_fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CPU, &limit);
		for (volatile long i = 0;; i++)
			;
	}
	say("processor time to the limit: %s", status_text(wait_for(pid)));
}

int main(void)
{
	clocks();
	sleeping();
	restarted();
	timers();
	usage();
	return 0;
}
