/* Taking until there is no more: processes, pipes, descriptors, memory, mappings, stack, file space. All must come back. */
#include "t.h"

#include <sys/resource.h>

static void forks_as_user(void)
{
	struct rlimit limit = { 100, 100 };
	setrlimit(RLIMIT_NPROC, &limit);
	setgid(1234), setuid(1234);
	int count = 0;
	pid_t pid = 0;
	while (count < 1000 && (pid = fork()) > 0)
		count++;
	if (pid == 0)
		for (;;)
			pause();
	say("%d children, then %s", count, error_name(errno));
	kill(-1, SIGKILL);
	while (wait(0) > 0)
		;
	pid = fork();
	if (pid == 0)
		_exit(0);
	CHECK(pid > 0);
}

static void many_children(void)
{
	setpgid(0, 0);
	static pid_t children[500];
	int count = 0;
	int ends[2];
	pipe(ends);
	while (count < 500 && (children[count] = fork()) > 0)
		count++;
	if (count < 500 && children[count] == 0) {
		char byte;
		close(ends[1]);
		read(ends[0], &byte, 1);
		_exit(0);
	}
	SHOW(count);
	close(ends[1]);
	int good = 0, status;
	while (wait(&status) > 0)
		good += status == 0;
	SHOW(good);
}

/* Each child forks on until it may not: as a user with a limit. */
static void fork_bomb(void)
{
	struct rlimit limit = { 60, 60 };
	setrlimit(RLIMIT_NPROC, &limit);
	setgid(4321), setuid(4321);
	alarm(2);
	setpgid(0, 0);
	for (int i = 0; i < 200; i++)
		if (fork() == 0)
			alarm(1);
	for (;;)
		pause();
}

static void pipes(void)
{
	struct rlimit limit = { 20010, 20010 };
	SHOW(setrlimit(RLIMIT_NOFILE, &limit));
	int count = 0, ends[2];
	while (count < 11000 && pipe(ends) == 0) {
		count++;
		if (count % 100 == 0 && write(ends[1], "some", 4) != 4)
			break;
	}
	/* 10,000 and no more: the descriptors end there. */
	CHECK(count >= 10000 && count <= 10005);
	say("%s", error_name(errno));
}

static void memory(void)
{
	struct rlimit limit = { 200 << 20, 200 << 20 };
	setrlimit(RLIMIT_AS, &limit);
	int count = 0;
	char *area;
	while ((area = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED) {
		for (int at = 0; at < 1 << 20; at += 4096)
			area[at] = 1;
		count++;
	}
	CHECK(count >= 195 && count <= 200);
	say("%s", error_name(errno));
	char *start = (char *)syscall(SYS_brk, 0);
	CHECK((char *)syscall(SYS_brk, start + (64 << 20)) == start);
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	say("fork: %s", pid > 0 ? status_text(wait_for(pid)) : error_name(errno));
}

static void too_much(void)
{
	/* More than the machine can have, asked for at once. */
	SHOW_PTR(mmap(0, 1L << 46, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	SHOW_PTR(mmap(0, 1L << 46, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	SHOW_PTR(malloc(1L << 46));
	char *start = (char *)syscall(SYS_brk, 0);
	CHECK((char *)syscall(SYS_brk, start + (1L << 46)) == start);
}

static void mappings(void)
{
	int count = 0;
	char *area = mmap(0, 200000L * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	while (count < 8000 && mprotect(area + 2L * 4096 * count, 4096, PROT_READ) == 0)
		count++;
	SHOW(count);
	CHECK(*(volatile char *)area == 0);
	SHOW(munmap(area, 200000L * 4096));
}

static void stack_limit(void)
{
	struct rlimit limit = { 1 << 20, RLIM_INFINITY };
	setrlimit(RLIMIT_STACK, &limit);
	char *here = __builtin_frame_address(0);
	for (long down = 0; down < 64 << 20; down += 4096)
		*(volatile char *)(here - down) = 1;
}

static void descriptors(void)
{
	struct rlimit limit = { 5000, 5000 };
	setrlimit(RLIMIT_NOFILE, &limit);
	int count = 0, fd;
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		count = fd;
	say("last %d, then %s", count, error_name(errno));
	SHOW_OK(dup(0));
	SHOW_OK(fcntl(0, F_DUPFD, 4000));
	pid_t pid = fork();
	if (pid == 0) {
		int open_count = 0;
		for (int i = 0; i < 5000; i++)
			open_count += fcntl(i, F_GETFD) >= 0;
		_exit(open_count != 5000);
	}
	say("fork: %s", status_text(wait_for(pid)));
}

static void deep_directories(void)
{
	int depth = 0;
	while (depth < 600 && mkdir("d", 0755) == 0 && chdir("d") == 0)
		depth++;
	SHOW(depth);
	static char cwd[8192];
	SHOW(syscall(SYS_getcwd, cwd, sizeof cwd) > 1000);
	while (depth-- > 0 && chdir("..") == 0)
		rmdir("d");
	SHOW(depth);
}

static void long_chain(void)
{
	/* A chain of children, each waiting for the next. */
	for (int depth = 0; depth < 200; depth++) {
		pid_t pid = fork();
		if (pid < 0)
			_exit(50);
		if (pid > 0)
			_exit(WEXITSTATUS(wait_for(pid)) + (depth % 2));
	}
	_exit(0);
}

static void signals_queued(void)
{
	struct rlimit limit = { 50, 50 };
	setrlimit(RLIMIT_SIGPENDING, &limit);
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, 40), sigprocmask(SIG_BLOCK, &set, 0);
	int count = 0;
	while (count < 1000 && sigqueue(getpid(), 40, (union sigval){ .sival_int = count }) == 0)
		count++;
	CHECK(count >= 45 && count <= 50);
	say("%s", error_name(errno));
}

int main(void)
{
	in_child("fork as a user until failure", forks_as_user);
	in_child("500 children", many_children);
	in_child("fork bomb of a user", fork_bomb);
	in_child("10,000 pipes", pipes);
	in_child("memory to the limit", memory);
	in_child("too much memory", too_much);
	in_child("many mappings", mappings);
	in_child("stack limit", stack_limit);
	in_child("descriptors to the limit", descriptors);
	in_child("deep directories", deep_directories);
	in_child("chain of children", long_chain);
	in_child("signals queued to the limit", signals_queued);
	return 0;
}
