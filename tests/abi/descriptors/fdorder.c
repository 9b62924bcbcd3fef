/*
 * Calls on descriptors with more than one fault, and on those that refer to no file at all. Found by comparing random programs with Linux
 * (darter-fuzz compare).
 */
#include "t.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#define FAR 0x7ffffffffffff000l

static int file, directory, pipes[2], event, timer, signals, epoll, path_only, proc_directory, proc_text, null, memory;
static char byte[8192], *hole;

/* musl has neither. */
static long preadv2(int fd, const struct iovec *list, int count, long at, int flags)
{
	return syscall(SYS_preadv2, fd, list, count, at, 0, flags);
}

static long pwritev2(int fd, const struct iovec *list, int count, long at, int flags)
{
	return syscall(SYS_pwritev2, fd, list, count, at, 0, flags);
}

/* A descriptor of anon_inode: root's, of no kind. */
static void nameless(const char *name, int fd)
{
	char link[64];
	struct stat st;
	section(name);
	if (fstat(fd, &st) == 0)
		say("%s: mode %o uid %d gid %d links %d", name, st.st_mode, st.st_uid, st.st_gid, (int)st.st_nlink);
	SHOW(ftruncate(fd, FAR));
	SHOW(ftruncate(fd, 0));
	SHOW(ftruncate(fd, -1));
	SHOW(fchmod(fd, 0600));
	SHOW(fchown(fd, -1, -1));
	SHOW(futimens(fd, 0));
	SHOW(fsync(fd));
	SHOW(syncfs(fd));
	SHOW(fdatasync(fd));
	SHOW(readahead(fd, 0, 1));
	SHOW(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED));
	SHOW(posix_fadvise(fd, 0, -1, POSIX_FADV_WILLNEED));
	SHOW(posix_fadvise(fd, 0, 0, 99));
	SHOW(fallocate(fd, 0, 0, 1));
	SHOW(syscall(SYS_getdents64, fd, byte, sizeof byte));
	SHOW(fchdir(fd));
	SHOW_PTR(mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
	SHOW(faccessat(fd, "", W_OK, AT_EMPTY_PATH));
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	SHOW(open(link, O_RDONLY));
	SHOW(open(link, O_RDONLY | O_DIRECTORY));
	SHOW(access(link, R_OK));
	SHOW(chmod(link, 0600));
	SHOW(truncate(link, 0));
}

static void everyone(void)
{
	nameless("eventfd", event);
	nameless("timerfd", timer);
	nameless("signalfd", signals);
	nameless("epoll", epoll);
	nameless("pipe", pipes[0]);
}

