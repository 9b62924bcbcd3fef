/* Descriptors, and files that have no name: pipes, event files, memory files. One object: one pipe, one event file. */
#include "calls.h"

#include <sys/eventfd.h>
#include <sys/inotify.h>

static long op_dup(struct work *w)
{
	return close((int)ok(w, syscall(SYS_dup, w->fd)));
}

static long op_dup2(struct work *w)
{
	return ok(w, syscall(SYS_dup2, w->fd, w->x[0]));
}

static long op_dup3(struct work *w)
{
	return ok(w, syscall(SYS_dup3, w->fd, w->x[0], O_CLOEXEC));
}

static void s_twice(struct work *w)
{
	s_file(w);
	w->x[0] = 300 + (long)w->i;
}

static long op_dupfd(struct work *w)
{
	return close((int)ok(w, fcntl(w->fd, (int)w->k->v[0], 20)));
}

static long op_close(struct work *w)
{
	int fd = (int)ok(w, dup(w->fd));
	return ok(w, syscall(SYS_close, fd));
}

static long op_close_range(struct work *w)
{
	int fd = (int)ok(w, dup(w->fd));
	return ok(w, syscall(SYS_close_range, fd, fd, w->k->v[0]));
}

static long op_pipe(struct work *w)
{
	int ends[2];
	ok(w, w->k->v[0] ? syscall(SYS_pipe2, ends, O_NONBLOCK) : syscall(SYS_pipe, ends));
	return close(ends[0]) + close(ends[1]);
}

static long op_through(struct work *w)
{
	ok(w, write(w->fd2, w->buf, (size_t)w->k->v[0]));
	return ok(w, read(w->fd, w->buf, (size_t)w->k->v[0]));
}

static void s_nonblock(struct work *w)
{
	s_pipe(w);
	ok(w, fcntl(w->fd, F_SETFL, O_NONBLOCK));
}

static long op_eventfd(struct work *w)
{
	return close((int)ok(w, w->k->v[0] ? syscall(SYS_eventfd2, 0, w->k->v[1]) : syscall(SYS_eventfd, 0)));
}

static void s_eventfd(struct work *w)
{
	w->fd = w->fd2 = (int)ok(w, eventfd(0, EFD_SEMAPHORE));
}

static void s_eventfd_count(struct work *w)
{
	w->fd = w->fd2 = (int)ok(w, eventfd(0, 0));
}

/* One is put in, and one taken out: in `one` by all, so that there is always one. */
static long op_event(struct work *w)
{
	uint64_t one = 1;
	ok(w, write(w->fd, &one, 8));
	return ok(w, read(w->fd, w->buf, 8));
}

static long op_memfd(struct work *w)
{
	int fd = (int)ok(w, syscall(SYS_memfd_create, "x", w->k->v[0]));
	if (w->k->v[1])
		ok(w, pwrite(fd, w->buf, 64, 0));
	return close(fd);
}

static void s_memfd(struct work *w)
{
	w->fd = (int)ok(w, syscall(SYS_memfd_create, "x", 2));
}

static long op_signalfd(struct work *w)
{
	return close((int)ok(w, w->k->v[0] ? syscall(SYS_signalfd4, -1, w->buf + C_USR1, 8, 0) : syscall(SYS_signalfd, -1, w->buf + C_USR1, 8)));
}

static long op_inotify(struct work *w)
{
	return close((int)ok(w, w->k->v[0] ? syscall(SYS_inotify_init1, IN_NONBLOCK) : syscall(SYS_inotify_init)));
}

/* fd: the instance, fd2: the file at the path, which nobody watches yet. */
static void s_inotify(struct work *w)
{
	s_file(w);
	w->fd2 = w->fd;
	w->fd = (int)ok(w, syscall(SYS_inotify_init1, IN_NONBLOCK));
}

/* fd, fd2: as before, and the instance watches the file. */
static void s_watched(struct work *w)
{
	s_inotify(w);
	ok(w, syscall(SYS_inotify_add_watch, w->fd, w->path, IN_ALL_EVENTS));
}

