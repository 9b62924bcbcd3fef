/* Leases of files (fcntl F_SETLEASE): who gets one, what breaks it, who is told and how, and what /proc says of it. */
#include "t.h"

#include <pthread.h>
#include <sys/socket.h>

enum { RD = F_RDLCK, WR = F_WRLCK, UN = F_UNLCK, SETLEASE = 1024, GETLEASE = 1025, SETSIG = 10, GETSIG = 11, GETOWN_EX = 16 };

static long setlease(int fd, long kind)
{
	return syscall(SYS_fcntl, fd, SETLEASE, kind);
}

static long getlease(int fd)
{
	return syscall(SYS_fcntl, fd, GETLEASE, 0);
}

static const char *kind(long type)
{
	return type == RD ? "read" : type == WR ? "write" : type == UN ? "none" : "wrong";
}

#define LEASE(fd) say("%s: %s", "lease of " #fd, kind(getlease(fd)))

/* The lines of /proc/locks about the file, and those of /proc/self/fdinfo, without numbers. */
static void list_of(const char *path, const char *prefix, unsigned long inode)
{
	char *all = read_file(path);
	for (char *line = all ? strtok(all, "\n") : NULL; line; line = strtok(NULL, "\n")) {
		unsigned n, major, minor, pid;
		unsigned long found;
		char what[40];
		int at = 0;
		if (strncmp(line, prefix, strlen(prefix)) != 0)
			continue;
		line += strlen(prefix);
		if (sscanf(line, "%u: %n", &n, &at) != 1 || at == 0)
			continue;
		char *from = line + at;
		int end = 0;
		memset(what, 0, sizeof what);
		/* Three columns, then the process. */
		char *digits = from + strcspn(from, "0123456789");
		snprintf(what, sizeof what, "%.*s", (int)(digits - from), from);
		if (sscanf(digits, "%u %x:%x:%lu%n", &pid, &major, &minor, &found, &end) == 4 && found == inode)
			say("%s: [%s] by %s,%s", path[6] == 'l' ? "locks" : "fdinfo", what, (pid_t)pid == getpid() ? "this process" : (pid_t)pid == getppid() ? "its parent" : "another", digits + end);
	}
	free(all);
}

static void list(int fd)
{
	struct stat st;
	char path[64];
	fstat(fd, &st);
	list_of("/proc/locks", "", st.st_ino);
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	list_of(path, "lock:\t", st.st_ino);
}

static void show_owner(int fd)
{
	struct { int type; pid_t pid; } owner = { -1, -1 };
	syscall(SYS_fcntl, fd, GETOWN_EX, &owner);
	say("owner: kind %d, %s; signal %d; O_ASYNC %s", owner.type, owner.pid == 0 ? "nobody" : owner.pid == getpid() ? "this process" : owner.pid == getppid() ? "its parent" : "another",
	    fcntl(fd, GETSIG), fcntl(fd, F_GETFL) & O_ASYNC ? "on" : "off");
}

static sigset_t told;

/* The signals that have come, or that come within the time. */
static void show_signals(const char *when, int fd)
{
	struct timespec wait = { 0, 0 };
	siginfo_t info;
	int n = 0;
	while (memset(&info, 0, sizeof info), syscall(SYS_rt_sigtimedwait, &told, &info, &wait, 8) > 0) {
		n++;
		const char *name = info.si_signo >= 34 ? "real-time" : signal_name(info.si_signo);
		if (info.si_code == SI_KERNEL)
			say("%s: %s from the kernel", when, name);
		else
			say("%s: %s code %d band %#lx fd %s", when, name, info.si_code, info.si_band, info.si_fd == fd ? "that" : "another");
	}
	if (n == 0)
		say("%s: nothing", when);
}

/* A signal is to come. */
static void await(const char *when, int fd)
{
	struct timespec wait = { 20, 0 };
	siginfo_t info = { 0 };
	if (syscall(SYS_rt_sigtimedwait, &told, &info, &wait, 8) < 0)
		say("%s: nothing", when);
	else if (info.si_code == SI_KERNEL)
		say("%s: %s from the kernel", when, signal_name(info.si_signo));
	else
		say("%s: %s code %d band %#lx fd %s", when, info.si_signo >= 34 ? "real-time" : signal_name(info.si_signo), info.si_code, info.si_band, info.si_fd == fd ? "that" : "another");
}

