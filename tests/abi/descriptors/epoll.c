/* epoll: which flags and files EPOLL_CTL_ADD and MOD take, whom a wake reaches (one of the exclusive ones, each of the others), and what is counted. */
#include "t.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

#ifndef EPOLLEXCLUSIVE
#define EPOLLEXCLUSIVE (1u << 28)
#endif

static int control(int epoll, int operation, int fd, unsigned events)
{
	struct epoll_event event = { .events = events, .data.u32 = 7 };
	return epoll_ctl(epoll, operation, fd, &event);
}

static void look(const char *text, int epoll, int timeout)
{
	struct epoll_event events[4];
	int n = epoll_wait(epoll, events, 4, timeout);
	say("%s: %d, %#x", text, n, n > 0 ? events[0].events : 0);
}

static void flags(void)
{
	section("flags");
	int epoll = epoll_create1(0), other = epoll_create1(0), event = eventfd(0, 0);
	static const unsigned with[] = { 0, EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLLET, EPOLLWAKEUP, EPOLLONESHOT, EPOLLPRI,
		EPOLLRDNORM, EPOLLRDHUP, EPOLLMSG, 1u << 20 };
	for (unsigned i = 0; i < sizeof with / sizeof *with; i++) {
		int result = control(epoll, EPOLL_CTL_ADD, event, EPOLLEXCLUSIVE | with[i]);
		say("exclusive with %#x: %s", with[i], result ? error_name(errno) : "added");
		if (result == 0)
			epoll_ctl(epoll, EPOLL_CTL_DEL, event, 0);
	}
	SHOW(control(epoll, EPOLL_CTL_ADD, other, EPOLLIN | EPOLLEXCLUSIVE));
	SHOW(control(epoll, EPOLL_CTL_MOD, event, EPOLLIN | EPOLLEXCLUSIVE));
	SHOW(control(epoll, EPOLL_CTL_ADD, event, EPOLLIN));
	SHOW(control(epoll, EPOLL_CTL_ADD, event, EPOLLIN | EPOLLEXCLUSIVE));
	SHOW(control(epoll, EPOLL_CTL_MOD, event, EPOLLIN | EPOLLEXCLUSIVE));
	SHOW(control(epoll, EPOLL_CTL_MOD, event, EPOLLOUT | EPOLLWAKEUP));
	SHOW(control(epoll, EPOLL_CTL_DEL, event, EPOLLEXCLUSIVE));
	SHOW(control(epoll, EPOLL_CTL_ADD, event, EPOLLIN | EPOLLEXCLUSIVE));
	SHOW(control(epoll, EPOLL_CTL_MOD, event, EPOLLIN));
	SHOW(control(epoll, EPOLL_CTL_DEL, event, 0));
	SHOW(control(epoll, EPOLL_CTL_MOD, event, EPOLLIN));
	SHOW(control(epoll, EPOLL_CTL_DEL, event, 0));
	SHOW(control(epoll, 9, event, 0));
	SHOW(control(epoll, EPOLL_CTL_ADD, epoll, EPOLLIN));
	SHOW(control(event, EPOLL_CTL_ADD, event, EPOLLIN));
	int file = open("/proc/self/exe", O_RDONLY);
	SHOW(control(epoll, EPOLL_CTL_ADD, file, EPOLLIN));
	SHOW(control(file, EPOLL_CTL_ADD, file, EPOLLIN));
	SHOW(control(event, EPOLL_CTL_ADD, file, EPOLLIN));
	SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, event, 0));
	SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, 999, 0));
	SHOW(control(999, EPOLL_CTL_ADD, event, 0));
	SHOW(control(epoll, EPOLL_CTL_ADD, 999, 0));
}

