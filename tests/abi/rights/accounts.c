/* What a user may have of kernel memory: pipe pages, watches of epolls, signals that wait and timers. */
#include "t.h"

#include <grp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#ifndef F_SETPIPE_SZ
#define F_SETPIPE_SZ 1031
#define F_GETPIPE_SZ 1032
#endif

static char *soft, *hard, *size, *watches;

static void set(const char *name, const char *value)
{
	int fd = open(name, O_WRONLY);
	if (write(fd, value, strlen(value)) < 0)
		say("%s to %s: %s", value, strrchr(name, '/') + 1, error_name(errno));
	close(fd);
}

static void shown(const char *name)
{
	char *text = read_file(name);
	say("%s: %.*s", strrchr(name, '/') + 1, text ? (int)strcspn(text, "\n") : 0, text ? text : "");
	free(text);
}

#define SOFT "/proc/sys/fs/pipe-user-pages-soft"
#define HARD "/proc/sys/fs/pipe-user-pages-hard"
#define SIZE "/proc/sys/fs/pipe-max-size"
#define WATCHES "/proc/sys/fs/epoll/max_user_watches"

/* Runs it as that user, in a process of its own. */
static void as(uid_t uid, void (*body)(void))
{
	pid_t pid = must_fork();
	if (!pid) {
		setgroups(0, 0);
		setgid(uid);
		setuid(uid);
		body();
		exit(0);
	}
	wait_for(pid);
}

static int a_pipe(int *ends)
{
	if (pipe(ends)) {
		say("pipe: %s", error_name(errno));
		return 0;
	}
	return fcntl(ends[0], F_GETPIPE_SZ);
}

static void one_pipe(void)
{
	int ends[2];
	say("uid %d gets a pipe of %d", (int)getuid(), a_pipe(ends));
}

static void some_pipes(void)
{
	int ends[6][2];
	for (int i = 0; i < 6; i++)
		say("pipe %d of %d", i, a_pipe(ends[i]));
	SHOW(fcntl(ends[0][0], F_SETPIPE_SZ, 128 << 10));
	SHOW(fcntl(ends[0][0], F_SETPIPE_SZ, 4096));
	close(ends[1][0]);
	close(ends[1][1]);
	nap(50);
	SHOW(fcntl(ends[2][0], F_SETPIPE_SZ, 64 << 10));
	as(1001, one_pipe);
}

static void pipes_to_the_end(void)
{
	int ends[6][2];
	for (int i = 0; i < 6; i++)
		say("pipe %d of %d", i, a_pipe(ends[i]));
	SHOW(mkfifo("f", 0600));
	SHOW(open("f", O_RDWR));
	unlink("f");
	SHOW(fcntl(ends[0][0], F_SETPIPE_SZ, 128 << 10));
	char text[9000] = "";
	SHOW(write(ends[0][1], text, sizeof text));
	SHOW(fcntl(ends[0][0], F_SETPIPE_SZ, 8192));
	SHOW(fcntl(ends[0][0], F_SETPIPE_SZ, 16384));
	SHOW(a_pipe(ends[5]));
}

static void sized_pipes(void)
{
	int ends[2];
	say("a new one of %d", a_pipe(ends));
	SHOW(fcntl(ends[0], F_SETPIPE_SZ, 16384));
	SHOW(fcntl(ends[0], F_SETPIPE_SZ, 16385));
	SHOW(fcntl(ends[0], F_SETPIPE_SZ, 0));
	SHOW(fcntl(ends[0], F_SETPIPE_SZ, 1));
	SHOW(fcntl(ends[0], F_SETPIPE_SZ, 0x80000001u));
	SHOW(fcntl(ends[0], F_SETPIPE_SZ, 0x80000000u));
}

static void pipes(void)
{
	section("pipes");
	shown(SOFT);
	shown(HARD);
	shown(SIZE);
	set(SOFT, "40\n");
	as(1000, some_pipes);
	nap(50);
	as(1000, one_pipe);
	set(SOFT, "0");
	set(HARD, "50");
	as(1000, pipes_to_the_end);
	as(0, some_pipes);
	nap(50);
	as(1000, one_pipe);
	set(HARD, hard);
	set(SOFT, soft);
	set(SIZE, "5000");
	shown(SIZE);
	set(SIZE, "x");
	set(SIZE, "2147483649");
	set(SIZE, "16384");
	as(1000, sized_pipes);
	set(SIZE, size);
	shown(SIZE);
	set(SOFT, "-1");
	set(SOFT, "1x");
	shown(SOFT);
}

