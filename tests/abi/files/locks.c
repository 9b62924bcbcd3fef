/* Record locks of processes and of open files: what is refused, who waits, what a deadlock is, and what a close gives up. */
#include "t.h"
#include <pthread.h>
#include <sys/file.h>

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#endif

static int lock(int fd, int command, int type, long start, long len)
{
	struct flock l = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };
	return fcntl(fd, command, &l);
}

static const char *kind(int type)
{
	return type == F_RDLCK ? "read" : type == F_WRLCK ? "write" : "none";
}

static void ask(int fd, int command, int type, long start, long len)
{
	struct flock l = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };
	if (fcntl(fd, command, &l) != 0)
		say("ask %d %s %ld+%ld: %s", command, kind(type), start, len, error_name(errno));
	else if (l.l_type == F_UNLCK)
		say("ask %d %s %ld+%ld: free, %ld+%ld", command, kind(type), start, len, (long)l.l_start, (long)l.l_len);
	else
		say("ask %d %s %ld+%ld: %s %ld+%ld whence %d pid %d", command, kind(type), start, len, kind(l.l_type),
		    (long)l.l_start, (long)l.l_len, l.l_whence, l.l_pid == getppid() ? 1 : l.l_pid == getpid() ? 2 : l.l_pid);
}

static int fd;

/* The same range, counted from the start, from where the file stands, and from its end. Nothing else is a place to count from. */
static void whences(void)
{
	section("counted from");
	static const struct { const char *name; int command, ask; } kinds[] = { { "process", F_SETLK, F_GETLK }, { "process, waiting", F_SETLKW, F_GETLK }, { "open file", F_OFD_SETLK, F_OFD_GETLK }, { "open file, waiting", F_OFD_SETLKW, F_OFD_GETLK } };
	int other = open("/tmp/locks", O_RDWR);
	lseek(fd, 40, SEEK_SET), lseek(other, 40, SEEK_SET);
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (int whence = SEEK_SET; whence <= SEEK_HOLE; whence++) {
			static const long starts[] = { 50, 10, -50, 0, 0 };
			struct flock l = { .l_type = F_RDLCK, .l_whence = (short)whence, .l_start = starts[whence], .l_len = 5 };
			long locked = fcntl(fd, kinds[i].command, &l);
			say("%s, whence %d: %ld %s", kinds[i].name, whence, locked, error_name(locked ? errno : 0));
			ask(other, F_OFD_GETLK, F_WRLCK, 0, 0);
			l.l_type = F_WRLCK;
			long asked = fcntl(other, kinds[i].ask, &l);
			say("  asked: %ld %s %s %ld+%ld whence %d", asked, error_name(asked ? errno : 0), kind(l.l_type), (long)l.l_start, (long)l.l_len, l.l_whence);
			/* Its own lock is in nobody's way: nothing is told but that. */
			struct flock free = { .l_type = F_WRLCK, .l_whence = (short)whence, .l_start = starts[whence], .l_len = 5 };
			asked = fcntl(fd, kinds[i].ask, &free);
			say("  of itself: %ld %s whence %d", asked, kind(free.l_type), free.l_whence);
			l = (struct flock){ .l_type = F_UNLCK, .l_whence = (short)whence, .l_start = starts[whence], .l_len = 5 };
			say("  given up: %d", fcntl(fd, kinds[i].command, &l));
			ask(other, F_OFD_GETLK, F_WRLCK, 0, 0);
		}
	close(other);
}

static void look(void)
{
	for (int type = F_RDLCK; type <= F_WRLCK; type++)
		for (long at = 0; at < 100; at += 10)
			ask(fd, F_GETLK, type, at, 10);
	ask(fd, F_GETLK, F_WRLCK, 0, 0);
}

static void ranges(void)
{
	section("ranges");
	SHOW(lock(fd, F_SETLK, F_WRLCK, 0, 50));
	SHOW(lock(fd, F_SETLK, F_UNLCK, 20, 5));
	in_child("a hole", look);
	SHOW(lock(fd, F_SETLK, F_RDLCK, 10, 30));
	in_child("reads over it", look);
	SHOW(lock(fd, F_SETLK, F_WRLCK, 15, 5));
	SHOW(lock(fd, F_SETLK, F_RDLCK, 60, 10));
	SHOW(lock(fd, F_SETLK, F_RDLCK, 80, -10));
	in_child("cut and joined", look);
	SHOW(lock(fd, F_SETLK, F_WRLCK, 0, 0));
	in_child("all one", look);
	SHOW(lock(fd, F_SETLK, F_UNLCK, 30, 0));
	in_child("no end", look);
	SHOW(lock(fd, F_SETLK, F_UNLCK, 0, 0));
	in_child("free", look);
}

