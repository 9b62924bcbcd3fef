/* Packet mode of a pseudo-terminal, System V's settings, locked settings, and commands that few programs use. */
#include "t.h"
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#define TCGETA_ 0x5405
#define TCSETA_ 0x5406
#define TCSETAW_ 0x5407
#define TCSETAF_ 0x5408
#define TIOCGPKT_ 0x80045438
#define TIOCGDEV_ 0x80045432
#define TIOCGLCKTRMIOS_ 0x5456
#define TIOCSLCKTRMIOS_ 0x5457
#define EXTPROC_ 0200000

struct termio { unsigned short input, output, control, local; unsigned char line, chars[8], pad; };
struct ktermios { uint32_t input, output, control, local; uint8_t line, chars[19]; };

static int master, slave;

/* What the master reads, within a moment. */
static void packet(const char *what)
{
	unsigned char bytes[64];
	struct pollfd poller = { .fd = master, .events = POLLIN | POLLPRI };
	int ready = poll(&poller, 1, 200);
	long n = ready > 0 ? read(master, bytes, sizeof bytes) : 0;
	say("  %s: poll %d %#x, %ld bytes", what, ready, (unsigned)poller.revents, n);
	for (long i = 0; i < n; i++)
		say("    %#x", bytes[i]);
}

static void set(tcflag_t *flags, tcflag_t off, tcflag_t on)
{
	*flags = (*flags & ~off) | on;
}

static void packets(void)
{
	section("packets");
	int on = 7, off = 0, told = -1;
	SHOW(ioctl(master, TIOCGPKT_, &told));
	say("  %d", told);
	SHOW(ioctl(slave, TIOCPKT, &on));
	SHOW(ioctl(slave, TIOCGPKT_, &told));
	SHOW(ioctl(master, TIOCPKT, (void *)8));
	SHOW(ioctl(master, TIOCPKT, &on));
	SHOW(ioctl(master, TIOCGPKT_, &told));
	say("  %d", told);
	packet("nothing");
	SHOW(write(slave, "ab", 2));
	packet("data");
	SHOW(write(slave, "cd", 2));
	struct pollfd poller = { .fd = master, .events = POLLIN };
	poll(&poller, 1, 1000);
	char one = 9;
	SHOW(read(master, &one, 1));
	say("  %d", one);
	packet("the rest");

	SHOW(ioctl(slave, TCXONC, TCOOFF));
	packet("stopped");
	SHOW(ioctl(slave, TCXONC, TCOOFF));
	packet("again");
	SHOW(ioctl(slave, TCXONC, TCOON));
	packet("started");
	SHOW(ioctl(slave, TCFLSH, TCIFLUSH));
	packet("input dropped");
	SHOW(ioctl(slave, TCFLSH, TCOFLUSH));
	packet("output dropped");
	SHOW(ioctl(slave, TCFLSH, TCIOFLUSH));
	packet("both dropped");
	SHOW(ioctl(slave, TCFLSH, 3));

	struct termios t;
	tcgetattr(slave, &t);
	set(&t.c_iflag, IXON, 0);
	tcsetattr(slave, TCSANOW, &t);
	packet("no flow control");
	tcsetattr(slave, TCSANOW, &t);
	packet("the same");
	set(&t.c_iflag, 0, IXON), set(&t.c_lflag, ICANON | ECHO, 0);
	tcsetattr(slave, TCSANOW, &t);
	packet("flow control");
	t.c_cc[VSTOP] = 'S';
	tcsetattr(slave, TCSANOW, &t);
	packet("other characters");
	t.c_cc[VSTOP] = 023;
	tcsetattr(slave, TCSANOW, &t);
	packet("the usual ones");
	set(&t.c_lflag, 0, EXTPROC_);
	tcsetattr(slave, TCSANOW, &t);
	packet("edited elsewhere");
	set(&t.c_lflag, EXTPROC_, 0);
	tcsetattr(slave, TCSANOW, &t);
	packet("no more");

	SHOW(write(master, "\023", 1));
	packet("stopped by ^S");
	SHOW(write(master, "\021", 1));
	packet("started by ^Q");
	SHOW(ioctl(slave, TCXONC, TCOOFF));
	packet("held");
	SHOW(write(master, "\021", 1));
	packet("^Q does not start it");
	SHOW(ioctl(slave, TCXONC, TCOON));
	packet("started");
	SHOW(ioctl(slave, TCXONC, TCOOFF));
	SHOW(ioctl(slave, TCXONC, TCOON));
	packet("both at once");

	SHOW(ioctl(slave, TCXONC, TCOOFF));
	SHOW(ioctl(master, TIOCPKT, &off));
	SHOW(ioctl(master, TIOCPKT, &on));
	packet("what was before is not told");
	SHOW(ioctl(slave, TCXONC, TCOON));
	packet("started");
	SHOW(ioctl(master, TIOCPKT, &off));
	SHOW(write(slave, "e", 1));
	packet("without a head");
}

static void show(const char *what, const struct termio *t)
{
	say("  %s: %#o %#o %#o %#o line %d, %d %d %d %d %d %d %d %d, %d", what, t->input, t->output, t->control, t->local, t->line, t->chars[0], t->chars[1],
	    t->chars[2], t->chars[3], t->chars[4], t->chars[5], t->chars[6], t->chars[7], t->pad);
}

