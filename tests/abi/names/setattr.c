/* mount_setattr: what a mount allows, changed in place, alone or with all that hang below it. */
#include "t.h"

#include <sys/mount.h>

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#define RECURSIVE 0x8000
#define EMPTY_PATH 0x1000
#define IDMAP 0x100000

struct attributes {
	uint64_t set, clear, propagation, space;
};

static char base[PATH_MAX];

static int change(int dir, const char *path, unsigned flags, void *attributes, size_t size)
{
	return syscall(SYS_mount_setattr, dir, path, flags, attributes, size);
}

/* The mounts below the test's directory as /proc/mounts shows them. */
static void shown(void)
{
	char *all = read_file("/proc/self/mounts"), *rest = all;
	for (char *line; (line = strsep(&rest, "\n")) != 0;) {
		char from[64], at[PATH_MAX], flags[256];
		size_t n = strlen(base);
		if (sscanf(line, "%63s %4095s %*s %255s", from, at, flags) == 3 && strncmp(at, base, n) == 0) {
			char *end = strstr(flags, ",inode64");
			if (end != 0)
				*end = 0;
			say("  %s %s", at + n, flags);
		}
	}
	free(all);
}

static void set(const char *path, unsigned flags, uint64_t add, uint64_t clear, uint64_t propagation)
{
	struct attributes a = { add, clear, propagation, 0 };
	errno = 0;
	int got = change(AT_FDCWD, path, flags, &a, sizeof a);
	say("%s %x: +%llx -%llx %llx: %d %s", path, flags, (unsigned long long)add, (unsigned long long)clear, (unsigned long long)propagation, got,
	    error_name(errno));
	shown();
}

static void flags(void)
{
	section("flags");
	static const uint64_t each[] = { 1, 2, 4, 8, 0x80, 0x200000 };
	for (unsigned i = 0; i < 6; i++) {
		set("m", 0, each[i], 0, 0);
		if (i % 2)
			set("m", 0, each[i - 1], each[i], 0);
	}
	set("m", 0, 0, 0x20008f, 0);
	set("m", 0, 2, 2, 0);
	set("m", 0, 0x10, 0, 0);
	set("m", 0, 0x10, 0x10, 0);
	set("m", 0, 0x10, 0x70, 0);
	set("m", 0, 0, 0x20, 0);
	set("m", 0, 0x20, 0x70, 0);
	set("m", 0, 0x30, 0x70, 0);
	set("m", 0, 0x40, 0x70, 0);
	set("m", 0, 0, 0x70, 0);
	set("m", 0x100, 2, 0, 0);
	set("m", 0x100, 0, 2, 0);
	set("m", RECURSIVE, 0x1f & ~0x10, 0, 0);
	set("m", RECURSIVE, 0x10, 0x7f, 0);
	set("m", RECURSIVE, 0, 0x7f, 0);
	for (int bit = 0; bit < 64; bit++) {
		struct attributes a = { 1ull << bit, 0, 0, -1 }, b = { 0, 1ull << bit, 0, -1 }, c = { 0, 0, 1ull << bit, 0 };
		if ((1ull << bit & 0x2000ff) == 0) {
			say("bit %d", bit);
			SHOW(change(AT_FDCWD, "m", 0, &a, sizeof a));
			SHOW(change(AT_FDCWD, "m", 0, &b, sizeof b));
		}
		if (bit != 20) {
			errno = 0;
			int got = change(AT_FDCWD, "m", 0, &c, sizeof c);
			say("propagation %d: %d %s", bit, got, error_name(errno));
		}
		if (bit < 32 && bit != 8 && bit != 11 && bit != 12 && bit != 15) {
			a.set = 2;
			errno = 0;
			int got = change(AT_FDCWD, "m", 1u << bit, &a, sizeof a);
			say("flag %d: %d %s", bit, got, error_name(errno));
		}
	}
	set("m", 0, 0, 0, MS_PRIVATE | MS_SLAVE);
	set("m", 0, 0, 2, MS_PRIVATE);
}

