/* /proc/sys: what is carried out (fs.protected_*, suid_dumpable, drop_caches, domainname); and files of /proc/PID that tell what was done: io, timers, login. */
#include "t.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>

/* Opens, so that what the file refuses is told as well as what it takes. */
static void set(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	if (fd < 0) {
		say("%s: open %s", path, error_name(errno));
		return;
	}
	long done = write(fd, text, strlen(text));
	say("%s = %s: %s", path, text, done < 0 ? error_name(errno) : "set");
	close(fd);
}

static void show(const char *path)
{
	char *text = read_file(path);
	struct stat st;
	if (stat(path, &st) == 0)
		say("%s %o", path, st.st_mode & 07777);
	char *line = text ? strtok(text, "\n") : 0;
	say("%s: %s", path, !text ? error_name(errno) : line ? line : "");
}

static void become(int uid)
{
	setresgid(uid, uid, uid);
	setresuid(uid, uid, uid);
}

static void as(int uid, const char *what, void (*body)(void))
{
	say("%s", what);
	if (must_fork() == 0) {
		become(uid);
		body();
		_exit(0);
	}
	wait(0);
}

static void use_shared(void)
{
	SHOW_OK(open("shared/link", O_RDONLY));
	SHOW_OK(open("shared/link/", O_RDONLY));
	SHOW_OK(open("shared/own link", O_RDONLY));
	SHOW_OK(open("shared/to dir/inside", O_RDONLY));
	SHOW_OK(open("shared/file", O_RDWR | O_CREAT, 0600));
	SHOW_OK(open("shared/file", O_RDWR));
	SHOW_OK(open("shared/fifo", O_RDWR | O_CREAT | O_NONBLOCK, 0600));
	SHOW_OK(open("shared/root's", O_RDWR | O_CREAT, 0600));
	SHOW_OK(open("group/file", O_RDWR | O_CREAT, 0600));
	SHOW_OK(open("group/fifo", O_RDWR | O_CREAT | O_NONBLOCK, 0600));
	struct stat st;
	SHOW(lstat("shared/link", &st));
	SHOW(stat("shared/link", &st));
	SHOW(link("private", "shared/hard"));
	SHOW(link("common", "shared/hard 2"));
	unlink("shared/hard");
	unlink("shared/hard 2");
}

static void put(const char *path, int uid, int mode)
{
	write_file(path, "x");
	chown(path, uid, uid);
	chmod(path, mode);
}

static void protected(void)
{
	section("protected");
	umask(0);
	chmod(".", 0755);
	mkdir("shared", 0), chmod("shared", 01777);
	mkdir("group", 0), chmod("group", 01770);
	chown("group", 0, 65533);
	mkdir("dir", 0755);
	put("dir/inside", 0, 0644);
	put("target", 0, 0644);
	put("private", 0, 0600);
	put("common", 0, 0666);
	put("shared/file", 1000, 0666);
	put("shared/root's", 0, 0666);
	put("group/file", 1000, 0666);
	mkfifo("shared/fifo", 0666), chmod("shared/fifo", 0666), chown("shared/fifo", 1000, 1000);
	mkfifo("group/fifo", 0666), chmod("group/fifo", 0666), chown("group/fifo", 1000, 1000);
	symlink("../target", "shared/link"), lchown("shared/link", 1000, 1000);
	symlink("../target", "shared/own link"), lchown("shared/own link", 65533, 65533);
	symlink("../dir", "shared/to dir"), lchown("shared/to dir", 1000, 1000);
	static const char *const names[] = { "symlinks", "hardlinks", "fifos", "regular", 0 };
	for (int level = 0; level <= 2; level++) {
		char text[4], path[64];
		snprintf(text, sizeof text, "%d", level);
		for (int i = 0; names[i]; i++) {
			snprintf(path, sizeof path, "/proc/sys/fs/protected_%s", names[i]);
			set(path, text);
		}
		snprintf(text, sizeof text, "at %d", level);
		as(65533, text, use_shared);
		if (level == 1)
			as(0, "as root", use_shared);
	}
	for (int i = 0; names[i]; i++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/sys/fs/protected_%s", names[i]);
		set(path, "-1");
		set(path, "3");
		set(path, "x");
		set(path, i < 2 ? "1" : "0");
		show(path);
	}
}

