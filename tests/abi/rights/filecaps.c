/* Capabilities of files (security.capability): what may be set, what a program gets, and what takes them off a file. */
#include "sets.h"

#include <grp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/auxv.h>
#include <sys/xattr.h>

enum { REVISION_1 = 0x01000000, REVISION_2 = 0x02000000, REVISION_3 = 0x03000000, EFFECTIVE = 1 };

struct file_capabilities { uint32_t magic, permitted, inheritable, permitted_high, inheritable_high, root; };

static int seen(void)
{
	show("  seen");
	say("  secure %ld, dumpable %d", getauxval(AT_SECURE), prctl(PR_GET_DUMPABLE));
	return 0;
}

static void copy(const char *to)
{
	char buffer[65536];
	unlink(to);
	int in = open("/proc/self/exe", O_RDONLY), out = open(to, O_CREAT | O_WRONLY | O_TRUNC, 0755);
	for (ssize_t n; (n = read(in, buffer, sizeof buffer)) > 0;)
		write(out, buffer, (size_t)n);
	close(in), close(out);
	chmod(to, 0755);
}

static int give(const char *file, uint32_t magic, uint64_t permitted, uint64_t inheritable)
{
	struct file_capabilities all = {
		magic, (uint32_t)permitted, (uint32_t)inheritable, (uint32_t)(permitted >> 32), (uint32_t)(inheritable >> 32), 0,
	};
	return setxattr(file, "security.capability", &all, 20, 0);
}

static void show_bytes(const char *file)
{
	unsigned char bytes[64];
	ssize_t n = getxattr(file, "security.capability", bytes, sizeof bytes);
	char line[200] = "";
	for (ssize_t i = 0; i < n; i++)
		snprintf(line + 2 * i, sizeof line - 2 * (size_t)i, "%02x", bytes[i]);
	say("  %s: %s", file, n < 0 ? error_name(errno) : line);
}

static void as_user(void)
{
	setgroups(0, 0);
	if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
		say("no other ids: %s", error_name(errno));
}

static void set_as_user(void)
{
	as_user();
	SHOW(give("own", REVISION_2, BIT(CHOWN), 0));
	show_bytes("own");
	SHOW(removexattr("own", "security.capability"));
}

static void bytes(void)
{
	section("bytes");
	write_file("file", "f");
	struct file_capabilities all = { REVISION_2 | EFFECTIVE, 0x2001, 0x20, 0x80000100, 1, 0 };
	SHOW(setxattr("file", "security.capability", &all, 20, 0));
	show_bytes("file");
	SHOW(getxattr("file", "security.capability", 0, 0));
	SHOW(getxattr("file", "security.capability", &all, 19));
	SHOW(setxattr("file", "security.capability", &all, 24, 0));
	SHOW(setxattr("file", "security.capability", &all, 12, 0));
	SHOW(setxattr("file", "security.capability", &all, 0, 0));
	show_bytes("file");
	all.magic = REVISION_3;
	SHOW(setxattr("file", "security.capability", &all, 24, 0));
	show_bytes("file");
	all.root = 1000;
	SHOW(setxattr("file", "security.capability", &all, 24, 0));
	show_bytes("file");
	all.root = ~0u;
	SHOW(setxattr("file", "security.capability", &all, 24, 0));
	SHOW(setxattr("file", "security.capability", &all, 20, 0));
	all.magic = REVISION_1;
	SHOW(setxattr("file", "security.capability", &all, 12, 0));
	SHOW(setxattr("file", "security.capability", &all, 20, 0));
	all.magic = REVISION_2 | 2;
	SHOW(setxattr("file", "security.capability", &all, 20, 0));
	SHOW(give("file", REVISION_2, 1, 0));
	SHOW(removexattr("file", "security.capability"));
	SHOW(removexattr("file", "security.capability"));
	write_file("own", "o"), chown("own", 1000, 1000);
	in_child("a user", set_as_user);
}

static const char *program = "program";

static void run(const char *who, void (*prepare)(void))
{
	say(" %s", who);
	pid_t pid = must_fork();
	if (pid == 0) {
		prepare();
		execl(program, "seen", (char *)0);
		say("  no exec: %s", error_name(errno));
		_exit(1);
	}
	int status = wait_for(pid);
	if (status != 0)
		say("  %s", status_text(status));
}

static void as_root(void) {}
static void as_no_new(void) { as_user(); prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }
static void as_no_root(void) { prctl(PR_SET_SECUREBITS, 1); }
static void as_bounded(void) { prctl(PR_CAPBSET_DROP, CHOWN, 0, 0, 0); as_user(); }
static void as_heir(void)
{
	put(ALL, ALL, BIT(KILL) | BIT(CHOWN));
	as_user();
}
static void as_ambient(void)
{
	put(ALL, ALL, BIT(KILL));
	prctl(PR_SET_KEEPCAPS, 1);
	as_user();
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, KILL, 0, 0);
}

