/* longest: many who watch one file or wait for one thing, and what one call has to look through. */
#include "longest.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>

/* An epoll with `n` watches of the file behind `fd`. */
static int watch(int fd, int n)
{
	struct epoll_event ev = { EPOLLIN, { 0 } };
	int e = epoll_create1(0);
	for (int i = 0; i < n; i++)
		if (epoll_ctl(e, EPOLL_CTL_ADD, dup(fd), &ev))
			cannot();
	return e;
}

static void expect_ready(int e)
{
	struct epoll_event ev[8];
	if (epoll_wait(e, ev, 8, 5000) != 8)
		cannot();
}

static void watch_pipe(void)
{
	int p[2], e;
	pipe(p);
	e = watch(p[0], 20000);
	write(p[1], "x", 1);
	expect_ready(e);
}

/* Its last writer goes. */
static void watch_hangup(void)
{
	int p[2], e;
	pipe(p);
	e = watch(p[0], 20000);
	close(p[1]);
	expect_ready(e);
}

static void watch_event(void)
{
	int fd = eventfd(0, 0), e = watch(fd, 20000);
	write(fd, &(long){ 1 }, 8);
	expect_ready(e);
}

static void watch_timer(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, 0), e = watch(fd, 20000);
	timerfd_settime(fd, 0, &(struct itimerspec){ { 0, 0 }, { 0, 1000000 } }, 0);
	usleep(10000);
	expect_ready(e);
}

/* Signal files, each watched, and a signal that a timer sends. */
static void signal_files(void)
{
	struct epoll_event ev = { EPOLLIN, { 0 } };
	timer_t timer;
	int e = epoll_create1(0);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, 0);
	for (int i = 0; i < 20000; i++)
		if (epoll_ctl(e, EPOLL_CTL_ADD, signalfd(-1, &set, 0), &ev))
			cannot();
	timer_create(CLOCK_MONOTONIC, 0, &timer);
	timer_settime(timer, 0, &(struct itimerspec){ { 0, 0 }, { 0, 1000000 } }, 0);
	usleep(10000);
	expect_ready(e);
}

/* Files that are mapped for the first time. */
static void map_files(void)
{
	char name[32];
	if (mkdir("mapped", 0700))
		cannot();
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof name, "mapped/%d", i);
		int fd = open(name, O_RDWR | O_CREAT, 0600);
		if (fd < 0 || mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			cannot();
		close(fd);
	}
}

/* The watched file goes, and nobody is told. */
static void watch_drop(void)
{
	int p[2];
	pipe(p);
	close(watch(p[0], 20000));
	close(p[1]);
}

/* Epolls that watch one epoll. */
static void watch_epoll(void)
{
	int fd = eventfd(0, 0), inner = watch(fd, 1), outer = watch(inner, 10000);
	write(fd, &(long){ 1 }, 8);
	expect_ready(outer);
}

static void closes(void)
{
	many_files(60000);
	syscall(SYS_close_range, 3, ~0U, 0);
	usleep(300000);
}

static void *reader(void *fd)
{
	char c;
	read(*(int *)fd, &c, 1);
	return 0;
}

static void wake_readers(void)
{
	static int p[2];
	pipe(p);
	threads(reader, &p[0]);
	write(p[1], "x", 1);
	close(p[1]);
	sleep(1);
}

static void *poller(void *fd)
{
	struct epoll_event ev;
	epoll_wait(*(int *)fd, &ev, 1, -1);
	return 0;
}

static void wake_pollers(void)
{
	static int e;
	int fd = eventfd(0, 0);
	e = watch(fd, 1);
	threads(poller, &e);
	write(fd, &(long){ 1 }, 8);
	sleep(1);
}

static void *waiter(void *set)
{
	sigwaitinfo(set, 0);
	return 0;
}

static sigset_t all_blocked(void)
{
	sigset_t set;
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, 0);
	return set;
}

static void signal_waiters(void)
{
	static sigset_t set;
	set = all_blocked();
	threads(waiter, &set);
	kill(getpid(), SIGURG);
	sleep(1);
}

static void signal_threads(void)
{
	static int word;
	threads(sleeper, &word);
	signal(SIGUSR1, SIG_IGN);
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGCONT);
	all_blocked();
	kill(getpid(), SIGTSTP);
	kill(getpid(), SIGCONT);
}

