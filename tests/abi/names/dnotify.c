/* F_NOTIFY: which signals a directory sends of each operation, to whom, and what ends a watch. */
#include "t.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <utime.h>

#define FIRST 40
#define MULTI ((long)DN_MULTISHOT)
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#define RENAME_WHITEOUT 4
#endif

static sigset_t all;

/* The signals that wait, in the order in which they are taken, with what they say; `a`, `b`: descriptors that they may be of. */
static void told_of(const char *what, int a, int b)
{
	const struct timespec none = { 0, 0 };
	siginfo_t info;
	char line[2000] = "";
	while (strlen(line) < 1800 && (memset(&info, 0, sizeof info), syscall(SYS_rt_sigtimedwait, &all, &info, &none, 8) > 0)) {
		char one[100];
		if (info.si_signo == SIGCHLD && info.si_code != SI_SIGIO && info.si_code != 3)
			continue;
		if (info.si_code == SI_KERNEL)
			snprintf(one, sizeof one, " SIGIO");
		else
			snprintf(one, sizeof one, " %d/%d/%#lx/%s", info.si_signo, info.si_code, info.si_band,
				 info.si_fd == a ? "a" : info.si_fd == b ? "b" : "?");
		strcat(line, one);
	}
	say("%s:%s", what, line[0] ? line : " nothing");
}

#define TOLD(call) do { errno = 0; if ((long)(call) == -1) say("%s: %s", #call, error_name(errno)); told_of(#call, -1, -1); } while (0)

/* A descriptor of `path` that tells of `events` by `signal`. */
static int watch(const char *path, long events, int signal)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY);
	if (signal && fcntl(fd, F_SETSIG, signal))
		say("F_SETSIG: %s", error_name(errno));
	if (fcntl(fd, F_NOTIFY, events))
		say("F_NOTIFY of %s: %s", path, error_name(errno));
	return fd;
}

static void make(const char *path)
{
	close(open(path, O_CREAT | O_WRONLY, 0644));
}

/* Which of the six kinds of events have happened, and how often, in what order. */
static void kinds(const char *what)
{
	static const char *const names[] = { "ACCESS", "MODIFY", "CREATE", "DELETE", "RENAME", "ATTRIB" };
	const struct timespec none = { 0, 0 };
	siginfo_t info;
	char line[500] = "";
	while (strlen(line) < 400 && syscall(SYS_rt_sigtimedwait, &all, &info, &none, 8) > 0)
		if (info.si_signo >= FIRST && info.si_signo < FIRST + 6)
			strcat(strcat(line, " "), names[info.si_signo - FIRST]);
		else
			strcat(line, " another");
	say("%s:%s", what, line[0] ? line : " nothing");
}

#define KINDS(call) do { errno = 0; if ((long)(call) == -1) say("%s: %s", #call, error_name(errno)); kinds(#call); } while (0)

static int exchange(const char *a, const char *b)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

static int whiteout(const char *a, const char *b)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_WHITEOUT);
}

static void arguments(void)
{
	section("arguments");
	write_file("file", "x");
	mkdir("d", 0755);
	int file = open("file", O_RDWR), dir = open("d", O_RDONLY), path = open("d", O_PATH | O_DIRECTORY), p[2];
	pipe(p);
	SHOW(fcntl(-1, F_NOTIFY, DN_CREATE));
	SHOW(fcntl(path, F_NOTIFY, DN_CREATE));
	SHOW(fcntl(file, F_NOTIFY, DN_CREATE));
	SHOW(fcntl(p[0], F_NOTIFY, DN_CREATE));
	SHOW(fcntl(file, F_NOTIFY, 0));
	SHOW(fcntl(p[0], F_NOTIFY, MULTI));
	SHOW(fcntl(path, F_NOTIFY, 0));
	SHOW(fcntl(dir, F_NOTIFY, 0));
	SHOW(fcntl(dir, F_NOTIFY, MULTI));
	SHOW(fcntl(file, F_NOTIFY, 0x40));
	SHOW(fcntl(dir, F_GETOWN));
	SHOW(fcntl(dir, F_NOTIFY, 0x40));
	CHECK(fcntl(dir, F_GETOWN) == getpid());
	TOLD((make("d/f"), 0));
	SHOW(fcntl(dir, F_NOTIFY, 0x7fffffff));
	TOLD(unlink("d/f"));
	SHOW(syscall(SYS_fcntl, dir, F_NOTIFY, 0xffffffff00000000));
	SHOW(syscall(SYS_fcntl, dir, F_NOTIFY, 0xffffffff00000000 | DN_CREATE));
	TOLD((make("d/f"), 0));
	unlink("d/f");
	int proc = open("/proc/self", O_RDONLY | O_DIRECTORY);
	SHOW(fcntl(proc, F_NOTIFY, DN_CREATE));
	close(file), close(dir), close(path), close(p[0]), close(p[1]), close(proc);
}

