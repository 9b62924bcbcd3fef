/* Mounts that share what is mounted in them: peers, slaves, what is passed on and what goes with what is taken off, and what /proc and statmount(2) tell. */
#define _GNU_SOURCE
#include "mounts.h"

#include <sched.h>
#include <sys/wait.h>

/* Groups are named by letters, in the order in which they are told of. */
static char letter_of(long number)
{
	static long known[26];
	static int count;
	int at = 0;
	while (at < count && known[at] != number)
		at++;
	if (at == count && count < 26)
		known[count++] = number;
	return 'A' + at;
}

/* The mounts below the test's directory, each with its source and how it shares. */
static void show(const char *text)
{
	char *all = read_file("/proc/self/mountinfo"), *rest = all;
	size_t n = strlen(base);
	say("%s:", text);
	for (char *line; (line = strsep(&rest, "\n")) != 0;) {
		char root[PATH_MAX], at[PATH_MAX], from[64], how[128] = "";
		int end = 0;
		if (sscanf(line, "%*d %*d %*s %4095s %4095s %*s%n", root, at, &end) != 2 || strncmp(at, base, n) != 0)
			continue;
		char *tail = strstr(line + end, " - ");
		sscanf(tail, " - %*s %63s", from);
		*tail = 0;
		for (char *word = strtok(line + end, " "); word != 0; word = strtok(0, " ")) {
			char *number = strchr(word, ':');
			size_t used = strlen(how);
			if (number != 0) {
				*number++ = 0;
				snprintf(how + used, sizeof how - used, " %s:%c", word, letter_of(atol(number)));
			} else
				snprintf(how + used, sizeof how - used, " %s", word);
		}
		char *name = strncmp(root, base, n) == 0 ? root + n : root;
		say("  %s %s on %s%s", from, name, at + n, how);
	}
	free(all);
}

static int fresh(const char *name, const char *at) { return mount(name, at, "tmpfs", 0, 0); }
static int kind(const char *at, unsigned long how) { return mount(0, at, 0, how, 0); }
static int bind(const char *from, const char *at) { return mount(from, at, 0, MS_BIND, 0); }

static void dirs(const char *at, const char *names)
{
	char path[PATH_MAX];
	for (; *names; names++) {
		snprintf(path, sizeof path, "%s%s%c", at, *at ? "/" : "", *names);
		mkdir(path, 0755);
	}
}

/* Takes all off below the test's directory, the last first. */
static void clear(void)
{
	for (int more = 1; more;) {
		char *all = read_file("/proc/self/mounts"), *rest = all, last[PATH_MAX] = "";
		for (char *line; (line = strsep(&rest, "\n")) != 0;) {
			char at[PATH_MAX];
			if (sscanf(line, "%*s %4095s", at) == 1 && strncmp(at, base, strlen(base)) == 0 && at[strlen(base)] == '/')
				strcpy(last, at);
		}
		free(all);
		more = *last && umount2(last, MNT_DETACH) == 0;
	}
}

static void kinds(void)
{
	section("kinds");
	dirs("", "abcdef");
	fresh("one", "a");
	SHOW(kind("a", MS_SHARED));
	SHOW(bind("a", "b"));
	SHOW(bind("a", "c"));
	show("three peers");
	SHOW(kind("b", MS_SLAVE));
	show("a slave");
	SHOW(bind("b", "d"));
	show("another slave");
	SHOW(kind("d", MS_SHARED));
	show("shared and a slave");
	SHOW(bind("d", "e"));
	show("a peer of it");
	SHOW(kind("d", MS_PRIVATE));
	SHOW(kind("e", MS_UNBINDABLE));
	show("private, unbindable");
	SHOW(bind("e", "f"));
	SHOW(kind("e", MS_SLAVE));
	show("unbindable stays");
	SHOW(kind("e", MS_SHARED));
	show("shared");
	SHOW(kind("d", MS_SLAVE));
	show("what is private is no slave");
	SHOW(kind("a", MS_SLAVE));
	SHOW(kind("c", MS_SLAVE));
	show("the last of a group");
	SHOW(kind("a/x", MS_SHARED));
	mkdir("a/x", 0755);
	SHOW(kind("a/x", MS_SHARED));
	SHOW(kind("a", MS_SHARED | MS_PRIVATE));
	SHOW(kind("a", MS_SHARED | MS_RDONLY));
	SHOW(kind("a", MS_SHARED | MS_SILENT));
	show("refused but the last");
	clear();
}

