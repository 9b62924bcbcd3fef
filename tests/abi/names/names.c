/* Names: mkdir, link, unlink, symlink, rename and their errors; directories read back; stat; times; chroot; getcwd. */
#include "t.h"

#include <dirent.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(const char *path)
{
	DIR *dir = opendir(path);
	if (!dir) {
		say("opendir %s: %s", path, error_name(errno));
		return;
	}
	char *names[600];
	int count = 0;
	for (struct dirent *entry; count < 600 && (entry = readdir(dir));) {
		char line[300];
		snprintf(line, sizeof line, "%s:%d", entry->d_name, entry->d_type);
		names[count++] = strdup(line);
	}
	closedir(dir);
	qsort(names, (size_t)count, sizeof *names, by_name);
	char all[4000] = "";
	for (int i = 0; i < count && i < 40; i++) {
		strcat(all, " ");
		strcat(all, names[i]);
	}
	say("%s: %d:%s", path, count, all);
}

static void making(void)
{
	section("mkdir, link, unlink, symlink");
	SHOW(mkdir("a", 0755));
	SHOW(mkdir("a", 0755));
	SHOW(mkdir("a/", 0755));
	SHOW(mkdir("b/", 0755));
	SHOW(mkdir("a/b/c", 0755));
	SHOW(mkdir("/", 0755));
	SHOW(mkdir(".", 0755));
	SHOW(mkdir("", 0755));
	write_file("f", "text");
	SHOW(mkdir("f/x", 0755));
	SHOW(mkdir("f", 0755));
	SHOW(link("f", "g"));
	SHOW(link("f", "g"));
	SHOW(link("missing", "h"));
	SHOW(link("a", "h"));
	SHOW(link("f", "a/f"));
	SHOW(link("f", "missing/f"));
	struct stat st;
	stat("f", &st);
	SHOW(st.st_nlink);
	stat("a", &st);
	SHOW(st.st_nlink);
	SHOW(mkdir("a/sub", 0755));
	stat("a", &st);
	SHOW(st.st_nlink);
	SHOW(rmdir("a"));
	SHOW(rmdir("f"));
	SHOW(rmdir("missing"));
	SHOW(rmdir("."));
	SHOW(rmdir("a/."));
	SHOW(rmdir("a/.."));
	SHOW(rmdir("/"));
	SHOW(rmdir("a/sub/"));
	SHOW(unlink("a"));
	SHOW(unlink("f/"));
	SHOW(unlink("missing"));
	SHOW(unlink(""));
	SHOW(unlinkat(AT_FDCWD, "a", AT_REMOVEDIR));
	SHOW(unlinkat(AT_FDCWD, "a", 0x4000));
	SHOW(symlink("", "e"));
	SHOW(symlink("f", ""));
	SHOW(symlink("f", "s"));
	SHOW(symlink("f", "s"));
	SHOW(symlink("a", "sd"));
	SHOW(symlink("missing", "dangling"));
	SHOW(link("s", "s2"));
	SHOW(lstat("s2", &st));
	say("%o", st.st_mode);
	SHOW(linkat(AT_FDCWD, "s", AT_FDCWD, "s3", AT_SYMLINK_FOLLOW));
	lstat("s3", &st);
	say("%o", st.st_mode);
	char target[64];
	SHOW(readlink("s", target, sizeof target));
	SHOW(readlink("f", target, sizeof target));
	SHOW(readlink("missing", target, sizeof target));
	SHOW(syscall(SYS_readlink, "dangling", target, 3));
	SHOW(syscall(SYS_readlink, "dangling", target, 0));
	SHOW(readlink("sd/", target, sizeof target));
	SHOW(rmdir("sd"));
	SHOW(mkdir("dangling", 0755));
	SHOW(mkdir("dangling/x", 0755));
	SHOW(mknod("fifo", S_IFIFO | 0644, 0));
	SHOW(mknod("reg", S_IFREG | 0644, 0));
	SHOW(mknod("bad", S_IFDIR | 0644, 0));
	list(".");
	int fd = open("g", O_RDWR);
	SHOW(unlink("g"));
	fstat(fd, &st);
	SHOW(st.st_nlink);
	SHOW(unlink("f"));
	SHOW(unlink("s3"));
	SHOW(unlink("a/f"));
	fstat(fd, &st);
	SHOW(st.st_nlink);
	SHOW(pread(fd, target, 4, 0));
	close(fd);
}

