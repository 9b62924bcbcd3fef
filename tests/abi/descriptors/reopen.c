/* What has no name is opened once more by way of /proc/self/fd: pipes, which need no other end for that; memory files; and what refuses. */
#include "t.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>

static int again(int fd, int flags)
{
	char name[64];
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	return open(name, flags);
}

static const char *link_of(int fd)
{
	static char text[128];
	char name[64];
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	long n = readlink(name, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	return text;
}

static short events(int fd)
{
	struct pollfd one = { fd, POLLIN | POLLOUT, 0 };
	poll(&one, 1, 0);
	return one.revents;
}

static void ends(void)
{
	section("ends");
	int p[2];
	char text[64] = "";
	SHOW(pipe(p));
	int w = again(p[1], O_WRONLY), r = again(p[0], O_RDONLY);
	CHECK(w > 2 && r > 2);
	SHOW(write(w, "one", 3));
	SHOW(read(r, text, sizeof text));
	say("%s", text);
	/* The other end than the one that it is. */
	int back = again(p[0], O_WRONLY), both = again(p[0], O_RDWR), front = again(p[1], O_RDONLY);
	CHECK(back > 2 && both > 2 && front > 2);
	SHOW(write(back, "two", 3));
	SHOW(read(front, text, sizeof text));
	SHOW(write(both, "three", 5));
	SHOW(read(both, text, 2));
	SHOW(read(p[0], text, sizeof text));
	SHOW(read(w, text, 1));
	SHOW(write(r, "x", 1));
	struct stat a, b;
	fstat(p[0], &a);
	fstat(both, &b);
	CHECK(a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_mode == b.st_mode);
	char first[128];
	strcpy(first, link_of(p[0]));
	CHECK(!strcmp(first, link_of(both)) && !strncmp(first, "pipe:[", 6));
	SHOW(fcntl(both, F_GETFL) & O_ACCMODE);
	SHOW(fcntl(w, F_GETPIPE_SZ) == fcntl(p[0], F_GETPIPE_SZ));
	SHOW(fcntl(w, F_SETPIPE_SZ, 4096));
	SHOW(fcntl(p[0], F_GETPIPE_SZ));

	/* The end of the file comes when the last writer has gone, whichever way it was opened. */
	close(both), close(back), close(p[1]);
	SHOW(fcntl(p[0], F_SETFL, O_NONBLOCK));
	SHOW(read(p[0], text, 1));
	say("%#x", events(p[0]));
	close(w);
	SHOW(read(p[0], text, 1));
	say("%#x", events(p[0]));
	/* And another may come. */
	w = again(p[0], O_WRONLY);
	SHOW(read(p[0], text, 1));
	close(p[0]), close(r), close(front);
	signal(SIGPIPE, SIG_IGN);
	SHOW(write(w, "x", 1));
	r = again(w, O_RDONLY | O_NONBLOCK);
	SHOW(write(w, "x", 1));
	SHOW(read(r, text, sizeof text));
	close(w), close(r);
}

static void flags(void)
{
	section("flags");
	int p[2];
	char text[64];
	SHOW(pipe2(p, O_NONBLOCK));
	int r = again(p[0], O_RDONLY | O_NONBLOCK), plain = again(p[0], O_RDONLY);
	SHOW(fcntl(r, F_GETFL) & O_NONBLOCK);
	SHOW(fcntl(plain, F_GETFL) & O_NONBLOCK);
	SHOW(read(r, text, 1));
	/* Nobody has it open for reading any more: no ENXIO, unlike a fifo with a name. */
	close(plain), close(r), close(p[0]);
	SHOW_OK(again(p[1], O_WRONLY | O_NONBLOCK));
	SHOW_OK(again(p[1], O_WRONLY));
	SHOW_OK(again(p[1], O_WRONLY | O_TRUNC | O_APPEND));
	SHOW_OK(again(p[1], O_WRONLY | O_CREAT));
	SHOW(again(p[1], O_WRONLY | O_CREAT | O_EXCL));
	SHOW(again(p[1], O_RDONLY | O_DIRECTORY));
	SHOW(again(p[1], O_RDONLY | O_NOFOLLOW));
	SHOW_OK(again(p[1], O_PATH));
	SHOW_OK(again(p[1], 3));
	SHOW_OK(again(p[1], O_RDONLY | O_DIRECT));
	int path = again(p[1], O_PATH);
	SHOW_OK(again(path, O_WRONLY));
	close(p[1]);
}

/* Modes count: the pipe belongs to who made it. */
static void others(void)
{
	int p[2];
	pipe(p);
	if (setresuid(1000, 1000, 1000))
		_exit(1);
	char name[64];
	snprintf(name, sizeof name, "/proc/self/fd/%d", p[0]);
	SHOW(open(name, O_RDONLY));
	SHOW(open(name, O_WRONLY));
	pipe(p);
	snprintf(name, sizeof name, "/proc/self/fd/%d", p[0]);
	SHOW_OK(open(name, O_RDONLY));
	_exit(0);
}

static void of_another_process(void)
{
	section("of another process");
	int p[2];
	pipe(p);
	pid_t child = must_fork();
	if (child == 0) {
		char name[64], text[8] = "";
		snprintf(name, sizeof name, "/proc/%d/fd/%d", getppid(), p[1]);
		int own = p[0];
		close(p[1]);
		int w = open(name, O_WRONLY);
		SHOW(write(w, "by name", 7));
		SHOW(read(own, text, 7));
		say("%.7s", text);
		_exit(0);
	}
	say("%s", status_text(wait_for(child)));
	close(p[0]), close(p[1]);
}

static void kinds(void)
{
	section("kinds");
	char text[16] = "";
	int m = memfd_create("m", 0);
	SHOW(write(m, "memory", 6));
	int again_m = again(m, O_RDWR);
	SHOW(read(again_m, text, sizeof text));
	say("%s", text);
	SHOW(again(eventfd(0, 0), O_RDONLY));
	SHOW(again(epoll_create1(0), O_RDONLY));
	SHOW(again(timerfd_create(CLOCK_MONOTONIC, 0), O_RDONLY));
	int fifo = (mkfifo("fifo", 0600), open("fifo", O_RDWR));
	SHOW(write(fifo, "fifo", 4));
	int r = again(fifo, O_RDONLY);
	SHOW(read(r, text, sizeof text));
	close(r), close(fifo);
	unlink("fifo");
}

static void by_dev(void)
{
	section("/dev/fd");
	int p[2], saved = dup(0);
	char text[32] = "";
	pipe(p);
	dup2(p[0], 0);
	SHOW(write(p[1], "standard", 8));
	int in = open("/dev/stdin", O_RDONLY);
	SHOW(read(in, text, 4));
	in = open("/dev/fd/0", O_RDONLY);
	SHOW(read(in, text + 4, 4));
	say("%s", text);
	dup2(saved, 0);
}

int main(void)
{
	ends();
	flags();
	section("others'");
	in_child("another user", others);
	of_another_process();
	kinds();
	by_dev();
	return 0;
}