static void events(void)
{
	section("events");
	mkdir("e", 0755), mkdir("other", 0755), mkdir("e/sub", 0755), mkdir("e/there", 0755);
	make("e/old"), make("other/in"), make("other/over"), write_file("e/text", "text");
	int text = open("e/text", O_RDWR), dirs[6], list = open("e", O_RDONLY | O_DIRECTORY), sub = open("e/sub", O_RDONLY);
	char buffer[4096];
	for (int i = 0; i < 6; i++)
		dirs[i] = watch("e", 1L << i | MULTI, FIRST + i);
	KINDS((make("e/new"), 0));
	KINDS(open("e/new", O_RDONLY));
	KINDS(open("e/none", O_RDONLY));
	KINDS(open("e/new", O_RDONLY | O_CREAT, 0600));
	KINDS(read(text, buffer, 1));
	KINDS(pread(text, buffer, 1, 100));
	KINDS(write(text, "x", 1));
	KINDS(pwrite(text, "x", 0, 0));
	KINDS(ftruncate(text, 2));
	KINDS(truncate("e/text", 3));
	KINDS(open("e/text", O_WRONLY | O_TRUNC));
	KINDS(open("e/text", O_WRONLY | O_TRUNC));
	KINDS(fallocate(text, 0, 0, 100));
	KINDS(fchmod(text, 0600));
	KINDS(chmod("e/text", 0644));
	KINDS(chown("e/text", 1, 1));
	KINDS(utime("e/text", NULL));
	KINDS(setxattr("e/text", "user.x", "y", 1, 0));
	KINDS(removexattr("e/text", "user.x"));
	KINDS(link("e/text", "e/second"));
	KINDS(link("e/text", "other/second"));
	KINDS(write(text, "x", 1));
	KINDS(symlink("text", "e/link"));
	KINDS(readlink("e/link", buffer, sizeof buffer));
	KINDS(mknod("e/fifo", S_IFIFO | 0600, 0));
	KINDS(rename("e/new", "e/newer"));
	KINDS(rename("e/newer", "e/old"));
	KINDS(rename("e/old", "other/old"));
	KINDS(rename("other/in", "e/in"));
	KINDS(rename("e/in", "other/over"));
	KINDS(rename("other/over", "e/second"));
	KINDS(rename("e/text", "e/text"));
	KINDS(exchange("e/text", "e/second"));
	KINDS(exchange("e/text", "other/old"));
	KINDS(exchange("other/second", "e/fifo"));
	KINDS(whiteout("e/link", "e/moved"));
	KINDS(unlink("e/second"));
	KINDS(unlink("other/second"));
	KINDS(unlink("e/none"));
	section("directories");
	KINDS(mkdir("e/dir", 0755));
	KINDS(chmod("e/dir", 0700));
	KINDS((make("e/dir/below"), 0));
	KINDS(unlink("e/dir/below"));
	KINDS(rename("e/dir", "e/there"));
	KINDS(rmdir("e/there"));
	KINDS(syscall(SYS_getdents64, list, buffer, sizeof buffer));
	KINDS(syscall(SYS_getdents64, sub, buffer, sizeof buffer));
	KINDS(chmod("e", 0711));
	KINDS(fchmod(list, 0755));
	KINDS(utime("e", NULL));
	KINDS(setxattr("e", "user.x", "y", 1, 0));
	KINDS(rename("e", "f"));
	KINDS((make("f/again"), 0));
	KINDS(unlink("f/again"));
	KINDS(syscall(SYS_unlinkat, list, "text", 0));
	close(text);
	kinds("close");
	for (int i = 0; i < 6; i++)
		close(dirs[i]);
	KINDS((make("f/again"), 0));
	close(list), close(sub);
	section("a directory that goes");
	mkdir("gone", 0755);
	int gone = watch("gone", 0x3f | MULTI, FIRST);
	TOLD(rmdir("gone"));
	TOLD(fchmod(gone, 0700));
	TOLD(fcntl(gone, F_NOTIFY, 0));
	TOLD(fchmod(gone, 0755));
	SHOW(fcntl(gone, F_NOTIFY, DN_ATTRIB));
	TOLD(fchmod(gone, 0700));
	close(gone);
	section("both above and below");
	mkdir("up", 0755), mkdir("up/down", 0755);
	int up = watch("up", DN_ATTRIB | MULTI, FIRST), down = watch("up/down", DN_ATTRIB | MULTI, FIRST);
	TOLD(chmod("up/down", 0700));
	TOLD(chmod("up", 0700));
	close(up), close(down);
}

