/* Handles of files: name_to_handle_at and open_by_handle_at. A handle finds the file as long as there is one, under whatever name. */
#include "t.h"

#include <sys/mount.h>
#include <sys/sysmacros.h>

#define HANDLE_FID 0x200
#define MNT_ID_UNIQUE 1

struct handle {
	unsigned bytes;
	int type;
	unsigned char data[160];
};

static int encode(int dir, const char *path, void *handle, void *mount, int flags)
{
	return syscall(SYS_name_to_handle_at, dir, path, handle, mount, flags);
}

static int decode(int mount, void *handle, int flags)
{
	return syscall(SYS_open_by_handle_at, mount, handle, flags);
}

static int of(const char *path, struct handle *h)
{
	uint64_t on = 0;
	memset(h, 0, sizeof *h);
	h->bytes = 128;
	return encode(AT_FDCWD, path, h, &on, 0);
}

static char base[PATH_MAX];

/* Where a descriptor's file lies, seen from the mount. */
static void where(const char *text, int fd)
{
	char link[64], at[PATH_MAX] = "";
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	if (fd < 0)
		say("%s: %s", text, error_name(errno));
	else {
		readlink(link, at, sizeof at - 1);
		size_t n = strlen(base);
		say("%s: %s", text, strncmp(at, base, n) == 0 ? at + n : at);
	}
}

/* Opens it and closes it. */
static void opened(const char *text, int mount, struct handle *h, int flags)
{
	errno = 0;
	int fd = decode(mount, h, flags);
	where(text, fd);
	if (fd >= 0)
		close(fd);
}

