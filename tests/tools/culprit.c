/*
 * culprit KIND...: when memory is out, who filled it in the kernel is killed, and not the process that has most pages of its own.
 *
 * For each KIND: an innocent process of one user takes 30 per cent of free memory. Another user's processes, two of which hold little, fill 45 per cent
 * with what the kernel keeps for them (pipes, sockets, memfds that nobody has mapped, pipes in descriptors of another thread than the first), with limits that root has raised for that, or as its own.
 * Then a third user's process takes 30 per cent: more than there is. The filler has to die, alone, and the third to get its memory.
 * KIND locks, signals and watches: a user cannot fill memory with them, for it is refused long before.
 * Status 0: so it is; 1: not.
 */
#include "meminfo.h"
#include "t.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define MANY_FILES 20000

static long start;

static long used(void) { return start - mem_free(); }

static void become(uid_t uid)
{
	if (setgid(uid) != 0 || setuid(uid) != 0)
		_exit(3);
}

static void take(long kib)
{
	char *area = mmap(0, kib << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		_exit(4);
	for (long at = 0; at < kib << 10; at += 4096)
		area[at] = 1;
}

static char bytes[1 << 16];

static int pipes(void)
{
	int ends[2];
	if (pipe2(ends, O_NONBLOCK) != 0)
		return 0;
	return write(ends[1], bytes, sizeof bytes) > 0;
}

/* Bytes that nobody reads. */
static int sockets(void)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0)
		return 0;
	return write(ends[1], bytes, sizeof bytes) > 0;
}

static int memfds(void)
{
	static int fd = -1;
	if (fd < 0)
		fd = memfd_create("filler", 0);
	return write(fd, bytes, sizeof bytes) > 0;
}

/* As pipes, in descriptors that are not the first thread's. */
static int apart(void) { return pipes(); }

static int watches(void)
{
	static int files[1000], epoll, next;
	struct epoll_event event = { .events = EPOLLIN };
	if (!files[0])
		for (int i = 0; i < 1000; i++)
			files[i] = eventfd(0, 0);
	if (next % 1000 == 0)
		epoll = epoll_create1(0);
	return epoll_ctl(epoll, EPOLL_CTL_ADD, files[next++ % 1000], &event) == 0;
}

static int signals(void)
{
	union sigval value = { 0 };
	sigset_t set;
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, 0);
	return sigqueue(getpid(), SIGRTMIN, value) == 0;
}

static int own(void)
{
	take(256);
	return 1;
}

static int locks(void)
{
	static int fd = -1;
	static struct flock lock = { .l_type = F_WRLCK, .l_len = 1 };
	if (fd < 0)
		fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	lock.l_start += 2;
	return fcntl(fd, F_SETLK, &lock) == 0;
}

static const struct kind {
	const char *name;
	int (*more)(void);
} kinds[] = { { "pipes", pipes }, { "sockets", sockets }, { "memfds", memfds }, { "apart", apart }, { "own", own } };

static void say_ready(int to) { write(to, "", 1); }

static pid_t child(uid_t uid, int to, void (*body)(void))
{
	pid_t pid = must_fork();
	if (pid == 0) {
		become(uid);
		body();
		say_ready(to);
		for (;;)
			pause();
	}
	return pid;
}

static int (*more)(void);

static void little(void) { take(1024); }
static void innocent(void) { take(start * 30 / 100); }
static void fill_now(void)
{
	while (used() < start * 75 / 100)
		if (!more()) {
			say("refused: %s", error_name(errno));
			break;
		}
}

/* A thread that has descriptors of its own fills. */
static volatile int filled_apart;
static int fill_apart(void *unused)
{
	(void)unused;
	fill_now();
	filled_apart = 1;
	for (;;)
		pause();
	return 0;
}

static void fill(void)
{
	static char stack[1 << 16];
	if (more != apart) {
		fill_now();
		return;
	}
	if (clone(fill_apart, stack + sizeof stack, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0) < 0)
		_exit(5);
	while (!filled_apart)
		nap(1);
}

static int ended(pid_t pid)
{
	int status = 0;
	return waitpid(pid, &status, WNOHANG) == pid ? status : -1;
}

static int try(const struct kind *kind)
{
	int ends[2];
	pipe(ends);
	start = mem_free();
	more = kind->more;
	char byte;
	pid_t big = child(2000, ends[1], innocent);
	read(ends[0], &byte, 1);
	pid_t idle[2] = { child(1000, ends[1], little), child(1000, ends[1], little) };
	read(ends[0], &byte, 1);
	read(ends[0], &byte, 1);
	pid_t filler = child(1000, ends[1], fill);
	close(ends[1]);
	long filled = read(ends[0], &byte, 1) == 1 ? used() : 0;
	pid_t third = must_fork();
	if (third == 0) {
		become(3000);
		take(start * 30 / 100);
		_exit(0);
	}
	int status = wait_for(third), big_ended = ended(big), filler_ended = ended(filler);
	int idle_ended = (ended(idle[0]) != -1) + (ended(idle[1]) != -1);
	say("%s: filled up to %ld per cent; the filler: %s, idle ones killed: %d, the innocent: %s, the third: %s", kind->name, filled * 100 / start,
	    filler_ended == -1 ? "alive" : status_text(filler_ended), idle_ended, big_ended == -1 ? "alive" : "killed", status == 0 ? "got its memory" : "killed");
	pid_t all[] = { big, filler, idle[0], idle[1] };
	for (int i = 0; i < 4; i++) {
		kill(all[i], SIGKILL);
		waitpid(all[i], 0, 0);
	}
	close(ends[0]);
	return filler_ended == SIGKILL && big_ended == -1 && status == 0 && idle_ended == 0;
}

/* What a user has of such things ends at a bound that leaves most of memory. */
static int try_bound(const char *name, int (*one)(void), int wanted)
{
	start = mem_free();
	pid_t pid = must_fork();
	if (pid == 0) {
		become(1000);
		long n = 0;
		while (one())
			n++;
		int error = errno, many = n > 500, little = used() < start / 10;
		say("%s: %s after many: %d, with less than a tenth of memory: %d", name, error_name(error), many, little);
		_exit(error != wanted || !many || !little);
	}
	return wait_for(pid) == 0;
}

int main(int argc, char **argv)
{
	struct rlimit files = { MANY_FILES, MANY_FILES };
	setrlimit(RLIMIT_NOFILE, &files);
	write_file("/proc/sys/fs/pipe-user-pages-soft", "0");
	write_file("/proc/sys/fs/file-max", "1000000");
	int good = 1;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "locks") == 0)
			good &= try_bound("locks", locks, ENOLCK);
		if (strcmp(argv[i], "watches") == 0)
			good &= try_bound("watches", watches, ENOSPC);
		if (strcmp(argv[i], "signals") == 0)
			good &= try_bound("signals", signals, EAGAIN);
		for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
			if (strcmp(argv[i], kinds[k].name) == 0)
				good &= try(&kinds[k]);
	}
	return !good;
}