static void refused(void)
{
	set("/proc/sys/fs/protected_fifos", "0");
	set("/proc/sys/vm/drop_caches", "1");
	set("/proc/sys/kernel/domainname", "mine");
	SHOW_OK(open("/proc/sys/vm/mmap_rnd_bits", O_RDONLY));
}

static void knobs(void)
{
	section("knobs");
	show("/proc/sys/kernel/domainname");
	set("/proc/sys/kernel/domainname", "some.where\n");
	show("/proc/sys/kernel/domainname");
	struct utsname names;
	uname(&names);
	say("uname: %s", names.domainname);
	set("/proc/sys/kernel/domainname", "(none)");
	show("/proc/sys/vm/drop_caches");
	write_file("kept", "still here");
	set("/proc/sys/vm/drop_caches", "3");
	set("/proc/sys/vm/drop_caches", "0");
	set("/proc/sys/vm/drop_caches", "5");
	set("/proc/sys/vm/drop_caches", "1\n");
	char *text = read_file("kept");
	say("%s", text ? text : "lost");
	show("/proc/sys/vm/legacy_va_layout");
	set("/proc/sys/vm/legacy_va_layout", "1");
	show("/proc/sys/vm/legacy_va_layout");
	set("/proc/sys/vm/legacy_va_layout", "0");
	static const char *const shown[] = { "kernel/cap_last_cap", "kernel/arch", "kernel/overflowuid", "fs/overflowgid", "kernel/sched_schedstats",
		"kernel/ngroups_max", "vm/mmap_rnd_bits", 0 };
	for (int i = 0; shown[i]; i++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/sys/%s", shown[i]);
		char *value = read_file(path);
		say("%s %s", path, value ? strtok(value, "\n") : "missing");
	}
	set("/proc/sys/kernel/cap_last_cap", "1");
	set("/proc/sys/kernel/arch", "z80");
	as(65533, "an ordinary user", refused);
}

static void dumpable_after(const char *what)
{
	say("%s: %d", what, prctl(PR_GET_DUMPABLE));
}

static void change(void)
{
	seteuid(65533);
	dumpable_after("after a change of ids");
}

static void dumpable(void)
{
	section("suid_dumpable");
	show("/proc/sys/fs/suid_dumpable");
	for (int level = 0; level <= 2; level++) {
		char text[2] = { (char)('0' + level), 0 };
		set("/proc/sys/fs/suid_dumpable", text);
		in_child(text, change);
	}
	set("/proc/sys/fs/suid_dumpable", "3");
	SHOW(prctl(PR_SET_DUMPABLE, 2));
	/* A core of who is not its user's: root's, where the pattern names a whole path, and it takes no file's place. */
	char here[PATH_MAX], pattern[PATH_MAX + 16], core[PATH_MAX + 16];
	getcwd(here, sizeof here);
	char *before = read_file("/proc/sys/kernel/core_pattern");
	snprintf(core, sizeof core, "%s/core of root", here);
	for (int whole = 0; whole <= 1; whole++) {
		snprintf(pattern, sizeof pattern, "%s", whole ? core : "core of root");
		if (strlen(pattern) > 120)
			snprintf(pattern, sizeof pattern, "core of root");
		int fd = open("/proc/sys/kernel/core_pattern", O_WRONLY);
		write(fd, pattern, strlen(pattern));
		close(fd);
		for (int twice = 0; twice <= whole; twice++) {
			pid_t child = must_fork();
			if (child == 0) {
				struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
				setrlimit(RLIMIT_CORE, &limit);
				chmod(".", 0777);
				setresgid(65533, 65533, 65533);
				setresuid(65533, 65533, 65533);
				raise(SIGABRT);
			}
			int status;
			waitpid(child, &status, 0);
			struct stat st;
			int there = stat("core of root", &st) == 0;
			say("%s path%s: dumped %d, there %d", whole ? "whole" : "no", twice ? ", again" : "", WCOREDUMP(status) != 0, there);
			if (there)
				say("of %d:%d mode %o", st.st_uid, st.st_gid, st.st_mode);
		}
	}
	int fd = open("/proc/sys/kernel/core_pattern", O_WRONLY);
	write(fd, before, strlen(before));
	set("/proc/sys/fs/suid_dumpable", "0");
}