/* All block it, and who sends it, a timer, may not rest. Then all stop and go on. */
static void signal_crowd(void)
{
	static int word;
	timer_t timer;
	all_blocked();
	threads(sleeper, &word);
	timer_create(CLOCK_MONOTONIC, &(struct sigevent){ .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 }, &timer);
	timer_settime(timer, 0, &(struct itimerspec){ { 0, 0 }, { 0, 1000000 } }, 0);
	usleep(10000);
	pid_t pid = fork();
	if (pid == 0) {
		kill(getppid(), SIGSTOP);
		usleep(100000);
		kill(getppid(), SIGCONT);
		_exit(0);
	}
	waitpid(pid, 0, 0);
}

/* What all threads of a process have used, and what is set for all of them. */
static void thread_sums(void)
{
	static int word;
	static char buffer[65536];
	struct rusage usage;
	struct timespec now;
	threads(sleeper, &word);
	getrusage(RUSAGE_SELF, &usage);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	setpriority(PRIO_USER, getuid(), 5);
	setpriority(PRIO_PGRP, 0, 6);
	int fd = open("/proc/self/stat", O_RDONLY);
	read(fd, buffer, sizeof buffer);
	close(fd);
	fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
	syscall(SYS_getdents64, fd, buffer, sizeof buffer);
	close(fd);
}

/* As the header for futexes has them, which musl lacks. */
struct link { struct link *next; };
struct links { struct link first; long offset; struct link *pending; };
#define WAITERS 0x80000000U

static void nothing(int signal) { (void)signal; }

/* The queue is looked through, thrown away, and what is left is taken. */
static void ignore_queued(void)
{
	sigset_t set = all_blocked();
	signal(SIGRTMIN, nothing);
	for (int i = 0; i < 30000; i++)
		if (sigqueue(getpid(), SIGRTMIN + i % 2, (union sigval){ 0 }))
			cannot();
	for (int i = 0; i < 100; i++)
		if (sigwaitinfo(&set, 0) != SIGRTMIN)
			cannot();
	signal(SIGRTMIN, SIG_IGN);
	if (sigwaitinfo(&set, 0) != SIGRTMIN + 1)
		cannot();
}

/* A child that lives in the memory of its parent, which it does not use: cheap enough for thousands. */
static int living(void *fd)
{
	char c;
	read(*(int *)fd, &c, 1);
	_exit(0);
}

static int gate[2];

static void bear(int n)
{
	char (*stacks)[1024] = mmap(0, (size_t)n * sizeof *stacks, RW, ANON, -1, 0);
	pipe(gate);
	setpgid(0, 0);
	for (int i = 0; i < n; i++)
		if (stacks == MAP_FAILED || clone(living, stacks[i] + sizeof stacks[i], CLONE_VM | CLONE_FILES | SIGCHLD, &gate[0]) < 0)
			cannot();
}

/* As many as LONGEST_CHILDREN says. */
static int many_children(void)
{
	const char *n = getenv("LONGEST_CHILDREN");
	return n ? atoi(n) : 3000;
}

static void wait_group(void)
{
	bear(many_children());
	for (int i = 0; i < 20; i++)
		waitpid(0, 0, WNOHANG);
	waitpid(-99999, 0, WNOHANG);
	kill(0, SIGKILL);
}

static void *seeker(void *unused)
{
	(void)unused;
	for (int i = 0; i < 3; i++)
		waitpid(-99999, 0, WNOHANG);
	return 0;
}

static void *killer(void *unused)
{
	(void)unused;
	for (int i = 0; i < 3; i++)
		kill(0, 0);
	return 0;
}

/* More threads at once than had places in a list of children, or of a group's members. */
static void crowd(void *(*does)(void *))
{
	pthread_t t[16];
	bear(many_children());
	for (int i = 0; i < 16; i++)
		if (pthread_create(&t[i], 0, does, 0))
			cannot();
	for (int i = 0; i < 16; i++)
		pthread_join(t[i], 0);
	kill(0, SIGKILL);
}

static void wait_crowd(void) { crowd(seeker); }
static void kill_crowd(void) { crowd(killer); }

/* A program that nobody runs any more: all processes are asked. */
static void write_program(void)
{
	if (system("mkdir program && cp /bin/busybox program && program/busybox true"))
		cannot();
	bear(many_children());
	int fd = open("program/busybox", O_WRONLY);
	if (fd < 0)
		cannot();
	close(fd);
	unlink("program/busybox");
	rmdir("program");
	kill(0, SIGKILL);
}