static void renaming(void)
{
	section("rename");
	write_file("r1", "one"), write_file("r2", "two");
	mkdir("rd1", 0755), mkdir("rd2", 0755), mkdir("rd2/full", 0755), mkdir("rd3", 0755);
	SHOW(rename("r1", "r2"));
	char *text = read_file("r2");
	say("%s", text ? text : "?");
	SHOW(rename("r1", "r3"));
	SHOW(rename("r2", "r2"));
	SHOW(rename("r2", "rd1"));
	SHOW(rename("rd1", "r2"));
	SHOW(rename("rd1", "rd2"));
	SHOW(rename("rd1", "rd3"));
	SHOW(rename("rd3", "rd3/inside"));
	SHOW(rename("rd2", "rd2/full/inside"));
	SHOW(rename("rd2/full", "rd2"));
	SHOW(rename("r2", "missing/r2"));
	SHOW(rename("r2", "rd3/"));
	SHOW(rename("rd3", "rd4/"));
	SHOW(rename("r2/", "r5"));
	SHOW(rename("r2", "new/"));
	SHOW(rename(".", "x"));
	SHOW(rename("rd4/..", "x"));
	SHOW(rename("rd4", "."));
	SHOW(rename("", "x"));
	SHOW(rename("/", "/x"));
	link("r2", "hard");
	SHOW(rename("r2", "hard"));
	CHECK(access("r2", F_OK) == 0 && access("hard", F_OK) == 0);
	symlink("rd4", "rs");
	SHOW(rename("rs", "rs2"));
	SHOW(rename("rs2", "rd4"));
	SHOW(rename("r2", "rs2"));
	struct stat st;
	lstat("rs2", &st);
	say("%o", st.st_mode);
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "hard", AT_FDCWD, "rs2", 1));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "hard", AT_FDCWD, "free", 1));
	write_file("x1", "x1"), mkdir("x2", 0755);
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "x1", AT_FDCWD, "x2", 2));
	stat("x1", &st);
	say("%o", st.st_mode);
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "x1", AT_FDCWD, "nothing", 2));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "x1", AT_FDCWD, "x2", 3));
	SHOW(syscall(SYS_renameat2, AT_FDCWD, "x1", AT_FDCWD, "x2", 64));
	mkdir("m1", 0755), mkdir("m2", 0755), mkdir("m1/sub", 0755);
	stat("m1", &st);
	SHOW(st.st_nlink);
	SHOW(rename("m1/sub", "m2/sub"));
	stat("m1", &st);
	SHOW(st.st_nlink);
	stat("m2", &st);
	SHOW(st.st_nlink);
	chdir("m2/sub");
	SHOW(mkdir("../../m2/sub/deep", 0755));
	SHOW(rename("../../m2", "../../m3"));
	char cwd[PATH_MAX];
	getcwd(cwd, sizeof cwd);
	say("%s", strstr(cwd, "/m3/sub") ? "/m3/sub" : cwd);
	chdir("../..");
	list("m3/sub");
	/* Across a mount. */
	SHOW(rename("x1", "/proc/x1"));
	SHOW(link("hard", "/proc/x1"));
}

