/* Files that tell their owner of input and output by a signal: F_SETOWN, F_SETSIG, O_ASYNC, FIOASYNC. */
#include "t.h"

#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <termios.h>

#ifndef F_SETOWN_EX
#define F_SETOWN_EX 15
#define F_GETOWN_EX 16
struct f_owner_ex { int type; pid_t pid; };
#endif
enum { TID = 0, PID = 1, PGRP = 2, F_GETOWNER_UIDS_ = 17 };

static sigset_t told;

/* The signals that wait, in the order of their numbers, with what they carry. `fds`: names of descriptors. */
static void show_signals(const char *when, int first, int second)
{
	const struct timespec none = { 0, 0 };
	siginfo_t info;
	int n = 0;
	while (memset(&info, 0, sizeof info), syscall(SYS_rt_sigtimedwait, &told, &info, &none, 8) > 0 && n++ < 20) {
		const char *name = info.si_signo >= 34 ? "real-time" : signal_name(info.si_signo);
		if (info.si_signo == SIGCHLD && info.si_code > 0)
			continue;
		if (info.si_code == SI_KERNEL || info.si_code == SI_USER)
			say("%s: %s, from %s", when, name, info.si_code == SI_USER ? info.si_pid == getpid() ? "itself" : "another" : "the kernel");
		else
			say("%s: %s code %d band %#lx fd %s", when, name, info.si_code, info.si_band,
			    info.si_fd == first ? "first" : info.si_fd == second ? "second" : "another");
	}
	if (n == 0)
		say("%s: nothing", when);
}

static void set_async(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);
	SHOW(fcntl(fd, F_SETFL, on ? flags | O_ASYNC : flags & ~O_ASYNC));
	say("O_ASYNC is %s", fcntl(fd, F_GETFL) & O_ASYNC ? "on" : "off");
}

static void show_owner(int fd)
{
	struct f_owner_ex owner = { -1, -1 };
	long result = syscall(SYS_fcntl, fd, F_GETOWN_EX, &owner);
	errno = 0;
	long plain = syscall(SYS_fcntl, fd, F_GETOWN, 0);
	/* A group with a small number looks like an error. */
	if (plain == -1 && errno != 0)
		plain = -errno;
	pid_t me = getpid(), group = getpgrp(), thread = (pid_t)syscall(SYS_gettid);
#define WHO(n) ((n) == 0 ? "nobody" : (n) == me ? "this process" : (n) == thread ? "this thread" : (n) == group ? "the group" : (n) == -group ? "minus the group" : "another")
	say("F_GETOWN_EX %ld: kind %d, %s; F_GETOWN %s", result, owner.type, WHO(owner.pid), WHO(plain));
}

static void owners(void)
{
	section("owners");
	int p[2];
	pipe(p);
	show_owner(p[0]);
	SHOW(syscall(SYS_fcntl, p[0], F_SETOWN, getpid()));
	show_owner(p[0]);
	show_owner(p[1]);
	SHOW(syscall(SYS_fcntl, p[0], F_SETOWN, -getpgrp()) == 0);
	show_owner(p[0]);
	SHOW(fcntl(p[0], F_SETOWN, 0));
	show_owner(p[0]);
	SHOW(fcntl(p[0], F_SETOWN, 4194303));
	SHOW(fcntl(p[0], F_SETOWN, -4194303));
	SHOW(fcntl(p[0], F_SETOWN, INT_MIN));
	struct f_owner_ex owner = { TID, (pid_t)syscall(SYS_gettid) };
	SHOW(fcntl(p[0], F_SETOWN_EX, &owner));
	show_owner(p[0]);
	owner.type = PID;
	SHOW(fcntl(p[0], F_SETOWN_EX, &owner));
	show_owner(p[0]);
	owner = (struct f_owner_ex){ PGRP, getpgrp() };
	SHOW(fcntl(p[0], F_SETOWN_EX, &owner));
	show_owner(p[0]);
	owner.type = 3;
	SHOW(fcntl(p[0], F_SETOWN_EX, &owner));
	owner.type = -1;
	SHOW(fcntl(p[0], F_SETOWN_EX, &owner));
	owner = (struct f_owner_ex){ PID, -1 };
	SHOW(fcntl(p[0], F_SETOWN_EX, &owner));
	owner = (struct f_owner_ex){ TID, 0 };
	SHOW(fcntl(p[0], F_SETOWN_EX, &owner));
	show_owner(p[0]);
	SHOW(syscall(SYS_fcntl, p[0], F_SETOWN_EX, 8));
	SHOW(syscall(SYS_fcntl, p[0], F_GETOWN_EX, 8));
	uint32_t ids[2] = { 7, 7 };
	SHOW(syscall(SYS_fcntl, p[0], F_GETOWNER_UIDS_, ids));
	SHOW(ids[0]);
	SHOW(ids[1]);

	SHOW(fcntl(p[0], F_GETSIG));
	SHOW(fcntl(p[0], F_SETSIG, 65));
	SHOW(fcntl(p[0], F_SETSIG, -1));
	SHOW(fcntl(p[0], F_SETSIG, 64));
	SHOW(fcntl(p[0], F_GETSIG));
	SHOW(fcntl(p[0], F_SETSIG, 0));
	SHOW(fcntl(p[0], F_GETSIG));

	pid_t child = must_fork();
	if (child == 0)
		_exit(0);
	SHOW(fcntl(p[0], F_SETOWN, child));
	show_owner(p[0]);
	wait_for(child);
	show_owner(p[0]);
	int path = open("/", O_PATH);
	SHOW(fcntl(path, F_SETOWN, getpid()));
	SHOW(fcntl(path, F_GETOWN));
	SHOW(fcntl(path, F_GETSIG));
	close(path);
	close(p[0]);
	close(p[1]);
}

