/* prctl: each option that is carried out, with its arguments at the edge; what children have, and what exec leaves. */
#include "t.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define P(...) SHOW(syscall(SYS_prctl, __VA_ARGS__))

static void *in_thread(void *unused)
{
	(void)unused;
	say("thread: slack %ld, mce %d, thp %d", (long)syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0), prctl(PR_MCE_KILL_GET, 0, 0, 0, 0),
	    prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	prctl(PR_SET_TIMERSLACK, 12345);
	prctl(PR_MCE_KILL, 1, 0, 0, 0);
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	return 0;
}

static void state(const char *when)
{
	int death = -1, reaper = -1;
	prctl(PR_GET_PDEATHSIG, &death);
	prctl(PR_GET_CHILD_SUBREAPER, &reaper);
	say("%s: slack %ld, mce %d, thp %d, death signal %d, reaper %d, dumpable %d, keep %d, no new %d, flusher %d", when,
	    (long)syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0), prctl(PR_MCE_KILL_GET, 0, 0, 0, 0), prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), death, reaper,
	    prctl(PR_GET_DUMPABLE), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(58, 0, 0, 0, 0));
}

static void arguments(void)
{
	section("timer slack");
	P(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	P(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	P(PR_GET_TIMERSLACK, 9, 9, 9, 9);
	P(PR_SET_TIMERSLACK, 70000, 0, 0, 0);
	P(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	P(PR_SET_TIMERSLACK, 0, 0, 0, 0);
	P(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	P(PR_SET_TIMERSLACK, -1l, 0, 0, 0);
	P(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	P(PR_SET_TIMERSLACK, 70000, 0, 0, 0);
	pid_t pid = must_fork();
	if (pid == 0) {
		P(PR_GET_TIMERSLACK, 0, 0, 0, 0);
		P(PR_SET_TIMERSLACK, 5, 0, 0, 0);
		P(PR_SET_TIMERSLACK, 0, 0, 0, 0);
		P(PR_GET_TIMERSLACK, 0, 0, 0, 0);
		_exit(0);
	}
	wait_for(pid);
	P(PR_SET_TIMERSLACK, 0, 0, 0, 0);
	P(PR_GET_TIMERSLACK, 0, 0, 0, 0);

	section("death signal, subreaper, dumpable");
	P(PR_SET_PDEATHSIG, 65, 0, 0, 0);
	P(PR_SET_PDEATHSIG, -1l, 0, 0, 0);
	P(PR_SET_PDEATHSIG, 64, 9, 9, 9);
	P(PR_GET_PDEATHSIG, 0, 0, 0, 0);
	P(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	P(PR_SET_CHILD_SUBREAPER, 5, 9, 9, 9);
	P(PR_GET_CHILD_SUBREAPER, 0, 0, 0, 0);
	P(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
	P(PR_SET_DUMPABLE, 2, 0, 0, 0);
	P(PR_SET_DUMPABLE, -1l, 0, 0, 0);
	P(PR_SET_DUMPABLE, 0, 9, 9, 9);
	P(PR_GET_DUMPABLE, 9, 9, 9, 9);
	P(PR_SET_DUMPABLE, 1, 0, 0, 0);

	section("timing and time-stamp counter");
	P(PR_GET_TIMING, 9, 9, 9, 9);
	P(PR_SET_TIMING, 0, 9, 9, 9);
	P(PR_SET_TIMING, 1, 0, 0, 0);
	unsigned tsc = 99;
	P(PR_GET_TSC, &tsc, 0, 0, 0);
	SHOW(tsc);
	P(PR_GET_TSC, 8, 0, 0, 0);
	P(PR_SET_TSC, 1, 0, 0, 0);
	P(PR_SET_TSC, 0, 0, 0, 0);
	P(PR_SET_TSC, 3, 0, 0, 0);

	section("no new privileges");
	P(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
	P(PR_SET_NO_NEW_PRIVS, 2, 0, 0, 0);
	P(PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0);
	P(PR_SET_NO_NEW_PRIVS, 1, 0, 1, 0);
	P(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 1);
	P(PR_GET_NO_NEW_PRIVS, 1, 0, 0, 0);
	P(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 1);

	section("large pages, lost memory, I/O");
	P(PR_SET_THP_DISABLE, 1, 1, 0, 0);
	P(PR_SET_THP_DISABLE, 1, 0, 1, 0);
	P(PR_SET_THP_DISABLE, 1, 0, 0, 1);
	P(PR_GET_THP_DISABLE, 1, 0, 0, 0);
	P(PR_SET_THP_DISABLE, 7, 0, 0, 0);
	P(PR_GET_THP_DISABLE, 0, 0, 0, 0);
	P(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	P(PR_GET_THP_DISABLE, 0, 0, 0, 0);
	P(PR_MCE_KILL_GET, 0, 0, 0, 0);
	P(PR_MCE_KILL_GET, 1, 0, 0, 0);
	P(PR_MCE_KILL_GET, 0, 0, 0, 1);
	for (int operation = 0; operation < 3; operation++)
		for (int when = 0; when < 4; when++) {
			long result = syscall(SYS_prctl, PR_MCE_KILL, operation, when, 0, 0);
			say("mce %d %d: %s, %d", operation, when, result ? error_name(errno) : "0", prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
		}
	P(PR_MCE_KILL, 1, 1, 1, 0);
	P(PR_MCE_KILL, 1, 1, 0, 1);
	P(57, 0, 0, 0, 0);
	P(57, 2, 0, 0, 0);
	P(57, 1, 1, 0, 0);
	P(58, 1, 0, 0, 0);
	P(57, 1, 0, 0, 0);
	P(58, 0, 0, 0, 0);
	P(57, 0, 0, 0, 0);

	section("names and addresses");
	char name[17] = "", text[] = "a name that is far too long";
	P(PR_SET_NAME, text, 0, 0, 0);
	P(PR_GET_NAME, name, 0, 0, 0);
	say("%s", name);
	P(PR_SET_NAME, 8, 0, 0, 0);
	P(PR_GET_NAME, 8, 0, 0, 0);
	P(PR_SET_NAME, "", 0, 0, 0);
	P(PR_GET_NAME, name, 0, 0, 0);
	say("'%s'", name);
	/* What ends with a page is read to its last byte; of what does not, as much as is there. */
	char *end = (char *)mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 4096;
	munmap(end, 4096);
	memcpy(end - 5, "edge", 5);
	P(PR_SET_NAME, end - 5, 0, 0, 0);
	P(PR_SET_NAME, end - 4, 0, 0, 0);
	P(PR_SET_NAME, end - 1, 0, 0, 0);
	P(PR_SET_NAME, end, 0, 0, 0);
	int file = memfd_create("edge", 0);
	SHOW(write(file, end - 5, 16));
	SHOW(write(file, end - 13, 61));
	SHOW(pread(file, end - 3, 16, 0));
	SHOW(pread(file, end - 11, 61, 0));
	close(file);
	int *cleared = 0, word;
	syscall(SYS_set_tid_address, &word);
	P(40, &cleared, 0, 0, 0);
	CHECK(cleared == &word);
	P(40, 8, 0, 0, 0);
	unsigned long vector[128] = { 0 };
	long length = syscall(SYS_prctl, 0x41555856, vector, sizeof vector, 0, 0);
	CHECK(length > 16 && length % 16 == 0);
	unsigned long uid = 99;
	for (int i = 0; i < 126 && vector[i]; i += 2)
		if (vector[i] == AT_UID)
			uid = vector[i + 1];
	SHOW(uid);
	vector[1] = 77;
	CHECK(syscall(SYS_prctl, 0x41555856, vector, 8, 0, 0) == length);
	SHOW(vector[1]);
	CHECK(syscall(SYS_prctl, 0x41555856, vector, 0, 0, 0) == length);
	P(0x41555856, 8, 8, 0, 0);
	P(0x41555856, vector, 8, 1, 0);
	P(0x41555856, vector, 8, 0, 1);

	section("of other machines, and none");
	static const int none[] = { 0, 5, 6, 9, 10, 11, 12, 17, 18, 19, 20, 43, 44, 45, 46, 48, 49, 50, 51, 54, 55, 56, 60, 61, 63, 64, 69, 70, 71, 72, 73, 80, 1000, -1 };
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		say("%d: %s", none[i], syscall(SYS_prctl, none[i], 0, 0, 0, 0) < 0 ? error_name(errno) : "ok");
}

static void inherited(void)
{
	section("what is handed on");
	state("first");
	prctl(PR_SET_TIMERSLACK, 777);
	prctl(PR_MCE_KILL, 1, 1, 0, 0);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	prctl(57, 1, 0, 0, 0);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_KEEPCAPS, 1);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0);
	state("set");
	pid_t pid = must_fork();
	if (pid == 0) {
		state("child");
		_exit(0);
	}
	wait_for(pid);
	pthread_t thread;
	pthread_create(&thread, 0, in_thread, 0);
	pthread_join(thread, 0);
	state("after the thread");
	execl("/proc/self/exe", "again", (char *)0);
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, 0, _IONBF, 0);
	if (strcmp(argv[0], "again") == 0) {
		state("after exec");
		return 0;
	}
	in_child("arguments", arguments);
	inherited();
	return 1;
}