static void set_knob(const char *name, const char *value)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/sys/fs/%s", name);
	int fd = open(path, O_WRONLY);
	errno = 0;
	long n = write(fd, value, strlen(value));
	say("%s = %s: %s", name, value, n > 0 ? "ok" : error_name(errno));
	close(fd);
	char *now = read_file(path);
	say("%s is %s", name, now ? strtok(now, "\n") : "?");
	free(now);
}

static void arguments(void)
{
	section("arguments");
	int fd = open("f", O_RDONLY), dir = open(".", O_RDONLY), path = open("f", O_PATH), p[2], null = open("/dev/null", O_RDONLY);
	pipe(p);
	SHOW(setlease(-1, RD));
	SHOW(getlease(-1));
	SHOW(setlease(path, RD));
	SHOW(setlease(path, 7));
	SHOW(getlease(path));
	SHOW(setlease(fd, 3));
	SHOW(setlease(fd, -1));
	SHOW(setlease(fd, 0x100000000L));
	SHOW(setlease(fd, UN));
	SHOW(setlease(fd, UN));
	SHOW(setlease(fd, 0x100000002L));
	SHOW(setlease(dir, RD));
	SHOW(setlease(dir, UN));
	SHOW(setlease(dir, 9));
	SHOW(getlease(dir));
	SHOW(setlease(p[0], RD));
	SHOW(setlease(p[0], UN));
	SHOW(setlease(p[0], 9));
	SHOW(getlease(p[0]));
	SHOW(setlease(null, RD));
	SHOW(setlease(null, UN));
	SHOW(getlease(null));
	SHOW(getlease(fd));
	close(fd), close(dir), close(path), close(p[0]), close(p[1]), close(null);
}

static void who(void)
{
	int own = open("owned", O_RDONLY), other = open("f", O_RDONLY);
	setuid(1000);
	SHOW(setlease(own, RD));
	SHOW(setlease(own, UN));
	SHOW(setlease(other, RD));
	SHOW(setlease(other, UN));
	SHOW(setlease(other, 5));
	SHOW(getlease(other));
	int dir = open("/", O_RDONLY), null = open("/dev/null", O_RDONLY), about = open("/proc/version", O_RDONLY), p[2];
	pipe(p);
	SHOW(setlease(dir, RD));
	SHOW(setlease(dir, UN));
	SHOW(setlease(null, RD));
	SHOW(setlease(null, UN));
	SHOW(setlease(about, RD));
	SHOW(setlease(about, UN));
	SHOW(setlease(p[0], RD));
	_exit(0);
}

static void rights(void)
{
	section("whose");
	write_file("owned", "x");
	chown("owned", 1000, 1000);
	in_child("who", who);
	unlink("owned");
}

static void kinds(void)
{
	section("kinds");
	int r = open("f", O_RDONLY);
	SHOW(setlease(r, RD));
	LEASE(r);
	list(r);
	show_owner(r);
	SHOW(setlease(r, RD));
	SHOW(setlease(r, WR));
	LEASE(r);
	list(r);
	SHOW(setlease(r, RD));
	LEASE(r);
	SHOW(setlease(r, 5));
	int other = open("f", O_RDONLY);
	LEASE(other);
	SHOW(setlease(other, UN));
	SHOW(setlease(r, WR));
	SHOW(setlease(other, RD));
	list(other);
	SHOW(setlease(r, WR));
	SHOW(setlease(r, UN));
	show_owner(r);
	LEASE(r);
	LEASE(other);
	SHOW(setlease(r, UN));
	SHOW(setlease(r, WR));
	close(other);
	SHOW(setlease(r, WR));
	SHOW(setlease(r, UN));
	int w = open("f", O_RDWR);
	SHOW(setlease(r, RD));
	SHOW(setlease(w, RD));
	SHOW(setlease(w, WR));
	close(r);
	SHOW(setlease(w, WR));
	LEASE(w);
	SHOW(setlease(w, RD));
	LEASE(w);
	SHOW(setlease(w, UN));
	close(w);
	w = open("f", O_WRONLY);
	SHOW(setlease(w, RD));
	SHOW(setlease(w, WR));
	SHOW(setlease(w, UN));
	close(w);
	int none = open("f", 3);
	SHOW(setlease(none, WR));
	SHOW(setlease(none, UN));
	SHOW(setlease(none, RD));
	SHOW(setlease(none, UN));
	close(none);
	int created = open("new", O_CREAT | O_EXCL | O_RDWR, 0600);
	SHOW(setlease(created, WR));
	unlink("new");
	LEASE(created);
	SHOW(setlease(created, WR));
	close(created);
	int memory = memfd_create("m", 0);
	SHOW(setlease(memory, RD));
	SHOW(setlease(memory, UN));
	SHOW(setlease(memory, WR));
	close(memory);
	int about = open("/proc/version", O_RDONLY);
	SHOW(setlease(about, RD));
	SHOW(setlease(about, UN));
	close(about);
}