static void flags(void)
{
	section("which files");
	int on = 1, off = 0;
	int file = open("file", O_RDWR | O_CREAT, 0600);
	set_async(file, 1);
	SHOW(ioctl(file, FIOASYNC, &on));
	SHOW(ioctl(file, FIOASYNC, &off));
	SHOW(ioctl(file, FIOASYNC, 0));
	int opened = open("file", O_RDWR | O_ASYNC);
	say("opened with O_ASYNC: %s", fcntl(opened, F_GETFL) & O_ASYNC ? "on" : "off");
	set_async(opened, 0);
	SHOW(ioctl(opened, FIOASYNC, &on));
	SHOW(ioctl(opened, FIOASYNC, &off));
	close(opened);
	close(file);
	int null = open("/dev/null", O_RDWR);
	set_async(null, 1);
	SHOW(ioctl(null, FIOASYNC, &on));
	close(null);
	int p[2];
	pipe(p);
	set_async(p[0], 1);
	set_async(p[0], 0);
	SHOW(ioctl(p[0], FIOASYNC, &on));
	say("O_ASYNC is %s", fcntl(p[0], F_GETFL) & O_ASYNC ? "on" : "off");
	SHOW(ioctl(p[0], FIOASYNC, &off));
	say("O_ASYNC is %s", fcntl(p[0], F_GETFL) & O_ASYNC ? "on" : "off");
	show_owner(p[0]);
	close(p[0]);
	close(p[1]);
}