static void shots(void)
{
	section("one event, or many");
	mkdir("s", 0755);
	int fd = watch("s", DN_CREATE | DN_DELETE, FIRST);
	TOLD((make("s/1"), 0));
	TOLD((make("s/2"), 0));
	SHOW(fcntl(fd, F_NOTIFY, DN_RENAME | DN_DELETE | DN_CREATE));
	TOLD(rename("s/1", "s/3"));
	TOLD(unlink("s/2"));
	SHOW(fcntl(fd, F_NOTIFY, DN_RENAME | DN_DELETE | DN_CREATE | MULTI));
	TOLD(rename("s/3", "s/4"));
	/* More events beside those that there are; and it goes on, once it has been said. */
	SHOW(fcntl(fd, F_NOTIFY, 0));
	SHOW(fcntl(fd, F_NOTIFY, DN_CREATE));
	SHOW(fcntl(fd, F_NOTIFY, DN_ATTRIB | MULTI));
	TOLD((make("s/5"), 0));
	TOLD(chmod("s/5", 0600));
	SHOW(fcntl(fd, F_NOTIFY, DN_DELETE));
	TOLD(unlink("s/5"));
	TOLD((make("s/5"), 0));
	SHOW(fcntl(fd, F_NOTIFY, MULTI));
	TOLD(unlink("s/5"));
	close(fd);
}

static void *by_thread(void *fd)
{
	SHOW(syscall(SYS_fcntl, (int)(long)fd, F_NOTIFY, DN_CREATE));
	return NULL;
}

static void signals(void)
{
	section("signals");
	mkdir("g", 0755);
	int fd = watch("g", DN_CREATE | MULTI, 0), twin = dup(fd);
	struct f_owner_ex owner = { -1, -1 };
	TOLD((make("g/1"), 0));
	SHOW(fcntl(fd, F_SETSIG, SIGIO));
	make("g/2"), told_of("SIGIO by name", fd, twin);
	SHOW(fcntl(fd, F_SETSIG, SIGUSR1));
	make("g/3"), make("g/4"), told_of("SIGUSR1 twice", fd, twin);
	SHOW(fcntl(fd, F_SETSIG, SIGCHLD));
	make("g/5"), told_of("SIGCHLD", fd, twin);
	SHOW(fcntl(fd, F_SETSIG, FIRST));
	make("g/6"), make("g/7"), told_of("a real-time one twice", fd, twin);
	/* The descriptor that asked last is told. */
	SHOW(fcntl(twin, F_NOTIFY, DN_DELETE));
	make("g/8"), told_of("made", fd, twin);
	unlink("g/8"), told_of("unlinked", fd, twin);
	SHOW(fcntl(fd, F_SETOWN, 0));
	make("g/8"), told_of("to nobody", fd, twin);
	SHOW(fcntl(fd, F_NOTIFY, DN_CREATE));
	CHECK(fcntl(fd, F_GETOWN) == getpid());
	unlink("g/8"), told_of("to somebody", fd, twin);
	close(twin);
	make("g/9"), told_of("after the close of the twin", fd, twin);
	section("newest first");
	int second = watch("g", DN_DELETE | MULTI, FIRST), third = watch("g", DN_DELETE | MULTI, FIRST);
	unlink("g/9"), told_of("two", second, third);
	SHOW(fcntl(second, F_NOTIFY, DN_CREATE));
	unlink("g/1"), told_of("two", second, third);
	SHOW(fcntl(second, F_NOTIFY, 0));
	SHOW(fcntl(second, F_NOTIFY, DN_DELETE));
	unlink("g/2"), told_of("two", second, third);
	unlink("g/3"), told_of("one", second, third);
	close(fd), close(second), close(third);
	section("a thread");
	pthread_t thread;
	fd = open("g", O_RDONLY);
	fcntl(fd, F_SETSIG, FIRST);
	pthread_create(&thread, NULL, by_thread, (void *)(long)fd);
	pthread_join(thread, NULL);
	SHOW(fcntl(fd, F_GETOWN));
	SHOW(syscall(SYS_fcntl, fd, 16, &owner));
	say("kind %d, %d", owner.type, owner.pid);
	make("g/10"), told_of("by a thread that is gone", fd, -1);
	close(fd);
}

static int shared;
static int closes(void *unused)
{
	(void)unused;
	return close(shared);
}

