/* Pseudo-terminals. */
#include "t.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <termios.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

static int master, slave;
static char name[64];

/*
 * Says what is read: one read, and more of them until `want` bytes have come. Linux carries bytes from one end to the
 * other in a worker, so a read may find the front part of what was written.
 */
static void show(const char *what, int fd, long want)
{
	char bytes[256], text[1100];
	long total = 0;
	do {
		struct pollfd ready = { fd, POLLIN, 0 };
		if (want)
			poll(&ready, 1, 3000);
		errno = 0;
		long got = read(fd, bytes + total, sizeof bytes - (size_t)total);
		if (got < 0)
			say("%s: %s", what, error_name(errno));
		if (got < 0 && total == 0)
			return;
		if (got <= 0)
			break;
		total += got;
	} while (total < want);
	int length = 0;
	for (long i = 0; i < total; i++)
		length += bytes[i] >= ' ' && bytes[i] < 127 ? sprintf(text + length, "%c", bytes[i]) : sprintf(text + length, "<%02x>", (unsigned char)bytes[i]);
	text[length] = 0;
	say("%s: %ld \"%s\"", what, total, text);
}

/* Waits, three seconds at most, until that many bytes can be read, and says how many can. */
static void waiting(const char *what, int fd, int want)
{
	int bytes = -1, result = 0;
	for (int i = 0; i < 3000 && (result = ioctl(fd, FIONREAD, &bytes)) == 0 && bytes < want; i++)
		nap(1);
	say("%s: %d, %d waiting", what, result, bytes);
}

static void events(const char *what, int fd)
{
	struct pollfd ready = { fd, POLLIN | POLLOUT | POLLPRI, 0 };
	int n = poll(&ready, 1, 0);
	say("%s: %d %#x", what, n, (unsigned)ready.revents);
}

static int open_pair(void)
{
	master = posix_openpt(O_RDWR | O_NOCTTY);
	if (master < 0) {
		say("posix_openpt: %s", error_name(errno));
		return 0;
	}
	grantpt(master), unlockpt(master);
	int number = -1;
	ioctl(master, TIOCGPTN, &number);
	snprintf(name, sizeof name, "/dev/pts/%d", number);
	slave = open(name, O_RDWR | O_NOCTTY);
	return slave >= 0;
}

