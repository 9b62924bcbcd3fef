/* The first process is spared the default actions of signals: of other processes' and of the kernel's, sent to it all or to its thread. */
#include "t.h"

#include <sys/resource.h>

enum { FIRST = 1 };

/* Its row, "State:" or another. */
static void row(const char *name, char *to, size_t size)
{
	FILE *f = fopen("/proc/1/status", "r");
	*to = 0;
	while (f && fgets(to, (int)size, f) && strncmp(to, name, strlen(name))) {}
	if (f)
		fclose(f);
	to[strcspn(to, "\n")] = 0;
}

/* Once it sleeps again: who was woken may wait for a busy processor. */
static void show_state(void)
{
	char line[200];
	row("State:", line, sizeof line);
	for (int i = 0; i < 1000 && strstr(line, "R (running)"); i++) {
		nap(5);
		row("State:", line, sizeof line);
	}
	say("  %s", line);
	row("ShdPnd:", line, sizeof line);
	say("  %s", line);
}

static void sent(void)
{
	section("sent by a process");
	static const int signals[] = { SIGTERM, SIGHUP, SIGUSR1, SIGSEGV, SIGALRM, SIGSTOP, SIGTSTP, SIGTTIN, SIGKILL, SIGXCPU, SIGSYS, 34, 64 };
	for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
		say("%s", signal_name(signals[i]));
		SHOW(kill(FIRST, signals[i]));
		SHOW(syscall(SYS_tgkill, FIRST, FIRST, signals[i]));
		SHOW(sigqueue(FIRST, signals[i], (union sigval){ .sival_int = 7 }));
	}
	show_state();
}

/* Wakes the first process, which takes the child's child. */
static void orphan_for_it(void)
{
	pid_t child = must_fork();
	if (child == 0) {
		if (must_fork() == 0) {
			usleep(20000);
			_exit(0);
		}
		_exit(0);
	}
	waitpid(child, NULL, 0);
	usleep(60000);
}

static void limited(void)
{
	section("past its limit of processor time");
	struct rlimit old, none = { 0, RLIM_INFINITY };
	SHOW(prlimit(FIRST, RLIMIT_CPU, NULL, &old));
	SHOW(prlimit(FIRST, RLIMIT_CPU, &none, NULL));
	for (int i = 0; i < 3; i++)
		orphan_for_it();
	show_state();
	SHOW(prlimit(FIRST, RLIMIT_CPU, &old, NULL));
}

static void told(int signal)
{
	int ends[2];
	if (pipe(ends))
		return;
	say("%s for a file", signal ? signal_name(signal) : "the signal");
	SHOW(fcntl(ends[0], F_SETOWN, FIRST));
	SHOW(fcntl(ends[0], F_SETSIG, signal));
	SHOW(fcntl(ends[0], F_SETFL, O_ASYNC));
	SHOW(write(ends[1], "x", 1));
	orphan_for_it();
	show_state();
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	sent();
	limited();
	section("told of files");
	told(0);
	told(SIGUSR2);
	told(40);
	return 0;
}
