/* Pipes and readiness: atomic writes, capacity, closing, SIGPIPE, non-blocking, FIFOs, poll, select, epoll, eventfd. */
#include "t.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/uio.h>

static char block[1 << 17];

static void basics(void)
{
	section("basics");
	int ends[2];
	char byte[16];
	SHOW(pipe(ends));
	SHOW(syscall(SYS_pipe2, ends + 0, 0x1234567));
	SHOW(syscall(SYS_pipe, 16));
	SHOW(write(ends[1], "hello", 5));
	int waiting = -1;
	SHOW(ioctl(ends[0], FIONREAD, &waiting));
	SHOW(waiting);
	SHOW(read(ends[0], byte, 3));
	SHOW(read(ends[0], byte, 16));
	SHOW(read(ends[1], byte, 1));
	SHOW(write(ends[0], byte, 1));
	SHOW(lseek(ends[0], 0, SEEK_CUR));
	SHOW(pread(ends[0], byte, 1, 0));
	SHOW(ftruncate(ends[1], 0));
	SHOW(fsync(ends[1]));
	struct stat st;
	SHOW(fstat(ends[0], &st));
	say("%o %ld %ld", st.st_mode, (long)st.st_size, (long)st.st_blksize);
	SHOW(fcntl(ends[0], F_GETFL));
	SHOW(fcntl(ends[1], F_GETFL));
	SHOW(fcntl(ends[0], F_GETPIPE_SZ));
	SHOW(fcntl(ends[0], F_SETPIPE_SZ, 10000));
	SHOW(fcntl(ends[0], F_SETPIPE_SZ, 65536));
	SHOW(write(ends[1], "", 0));
	SHOW(fcntl(ends[0], F_SETFL, O_NONBLOCK));
	SHOW(read(ends[0], byte, 1));
	SHOW(fcntl(ends[1], F_SETFL, O_NONBLOCK));
	long total = 0, got;
	while ((got = write(ends[1], block, 4096)) > 0)
		total += got;
	say("capacity %ld, then %s", total, error_name(errno));
	SHOW(write(ends[1], block, 1));
	/* How a pipe's pages are filled is its own affair: only whole pages are taken out and put in. */
	SHOW(read(ends[0], block, 4096));
	SHOW(write(ends[1], block, 4096));
	SHOW(write(ends[1], block, 4096));
	SHOW(write(ends[1], block, 10000));
	SHOW(read(ends[0], block, 8192));
	SHOW(write(ends[1], block, 10000));
	while (read(ends[0], block, sizeof block) > 0)
		;
	SHOW(write(ends[1], block, sizeof block));
	while (read(ends[0], block, sizeof block) > 0)
		;
	SHOW(write(ends[1], (char *)16, 1));
	SHOW(write(ends[1], "ok", 2));
	SHOW(read(ends[0], (char *)16, 1));
	SHOW(read(ends[0], byte, 16));
	SHOW(close(ends[1]));
	SHOW(read(ends[0], byte, 1));
	SHOW(close(ends[0]));
	pipe(ends);
	signal(SIGPIPE, SIG_IGN);
	close(ends[0]);
	SHOW(write(ends[1], "x", 1));
	SHOW(write(ends[1], "", 0));
	signal(SIGPIPE, SIG_DFL);
	pid_t pid = must_fork();
	if (pid == 0) {
		write(ends[1], "x", 1);
		_exit(0);
	}
	say("SIGPIPE: %s", status_text(wait_for(pid)));
	close(ends[1]);
}

