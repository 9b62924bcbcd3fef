/*
 * Terminals, on the serial line that nothing else uses: attributes, input that the program puts there itself (TIOCSTI),
 * line editing, signals from the keyboard, sessions, foreground groups, background reads and writes, hangup.
 */
#include "t.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

static int tty = -1;

static void type(const char *text)
{
	for (; *text; text++)
		ioctl(tty, TIOCSTI, text);
}

static void show_read(const char *what, size_t size)
{
	char buffer[128] = { 0 };
	ssize_t got = read(tty, buffer, size);
	if (got < 0) {
		say("%s: %s", what, error_name(errno));
		return;
	}
	char line[600] = "";
	for (ssize_t i = 0; i < got; i++)
		snprintf(line + strlen(line), 8, buffer[i] >= 32 && buffer[i] < 127 ? "%c" : "\\%02x", (unsigned char)buffer[i]);
	say("%s: %zd %s", what, got, line);
}

static int waiting(void)
{
	int count = -1;
	ioctl(tty, FIONREAD, &count);
	return count;
}

static void attributes(void)
{
	section("attributes");
	struct termios mode, changed;
	SHOW(tcgetattr(tty, &mode));
	CHECK(isatty(tty));
	CHECK((mode.c_lflag & (ICANON | ISIG | ECHO)) == (ICANON | ISIG | ECHO));
	CHECK(mode.c_iflag & ICRNL);
	CHECK((mode.c_oflag & (OPOST | ONLCR)) == (OPOST | ONLCR));
	say("cc %d %d %d %d %d %d", mode.c_cc[VINTR], mode.c_cc[VQUIT], mode.c_cc[VERASE], mode.c_cc[VKILL], mode.c_cc[VEOF], mode.c_cc[VSUSP]);
	changed = mode;
	cfmakeraw(&changed);
	SHOW(tcsetattr(tty, TCSANOW, &changed));
	struct termios back;
	tcgetattr(tty, &back);
	CHECK(back.c_lflag == changed.c_lflag && back.c_oflag == changed.c_oflag && back.c_cc[VMIN] == 1);
	SHOW(tcsetattr(tty, TCSADRAIN, &mode));
	SHOW(tcsetattr(tty, TCSAFLUSH, &mode));
	struct winsize size = { 33, 77, 0, 0 };
	SHOW(ioctl(tty, TIOCSWINSZ, &size));
	size = (struct winsize){ 0 };
	SHOW(ioctl(tty, TIOCGWINSZ, &size));
	say("%d %d", size.ws_row, size.ws_col);
	SHOW(write(tty, "", 0));
	SHOW(tcdrain(tty));
	SHOW(tcflush(tty, TCIFLUSH));
	SHOW(ioctl(tty, 0x5499, 0));
	SHOW(ioctl(tty, TCGETS, 16));
	SHOW(lseek(tty, 0, SEEK_SET));
	SHOW(tcgetsid(tty));
	SHOW(tcgetpgrp(tty));
	struct stat st;
	fstat(tty, &st);
	say("%o", st.st_mode & S_IFMT);
}

static void canonical(void)
{
	section("canonical");
	type("hello\n");
	SHOW(waiting());
	show_read("a line", 100);
	type("one\ntwo\n");
	show_read("one line at a time", 100);
	show_read("the next", 100);
	type("abcdef\n");
	show_read("part", 3);
	show_read("the rest", 100);
	type("wrong\x7f\x7f\x7f\x7f\x7fright\n");
	show_read("erase", 100);
	type("gone\x15" "kept\n");
	show_read("kill", 100);
	type("two words\x17here\n");
	show_read("word erase", 100);
	type("return\r");
	show_read("return is newline", 100);
	type("end\x04");
	show_read("end of file ends a line", 100);
	type("\x04");
	show_read("end of file alone", 100);
	type("\x16\x03\n");
	show_read("literal next", 100);
	struct pollfd ready = { tty, POLLIN | POLLOUT, 0 };
	type("unfinished");
	SHOW(poll(&ready, 1, 0));
	say("revents %d", ready.revents);
	type("\n");
	SHOW(poll(&ready, 1, 0));
	say("revents %d", ready.revents);
	show_read("finished", 100);
	fcntl(tty, F_SETFL, O_RDWR | O_NONBLOCK);
	show_read("nothing, not blocking", 100);
	fcntl(tty, F_SETFL, O_RDWR);
}

static void raw(void)
{
	section("raw");
	struct termios mode, old;
	tcgetattr(tty, &old);
	mode = old;
	cfmakeraw(&mode);
	tcsetattr(tty, TCSANOW, &mode);
	type("ab\r\x03\x7f");
	SHOW(waiting());
	show_read("bytes", 100);
	mode.c_cc[VMIN] = 0, mode.c_cc[VTIME] = 0;
	tcsetattr(tty, TCSANOW, &mode);
	show_read("VMIN 0 VTIME 0", 100);
	mode.c_cc[VTIME] = 1;
	tcsetattr(tty, TCSANOW, &mode);
	show_read("VMIN 0 VTIME 1", 100);
	type("x");
	show_read("VMIN 0 VTIME 1", 100);
	mode.c_cc[VMIN] = 3, mode.c_cc[VTIME] = 0;
	tcsetattr(tty, TCSANOW, &mode);
	type("abcd");
	show_read("VMIN 3", 100);
	tcsetattr(tty, TCSANOW, &old);
}