/* Opens while a lease is there, and says what comes of it. */
static void try_open(const char *text, int flags)
{
	errno = 0;
	int fd = open("f", flags);
	say("%s: %s", text, fd >= 0 ? "ok" : error_name(errno));
	if (fd >= 0)
		close(fd);
}

static void no_wait(void)
{
	section("without waiting");
	int fd = open("f", O_RDONLY);
	fcntl(fd, SETSIG, SIGUSR1);
	SHOW(setlease(fd, RD));
	show_owner(fd);
	try_open("to read", O_RDONLY | O_NONBLOCK);
	try_open("its path", O_PATH | O_NONBLOCK);
	show_signals("a reader", fd);
	list(fd);
	try_open("to write", O_WRONLY | O_NONBLOCK);
	show_signals("a writer", fd);
	LEASE(fd);
	list(fd);
	try_open("to write", O_RDWR | O_NONBLOCK);
	try_open("to read", O_RDONLY | O_NONBLOCK);
	show_signals("another", fd);
	SHOW(setlease(fd, RD));
	LEASE(fd);
	SHOW(setlease(fd, WR));
	LEASE(fd);
	int second = open("f", O_RDONLY | O_NONBLOCK);
	SHOW(second >= 0);
	if (second < 0)
		show_signals("after that", fd);
	second = -1;
	SHOW(setlease(fd, UN));
	LEASE(fd);
	show_owner(fd);

	SHOW(setlease(fd, WR));
	show_owner(fd);
	fcntl(fd, SETSIG, 40);
	try_open("to read", O_RDONLY | O_NONBLOCK);
	show_signals("a reader", fd);
	LEASE(fd);
	list(fd);
	try_open("to read", O_RDONLY | O_NONBLOCK);
	show_signals("a reader", fd);
	try_open("to write", O_WRONLY | O_NONBLOCK);
	show_signals("a writer", fd);
	LEASE(fd);
	SHOW(setlease(fd, RD));
	LEASE(fd);
	list(fd);
	try_open("to read", O_RDONLY | O_NONBLOCK);
	try_open("to write", O_WRONLY | O_NONBLOCK);
	show_signals("after it was weakened", fd);
	SHOW(setlease(fd, UN));
	show_signals("in the end", fd);

	SHOW(setlease(fd, WR));
	try_open("to read", O_RDONLY | O_NONBLOCK);
	show_signals("without a signal of its own", fd);
	SHOW(setlease(fd, RD));
	LEASE(fd);
	list(fd);
	try_open("to read", O_RDONLY | O_NONBLOCK);
	SHOW(setlease(fd, WR));
	LEASE(fd);
	/* An open to truncate, by each kind of open. */
	try_open("to truncate and write", O_WRONLY | O_TRUNC | O_NONBLOCK);
	LEASE(fd);
	SHOW(setlease(fd, UN));
	SHOW(setlease(fd, RD));
	show_signals("in the end", fd);
	try_open("to read and truncate", O_RDONLY | O_TRUNC | O_NONBLOCK);
	show_signals("of that", fd);
	LEASE(fd);
	SHOW(setlease(fd, UN));
	SHOW(setlease(fd, RD));
	try_open("to nothing", 3 | O_NONBLOCK);
	show_signals("of that", fd);
	LEASE(fd);
	SHOW(setlease(fd, UN));
	close(fd);
	write_file("f", "0123456789");
}

