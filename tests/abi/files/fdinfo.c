/* /proc/PID/fdinfo: position, flags and locks of open files, and what each kind tells of itself. */
#include "t.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static char directory[64] = "/proc/self/fdinfo";

/* Numbers that differ from run to run become letters. */
static void info(const char *text, int fd)
{
	char path[96];
	snprintf(path, sizeof path, "%s/%d", directory, fd);
	char *all = read_file(path);
	if (!all) {
		say("%s: %s", text, error_name(errno));
		return;
	}
	struct stat st;
	fstat(fd, &st);
	for (char *line = strtok(all, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned long n, a, b, c, e;
		unsigned long long data;
		int pid, at, id, pos;
		char kind[64], how[64], what[64], from[32], to[32];
		if (sscanf(line, "ino:\t%lu", &n) == 1)
			say("%s: ino: %s", text, n == st.st_ino ? "that of fstat" : "another");
		else if (strncmp(line, "mnt_id:\t", 8) == 0)
			say("%s: mnt_id: %s", text, line[8] >= '0' && line[8] <= '9' ? "N" : "none");
		else if (sscanf(line, "eventfd-id: %lu", &n) == 1)
			say("%s: eventfd-id: N", text);
		else if (sscanf(line, "tfd: %d events: %lx data: %llx pos:%d ino:%lx sdev:%lx", &id, &a, &data, &pos, &b, &c) == 6)
			say("%s: [%.*s] pos %d", text, (int)(strstr(line, " pos:") - line), line, pos);
		else if (sscanf(line, "it_value: (%lu, %lu)%n", &a, &b, &at) == 2)
			say("%s: it_value: %s", text, a + b == 0 ? "0" : a >= 999 && a < 1000 ? "999" : "another");
		else if (sscanf(line, "Pid:\t%d", &pid) == 1 || sscanf(line, "NSpid:\t%d", &pid) == 1)
			say("%s: %.*s %s", text, (int)(strchr(line, ':') - line), line, pid > 0 ? "P" : pid == -1 ? "-1" : "0");
		else if (sscanf(line, "lock:\t%d: %s %s %s %d %lx:%lx:%lu %s %s%n", &id, kind, how, what, &pid, &a, &b, &e, from, to, &at) == 10)
			say("%s: lock %d: %s %s %s by %s, %s, %s to %s; %d", text, id, kind, how, what, pid == getpid() ? "me" : pid == -1 ? "-1" : "another",
				e == st.st_ino ? "its inode" : "another inode", from, to, line[at]);
		else
			say("%s: %s", text, line);
	}
	free(all);
}

static void plain(void)
{
	section("plain");
	write_file("f", "0123456789");
	int fd = open("f", O_RDWR | O_APPEND);
	info("file", fd);
	lseek(fd, 7, SEEK_SET);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	info("moved", fd);
	int copy = dup(fd);
	info("copy", copy);
	close(copy);
	info("closed", copy);
	close(fd);
	fd = open("f", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	info("flags", fd);
	close(fd);
	fd = open("f", O_PATH);
	info("path", fd);
	close(fd);
	fd = open(".", O_RDONLY | O_DIRECTORY);
	info("directory", fd);
	close(fd);
	fd = open("/dev/null", O_WRONLY);
	info("null", fd);
	close(fd);
	int ends[2];
	pipe2(ends, O_NONBLOCK);
	info("pipe", ends[0]);
	info("pipe", ends[1]);
	close(ends[0]), close(ends[1]);
	fd = (int)syscall(SYS_memfd_create, "m", 1);
	write(fd, "abc", 3);
	info("memfd", fd);
	close(fd);
}

static void kinds(void)
{
	section("kinds");
	int event = eventfd(0x1f, EFD_SEMAPHORE | EFD_NONBLOCK);
	info("eventfd", event);
	int other = eventfd(0, 0);
	info("eventfd", other);
	int set = epoll_create1(EPOLL_CLOEXEC);
	info("epoll", set);
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET, .data.u64 = 0xabcdef0123 };
	epoll_ctl(set, EPOLL_CTL_ADD, event, &wanted);
	info("epoll", set);
	wanted.events = EPOLLOUT | EPOLLONESHOT;
	epoll_ctl(set, EPOLL_CTL_MOD, event, &wanted);
	info("epoll", set);
	epoll_ctl(set, EPOLL_CTL_DEL, event, NULL);
	epoll_ctl(set, EPOLL_CTL_ADD, other, &wanted);
	close(other);
	info("epoll", set);
	close(event), close(set);

	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	info("timerfd", timer);
	struct itimerspec to = { { 5, 7 }, { 1000, 0 } };
	timerfd_settime(timer, 0, &to, NULL);
	info("timerfd", timer);
	close(timer);
	timer = timerfd_create(CLOCK_REALTIME, 0);
	to = (struct itimerspec){ { 0, 0 }, { 1, 0 } };
	timerfd_settime(timer, TFD_TIMER_ABSTIME | 2, &to, NULL);
	nap(20);
	info("past", timer);
	close(timer);

	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1), sigaddset(&signals, SIGRTMIN + 3), sigaddset(&signals, SIGKILL);
	int fd = signalfd(-1, &signals, SFD_CLOEXEC);
	info("signalfd", fd);
	close(fd);

	pid_t pid = parked(NULL);
	fd = (int)syscall(434, pid, 0);
	info("pidfd", fd);
	kill(pid, SIGKILL);
	siginfo_t got;
	waitid(P_PID, pid, &got, WEXITED | WNOWAIT);
	info("zombie", fd);
	wait_for(pid);
	info("gone", fd);
	close(fd);
}

