/* Mounts by their numbers: statmount and listmount. */
#include "t.h"

#include <sys/mount.h>
#include <sys/sysmacros.h>

#ifndef SYS_statmount
#define SYS_statmount 457
#define SYS_listmount 458
#endif

#define ROOT 0xffffffffffffffffull

struct request {
	uint32_t size, spare;
	uint64_t mount, parameter, space;
};

struct statmount {
	uint32_t size, options;
	uint64_t mask;
	uint32_t dev_major, dev_minor;
	uint64_t magic;
	uint32_t flags, type;
	uint64_t id, parent;
	uint32_t id_old, parent_old;
	uint64_t attributes, propagation, group, master, from;
	uint32_t root, point;
	uint64_t space;
	uint64_t rest[49];
	char text[512];
};

static long asked(void *request, void *to, size_t size, unsigned flags)
{
	return syscall(SYS_statmount, request, to, size, flags);
}

static long listed(void *request, void *to, size_t count, unsigned flags)
{
	return syscall(SYS_listmount, request, to, count, flags);
}

static uint64_t number(const char *path, int old)
{
	static uint64_t x[32];
	syscall(SYS_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, old ? 0x1000 : 0x4000, x);
	return x[18];
}

static struct request of(const char *path, uint64_t what)
{
	struct request r = { 24, 0, number(path, 0), what, 0 };
	return r;
}

static char base[PATH_MAX];

static const char *below(const char *text)
{
	size_t n = strlen(base);
	return strncmp(text, base, n) == 0 ? text + n : text;
}

/* All that is asked for, but numbers that differ from run to run. */
static void told(const char *path, uint64_t what)
{
	struct request r = of(path, what);
	static struct statmount s;
	memset(&s, 0xee, sizeof s);
	errno = 0;
	long got = asked(&r, &s, sizeof s, 0);
	say("%s, %llx: %ld %s", path, (unsigned long long)what, got, error_name(errno));
	if (got != 0)
		return;
	say("  mask %llx, size %s", (unsigned long long)s.mask, s.mask & 0xb8 ? (s.size > sizeof s - 512 ? "with texts" : "?") : (s.size == sizeof s - 512 ? "plain" : "?"));
	struct stat st;
	stat(path, &st);
	if (s.mask & 1)
		say("  device %d, magic %llx, flags %x", s.dev_major == major(st.st_dev) && s.dev_minor == minor(st.st_dev), (unsigned long long)s.magic, s.flags);
	if (s.mask & 2)
		say("  ids %d %d, parent %d, attributes %llx, propagation %llx, group %d, master %d", s.id == number(path, 0), s.id_old == number(path, 1),
		    s.parent != s.id && s.parent_old != s.id_old, (unsigned long long)s.attributes, (unsigned long long)s.propagation, (int)s.group, (int)s.master);
	if (s.mask & 4)
		say("  from %d", (int)s.from);
	if (s.mask & 8)
		say("  root %s", s.text + s.root);
	if (s.mask & 16)
		say("  point %s", below(s.text + s.point));
	if (s.mask & 32)
		say("  type %s", s.text + s.type);
	if (s.mask & 64)
		say("  space %d", s.space != 0);
	if (s.mask & 128)
		say("  options %s", s.text + s.options);
	/* Where the texts lie: what follows the point as if its directory had no name. */
	uint32_t at[] = { s.type, s.root, s.point, s.options, s.size - 512 };
	for (int i = 0; i < 5; i++)
		at[i] -= (s.mask & 16) && at[i] > s.point && strlen(s.text + s.point) >= strlen(base) ? strlen(base) : 0;
	say("  texts at %u %u %u %u, end %u", at[0], at[1], at[2], at[3], at[4]);
	say("  zeros: %d", s.rest[0] == 0 && s.rest[48] == 0);
}
static void all(const char *path)
{
	for (int bit = 0; bit < 10; bit++)
		told(path, 1ull << bit);
	told(path, 0xff);
	told(path, 0);
	told(path, 1ull << 40);
	told(path, -1ull);
}

