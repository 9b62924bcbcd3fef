/*
 * reuse FORKS: what was opened of /proc/PID stays about that process when its number is used again.
 *
 * A child with a secret in its environment ends; others are forked until one has its number, which may take FORKS of them. Status 0: what was opened
 * before shows nothing of the new process; 1: it does; 2: usage; 3: the number did not come back.
 */
#include "t.h"

static int live(int *hold)
{
	char byte;
	close(hold[1]);
	read(hold[0], &byte, 1);
	_exit(0);
}

int main(int argc, char **argv)
{
	int forks = argc == 2 ? atoi(argv[1]) : 0, hold[2], status = 0;
	if (forks < 1 || pipe(hold) != 0) {
		say("usage: reuse FORKS");
		return 2;
	}
	/* Numbers come back in blocks of 64, when all of a block are free: not in that of a process that lives on. */
	for (int i = 0; i < 200; i++) {
		pid_t other = must_fork();
		if (other == 0)
			_exit(0);
		wait_for(other);
	}
	pid_t first = must_fork();
	if (first == 0)
		live(hold);
	static const char *const names[] = { "environ", "cmdline", "maps", "status", "stat", "auxv", "comm", "limits" };
	enum { NAMES = sizeof names / sizeof *names };
	char path[64];
	int file[NAMES];
	snprintf(path, sizeof path, "/proc/%d", first);
	int dir = open(path, O_RDONLY | O_DIRECTORY), fds = openat(dir, "fd", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < NAMES; i++)
		file[i] = openat(dir, names[i], O_RDONLY);
	close(hold[1]);
	if (wait_for(first) != 0 || dir < 0 || fds < 0 || pipe(hold) != 0)
		return 2;
	pid_t again = 0;
	while (again != first && forks-- > 0) {
		again = must_fork();
		if (again == 0)
			live(hold);
		if (again != first) {
			kill(again, SIGKILL);
			wait_for(again);
		}
	}
	if (again != first) {
		say("the number did not come back");
		return 3;
	}
	char text[4096];
	for (int i = 0; i < NAMES; i++) {
		ssize_t got = pread(file[i], text, sizeof text, 0);
		if (got > 0) {
			say("%s, opened of the process before, shows %zd bytes", names[i], got);
			status = 1;
		}
		if (openat(dir, names[i], O_RDONLY) >= 0) {
			say("%s of the new process is found in the directory of the old", names[i]);
			status = 1;
		}
	}
	if (syscall(SYS_getdents64, dir, text, sizeof text) > 0 || syscall(SYS_getdents64, fds, text, sizeof text) > 0) {
		say("the directory of the process before lists the new one's files");
		status = 1;
	}
	if (readlinkat(dir, "exe", text, sizeof text) > 0 || readlinkat(fds, "0", text, sizeof text) > 0) {
		say("a link of the process before leads to the new one's file");
		status = 1;
	}
	int fresh = open(path, O_RDONLY | O_DIRECTORY);
	if (openat(fresh, "environ", O_RDONLY) < 0) {
		say("the new process cannot be looked at");
		status = 1;
	}
	kill(again, SIGKILL);
	wait_for(again);
	say("number %s", status ? "shared" : "kept apart");
	return status;
}
