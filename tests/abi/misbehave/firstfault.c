/*
 * Calls with more than one fault, and what a call has done when it fails. Found by comparing random programs with Linux (darter-fuzz compare).
 */
#include "t.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#define PAGE 4096ul

static char bytes[8192], *page;
static int file, path_only;

static void vectors(void)
{
	section("vectors");
	int fresh = open("fresh", O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct iovec wide = { bytes, 1ul << 57 }, most = { bytes, LONG_MAX }, negative = { bytes, -1 };
	struct iovec far = { (void *)0xffff800000000000, 8 };
	SHOW(readv(fresh, &wide, 1));
	SHOW(readv(fresh, &most, 1));
	SHOW(readv(fresh, &negative, 1));
	SHOW(readv(fresh, &far, 1));
	SHOW(readv(fresh, (struct iovec[]){ wide, { bytes, 8 } }, 2));
	SHOW(readv(fresh, (struct iovec[]){ { bytes, 8 }, wide }, 2));
	SHOW(readv(fresh, (struct iovec[]){ far, negative }, 2));
	SHOW(writev(fresh, (struct iovec[]){ { bytes, 8 }, far, negative }, 3));
	SHOW(pwritev(fresh, (struct iovec[]){ wide, negative }, 2, 0));
	section("a write of nothing");
	int end = open("fresh", O_RDWR | O_APPEND);
	SHOW(pwrite(fresh, "0123456789", 10, 0));
	SHOW(write(end, bytes, 0));
	SHOW(lseek(end, 0, SEEK_CUR));
	SHOW(writev(end, &(struct iovec){ bytes, 0 }, 1));
	SHOW(lseek(end, 0, SEEK_CUR));
	SHOW(write(end, bytes, 1));
	SHOW(lseek(end, 0, SEEK_CUR));
	close(end), close(fresh);
}

static void descriptors(void)
{
	section("opened for nothing");
	int nothing = open("file", 3);
	SHOW(flock(nothing, LOCK_SH));
	SHOW(flock(nothing, LOCK_EX | LOCK_NB));
	SHOW(flock(nothing, LOCK_UN));
	SHOW(flock(99, 32 | LOCK_SH));
	close(nothing);
	section("opened as a path");
	sigset_t none;
	struct itimerspec times;
	struct epoll_event event;
	int epoll = epoll_create1(0);
	sigemptyset(&none);
	SHOW(signalfd(path_only, &none, 0));
	SHOW(timerfd_gettime(path_only, &times));
	SHOW(timerfd_settime(path_only, 0, &(struct itimerspec){ 0 }, 0));
	SHOW(epoll_wait(path_only, &event, 1, 0));
	SHOW(epoll_ctl(path_only, EPOLL_CTL_DEL, file, 0));
	SHOW(epoll_ctl(epoll, EPOLL_CTL_DEL, path_only, 0));
	section("watching a memory file");
	int memory = memfd_create("memory", 0);
	SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, memory, &event));
	SHOW(epoll_ctl(memory, EPOLL_CTL_MOD, memory, &event));
	section("moving bytes out of what only reads");
	int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR), counter = eventfd(1, EFD_NONBLOCK);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), signals = signalfd(-1, &none, SFD_NONBLOCK), pipes[2];
	int empty = open("empty", O_RDWR | O_CREAT, 0600);
	if (pipe2(pipes, O_NONBLOCK) != 0)
		exit(1);
	SHOW(sendfile(epoll, null, 0, 8));
	SHOW(sendfile(file, null, &(off_t){ 3 }, 8));
	SHOW(sendfile(file, null, 0, 0));
	SHOW(sendfile(epoll, epoll, &(off_t){ 0 }, 8));
	SHOW(sendfile(epoll, epoll, 0, 8));
	SHOW(sendfile(file, epoll, &(off_t){ -1 }, 8));
	SHOW(sendfile(file, empty, 0, 8));
	SHOW(sendfile(pipes[1], null, 0, 8));
	SHOW(sendfile(pipes[1], zero, 0, 8));
	SHOW(splice(null, 0, pipes[1], 0, 8, 0));
	SHOW(splice(counter, 0, pipes[1], 0, 8, 0));
	SHOW(splice(timer, 0, pipes[1], 0, 8, 0));
	SHOW(splice(signals, 0, pipes[1], 0, 128, 0));
	SHOW(splice(zero, 0, pipes[1], 0, 8, 0));
	close(memory), close(epoll), close(null), close(zero), close(counter), close(timer), close(signals), close(empty);
	close(pipes[0]), close(pipes[1]);
}

