/* The kernel's log: /dev/kmsg, syslog(2), /proc/kmsg and their settings. What others say meanwhile is passed over. */
#include "t.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#define TAG "kmsg-test "
#define LOG(command, buffer, size) syscall(SYS_syslog, command, buffer, size)

static const char devkmsg[] = "/proc/sys/kernel/printk_devkmsg", restricted[] = "/proc/sys/kernel/dmesg_restrict", printk[] = "/proc/sys/kernel/printk";
static char text[8192], all[1 << 19];

static long set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);
	long n = fd < 0 ? fd : write(fd, value, strlen(value));
	int error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return n;
}

static int open_end(int flags)
{
	int fd = open("/dev/kmsg", flags);
	lseek(fd, 0, SEEK_END);
	return fd;
}

static long put(int fd, const char *line)
{
	return write(fd, line, strlen(line));
}

/* The next record of the test's own, as far as it is the same everywhere: priority, flags, text. */
static long long show_next(int fd)
{
	unsigned priority;
	long long seq, time;
	char flag;
	int at;
	for (;;) {
		ssize_t n = read(fd, text, sizeof text - 1);
		if (n < 0) {
			say("  %s", error_name(errno));
			return -1;
		}
		text[n] = 0;
		if (sscanf(text, "%u,%lld,%lld,%c%n", &priority, &seq, &time, &flag, &at) != 4) {
			say("  not a record: %s", text);
			return -1;
		}
		char *body = strchr(text, ';');
		if (!body || !strstr(body, TAG))
			continue;
		say("  %u,N,N,%c%s", priority, flag, body);
		return seq;
	}
}

static void formats(void)
{
	section("records");
	int in = open_end(O_RDONLY | O_NONBLOCK), out = open("/dev/kmsg", O_WRONLY);
	const char *lines[] = {
		TAG "plain\n", "<6>" TAG "info\n", "<0>" TAG "kernel\n", "<30>" TAG "daemon\n", "<191>" TAG "local7\n", "<2047>" TAG "facility 255\n",
		"<6" TAG "open\n", "<x>" TAG "no number\n", "<>" TAG "empty\n", "<5> " TAG "blank\n", TAG "\\ back\tslash \x01\x7f\xc3\xa4 end\n",
		TAG "two\nlines\n", TAG "end twice\n\n", TAG "\n", " leading " TAG "text\n",
	};
	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
		if (put(out, lines[i]) != (long)strlen(lines[i]))
			say("%u: %s", i, error_name(errno));
	long long last = -1;
	int order = 1;
	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
		long long seq = show_next(in);
		order &= seq > last;
		last = seq;
	}
	CHECK(order);
	struct iovec parts[] = { { "<5>", 3 }, { TAG, strlen(TAG) }, { "of parts\n", 9 } };
	SHOW(writev(out, parts, 3));
	show_next(in);
	SHOW(pwrite(out, TAG "at a place\n", strlen(TAG) + 11, 1000));
	show_next(in);
	section("sizes");
	memset(all, 'x', 2000);
	memcpy(all, TAG, strlen(TAG));
	all[1022] = all[1023] = all[1024] = '\n';
	SHOW(write(out, all, 1025));
	SHOW(write(out, all, 2000));
	SHOW(write(out, all, 1023));
	for (;;) {
		ssize_t n = read(in, text, sizeof text);
		if (n < 0 || memmem(text, n, TAG, strlen(TAG))) {
			say("text of %zd", n < 0 ? n : text + n - (char *)memchr(text, ';', n));
			break;
		}
	}
	SHOW(write(out, (void *)8, 10));
	SHOW(write(out, (void *)8, 2000));
	put(out, TAG "passed over\n");
	put(out, TAG "next\n");
	SHOW(read(in, text, 20));
	show_next(in);
	put(out, TAG "lost\n");
	SHOW(read(in, (void *)8, 4096));
	SHOW(read(in, text, sizeof text));
	struct iovec two[] = { { text, 10 }, { text + 10, 4000 } };
	put(out, TAG "for a vector\n");
	SHOW(readv(in, two, 2));
	SHOW(readv(in, two, 2));
	char *where = mmap(0, 4096, PROT_READ, MAP_PRIVATE, in, 0);
	CHECK(where == MAP_FAILED);
	SHOW(splice(in, 0, out, 0, 10, 0));
	SHOW(read(out, text, sizeof text));
	SHOW(write(in, text, 1));
	close(in);
	close(out);
}