static void directories(void)
{
	section("directories");
	mkdir("many", 0755);
	char name[64];
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof name, "many/entry-with-a-longer-name-%d", i);
		close(open(name, O_CREAT | O_WRONLY, 0644));
	}
	int fd = open("many", O_RDONLY | O_DIRECTORY);
	char buffer[512];
	long got;
	int count = 0, calls = 0;
	struct raw { uint64_t ino; int64_t off; uint16_t length; uint8_t type; char name[]; };
	while ((got = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
		calls++;
		for (long at = 0; at < got;) {
			struct raw *entry = (struct raw *)(buffer + at);
			at += entry->length;
			count++;
			if (entry->length % 8 || entry->ino == 0)
				say("odd entry %s", entry->name);
		}
	}
	SHOW(got);
	SHOW(count);
	CHECK(calls > 40);
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(syscall(SYS_getdents64, fd, buffer, 10));
	SHOW(syscall(SYS_getdents64, fd, 16, 512));
	SHOW(syscall(SYS_getdents64, 999, buffer, 512));
	SHOW(syscall(SYS_getdents64, open("hard", O_RDONLY), buffer, 512));
	/* Unlinking while reading misses nothing. */
	DIR *dir = opendir("many");
	int removed = 0;
	for (struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			removed += unlinkat(dirfd(dir), entry->d_name, 0) == 0;
	closedir(dir);
	SHOW(removed);
	SHOW(rmdir("many"));
	SHOW(syscall(SYS_getdents64, fd, buffer, sizeof buffer));
	SHOW_OK(openat(fd, "x", O_CREAT | O_RDWR, 0644));
	SHOW_OK(openat(fd, ".", O_RDONLY));
	close(fd);
	mkdir("gone", 0755);
	chdir("gone");
	rmdir("../gone");
	char cwd[PATH_MAX];
	SHOW(syscall(SYS_getcwd, cwd, sizeof cwd) > 0);
	SHOW_OK(open("x", O_CREAT | O_RDWR, 0644));
	SHOW_OK(open(".", O_RDONLY));
	SHOW_OK(open("..", O_RDONLY));
	SHOW(mkdir("x", 0755));
	chdir("..");
	if (chdir("/tmp") == 0)
		SHOW(syscall(SYS_getcwd, cwd, 5));
	SHOW(syscall(SYS_getcwd, cwd, 4));
	SHOW(syscall(SYS_getcwd, cwd, 0));
	SHOW(syscall(SYS_getcwd, 16, 100));
	say("%s", cwd);
	SHOW(chdir("/dev/null"));
	SHOW(chdir("missing"));
	SHOW(fchdir(999));
	SHOW(fchdir(open("/dev/null", O_RDONLY)));
}

static void stats(void)
{
	section("stat");
	mkdir("/tmp/abi.stat", 0755);
	chdir("/tmp/abi.stat");
	umask(022);
	write_file("f", "0123456789");
	struct stat st, link_st;
	SHOW(stat("f", &st));
	say("mode %o nlink %d uid %d gid %d size %ld blksize %ld blocks %ld", st.st_mode, (int)st.st_nlink, (int)st.st_uid,
	    (int)st.st_gid, (long)st.st_size, (long)st.st_blksize, (long)st.st_blocks);
	symlink("f", "l");
	SHOW(lstat("l", &link_st));
	say("mode %o size %ld blocks %ld", link_st.st_mode, (long)link_st.st_size, (long)link_st.st_blocks);
	CHECK(link_st.st_ino != st.st_ino);
	CHECK(link_st.st_dev == st.st_dev);
	stat("l", &link_st);
	CHECK(link_st.st_ino == st.st_ino);
	SHOW(stat("/dev/null", &st));
	say("mode %o rdev %x", st.st_mode, (unsigned)st.st_rdev);
	SHOW(stat("/dev/zero", &st));
	say("mode %o rdev %x", st.st_mode, (unsigned)st.st_rdev);
	SHOW(stat("missing", &st));
	SHOW(stat("f/x", &st));
	SHOW(stat("", &st));
	SHOW(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH));
	SHOW(fstatat(open("f", O_PATH), "", &st, AT_EMPTY_PATH));
	SHOW(st.st_size);
	SHOW(fstatat(999, "f", &st, 0));
	SHOW(fstatat(AT_FDCWD, "f", &st, 0x10000000));
	SHOW(syscall(SYS_stat, "f", 16));
	SHOW(syscall(SYS_stat, 16, &st));
	struct timespec times[2] = { { 1000000000, 123456789 }, { 1234567890, 987654321 } };
	SHOW(utimensat(AT_FDCWD, "f", times, 0));
	stat("f", &st);
	say("atime %ld.%09ld mtime %ld.%09ld", (long)st.st_atim.tv_sec, st.st_atim.tv_nsec, (long)st.st_mtim.tv_sec,
	    st.st_mtim.tv_nsec);
	times[0].tv_nsec = UTIME_OMIT, times[1].tv_sec = 5, times[1].tv_nsec = 0;
	SHOW(utimensat(AT_FDCWD, "f", times, 0));
	stat("f", &st);
	say("atime %ld mtime %ld", (long)st.st_atim.tv_sec, (long)st.st_mtim.tv_sec);
	times[0].tv_nsec = 2000000000;
	SHOW(utimensat(AT_FDCWD, "f", times, 0));
	SHOW(utimensat(AT_FDCWD, "missing", 0, 0));
	times[0] = (struct timespec){ 77, 0 };
	SHOW(utimensat(AT_FDCWD, "l", times, AT_SYMLINK_NOFOLLOW));
	lstat("l", &st);
	SHOW(st.st_atim.tv_sec);
	struct statfs fs;
	SHOW(statfs("/proc", &fs));
	say("type %lx bsize %ld namelen %ld", (unsigned long)fs.f_type, (long)fs.f_bsize, (long)fs.f_namelen);
	SHOW(statfs("f", &fs));
	CHECK(fs.f_type == 0x01021994 || fs.f_type == 0x858458f6);
	CHECK(fs.f_bsize == 4096 && fs.f_namelen == 255);
	SHOW(statfs("missing", &fs));
	SHOW(fstatfs(999, &fs));
	struct { uint32_t mask, blksize; uint64_t attributes; uint32_t nlink, uid, gid; uint16_t mode, pad; uint64_t ino, size, blocks; uint8_t rest[256]; } sx;
	SHOW(syscall(SYS_statx, AT_FDCWD, "f", 0, 0x7ff, &sx));
	say("mode %o size %ld nlink %d", sx.mode, (long)sx.size, (int)sx.nlink);
	CHECK((sx.mask & 0x7ff) == 0x7ff);
	write_file("/tmp/abi.stat/w", "x");
	struct stat before, after;
	stat("w", &before);
	nap(20);
	int fd = open("w", O_RDWR);
	write(fd, "y", 1);
	fstat(fd, &after);
	CHECK(after.st_mtim.tv_sec > before.st_mtim.tv_sec || after.st_mtim.tv_nsec > before.st_mtim.tv_nsec);
	CHECK(after.st_ctim.tv_sec == after.st_mtim.tv_sec && after.st_ctim.tv_nsec == after.st_mtim.tv_nsec);
	stat(".", &before);
	nap(20);
	unlink("w");
	stat(".", &after);
	CHECK(after.st_mtim.tv_sec > before.st_mtim.tv_sec || after.st_mtim.tv_nsec > before.st_mtim.tv_nsec);
	fstat(fd, &st);
	SHOW(st.st_nlink);
}

