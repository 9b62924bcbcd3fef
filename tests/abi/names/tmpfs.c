/* tmpfs: its mount options, what counts against its limits, and what happens at them. */
#include "t.h"

#include <setjmp.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

/* The limit, if it is not that of a large machine. */
static const char *many(long n)
{
	static char text[32];
	snprintf(text, sizeof text, n < 10000 ? "at most %ld" : "no small limit", n);
	return text;
}

static void sizes(const char *what)
{
	struct statfs s;
	if (statfs("t", &s))
		say("%s: %s", what, error_name(errno));
	else
		say("%s: %ld of %ld blocks of %ld free, %ld files, %s", what, (long)s.f_bfree, (long)s.f_blocks, (long)s.f_bsize,
		    (long)s.f_files - (long)s.f_ffree, many(s.f_files));
}

static void fresh(const char *options)
{
	if (mount("none", "t", "tmpfs", 0, options))
		say("mount %s: %s", options, error_name(errno));
}

static void gone(void)
{
	if (umount("t"))
		say("umount: %s", error_name(errno));
}

/* The options of the mount as /proc/mounts shows them. */
static void shown(void)
{
	char *text = read_file("/proc/mounts");
	char *line = text ? strstr(text, "/t tmpfs ") : 0;
	if (line) {
		*strstr(line, " 0 0\n") = 0;
		say("shown: %s", line + 9);
	}
	free(text);
}

static void an_option(const char *options)
{
	if (mount("none", "t", "tmpfs", 0, options)) {
		say("%s: %s", options, error_name(errno));
		return;
	}
	struct statfs s;
	struct stat st;
	statfs("t", &s);
	stat("t", &st);
	say("%s: %ld blocks, files %s, mode %o, %d:%d", options, (long)s.f_blocks, many(s.f_files), st.st_mode & 07777,
	    (int)st.st_uid, (int)st.st_gid);
	shown();
	gone();
}

static long fill(const char *path, int pages)
{
	static char page[4096];
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	long sum = 0;
	if (fd < 0)
		return -errno;
	for (int i = 0; i < pages; i++) {
		long n = write(fd, page, sizeof page);
		if (n < 0) {
			say("after %ld bytes: %s", sum, error_name(errno));
			break;
		}
		sum += n;
	}
	close(fd);
	return sum;
}

static long blocks(const char *path)
{
	struct stat s;
	return lstat(path, &s) ? -1 : (long)s.st_blocks;
}

static sigjmp_buf after;

static void on_bus(int signal, siginfo_t *info, void *context)
{
	(void)context;
	say("%s, code %d", signal_name(signal), info->si_code);
	siglongjmp(after, 1);
}

static void pages(void)
{
	section("pages");
	fresh("size=40k,mode=700");
	sizes("fresh");
	SHOW(fill("t/a", 6));
	sizes("six pages");
	SHOW(fill("t/b", 6));
	sizes("full");
	SHOW(blocks("t/b"));
	/* What is there can be written anew, and a file without pages made. */
	SHOW(fill("t/a", 6));
	SHOW(fill("t/empty", 0));
	SHOW(mkdir("t/dir", 0700));
	int fd = open("t/b", O_RDWR);
	SHOW(pwrite(fd, "x", 1, 1 << 20));
	SHOW(lseek(fd, 0, SEEK_END));
	SHOW(ftruncate(fd, 1 << 20));
	sizes("longer, and no more pages");
	char text[8] = "";
	SHOW(pread(fd, text, 4, 50000));

	char *at = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct sigaction action = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER };
	sigaction(SIGBUS, &action, 0);
	if (!sigsetjmp(after, 1)) {
		at[0] = 1;
		say("a page that is there is written");
		at[8 * 4096] = 1;
		say("a page more is written");
	}
	SHOW(read(fd, at + 9 * 4096, 4));
	SHOW(ftruncate(fd, 4096));
	sizes("four pages less");
	at = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	SHOW(ftruncate(fd, 1 << 20));
	if (!sigsetjmp(after, 1)) {
		for (int i = 1; i < 10; i++) {
			at[i * 4096] = 1;
			say("page %d", i);
		}
	}
	sizes("full by a mapping");
	SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 8192));
	sizes("two pages punched");
	SHOW(unlink("t/b"));
	sizes("unlinked and open");
	close(fd);
	sizes("unlinked and mapped");
	munmap(at, 1 << 20);
	nap(50);
	SHOW(umount2("t", MNT_DETACH));
}

