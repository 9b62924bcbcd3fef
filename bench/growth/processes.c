/* Worlds of tasks: children that sleep or are dead; a group, sessions; threads of this process and of another. */
#include "growth.h"

#include <sys/prctl.h>
#include <sys/resource.h>

static void many(unsigned n, void (*first)(void))
{
	for (unsigned i = 0; i < n; i++)
		sleeper(first);
	settle(n);
}

static pid_t last;

static void make_children(unsigned n)
{
	many(n - 1, 0);
	last = sleeper(0);
	settle(n);
}

static void op_wait_none(void)
{
	if (waitpid(-1, 0, WNOHANG) != 0)
		fail("wait4");
}

static void op_wait_one(void)
{
	if (waitpid(last, 0, WNOHANG) != 0)
		fail("wait4");
}

static void op_kill_child(void)
{
	ok("kill", kill(last, 0));
}

static void op_getpgid(void)
{
	ok("getpgid", getpgid(last));
}

static void op_setpgid_child(void)
{
	ok("setpgid", setpgid(last, last));
	ok("setpgid", setpgid(last, getpgrp()));
}

static void op_getpriority(void)
{
	getpriority(PRIO_PROCESS, (id_t)last);
}

static void op_priority_user(void)
{
	getpriority(PRIO_USER, 0);
}

static void op_proc(void)
{
	char path[32];
	struct stat stat_buffer;
	snprintf(path, sizeof path, "/proc/%d/stat", last);
	ok("stat", stat(path, &stat_buffer));
}

static void op_usage(void)
{
	struct rusage usage;
	ok("getrusage", getrusage(RUSAGE_CHILDREN, &usage));
}

const struct world children = { "children", "sleeping-children", 10000, make_children, (const struct row[]){
	ROW("getpid", op_getpid, CHEAP),
	ROW("fork-exit-wait", op_fork, DEAR),
	ROW("fork-exit-wait-any", op_fork_any, DEAR),
	ROW("vfork-exec-wait", op_exec, FREEING),
	ROW("wait-none", op_wait_none, DEAR),
	ROW("wait-one-none", op_wait_one, CHEAP),
	ROW("kill-self", op_kill, CHEAP),
	ROW("kill-child", op_kill_child, CHEAP),
	ALONE("kill-own-group", op_kill_group),
	ALONE("setsid", op_setsid),
	ALONE("setpgid", op_setpgid),
	ROW("setpgid-child", op_setpgid_child, CHEAP),
	ROW("getpgid", op_getpgid, CHEAP),
	ROW("getpriority", op_getpriority, CHEAP),
	ROW("getpriority-user", op_priority_user, DEAR),
	ROW("stat-proc", op_proc, CHEAP),
	ROW("getrusage-children", op_usage, CHEAP),
	ROW("thread", op_thread, CHEAP),
	ROW("nap", op_nap, CHEAP),
	ROW("clock_settime", op_clock_settime, CHEAP),
	END }, 0 };

static pid_t dead;

static void make_zombies(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		dead = (pid_t)ok("fork", fork());
		if (dead == 0)
			_exit(0);
	}
}

static void op_kill_dead(void)
{
	ok("kill", kill(dead, 0));
}

static void op_wait_nowait(void)
{
	siginfo_t info;
	ok("waitid", waitid(P_ALL, 0, &info, WEXITED | WNOWAIT));
}

static void unmake_zombies(void)
{
	while (waitpid(-1, 0, 0) > 0)
		;
}

const struct world zombies = { "zombies", "dead-children", 10000, make_zombies, (const struct row[]){
	ROW("fork-exit-wait", op_fork, DEAR),
	ROW("waitid-nowait", op_wait_nowait, CHEAP),
	ROW("kill-dead", op_kill_dead, CHEAP),
	END }, unmake_zombies };

static pid_t leader;

static void join_group(void)
{
	setpgid(0, leader);
}

static void make_group(unsigned n)
{
	leader = sleeper(0);
	ok("setpgid", setpgid(leader, leader));
	many(n - 1, join_group);
	last = sleeper(0);
	settle(n + 1);
}

static void op_join_leave(void)
{
	ok("setpgid", setpgid(last, leader));
	ok("setpgid", setpgid(last, last));
}

static void op_kill_all(void)
{
	ok("kill", kill(-leader, SIGUSR1));
}

static void op_wait_group(void)
{
	if (waitpid(-leader, 0, WNOHANG) != 0)
		fail("wait4");
}

const struct world group = { "group", "group-members", 10000, make_group, (const struct row[]){
	ROW("fork-exit-wait", op_fork, DEAR),
	ROW("join-leave", op_join_leave, CHEAP),
	ROW("kill-group", op_kill_all, DEAR),
	ROW("wait-group", op_wait_group, DEAR),
	ALONE("kill-own-group", op_kill_group),
	ALONE("setsid", op_setsid),
	ALONE("setpgid", op_setpgid),
	END }, 0 };

static void own_session(void)
{
	setsid();
}

static void make_sessions(unsigned n)
{
	many(n, own_session);
}

const struct world sessions = { "sessions", "sessions", 10000, make_sessions, (const struct row[]){
	ROW("fork-exit-wait", op_fork, DEAR),
	ALONE("kill-own-group", op_kill_group),
	ALONE("setsid", op_setsid),
	ALONE("setpgid", op_setpgid),
	END }, 0 };

static uint32_t never_word;

static void sleep_for_ever(unsigned i)
{
	(void)i;
	come();
	for (;;)
		syscall(SYS_futex, &never_word, 0 | 128, 0, 0, 0, 0);
}

static void make_threads(unsigned n)
{
	thread(n, sleep_for_ever);
	settle(n);
}

static void op_usage_self(void)
{
	struct rusage usage;
	ok("getrusage", getrusage(RUSAGE_SELF, &usage));
}

const struct world threads = { "threads", "threads-of-the-process", 10000, make_threads, (const struct row[]){
	ROW("getpid", op_getpid, CHEAP),
	ROW("fork-exit-wait", op_fork, DEAR),
	ROW("vfork-exec-wait", op_exec, FREEING),
	ROW("thread", op_thread, CHEAP),
	ROW("kill-self", op_kill, CHEAP),
	ROW("signal", op_signal, CHEAP),
	ROW("open-close", op_open, CHEAP),
	ROW("mmap-munmap", op_map, CHEAP),
	ROW("fault", op_fault, CHEAP),
	ROW("futex-wake", op_wake, CHEAP),
	ROW("getrusage", op_usage_self, DEAR),
	ROW("timer_settime", op_timer, CHEAP),
	END }, 0 };

static unsigned others;

static void other_threads(void)
{
	thread(others, sleep_for_ever);
}

static void make_elsewhere(unsigned n)
{
	others = n;
	sleeper(other_threads);
	settle(n + 1);
}

const struct world elsewhere = { "elsewhere", "threads-of-another-process", 10000, make_elsewhere, (const struct row[]){
	ROW("fork-exit-wait", op_fork, DEAR),
	ROW("vfork-exec-wait", op_exec, FREEING),
	ROW("thread", op_thread, CHEAP),
	ROW("kill-self", op_kill, CHEAP),
	ROW("futex-wake", op_wake, CHEAP),
	ROW("clock_settime", op_clock_settime, CHEAP),
	END }, 0 };
