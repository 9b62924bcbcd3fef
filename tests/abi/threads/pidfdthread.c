/* Descriptors of threads (PIDFD_THREAD), and whom a signal through a process descriptor reaches: a thread, a process, a group. */
#include "pidfd.h"

#include <pthread.h>
#include <sys/resource.h>

#define THREAD O_EXCL
#define TID() ((int)syscall(SYS_gettid))

static int told[2], end[2];

static void *one(void *unused)
{
	(void)unused;
	int tid = TID();
	write(told[1], &tid, sizeof tid);
	char c;
	while (read(end[0], &c, 1) < 0 && errno == EINTR)
		;
	return NULL;
}

static pthread_t start(int *tid)
{
	pthread_t thread;
	pthread_create(&thread, NULL, one, NULL);
	read(told[0], tid, sizeof *tid);
	return thread;
}

/* Whether a thread that ends unwaited-for has: poll tells of it (in), and then that nobody has its number any more (hup). Both come at the thread's own time: who wakes at the first may see the second already. */
static const char *gone(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	int first = poll(&p, 1, 10000) == 1 && p.revents & POLLIN;
	for (int i = 0; first && i < 2000 && !(p.revents & POLLHUP); i++)
		nap(5), poll(&p, 1, 0);
	return p.revents & POLLHUP ? "in, then hup" : first ? "in" : "no";
}

static void opening(void)
{
	section("opening");
	int tid, fd, main_fd;
	pthread_t thread = start(&tid);
	SHOW(OPEN(tid, 0));
	SHOW_OK(fd = OPEN(tid, THREAD));
	SHOW(fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK | O_EXCL));
	SHOW(fcntl(OPEN(tid, THREAD | O_NONBLOCK), F_GETFL) & (O_ACCMODE | O_NONBLOCK | O_EXCL));
	SHOW(fcntl(fd, F_GETFD));
	SHOW_OK(main_fd = OPEN(getpid(), THREAD));
	SHOW(OPEN(tid, THREAD | 1));
	SHOW(OPEN(0x3ffffe, THREAD));
	SHOW(OPEN(0, THREAD));
	say("alive: %s", ready(fd, 0));
	waited(fd, WEXITED);
	waited(fd, WEXITED | WNOHANG);
	waited(main_fd, WEXITED);
	SHOW(GETFD(fd, 0, 0) >= 0);
	write(end[1], "x", 1);
	say("ended: %s", gone(fd));
	pthread_join(thread, NULL);
	say("joined: %s", ready(fd, 0));
	say("first: %s", ready(main_fd, 0));
	SHOW(SEND(fd, 0, NULL, 0));
	SHOW(GETFD(fd, 0, 0));
	SHOW(OPEN(tid, THREAD));
	close(fd), close(main_fd);
	/* A group without its leader. */
	pid_t leader, member = group_without_leader(&leader);
	fd = OPEN(leader, 0);
	siginfo_t info;
	waitid(P_PID, leader, &info, WEXITED | WNOWAIT);
	SHOW_OK(OPEN(leader, THREAD));
	wait_for(leader);
	SHOW(OPEN(leader, THREAD));
	SHOW(SEND(fd, 0, NULL, 0));
	SHOW(SEND(fd, 0, NULL, 1));
	SHOW(SEND(fd, 0, NULL, 4));
	SHOW(SEND(fd, SIGKILL, NULL, 4));
	/* Nobody's child but the first process's. */
	for (int i = 0; i < 1000 && kill(member, 0) == 0; i++)
		nap(5);
	close(fd);
}

static int leader_fd, leader_thread;

static void *outlives(void *unused)
{
	(void)unused;
	say("first thread: %s", ready(leader_thread, 200));
	say("process: %s", ready(leader_fd, 0));
	SHOW(SEND(leader_thread, 0, NULL, 0));
	SHOW(SEND(leader_fd, 0, NULL, 0));
	int again;
	SHOW_OK(again = OPEN(getpid(), THREAD));
	say("again: %s", ready(again, 0));
	say("by exec, next");
	execl("/proc/thread-self/exe", "pidfdthread", "child", (char *)NULL);
	say("exec: %s", error_name(errno));
	_exit(1);
}

static void first_ends(void)
{
	section("first ends");
	int line[2];
	pipe(line);
	pid_t pid = must_fork();
	if (pid == 0) {
		char c;
		read(line[0], &c, 1);
		leader_fd = OPEN(getpid(), 0), leader_thread = OPEN(getpid(), THREAD);
		pthread_t thread;
		pthread_create(&thread, NULL, outlives, NULL);
		syscall(SYS_exit, 0);
	}
	int fd = OPEN(pid, 0), of_first = OPEN(pid, THREAD);
	write(line[1], "x", 1);
	say("process: %s", ready(fd, 10000));
	say("first thread: %s", ready(of_first, 0));
	waited(of_first, WEXITED | WNOWAIT);
	waited(of_first, WEXITED);
	say("process: %s", ready(fd, 0));
	say("first thread: %s", ready(of_first, 0));
	close(fd), close(of_first), close(line[0]), close(line[1]);
}

static __thread volatile int here;
static volatile int code, value;

static void note(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	code = info->si_code, value = info->si_value.sival_int, here++;
}

static int self_fd, process_fd;

