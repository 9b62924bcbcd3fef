/*
 * driver SECONDS PROGRAM...: runs each program in turn in the guest and frames what it printed.
 *
 * Each program runs in a session of its own, in an empty directory, with a fixed environment, standard input from /dev/null,
 * standard output and error in one pipe. A frame is
 *     \n@@begin NAME\n            printed before the program starts, so that the last word of a dead kernel is its name
 *     \n@@end NAME STATUS MILLISECONDS LENGTH\n<LENGTH bytes>\n
 * STATUS is "exit-N", "signal-N" or "timeout".
 */
#include "t.h"

#include <poll.h>

#define LIMIT (4 << 20)

static char output[LIMIT];

static long now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000L + now.tv_nsec / 1000000L;
}

static void put(const char *text, size_t length)
{
	while (length > 0) {
		ssize_t done = write(1, text, length);
		if (done < 0 && errno != EINTR)
			_exit(1);
		if (done > 0)
			text += done, length -= (size_t)done;
	}
}

static void remove_tree(const char *path)
{
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/busybox", "rm", "-rf", path, (char *)0);
		execl("/bin/rm", "rm", "-rf", path, (char *)0);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, 0, 0);
}

static void run(const char *path, int limit_seconds)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char line[256], directory[128];
	put(line, (size_t)snprintf(line, sizeof line, "\n@@begin %s\n", name));
	snprintf(directory, sizeof directory, "/tmp/abi.%s", name);
	remove_tree(directory);
	mkdir(directory, 0755);
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		_exit(1);
	long start = now_ms();
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		int null = open("/dev/null", O_RDONLY);
		dup2(null, 0), dup2(ends[1], 1), dup2(ends[1], 2);
		if (null > 2)
			close(null);
		if (chdir(directory) != 0)
			_exit(126);
		umask(022);
		char *arguments[] = { (char *)path, 0 };
		char *environment[] = { "PATH=/bin:/sbin:/usr/bin:/usr/sbin", "HOME=/", "TERM=dumb", "TZ=UTC", "LC_ALL=C", 0 };
		execve(path, arguments, environment);
		/* A script, which needs no permission to be executed where it comes from. */
		if (errno == EACCES)
			execve("/bin/sh", (char *[]){ "sh", (char *)path, 0 }, environment);
		_exit(127);
	}
	close(ends[1]);
	size_t length = 0;
	int status = 0, gone = 0, timed_out = 0;
	/* Until the program is gone, and then for what is still in the pipe: a daemon may hold it open. */
	for (;;) {
		struct pollfd ready = { ends[0], POLLIN, 0 };
		if (poll(&ready, 1, gone ? 0 : 20) > 0) {
			ssize_t got = read(ends[0], output + length, LIMIT - length);
			if (got > 0)
				length += (size_t)got;
			if (length == LIMIT)
				length = LIMIT - 4096;
			if (got > 0)
				continue;
			if (got == 0 && gone)
				break;
			if (got == 0)
				nap(2);
		} else if (gone) {
			break;
		}
		if (!gone && waitpid(pid, &status, WNOHANG) == pid) {
			gone = 1;
			continue;
		}
		if (!gone && now_ms() - start > limit_seconds * 1000L) {
			timed_out = 1;
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			gone = 1;
		}
	}
	kill(-pid, SIGKILL);
	close(ends[0]);
	char how[32];
	if (timed_out)
		snprintf(how, sizeof how, "timeout");
	else if (WIFEXITED(status))
		snprintf(how, sizeof how, "exit-%d", WEXITSTATUS(status));
	else
		snprintf(how, sizeof how, "signal-%d", WTERMSIG(status));
	put(line, (size_t)snprintf(line, sizeof line, "\n@@end %s %s %ld %zu\n", name, how, now_ms() - start, length));
	put(output, length);
	put("\n", 1);
	chdir("/");
	remove_tree(directory);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	for (int i = 2; i < argc; i++)
		run(argv[i], atoi(argv[1]));
	return 0;
}