/* A watch comes and goes, and what it says at its end is read. */
static long op_watch(struct work *w)
{
	long number = ok(w, syscall(SYS_inotify_add_watch, w->fd, w->path, IN_OPEN));
	ok(w, syscall(SYS_inotify_rm_watch, w->fd, number));
	return ok(w, read(w->fd, w->buf, 256));
}

static long op_watched_write(struct work *w)
{
	ok(w, pwrite(w->fd2, w->buf + 512, 64, 0));
	return ok(w, read(w->fd, w->buf, 256));
}

/* Two pipes: fd, fd2 and x[0], x[1]. */
static void s_pipes(struct work *w)
{
	int ends[2];
	s_pipe(w);
	ok(w, pipe(ends));
	w->x[0] = ends[0], w->x[1] = ends[1];
}

static long op_tee(struct work *w)
{
	ok(w, write(w->fd2, w->buf, 64));
	ok(w, syscall(SYS_tee, w->fd, w->x[1], 64, 0));
	ok(w, read(w->fd, w->buf, 64));
	return ok(w, read((int)w->x[0], w->buf, 64));
}

static long op_splice(struct work *w)
{
	ok(w, write(w->fd2, w->buf, 64));
	ok(w, syscall(SYS_splice, w->fd, 0, w->x[1], 0, 64, 0));
	return ok(w, read((int)w->x[0], w->buf, 64));
}

static long op_vmsplice(struct work *w)
{
	ok(w, syscall(SYS_vmsplice, w->fd2, w->buf + C_IOV, 2, 0));
	return ok(w, read(w->fd, w->buf, 128));
}

/* A file and a pipe. */
static void s_file_pipe(struct work *w)
{
	s_file(w);
	int ends[2];
	ok(w, pipe(ends));
	w->x[0] = ends[0], w->x[1] = ends[1];
}

static long op_splice_file(struct work *w)
{
	long at = 0;
	ok(w, syscall(SYS_splice, w->fd, &at, w->x[1], 0, 512, 0));
	return ok(w, read((int)w->x[0], w->buf, 512));
}

static long op_splice_to_file(struct work *w)
{
	long at = 0;
	ok(w, write((int)w->x[1], w->buf, 512));
	return ok(w, syscall(SYS_splice, w->x[0], 0, w->fd, &at, 512, 0));
}


