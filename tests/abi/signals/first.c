/* The first process is spared the default actions of signals: of other processes' and of the kernel's, sent to it all or to its thread. */
#include "t.h"

#include <sys/resource.h>

enum { FIRST = 1 };

static void show_state(void)
{
	char path[] = "/proc/1/status", line[200];
	FILE *f = fopen(path, "r");
	if (!f)
		return;
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, "State:", 6) || !strncmp(line, "ShdPnd:", 7)) {
			line[strcspn(line, "\n")] = 0;
			say("  %s", line);
		}
	fclose(f);
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
