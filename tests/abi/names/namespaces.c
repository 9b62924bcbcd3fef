/* Namespaces of mounts: unshare, clone and setns with CLONE_NEWNS, and what processes of two of them see and may change of each other's. */
#include "mounts.h"

#include <pthread.h>
#include <sys/vfs.h>
#include <sys/ioctl.h>
#include <sched.h>

/* `struct mnt_id_req` with a namespace. */
struct request { uint32_t size, spare; uint64_t mount, parameter, space; };

static int steps[2][2];

/* Two processes take turns: each says that its step is done. */
static void done(int who) { write(steps[who][1], "", 1); }
static void await(int who) { char byte; read(steps[who][0], &byte, 1); }

static const char *there(const char *path) { return access(path, F_OK) == 0 ? "there" : error_name(errno); }

/* The number of the caller's namespace, and that of its root. */
static uint64_t space_of(uint64_t space, uint64_t *root)
{
	char x[256] = { 0 };
	uint64_t out[64] = { 0 };
	syscall(SYS_statx, AT_FDCWD, "/", 0, 0x4000, x);
	memcpy(root, x + 0x90, 8);
	struct request request = { sizeof request, 0, *root, 64, space };
	errno = 0;
	if (syscall(SYS_statmount, &request, out, sizeof out, 0) != 0)
		return 0;
	return out[14];
}

static void plain_user(void)
{
	if (setuid(1000))
		_exit(1);
	SHOW(unshare(CLONE_NEWNS));
	SHOW(syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0));
	SHOW(unshare(CLONE_NEWNS | 1));
}

static void refused(void)
{
	section("refused");
	in_child("user", plain_user);
	SHOW(unshare(CLONE_NEWNS | 1));
	SHOW(syscall(SYS_clone, CLONE_NEWNS | CLONE_FS | SIGCHLD, 0, 0, 0, 0));
	SHOW(syscall(SYS_clone, CLONE_NEWNS | CLONE_THREAD, 0, 0, 0, 0));
}

/* The child's half of `two`. */
static void other(int old)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", old);
	SHOW(chdir("both"));
	SHOW(unshare(CLONE_NEWNS));
	say("cwd: %s", strrchr(getcwd((char[PATH_MAX]){ 0 }, PATH_MAX), '/'));
	say("file of the cwd: %s", there("mark"));
	SHOW(chdir(".."));
	shown();
	section("what is in the other namespace");
	SHOW(mount(path, "mine", 0, MS_BIND, 0));
	SHOW(mount(path, "mine", 0, MS_BIND | MS_REC, 0));
	SHOW(mount("none", path, "tmpfs", 0, 0));
	SHOW(mount("both", path, 0, MS_BIND, 0));
	SHOW(mount(path, "mine", 0, MS_MOVE, 0));
	SHOW(mount("both", path, 0, MS_MOVE, 0));
	SHOW(mount("none", path, 0, MS_REMOUNT | MS_BIND | MS_RDONLY, 0));
	SHOW(umount2(path, 0));
	SHOW(umount2(path, MNT_DETACH));
	SHOW(umount2(path, MNT_EXPIRE));
	SHOW(tree(old, "", 1 | AT_EMPTY_PATH));
	SHOW(move(old, "", AT_FDCWD, "mine", F_EMPTY));
	uint64_t attributes[4] = { 1 };
	SHOW(syscall(SYS_mount_setattr, old, "", AT_EMPTY_PATH, attributes, sizeof attributes));
	say("its file: %s", there(strcat(strcpy((char[128]){ 0 }, path), "/mark")));
	section("mounts of one's own");
	SHOW(mount("none", "mine", "tmpfs", 0, 0));
	write_file("mine/mark", "");
	SHOW(umount("both"));
	SHOW(mount("fixed", "beside", 0, MS_BIND, 0));
	SHOW(mount("none", "both", "tmpfs", MS_NOSUID, 0));
	shown();
	done(0);
	await(1);
	say("what the other has mounted: %s", there("theirs/mark"));
	shown();
	done(0);
	await(1);
}

