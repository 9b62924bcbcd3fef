/* Processes: fork, vfork, clone flags, wait with all its options and statuses, orphans, groups and sessions, prctl, rlimits. */
#include "t.h"

#include <sys/prctl.h>
#include <sys/resource.h>

static int counter;

static void exits(void)
{
	section("exit statuses");
	for (int code = 0; code < 600; code += 100) {
		pid_t pid = must_fork();
		if (pid == 0)
			_exit(code);
		say("_exit(%d): %s", code, status_text(wait_for(pid)));
	}
	static const int signals[] = { SIGKILL, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGABRT, SIGSEGV, SIGPIPE, SIGSYS, 40, 64 };
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			struct rlimit none = { 0, 0 };
			setrlimit(RLIMIT_CORE, &none);
			kill(getpid(), signals[i]);
			_exit(1);
		}
		int status = wait_for(pid);
		say("%s: %s, core flag %d", signal_name(signals[i]), status_text(status), WCOREDUMP(status) != 0);
	}
	static const int ignored[] = { SIGCHLD, SIGCONT, SIGURG, SIGWINCH };
	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			kill(getpid(), ignored[i]);
			_exit(1);
		}
		say("%s: %s", signal_name(ignored[i]), status_text(wait_for(pid)));
	}
}

static void waiting(void)
{
	section("wait");
	int status = -1;
	SHOW(waitpid(-1, &status, 0));
	SHOW(waitpid(getpid(), &status, 0));
	SHOW(waitpid(1, &status, 0));
	SHOW(waitpid(-1, &status, 0x100));
	SHOW(waitpid(-2147483647 - 1, &status, 0));
	pid_t pid = must_fork();
	if (pid == 0) {
		raise(SIGSTOP);
		raise(SIGSTOP);
		_exit(7);
	}
	SHOW(waitpid(pid, &status, WUNTRACED) == pid);
	say("%s", status_text(status));
	SHOW(waitpid(pid, &status, WUNTRACED | WNOHANG));
	SHOW(kill(pid, SIGCONT));
	/* It stops again at once: both reports, in this order, or the second alone if the stop came first. */
	pid_t got = waitpid(pid, &status, WUNTRACED);
	SHOW(got == pid);
	say("%s", status_text(status));
	kill(pid, SIGCONT);
	SHOW(waitpid(pid, &status, 0) == pid);
	say("%s", status_text(status));
	SHOW(waitpid(pid, &status, 0));
	pid = must_fork();
	if (pid == 0)
		for (;;)
			pause();
	SHOW(waitpid(pid, &status, WNOHANG));
	kill(pid, SIGSTOP);
	siginfo_t info;
	memset(&info, 0, sizeof info);
	SHOW(waitid(P_PID, (id_t)pid, &info, WSTOPPED));
	say("signo %s code %d status %s, pid right %d", signal_name(info.si_signo), info.si_code, signal_name(info.si_status),
	    info.si_pid == pid);
	kill(pid, SIGCONT);
	memset(&info, 0, sizeof info);
	SHOW(waitid(P_PID, (id_t)pid, &info, WCONTINUED));
	say("code %d status %s", info.si_code, signal_name(info.si_status));
	SHOW(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG));
	SHOW(info.si_pid);
	kill(pid, SIGKILL);
	SHOW(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
	say("code %d status %s", info.si_code, signal_name(info.si_status));
	SHOW(waitid(P_PID, (id_t)pid, &info, WEXITED));
	SHOW(waitid(P_PID, (id_t)pid, &info, WEXITED));
	SHOW(waitid(P_ALL, 0, &info, 0));
	SHOW(waitid(99, 0, &info, WEXITED));
	pid = must_fork();
	if (pid == 0)
		_exit(300);
	SHOW(waitid(P_ALL, 0, &info, WEXITED));
	say("code %d status %d", info.si_code, info.si_status);
	struct rusage usage;
	memset(&usage, 0xff, sizeof usage);
	pid = must_fork();
	if (pid == 0)
		_exit(1);
	SHOW(wait4(pid, &status, 0, &usage) == pid);
	CHECK(usage.ru_utime.tv_sec >= 0 && usage.ru_utime.tv_sec < 10);
	SHOW(syscall(SYS_wait4, -1, 16, 0, 0));
	/* By group. */
	pid_t first = must_fork();
	if (first == 0) {
		setpgid(0, 0);
		nap(60);
		_exit(1);
	}
	setpgid(first, first);
	pid_t second = must_fork();
	if (second == 0)
		_exit(2);
	SHOW(waitpid(0, &status, 0) == second);
	say("%s", status_text(status));
	SHOW(waitpid(-first, &status, 0) == first);
	say("%s", status_text(status));
	/* SIGCHLD ignored: children leave nothing behind. */
	signal(SIGCHLD, SIG_IGN);
	pid = must_fork();
	if (pid == 0)
		_exit(5);
	SHOW(waitpid(pid, &status, 0));
	signal(SIGCHLD, SIG_DFL);
	/* Many at once, reaped in any order. */
	int sum = 0;
	for (int i = 1; i <= 50; i++) {
		pid = must_fork();
		if (pid == 0)
			_exit(i);
	}
	for (int i = 1; i <= 50; i++)
		if (wait(&status) > 0)
			sum += WEXITSTATUS(status);
	SHOW(sum);
	SHOW(wait(&status));
}

