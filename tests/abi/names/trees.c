/* Trees of mounts that a descriptor holds, and where they come to hang: open_tree, move_mount. */
#include "mounts.h"

#include <sys/socket.h>
#include <sys/vfs.h>

enum { CLONE = 1, RECURSIVE = 0x8000, EMPTY = 0x1000, NOFOLLOW = 0x100 };

/* A new tmpfs that hangs nowhere. */
static int fresh(const char *source)
{
	int fd = syscall(SYS_fsopen, "tmpfs", 0);
	syscall(SYS_fsconfig, fd, 1, "source", source, 0);
	syscall(SYS_fsconfig, fd, 6, 0, 0, 0);
	int mount = syscall(SYS_fsmount, fd, 0, 0);
	close(fd);
	return mount;
}

static const char *link_of(int fd)
{
	static char text[PATH_MAX];
	char at[64];
	snprintf(at, sizeof at, "/proc/self/fd/%d", fd);
	long n = readlink(at, text, sizeof text - 1);
	text[n < 0 ? 0 : n] = 0;
	return strncmp(text, base, strlen(base)) == 0 ? text + strlen(base) : text;
}

static void opening(void)
{
	section("open_tree");
	SHOW(tree(AT_FDCWD, "none", 0));
	SHOW(tree(AT_FDCWD, "none", CLONE));
	SHOW(tree(AT_FDCWD, "", 0));
	SHOW(tree(AT_FDCWD, 0, 0));
	SHOW(tree(AT_FDCWD, 0, EMPTY));
	SHOW(tree(999, "m", 0));
	SHOW(tree(999, "", EMPTY));
	SHOW(tree(AT_FDCWD, "m", RECURSIVE));
	SHOW(tree(AT_FDCWD, "none", RECURSIVE));
	for (int bit = 1; bit < 32; bit++)
		if (tree(AT_FDCWD, "none", 1u << bit) != -1 || errno != EINVAL)
			say("flag %d: %s", bit, error_name(errno));
	int fd;
	SHOW_OK(fd = tree(AT_FDCWD, "m", 0));
	say("%x %x '%s'", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD), link_of(fd));
	close(fd);
	SHOW_OK(close(tree(AT_FDCWD, "m", 0x800)));
	SHOW_OK(fd = tree(AT_FDCWD, "m", O_CLOEXEC));
	say("%x %x", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
	SHOW(openat(fd, "in/none", O_RDONLY));
	close(fd);
	SHOW_OK(fd = tree(AT_FDCWD, "link", NOFOLLOW));
	struct stat st;
	fstat(fd, &st);
	say("%o", st.st_mode & S_IFMT);
	close(fd);
	SHOW_OK(fd = tree(AT_FDCWD, "link", 0));
	fstat(fd, &st);
	say("%o", st.st_mode & S_IFMT);
	close(fd);
	int pipes[2], more;
	pipe(pipes);
	SHOW_OK(more = tree(pipes[0], "", EMPTY));
	say("%x", fcntl(more, F_GETFL));
	SHOW(tree(pipes[0], "", EMPTY | CLONE));
	SHOW(move(pipes[0], "", AT_FDCWD, "n", F_EMPTY));
	close(more), close(pipes[0]), close(pipes[1]);
	SHOW_OK(fd = tree(AT_FDCWD, "m", CLONE | O_CLOEXEC));
	say("%x %x '%s'", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD), link_of(fd));
	char text[8];
	SHOW(read(fd, text, 1));
	SHOW(ftruncate(fd, 0));
	SHOW(ioctl(fd, 0x5401, text));
	SHOW(mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	SHOW(fchmod(fd, 0755));
	SHOW(lseek(fd, 0, SEEK_SET));
	struct statfs s;
	SHOW(fstatfs(fd, &s));
	close(fd);
	shown();
}