static int same(int fd, const char *path)
{
	struct stat a, b;
	return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void sizes(void)
{
	section("sizes");
	struct handle h;
	uint64_t on;
	for (unsigned n = 0; n <= 16; n++) {
		memset(&h, 0xee, sizeof h);
		h.bytes = n, h.type = 77, on = ~0ull;
		errno = 0;
		int got = encode(AT_FDCWD, "t/file", &h, &on, 0);
		say("%u: %d %s, now %u type %d, mount %d %x, data %d, after %x", n, got, error_name(errno), h.bytes, h.type,
		    (int)on != -1, (unsigned)(on >> 32), h.data[0] == 0xee && h.data[4] == 0xee, h.data[12]);
	}
	for (unsigned n = 127; n <= 129; n++) {
		h.bytes = n;
		say("%u", n);
		SHOW(encode(AT_FDCWD, "t/file", &h, &on, 0));
	}
	h.bytes = -1;
	SHOW(encode(AT_FDCWD, "t/file", &h, &on, 0));
	memset(&h, 0xee, sizeof h);
	h.bytes = 13;
	SHOW(encode(AT_FDCWD, "t/file", &h, &on, HANDLE_FID));
	say("%u %d", h.bytes, h.type);
	h.bytes = 8;
	SHOW(encode(AT_FDCWD, "t/file", &h, &on, HANDLE_FID));
	say("%u %d", h.bytes, h.type);
	/* The number of the file is in it. */
	struct stat s;
	stat("t/file", &s);
	of("t/file", &h);
	uint32_t words[3];
	memcpy(words, h.data, 12);
	CHECK(words[1] == (uint32_t)s.st_ino && words[2] == (uint32_t)(s.st_ino >> 32));
}

static void faults(void)
{
	section("faults");
	struct handle h = { .bytes = 128 };
	uint64_t on = 0;
	SHOW(encode(AT_FDCWD, "t/none", &h, &on, 0));
	SHOW(encode(AT_FDCWD, "", &h, &on, 0));
	SHOW(encode(AT_FDCWD, 0, &h, &on, 0));
	SHOW(encode(AT_FDCWD, 0, &h, &on, AT_EMPTY_PATH));
	SHOW(encode(AT_FDCWD, "t/file/x", &h, &on, 0));
	SHOW(encode(-1, "t/file", &h, &on, 0));
	SHOW(encode(-1, "", &h, &on, AT_EMPTY_PATH));
	SHOW(encode(AT_FDCWD, "t/file", 0, &on, 0));
	SHOW(encode(AT_FDCWD, "t/file", &h, 0, 0));
	SHOW(encode(AT_FDCWD, "/proc/self/stat", 0, 0, 0));
	SHOW(encode(AT_FDCWD, "none", 0, 0, 0));
	for (int bit = 0; bit < 32; bit++) {
		h.bytes = 128;
		errno = 0;
		int got = encode(AT_FDCWD, "t/file", &h, &on, 1 << bit);
		if (bit != 1 || got == 0)
			say("flag %x: %d %s", 1 << bit, got, error_name(errno));
	}
	of("t/file", &h);
	int t = open("t", O_RDONLY), path = open("t", O_PATH), pipes[2];
	pipe(pipes);
	SHOW(decode(-1, &h, O_RDONLY));
	SHOW(decode(99, 0, O_RDONLY));
	SHOW(decode(t, 0, O_RDONLY));
	opened("by O_PATH", path, &h, O_RDONLY);
	opened("by a pipe", pipes[0], &h, O_RDONLY);
	opened("by what lies elsewhere", AT_FDCWD, &h, O_RDONLY);
	int proc = open("/proc", O_RDONLY);
	opened("in /proc", proc, &h, O_RDONLY);
	close(proc);
	for (int type = -2; type < 3; type++) {
		int old = h.type;
		h.type = type;
		say("type %d", type);
		opened("opened", t, &h, O_RDONLY);
		h.type = old;
	}
	h.type = 0x10001;
	opened("type 10001", t, &h, O_RDONLY);
	h.type = 0x7fffffff;
	opened("type 7fffffff", t, &h, O_RDONLY);
	of("t/file", &h);
	static const unsigned lengths[] = { 0, 1, 4, 8, 11, 12, 13, 16, 127, 128, 129, -1 };
	for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		h.bytes = lengths[i];
		say("length %u", h.bytes);
		opened("opened", t, &h, O_RDONLY);
	}
	for (int word = 0; word < 3; word++) {
		of("t/file", &h);
		h.data[word * 4 + 3] ^= 0x40;
		say("word %d is another", word);
		opened("opened", t, &h, O_RDONLY);
	}
	/* At the end of memory. */
	char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(page + 4096, 4096);
	of("t/file", &h);
	memcpy(page + 4096 - 16, &h, 16);
	opened("whole", t, (void *)(page + 4096 - 16), O_RDONLY);
	memcpy(page + 4096 - 20, &h, 20);
	opened("whole, further in", t, (void *)(page + 4096 - 20), O_RDONLY);
	memcpy(page + 4096 - 12, &h, 12);
	opened("cut", t, (void *)(page + 4096 - 12), O_RDONLY);
	*(unsigned *)(page + 4096 - 4) = 12;
	opened("no type", t, (void *)(page + 4096 - 4), O_RDONLY);
	*(unsigned *)(page + 4096 - 12) = 12;
	SHOW(encode(AT_FDCWD, "t/file", page + 4096 - 12, &on, 0));
	munmap(page, 4096);
	close(t), close(path), close(pipes[0]), close(pipes[1]);
}