/* A file that is gone is given back a little later, on a busy machine much later. */
static void wait_until_used(long files)
{
	struct statfs s;
	for (int i = 0; i < 100 && statfs("t", &s) == 0 && (long)s.f_files - (long)s.f_ffree > files; i++)
		nap(50);
}

static void allocation(void)
{
	section("fallocate");
	fresh("nr_blocks=16");
	int fd = open("t/f", O_CREAT | O_RDWR, 0600);
	SHOW(fallocate(fd, 0, 0, 8 * 4096));
	SHOW(blocks("t/f"));
	sizes("eight pages");
	SHOW(fallocate(fd, FALLOC_FL_KEEP_SIZE, 8 * 4096 + 1, 4096));
	SHOW(blocks("t/f"));
	SHOW(lseek(fd, 0, SEEK_END));
	sizes("two behind the end");
	SHOW(fallocate(fd, 0, 0, 17 * 4096));
	SHOW(fallocate(fd, 0, 10 * 4096, 7 * 4096));
	SHOW(lseek(fd, 0, SEEK_END));
	sizes("as before");
	SHOW(posix_fallocate(fd, 0, 16 * 4096));
	sizes("all");
	SHOW(ftruncate(fd, 4096));
	sizes("one left");
	SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 200));
	SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	SHOW(blocks("t/f"));
	SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 200));
	SHOW(blocks("t/f"));
	close(fd);
	gone();
}

static void names(void)
{
	section("files and names");
	fresh("nr_inodes=8,size=1m");
	sizes("the root");
	SHOW(fill("t/a", 1));
	SHOW(mkdir("t/d", 0700));
	SHOW(link("t/a", "t/d/b"));
	SHOW(link("t/a", "t/c"));
	SHOW(symlink("x", "t/s"));
	sizes("five");
	SHOW(mkfifo("t/p", 0600));
	SHOW(mknod("t/n", S_IFCHR | 0600, 1 << 8 | 3));
	SHOW(mkdir("t/e", 0700));
	SHOW(open("t/e", O_CREAT | O_RDWR, 0600));
	SHOW(open("t", O_TMPFILE | O_RDWR, 0600));
	SHOW(link("t/a", "t/e"));
	SHOW(symlink("x", "t/e"));
	SHOW(open("t/a", O_CREAT | O_RDWR, 0600) >= 0);
	SHOW(unlink("t/c"));
	sizes("a name less");
	SHOW(rename("t/d/b", "t/a2"));
	SHOW(rename("t/s", "t/a2"));
	sizes("a name replaced");
	int fd = open("t", O_TMPFILE | O_RDWR, 0600);
	sizes("a file without name");
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	SHOW(linkat(AT_FDCWD, path, AT_FDCWD, "t/named", AT_SYMLINK_FOLLOW));
	sizes("and with one");
	close(fd);
	SHOW(unlink("t/named"));
	wait_until_used(6);
	sizes("and without");
	static char text[300];
	memset(text, 'x', 127);
	SHOW(symlink(text, "t/short"));
	SHOW(blocks("t/short"));
	SHOW(unlink("t/short"));
	wait_until_used(6);
	memset(text, 'x', 128);
	SHOW(symlink(text, "t/long"));
	SHOW(blocks("t/long"));
	sizes("a long link");
	SHOW(umount2("t", MNT_DETACH));
}

