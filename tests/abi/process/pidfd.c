/* Descriptors of processes: made, watched, waited for, sent signals through, and asked for files. */
#include "pidfd.h"

#include <sys/epoll.h>
#include <sys/resource.h>

static int thread_runs(void *tid)
{
	while (!tid)
		pause();
	return 0;
}

static void not_processes(void)
{
	static char stack[16384] __attribute__((aligned(16)));
	int tid = clone(thread_runs, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, NULL);
	SHOW(OPEN(tid, 0));
	/* A leader that is gone, and a member that stays. */
	pid_t leader, member = group_without_leader(&leader);
	wait_for(leader);
	SHOW(OPEN(leader, 0));
	kill(member, SIGKILL);
}

static void opening(void)
{
	section("opening");
	pid_t pid = parked(NULL);
	int fd = OPEN(pid, 0);
	CHECK(fd >= 0);
	SHOW(fcntl(fd, F_GETFD));
	SHOW(fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
	SHOW(fcntl(OPEN(pid, O_NONBLOCK), F_GETFL) & (O_ACCMODE | O_NONBLOCK));
	char path[64], text[64] = "";
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	readlink(path, text, sizeof text - 1);
	say("%s", text);
	SHOW(OPEN(0, 0));
	SHOW(OPEN(-1, 0));
	SHOW(OPEN(pid, 1));
	SHOW(OPEN(0x3ffffe, 0));
	SHOW(OPEN(0x7fffffff, 0));
	/* A thread is no process, nor is a group without its leader. */
	not_processes();
	SHOW(OPEN(pid, O_EXCL) >= 0);
	char byte = 0;
	SHOW(read(fd, &byte, 1));
	SHOW(read(fd, &byte, 0));
	SHOW(ftruncate(fd, 0));
	SHOW(ftruncate(fd, 4096));
	SHOW(ftruncate(fd, -1));
	SHOW(write(fd, &byte, 1));
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW_PTR(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0));
	say("alive: %s", ready(fd, 0));
	kill(pid, SIGKILL);
	say("zombie: %s", ready(fd, -1));
	SHOW(OPEN(pid, 0) >= 0);
	SHOW(SEND(fd, 0, NULL, 0));
	SHOW(SEND(fd, SIGTERM, NULL, 0));
	SHOW(GETFD(fd, 0, 0));
	waited(fd, WEXITED | WNOWAIT);
	waited(fd, WEXITED);
	say("gone: %s", ready(fd, 0));
	SHOW(OPEN(pid, 0));
	SHOW(SEND(fd, 0, NULL, 0));
	SHOW(SEND(fd, 99, NULL, 0));
	SHOW(GETFD(fd, 0, 0));
	waited(fd, WEXITED);
	waited(fd, WEXITED | WNOHANG);
	close(fd);
}

static void ends_late(void)
{
	nap(60);
	_exit(5);
}

static pid_t late(void)
{
	pid_t pid = must_fork();
	if (pid == 0)
		ends_late();
	return pid;
}