static void places(void)
{
	section("lseek");
	int fd = open("/dev/kmsg", O_RDWR | O_NONBLOCK);
	SHOW(LOG(5, 0, 0));
	put(fd, TAG "after the clear\n");
	SHOW(lseek(fd, 0, SEEK_END));
	SHOW(read(fd, text, sizeof text));
	SHOW(lseek(fd, 0, SEEK_DATA));
	show_next(fd);
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(read(fd, text, sizeof text) > 0);
	for (int whence = 0; whence < 6; whence++) {
		errno = 0;
		long at = lseek(fd, 0, whence), error = errno;
		errno = 0;
		long off = lseek(fd, 5, whence);
		say("whence %d: %ld %s, %ld %s", whence, at, error_name(error), off, error_name(errno));
	}
	close(fd);
	fd = open("/dev/kmsg", O_WRONLY);
	SHOW(lseek(fd, 0, SEEK_SET));
	close(fd);
}

static int asked(int fd)
{
	struct pollfd ask = { fd, POLLIN | POLLPRI | POLLOUT, 0 };
	poll(&ask, 1, 0);
	return ask.revents;
}

static void waits(void)
{
	section("poll and lost records");
	int in = open_end(O_RDONLY | O_NONBLOCK), out = open("/dev/kmsg", O_WRONLY), poll = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN | EPOLLET }, got = { 0 };
	SHOW(epoll_ctl(poll, EPOLL_CTL_ADD, in, &event));
	SHOW(asked(in));
	SHOW(epoll_wait(poll, &got, 1, 0));
	put(out, TAG "there\n");
	SHOW(asked(in));
	SHOW(epoll_wait(poll, &got, 1, 1000));
	say("events %#x", got.events);
	show_next(in);
	SHOW(asked(in));
	memset(all, 'y', 1000);
	memcpy(all, TAG, strlen(TAG));
	all[999] = '\n';
	int written = 0;
	put(out, TAG "lost\n");
	while (written++ < 3000 && !(asked(in) & POLLPRI))
		write(out, all, 1000);
	CHECK(written > 50 && written < 3000);
	SHOW(asked(in));
	SHOW(read(in, text, sizeof text));
	SHOW(asked(in));
	SHOW(read(in, text, sizeof text) > 0);
	close(in);
	section("who waits");
	in = open_end(O_RDONLY);
	pid_t pid = must_fork();
	if (pid == 0) {
		nap(30);
		put(out, "<3>" TAG "wakes\n");
		_exit(0);
	}
	show_next(in);
	wait_for(pid);
	close(in);
	close(out);
	close(poll);
}

/* Text of syslog(2) with the times left out, of the test's own lines. */
static void show_lines(char *at, long size)
{
	at[size > 0 ? size : 0] = 0;
	for (char *line = strtok(at, "\n"); line; line = strtok(0, "\n")) {
		unsigned priority, seconds, rest;
		int end = 0;
		if (!strstr(line, TAG))
			continue;
		if (sscanf(line, "<%u>[%u.%6u] %n", &priority, &seconds, &rest, &end) == 3 && end)
			say("  <%u>[T] %s", priority, line + end);
		else
			say("  without a time: %s", line);
	}
}

static void on_alarm(int signal)
{
	(void)signal;
}

static void drain(void)
{
	while (LOG(9, 0, 0) > 0)
		LOG(2, all, sizeof all);
}