static void names(void)
{
	section("opening");
	SHOW(open("fifo", O_WRONLY | O_NONBLOCK | O_DIRECT));
	SHOW(open("fifo", O_RDONLY | O_NONBLOCK | O_DIRECT));
	SHOW(open("/dev/null", O_RDONLY | O_DIRECT));
	SHOW(open("dir/.", O_CREAT | O_EXCL, 0600));
	SHOW(open("dir/..", O_CREAT | O_EXCL, 0600));
	SHOW(open("dir/./", O_CREAT | O_EXCL, 0600));
	SHOW(open("dir/.", O_CREAT, 0600));
	SHOW(open("dir/", O_CREAT | O_EXCL, 0600));
	SHOW(open("new/", O_CREAT | O_EXCL, 0600));
	SHOW(open("/", O_CREAT | O_EXCL, 0600));
	section("renaming");
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "file/", AT_FDCWD, "dir", 1));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "file", AT_FDCWD, "file/", 2));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "dir", AT_FDCWD, "file/", 2));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "file/", AT_FDCWD, "dir/", 2));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "file/", AT_FDCWD, "nothing", 2));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "dir", AT_FDCWD, "dir/in/it", 2));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "dir", AT_FDCWD, "dir/in", 1));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "dir", AT_FDCWD, "dir/in/", 0));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "dir/in", AT_FDCWD, "dir", 0));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "dir/in", AT_FDCWD, "dir/", 1));
	section("a directory of the kernel's");
	int proc = open("/proc/self", O_RDONLY | O_DIRECTORY);
	SHOW(lseek(proc, 0x7fffffff, SEEK_SET));
	SHOW(lseek(proc, 1, SEEK_CUR));
	SHOW(lseek(proc, 0x80000000, SEEK_SET));
	SHOW(lseek(proc, 0x40000000000, SEEK_CUR));
	close(proc);
}

static void processes(void)
{
	section("a descriptor of a process");
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	char byte;
	SHOW(ftruncate(fd, 8));
	SHOW(ftruncate(fd, -1));
	SHOW(ftruncate(fd, 0x7fffffff));
	SHOW(ftruncate(fd, 0x80000000));
	SHOW(fallocate(fd, 0, 0, 8));
	SHOW(fallocate(fd, 0x80, 0, 8));
	SHOW(pread(fd, &byte, 1, 0));
	SHOW(pwrite(fd, &byte, 1, 0));
	SHOW(pwritev(fd, &(struct iovec){ (void *)0xffff800000000000, 8 }, 1, 0));
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(ioctl(fd, 0x5413, bytes));
	SHOW(ioctl(fd, 0x5413, 0));
	SHOW(ioctl(fd, 0x12345678, 1));
	SHOW(fcntl(fd, 1036, &(uint64_t){ 3 }));
	SHOW(fcntl(file, 1036, &(uint64_t){ 3 }));
	SHOW(fcntl(file, 1036, &(uint64_t){ 9 }));
	SHOW(fcntl(file, 1036, (void *)16));
	SHOW(fchmod(fd, 0600));
	SHOW(fchown(fd, 0, 0));
	SHOW(futimens(fd, (struct timespec[]){ { 1, 1 }, { 1, 1 } }));
	SHOW(fsync(fd));
	SHOW(posix_fadvise(fd, 0, 0, 99));
	SHOW_PTR(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, fd, 0));
	SHOW(sendfile(fd, file, 0, 8));
	SHOW(sendfile(file, fd, 0, 8));
	SHOW(flock(fd, LOCK_SH));
	SHOW(syscall(SYS_getdents64, fd, bytes, sizeof bytes));
	close(fd);
	section("signals");
	siginfo_t made = { .si_code = SI_QUEUE };
	SHOW(syscall(SYS_rt_sigqueueinfo, 0x7fffffff, -1, &made));
	SHOW(syscall(SYS_rt_sigqueueinfo, getpid(), -1, &made));
	SHOW(syscall(SYS_rt_tgsigqueueinfo, getpid(), 0x7fffffff, -1, &made));
	SHOW(kill(0x7fffffff, 99));
	SHOW(syscall(SYS_tkill, 0x7fffffff, 99));
	SHOW(kill(getpid(), 99));
	SHOW(kill(0, 99));
	SHOW(kill(-0x7ffffff, 99));
	SHOW(kill(-1, 99));
	section("devices");
	SHOW(mknod("nothing", S_IFCHR | 0600, 0));
	SHOW(open("nothing", O_RDONLY));
	unlink("nothing");
	SHOW(mknod("nothing", S_IFBLK | 0600, 0));
	unlink("nothing");
}