static void watching(void)
{
	section("watching");
	pid_t pid = late();
	int fd = OPEN(pid, 0), set = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	SHOW(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
	SHOW(epoll_wait(set, &event, 1, 0));
	SHOW(epoll_wait(set, &event, 1, 10000));
	say("%#x", event.events);
	SHOW(epoll_wait(set, &event, 1, 0));
	waited(fd, WEXITED);
	SHOW(epoll_wait(set, &event, 1, 0));
	say("%#x", event.events);
	close(set), close(fd);
	/* Two descriptors of one process, in two processes. */
	pid = late();
	fd = OPEN(pid, 0);
	int other = OPEN(pid, 0);
	pid_t watcher = must_fork();
	if (watcher == 0) {
		say("watcher: %s", ready(other, 10000));
		waited(other, WEXITED);
		_exit(0);
	}
	wait_for(watcher);
	say("parent: %s", ready(fd, 10000));
	waited(fd, WEXITED | WSTOPPED);
	say("parent: %s", ready(fd, 10000));
	close(fd), close(other);
}

static void waiting(void)
{
	section("waiting");
	pid_t pid = parked(NULL);
	int fd = OPEN(pid, O_NONBLOCK);
	waited(fd, WEXITED);
	waited(fd, WEXITED | WNOHANG);
	waited(fd, WEXITED | WSTOPPED);
	kill(pid, SIGSTOP);
	int blocking = OPEN(pid, 0);
	waited(blocking, WSTOPPED);
	say("stopped: %s", ready(fd, 0));
	kill(pid, SIGCONT);
	waited(blocking, WCONTINUED);
	kill(pid, SIGTERM);
	waited(blocking, WEXITED);
	waited(fd, WEXITED);
	close(fd), close(blocking);
	int file = open("/dev/null", O_RDWR);
	waited(file, WEXITED);
	waited(99, WEXITED);
	waited(-1, WEXITED);
	fd = OPEN(getpid(), 0);
	waited(fd, WEXITED);
	close(file), close(fd);
}

static volatile sig_atomic_t code, value;

static void note(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	code = info->si_code, value = info->si_value.sival_int;
}

static void sending(void)
{
	section("sending");
	struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO };
	sigaction(SIGUSR1, &action, NULL);
	int fd = OPEN(getpid(), 0);
	for (unsigned flags = 0; flags < 3; flags++) {
		code = 99;
		SHOW(SEND(fd, SIGUSR1, NULL, flags));
		say("code %d", code);
	}
	siginfo_t info;
	memset(&info, 0, sizeof info);
	info.si_signo = SIGUSR1, info.si_code = SI_QUEUE, info.si_value.sival_int = 7;
	SHOW(SEND(fd, SIGUSR1, &info, 0));
	say("code %d, value %d", code, value);
	SHOW(SEND(fd, SIGUSR2, &info, 0));
	info.si_code = SI_USER;
	SHOW(SEND(fd, SIGUSR1, &info, 0));
	SHOW(SEND(fd, SIGUSR1, (void *)1, 0));
	SHOW(SEND(fd, SIGUSR1, NULL, 3));
	SHOW(SEND(fd, SIGUSR1, NULL, 8));
	SHOW(SEND(fd, 99, NULL, 0));
	SHOW(SEND(fd, -1, NULL, 0));
	SHOW(SEND(99, SIGUSR1, NULL, 0));
	int file = open("/dev/null", O_RDWR), path = open(".", O_PATH);
	SHOW(SEND(file, SIGUSR1, NULL, 0));
	SHOW(SEND(path, SIGUSR1, NULL, 0));
	pid_t pid = parked(NULL);
	int other = OPEN(pid, 0);
	SHOW(SEND(other, SIGUSR1, &info, 0));
	info.si_code = SI_QUEUE, info.si_signo = SIGTERM;
	SHOW(SEND(other, 0, NULL, 4));
	pid_t stranger = must_fork();
	if (stranger == 0) {
		syscall(SYS_setresuid, 1000, 1000, 1000);
		SHOW(SEND(other, SIGTERM, NULL, 0));
		SHOW(SEND(other, 0, NULL, 0));
		SHOW(GETFD(other, 0, 0));
		_exit(0);
	}
	wait_for(stranger);
	SHOW(SEND(other, SIGTERM, &info, 0));
	waited(other, WEXITED);
	close(fd), close(file), close(path), close(other);
}

static int shared_file;
static void open_one(void)
{
	shared_file = dup2(open("shared", O_CREAT | O_RDWR, 0600), 50);
}

static void files(void)
{
	section("files");
	pid_t pid = parked(open_one);
	int fd = OPEN(pid, 0), got = GETFD(fd, 50, 0);
	CHECK(got >= 0);
	SHOW(fcntl(got, F_GETFD));
	SHOW(write(got, "text", 4));
	char *text = read_file("shared");
	say("%s", text);
	free(text);
	SHOW(GETFD(fd, 51, 0));
	SHOW(GETFD(fd, -1, 0));
	SHOW(GETFD(fd, 50, 1));
	SHOW(GETFD(got, 50, 0));
	SHOW(GETFD(99, 50, 0));
	struct rlimit all, few;
	getrlimit(RLIMIT_NOFILE, &all);
	few = all, few.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &few);
	SHOW(GETFD(fd, 50, 0));
	SHOW(OPEN(pid, 0));
	setrlimit(RLIMIT_NOFILE, &all);
	kill(pid, SIGKILL);
	wait_for(pid);
	close(fd), close(got);
}