static void ends(const char *self)
{
	section("ends");
	mkdir("n", 0755);
	/* Any descriptor's close. */
	int fd = watch("n", DN_CREATE | MULTI, FIRST), twin = dup(fd);
	close(twin);
	TOLD((make("n/1"), 0));
	SHOW(fcntl(fd, F_NOTIFY, DN_CREATE | MULTI));
	TOLD((make("n/2"), 0));
	twin = dup(fd);
	SHOW(dup2(0, twin) == twin);
	TOLD((make("n/3"), 0));
	SHOW(fcntl(fd, F_NOTIFY, DN_CREATE | MULTI));
	SHOW(dup2(fd, fd) == fd);
	TOLD((make("n/4"), 0));
	dup2(fd, twin);
	TOLD((make("n/5"), 0));
	SHOW(syscall(SYS_close_range, twin, twin, 4));
	TOLD((make("n/6"), 0));
	SHOW(syscall(SYS_close_range, twin, twin, 0));
	TOLD((make("n/7"), 0));
	/* Another open file of the same directory is another watch. */
	SHOW(fcntl(fd, F_NOTIFY, DN_CREATE | MULTI));
	close(open("n", O_RDONLY));
	TOLD((make("n/8"), 0));

	section("processes");
	pid_t parent = getpid(), pid = must_fork();
	if (pid == 0) {
		close(fd);
		_exit(0);
	}
	wait_for(pid);
	TOLD((make("n/9"), 0));
	pid = must_fork();
	if (pid == 0) {
		SHOW(fcntl(fd, F_NOTIFY, DN_DELETE | MULTI));
		CHECK(fcntl(fd, F_GETOWN) == parent);
		unlink("n/9");
		make("n/9");
		_exit(0);
	}
	wait_for(pid);
	told_of("by a child that is gone", fd, -1);
	TOLD(unlink("n/9"));
	pid = must_fork();
	if (pid == 0) {
		SHOW(fcntl(fd, F_NOTIFY, 0));
		_exit(0);
	}
	wait_for(pid);
	TOLD((make("n/9"), 0));
	/* Whoever shares the table closes for all. */
	static char stack[65536];
	shared = dup(fd);
	pid = clone(closes, stack + sizeof stack, CLONE_FILES | CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	wait_for(pid);
	SHOW(fcntl(shared, F_GETFD));
	TOLD((make("n/10"), 0));
	/* A table of one's own without the watch. */
	SHOW(fcntl(fd, F_NOTIFY, DN_CREATE | MULTI));
	pid = must_fork();
	if (pid == 0) {
		SHOW(syscall(SYS_unshare, CLONE_FILES));
		close(fd);
		_exit(0);
	}
	wait_for(pid);
	TOLD((make("n/11"), 0));
	close(fd);

	section("exec");
	for (int closing = 0; closing < 2; closing++) {
		int go[2], on[2];
		pipe(go), pipe(on);
		pid = must_fork();
		if (pid == 0) {
			fd = open("n", O_RDONLY | (closing ? O_CLOEXEC : 0));
			fcntl(fd, F_SETSIG, FIRST);
			fcntl(fd, F_SETOWN, parent);
			SHOW(fcntl(fd, F_NOTIFY, DN_CREATE | MULTI));
			dup2(go[0], 0), dup2(on[1], 100);
			close(go[1]), close(on[0]);
			execl(self, self, "wait", NULL);
			_exit(9);
		}
		close(go[0]), close(on[1]);
		char byte;
		read(on[0], &byte, 1);
		TOLD((make(closing ? "n/12" : "n/13"), 0));
		close(go[1]);
		wait_for(pid);
		TOLD((make(closing ? "n/14" : "n/15"), 0));
		close(on[0]);
	}
}

static void knob(void)
{
	section("/proc/sys/fs/dir-notify-enable");
	int knob = open("/proc/sys/fs/dir-notify-enable", O_RDWR), dir = watch(".", DN_CREATE | MULTI, FIRST);
	char text[20] = "";
	pread(knob, text, sizeof text - 1, 0);
	say("%s", text);
	SHOW(pwrite(knob, "0", 1, 0));
	SHOW(fcntl(dir, F_NOTIFY, DN_CREATE));
	SHOW(fcntl(dir, F_NOTIFY, 0));
	SHOW(fcntl(knob, F_NOTIFY, DN_CREATE));
	TOLD((make("k1"), 0));
	SHOW(pwrite(knob, "-7\n", 3, 0));
	memset(text, 0, sizeof text);
	pread(knob, text, sizeof text - 1, 0);
	say("%s", text);
	SHOW(fcntl(dir, F_NOTIFY, DN_CREATE));
	SHOW(pwrite(knob, "x", 1, 0));
	SHOW(pwrite(knob, "3000000000", 10, 0));
	SHOW(pwrite(knob, "1", 1, 0));
	close(knob), close(dir);
	struct stat status;
	stat("/proc/sys/fs/dir-notify-enable", &status);
	say("mode %o", status.st_mode);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		char byte = 0;
		write(100, &byte, 1);
		read(0, &byte, 1);
		return 0;
	}
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	arguments();
	events();
	shots();
	signals();
	ends(argv[0]);
	knob();
	return 0;
}