static void chains(void)
{
	section("chains");
	fresh("one", "a");
	kind("a", MS_SHARED);
	bind("a", "b"), kind("b", MS_SLAVE), kind("b", MS_SHARED);
	bind("b", "c"), kind("c", MS_SLAVE), kind("c", MS_SHARED);
	bind("c", "d"), kind("d", MS_SLAVE);
	bind("c", "e"), kind("e", MS_SLAVE);
	show("a chain");
	mkdir("a/x", 0755);
	SHOW(fresh("two", "a/x"));
	show("passed down");
	SHOW(fresh("three", "c/x"));
	show("passed down from the third");
	SHOW(umount("c/x"));
	show("and off");
	SHOW(kind("b", MS_PRIVATE));
	show("without the second");
	SHOW(kind("a", MS_PRIVATE));
	show("without the first");
	SHOW(kind("c", MS_PRIVATE));
	show("without the third");
	clear();
}

static void passed(void)
{
	section("passed on");
	fresh("one", "a");
	dirs("a", "xyz");
	kind("a", MS_SHARED);
	bind("a", "b");
	bind("a", "c"), kind("c", MS_SLAVE);
	SHOW(bind("a/x", "d"));
	show("with a part");
	SHOW(fresh("two", "b/y"));
	show("to all but the part");
	mkdir("d/deep", 0755);
	SHOW(fresh("deep", "d/deep"));
	show("from the part");
	SHOW(fresh("own", "c/z"));
	show("not from the slave");
	SHOW(fresh("over", "a/z"));
	show("beneath what the slave has there");
	SHOW(umount("c/z"));
	show("the slave's is off");
	SHOW(umount("a/z"));
	show("with what went along");
	SHOW(fresh("top", "a/y"));
	show("a second on the first");
	SHOW(umount("b/y"));
	SHOW(umount("b/y"));
	show("both off");
	clear();
}

static void takes(void)
{
	section("taken off");
	fresh("one", "a");
	dirs("a", "xy");
	kind("a", MS_SHARED);
	bind("a", "b"), bind("a", "c"), kind("c", MS_SLAVE);
	fresh("two", "a/x");
	dirs("a/x", "pq");
	show("before");
	SHOW(fresh("in", "c/x/p"));
	show("in the slave's");
	SHOW(umount("a/x"));
	show("what bears something stays");
	SHOW(umount("c/x/p"));
	SHOW(umount("c/x"));
	fresh("three", "a/x");
	dirs("a/x", "p");
	int fd = open("b/x/p", O_RDONLY);
	SHOW(umount("a/x"));
	close(fd);
	SHOW(chdir("c/x"));
	SHOW(umount("a/x"));
	SHOW(umount2("a/x", MNT_EXPIRE));
	SHOW(umount2("a/x", MNT_EXPIRE));
	SHOW(chdir("../.."));
	SHOW(umount("a/x"));
	fresh("four", "a/x");
	dirs("a/x", "pq");
	fresh("five", "b/x/p");
	show("a tree");
	SHOW(umount("a/x"));
	SHOW(umount2("a/x", MNT_DETACH));
	show("taken off whole");
	fresh("six", "a/x");
	SHOW(fresh("lid", "c/x"));
	show("a lid on the slave's");
	SHOW(umount("a/x"));
	show("and what is below is gone");
	clear();
}