/* What changes the file, but not what is in it. */
static void unbroken(void)
{
	section("what does not break it");
	int fd = open("f", O_RDONLY);
	struct stat st;
	SHOW(setlease(fd, WR));
	SHOW(stat("f", &st));
	SHOW(chmod("f", 0600));
	SHOW(chown("f", 0, 0));
	SHOW(link("f", "g"));
	SHOW(rename("f", "h"));
	SHOW(unlink("g"));
	SHOW(rename("h", "f"));
	SHOW(utimensat(AT_FDCWD, "f", NULL, 0));
	SHOW(access("f", R_OK));
	show_signals("of all that", fd);
	LEASE(fd);
	list(fd);
	SHOW(setlease(fd, UN));
	close(fd);
}

static int held;

/* In a child: opens and waits; the holder's descriptor is not its own. */
static pid_t opener(int flags)
{
	pid_t pid = must_fork();
	if (pid == 0) {
		close(held);
		errno = 0;
		int fd = open("f", flags);
		_exit(fd >= 0 ? 0 : errno);
	}
	return pid;
}

static pid_t truncater(void)
{
	pid_t pid = must_fork();
	if (pid == 0) {
		close(held);
		_exit(truncate("f", 4) == 0 ? 0 : errno);
	}
	return pid;
}

static void end(const char *text, pid_t pid)
{
	say("%s: %s", text, status_text(wait_for(pid)));
}

static int still_waits(pid_t pid)
{
	nap(60);
	return waitpid(pid, NULL, WNOHANG) == 0;
}

static void waiting(void)
{
	section("waiting");
	held = open("f", O_RDONLY);
	fcntl(held, SETSIG, 40);
	SHOW(setlease(held, WR));
	pid_t pid = opener(O_RDONLY);
	await("a reader", held);
	CHECK(still_waits(pid));
	LEASE(held);
	SHOW(setlease(held, WR));
	CHECK(still_waits(pid));
	SHOW(setlease(held, RD));
	end("the reader", pid);
	LEASE(held);
	list(held);
	pid = opener(O_RDWR);
	await("a writer", held);
	CHECK(still_waits(pid));
	SHOW(setlease(held, RD));
	LEASE(held);
	SHOW(setlease(held, UN));
	end("the writer", pid);
	show_signals("in the end", held);

	fcntl(held, SETSIG, 41);
	SHOW(setlease(held, RD));
	pid = truncater();
	await("truncate", held);
	CHECK(still_waits(pid));
	LEASE(held);
	SHOW(setlease(held, UN));
	end("who truncates", pid);

	fcntl(held, SETSIG, 41);
	SHOW(setlease(held, WR));
	pid = opener(O_RDONLY);
	await("a reader", held);
	pid_t second = opener(O_WRONLY);
	await("a writer behind it", held);
	LEASE(held);
	CHECK(still_waits(pid));
	SHOW(setlease(held, UN));
	end("the reader", pid);
	end("the writer", second);

	/* The last close gives it up. */
	fcntl(held, SETSIG, 41);
	SHOW(setlease(held, WR));
	pid = opener(O_RDONLY);
	await("a reader", held);
	close(held);
	end("the reader after the close", pid);
}

static void nothing(int signal)
{
	(void)signal;
}

static void interrupted_open(int flags)
{
	struct sigaction action = { .sa_handler = nothing, .sa_flags = flags };
	sigset_t all;
	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	close(held);
	struct itimerspec every = { { 0, 50000000 }, { 0, 50000000 } };
	timer_t timer;
	timer_create(CLOCK_MONOTONIC, NULL, &timer);
	timer_settime(timer, 0, &every, NULL);
	errno = 0;
	int fd = open("f", O_RDONLY);
	_exit(fd >= 0 ? 0 : errno);
}

static void interruption(void)
{
	section("interrupted");
	held = open("f", O_RDONLY);
	fcntl(held, SETSIG, 40);
	SHOW(setlease(held, WR));
	pid_t pid = must_fork();
	if (pid == 0)
		interrupted_open(0);
	await("a reader", held);
	say("%s", error_name(WEXITSTATUS(wait_for(pid))));
	LEASE(held);
	pid = must_fork();
	if (pid == 0)
		interrupted_open(SA_RESTART);
	nap(200);
	show_signals("a second reader", held);
	CHECK(still_waits(pid));
	pid_t killed = opener(O_RDONLY);
	nap(50);
	kill(killed, SIGKILL);
	end("who is killed", killed);
	SHOW(setlease(held, RD));
	end("who is restarted", pid);
	close(held);
}