static void orphans(void)
{
	section("orphans");
	int ends[2];
	pipe(ends);
	pid_t pid = must_fork();
	if (pid == 0) {
		pid_t child = getpid();
		if (must_fork() == 0) {
			while (getppid() == child)
				nap(2);
			char adopted = getppid() == 1 ? 'y' : 'n';
			write(ends[1], &adopted, 1);
			_exit(0);
		}
		_exit(0);
	}
	wait_for(pid);
	char byte = '?';
	read(ends[0], &byte, 1);
	say("adopted by 1: %c", byte);
	SHOW(prctl(PR_SET_CHILD_SUBREAPER, 1));
	pid = must_fork();
	if (pid == 0) {
		pid_t child = getpid();
		if (must_fork() == 0) {
			while (getppid() == child)
				nap(2);
			_exit(42);
		}
		_exit(0);
	}
	wait_for(pid);
	int status;
	wait(&status);
	say("the subreaper gets %s", status_text(status));
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	/* The parent's death as a signal. */
	pid = must_fork();
	if (pid == 0) {
		pid_t child = getpid();
		if (must_fork() == 0) {
			sigset_t set;
			sigemptyset(&set), sigaddset(&set, SIGUSR1), sigprocmask(SIG_BLOCK, &set, 0);
			prctl(PR_SET_PDEATHSIG, SIGUSR1);
			char got = '-';
			if (getppid() != child)
				got = 'p';
			else {
				write(ends[1], "r", 1);
				struct timespec limit = { 3, 0 };
				got = sigtimedwait(&set, 0, &limit) == SIGUSR1 ? 'y' : 'n';
			}
			write(ends[1], &got, 1);
			_exit(0);
		}
		char ready;
		read(ends[0], &ready, 1);
		_exit(0);
	}
	wait_for(pid);
	read(ends[0], &byte, 1);
	say("PR_SET_PDEATHSIG: %c", byte);
	close(ends[0]), close(ends[1]);
}

static int clone_body(void *argument)
{
	counter += (int)(intptr_t)argument;
	return 9;
}

static int ignore_usr1(void *unused)
{
	(void)unused;
	signal(SIGUSR1, SIG_IGN);
	return 0;
}

static void on_usr1(int signal)
{
	(void)signal;
}

/* exec takes its handlers away from the child alone. */
static int catch_usr1_and_exec(void *unused)
{
	(void)unused;
	signal(SIGUSR1, on_usr1);
	execv("/proc/self/exe", (char *[]){ (char *)"true", 0 });
	return 1;
}

static const char *usr1(void)
{
	struct sigaction now;
	sigaction(SIGUSR1, 0, &now);
	return now.sa_handler == SIG_DFL ? "default" : now.sa_handler == SIG_IGN ? "ignored" : "caught";
}

