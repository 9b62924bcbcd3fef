/* /proc/locks and the lock: lines of /proc/PID/fdinfo: every kind of lock, in its order, and who waits for each. */
#include "t.h"
#include <ctype.h>
#include <sys/file.h>

#ifndef F_OFD_SETLK
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#endif

static const char *name = "/tmp/proclocks";
static unsigned long inode;
static pid_t waiters[8];
static int many;

static const char *who(int pid)
{
	static char text[16];
	if (pid == getpid())
		return "this process";
	for (int i = 0; i < many; i++)
		if (waiters[i] == pid) {
			snprintf(text, sizeof text, "waiter %d", i + 1);
			return text;
		}
	return pid == -1 ? "-1" : pid == getppid() ? "its parent" : "another";
}

/* The lines about the file, and those below them; numbers count from the first of them. */
static void list_of(const char *title, const char *path, const char *prefix)
{
	char *all = read_file(path), end[] = "\n";
	long first = -1, ours = -1;
	say("%s:", title);
	for (char *line = all ? strtok(all, end) : NULL; line; line = strtok(NULL, end)) {
		if (strncmp(line, prefix, strlen(prefix)) != 0)
			continue;
		line += strlen(prefix);
		int at = 0, pid = 0, after = 0;
		long number;
		unsigned long found = 0;
		if (sscanf(line, "%ld: %n", &number, &at) != 1 || at == 0)
			continue;
		/* The blanks before an arrow are part of the line. */
		char *from = strchr(line, ':') + 1, *digits = from;
		while (*digits && !(isdigit((unsigned char)*digits) || (*digits == '-' && digits[1] != '>')))
			digits++;
		if (sscanf(digits, "%d %*x:%*x:%lu%n", &pid, &found, &after) == 2 && after) {
			if (found != inode)
				continue;
			ours = number;
			if (first < 0)
				first = number;
		} else if (number != ours || sscanf(digits, "%d%n", &pid, &after) != 1)
			continue;
		say("  %ld:%.*s%s,%s", number - first + 1, (int)(digits - from), from, who(pid), digits + after);
	}
	free(all);
}

static void list(const char *title) { list_of(title, "/proc/locks", ""); }

static void info(const char *title, int fd)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	list_of(title, path, "lock:\t");
}

static int lock(int fd, int command, int type, long start, long len)
{
	struct flock l = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };
	return fcntl(fd, command, &l);
}

/* A process that runs `body` and then waits for its end. */
static void waiter(void (*body)(void))
{
	pid_t pid = must_fork();
	if (pid == 0) {
		many = 0;
		body();
		pause();
		_exit(0);
	}
	waiters[many++] = pid;
	nap(30);
}

static void end(int i)
{
	kill(waiters[i], SIGKILL);
	waitpid(waiters[i], NULL, 0);
	waiters[i] = 0;
	nap(30);
}

static void end_all(void)
{
	for (int i = 0; i < many; i++) {
		if (waiters[i] == 0)
			continue;
		kill(waiters[i], SIGKILL);
		waitpid(waiters[i], NULL, 0);
	}
	many = 0;
}

static void wants_shared(void) { flock(open(name, O_RDWR), LOCK_SH); }
static void wants_exclusive(void) { flock(open(name, O_RDWR), LOCK_EX); }

static void whole(void)
{
	section("flock");
	int fd = open(name, O_RDWR), other = open(name, O_RDWR);
	SHOW(flock(fd, LOCK_SH));
	SHOW(flock(other, LOCK_SH));
	list("two");
	SHOW(flock(fd, LOCK_SH));
	info("one", fd), info("the other", other);
	SHOW(flock(other, LOCK_UN));
	SHOW(flock(fd, LOCK_EX));
	list("exclusive");
	waiter(wants_exclusive), waiter(wants_shared), waiter(wants_shared), waiter(wants_exclusive);
	list("waited for");
	end(1);
	list("without one who waits");
	/* Of several who could have it any may come first. */
	end(0), end(3);
	list("one waits");
	SHOW(flock(fd, LOCK_UN));
	nap(50);
	list("given up");
	end_all();
	nap(50);
	list("nothing");
	close(fd), close(other);
}

