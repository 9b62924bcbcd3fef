/* Calls that others have taken the place of: getdents, ustat, sysfs. */
#include "t.h"

#include <sys/mount.h>
#include <sys/statfs.h>

struct entry { unsigned long inode, next; unsigned short size; char name[]; };
struct sizes { int free; unsigned long inodes; char name[6], pack[6]; };

#define LIST(fd, buf, size) syscall(SYS_getdents, fd, buf, size)
#define USTAT(device, to) syscall(SYS_ustat, device, to)

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of a directory, `size` bytes at a time, in the order of names. */
static void list(const char *path, unsigned size)
{
	char buf[1024], *lines[64];
	int count = 0, fd = open(path, O_RDONLY | O_DIRECTORY), fine = 1;
	long n;
	while ((n = LIST(fd, buf, size)) > 0)
		for (long at = 0; at < n;) {
			struct entry *entry = (struct entry *)(buf + at);
			struct stat st;
			char text[300], whole[600];
			snprintf(whole, sizeof whole, "%s/%s", path, entry->name);
			fine &= lstat(whole, &st) == 0 && (st.st_ino == entry->inode || strcmp(entry->name, "..") == 0);
			fine &= entry->size % 8 == 0 && entry->size >= 18 + strlen(entry->name) + 2;
			snprintf(text, sizeof text, "%s: %d bytes, type %d", entry->name, entry->size, buf[at + entry->size - 1]);
			lines[count++] = strdup(text);
			at += entry->size;
		}
	close(fd);
	qsort(lines, (size_t)count, sizeof *lines, by_name);
	for (int at = 0; at < count; at++)
		say("%s", lines[at]);
	say("ends with %ld, %s", n, fine ? "as stat says" : "not as stat says");
}

static void directories(void)
{
	section("getdents");
	mkdir("d", 0755), mkdir("d/sub", 0755);
	write_file("d/f", ""), write_file("d/sixteen-letters", ""), write_file("d/a-name-of-twenty-two-", "");
	symlink("f", "d/link"), mkfifo("d/fifo", 0600), mknod("d/null", S_IFCHR | 0600, 0x103);
	list("d", 1024);
	list("d", 64);
	char buf[1024];
	int fd = open("d", O_RDONLY), file = open("d/f", O_RDONLY), place = open("d", O_PATH);
	SHOW(LIST(fd, buf, 0));
	SHOW(LIST(fd, buf, 10));
	SHOW(LIST(file, buf, 1024));
	SHOW(LIST(place, buf, 1024));
	SHOW(LIST(99, buf, 1024));
	SHOW(LIST(fd, (void *)1, 1024));
	/* A place that was told can be gone back to. */
	LIST(fd, buf, 64);
	unsigned long next = ((struct entry *)buf)->next;
	char name[64];
	lseek(fd, (off_t)next, SEEK_SET);
	LIST(fd, buf, 64);
	snprintf(name, sizeof name, "%.63s", ((struct entry *)buf)->name);
	lseek(fd, (off_t)next, SEEK_SET);
	LIST(fd, buf, 1024);
	CHECK(strcmp(name, ((struct entry *)buf)->name) == 0);
	int removed = open("d/sub", O_RDONLY);
	rmdir("d/sub");
	SHOW(LIST(removed, buf, 1024));
}

static void free_space(void)
{
	section("ustat");
	mkdir("m", 0755);
	mount("none", "m", "tmpfs", 0, "size=1m,nr_inodes=10");
	struct stat st;
	stat("m", &st);
	struct sizes sizes;
	memset(&sizes, 0x55, sizeof sizes);
	say("%d bytes", (int)sizeof sizes);
	SHOW(USTAT(st.st_dev, &sizes));
	say("%d blocks, %lu inodes, names %d", sizes.free, sizes.inodes, sizes.name[0] | sizes.name[5] | sizes.pack[0] | sizes.pack[5]);
	for (size_t at = 0; at < sizeof sizes; at++)
		if (((char *)&sizes)[at] == 0x55)
			say("byte %d is not written", (int)at);
	write_file("m/file", "text");
	SHOW(USTAT(st.st_dev, &sizes));
	say("%d blocks, %lu inodes", sizes.free, sizes.inodes);
	SHOW(USTAT(st.st_dev, 1L));
	umount("m");
	SHOW(USTAT(st.st_dev, &sizes));
	SHOW(USTAT(st.st_dev, 1L));
	SHOW(USTAT(0xffffffff, &sizes));
	stat("/proc", &st);
	SHOW(USTAT(st.st_dev, &sizes));
	say("%d blocks, %lu inodes", sizes.free, sizes.inodes);
	int ends[2];
	pipe(ends);
	fstat(ends[0], &st);
	SHOW(USTAT(st.st_dev, &sizes));
	say("%d blocks, %lu inodes", sizes.free, sizes.inodes);
}

static void kinds(void)
{
	section("sysfs");
	long count = syscall(SYS_sysfs, 3);
	if (count < 0) {
		say("%s", error_name(errno));
		return;
	}
	CHECK(count > 3);
	/* As /proc/filesystems has them. */
	char *text = read_file("/proc/filesystems"), *line = text, name[64];
	int fine = 1, lines = 0;
	for (char *end; line && (end = strchr(line, '\n')); line = end + 1, lines++) {
		*end = 0;
		char *kind = strchr(line, '\t') + 1;
		long index = syscall(SYS_sysfs, 1, kind);
		fine &= index == lines && syscall(SYS_sysfs, 2, index, name) == 0 && strcmp(name, kind) == 0;
	}
	CHECK(fine && lines == count);
	SHOW(syscall(SYS_sysfs, 1, "no such kind"));
	SHOW(syscall(SYS_sysfs, 1, ""));
	SHOW(syscall(SYS_sysfs, 1, 1L));
	SHOW(syscall(SYS_sysfs, 2, count, name));
	SHOW(syscall(SYS_sysfs, 2, -1, name));
	SHOW(syscall(SYS_sysfs, 2, 0, 1L));
	SHOW(syscall(SYS_sysfs, 0));
	SHOW(syscall(SYS_sysfs, 4));
	static char much[5000];
	memset(much, 'x', 4999);
	SHOW(syscall(SYS_sysfs, 1, much));
}

int main(void)
{
	directories();
	free_space();
	kinds();
	return 0;
}
