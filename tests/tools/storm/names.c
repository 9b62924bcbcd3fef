/* Storms of names and files in memory: deep and wide directories, and a file system that is full. */
#include "storm.h"
#include <sys/resource.h>
#include <sys/xattr.h>

enum { LEVELS = 10000, NAMES = 100000 };

/* A directory in a directory in a directory. What is left goes with the file system. */
static void deep(void)
{
	char path[4200];
	int top = open(".", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < LEVELS * scale; i++, did())
		if (mkdir("d", 0700) != 0 || chdir("d") != 0)
			_exit(7);
	/* What walks the whole way. */
	if (getcwd(path, sizeof path) || (errno != ENAMETOOLONG && errno != ERANGE))
		_exit(8);
	for (int i = 0; i < 50; i++)
		if (renameat(top, "d", AT_FDCWD, "below") == 0)
			_exit(9);
	for (int i = 0; i < 4000; i += 2)
		memcpy(path + i, i % 200 ? "d/" : "./", 2);
	path[4000] = 0;
	fchdir(top);
	for (int i = 0; i < 50; i++)
		if (access(path, F_OK) != 0)
			_exit(10);
	refused(0);
}

/* One directory of many names, which are listed and in part removed. */
static void wide(void)
{
	char name[64], text[32768];
	long listed = 0, n;
	for (int i = 0; i < NAMES * scale; i++, did()) {
		snprintf(name, sizeof name, "a-name-of-some-length-%d", i);
		if (mknod(name, S_IFREG | 0600, 0) != 0)
			_exit(errno);
	}
	int fd = open(".", O_RDONLY | O_DIRECTORY);
	while ((n = syscall(SYS_getdents64, fd, text, sizeof text)) > 0)
		for (long at = 0; at < n; at += *(unsigned short *)(text + at + 16))
			listed++;
	if (listed != NAMES * scale + 2)
		_exit(8);
	for (int i = 0; i < NAMES * scale; i += 5) {
		snprintf(name, sizeof name, "a-name-of-some-length-%d", i);
		if (unlink(name) != 0)
			_exit(9);
	}
}

/* As many files as the file system takes. */
static void names(void)
{
	char name[256];
	memset(name, 'n', sizeof name);
	for (long i = 0;; i++, did()) {
		snprintf(name + 230, 20, "%ld", i);
		if (mknod(name, S_IFREG | 0600, 0) != 0) {
			refused(errno);
			return;
		}
	}
}

/* One file with as many attributes as the file system takes. */
static void attributes(void)
{
	static char value[960];
	char name[32];
	close(open("file", O_CREAT | O_RDWR, 0600));
	for (long i = 0;; i++, did()) {
		snprintf(name, sizeof name, "user.%ld", i);
		if (setxattr("file", name, value, sizeof value, 0) != 0) {
			refused(errno);
			return;
		}
	}
}

/* Directories that each have two lists of 64 KB, which the file system does not count. */
static void lists(void)
{
	static char list[65536];
	uint64_t *entry = (uint64_t *)(list + 4);
	memcpy(list, &(uint32_t){ 2 }, 4);
	*entry++ = ~0UL << 32 | 7 << 16 | 1, *entry++ = ~0UL << 32 | 7 << 16 | 4;
	for (uint64_t i = 0; i < 8000; i++)
		*entry++ = (1000 + i) << 32 | 7 << 16 | 8;
	*entry++ = ~0UL << 32 | 7 << 16 | 16, *entry++ = ~0UL << 32 | 7 << 16 | 32;
	if (mkdir("own", 0700) != 0 || chdir("own") != 0 || setxattr(".", "system.posix_acl_default", list, (size_t)((char *)entry - list), 0) != 0)
		_exit(7);
	char name[32];
	for (long i = 0;; i++, did()) {
		snprintf(name, sizeof name, "%ld", i);
		if (mkdir(name, 0777) != 0) {
			refused(errno);
			return;
		}
	}
}

static void fill(long step)
{
	static char bytes[65536];
	int fd = open("file", O_CREAT | O_RDWR, 0600);
	for (long at = 0;; at += step, did())
		if (pwrite(fd, bytes, step > 65536 ? 1 : sizeof bytes, at) < 0) {
			refused(errno);
			return;
		}
}

static void full(void) { fill(65536); }
/* A page and the nodes that lead to it, again and again. */
static void sparse(void) { fill(1L << 30); }

const struct storm name_storms[] = {
	{ "deep", deep, UNBOUNDED, LEVELS, 4000, "0,nr_inodes=0" },
	{ "wide", wide, UNBOUNDED, NAMES, 8000, "0,nr_inodes=0" },
	{ "names", names, ENOSPC, 20000, 4000, 0 },
	{ "attributes", attributes, ENOSPC, 20000, 4000, 0 },
	{ "lists", lists, ENOSPC, 500, 4000, "64m,nr_inodes=1000" },
	{ "full", full, ENOSPC, 900, 4000, 0 },
	{ "sparse", sparse, ENOSPC, 3000, 4000, 0 },
	{ 0 },
};