struct arguments {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

/* A directory of /proc instead. */
static void by_directory(void)
{
	section("directories of /proc");
	pid_t pid = parked(NULL);
	char name[64];
	snprintf(name, sizeof name, "/proc/%d", (int)pid);
	int fd = open(name, O_RDONLY | O_DIRECTORY), path = open(name, O_PATH), proc = open("/proc", O_RDONLY);
	snprintf(name, sizeof name, "/proc/%d/task/%d", (int)pid, (int)pid);
	int task = open(name, O_RDONLY);
	snprintf(name, sizeof name, "/proc/%d/fd", (int)pid);
	int fds = open(name, O_RDONLY);
	snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
	int status = open(name, O_RDONLY);
	SHOW(SEND(fd, 0, NULL, 0));
	SHOW(SEND(path, 0, NULL, 0));
	SHOW(SEND(proc, 0, NULL, 0));
	SHOW(SEND(task, 0, NULL, 0));
	SHOW(SEND(fds, 0, NULL, 0));
	SHOW(SEND(status, 0, NULL, 0));
	SHOW(GETFD(fd, 0, 0));
	SHOW(SEND(fd, 99, NULL, 0));
	SHOW(SEND(fd, SIGTERM, NULL, 0));
	SHOW(waitpid(pid, NULL, 0) == pid);
	SHOW(SEND(fd, 0, NULL, 0));
	close(fd), close(path), close(proc), close(task), close(fds), close(status);
}

static void cloning(void)
{
	section("cloning");
	int fd = -7;
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &fd, 0, 0);
	if (pid == 0)
		_exit(fcntl(fd, F_GETFD) == -1 ? 3 : 4);
	CHECK(pid > 0 && fd >= 0);
	SHOW(fcntl(fd, F_GETFD));
	waited(fd, WEXITED);
	close(fd);
	SHOW(syscall(SYS_clone, CLONE_PIDFD | CLONE_PARENT_SETTID | SIGCHLD, 0, &fd, 0, 0));
	SHOW(syscall(SYS_clone, CLONE_PIDFD | 0x00400000 /* CLONE_DETACHED */ | SIGCHLD, 0, &fd, 0, 0));
	SHOW(syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, 1, 0, 0));
	SHOW(waitpid(-1, NULL, 0));
	int tid = 0;
	struct arguments a = { CLONE_PIDFD | CLONE_PARENT_SETTID, (uintptr_t)&fd, 0, (uintptr_t)&tid, SIGCHLD, 0, 0, 0 };
	pid = (pid_t)syscall(435, &a, sizeof a);
	if (pid == 0)
		_exit(6);
	CHECK(pid > 0 && tid == pid && fd >= 0);
	waited(fd, WEXITED);
	close(fd);
	a.parent_tid = a.pidfd;
	SHOW(syscall(435, &a, sizeof a));
	a.parent_tid = (uintptr_t)&tid, a.pidfd = 1;
	SHOW(syscall(435, &a, sizeof a));
	SHOW(waitpid(-1, NULL, 0));
	struct rlimit all, few;
	getrlimit(RLIMIT_NOFILE, &all);
	few = all, few.rlim_cur = 3;
	setrlimit(RLIMIT_NOFILE, &few);
	SHOW(syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &fd, 0, 0));
	setrlimit(RLIMIT_NOFILE, &all);
	SHOW(waitpid(-1, NULL, 0));
}

int main(void)
{
	opening();
	watching();
	waiting();
	sending();
	files();
	by_directory();
	cloning();
	return 0;
}
