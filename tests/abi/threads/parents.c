/* Children belong to the thread that made them: the signal at that thread's end (PR_SET_PDEATHSIG), and waiting for one's own alone (__WNOTHREAD). */
#include "t.h"
#include <dirent.h>

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#ifndef __WNOTHREAD
#define __WNOTHREAD 0x20000000
#endif

static int to_child[2], to_parent[2], within[2];

static void send(int fd)
{
	write(fd, "x", 1);
}

static void receive(int fd)
{
	char byte;
	read(fd, &byte, 1);
}

/* What a child has been sent, by signals that wait for it, within a moment if `expected`. */
static const char *sent(int number, int expected)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	siginfo_t info;
	int got = sigtimedwait(&set, &info, &(struct timespec){ expected ? 10 : 0, 100000000 });
	return got < 0 ? "nothing" : info.si_code == SI_USER ? "by a user" : "otherwise";
}

/* A child whose threads ask for `first` and `second` (0: none), and say what they get twice: when told, and at the end. */
static void *asks(void *second)
{
	prctl(PR_SET_PDEATHSIG, (int)(long)second);
	send(within[1]);
	pause();
	return 0;
}

static pid_t child(int first, int second)
{
	sigset_t set;
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, 0);
	pid_t pid = must_fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, first);
	if (second != 0) {
		pthread_t thread;
		pthread_create(&thread, 0, asks, (void *)(long)second);
		receive(within[0]);
	}
	send(to_parent[1]);
	for (int i = 0; i < 2; i++) {
		receive(to_child[0]);
		if (first != 0)
			say("  first: %s", sent(first, i == 0));
		if (second != 0)
			say("  second: %s", sent(second, i == 0));
		send(to_parent[1]);
	}
	_exit(0);
}

static pid_t made;
static int first_signal, second_signal;
static void *makes(void *unused)
{
	(void)unused;
	made = child(first_signal, second_signal);
	receive(to_parent[0]);
	return 0;
}

static void look(void)
{
	send(to_child[1]);
	receive(to_parent[0]);
}

static void deaths(void)
{
	section("a thread that made a child ends");
	pthread_t thread;
	first_signal = SIGUSR1, second_signal = 0;
	pthread_create(&thread, 0, makes, 0);
	pthread_join(thread, 0);
	look();
	look();
	say("then: %s", status_text(wait_for(made)));
	section("two threads of the child asked");
	first_signal = SIGUSR1, second_signal = SIGRTMIN + 5;
	pthread_create(&thread, 0, makes, 0);
	pthread_join(thread, 0);
	look();
	look();
	say("then: %s", status_text(wait_for(made)));
}

static void *nothing(void *unused)
{
	return unused;
}

static void others(void)
{
	section("another thread ends");
	pid_t pid = child(SIGUSR1, 0);
	receive(to_parent[0]);
	pthread_t thread;
	pthread_create(&thread, 0, nothing, 0);
	pthread_join(thread, 0);
	/* It waits as for a signal that comes: it gets none from this thread until the end. */
	kill(pid, SIGUSR1);
	look();
	look();
	say("then: %s", status_text(wait_for(pid)));
	section("a grandchild is not told");
	int pair[2];
	pipe(pair);
	pid = must_fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pid_t inner = must_fork();
		if (inner == 0) {
			int signal = -1;
			prctl(PR_GET_PDEATHSIG, &signal);
			say("inherited: %d", signal);
			_exit(0);
		}
		wait_for(inner);
		_exit(0);
	}
	say("child: %s", status_text(wait_for(pid)));
}

static pid_t mine;
static void wait_in(const char *text, pid_t which, int options)
{
	errno = 0;
	int status = 0;
	pid_t got = waitpid(which, &status, options);
	say("%s: %s %s", text, got > 0 ? "a child" : got == 0 ? "none yet" : "-1", error_name(errno));
}

static void *waits(void *unused)
{
	(void)unused;
	wait_in("another thread's, by number", mine, __WNOTHREAD | WNOHANG);
	wait_in("any", -1, __WNOTHREAD | WNOHANG);
	wait_in("any, all threads'", -1, WNOHANG);
	siginfo_t info = { 0 };
	SHOW(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WNOTHREAD));
	pid_t own = must_fork();
	if (own == 0)
		_exit(3);
	wait_in("its own", -1, __WNOTHREAD);
	wait_in("and then", -1, __WNOTHREAD);
	return 0;
}

static void *leaves(void *unused)
{
	mine = must_fork();
	if (mine == 0) {
		receive(to_child[0]);
		_exit(5);
	}
	return unused;
}

/* A thread that was joined may have its children for a moment yet, on Linux: until it is not listed any more. */
static void be_alone(void)
{
	for (int threads = 0; threads != 1;) {
		DIR *dir = opendir("/proc/self/task");
		threads = 0;
		for (struct dirent *entry; (entry = readdir(dir));)
			threads += entry->d_name[0] != '.';
		closedir(dir);
		if (threads != 1)
			nap(1);
	}
}

