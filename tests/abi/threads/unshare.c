/* unshare: what threads have in common and each gets for itself. ioprio_get and ioprio_set. sync_file_range. */
#include "t.h"

#include <pthread.h>
#include <sys/resource.h>

#define GET(which, who) syscall(SYS_ioprio_get, which, who)
#define SET(which, who, priority) syscall(SYS_ioprio_set, which, who, priority)
enum { PROCESS = 1, GROUP = 2, USER = 3 };

static int step[2], back[2];

static void *other(void *unused)
{
	char c;
	SHOW(unshare(CLONE_FS | CLONE_FILES | CLONE_SYSVSEM));
	SHOW(chdir("/"));
	umask(0123);
	SHOW(close(70));
	SHOW(dup2(0, 71));
	SHOW(unshare(CLONE_THREAD));
	SHOW(unshare(CLONE_SIGHAND));
	SHOW(unshare(CLONE_VM));
	write(step[1], "x", 1);
	read(back[0], &c, 1);
	return unused;
}

static char stack[65536] __attribute__((aligned(16)));

static int alone(void *unused)
{
	(void)unused;
	SHOW(unshare(CLONE_THREAD));
	SHOW(unshare(CLONE_SIGHAND));
	SHOW(unshare(CLONE_VM));
	_exit(0);
}