static void errors(void)
{
	section("errors");
	SHOW(lock(fd, F_SETLK, 77, 0, 1));
	SHOW(lock(fd, F_SETLK, F_WRLCK, -1, 1));
	SHOW(lock(fd, F_SETLK, F_WRLCK, 5, -6));
	SHOW(lock(fd, F_SETLK, F_WRLCK, LONG_MAX, 1));
	SHOW(lock(fd, F_SETLK, F_WRLCK, LONG_MAX, 2));
	SHOW(lock(fd, F_SETLK, F_WRLCK, LONG_MAX, 0));
	SHOW(lock(fd, F_SETLK, F_UNLCK, 0, 0));
	ask(fd, F_GETLK, F_UNLCK, 0, 1);
	struct flock l = { .l_type = F_WRLCK, .l_whence = 3 };
	SHOW(fcntl(fd, F_SETLK, &l));
	l = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = LONG_MAX };
	SHOW(fcntl(fd, F_SETLK, &l));
	l = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_pid = 1 };
	SHOW(fcntl(fd, F_OFD_SETLK, &l));
	SHOW(fcntl(fd, F_OFD_GETLK, &l));
	l.l_type = 9;
	SHOW(fcntl(fd, F_OFD_GETLK, &l));
	SHOW(fcntl(fd, F_SETLK, (void *)8));
	int ro = open("/tmp/locks", O_RDONLY), wo = open("/tmp/locks", O_WRONLY);
	SHOW(lock(ro, F_SETLK, F_WRLCK, 0, 1));
	SHOW(lock(wo, F_SETLK, F_RDLCK, 0, 1));
	SHOW(lock(wo, F_OFD_SETLK, F_RDLCK, 0, 1));
	SHOW(lock(ro, F_SETLK, F_UNLCK, 0, 1));
	close(ro), close(wo);
	int path = open("/tmp/locks", O_PATH);
	SHOW(lock(path, F_SETLK, F_RDLCK, 0, 1));
	close(path);
	int pipes[2];
	SHOW(pipe(pipes));
	SHOW(lock(pipes[1], F_SETLK, F_WRLCK, 0, 1));
	close(pipes[0]), close(pipes[1]);
}

static void ofd_child(void)
{
	ask(fd, F_OFD_GETLK, F_WRLCK, 0, 0);
	int own = open("/tmp/locks", O_RDWR);
	ask(own, F_OFD_GETLK, F_WRLCK, 0, 0);
	ask(own, F_GETLK, F_WRLCK, 0, 0);
	SHOW(lock(own, F_OFD_SETLK, F_WRLCK, 5, 1));
	SHOW(lock(own, F_SETLK, F_WRLCK, 5, 1));
	SHOW(lock(fd, F_OFD_SETLK, F_RDLCK, 5, 1));
	SHOW(lock(own, F_OFD_SETLK, F_RDLCK, 5, 1));
	ask(own, F_OFD_GETLK, F_UNLCK, 0, 0);
	ask(fd, F_OFD_GETLK, F_UNLCK, 0, 0);
	close(own);
	/* The close of any other descriptor takes no lock of an open file. */
	own = open("/tmp/locks", O_RDWR);
	ask(own, F_OFD_GETLK, F_WRLCK, 0, 0);
}

static void open_files(void)
{
	section("open files");
	SHOW(lock(fd, F_OFD_SETLK, F_WRLCK, 0, 10));
	SHOW(lock(fd, F_OFD_SETLK, F_UNLCK, 3, 1));
	in_child("other open file", ofd_child);
	int other = dup(fd);
	SHOW(lock(fd, F_SETLK, F_WRLCK, 0, 10));
	SHOW(lock(fd, F_OFD_SETLK, F_UNLCK, 0, 0));
	SHOW(lock(fd, F_SETLK, F_WRLCK, 0, 10));
	SHOW(lock(other, F_OFD_SETLK, F_WRLCK, 0, 10));
	close(other);
	SHOW(lock(fd, F_OFD_SETLK, F_WRLCK, 0, 10));
	int again = open("/tmp/locks", O_RDWR);
	SHOW(lock(again, F_OFD_SETLK, F_WRLCK, 0, 10));
	int kept = dup(fd);
	close(fd);
	SHOW(lock(again, F_OFD_SETLK, F_WRLCK, 0, 10));
	close(kept);
	SHOW(lock(again, F_OFD_SETLK, F_WRLCK, 0, 10));
	close(again);
	fd = open("/tmp/locks", O_RDWR);
}