static void flows(void)
{
	section("flow");
	int ends[2];
	pipe(ends);
	/* Four writers of 4096-byte records: none is torn. */
	pid_t writers[4];
	for (int n = 0; n < 4; n++) {
		writers[n] = must_fork();
		if (writers[n] == 0) {
			memset(block, 'a' + n, 4096);
			for (int i = 0; i < 50; i++)
				if (write(ends[1], block, 4096) != 4096)
					_exit(1);
			_exit(0);
		}
	}
	close(ends[1]);
	int count[4] = { 0 }, torn = 0;
	for (;;) {
		size_t length = 0;
		ssize_t got = 0;
		while (length < 4096 && (got = read(ends[0], block + length, 4096 - length)) > 0)
			length += (size_t)got;
		if (length == 0)
			break;
		for (size_t i = 1; i < length; i++)
			torn += block[i] != block[0];
		if (block[0] >= 'a' && block[0] < 'e')
			count[block[0] - 'a']++;
	}
	say("%d %d %d %d torn %d", count[0], count[1], count[2], count[3], torn);
	for (int n = 0; n < 4; n++)
		say("writer: %s", status_text(wait_for(writers[n])));
	close(ends[0]);
	/* A large blocking write passes whole, in order. */
	pipe(ends);
	pid_t pid = must_fork();
	if (pid == 0) {
		close(ends[0]);
		static char large[1000000];
		for (size_t i = 0; i < sizeof large; i++)
			large[i] = (char)(i % 251);
		_exit(write(ends[1], large, sizeof large) != sizeof large);
	}
	close(ends[1]);
	size_t at = 0, wrong = 0;
	for (ssize_t got; (got = read(ends[0], block, 7777)) > 0;)
		for (ssize_t i = 0; i < got; i++, at++)
			wrong += block[i] != (char)(at % 251);
	say("bytes %zu wrong %zu %s", at, wrong, status_text(wait_for(pid)));
	close(ends[0]);
	/* The reader's leaving wakes a blocked writer. */
	pipe(ends);
	pid = must_fork();
	if (pid == 0) {
		close(ends[0]);
		signal(SIGPIPE, SIG_IGN);
		long total = 0, got;
		while ((got = write(ends[1], block, 4096)) > 0)
			total += got;
		say("wrote %ld, then %s", total, error_name(errno));
		_exit(0);
	}
	close(ends[1]);
	nap(30);
	close(ends[0]);
	wait_for(pid);
	int first[2], second[2];
	pipe(first), pipe(second);
	write(first[1], "spliced", 7);
	SHOW(splice(first[0], 0, second[1], 0, 100, 0));
	char text[16] = { 0 };
	/* A kernel that lacks the call must fail here, not wait. */
	fcntl(first[0], F_SETFL, O_NONBLOCK), fcntl(second[0], F_SETFL, O_NONBLOCK);
	SHOW(read(second[0], text, sizeof text));
	say("%s", text);
	write(first[1], "teed", 4);
	SHOW(tee(first[0], second[1], 100, 0));
	SHOW(read(first[0], text, sizeof text));
	SHOW(read(second[0], text, sizeof text));
	close(first[0]), close(first[1]), close(second[0]), close(second[1]);
}

static void show_poll(const char *text, int fd, short events)
{
	struct pollfd ready = { fd, events, 0 };
	int got = poll(&ready, 1, 0);
	say("%s: %d %s%s%s%s%s%s", text, got, ready.revents & POLLIN ? " IN" : "", ready.revents & POLLOUT ? " OUT" : "",
	    ready.revents & POLLERR ? " ERR" : "", ready.revents & POLLHUP ? " HUP" : "", ready.revents & POLLNVAL ? " NVAL" : "",
	    ready.revents & POLLPRI ? " PRI" : "");
}

static void on_alarm(int number)
{
	(void)number;
}

static void readiness(void)
{
	section("poll and select");
	int ends[2];
	pipe(ends);
	short all = POLLIN | POLLOUT | POLLPRI;
	show_poll("empty, reader", ends[0], all);
	show_poll("empty, writer", ends[1], all);
	write(ends[1], "x", 1);
	show_poll("data, reader", ends[0], all);
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], block, 4096) > 0)
		;
	show_poll("full, writer", ends[1], all);
	while (write(ends[1], block, 1) > 0)
		;
	show_poll("really full, writer", ends[1], all);
	close(ends[1]);
	show_poll("no writer, data", ends[0], all);
	static char sink[1 << 17];
	read(ends[0], sink, sizeof sink);
	show_poll("no writer, empty", ends[0], all);
	close(ends[0]);
	pipe(ends);
	close(ends[0]);
	show_poll("no reader", ends[1], all);
	close(ends[1]);
	show_poll("closed", ends[1], all);
	show_poll("negative", -5, all);
	int file = open("/proc/self/exe", O_RDONLY), null = open("/dev/null", O_RDWR);
	show_poll("file", file, all);
	show_poll("/dev/null", null, all);
	SHOW(poll(0, 0, 0));
	SHOW(poll(0, 0, 20));
	SHOW(poll((struct pollfd *)16, 1, 0));
	SHOW(syscall(SYS_poll, 0, 1 << 30, 0));
	pipe(ends);
	struct pollfd ready = { ends[0], POLLIN, 0 };
	SHOW(poll(&ready, 1, 20));
	struct timespec none = { 0 }, bad = { 0, 2000000000 }, second = { 5, 0 };
	SHOW(ppoll(&ready, 1, &none, 0));
	SHOW(ppoll(&ready, 1, &bad, 0));
	signal(SIGALRM, on_alarm);
	sigset_t blocked, open_set;
	sigemptyset(&open_set), sigemptyset(&blocked), sigaddset(&blocked, SIGALRM);
	sigprocmask(SIG_BLOCK, &blocked, 0);
	raise(SIGALRM);
	SHOW(ppoll(&ready, 1, &none, 0));
	SHOW(ppoll(&ready, 1, &second, &open_set));
	sigprocmask(SIG_UNBLOCK, &blocked, 0);
	alarm(1);
	SHOW(poll(&ready, 1, 10000));
	pid_t pid = must_fork();
	if (pid == 0) {
		nap(30);
		write(ends[1], "x", 1);
		_exit(0);
	}
	SHOW(poll(&ready, 1, 5000));
	say("revents %d", ready.revents);
	wait_for(pid);
	fd_set in, out;
	FD_ZERO(&in); FD_ZERO(&out);
	FD_SET(ends[0], &in), FD_SET(ends[1], &out);
	struct timeval wait = { 1, 0 };
	SHOW(select(ends[1] + 1, &in, &out, 0, &wait));
	say("in %d out %d", FD_ISSET(ends[0], &in) != 0, FD_ISSET(ends[1], &out) != 0);
	char byte;
	read(ends[0], &byte, 1);
	FD_ZERO(&in); FD_SET(ends[0], &in);
	wait = (struct timeval){ 0, 20000 };
	SHOW(select(ends[0] + 1, &in, 0, 0, &wait));
	say("in %d, left %ld", FD_ISSET(ends[0], &in) != 0, (long)wait.tv_sec);
	SHOW(select(-1, 0, 0, 0, &wait));
	FD_ZERO(&in); FD_SET(900, &in);
	SHOW(select(901, &in, 0, 0, &wait));
	wait.tv_sec = -1;
	SHOW(syscall(SYS_select, 0, 0, 0, 0, &wait));
	FD_ZERO(&in); FD_SET(ends[0], &in);
	write(ends[1], "y", 1);
	close(ends[1]);
	SHOW(pselect(ends[0] + 1, &in, 0, 0, &second, &open_set));
	close(ends[0]), close(file), close(null);
}

