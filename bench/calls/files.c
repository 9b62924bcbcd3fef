/* What is done with an open file: reading, writing, its place, its size, its locks. One file: each worker has a description of its own. */
#include "calls.h"

static long op_read(struct work *w)
{
	ok(w, lseek(w->fd, 0, SEEK_SET));
	return ok(w, read(w->fd, w->buf, 512));
}

static long op_write(struct work *w)
{
	ok(w, lseek(w->fd, 0, SEEK_SET));
	return ok(w, write(w->fd, w->buf, 512));
}

static long op_readv(struct work *w)
{
	ok(w, lseek(w->fd, 0, SEEK_SET));
	return ok(w, syscall(SYS_readv, w->fd, w->buf + C_IOV, 2));
}

static long op_writev(struct work *w)
{
	ok(w, lseek(w->fd, 0, SEEK_SET));
	return ok(w, syscall(SYS_writev, w->fd, w->buf + C_IOV, 2));
}

/* An end that grows by a page, and back. */
static long op_ftruncate(struct work *w)
{
	ok(w, ftruncate(w->fd, 65536 + 4096));
	return ok(w, ftruncate(w->fd, 65536));
}

static long op_extend(struct work *w)
{
	ok(w, pwrite(w->fd, w->buf, 512, 65536));
	return ok(w, ftruncate(w->fd, 65536));
}

static long op_append(struct work *w)
{
	ok(w, write(w->fd, w->buf, 64));
	return ok(w, ftruncate(w->fd, 0));
}

static void j_append(struct work *w)
{
	w->fd = (int)ok(w, open(w->path, O_RDWR | O_APPEND));
}

static void s_append(struct work *w)
{
	s_file(w);
	j_append(w);
}

/* Taken away and given back. */
static long op_punch(struct work *w)
{
	ok(w, fallocate(w->fd, 3, 4096, 4096));
	return ok(w, pwrite(w->fd, w->buf, 64, 4096));
}

static void s_two(struct work *w)
{
	s_file(w);
	close(w->fd2);
	w->fd2 = (int)ok(w, open(w->own, O_RDWR | O_CREAT, 0644));
}

static long op_sendfile(struct work *w)
{
	long at = 0;
	ok(w, lseek(w->fd2, 0, SEEK_SET));
	return ok(w, syscall(SYS_sendfile, w->fd2, w->fd, &at, 4096));
}

static long op_copy(struct work *w)
{
	long from = 0, to = 0;
	return ok(w, syscall(SYS_copy_file_range, w->fd, &from, w->fd2, &to, 4096, 0));
}

static long op_flock(struct work *w)
{
	ok(w, syscall(SYS_flock, w->fd, w->k->v[0]));
	return ok(w, syscall(SYS_flock, w->fd, 8));
}

/* A lock of ten bytes of the worker's own, and off. */
static long op_lock(struct work *w)
{
	struct flock lock = { .l_type = (short)w->k->v[1], .l_start = 100 * w->i, .l_len = 10 };
	ok(w, fcntl(w->fd, (int)w->k->v[0], &lock));
	lock.l_type = F_UNLCK;
	return ok(w, fcntl(w->fd, (int)w->k->v[0], &lock));
}

static long op_getlk(struct work *w)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = 100 * w->i, .l_len = 10 };
	return ok(w, fcntl(w->fd, (int)w->k->v[0], &lock));
}

static long op_getdents(struct work *w)
{
	ok(w, lseek(w->fd2, 0, SEEK_SET));
	return ok(w, syscall(w->k->v[0], w->fd2, w->buf, 1024));
}

static void j_dir(struct work *w)
{
	w->fd2 = (int)ok(w, open(w->dir, O_RDONLY | O_DIRECTORY));
}

static void s_null(struct work *w)
{
	w->fd = (int)ok(w, open("/dev/null", O_RDWR));
}

static void s_zero(struct work *w)
{
	w->fd = (int)ok(w, open("/dev/zero", O_RDWR));
}