static void attributes(void)
{
	section("attributes");
	static const unsigned long flags[] = { MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOATIME, MS_NODIRATIME, MS_STRICTATIME, 256,
		MS_RELATIME | MS_NODIRATIME, MS_NOATIME | MS_NODIRATIME | MS_RDONLY };
	for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
		mount(0, "m", 0, MS_REMOUNT | MS_BIND | flags[i], 0);
		told("m", 2);
	}
	mount(0, "m", 0, MS_REMOUNT | MS_BIND, 0);
	static const unsigned long shown[] = { MS_SYNCHRONOUS, MS_DIRSYNC, MS_LAZYTIME, MS_RDONLY, 64 };
	for (unsigned i = 0; i < sizeof shown / sizeof *shown; i++) {
		mount("x", "n", "tmpfs", shown[i], "size=64k,mode=700");
		told("n", 0x81);
		umount("n");
	}
	mount(0, "m", 0, MS_UNBINDABLE, 0);
	told("m", 2);
	mount(0, "m", 0, MS_PRIVATE, 0);
	told("m", 2);
}

static void faults(void)
{
	section("faults");
	struct request r = of("m", 0xff);
	static struct statmount s;
	SHOW(asked(&r, &s, sizeof s, 1));
	SHOW(asked(0, &s, sizeof s, 0));
	SHOW(asked(&r, 0, sizeof s, 0));
	static const uint32_t sizes[] = { 0, 8, 16, 23, 24, 25, 31, 32, 33, 40, 4096, 4097 };
	static char large[5000];
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		memset(large, 0, sizeof large);
		memcpy(large, &r, sizeof r);
		memcpy(large, &sizes[i], 4);
		say("request of %u", sizes[i]);
		SHOW(asked(large, &s, sizeof s, 0));
		large[sizes[i] < 5000 && sizes[i] > 32 ? sizes[i] - 1 : 40] = 1;
		SHOW(asked(large, &s, sizeof s, 0));
	}
	r.spare = 1;
	SHOW(asked(&r, &s, sizeof s, 0));
	r.spare = 0;
	r.mount = 0;
	SHOW(asked(&r, &s, sizeof s, 0));
	r.mount = 1;
	SHOW(asked(&r, &s, sizeof s, 0));
	r.mount = ROOT;
	SHOW(asked(&r, &s, sizeof s, 0));
	r.mount = number("m", 1);
	SHOW(asked(&r, &s, sizeof s, 0));
	r = of("m", 0xff);
	r.size = 32, r.space = 1;
	SHOW(asked(&r, &s, sizeof s, 0));
	r.size = 24, r.space = 0;
	section("small buffers");
	r.parameter = 3;
	for (int n = 0; n <= 520; n += n < 8 || n > 500 ? 1 : 8) {
		memset(&s, 0xee, sizeof s);
		errno = 0;
		long got = asked(&r, &s, n, 0);
		char *bytes = (char *)&s;
		if (n < 8 || n % 64 == 0 || n > 500)
			say("%d: %ld %s, %d %d", n, got, error_name(errno), n > 0 && bytes[n - 1] == (char)0xee, bytes[n] == (char)0xee);
	}
	r.parameter = 0x38;
	int least = 0, last = -1;
	for (int n = 500; n < 1000; n++) {
		errno = 0;
		long got = asked(&r, &s, n, 0);
		if (errno != last)
			say("%s", error_name(errno));
		last = errno;
		if (got == 0) {
			least = n;
			break;
		}
	}
	CHECK((int)s.size == least);
	say("texts of %d", least - 512 - (int)strlen("/m") - (int)strlen("tmpfs") - (int)strlen("/"));
}