static void kinds(void)
{
	section("kinds");
	struct handle h;
	int t = open("t", O_RDONLY);
	mkdir("t/dir", 0755);
	mkdir("t/dir/in", 0755);
	symlink("file", "t/link");
	mkfifo("t/fifo", 0644);
	mknod("t/null", S_IFCHR | 0666, makedev(1, 3));
	SHOW(of("t/link", &h));
	opened("a link", t, &h, O_RDONLY);
	opened("a link by O_PATH", t, &h, O_PATH);
	opened("a link by O_PATH, followed or not", t, &h, O_PATH | O_NOFOLLOW);
	opened("a link that is to be made", t, &h, O_RDWR | O_CREAT);
	uint64_t on;
	h.bytes = 128;
	SHOW(encode(AT_FDCWD, "t/link", &h, &on, AT_SYMLINK_FOLLOW));
	opened("what it leads to", t, &h, O_RDONLY);
	SHOW(of("t/fifo", &h));
	opened("a fifo", t, &h, O_RDWR);
	opened("its writer", t, &h, O_WRONLY | O_NONBLOCK);
	SHOW(of("t/null", &h));
	opened("a device", t, &h, O_RDWR);
	SHOW(of("t/dir/in", &h));
	opened("a directory", t, &h, O_RDONLY);
	opened("a directory, to write", t, &h, O_WRONLY);
	opened("a directory, as one", t, &h, O_DIRECTORY);
	opened("a directory, to be made", t, &h, O_CREAT);
	opened("a directory, to be made and written", t, &h, O_CREAT | O_EXCL | O_RDWR);
	opened("a directory, made as one", t, &h, O_CREAT | O_DIRECTORY);
	SHOW_OK(decode(t, &h, O_TMPFILE | O_RDWR));
	opened("without a name, to read", t, &h, O_TMPFILE);
	int fd = decode(t, &h, O_PATH);
	CHECK(same(fd, "t/dir/in"));
	SHOW(fchdir(fd));
	write_file("made", "here");
	SHOW(chdir("../../.."));
	close(fd);
	CHECK(access("t/dir/in/made", F_OK) == 0);
	SHOW(of("t/dir/in/made", &h));
	opened("a file", t, &h, O_RDONLY);
	opened("a file as directory", t, &h, O_DIRECTORY);
	opened("a file, to be made", t, &h, O_CREAT | O_RDWR);
	opened("a file, to be made anew", t, &h, O_CREAT | O_EXCL | O_RDWR);
	opened("a file, for one without a name", t, &h, O_TMPFILE | O_RDWR);
	fd = decode(t, &h, O_RDWR | O_TRUNC | O_CLOEXEC);
	say("flags %x, on exec %d", fcntl(fd, F_GETFL) & ~O_LARGEFILE, fcntl(fd, F_GETFD));
	SHOW(write(fd, "four", 4));
	close(fd);
	chmod("t/dir", 0);
	opened("below what nobody may enter", t, &h, O_RDONLY);
	chmod("t/dir", 0755);
	/* From any file of the mount. */
	int any = open("t/null", O_RDONLY);
	opened("from another file", any, &h, O_RDONLY);
	close(any);
	SHOW(chdir("t"));
	opened("from here", AT_FDCWD, &h, O_RDONLY);
	SHOW(chdir(".."));
	SHOW(of("t", &h));
	opened("the root", t, &h, O_RDONLY);
	/* A mount over it. */
	SHOW(of("t/dir", &h));
	mount("over", "t/dir", "tmpfs", 0, 0);
	opened("below a mount", t, &h, O_RDONLY);
	fd = decode(t, &h, O_RDONLY);
	CHECK(same(fd, "t/dir"));
	close(fd);
	umount("t/dir");
	/* A mount that may only be read. */
	mkdir("t2", 0755);
	mount("t/dir/in", "t2", 0, MS_BIND, 0);
	mount(0, "t2", 0, MS_REMOUNT | MS_BIND | MS_RDONLY, 0);
	int t2 = open("t2", O_RDONLY);
	of("t/dir/in/made", &h);
	opened("to read", t2, &h, O_RDONLY);
	opened("to write", t2, &h, O_RDWR);
	of("t/file", &h);
	opened("outside of what is bound", t2, &h, O_RDONLY);
	close(t2);
	umount("t2");
	rmdir("t2");
	close(t);
}