static void *sends(void *unused)
{
	(void)unused;
	sigset_t set;
	sigemptyset(&set);
	self_fd = OPEN(TID(), THREAD);
	for (unsigned flags = 0; flags < 3; flags++) {
		code = 99, here = 0;
		if (flags == 2) {
			/* To the process: this thread takes none. */
			sigaddset(&set, SIGUSR1);
			pthread_sigmask(SIG_BLOCK, &set, NULL);
		}
		SHOW(SEND(self_fd, SIGUSR1, NULL, flags));
		for (int i = 0; i < 1000 && code == 99; i++)
			nap(1);
		say("code %d, here %d", code, here);
	}
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	here = 0;
	SHOW(SEND(process_fd, SIGUSR1, NULL, 1));
	nap(50);
	say("here %d", here);
	siginfo_t info;
	memset(&info, 0, sizeof info);
	info.si_signo = SIGUSR1, info.si_code = SI_USER;
	here = 0;
	SHOW(SEND(self_fd, SIGUSR1, &info, 0));
	say("code %d, here %d", code, here);
	SHOW(SEND(process_fd, SIGUSR1, &info, 0));
	SHOW(SEND(self_fd, SIGUSR1, &info, 4));
	info.si_code = SI_QUEUE, info.si_value.sival_int = 7;
	SHOW(SEND(self_fd, SIGUSR1, &info, 1));
	say("value %d, here %d", value, here);
	SHOW(SEND(self_fd, SIGUSR1, NULL, 4));
	SHOW(SEND(self_fd, 99, NULL, 0));
	SHOW(SEND(self_fd, 99, NULL, 4));
	return NULL;
}

static void sending(void)
{
	section("sending");
	struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO };
	sigaction(SIGUSR1, &action, NULL);
	process_fd = OPEN(getpid(), 0);
	pthread_t thread;
	pthread_create(&thread, NULL, sends, NULL);
	pthread_join(thread, NULL);
	close(process_fd), close(self_fd);
}

static void groups(void)
{
	section("groups");
	pid_t leader = parked(NULL);
	setpgid(leader, leader);
	pid_t member = parked(NULL);
	setpgid(member, leader);
	int fd = OPEN(leader, 0), other = OPEN(member, 0), thread = OPEN(leader, THREAD);
	SHOW(SEND(fd, 0, NULL, 4));
	SHOW(SEND(other, 0, NULL, 4));
	SHOW(SEND(fd, 99, NULL, 4));
	SHOW(SEND(fd, SIGTERM, NULL, 5));
	SHOW(SEND(fd, SIGTERM, NULL, 6));
	pid_t stranger = must_fork();
	if (stranger == 0) {
		syscall(SYS_setresuid, 1000, 1000, 1000);
		SHOW(SEND(fd, SIGTERM, NULL, 4));
		_exit(0);
	}
	wait_for(stranger);
	siginfo_t info;
	memset(&info, 0, sizeof info);
	info.si_signo = SIGTERM, info.si_code = SI_USER;
	SHOW(SEND(fd, SIGTERM, &info, 4));
	info.si_code = SI_QUEUE;
	SHOW(SEND(fd, SIGUSR1, &info, 4));
	SHOW(SEND(thread, SIGTERM, &info, 4));
	waited(fd, WEXITED), waited(other, WEXITED);
	SHOW(SEND(fd, SIGTERM, NULL, 4));
	close(fd), close(other), close(thread);
	/* A group that is made after the descriptor, and outlives its leader. */
	int begin[2], made[2];
	char byte = 0;
	pipe(begin), pipe(made);
	leader = must_fork();
	if (leader == 0) {
		read(begin[0], &byte, 1);
		setpgid(0, 0);
		parked(NULL);
		write(made[1], &byte, 1);
		_exit(0);
	}
	fd = OPEN(leader, 0);
	SHOW(SEND(fd, 0, NULL, 4));
	write(begin[1], &byte, 1), read(made[0], &byte, 1);
	wait_for(leader);
	SHOW(SEND(fd, 0, NULL, 0));
	SHOW(SEND(fd, 0, NULL, 4));
	SHOW(SEND(fd, SIGKILL, NULL, 4));
	struct stat st;
	SHOW(fstat(fd, &st));
	say("%o", st.st_mode);
	close(fd), close(begin[0]), close(begin[1]), close(made[0]), close(made[1]);
}

static char stack[65536] __attribute__((aligned(16)));
static volatile int cleared;

static int runs(void *unused)
{
	(void)unused;
	char c;
	read(end[0], &c, 1);
	return 0;
}

static void cloning(void)
{
	section("cloning");
	int fd = -7;
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PIDFD | CLONE_CHILD_CLEARTID;
	cleared = 1;
	int tid = clone(runs, stack + sizeof stack, flags, NULL, &fd, NULL, &cleared);
	CHECK(tid > 0);
	CHECK(fd >= 0);
	SHOW(fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK | O_EXCL));
	SHOW(fcntl(fd, F_GETFD));
	say("alive: %s", ready(fd, 0));
	write(end[1], "x", 1);
	say("ended: %s", gone(fd));
	while (cleared)
		sched_yield();
	close(fd);
	/* A place that is promised goes to nobody else, and is free again where the call fails. */
	SHOW(syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, 1, 0, 0));
	int next = dup(0);
	CHECK(next == fd);
	close(next);
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PIDFD | CLONE_FILES | SIGCHLD, 0, &fd, 0, 0);
	if (pid == 0)
		_exit(fcntl(next, F_GETFD) == FD_CLOEXEC ? 3 : 4);
	CHECK(fd == next);
	waited(fd, WEXITED);
	close(fd);
}

int main(int count, char **arguments)
{
	if (count > 1) {
		/* A process as good as new. */
		say("%s: %s", arguments[1], ready(OPEN(getpid(), THREAD), 0));
		return 9;
	}
	pipe(told), pipe(end);
	opening();
	first_ends();
	sending();
	groups();
	cloning();
	return 0;
}
