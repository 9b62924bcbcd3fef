/* Calls whose flags and rights are easily accepted without effect: each has its effect, or is refused as Linux refuses it. */
#include "t.h"

#include <sys/epoll.h>
#include <sys/time.h>

/* The same as the superuser and as an ordinary user. */
static void as_user(const char *text, void (*body)(void))
{
	body();
	pid_t pid = must_fork();
	if (pid == 0) {
		setresgid(1000, 1000, 1000);
		setresuid(1000, 1000, 1000);
		say("%s as uid %d", text, getuid());
		body();
		_exit(0);
	}
	wait_for(pid);
}

static void zone(void)
{
	struct timezone zone = { 90, 1 }, now = { 7, 7 }, far = { 1000, 0 };
	struct timeval bad = { 0, 1000000 };
	SHOW(syscall(SYS_settimeofday, 0, 0));
	SHOW(syscall(SYS_settimeofday, &bad, 0));
	SHOW(syscall(SYS_settimeofday, 1, 0));
	SHOW(syscall(SYS_settimeofday, 0, 1));
	SHOW(syscall(SYS_settimeofday, 0, &far));
	SHOW(syscall(SYS_settimeofday, 0, &zone));
	SHOW(syscall(SYS_gettimeofday, 0, &now));
	say("zone %d %d", now.tz_minuteswest, now.tz_dsttime);
	struct timespec time = { 1, 0 };
	if (getuid() != 0)
		SHOW(clock_settime(CLOCK_REALTIME, &time));
}

/* A time with the zone, so that the first zone does not move the clock. */
static void clock_zone(void)
{
	struct timeval before, after;
	struct timezone none = { 0, 0 };
	gettimeofday(&before, 0);
	SHOW(syscall(SYS_settimeofday, &before, &none));
	as_user("zone", zone);
	gettimeofday(&after, 0);
	CHECK(after.tv_sec - before.tv_sec < 100);
	SHOW(syscall(SYS_settimeofday, 0, &none));
}

static void logs(void)
{
	char text[64];
	for (int kind = 0; kind <= 11; kind++)
		if (kind != 2 && kind != 3 && kind != 4 && kind != 5 && kind != 9 && kind != 10)
			SHOW(syscall(SYS_syslog, kind, text, 0) < 0 ? -1 : 0);
	SHOW(syscall(SYS_syslog, 3, 0, 64));
	SHOW(syscall(SYS_syslog, 3, text, -1));
	SHOW(syscall(SYS_syslog, 3, text, 0));
	SHOW(syscall(SYS_syslog, 10, 0, 0) < 0);
	SHOW(syscall(SYS_syslog, 8, 0, 9));
	SHOW(syscall(SYS_syslog, 6, 0, 0));
	SHOW(syscall(SYS_syslog, 7, 0, 0));
}

static void capabilities(void)
{
	unsigned header[2] = { 0x20080522, 0 }, data[6];
	SHOW(syscall(SYS_capget, header, data));
	say("any %d", (data[0] | data[1]) != 0);
	header[1] = 1;
	SHOW(syscall(SYS_capget, header, data));
	say("any of the first process %d", (data[0] | data[1]) != 0);
	header[1] = 99999999;
	SHOW(syscall(SYS_capget, header, data));
	header[1] = -1;
	SHOW(syscall(SYS_capget, header, data));
}

static void mappings(void)
{
	section("mmap");
	int fd = open("effects", O_RDWR | O_CREAT | O_TRUNC, 0600);
	ftruncate(fd, 4096);
	const int flags[] = { 0, MAP_SYNC, 1 << 23, MAP_NORESERVE, MAP_POPULATE, 1 << 30, MAP_LOCKED };
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
		say("flags %#x", flags[i]);
		SHOW_PTR(mmap(0, 4096, PROT_READ, MAP_SHARED_VALIDATE | flags[i], fd, 0));
	}
	SHOW_PTR(mmap(0, 4096, PROT_READ, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, 0));
	close(fd);
	unlink("effects");
}

static void watches(void)
{
	section("epoll");
	const char *names[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/ptmx", "/dev/kmsg", "/", "/dev" };
	int poll = epoll_create1(0);
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		struct epoll_event event = { .events = EPOLLIN };
		int fd = open(names[i], O_RDONLY);
		say("%s", names[i]);
		SHOW(epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event));
	}
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	section("settimeofday");
	clock_zone();
	section("syslog");
	as_user("syslog", logs);
	section("capget");
	as_user("capget", capabilities);
	mappings();
	watches();
	return 0;
}