static void changes(void)
{
	section("names change");
	struct handle h, d;
	int t = open("t", O_RDONLY);
	mkdir("t/a", 0755), mkdir("t/b", 0755);
	write_file("t/a/one", "1");
	of("t/a/one", &h), of("t/a", &d);
	rename("t/a/one", "t/a/two");
	opened("renamed", t, &h, O_RDONLY);
	rename("t/a/two", "t/b/three");
	opened("moved", t, &h, O_RDONLY);
	rename("t/b", "t/a/b");
	opened("its directory moved", t, &h, O_RDONLY);
	rename("t/a", "t/c");
	opened("and the one above", t, &h, O_RDONLY);
	opened("that", t, &d, O_RDONLY);
	link("t/c/b/three", "t/c/four");
	unlink("t/c/b/three");
	opened("its other name", t, &h, O_RDONLY);
	link("t/c/four", "t/c/b/five");
	unlink("t/c/four");
	opened("and another", t, &h, O_RDONLY);
	int fd = open("t/c/b/five", O_RDONLY);
	unlink("t/c/b/five");
	opened("without a name, but open", t, &h, O_RDONLY);
	int again = decode(t, &h, O_RDWR);
	CHECK(lseek(again, 0, SEEK_END) == 1);
	close(fd);
	opened("open by its handle", t, &h, O_RDONLY);
	opened("open by its handle, as a path", t, &h, O_PATH);
	close(again);
	opened("gone", t, &h, O_RDONLY);
	of("t/c/b", &h);
	fd = open("t/c/b", O_RDONLY);
	rmdir("t/c/b");
	opened("a directory that is gone, but open", t, &h, O_RDONLY);
	again = decode(t, &h, O_RDONLY);
	errno = 0;
	SHOW(openat(again, "x", O_CREAT | O_RDWR, 0644));
	CHECK(same(again, "t/c/b") == 0);
	struct stat s;
	fstat(again, &s);
	say("%d links", (int)s.st_nlink);
	close(fd), close(again);
	opened("gone", t, &h, O_RDONLY);
	write_file("t/x", "x"), write_file("t/y", "y");
	of("t/x", &h);
	rename("t/y", "t/x");
	opened("replaced", t, &h, O_RDONLY);
	unlink("t/x");
	write_file("t/x", "x");
	opened("another of its name", t, &h, O_RDONLY);
	fd = open("t", O_TMPFILE | O_RDWR, 0644);
	uint64_t on;
	h.bytes = 128;
	SHOW(encode(fd, "", &h, &on, AT_EMPTY_PATH));
	again = decode(t, &h, O_RDWR);
	CHECK(again >= 0);
	char link[64];
	snprintf(link, sizeof link, "/proc/self/fd/%d", again);
	SHOW(linkat(AT_FDCWD, link, AT_FDCWD, "t/named", AT_SYMLINK_FOLLOW));
	close(again);
	opened("named", t, &h, O_RDONLY);
	SHOW(unlink("t/named"));
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	SHOW(linkat(AT_FDCWD, link, AT_FDCWD, "t/named", AT_SYMLINK_FOLLOW));
	close(fd);
	opened("gone", t, &h, O_RDONLY);
	close(t);
}

static void others(void)
{
	section("other file systems");
	struct handle h;
	uint64_t on;
	static const char *const paths[] = { "/proc", "/proc/self/stat", "/proc/self/exe", "/sys", "/dev/pts", "/dev", "/dev/null", "t" };
	for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
		say("%s", paths[i]);
		errno = 0;
		SHOW(of(paths[i], &h));
		h.bytes = 128;
		SHOW(encode(AT_FDCWD, paths[i], &h, &on, HANDLE_FID));
		say("%u %x", h.bytes, h.type);
	}
	h.bytes = 4, h.type = 3;
	SHOW(encode(AT_FDCWD, "/proc", &h, &on, HANDLE_FID));
	say("%u %d", h.bytes, h.type);
	h.bytes = 128;
	SHOW(encode(AT_FDCWD, "/proc", &h, &on, HANDLE_FID));
	struct stat s;
	stat("/proc", &s);
	uint64_t number;
	memcpy(&number, h.data, 8);
	CHECK(number == s.st_ino);
	int proc = open("/proc", O_RDONLY);
	opened("/proc", proc, &h, O_RDONLY);
	close(proc);
	int pipes[2];
	pipe(pipes);
	h.bytes = 128;
	SHOW(encode(pipes[0], "", &h, &on, AT_EMPTY_PATH));
	SHOW(encode(pipes[0], "", &h, &on, AT_EMPTY_PATH | HANDLE_FID));
	say("%u %x", h.bytes, h.type);
	SHOW(encode(pipes[0], "x", &h, &on, AT_EMPTY_PATH));
	close(pipes[0]), close(pipes[1]);
	int memory = memfd_create("text", 0);
	h.bytes = 128;
	SHOW(encode(memory, "", &h, &on, AT_EMPTY_PATH));
	say("%u %x", h.bytes, h.type);
	write(memory, "memory", 6);
	int again = decode(memory, &h, O_RDWR);
	where("a memory file", again);
	char text[16] = "";
	SHOW(read(again, text, sizeof text));
	say("%s", text);
	close(again);
	int second = memfd_create("other", 0);
	close(memory);
	opened("a memory file that is gone", second, &h, O_RDONLY);
	close(second);
	/* The mount. */
	static uint64_t x[32];
	syscall(SYS_statx, AT_FDCWD, "t/file", 0, 0x1000, x);
	int plain = 0;
	h.bytes = 128;
	SHOW(encode(AT_FDCWD, "t/file", &h, &plain, 0));
	CHECK((uint64_t)plain == x[18]);
	syscall(SYS_statx, AT_FDCWD, "t/file", 0, 0x4000, x);
	SHOW(encode(AT_FDCWD, "t/file", &h, &on, MNT_ID_UNIQUE));
	CHECK(on == x[18]);
}