static void behaviour(void)
{
	section("behaviour");
	int pipes[2], epoll = epoll_create1(0);
	pipe(pipes);
	SHOW(control(epoll, EPOLL_CTL_ADD, pipes[0], EPOLLIN | EPOLLET));
	look("edge, empty", epoll, 0);
	write(pipes[1], "a", 1);
	look("edge, first", epoll, 100);
	look("edge, the same", epoll, 0);
	write(pipes[1], "a", 1);
	look("edge, more", epoll, 100);
	SHOW(control(epoll, EPOLL_CTL_MOD, pipes[0], EPOLLIN | EPOLLET));
	look("edge, set again", epoll, 0);
	SHOW(control(epoll, EPOLL_CTL_MOD, pipes[0], EPOLLIN | EPOLLONESHOT));
	look("one shot", epoll, 0);
	look("one shot, over", epoll, 0);
	write(pipes[1], "a", 1);
	look("one shot, more", epoll, 0);
	SHOW(control(epoll, EPOLL_CTL_MOD, pipes[0], EPOLLIN));
	look("level", epoll, 0);
	look("level, the same", epoll, 0);
	/* No events asked for: errors are told all the same. */
	SHOW(control(epoll, EPOLL_CTL_MOD, pipes[0], 0));
	look("nothing asked for", epoll, 0);
	close(pipes[1]);
	look("hung up", epoll, 0);
	SHOW(control(epoll, EPOLL_CTL_MOD, pipes[0], EPOLLONESHOT));
	look("hung up, one shot", epoll, 0);
	look("hung up, over", epoll, 0);
}

/* Four processes sleep, each in an epoll of its own, for one event; how many come back? */
static void herd(const char *text, unsigned events, int rounds, int nested)
{
	int event = eventfd(0, EFD_SEMAPHORE);
	pid_t pids[4];
	for (int n = 0; n < 4; n++) {
		pids[n] = must_fork();
		if (pids[n] == 0) {
			int epoll = epoll_create1(0), outer = epoll;
			nap(100 * n);
			control(epoll, EPOLL_CTL_ADD, event, EPOLLIN | events);
			if (nested) {
				outer = epoll_create1(0);
				control(outer, EPOLL_CTL_ADD, epoll, EPOLLIN);
			}
			struct epoll_event got;
			_exit(epoll_wait(outer, &got, 1, 3000));
		}
	}
	nap(1200);
	for (int n = 0; n < rounds; n++) {
		uint64_t one = 1;
		write(event, &one, 8);
		nap(50);
	}
	int woken = 0;
	for (int n = 0; n < 4; n++)
		woken += WEXITSTATUS(wait_for(pids[n]));
	say("%s: %d woken", text, woken);
	close(event);
}

/* One epoll is told of every descriptor of one pipe. */
static void many(void)
{
	section("many");
	int pipes[2], epoll = epoll_create1(0), added = 0, refused = 0, removed = 0;
	pipe(pipes);
	for (int n = 0; n < 500; n++)
		added += control(epoll, EPOLL_CTL_ADD, dup(pipes[0]), EPOLLIN | EPOLLET) == 0;
	for (int n = 0; n < 500; n++)
		refused += control(epoll, EPOLL_CTL_ADD, epoll + 3 + n, EPOLLIN) != 0 && errno == EEXIST;
	write(pipes[1], "a", 1);
	static struct epoll_event events[600];
	say("%d added, %d there already, %d ready", added, refused, epoll_wait(epoll, events, 600, 0));
	for (int n = 0; n < 500; n++)
		removed += control(epoll, EPOLL_CTL_DEL, epoll + 3 + n, 0) == 0;
	say("%d removed", removed);
	/* What is closed drops out by itself. */
	for (int n = 0; n < 2000; n++) {
		int ends[2];
		pipe(ends);
		control(epoll, EPOLL_CTL_ADD, ends[0], EPOLLIN);
		close(ends[0]), close(ends[1]);
	}
	look("all closed", epoll, 0);
}

