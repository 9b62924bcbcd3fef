/* Commands of terminals, and TIOCGPTPEER's flags, each with what it changes. */
#include "t.h"
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

struct termios2 { uint32_t input, output, control, local; uint8_t line, chars[19]; uint32_t in_speed, out_speed; };
#define TCGETS2_ 0x802c542a
#define TCSETS2_ 0x402c542b
#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

static int master, slave;

static void fresh(void)
{
	struct termios raw;
	if (openpty(&master, &slave, 0, 0, 0) != 0)
		say("openpty failed: %s", error_name(errno));
	tcgetattr(slave, &raw);
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO), raw.c_oflag = 0;
	tcsetattr(slave, TCSANOW, &raw);
}

/* How many bytes come within a moment. */
static void arrives(int fd)
{
	char text[64];
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	int ready = poll(&poller, 1, 20);
	say("  arrives: %zd", ready > 0 ? read(fd, text, sizeof text) : 0);
}

static void peers(void)
{
	section("TIOCGPTPEER");
	static const struct { int flag; const char *name; } flags[] = {
		{ 0, "O_RDONLY" }, { O_WRONLY, "O_WRONLY" }, { O_RDWR, "O_RDWR" }, { 3, "O_ACCMODE" }, { O_CREAT, "O_CREAT" }, { O_EXCL, "O_EXCL" }, { O_NOCTTY, "O_NOCTTY" },
		{ O_TRUNC, "O_TRUNC" }, { O_APPEND, "O_APPEND" }, { O_NONBLOCK, "O_NONBLOCK" }, { O_DSYNC, "O_DSYNC" }, { O_SYNC, "O_SYNC" }, { O_ASYNC, "FASYNC" },
		{ O_DIRECT, "O_DIRECT" }, { 0100000, "O_LARGEFILE" }, { O_DIRECTORY, "O_DIRECTORY" }, { O_NOFOLLOW, "O_NOFOLLOW" }, { O_NOATIME, "O_NOATIME" },
		{ O_CLOEXEC, "O_CLOEXEC" }, { O_PATH, "O_PATH" }, { O_TMPFILE, "O_TMPFILE" },
	};
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
		int fd = ioctl(master, TIOCGPTPEER, flags[i].flag), error = errno;
		if (fd < 0) {
			say("%s: %s", flags[i].name, error_name(error));
			continue;
		}
		int told = fcntl(fd, F_GETFL);
		fcntl(fd, F_SETFL, O_NONBLOCK);
		errno = 0;
		long got = read(fd, (char[1]){ 0 }, 1);
		int reads = got < 0 ? errno : 0;
		errno = 0;
		int writes = write(fd, "", 0) < 0 ? errno : 0;
		/* O_LARGEFILE and O_CLOEXEC are told or not; nothing follows from that. */
		told &= ~(0100000 | O_CLOEXEC);
		say("%s: flags %#o, close-on-exec %d, read %s, write %s", flags[i].name, told, fcntl(fd, F_GETFD), error_name(reads), error_name(writes));
		close(fd);
	}
	errno = 0;
	SHOW(ioctl(slave, TIOCGPTPEER, O_RDWR));
	SHOW(ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | 0x40000000) >= 0);
}

static void descriptors(void)
{
	section("FIOCLEX and FIONCLEX");
	SHOW(ioctl(slave, FIOCLEX));
	SHOW(fcntl(slave, F_GETFD));
	SHOW(ioctl(slave, FIONCLEX));
	SHOW(fcntl(slave, F_GETFD));
	int path = open(".", O_PATH);
	SHOW(ioctl(path, FIONCLEX));
	SHOW(ioctl(-1, FIONCLEX));
	close(path);
}

static void flow(void)
{
	section("TCXONC");
	SHOW(ioctl(slave, TCXONC, TCOOFF));
	fcntl(slave, F_SETFL, O_NONBLOCK);
	SHOW(write(slave, "ab", 2));
	arrives(master);
	SHOW(ioctl(slave, TIOCOUTQ, &(int){ 0 }));
	SHOW(ioctl(slave, TCXONC, TCOON));
	SHOW(write(slave, "abc", 3));
	int queued = -1;
	SHOW(ioctl(slave, TIOCOUTQ, &queued));
	say("  queued %d", queued);
	arrives(master);
	SHOW(ioctl(slave, TCXONC, TCIOFF));
	char byte = 0;
	fcntl(master, F_SETFL, O_NONBLOCK);
	long stop = read(master, &byte, 1);
	say("  stop character: %ld %d", stop, byte);
	SHOW(ioctl(slave, TCXONC, TCION));
	long start = read(master, &byte, 1);
	say("  start character: %ld %d", start, byte);
	SHOW(ioctl(slave, TCXONC, 4));
	SHOW(ioctl(slave, TCXONC, -1));
	SHOW(ioctl(slave, TCXONC, TCOOFF));
	SHOW(ioctl(slave, TCXONC, TCOOFF));
	SHOW(ioctl(slave, TCXONC, TCOON));
	section("breaks, lines");
	SHOW(ioctl(slave, TCSBRKP, 0));
	SHOW(ioctl(slave, TCSBRKP, 1));
	SHOW(ioctl(slave, TCSBRK, 1));
	SHOW(ioctl(slave, TIOCMGET, &(int){ 0 }));
	int port = open("/dev/ttyS0", O_RDWR | O_NOCTTY | O_NONBLOCK);
	SHOW(ioctl(port, TIOCMGET, &(int){ 0 }));
	close(port);
	int line = -1;
	SHOW(ioctl(slave, TIOCGETD, &line));
	say("  discipline %d", line);
	SHOW(ioctl(slave, TIOCGETD, (void *)8));
	fcntl(slave, F_SETFL, 0), fcntl(master, F_SETFL, 0);
}