static void remounts(void)
{
	section("remount");
	fresh("size=64k,nr_inodes=20");
	SHOW(fill("t/a", 8));
	SHOW(mount("none", "t", 0, MS_REMOUNT, "size=32k"));
	SHOW(mount("none", "t", 0, MS_REMOUNT, "size=28k"));
	SHOW(mount("none", "t", 0, MS_REMOUNT, "nr_inodes=1"));
	sizes("smaller");
	SHOW(fill("t/b", 1));
	SHOW(mount("none", "t", 0, MS_REMOUNT, "size=36k,nr_inodes=1"));
	sizes("none of both");
	SHOW(mount("none", "t", 0, MS_REMOUNT, "size=36k,nr_inodes=3,mode=755,uid=5"));
	SHOW(fill("t/b", 2));
	shown();
	struct stat s;
	stat("t", &s);
	say("mode %o uid %d", s.st_mode & 07777, (int)s.st_uid);
	SHOW(mount("none", "t", 0, MS_REMOUNT, "sise=36k"));
	SHOW(mount("none", "t", 0, MS_REMOUNT | MS_NOSUID, ""));
	sizes("flags alone");
	shown();
	SHOW(mount("none", "t", 0, MS_REMOUNT, "size=0"));
	sizes("unlimited");
	shown();
	SHOW(mount("none", "t", 0, MS_REMOUNT, "size=1m"));
	SHOW(fill("t/b", 20));
	gone();
}

static void options(void)
{
	section("options");
	static const char *const all[] = {
		"size=1m", "size=1", "size=4097", "size=0x10k", "size=010k", "size=8K", "nr_blocks=3", "nr_blocks=1k",
		"nr_inodes=5,size=12k", "nr_inodes=1k,size=12k", "size=12k,nr_inodes=9,mode=700,uid=3,gid=4",
		"size=12k,nr_inodes=9,mode=01777", "size=12k,nr_inodes=9,mode=70000", "size=12k,size=16k,nr_inodes=2", ",size=4k,,nr_inodes=2",
		"size=", "size", "size=x", "size=1x", "size=1kk", "size=-1", "mode=8", "mode=", "uid=-1", "uid=x", "uid=4294967295", "nr_blocks=5%",
		"nr_blocks=9223372036854775808", "nr_inodes=x", "nr_inodes=18446744073709551615", "huge=often", "bogus", "bogus=1", "mpol=never", "inode64,nr_inodes=2,size=4k",
		"huge=never,nr_inodes=2,size=4k", "size=0,nr_inodes=0",
	};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		an_option(all[i]);
	struct statfs whole, half;
	fresh("size=100%");
	statfs("t", &whole);
	gone();
	fresh("size=50%");
	statfs("t", &half);
	CHECK(labs((long)half.f_blocks * 2 - (long)whole.f_blocks) <= 2);
	gone();
	fresh("");
	statfs("t", &half);
	CHECK(labs((long)half.f_blocks * 2 - (long)whole.f_blocks) <= 2);
	CHECK(labs((long)half.f_files - (long)half.f_blocks) * 100 < (long)half.f_blocks);
	CHECK(half.f_bfree == half.f_blocks && half.f_ffree + 1 == half.f_files);
	shown();
	gone();
}

/* As uid 1000: holes that are filled and punched again leave nothing that counts. */
static void holes(void)
{
	section("holes");
	fresh("size=64k");
	int fd = open("t/f", O_CREAT | O_RDWR, 0600);
	SHOW(ftruncate(fd, 1L << 40));
	int wrote = 0;
	for (long i = 0; i < 64; i++)
		wrote += pwrite(fd, "x", 1, i * (1L << 33) + 4096) == 1;
	say("%d of 64", wrote);
	SHOW(blocks("t/f"));
	sizes("sparse");
	SHOW(ftruncate(fd, 0));
	SHOW(blocks("t/f"));
	sizes("empty");
	close(fd);
	gone();
}

int main(void)
{
	mkdir("t", 0755);
	pages();
	allocation();
	names();
	remounts();
	options();
	holes();
	rmdir("t");
	return 0;
}