static void own(void)
{
	section("waiting for one's own");
	pthread_t thread;
	mine = must_fork();
	if (mine == 0) {
		receive(to_child[0]);
		_exit(4);
	}
	pthread_create(&thread, 0, waits, 0);
	pthread_join(thread, 0);
	send(to_child[1]);
	wait_in("the one that made it", -1, __WNOTHREAD);
	section("left by a thread that ended");
	pthread_create(&thread, 0, leaves, 0);
	pthread_join(thread, 0);
	be_alone();
	wait_in("before its end", -1, __WNOTHREAD | WNOHANG);
	send(to_child[1]);
	wait_in("after", mine, __WNOTHREAD);
	wait_in("and then", -1, __WNOTHREAD);
}

/* A thread other than the leader executes a program: what it made stays its own. */
static char *again;
static void *executes(void *unused)
{
	(void)unused;
	pid_t pid = must_fork();
	if (pid == 0)
		_exit(6);
	execl("/proc/self/exe", again, "waits", (char *)0);
	return 0;
}

static void executed(void)
{
	section("exec by another thread");
	pid_t pid = must_fork();
	if (pid == 0) {
		pid_t before = must_fork();
		if (before == 0)
			_exit(7);
		pthread_t thread;
		pthread_create(&thread, 0, executes, 0);
		pause();
	}
	say("%s", status_text(wait_for(pid)));
}

/* Many children of one thread are all told. */
enum { MANY = 300 };
static void *many(void *unused)
{
	for (int i = 0; i < MANY; i++)
		if (must_fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			send(to_parent[1]);
			for (;;)
				pause();
		}
	for (int i = 0; i < MANY; i++)
		receive(to_parent[0]);
	return unused;
}

static void crowd(void)
{
	section("many");
	pthread_t thread;
	pthread_create(&thread, 0, many, 0);
	pthread_join(thread, 0);
	int killed = 0, status;
	for (int i = 0; i < MANY; i++)
		killed += wait(&status) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	say("killed %d", killed);
}

/* A subreaper whose first thread has ended: orphans come to a thread that lives, and are told of its end. */
static pid_t orphan;
static int ended[2];

static void *adopts(void *unused)
{
	/* The first thread ends meanwhile. */
	nap(100);
	pid_t middle = must_fork();
	if (middle == 0) {
		pid_t pid = must_fork();
		if (pid == 0) {
			sigset_t set;
			sigemptyset(&set);
			sigaddset(&set, SIGUSR1);
			sigprocmask(SIG_BLOCK, &set, 0);
			receive(to_child[0]);
			prctl(PR_SET_PDEATHSIG, SIGUSR1);
			send(to_parent[1]);
			receive(to_child[0]);
			say("the orphan got %s", sent(SIGUSR1, 1));
			_exit(8);
		}
		write(within[1], &pid, sizeof pid);
		_exit(0);
	}
	wait_for(middle);
	read(within[0], &orphan, sizeof orphan);
	wait_in("adopted, by number", orphan, __WNOTHREAD | WNOHANG);
	wait_in("adopted, any", -1, __WNOTHREAD | WNOHANG);
	send(to_child[1]);
	receive(to_parent[0]);
	send(ended[1]);
	return unused;
}

static void *stays(void *unused)
{
	receive(ended[0]);
	nap(20);
	wait_in("left to the other", orphan, __WNOTHREAD | WNOHANG);
	send(to_child[1]);
	say("then: %s", status_text(wait_for(orphan)));
	_exit(0);
	return unused;
}

/* A sibling made by CLONE_PARENT belongs to the thread that its maker belongs to by then. */
static pid_t sibling;
static void *has_two(void *unused)
{
	mine = must_fork();
	if (mine == 0) {
		receive(to_child[0]);
		pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT, 0, 0, 0, 0);
		if (pid == 0)
			_exit(9);
		write(within[1], &pid, sizeof pid);
		_exit(4);
	}
	return unused;
}

static void adopted(void)
{
	section("a subreaper whose first thread has ended");
	pipe(ended);
	pid_t pid = must_fork();
	if (pid == 0) {
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		pthread_t thread;
		pthread_create(&thread, 0, adopts, 0);
		pthread_create(&thread, 0, stays, 0);
		syscall(SYS_exit, 0);
	}
	say("%s", status_text(wait_for(pid)));
	section("a sibling of one that was left to another thread");
	pthread_t thread;
	pthread_create(&thread, 0, has_two, 0);
	pthread_join(thread, 0);
	be_alone();
	send(to_child[1]);
	read(within[0], &sibling, sizeof sibling);
	wait_in("its maker", mine, __WNOTHREAD);
	wait_in("the sibling", sibling, __WNOTHREAD | __WALL);
	wait_in("and then", -1, __WNOTHREAD | __WALL);
}

int main(int count, char **arguments)
{
	setvbuf(stdout, 0, _IONBF, 0);
	if (count > 1) {
		wait_in("first", -1, __WNOTHREAD);
		wait_in("second", -1, __WNOTHREAD);
		wait_in("third", -1, __WNOTHREAD);
		return 0;
	}
	again = arguments[0];
	pipe(to_child), pipe(to_parent), pipe(within);
	deaths();
	others();
	own();
	executed();
	crowd();
	adopted();
	return 0;
}
