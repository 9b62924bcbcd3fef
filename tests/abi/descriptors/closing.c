/* A call goes on with the file that it found, whatever becomes of its descriptor meanwhile; and a descriptor that is replaced is never without a file. */
#include "t.h"
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>

static int fds[2], others[2];
static char bytes[3 << 16];

/* One call, made by a thread. */
struct call {
	long (*body)(void);
	long result;
	int error;
	pid_t tid;
	pthread_t thread;
};

static void *run(void *argument)
{
	struct call *call = argument;
	__atomic_store_n(&call->tid, gettid(), __ATOMIC_RELEASE);
	errno = 0;
	call->result = call->body();
	call->error = errno;
	return 0;
}

static int is_asleep(pid_t tid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	char *text = read_file(path), *end = text ? strrchr(text, ')') : 0;
	int asleep = end && end[2] == 'S';
	free(text);
	return asleep;
}

/* Starts a thread that makes the call; it sleeps when this returns. */
static void start(struct call *call, long (*body)(void))
{
	call->body = body;
	call->tid = 0;
	pthread_create(&call->thread, 0, run, call);
	while (!__atomic_load_n(&call->tid, __ATOMIC_ACQUIRE) || !is_asleep(call->tid))
		nap(1);
}

static void finish(const char *text, struct call *call)
{
	pthread_join(call->thread, 0);
	errno = call->error;
	show_value(text, call->result);
}

static long read_it(void) { return read(fds[0], bytes, sizeof bytes); }
static long write_it(void) { return write(fds[1], bytes, sizeof bytes); }
static long splice_it(void) { return splice(fds[0], 0, others[1], 0, 1, 0); }

static void pipes(void)
{
	struct call call;
	section("a pipe's end is closed under the one who sleeps in a call for it");
	pipe(fds);
	start(&call, write_it);
	close(fds[1]);
	long all = 0, n;
	while ((n = read(fds[0], bytes, 4096)) > 0)
		all += n;
	show_value("read in all", all);
	finish("write", &call);
	close(fds[0]);

	pipe(fds);
	start(&call, read_it);
	close(fds[0]);
	SHOW(write(fds[1], "x", 1));
	finish("read", &call);
	signal(SIGPIPE, SIG_IGN);
	SHOW(write(fds[1], "x", 1));
	close(fds[1]);

	pipe(fds);
	pipe(others);
	start(&call, splice_it);
	close(fds[0]);
	SHOW(write(fds[1], "x", 1));
	finish("splice", &call);
	SHOW(write(fds[1], "x", 1));
	close(fds[1]);
}

static long lock_it(void) { return flock(fds[0], LOCK_EX); }

static long lock_record(void)
{
	struct flock lock = { .l_type = F_WRLCK };
	return fcntl(fds[0], F_OFD_SETLKW, &lock);
}

static void locks(const char *name, long (*lock)(void))
{
	struct call call;
	section(name);
	fds[0] = open("/tmp/closing", O_RDWR | O_CREAT, 0600);
	show_value("the first", lock());
	int first = fds[0];
	fds[0] = open("/tmp/closing", O_RDWR);
	start(&call, lock);
	close(fds[0]);
	close(first);
	finish("the second", &call);
	fds[0] = open("/tmp/closing", O_RDWR);
	alarm(5);
	show_value("the third", lock());
	alarm(0);
	close(fds[0]);
}

static int epoll;

static long wait_it(void)
{
	struct epoll_event event;
	return epoll_wait(epoll, &event, 1, 5000);
}

static void epolls(void)
{
	struct call call;
	section("an epoll is closed under the one who waits");
	pipe(fds);
	epoll = epoll_create1(0);
	epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], &(struct epoll_event){ .events = EPOLLIN });
	start(&call, wait_it);
	close(epoll);
	write(fds[1], "x", 1);
	finish("epoll_wait", &call);
	close(fds[0]);
	close(fds[1]);
}

static long poll_it(void)
{
	struct pollfd asked[2] = { { .fd = fds[0], .events = POLLIN }, { .fd = -1 } };
	long n = poll(asked, 2, 5000);
	return n < 0 ? n : n << 16 | asked[0].revents;
}

static long poll_many(void)
{
	struct pollfd asked[20];
	for (int i = 0; i < 20; i++)
		asked[i] = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	long n = poll(asked, 20, 5000);
	return n < 0 ? n : n << 16 | asked[19].revents;
}

static long select_it(void)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fds[0], &set);
	struct timespec most = { 5, 0 };
	return pselect(fds[0] + 1, &set, 0, 0, &most, 0);
}

static void polled(const char *name, long (*body)(void))
{
	struct call call;
	pipe(fds);
	signal(SIGPIPE, SIG_IGN);
	start(&call, body);
	close(fds[0]);
	SHOW(write(fds[1], "x", 1));
	finish(name, &call);
	SHOW(write(fds[1], "x", 1));
	close(fds[1]);
}

static void polls(void)
{
	section("a file is closed under the one who waits in poll and select");
	polled("poll", poll_it);
	polled("poll of many", poll_many);
	polled("pselect", select_it);
}

/* fds: master, slave. */
static void terminal(void)
{
	char name[64];
	fds[0] = posix_openpt(O_RDWR | O_NOCTTY);
	grantpt(fds[0]);
	unlockpt(fds[0]);
	ptsname_r(fds[0], name, sizeof name);
	fds[1] = open(name, O_RDWR | O_NOCTTY);
}

static long read_slave(void) { return read(fds[1], bytes, 10); }

static void terminals(void)
{
	struct call call;
	section("a terminal is closed under the one who reads it");
	terminal();
	start(&call, read_slave);
	close(fds[1]);
	struct pollfd asked = { .fd = fds[0], .events = POLLIN };
	SHOW(poll(&asked, 1, 100));
	SHOW(write(fds[0], "line\n", 5));
	finish("slave", &call);
	nap(50);
	/* Its echo first, and then that nobody is there. */
	SHOW(read(fds[0], bytes, 100));
	SHOW(read(fds[0], bytes, 100));
	close(fds[0]);

	terminal();
	start(&call, read_it);
	close(fds[0]);
	SHOW(write(fds[1], "ab", 2));
	finish("master", &call);
	nap(50);
	SHOW(write(fds[1], "ab", 2));
	SHOW(read(fds[1], bytes, 10));
	close(fds[1]);
}

static volatile int stop, looks;

static void *look(void *unused)
{
	long missing = 0;
	while (!stop) {
		missing += fcntl(99, F_GETFD) < 0;
		looks++;
	}
	(void)unused;
	return (void *)missing;
}

static void replaced(void)
{
	section("dup2 replaces a file at once");
	pthread_t thread;
	void *missing;
	dup2(1, 99);
	stop = 0;
	pthread_create(&thread, 0, look, 0);
	while (!looks)
		nap(1);
	for (int i = 0; i < 100000; i++)
		dup2(i & 1 ? 1 : 2, 99);
	stop = 1;
	pthread_join(thread, &missing);
	show_value("without a file", (long)missing);
}

int main(void)
{
	pipes();
	locks("a file is closed under the one who waits to lock it", lock_it);
	locks("the same with a record lock of the open file", lock_record);
	epolls();
	polls();
	terminals();
	replaced();
	return 0;
}
