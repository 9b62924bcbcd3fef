/*
 * The texts of /proc as files: where they can be read and written, how lseek counts in them, what becomes of a write of nothing, and how far a
 * transfer out of them reaches. A line is a text.
 */
#include "t.h"
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define TOP 0x7fffffffffffffffl
#define UNMAPPED ((char *)0x1000)

static const char *const names[] = {
	"self/auxv", "self/cmdline", "self/comm", "self/coredump_filter", "self/environ", "self/limits", "self/maps", "self/mountinfo", "self/mounts",
	"self/oom_adj", "self/oom_score", "self/oom_score_adj", "self/smaps_rollup", "self/stat", "self/statm", "self/status", "self/timerslack_ns",
	"self/wchan", "self/fdinfo/0", "cmdline", "cpuinfo", "devices", "filesystems", "interrupts", "loadavg", "locks", "meminfo", "partitions", "stat",
	"uptime", "version", "vmstat", "sys/kernel/hostname", "sys/kernel/ostype", "sys/kernel/core_pattern",
	"sys/kernel/core_uses_pid", "sys/kernel/randomize_va_space", "sys/kernel/random/uuid", "sys/fs/file-nr", "sys/fs/nr_open",
	"sys/fs/pipe-max-size", "sys/vm/max_map_count", "sys/vm/overcommit_memory",
};

static char line[1024];

static void result(long value)
{
	size_t used = strlen(line);
	if (value < 0)
		snprintf(line + used, sizeof line - used, " %s", error_name(errno));
	else
		snprintf(line + used, sizeof line - used, " %lx", value);
}

/* Where it succeeds, how much there is differs from kernel to kernel. */
static void success(long value)
{
	result(value < 0 ? -1 : value > 0);
}

static void begin(const char *what, const char *name)
{
	snprintf(line, sizeof line, "%s %s:", what, name);
}

static void end(void)
{
	say("%s", line);
}

static void seeking(const char *name, int fd)
{
	static const long offsets[] = { 0, 1, -1, 0x80000000, TOP, LONG_MIN };
	begin("lseek", name);
	for (int from = 0; from < 6; from++)
		for (unsigned n = 0; n < sizeof offsets / sizeof *offsets; n++) {
			lseek(fd, 0, SEEK_SET);
			result(lseek(fd, offsets[n], from));
		}
	lseek(fd, 0, SEEK_SET);
	end();
}

static void reading(const char *name, int fd, int out)
{
	char byte;
	struct iovec one = { &byte, 1 };
	begin("read", name);
	result(pread(fd, &byte, 1, 0));
	/* A number of the settings ends with what is read first. */
	if (strncmp(name, "sys/", 4) != 0)
		success(pread(fd, &byte, 1, 1));
	result(pread(fd, &byte, 1, TOP));
	result(pread(fd, &byte, 1, TOP - 4));
	result(pread(fd, &byte, 0, 0x80000000));
	result(pwrite(fd, &byte, 1, 0));
	result(pwrite(fd, &byte, 1, TOP));
	result(syscall(SYS_preadv2, fd, &one, 1, 0l, 0, 4));
	result(syscall(SYS_pwritev2, fd, &one, 1, 0l, 0, 4));
	result(syscall(SYS_pwritev2, fd, &one, 1, -1l, 0, 4));
	static const long places[] = { 0x7ffffffe, 0x7fffffff, 0x80000000, TOP - 8 };
	for (unsigned n = 0; n < sizeof places / sizeof *places; n++) {
		off_t at = places[n];
		result(sendfile(out, fd, &at, 0));
		at = places[n];
		result(sendfile(out, fd, &at, 1));
		at = places[n];
		result(syscall(SYS_copy_file_range, fd, &at, out, 0, 1, 0));
	}
	result(syscall(SYS_copy_file_range, fd, 0, out, 0, 1, 0));
	struct pollfd poller = { fd, POLLIN | POLLOUT | POLLPRI, 0 };
	result(poll(&poller, 1, 0));
	result(poller.revents);
	result(ftruncate(fd, 0));
	result(fallocate(fd, 0, 0, 1));
	result(mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
	end();
}

static void writing(const char *name, const char *path)
{
	int fd = open(path, O_RDWR), out[2];
	begin("write", name);
	result(fd < 0 ? -1 : 0);
	result(open(path, O_WRONLY | O_TRUNC) < 0 ? -1 : 0);
	if (fd >= 0 && pipe(out) == 0) {
		result(write(fd, line, 0));
		result(write(fd, UNMAPPED, 0));
		result(write(fd, UNMAPPED, 8));
		result(write(fd, "\1\1\1", 3));
		result(pwrite(fd, UNMAPPED, 8, 0));
		result(pwrite(fd, line, 0, 0));
		result(pwrite(fd, line, 0, 5));
		result(syscall(SYS_pwritev2, fd, &(struct iovec){ UNMAPPED, 1 }, 1, -1l, 0, 4));
		result(syscall(SYS_pwritev2, fd, &(struct iovec){ line, 0 }, 1, -1l, 0, 4));
		result(ftruncate(fd, 0));
		result(fallocate(fd, 0, 0, 1));
		write(out[1], "x", 1);
		if (strncmp(name, "sys/", 4) != 0)
			result(syscall(SYS_splice, out[0], 0, fd, &(long){ 0 }, 8, 2));
		result(syscall(SYS_splice, out[0], 0, fd, 0, 8, 2));
		close(out[0]), close(out[1]);
	}
	close(fd);
	end();
}

int main(void)
{
	int out = open("out", O_RDWR | O_CREAT, 0600), fd;
	for (unsigned n = 0; n < sizeof names / sizeof *names; n++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/%s", names[n]);
		fd = open(path, O_RDONLY);
		if (fd < 0) {
			say("%s: %s", names[n], error_name(errno));
			continue;
		}
		seeking(names[n], fd);
		reading(names[n], fd, out);
		close(fd);
		writing(names[n], path);
	}
	section("a name of nothing");
	char text[32];
	fd = open("/proc/self/comm", O_RDWR);
	SHOW(write(fd, "name", 4));
	SHOW(write(fd, text, 0));
	SHOW(pread(fd, text, sizeof text, 0));
	/* What stands is what was written last. */
	SHOW(write(fd, "0123456789abcdefghij", 20));
	ssize_t got = pread(fd, text, sizeof text - 1, 0);
	say("%.*s", (int)got, text);
	return 0;
}
