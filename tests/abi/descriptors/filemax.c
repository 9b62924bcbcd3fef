/* How many files may be open in the whole machine (proc_sys_fs(5)): fs.file-max, fs.file-nr, fs.nr_open, and whom they refuse. */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include "t.h"

enum { MANY = 3000 };

static long number(const char *path, int column)
{
	char *text = read_file(path), *at = text;
	for (; text && column > 0; column--)
		strtol(at, &at, 10);
	long n = text ? strtol(at, 0, 10) : -1;
	free(text);
	return n;
}

/* What a write of `text` says, and what the setting is then. */
static void set(const char *name, const char *text)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/sys/fs/%s", name);
	int fd = open(path, O_WRONLY);
	long n = write(fd, text, strlen(text));
	say("%s of \"%s\": %ld %s, now %ld", name, text, n, n < 0 ? error_name(errno) : "", number(path, 0));
	close(fd);
}

static void settings(void)
{
	section("settings");
	long most = number("/proc/sys/fs/file-max", 0), kib = sysconf(_SC_PHYS_PAGES) * (sysconf(_SC_PAGESIZE) / 1024);
	show_truth("a file for each 10 KiB of free memory, and never less than 8192", most >= 8192 && (most == 8192 || (most > kib / 20 && most <= kib / 10)));
	const char *wrong[] = { "x", "-1", "9223372036854775808", "99999999999999999999", "0x2000", "010", " 70000 \n", "12x", "0", "9223372036854775807" };
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		set("file-max", "50000");
		set("file-max", wrong[i]);
	}
	char old[32];
	snprintf(old, sizeof old, "%ld", most);
	write_file("/proc/sys/fs/file-max", old);
	CHECK(number("/proc/sys/fs/file-max", 0) == most && number("/proc/sys/fs/file-nr", 2) == most);
	const char *bounds[] = { "63", "64", "65", "2147483584", "2147483585", "-1", "4294967296", "x", "1048576" };
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
		set("nr_open", bounds[i]);
	SHOW(open("/proc/sys/fs/file-nr", O_WRONLY));
	char *nr = read_file("/proc/sys/fs/file-nr");
	long used, unused, limit;
	int end = -1;
	CHECK(sscanf(nr, "%ld\t%ld\t%ld\n%n", &used, &unused, &limit, &end) == 3 && end == (int)strlen(nr) && used >= 0 && unused == 0);
	free(nr);
}

static int near(long a, long b)
{
	return labs(a - b) < 200;
}

static int fds[MANY];

static void open_many(void)
{
	for (int i = 0; i < MANY; i++)
		fds[i] = open("/", O_PATH);
}

static void counts(void)
{
	section("counts");
	struct rlimit limit = { 2 * MANY, 2 * MANY };
	SHOW(setrlimit(RLIMIT_NOFILE, &limit));
	long before = number("/proc/sys/fs/file-nr", 0);
	open_many();
	long with = number("/proc/sys/fs/file-nr", 0);
	CHECK(fds[MANY - 1] > 0 && near(with - before, MANY));
	/* Descriptors of the same files are no further files, nor are those of a child. */
	for (int i = 0; i < MANY / 2; i++)
		dup(fds[i]);
	pid_t child = must_fork();
	if (child == 0) {
		close(fds[0]);
		_exit(!near(number("/proc/sys/fs/file-nr", 0), with));
	}
	say("with descriptors of the same: %s", status_text(wait_for(child)));
	for (int i = 0; i < MANY / 2; i++)
		close(fds[MANY - 1] + 1 + i);
	CHECK(near(number("/proc/sys/fs/file-nr", 0), with));
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	CHECK(near(number("/proc/sys/fs/file-nr", 0), before));
}

static void refused(void)
{
	setresuid(1000, 1000, 1000);
	int ends[2];
	sigset_t set;
	sigemptyset(&set);
	SHOW_OK(open("/", O_RDONLY));
	SHOW_OK(open("/", O_PATH));
	SHOW_OK(open("/nowhere/at/all", O_RDONLY));
	SHOW_OK(open("/tmp/filemax-new", O_RDWR | O_CREAT, 0600));
	SHOW(access("/tmp/filemax-new", F_OK));
	SHOW_OK(open("/tmp", O_TMPFILE | O_RDWR, 0600));
	SHOW_OK(open("/", 0x80000000u | O_CREAT | O_DIRECTORY));
	SHOW_OK(pipe(ends));
	SHOW_OK(epoll_create1(0));
	SHOW_OK(eventfd(0, 0));
	SHOW_OK(signalfd(-1, &set, 0));
	SHOW_OK(timerfd_create(CLOCK_MONOTONIC, 0));
	SHOW_OK(memfd_create("m", 0));
	SHOW_OK(memfd_create("m", 0x8000));
	SHOW_OK(dup(1));
	execl("/proc/self/exe", "filemax", "again", (char *)0);
	say("exec: %s", error_name(errno));
	SHOW(execl("/nowhere", "nowhere", (char *)0));
}

static void privileged(void)
{
	int ends[2];
	SHOW_OK(open("/", O_RDONLY));
	SHOW_OK(pipe(ends));
	SHOW_OK(epoll_create1(0));
}

static void limits(void)
{
	section("at the limit");
	long most = number("/proc/sys/fs/file-max", 0);
	open_many();
	write_file("/proc/sys/fs/file-max", "10");
	in_child("root", privileged);
	in_child("a user", refused);
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	char old[32];
	snprintf(old, sizeof old, "%ld", most);
	write_file("/proc/sys/fs/file-max", old);
}

static void raise_limit(long to)
{
	struct rlimit limit = { to, to };
	say("RLIMIT_NOFILE %ld: %s", to, setrlimit(RLIMIT_NOFILE, &limit) == 0 ? "ok" : error_name(errno));
}

/* fs.nr_open bounds the limit that a process may set, and the descriptors of those that have a higher one already. */
static void table(void)
{
	section("descriptors");
	raise_limit(5000);
	write_file("/proc/sys/fs/nr_open", "4096");
	raise_limit(4097);
	raise_limit(5000);
	SHOW_OK(dup2(1, 4095));
	SHOW_OK(dup2(1, 4096));
	SHOW_OK(dup2(1, 4999));
	SHOW_OK(dup2(1, 5000));
	SHOW_OK(fcntl(1, F_DUPFD, 4096));
	SHOW_OK(fcntl(1, F_DUPFD, 5000));
	raise_limit(4096);
	write_file("/proc/sys/fs/nr_open", "2000000");
	raise_limit(2000000);
	write_file("/proc/sys/fs/nr_open", "1048576");
	raise_limit(2000000);
	raise_limit(1048576);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "again") == 0)
		return 9;
	settings();
	in_child("counts", counts);
	struct rlimit limit = { 2 * MANY, 2 * MANY };
	setrlimit(RLIMIT_NOFILE, &limit);
	limits();
	in_child("table", table);
	return 0;
}