static void trees(void)
{
	section("trees");
	fresh("one", "a");
	dirs("a", "xy");
	kind("a", MS_SHARED);
	bind("a", "b"), bind("a", "c"), kind("c", MS_SLAVE), kind("c", MS_SHARED), bind("c", "d");
	fresh("two", "e");
	dirs("e", "pq");
	fresh("three", "e/p");
	SHOW(mount("e", "a/x", 0, MS_BIND | MS_REC, 0));
	show("bound");
	SHOW(mount("a/x", "f", 0, MS_MOVE, 0));
	fresh("four", "f");
	SHOW(mount("f", "a/y", 0, MS_MOVE, 0));
	show("moved");
	SHOW(mount("a", "f", 0, MS_MOVE, 0));
	show("moved itself");
	SHOW(kind("e/p", MS_UNBINDABLE));
	SHOW(mount("e", "f/y", 0, MS_MOVE, 0));
	SHOW(mount("e", "f/y", 0, MS_BIND | MS_REC, 0));
	show("without what must not be bound");
	SHOW(kind("f", MS_REC | MS_PRIVATE));
	show("all private");
	SHOW(kind("b", MS_REC | MS_SHARED));
	show("all shared");
	clear();
	fresh("one", "a");
	kind("a", MS_SHARED);
	dirs("a", "xy");
	SHOW(bind("a", "a/x"));
	show("in itself");
	SHOW(mount("a", "a/y", 0, MS_BIND | MS_REC, 0));
	show("and once more, with all");
	SHOW(fresh("in", "a/x/y"));
	show("in the inner");
	clear();
	fresh("one", "a");
	dirs("a", "xy");
	bind("a", "b");
	fresh("two", "b/x");
	kind("a", MS_SHARED);
	SHOW(syscall(SYS_pivot_root, "a", "a/x"));
	SHOW(move(AT_FDCWD, "b", AT_FDCWD, "a", GROUP));
	SHOW(move(AT_FDCWD, "a/x", AT_FDCWD, "b", GROUP));
	SHOW(move(AT_FDCWD, "b/x", AT_FDCWD, "b", GROUP));
	SHOW(move(AT_FDCWD, "a", AT_FDCWD, "b", GROUP));
	SHOW(move(AT_FDCWD, "a", AT_FDCWD, "b", GROUP));
	show("joined");
	SHOW(fresh("three", "b/y"));
	show("and passed on");
	clear();
}

static void joins(void)
{
	section("joins");
	dirs("", "ghi");
	fresh("one", "g");
	dirs("g", "xy");
	bind("g", "h"), bind("g/x", "i");
	fresh("two", "h/x");
	SHOW(move(AT_FDCWD, "g", AT_FDCWD, "h", GROUP));
	kind("g", MS_SHARED);
	SHOW(move(AT_FDCWD, "h/x", AT_FDCWD, "h", GROUP));
	SHOW(move(AT_FDCWD, "g/x", AT_FDCWD, "h", GROUP));
	SHOW(move(AT_FDCWD, "g", AT_FDCWD, "h/y", GROUP));
	SHOW(move(AT_FDCWD, "g", AT_FDCWD, "h", GROUP | BENEATH));
	SHOW(move(AT_FDCWD, "g", AT_FDCWD, "h", GROUP));
	SHOW(move(AT_FDCWD, "g", AT_FDCWD, "h", GROUP));
	SHOW(move(AT_FDCWD, "g", AT_FDCWD, "i", GROUP));
	show("three that were private");
	SHOW(fresh("three", "g/y"));
	show("passed on");
	kind("i", MS_SLAVE);
	kind("h", MS_PRIVATE);
	SHOW(move(AT_FDCWD, "i", AT_FDCWD, "h", GROUP));
	dirs("", "j");
	bind("g/x", "j"), kind("j", MS_PRIVATE);
	SHOW(move(AT_FDCWD, "i", AT_FDCWD, "j", GROUP));
	show("a slave as another is");
	clear();
}

struct attributes {
	uint64_t set, clear, kind, user_space;
};

