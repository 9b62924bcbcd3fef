/* A terminal for one opener alone: TIOCEXCL and its kin. */
#include "t.h"

#include <sys/ioctl.h>

#ifndef TIOCGEXCL
#define TIOCGEXCL 0x80045440
#endif

static int master, slave;
static char name[64];

static void show_state(const char *when)
{
	int value[2] = { 7, 7 };
	long s = ioctl(slave, TIOCGEXCL, &value[0]), m = ioctl(master, TIOCGEXCL, &value[1]);
	say("%s: terminal %ld %d, master %ld %d", when, s, value[0], m, value[1]);
}

static void opens(void)
{
	int fd = open(name, O_RDWR | O_NOCTTY);
	say("open: %s", fd >= 0 ? "done" : error_name(errno));
	if (fd >= 0)
		close(fd);
	fd = ioctl(master, 0x5441 /* TIOCGPTPEER */, O_RDWR | O_NOCTTY);
	say("by its master: %s", fd >= 0 ? "done" : error_name(errno));
	if (fd >= 0)
		close(fd);
}

static void as_user(void)
{
	setresuid(1000, 1000, 1000);
	opens();
	show_state("for a user");
	SHOW(ioctl(slave, TIOCNXCL));
	SHOW(ioctl(slave, TIOCEXCL));
}

int main(void)
{
	int zero = 0, number = -1;
	master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	ioctl(master, TIOCSPTLCK, &zero);
	ioctl(master, TIOCGPTN, &number);
	snprintf(name, sizeof name, "/dev/pts/%d", number);
	chmod(name, 0666);
	slave = open(name, O_RDWR | O_NOCTTY);
	show_state("first");
	in_child("open to all", as_user);
	show_state("after a user's TIOCEXCL");
	SHOW(ioctl(slave, TIOCEXCL));
	opens();
	in_child("exclusive", as_user);
	show_state("after that");
	SHOW(ioctl(slave, TIOCNXCL));
	show_state("given up");
	SHOW(ioctl(master, TIOCEXCL));
	show_state("of the master");
	in_child("the master's", as_user);
	SHOW(ioctl(slave, TIOCGEXCL, 8));
	int p[2];
	pipe(p);
	SHOW(ioctl(p[0], TIOCEXCL));
	SHOW(ioctl(p[0], TIOCGEXCL, &zero));
	/* What was said ends with the last close. */
	ioctl(slave, TIOCEXCL);
	close(slave);
	slave = open(name, O_RDWR | O_NOCTTY);
	show_state("opened again");
	return 0;
}
