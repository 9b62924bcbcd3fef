/* Files: open flags and errors, offsets, sparse files, truncation, vectors, descriptors, locks, permissions as non-root. */
#include "t.h"

#include <dirent.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/uio.h>

static void opening(void)
{
	section("open");
	SHOW_OK(open("missing", O_RDONLY));
	SHOW_OK(open("", O_RDONLY));
	SHOW_OK(open("missing/file", O_CREAT | O_RDWR, 0644));
	SHOW_OK(open("f", O_CREAT | O_EXCL | O_RDWR, 0644));
	SHOW_OK(open("f", O_CREAT | O_EXCL | O_RDWR, 0644));
	SHOW_OK(open("f/x", O_RDONLY));
	SHOW_OK(open("f/", O_RDONLY));
	SHOW_OK(open("f/.", O_RDONLY));
	SHOW_OK(open("f", O_RDONLY | O_DIRECTORY));
	SHOW(mkdir("d", 0755));
	SHOW_OK(open("d", O_RDWR));
	SHOW_OK(open("d", O_WRONLY));
	SHOW_OK(open("d", O_RDONLY));
	SHOW_OK(open("d", O_CREAT | O_RDONLY, 0644));
	SHOW_OK(open("d/", O_RDONLY | O_CREAT, 0644));
	SHOW_OK(open("new/", O_RDONLY | O_CREAT, 0644));
	SHOW_OK(open("d/.", O_RDONLY));
	SHOW_OK(open("d/../d/../f", O_RDONLY));
	SHOW_OK(open("/..", O_RDONLY));
	SHOW(symlink("f", "link"));
	SHOW(symlink("nowhere", "dangling"));
	SHOW(symlink("loop", "loop"));
	SHOW_OK(open("link", O_RDONLY | O_NOFOLLOW));
	SHOW_OK(open("link", O_PATH | O_NOFOLLOW));
	SHOW_OK(open("link", O_RDONLY));
	SHOW_OK(open("dangling", O_RDONLY));
	SHOW_OK(open("dangling", O_CREAT | O_EXCL | O_RDWR, 0644));
	SHOW_OK(open("dangling", O_CREAT | O_RDWR, 0644));
	CHECK(access("nowhere", F_OK) == 0);
	SHOW_OK(open("loop", O_RDONLY));
	char name[300];
	memset(name, 'n', sizeof name);
	name[255] = 0;
	SHOW_OK(open(name, O_CREAT | O_RDWR, 0644));
	SHOW(unlink(name));
	name[255] = 'n', name[256] = 0;
	SHOW_OK(open(name, O_CREAT | O_RDWR, 0644));
	static char path[5000];
	memset(path, '/', sizeof path);
	path[4094] = 'f', path[4095] = 0;
	SHOW_OK(open(path + 1, O_RDONLY));
	path[4095] = 'f', path[4096] = 0;
	SHOW_OK(open(path, O_RDONLY));
	SHOW_OK(openat(999, "f", O_RDONLY));
	SHOW_OK(openat(999, "/dev/null", O_RDONLY));
	SHOW_OK(openat(open("f", O_RDONLY), "x", O_RDONLY));
	SHOW_OK(openat(open("d", O_RDONLY), "../f", O_RDONLY));
	SHOW_OK(syscall(SYS_open, "f", 3));
	SHOW_OK(open(".", O_TMPFILE | O_RDWR, 0600));
	SHOW_OK(syscall(SYS_creat, "created", 0600));
	char chain[16];
	for (int i = 0; i < 41; i++) {
		snprintf(chain, sizeof chain, "c%d", i);
		char to[16];
		snprintf(to, sizeof to, i ? "c%d" : "f", i - 1);
		symlink(to, chain);
	}
	SHOW_OK(open("c39", O_RDONLY));
	SHOW_OK(open("c40", O_RDONLY));
}