static long io_of(const char *path, const char *name)
{
	char *text = read_file(path), *found = text ? strstr(text, name) : 0;
	return found ? atol(found + strlen(name) + 2) : -1;
}

static long before[4];
static const char *const counted[] = { "rchar", "wchar", "syscr", "syscw" };

/* What reading the file itself adds is the same each time: it is taken off. */
static void since(const char *what)
{
	long now[4];
	for (int i = 0; i < 4; i++)
		now[i] = io_of("/proc/thread-self/io", counted[i]);
	if (what)
		say("%s: rchar %ld wchar %ld syscr %ld syscw %ld", what, now[0] - before[0], now[1] - before[1], now[2] - before[2],
		    now[3] - before[3]);
	memcpy(before, now, sizeof now);
}

static void io(void)
{
	section("io");
	int fd = open("for io", O_CREAT | O_RDWR, 0644);
	char bytes[100] = "";
	long own[4];
	/* Numbers of a fixed width, so that what the file has is as long each time: beyond 10,000. */
	for (int i = 0; i < 300; i++)
		pwrite(fd, bytes, 100, 0), pread(fd, bytes, 100, 0);
	since(0);
	since(0);
	for (int i = 0; i < 4; i++)
		own[i] = before[i];
	since(0);
	for (int i = 0; i < 4; i++)
		own[i] = before[i] - own[i];
	struct iovec parts[2] = { { bytes, 10 }, { bytes, 20 } };
#define STEP(what, call)                                                                                                               \
	do {                                                                                                                           \
		(void)(call);                                                                                                          \
		long now[4];                                                                                                           \
		for (int i = 0; i < 4; i++)                                                                                            \
			now[i] = io_of("/proc/thread-self/io", counted[i]);                                                            \
		say("%s: rchar %+ld wchar %+ld syscr %+ld syscw %+ld", what, now[0] - before[0] - own[0],                              \
		    now[1] - before[1] - own[1], now[2] - before[2] - own[2], now[3] - before[3] - own[3]);                            \
		memcpy(before, now, sizeof now);                                                                                       \
	} while (0)
	since(0);
	int null = open("/dev/null", O_RDWR);
	int only = open("for io", O_RDONLY);
	STEP("nothing", 0);
	STEP("write", write(null, bytes, 50));
	STEP("pread", pread(fd, bytes, 70, 0));
	STEP("at the end", pread(fd, bytes, 70, 5000));
	STEP("writev", writev(null, parts, 2));
	STEP("preadv", preadv(fd, parts, 2, 0));
	STEP("no file", read(-1, bytes, 5));
	STEP("not open for it", write(only, bytes, 5));
	STEP("copy_file_range", syscall(SYS_copy_file_range, only, &(off_t){ 0 }, fd, &(off_t){ 0 }, 0, 0));
	STEP("copy_file_range of some", syscall(SYS_copy_file_range, only, &(off_t){ 0 }, fd, &(off_t){ 0 }, 30, 0));
	STEP("no bytes", write(null, bytes, 0));
	SHOW_OK(open("/proc/self/io", O_RDWR));
	struct stat st;
	stat("/proc/self/io", &st);
	say("%o", st.st_mode);
	/* A child's is its parent's once it was waited for. */
	long chars = io_of("/proc/self/io", "wchar");
	if (must_fork() == 0) {
		for (int i = 0; i < 40; i++)
			write(null, bytes, 100);
		_exit(0);
	}
	wait(0);
	long more = io_of("/proc/self/io", "wchar") - chars;
	CHECK(more >= 4000 && more < 8000);
	char *text = read_file("/proc/self/io");
	for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n"))
		say("%.*s", (int)strcspn(line, ":"), line);
}