static void pipes(void)
{
	section("pipes");
	char buffer[100];
	int p[2];
	pipe(p);
	set_async(p[0], 1);
	write(p[1], "a", 1);
	show_signals("without an owner", p[0], p[1]);
	fcntl(p[0], F_SETOWN, getpid());
	write(p[1], "a", 1);
	write(p[1], "a", 1);
	show_signals("two writes", p[0], p[1]);
	fcntl(p[0], F_SETSIG, SIGIO);
	write(p[1], "a", 1);
	show_signals("with F_SETSIG of SIGIO", p[0], p[1]);
	fcntl(p[0], F_SETSIG, SIGUSR1);
	write(p[1], "a", 1);
	show_signals("with SIGUSR1", p[0], p[1]);
	fcntl(p[0], F_SETSIG, SIGCHLD);
	write(p[1], "a", 1);
	show_signals("with SIGCHLD", p[0], p[1]);
	fcntl(p[0], F_SETSIG, 40);
	write(p[1], "a", 1);
	write(p[1], "abcde", 5);
	write(p[1], "", 0);
	show_signals("two writes and an empty one", p[0], p[1]);
	read(p[0], buffer, 1);
	show_signals("the reader reads", p[0], p[1]);
	fcntl(p[1], F_SETOWN, getpid());
	fcntl(p[1], F_SETSIG, 41);
	set_async(p[1], 1);
	read(p[0], buffer, 1);
	show_signals("a read, told to the writer", p[0], p[1]);
	read(p[0], buffer, sizeof buffer);
	fcntl(p[0], F_SETFL, O_NONBLOCK | O_ASYNC);
	show_signals("the rest is read", p[0], p[1]);
	SHOW(read(p[0], buffer, 1));
	show_signals("a read without data", p[0], p[1]);
	int copy = dup(p[0]);
	write(p[1], "x", 1);
	show_signals("with a second descriptor", p[0], copy);
	set_async(copy, 0);
	write(p[1], "x", 1);
	show_signals("turned off through it", p[0], copy);
	set_async(copy, 1);
	write(p[1], "x", 1);
	show_signals("turned on through it", p[0], copy);
	close(copy);
	write(p[1], "x", 1);
	show_signals("when that is closed", p[0], copy);
	close(p[1]);
	show_signals("the writer goes", p[0], p[1]);
	close(p[0]);

	pipe(p);
	fcntl(p[1], F_SETOWN, getpid());
	fcntl(p[1], F_SETSIG, 41);
	set_async(p[1], 1);
	close(p[0]);
	show_signals("the reader goes", p[0], p[1]);
	struct rlimit size = { 10, RLIM_INFINITY }, unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	int file = open("file", O_RDWR | O_CREAT, 0600);
	setrlimit(RLIMIT_FSIZE, &size);
	SHOW(pwrite(file, "x", 1, 10));
	setrlimit(RLIMIT_FSIZE, &unlimited);
	close(file);
	show_signals("a file that would be too large", p[0], p[1]);
	signal(SIGPIPE, SIG_IGN);
	SHOW(write(p[1], "x", 1));
	show_signals("a write that nobody reads", p[0], p[1]);
	close(p[1]);
	show_signals("all is closed", p[0], p[1]);

	mkfifo("fifo", 0600);
	int reader = open("fifo", O_RDONLY | O_NONBLOCK);
	fcntl(reader, F_SETOWN, getpid());
	fcntl(reader, F_SETSIG, 41);
	set_async(reader, 1);
	int writer = open("fifo", O_WRONLY | O_NONBLOCK);
	show_signals("a fifo is opened", reader, writer);
	write(writer, "x", 1);
	show_signals("and written", reader, writer);
	close(writer);
	close(reader);
	show_signals("and closed", reader, writer);
}

static void by_signalfd(void)
{
	section("signalfd");
	int p[2];
	pipe(p);
	fcntl(p[0], F_SETOWN, getpid());
	fcntl(p[0], F_SETSIG, 40);
	set_async(p[0], 1);
	int fd = signalfd(-1, &told, SFD_NONBLOCK);
	write(p[1], "x", 1);
	struct signalfd_siginfo info;
	memset(&info, 0, sizeof info);
	SHOW(read(fd, &info, sizeof info) == sizeof info);
	say("signal %u code %d band %#x, the file's descriptor: %d", info.ssi_signo, info.ssi_code, info.ssi_band, (int)info.ssi_fd == p[0]);
	close(fd);
	struct rlimit old, few = { 0, 0 };
	getrlimit(RLIMIT_SIGPENDING, &old);
	few.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_SIGPENDING, &few);
	write(p[1], "x", 1);
	show_signals("none can be queued", p[0], p[1]);
	setrlimit(RLIMIT_SIGPENDING, &old);
	close(p[0]);
	close(p[1]);
}

static pid_t waiting_child(int uid, int go)
{
	pid_t pid = must_fork();
	if (pid == 0) {
		char c;
		if (uid)
			setuid((uid_t)uid);
		write(go, "r", 1);
		nap(60000);
		read(go, &c, 1);
		_exit(0);
	}
	return pid;
}

