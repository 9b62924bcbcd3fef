/* Without a free descriptor nothing is made, opened, waited for or changed: that is said before all but wrong arguments. */
#include "t.h"

#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#define GPTPEER 0x5441

static void exists(const char *path)
{
	struct stat st;
	int n = lstat(path, &st);
	say("%s: %s, %ld bytes", path, n ? error_name(errno) : "there", n ? 0 : (long)st.st_size);
}

static void calls(int file, int master)
{
	SHOW(open("new", O_CREAT | O_RDWR, 0644));
	exists("new");
	SHOW(open("new", O_CREAT | O_EXCL | O_RDWR, 0644));
	SHOW(creat("file", 0644));
	SHOW(open("file", O_RDWR | O_TRUNC));
	exists("file");
	SHOW(open(".", O_TMPFILE | O_RDWR, 0600));
	/* Before the path is looked at. */
	SHOW(open("missing", O_RDONLY));
	SHOW(open("missing/further", O_RDONLY));
	SHOW(open("file/further", O_PATH));
	SHOW(openat(99, "file", O_RDONLY));
	SHOW(openat(file, "file", O_RDONLY));
	SHOW(open("link", O_RDONLY | O_NOFOLLOW));
	/* These would wait. */
	SHOW(open("fifo", O_RDONLY));
	SHOW(open("fifo", O_WRONLY | O_NONBLOCK));
	SHOW(open("/dev/ptmx", O_RDWR));
	/* After the arguments. */
	SHOW(open((char *)1, O_RDONLY));
	SHOW(open("", O_RDONLY));
	SHOW(open("new", O_CREAT | O_DIRECTORY, 0755));
	SHOW(open(".", O_TMPFILE | O_RDONLY));
	int ends[2] = { -7, -7 };
	SHOW(pipe(ends));
	SHOW(pipe2(ends, 0x40000000));
	SHOW(syscall(SYS_pipe, 1));
	say("%d %d", ends[0], ends[1]);
	SHOW(dup(file));
	SHOW(dup(99));
	SHOW(fcntl(file, F_DUPFD, 0));
	SHOW(fcntl(file, F_DUPFD, 99));
	SHOW(dup2(file, 99));
	SHOW(dup3(file, 99, 0));
	SHOW(syscall(SYS_eventfd2, 0, 0));
	SHOW(syscall(SYS_eventfd2, 0, 2));
	SHOW(syscall(SYS_memfd_create, "name", 0));
	SHOW(syscall(SYS_memfd_create, (char *)1, 0));
	SHOW(syscall(SYS_memfd_create, "name", 0x80));
	SHOW(syscall(SYS_epoll_create1, 0));
	SHOW(syscall(SYS_epoll_create1, 1));
	SHOW(syscall(SYS_epoll_create, 0));
	SHOW(timerfd_create(CLOCK_MONOTONIC, 0));
	SHOW(timerfd_create(77, 0));
	sigset_t set;
	sigemptyset(&set);
	SHOW(signalfd(-1, &set, 0));
	SHOW(signalfd(-1, &set, 1));
	SHOW(signalfd(file, &set, 0));
	SHOW(ioctl(master, GPTPEER, O_RDWR | O_NOCTTY));
	SHOW(ioctl(file, GPTPEER, O_RDWR | O_NOCTTY));
}

int main(void)
{
	write_file("file", "0123456789");
	mkfifo("fifo", 0600);
	symlink("file", "link");
	int file = open("file", O_RDWR), master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	ioctl(master, 0x40045431 /* TIOCSPTLCK */, &(int){ 0 });
	struct rlimit all, few;
	getrlimit(RLIMIT_NOFILE, &all);
	for (int round = 0; round < 3; round++) {
		/* What is in use ends in the first places of a table, at its end, or beyond what a small table has. */
		static const int counts[] = { 8, 64, 600 };
		int last = file;
		while (last >= 0 && last < counts[round] - 1)
			last = dup(file);
		few = all;
		few.rlim_cur = (rlim_t)counts[round];
		setrlimit(RLIMIT_NOFILE, &few);
		say("%d descriptors", counts[round]);
		calls(file, master);
		/* With one free place all is as ever; a pipe needs two. */
		close(last);
		SHOW(pipe((int[2]){ 0 }));
		SHOW(open("missing", O_RDONLY) == -1 && errno == ENOENT);
		SHOW(open("new", O_CREAT | O_RDWR, 0644) == last);
		exists("new");
		unlink("new");
		setrlimit(RLIMIT_NOFILE, &all);
	}
	return 0;
}