static void positions(void)
{
	section("lseek");
	SHOW(lseek(pipes[0], 0, 5));
	SHOW(lseek(pipes[0], 0, -1));
	SHOW(lseek(pipes[0], 0, 4));
	SHOW(lseek(event, 5, 99));
	SHOW(lseek(event, -5, SEEK_SET));
	SHOW(lseek(path_only, 0, 99));
	SHOW(lseek(99, 0, 99));
	SHOW(lseek(directory, 0, 99));
	SHOW(lseek(null, 5, 99));
	SHOW(lseek(null, 5, SEEK_SET));
	/* What is written there moves nothing. */
	SHOW(write(null, "abc", 3));
	SHOW(lseek(null, 0, SEEK_CUR));
	SHOW(lseek(directory, 0, SEEK_END));
	SHOW(lseek(proc_directory, 0x740, SEEK_END));
	SHOW(lseek(proc_directory, 0, SEEK_DATA));
	SHOW(lseek(proc_directory, -1, SEEK_SET));
	SHOW(lseek(proc_directory, 0, SEEK_SET));
	section("flock");
	SHOW(flock(99, 0x2005));
	SHOW(flock(99, LOCK_SH | LOCK_EX));
	SHOW(flock(path_only, 0));
	SHOW(flock(path_only, LOCK_SH));
	section("fallocate");
	SHOW(fallocate(file, 0x40, 6, FAR));
	SHOW(fallocate(file, 0x40, 6, 8));
	SHOW(fallocate(file, 0x41, 6, 8));
	SHOW(fallocate(file, 0x08, 0, FAR));
	SHOW(fallocate(file, 0x40, 0x1000, FAR));
	SHOW(fallocate(file, 0, 0x1000, FAR));
	section("O_DIRECT");
	SHOW(fcntl(file, F_SETFL, O_DIRECT));
	SHOW(fcntl(file, F_GETFL) & O_DIRECT);
	SHOW(fcntl(file, F_SETFL, 0));
	SHOW(fcntl(null, F_SETFL, O_DIRECT));
	SHOW(fcntl(directory, F_SETFL, O_DIRECT));
	SHOW(fcntl(event, F_SETFL, O_DIRECT | O_NONBLOCK));
	SHOW(fcntl(proc_text, F_SETFL, O_DIRECT));
	SHOW(fcntl(memory, F_SETFL, O_DIRECT));
	SHOW(open("/dev/null", O_RDONLY | O_DIRECT));
	SHOW(open(".", O_RDONLY | O_DIRECT));
	SHOW(open("/proc/self/stat", O_RDONLY | O_DIRECT));
	SHOW(open("file", O_RDONLY | O_DIRECT) >= 0);
	SHOW(open("new", O_RDWR | O_CREAT | O_DIRECT, 0600) >= 0);
	SHOW(open("/dev/null", O_PATH | O_DIRECT) >= 0);
	section("sendfile");
	long far = FAR, top = 0x7fffffffffffffff;
	SHOW(sendfile(directory, file, &top, 4096));
	SHOW(sendfile(99, file, &top, 4096));
	SHOW(sendfile(directory, file, &far, 4096));
	SHOW(sendfile(99, file, &far, 4095));
	SHOW(sendfile(directory, file, 0, 4096));
	SHOW(sendfile(directory, file, &(long){ 0 }, -1));
	section("syncing and reading ahead");
	SHOW(fsync(proc_directory));
	SHOW(fdatasync(proc_directory));
	SHOW(fsync(proc_text));
	SHOW(fsync(null));
	SHOW(fsync(directory));
	SHOW(readahead(file, 0, -1));
	SHOW(readahead(file, -1, 1));
	SHOW(readahead(file, 0, 0));
	SHOW(readahead(directory, 0, 1));
	SHOW(readahead(null, 0, 1));
	SHOW(readahead(proc_text, 0, 1));
	SHOW(readahead(proc_text, 0, -1));
	SHOW(readahead(path_only, 0, 1));
}

static void flags(void)
{
	struct iovec one = { byte, 8 }, none = { byte, 0 }, wrong = { byte, -1 };
	section("flags of preadv2 and pwritev2");
	SHOW(preadv2(99, &one, 1, 0, 0x4000));
	SHOW(preadv2(path_only, &one, 1, 0, 0x4000));
	SHOW(preadv2(file, &one, 1, -2, 0x4000));
	SHOW(preadv2(file, &wrong, 1, 0, 0x4000));
	SHOW(preadv2(file, &one, 1, 0, 0x4000));
	SHOW(preadv2(pipes[0], &one, 1, 0, 0x4000));
	SHOW(preadv2(pipes[1], &one, 1, -1, 0x4000));
	SHOW(preadv2(pipes[0], &one, 1, -1, 0x4000));
	SHOW(preadv2(directory, &one, 1, 0, 0));
	SHOW(preadv2(directory, &one, 1, 0, 1));
	SHOW(preadv2(directory, &one, 1, 0, 2));
	SHOW(preadv2(directory, &one, 1, 0, 4));
	SHOW(preadv2(directory, &one, 1, -1, 4));
	SHOW(preadv2(directory, &none, 1, 0, 4));
	SHOW(preadv2(proc_text, &one, 1, 0, 4));
	SHOW(preadv2(null, &one, 1, 0, 4));
	SHOW(preadv2(event, &one, 1, -1, 4));
	SHOW(preadv2(timer, &one, 1, -1, 4));
	SHOW(preadv2(epoll, &one, 1, -1, 0x4000));
	SHOW(pwritev2(event, &one, 1, -1, 4));
	SHOW(pwritev2(event, &one, 1, -1, 0x4000));
	SHOW(pwritev2(file, &one, 1, 0, 0x4000));
	SHOW(pwritev2(file, &one, 1, -2, 0x4000));
	SHOW(pwritev2(path_only, &one, 1, 0, 0x4000));
	SHOW(pwritev2(pipes[0], &one, 1, -1, 0x4000));
	SHOW(pwritev2(timer, &one, 1, -1, 0x4000));
}