static void epolls(void)
{
	section("epoll and eventfd");
	int set = epoll_create1(EPOLL_CLOEXEC), ends[2];
	CHECK(set >= 0);
	if (set < 0)
		return;
	pipe(ends);
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 }, got[4];
	SHOW(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
	SHOW(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event));
	SHOW(epoll_ctl(set, EPOLL_CTL_MOD, ends[1], &event));
	SHOW(epoll_ctl(set, EPOLL_CTL_DEL, ends[1], &event));
	SHOW(epoll_ctl(set, EPOLL_CTL_ADD, 999, &event));
	SHOW(epoll_ctl(set, EPOLL_CTL_ADD, set, &event));
	SHOW(epoll_ctl(set, 77, ends[0], &event));
	SHOW(epoll_wait(set, got, 0, 0));
	SHOW(epoll_wait(set, got, 4, 0));
	SHOW(epoll_wait(set, got, 4, 20));
	write(ends[1], "x", 1);
	SHOW(epoll_wait(set, got, 4, 1000));
	say("events %x data %u", got[0].events, got[0].data.u32);
	SHOW(epoll_wait(set, got, 4, 0));
	event.events = EPOLLIN | EPOLLET;
	SHOW(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event));
	SHOW(epoll_wait(set, got, 4, 0));
	SHOW(epoll_wait(set, got, 4, 0));
	write(ends[1], "x", 1);
	SHOW(epoll_wait(set, got, 4, 0));
	event.events = EPOLLIN | EPOLLONESHOT;
	epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event);
	SHOW(epoll_wait(set, got, 4, 0));
	write(ends[1], "x", 1);
	SHOW(epoll_wait(set, got, 4, 0));
	close(ends[1]);
	event.events = EPOLLIN;
	epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event);
	SHOW(epoll_wait(set, got, 4, 0));
	say("events %x", got[0].events);
	close(ends[0]);
	SHOW(epoll_wait(set, got, 4, 0));
	int counter = eventfd(3, EFD_NONBLOCK);
	uint64_t value = 0;
	SHOW(read(counter, &value, 8));
	say("%llu", (unsigned long long)value);
	SHOW(read(counter, &value, 8));
	value = 5;
	SHOW(write(counter, &value, 8));
	SHOW(write(counter, &value, 4));
	show_poll("eventfd", counter, POLLIN | POLLOUT);
	close(counter), close(set);
}

