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

int main(void)
{
	int fd = open("file", O_CREAT | O_RDWR, 0644);
	SHOW(put(fd, "0123", -1, HIPRI));
	SHOW(put(fd, "ab", 0, DSYNC | SYNC));
	SHOW(get(fd, 0, HIPRI));
	say("%.4s, at %ld", room, (long)lseek(fd, 0, SEEK_CUR));
	/* Files in memory know of no waiting, and of no writes that are all or nothing. */
	SHOW(get(fd, 0, NOWAIT));
	SHOW(put(fd, "n", 0, NOWAIT));
	SHOW(get(fd, 0, ATOMIC));
	SHOW(put(fd, "n", 0, ATOMIC));
	SHOW(get(fd, 0, 256));
	SHOW(put(fd, "n", 0, 256));
	MISSING(put(fd, "ef", 0, APPEND), EOPNOTSUPP);
	MISSING(put(fd, "cd", 0, NOAPPEND), EOPNOTSUPP);
	MISSING(get(fd, 0, APPEND), EOPNOTSUPP);
	MISSING(get(fd, 0, NOAPPEND), EOPNOTSUPP);
	return 0;
}