const struct kase descriptors[] = {
	OP("dup", dup, PTO | SAME, s_file, op_dup),
	OP("dup2", dup2, PT, s_twice, op_dup2),
	OP("dup3", dup3, PT, s_twice, op_dup3),
	RAW("dup2-same", dup2, PT, s_file, FD, FD),
	OP("close", close, PTO | SAME, s_file, op_close),
	FAILS("close-none", close, PT, 0, EBADF, 999),
	OP("close_range", close_range, PT, s_file, op_close_range, 0),
	RAW("close_range-cloexec", close_range, P, s_file, FD, FD, 4),
	RAW("close_range-nothing", close_range, PT, s_file, 900, 1000, 0),
	OP("fcntl-dupfd", fcntl, PTO | SAME, s_file, op_dupfd, F_DUPFD),
	OP("fcntl-dupfd-cloexec", fcntl, PT, s_file, op_dupfd, F_DUPFD_CLOEXEC),
	RAW("fcntl-getfd", fcntl, PTO | SAME, s_file, FD, F_GETFD),
	RAW("fcntl-setfd", fcntl, PTO | SAME, s_file, FD, F_SETFD, 1),
	RAW("fcntl-getfl", fcntl, PTO | SAME, s_file, FD, F_GETFL),
	RAW("fcntl-setfl", fcntl, PTO | SAME, s_file, FD, F_SETFL, O_APPEND),
	RAW("fcntl-getown", fcntl, PT, s_file, FD, F_GETOWN),
	RAW("fcntl-setown", fcntl, PT, s_file, FD, F_SETOWN, 0),
	FAILS("fcntl-getown-ex", fcntl, PT, s_file, ANY, FD, 16, BUF(0)),
	FAILS("fcntl-setown-ex", fcntl, PT, s_file, ANY, FD, 15, BUF(C_OFF)),
	FAILS("fcntl-getsig", fcntl, PT, s_file, ANY, FD, 11),
	FAILS("fcntl-setsig", fcntl, PT, s_file, ANY, FD, 10, 0),
	RAW("fcntl-getlease", fcntl, PT, s_file, FD, 1025),
	FAILS("fcntl-setlease-none", fcntl, PT, s_file, ANY, FD, 1024, 2),
	FAILS("fcntl-dupfd-query", fcntl, PT, s_file, ANY, FD, 1027, FD),
	FAILS("fcntl-get-rw-hint", fcntl, PT, s_file, ANY, FD, 1035, BUF(0)),
	FAILS("fcntl-set-rw-hint", fcntl, PT, s_file, ANY, FD, 1036, BUF(C_ZERO)),
	RAW("fcntl-getpipe-size", fcntl, PTO | SAME, s_pipe, FD, 1032),
	RAW("fcntl-setpipe-size", fcntl, PT, s_pipe, FD, 1031, 65536),
	RAW("fcntl-get-seals", fcntl, PTO | SAME, s_memfd, FD, 1034),
	RAW("ioctl-fionread", ioctl, PTO | SAME, s_pipe, FD, 0x541b, BUF(0)),
	RAW("ioctl-fionread-file", ioctl, PT, s_file, FD, 0x541b, BUF(0)),
	RAW("ioctl-fionbio", ioctl, PTO | SAME, s_pipe, FD, 0x5421, BUF(C_ZERO)),
	RAW("ioctl-fioclex", ioctl, PT, s_file, FD, 0x5451),
	RAW("ioctl-fionclex", ioctl, PT, s_file, FD, 0x5450),
	FAILS("ioctl-tcgets-file", ioctl, PT, s_file, ENOTTY, FD, 0x5401, BUF(0)),
	FAILS("vhangup", vhangup, P, 0, ANY, 0),
	OP("pipe", pipe, PT, 0, op_pipe, 0),
	OP("pipe2", pipe2, PT, 0, op_pipe, 1),
	OP("pipe-through", write, PTO | SAME, s_pipe, op_through, 512),
	OP("pipe-through-byte", write, PT, s_pipe, op_through, 1),
	FAILS("pipe-read-empty", read, PTO | SAME, s_nonblock, EAGAIN, FD, BUF(0), 64),
	OP("eventfd", eventfd, PT, 0, op_eventfd, 0),
	OP("eventfd2", eventfd2, PT, 0, op_eventfd, 1, EFD_SEMAPHORE),
	OP("eventfd-through", write, PTO | SAME, s_eventfd, op_event),
	OP("eventfd-through-count", write, PT, s_eventfd_count, op_event),
	OP("signalfd", signalfd, PT, 0, op_signalfd, 0),
	OP("inotify_init", inotify_init, PT, 0, op_inotify, 0),
	OP("inotify_init1", inotify_init1, PT, 0, op_inotify, 1),
	OP("inotify_rm_watch", inotify_rm_watch, PT, s_inotify, op_watch),
	FAILS("inotify_rm_watch-none", inotify_rm_watch, PT, s_inotify, EINVAL, FD, 1),
	RAW("inotify_add_watch-there", inotify_add_watch, PT, s_watched, FD, PATH, IN_ALL_EVENTS),
	FAILS("inotify_add_watch-missing", inotify_add_watch, PT, s_inotify, ENOENT, FD, OWN, IN_OPEN),
	OP("inotify-write", inotify_add_watch, PT, s_watched, op_watched_write),
	FAILS("inotify-empty", read, PT, s_watched, EAGAIN, FD, BUF(0), 256),
	OP("signalfd4", signalfd4, PT, 0, op_signalfd, 1),
	OP("memfd_create", memfd_create, PT, 0, op_memfd, 0),
	OP("memfd_create-sealing", memfd_create, PT, 0, op_memfd, 2),
	OP("memfd_create-write", memfd_create, PT, 0, op_memfd, 0, 1),
	OP("tee", tee, PT, s_pipes, op_tee),
	OP("splice-pipes", splice, PT, s_pipes, op_splice),
	OP("splice-file", splice, PT, s_file_pipe, op_splice_file),
	OP("splice-to-file", splice, PT, s_file_pipe, op_splice_to_file),
	OP("vmsplice", vmsplice, PT, s_pipe, op_vmsplice),
	END
};