static void parts(void)
{
	section("unshare");
	SHOW(unshare(0));
	SHOW(unshare(1));
	SHOW(unshare(CLONE_PARENT));
	SHOW(unshare(CLONE_THREAD | CLONE_VM | CLONE_SIGHAND));
	SHOW(unshare(CLONE_FS | CLONE_FILES));
	SHOW(mkdir("here", 0700));
	SHOW(chdir("here"));
	pipe(step), pipe(back);
	dup2(0, 70);
	umask(022);
	pthread_t thread;
	pthread_create(&thread, NULL, other, NULL);
	char c, path[256];
	read(step[0], &c, 1);
	CHECK(strcmp(strrchr(getcwd(path, sizeof path), '/'), "/here") == 0);
	SHOW(umask(022));
	SHOW(fcntl(70, F_GETFD));
	SHOW(fcntl(71, F_GETFD));
	SHOW(unshare(CLONE_THREAD));
	write(back[1], "x", 1);
	pthread_join(thread, NULL);
	/* Memory, and memory with handlers, of another process. */
	pid_t pid = clone(alone, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	wait_for(pid);
	pid = clone(alone, stack + sizeof stack, CLONE_VM | CLONE_SIGHAND | CLONE_VFORK | SIGCHLD, NULL);
	wait_for(pid);
	/* Descriptors that a process shares with its parent. */
	pid = (pid_t)syscall(SYS_clone, CLONE_FILES | CLONE_FS | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		SHOW(unshare(CLONE_FILES));
		SHOW(close(70));
		SHOW(chdir("/"));
		_exit(0);
	}
	wait_for(pid);
	SHOW(fcntl(70, F_GETFD));
	SHOW(strcmp(getcwd(path, sizeof path), "/"));
	pid = must_fork();
	if (pid == 0) {
		syscall(SYS_setresuid, 1000, 1000, 1000);
		SHOW(unshare(CLONE_NEWUTS));
		SHOW(unshare(CLONE_NEWNS));
		SHOW(unshare(CLONE_FS | CLONE_NEWIPC));
		SHOW(unshare(CLONE_FS));
		_exit(0);
	}
	wait_for(pid);
	pid = must_fork();
	if (pid == 0) {
		MISSING(unshare(CLONE_NEWUTS), EINVAL);
		MISSING(unshare(CLONE_NEWNS), EINVAL);
		MISSING(unshare(CLONE_NEWIPC), EINVAL);
		MISSING(unshare(CLONE_NEWNET), EINVAL);
		MISSING(unshare(CLONE_NEWPID), EINVAL);
		MISSING(unshare(0x02000000), EINVAL);
		MISSING(unshare(0x80), EINVAL);
		MISSING(unshare(CLONE_NEWUSER), EINVAL);
		_exit(0);
	}
	wait_for(pid);
}

static void priorities(void)
{
	section("priorities of I/O");
	SHOW(GET(PROCESS, 0));
	SHOW(GET(PROCESS, getpid()));
	setpgid(0, 0);
	SHOW(GET(GROUP, 0));
	SHOW(GET(0, 0));
	SHOW(GET(4, 0));
	SHOW(GET(PROCESS, 0x3ffffe));
	SHOW(GET(PROCESS, -1));
	SHOW(GET(GROUP, 0x3ffffe));
	SHOW(GET(USER, 77));
	SHOW(SET(PROCESS, 0, 2 << 13 | 6));
	SHOW(GET(PROCESS, 0));
	SHOW(GET(GROUP, 0));
	SHOW(SET(PROCESS, 0, 2 << 13 | 7));
	SHOW(SET(PROCESS, 0, 1 << 13 | 3));
	SHOW(GET(PROCESS, 0));
	SHOW(SET(PROCESS, 0, 3 << 13 | 7));
	SHOW(GET(PROCESS, 0));
	SHOW(SET(PROCESS, 0, 1));
	SHOW(SET(PROCESS, 0, 4 << 13));
	SHOW(SET(PROCESS, 0, 7 << 13));
	SHOW(SET(0, 0, 2 << 13));
	SHOW(SET(PROCESS, 0x3ffffe, 2 << 13));
	SHOW(SET(PROCESS, 0, 0));
	SHOW(GET(PROCESS, 0));
	/* Handed on, and by the nice value. */
	SHOW(SET(PROCESS, 0, 2 << 13 | 1));
	pid_t pid = must_fork();
	if (pid == 0) {
		SHOW(GET(PROCESS, 0));
		SET(PROCESS, 0, 0);
		setpgid(0, 0);
		setpriority(PRIO_PROCESS, 0, 10);
		SHOW(GET(PROCESS, 0));
		SHOW(GET(GROUP, 0));
		_exit(0);
	}
	wait_for(pid);
	pid = parked(NULL);
	pid_t stranger = must_fork();
	if (stranger == 0) {
		syscall(SYS_setresuid, 1000, 1000, 1000);
		SHOW(SET(PROCESS, pid, 2 << 13 | 4));
		SHOW(GET(PROCESS, pid));
		SHOW(SET(PROCESS, 0, 2 << 13 | 2));
		SHOW(SET(PROCESS, 0, 3 << 13));
		SHOW(SET(PROCESS, 0, 1 << 13));
		SHOW(SET(USER, 1000, 2 << 13 | 5));
		SHOW(GET(USER, 0));
		SHOW(SET(GROUP, 0, 2 << 13 | 5));
		_exit(0);
	}
	wait_for(stranger);
	SHOW(GET(PROCESS, pid));
	kill(pid, SIGKILL);
	wait_for(pid);
}

static void ranges(void)
{
	section("ranges");
#define RANGE(fd, at, length, flags) syscall(SYS_sync_file_range, fd, (long)(at), (long)(length), flags)
	write_file("f", "x");
	int fd = open("f", O_RDWR), ends[2], path = open("f", O_PATH), directory = open(".", O_RDONLY), null = open("/dev/null", O_RDWR);
	pipe(ends);
	SHOW(RANGE(fd, 0, 0, 0));
	SHOW(RANGE(fd, 0, 0, 7));
	SHOW(RANGE(fd, 0, 1, 8));
	SHOW(RANGE(fd, -1, 1, 2));
	SHOW(RANGE(fd, 5, -3, 2));
	SHOW(RANGE(fd, 5, -6, 2));
	SHOW(RANGE(fd, 1L << 40, 1L << 40, 2));
	SHOW(RANGE(fd, LONG_MAX, 1, 2));
	SHOW(RANGE(ends[0], 0, 0, 2));
	SHOW(RANGE(ends[0], 0, 0, 8));
	SHOW(RANGE(null, 0, 0, 2));
	SHOW(RANGE(directory, 0, 0, 2));
	SHOW(RANGE(path, 0, 0, 2));
	SHOW(RANGE(99, 0, 0, 8));
}

int main(void)
{
	parts();
	priorities();
	ranges();
	return 0;
}