static void opening(void)
{
	section("opening");
	master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	CHECK(master >= 0);
	int number = -1, locked = -1;
	SHOW(ioctl(master, TIOCGPTN, &number));
	CHECK(number >= 0);
	snprintf(name, sizeof name, "/dev/pts/%d", number);
	struct stat status;
	SHOW(stat(name, &status));
	say("mode %o uid %u major %u minor %d", status.st_mode, status.st_uid, major(status.st_rdev), (int)minor(status.st_rdev) == number);
	SHOW(ioctl(master, TIOCGPTLCK, &locked));
	say("locked %d", locked);
	SHOW_OK(open(name, O_RDWR | O_NOCTTY));
	SHOW(unlockpt(master));
	ioctl(master, TIOCGPTLCK, &locked);
	say("locked %d", locked);
	slave = SHOW_OK(open(name, O_RDWR | O_NOCTTY));
	CHECK(isatty(master) && isatty(slave));
	char link[64], text[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", slave);
	ssize_t length = readlink(link, text, sizeof text - 1);
	CHECK(length > 0 && (size_t)length == strlen(name) && memcmp(text, name, (size_t)length) == 0);
	SHOW(ioctl(master, TIOCGPTN, 16));
	SHOW(ioctl(slave, TIOCGPTN, &number));
	SHOW(ioctl(slave, TIOCSPTLCK, &locked));
	struct termios mode;
	SHOW(tcgetattr(slave, &mode));
	say("%#o %#o %#o %#o", mode.c_iflag, mode.c_oflag, mode.c_cflag, mode.c_lflag);
	for (int i = 0; i < 17; i++)
		say("  char %d: %d", i, mode.c_cc[i]);
	SHOW_OK(open("/dev/pts/99999", O_RDWR));
	SHOW(mkdir("/dev/pts/dir", 0755));
	SHOW(unlink(name));
	SHOW(mknod("/dev/pts/77", S_IFCHR | 0600, makedev(136, 77)));
	int peer = SHOW_OK(ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
	say("%#x", (unsigned)fcntl(peer, F_GETFD));
	write(peer, "peer", 4);
	show("master", master, 4);
	close(peer);
	SHOW(lseek(master, 0, SEEK_SET));
	SHOW(lseek(slave, 0, SEEK_SET));
	int other = open("/dev/ptmx", O_RDWR);
	int second = -1;
	ioctl(other, TIOCGPTN, &second);
	CHECK(second != number);
	char gone[64];
	snprintf(gone, sizeof gone, "/dev/pts/%d", second);
	SHOW(access(gone, F_OK));
	close(other);
	SHOW(access(gone, F_OK));
	SHOW(access(name, F_OK));
	close(slave), close(master);
	SHOW(access(name, F_OK));
}

/* Nonzero if all bytes went out. */
static int write_all(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t n = write(fd, bytes, length);
		if (n <= 0)
			return 0;
		bytes += n, length -= (size_t)n;
	}
	return 1;
}

static void lines(void)
{
	section("lines");
	if (!open_pair())
		return;
	events("master", master), events("slave", slave);
	SHOW(write(master, "hello\n", 6));
	waiting("echo", master, 7), waiting("slave", slave, 6);
	events("master", master), events("slave", slave);
	show("echo", master, 7);
	show("slave", slave, 6);
	SHOW(write(slave, "out\n", 4));
	show("master", master, 5);
	SHOW(write(master, "abx\x7f" "c\x04", 6));
	show("slave", slave, 3);
	show("echo", master, 7);
	SHOW(write(master, "\x04", 1));
	show("slave", slave, 0);
	write(slave, "12345", 5);
	waiting("master", master, 5);
	show("master", master, 5);
	write(master, "line\nunfinished", 15);
	/* What is echoed was received: the unfinished line is there to be flushed. */
	waiting("echo", master, 16), waiting("slave", slave, 5);
	show("slave", slave, 5);
	tcflush(slave, TCIOFLUSH);
	while (fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK), read(master, (char[64]){ 0 }, 64) > 0)
		;
	show("nothing", master, 0);
	fcntl(slave, F_SETFL, O_RDWR | O_NONBLOCK);
	show("nothing", slave, 0);
	struct termios mode;
	SHOW(tcgetattr(master, &mode));
	cfmakeraw(&mode);
	SHOW(tcsetattr(master, TCSANOW, &mode));
	tcgetattr(slave, &mode);
	say("raw by the master: %#o %#o", mode.c_lflag & (ICANON | ECHO | ISIG), mode.c_oflag & OPOST);
	write(master, "\x03\r\n", 3);
	show("slave", slave, 3);
	write(slave, "a\nb\n", 4);
	show("master", master, 4);
	struct winsize size = { 0 };
	SHOW(ioctl(slave, TIOCGWINSZ, &size));
	say("%d %d", size.ws_row, size.ws_col);
	size.ws_row = 12, size.ws_col = 34;
	SHOW(ioctl(master, TIOCSWINSZ, &size));
	size = (struct winsize){ 0 };
	SHOW(ioctl(slave, TIOCGWINSZ, &size));
	say("%d %d", size.ws_row, size.ws_col);
	/* Much at once: the writer waits until it is read. */
	fcntl(slave, F_SETFL, O_RDWR), fcntl(master, F_SETFL, O_RDWR);
	static char bytes[100000];
	pid_t pid = must_fork();
	if (pid == 0) {
		close(master);
		memset(bytes, 'y', sizeof bytes);
		_exit(!write_all(slave, bytes, sizeof bytes));
	}
	long total = 0;
	while (total < (long)sizeof bytes) {
		long n = read(master, bytes, sizeof bytes);
		if (n <= 0)
			break;
		total += n;
	}
	say("much: %ld, %s", total, status_text(wait_for(pid)));
	pid = must_fork();
	if (pid == 0) {
		memset(bytes, 'z', sizeof bytes);
		_exit(!write_all(master, bytes, sizeof bytes));
	}
	for (total = 0; total < (long)sizeof bytes;) {
		long n = read(slave, bytes, sizeof bytes);
		if (n <= 0)
			break;
		total += n;
	}
	say("the other way: %ld, %s", total, status_text(wait_for(pid)));
	section("ends");
	write(slave, "last words", 10);
	close(slave);
	events("master", master);
	show("master", master, 10);
	show("master", master, 0);
	events("master", master);
	slave = SHOW_OK(open(name, O_RDWR | O_NOCTTY));
	fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK);
	show("master", master, 0);
	events("master", master);
	close(master);
	events("slave", slave);
	show("slave", slave, 0);
	SHOW(write(slave, "x", 1));
	struct termios none;
	SHOW(tcgetattr(slave, &none));
	SHOW_OK(open(name, O_RDWR | O_NOCTTY));
	close(slave);
}


