/* mount(2) and umount2(2): the flags, which of them come first, and what they do. */
#include "t.h"

#include <sys/mount.h>

#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256
#endif

/* The options of the mount at `point` (the last one there) in /proc/mounts. */
static void options(const char *text, const char *point)
{
	char here[PATH_MAX], found[256] = "no mount";
	getcwd(here, sizeof here);
	size_t n = strlen(here);
	snprintf(here + n, sizeof here - n, "/%s", point);
	char *all = read_file("/proc/mounts");
	for (char *line = strtok(all, "\n"); line != 0; line = strtok(0, "\n")) {
		char at[256], kind[64], flags[256];
		if (sscanf(line, "%*s %255s %63s %255s", at, kind, flags) == 3 && strcmp(at, here) == 0)
			snprintf(found, sizeof found, "%s", flags);
	}
	char *size = strstr(found, ",inode64");
	if (size != 0)
		*size = 0;
	free(all);
	say("%s: %s", text, found);
}

static int mounts(const char *source, const char *point, const char *kind, unsigned long flags)
{
	return mount(source, point, kind, flags, 0);
}

static void flags(void)
{
	static const struct { const char *name; unsigned long flag; } each[] = {
		{ "rdonly", MS_RDONLY }, { "nosuid", MS_NOSUID }, { "nodev", MS_NODEV }, { "noexec", MS_NOEXEC }, { "synchronous", MS_SYNCHRONOUS },
		{ "mandlock", MS_MANDLOCK }, { "dirsync", MS_DIRSYNC }, { "nosymfollow", MS_NOSYMFOLLOW }, { "noatime", MS_NOATIME },
		{ "nodiratime", MS_NODIRATIME }, { "silent", MS_SILENT }, { "relatime", MS_RELATIME }, { "strictatime", MS_STRICTATIME },
		{ "lazytime", MS_LAZYTIME }, { "posixacl", 1 << 16 }, { "kernmount", 1 << 22 }, { "i_version", 1 << 23 }, { "nouser", 1ul << 31 },
		{ "unknown 9", 1 << 9 }, { "unknown 26", 1 << 26 }, { "unknown 27", 1 << 27 }, { "noatime, strictatime", MS_NOATIME | MS_STRICTATIME },
	};
	section("flags of a new mount");
	for (unsigned i = 0; i < sizeof each / sizeof *each; i++) {
		errno = 0;
		int got = mounts("none", "m", "tmpfs", each[i].flag);
		say("%s: %d %s", each[i].name, got, error_name(errno));
		if (got == 0) {
			options("  shown", "m");
			umount("m");
		}
	}
}

static void links(void)
{
	section("nosymfollow");
	mounts("none", "m", "tmpfs", 0);
	write_file("m/file", "text");
	mkdir("m/folder", 0755);
	write_file("m/folder/inner", "text");
	symlink("file", "m/link");
	symlink("folder", "m/way");
	SHOW(mounts("none", "m", 0, MS_REMOUNT | MS_NOSYMFOLLOW));
	options("shown", "m");
	struct stat st;
	char text[16];
	SHOW(stat("m/link", &st));
	SHOW(lstat("m/link", &st));
	SHOW(readlink("m/link", text, sizeof text));
	SHOW(open("m/link", O_RDONLY));
	SHOW(open("m/link", O_RDONLY | O_NOFOLLOW));
	SHOW(stat("m/way/inner", &st));
	SHOW(lstat("m/way/", &st));
	SHOW(stat("m/folder/inner", &st));
	symlink("m/file", "outside");
	SHOW(stat("outside", &st));
	SHOW(unlink("m/link"));
	umount("m");
	unlink("outside");
}

