/*
 * Calls that move bytes, on descriptors of each kind, with a buffer, a place, a length or flags that are bad, and with several of them: which
 * fault is told. A line is a call on one kind, and has a result for each of its arguments.
 */
#include "t.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#define FAR ((char *)0xffff800000000000)
#define UNMAPPED ((char *)0x1000)
#define TOP 0x7fffffffffffffffl

static char room[4096];
static int target, pipes[2];
static struct kind { const char *name; int fd; } kinds[32];
static unsigned count;

static void add(const char *name, int fd)
{
	if (fd < 0)
		say("%s: %s", name, error_name(errno));
	kinds[count++] = (struct kind){ name, fd };
}

/* The line being made. */
static char line[512];

static void begin(const char *call, const struct kind *kind)
{
	snprintf(line, sizeof line, "%s %s:", call, kind->name);
}

static void result(long value)
{
	size_t used = strlen(line);
	if (value < 0)
		snprintf(line + used, sizeof line - used, " %s", error_name(errno));
	else
		snprintf(line + used, sizeof line - used, " %ld", value);
}

static const struct { char *at; long len; } buffers[] = {
	{ room, 0 }, { FAR, 0 }, { UNMAPPED, 0 }, { FAR, 8 }, { UNMAPPED, 8 }, { room, -1 }, { room, 1l << 62 },
};
static const long places[] = { -1, -2, LONG_MIN, TOP, TOP - 4 };
/* From here on no file here knows them. Nothing is moved with any of them, so such calls would show nothing. */
enum { UNKNOWN = 64 };
static const int flags[] = { 1, 2, 8, 16, 32, 48, 64, 128, 0x40000000 };
#define EACH(index, list) for (unsigned index = 0; index < sizeof list / sizeof *list; index++)

static void plain(const struct kind *kind)
{
	int fd = kind->fd;
	begin("read", kind);
	EACH(b, buffers)
		result(read(fd, buffers[b].at, buffers[b].len));
	say("%s", line);
	begin("write", kind);
	EACH(b, buffers)
		result(write(fd, buffers[b].at, buffers[b].len));
	say("%s", line);
	begin("pread", kind);
	EACH(p, places) {
		result(pread(fd, room, 8, places[p]));
		result(pread(fd, room, 0, places[p]));
		result(pread(fd, FAR, 8, places[p]));
		result(pread(fd, room, 1l << 40, places[p]));
	}
	say("%s", line);
	begin("where it stands", kind);
	EACH(p, places) {
		if (places[p] < 0 || lseek(fd, places[p], SEEK_SET) < 0)
			continue;
		result(read(fd, room, 8));
		result(read(fd, room, 0));
		result(read(fd, FAR, 8));
		result(write(fd, UNMAPPED, 8));
		result(write(fd, room, 0));
		result(syscall(SYS_preadv2, fd, &(struct iovec){ UNMAPPED, 8 }, 1, -1L, 0, 0x40000000));
		result(sendfile(target, fd, 0, 8));
		result(syscall(SYS_splice, fd, 0, pipes[1], 0, 8, 2));
		result(syscall(SYS_copy_file_range, fd, 0, target, 0, 8, 0));
	}
	lseek(fd, 0, SEEK_SET);
	say("%s", line);
	begin("pwrite", kind);
	EACH(p, places) {
		result(pwrite(fd, FAR, 0, places[p]));
		result(pwrite(fd, FAR, 8, places[p]));
		result(pwrite(fd, UNMAPPED, 1l << 40, places[p]));
	}
	say("%s", line);
}

static const struct { struct iovec of[2]; int count; } lists[] = {
	{ { { room, 0 } }, 1 }, { { { FAR, 8 } }, 1 }, { { { UNMAPPED, 8 } }, 1 }, { { { room, -1 } }, 1 }, { { { room, 8 } }, -1 }, { { { room, 8 } }, 1025 },
	{ { { room, 0 }, { FAR, 0 } }, 2 }, { { { room, 0 }, { FAR, 8 } }, 2 }, { { { room, 0 } }, 0 },
};