static void packets(void)
{
	section("TIOCPKT");
	SHOW(ioctl(slave, TIOCPKT, &(int){ 0 }));
	SHOW(ioctl(master, TIOCPKT, &(int){ 0 }));
	SHOW(ioctl(master, TIOCPKT, (void *)8));
	write(slave, "x", 1);
	arrives(master);
	/* With it each read begins with a byte that says what happened. */
	MISSING(ioctl(master, TIOCPKT, &(int){ 1 }), ENOTTY);
	ioctl(master, TIOCPKT, &(int){ 0 });
}

static void settings(void)
{
	section("termios2");
	struct termios2 got, again;
	memset(&got, 0xee, sizeof got);
	SHOW(ioctl(slave, TCGETS2_, &got));
	say("  %#x %#x %#x %#x line %d, %u and %u baud", got.input, got.output, got.control, got.local, got.line, got.in_speed, got.out_speed);
	for (int how = 0; how < 3; how++) {
		struct termios2 want = got;
		want.chars[VINTR] = (uint8_t)(1 + how);
		want.local ^= ECHOE;
		write(master, "typed", 5);
		struct pollfd poller = { .fd = slave, .events = POLLIN };
		poll(&poller, 1, 1000);
		say("set %d: %d", how, ioctl(slave, (unsigned)(TCSETS2_ + how), &want));
		ioctl(slave, TCGETS2_, &again);
		say("  interrupt %d, local %#x", again.chars[VINTR], again.local);
		arrives(slave);
	}
	/* Any speed: BOTHER with the number beside it. */
	struct termios2 odd = got;
	odd.control = (got.control & ~0x100fu) | 0x1000, odd.in_speed = odd.out_speed = 12345;
	SHOW(ioctl(slave, TCSETS2_, &odd));
	ioctl(slave, TCGETS2_, &again);
	say("  %#x, %u and %u baud", again.control, again.in_speed, again.out_speed);
	SHOW(ioctl(slave, TCSETS2_, (void *)8));
	SHOW(ioctl(slave, TCSETS2_, &got));
}

static void session(void)
{
	section("a terminal given up");
	setsid();
	signal(SIGHUP, SIG_IGN);
	SHOW(ioctl(slave, TIOCNOTTY));
	SHOW(ioctl(slave, TIOCSCTTY, 0));
	SHOW(open("/dev/tty", O_RDWR) >= 0);
	SHOW(ioctl(slave, TIOCNOTTY));
	SHOW(open("/dev/tty", O_RDWR));
	SHOW(ioctl(slave, TIOCSCTTY, 0));
	setresuid(1000, 1000, 1000);
	SHOW(ioctl(slave, TIOCVHANGUP));
	SHOW(syscall(SYS_vhangup));
}

static void hung_up(void)
{
	setsid();
	signal(SIGHUP, SIG_IGN);
	SHOW(syscall(SYS_vhangup));
	SHOW(ioctl(slave, TIOCSCTTY, 0));
	SHOW(syscall(SYS_vhangup));
	SHOW(read(slave, (char[4]){ 0 }, 4));
	SHOW(write(slave, "x", 1));
	SHOW(open("/dev/tty", O_RDWR));
	SHOW(ioctl(slave, TCGETS2_, &(struct termios2){ 0 }));
}

int main(void)
{
	fresh();
	/* In a child, which leads no session: else a peer that is opened would be its terminal. */
	in_child("peers", peers);
	descriptors();
	flow();
	packets();
	settings();
	in_child("session", session);
	section("hung up");
	in_child("hung up", hung_up);
	close(slave), close(master);
	fresh();
	SHOW(ioctl(slave, TIOCVHANGUP));
	SHOW(read(slave, (char[4]){ 0 }, 4));
	SHOW(write(slave, "x", 1));
	return 0;
}
