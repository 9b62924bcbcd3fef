/* Descriptor tables: large, with gaps, inherited, and shrunk; and what close_range, exec and /proc see of them. */
#include "t.h"
#include <dirent.h>
#include <sys/resource.h>

enum { MOST = 1 << 20, MANY = 5000 };

static void list(const char *text)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int count = 0, last = 0;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir)) {
			count++;
			last = atoi(entry->d_name) > last ? atoi(entry->d_name) : last;
		}
	closedir(dir);
	say("%s: %d descriptors, the last %d", text, count, last);
}

static void far(void)
{
	section("far");
	SHOW(dup2(0, MOST - 1));
	SHOW(dup2(0, MOST));
	SHOW(dup2(0, 524287));
	SHOW(dup2(0, 524288));
	SHOW(fcntl(0, F_DUPFD, MOST - 2));
	SHOW(fcntl(0, F_DUPFD, MOST - 2));
	SHOW(fcntl(0, F_DUPFD, MOST));
	SHOW(fcntl(0, F_DUPFD, 524287));
	SHOW(dup(0));
	SHOW(fcntl(524290, F_GETFD));
	SHOW(close(MOST - 3));
	list("far");
	SHOW(syscall(SYS_close_range, 4, ~0U, 0));
	SHOW(fcntl(MOST - 1, F_GETFD));
	list("closed");
	close(3);
}

static void fill(int count)
{
	for (int i = 0; i < count; i++)
		if (dup(0) < 0)
			say("dup: %s", error_name(errno));
}

static void gaps(void)
{
	section("gaps");
	fill(MANY);
	list("filled");
	for (int fd = 1000; fd < 4000; fd += 500)
		close(fd);
	for (int i = 0; i < 4; i++)
		SHOW(fcntl(0, F_DUPFD, 1600));
	SHOW(dup(0));
	SHOW(dup(0));
	SHOW(dup(0));
	SHOW(dup(0));
	close(4500);
	SHOW(close(4500));
	SHOW(fcntl(4500, F_SETFD, 1));
}

/* The parent keeps what the child closes, and the other way round. */
static void inherited(void)
{
	section("inherited");
	pid_t pid = must_fork();
	if (pid == 0) {
		close(10);
		close(700);
		SHOW(dup(0));
		SHOW(fcntl(2600, F_SETFD, FD_CLOEXEC));
		SHOW(dup(0));
		list("child");
		_exit(0);
	}
	wait_for(pid);
	SHOW(fcntl(700, F_GETFD));
	SHOW(fcntl(2600, F_GETFD));
	pid = must_fork();
	if (pid == 0) {
		nap(100);
		list("child");
		SHOW(fcntl(3333, F_GETFD));
		_exit(0);
	}
	SHOW(syscall(SYS_close_range, 3000, 3999, 0));
	wait_for(pid);
	list("parent");
}

static void executed(void)
{
	section("executed");
	SHOW(syscall(SYS_close_range, 1000, ~0U, 4));
	SHOW(fcntl(999, F_GETFD));
	SHOW(fcntl(1000, F_GETFD));
	pid_t pid = must_fork();
	if (pid == 0) {
		execl("/proc/self/exe", "tables", "list", (char *)0);
		_exit(1);
	}
	wait_for(pid);
	list("parent");
}

/* The last descriptor of a pipe is closed with the table that has it. */
static void ends(void)
{
	section("ends");
	int p[2];
	char c;
	SHOW(pipe(p));
	SHOW(dup2(p[1], 100000));
	close(p[1]);
	pid_t pid = must_fork();
	if (pid == 0) {
		nap(100);
		_exit(0);
	}
	close(100000);
	SHOW(read(p[0], &c, 1));
	wait_for(pid);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "list")) {
		list("after exec");
		return 0;
	}
	struct rlimit limit = { MOST, MOST };
	SHOW(setrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_max = MOST + 1;
	SHOW(setrlimit(RLIMIT_NOFILE, &limit));
	syscall(SYS_close_range, 3, ~0U, 0);
	far();
	gaps();
	inherited();
	executed();
	ends();
	return 0;
}
