/* process_mrelease: the memory of a process that was killed, and of whom it is not given back. */
#include "t.h"

#include <sched.h>
#include <sys/mman.h>

#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif

#define SIZE (24ul << 20)

static int release(int fd, unsigned flags)
{
	return (int)syscall(SYS_process_mrelease, fd, flags);
}

/* A child with memory, which runs without end. */
static pid_t child(void)
{
	int ready[2];
	pipe(ready);
	pid_t pid = must_fork();
	if (!pid) {
		volatile char *at = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (size_t i = 0; i < SIZE; i += 4096)
			at[i] = 1;
		write(ready[1], "", 1);
		for (;;)
			pause();
	}
	char byte;
	read(ready[0], &byte, 1);
	close(ready[0]), close(ready[1]);
	return pid;
}

static int fd;

static void by_user(void)
{
	setuid(1000);
	SHOW(release(fd, 0));
}

int main(void)
{
	section("refused");
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0), null = open("/dev/null", O_RDONLY);
	SHOW(release(-1, 1));
	SHOW(release(-1, 0));
	SHOW(release(null, 0));
	SHOW(release(self, 1));
	SHOW(release(self, 0));
	pid_t pid = child();
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	SHOW(release(fd, 0));
	kill(pid, SIGSTOP);
	SHOW(release(fd, 0));
	kill(pid, SIGCONT);
	in_child("by a user", by_user);
	kill(pid, SIGKILL);
	siginfo_t info;
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	SHOW(release(fd, 0));
	SHOW(wait_for(pid) == SIGKILL);
	SHOW(release(fd, 0));
	close(fd);

	section("given back");
	/* It may be quicker than the call. */
	int done = 0, other = 0;
	for (int i = 0; i < 50 && !done; i++) {
		pid = child();
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
		kill(pid, SIGKILL);
		int result = release(fd, 0);
		done += !result;
		other += result && errno != ESRCH;
		wait_for(pid);
		close(fd);
	}
	SHOW(done);
	SHOW(other);
	return 0;
}
