/* Memory files: the flags of memfd_create, and what each seal refuses in each call. */
#include "t.h"
#include <sys/sendfile.h>
#include <sys/uio.h>

#define MFD(flags) ((int)syscall(SYS_memfd_create, "name", flags))
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_GET_SEALS 1034
#endif
enum { SEAL = 1, SHRINK = 2, GROW = 4, WRITE = 8, FUTURE = 16, EXEC = 32 };

static mode_t mode(int fd)
{
	struct stat st;
	fstat(fd, &st);
	return st.st_mode & 07777;
}

static void flags(void)
{
	section("flags");
	static const unsigned combinations[] = { 0, 1, 2, 8, 16, 2 | 8, 2 | 16, 8 | 16, 1 | 2 | 8, 32, 64, 1u << 26, 1u << 31 };
	for (unsigned i = 0; i < sizeof combinations / sizeof *combinations; i++) {
		int fd = MFD(combinations[i]);
		if (fd < 0) {
			say("flags %#x: %s", combinations[i], error_name(errno));
			continue;
		}
		say("flags %#x: mode %o, seals %d, close on exec %d", combinations[i], mode(fd), fcntl(fd, F_GET_SEALS),
		    fcntl(fd, F_GETFD));
		close(fd);
	}
	SHOW(syscall(SYS_memfd_create, (char *)8, 0));
	char name[300];
	memset(name, 'n', sizeof name);
	name[250] = 0;
	SHOW(syscall(SYS_memfd_create, name, 0) < 0);
	name[249] = 0;
	SHOW(syscall(SYS_memfd_create, name, 0) < 0);
}

static void adding(void)
{
	section("adding");
	int fd = MFD(0);
	SHOW(fcntl(fd, F_ADD_SEALS, WRITE));
	SHOW(fcntl(fd, F_ADD_SEALS, 64));
	close(fd);
	fd = MFD(2);
	SHOW(fcntl(fd, F_ADD_SEALS, 64));
	SHOW(fcntl(fd, F_ADD_SEALS, 1ul << 32));
	SHOW(fcntl(fd, F_ADD_SEALS, 0));
	SHOW(fcntl(fd, F_ADD_SEALS, GROW));
	SHOW(fcntl(fd, F_GET_SEALS));
	SHOW(fcntl(fd, F_ADD_SEALS, SHRINK | SEAL));
	SHOW(fcntl(fd, F_GET_SEALS));
	SHOW(fcntl(fd, F_ADD_SEALS, SHRINK));
	close(fd);
	int pipes[2];
	SHOW(pipe(pipes));
	SHOW(fcntl(pipes[1], F_ADD_SEALS, WRITE));
	SHOW(fcntl(pipes[0], F_ADD_SEALS, WRITE));
	SHOW(fcntl(pipes[0], F_GET_SEALS));
	fd = open("/proc/self/stat", O_RDONLY);
	SHOW(fcntl(fd, F_GET_SEALS));
	fd = MFD(2);
	SHOW(fchmod(fd, 0777));
	SHOW(fcntl(fd, F_ADD_SEALS, EXEC));
	SHOW(fcntl(fd, F_GET_SEALS));
	SHOW(fchmod(fd, 0666));
	SHOW(fchmod(fd, 0711));
	fd = MFD(8);
	SHOW(fchmod(fd, 0777));
	SHOW(fchmod(fd, 0600));
	SHOW(write(fd, "x", 1));
	SHOW(fcntl(fd, F_GET_SEALS));
}

static int source;