static void flags(void)
{
	section("flags");
	struct handle h, d;
	of("t/file", &h), of("t/dir", &d);
	int t = open("t", O_RDONLY);
	static const int all[] = { O_RDONLY, O_WRONLY, O_RDWR, 3, O_CREAT, O_CREAT | O_RDWR, O_NOCTTY, O_TRUNC | O_RDWR, O_APPEND | O_WRONLY, O_NONBLOCK, O_DSYNC, O_SYNC,
		O_ASYNC, O_DIRECT, O_LARGEFILE, O_DIRECTORY, O_NOFOLLOW, O_NOATIME, O_CLOEXEC, O_PATH, O_EXCL, O_TMPFILE | O_RDWR };
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		int directory = all[i] & O_DIRECTORY;
		errno = 0;
		int fd = decode(t, directory ? &d : &h, all[i]);
		say("%x: %s, %x, on exec %d", all[i], error_name(errno), fd < 0 || (all[i] & O_TMPFILE) == O_TMPFILE ? 0 : fcntl(fd, F_GETFL), fd < 0 ? 0 : fcntl(fd, F_GETFD));
		close(fd);
	}
	struct stat s;
	stat("t/file", &s);
	say("%d bytes", (int)s.st_size);
	close(t);
}

static void lose(int what)
{
	struct { unsigned version; int pid; } head = { 0x20080522, 0 };
	struct { unsigned effective, permitted, inheritable; } data[2];
	syscall(SYS_capget, &head, data);
	data[what / 32].effective &= ~(1u << what % 32);
	syscall(SYS_capset, &head, data);
}

static void unprivileged(void)
{
	struct handle h;
	int t = open("t", O_RDONLY);
	lose(2);
	SHOW(of("t/file", &h));
	SHOW(decode(t, &h, O_RDONLY));
	SHOW(decode(t, &h, O_RDONLY | O_DIRECTORY));
	SHOW(decode(t, 0, O_RDONLY));
	SHOW(decode(-1, 0, O_RDONLY));
	close(t);
}

static void many(void)
{
	section("many");
	enum { FILES = 3000 };
	static struct handle all[FILES];
	int t = open("t", O_RDONLY), made = 0, found = 0, gone = 0;
	mkdir("t/many", 0755);
	for (int i = 0; i < FILES; i++) {
		char name[64];
		snprintf(name, sizeof name, "t/many/%d", i);
		write_file(name, "x");
		made += of(name, &all[i]) == 0;
	}
	for (int i = 0; i < FILES; i++) {
		char name[64];
		snprintf(name, sizeof name, "t/many/%d", i);
		int fd = decode(t, &all[i], O_RDONLY);
		found += same(fd, name);
		close(fd);
		unlink(name);
	}
	for (int i = 0; i < FILES; i += 100)
		gone += decode(t, &all[i], O_RDONLY) == -1 && errno == ESTALE;
	say("%d made, %d found, %d gone", made, found, gone);
	rmdir("t/many");
	close(t);
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	mount("none", "/", 0, MS_REC | MS_PRIVATE, 0);
	mkdir("t", 0755);
	mount("handles", "t", "tmpfs", 0, 0);
	getcwd(base, sizeof base);
	write_file("t/file", "file");
	sizes();
	faults();
	kinds();
	changes();
	others();
	flags();
	section("of the root");
	struct handle h;
	SHOW(of("/bin", &h));
	int root = open("/", O_RDONLY);
	int fd = decode(root, &h, O_RDONLY);
	CHECK(same(fd, "/bin"));
	close(fd), close(root);
	section("without the right");
	in_child("without CAP_DAC_READ_SEARCH", unprivileged);
	many();
	/* What the sections left open. */
	syscall(SYS_close_range, 3, ~0u, 0);
	SHOW(umount("t"));
	SHOW(rmdir("t"));
	return 0;
}
