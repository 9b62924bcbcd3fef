/*
 * Calls with more than one fault: which of them is told. Found by comparing random programs with Linux (darter-fuzz compare).
 */
#include "t.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_WAIT_BITSET 9
#define FUTEX_CLOCK_REALTIME 256
#define FAR 0x7ffffffffffff000l
/* Volatile, so that the compiler does not see through it. */
static void *volatile bad_pointer = (void *)0x10;
#define BAD bad_pointer

static int file, directory, pipes[2], event, epoll, path_only;
static char byte[8192];

static void positions(void)
{
	section("positions");
	SHOW(pread(pipes[1], byte, 8, 0));
	SHOW(pwrite(pipes[0], byte, 8, 0));
	SHOW(pread(path_only, byte, 8, 0));
	SHOW(pread(file, byte, sizeof byte, FAR));
	SHOW(pwrite(file, byte, sizeof byte, FAR));
	SHOW(pread(file, byte, 1, -1));
	SHOW(pread(-1, byte, 1, -1));
	SHOW(pread(directory, byte, sizeof byte, FAR));
	long far = FAR, below = -1;
	SHOW(splice(pipes[1], &far, pipes[1], 0, 8, 0));
	SHOW(splice(pipes[0], 0, pipes[1], &far, 8, 0));
	SHOW(splice(pipes[0], 0, 99, &far, 8, 0));
	SHOW(splice(pipes[1], 0, file, &below, 8, 0));
	SHOW(sendfile(path_only, file, &below, 8));
	SHOW(sendfile(99, file, &below, 8));
	SHOW(sendfile(99, pipes[0], &far, 8));
	SHOW(sendfile(pipes[0], file, 0, 8));
	SHOW(sendfile(99, 98, BAD, 8));
}

static void vectors(void)
{
	section("vectors");
	struct iovec none[2] = { { byte, 0 }, { 0, 0 } }, wrong = { byte, -1 };
	SHOW(readv(event, none, 0));
	SHOW(writev(event, none, 2));
	SHOW(readv(directory, none, 2));
	SHOW(preadv(directory, none, 0, 0));
	SHOW(readv(epoll, none, 0));
	SHOW(writev(epoll, none, 1));
	SHOW(readv(epoll, BAD, 3));
	SHOW(writev(pipes[0], BAD, 3));
	SHOW(writev(pipes[0], &wrong, 1));
	SHOW(readv(pipes[1], none, 5000));
	SHOW(pwritev(pipes[0], BAD, 3, 0));
	SHOW(pwritev(pipes[0], none, 1, -1));
	int signals = signalfd(-1, &(sigset_t){ 0 }, 0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	SHOW(writev(signals, none, 1));
	SHOW(writev(timer, none, 1));
	SHOW(write(signals, byte, 0));
	close(signals), close(timer);
	section("eventfd");
	SHOW(write(event, (uint64_t[2]){ 1, 1 }, 16));
	SHOW(write(event, (uint64_t[2]){ 1, 1 }, 7));
	SHOW(write(event, (uint64_t[2]){ 1, 1 }, 8));
	uint64_t two = 2, most = UINT64_MAX;
	SHOW(writev(event, (struct iovec[]){ { &two, 8 }, { &two, 8 } }, 2));
	SHOW(writev(event, (struct iovec[]){ { &two, 8 }, { &two, 4 } }, 2));
	SHOW(writev(event, (struct iovec[]){ { &two, 8 }, { &most, 8 } }, 2));
	SHOW(writev(event, (struct iovec[]){ { &two, 4 }, { &two, 4 } }, 2));
	SHOW(read(event, byte, 16));
	say("%d", byte[0]);
}

static void files(void)
{
	section("syncing");
	SHOW(fsync(event));
	SHOW(fdatasync(epoll));
	SHOW(fsync(pipes[0]));
	SHOW(fsync(file));
	SHOW(fsync(directory));
	SHOW(fsync(path_only));
	SHOW(readahead(event, 0, 8));
	SHOW(readahead(file, 0, 8));
	SHOW(readahead(pipes[0], 0, 8));
	section("fallocate");
	int reads = open("file", O_RDONLY);
	SHOW(fallocate(99, 0, -1, 0));
	SHOW(fallocate(reads, 0, -1, 1));
	SHOW(fallocate(reads, 0x80, 0, 1));
	SHOW(fallocate(reads, FALLOC_FL_PUNCH_HOLE, 0, 1));
	SHOW(fallocate(reads, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1));
	SHOW(fallocate(reads, 0, FAR, FAR));
	SHOW(fallocate(pipes[1], 0x80, 0, 1));
	SHOW(fallocate(pipes[1], 0, FAR, FAR));
	SHOW(fallocate(event, 0, FAR, FAR));
	SHOW(fallocate(file, 0x80, FAR, FAR));
	SHOW(fallocate(file, 8 | FALLOC_FL_KEEP_SIZE, 0, 4096));
	SHOW(fallocate(file, 0, FAR, FAR));
	close(reads);
	section("copy_file_range");
	long zero = 0, below = -1;
	SHOW(copy_file_range(99, 0, file, 0, 8, 1));
	SHOW(copy_file_range(file, BAD, file, 0, 8, 1));
	SHOW(copy_file_range(file, 0, directory, 0, 8, 1));
	SHOW(copy_file_range(directory, 0, directory, 0, 8, 0));
	SHOW(copy_file_range(pipes[1], 0, pipes[0], 0, 8, 0));
	SHOW(copy_file_range(file, &below, file, 0, 8, 0));
	SHOW(copy_file_range(file, &(long){ 4096 }, file, &(long){ 4097 }, 100, 0));
	SHOW(copy_file_range(file, &zero, file, &(long){ 1 }, 100, 0));
	SHOW(copy_file_range(file, &(long){ 0 }, file, &(long){ 4 }, 3, 0));
	section("seals");
	SHOW(fcntl(file, F_GET_SEALS));
	SHOW(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
	SHOW(fcntl(event, F_GET_SEALS));
	SHOW(fcntl(pipes[0], F_ADD_SEALS, 0));
}

static void names(void)
{
	section("neither read nor write");
	SHOW(open(".", 3));
	SHOW(open(".", 3 | O_PATH) >= 0);
	mkfifo("fifo", 0600);
	SHOW(open("fifo", 3));
	int odd = open("file", 3);
	SHOW(odd >= 0);
	SHOW(read(odd, byte, 1));
	SHOW(write(odd, byte, 1));
	SHOW(fcntl(odd, F_GETFL) & O_ACCMODE);
	close(odd);
	section("times");
	struct timespec bad[2] = { { 0, 0 }, { 0, 1000000000 } }, omit[2] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } };
	SHOW(utimensat(AT_FDCWD, "nowhere", bad, 0));
	SHOW(utimensat(AT_FDCWD, "nowhere", omit, 0));
	SHOW(utimensat(99, "nowhere", omit, 0));
	SHOW(utimensat(AT_FDCWD, "file", bad, 0));
	SHOW(utimensat(AT_FDCWD, "nowhere", bad, 0x10));
	SHOW(syscall(SYS_utimensat, AT_FDCWD, "nowhere", BAD, 0));
	SHOW(syscall(SYS_utimensat, 99, 0, bad, 0));
	section("nodes");
	SHOW(mknod("file", S_IFCHR | 0600, 0x103));
	SHOW(mknod("file", S_IFDIR | 0600, 0));
	SHOW(mknod("file", 0120600, 0));
	SHOW(mknod("file", 0170600, 0));
	SHOW(mknod("nowhere/new", S_IFBLK | 0600, 0));
	section("mounts");
	static char longer[8192];
	memset(longer, 'a', sizeof longer - 1);
	SHOW(mount(longer, ".", "tmpfs", 0, 0));
	SHOW(mount("a", ".", longer, 0, 0));
	SHOW(mount("a", longer, "tmpfs", 0, 0));
}

