/* Operations that several worlds have, each on objects of its own. */
#include "growth.h"

#include <poll.h>
#include <time.h>

void op_getpid(void)
{
	syscall(SYS_getpid);
}

void op_fork(void)
{
	pid_t child = (pid_t)ok("fork", fork());
	if (child == 0)
		_exit(0);
	ok("wait4", waitpid(child, 0, 0));
}

/* The child that is dead must be found among those that live. */
void op_fork_any(void)
{
	pid_t child = (pid_t)ok("fork", fork());
	if (child == 0)
		_exit(0);
	if (ok("wait4", waitpid(-1, 0, 0)) != child)
		fail("another child");
}

void op_exec(void)
{
	static char *const argv[] = { "growth", "@exit", 0 };
	pid_t child = (pid_t)ok("vfork", vfork());
	if (child == 0) {
		execv("/proc/self/exe", argv);
		_exit(1);
	}
	ok("wait4", waitpid(child, 0, 0));
}

void op_open(void)
{
	int fd = (int)ok("open", open(OWN_PATH, O_RDONLY));
	ok("close", close(fd));
}

void op_dup(void)
{
	int fd = (int)ok("dup", dup(own_file));
	ok("close", close(fd));
}

void op_stat(void)
{
	struct stat stat_buffer;
	ok("stat", stat(OWN_PATH, &stat_buffer));
}

void op_read(void)
{
	ok("pread", pread(own_file, own_page, 64, 0));
}

void op_pipe(void)
{
	ok("write", write(own_pipe[1], own_page, 1));
	ok("read", read(own_pipe[0], own_page, 1));
}

void op_poll(void)
{
	struct pollfd one = { own_pipe[1], POLLOUT, 0 };
	ok("poll", poll(&one, 1, -1));
}

void op_map(void)
{
	char *map = mmap(0, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		fail("mmap");
	*map = 1;
	ok("munmap", munmap(map, 4 * 4096));
}

void op_fault(void)
{
	ok("madvise", madvise(own_page, 4096, MADV_DONTNEED));
	*(volatile char *)own_page = 1;
}

void op_kill(void)
{
	ok("kill", kill(getpid(), SIGUSR1));
}

/* To a group of one: the child's. */
void op_kill_group(void)
{
	pid_t child = (pid_t)ok("fork", fork());
	if (child == 0) {
		ok("setpgid", setpgid(0, 0));
		kill(0, SIGUSR1);
		mark_open();
		ok("kill", kill(0, SIGUSR1));
		mark_close();
		_exit(0);
	}
	int status;
	ok("wait4", waitpid(child, &status, 0));
	if (status)
		fail("the child");
}

/* Queued, and taken. All threads block it (main.c). */
void op_signal(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	ok("sigqueue", sigqueue(getpid(), SIGUSR2, (union sigval){ .sival_int = 1 }));
	if (ok("sigwaitinfo", sigwaitinfo(&set, 0)) != SIGUSR2)
		fail("another signal");
}

/* Until the parent waits: while it runs, its session and the child's new one compete for the CPU. */
static void let_parent_wait(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, 0);
}

void op_setsid(void)
{
	pid_t child = (pid_t)ok("fork", fork());
	if (child == 0) {
		let_parent_wait();
		mark_open();
		ok("setsid", setsid());
		mark_close();
		_exit(0);
	}
	int status;
	ok("wait4", waitpid(child, &status, 0));
	if (status)
		fail("the child");
}

/* A group of its own, and back. */
void op_setpgid(void)
{
	pid_t child = (pid_t)ok("fork", fork());
	if (child == 0) {
		pid_t old = getpgrp();
		let_parent_wait();
		mark_open();
		ok("setpgid", setpgid(0, 0));
		ok("setpgid", setpgid(0, old));
		mark_close();
		_exit(0);
	}
	int status;
	ok("wait4", waitpid(child, &status, 0));
	if (status)
		fail("the child");
}

static int thread_end(void *argument)
{
	(void)argument;
	return 0;
}

/* CLONE_VFORK: the thread has ended when clone returns. */
void op_thread(void)
{
	static char stack[16384] __attribute__((aligned(64)));
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_VFORK;
	ok("clone", clone(thread_end, stack + sizeof stack, flags, 0));
}

void op_wake(void)
{
	ok("futex", syscall(SYS_futex, own_word, 1 | 128, 1, 0, 0, 0));
}

/* Long enough for whoever was woken to sleep again. */
void op_nap(void)
{
	struct timespec time = { 0, 200000 };
	ok("nanosleep", nanosleep(&time, 0));
}

/* Armed, and disarmed. */
void op_timer(void)
{
	static timer_t timer;
	static int there;
	if (!there) {
		struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
		ok("timer_create", timer_create(CLOCK_MONOTONIC, &event, &timer));
		there = 1;
	}
	struct itimerspec far = { { 0, 0 }, { 1800, 0 } }, never = { { 0, 0 }, { 0, 0 } };
	ok("timer_settime", timer_settime(timer, 0, &far, 0));
	ok("timer_settime", timer_settime(timer, 0, &never, 0));
}

void op_clock_settime(void)
{
	struct timespec now;
	ok("clock_gettime", clock_gettime(CLOCK_REALTIME, &now));
	ok("clock_settime", clock_settime(CLOCK_REALTIME, &now));
}