static void locks(void)
{
	section("locks");
	write_file("l", "x");
	int fd = open("l", O_RDWR), other = open("l", O_RDWR);
	flock(fd, LOCK_SH);
	info("shared", fd);
	info("other", other);
	flock(fd, LOCK_EX);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 10 };
	fcntl(fd, F_SETLK, &lock);
	lock = (struct flock){ .l_type = F_RDLCK, .l_start = 100 };
	fcntl(fd, F_SETLK, &lock);
	info("record", fd);
	lock = (struct flock){ .l_type = F_UNLCK };
	fcntl(fd, F_SETLK, &lock);
	lock = (struct flock){ .l_type = F_WRLCK, .l_start = 1, .l_len = 1 };
	fcntl(fd, 37, &lock);
	info("open file", fd);
	info("other", other);
	close(fd), close(other);
}

static int ready[2], done[2];
static void *thread_with_own(void *unused)
{
	(void)unused;
	syscall(SYS_close_range, ~0u, ~0u, 2);
	int fd = open("f", O_RDONLY);
	dup2(fd, 77);
	lseek(77, 3, SEEK_SET);
	int tid = (int)syscall(SYS_gettid);
	write(ready[1], &tid, sizeof tid);
	char c;
	read(done[0], &c, 1);
	return NULL;
}

static void places(void)
{
	section("places");
	DIR *dir = opendir("/proc/self/fdinfo");
	int files = 0, others = 0;
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			entry->d_type == DT_REG ? files++ : others++;
	CHECK(files >= 4);
	CHECK(others == 0);
	if (dir)
		closedir(dir);
	struct stat st;
	SHOW(stat("/proc/self/fdinfo", &st));
	say("%o", st.st_mode);
	SHOW(stat("/proc/self/fdinfo/0", &st));
	say("%o", st.st_mode);
	SHOW(stat("/proc/self/fdinfo/999", &st));
	SHOW(stat("/proc/self/fdinfo/00", &st));
	SHOW(stat("/proc/self/fdinfo/-1", &st));
	int own = open("/proc/self/fdinfo/0", O_RDONLY), fd;
	SHOW(write(own, "x", 1));
	SHOW_OK(fd = open("/proc/self/fdinfo/0", O_RDWR));
	SHOW(write(fd, "x", 1));
	close(fd), close(own);
	/* Of itself. */
	char path[64], text[256] = "";
	fd = dup(0);
	close(fd);
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	int hold = open("/dev/null", O_RDONLY);
	own = open(path, O_RDONLY);
	close(hold);
	SHOW(read(own, text, sizeof text));
	dup2(own, fd);
	CHECK(read(own, text, sizeof text - 1) > 0);
	say("%.6s", text);
	close(fd), close(own);
	/* A thread with descriptors of its own. */
	pipe(ready), pipe(done);
	pthread_t thread;
	pthread_create(&thread, NULL, thread_with_own, NULL);
	int tid = 0;
	read(ready[0], &tid, sizeof tid);
	snprintf(directory, sizeof directory, "/proc/self/task/%d/fdinfo", tid);
	info("thread's", 77);
	strcpy(directory, "/proc/self/fdinfo");
	info("not mine", 77);
	write(done[1], "x", 1);
	pthread_join(thread, NULL);
	/* A stranger's. */
	pid_t pid = parked(NULL);
	snprintf(directory, sizeof directory, "/proc/%d/fdinfo", pid);
	info("child's", 0);
	pid_t looker = must_fork();
	if (looker == 0) {
		setresuid(1000, 1000, 1000);
		SHOW(open(directory, O_RDONLY | O_DIRECTORY));
		info("stranger's", 0);
		_exit(0);
	}
	wait_for(looker);
	kill(pid, SIGKILL);
	siginfo_t got;
	waitid(P_PID, pid, &got, WEXITED | WNOWAIT);
	info("zombie's", 0);
	wait_for(pid);
	info("gone one's", 0);
}

int main(void)
{
	plain();
	kinds();
	locks();
	places();
	return 0;
}