/* Other users' files get no new names from who could not as well write them. */
static void links(void)
{
	static const char *const others[] = { "link", "fifo", "file", "closed", "runs-as", "runs-as-group", "group-only", "mine", "dir" };
	char to[32];
	section("links");
	for (unsigned n = 0; n < sizeof others / sizeof *others; n++) {
		snprintf(to, sizeof to, "links/%s", others[n]);
		say("%s: %s", others[n], link(others[n], to) == 0 ? "linked" : error_name(errno));
		unlink(to);
	}
	SHOW(link("link", "link"));
}

static void memory(void)
{
	section("mmap");
	const int anonymous = MAP_ANONYMOUS, there = MAP_FIXED_NOREPLACE;
	SHOW_PTR(mmap(page, PAGE, PROT_READ, anonymous | there | 0xc, -1, 0));
	SHOW_PTR(mmap(page + 1, PAGE, PROT_READ, anonymous | there | MAP_PRIVATE, -1, 0));
	SHOW_PTR(mmap(page, PAGE, PROT_READ, there | MAP_SHARED, file, 0x7ffffffffffff000));
	SHOW_PTR(mmap(page, PAGE, PROT_READ | PROT_WRITE, there | MAP_SHARED, path_only, 0));
	SHOW_PTR(mmap((void *)-1, PAGE, PROT_READ, anonymous | MAP_FIXED | MAP_PRIVATE, -1, 0));
	SHOW_PTR(mmap((void *)-13, PAGE, PROT_READ, anonymous | MAP_FIXED | MAP_PRIVATE, -1, 0));
	SHOW_PTR(mmap((void *)-4095, PAGE, PROT_READ, anonymous | MAP_FIXED | 0xc, -1, 0));
	SHOW_PTR(mmap((void *)-4096, PAGE, PROT_READ, anonymous | MAP_FIXED | MAP_PRIVATE, -1, 0));
	SHOW_PTR(mmap(0, 1ul << 28, PROT_READ, anonymous | MAP_32BIT | 0xc, -1, 0));
	SHOW_PTR(mmap(0, (1ul << 30) + PAGE, PROT_READ, anonymous | MAP_32BIT | 0xc, -1, 0));
	SHOW_PTR(mmap(0, (1ul << 30) + PAGE, PROT_READ, MAP_32BIT | MAP_SHARED, file, 0x7ffffffffffff000));
	SHOW_PTR(mmap(0, (1ul << 47) - PAGE, PROT_READ, anonymous | 0xc, -1, 0));
	SHOW_PTR(mmap(0, 1ul << 40, PROT_READ, anonymous | 0xc, -1, 0));
	section("mremap");
	SHOW_PTR(mremap(page + PAGE, 2 * PAGE, PAGE + 1, MREMAP_MAYMOVE | 4));
	SHOW_PTR(mremap(page + PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | 4));
	SHOW_PTR(mremap(page, 0x7ffff000, -4096, MREMAP_MAYMOVE));
	if (geteuid() != 0) {
		struct rlimit none = { PAGE, PAGE };
		setrlimit(RLIMIT_MEMLOCK, &none);
		SHOW(mlock(page, PAGE));
		SHOW_PTR(mremap(page, 0x7ffff000, -4096, MREMAP_MAYMOVE));
		SHOW_PTR(mremap(page, PAGE, -4096, MREMAP_MAYMOVE));
		SHOW_PTR(mremap(page, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE));
		SHOW(munlock(page, PAGE));
	}
	section("mincore");
	unsigned char in[8] = { 9, 9, 9, 9, 9, 9, 9, 9 };
	page[0] = 1;
	SHOW(mincore(page, 4 * PAGE, in));
	say("%d %d %d", in[0], in[1], in[2]);
	SHOW(mincore(page, 4 * PAGE, (unsigned char *)page + PAGE));
	section("advice for all that is mapped");
	static const int advice[] = { MADV_NORMAL, MADV_WILLNEED, MADV_DONTFORK, MADV_DOFORK, MADV_KEEPONFORK, MADV_DONTDUMP, MADV_DODUMP, MADV_COLD };
	for (unsigned n = 0; n < sizeof advice / sizeof *advice; n++)
		SHOW(madvise(0, 0x7ffffffff000, advice[n]));
	SHOW(madvise(page, 8 * PAGE, MADV_COLD));
	section("a hole in what is sealed");
	int sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
	if (ftruncate(sealed, 2 * PAGE) != 0)
		exit(1);
	char *before = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, sealed, 0);
	before[0] = 1;
	SHOW(madvise(before, PAGE, MADV_REMOVE));
	SHOW(fcntl(sealed, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	SHOW(madvise(before, PAGE, MADV_REMOVE));
	char *after = mmap(0, PAGE, PROT_READ, MAP_SHARED, sealed, 0);
	SHOW(madvise(after, PAGE, MADV_REMOVE));
	SHOW(fallocate(sealed, 3, 0, PAGE));
	munmap(before, 2 * PAGE), munmap(after, PAGE), close(sealed);
	section("mlock2");
	static const unsigned wild[] = { 0, 1, 2, 3, 0x80000000, 0xffffffff };
	for (unsigned n = 0; n < sizeof wild / sizeof *wild; n++) {
		SHOW(syscall(SYS_mlock2, page, 0, wild[n]));
		SHOW(syscall(SYS_mlock2, page + 1, 0, wild[n]));
		SHOW(syscall(SYS_mlock2, page + 2 * PAGE, 0, wild[n]));
		SHOW(syscall(SYS_mlock2, page + PAGE, PAGE, wild[n]));
		SHOW(syscall(SYS_mlock2, page, -1, wild[n]));
	}
	section("msync");
	SHOW(mlock(page, PAGE));
	SHOW(msync(0, LONG_MAX, MS_ASYNC | MS_INVALIDATE));
	SHOW(msync(page, 1ul << 47, MS_ASYNC | MS_INVALIDATE));
	SHOW(msync(page, 1ul << 47, MS_ASYNC));
	SHOW(msync(page, -1, MS_ASYNC | MS_INVALIDATE));
	SHOW(munlock(page, PAGE));
}

/* Which number a timer has: each attempt has one, from where it is made on. */
static void timers(void)
{
	static const struct { int clock, notify, signal; } tries[] = {
		{ CLOCK_REALTIME, SIGEV_SIGNAL, SIGUSR1 }, { 99, SIGEV_SIGNAL, SIGUSR1 }, { CLOCK_MONOTONIC_RAW, SIGEV_SIGNAL, SIGUSR1 },
		{ CLOCK_REALTIME, SIGEV_SIGNAL, 99 }, { CLOCK_REALTIME, 77, SIGUSR1 }, { -6, SIGEV_SIGNAL, SIGUSR1 }, { -799998, SIGEV_SIGNAL, SIGUSR1 },
		{ -45, SIGEV_SIGNAL, SIGUSR1 }, { CLOCK_MONOTONIC, SIGEV_NONE, 0 },
	};
	section("numbers of timers");
	for (unsigned n = 0; n < sizeof tries / sizeof *tries; n++) {
		struct sigevent event = { .sigev_notify = tries[n].notify, .sigev_signo = tries[n].signal };
		int id = -7;
		long result = syscall(SYS_timer_create, tries[n].clock, &event, &id);
		say("%d %s: number %d", n, result == 0 ? "made" : error_name(errno), result == 0 ? id : -1);
	}
	SHOW(syscall(SYS_timer_create, CLOCK_REALTIME, 0, 16));
	int id = -7;
	SHOW(syscall(SYS_timer_create, CLOCK_REALTIME, 0, &id));
	say("number %d", id);
}

static void threads(void)
{
	section("rseq");
	SHOW(syscall(SYS_rseq, 0, 32, 0, 3));
	SHOW(syscall(SYS_rseq, 0, 33, 0, 3));
	static struct { uint32_t words[8]; } area __attribute__((aligned(32)));
	*(uint64_t *)&area.words[2] = 0x123456789;
	SHOW(syscall(SYS_rseq, &area, 32, 0, 3));
	say("section %lx", (long)*(uint64_t *)&area.words[2]);
	SHOW(syscall(SYS_rseq, &area, 32, 1, 3));
	section("attributes of real-time");
	struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t times[3]; } asked;
	static const struct { uint32_t policy, priority; uint64_t flags; } wishes[] = {
		{ 1, 0, 0 }, { 1, 100, 0 }, { 1, 1, 0x80 }, { 1, 0, 8 }, { 0, 5, 0 }, { 2, 0, 0 }, { 6, 0, 0 }, { 9, 0, 0 }, { 4, 0, 0 }, { 1, 0, 16 }, { 1, -1, 0 },
	};
	for (unsigned n = 0; n < sizeof wishes / sizeof *wishes; n++) {
		memset(&asked, 0, sizeof asked);
		asked.size = sizeof asked, asked.policy = wishes[n].policy, asked.priority = wishes[n].priority, asked.flags = wishes[n].flags;
		errno = 0;
		long result = syscall(SYS_sched_setattr, 0, &asked, 0);
		say("policy %u priority %d flags %#lx: %s", asked.policy, (int)asked.priority, (long)asked.flags, result == 0 ? "set" : error_name(errno));
	}
	if (geteuid() != 0) {
		asked.policy = 1, asked.priority = 10, asked.flags = 0;
		SHOW(syscall(SYS_sched_setattr, 0, &asked, 0));
		SHOW(syscall(SYS_sched_setattr, 1, &asked, 0));
		SHOW(syscall(SYS_sched_setattr, 99999, &asked, 0));
	}
	section("priorities");
	for (int policy = -1; policy < 9; policy++)
		say("%d: %d %d", policy, sched_get_priority_min(policy), sched_get_priority_max(policy));
}