static void vectors(const struct kind *kind)
{
	int fd = kind->fd;
	begin("readv", kind);
	EACH(l, lists)
		result(syscall(SYS_readv, fd, lists[l].of, lists[l].count));
	result(syscall(SYS_readv, fd, UNMAPPED, 1));
	result(syscall(SYS_readv, fd, FAR, 1));
	result(syscall(SYS_readv, fd, UNMAPPED, 0));
	say("%s", line);
	begin("writev", kind);
	EACH(l, lists)
		result(syscall(SYS_writev, fd, lists[l].of, lists[l].count));
	result(syscall(SYS_writev, fd, UNMAPPED, 1));
	result(syscall(SYS_writev, fd, UNMAPPED, 0));
	say("%s", line);
	static const struct iovec some = { UNMAPPED, 8 }, none = { room, 0 }, bad = { FAR, 8 };
	EACH(p, places) {
		begin("preadv2", kind);
		EACH(f, flags) {
			result(syscall(SYS_preadv2, fd, &some, 1, places[p], 0, flags[f]));
			if (flags[f] < UNKNOWN)
				result(syscall(SYS_preadv2, fd, &none, 1, places[p], 0, flags[f]));
		}
		result(syscall(SYS_preadv2, fd, &bad, 1, places[p], 0, 0x40000000));
		say("%s, at %lx", line, places[p]);
		begin("pwritev2", kind);
		EACH(f, flags) {
			result(syscall(SYS_pwritev2, fd, &some, 1, places[p], 0, flags[f]));
			if (flags[f] < UNKNOWN)
				result(syscall(SYS_pwritev2, fd, &none, 1, places[p], 0, flags[f]));
		}
		result(syscall(SYS_pwritev2, fd, &bad, 1, places[p], 0, 0x40000000));
		say("%s, at %lx", line, places[p]);
	}
}

static void between(const struct kind *kind)
{
	int fd = kind->fd;
	static const long at[] = { 0, -1, LONG_MIN, TOP, TOP - 4 };
	begin("sendfile from", kind);
	EACH(p, at) {
		off_t place = at[p];
		result(sendfile(target, fd, &place, 0));
		result(sendfile(target, fd, &place, -1));
		result(sendfile(99, fd, &place, 8));
		result(sendfile(target, fd, (off_t *)UNMAPPED, 8));
	}
	say("%s", line);
	begin("sendfile to", kind);
	result(sendfile(fd, 99, 0, 8));
	result(sendfile(fd, target, 0, 0));
	result(sendfile(fd, target, 0, -1));
	result(sendfile(fd, target, &(off_t){ -1 }, 8));
	say("%s", line);
	begin("copy_file_range", kind);
	EACH(p, at) {
		long place = at[p];
		result(syscall(SYS_copy_file_range, fd, &place, target, 0, 0, 0));
		result(syscall(SYS_copy_file_range, fd, &place, target, 0, 8, 1));
		result(syscall(SYS_copy_file_range, fd, &place, target, &place, -1, 0));
		result(syscall(SYS_copy_file_range, target, &place, fd, 0, 0, 0));
		result(syscall(SYS_copy_file_range, target, 0, fd, &place, 4096, 0));
	}
	result(syscall(SYS_copy_file_range, fd, UNMAPPED, target, 0, 8, 0));
	result(syscall(SYS_copy_file_range, fd, UNMAPPED, 99, 0, 8, 0));
	say("%s", line);
	begin("splice", kind);
	EACH(p, at) {
		long place = at[p];
		result(syscall(SYS_splice, fd, &place, pipes[1], 0, 0, 0));
		result(syscall(SYS_splice, fd, &place, pipes[1], 0, 8, 0x100));
		result(syscall(SYS_splice, fd, &place, pipes[1], &place, 8, 2));
		result(syscall(SYS_splice, pipes[0], 0, fd, &place, 8, 2));
		result(syscall(SYS_splice, fd, &place, target, &place, 8, 2));
	}
	result(syscall(SYS_splice, fd, UNMAPPED, pipes[1], 0, 8, 2));
	result(syscall(SYS_splice, pipes[0], UNMAPPED, fd, 0, 8, 2));
	result(syscall(SYS_splice, fd, 0, 99, 0, 8, 2));
	result(syscall(SYS_splice, 99, 0, fd, 0, 8, 2));
	say("%s", line);
	begin("tee and vmsplice", kind);
	result(syscall(SYS_tee, fd, pipes[1], 0, 2));
	result(syscall(SYS_tee, fd, pipes[1], 8, 0x102));
	result(syscall(SYS_tee, pipes[0], fd, 8, 2));
	result(syscall(SYS_tee, fd, 99, 8, 2));
	result(syscall(SYS_vmsplice, fd, UNMAPPED, 0, 2));
	result(syscall(SYS_vmsplice, fd, UNMAPPED, 1, 2));
	result(syscall(SYS_vmsplice, fd, UNMAPPED, 1, 0x100));
	result(syscall(SYS_vmsplice, fd, UNMAPPED, 1025, 2));
	say("%s", line);
}