static void use(int seals)
{
	static char buffer[3 * 4096];
	int fd = MFD(2);
	write(fd, buffer, 5000);
	say("-- seals %d", seals);
	SHOW(fcntl(fd, F_ADD_SEALS, seals));
	SHOW(pwrite(fd, "x", 1, 0));
	SHOW(pwrite(fd, "x", 1, 4999));
	SHOW(pwrite(fd, "x", 1, 5000));
	SHOW(pwrite(fd, "xx", 2, 4999));
	SHOW(pwrite(fd, buffer, 4096 + 1000, 100));
	SHOW(pwrite(fd, buffer, 8192, 100));
	SHOW(pwrite(fd, buffer, 0, 100));
	SHOW(pwrite(fd, "x", 1, 100000));
	fcntl(fd, F_SETFL, O_APPEND);
	SHOW(write(fd, "x", 1));
	fcntl(fd, F_SETFL, 0);
	struct iovec two[2] = { { "ab", 2 }, { "cd", 2 } };
	SHOW(pwritev(fd, two, 2, 10));
	lseek(fd, 20, SEEK_SET);
	off_t at = 0;
	SHOW(sendfile(fd, source, &at, 3));
	loff_t from = 0, to = 30;
	SHOW(syscall(SYS_copy_file_range, source, &from, fd, &to, 3, 0));
	int pipes[2];
	pipe(pipes);
	write(pipes[1], "splice", 6);
	to = 40;
	SHOW(syscall(SYS_splice, pipes[0], 0, fd, &to, 6, 0));
	close(pipes[0]), close(pipes[1]);
	SHOW(ftruncate(fd, 5000));
	SHOW(ftruncate(fd, 4000));
	SHOW(ftruncate(fd, 6000));
	SHOW(fallocate(fd, 0, 0, 10));
	SHOW(fallocate(fd, 0, 0, 9000));
	SHOW(fallocate(fd, 1, 0, 20000));
	SHOW(fallocate(fd, 3, 0, 4096));
	void *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	show_truth("shared writable", p != MAP_FAILED);
	if (p != MAP_FAILED)
		munmap(p, 8192);
	else
		say("%s", error_name(errno));
	p = mmap(0, 8192, PROT_READ, MAP_SHARED, fd, 0);
	show_truth("shared read-only", p != MAP_FAILED);
	if (p != MAP_FAILED) {
		SHOW(mprotect(p, 8192, PROT_READ | PROT_WRITE));
		munmap(p, 8192);
	} else
		say("%s", error_name(errno));
	p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	show_truth("private writable", p != MAP_FAILED);
	if (p != MAP_FAILED)
		*(char *)p = 1, munmap(p, 8192);
	struct stat st;
	fstat(fd, &st);
	say("size %ld", (long)st.st_size);
	close(fd);
}

static void mapped(void)
{
	section("mapped");
	int fd = MFD(2);
	ftruncate(fd, 8192);
	char *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	SHOW(fcntl(fd, F_ADD_SEALS, WRITE | GROW));
	SHOW(fcntl(fd, F_GET_SEALS));
	SHOW(mprotect(p, 8192, PROT_READ));
	SHOW(fcntl(fd, F_ADD_SEALS, WRITE));
	SHOW(mprotect(p, 8192, PROT_READ | PROT_WRITE));
	pid_t pid = must_fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	munmap(p, 4096);
	SHOW(fcntl(fd, F_ADD_SEALS, WRITE));
	munmap(p + 4096, 4096);
	SHOW(fcntl(fd, F_ADD_SEALS, WRITE));
	kill(pid, SIGKILL);
	wait_for(pid);
	p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	p[0] = 1;
	SHOW(fcntl(fd, F_ADD_SEALS, WRITE));
	SHOW(fcntl(fd, F_GET_SEALS));
	p[1] = 2;
	munmap(p, 4096);
	fd = MFD(2);
	ftruncate(fd, 8192);
	p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	SHOW(fcntl(fd, F_ADD_SEALS, FUTURE));
	p[0] = 7;
	SHOW(mprotect(p, 8192, PROT_READ));
	SHOW(mprotect(p, 8192, PROT_READ | PROT_WRITE));
	p[1] = 7;
	char byte[2] = "";
	SHOW(pread(fd, byte, 2, 0));
	say("%d %d", byte[0], byte[1]);
	SHOW(fcntl(fd, F_ADD_SEALS, WRITE));
}

int main(void)
{
	source = MFD(0);
	write(source, "source", 6);
	flags();
	adding();
	section("use");
	static const int kinds[] = { 0, SHRINK, GROW, SHRINK | GROW, WRITE, FUTURE, EXEC, SEAL };
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		use(kinds[i]);
	mapped();
	return 0;
}
