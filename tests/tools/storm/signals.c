/* Storms of signals and timers. */
#include "storm.h"
#include <sys/timerfd.h>

/* A queue that is full of signals that wait. */
static void queue(void)
{
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, 0);
	while (sigqueue(getpid(), SIGRTMIN, (union sigval){ 0 }) == 0)
		did();
	refused(errno);
	/* They are taken one by one. */
	while (sigtimedwait(&set, 0, &(struct timespec){ 0, 0 }) > 0)
		;
}

static void on_signal(int number)
{
	(void)number;
	did();
}

/* A signal to itself, without end. */
static void itself(void)
{
	signal(SIGUSR1, on_signal);
	for (;;)
		kill(getpid(), SIGUSR1);
}

static void nest(int number)
{
	did();
	raise(number);
}

/* A handler in a handler in a handler, until the stack is full. */
static void nesting(void)
{
	struct sigaction action = { .sa_handler = nest, .sa_flags = SA_NODEFER };
	for (;;) {
		pid_t pid = fork();
		if (pid == 0) {
			sigaction(SIGUSR1, &action, 0);
			raise(SIGUSR1);
		}
		if (wait_for(pid) != SIGSEGV)
			_exit(7);
	}
}

/* Timers that are due faster than their signals are handled. */
static void timers(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	struct itimerspec fast = { { 0, 100000 }, { 0, 100000 } };
	sigset_t set;
	int id;
	signal(SIGRTMIN, on_signal);
	sigemptyset(&set), sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, 0);
	while (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id) == 0)
		syscall(SYS_timer_settime, id, 0, &fast, 0);
	refused(errno);
	sigprocmask(SIG_UNBLOCK, &set, 0);
	for (;;)
		;
}

static void timer_files(void)
{
	struct itimerspec fast = { { 0, 100000 }, { 0, 100000 } };
	int fd;
	many_descriptors();
	while ((fd = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0) {
		timerfd_settime(fd, 0, &fast, 0);
		did();
	}
	refused(errno);
	for (;;)
		for (fd = TOLD_FD - 1; fd < 500; fd++) {
			struct itimerspec left;
			timerfd_gettime(fd, &left);
		}
}

const struct storm signal_storms[] = {
	{ "queue", queue, EAGAIN, 500, 1000, 0 },
	{ "itself", itself, UNBOUNDED, 1000, 300, 0 },
	{ "nesting", nesting, UNBOUNDED, 5000, 400, 0 },
	{ "timers", timers, EAGAIN, 500, 500, 0 },
	{ "timer-files", timer_files, EMFILE, 900, 500, 0 },
	{ 0 },
};