static void everything(void)
{
	vectors();
	descriptors();
	names();
	processes();
	links();
	memory();
	timers();
	threads();
}

static void unprivileged(void)
{
	if (setresgid(1000, 1000, 1000) != 0 || setresuid(1000, 1000, 1000) != 0)
		exit(1);
	chown("mine", 1000, 1000);
	everything();
	exit(0);
}

int main(void)
{
	chmod(".", 0777);
	write_file("file", "0123456789"), chmod("file", 0666);
	write_file("closed", ""), chmod("closed", 0644);
	write_file("runs-as", ""), chmod("runs-as", 04777);
	write_file("runs-as-group", ""), chmod("runs-as-group", 02777);
	write_file("group-only", ""), chmod("group-only", 02767);
	write_file("mine", ""), chmod("mine", 0);
	if (chown("mine", 1000, 1000) != 0 || symlink("file", "link") != 0 || mkfifo("fifo", 0600) != 0)
		return 1;
	chmod("fifo", 0666);
	mkdir("dir", 0777), mkdir("dir/in", 0777), mkdir("links", 0777);
	chmod("dir", 0777), chmod("dir/in", 0777), chmod("links", 0777);
	file = open("file", O_RDWR), path_only = open("file", O_PATH);
	page = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(page + PAGE, 3 * PAGE);
	in_child("as root", everything);
	unlink("fresh"), unlink("empty");
	section("without rights");
	in_child("without rights", unprivileged);
	return 0;
}