static void which(void)
{
	section("which flag comes first");
	mounts("none", "m", "tmpfs", 0);
	mkdir("m/inner", 0755);
	SHOW(mounts("none", "m/inner", 0, MS_REMOUNT));
	SHOW(mounts("none", "m/inner", 0, MS_PRIVATE));
	SHOW(mounts("none", "m/inner", 0, MS_REMOUNT | MS_BIND));
	SHOW(mounts("nowhere", "m", 0, MS_BIND | MS_PRIVATE));
	SHOW(mounts("nowhere", "m", 0, MS_MOVE | MS_PRIVATE));
	SHOW(mounts("nowhere", "m", 0, MS_MOVE | MS_BIND));
	SHOW(mounts("", "m", 0, MS_BIND));
	SHOW(mounts(0, "m", 0, MS_BIND));
	SHOW(mounts(0, "m", 0, MS_MOVE));
	SHOW(mounts("none", "m", 0, MS_PRIVATE | MS_SLAVE));
	SHOW(mounts("none", "m", 0, MS_PRIVATE | MS_RDONLY));
	SHOW(mounts("none", "m", 0, MS_PRIVATE | MS_NOEXEC));
	SHOW(mounts("none", "m", 0, MS_PRIVATE | MS_REC | MS_SILENT));
	SHOW(mounts("none", "m", 0, MS_SLAVE));
	SHOW(mounts("none", "m", 0, MS_UNBINDABLE));
	mkdir("copy", 0755);
	SHOW(mounts("m", "copy", 0, MS_BIND));
	SHOW(mounts("m/inner", "copy", 0, MS_BIND));
	SHOW(mounts("none", "m", 0, MS_PRIVATE));
	SHOW(mounts("m", "copy", 0, MS_BIND | MS_RDONLY));
	options("a bind mount does not take flags", "copy");
	SHOW(mounts("none", "copy", 0, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID));
	options("but a remount does", "copy");
	options("of that one alone", "m");
	SHOW(umount("copy"));
	SHOW(mounts("none", "m", "nothing like it", 0));
	SHOW(mounts("none", "m", 0, 0));
	SHOW(mounts("none", "m", 0, MS_REMOUNT | MS_NOATIME));
	options("remounted", "m");
	SHOW(mounts("none", "m", 0, MS_REMOUNT));
	options("a remount without", "m");
	SHOW(umount("m"));
}

static void expires(void)
{
	section("expiry");
	mounts("none", "m", "tmpfs", 0);
	SHOW(umount2("m", MNT_EXPIRE | MNT_FORCE));
	SHOW(umount2("m", MNT_EXPIRE | MNT_DETACH));
	SHOW(umount2("m", 16));
	SHOW(umount2("/", MNT_EXPIRE));
	int fd = open("m", O_RDONLY | O_DIRECTORY);
	SHOW(umount2("m", MNT_EXPIRE));
	close(fd);
	SHOW(umount2("m", MNT_EXPIRE));
	struct stat st;
	stat("m", &st);
	SHOW(umount2("m", MNT_EXPIRE));
	SHOW(umount2("m", MNT_EXPIRE));
	SHOW(umount2("m", MNT_EXPIRE));
	options("then", "m");
}

#define MOST "/proc/sys/fs/mount-max"

static void most(const char *value)
{
	int fd = open(MOST, O_WRONLY);
	int got = write(fd, value, strlen(value));
	char *now = read_file(MOST);
	say("fs.mount-max to %s: %s; %.*s", value, got < 0 ? error_name(errno) : "ok", now ? (int)strcspn(now, "\n") : 0, now ? now : "");
	free(now);
	close(fd);
}

static void number(void)
{
	section("as many as there may be");
	most("x");
	most("-1");
	most("0");
	most("2147483648");
	most("2147483647");
	most("1");
	SHOW(mounts("none", "m", "tmpfs", 0));
	SHOW(mounts("/", "m", 0, MS_BIND));
	SHOW(mounts("/", "m", 0, MS_BIND | MS_REC));
	most("100000");
	SHOW(mounts("none", "m", "tmpfs", 0));
	SHOW(umount("m"));
}

/* Some hundreds, each found at its directory, and on the last some that hang upon each other. */
static void many(void)
{
	section("many");
	char name[32], text[32];
	int made = 0, found = 0, gone = 0;
	mounts("none", "m", "tmpfs", 0);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "m/%d", i);
		mkdir(name, 0755);
		made += mounts("none", name, "tmpfs", 0) == 0;
		snprintf(name, sizeof name, "m/%d/own", i);
		snprintf(text, sizeof text, "%d", i);
		write_file(name, text);
	}
	for (int i = 0; i < 20; i++) {
		made += mounts("none", "m/299", "tmpfs", 0) == 0;
		snprintf(text, sizeof text, "%d", 1000 + i);
		write_file("m/299/own", text);
	}
	for (int i = 0; i < 300; i += 3) {
		snprintf(name, sizeof name, "m/%d", i);
		gone += umount(name) == 0;
	}
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "m/%d/own", i);
		char *own = read_file(name);
		found += own != 0 && atoi(own) == i;
		free(own);
	}
	say("%d made, %d gone, %d found", made, gone, found);
	for (int i = 0; i < 21; i++) {
		char *own = read_file("m/299/own");
		say("on top: %s", own ? own : "nothing");
		free(own);
		umount("m/299");
	}
	SHOW(umount("m"));
	SHOW(umount2("m", MNT_DETACH));
	options("then", "m");
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	/* What follows is no part of this: a tree that propagates nothing. */
	mount("none", "/", 0, MS_REC | MS_PRIVATE, 0);
	mkdir("m", 0755);
	flags();
	links();
	which();
	expires();
	number();
	many();
	return 0;
}