static void faults(void)
{
	section("faults");
	struct attributes a = { 2, 0, 0, 0 }, none = { 0 };
	static char large[5000];
	SHOW(change(AT_FDCWD, "none", 0, &a, sizeof a));
	SHOW(change(AT_FDCWD, "none", 0, &none, sizeof none));
	SHOW(change(-1, "none", 0, &none, sizeof none));
	SHOW(change(-1, "none", 0, &a, sizeof a));
	SHOW(change(AT_FDCWD, "", 0, &a, sizeof a));
	SHOW(change(AT_FDCWD, 0, 0, &a, sizeof a));
	SHOW(change(AT_FDCWD, 0, EMPTY_PATH, &a, sizeof a));
	SHOW(change(AT_FDCWD, "m/dir", 0, &a, sizeof a));
	SHOW(change(AT_FDCWD, "m", 0, 0, sizeof a));
	SHOW(change(AT_FDCWD, "none", 4, 0, 0));
	static const size_t sizes[] = { 0, 8, 31, 32, 33, 40, 4096, 4097 };
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		memset(large, 0, sizeof large);
		memcpy(large, &a, sizeof a);
		say("size %d", (int)sizes[i]);
		SHOW(change(AT_FDCWD, "m", 0, large, sizes[i]));
		large[sizes[i] > 32 && sizes[i] < 5000 ? sizes[i] - 1 : 40] = 1;
		SHOW(change(AT_FDCWD, "m", 0, large, sizes[i]));
	}
	struct attributes map = { IDMAP, 0, 0, -1 };
	SHOW(change(AT_FDCWD, "none", 0, &map, sizeof map));
	map.space = 999;
	SHOW(change(AT_FDCWD, "none", 0, &map, sizeof map));
	int fd = open("m", O_RDONLY);
	map.space = fd;
	SHOW(change(AT_FDCWD, "none", 0, &map, sizeof map));
	map.set = 0, map.clear = IDMAP;
	SHOW(change(AT_FDCWD, "none", 0, &map, sizeof map));
	int path = open("m", O_PATH);
	SHOW(change(fd, "", EMPTY_PATH, &a, sizeof a));
	SHOW(change(path, "", EMPTY_PATH, &a, sizeof a));
	map.set = IDMAP, map.clear = 0, map.space = path;
	SHOW(change(AT_FDCWD, "none", 0, &map, sizeof map));
	close(path);
	shown();
	symlink("m", "link");
	a.set = 4;
	SHOW(change(AT_FDCWD, "link", 0x100, &a, sizeof a));
	SHOW(change(AT_FDCWD, "link", 0x800, &a, sizeof a));
	unlink("link");
	shown();
	umount2("m/in", MNT_DETACH);
	int gone = open("m/in", O_RDONLY);
	close(gone);
	mount("in", "m/in", "tmpfs", 0, 0);
	gone = open("m/in", O_RDONLY);
	umount2("m/in", MNT_DETACH);
	SHOW(change(gone, "", EMPTY_PATH, &a, sizeof a));
	close(gone);
	int pipes[2];
	pipe(pipes);
	SHOW(change(pipes[0], "", EMPTY_PATH, &a, sizeof a));
	close(pipes[0]), close(pipes[1]);
	a.set = 0, a.clear = 0x20008f;
	SHOW(change(fd, "", EMPTY_PATH, &a, sizeof a));
	close(fd);
	mount("in", "m/in", "tmpfs", 0, 0);
	shown();
}

static void writers(void)
{
	section("writers");
	write_file("m/file", "text");
	write_file("m/in/file", "text");
	int fd = open("m/in/file", O_RDWR);
	set("m", 0, 1, 0, 0);
	set("m", 0, 0, 1, 0);
	set("m", RECURSIVE, 3, 0, 0);
	set("m/in", 0, 1, 0, 0);
	close(fd);
	fd = open("m/in/file", O_RDONLY);
	set("m", RECURSIVE, 1, 0, 0);
	close(fd);
	SHOW(open("m/file", O_RDWR));
	SHOW(open("m/in/file", O_RDWR));
	SHOW(open("m/in/new", O_RDWR | O_CREAT, 0644));
	set("m", RECURSIVE, 0, 1, 0);
	fd = open("m/file", O_RDWR);
	char *mapped = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	set("m", 0, 1, 0, 0);
	munmap(mapped, 4096);
	fd = open("m", O_TMPFILE | O_RDWR, 0600);
	set("m", 0, 1, 0, 0);
	close(fd);
	mkfifo("m/fifo", 0600);
	fd = open("m/fifo", O_RDWR);
	set("m", 0, 1, 0, 0);
	set("m", 0, 0, 1, 0);
	close(fd);
	mknod("m/null", S_IFCHR | 0666, 0x103);
	fd = open("m/null", O_RDWR);
	set("m", 0, 1, 0, 0);
	set("m", 0, 0, 1, 0);
	close(fd);
	fd = open("m/file", O_RDWR);
	if (must_fork() == 0) {
		close(fd);
		set("m", 0, 1, 0, 0);
		_exit(0);
	}
	wait(0);
	close(fd);
	set("m", 0, 1, 0, 0);
	set("m", 0, 0, 1, 0);
}

static void unbound(void)
{
	section("unbindable");
	mkdir("n", 0755);
	set("m", RECURSIVE, 0, 0, MS_UNBINDABLE);
	SHOW(mount("m", "n", 0, MS_BIND, 0));
	SHOW(mount("m/in", "n", 0, MS_BIND, 0));
	set("m", 0, 0, 0, MS_PRIVATE);
	SHOW(mount("m/in", "n", 0, MS_BIND, 0));
	SHOW(mount("m", "n", 0, MS_BIND | MS_REC, 0));
	SHOW(access("n/in/file", F_OK));
	umount("n");
	set("m", RECURSIVE, 2, 0, MS_SLAVE);
	SHOW(mount(0, "m", 0, MS_SLAVE | MS_REC, 0));
	SHOW(mount("m/in", "n", 0, MS_BIND, 0));
	shown();
	umount("n");
	rmdir("n");
}

static void unprivileged(void)
{
	struct { unsigned version; int pid; } head = { 0x20080522, 0 };
	struct { unsigned effective, permitted, inheritable; } data[2] = { { 0 } };
	struct attributes a = { 2, 0, 0, 0 };
	syscall(SYS_capset, &head, data);
	SHOW(change(AT_FDCWD, "m", 0, &a, sizeof a));
	SHOW(change(AT_FDCWD, "none", 0, 0, sizeof a));
	SHOW(change(AT_FDCWD, "none", 0, 0, 31));
	SHOW(change(AT_FDCWD, "none", 0, 0, 4097));
	SHOW(change(AT_FDCWD, "none", 2, 0, 31));
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	mount("none", "/", 0, MS_REC | MS_PRIVATE, 0);
	mkdir("m", 0755);
	getcwd(base, sizeof base);
	mount("m", "m", "tmpfs", 0, 0);
	mkdir("m/dir", 0755), mkdir("m/in", 0755);
	mount("in", "m/in", "tmpfs", 0, 0);
	flags();
	faults();
	writers();
	unbound();
	in_child("without rights", unprivileged);
	SHOW(umount("m/in"));
	SHOW(umount("m"));
	rmdir("m");
	return 0;
}