static void whole(const struct kind *kind)
{
	int fd = kind->fd;
	static const long ranges[][2] = { { 0, 0 }, { 0, 8 }, { -1, 8 }, { 0, -1 }, { TOP, 8 }, { 8, TOP }, { 4096, LONG_MIN } };
	begin("readahead", kind);
	EACH(r, ranges)
		result(syscall(SYS_readahead, fd, ranges[r][0], ranges[r][1]));
	say("%s", line);
	begin("fadvise", kind);
	EACH(r, ranges)
		for (int advice = -1; advice < 8; advice += 4)
			result(syscall(SYS_fadvise64, fd, ranges[r][0], ranges[r][1], advice));
	say("%s", line);
	begin("sync_file_range", kind);
	EACH(r, ranges)
		for (int how = 0; how < 16; how += 7)
			result(syscall(SYS_sync_file_range, fd, ranges[r][0], ranges[r][1], how));
	say("%s", line);
	begin("fallocate", kind);
	static const int modes[] = { 0x100, 0x08, 0x12, 2, 0x13, 0x1b, 0x43, 0x21, 0x41 };
	EACH(r, ranges)
		EACH(m, modes)
			result(syscall(SYS_fallocate, fd, modes[m], ranges[r][0], ranges[r][1]));
	say("%s", line);
	begin("ftruncate", kind);
	result(ftruncate(fd, -1));
	result(ftruncate(fd, LONG_MIN));
	say("%s", line);
	begin("lseek", kind);
	for (int from = -1; from < 6; from++) {
		result(lseek(fd, -1, from));
		result(lseek(fd, LONG_MIN, from));
		result(lseek(fd, TOP, from));
		result(lseek(fd, 0, SEEK_SET));
	}
	say("%s", line);
	begin("getdents", kind);
	result(syscall(SYS_getdents64, fd, FAR, 8));
	result(syscall(SYS_getdents64, fd, room, 0));
	result(syscall(SYS_getdents64, fd, room, 8));
	lseek(fd, 0, SEEK_SET);
	result(syscall(SYS_getdents64, fd, UNMAPPED, 4096));
	say("%s", line);
}

int main(void)
{
	sigset_t usr1;
	sigemptyset(&usr1), sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, 0);
	signal(SIGPIPE, SIG_IGN);
	write_file("file", ""), write_file("target", "");
	target = open("target", O_RDWR);
	if (mkdir("dir", 0700) != 0 || mkfifo("fifo", 0600) != 0 || pipe2(pipes, O_NONBLOCK) != 0)
		return 1;
	int ends[2], closed[2];
	if (pipe2(ends, O_NONBLOCK) != 0 || pipe2(closed, O_NONBLOCK) != 0)
		return 1;
	close(closed[1]);
	add("no descriptor", 98);
	add("file", open("file", O_RDWR));
	add("file to read", open("file", O_RDONLY));
	add("file to write", open("file", O_WRONLY));
	add("file to append to", open("file", O_RDWR | O_APPEND));
	add("file for neither", open("file", 3));
	add("path", open("file", O_PATH));
	add("directory", open("dir", O_RDONLY));
	add("memory file", memfd_create("memory", MFD_ALLOW_SEALING));
	add("pipe to read", ends[0]);
	add("pipe to write", ends[1]);
	add("pipe that ended", closed[0]);
	add("fifo", open("fifo", O_RDWR | O_NONBLOCK));
	add("event", eventfd(0, EFD_NONBLOCK));
	add("timer", timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
	add("signals", signalfd(-1, &usr1, SFD_NONBLOCK));
	add("epoll", epoll_create1(0));
	add("process", (int)syscall(SYS_pidfd_open, getpid(), 0));
	add("null", open("/dev/null", O_RDWR));
	add("zero", open("/dev/zero", O_RDWR));
	add("full", open("/dev/full", O_RDWR));
	add("random", open("/dev/urandom", O_RDONLY));
	add("terminal", open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK));
	add("text of /proc", open("/proc/self/stat", O_RDONLY));
	add("setting", open("/proc/self/comm", O_RDWR));
	add("directory of /proc", open("/proc/self", O_RDONLY));
	for (unsigned k = 0; k < count; k++) {
		section(kinds[k].name);
		plain(&kinds[k]);
		vectors(&kinds[k]);
		between(&kinds[k]);
		whole(&kinds[k]);
	}
	return 0;
}
