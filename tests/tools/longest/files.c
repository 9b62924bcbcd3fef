/* longest: calls on files, names and tables of descriptors. */
#include "longest.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/uio.h>

static int file(long size)
{
	int fd = open("long", O_CREAT | O_RDWR | O_TRUNC, 0600);
	static char buffer[MIB];
	for (long at = 0; at < size; at += MIB)
		write(fd, buffer, MIB);
	return fd;
}

static void truncate_(void) { ftruncate(file(SIZE * MIB), 0); unlink("long"); }
static void drop(void) { int fd = file(SIZE * MIB); unlink("long"); close(fd); }
static void drop_large(void) { int fd = file(64 * MIB); unlink("long"); close(fd); }

static void truncate_mapped(void)
{
	/* Many pages in many leaves, of several processes. */
	int fd = file(16 * MIB);
	ftruncate(fd, 8000 * MIB);
	char *at = mmap(0, 8000 * MIB, RW, MAP_SHARED, fd, 0);
	for (long i = 0; i < 4000; i++)
		at[i * 2 * MIB] = 1;
	pid_t pid = fork();
	if (pid == 0) {
		at = mmap(0, 8000 * MIB, RW, MAP_SHARED, fd, 0);
		for (long i = 0; i < 4000; i++)
			at[i * 2 * MIB] = 1;
		ftruncate(fd, 0);
		_exit(0);
	}
	waitpid(pid, 0, 0);
	unlink("long");
}

static void drop_mapped(void)
{
	int fd = file(SIZE * MIB);
	char *at = mmap(0, SIZE * MIB, RW, MAP_SHARED, fd, 0);
	for (long i = 0; i < SIZE * MIB; i += PAGE)
		at[i] = 1;
	unlink("long");
	ftruncate(fd, 0);
}

static void scattered(void)
{
	int fd = open("long", O_CREAT | O_RDWR | O_TRUNC, 0600);
	unlink("long");
	for (long i = 0; i < 8000; i++)
		pwrite(fd, "x", 1, i * 512 * MIB);
	ftruncate(fd, 0);
}

void many_files(int n)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (int i = 0; i < n; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			break;
}

static void exit_files(void) { many_files(4000); }
static void close_range_(void) { many_files(4000); syscall(SYS_close_range, 3, ~0U, 0); }
static void cloexec_range(void) { many_files(4000); syscall(SYS_close_range, 3, ~0U, 4); }
static void fork_files(void) { many_files(4000); fork_once(); }

static void fork_files_close(void)
{
	many_files(4000);
	pid_t pid = fork();
	if (pid == 0) {
		close(5);
		_exit(0);
	}
	waitpid(pid, 0, 0);
}

static void fd_dir(void)
{
	many_files(40000);
	int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
	static char buffer[64 << 10];
	while (syscall(SYS_getdents64, fd, buffer, sizeof buffer) > 0)
		;
}

static void poll_files(void)
{
	static struct pollfd p[30000];
	many_files(30000);
	for (int i = 0; i < 30000; i++)
		p[i] = (struct pollfd){ 3 + i, POLLIN, 0 };
	poll(p, 30000, 0);
}

static void dups(int n)
{
	many_files(0);
	for (int i = 0; i < n; i++)
		dup(0);
}

static void grow_table(void) { dups(200000); }

static void far_file(void)
{
	many_files(0);
	if (dup2(0, (1 << 20) - 1) < 0 || dup(0) != 3)
		cannot();
	fork_once();
	execl("/bin/true", "true", NULL);
}

static void fork_table(void)
{
	dups(200000);
	pid_t pid = fork();
	if (pid == 0) {
		/* What was inherited is copied, one way or another. */
		fcntl(199000, F_SETFD, FD_CLOEXEC);
		close(5);
		dup(0);
		execl("/bin/true", "true", NULL);
	}
	waitpid(pid, 0, 0);
	close(100000);
	dup(0);
}

static void epoll_close(void)
{
	int e = epoll_create1(0), p[2];
	struct epoll_event ev = { EPOLLIN, { 0 } };
	/* Not all of one pipe, as in watch_pipe. */
	for (int pipes = 0; pipes < 20; pipes++) {
		pipe(p);
		for (int i = 0; i < 1000; i++)
			epoll_ctl(e, EPOLL_CTL_ADD, dup(p[0]), &ev);
		write(p[1], "x", 1);
	}
	close(e);
}

static void names(void)
{
	char name[32];
	mkdir("many", 0700);
	for (int i = 0; i < 20000; i++) {
		sprintf(name, "many/%d", i);
		close(open(name, O_CREAT | O_WRONLY, 0600));
	}
	int fd = open("many", O_RDONLY | O_DIRECTORY);
	static char buffer[1 << 20];
	while (syscall(SYS_getdents64, fd, buffer, sizeof buffer) > 0)
		;
	for (int i = 0; i < 20000; i++) {
		sprintf(name, "many/%d", i);
		unlink(name);
	}
	rmdir("many");
}

static void large_directory(void)
{
	char name[32];
	mkdir("many", 0700);
	close(open("many/file", O_CREAT | O_WRONLY, 0600));
	for (int i = 0; i < 70000; i++) {
		sprintf(name, "many/%d", i);
		if (link("many/file", name))
			cannot();
	}
	for (int i = 0; i < 70000; i++) {
		sprintf(name, "many/%d", i);
		unlink(name);
	}
	unlink("many/file");
	rmdir("many");
	usleep(100000);
}

static void tiny_vectors(void)
{
	struct iovec parts[1024];
	char *at = touched(MIB);
	int fd = open("/dev/zero", O_RDONLY), p[2];
	for (int i = 0; i < 1024; i++)
		parts[i] = (struct iovec){ at + i, 1 };
	pipe(p);
	readv(fd, parts, 1024);
	writev(p[1], parts, 1024);
	fd = open("long", O_CREAT | O_RDWR, 0600);
	writev(fd, parts, 1024);
	unlink("long");
}

const struct call file_calls[] = {
	CASE(truncate_), CASE(drop), CASE(drop_large), CASE(truncate_mapped), CASE(drop_mapped), CASE(scattered), CASE(exit_files),
	CASE(close_range_), CASE(cloexec_range), CASE(fork_files), CASE(fork_files_close), CASE(grow_table), CASE(far_file), CASE(fork_table),
	CASE(fd_dir), CASE(poll_files), CASE(epoll_close), CASE(names), CASE(large_directory), CASE(tiny_vectors),
	{ 0, 0 },
};