static void lists(void)
{
	section("lists");
	mkdir("m/a", 0755), mkdir("m/b", 0755);
	mount("a", "m/a", "tmpfs", 0, 0);
	mount("b", "m/b", "tmpfs", 0, 0);
	mkdir("m/a/in", 0755);
	mount("in", "m/a/in", "tmpfs", 0, 0);
	uint64_t ids[64], again[64];
	struct request r = { 24, 0, number("m", 0), 0, 0 };
	memset(ids, 0, sizeof ids);
	SHOW(listed(&r, ids, 64, 0));
	say("%d %d %d", ids[0] == number("m/a", 0), ids[1] == number("m/b", 0), ids[2] == number("m/a/in", 0));
	SHOW(listed(&r, ids, 64, 1));
	say("%d %d %d", ids[2] == number("m/a", 0), ids[1] == number("m/b", 0), ids[0] == number("m/a/in", 0));
	SHOW(listed(&r, ids, 2, 0));
	SHOW(listed(&r, ids, 0, 0));
	SHOW(listed(&r, 0, 0, 0));
	SHOW(listed(&r, 0, 1, 0));
	SHOW(listed(&r, ids, 1000000, 0));
	SHOW(listed(&r, ids, 1000001, 0));
	SHOW(listed(&r, ids, 64, 2));
	r.parameter = number("m/a", 0);
	SHOW(listed(&r, ids, 64, 0));
	say("%d", ids[0] == number("m/b", 0));
	SHOW(listed(&r, ids, 64, 1));
	r.parameter = number("m/b", 0);
	SHOW(listed(&r, ids, 64, 1));
	say("%d", ids[0] == number("m/a", 0));
	r.parameter = number("m/a/in", 0);
	SHOW(listed(&r, ids, 64, 0));
	r.parameter = 1;
	SHOW(listed(&r, ids, 64, 0));
	SHOW(listed(&r, ids, 64, 1));
	r.parameter = ROOT;
	SHOW(listed(&r, ids, 64, 0));
	SHOW(listed(&r, ids, 64, 1));
	r.parameter = 0;
	r.mount = number("m/b", 0);
	SHOW(listed(&r, ids, 64, 0));
	r.mount = number("m", 1);
	SHOW(listed(&r, ids, 64, 0));
	r.mount = 0;
	SHOW(listed(&r, ids, 64, 0));
	r.mount = ROOT;
	long n = listed(&r, ids, 64, 0);
	int in = 0, sorted = 1;
	for (int i = 0; i < n; i++) {
		in += ids[i] == number("m", 0) || ids[i] == number("m/a/in", 0) || ids[i] == number("/", 0);
		sorted &= i == 0 || ids[i] > ids[i - 1];
	}
	say("of the root: %d, sorted %d", in, sorted);
	long m = listed(&r, again, 64, 1);
	int same = m == n;
	for (int i = 0; i < n; i++)
		same &= again[i] == ids[n - 1 - i];
	say("the other way round: %d", same);
	/* A root of its own. */
	if (must_fork() == 0) {
		chroot("m");
		memset(ids, 0, sizeof ids);
		SHOW(listed(&r, ids, 64, 0));
		say("%d", ids[0] == number("/", 0));
		say("%d", ids[0] == number("/a", 0));
		r.mount = number("/a", 0);
		SHOW(listed(&r, ids, 64, 0));
		strcpy(base, "-");
		told("/", 0x1a);
		told("/a", 0x1a);
		_exit(0);
	}
	wait(0);
	r.mount = number("m/a", 0);
	struct request q = of("m/a", 2);
	static struct statmount s;
	int fd = open("m/a", O_RDONLY);
	umount("m/a/in");
	umount2("m/a", MNT_DETACH);
	SHOW(listed(&r, ids, 64, 0));
	SHOW(asked(&q, &s, sizeof s, 0));
	close(fd);
	mkdir("m/bound", 0755), mkdir("n/sub dir", 0755), mkdir("n/sub dir/x\ny", 0755);
	mount("n/sub dir/x\ny", "m/bound", 0, MS_BIND, 0);
	told("m/bound", 0x38);
	umount("m/bound");
	mkdir("m/o dd\t\\#", 0755);
	mount("n", "m/o dd\t\\#", 0, MS_BIND, 0);
	told("m/o dd\t\\#", 0x38);
	umount("m/o dd\t\\#");
	umount("m/b");
	/* The root of a mount is removed. */
	mkdir("n/gone", 0755), mkdir("m/at", 0755);
	mount("n/gone", "m/at", 0, MS_BIND, 0);
	rmdir("n/gone");
	told("m/at", 0x18);
	umount("m/at");
	write_file("n/file", "x"), write_file("m/over", "y");
	mount("n/file", "m/over", 0, MS_BIND, 0);
	told("m/over", 0x18);
	umount("m/over");
	r = of("m", 0);
	SHOW(listed(0, ids, 64, 2));
	SHOW(listed(0, ids, 1000001, 0));
	SHOW(listed(0, ids, 64, 0));
	r.mount = 1ull << 31;
	SHOW(listed(&r, ids, 64, 0));
	r.mount = (1ull << 31) + 4000000;
	SHOW(listed(&r, ids, 64, 0));
	SHOW(asked(&r, &s, sizeof s, 0));
	r = of("m", 1ull << 31);
	SHOW(listed(&r, ids, 64, 0));
	r = of("m", 0);
	r.size = 32, r.space = 12345678;
	SHOW(listed(&r, ids, 64, 0));
	struct request own = of("m", 64);
	asked(&own, &s, sizeof s, 0);
	own.size = 32, own.space = s.space, own.parameter = 0;
	SHOW(listed(&own, ids, 64, 0));
	SHOW(asked(&own, &s, sizeof s, 0));
}

