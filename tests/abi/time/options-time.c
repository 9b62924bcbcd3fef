/* Clocks, timers, signals and futexes, each call with each of its flags and commands, made directly: what the other programs do not
 * make (docs/syscalls.md). */
#include "t.h"

#include <sys/time.h>

#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_REQUEUE 3
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_WAKE_OP 5
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAKE_BITSET 10
#define FUTEX_PRIVATE_FLAG 128
#define FUTEX_CLOCK_REALTIME 256
#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)

static void clocks(void)
{
	section("clocks");
	for (int clock = 0; clock < 13; clock++) {
		struct timespec now = { -1, -1 }, resolution = { -1, -1 }, soon = { 0, 1000000 };
		long got = CALL(clock_gettime, clock, &now), known = CALL(clock_getres, clock, &resolution);
		say("%d: %ld %d, %ld %ld.%09ld", clock, got, now.tv_sec >= 0, known, (long)resolution.tv_sec, (long)resolution.tv_nsec);
		if (clock == CLOCK_PROCESS_CPUTIME_ID)
			soon.tv_nsec = 0;
		errno = 0;
		long slept = CALL(clock_nanosleep, clock, 0, &soon, 0);
		say("sleeps: %ld %s", slept, error_name(errno));
		struct sigevent none = { .sigev_notify = SIGEV_NONE };
		int timer;
		errno = 0;
		long made = CALL(timer_create, clock, &none, &timer);
		say("timer: %ld %s", made, error_name(errno));
		if (made == 0)
			CALL(timer_delete, timer);
		errno = 0;
		long fd = CALL(timerfd_create, clock, O_CLOEXEC | O_NONBLOCK);
		say("file: %d %s", fd >= 0, error_name(errno));
		if (fd >= 0)
			close(fd);
	}
	struct timespec past = { 1, 0 };
	SHOW(CALL(clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &past, 0));
	SHOW(CALL(clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &past, 0));
	long seconds = 0;
	CHECK(CALL(time, &seconds) == seconds && seconds > 0);
	struct itimerval value;
	for (int which = 0; which < 4; which++)
		say("getitimer %d: %ld %ld", which, CALL(getitimer, which, &value), (long)value.it_value.tv_sec);
	SHOW(CALL(alarm, 100));
	CHECK(CALL(alarm, 0) >= 99);
}

static int came;
static void handler(int signal)
{
	came = signal;
}

static void signals(void)
{
	section("signals");
	static const int flags[] = { SA_NOCLDSTOP, SA_NOCLDWAIT, SA_SIGINFO, SA_ONSTACK, SA_RESTART, SA_NODEFER, (int)SA_RESETHAND };
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
		struct sigaction action = { .sa_handler = handler, .sa_flags = flags[i] }, back;
		sigaction(SIGUSR1, &action, 0);
		came = 0;
		CALL(tgkill, getpid(), getpid(), SIGUSR1);
		sigaction(SIGUSR1, 0, &back);
		say("flags %x: came %d, then %x, %s", flags[i], came == SIGUSR1, (unsigned)back.sa_flags & ~0x04000000u,
		    back.sa_handler == SIG_DFL ? "default" : "handler");
	}
	struct sigaction action = { .sa_handler = handler };
	sigaction(SIGALRM, &action, 0);
	/* Again and again, should one come before the wait. */
	struct itimerval soon = { { 0, 20000 }, { 0, 20000 } }, never = { 0 };
	came = 0;
	setitimer(ITIMER_REAL, &soon, 0);
	SHOW(CALL(pause));
	setitimer(ITIMER_REAL, &never, 0);
	say("came %d", came == SIGALRM);
	uint64_t empty = 0;
	came = 0;
	setitimer(ITIMER_REAL, &soon, 0);
	SHOW(CALL(rt_sigsuspend, &empty, 8));
	setitimer(ITIMER_REAL, &never, 0);
	say("came %d", came == SIGALRM);
	uint64_t one = 1 << (SIGUSR2 - 1);
	CALL(rt_sigprocmask, SIG_BLOCK, &one, 0, 8);
	siginfo_t info = { .si_code = SI_QUEUE };
	info.si_signo = SIGUSR2, info.si_value.sival_int = 42;
	SHOW(CALL(rt_tgsigqueueinfo, getpid(), getpid(), SIGUSR2, &info));
	int fd = CALL(signalfd, -1, &one, 8);
	unsigned char buffer[128];
	SHOW(read(fd, buffer, sizeof buffer));
	say("signal %d", buffer[0] == SIGUSR2);
	static char stack[65536];
	stack_t new = { .ss_sp = stack, .ss_size = sizeof stack, .ss_flags = SS_ONSTACK }, old;
	SHOW(CALL(sigaltstack, &new, 0));
	SHOW(CALL(sigaltstack, 0, &old));
	say("flags %d", old.ss_flags);
	new.ss_flags = SS_DISABLE;
	SHOW(CALL(sigaltstack, &new, 0));
}

static int word;
static void futexes(void)
{
	section("futexes");
	struct timespec soon = { 0, 5000000 }, past = { 1, 0 };
	for (int private = 0; private <= FUTEX_PRIVATE_FLAG; private += FUTEX_PRIVATE_FLAG) {
		SHOW(CALL(futex, &word, FUTEX_WAIT | private, 0, &soon, 0, 0));
		SHOW(CALL(futex, &word, FUTEX_WAIT | private, 1, &soon, 0, 0));
		SHOW(CALL(futex, &word, FUTEX_WAIT_BITSET | private, 0, &past, 0, 5));
		SHOW(CALL(futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME | private, 0, &past, 0, 5));
		SHOW(CALL(futex, &word, FUTEX_WAIT_BITSET | private, 0, &past, 0, 0));
		SHOW(CALL(futex, &word, FUTEX_WAKE | private, 1, 0, 0, 0));
		SHOW(CALL(futex, &word, FUTEX_WAKE_BITSET | private, 1, 0, 0, 1));
		static int other;
		SHOW(CALL(futex, &word, FUTEX_REQUEUE | private, 1, 1L, &other, 0));
		SHOW(CALL(futex, &word, FUTEX_CMP_REQUEUE | private, 1, 1L, &other, 0));
		SHOW(CALL(futex, &word, FUTEX_CMP_REQUEUE | private, 1, 1L, &other, 9));
		SHOW(CALL(futex, &word, FUTEX_WAKE_OP | private, 1, 1L, &other, 1 << 28 | 3 << 12 /* add 3, if 0 */));
		say("other %d", other);
		other = 0;
	}
	/* A waiter that a bit wakes. */
	int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = must_fork();
	if (pid == 0) {
		long got = CALL(futex, shared, FUTEX_WAIT_BITSET, 0, 0, 0, 2);
		say("woken: %ld", got);
		_exit(0);
	}
	long woken = 0;
	while (woken == 0) {
		woken = CALL(futex, shared, FUTEX_WAKE_BITSET, 1, 0, 0, 1);
		say("other bits wake %ld", woken);
		do
			woken = CALL(futex, shared, FUTEX_WAKE_BITSET, 1, 0, 0, 6);
		while (woken == 0 && waitpid(pid, 0, WNOHANG) == 0);
	}
	wait_for(pid);
	say("woke %ld", woken);
}

int main(void)
{
	clocks();
	signals();
	futexes();
	return 0;
}