static void records(void)
{
	section("locks of processes");
	int fd = open(name, O_RDWR), other = open(name, O_RDWR);
	SHOW(lock(fd, F_SETLK, F_WRLCK, 0, 100));
	SHOW(lock(other, F_SETLK, F_WRLCK, 200, 100));
	list("two");
	info("one", fd), info("the other", other);
	SHOW(lock(fd, F_SETLK, F_UNLCK, 40, 10));
	list("a hole");
	SHOW(lock(fd, F_SETLK, F_RDLCK, 10, 10));
	list("another kind inside");
	SHOW(lock(fd, F_SETLK, F_RDLCK, 40, 10));
	list("in the hole");
	SHOW(lock(fd, F_SETLK, F_WRLCK, 100, 100));
	list("joined on both sides");
	info("one", fd), info("the other", other);
	SHOW(lock(other, F_SETLK, F_RDLCK, 5, 290));
	list("most is another kind");
	SHOW(lock(fd, F_SETLK, F_RDLCK, 290, 40));
	list("the end cut");
	SHOW(lock(fd, F_SETLK, F_WRLCK, 3, 10));
	list("the beginning");
	SHOW(lock(fd, F_SETLK, F_WRLCK, 0, 0));
	list("all");
	SHOW(lock(fd, F_SETLK, F_UNLCK, 7, 0));
	list("less");
	close(fd);
	list("closed");
	close(other);
}

static void wants_ten(void) { lock(open(name, O_RDWR), F_SETLKW, F_WRLCK, 10, 10); }
static void reads_ten(void) { lock(open(name, O_RDWR), F_SETLKW, F_RDLCK, 10, 10); }
static void wants_fifteen(void) { lock(open(name, O_RDWR), F_SETLKW, F_WRLCK, 15, 10); }
static void wants_fifty(void) { lock(open(name, O_RDWR), F_SETLKW, F_WRLCK, 50, 10); }

static void waits(void)
{
	section("who waits");
	int fd = open(name, O_RDWR);
	SHOW(lock(fd, F_SETLK, F_WRLCK, 0, 100));
	waiter(wants_ten), waiter(wants_fifty), waiter(wants_fifteen), waiter(reads_ten);
	list("four");
	end(0);
	list("three");
	/* As above. */
	end(3);
	list("two");
	SHOW(lock(fd, F_SETLK, F_UNLCK, 0, 40));
	nap(50);
	list("a part is given up");
	end_all();
	close(fd);
}

static void wants_of_file(void) { lock(open(name, O_RDWR), F_OFD_SETLKW, F_WRLCK, 5, 1); }

static void of_files(void)
{
	section("locks of open files");
	int fd = open(name, O_RDWR), other = open(name, O_RDWR);
	SHOW(lock(fd, F_OFD_SETLK, F_RDLCK, 0, 10));
	SHOW(lock(other, F_OFD_SETLK, F_RDLCK, 20, 0));
	SHOW(lock(fd, F_SETLK, F_RDLCK, 30, 10));
	SHOW(flock(fd, LOCK_EX));
	list("all kinds");
	info("one", fd), info("the other", other);
	waiter(wants_of_file), waiter(wants_exclusive);
	list("waited for");
	end_all();
	close(fd), close(other);
	list("closed");
}

static void opens(void) { open(name, O_WRONLY); }
static void looks(void) { open(name, O_RDONLY); }

static void leases(void)
{
	section("leases");
	signal(SIGIO, SIG_IGN);
	int fd = open(name, O_RDONLY);
	SHOW(fcntl(fd, F_SETLEASE, F_RDLCK));
	list("held");
	waiter(opens);
	list("broken");
	waiter(opens);
	list("by two");
	SHOW(fcntl(fd, F_SETLEASE, F_UNLCK));
	end_all();
	close(fd);
	fd = open(name, O_RDWR);
	SHOW(fcntl(fd, F_SETLEASE, F_WRLCK));
	waiter(looks);
	list("to be weaker");
	info("it", fd);
	end_all();
	close(fd);
	list("closed");
}

int main(void)
{
	cpu_set_t one;
	CPU_ZERO(&one), CPU_SET(0, &one);
	sched_setaffinity(0, sizeof one, &one);
	int fd = open(name, O_CREAT | O_RDWR, 0666);
	struct stat st;
	fstat(fd, &st);
	inode = st.st_ino;
	close(fd);
	whole();
	records();
	waits();
	of_files();
	leases();
	unlink(name);
	return 0;
}