static void *leases_in_thread(void *fd)
{
	SHOW(setlease((int)(long)fd, WR));
	show_owner((int)(long)fd);
	return NULL;
}

static void sharing(void)
{
	section("shared");
	held = open("f", O_RDONLY);
	fcntl(held, SETSIG, 40);
	int copy = dup(held);
	SHOW(setlease(copy, WR));
	LEASE(held);
	try_open("to read", O_RDONLY | O_NONBLOCK);
	show_signals("told of", copy);
	SHOW(setlease(held, WR));
	try_open("to write", O_WRONLY | O_NONBLOCK);
	show_signals("told of", held);
	close(copy);
	LEASE(held);
	pid_t pid = must_fork();
	if (pid == 0) {
		LEASE(held);
		list(held);
		show_owner(held);
		SHOW(setlease(held, UN));
		SHOW(setlease(held, WR));
		show_owner(held);
		list(held);
		_exit(0);
	}
	end("a child", pid);
	LEASE(held);
	show_owner(held);
	list(held);
	try_open("to read", O_RDONLY | O_NONBLOCK);
	show_signals("after the child's end", held);
	pid = must_fork();
	if (pid == 0) {
		nap(100);
		_exit(0);
	}
	close(held);
	try_open("while a child has it open", O_RDONLY | O_NONBLOCK);
	end("the child", pid);
	try_open("when nobody has", O_RDONLY | O_NONBLOCK);

	held = open("f", O_RDONLY);
	int ends[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	char space[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &held, sizeof held);
	SHOW(sendmsg(ends[0], &message, 0));
	close(held);
	held = open("f", O_RDONLY);
	SHOW(setlease(held, WR));
	close(ends[0]), close(ends[1]);
	SHOW(setlease(held, WR));
	SHOW(setlease(held, UN));

	/* A mapping keeps the file that it was made from open. */
	pid = must_fork();
	if (pid == 0) {
		int mapped = open("f", O_RDONLY);
		mmap(NULL, 4096, PROT_READ, MAP_SHARED, mapped, 0);
		close(mapped);
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(pid, NULL, WUNTRACED);
	SHOW(setlease(held, WR));
	SHOW(setlease(held, RD));
	kill(pid, SIGCONT);
	end("who maps", pid);
	SHOW(setlease(held, WR));
	SHOW(setlease(held, UN));
	pid = must_fork();
	if (pid == 0) {
		int mapped = open("f", O_RDWR);
		mmap(NULL, 4096, PROT_READ, MAP_SHARED, mapped, 0);
		close(mapped);
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(pid, NULL, WUNTRACED);
	SHOW(setlease(held, WR));
	SHOW(setlease(held, RD));
	kill(pid, SIGCONT);
	end("who maps", pid);
	SHOW(setlease(held, RD));
	SHOW(setlease(held, UN));

	pthread_t thread;
	pthread_create(&thread, NULL, leases_in_thread, (void *)(long)held);
	pthread_join(thread, NULL);
	show_owner(held);
	close(held);
}

static void programs(void)
{
	section("programs");
	char *text = read_file("/proc/self/exe");
	free(text);
	int from = open("/proc/self/exe", O_RDONLY), to = open("program", O_CREAT | O_WRONLY, 0755);
	static char bytes[1 << 16];
	ssize_t n;
	while ((n = read(from, bytes, sizeof bytes)) > 0)
		write(to, bytes, (size_t)n);
	close(from), close(to);
	held = open("program", O_RDONLY);
	fcntl(held, SETSIG, 40);
	SHOW(setlease(held, RD));
	pid_t pid = must_fork();
	if (pid == 0) {
		close(held);
		execl("./program", "program", "runs", NULL);
		_exit(errno);
	}
	end("exec under a read lease", pid);
	show_signals("told", held);
	SHOW(setlease(held, WR));
	pid = must_fork();
	if (pid == 0) {
		close(held);
		execl("./program", "program", "runs", NULL);
		_exit(errno);
	}
	await("exec under a write lease", held);
	LEASE(held);
	CHECK(still_waits(pid));
	SHOW(setlease(held, RD));
	end("it", pid);
	SHOW(setlease(held, UN));
	pid = must_fork();
	if (pid == 0) {
		execl("./program", "program", "stops", NULL);
		_exit(errno);
	}
	waitpid(pid, NULL, WUNTRACED);
	SHOW(setlease(held, WR));
	SHOW(setlease(held, RD));
	kill(pid, SIGKILL);
	end("a running program", pid);
	SHOW(setlease(held, UN));
	SHOW(setlease(held, WR));
	close(held);
	unlink("program");
}

static void time_out(void)
{
	section("time");
	set_knob("lease-break-time", "1");
	held = open("f", O_RDONLY);
	fcntl(held, SETSIG, 40);
	SHOW(setlease(held, WR));
	long before = ms(CLOCK_MONOTONIC);
	pid_t pid = opener(O_RDONLY);
	end("a reader", pid);
	long took = ms(CLOCK_MONOTONIC) - before;
	say("it took %s", took < 900 ? "less than the time" : took < 8000 ? "the time" : "long");
	LEASE(held);
	show_owner(held);
	show_signals("told", held);
	list(held);
	pid = opener(O_WRONLY);
	end("a writer", pid);
	LEASE(held);
	show_owner(held);
	show_signals("told", held);
	list(held);
	SHOW(setlease(held, UN));

	fcntl(held, SETSIG, 40);
	SHOW(setlease(held, RD));
	try_open("to write", O_WRONLY | O_NONBLOCK);
	nap(2100);
	list(held);
	LEASE(held);
	show_signals("told", held);
	SHOW(setlease(held, WR));
	try_open("to read", O_RDONLY | O_NONBLOCK);
	SHOW(setlease(held, RD));
	SHOW(setlease(held, WR));
	nap(2100);
	LEASE(held);
	show_signals("told", held);
	SHOW(setlease(held, UN));

	/* 0: for ever. */
	set_knob("lease-break-time", "0");
	SHOW(setlease(held, WR));
	pid = opener(O_RDONLY);
	await("a reader", held);
	nap(1300);
	CHECK(still_waits(pid));
	SHOW(setlease(held, UN));
	end("the reader", pid);
	set_knob("lease-break-time", "-1");
	set_knob("lease-break-time", "x");
	set_knob("lease-break-time", "2147483647");
	set_knob("lease-break-time", "2147483648");
	set_knob("lease-break-time", "45");

	set_knob("leases-enable", "0");
	SHOW(setlease(held, WR));
	SHOW(setlease(held, 9));
	SHOW(setlease(held, UN));
	SHOW(getlease(held));
	set_knob("leases-enable", "1");
	SHOW(setlease(held, WR));
	set_knob("leases-enable", "0");
	SHOW(setlease(held, RD));
	int other = open("f", O_RDONLY);
	SHOW(setlease(other, RD));
	SHOW(setlease(other, WR));
	close(other);
	set_knob("leases-enable", "-1");
	set_knob("leases-enable", "2");
	set_knob("leases-enable", "1");
	close(held);
}

/* Several leases on one file, and two on the holder's own opens. */
static void several(void)
{
	section("several");
	int a = open("f", O_RDONLY), b = open("f", O_RDONLY), c = open("f", O_RDONLY);
	fcntl(a, SETSIG, 40);
	fcntl(b, SETSIG, 41);
	SHOW(setlease(a, RD));
	SHOW(setlease(b, RD));
	SHOW(setlease(b, WR));
	try_open("to write", O_WRONLY | O_NONBLOCK);
	await("the first", a);
	await("the second", b);
	SHOW(setlease(c, RD));
	SHOW(setlease(a, RD));
	SHOW(setlease(a, UN));
	LEASE(a);
	LEASE(b);
	try_open("to write", O_WRONLY | O_NONBLOCK);
	close(b);
	try_open("to write", O_WRONLY | O_NONBLOCK);
	SHOW(setlease(c, RD));
	SHOW(setlease(a, RD));
	list(a);
	close(a), close(c);
	show_signals("in the end", -1);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		if (argv[1][0] == 's')
			raise(SIGSTOP);
		return 7;
	}
	sigemptyset(&told);
	sigaddset(&told, SIGIO);
	sigaddset(&told, SIGUSR1);
	sigaddset(&told, 40);
	sigaddset(&told, 41);
	sigprocmask(SIG_BLOCK, &told, NULL);
	write_file("f", "0123456789");
	arguments();
	rights();
	kinds();
	no_wait();
	unbroken();
	waiting();
	interruption();
	sharing();
	programs();
	several();
	time_out();
	return 0;
}