static void two(void)
{
	section("a namespace of one's own");
	mkdir("both", 0700), mkdir("mine", 0700), mkdir("theirs", 0700), mkdir("fixed", 0700), mkdir("beside", 0700);
	SHOW(mount("none", "both", "tmpfs", 0, 0));
	write_file("both/mark", "");
	mkdir("both/deep", 0700);
	SHOW(mount("none", "both/deep", "tmpfs", MS_RDONLY, 0));
	SHOW(mount("none", "fixed", "tmpfs", 0, 0));
	SHOW(mount(0, "fixed", 0, MS_UNBINDABLE, 0));
	pipe(steps[0]), pipe(steps[1]);
	int old = open("both", O_PATH | O_DIRECTORY);
	pid_t pid = must_fork();
	if (pid == 0) {
		other(old);
		_exit(0);
	}
	await(0);
	section("the other");
	say("what the child has mounted: %s, %s", there("mine/mark"), there("both/mark"));
	shown();
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/mounts", pid);
	char *its = read_file(path), *own = read_file("/proc/self/mounts");
	CHECK(strcmp(its, own) != 0);
	free(its), free(own);
	snprintf(path, sizeof path, "/proc/%d/root%s/mine/mark", pid, base);
	say("the child's, by /proc: %s", there(path));
	SHOW(mount("none", "theirs", "tmpfs", 0, 0));
	write_file("theirs/mark", "");
	done(1);
	await(0);
	section("statmount of both");
	uint64_t root, ours = space_of(0, &root), its_root, theirs;
	CHECK(ours != 0 && space_of(ours, &root) == ours);
	CHECK(space_of(ours + 1000, &root) == 0 && errno == ENOENT);
	int pidfd = syscall(SYS_pidfd_open, pid, 0);
	pid_t third = must_fork();
	if (third == 0) {
		SHOW(syscall(SYS_setns, pidfd, CLONE_NEWNS));
		say("cwd: %s", getcwd((char[PATH_MAX]){ 0 }, PATH_MAX));
		SHOW(chdir(base));
		shown();
		say("its mount: %s", there("mine/mark"));
		theirs = space_of(0, &its_root);
		CHECK(theirs != 0 && theirs != ours && its_root != root);
		uint64_t mount = root;
		struct request request = { sizeof request, 0, mount, 64, ours };
		uint64_t out[64];
		SHOW(syscall(SYS_statmount, &request, out, sizeof out, 0));
		CHECK(out[14] == ours);
		request.space = 0;
		SHOW(syscall(SYS_statmount, &request, out, sizeof out, 0));
		SHOW(umount("mine"));
		SHOW(umount("theirs"));
		if (setuid(1000))
			_exit(1);
		request.space = ours;
		SHOW(syscall(SYS_statmount, &request, out, sizeof out, 0));
		request.mount = -1;
		SHOW(syscall(SYS_statmount, &request, out, sizeof out, 0));
		request.parameter = 0;
		SHOW(syscall(458, &request, out, 0, 0));
		request.mount = mount;
		SHOW(syscall(458, &request, out, 0, 0));
		request.space = theirs;
		SHOW(syscall(458, &request, out, 0, 0));
		request.mount = its_root;
		SHOW(syscall(458, &request, out, 0, 0));
		SHOW(syscall(SYS_statmount, &request, out, sizeof out, 0));
		_exit(0);
	}
	wait_for(third);
	done(1);
	say("%s", status_text(wait_for(pid)));
	SHOW(syscall(SYS_setns, pidfd, CLONE_NEWNS));
	shown();
	close(old), close(pidfd);
	SHOW(umount("theirs"));
	SHOW(umount("both/deep"));
	SHOW(umount("both"));
	SHOW(umount("fixed"));
	shown();
}

static void *thread(void *unused)
{
	SHOW(unshare(CLONE_NEWNS));
	SHOW(mount("none", "mine", "tmpfs", 0, 0));
	write_file("mine/mark", "");
	say("a thread: %s", there("mine/mark"));
	return unused;
}

static void threads(void)
{
	section("a thread's");
	pthread_t it;
	pthread_create(&it, 0, thread, 0);
	pthread_join(it, 0);
	say("the others: %s", there("mine/mark"));
}

static void cloned(void)
{
	section("a child's");
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		SHOW(mount("none", "mine", "tmpfs", 0, 0));
		write_file("mine/mark", "");
		/* A copy of the copy, which outlives it. */
		pid_t below = (pid_t)syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
		if (below == 0) {
			SHOW(umount("mine"));
			say("below: %s", there("mine/mark"));
			_exit(0);
		}
		wait_for(below);
		say("above: %s", there("mine/mark"));
		_exit(0);
	}
	say("%s", status_text(wait_for(pid)));
	say("the others: %s", there("mine/mark"));
}

static void ended(void)
{
	section("mount points of others");
	mkdir("point", 0700);
	pid_t pid = must_fork();
	if (pid == 0) {
		unshare(CLONE_NEWNS);
		mount("none", "point", "tmpfs", 0, 0);
		write_file("point/mark", "");
		mkdir("point/deep", 0700);
		mount("none", "point/deep", "tmpfs", 0, 0);
		done(0);
		await(1);
		say("its own: %s", there("point/mark"));
		shown();
		_exit(0);
	}
	await(0);
	SHOW(rmdir("point"));
	SHOW(mkdir("point", 0700));
	done(1);
	wait_for(pid);
	SHOW(rmdir("point"));
}

/* The link of a process's namespace, without its number. */
static uint64_t link_of(pid_t pid)
{
	char path[64], text[64] = "";
	snprintf(path, sizeof path, "/proc/%d/ns/mnt", pid);
	errno = 0;
	if (readlink(path, text, sizeof text - 1) < 0)
		return 0;
	uint64_t number = 0;
	int end = 0;
	CHECK(sscanf(text, "mnt:[%lu]%n", &number, &end) == 1 && text[end] == 0);
	return number;
}