static void calls(void)
{
	section("syslog: read");
	int out = open("/dev/kmsg", O_WRONLY);
	drain();
	SHOW(LOG(9, 0, 0));
	put(out, "<6>" TAG "one\n");
	long one = LOG(9, 0, 0);
	say("one line of %ld", one);
	put(out, "<5>" TAG "two\nof two lines\n");
	long both = LOG(9, 0, 0);
	say("two more of %ld", both - one);
	SHOW(LOG(2, text, 7));
	text[5] = 0;
	say("  %s", text);
	SHOW(LOG(9, 0, 0) == both - 7);
	long n = LOG(2, text + 7, one - 7);
	CHECK(n == one - 7);
	SHOW(LOG(2, text, (int)(both - one - 1)) == both - one - 1);
	SHOW(LOG(9, 0, 0));
	SHOW(LOG(2, text, sizeof text));
	put(out, "<6>" TAG "three\n");
	put(out, "<6>" TAG "four\n");
	n = LOG(2, text, 50);
	show_lines(text, n);
	n = LOG(2, text, sizeof text);
	show_lines(text, n);
	put(out, "<6>" TAG "fault\n");
	SHOW(LOG(2, 8, 100));
	SHOW(LOG(2, -1L, 100));
	SHOW(LOG(9, 0, 0));
	struct sigaction action = { .sa_handler = on_alarm };
	sigaction(SIGALRM, &action, 0);
	ualarm(30000, 0);
	SHOW(LOG(2, text, sizeof text));
	section("syslog: read all");
	SHOW(LOG(5, 0, 0));
	SHOW(LOG(3, text, sizeof text));
	put(out, "<6>" TAG "first\n");
	put(out, "<6>" TAG "second\n");
	n = LOG(3, all, sizeof all);
	say("both of %ld", n);
	show_lines(all, n);
	long less = LOG(3, all, (int)n - 1);
	say("the newest of %ld", less);
	show_lines(all, less);
	SHOW(LOG(3, all, 10));
	SHOW(LOG(4, all, (int)n) == n);
	SHOW(LOG(3, all, sizeof all));
	SHOW(LOG(10, 0, 0) > 0);
	SHOW(LOG(3, 8, 100));
	put(out, "<6>" TAG "third\n");
	SHOW(LOG(3, 8, 100));
	drain();
	close(out);
}

static void file(void)
{
	section("/proc/kmsg");
	struct stat stat;
	SHOW(lstat("/proc/kmsg", &stat));
	say("mode %o", stat.st_mode);
	drain();
	int out = open("/dev/kmsg", O_WRONLY), in = open("/proc/kmsg", O_RDONLY | O_NONBLOCK);
	SHOW(asked(in));
	SHOW(read(in, text, sizeof text));
	put(out, "<4>" TAG "for the file\n");
	SHOW(asked(in));
	SHOW(read(in, text, 0));
	long n = read(in, text, sizeof text - 1);
	show_lines(text, n);
	SHOW(read(in, text, sizeof text));
	SHOW(lseek(in, 0, SEEK_SET));
	SHOW(write(in, text, 1));
	SHOW(open("/proc/kmsg", O_WRONLY) >= 0);
	close(in);
	in = open("/proc/kmsg", O_RDONLY);
	pid_t pid = must_fork();
	if (pid == 0) {
		nap(30);
		put(out, "<3>" TAG "wakes\n");
		_exit(0);
	}
	do
		n = read(in, text, sizeof text - 1);
	while (n > 0 && !memmem(text, n, TAG, strlen(TAG)));
	show_lines(text, n);
	wait_for(pid);
	struct sigaction action = { .sa_handler = on_alarm };
	sigaction(SIGALRM, &action, 0);
	ualarm(30000, 0);
	SHOW(read(in, text, sizeof text));
	pid = must_fork();
	if (pid == 0) {
		setresuid(1000, 1000, 1000);
		put(out, "<3>" TAG "for who may not open it\n");
		show_lines(text, read(in, text, sizeof text - 1));
		_exit(0);
	}
	wait_for(pid);
	close(in);
	close(out);
}