static void timers(void)
{
	section("timers");
	timer_t id;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_ptr = (void *)0x1234 };
	syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id);
	event.sigev_notify = SIGEV_NONE, event.sigev_signo = 7;
	syscall(SYS_timer_create, CLOCK_REALTIME, &event, &id);
	syscall(SYS_timer_create, CLOCK_PROCESS_CPUTIME_ID, 0, &id);
	struct { union sigval value; int signo, notify, tid, pad[11]; } thread = { { 0 }, SIGUSR2, 4, (int)syscall(SYS_gettid), { 0 } };
	syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &thread, &id);
	char *text = read_file("/proc/self/timers");
	for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n")) {
		char *dot = strncmp(line, "notify", 6) == 0 ? strrchr(line, '.') : 0;
		if (dot)
			say("%.*s of %s", (int)(dot - line), line, atoi(dot + 1) == getpid() ? "its own" : "another");
		else
			say("%s", line);
	}
	SHOW_OK(open("/proc/thread-self/timers", O_RDONLY));
	SHOW_OK(open("/proc/self/timers", O_WRONLY));
}

static void write_own(void)
{
	set("/proc/self/setgroups", "allow");
	set("/proc/self/loginuid", "5");
	set("/proc/self/uid_map", "0 0 1");
}

static void login(void)
{
	section("users");
	static const char *const names[] = { "uid_map", "gid_map", "projid_map", "setgroups", "loginuid", "personality", 0 };
	for (int i = 0; names[i]; i++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/self/%s", names[i]);
		show(path);
	}
	set("/proc/self/uid_map", "0 0 1");
	set("/proc/self/setgroups", "allow");
	set("/proc/self/setgroups", "deny");
	set("/proc/self/setgroups", "else");
	set("/proc/self/loginuid", "x");
	set("/proc/self/loginuid", "99999999999");
	set("/proc/self/loginuid", "77\n");
	show("/proc/self/loginuid");
	char *text = read_file("/proc/self/sessionid");
	CHECK(text && atol(text) > 0 && strcmp(text, "4294967295") != 0);
	pid_t child = must_fork();
	if (child == 0) {
		show("/proc/self/loginuid");
		char path[64];
		snprintf(path, sizeof path, "/proc/%d/loginuid", getppid());
		int fd = open(path, O_WRONLY);
		say("another's: %ld %s", (long)write(fd, "1", 1), error_name(errno));
		_exit(0);
	}
	wait(0);
	as(65533, "an ordinary user", write_own);
	set("/proc/self/loginuid", "4294967295");
	show("/proc/self/loginuid");
	show("/proc/self/sessionid");
	section("children");
	pid_t one = parked(0), two = parked(0);
	char expected[64];
	snprintf(expected, sizeof expected, "%d %d ", one, two);
	text = read_file("/proc/thread-self/children");
	say("children %s", text && strcmp(text, expected) == 0 ? "in order" : text ? text : error_name(errno));
	kill(one, SIGKILL), kill(two, SIGKILL);
	wait_for(one), wait_for(two);
	SHOW_OK(open("/proc/self/children", O_RDONLY));
	SHOW_OK(open("/proc/thread-self/coredump_filter", O_RDONLY));
	SHOW_OK(open("/proc/thread-self/timerslack_ns", O_RDONLY));
	SHOW_OK(open("/proc/thread-self/io", O_RDONLY));
}

int main(void)
{
	in_child("protected", protected);
	knobs();
	dumpable();
	in_child("io", io);
	timers();
	login();
	return 0;
}