static void copies(void)
{
	section("copies");
	write_file("m/file", "text"), write_file("m/in/inner", "text");
	int fd = tree(AT_FDCWD, "m", CLONE), all = tree(AT_FDCWD, "m", CLONE | RECURSIVE), part = tree(AT_FDCWD, "m/dir", CLONE), file = tree(AT_FDCWD, "m/file", CLONE);
	say("%d %d %d %d", fd >= 0, all >= 0, part >= 0, file >= 0);
	shown();
	SHOW(faccessat(fd, "file", F_OK, 0));
	SHOW(faccessat(fd, "in/inner", F_OK, 0));
	SHOW(faccessat(all, "in/inner", F_OK, 0));
	SHOW(faccessat(all, "in/../file", F_OK, 0));
	SHOW(faccessat(part, "..", F_OK, 0));
	SHOW(faccessat(part, "../file", F_OK, 0));
	int inner = openat(all, "in/inner", O_RDONLY), in = openat(all, "in", O_RDONLY | O_DIRECTORY);
	say("'%s' '%s' '%s'", link_of(all), link_of(in), link_of(inner));
	/* Written through the one and seen through the other. */
	close(openat(all, "new", O_CREAT | O_WRONLY, 0644));
	SHOW(access("m/new", F_OK));
	unlink("m/new");
	section("what cannot be done in them");
	SHOW(tree(all, "", EMPTY | CLONE));
	SHOW(tree(all, "in", CLONE));
	SHOW_OK(close(tree(all, "in", 0)));
	char at[64];
	snprintf(at, sizeof at, "/proc/self/fd/%d", all);
	SHOW(mount("x", at, "tmpfs", 0, 0));
	SHOW(mount("n", at, 0, MS_BIND, 0));
	SHOW(mount(at, "n", 0, MS_BIND, 0));
	SHOW(mount(0, at, 0, MS_REMOUNT | MS_BIND | MS_RDONLY, 0));
	SHOW(mount(0, at, 0, MS_REMOUNT, 0));
	SHOW(mount(0, at, 0, MS_PRIVATE, 0));
	SHOW(umount(at));
	SHOW(umount2(at, MNT_DETACH));
	SHOW(umount2(at, MNT_EXPIRE));
	SHOW(syscall(SYS_pivot_root, at, at));
	snprintf(at, sizeof at, "/proc/self/fd/%d/in", all);
	SHOW(umount(at));
	SHOW(move(in, "", AT_FDCWD, "n", F_EMPTY));
	SHOW(move(AT_FDCWD, "m/in", all, "in", 0));
	SHOW(move(AT_FDCWD, "m/in", all, "", T_EMPTY));
	SHOW(move(AT_FDCWD, "m/in", all, "dir", 0));
	SHOW(move(fd, "", all, "dir", F_EMPTY));
	SHOW(move(fd, "", all, "dir", F_EMPTY | BENEATH));
	SHOW(move(fd, "", all, "in", F_EMPTY | BENEATH));
	SHOW(move(all, "dir", AT_FDCWD, "n", 0));
	SHOW(move(file, "", AT_FDCWD, "n", F_EMPTY));
	SHOW(move(fd, "", AT_FDCWD, "m/file", F_EMPTY));
	uint64_t attributes[4] = { 2, 0, 0, 0 };
	SHOW(syscall(SYS_mount_setattr, in, "", EMPTY, attributes, 32));
	SHOW(syscall(SYS_mount_setattr, fd, "", EMPTY, attributes, 32));
	SHOW(syscall(SYS_mount_setattr, all, "", EMPTY | RECURSIVE, attributes, 32));
	uint64_t x[32];
	syscall(SYS_statx, all, "", EMPTY, 0x4000, x);
	struct { uint32_t size, spare; uint64_t mount, parameter; } request = { 24, 0, x[18], 2 };
	char told[512];
	SHOW(syscall(SYS_statmount, &request, told, sizeof told, 0));
	section("standing there");
	if (must_fork() == 0) {
		char cwd[PATH_MAX] = "";
		SHOW(fchdir(in));
		SHOW(syscall(SYS_getcwd, cwd, sizeof cwd));
		say("%s", cwd);
		SHOW(chdir(".."));
		syscall(SYS_getcwd, cwd, sizeof cwd);
		say("%s", cwd);
		SHOW(access("in/inner", F_OK));
		SHOW(chdir(".."));
		SHOW(access("in/inner", F_OK));
		SHOW(chroot("in"));
		SHOW(access("/inner", F_OK));
		_exit(0);
	}
	wait(0);
	section("mounting them");
	mkdir("n/dir", 0755), write_file("n/file", "x");
	SHOW(hang(all, "n"));
	shown();
	SHOW(access("n/in/inner", F_OK));
	say("'%s' '%s' '%s'", link_of(all), link_of(in), link_of(inner));
	SHOW(hang(all, "n/dir"));
	SHOW(hang(part, "n/dir"));
	SHOW(hang(file, "n/file"));
	SHOW(hang(fd, "n"));
	SHOW(faccessat(AT_FDCWD, "n/in/inner", F_OK, 0));
	shown();
	SHOW(tree(all, "in", CLONE) >= 0);
	SHOW(syscall(SYS_statmount, &request, told, sizeof told, 0));
	close(fd), close(part), close(file);
	SHOW(umount("n"));
	SHOW(umount("n/file")), SHOW(umount("n/dir"));
	SHOW(umount("n/in"));
	close(in), close(inner);
	SHOW(umount("n/in"));
	SHOW(umount("n"));
	close(all);
	SHOW(umount("n"));
	shown();
}