static volatile int last;
/* Whose turn it is to print, and the end of all. */
static int turn[2], done[2];
static void on(int number) { last = number; }

static void control(void)
{
	section("control");
	setsid();
	SHOW(tcgetpgrp(tty));
	SHOW(ioctl(tty, TIOCSCTTY, 0));
	CHECK(tcgetpgrp(tty) == getpgrp());
	CHECK(tcgetsid(tty) == getsid(0));
	SHOW_OK(open("/dev/tty", O_RDWR));
	signal(SIGINT, on), signal(SIGQUIT, on), signal(SIGWINCH, on);
	type("lost\x03");
	nap(20);
	say("^C: %s, waiting %d", signal_name(last), waiting());
	type("\x1c");
	nap(20);
	say("^\\: %s", signal_name(last));
	struct winsize size = { 40, 80, 0, 0 };
	ioctl(tty, TIOCSWINSZ, &size);
	nap(20);
	say("size: %s", signal_name(last));
	pid_t pid = must_fork();
	if (pid == 0) {
		/* In the background: writing is allowed, reading and TOSTOP stop. */
		setpgid(0, 0);
		SHOW(write(tty, "background\n", 11));
		char byte;
		SHOW(read(tty, &byte, 1));
		_exit(0);
	}
	setpgid(pid, pid);
	int status;
	SHOW(waitpid(pid, &status, WUNTRACED) == pid);
	say("background read: %s", status_text(status));
	signal(SIGTTOU, SIG_IGN);
	SHOW(tcsetpgrp(tty, pid));
	CHECK(tcgetpgrp(tty) == pid);
	type("x\n");
	kill(-pid, SIGCONT);
	wait_for(pid);
	SHOW(tcsetpgrp(tty, getpgrp()));
	tcflush(tty, TCIFLUSH);
	SHOW(tcsetpgrp(tty, 99999999));
	pid = must_fork();
	if (pid == 0) {
		setpgid(0, 0);
		signal(SIGTTOU, SIG_DFL);
		tcsetpgrp(tty, getpgrp());
		_exit(0);
	}
	setpgid(pid, pid);
	SHOW(waitpid(pid, &status, WUNTRACED) == pid);
	say("background tcsetpgrp: %s", status_text(status));
	kill(-pid, SIGKILL);
	wait_for(pid);
	pid = must_fork();
	if (pid == 0) {
		setpgid(0, 0);
		signal(SIGTTIN, SIG_IGN);
		char byte;
		SHOW(read(tty, &byte, 1));
		_exit(0);
	}
	wait_for(pid);
	pid = must_fork();
	if (pid == 0) {
		setpgid(0, 0);
		tcsetpgrp(tty, getpgrp());
		signal(SIGTSTP, SIG_DFL);
		type("\x1a");
		for (;;)
			pause();
	}
	SHOW(waitpid(pid, &status, WUNTRACED) == pid);
	say("^Z: %s", status_text(status));
	kill(pid, SIGKILL);
	wait_for(pid);
	tcsetpgrp(tty, getpgrp());
	/* The leader's end hangs up the foreground group. */
	int up[2];
	pipe(up);
	pid = must_fork();
	if (pid == 0) {
		sigset_t hangup;
		sigemptyset(&hangup), sigaddset(&hangup, SIGHUP), sigprocmask(SIG_BLOCK, &hangup, 0);
		write(up[1], "r", 1);
		sigwait(&hangup, (int *)&last);
		/* The leader's own end is told first. */
		char byte;
		read(turn[0], &byte, 1);
		say("after the leader: %s", signal_name(last));
		SHOW(read(tty, &byte, 1));
		SHOW_OK(open("/dev/tty", O_RDWR));
		_exit(0);
	}
	char byte;
	read(up[0], &byte, 1);
	_exit(5);
}

int main(void)
{
	tty = open("/dev/ttyS3", O_RDWR | O_NOCTTY | O_NONBLOCK);
	if (tty < 0) {
		say("no /dev/ttyS3: %s", error_name(errno));
		return 0;
	}
	fcntl(tty, F_SETFL, O_RDWR);
	struct termios mode;
	tcgetattr(tty, &mode);
	mode.c_cflag |= CLOCAL;
	tcsetattr(tty, TCSANOW, &mode);
	attributes();
	canonical();
	raw();
	pipe(turn), pipe(done);
	in_child("control", control);
	/* Whoever outlives the session holds the other end of `done`. */
	close(done[1]);
	write(turn[1], "t", 1);
	char byte;
	read(done[0], &byte, 1);
	return 0;
}
