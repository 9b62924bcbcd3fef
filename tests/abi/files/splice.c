/* vmsplice, splice and tee at the edges of a pipe; and calls on files that must not say yes to what they do not do. */
#include "t.h"
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/uio.h>

enum { MOVE = 1, NONBLOCK = 2, MORE = 4, GIFT = 8 };

static char *pages;

static ssize_t give(int fd, size_t len, unsigned flags)
{
	struct iovec from = { pages, len };
	return vmsplice(fd, &from, 1, flags);
}

static void no_reader(void)
{
	int ends[2];
	pipe(ends);
	close(ends[0]);
	signal(SIGPIPE, SIG_IGN);
	SHOW(give(ends[1], 4096, 0));
	signal(SIGPIPE, SIG_DFL);
	give(ends[1], 4096, 0);
}

static void larger(void)
{
	section("vmsplice");
	int ends[2];
	pipe(ends);
	alarm(30);
	SHOW(give(ends[1], 1 << 20, 0));
	SHOW(give(ends[1], 4096, NONBLOCK));
	SHOW(fcntl(ends[1], F_SETFL, O_NONBLOCK));
	SHOW(give(ends[1], 4096, NONBLOCK | GIFT));
	pid_t pid = must_fork();
	if (pid == 0) {
		static char out[8192];
		nap(200);
		_exit(read(ends[0], out, sizeof out) == 8192 ? 0 : 1);
	}
	/* It waits for room though the file does not wait, and takes what fits. */
	SHOW(give(ends[1], 1 << 20, 0) > 0);
	wait_for(pid);
	SHOW(give(ends[1], 0, 0));
	SHOW(give(ends[1], 4096, 16));
	SHOW(give(999, 4096, 0));
	SHOW(vmsplice(ends[1], (void *)8, 1, 0));
	SHOW(vmsplice(ends[1], (void *)8, 0, 0));
	SHOW(vmsplice(ends[1], (void *)8, 2000, 0));
	struct iovec bad = { (void *)8, 100 };
	close(ends[0]), close(ends[1]);
	pipe(ends);
	SHOW(vmsplice(ends[1], &bad, 1, 0));
	SHOW(write(ends[1], "hello", 5));
	struct iovec to = { pages, 4096 };
	SHOW(vmsplice(ends[0], &to, 1, 0));
	SHOW(vmsplice(ends[0], &to, 1, NONBLOCK));
	close(ends[1]);
	SHOW(vmsplice(ends[0], &to, 1, 0));
	int file = open("file", O_RDWR | O_CREAT, 0600), path = open("file", O_PATH);
	SHOW(give(file, 4096, 0));
	SHOW(give(path, 4096, 0));
	in_child("no reader", no_reader);
	int first[2], second[2];
	pipe(first), pipe(second);
	fcntl(first[0], F_SETFL, O_NONBLOCK);
	SHOW(tee(first[0], second[1], 100, 0));
	SHOW(splice(first[0], 0, second[1], 0, 100, 0));
	alarm(0);
}