static int change(const char *at, unsigned flags, uint64_t how)
{
	struct attributes a = { .kind = how };
	return syscall(SYS_mount_setattr, AT_FDCWD, at, flags, &a, sizeof a);
}

static void calls(void)
{
	section("other calls");
	fresh("one", "a");
	dirs("a", "xy");
	fresh("two", "a/x");
	SHOW(change("a", 0x8000, MS_SHARED));
	show("by mount_setattr");
	SHOW(change("a", 0, MS_SHARED | MS_SLAVE));
	SHOW(change("a", 0, MS_REC));
	SHOW(change("a/x", 0, MS_UNBINDABLE));
	int fd = tree(AT_FDCWD, "a", 1 | 0x8000);
	SHOW(hang(fd, "b"));
	close(fd);
	show("a tree from a descriptor");
	SHOW(change("b", 0, MS_SLAVE));
	show("a slave by mount_setattr");
	SHOW(change("a", 0x8000, MS_PRIVATE));
	SHOW(change("b", 0, MS_SHARED));
	fd = begin("tmpfs", 0);
	config(fd, STRING, "source", "three", 0);
	config(fd, CREATE, 0, 0, 0);
	int mounted = made(fd, 0, 0);
	SHOW(hang(mounted, "b/y"));
	show("a new one");
	close(mounted), close(fd);
	fd = tree(AT_FDCWD, "b", 1);
	SHOW(fresh("four", "b/y"));
	SHOW(hang(fd, "c"));
	show("what a descriptor holds hears of nothing");
	close(fd);
	SHOW(move(AT_FDCWD, "b/y", AT_FDCWD, "d", 0));
	fresh("five", "d");
	SHOW(move(AT_FDCWD, "d", AT_FDCWD, "b/y", BENEATH));
	show("beneath");
	clear();
}

static void spaces(void)
{
	section("namespaces");
	fresh("one", "a");
	dirs("a", "xyz");
	kind("a", MS_SHARED);
	int there[2], back[2];
	char c;
	if (pipe(there) < 0 || pipe(back) < 0)
		return;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		unshare(CLONE_NEWNS);
		write(back[1], "u", 1);
		read(there[0], &c, 1);
		show("in the other namespace, a peer");
		kind("a", MS_SLAVE);
		show("a slave");
		fflush(stdout);
		write(back[1], "s", 1);
		read(there[0], &c, 1);
		show("what came and went");
		SHOW(fresh("own", "a/z"));
		fflush(stdout);
		write(back[1], "o", 1);
		read(there[0], &c, 1);
		fflush(stdout);
		_exit(0);
	}
	read(back[0], &c, 1);
	SHOW(fresh("two", "a/x"));
	fflush(stdout);
	write(there[1], "g", 1);
	read(back[0], &c, 1);
	SHOW(fresh("three", "a/y"));
	SHOW(umount("a/x"));
	fflush(stdout);
	write(there[1], "g", 1);
	read(back[0], &c, 1);
	show("here");
	fflush(stdout);
	write(there[1], "g", 1);
	waitpid(child, 0, 0);
	close(there[0]), close(there[1]), close(back[0]), close(back[1]);
	fflush(stdout);
	/* A slave whose master is not seen, but a group above that. */
	bind("a", "b"), kind("b", MS_SLAVE), kind("b", MS_SHARED);
	bind("b", "c"), kind("c", MS_SLAVE);
	child = fork();
	if (child == 0) {
		unshare(CLONE_NEWNS);
		umount2("b", MNT_DETACH);
		show("master not seen");
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, 0, 0);
	show("seen");
	clear();
}

int main(void)
{
	if (getcwd(base, sizeof base) == 0)
		return 1;
	if (unshare(CLONE_NEWNS) < 0)
		say("no namespace");
	mount(0, "/", 0, MS_REC | MS_PRIVATE, 0);
	kinds();
	chains();
	passed();
	takes();
	trees();
	joins();
	calls();
	spaces();
	return 0;
}
