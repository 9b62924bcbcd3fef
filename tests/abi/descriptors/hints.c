/* fcntl: whether two descriptors are one open file (F_DUPFD_QUERY), and how long what is written will live (F_GET_RW_HINT, F_SET_RW_HINT). */
#include "t.h"

#define DUPFD_QUERY 1027
#define GET_RW_HINT 1035
#define SET_RW_HINT 1036
#define GET_FILE_RW_HINT 1037
#define SET_FILE_RW_HINT 1038

static void same(void)
{
	section("the same open file");
	int a = open("f", O_CREAT | O_RDWR, 0600), b = dup(a), c = open("f", O_RDONLY), p = open("f", O_PATH), q = dup(p);
	int fds[2];
	pipe(fds);
	SHOW(fcntl(a, DUPFD_QUERY, a));
	SHOW(fcntl(a, DUPFD_QUERY, b));
	SHOW(fcntl(a, DUPFD_QUERY, c));
	SHOW(fcntl(p, DUPFD_QUERY, q));
	SHOW(fcntl(a, DUPFD_QUERY, p));
	SHOW(fcntl(fds[0], DUPFD_QUERY, fds[1]));
	SHOW(fcntl(a, DUPFD_QUERY, 999));
	SHOW(fcntl(a, DUPFD_QUERY, -1));
	SHOW(fcntl(999, DUPFD_QUERY, a));
	close(a), close(b), close(c), close(p), close(q), close(fds[0]), close(fds[1]);
}

static void hint(const char *text, int fd)
{
	uint64_t value = 99;
	errno = 0;
	int got = fcntl(fd, GET_RW_HINT, &value);
	say("%s: %d %s, %d", text, got, error_name(errno), (int)value);
}

static void set(const char *text, int fd, uint64_t value)
{
	errno = 0;
	int got = fcntl(fd, SET_RW_HINT, &value);
	say("%s %llx: %d %s", text, (unsigned long long)value, got, error_name(errno));
}

static int given;
static void as_another(void)
{
	syscall(SYS_setresuid, 1000, 1000, 1000);
	set("by another user", given, 3);
	hint("by another user", given);
}

static void hints(void)
{
	section("hints");
	int a = open("f", O_CREAT | O_RDWR, 0600), c = open("f", O_RDONLY), p = open("f", O_PATH), d = open(".", O_RDONLY);
	int fds[2];
	pipe(fds);
	hint("new", a);
	for (uint64_t value = 0; value < 8; value++) {
		set("set", a, value);
		hint("then", c);
	}
	set("set", a, 1ull << 32);
	set("set", a, 256);
	set("for reading", c, 2);
	hint("then", a);
	set("a path", p, 1);
	hint("a path", p);
	set("a folder", d, 4);
	hint("a folder", d);
	set("a pipe", fds[0], 5);
	hint("its other end", fds[1]);
	SHOW(fcntl(a, GET_RW_HINT, 8));
	SHOW(fcntl(a, SET_RW_HINT, 8));
	SHOW(fcntl(a, GET_FILE_RW_HINT, 8));
	SHOW(fcntl(a, SET_FILE_RW_HINT, 8));
	given = a;
	in_child("another user", as_another);
	close(a), close(c), close(d);
	a = open("f", O_RDONLY);
	hint("opened anew", a);
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	same();
	hints();
	return 0;
}
