/* A group for each session (sched(7), "The autogroup feature"): what its files say, who may change them, and that it is inherited. */
#include "t.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define SWITCH "/proc/sys/kernel/sched_autogroup_enabled"

/* What the file of a process says, with its number as N if it is the expected one. */
static char *group_of(const char *who)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%s/autogroup", who);
	return read_file(path);
}

static void show_group(const char *who)
{
	char *text = group_of(who);
	long number;
	int nice, end = 0;
	if (!text)
		say("%s: none, %s", who, error_name(errno));
	else if (sscanf(text, "/autogroup-%ld nice %d\n%n", &number, &nice, &end) == 2 && (size_t)end == strlen(text))
		say("%s: /autogroup-N nice %d, N %s", who, nice, number > 0 ? "above 0" : "not above 0");
	else
		say("%s: \"%s\"", who, text);
	free(text);
}

static long wrote_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	long n = write(fd, text, strlen(text));
	int error = errno;
	close(fd);
	errno = error;
	return n;
}

static long set_group(const char *text)
{
	return wrote_to("/proc/self/autogroup", text);
}

static int same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static void the_switch(void)
{
	section("the switch");
	struct stat st;
	SHOW(stat(SWITCH, &st));
	say("mode %o, size %ld", st.st_mode, (long)st.st_size);
	const char *values[] = { "0", "2", "-1", "1", "x", "", "1\n", "0x1", "4294967297" };
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		errno = 0;
		long n = wrote_to(SWITCH, values[i]);
		char *text = read_file(SWITCH);
		say("\"%s\": %ld %s, now %s", values[i], n, error_name(errno), text ? text : "none");
		free(text);
	}
	SHOW(wrote_to(SWITCH, "1"));
}

static void first(void)
{
	section("who is in none");
	show_group("1");
	SHOW(wrote_to("/proc/1/autogroup", "3"));
	show_group("99999999");
}

static void values(void)
{
	section("values");
	SHOW(setsid() == getpid());
	show_group("self");
	struct stat st;
	SHOW(stat("/proc/self/autogroup", &st));
	say("mode %o, size %ld", st.st_mode, (long)st.st_size);
	SHOW(access("/proc/self/task", F_OK));
	char path[64];
	snprintf(path, sizeof path, "/proc/self/task/%d/autogroup", getpid());
	SHOW(access(path, F_OK));
	const char *values[] = { "5", "19\n", "20", "-20", "-21", "0", " 7 ", "+3", "0x10", "010", "x", "", "3x", "-", "99999999999", "1 2" };
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		errno = 0;
		long n = set_group(values[i]);
		say("\"%s\": %ld %s", values[i], n, error_name(errno));
		show_group("self");
	}
	SHOW(set_group("0"));
}

static void inherited(void)
{
	section("inheritance");
	SHOW(setsid() == getpid());
	SHOW(set_group("4"));
	char *own = group_of("self"), number[32];
	pid_t pid = must_fork();
	if (pid == 0) {
		char *mine = group_of("self");
		CHECK(same(own, mine));
		setpgid(0, 0);
		free(mine);
		mine = group_of("self");
		CHECK(same(own, mine));
		SHOW(set_group("6"));
		_exit(0);
	}
	wait_for(pid);
	show_group("self");
	pid = must_fork();
	if (pid == 0) {
		SHOW(setsid() == getpid());
		char *mine = group_of("self");
		CHECK(same(own, mine));
		show_group("self");
		_exit(0);
	}
	wait_for(pid);
	/* The nice value of the process is another one. */
	SHOW(nice(3));
	show_group("self");
	SHOW(getpriority(PRIO_PROCESS, 0));
	/* One that has ended. */
	pid = must_fork();
	if (pid == 0)
		_exit(0);
	siginfo_t info;
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	snprintf(number, sizeof number, "%d", pid);
	char *text = group_of(number);
	say("a zombie's group can%s be read", text ? "" : "not");
	wait_for(pid);
}

static void rights(void)
{
	section("an ordinary user");
	SHOW(setsid() == getpid());
	SHOW(setgid(1000));
	SHOW(setuid(1000));
	show_group("self");
	/* Who has changed its ids does not own its files. */
	errno = 0;
	say("open %s", open("/proc/self/autogroup", O_WRONLY) >= 0 ? "ok" : error_name(errno));
	prctl(PR_SET_DUMPABLE, 1);
	errno = 0;
	int fd = open("/proc/self/autogroup", O_WRONLY);
	say("open %s", fd >= 0 ? "ok" : error_name(errno));
	if (fd < 0)
		return;
	SHOW(write(fd, "-1", 2));
	SHOW(write(fd, "40", 2));
	nap(200);
	SHOW(write(fd, "2", 1));
	SHOW(write(fd, "3", 1));
	SHOW(write(fd, "-3", 2));
	SHOW(write(fd, "99", 2));
	show_group("self");
	nap(200);
	SHOW(write(fd, "1", 1));
	show_group("self");
	fd = open("/proc/1/autogroup", O_WRONLY);
	say("init's: %s", fd >= 0 ? "ok" : error_name(errno));
}

static void limit(void)
{
	section("a limit of nice values");
	struct rlimit limit = { 25, 25 };
	SHOW(setsid() == getpid());
	SHOW(setrlimit(RLIMIT_NICE, &limit));
	int fd = open("/proc/self/autogroup", O_WRONLY);
	SHOW(setgid(1000));
	SHOW(setuid(1000));
	nap(200);
	SHOW(write(fd, "-5", 2));
	nap(200);
	SHOW(write(fd, "-6", 2));
	show_group("self");
}

static volatile int stop;

static void *spins(void *arg)
{
	(void)arg;
	while (!stop)
		;
	return 0;
}

static void *sleeps(void *arg)
{
	read(*(int *)arg, &(char){ 0 }, 1);
	return 0;
}

/* Threads that run, wait and sleep go with the one that calls setsid; sessions come and go while they do. */
static void threads(void)
{
	section("threads");
	int fds[2];
	pipe(fds);
	pthread_t thread[8];
	for (int i = 0; i < 8; i++)
		pthread_create(&thread[i], 0, i % 2 ? sleeps : spins, &fds[0]);
	nap(30);
	SHOW(setsid() == getpid());
	nap(30);
	show_group("self");
	for (int round = 0; round < 20; round++) {
		pid_t pid = must_fork();
		if (pid == 0) {
			setsid();
			pid_t inner = fork();
			if (inner == 0) {
				setsid();
				for (volatile int i = 0; i < 3000000; i++)
					;
				_exit(0);
			}
			waitpid(inner, 0, 0);
			_exit(0);
		}
		waitpid(pid, 0, 0);
	}
	stop = 1;
	close(fds[1]);
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], 0);
	show_group("self");
}

int main(void)
{
	the_switch();
	first();
	in_child("values", values);
	in_child("inheritance", inherited);
	in_child("rights", rights);
	in_child("limit", limit);
	in_child("threads", threads);
	return 0;
}