static void cloning(void)
{
	section("vfork and clone");
	counter = 1;
	pid_t pid = vfork();
	if (pid == 0) {
		counter = 2;
		_exit(3);
	}
	int status = wait_for(pid);
	say("vfork shares memory: %d, %s", counter, status_text(status));
	static char stack[65536] __attribute__((aligned(16)));
	pid = clone(clone_body, stack + sizeof stack, SIGCHLD, (void *)5);
	int ended = wait_for(pid);
	say("clone: %s, counter %d", status_text(ended), counter);
	pid = clone(clone_body, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)5);
	ended = wait_for(pid);
	say("CLONE_VM: %s, counter %d", status_text(ended), counter);
	pid = clone(clone_body, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS | SIGCHLD, (void *)5);
	say("CLONE_VFORK: counter %d, %s", counter, status_text(wait_for(pid)));
	pid = clone(ignore_usr1, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);
	status = wait_for(pid);
	say("apart: %s, SIGUSR1 %s", status_text(status), usr1());
	pid = clone(ignore_usr1, stack + sizeof stack, CLONE_VM | CLONE_SIGHAND | SIGCHLD, 0);
	status = wait_for(pid);
	say("CLONE_SIGHAND: %s, SIGUSR1 %s", status_text(status), usr1());
	pid = clone(catch_usr1_and_exec, stack + sizeof stack, CLONE_VM | CLONE_SIGHAND | SIGCHLD, 0);
	status = wait_for(pid);
	say("exec after it: %s, SIGUSR1 %s", status_text(status), usr1());
	signal(SIGUSR1, SIG_DFL);
	pid = clone(clone_body, stack + sizeof stack, 0, (void *)0);
	SHOW(waitpid(pid, &status, 0));
	SHOW(waitpid(pid, &status, __WCLONE) == pid);
	say("%s", status_text(status));
	signal(SIGUSR2, SIG_IGN);
	pid = clone(clone_body, stack + sizeof stack, SIGUSR2, (void *)0);
	SHOW(waitpid(pid, &status, __WALL) == pid);
	signal(SIGUSR2, SIG_DFL);
	int tid = 0;
	pid = (pid_t)syscall(SYS_clone, CLONE_CHILD_SETTID | SIGCHLD, 0, 0, &tid, 0);
	if (pid == 0)
		_exit(tid == (int)syscall(SYS_gettid) ? 0 : 1);
	ended = wait_for(pid);
	say("CLONE_CHILD_SETTID: %s, parent's %d", status_text(ended), tid);
	pid = (pid_t)syscall(SYS_clone, CLONE_PARENT_SETTID | SIGCHLD, 0, &tid, 0, 0);
	if (pid == 0)
		_exit(tid == (int)syscall(SYS_gettid) ? 0 : 1);
	say("CLONE_PARENT_SETTID: %s, %d", status_text(wait_for(pid)), tid == pid);
	SHOW(syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0));
	SHOW(syscall(SYS_clone, CLONE_SIGHAND, 0, 0, 0, 0));
	SHOW(syscall(SYS_clone, CLONE_VM | CLONE_THREAD, 0, 0, 0, 0));
	SHOW(syscall(SYS_clone, CLONE_FS | CLONE_NEWNS, 0, 0, 0, 0));
	struct { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; } args = { .exit_signal = SIGCHLD };
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (pid == 0)
		_exit(11);
	if (pid > 0)
		say("clone3: %s", status_text(wait_for(pid)));
	else
		say("clone3: %s", error_name(errno));
	SHOW(syscall(SYS_clone3, &args, 8));
	/* A child shares file offsets, and with CLONE_FILES the table. */
	int fd = open("offset", O_CREAT | O_RDWR | O_TRUNC, 0644);
	pid = must_fork();
	if (pid == 0) {
		write(fd, "12345", 5);
		close(fd);
		_exit(0);
	}
	wait_for(pid);
	SHOW(lseek(fd, 0, SEEK_CUR));
	pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		close(fd);
		_exit(0);
	}
	wait_for(pid);
	SHOW(close(fd));
	pid = (pid_t)syscall(SYS_clone, CLONE_FS | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		umask(0123);
		_exit(0);
	}
	wait_for(pid);
	say("CLONE_FS umask %o", umask(022));
}

