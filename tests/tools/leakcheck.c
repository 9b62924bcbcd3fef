/*
 * leakcheck ROUNDS TOLERANCE_KIB [PROGRAM [ARG...]]: runs a program again and again and looks whether memory comes back.
 *
 * Some rounds go first, so that caches have what they keep. Then MemFree of /proc/meminfo is read, the rounds run, and
 * MemFree is read again until it is within the tolerance or five seconds are over: what is freed late is freed too.
 * Without a program it executes itself (which exits at once): rounds of fork, exec, exit and wait.
 * The program's output is dropped. Status 0: memory came back; 1: it did not; 2: usage.
 */
#include "meminfo.h"
#include "t.h"

static int failures;

static void round_of(char **program)
{
	static char *own[] = { "@exit", 0 };
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		dup2(null, 0), dup2(null, 1), dup2(null, 2);
		if (null > 2)
			close(null);
		setsid();
		if (*program)
			execv(*program, program);
		else
			execv("/proc/self/exe", own);
		_exit(127);
	}
	if (pid < 0) {
		failures++;
		return;
	}
	int status = wait_for(pid);
	kill(-pid, SIGKILL);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		failures++;
}

int main(int argc, char **argv)
{
	if (strcmp(argv[0], "@exit") == 0)
		return 0;
	if (argc < 3) {
		say("usage: leakcheck ROUNDS TOLERANCE_KIB [PROGRAM [ARG...]]");
		return 2;
	}
	long rounds = atol(argv[1]), tolerance = atol(argv[2]);
	char **program = argv + 3;
	long warm = rounds / 10 + 1;
	for (long i = 0; i < warm; i++)
		round_of(program);
	nap(300);
	long before = mem_free();
	for (long i = 0; i < rounds; i++)
		round_of(program);
	long after = mem_free();
	for (int i = 0; i < 50 && before - after > tolerance; i++) {
		nap(100);
		after = mem_free();
	}
	int kept = before - after > tolerance;
	say("%s: %ld rounds, free before %ld KiB, after %ld KiB, lost %ld KiB of %ld allowed, %d failures: %s",
	    *program ? *program : "fork, exec, exit", rounds, before, after, before - after, tolerance, failures,
	    before < 0 || failures ? "failed" : kept ? "LEAK" : "memory came back");
	return before < 0 || failures || kept;
}