static void others(void)
{
	section("who may be told");
	sigset_t none, old;
	sigemptyset(&none);
	int p[2], ready[2];
	char c;
	for (int user = 0; user < 2; user++) {
		pipe(p);
		pipe(ready);
		sigprocmask(SIG_SETMASK, &none, &old);
		pid_t target = waiting_child(user ? 1001 : 1000, ready[1]);
		sigprocmask(SIG_SETMASK, &old, 0);
		read(ready[0], &c, 1);
		pid_t setter = must_fork();
		if (setter == 0) {
			setuid(1000);
			SHOW(fcntl(p[0], F_SETOWN, target));
			set_async(p[0], 1);
			_exit(0);
		}
		wait_for(setter);
		/* The ids of who named the owner count, not those of who writes. */
		write(p[1], "x", 1);
		nap(50);
		int status, gone = waitpid(target, &status, WNOHANG) == target;
		say("%s user: %s", user ? "another" : "the same", gone ? status_text(status) : "is not told");
		if (!gone) {
			kill(target, SIGKILL);
			wait_for(target);
		}
		close(p[0]), close(p[1]), close(ready[0]), close(ready[1]);
	}
	/* A group. */
	pipe(p);
	pipe(ready);
	sigprocmask(SIG_SETMASK, &none, &old);
	pid_t leader = must_fork();
	if (leader == 0) {
		setpgid(0, 0);
		if (must_fork() == 0) {
			write(ready[1], "r", 1);
			nap(60000);
			_exit(0);
		}
		read(ready[0], &c, 1);
		write(ready[1], "R", 1);
		int status;
		sigset_t io;
		sigemptyset(&io);
		sigaddset(&io, SIGIO);
		sigprocmask(SIG_BLOCK, &io, 0);
		wait(&status);
		say("a member: %s", status_text(status));
		_exit(0);
	}
	sigprocmask(SIG_SETMASK, &old, 0);
	nap(100);
	SHOW(fcntl(p[0], F_SETOWN, -leader));
	set_async(p[0], 1);
	write(p[1], "x", 1);
	say("the leader: %s", status_text(wait_for(leader)));
	close(p[0]), close(p[1]), close(ready[0]), close(ready[1]);
}

static int told_thread;
static volatile int may_go;
static void *thread(void *fd)
{
	struct f_owner_ex owner = { TID, (pid_t)syscall(SYS_gettid) };
	fcntl(*(int *)fd, F_SETOWN_EX, &owner);
	show_owner(*(int *)fd);
	may_go = 1;
	siginfo_t info;
	const struct timespec second = { 5, 0 };
	told_thread = (int)syscall(SYS_rt_sigtimedwait, &told, &info, &second, 8);
	return 0;
}

static void threads(void)
{
	section("a thread");
	int p[2];
	pipe(p);
	fcntl(p[0], F_SETSIG, 40);
	set_async(p[0], 1);
	pthread_t t;
	pthread_create(&t, 0, thread, p);
	while (!may_go)
		nap(1);
	write(p[1], "x", 1);
	pthread_join(t, 0);
	SHOW(told_thread);
	nap(20);
	show_owner(p[0]);
	write(p[1], "x", 1);
	show_signals("the thread is gone", p[0], p[1]);
	close(p[0]), close(p[1]);
}

static void terminals(void)
{
	section("terminals");
	char buffer[8192];
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK), slave;
	int unlock = 0;
	ioctl(master, TIOCSPTLCK, &unlock);
	slave = ioctl(master, 0x5441 /* TIOCGPTPEER */, O_RDWR | O_NOCTTY | O_NONBLOCK);
	struct termios raw;
	tcgetattr(slave, &raw);
	set_async(slave, 1);
	show_owner(slave);
	fcntl(slave, F_SETSIG, 40);
	write(master, "ab", 2);
	nap(30);
	read(master, buffer, sizeof buffer);
	show_signals("half a line", slave, master);
	write(master, "\n", 1);
	nap(30);
	show_signals("its end", slave, master);
	read(master, buffer, sizeof buffer);
	read(slave, buffer, sizeof buffer);
	show_signals("the line is read", slave, master);
	cfmakeraw(&raw);
	tcsetattr(slave, TCSANOW, &raw);
	write(master, "a", 1);
	nap(30);
	show_signals("a raw byte", slave, master);
	write(slave, "a", 1);
	read(master, buffer, sizeof buffer);
	nap(30);
	show_signals("a write that had room", slave, master);
	set_async(slave, 0);
	set_async(master, 1);
	show_owner(master);
	fcntl(master, F_SETSIG, 41);
	write(slave, "a", 1);
	nap(30);
	show_signals("output, for the master", slave, master);
	read(slave, buffer, sizeof buffer);
	nap(30);
	show_signals("input is taken, for the master", slave, master);
	close(slave);
	nap(30);
	show_signals("the terminal is closed", slave, master);
	close(master);
	show_signals("and the master", slave, master);
}

int main(void)
{
	sigfillset(&told);
	sigdelset(&told, SIGKILL), sigdelset(&told, SIGSTOP), sigdelset(&told, SIGSEGV), sigdelset(&told, SIGALRM), sigdelset(&told, SIGTERM);
	sigprocmask(SIG_BLOCK, &told, 0);
	owners();
	flags();
	pipes();
	by_signalfd();
	threads();
	terminals();
	others();
	return 0;
}
