/* File systems that are set up by a descriptor: fsopen, fsconfig, and the log. */
#include "mounts.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/uio.h>

static void opening(void)
{
	section("opening");
	SHOW_OK(close(begin("tmpfs", 0)));
	SHOW_OK(close(begin("tmpfs", 1)));
	SHOW_OK(close(begin("proc", 0)));
	SHOW_OK(close(begin("sysfs", 0)));
	SHOW_OK(close(begin("devtmpfs", 0)));
	SHOW_OK(close(begin("devpts", 0)));
	SHOW(begin("nosuchfs", 0));
	SHOW(begin("rootfs", 0));
	SHOW(begin("tmpfs.x", 0));
	SHOW(begin("", 0));
	SHOW(begin(0, 0));
	SHOW(begin(0, 2));
	for (int bit = 1; bit < 32; bit++)
		if (begin("tmpfs", 1u << bit) != -1 || errno != EINVAL)
			say("flag %d", bit);
	static char longest[5000];
	memset(longest, 'x', 4999);
	SHOW(begin(longest, 0));
	longest[4096] = 0;
	SHOW(begin(longest, 0));
	longest[4095] = 0;
	SHOW(begin(longest, 0));
	int fd = begin("tmpfs", 1);
	SHOW(fcntl(fd, F_GETFD));
	SHOW(fcntl(fd, F_GETFL));
	char at[64], text[PATH_MAX] = "";
	snprintf(at, sizeof at, "/proc/self/fd/%d", fd);
	readlink(at, text, sizeof text - 1);
	say("%s", text);
	snprintf(at, sizeof at, "/proc/self/fdinfo/%d", fd);
	char *info = read_file(at);
	char *end = strstr(info, "mnt_id");
	if (end != 0)
		*end = 0;
	say("%s", info);
	struct stat st;
	fstat(fd, &st);
	say("mode %o, size %d", st.st_mode, (int)st.st_size);
	SHOW(read(fd, text, 100));
	SHOW(read(fd, text, 0));
	SHOW(read(fd, 0, 100));
	SHOW(write(fd, text, 1));
	SHOW(write(fd, text, 0));
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(pread(fd, text, 10, 0));
	SHOW(ftruncate(fd, 0));
	SHOW(mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	struct pollfd p = { fd, -1, 0 };
	SHOW(poll(&p, 1, 0));
	say("%x", p.revents);
	int epoll = epoll_create1(0);
	struct epoll_event event = { EPOLLIN, { 0 } };
	SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
	close(epoll);
	int pipes[2];
	pipe(pipes);
	SHOW(splice(fd, 0, pipes[1], 0, 10, 0));
	close(pipes[0]), close(pipes[1]);
	SHOW(openat(fd, "x", O_RDONLY));
	SHOW(open(at, O_RDONLY) >= 0);
	snprintf(at, sizeof at, "/proc/self/fd/%d", fd);
	SHOW(open(at, O_RDWR));
	close(fd);
}

static void commands(void)
{
	section("commands");
	int fd = begin("tmpfs", 0), file = open(".", O_RDONLY), path = open(".", O_PATH);
	TRY(config(-1, FLAG, "x", 0, 0));
	TRY(config(-1, 99, 0, 0, 0));
	TRY(config(999, FLAG, "x", 0, 0));
	TRY(config(999, FLAG, 0, 0, 0));
	TRY(config(999, 99, 0, 0, 0));
	TRY(config(file, FLAG, "x", 0, 0));
	TRY(config(path, FLAG, "x", 0, 0));
	TRY(config(fd, FLAG, 0, 0, 0));
	TRY(config(fd, FLAG, "ro", "x", 0));
	TRY(config(fd, FLAG, "ro", 0, 1));
	TRY(config(fd, FLAG, (char *)8, 0, 0));
	TRY(config(fd, FLAG, "", 0, 0));
	TRY(config(fd, FLAG, "ro", 0, 0));
	TRY(config(fd, FLAG, "rw", 0, 0));
	TRY(config(fd, FLAG, "wrong", 0, 0));
	TRY(config(fd, FLAG, "size", 0, 0));
	TRY(config(fd, FLAG, "source", 0, 0));
	TRY(config(fd, FLAG, "inode64", 0, 0));
	TRY(config(fd, FLAG, "noinode64", 0, 0));
	TRY(config(fd, FLAG, "nosuid", 0, 0));
	TRY(config(fd, FLAG, "noexec", 0, 0));
	TRY(config(fd, FLAG, "silent", 0, 0));
	TRY(config(fd, STRING, 0, "x", 0));
	TRY(config(fd, STRING, "size", 0, 0));
	TRY(config(fd, STRING, "size", "1m", 1));
	TRY(config(fd, STRING, "size", (char *)8, 0));
	TRY(config(fd, STRING, "wrong", "x", 0));
	TRY(config(fd, STRING, "ro", "x", 0));
	TRY(config(fd, STRING, "rw", "", 0));
	TRY(config(fd, STRING, "inode64", "x", 0));
	static const char *const wrong[][2] = { { "size", "" }, { "size", "x" }, { "size", "1x" }, { "size", "1,2" }, { "size", "-1" }, { "nr_blocks", "5%" },
		{ "nr_inodes", "x" }, { "mode", "8" }, { "mode", "x" }, { "mode", "" }, { "mode", "0x1" }, { "uid", "x" }, { "uid", "-1" }, { "uid", "4294967295" },
		{ "uid", "4294967296" }, { "gid", "" }, { "gid", "1 " }, { "gid", "4294967295" }, { "huge", "x" }, { "huge", "" }, { "mode", "7777777777777" } };
	for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		say("%s=%s", wrong[i][0], wrong[i][1]);
		TRY(config(fd, STRING, wrong[i][0], wrong[i][1], 0));
	}
	static const char *const right[][2] = { { "size", "1m" }, { "size", "50%" }, { "nr_blocks", "256" }, { "nr_inodes", "100" }, { "nr_inodes", "1k" }, { "mode", "1777" },
		{ "mode", "700\n" }, { "uid", "0x10" }, { "uid", "010" }, { "gid", "+5" }, { "gid", "7" }, { "huge", "never" }, { "mode", "17777" }, { "mode", "700" } };
	for (unsigned i = 0; i < sizeof right / sizeof *right; i++) {
		say("%s=%s", right[i][0], right[i][1]);
		TRY(config(fd, STRING, right[i][0], right[i][1], 0));
	}
	TRY(config(fd, STRING, "source", "from here", 0));
	TRY(config(fd, STRING, "source", "again", 0));
	TRY(config(fd, BINARY, "source", "x", 1));
	TRY(config(fd, BINARY, "size", "1m", 2));
	TRY(config(fd, BINARY, "wrong", "1m", 2));
	TRY(config(fd, BINARY, "size", "1m", 0));
	TRY(config(fd, BINARY, "size", "1m", -1));
	TRY(config(fd, BINARY, "size", "1m", (1 << 20) + 1));
	TRY(config(fd, BINARY, "size", (char *)8, 2));
	TRY(config(fd, BINARY, "size", 0, 2));
	TRY(config(fd, BINARY, "ro", "x", 1));
	TRY(config(fd, BINARY, 0, "x", 1));
	TRY(config(fd, PATHNAME, "size", ".", AT_FDCWD));
	TRY(config(fd, PATHNAME, "size", "", AT_FDCWD));
	TRY(config(fd, PATHNAME, "size", "none", AT_FDCWD));
	TRY(config(fd, PATHNAME, "size", ".", -1));
	TRY(config(fd, PATHNAME, "size", ".", 999));
	TRY(config(fd, PATHNAME, "size", (char *)8, 999));
	TRY(config(fd, PATHNAME, "wrong", "/", file));
	TRY(config(fd, PATHNAME, "source", "/", file));
	TRY(config(fd, PATHNAME, "rw", "/", file));
	TRY(config(fd, PATHNAME, "wrong", 0, file));
	TRY(config(fd, PATHNAME, 0, "x", file));
	TRY(config(fd, PATH_EMPTY, "size", "", file));
	TRY(config(fd, PATH_EMPTY, "wrong", "", AT_FDCWD));
	TRY(config(fd, PATH_EMPTY, "rw", "", AT_FDCWD));
	TRY(config(fd, PATH_EMPTY, "wrong", "", -5));
	TRY(config(fd, FD, "size", 0, file));
	TRY(config(fd, FD, "size", 0, path));
	TRY(config(fd, FD, "size", 0, 999));
	TRY(config(fd, FD, "size", 0, -1));
	TRY(config(fd, FD, "size", "x", file));
	TRY(config(fd, FD, "wrong", 0, file));
	TRY(config(fd, FD, "rw", 0, file));
	TRY(config(fd, FD, "source", 0, file));
	TRY(config(fd, FD, 0, 0, file));
	TRY(config(fd, CREATE, "x", 0, 0));
	TRY(config(fd, CREATE, 0, "x", 0));
	TRY(config(fd, CREATE, 0, 0, 1));
	TRY(config(fd, RECONFIGURE, "x", 0, 0));
	TRY(config(fd, CREATE_EXCL, 0, 0, 1));
	for (unsigned i = 9; i < 12; i++)
		TRY(config(fd, i, 0, 0, 0));
	TRY(config(fd, -1, 0, 0, 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	TRY(made(fd, 0, 0));
	static char longest[300];
	memset(longest, 'k', 299);
	TRY(config(fd, FLAG, longest, 0, 0));
	TRY(config(fd, STRING, "size", longest, 0));
	longest[256] = 0;
	TRY(config(fd, FLAG, longest, 0, 0));
	TRY(config(fd, STRING, "size", longest, 0));
	longest[255] = 0;
	TRY(config(fd, FLAG, longest, 0, 0));
	TRY(config(fd, STRING, "size", longest, 0));
	TRY(config(fd, CREATE, 0, 0, 0));
	TRY(config(fd, CREATE, 0, 0, 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	TRY(config(fd, FLAG, "ro", 0, 0));
	TRY(config(fd, FLAG, "wrong", 0, 0));
	TRY(config(fd, FLAG, (char *)8, 0, 0));
	TRY(config(fd, FD, "x", 0, 999));
	mkdir("m", 0755);
	int mount = made(fd, 0, 0);
	TRY(hang(mount, "m"));
	shown();
	struct stat st;
	stat("m", &st);
	say("%o %d %d", st.st_mode, st.st_uid, st.st_gid);
	TRY(made(fd, 0, 0));
	TRY(config(fd, CREATE, 0, 0, 0));
	section("again by the same descriptor");
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	TRY(config(fd, STRING, "size", "2m", 0));
	TRY(config(fd, STRING, "source", "other", 0));
	TRY(config(fd, FLAG, "sync", 0, 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	shown();
	TRY(config(fd, FLAG, "async", 0, 0));
	TRY(config(fd, FLAG, "dirsync", 0, 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	TRY(config(fd, CREATE, 0, 0, 0));
	TRY(config(fd, FLAG, "async", 0, 0));
	shown();
	close(fd), close(mount), close(file), close(path);
	SHOW(umount("m"));
}

static void logs(void)
{
	section("logs");
	int fd = begin("tmpfs", 0);
	char text[64] = "", more[64] = "";
	for (int i = 0; i < 11; i++) {
		snprintf(text, sizeof text, "option%d", i);
		config(fd, FLAG, text, 0, 0);
	}
	SHOW(read(fd, text, 5));
	SHOW(read(fd, text, 0));
	SHOW(read(fd, (char *)8, 60));
	memset(text, 0, sizeof text);
	SHOW(read(fd, text, 35));
	say("'%s'", text);
	logged(fd);
	config(fd, FLAG, "first", 0, 0);
	config(fd, FLAG, "second", 0, 0);
	memset(text, 0, sizeof text);
	struct iovec parts[2] = { { text, 34 }, { more, 60 } };
	SHOW(readv(fd, parts, 2));
	say("'%s' '%s'", text, more);
	logged(fd);
	config(fd, FLAG, "first", 0, 0);
	config(fd, FLAG, "second", 0, 0);
	parts[0].iov_len = 33;
	parts[0].iov_len = strlen("e tmpfs: Unknown parameter 'first'\n");
	memset(text, 0, sizeof text);
	SHOW(readv(fd, parts, 2));
	say("'%s' '%s'", text, more);
	config(fd, FLAG, "third", 0, 0);
	SHOW(readv(fd, parts, 2));
	logged(fd);
	config(fd, FLAG, "third", 0, 0);
	if (must_fork() == 0) {
		logged(fd);
		_exit(0);
	}
	wait(0);
	logged(fd);
	close(fd);
}

static void unprivileged(void)
{
	struct { unsigned version; int pid; } head = { 0x20080522, 0 };
	struct { unsigned effective, permitted, inheritable; } data[2] = { { 0 } };
	int fd = begin("tmpfs", 0), done = begin("tmpfs", 0);
	config(done, CREATE, 0, 0, 0);
	int picked = pick(AT_FDCWD, "/dev", 0);
	syscall(SYS_capset, &head, data);
	SHOW(begin("tmpfs", 0));
	SHOW(begin("nosuchfs", 2));
	SHOW(begin(0, 0));
	SHOW(made(done, 0, 0));
	SHOW(made(-1, 8, 0));
	SHOW(pick(AT_FDCWD, "none", 0));
	SHOW(pick(AT_FDCWD, "none", 0x80));
	TRY(config(fd, FLAG, "ro", 0, 0));
	TRY(config(fd, FLAG, "wrong", 0, 0));
	TRY(config(fd, CREATE, 0, 0, 0));
	TRY(config(fd, CREATE, 0, 0, 0));
	TRY(config(picked, FLAG, "nomand", 0, 0));
	TRY(config(picked, RECONFIGURE, 0, 0, 0));
	TRY(config(picked, RECONFIGURE, 0, 0, 0));
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	mount("none", "/", 0, MS_REC | MS_PRIVATE, 0);
	getcwd(base, sizeof base);
	opening();
	commands();
	logs();
	in_child("without rights", unprivileged);
	rmdir("m");
	return 0;
}