static void old_settings(void)
{
	section("TCGETA and TCSETA");
	struct termio t = { .pad = 77 };
	struct termios whole;
	tcgetattr(slave, &whole);
	set(&whole.c_lflag, 0, EXTPROC_), whole.c_cc[VEOL2] = 5;
	tcsetattr(slave, TCSANOW, &whole);
	SHOW(ioctl(slave, TCGETA_, &t));
	show("slave", &t);
	SHOW(ioctl(master, TCGETA_, &t));
	show("master", &t);
	t.local = 0, t.chars[0] = 1, t.line = 3, t.control = 0;
	SHOW(ioctl(slave, TCSETA_, &t));
	SHOW(ioctl(slave, TCGETA_, &t));
	show("changed", &t);
	tcgetattr(slave, &whole);
	say("  the upper half %#o, the other characters %d %d", (unsigned)whole.c_lflag, whole.c_cc[VEOL2], whole.c_cc[VREPRINT]);
	SHOW(write(master, "xy", 2));
	nap(50);
	SHOW(ioctl(slave, TCSETAW_, &t));
	int n = -1;
	ioctl(slave, FIONREAD, &n);
	say("  %d waiting", n);
	SHOW(ioctl(slave, TCSETAF_, &t));
	ioctl(slave, FIONREAD, &n);
	say("  %d waiting", n);
	SHOW(ioctl(slave, TCGETA_, (void *)8));
	SHOW(ioctl(slave, TCSETA_, (void *)8));
	set(&whole.c_cflag, CSIZE, CS7 | PARENB), set(&whole.c_lflag, EXTPROC_, 0);
	tcsetattr(slave, TCSANOW, &whole);
	tcgetattr(slave, &whole);
	say("  eight bits and no parity %#o", (unsigned)whole.c_cflag);
}

static void locked(void)
{
	section("locked settings");
	struct ktermios lock;
	struct termios t;
	memset(&lock, 7, sizeof lock);
	SHOW(ioctl(slave, TIOCGLCKTRMIOS_, &lock));
	say("  %#x %#x %#x %#x %d %d", lock.input, lock.output, lock.control, lock.local, lock.line, lock.chars[3]);
	lock.local = ECHO | ISIG, lock.chars[VINTR] = 1;
	SHOW(ioctl(slave, TIOCSLCKTRMIOS_, &lock));
	memset(&lock, 7, sizeof lock);
	SHOW(ioctl(master, TIOCGLCKTRMIOS_, &lock));
	say("  %#x %#x %#x %#x %d %d", lock.input, lock.output, lock.control, lock.local, lock.line, lock.chars[VINTR]);
	tcgetattr(slave, &t);
	say("  before %#o %d %d", (unsigned)t.c_lflag, t.c_cc[VINTR], t.c_cc[VQUIT]);
	t.c_lflag ^= ECHO | ISIG | ICANON, t.c_cc[VINTR] = t.c_cc[VQUIT] = 9;
	SHOW(tcsetattr(slave, TCSANOW, &t));
	tcgetattr(slave, &t);
	say("  after %#o %d %d", (unsigned)t.c_lflag, t.c_cc[VINTR], t.c_cc[VQUIT]);
	SHOW(ioctl(slave, TIOCSLCKTRMIOS_, (void *)8));
	if (must_fork() == 0) {
		if (setresuid(1, 1, 1) != 0)
			_exit(1);
		SHOW(ioctl(slave, TIOCSLCKTRMIOS_, &lock));
		SHOW(ioctl(slave, TIOCGLCKTRMIOS_, &lock));
		_exit(0);
	}
	wait(NULL);
}

static void others(void)
{
	section("others");
	int value = -1;
	SHOW(ioctl(slave, TIOCGSOFTCAR, &value));
	say("  %d", value);
	value = 5;
	SHOW(ioctl(slave, TIOCSSOFTCAR, &value));
	SHOW(ioctl(master, TIOCGSOFTCAR, &value));
	say("  %d", value);
	value = 0;
	SHOW(ioctl(slave, TIOCSSOFTCAR, &value));
	SHOW(ioctl(slave, TIOCGSOFTCAR, &value));
	say("  %d", value);
	SHOW(ioctl(slave, TIOCSBRK));
	SHOW(ioctl(slave, TIOCCBRK));
	SHOW(ioctl(slave, TIOCSETD, &value));
	value = 29;
	SHOW(ioctl(slave, TIOCSETD, &value));
	value = -1;
	SHOW(ioctl(slave, TIOCSETD, &value));
	SHOW(ioctl(slave, TIOCSETD, (void *)8));
	struct stat st;
	unsigned device = 0;
	fstat(slave, &st);
	SHOW(ioctl(slave, TIOCGDEV_, &device));
	say("  its own number: %d", device == st.st_rdev);
	device = 0;
	SHOW(ioctl(master, TIOCGDEV_, &device));
	say("  the terminal's: %d", device == st.st_rdev);
	SHOW(ioctl(slave, 0x545d /* TIOCGICOUNT */, &value));
	SHOW(ioctl(slave, 0x541e /* TIOCGSERIAL */, &value));
	SHOW(ioctl(slave, TIOCMBIS, &value));
	SHOW(ioctl(slave, 0x541c /* TIOCLINUX */, &value));
	SHOW(ioctl(slave, 0x5432 /* TCGETX */, &value));
}

int main(void)
{
	if (openpty(&master, &slave, 0, 0, 0) != 0)
		say("openpty failed: %s", error_name(errno));
	packets();
	old_settings();
	locked();
	others();
	return 0;
}