static void *mother(void *unused)
{
	(void)unused;
	bear(many_children());
	return 0;
}

static void leave_children(void)
{
	pthread_t t;
	pthread_create(&t, 0, mother, 0);
	pthread_join(t, 0);
	kill(0, SIGKILL);
}

/* Somebody is chosen of many when memory is out. */
static void memory_out(void)
{
	bear(many_children());
	pid_t pid = fork();
	for (long n = 0; pid == 0; n++)
		touched(MIB);
	int status;
	waitpid(pid, &status, 0);
	if (!WIFSIGNALED(status))
		cannot();
	kill(0, SIGKILL);
}

static void deep_folder(void)
{
	char buffer[4096];
	static char large[1 << 17];
	for (int i = 0; i < 20000; i++)
		if (mkdir("d", 0700) || chdir("d"))
			cannot();
	syscall(SYS_getcwd, buffer, sizeof buffer);
	syscall(SYS_getcwd, large, sizeof large);
	mkdir("e", 0700);
	mkdir("f", 0700);
	rename("e", "f/e");
	rmdir("f/e");
	rmdir("f");
	for (int i = 0; i < 20000; i++)
		if (chdir("..") || rmdir("d"))
			cannot();
}

/* Forty links, each as long as one may be. */
static void long_links(void)
{
	char to[4096], name[16];
	mkdir("a", 0700);
	for (int i = 0; i < 40; i++) {
		/* Down and up again, and at last the next link. */
		for (int k = 0; k < 810; k++)
			memcpy(to + 5 * k, "a/../", 5);
		strcpy(to + 5 * 810, "a");
		if (i < 39)
			sprintf(to + 5 * 810, "link%d", i + 1);
		sprintf(name, "link%d", i);
		symlink(to, name);
	}
	if (access("link0", F_OK))
		cannot();
}

/* As many as the kernel looks at, each with a waiter as it says. */
static void *owner(void *unused)
{
	static struct { struct link link; unsigned word, pad; } locks[2048];
	static struct links head;
	(void)unused;
	head.first.next = &locks[0].link;
	head.offset = sizeof(struct link);
	for (int i = 0; i < 2048; i++) {
		locks[i].link.next = i == 2047 ? &head.first : &locks[i + 1].link;
		locks[i].word = syscall(SYS_gettid) | WAITERS;
	}
	syscall(SYS_set_robust_list, &head, sizeof head);
	syscall(SYS_exit, 0);
	return 0;
}

static void robust(void)
{
	pthread_t t;
	pthread_create(&t, 0, owner, 0);
	usleep(200000);
}

/* Made by a user who may. */
static void mounts(void)
{
	char name[32];
	mkdir("m", 0700);
	if (mount("m", "m", "tmpfs", 0, 0))
		cannot();
	for (int i = 0; i < 3000; i++) {
		sprintf(name, "m/%d", i);
		if (mkdir(name, 0700) || mount(name, name, "tmpfs", 0, 0))
			cannot();
	}
	static char buffer[65536];
	int fd = open("/proc/self/mounts", O_RDONLY);
	while (read(fd, buffer, sizeof buffer) > 0)
		;
	close(fd);
	for (int i = 0; i < 3000; i++) {
		sprintf(name, "m/%d", i);
		if (umount(name))
			cannot();
	}
	if (umount("m"))
		cannot();
	rmdir("m");
}

const struct call crowd_calls[] = {
	CASE(closes), CASE(watch_pipe), CASE(watch_hangup), CASE(watch_event), CASE(watch_timer), CASE(signal_files), CASE(map_files), CASE(watch_drop), CASE(watch_epoll),
	CASE(wake_readers), CASE(wake_pollers), CASE(signal_waiters), CASE(signal_threads), CASE(signal_crowd), CASE(thread_sums), CASE(ignore_queued), CASE(wait_group), CASE(wait_crowd), CASE(kill_crowd), CASE(write_program), CASE(leave_children), CASE(memory_out),
	CASE(deep_folder), CASE(long_links), CASE(robust),
	{ 0, 0 },
};

const struct call root_calls[] = {
	CASE(mounts),
	{ 0, 0 },
};