static void rooted(void)
{
	mkdir("jail", 0755), mkdir("jail/etc", 0755), write_file("jail/etc/name", "inside");
	symlink("/etc/name", "jail/abs");
	SHOW(chroot("jail/etc/name"));
	SHOW(chroot("missing"));
	SHOW(chroot("jail"));
	SHOW(chdir("/"));
	list("/");
	char *text = read_file("/abs");
	say("%s", text ? text : "?");
	text = read_file("/../../etc/name");
	say("%s", text ? text : "?");
	char cwd[64];
	say("%s", getcwd(cwd, sizeof cwd) ? cwd : "?");
	SHOW_OK(open("/dev/null", O_RDONLY));
}

/* Deeper than a path may be long. */
static void deep(void)
{
	char name[251] = "", cwd[8192];
	int depth = 0;
	memset(name, 'd', 250);
	while (depth < 17 && mkdir(name, 0755) == 0 && chdir(name) == 0)
		depth++;
	say("%d", depth);
	SHOW(syscall(SYS_getcwd, cwd, sizeof cwd));
	SHOW(syscall(SYS_getcwd, cwd, 1));
	SHOW(syscall(SYS_getcwd, 16, sizeof cwd));
	SHOW(chdir(".."));
	SHOW(syscall(SYS_getcwd, cwd, sizeof cwd) > 0);
	SHOW(syscall(SYS_getcwd, cwd, 1));
	SHOW(rmdir(name));
	while (--depth > 0 && chdir("..") == 0)
		rmdir(name);
}

/* Several make a name at once, by a path from the root: all of them have the file that has the name then. */
static void at_once(void)
{
	enum { MAKERS = 4, ROUNDS = 200 };
	struct shared {
		_Atomic int arrived[ROUNDS];
		ino_t opened[MAKERS];
		_Atomic int done[ROUNDS];
	} *shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char path[PATH_MAX];
	struct stat made;
	getcwd(path, sizeof path - 8), strcat(path, "/made");
	int different = 0;
	for (int i = 0; i < MAKERS; i++)
		if (i == MAKERS - 1 || must_fork() == 0) {
			for (int round = 0; round < ROUNDS; round++) {
				shared->arrived[round]++;
				while (shared->arrived[round] < MAKERS)
					sched_yield();
				int fd = open(path, O_RDWR | O_CREAT, 0644);
				shared->opened[i] = fstat(fd, &made) == 0 ? made.st_ino : 0;
				close(fd);
				shared->done[round]++;
				while (shared->done[round] < MAKERS)
					sched_yield();
				if (i != MAKERS - 1)
					continue;
				stat(path, &made);
				for (int maker = 0; maker < MAKERS; maker++)
					different += shared->opened[maker] != made.st_ino;
				unlink(path);
			}
			if (i != MAKERS - 1)
				_exit(0);
		}
	while (wait(0) > 0)
		;
	say("%d of %d opened another file", different, MAKERS * ROUNDS);
	munmap(shared, sizeof *shared);
}

int main(void)
{
	making();
	renaming();
	directories();
	stats();
	section("made at once");
	at_once();
	section("deep");
	deep();
	section("chroot");
	in_child("chroot", rooted);
	unlink("jail/etc/name"), rmdir("jail/etc"), unlink("jail/abs"), rmdir("jail");
	unlink("f"), unlink("l"), chdir("/"), rmdir("/tmp/abi.stat");
	return 0;
}