static void rights(void)
{
	pid_t pid = must_fork();
	if (pid == 0) {
		setresgid(1000, 1000, 1000);
		setresuid(1000, 1000, 1000);
		SHOW_OK(open("/dev/kmsg", O_RDONLY));
		SHOW_OK(open("/dev/kmsg", O_WRONLY));
		SHOW_OK(open("/proc/kmsg", O_RDONLY));
		for (int command = 0; command < 12; command++) {
			errno = 0;
			/* Nothing is read. */
			long value = LOG(command, text, 0);
			say("%d: %s %s", command, value < 0 ? "-1" : "ok", error_name(errno));
		}
		SHOW_OK(set(restricted, "0\n"));
		_exit(0);
	}
	wait_for(pid);
}

static void settings(void)
{
	section("dmesg_restrict");
	char *was = read_file(restricted);
	SHOW(set(restricted, "1\n"));
	rights();
	SHOW(set(restricted, "0\n"));
	rights();
	SHOW(set(restricted, "2\n"));
	SHOW(set(restricted, "-1\n"));
	SHOW(set(restricted, "x\n"));
	char *now = read_file(restricted);
	say("%s", now);
	set(restricted, was);
	free(was);
	free(now);

	section("printk_devkmsg");
	const char *words[] = { "on", "maybe\n", "on\n\n", "onx\n", "ratelimit\n", "off\n" };
	int out = open("/dev/kmsg", O_WRONLY), in = open_end(O_RDONLY | O_NONBLOCK);
	for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
		SHOW(set(devkmsg, words[i]));
		now = read_file(devkmsg);
		say("%s", now);
		free(now);
	}
	SHOW_OK(open("/dev/kmsg", O_RDONLY));
	SHOW(put(out, TAG "not taken\n"));
	SHOW(write(out, all, 1025));
	show_next(in);
	SHOW(set(devkmsg, "ratelimit\n"));
	close(out);
	out = open("/dev/kmsg", O_WRONLY);
	for (int i = 0; i < 15; i++)
		put(out, TAG "one of many\n");
	SHOW(put(out, TAG "too many\n"));
	SHOW(write(out, all, 1025));
	close(out);
	int count = 0;
	long n;
	for (; (n = read(in, text, sizeof text - 1)) > 0; text[n] = 0) {
		text[n] = 0;
		count += strstr(text, TAG) != 0;
		if (strstr(text, "suppressed"))
			say("  %.2s %s", text, strchr(text, ';'));
	}
	say("%d taken", count);
	close(in);
	SHOW(set(devkmsg, "on\n"));
}

static void show_levels(void)
{
	char *now = read_file(printk);
	say("%s", now);
	free(now);
}

static void levels(void)
{
	section("printk");
	int out = open("/dev/kmsg", O_WRONLY), in = open_end(O_RDONLY | O_NONBLOCK);
	SHOW(set(printk, "2 5 2 6\n"));
	show_levels();
	put(out, TAG "of level 5\n");
	show_next(in);
	SHOW(LOG(8, 0, 1));
	show_levels();
	SHOW(LOG(8, 0, 3));
	SHOW(LOG(6, 0, 0));
	show_levels();
	SHOW(LOG(7, 0, 0));
	show_levels();
	SHOW(set(printk, "1"));
	show_levels();
	SHOW(set(printk, "1 4 1 7\n"));
	SHOW(set(printk, "x\n"));
	show_levels();
	close(in);
	close(out);
}

int main(void)
{
	char *devkmsg_was = read_file(devkmsg), *levels_were = read_file(printk);
	int level, message, least, own;
	if (!devkmsg_was || !levels_were || sscanf(levels_were, "%d %d %d %d", &level, &message, &least, &own) != 4)
		return 1;
	say("levels %d %d %d", message, least, own);
	/* The console stays quiet. */
	LOG(8, 0, 1);
	set(devkmsg, "on\n");
	int first = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	CHECK(read(first, text, sizeof text) > 0);
	close(first);
	formats();
	places();
	waits();
	calls();
	file();
	settings();
	levels();
	set(devkmsg, devkmsg_was);
	LOG(8, 0, level);
	free(levels_were);
	free(devkmsg_was);
	return 0;
}