/* Three processes, each with one byte, want the next one's in turn. */
static void circle(int members, int command)
{
	int deadlocks = 0, got = 0;
	pid_t pids[16];
	for (int n = 0; n < members; n++) {
		pids[n] = must_fork();
		if (pids[n] == 0) {
			int own = command == F_OFD_SETLKW ? open("/tmp/locks", O_RDWR) : fd;
			if (lock(own, command, F_WRLCK, n, 1) != 0)
				_exit(9);
			nap(200 + 100 * n);
			/* Where no deadlock is found one of them gives up, and the others have theirs in turn. */
			alarm(n == 0 && (command == F_OFD_SETLKW || members > 12) ? 3 : 50);
			if (lock(own, command, F_WRLCK, (n + 1) % members, 1) == 0)
				_exit(1);
			_exit(errno == EDEADLK ? 2 : 3);
		}
	}
	for (int n = 0; n < members; n++) {
		int status = wait_for(pids[n]);
		deadlocks += WIFEXITED(status) && WEXITSTATUS(status) == 2;
		got += WIFEXITED(status) && WEXITSTATUS(status) == 1;
	}
	say("circle of %d, command %d: %d deadlocks, %d locks", members, command, deadlocks, got);
}

static volatile int done;
static void *waiter(void *arg)
{
	(void)arg;
	SHOW(lock(fd, F_SETLKW, F_WRLCK, 0, 1));
	done = 1;
	return 0;
}

static void on_alarm(int signal)
{
	(void)signal;
}

static void blocked(void)
{
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm }, 0);
	alarm(1);
	SHOW(lock(fd, F_SETLKW, F_WRLCK, 0, 1));
	SHOW(lock(fd, F_SETLK, F_RDLCK, 0, 1));
	SHOW(flock(open("/tmp/locks", O_RDWR), LOCK_EX | LOCK_NB));
}

static void killed(void)
{
	alarm(1);
	lock(fd, F_SETLKW, F_WRLCK, 0, 1);
}

static int sharing(void *arg)
{
	(void)arg;
	/* The same descriptors: the same locks. */
	int result = lock(fd, F_SETLK, F_WRLCK, 0, 1);
	_exit(result == 0 ? 0 : errno);
}

static void waiting(void)
{
	section("waiting");
	for (int members = 2; members <= 4; members++)
		circle(members, F_SETLKW);
	circle(2, F_OFD_SETLKW);
	circle(14, F_SETLKW);
	SHOW(lock(fd, F_SETLK, F_WRLCK, 0, 1));
	in_child("a handler ends the wait", blocked);
	in_child("a signal kills", killed);
	static char stack[65536];
	pid_t pid = clone(sharing, stack + sizeof stack, CLONE_FILES | SIGCHLD, 0);
	say("with shared descriptors: %s", status_text(wait_for(pid)));
	in_child("and held after its end", look);
	/* A thread of the holder asks for what the process has. */
	pthread_t thread;
	pthread_create(&thread, 0, waiter, 0);
	pthread_join(thread, 0);
	CHECK(done);
	/* A child waits until the holder closes some descriptor of the file. */
	pid = must_fork();
	if (pid == 0) {
		alarm(20);
		_exit(lock(fd, F_SETLKW, F_WRLCK, 0, 1) == 0 ? 0 : errno);
	}
	nap(200);
	close(open("/tmp/locks", O_RDONLY));
	say("after a close: %s", status_text(wait_for(pid)));
}

/* As many locks as a program likes, each call in little time. */
static void many(void)
{
	section("many");
	const long count = 2000;
	long failed = 0;
	for (long n = 0; n < count; n++)
		failed += lock(fd, F_OFD_SETLK, F_WRLCK, 2 * n, 1) != 0;
	int other = open("/tmp/locks", O_RDWR);
	say("locks refused: %ld", failed);
	SHOW(lock(other, F_OFD_SETLK, F_RDLCK, 2 * count - 2, 1));
	SHOW(lock(other, F_OFD_SETLK, F_RDLCK, 2 * count - 1, 1));
	SHOW(lock(fd, F_OFD_SETLK, F_RDLCK, 0, 0));
	SHOW(lock(other, F_OFD_SETLK, F_RDLCK, 0, 1));
	close(other);
}

int main(void)
{
	fd = open("/tmp/locks", O_RDWR | O_CREAT | O_TRUNC, 0600);
	ftruncate(fd, 100);
	whences();
	ftruncate(fd, 0);
	ranges();
	errors();
	open_files();
	waiting();
	many();
	unlink("/tmp/locks");
	return 0;
}