static int watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void one_watch(void)
{
	int epoll = epoll_create1(0), fd = eventfd(0, 0);
	say("uid %d: %s", (int)getuid(), watch(epoll, fd) ? error_name(errno) : "watches");
}

static void some_watches(void)
{
	int one = epoll_create1(0), two = epoll_create1(0), fd[6];
	for (int i = 0; i < 6; i++)
		fd[i] = eventfd(0, 0);
	SHOW(watch(one, fd[0]));
	SHOW(watch(one, fd[1]));
	SHOW(watch(two, fd[0]));
	SHOW(watch(two, one));
	SHOW(watch(two, fd[1]));
	SHOW(watch(one, fd[0]));
	SHOW(watch(one, one));
	SHOW(watch(one, two));
	SHOW(epoll_ctl(one, EPOLL_CTL_DEL, fd[0], 0));
	nap(50);
	SHOW(watch(two, fd[1]));
	SHOW(watch(two, fd[2]));
	as(1001, one_watch);
	SHOW(epoll_ctl(one, EPOLL_CTL_DEL, fd[1], 0));
	nap(50);
	SHOW(watch(two, fd[3]));
	SHOW(watch(two, fd[4]));
}

static void epolls(void)
{
	section("epolls");
	set(WATCHES, "4");
	shown(WATCHES);
	as(1000, some_watches);
	nap(50);
	as(1000, one_watch);
	set(WATCHES, "0");
	as(0, one_watch);
	set(WATCHES, "-1");
	shown(WATCHES);
	set(WATCHES, watches);
}

static void waiting(const char *what)
{
	char *text = read_file("/proc/self/status"), *line = text ? strstr(text, "SigQ:") : 0;
	if (line)
		say("%s: %.*s", what, (int)strcspn(line, "\n"), line);
	free(text);
}

static long queue_to(pid_t pid, int signal)
{
	return sigqueue(pid, signal, (union sigval){ 7 });
}

static void more_of_a_process(void)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, 0);
	waiting("another process");
	SHOW(queue_to(getpid(), SIGRTMIN));
	SHOW(kill(getpid(), SIGUSR2));
}

static void signals_of_a_user(void)
{
	struct rlimit limit = { 5, 8 };
	SHOW(setrlimit(RLIMIT_SIGPENDING, &limit));
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, 0);
	waiting("none");
	SHOW(queue_to(getpid(), SIGRTMIN));
	SHOW(queue_to(getpid(), SIGRTMIN));
	SHOW(queue_to(getpid(), SIGUSR1));
	waiting("three");
	timer_t one, two;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1 };
	SHOW(timer_create(CLOCK_MONOTONIC, &event, &one));
	event.sigev_notify = SIGEV_NONE;
	SHOW(timer_create(CLOCK_MONOTONIC, &event, &two));
	waiting("two timers");
	SHOW(timer_create(CLOCK_MONOTONIC, &event, &two));
	SHOW(queue_to(getpid(), SIGRTMIN));
	SHOW(queue_to(getpid(), SIGRTMIN + 3));
	/* A standard signal loses what it carries; kill's and the kernel's are not limited. */
	SHOW(queue_to(getpid(), SIGUSR2));
	SHOW(kill(getpid(), SIGRTMIN + 2));
	SHOW(syscall(SYS_tgkill, getpid(), getpid(), SIGRTMIN + 2));
	SHOW(kill(getpid(), SIGTERM));
	waiting("kill");
	as(1000, more_of_a_process);
	struct itimerspec soon = { .it_value = { 0, 1000 } };
	SHOW(timer_settime(one, 0, &soon, 0));
	nap(50);
	waiting("a timer's signal");
	siginfo_t info;
	struct timespec none = { 0, 0 };
	int n;
	sigdelset(&all, SIGCHLD);
	while ((n = sigtimedwait(&all, &info, &none)) > 0)
		say("%s code %d value %d", n < 32 ? signal_name(n) : "real-time", info.si_code,
		    info.si_code == SI_QUEUE ? info.si_value.sival_int : 0);
	SHOW(timer_delete(one));
	waiting("taken");
	SHOW(timer_create(CLOCK_MONOTONIC, &event, &one));
	/* Signals that an action discards go, and what they count as. */
	SHOW(queue_to(getpid(), SIGRTMIN + 3));
	waiting("three again");
	SHOW(signal(SIGRTMIN + 3, SIG_IGN) == SIG_DFL);
	waiting("ignored");
}

