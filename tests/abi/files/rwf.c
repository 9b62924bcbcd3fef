/* The flags of preadv2 and pwritev2, each with what it does. */
#include "t.h"
#include <sys/uio.h>

enum { HIPRI = 1, DSYNC = 2, SYNC = 4, NOWAIT = 8, APPEND = 16, NOAPPEND = 32, ATOMIC = 64 };

static char room[64];

/* At the place `at`, or with -1 where the file stands. */
static long put(int fd, const char *text, long at, int flags)
{
	struct iovec one = { (char *)text, strlen(text) };
	return syscall(SYS_pwritev2, fd, &one, 1, at, 0, flags);
}

static long get(int fd, long at, int flags)
{
	struct iovec one = { room, 4 };
	return syscall(SYS_preadv2, fd, &one, 1, at, 0, flags);
}

static void contents(int fd)
{
	char text[64] = "";
	long at = lseek(fd, 0, SEEK_CUR), n = pread(fd, text, sizeof text - 1, 0);
	say("%.*s, at %ld", (int)n, text, at);
}

/* Each write may be at the end or not, however the file was opened. */
static void appending(int fd)
{
	SHOW(put(fd, "ef", 0, APPEND));
	contents(fd);
	SHOW(put(fd, "gh", -1, APPEND));
	contents(fd);
	SHOW(put(fd, "i", 1, NOAPPEND));
	SHOW(put(fd, "x", 0, APPEND | NOAPPEND));
	SHOW(put(fd, "x", 0, APPEND | NOAPPEND | 256));
	SHOW(put(fd, "", 0, APPEND | NOAPPEND));
	SHOW(get(fd, 0, APPEND | NOAPPEND));
	contents(fd);
	int end = open("file", O_RDWR | O_APPEND);
	SHOW(put(end, "j", 0, 0));
	SHOW(put(end, "k", 0, NOAPPEND));
	SHOW(put(end, "l", 2, NOAPPEND | DSYNC));
	SHOW(put(end, "m", -1, NOAPPEND));
	SHOW(put(end, "n", -1, APPEND));
	contents(end);
	int ends[2];
	pipe(ends);
	SHOW(put(ends[1], "pipe", -1, APPEND));
	SHOW(put(ends[1], "pipe", -1, NOAPPEND));
	SHOW(get(ends[0], -1, APPEND));
	/* A file of counters or settings takes no flag. */
	int event = (int)syscall(SYS_eventfd2, 0, 0), own = open("/proc/self/comm", O_RDWR);
	SHOW(put(event, "12345678", -1, APPEND));
	SHOW(put(own, "name", -1, APPEND));
	SHOW(put(own, "name", -1, NOAPPEND));
	SHOW(get(own, -1, APPEND));
	int null = open("/dev/null", O_RDWR);
	SHOW(put(null, "x", -1, APPEND));
	SHOW(put(null, "x", -1, NOAPPEND));
}

int main(void)
{
	int fd = open("file", O_CREAT | O_RDWR, 0644);
	SHOW(put(fd, "0123", -1, HIPRI));
	SHOW(put(fd, "ab", 0, DSYNC | SYNC));
	SHOW(get(fd, 0, HIPRI));
	say("%.4s, at %ld", room, (long)lseek(fd, 0, SEEK_CUR));
	/* Files in memory know of no waiting (as nowait shows of others), and of no writes that are all or nothing. */
	SHOW(get(fd, 0, NOWAIT));
	SHOW(put(fd, "n", 0, NOWAIT));
	SHOW(get(fd, 0, ATOMIC));
	SHOW(put(fd, "n", 0, ATOMIC));
	SHOW(get(fd, 0, 256));
	SHOW(put(fd, "n", 0, 256));
	SHOW(get(fd, 0, APPEND));
	SHOW(get(fd, 0, NOAPPEND));
	appending(fd);
	return 0;
}
