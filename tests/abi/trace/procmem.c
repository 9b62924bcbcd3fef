/* /proc/PID/mem: another's memory as a file. Its places are addresses; who may trace may open it; what is not there; its program's end. */
#include "tracer.h"
#include "subjects.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define PAGE 4096

static volatile unsigned long words[4] = { 1, 2, 3, 4 };
static const volatile unsigned long constant[2] = { 11, 12 };
/* Three pages, of which the last goes; a shared one that may not be written; one without rights. */
static char *pages, *shared, *closed;

static int open_of(pid_t pid, int flags)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/mem", pid);
	return open(path, flags);
}

/* The bare call: places of the upper half are no errors. */
static long seek(int fd, long to, int whence)
{
	return syscall(SYS_lseek, fd, to, whence);
}

static void looks(void)
{
	say("  words %lu %lu, constant %lu, page %d %d", words[0], words[1], constant[0], pages[PAGE - 1], pages[PAGE]);
}

static void reads_and_writes(void)
{
	section("reads and writes");
	pid_t pid = traced(looks);
	int fd = open_of(pid, O_RDWR);
	struct stat st;
	fstat(fd, &st);
	say("open %d, mode %#o, size %ld", fd >= 0, st.st_mode, (long)st.st_size);
	unsigned long word = 0;
	SHOW(pread(fd, &word, sizeof word, (off_t)&words[1]));
	say("word %lu", word);
	SHOW(pwrite(fd, "\x16", 1, (off_t)&words[1]));
	word = 33;
	SHOW(pwrite(fd, &word, sizeof word, (off_t)&constant[0]));
	SHOW(seek(fd, (long)&constant[0], SEEK_SET) == (long)&constant[0]);
	SHOW(read(fd, &word, sizeof word));
	say("word %lu, own %lu", word, constant[0]);
	SHOW(seek(fd, 0, SEEK_CUR) == (long)&constant[1]);
	SHOW(read(fd, &word, 4));
	say("half %u", (unsigned)word);
	char buffer[4 * PAGE];
	memset(buffer, 9, sizeof buffer);
	/* Over a page's end, and to what is not there. */
	SHOW(pwrite(fd, "\1\2\3\4", 4, (off_t)pages + PAGE - 2));
	SHOW(pread(fd, buffer, sizeof buffer, (off_t)pages));
	say("bytes %d %d %d %d, then %d", buffer[PAGE - 2], buffer[PAGE - 1], buffer[PAGE], buffer[PAGE + 1], buffer[2 * PAGE]);
	SHOW(pread(fd, buffer, sizeof buffer, (off_t)pages + 2 * PAGE - 5));
	SHOW(pread(fd, buffer, sizeof buffer, (off_t)pages + 2 * PAGE));
	SHOW(pwrite(fd, buffer, sizeof buffer, (off_t)pages + 2 * PAGE - 5));
	SHOW(pwrite(fd, buffer, sizeof buffer, (off_t)pages + 2 * PAGE));
	SHOW(pread(fd, buffer, 0, (off_t)pages + 2 * PAGE));
	SHOW(pread(fd, buffer, 1, 0));
	SHOW(pwrite(fd, buffer, 1, 0));
	SHOW(pread(fd, (char *)1, 16, (off_t)pages));
	SHOW(pwrite(fd, (char *)1, 16, (off_t)pages));
	/* Its own buffer ends after a page. */
	SHOW(pread(fd, pages + PAGE, 2 * PAGE, (off_t)pages));
	SHOW(pwrite(fd, pages + PAGE, 2 * PAGE, (off_t)pages));
	/* Forced on private memory alone. */
	SHOW(pread(fd, buffer, 1, (off_t)closed));
	SHOW(pwrite(fd, "c", 1, (off_t)closed));
	SHOW(pread(fd, buffer, 1, (off_t)closed));
	say("byte %c", buffer[0]);
	SHOW(pread(fd, buffer, 1, (off_t)shared));
	SHOW(pwrite(fd, "s", 1, (off_t)shared));
	struct iovec parts[3] = { { buffer, 3 }, { 0, 0 }, { buffer + 100, 5 } };
	SHOW(preadv(fd, parts, 3, (off_t)&words[0]));
	say("bytes %d %d", buffer[0], buffer[105]);
	parts[2].iov_base = (void *)1;
	SHOW(preadv(fd, parts, 3, (off_t)&words[0]));
	SHOW(syscall(SYS_preadv2, fd, parts, 1, &words[0], 0, 2));
	SHOW(sendfile(1, fd, 0, 4));
	SHOW(ftruncate(fd, 0));
	SHOW(mmap(0, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	trace(PTRACE_CONT, pid, 0, 0);
	say("ends: %s", status_text(waits(pid)));
	SHOW(pread(fd, buffer, 8, (off_t)pages));
	SHOW(pwrite(fd, buffer, 8, (off_t)pages));
	SHOW(pread(fd, buffer, 8, 0));
	close(fd);
	say("of nobody: %s", open_of(pid, O_RDONLY) < 0 ? error_name(errno) : "open");
}

static void places(void)
{
	section("places");
	int fd = open("/proc/self/mem", O_RDWR);
	unsigned long word = 0;
	for (int whence = 2; whence < 6; whence++)
		SHOW(seek(fd, 0, whence));
	say("upper half %d", seek(fd, -0x100000, SEEK_SET) == -0x100000);
	SHOW(read(fd, &word, 8));
	say("further %d", seek(fd, 0x1000, SEEK_CUR) == -0xff000);
	SHOW(write(fd, &word, 8));
	seek(fd, -6, SEEK_SET);
	SHOW(read(fd, &word, 5));
	SHOW(read(fd, &word, 6));
	SHOW(read(fd, &word, 8));
	SHOW(write(fd, &word, 8));
	seek(fd, 0x7ffffffffffffff0, SEEK_SET);
	SHOW(read(fd, &word, 8));
	char buffer[64];
	SHOW(read(fd, buffer, 64));
	say("over the end %d", seek(fd, 0x20, SEEK_CUR) == (long)0x8000000000000010);
	SHOW(pread(fd, buffer, 64, 0x7ffffffffffffff0));
	SHOW(pwrite(fd, buffer, 64, 0x7ffffffffffffff0));
	SHOW(pread(fd, buffer, 8, -8));
	SHOW(pread(fd, buffer, 8, (off_t)0x7ffffffff000));
	SHOW(pread(fd, buffer, 8, (off_t)0xffff800000000000 & 0x7fffffffffffffff));
	/* Its own, also where it stands itself. */
	word = 5;
	SHOW(pwrite(fd, &word, 8, (off_t)&words[3]));
	say("word %lu", words[3]);
	SHOW(pwrite(fd, buffer, 8, (off_t)buffer + 4));
	close(fd);
	fd = open("/proc/thread-self/mem", O_RDONLY);
	SHOW(pread(fd, &word, 8, (off_t)&words[3]));
	say("word %lu", word);
	SHOW(pwrite(fd, &word, 8, (off_t)&words[3]));
	close(fd);
	fd = open("/proc/self/mem", O_RDWR | O_APPEND);
	SHOW(pwrite(fd, "\7", 1, (off_t)&words[3]));
	say("word %lu", words[3]);
	close(fd);
	fd = open("/proc/self/mem", O_WRONLY | O_TRUNC);
	SHOW(pread(fd, &word, 8, (off_t)&words[3]));
	SHOW(pwrite(fd, "\6", 1, (off_t)&words[3]));
	say("word %lu", words[3]);
	close(fd);
	SHOW(access("/proc/self/mem", R_OK));
	/* A name that is written at its end is written as ever. */
	fd = open("/proc/self/comm", O_WRONLY | O_APPEND);
	SHOW(write(fd, "name", 4));
	close(fd);
	prctl(PR_GET_NAME, buffer);
	say("name %s", buffer);
}

static int release[2];

static void executes(void)
{
	char byte;
	read(release[0], &byte, 1);
	execl("/proc/self/exe", "again", (char *)0);
	_exit(1);
}

static void another_program(void)
{
	section("another program");
	pipe(release);
	pid_t pid = must_fork();
	if (pid == 0)
		executes();
	int fd = open_of(pid, O_RDWR);
	unsigned long word = 0;
	SHOW(pread(fd, &word, 8, (off_t)&words[2]));
	write(release[1], "a", 1);
	say("it ends: %s", status_text(wait_for(pid)));
	SHOW(pread(fd, &word, 8, (off_t)&words[2]));
	SHOW(pwrite(fd, &word, 8, (off_t)&words[2]));
	close(fd);
	/* One that is gone, and is not waited for. */
	pid = must_fork();
	if (pid == 0)
		_exit(3);
	siginfo_t info;
	waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
	fd = open_of(pid, O_RDONLY);
	say("a zombie's: %s", fd < 0 ? error_name(errno) : "open");
	if (fd >= 0)
		SHOW(pread(fd, &word, 8, (off_t)&words[2]));
	close(fd);
	wait_for(pid);
	close(release[0]), close(release[1]);
}

static char stack[65536] __attribute__((aligned(16)));
static volatile int opened;

static int opens(void *unused)
{
	(void)unused;
	opened = open("/proc/self/mem", O_RDWR);
	return 0;
}

/* The memory lasts while another process has it. */
static void shared_memory(void)
{
	section("memory of two");
	pid_t pid = clone(opens, stack + sizeof stack, CLONE_VM | CLONE_FILES | SIGCHLD, 0);
	say("it ends: %s", status_text(wait_for(pid)));
	unsigned long word = 0;
	SHOW(pread(opened, &word, 8, (off_t)&words[2]));
	say("word %lu", word);
	close(opened);
}

static void rights(void)
{
	section("rights");
	for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
		pid_t pid = parked(subjects[i].body), other = must_fork();
		if (other == 0) {
			as(1000, 1);
			int fd = open_of(pid, O_RDWR);
			say("a user opens %s: %s", subjects[i].what, fd < 0 ? error_name(errno) : "ok");
			_exit(0);
		}
		wait_for(other);
		int fd = open_of(pid, O_RDWR);
		say("root opens %s: %s", subjects[i].what, fd < 0 ? error_name(errno) : "ok");
		close(fd);
		kill(pid, SIGKILL);
		wait_for(pid);
	}
	/* What was opened stays open to whoever may no more. */
	pid_t pid = parked(as_root), other = must_fork();
	if (other == 0) {
		int fd = open_of(pid, O_RDWR);
		as(1000, 1);
		unsigned long word = 0;
		SHOW(pread(fd, &word, 8, (off_t)&words[2]));
		say("word %lu", word);
		/* One's own, which is not dumpable, is root's file. */
		prctl(PR_SET_DUMPABLE, 0);
		fd = open("/proc/self/mem", O_RDONLY);
		say("its own: %s", fd < 0 ? error_name(errno) : "ok");
		_exit(0);
	}
	wait_for(other);
	kill(pid, SIGKILL);
	wait_for(pid);
}

int main(int argc, char **argv)
{
	(void)argc;
	setvbuf(stdout, 0, _IONBF, 0);
	if (strcmp(argv[0], "again") == 0)
		return 6;
	pages = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	shared = mmap(0, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	closed = mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(pages + 2 * PAGE, PAGE);
	reads_and_writes();
	places();
	another_program();
	shared_memory();
	rights();
	return 0;
}