static const char *adjusted(const char *name)
{
	static char text[16];
	int fd = open(name, O_RDONLY);
	long n = read(fd, text, sizeof text - 1);
	close(fd);
	text[n > 0 ? n - 1 : 0] = 0;
	return text;
}

static void adjust(const char *name, const char *to)
{
	int fd = open(name, O_WRONLY);
	if (fd < 0) {
		say("open %s: %s", name + 11, error_name(errno));
		return;
	}
	long n = write(fd, to, strlen(to));
	say("%.12s to %s: %s, now %s", to, name + 11, n < 0 ? error_name(errno) : "ok", adjusted(name));
	close(fd);
}

#define FINE "/proc/self/oom_score_adj"
#define COARSE "/proc/self/oom_adj"

static void child_adjusted(void)
{
	say("a child has %s", adjusted(FINE));
}

static void adjusted_user(void)
{
	/* A process whose ids have changed is root's in /proc, until it executes a program: what was opened before is written. */
	say("uid 1000 has %s", adjusted(FINE));
	adjust(FINE, "0");
}

static int before;

static void through_an_open_file(void)
{
	static const char *const values[] = { "100", "50", "20", "19", "-1", "1000" };
	setuid(1000);
	for (int i = 0; i < 6; i++) {
		long n = pwrite(before, values[i], strlen(values[i]), 0);
		say("%s: %s, now %s", values[i], n < 0 ? error_name(errno) : "ok", adjusted(FINE));
	}
}

static void adjustments(void)
{
	section("adjustments");
	say("at first %s", adjusted(FINE));
	static const char *const values[] = {
		"5", "5\n", " 7 \n", "-1000", "-1001", "1000", "1001", "", "x", "0x10", "010", "+3", "3 4", "99999999999", "-5",
	};
	for (unsigned i = 0; i < sizeof values / sizeof *values; i++)
		adjust(FINE, values[i]);
	as(0, child_adjusted);
	static const char *const coarse[] = { "-17", "15", "16", "-18", "8", "-8", "1", "0" };
	for (unsigned i = 0; i < sizeof coarse / sizeof *coarse; i++) {
		adjust(COARSE, coarse[i]);
		say("that is %s", adjusted(FINE));
	}
	adjust(FINE, "-1000");
	say("score %s", adjusted("/proc/self/oom_score"));
	adjust(FINE, "1000");
	int score = atoi(adjusted("/proc/self/oom_score"));
	/* 1333, less what is lost where a thousandth of memory is rounded down to pages. */
	CHECK(score >= 1327 && score < 1340);
	adjust(FINE, "0");
	score = atoi(adjusted("/proc/self/oom_score"));
	CHECK(score >= 666 && score < 673);
	adjust("/proc/self/oom_score", "1");
	adjust(FINE, "20");
	as(1000, adjusted_user);
	before = open(FINE, O_WRONLY);
	through_an_open_file();
}

static void left(void)
{
	waiting("afterwards");
}

int main(void)
{
	signal(SIGCHLD, SIG_DFL);
	soft = read_file(SOFT);
	hard = read_file(HARD);
	size = read_file(SIZE);
	watches = read_file(WATCHES);
	pipes();
	epolls();
	section("signals");
	struct rlimit limit = { 11, 20 };
	setrlimit(RLIMIT_SIGPENDING, &limit);
	as(1000, signals_of_a_user);
	nap(50);
	as(1000, left);
	adjustments();
	return 0;
}
