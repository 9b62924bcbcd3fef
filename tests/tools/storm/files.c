/* Storms of what programs have open: descriptors, pipes, watches, locks. Where one process may not have enough of it, there are several. */
#include "storm.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

static void open_all(void)
{
	many_descriptors();
	while (open("/dev/null", O_RDONLY) >= 0)
		did();
	/* Whoever was first may have as many as one process may; the bound of all is for the others to meet. */
	if (errno != EMFILE)
		refused(errno);
}

/* More than one table takes. */
static void descriptors(void) { crowd(16, open_all); }

static void fill_pipes(void)
{
	static char bytes[65536];
	int ends[2];
	many_descriptors();
	while (pipe2(ends, O_NONBLOCK) == 0) {
		fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
		while (write(ends[1], bytes, sizeof bytes) > 0)
			;
		did();
	}
	refused(errno);
}

static void pipes(void) { crowd(4, fill_pipes); }

static void watch_all(void)
{
	enum { FILES = 900 };
	int event = eventfd(0, 0), files[FILES];
	struct epoll_event want = { .events = EPOLLIN };
	many_descriptors();
	for (int i = 0; i < FILES; i++)
		files[i] = dup(event);
	for (;;) {
		int poll = epoll_create1(0);
		if (poll < 0)
			break;
		for (int i = 0; i < FILES; i++, did())
			if (epoll_ctl(poll, EPOLL_CTL_ADD, files[i], &want) != 0) {
				refused(errno);
				return;
			}
	}
	refused(errno);
}

static void watches(void) { crowd(2, watch_all); }

/* As many inotify watches as may be, of files that all instances have in common; then each opening of one is told to all, and nobody reads it. */
static void watch_files(void)
{
	enum { FILES = 100, OPENINGS = 2000 };
	char names[FILES][16];
	many_descriptors();
	for (int i = 0; i < FILES; i++) {
		snprintf(names[i], sizeof names[i], "watched%d", i);
		close(creat(names[i], 0600));
	}
	for (int error = 0; !error;) {
		int in = inotify_init1(IN_NONBLOCK);
		error = in < 0 ? errno : 0;
		for (int i = 0; i < FILES && !error; i++, did())
			if (inotify_add_watch(in, names[i], IN_ALL_EVENTS) < 0)
				error = errno;
		if (error)
			refused(error);
	}
	for (int i = 0; i < OPENINGS; i++, did())
		close(open(names[i % FILES], O_RDONLY));
}

static void inotify(void) { crowd(1, watch_files); }

/* Every second byte of a file. */
static void lock_all(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	char name[32];
	snprintf(name, sizeof name, "lock%d", getpid());
	int fd = open(name, O_CREAT | O_RDWR, 0600);
	for (lock.l_start = 0; fcntl(fd, F_SETLK, &lock) == 0; lock.l_start += 2)
		did();
	refused(errno);
}

static void locks(void) { crowd(2, lock_all); }

const struct storm file_storms[] = {
	{ "descriptors", descriptors, ENFILE, 10000, 4000, 0 },
	{ "pipes", pipes, EMFILE, 1000, 4000, 0 },
	{ "watches", watches, ENOSPC, 20000, 4000, 0 },
	{ "inotify", inotify, ENOSPC, 8000, 4000, 0 },
	{ "locks", locks, UNBOUNDED, 1000, 100, 0 },
	{ 0 },
};