static void fifos(void)
{
	section("fifo");
	SHOW(mkfifo("fifo", 0644));
	SHOW(mkfifo("fifo", 0644));
	SHOW_OK(open("fifo", O_WRONLY | O_NONBLOCK));
	int reader = open("fifo", O_RDONLY | O_NONBLOCK);
	CHECK(reader >= 0);
	char byte;
	SHOW(read(reader, &byte, 1));
	int writer = open("fifo", O_WRONLY | O_NONBLOCK);
	CHECK(writer >= 0);
	SHOW(read(reader, &byte, 1));
	SHOW(write(writer, "x", 1));
	SHOW(read(reader, &byte, 1));
	close(reader), close(writer);
	pid_t pid = must_fork();
	if (pid == 0) {
		int fd = open("fifo", O_WRONLY);
		write(fd, "through", 7);
		_exit(0);
	}
	int fd = open("fifo", O_RDONLY);
	char text[16] = { 0 };
	wait_for(pid);
	SHOW(read(fd, text, sizeof text));
	say("%s", text);
	SHOW(read(fd, text, sizeof text));
	close(fd);
	/* A writer that waits for the reader may write and leave before the reader looks at it. */
	int all = 0;
	for (int i = 0; i < 1000; i++) {
		pid = must_fork();
		if (pid == 0) {
			fd = open("fifo", O_WRONLY);
			write(fd, "through", 7);
			_exit(0);
		}
		fd = open("fifo", O_RDONLY);
		wait_for(pid);
		all += read(fd, text, sizeof text);
		close(fd);
	}
	SHOW(all);
}

enum { CHAIN = 8 };

/* Makes each of a chain of epolls watch the next, from the top or from the bottom; prints what each step gave. */
static void chain(const char *text, int up)
{
	int set[CHAIN];
	struct epoll_event event = { .events = EPOLLIN }, got;
	section(text);
	for (int i = 0; i < CHAIN; i++)
		set[i] = epoll_create1(0);
	for (int n = 0; n < CHAIN - 1; n++) {
		int i = up ? CHAIN - 2 - n : n;
		SHOW(epoll_ctl(set[i], EPOLL_CTL_ADD, set[i + 1], &event));
	}
	/* The event wakes as far as the chain goes. */
	int top = up ? CHAIN - 5 : 0, bottom = up ? CHAIN - 1 : 4, counter = eventfd(0, EFD_NONBLOCK);
	SHOW(epoll_ctl(set[bottom], EPOLL_CTL_ADD, counter, &event));
	SHOW(epoll_wait(set[top], &got, 1, 0));
	eventfd_write(counter, 1);
	SHOW(epoll_wait(set[top], &got, 1, 1000));
	/* A loop, long or short. */
	SHOW(epoll_ctl(set[bottom], EPOLL_CTL_ADD, set[top], &event));
	SHOW(epoll_ctl(set[top + 1], EPOLL_CTL_ADD, set[top], &event));
	/* Without a link in the middle there is room again, above and below. */
	SHOW(epoll_ctl(set[top + 1], EPOLL_CTL_DEL, set[top + 2], &event));
	int below = epoll_create1(0), above = epoll_create1(0);
	SHOW(epoll_ctl(set[bottom], EPOLL_CTL_ADD, below, &event));
	SHOW(epoll_ctl(above, EPOLL_CTL_ADD, set[top], &event));
	SHOW(epoll_ctl(set[top + 1], EPOLL_CTL_ADD, set[top + 2], &event));
	close(set[top + 3]);
	SHOW(epoll_ctl(set[top + 1], EPOLL_CTL_ADD, set[top + 2], &event));
	for (int i = 0; i < CHAIN; i++)
		if (i != top + 3)
			close(set[i]);
	close(below), close(above), close(counter);
}

/* Epolls that are closed while others watch them: no matter how long the chain was, it ends. */
static void long_chain(void)
{
	section("closing a long chain of epolls");
	struct epoll_event event = { .events = EPOLLIN };
	int first = epoll_create1(0), last = first, counter = eventfd(0, EFD_NONBLOCK), right = 1;
	for (int i = 0; i < 3000; i++) {
		int next = epoll_create1(0);
		right &= next >= 0 && epoll_ctl(last, EPOLL_CTL_ADD, next, &event) == 0;
		epoll_ctl(next, EPOLL_CTL_ADD, counter, &event);
		if (last != first)
			close(last);
		last = next;
	}
	CHECK(right);
	eventfd_write(counter, 1);
	close(last), close(first), close(counter);
	/* The same without closing: refused where it gets too long, whichever end it grows at. */
	int set[900], made = 0;
	for (int i = 0; i < 900; i++)
		set[i] = epoll_create1(0);
	for (int i = 0; i < 899; i++)
		made += epoll_ctl(set[i], EPOLL_CTL_ADD, set[i + 1], &event) == 0;
	say("from the top: %d", made);
	for (int i = 0; i < 900; i++)
		close(set[i]);
}

int main(void)
{
	basics();
	flows();
	readiness();
	epolls();
	chain("epolls in each other, from the top", 0);
	chain("epolls in each other, from the bottom", 1);
	long_chain();
	fifos();
	return 0;
}
