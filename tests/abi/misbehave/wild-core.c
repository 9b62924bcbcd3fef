/*
 * Wild pointers, one at a time, in calls whose other arguments are right: the errno must be the one Linux gives.
 */
#include "t.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>

enum kind { END, P, V }; /* a pointer to be made wild; a value */

static char page[8192] __attribute__((aligned(4096)));
static int file, reader, writer, directory;

struct argument { enum kind kind; uint64_t value; };
struct call { const char *name; long number; struct argument argument[6]; };

static const struct { const char *name; uint64_t value; } wild[] = {
	{ "null", 0 }, { "16", 16 }, { "-1", (uint64_t)-1 }, { "non-canonical", 0xdead000000000000 }, { "kernel", 0xffff888000000000 },
	{ "top", 0x7ffffffff000 - 1 }, { "unmapped", 0 }, { "read-only", 0 }, { "page end", 0 },
};

static char *unmapped, *read_only, *page_end;

static uint64_t value_of(size_t which)
{
	if (strcmp(wild[which].name, "unmapped") == 0)
		return (uint64_t)(uintptr_t)unmapped;
	if (strcmp(wild[which].name, "read-only") == 0)
		return (uint64_t)(uintptr_t)read_only;
	if (strcmp(wild[which].name, "page end") == 0)
		return (uint64_t)(uintptr_t)page_end;
	return wild[which].value;
}