/* What the file does not take stays in the pipe. */
static void does_not_fit(void)
{
	section("splice where a file takes less");
	static char out[1 << 21];
	int ends[2], left;
	pipe(ends);
	for (int i = 0; i < 26; i++)
		memset(out + 100 * i, 'a' + i, 100);
	SHOW(write(ends[1], out, 2600));
	int sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
	SHOW(fcntl(sealed, F_ADD_SEALS, F_SEAL_GROW));
	SHOW(splice(ends[0], 0, sealed, 0, 1000, 0));
	SHOW(ioctl(ends[0], FIONREAD, &left)), SHOW(left);
	signal(SIGXFSZ, SIG_IGN);
	int file = open("short", O_RDWR | O_CREAT | O_TRUNC, 0600);
	SHOW(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 1050, RLIM_INFINITY }));
	SHOW(splice(ends[0], 0, file, 0, 2000, 0));
	SHOW(lseek(file, 0, SEEK_CUR));
	SHOW(ioctl(ends[0], FIONREAD, &left)), SHOW(left);
	SHOW(splice(ends[0], 0, file, 0, 2000, 0));
	loff_t at = 1040;
	SHOW(splice(ends[0], 0, file, &at, 2000, 0)), SHOW(at);
	SHOW(ioctl(ends[0], FIONREAD, &left)), SHOW(left);
	SHOW(read(ends[0], out, sizeof out)), SHOW(out[0]), SHOW(out[1539]);
	SHOW(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY }));
	SHOW(mkdir("small", 0700));
	SHOW(mount("none", "small", "tmpfs", 0, "size=64k"));
	int small = open("small/file", O_RDWR | O_CREAT, 0600);
	SHOW(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20));
	SHOW(write(ends[1], out, 1 << 20));
	SHOW(splice(ends[0], 0, small, 0, 1 << 20, 0));
	SHOW(splice(ends[0], 0, small, 0, 1 << 20, 0));
	SHOW(ioctl(ends[0], FIONREAD, &left)), SHOW(left);
	int big = open("big", O_RDWR | O_CREAT | O_TRUNC, 0600);
	SHOW(splice(ends[0], 0, big, 0, 500000, 0));
	SHOW(splice(ends[0], 0, big, 0, 1 << 20, 0));
	SHOW(splice(ends[0], 0, big, 0, 1 << 20, NONBLOCK));
	SHOW(ftruncate(big, 1 << 20));
	SHOW(lseek(big, 0, SEEK_SET));
	SHOW(splice(big, 0, ends[1], 0, 1 << 21, 0));
	SHOW(lseek(big, 0, SEEK_CUR));
	SHOW(splice(big, 0, ends[1], 0, 1 << 21, NONBLOCK));
	close(small), umount("small");
	/* Between pipes: one end that does not wait is enough. */
	int next[2];
	pipe(next);
	SHOW(splice(ends[0], 0, next[1], 0, 1 << 20, 0));
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	SHOW(splice(ends[0], 0, next[1], 0, 1 << 20, 0));
	SHOW(tee(ends[0], next[1], 1 << 20, 0));
	SHOW(read(next[0], out, 4096));
	SHOW(tee(ends[0], next[1], 1 << 20, 0));
	SHOW(ioctl(ends[0], FIONREAD, &left)), SHOW(left);
	close(next[0]);
	signal(SIGPIPE, SIG_IGN);
	SHOW(splice(ends[0], 0, next[1], 0, 1 << 20, 0));
	SHOW(tee(ends[0], next[1], 1 << 20, 0));
	SHOW(ioctl(ends[0], FIONREAD, &left)), SHOW(left);
}

/* Each page that a part lies in takes one of the pipe's. */
static void in_parts(void)
{
	section("vmsplice of parts");
	int ends[2];
	pipe(ends);
	struct iovec parts[] = { { pages, 110 }, { pages + 4096 + 752, 1 << 18 }, { pages, 8 } };
	SHOW(vmsplice(ends[1], parts, 3, 0));
	close(ends[0]), close(ends[1]);
	pipe(ends);
	struct iovec few[] = { { pages + 4090, 12 }, { pages, 0 }, { pages + 8192, 4096 }, { pages + 1, 4096 } };
	SHOW(vmsplice(ends[1], few, 4, 0));
	struct iovec many[20];
	for (int i = 0; i < 20; i++)
		many[i] = (struct iovec){ pages + 5000 * i, 10 };
	close(ends[0]), close(ends[1]);
	pipe(ends);
	SHOW(vmsplice(ends[1], many, 20, 0));
	close(ends[0]), close(ends[1]);
}

static void refused(void)
{
	section("refused");
	int file = open("file", O_RDWR | O_CREAT, 0600), path = open("file", O_PATH), ends[2];
	pipe(ends);
	SHOW(posix_fadvise(file, 0, -1, POSIX_FADV_NORMAL));
	SHOW(posix_fadvise(file, -5, 10, POSIX_FADV_DONTNEED));
	SHOW(posix_fadvise(file, 0, 0, 6));
	SHOW(posix_fadvise(path, 0, 0, 0));
	SHOW(posix_fadvise(ends[0], 0, -1, 9));
	SHOW(open(".", O_TMPFILE | O_CREAT | O_RDWR, 0600));
	SHOW(open(".", O_TMPFILE | O_RDONLY, 0600));
	SHOW_OK(open(".", O_TMPFILE | O_RDWR, 0600));
	SHOW(fcntl(file, F_GETOWN));
	SHOW(fcntl(file, F_GETSIG));
	chmod(".", 0777);
	int others = open("/proc/version", O_RDONLY);
	setuid(1000);
	SHOW(fcntl(others, F_SETFL, O_NOATIME));
	SHOW(fcntl(file, F_SETFL, O_NOATIME));
}

int main(void)
{
	pages = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(pages, 'x', 1 << 20);
	larger();
	in_parts();
	does_not_fit();
	refused();
	return 0;
}