static void hold(void)
{
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, SIGHUP), sigaddset(&set, SIGINT), sigaddset(&set, SIGWINCH), sigaddset(&set, SIGQUIT);
	sigprocmask(SIG_BLOCK, &set, 0);
}

static void next(const char *what)
{
	sigset_t set;
	sigemptyset(&set), sigaddset(&set, SIGHUP), sigaddset(&set, SIGINT), sigaddset(&set, SIGWINCH), sigaddset(&set, SIGQUIT);
	int got = sigtimedwait(&set, 0, &(struct timespec){ 3, 0 });
	say("%s: %s", what, got > 0 ? signal_name(got) : error_name(errno));
}

static void control(void)
{
	section("job control");
	if (!open_pair())
		return;
	int ready[2];
	pipe(ready);
	pid_t pid = must_fork();
	if (pid == 0) {
		close(master), close(slave);
		hold();
		setsid();
		SHOW_OK(open("/dev/tty", O_RDWR));
		slave = SHOW_OK(open(name, O_RDWR));
		SHOW_OK(open("/dev/tty", O_RDWR));
		CHECK(tcgetpgrp(slave) == getpgrp() && tcgetsid(slave) == getsid(0));
		write(ready[1], "1", 1);
		next("^C");
		write(ready[1], "2", 1);
		next("size");
		write(ready[1], "3", 1);
		next("by the master");
		pid_t background = must_fork();
		if (background == 0) {
			setpgid(0, 0);
			char byte;
			SHOW(read(slave, &byte, 1));
			_exit(0);
		}
		setpgid(background, background);
		int status;
		waitpid(background, &status, WUNTRACED);
		say("background read: %s", status_text(status));
		kill(background, SIGKILL);
		wait_for(background);
		pid_t without = must_fork();
		if (without == 0) {
			SHOW(ioctl(slave, TIOCNOTTY));
			SHOW_OK(open("/dev/tty", O_RDWR));
			SHOW(ioctl(slave, TIOCNOTTY));
			SHOW(tcgetpgrp(slave));
			pid_t heir = must_fork();
			if (heir == 0) {
				SHOW_OK(open("/dev/tty", O_RDWR));
				_exit(0);
			}
			wait_for(heir);
			_exit(0);
		}
		wait_for(without);
		CHECK(tcgetpgrp(slave) == getpgrp());
		write(ready[1], "4", 1);
		next("the master's end");
		show("after it", slave, 0);
		SHOW_OK(open("/dev/tty", O_RDWR));
		_exit(6);
	}
	char byte;
	close(slave), close(ready[1]);
	read(ready[0], &byte, 1);
	int group = -1, session = -1;
	SHOW(ioctl(master, TIOCGPGRP, &group));
	SHOW(ioctl(master, TIOCGSID, &session));
	CHECK(group == pid && session == pid);
	write(master, "\x03", 1);
	read(ready[0], &byte, 1);
	ioctl(master, TIOCSWINSZ, &(struct winsize){ 5, 6, 0, 0 });
	read(ready[0], &byte, 1);
	SHOW(ioctl(master, _IOW('T', 0x36, int), 99));
	int sent = ioctl(master, _IOW('T', 0x36, int), SIGQUIT);
	read(ready[0], &byte, 1);
	say("sent: %d", sent);
	close(master);
	say("leader: %s", status_text(wait_for(pid)));
	/* A foreground job that dies with its terminal. */
	if (!open_pair())
		return;
	pid = must_fork();
	if (pid == 0) {
		close(master);
		setsid();
		ioctl(slave, TIOCSCTTY, 0);
		write(slave, "up", 2);
		for (;;)
			pause();
	}
	read(master, (char[2]){ 0 }, 2);
	close(slave), close(master);
	say("without a handler: %s", status_text(wait_for(pid)));
}

int main(void)
{
	opening();
	lines();
	control();
	return 0;
}