int main(void)
{
	unmapped = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page_end = unmapped + 4095;
	memset(unmapped, 'x', 4096);
	munmap(unmapped + 4096, 2 * 4096);
	unmapped += 4096 + 128;
	read_only = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ends[2];
	pipe(ends);
	reader = ends[0], writer = ends[1];
	write(writer, "some bytes to be read", 21);
	file = open("file", O_CREAT | O_RDWR, 0644);
	write(file, page, sizeof page);
	directory = open(".", O_RDONLY | O_DIRECTORY);
	uint64_t path = (uint64_t)(uintptr_t)"file", other = (uint64_t)(uintptr_t)"missing/other", room = (uint64_t)(uintptr_t)page;
	static struct timespec zero;
	uint64_t none = (uint64_t)(uintptr_t)&zero;
#define C(name, ...) { #name, SYS_##name, { __VA_ARGS__ } }
#define v(x) { V, (uint64_t)(x) }
#define p(x) { P, (uint64_t)(x) }
	const struct call calls[] = {
		C(read, v(file), p(room), v(64)), C(read, v(reader), p(room), v(4)), C(write, v(writer), p(room), v(4)),
		C(write, v(file), p(room), v(64)), C(pread64, v(file), p(room), v(64), v(0)), C(pwrite64, v(file), p(room), v(64), v(0)),
		C(readv, v(file), p(room), v(1)), C(writev, v(file), p(room), v(1)), C(open, p(path), v(0)), C(openat, v(-100), p(path), v(0)),
		C(creat, p(path), v(0600)), C(stat, p(path), p(room)), C(lstat, p(path), p(room)), C(fstat, v(file), p(room)),
		C(newfstatat, v(-100), p(path), p(room), v(0)), C(statx, v(-100), p(path), v(0), v(0x7ff), p(room)), C(statfs, p(path), p(room)),
		C(fstatfs, v(file), p(room)), C(access, p(path), v(0)), C(faccessat, v(-100), p(path), v(0)),
		C(readlink, p(path), p(room), v(64)), C(mkdir, p(other), v(0755)), C(rmdir, p(other)), C(unlink, p(other)),
		C(link, p(other), p(other)), C(symlink, p(other), p(other)), C(rename, p(other), p(other)),
		C(chmod, p(other), v(0644)), C(chown, p(other), v(0), v(0)), C(truncate, p(other), v(0)), C(chdir, p(other)),
		C(utimensat, v(-100), p(path), p(room), v(0)), C(utimes, p(path), p(room)), C(getcwd, p(room), v(4096)),
		C(getdents64, v(directory), p(room), v(4096)), C(pipe, p(room)), C(pipe2, p(room), v(0)), C(poll, p(room), v(1), v(0)),
		C(ppoll, p(room), v(1), p(none), v(0)), C(select, v(64), p(room), v(0), v(0), p(none)), C(execve, p(other), v(0), v(0)),
		C(wait4, v(-1), p(room), v(1), v(0)), C(waitid, v(0), v(0), p(room), v(5), v(0)), C(uname, p(room)), C(sysinfo, p(room)),
		C(times, p(room)), C(time, p(room)), C(gettimeofday, p(room), v(0)), C(clock_gettime, v(1), p(room)), C(clock_getres, v(1), p(room)),
		C(nanosleep, p(none), v(0)), C(clock_nanosleep, v(1), v(0), p(none), v(0)), C(getrlimit, v(7), p(room)), C(getrusage, v(0), p(room)),
		C(prlimit64, v(0), v(7), v(0), p(room)), C(getitimer, v(0), p(room)),
		C(rt_sigaction, v(10), v(0), p(room), v(8)), C(rt_sigprocmask, v(0), v(0), p(room), v(8)), C(rt_sigpending, p(room), v(8)),
		C(rt_sigtimedwait, p(room), v(0), p(none), v(8)), C(sigaltstack, v(0), p(room)), C(futex, p(room), v(0), v(12345), v(0), v(0), v(0)),
		C(futex, p(room), v(1), v(1), v(0), v(0), v(0)), C(getgroups, v(0), p(room)), C(setgroups, v(1), p(room)), C(getresuid, p(room), p(room), p(room)),
		C(getrandom, p(room), v(16), v(0)), C(sched_getaffinity, v(0), v(128), p(room)), C(sched_setaffinity, v(0), v(8), p(room)),
		C(sched_getparam, v(0), p(room)), C(getcpu, p(room), v(0), v(0)), C(ioctl, v(reader), v(0x541b), p(room)),
		C(fcntl, v(file), v(5), p(room)), C(get_robust_list, v(0), p(room), p(room)), C(prctl, v(16), p(room)), C(prctl, v(15), p(room)),
		C(chroot, p(other)), C(mknod, p(other), v(0100644), v(0)), C(sethostname, p(room), v(-1)), C(msync, p(room), v(4096), v(4)),
		C(madvise, p(room), v(4096), v(0)), C(mincore, p(room), v(4096), p(room)), C(capget, p(room), v(0)), C(arch_prctl, v(0x1003), p(room)),
		C(epoll_ctl, v(file), v(1), v(reader), p(room)), C(sendfile, v(writer), v(file), p(room), v(1)), C(getpriority, v(0), v(0)),
		C(set_tid_address, p(room)), C(mount, p(other), p(other), p(other), v(0), v(0)), C(socket, v(1), v(1), v(0)),
	};
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		for (int at = 0; at < 6; at++) {
			if (calls[i].argument[at].kind != P)
				continue;
			char line[512];
			int length = snprintf(line, sizeof line, "%s argument %d:", calls[i].name, at + 1);
			for (size_t which = 0; which < sizeof wild / sizeof *wild; which++) {
				/* Each in a child: a call may change this process (set_tid_address, chroot) or write through "page end". */
				int back[2];
				pipe(back);
				pid_t pid = must_fork();
				if (pid == 0) {
					setitimer(ITIMER_REAL, &(struct itimerval){ .it_value = { 0, 200000 } }, 0);
					uint64_t word[6];
					for (int j = 0; j < 6; j++)
						word[j] = j == at ? value_of(which) : calls[i].argument[j].value;
					errno = 0;
					long result = syscall(calls[i].number, word[0], word[1], word[2], word[3], word[4], word[5]);
					int error = result == -1 ? errno : 0;
					write(back[1], &error, sizeof error);
					_exit(0);
				}
				close(back[1]);
				int error = -1;
				if (read(back[0], &error, sizeof error) != sizeof error)
					error = -1;
				close(back[0]);
				int status = wait_for(pid);
				length += snprintf(line + length, sizeof line - (size_t)length, " %s", error < 0 ? status_text(status) : error_name(error));
				/* The pipe's contents and the file's offset are the same for every try. */
				lseek(file, 0, SEEK_SET);
				lseek(directory, 0, SEEK_SET);
				char drain[256];
				fcntl(reader, F_SETFL, O_NONBLOCK);
				while (read(reader, drain, sizeof drain) > 0)
					;
				write(writer, "some bytes to be read", 21);
			}
			say("%s", line);
		}
	return 0;
}