static void groups(void)
{
	section("groups and sessions");
	CHECK(getsid(0) == getpid());
	CHECK(getpgid(0) == getpid());
	CHECK(getpgrp() == getpid());
	SHOW(setsid());
	SHOW(setpgid(0, 0));
	SHOW(setpgid(0, -1));
	SHOW(setpgid(99999999, 0));
	SHOW(setpgid(1, 0));
	SHOW(getpgid(99999999));
	SHOW(getsid(99999999));
	pid_t pid = must_fork();
	if (pid == 0) {
		SHOW(setpgid(0, 1));
		SHOW(setpgid(0, 0));
		CHECK(getpgid(0) == getpid());
		CHECK(getsid(0) == getppid());
		SHOW(setsid());
		SHOW(setpgid(0, getppid()));
		CHECK(getpgid(0) == getppid());
		CHECK(setsid() == getpid());
		CHECK(getsid(0) == getpid());
		CHECK(getpgid(0) == getpid());
		SHOW(setpgid(0, getppid()));
		_exit(0);
	}
	wait_for(pid);
	int ends[2], back[2];
	pipe(ends), pipe(back);
	pid = must_fork();
	if (pid == 0) {
		setsid();
		write(ends[1], "s", 1);
		char byte;
		read(back[0], &byte, 1);
		_exit(0);
	}
	char byte;
	read(ends[0], &byte, 1);
	SHOW(setpgid(pid, pid));
	write(back[1], "g", 1);
	wait_for(pid);
	char *const nothing[] = { "true", 0 };
	pid = must_fork();
	if (pid == 0) {
		dup2(ends[1], 3);
		execv("/proc/self/exe", nothing);
		_exit(1);
	}
	wait_for(pid);
	SHOW(kill(99999999, 0));
	SHOW(kill(getpid(), 65));
	SHOW(kill(getpid(), -1));
	SHOW(kill(getpid(), 0));
	SHOW(kill(-99999999, SIGTERM));
	SHOW(kill(0, 0));
}

static void control(void)
{
	section("prctl and limits");
	char name[16] = "";
	SHOW(prctl(PR_SET_NAME, "a-name-that-is-too-long"));
	SHOW(prctl(PR_GET_NAME, name));
	say("%s", name);
	SHOW(prctl(PR_GET_DUMPABLE));
	SHOW(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	SHOW(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	SHOW(prctl(9999, 0));
	SHOW(prctl(PR_SET_PDEATHSIG, 100));
	struct rlimit limit;
	static const struct { int which; const char *name; } limits[] = {
		{ RLIMIT_STACK, "STACK" }, { RLIMIT_CORE, "CORE" }, { RLIMIT_NOFILE, "NOFILE" }, { RLIMIT_CPU, "CPU" },
		{ RLIMIT_FSIZE, "FSIZE" }, { RLIMIT_AS, "AS" }, { RLIMIT_DATA, "DATA" },
	};
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		SHOW(getrlimit(limits[i].which, &limit));
		say("%s %lld %lld", limits[i].name, (long long)limit.rlim_cur, (long long)limit.rlim_max);
	}
	SHOW(getrlimit(99, &limit));
	limit = (struct rlimit){ 10, 5 };
	SHOW(setrlimit(RLIMIT_NOFILE, &limit));
	limit = (struct rlimit){ 8, 100 };
	SHOW(setrlimit(RLIMIT_NOFILE, &limit));
	int fd = -1, count = 0;
	while ((fd = dup(1)) >= 0)
		count++;
	CHECK(count > 0 && errno == EMFILE);
	SHOW_OK(open("/dev/null", O_RDONLY));
	SHOW_OK(pipe((int[2]){ 0, 0 }));
	limit = (struct rlimit){ 50, 50 };
	SHOW(setrlimit(RLIMIT_FSIZE, &limit));
	signal(SIGXFSZ, SIG_IGN);
	close(7);
	fd = open("limited", O_CREAT | O_RDWR, 0644);
	char block[64] = { 0 };
	SHOW(write(fd, block, 64));
	SHOW(write(fd, block, 64));
	signal(SIGXFSZ, SIG_DFL);
	write(fd, block, 64);
}

int main(int argc, char **argv)
{
	(void)argc;
	if (strcmp(argv[0], "true") == 0)
		return 0;
	exits();
	waiting();
	orphans();
	cloning();
	groups();
	in_child("limits", control);
	return 0;
}
