/* Trees of mounts: moved, bound with what is mounted below, taken off whole, and what those see who stand in one that is gone. */
#include "t.h"

#include <sys/mount.h>

static char base[PATH_MAX];

/* The mounts below the test's directory, in the order of /proc/mounts, each with its source. */
static void shown(const char *text)
{
	char *all = read_file("/proc/self/mounts"), *rest = all;
	say("%s:", text);
	for (char *line; (line = strsep(&rest, "\n")) != 0;) {
		char from[64], at[PATH_MAX], flags[64];
		size_t n = strlen(base);
		if (sscanf(line, "%63s %4095s %*s %2[a-z]", from, at, flags) == 3 && strncmp(at, base, n) == 0)
			say("  %s on %s %s", from, at + n, flags);
	}
	free(all);
}

static int fresh(const char *name, const char *at)
{
	return mount(name, at, "tmpfs", 0, 0);
}

static void where(const char *text)
{
	char at[PATH_MAX] = "", link[PATH_MAX] = "";
	errno = 0;
	char *got = getcwd(at, sizeof at);
	if (got != 0 && strncmp(at, base, strlen(base)) == 0)
		memmove(at, at + strlen(base), strlen(at) - strlen(base) + 1);
	readlink("/proc/self/cwd", link, sizeof link - 1);
	char *rest = strncmp(link, base, strlen(base)) == 0 ? link + strlen(base) : link;
	say("%s: %s, %s; cwd %s", text, got != 0 ? at : "none", error_name(errno), rest);
}

static void moves(void)
{
	section("moved");
	mkdir("a", 0755), mkdir("b", 0755), mkdir("c", 0755);
	write_file("plain", "p");
	fresh("one", "a");
	mkdir("a/in", 0755);
	fresh("two", "a/in");
	write_file("a/in/file", "text");
	SHOW(mount("b", "c", 0, MS_MOVE, 0));
	SHOW(mount("a/in", "plain", 0, MS_MOVE, 0));
	SHOW(mount("nowhere", "b", 0, MS_MOVE, 0));
	SHOW(mount("a", "nowhere", 0, MS_MOVE, 0));
	SHOW(mount("a", "a", 0, MS_MOVE, 0));
	SHOW(mount("a", "a/in", 0, MS_MOVE, 0));
	SHOW(mount("/", "b", 0, MS_MOVE, 0));
	SHOW(mount("a/in/file", "plain", 0, MS_MOVE, 0));
	SHOW(chdir("a/in"));
	where("before");
	SHOW(mount("../../a", "../../b", 0, MS_MOVE, 0));
	where("after");
	SHOW(chdir("../.."));
	where("up");
	SHOW(access("a/in", F_OK));
	SHOW(access("b/in/file", F_OK));
	SHOW(rmdir("a"));
	SHOW(rmdir("b"));
	SHOW(rmdir("b/in"));
	shown("moved");
	mkdir("a", 0755);
	SHOW(mount("b/in", "a", 0, MS_MOVE, 0));
	SHOW(rmdir("b/in"));
	shown("one out of the other");
	/* A file over a file. */
	SHOW(mount("a/file", "plain", 0, MS_BIND, 0));
	write_file("other", "o");
	SHOW(mount("plain", "other", 0, MS_MOVE, 0));
	char *now = read_file("other"), *before = read_file("plain");
	say("%s %s", now, before);
	SHOW(umount("other"));
	/* Over what is mounted there. */
	SHOW(mount("a", "b", 0, MS_MOVE, 0));
	SHOW(access("b/file", F_OK));
	shown("one over the other");
	SHOW(umount("b"));
	SHOW(access("b/file", F_OK));
	SHOW(umount("b"));
	SHOW(umount("b"));
}

static void binds(void)
{
	section("bound with what is below");
	fresh("one", "a");
	mkdir("a/x", 0755), mkdir("a/y", 0755), mkdir("a/y/z", 0755);
	fresh("two", "a/x");
	mkdir("a/x/deep", 0755);
	fresh("three", "a/x/deep");
	fresh("four", "a/y/z");
	mkdir("a/u", 0755);
	fresh("five", "a/u");
	SHOW(mount("none", "a/u", 0, MS_UNBINDABLE, 0));
	SHOW(mount("none", "a/x/deep", 0, MS_REMOUNT | MS_BIND | MS_RDONLY, 0));
	SHOW(mount("a", "b", 0, MS_BIND, 0));
	shown("bound");
	SHOW(umount("b"));
	SHOW(mount("a", "b", 0, MS_BIND | MS_REC, 0));
	shown("bound with all");
	SHOW(umount("b"));
	SHOW(umount2("b", MNT_DETACH));
	SHOW(mount("a/y", "b", 0, MS_BIND | MS_REC, 0));
	shown("a part of it");
	SHOW(umount2("b", MNT_DETACH));
	SHOW(mount("a", "a/y", 0, MS_BIND | MS_REC, 0));
	shown("onto its own part");
	SHOW(umount2("a/y", MNT_DETACH));
	SHOW(mount("a", "plain", 0, MS_BIND | MS_REC, 0));
	SHOW(mount("a/u", "b", 0, MS_BIND | MS_REC, 0));
	shown("as before");
}

static void gone(void)
{
	section("taken off whole");
	SHOW(umount2("a", MNT_EXPIRE));
	SHOW(umount2("a", MNT_EXPIRE));
	SHOW(umount2("a", 0));
	SHOW(chdir("a/x"));
	write_file("kept", "kept");
	SHOW(umount2("../../a", MNT_DETACH));
	where("who stands in one");
	shown("nothing");
	SHOW(access("kept", F_OK));
	SHOW(access("deep", F_OK));
	SHOW(chdir("deep"));
	where("in what was a point");
	SHOW(chdir(".."));
	SHOW(chdir(".."));
	where("no way out");
	SHOW(mkdir("new", 0755));
	SHOW(fresh("none", "new"));
	SHOW(mount("new", base, 0, MS_BIND, 0));
	SHOW(mount(base, "new", 0, MS_BIND, 0));
	SHOW(mount("new", base, 0, MS_BIND | MS_REC, 0));
	SHOW(mount(".", base, 0, MS_MOVE, 0));
	SHOW(umount2(".", MNT_DETACH));
	SHOW(umount("."));
	SHOW(rmdir("new"));
	SHOW(rmdir("deep"));
	SHOW(chdir(base));
	where("back");
	SHOW(rmdir("a"));
	SHOW(rmdir("b"));
}

static void again(void)
{
	section("expiry of a tree");
	mkdir("a", 0755);
	fresh("one", "a");
	mkdir("a/in", 0755);
	SHOW(umount2("a", MNT_EXPIRE));
	fresh("two", "a/in");
	SHOW(umount2("a", MNT_EXPIRE));
	SHOW(umount2("a/in", MNT_EXPIRE));
	SHOW(access("a/in", F_OK));
	SHOW(umount2("a/in", MNT_EXPIRE));
	SHOW(umount2("a/in", MNT_EXPIRE));
	SHOW(umount2("a", MNT_EXPIRE));
	SHOW(umount2("a", MNT_EXPIRE));
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	mount("none", "/", 0, MS_REC | MS_PRIVATE, 0);
	getcwd(base, sizeof base);
	moves();
	binds();
	gone();
	again();
	return 0;
}