/* All that is ready is told at once, each file once, as many as there is room for. */
static void room(uint32_t behaviour, int most)
{
	enum { READY = 700 };
	static struct epoll_event events[1000];
	int epoll = epoll_create1(0), fds[READY], told[READY] = { 0 }, twice = 0, rest = 0;
	for (int n = 0; n < READY; n++) {
		events[0] = (struct epoll_event){ .events = EPOLLIN | behaviour, .data.u32 = (uint32_t)n };
		epoll_ctl(epoll, EPOLL_CTL_ADD, fds[n] = eventfd(1, 0), events);
	}
	int first = epoll_wait(epoll, events, most, 0);
	for (int n = 0; n < first; n++)
		twice += told[events[n].data.u32]++ > 0;
	rest = epoll_wait(epoll, events, 1000, 0);
	say("of %d ready at most %d: %d, %d of them twice, then %d", READY, most, first, twice, rest);
	for (int n = 0; n < READY; n++)
		close(fds[n]);
	close(epoll);
}

#define WATCHES "/proc/sys/fs/epoll/max_user_watches"

static void limit_to(const char *value)
{
	int fd = open(WATCHES, O_WRONLY);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		say("cannot set the limit");
	close(fd);
}

/* Adds one watch after the other until it is refused. Each is removed again, or its file is closed, or it stays. */
static void fill(const char *text, int ready, void (*after)(int, int))
{
	int epoll = epoll_create1(0), added = 0;
	for (int n = 0; n < 300; n++) {
		int event = eventfd(ready, 0);
		if (control(epoll, EPOLL_CTL_ADD, event, EPOLLIN))
			break;
		added++;
		after(epoll, event);
	}
	say("%s: %d added", text, added);
	look(text, epoll, 0);
}

static void keep(int epoll, int fd)
{
	(void)epoll, (void)fd;
}

static void del(int epoll, int fd)
{
	control(epoll, EPOLL_CTL_DEL, fd, 0);
	close(fd);
}

static void close_it(int epoll, int fd)
{
	(void)epoll;
	close(fd);
}

static void in_a_user(const char *text, int ready, void (*after)(int, int))
{
	pid_t pid = must_fork();
	if (pid == 0) {
		setuid(1003);
		fill(text, ready, after);
		fflush(stdout);
		_exit(0);
	}
	wait_for(pid);
}

/* A hundred files are watched by one epoll and closed; then as many again by another. */
static void two(void)
{
	pid_t pid = must_fork();
	if (pid == 0) {
		setuid(1003);
		int a = epoll_create1(0), b = epoll_create1(0), events[100], added = 0;
		for (int n = 0; n < 100; n++)
			added += control(a, EPOLL_CTL_ADD, events[n] = eventfd(n & 1, 0), EPOLLIN) == 0;
		for (int n = 0; n < 100; n++)
			close(events[n]);
		for (int n = 0; n < 100; n++)
			added += control(b, EPOLL_CTL_ADD, events[n] = eventfd(n & 1, 0), EPOLLIN) == 0;
		say("two epolls: %d added", added);
		close(b);
		for (int n = 0; n < 100; n++)
			added += control(a, EPOLL_CTL_ADD, events[n], EPOLLIN) == 0;
		say("the second closed: %d added", added);
		fflush(stdout);
		_exit(0);
	}
	wait_for(pid);
}

/* A watch counts until it is removed, or its file or its epoll closed. */
static void limit(void)
{
	section("limit");
	char *before = read_file(WATCHES);
	limit_to("100");
	in_a_user("kept", 0, keep);
	in_a_user("kept, ready", 1, keep);
	in_a_user("removed", 0, del);
	in_a_user("removed, ready", 1, del);
	in_a_user("closed", 0, close_it);
	in_a_user("closed, ready", 1, close_it);
	two();
	limit_to(before);
}

int main(void)
{
	flags();
	behaviour();
	section("herds");
	herd("all", 0, 1, 0);
	herd("exclusive", EPOLLEXCLUSIVE, 1, 0);
	herd("exclusive, edge", EPOLLEXCLUSIVE | EPOLLET, 1, 0);
	herd("exclusive, two events", EPOLLEXCLUSIVE, 2, 0);
	herd("exclusive, nested", EPOLLEXCLUSIVE, 1, 1);
	many();
	section("room");
	for (int n = 0; n < 3; n++)
		for (int most = 511; most <= 1000; most += most < 513 ? 1 : 187)
			room(n == 0 ? 0 : n == 1 ? EPOLLET : EPOLLONESHOT, most);
	limit();
	return 0;
}