static void ending(void)
{
	section("how they end");
	int fd = fresh("one"), more = dup(fd), dir = openat(fd, ".", O_RDONLY), in;
	mkdirat(fd, "x", 0755);
	SHOW(faccessat(fd, "x", F_OK, 0));
	close(fd);
	SHOW(hang(more, "n"));
	SHOW(access("n/x", F_OK));
	close(more), close(dir);
	SHOW(umount("n"));
	fd = fresh("two"), dir = openat(fd, ".", O_RDONLY);
	mkdirat(fd, "x", 0755);
	close(fd);
	SHOW(faccessat(dir, "x", F_OK, 0));
	SHOW(mkdirat(dir, "y", 0755));
	SHOW(move(dir, "", AT_FDCWD, "n", F_EMPTY));
	SHOW(tree(dir, "", EMPTY | CLONE));
	char at[64];
	snprintf(at, sizeof at, "/proc/self/fd/%d", dir);
	SHOW(mount(0, at, 0, MS_PRIVATE, 0));
	SHOW(mount(0, at, 0, MS_REMOUNT | MS_BIND, 0));
	SHOW(umount(at));
	close(dir);
	fd = tree(AT_FDCWD, "m", CLONE | RECURSIVE), in = openat(fd, "in", O_RDONLY), dir = openat(fd, ".", O_RDONLY);
	close(fd);
	SHOW(faccessat(in, "inner", F_OK, 0));
	SHOW(faccessat(dir, "file", F_OK, 0));
	SHOW(move(in, "", AT_FDCWD, "n", F_EMPTY));
	close(in), close(dir);
	/* A message that carries it. */
	int ends[2];
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	fd = fresh("three");
	char room[CMSG_SPACE(sizeof fd)] = "", byte = 'x';
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(head), &fd, sizeof fd);
	SHOW(sendmsg(ends[0], &message, 0));
	close(fd);
	memset(room, 0, sizeof room);
	SHOW(recvmsg(ends[1], &message, 0));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	SHOW(hang(fd, "n"));
	close(fd);
	SHOW(umount("n"));
	fd = fresh("four");
	head = CMSG_FIRSTHDR(&message);
	memcpy(CMSG_DATA(head), &fd, sizeof fd);
	SHOW(sendmsg(ends[0], &message, 0));
	close(fd), close(ends[0]), close(ends[1]);
	/* A child that has it, and one that ends with it. */
	fd = fresh("five");
	if (must_fork() == 0)
		_exit(0);
	wait(0);
	SHOW(hang(fd, "n"));
	if (must_fork() == 0) {
		fresh("six");
		_exit(0);
	}
	wait(0);
	/* mount moves it as well. */
	close(fd);
	SHOW(umount("n"));
	fd = fresh("seven");
	snprintf(at, sizeof at, "/proc/self/fd/%d", fd);
	SHOW(mount(at, "n", 0, MS_MOVE, 0));
	shown();
	close(fd);
	SHOW(umount("n"));
}

