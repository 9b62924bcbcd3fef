/* /proc/PID/syscall: in which call a thread sleeps, with which arguments, and where it was made. /proc/softirqs: its form. */
#include "t.h"

#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int word;
extern char made_at[];

/* A call with all six arguments, and a label behind it. */
static __attribute__((noinline)) void sleep_in_futex(void)
{
	register long d __asm__("r10") = 0, e __asm__("r8") = 0x5555, f __asm__("r9") = 0x123456789abcdef;
	long result;
	__asm__ volatile("syscall\n.globl made_at\nmade_at:" : "=a"(result)
			 : "0"(SYS_futex), "D"(&word), "S"(0), "d"(0), "r"(d), "r"(e), "r"(f)
			 : "rcx", "r11", "memory");
}

struct told {
	char text[300];
	long nr;
	unsigned long words[8];
	int n;
};

/* What the file says; a thread that is about to sleep or to stop may run for a while. */
static struct told look(const char *path, int runs)
{
	struct told told;
	for (int i = 0; i < 500; i++) {
		memset(&told, 0, sizeof told);
		int fd = open(path, O_RDONLY);
		if (fd < 0 || read(fd, told.text, sizeof told.text - 1) < 0)
			sprintf(told.text, "%s\n", error_name(errno));
		if (fd >= 0)
			close(fd);
		if (runs == !strcmp(told.text, "running\n"))
			break;
		nap(10);
	}
	char *at = told.text;
	told.nr = strtol(at, &at, 10);
	for (; told.n < 8 && *at == ' '; told.n++)
		told.words[told.n] = strtoul(at + 1, &at, 16);
	return told;
}

static struct told look_at(pid_t pid, pid_t tid, int runs)
{
	char path[60];
	sprintf(path, tid ? "/proc/%d/task/%d/syscall" : "/proc/%d/syscall", pid, tid);
	return look(path, runs);
}

static void say_number(const char *what, struct told told)
{
	int whole = told.text[0] && told.text[strlen(told.text) - 1] == '\n' && strchr(told.text, '\n') == told.text + strlen(told.text) - 1;
	say("%s: %ld, %d words%s, stack %s, code %s", what, told.nr, told.n, whole ? "" : ", no line",
	    told.n >= 2 && told.words[told.n - 2] ? "somewhere" : "nowhere", told.n >= 2 && told.words[told.n - 1] ? "somewhere" : "nowhere");
}

static void finish(pid_t pid)
{
	kill(pid, SIGKILL);
	wait_for(pid);
}

static void blocked(void)
{
	section("in a call");
	pid_t pid = must_fork();
	if (pid == 0) {
		sleep_in_futex();
		_exit(0);
	}
	struct told told = look_at(pid, 0, 0);
	say_number("futex", told);
	CHECK(told.words[0] == (unsigned long)&word);
	say("%lx %lx %lx %lx %lx", told.words[1], told.words[2], told.words[3], told.words[4], told.words[5]);
	CHECK(told.words[7] == (unsigned long)made_at);
	struct told thread = look_at(pid, pid, 0);
	CHECK(!strcmp(told.text, thread.text));
	section("stopped in it");
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	say_number("stopped", look_at(pid, 0, 0));
	kill(pid, SIGCONT);
	waitpid(pid, NULL, WCONTINUED);
	say_number("continued", look_at(pid, 0, 0));
	finish(pid);
	pid = must_fork();
	if (pid == 0) {
		struct timespec long_time = { 1000, 0 };
		syscall(SYS_nanosleep, &long_time, NULL);
		_exit(0);
	}
	say_number("nanosleep", look_at(pid, 0, 0));
	finish(pid);
	section("stopped by itself");
	pid = must_fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		syscall(SYS_kill, syscall(SYS_getpid), SIGSTOP);
		_exit(0);
	}
	waitpid(pid, NULL, WUNTRACED);
	told = look_at(pid, 0, 0);
	say_number("kill", told);
	CHECK(told.words[0] == (unsigned long)pid);
	CHECK(told.words[1] == SIGSTOP);
	finish(pid);
}

static void outside(void)
{
	section("outside of a call");
	volatile int *spins = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = must_fork();
	if (pid == 0)
		for (;;)
			*spins = 1;
	while (!*spins)
		nap(1);
	say("%s", look_at(pid, 0, 1).text);
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	say_number("stopped", look_at(pid, 0, 0));
	finish(pid);
	pid = must_fork();
	if (pid == 0)
		_exit(0);
	siginfo_t info;
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	say("%s", look_at(pid, 0, 0).text);
	wait_for(pid);
}

static void self(void)
{
	section("itself");
	char text[300] = "";
	int fd = open("/proc/self/syscall", O_RDONLY);
	syscall(SYS_read, fd, text, sizeof text - 1);
	struct told told = { .n = 0 };
	char *at = text;
	told.nr = strtol(at, &at, 10);
	for (; told.n < 8 && *at == ' '; told.n++)
		told.words[told.n] = strtoul(at + 1, &at, 16);
	strcpy(told.text, text);
	say_number("read", told);
	CHECK(told.words[0] == (unsigned long)fd);
	CHECK(told.words[1] == (unsigned long)text);
	say("%ld bytes", told.words[2]);
	close(fd);
	pid_t thread = parked_thread();
	told = look_at(getpid(), thread, 0);
	CHECK(told.nr >= 0 && told.n == 8);
	let_thread_go();
}

static void rights(void)
{
	section("rights");
	struct stat status;
	stat("/proc/self/syscall", &status);
	say("mode %o", status.st_mode);
	pid_t sleeper = parked(NULL);
	char path[60], text[300];
	sprintf(path, "/proc/%d/syscall", sleeper);
	int early = open(path, O_RDONLY), own = open("/proc/thread-self/syscall", O_RDONLY);
	pid_t pid = must_fork();
	if (pid == 0) {
		setresuid(1000, 1000, 1000);
		SHOW(open(path, O_RDONLY));
		SHOW(read(early, text, sizeof text));
		SHOW(read(own, text, sizeof text));
		_exit(0);
	}
	wait_for(pid);
	SHOW_OK(open(path, O_WRONLY));
	finish(sleeper);
	SHOW(pread(early, text, sizeof text, 0));
	close(early), close(own);
}

static void softirqs(void)
{
	section("/proc/softirqs");
	char *text = read_file("/proc/softirqs"), *line = text;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	char *end = strchr(line, '\n');
	CHECK(end - line == 20 + 11 * cpus);
	say("%.24s", line);
	for (line = end + 1; *line; line = end + 1) {
		end = strchr(line, '\n');
		say("%.13s %s", line, end - line == 13 + 11 * cpus ? "whole" : "broken");
	}
	free(text);
}

int main(void)
{
	blocked();
	outside();
	self();
	rights();
	softirqs();
	return 0;
}