static void s_proc(struct work *w)
{
	w->fd = (int)ok(w, open("/proc/self/status", O_RDONLY));
}

static void s_fdinfo(struct work *w)
{
	w->fd = (int)ok(w, open("/proc/self/fdinfo/0", O_RDONLY));
}

static long op_seal(struct work *w)
{
	int fd = (int)ok(w, syscall(SYS_memfd_create, "x", 2));
	ok(w, fcntl(fd, 1033, 2));
	return close(fd);
}


static long op_attribute(struct work *w)
{
	ok(w, fsetxattr(w->fd, "user.x", w->buf, 4, 0));
	return ok(w, syscall(SYS_fremovexattr, w->fd, "user.x"));
}

const struct kase files[] = {
	OP("read", read, PTO, s_file, op_read),
	OP("read-description", read, O | SAME, s_file, op_read),
	RAW("read-nothing", read, PT, s_file, FD, BUF(0), 0),
	RAW("read-null", read, PT | O | SAME, s_null, FD, BUF(0), 64),
	RAW("read-zero", read, PT | O | SAME, s_zero, FD, BUF(0), 64),
	OP("read-proc", read, PT, s_proc, op_read),
	OP("read-fdinfo", read, P, s_fdinfo, op_read),
	OP("write", write, PTO, s_file, op_write),
	OP("write-description", write, O | SAME, s_file, op_write),
	RAW("write-null", write, PT | O | SAME, s_null, FD, BUF(0), 64),
	OP("write-extend", pwrite64, PT, s_file, op_extend),
	{ "write-append", "write", PT, s_append, op_append, 0, { 0 }, 0, 0, 0 },
	RAW("pread64", pread64, PTO, s_file, FD, BUF(0), 512, 4096),
	RAW("pread64-page", pread64, PTO, s_file, FD, BUF(0), 2048, 0),
	RAW("pread64-description", pread64, O | SAME, s_file, FD, BUF(0), 512, 4096),
	RAW("pwrite64", pwrite64, PTO, s_file, FD, BUF(0), 512, 4096),
	RAW("pwrite64-description", pwrite64, O | SAME, s_file, FD, BUF(0), 512, 4096),
	OP("readv", readv, PTO, s_file, op_readv),
	OP("writev", writev, PTO, s_file, op_writev),
	RAW("preadv", preadv, PTO, s_file, FD, BUF(C_IOV), 2, 0, 0),
	RAW("pwritev", pwritev, PTO, s_file, FD, BUF(C_IOV), 2, 0, 0),
	RAW("preadv2", preadv2, PTO, s_file, FD, BUF(C_IOV), 2, 0, 0, 0),
	FAILS("preadv2-nowait", preadv2, PT, s_file, ANY, FD, BUF(C_IOV), 2, 0, 0, 8),
	RAW("pwritev2", pwritev2, PTO, s_file, FD, BUF(C_IOV), 2, 0, 0, 0),
	RAW("pwritev2-dsync", pwritev2, PT, s_file, FD, BUF(C_IOV), 2, 0, 0, 2),
	RAW("lseek-set", lseek, PTO, s_file, FD, 100, 0),
	RAW("lseek-cur", lseek, PT, s_file, FD, 0, 1),
	RAW("lseek-end", lseek, PTO, s_file, FD, 0, 2),
	RAW("lseek-data", lseek, PTO, s_file, FD, 0, 3),
	RAW("lseek-hole", lseek, PTO, s_file, FD, 0, 4),
	RAW("lseek-description", lseek, O | SAME, s_file, FD, 100, 0),
	RAW("fstat", fstat, PTO, s_file, FD, BUF(0)),
	RAW("fstat-description", fstat, O | SAME, s_file, FD, BUF(0)),
	RAW("fstatfs", fstatfs, PTO, s_file, FD, BUF(0)),
	RAW("fsync", fsync, PTO, s_file, FD),
	RAW("fdatasync", fdatasync, PTO, s_file, FD),
	RAW("sync_file_range", sync_file_range, PTO, s_file, FD, 0, 0, 2),
	RAW("sync", sync, P, 0, 0),
	RAW("syncfs", syncfs, PTO, s_file, FD),
	OP("ftruncate", ftruncate, PTO, s_file, op_ftruncate),
	RAW("ftruncate-same", ftruncate, PTO, s_file, FD, 65536),
	RAW("fallocate", fallocate, PTO, s_file, FD, 0, 0, 65536),
	RAW("fallocate-keep", fallocate, PT, s_file, FD, 1, 0, 65536),
	OP("fallocate-punch", fallocate, PT, s_file, op_punch),
	FAILS("fallocate-zero", fallocate, PT, s_file, ANY, FD, 16, 0, 4096),
	RAW("fadvise64-normal", fadvise64, PT, s_file, FD, 0, 0, 0),
	RAW("fadvise64-random", fadvise64, PT, s_file, FD, 0, 0, 1),
	RAW("fadvise64-sequential", fadvise64, PT, s_file, FD, 0, 0, 2),
	RAW("fadvise64-willneed", fadvise64, PT, s_file, FD, 0, 0, 3),
	RAW("fadvise64-dontneed", fadvise64, PTO, s_file, FD, 0, 0, 4),
	RAW("fadvise64-noreuse", fadvise64, PT, s_file, FD, 0, 0, 5),
	FAILS("readahead", readahead, PTO, s_file, ANY, FD, 0, 65536),
	OP("sendfile", sendfile, PT, s_two, op_sendfile),
	OP("copy_file_range", copy_file_range, PT, s_two, op_copy),
	RAW("fchmod", fchmod, PTO, s_file, FD, 0644),
	RAW("fchown", fchown, PTO, s_file, FD, 0, 0),
	OP("flock-shared", flock, PTO, s_file, op_flock, 1),
	OP("flock-exclusive", flock, PT, s_file, op_flock, 2),
	OP("fcntl-setlk-read", fcntl, PTO, s_file, op_lock, F_SETLK, F_RDLCK),
	OP("fcntl-setlk-write", fcntl, PTO, s_file, op_lock, F_SETLK, F_WRLCK),
	OP("fcntl-setlkw", fcntl, PT, s_file, op_lock, F_SETLKW, F_WRLCK),
	OP("fcntl-ofd-setlk", fcntl, PTO, s_file, op_lock, 37, F_WRLCK),
	OP("fcntl-ofd-setlkw", fcntl, PT, s_file, op_lock, 38, F_WRLCK),
	OP("fcntl-getlk", fcntl, PTO, s_file, op_getlk, F_GETLK),
	OP("fcntl-ofd-getlk", fcntl, PT, s_file, op_getlk, 36),
	RAW("cachestat", cachestat, PTO, s_file, FD, BUF(C_ZERO), BUF(0), 0),
	{ "getdents64", "getdents64", PTO, s_names, op_getdents, 0, { SYS_getdents64 }, 0, 0, j_dir },
	{ "getdents", "getdents", PTO, s_names, op_getdents, 0, { SYS_getdents }, 0, 0, j_dir },
	RAW("fsetxattr", fsetxattr, PTO, s_attribute, FD, TEXT("user.x"), BUF(0), 4, 0),
	RAW("fgetxattr", fgetxattr, PTO, s_attribute, FD, TEXT("user.x"), BUF(0), 64),
	FAILS("fgetxattr-none", fgetxattr, PTO, s_file, ENODATA, FD, TEXT("user.y"), BUF(0), 64),
	RAW("flistxattr", flistxattr, PTO, s_attribute, FD, BUF(0), 64),
	OP("fremovexattr", fremovexattr, PT, s_file, op_attribute),
	OP("fcntl-add-seals", fcntl, PT, 0, op_seal),
	END
};