static void moving(void)
{
	section("move_mount");
	SHOW(move(AT_FDCWD, "none", AT_FDCWD, "n", 0));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "none", 0));
	SHOW(move(AT_FDCWD, "", AT_FDCWD, "n", 0));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "", 0));
	SHOW(move(AT_FDCWD, 0, AT_FDCWD, "n", F_EMPTY));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, 0, T_EMPTY));
	SHOW(move(999, "m", AT_FDCWD, "n", 0));
	SHOW(move(AT_FDCWD, "m", 999, "n", 0));
	for (int bit = 0; bit < 32; bit++)
		if (move(AT_FDCWD, "none", AT_FDCWD, "n", 1u << bit) != -1 || errno != EINVAL)
			say("flag %d: %s", bit, error_name(errno));
	SHOW(move(AT_FDCWD, "none", AT_FDCWD, "n", GROUP | BENEATH));
	SHOW(move(AT_FDCWD, "link", AT_FDCWD, "n", 0));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "n", 0));
	shown();
	SHOW(move(AT_FDCWD, "n", AT_FDCWD, "link", 0));
	SHOW(move(AT_FDCWD, "n", AT_FDCWD, "link", T_LINKS));
	shown();
	SHOW(move(AT_FDCWD, "link", AT_FDCWD, "n", F_LINKS));
	int n = open("n", O_PATH), m = open("m", O_PATH);
	SHOW(move(n, "", m, "", F_EMPTY | T_EMPTY));
	close(m);
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "n", 2 | 0x20));
	SHOW(move(AT_FDCWD, "n", AT_FDCWD, "m", 2 | 0x20));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "m/dir", 0));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "m/in", 0));
	SHOW(move(AT_FDCWD, "m/dir", AT_FDCWD, "n", 0));
	SHOW(move(AT_FDCWD, "/", AT_FDCWD, "n", 0));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "m/file", 0));
	SHOW(move(AT_FDCWD, "m/in", AT_FDCWD, "m/dir", 0));
	shown();
	SHOW(move(AT_FDCWD, "m/dir", AT_FDCWD, "m/in", 0));
	close(n);
	mkdir("gone", 0755);
	int gone = open("gone", O_PATH);
	rmdir("gone");
	SHOW(move(AT_FDCWD, "m", gone, "", T_EMPTY));
	close(gone);
	mkdir("m/gone", 0755);
	int copy = tree(AT_FDCWD, "m/gone", CLONE);
	rmdir("m/gone");
	SHOW(hang(copy, "n"));
	say("'%s'", link_of(copy));
	close(copy);
	section("groups");
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "m/in", GROUP));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "n", GROUP));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "m", GROUP));
	SHOW(move(AT_FDCWD, "none", AT_FDCWD, "m", GROUP));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "none", GROUP));
	int fd = fresh("x");
	SHOW(move(fd, "", AT_FDCWD, "m", GROUP | F_EMPTY));
	close(fd);
}

static void beneath(void)
{
	section("beneath");
	int fd = fresh("below"), other = fresh("other");
	mkdirat(fd, "mine", 0755);
	SHOW(move(fd, "", AT_FDCWD, "n", F_EMPTY | BENEATH));
	SHOW(move(fd, "", AT_FDCWD, "m/dir", F_EMPTY | BENEATH));
	SHOW(move(fd, "", AT_FDCWD, "m/file", F_EMPTY | BENEATH));
	SHOW(move(fd, "", AT_FDCWD, "m", F_EMPTY | BENEATH));
	SHOW(move(fd, "", AT_FDCWD, "/", F_EMPTY | BENEATH));
	SHOW(move(fd, "", AT_FDCWD, "m/in", F_EMPTY | BENEATH));
	SHOW(access("m/in/inner", F_OK));
	shown();
	SHOW(move(fd, "", AT_FDCWD, "n", F_EMPTY | BENEATH));
	SHOW(move(other, "", AT_FDCWD, "m/in", F_EMPTY | BENEATH));
	shown();
	SHOW(umount("m/in"));
	SHOW(access("m/in/inner", F_OK));
	shown();
	close(other);
	SHOW(umount("m/in"));
	SHOW(access("m/in/mine", F_OK));
	close(fd);
	SHOW(umount("m/in"));
	shown();
	mount("in", "m/in", "tmpfs", 0, 0);
	mkdir("m/in/deep", 0755);
	mount("deep", "m/in/deep", "tmpfs", 0, 0);
	SHOW(move(AT_FDCWD, "m/in", AT_FDCWD, "m/in/deep", BENEATH));
	SHOW(move(AT_FDCWD, "m/in/deep", AT_FDCWD, "m/in", BENEATH));
	SHOW(move(AT_FDCWD, "m", AT_FDCWD, "m/in", BENEATH));
	SHOW(move(AT_FDCWD, "m/in", AT_FDCWD, "m/in", BENEATH));
	mount("side", "m/dir", "tmpfs", 0, 0);
	mkdir("m/dir/mine", 0755);
	SHOW(move(AT_FDCWD, "m/dir", AT_FDCWD, "m/in", BENEATH));
	shown();
	SHOW(access("m/in/deep", F_OK));
	SHOW(umount("m/in/deep"));
	SHOW(umount("m/in"));
	SHOW(access("m/in/mine", F_OK));
	fd = fresh("file");
	SHOW(move(fd, "", AT_FDCWD, "m/in/mine", F_EMPTY));
	SHOW(move(AT_FDCWD, "m/in/mine", AT_FDCWD, "m/in", BENEATH));
	close(fd);
	SHOW(umount("m/in/mine"));
	SHOW(umount("m/in"));
	/* With a root of one's own. */
	mount("in", "m/in", "tmpfs", 0, 0);
	fd = fresh("root");
	if (must_fork() == 0) {
		chroot("m/in");
		SHOW(move(fd, "", AT_FDCWD, "/", F_EMPTY | BENEATH));
		_exit(0);
	}
	wait(0);
	close(fd);
	shown();
	umount("m/in");
}