static void offsets(void)
{
	section("offsets");
	int fd = open("o", O_CREAT | O_RDWR | O_TRUNC, 0644);
	SHOW(write(fd, "hello world", 11));
	SHOW(lseek(fd, 0, SEEK_CUR));
	SHOW(lseek(fd, -5, SEEK_END));
	char buffer[64] = { 0 };
	SHOW(read(fd, buffer, sizeof buffer));
	say("%s", buffer);
	SHOW(read(fd, buffer, sizeof buffer));
	SHOW(lseek(fd, -1, SEEK_SET));
	SHOW(lseek(fd, 0, 99));
	SHOW(lseek(fd, 100000, SEEK_SET));
	SHOW(write(fd, "end", 3));
	struct stat st;
	fstat(fd, &st);
	SHOW(st.st_size);
	CHECK(st.st_blocks < 100000 / 512);
	SHOW(pread(fd, buffer, 4, 50000));
	say("%d%d%d%d", buffer[0], buffer[1], buffer[2], buffer[3]);
	SHOW(lseek(fd, 50000, SEEK_DATA));
	SHOW(lseek(fd, 200000, SEEK_DATA));
	SHOW(pread(fd, buffer, 4, -1));
	SHOW(pwrite(fd, "X", 1, 4));
	SHOW(lseek(fd, 0, SEEK_CUR));
	SHOW(ftruncate(fd, 5));
	SHOW(ftruncate(fd, -1));
	SHOW(truncate("o", 8));
	SHOW(truncate("missing", 8));
	SHOW(truncate("d", 8));
	SHOW(pread(fd, buffer, 64, 0));
	say("%.5s %d%d%d", buffer, buffer[5], buffer[6], buffer[7]);
	int reader = open("o", O_RDONLY), append = open("o", O_WRONLY | O_APPEND);
	SHOW(write(reader, "x", 1));
	SHOW(ftruncate(reader, 0));
	SHOW(read(append, buffer, 1));
	SHOW(lseek(append, 0, SEEK_SET));
	SHOW(write(append, "++", 2));
	SHOW(lseek(append, 0, SEEK_CUR));
	SHOW(pwrite(append, "at0", 3, 0));
	SHOW(lseek(append, 0, SEEK_END));
	SHOW(read(999, buffer, 1));
	SHOW(read(fd, 0, 0));
	SHOW(read(fd, (void *)16, 10));
	SHOW(write(fd, (void *)16, 10));
	SHOW(read(open(".", O_RDONLY), buffer, 1));
	SHOW(write(fd, buffer, 0));
	struct iovec parts[3] = { { "ab", 2 }, { "", 0 }, { "cde", 3 } };
	SHOW(ftruncate(fd, 0));
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(writev(fd, parts, 3));
	char one[3] = { 0 }, two[10] = { 0 };
	struct iovec into[2] = { { one, 2 }, { two, 9 } };
	SHOW(preadv(fd, into, 2, 0));
	say("%s|%s", one, two);
	SHOW(pwritev(fd, parts, 3, 10));
	SHOW(readv(fd, into, -1));
	SHOW(syscall(SYS_writev, fd, parts, 1025));
	SHOW(syscall(SYS_writev, fd, 16, 1));
	parts[1].iov_len = (size_t)-1;
	SHOW(writev(fd, parts, 3));
	int other = dup(fd);
	SHOW(lseek(fd, 3, SEEK_SET));
	SHOW(lseek(other, 0, SEEK_CUR));
	SHOW(fsync(fd));
	SHOW(fdatasync(fd));
	SHOW(fallocate(fd, 0, 0, 5000));
	fstat(fd, &st);
	SHOW(st.st_size);
	SHOW(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
	SHOW(sendfile(fd, open("o", O_RDONLY), 0, 3));
	close(fd), close(other), close(reader), close(append);
}

static void descriptors(void)
{
	section("descriptors");
	int fd = open("o", O_RDWR);
	SHOW(fcntl(fd, F_GETFD));
	SHOW(fcntl(fd, F_SETFD, FD_CLOEXEC));
	SHOW(fcntl(fd, F_GETFD));
	SHOW(fcntl(fd, F_DUPFD, 100));
	SHOW(fcntl(100, F_GETFD));
	SHOW(fcntl(fd, F_DUPFD_CLOEXEC, 100));
	SHOW(fcntl(101, F_GETFD));
	SHOW(fcntl(fd, F_DUPFD, -1));
	SHOW(fcntl(fd, F_DUPFD, 1 << 30));
	SHOW(dup2(fd, 200));
	SHOW(dup2(fd, fd) == fd);
	SHOW(dup2(999, 201));
	SHOW(dup2(fd, -1));
	SHOW(dup2(fd, 1 << 30));
	SHOW(dup3(fd, fd, 0));
	SHOW(dup3(fd, 202, O_CLOEXEC));
	SHOW(fcntl(202, F_GETFD));
	SHOW(dup3(fd, 203, O_RDWR));
	SHOW(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
	SHOW(fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK));
	SHOW(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
	SHOW(fcntl(200, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
	SHOW(fcntl(fd, 9999));
	SHOW(fcntl(999, F_GETFD));
	SHOW(close(200));
	SHOW(close(200));
	SHOW(close(-1));
	SHOW(ioctl(fd, TIOCGWINSZ, 0));
	SHOW(ioctl(fd, 0x12345678, 0));
	SHOW(ioctl(fd, FIOCLEX, 0));
	int on = 1;
	SHOW(ioctl(fd, FIONBIO, &on));
	int lowest = open("o", O_RDONLY);
	close(lowest);
	SHOW(open("o", O_RDONLY) == lowest);
	SHOW(syscall(SYS_close_range, 100, 300, 0));
	SHOW(fcntl(100, F_GETFD));
	SHOW(syscall(SYS_close_range, 300, 100, 0));
}

static void flocks(void)
{
	int fd = open("o", O_RDWR);
	SHOW(flock(fd, LOCK_EX | LOCK_NB));
	SHOW(flock(fd, LOCK_SH | LOCK_NB));
	SHOW(flock(fd, LOCK_UN));
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5 };
	SHOW(fcntl(fd, F_SETLK, &lock));
	lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10 };
	SHOW(fcntl(fd, F_SETLK, &lock));
	lock = (struct flock){ .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 12, .l_len = 100 };
	SHOW(fcntl(fd, F_GETLK, &lock));
	say("type %d start %ld len %ld, owner is the parent: %d", lock.l_type, (long)lock.l_start, (long)lock.l_len,
	    lock.l_pid == getppid());
	lock = (struct flock){ .l_type = 77, .l_whence = SEEK_SET };
	SHOW(fcntl(fd, F_SETLK, &lock));
}

static void locks(void)
{
	section("locks");
	int fd = open("o", O_RDWR), second = open("o", O_RDWR);
	SHOW(flock(fd, LOCK_EX));
	SHOW(flock(second, LOCK_EX | LOCK_NB));
	SHOW(flock(second, LOCK_SH | LOCK_NB));
	SHOW(flock(fd, LOCK_SH));
	SHOW(flock(second, LOCK_SH | LOCK_NB));
	SHOW(flock(second, LOCK_UN));
	SHOW(flock(fd, 77));
	SHOW(flock(999, LOCK_SH));
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5 };
	SHOW(fcntl(fd, F_SETLK, &lock));
	SHOW(fcntl(second, F_SETLK, &lock));
	in_child("locker", flocks);
	close(second);
	in_child("after any close all record locks are gone", flocks);
	int ends[2];
	pipe(ends);
	flock(fd, LOCK_EX);
	pid_t pid = must_fork();
	if (pid == 0) {
		int own = open("o", O_RDWR);
		close(fd);
		write(ends[1], "r", 1);
		SHOW(flock(own, LOCK_EX));
		_exit(0);
	}
	char byte;
	read(ends[0], &byte, 1);
	nap(30);
	say("the holder lets go");
	flock(fd, LOCK_UN);
	wait_for(pid);
	close(fd);
}

static void as_nobody(void)
{
	SHOW(setgid(1000));
	SHOW(setuid(1000));
	SHOW(getuid());
	SHOW(geteuid());
	SHOW(setuid(0));
	SHOW_OK(open("root600", O_RDONLY));
	SHOW_OK(open("root644", O_RDONLY));
	SHOW_OK(open("root644", O_RDWR));
	SHOW_OK(open("group/x", O_RDONLY));
	SHOW_OK(open("closed/x", O_RDONLY));
	SHOW_OK(open("closed", O_RDONLY));
	SHOW_OK(open("new", O_CREAT | O_RDWR, 0644));
	SHOW_OK(open("open/mine", O_CREAT | O_RDWR, 0644));
	SHOW(access("root600", R_OK));
	SHOW(access("root644", R_OK));
	SHOW(access("root644", W_OK));
	SHOW(access("root644", X_OK));
	SHOW(access("root644", 99));
	SHOW(faccessat(AT_FDCWD, "root755", X_OK, AT_EACCESS));
	SHOW(chmod("root644", 0777));
	SHOW(chown("root644", 1000, 1000));
	SHOW(chmod("open/mine", 0600));
	SHOW(chown("open/mine", 0, 0));
	SHOW(chown("open/mine", 1000, 1000));
	SHOW(unlink("root644"));
	SHOW(unlink("open/theirs"));
	SHOW(unlink("sticky/theirs"));
	SHOW(rename("sticky/theirs", "sticky/stolen"));
	SHOW(unlink("open/mine"));
	SHOW(mkdir("sub", 0755));
	SHOW(chroot("."));
	SHOW(kill(1, 0));
	SHOW(setpriority(0, 0, -5));
	SHOW(utimensat(AT_FDCWD, "root644", 0, 0));
	SHOW(truncate("root644", 0));
	SHOW(sethostname("x", 1));
	SHOW_OK(open("/proc/1/fd", O_RDONLY));
	SHOW(execl("root644", "x", (char *)0));
}

static void permissions(void)
{
	section("permissions");
	chmod(".", 0755);
	write_file("root600", "x"), chmod("root600", 0600);
	write_file("root644", "x");
	write_file("root755", "x"), chmod("root755", 0755);
	mkdir("group", 0750), mkdir("closed", 0711), mkdir("open", 0777), mkdir("sticky", 0777);
	chmod("open", 0777), chmod("sticky", 01777), chmod("closed", 0711);
	write_file("group/x", "x"), write_file("closed/x", "x"), write_file("open/theirs", "x"), write_file("sticky/theirs", "x");
	in_child("non-root", as_nobody);
	struct stat st;
	umask(027);
	close(open("masked", O_CREAT | O_RDWR, 0666));
	stat("masked", &st);
	say("%o", st.st_mode);
	mkdir("maskeddir", 0777);
	stat("maskeddir", &st);
	say("%o", st.st_mode);
	SHOW(umask(022));
	SHOW(umask(0777) == 022);
	umask(022);
	chmod("masked", 06755);
	stat("masked", &st);
	say("%o", st.st_mode);
	SHOW(chown("masked", 5, 6));
	stat("masked", &st);
	say("%o uid %d gid %d", st.st_mode, (int)st.st_uid, (int)st.st_gid);
	SHOW(chown("masked", -1, 7));
	stat("masked", &st);
	say("uid %d gid %d", (int)st.st_uid, (int)st.st_gid);
	SHOW(lchown("link", 3, 3));
	lstat("link", &st);
	say("%o uid %d", st.st_mode, (int)st.st_uid);
	SHOW(access("root600", R_OK | W_OK));
	SHOW(access("root600", X_OK));
	SHOW(access("closed", X_OK));
	mkdir("setgid", 0755), chown("setgid", 0, 42), chmod("setgid", 02755);
	mkdir("setgid/sub", 0755), write_file("setgid/file", "x");
	stat("setgid/sub", &st);
	say("%o gid %d", st.st_mode, (int)st.st_gid);
	stat("setgid/file", &st);
	say("%o gid %d", st.st_mode, (int)st.st_gid);
}

int main(void)
{
	opening();
	offsets();
	descriptors();
	locks();
	permissions();
	return 0;
}