static void unprivileged(void)
{
	struct { unsigned version; int pid; } head = { 0x20080522, 0 };
	struct { unsigned effective, permitted, inheritable; } data[2] = { { 0 } };
	syscall(SYS_capset, &head, data);
	struct request r = of("m", 0);
	uint64_t ids[64];
	static struct statmount s;
	SHOW(asked(&r, &s, sizeof s, 0));
	SHOW(listed(&r, ids, 64, 0));
	r.mount = ROOT;
	CHECK(listed(&r, ids, 64, 0) > 0);
}

static void jailed(void)
{
	struct { unsigned version; int pid; } head = { 0x20080522, 0 };
	struct { unsigned effective, permitted, inheritable; } data[2] = { { 0 } };
	struct request r = of("n", 0), top = of("/", 0), in = of("m", 0), point = of("n", 0x18);
	uint64_t ids[64];
	static struct statmount s;
	chroot("m");
	SHOW(asked(&r, &s, sizeof s, 0));
	SHOW(asked(&top, &s, sizeof s, 0));
	SHOW(listed(&top, ids, 64, 0) > 0);
	SHOW(asked(&point, &s, sizeof s, 0));
	say("%llx '%s' '%s' %d %d", (unsigned long long)s.mask, s.text + s.root, s.text + s.point, (int)s.size, (int)s.point);
	syscall(SYS_capset, &head, data);
	SHOW(asked(&r, &s, sizeof s, 0));
	SHOW(asked(&top, &s, sizeof s, 0));
	SHOW(asked(&in, &s, sizeof s, 0));
	SHOW(listed(&r, ids, 64, 0));
	SHOW(listed(&top, ids, 64, 0));
	SHOW(listed(&in, ids, 64, 0));
	top.mount = ROOT;
	SHOW(listed(&top, ids, 64, 0));
	top.mount = 12345;
	SHOW(listed(&top, ids, 64, 0));
	SHOW(asked(&top, &s, sizeof s, 0));
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	mount("none", "/", 0, MS_REC | MS_PRIVATE, 0);
	mkdir("m", 0755), mkdir("n", 0755);
	getcwd(base, sizeof base);
	mount("one", "m", "tmpfs", 0, 0);
	all("m");
	told("/proc", 0x39);
	told("/sys", 0x39);
	told("/dev", 0x39);
	told("/proc", 0x80);
	told("/sys", 0xa0);
	CHECK(number("m", 0) > 1ull << 31);
	attributes();
	faults();
	mount("two", "n", "tmpfs", 0, "nr_inodes=100");
	told("n", 0xff);
	lists();
	section("without rights");
	in_child("without rights", unprivileged);
	in_child("in a root of its own", jailed);
	SHOW(umount("n"));
	SHOW(umount("m"));
	rmdir("m"), rmdir("n");
	return 0;
}