static void others(void)
{
	section("memory");
	void *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	SHOW_PTR(mmap(page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, FAR));
	SHOW_PTR(mmap(page, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, FAR));
	SHOW_PTR(mmap(page, 4096, PROT_READ, MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1, FAR));
	SHOW_PTR(mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, FAR));
	SHOW(msync(page, -1, 0));
	SHOW(msync(page, -1, MS_SYNC | MS_ASYNC));
	SHOW(msync((char *)page + 1, -1, 0));
	SHOW(msync(page, -4096, 0));
	section("limits");
	SHOW(syscall(SYS_setrlimit, RLIMIT_CORE, 0));
	SHOW(syscall(SYS_setrlimit, 99, 0));
	SHOW(syscall(SYS_getrlimit, RLIMIT_CORE, 0));
	SHOW(syscall(SYS_getrlimit, 99, 0));
	section("futex");
	int word = 1;
	SHOW(syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 0, 0, 0, 0));
	SHOW(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, 0, 0, 1));
	SHOW(syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 0, 0, 0, 1));
	section("ioctl");
	SHOW(ioctl(epoll, TIOCEXCL));
	SHOW(ioctl(event, TIOCEXCL));
	SHOW(ioctl(pipes[0], TIOCEXCL));
	section("signals");
	siginfo_t info = { .si_code = 5 };
	SHOW(syscall(SYS_rt_tgsigqueueinfo, 0, 1, 12, &info));
	SHOW(syscall(SYS_rt_tgsigqueueinfo, 1, 0, 12, BAD));
	SHOW(syscall(SYS_rt_tgsigqueueinfo, getpid(), 1, 12, &info));
	SHOW(syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), 0, &info));
	SHOW(syscall(SYS_rt_tgsigqueueinfo, 1, getpid(), 12, &info));
	SHOW(syscall(SYS_rt_sigqueueinfo, 1, 99, &info));
	SHOW(syscall(SYS_rt_sigqueueinfo, getpid(), 99, &info));
}

/* Without rights, for which some calls ask last. */
static void unprivileged(void)
{
	if (setresuid(1000, 1000, 1000) != 0)
		exit(1);
	SHOW(mknod("file", S_IFCHR | 0600, 0x103));
	SHOW(mknod("new", S_IFCHR | 0600, 0x103));
	SHOW(syscall(SYS_timer_create, CLOCK_BOOTTIME_ALARM, 0, 0));
	SHOW(syscall(SYS_timer_create, CLOCK_BOOTTIME_ALARM, BAD, 0));
	SHOW(syscall(SYS_timer_create, CLOCK_BOOTTIME_ALARM, 0, &(int){ 0 }));
	SHOW(timerfd_create(CLOCK_BOOTTIME_ALARM, 0));
	SHOW(clock_nanosleep(CLOCK_BOOTTIME_ALARM, 0, &(struct timespec){ 0, 1 }, 0));
	SHOW(clock_nanosleep(CLOCK_BOOTTIME_ALARM, 0, &(struct timespec){ 0, -1 }, 0));
	exit(0);
}

int main(void)
{
	write_file("file", "0123456789");
	mkdir("dir", 0755);
	file = open("file", O_RDWR), directory = open(".", O_RDONLY), path_only = open("file", O_PATH);
	if (pipe(pipes) != 0)
		return 1;
	event = eventfd(0, EFD_NONBLOCK), epoll = epoll_create1(0);
	positions();
	vectors();
	files();
	names();
	others();
	section("without rights");
	chmod(".", 0755);
	in_child("without rights", unprivileged);
	return 0;
}