static void runs(void)
{
	section("programs");
	static const struct { const char *name; uint32_t magic; uint64_t permitted, inheritable; } kinds[] = {
		{ "effective", REVISION_2 | EFFECTIVE, BIT(CHOWN) | BIT(NET_RAW), 0 },
		{ "permitted", REVISION_2, BIT(CHOWN) | BIT(NET_RAW), 0 },
		{ "inheritable", REVISION_2 | EFFECTIVE, 0, BIT(KILL) | BIT(CHOWN) },
		{ "none", REVISION_2, 0, 0 },
		{ "unknown", REVISION_2 | EFFECTIVE, ~0ull, ~0ull },
	};
	copy("program");
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		say("%s", kinds[i].name);
		SHOW(give("program", kinds[i].magic, kinds[i].permitted, kinds[i].inheritable));
		run("root", as_root);
		run("a user", as_user);
		run("a user with no new privileges", as_no_new);
		run("root that means nothing", as_no_root);
		run("a user that may not have it", as_bounded);
		run("a user that inherits", as_heir);
		run("a user with an ambient one", as_ambient);
	}
	struct file_capabilities all = { REVISION_3 | EFFECTIVE, 1, 0, 0, 0, 1000 };
	say("another name space's");
	SHOW(setxattr("program", "security.capability", &all, 24, 0));
	run("a user", as_user);
	say("set-user-id too");
	SHOW(give("program", REVISION_2 | EFFECTIVE, BIT(CHOWN), 0));
	chmod("program", 04755);
	run("root", as_root);
	run("a user", as_user);
	chmod("program", 0755);
	run("a user, and the mode is changed", as_user);
	mkdir("mount", 0755);
	mount("none", "mount", "tmpfs", MS_NOSUID, 0);
	copy("mount/program");
	SHOW(give("mount/program", REVISION_2 | EFFECTIVE, BIT(CHOWN), 0));
	program = "mount/program";
	run("nosuid", as_user);
	mount("none", "mount", 0, MS_REMOUNT, 0);
	run("the same, remounted", as_user);
	umount("mount");
	program = "program";
}

static void appends(void) { int fd = open("file", O_WRONLY | O_APPEND); write(fd, "x", 1); close(fd); }
static void writes_nothing(void) { int fd = open("file", O_WRONLY); write(fd, "x", 0); close(fd); }
static void truncates(void) { SHOW(truncate("file", 1)); }
static void opens_truncating(void) { close(open("file", O_WRONLY | O_TRUNC)); }
static void changes_owner(void) { SHOW(chown("file", 5, 5)); }
static void changes_no_owner(void) { SHOW(chown("file", -1, -1)); }
static void changes_mode(void) { SHOW(chmod("file", 0700)); }
static void changes_times(void) { SHOW(utimensat(AT_FDCWD, "file", 0, 0)); }
static void renames(void) { SHOW(rename("file", "other")); SHOW(rename("other", "file")); }
static void links(void) { unlink("hard"); SHOW(link("file", "hard")); }
static void allocates(void) { int fd = open("file", O_RDWR); SHOW(fallocate(fd, 0, 0, 100)); close(fd); }
static void punches(void) { int fd = open("file", O_RDWR); SHOW(fallocate(fd, 3, 0, 10)); close(fd); }
static void sends(void)
{
	int fd = open("file", O_WRONLY), from = open("/proc/self/exe", O_RDONLY);
	SHOW(sendfile(fd, from, 0, 10));
	close(fd), close(from);
}
static void maps(void)
{
	int fd = open("file", O_RDWR);
	char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*(volatile char *)at = 'm';
	munmap(at, 4096);
	close(fd);
}

static void losses(void)
{
	section("what takes them off");
	static const struct { const char *name; void (*change)(void); } changes[] = {
		{ "append", appends }, { "write of nothing", writes_nothing }, { "truncate", truncates }, { "open with O_TRUNC", opens_truncating },
		{ "chown", changes_owner }, { "chown to nobody", changes_no_owner }, { "chmod", changes_mode }, { "utimensat", changes_times },
		{ "rename", renames }, { "link", links }, { "fallocate", allocates }, { "punch", punches }, { "sendfile", sends }, { "a mapping", maps },
	};
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		say("%s", changes[i].name);
		unlink("file");
		write_file("file", "contents");
		SHOW(give("file", REVISION_2 | EFFECTIVE, 1, 0));
		setxattr("file", "user.other", "v", 1, 0);
		changes[i].change();
		show_bytes("file");
		CHECK(getxattr("file", "user.other", 0, 0) == 1);
	}
}

int main(int argc, char **argv)
{
	if (argc > 0 && strcmp(argv[0], "seen") == 0)
		return seen();
	bytes();
	runs();
	losses();
	return 0;
}