static void looks_in(void)
{
	if (setuid(1000))
		_exit(1);
	CHECK(link_of(getppid()) == 0 && errno == EACCES);
	SHOW(open("/proc/1/ns/mnt", O_RDONLY));
	SHOW(access("/proc/1/ns", F_OK));
	int own = open("/proc/self/ns/mnt", O_RDONLY);
	CHECK(own >= 0);
	SHOW(syscall(SYS_setns, own, 0));
}

static void files(void)
{
	section("/proc/PID/ns");
	struct stat s, other;
	struct statfs f;
	char byte[8];
	SHOW(stat("/proc/self/ns", &s));
	say("%o %ld", s.st_mode, (long)s.st_size);
	SHOW(lstat("/proc/self/ns/mnt", &s));
	say("%o %ld", s.st_mode, (long)s.st_size);
	SHOW(stat("/proc/self/ns/mnt", &s));
	say("%o %ld links %ld user %u", s.st_mode, (long)s.st_size, (long)s.st_nlink, s.st_uid);
	CHECK(s.st_ino == link_of(getpid()));
	SHOW(access("/proc/self/ns/none", F_OK));
	SHOW(mkdir("/proc/self/ns/none", 0700));
	SHOW(unlink("/proc/self/ns/mnt"));
	int fd = open("/proc/self/ns/mnt", O_RDONLY);
	CHECK(fd >= 0);
	SHOW(fstat(fd, &other));
	CHECK(other.st_ino == s.st_ino && other.st_dev == s.st_dev);
	SHOW(fstatfs(fd, &f));
	say("%lx", (unsigned long)f.f_type);
	SHOW(read(fd, byte, 1));
	SHOW(write(fd, byte, 1));
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(ftruncate(fd, 0));
	SHOW(fchmod(fd, 0600));
	SHOW(fchown(fd, 1, 1));
	SHOW(futimens(fd, 0));
	SHOW(mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0);
	SHOW(fchdir(fd));
	SHOW(fsync(fd));
	SHOW(open("/proc/self/ns/mnt", O_RDWR));
	SHOW(open("/proc/self/ns/mnt", O_WRONLY));
	SHOW(open("/proc/self/ns/mnt", O_RDONLY | O_DIRECTORY));
	SHOW(open("/proc/self/ns/mnt", O_RDONLY | O_NOFOLLOW));
	SHOW(truncate("/proc/self/ns/mnt", 0));
	SHOW(chmod("/proc/self/ns/mnt", 0600));
	SHOW(access("/proc/self/ns/mnt", W_OK));
	SHOW(execl("/proc/self/ns/mnt", "x", (char *)0));
	char path[64], text[64] = "", at[64] = "";
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	CHECK(readlink(path, text, sizeof text) > 0 && readlink("/proc/self/ns/mnt", at, sizeof at) > 0 && strcmp(text, at) == 0);
	int again = open(path, O_RDONLY);
	CHECK(again >= 0);
	SHOW(ioctl(again, 0xb703));
	MISSING(ioctl(again, 0xb701), EPERM);
	SHOW(ioctl(again, 0xb702));
	SHOW(ioctl(again, 0xb704, &s));
	SHOW(ioctl(again, 0x5401, &s));
	uint64_t number = 0, root;
	SHOW(ioctl(again, 0x8008b705, &number));
	CHECK(number == space_of(0, &root));
	struct { uint32_t size, mounts; uint64_t number; } info = { 0 };
	SHOW(ioctl(again, 0x8010b70a, &info));
	CHECK(info.size == 16 && info.mounts > 0 && info.number == number);
	close(again);
	SHOW(mount("/proc/self/ns/mnt", "mine", 0, MS_BIND, 0));
	SHOW(syscall(SYS_setns, fd, CLONE_NEWUTS));
	SHOW(syscall(SYS_setns, fd, 1));
	in_child("user", looks_in);
	pid_t pid = must_fork();
	if (pid == 0) {
		uint64_t before = link_of(getpid());
		SHOW(unshare(CLONE_NEWNS));
		CHECK(before != link_of(getpid()));
		SHOW(mount("none", "mine", "tmpfs", 0, 0));
		write_file("mine/mark", "");
		int own = open("/proc/self/ns/mnt", O_RDONLY);
		SHOW(syscall(SYS_setns, fd, 0));
		CHECK(before == link_of(getpid()));
		SHOW(chdir(base));
		say("back: %s", there("mine/mark"));
		/* Nobody but the file keeps the other. */
		nap(200);
		SHOW(syscall(SYS_setns, own, CLONE_NEWNS));
		SHOW(chdir(base));
		say("there again: %s", there("mine/mark"));
		chdir("/proc/self/ns");
		say("from within: %s", there("mnt"));
		SHOW(mount("none", base, "tmpfs", 0, 0));
		_exit(0);
	}
	say("%s", status_text(wait_for(pid)));
	close(fd);
}

int main(void)
{
	getcwd(base, sizeof base);
	refused();
	two();
	threads();
	cloned();
	ended();
	files();
	return 0;
}