/* Memory that ends amid what is read or written. */
static void torn(void)
{
	char *end = hole + 4096;
	uint64_t one = 1;
	section("torn");
	SHOW(write(event, &one, 8));
	SHOW(readv(event, (struct iovec[]){ { byte, 2 }, { end, 6 } }, 2));
	SHOW(write(event, &one, 8));
	SHOW(read(event, end - 3, 8));
	SHOW(write(event, &one, 8));
	SHOW(readv(event, (struct iovec[]){ { byte, 2 }, { byte, 1 }, { byte, 5 } }, 3));
	SHOW(write(event, end - 4, 8));
	SHOW(writev(event, (struct iovec[]){ { &one, 8 }, { byte, 0 }, { end, 1 } }, 3));
	SHOW(writev(event, (struct iovec[]){ { &one, 8 }, { end, 8 } }, 2));
	SHOW(writev(event, (struct iovec[]){ { byte, 0 }, { &one, 8 } }, 2));
	SHOW(read(event, byte, 8));
	struct itimerspec soon = { .it_value = { 0, 1 } };
	SHOW(timerfd_settime(timer, 0, &soon, 0));
	nap(20);
	SHOW(read(timer, end - 3, 8));
	SHOW(timerfd_settime(timer, 0, &soon, 0));
	nap(20);
	SHOW(read(timer, end, 8));
	SHOW(read(timer, byte, 8));
	raise(SIGUSR1);
	SHOW(read(signals, end - 100, 128));
	SHOW(read(signals, byte, 128));
	raise(SIGUSR1);
	SHOW(readv(signals, (struct iovec[]){ { byte, 100 }, { end, 28 } }, 2));
	SHOW(read(signals, byte, 128));
	section("vmsplice");
	SHOW(vmsplice(pipes[1], (struct iovec[]){ { byte, 8 }, { byte, 8 }, { end, 1 }, { byte, 8 } }, 4, 0));
	SHOW(vmsplice(pipes[1], (struct iovec[]){ { end - 5, 8 }, { byte, 8 } }, 2, 0));
	SHOW(vmsplice(pipes[1], (struct iovec[]){ { end, 8 }, { byte, 8 } }, 2, 0));
	SHOW(read(pipes[0], byte, 100));
}

static void waiting(void)
{
	fd_set set;
	section("times of select");
	FD_ZERO(&set);
	FD_SET(63, &set);
	SHOW(syscall(SYS_select, 64, &set, 0, 0, &(struct timeval){ 0x7fffffffffffffff, 1000000 }));
	SHOW(syscall(SYS_select, 64, &set, 0, 0, &(struct timeval){ 0x7fffffffffffffff, 999999 }));
	SHOW(syscall(SYS_select, 64, &set, 0, 0, &(struct timeval){ 0, -1 }));
	SHOW(syscall(SYS_select, -1, &set, 0, 0, &(struct timeval){ 0, -1 }));
	SHOW(syscall(SYS_select, -1, &set, 0, 0, &(struct timeval){ 0, 1 }));
	SHOW(syscall(SYS_select, 0, 0, 0, 0, &(struct timeval){ -1, 1000000 }));
	SHOW(syscall(SYS_select, 0, 0, 0, 0, &(struct timeval){ -2, 1000000 }));
	SHOW(pselect(64, &set, 0, 0, &(struct timespec){ 0, 1000000000 }, 0));
}

static void unprivileged(void)
{
	if (setresuid(1000, 1000, 1000) != 0)
		exit(1);
	everyone();
	int own = eventfd(0, 0);
	nameless("own eventfd", own);
	exit(0);
}

int main(void)
{
	sigset_t usr1;
	sigemptyset(&usr1), sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, 0);
	write_file("file", "0123456789");
	file = open("file", O_RDWR), directory = open(".", O_RDONLY), path_only = open("file", O_PATH);
	proc_directory = open("/proc/self", O_RDONLY), proc_text = open("/proc/self/stat", O_RDONLY), null = open("/dev/null", O_RDWR);
	if (pipe2(pipes, O_NONBLOCK) != 0)
		return 1;
	event = eventfd(0, EFD_NONBLOCK), epoll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	signals = signalfd(-1, &usr1, SFD_NONBLOCK);
	memory = memfd_create("memory", 0);
	hole = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(hole + 4096, 4096);
	everyone();
	positions();
	flags();
	torn();
	waiting();
	section("without rights");
	in_child("without rights", unprivileged);
	return 0;
}