/* As mount(8) of util-linux does it: --bind, --rbind, --move, remount,bind,ro. */
static void like_mount(void)
{
	section("bind, rbind, move, remount");
	uint64_t attributes[4] = { 1, 0, 0, 0 };
	mount("in", "m/in", "tmpfs", 0, 0);
	int fd = tree(AT_FDCWD, "m", CLONE | O_CLOEXEC);
	SHOW(hang(fd, "n"));
	close(fd);
	shown();
	SHOW(umount("n"));
	fd = tree(AT_FDCWD, "m", CLONE | O_CLOEXEC | RECURSIVE);
	SHOW(syscall(SYS_mount_setattr, fd, "", EMPTY | RECURSIVE, attributes, 32));
	SHOW(hang(fd, "n"));
	close(fd);
	shown();
	SHOW(move(AT_FDCWD, "n/in", AT_FDCWD, "n/dir", 0));
	shown();
	SHOW(umount2("n", MNT_DETACH));
	fd = tree(AT_FDCWD, "m", O_CLOEXEC);
	SHOW(syscall(SYS_mount_setattr, fd, "", EMPTY, attributes, 32));
	attributes[2] = MS_UNBINDABLE;
	SHOW(syscall(SYS_mount_setattr, fd, "", EMPTY, attributes, 32));
	SHOW(tree(fd, "", CLONE | EMPTY));
	attributes[0] = 0, attributes[1] = 1, attributes[2] = MS_PRIVATE;
	SHOW(syscall(SYS_mount_setattr, fd, "", EMPTY, attributes, 32));
	close(fd);
	umount("m/in");
	shown();
}

static void unprivileged(void)
{
	struct { unsigned version; int pid; } head = { 0x20080522, 0 };
	struct { unsigned effective, permitted, inheritable; } data[2] = { { 0 } };
	syscall(SYS_capset, &head, data);
	SHOW(tree(AT_FDCWD, "m", CLONE));
	SHOW(tree(AT_FDCWD, "none", CLONE));
	SHOW(tree(AT_FDCWD, "m", 2));
	SHOW(tree(AT_FDCWD, "m", RECURSIVE));
	SHOW_OK(close(tree(AT_FDCWD, "m", 0)));
	SHOW(move(AT_FDCWD, "none", AT_FDCWD, "n", 0));
	SHOW(move(AT_FDCWD, "none", AT_FDCWD, "n", 8));
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	mount("none", "/", 0, MS_REC | MS_PRIVATE, 0);
	getcwd(base, sizeof base);
	mkdir("m", 0755), mkdir("n", 0755), symlink("m", "link");
	mount("m", "m", "tmpfs", 0, 0);
	mkdir("m/dir", 0755), mkdir("m/in", 0755);
	mount("in", "m/in", "tmpfs", 0, 0);
	opening();
	copies();
	ending();
	moving();
	beneath();
	like_mount();
	in_child("without rights", unprivileged);
	SHOW(umount("m"));
	unlink("link"), unlink("n/file"), rmdir("n/dir"), rmdir("m"), rmdir("n");
	return 0;
}
