/* Access control lists: what may be set, what a list and the mode make of each other, what is inherited, and who may do what. */
#include "t.h"

#include <grp.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

enum { OWNER = 1, USER = 2, GROUP = 4, NAMED = 8, MASK = 16, OTHERS = 32 };
static const char *const ACCESS_LIST = "system.posix_acl_access", *const DEFAULT_LIST = "system.posix_acl_default";

static char value[70000];
static size_t length;

static void begin(uint32_t version)
{
	memcpy(value, &version, 4);
	length = 4;
}

static void add(uint16_t tag, uint16_t permissions, uint32_t id)
{
	memcpy(value + length, &tag, 2), memcpy(value + length + 2, &permissions, 2), memcpy(value + length + 4, &id, 4);
	length += 8;
}

/* From "u:rw- u5:r-- g:r-- g7:rwx m:rwx o:---" */
static void list(const char *text)
{
	char copy[300];
	begin(2);
	snprintf(copy, sizeof copy, "%s", text);
	for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(0, " ", &save)) {
		char *end, *bits = strchr(word, ':');
		long id = strtol(word + 1, &end, 10);
		int named = end != word + 1;
		uint16_t tag = *word == 'u' ? (named ? USER : OWNER) : *word == 'g' ? (named ? NAMED : GROUP) : *word == 'm' ? MASK : OTHERS;
		uint16_t permissions = (bits[1] == 'r' ? 4 : 0) | (bits[2] == 'w' ? 2 : 0) | (bits[3] == 'x' ? 1 : 0);
		add(tag, permissions, named ? (uint32_t)id : 0xffffffff);
	}
}

static int set(const char *file, const char *which, const char *text)
{
	list(text);
	return setxattr(file, which, value, length, 0);
}

static void show_list(const char *file, const char *which)
{
	static char bytes[70000];
	char line[400] = "";
	ssize_t n = lgetxattr(file, which, bytes, sizeof bytes);
	if (n < 0) {
		say("  %s %s: %s", file, which + 17, error_name(errno));
		return;
	}
	for (ssize_t at = 4; at + 8 <= n && at < 100; at += 8) {
		uint16_t tag, permissions;
		uint32_t id;
		memcpy(&tag, bytes + at, 2), memcpy(&permissions, bytes + at + 2, 2), memcpy(&id, bytes + at + 4, 4);
		snprintf(line + strlen(line), sizeof line - strlen(line), " %x:%x:%d", tag, permissions, (int)id);
	}
	say("  %s %s: %zd, version %d:%s", file, which + 17, n, bytes[0], line);
}

static void show(const char *file)
{
	struct stat st;
	if (lstat(file, &st))
		say("  %s: %s", file, error_name(errno));
	else
		say("  %s: mode %o", file, st.st_mode);
	show_list(file, ACCESS_LIST);
	show_list(file, DEFAULT_LIST);
}

static void setting(void)
{
	static const char *const lists[] = {
		"u:rw- g:r-- o:---", "u:rwx g:--- o:r-x", "u:rw- u5:r-- g:r-- m:rwx o:---", "u:rw- u5:r-- g:r-- o:---", "u:rw- g:r-- g7:rw- m:r-- o:--x",
		"u:rw- g:r-- m:rw- o:---", "u:rw- u5:r-- u6:rwx u6:--- g:r-- g7:rw- g7:r-- m:r-x o:r--", "u:rw- g:r--", "g:r-- u:rw- o:---", "u:rw- o:---",
		"u:rw- g:r-- u5:r-- m:r-- o:---", "u:rw- u:rw- g:r-- o:---", "u:rw- g:r-- g:r-- o:---", "u:rw- g:r-- o:--- o:---", "u:rw- g:r-- m:r-- m:r-- o:---",
		"u:rw- g:r-- o:--- m:r--", "m:rwx", "u:rw- m:rwx g:r-- o:---", "u:rw- g:r-- m:rwx g7:r-- o:---",
	};
	section("setting");
	write_file("file", "f");
	mkdir("dir", 0755);
	chmod("file", 06644);
	for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
		say("%s", lists[i]);
		SHOW(set("file", ACCESS_LIST, lists[i]));
		SHOW(set("dir", DEFAULT_LIST, lists[i]));
		show("file");
		show("dir");
	}
	section("bytes");
	list("u:rw- u5:r-- g:r-- m:rwx o:---");
	SHOW(setxattr("file", ACCESS_LIST, value, length, XATTR_CREATE));
	SHOW(setxattr("file", ACCESS_LIST, value, length, XATTR_CREATE));
	SHOW(setxattr("file", DEFAULT_LIST, value, length, 0));
	SHOW(setxattr("file", DEFAULT_LIST, 0, 0, 0));
	SHOW(setxattr("dir", ACCESS_LIST, value, length, XATTR_REPLACE));
	SHOW(setxattr("dir", ACCESS_LIST, value, length, 4));
	SHOW(getxattr("file", ACCESS_LIST, 0, 0));
	SHOW(getxattr("file", ACCESS_LIST, value, 43));
	SHOW(getxattr("file", ACCESS_LIST, value, 44));
	SHOW(getxattr("file", ACCESS_LIST, (void *)8, 44));
	for (size_t n = 0; n <= 12; n++) {
		list("u:rw- g:r-- o:---");
		say("%zu bytes: %s", n, setxattr("file", ACCESS_LIST, value, n, 0) ? error_name(errno) : "ok");
		show("file");
	}
	for (uint32_t version = 0; version < 5; version++) {
		list("u:rw- g:r-- o:---");
		memcpy(value, &version, 4);
		say("version %u: %s", version, setxattr("file", ACCESS_LIST, value, length, 0) ? error_name(errno) : "ok");
		say("version %u, 3 bytes more: %s", version, setxattr("file", ACCESS_LIST, value, 7, 0) ? error_name(errno) : "ok");
	}
	static const uint16_t tags[] = { 0, 3, 5, 64, 0x101, 0xffff };
	for (unsigned i = 0; i < sizeof tags / sizeof *tags; i++) {
		list("u:rw- g:r-- o:---");
		add(tags[i], 0, 0);
		say("tag %x: %s", tags[i], setxattr("file", ACCESS_LIST, value, length, 0) ? error_name(errno) : "ok");
	}
	static const uint16_t permissions[] = { 8, 15, 0x100, 0xffff };
	for (unsigned i = 0; i < sizeof permissions / sizeof *permissions; i++) {
		begin(2), add(OWNER, 6, 77), add(GROUP, permissions[i], 0), add(OTHERS, 4, 0);
		say("permissions %x: %s", permissions[i], setxattr("file", ACCESS_LIST, value, length, 0) ? error_name(errno) : "ok");
	}
	begin(2), add(OWNER, 6, 0), add(USER, 6, 0xffffffff), add(GROUP, 4, 0), add(MASK, 4, 0), add(OTHERS, 4, 0);
	SHOW(setxattr("file", ACCESS_LIST, value, length, 0));
	begin(2), add(OWNER, 6, 0), add(GROUP, 4, 0), add(NAMED, 6, 0xffffffff), add(MASK, 4, 0), add(OTHERS, 4, 0);
	SHOW(setxattr("file", ACCESS_LIST, value, length, 0));
	begin(2), add(OWNER, 6, 3), add(USER, 6, 0), add(GROUP, 4, 3), add(NAMED, 6, 0xfffffffe), add(MASK, 4, 3), add(OTHERS, 4, 3);
	SHOW(setxattr("file", ACCESS_LIST, value, length, 0));
	show("file");
	begin(2), add(OWNER, 7, 0);
	for (uint32_t user = 0; user < 8000; user++)
		add(USER, 4, user);
	add(GROUP, 4, 0), add(MASK, 4, 0), add(OTHERS, 4, 0);
	SHOW(setxattr("file", ACCESS_LIST, value, length, 0));
	SHOW(getxattr("file", ACCESS_LIST, 0, 0));
	SHOW(removexattr("file", ACCESS_LIST));
	SHOW(removexattr("file", ACCESS_LIST));
	SHOW(removexattr("file", DEFAULT_LIST));
	SHOW(removexattr("dir", DEFAULT_LIST));
	show("file"), show("dir");
	SHOW(setxattr("file", "system.other", "v", 1, 0));
	SHOW(setxattr("file", "system.posix_acl_access2", "v", 1, 0));
	SHOW(getxattr("file", "system.posix_acl", value, 1));
	SHOW(removexattr("file", "system.posix_acl_acces"));
}

static void names(const char *file)
{
	char line[300] = "";
	ssize_t n = llistxattr(file, value, sizeof value);
	for (char *name = value; n > 0 && name < value + n; name += strlen(name) + 1)
		snprintf(line + strlen(line), sizeof line - strlen(line), " %s", name);
	say("  names of %s: %zd%s", file, n, n < 0 ? error_name(errno) : line);
}

static void kinds(void)
{
	section("kinds of file");
	symlink("file", "link"), symlink("nowhere", "dangling");
	mkfifo("fifo", 0640);
	mknod("null", S_IFCHR | 0640, makedev(1, 3));
	mkdir("folder", 0750);
	static const char *const files[] = { "file", "folder", "link", "dangling", "fifo", "null", "/proc/self/status", "/proc", "/dev/pts/ptmx" };
	for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
		say("%s", files[i]);
		list("u:rwx u5:rw- g:r-- m:rw- o:---");
		SHOW(lsetxattr(files[i], ACCESS_LIST, value, length, 0));
		SHOW(lsetxattr(files[i], DEFAULT_LIST, value, length, 0));
		SHOW(lsetxattr(files[i], ACCESS_LIST, value, 3, 0));
		show_list(files[i], ACCESS_LIST);
		show_list(files[i], DEFAULT_LIST);
		SHOW(lremovexattr(files[i], DEFAULT_LIST));
		if (i < 6)
			names(files[i]);
	}
	SHOW(setxattr("folder", "user.a", "v", 1, 0));
	SHOW(set("folder", DEFAULT_LIST, "u:rwx g:r-x o:---"));
	names("folder");
	int memory = memfd_create("m", 0);
	list("u:rwx u5:rw- g:r-- m:rw- o:---");
	SHOW(fsetxattr(memory, ACCESS_LIST, value, length, 0));
	SHOW(fgetxattr(memory, ACCESS_LIST, value, sizeof value));
	int ends[2];
	pipe(ends);
	list("u:rwx g:r-- o:---");
	SHOW(fsetxattr(ends[0], ACCESS_LIST, value, length, 0));
	SHOW(fgetxattr(ends[0], ACCESS_LIST, value, sizeof value));
	close(memory), close(ends[0]), close(ends[1]);
}

static void modes(void)
{
	static const int modes[] = { 0777, 0, 0640, 04711, 02070, 01007, 0604 };
	section("chmod");
	write_file("moded", "f");
	for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
		set("moded", ACCESS_LIST, "u:rw- u5:rwx g:r-- g7:-w- m:rw- o:--x");
		say("chmod %o: %s", modes[i], chmod("moded", (mode_t)modes[i]) ? error_name(errno) : "ok");
		show("moded");
	}
	chmod("moded", 06777);
	SHOW(set("moded", ACCESS_LIST, "u:rw- u5:rwx g:r-- m:rw- o:--x"));
	show("moded");
	SHOW(chown("moded", 3, 4));
	show("moded");
	chown("moded", 0, 0);
}

static void make_all(const char *dir, mode_t mask)
{
	char path[100];
	umask(mask);
	static const mode_t modes[] = { 0777, 0666, 0640, 0, 04755, 02711 };
	for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
		snprintf(path, sizeof path, "%s/f%o", dir, modes[i]);
		close(open(path, O_CREAT | O_WRONLY, modes[i]));
		show(path);
		unlink(path);
		snprintf(path, sizeof path, "%s/d%o", dir, modes[i]);
		mkdir(path, modes[i]);
		show(path);
		rmdir(path);
	}
	snprintf(path, sizeof path, "%s/link", dir);
	symlink("x", path), show(path), unlink(path);
	snprintf(path, sizeof path, "%s/fifo", dir);
	mkfifo(path, 0666), show(path), unlink(path);
	snprintf(path, sizeof path, "%s/null", dir);
	mknod(path, S_IFCHR | 0666, makedev(1, 3)), show(path), unlink(path);
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	snprintf(name.sun_path, sizeof name.sun_path, "%s/socket", dir);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	bind(s, (void *)&name, sizeof name), close(s), show(name.sun_path), unlink(name.sun_path);
	int unnamed = open(dir, O_TMPFILE | O_RDWR, 0666);
	snprintf(path, sizeof path, "%s/tmp", dir);
	char link[60];
	snprintf(link, sizeof link, "/proc/self/fd/%d", unnamed);
	linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW), close(unnamed), show(path), unlink(path);
	umask(022);
}

static void inheriting(void)
{
	static const char *const lists[] = {
		"u:rwx g:r-x o:r--", "u:rwx u5:rwx g:r-x g7:rw- m:rwx o:--x", "u:r-- u5:r-- g:r-- m:--- o:---", "u:rwx g:rwx m:r-x o:rwx", "u:rw- g:rw- o:rw-",
	};
	section("what is made begins with");
	for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
		say("%s", lists[i]);
		mkdir("parent", 0755);
		if (i == 1)
			chmod("parent", 02775);
		SHOW(set("parent", DEFAULT_LIST, lists[i]));
		make_all("parent", 027);
		mkdir("parent/a", 0777), mkdir("parent/a/b", 0700);
		show("parent/a"), show("parent/a/b");
		rename("parent/a/b", "moved"), show("moved"), rmdir("moved");
		rmdir("parent/a"), rmdir("parent");
	}
}

static unsigned as_uid, as_gid, as_group;

static void become(void)
{
	gid_t group = as_group;
	if (setgroups(as_group ? 1 : 0, &group) || setresgid(as_gid, as_gid, as_gid) || setresuid(as_uid, as_uid, as_uid))
		say("no other ids: %s", error_name(errno));
}

static void try_all(void)
{
	static const int modes[] = { R_OK, W_OK, X_OK, R_OK | W_OK, R_OK | W_OK | X_OK };
	char line[100] = "";
	become();
	for (unsigned i = 0; i < 5; i++)
		strcat(line, access("judged", modes[i]) ? " no" : " yes");
	int in = open("judged", O_RDONLY), out = open("judged", O_WRONLY);
	say("  user %u group %u and %u:%s, open %s %s, search %s", as_uid, as_gid, as_group, line, in < 0 ? "no" : "yes", out < 0 ? "no" : "yes",
		access("searched/f", F_OK) ? error_name(errno) : "yes");
	_exit(0);
}

static void judging(void)
{
	static const char *const lists[] = {
		"u:--- g:rwx o:rwx", "u:rwx u5:rw- g:r-- m:rwx o:---", "u:rwx u5:rwx g:r-x m:r-- o:rwx", "u:r-- u5:--- g:rwx g7:--- m:rwx o:rwx",
		"u:rwx g:r-- g7:-w- m:rwx o:--x", "u:rwx u5:r-x u5:-w- g:--- g6:r-- g7:rw- m:rw- o:rwx", "u:rwx u5:rwx g:rwx g7:rwx m:--- o:r--", "u:rwx u5:--- g:--- m:rwx o:---",
	};
	static const unsigned ids[][3] = { { 3, 3, 0 }, { 5, 9, 0 }, { 5, 4, 7 }, { 6, 4, 0 }, { 6, 7, 0 }, { 6, 6, 7 }, { 6, 9, 4 }, { 6, 9, 7 }, { 8, 8, 0 }, { 0, 0, 0 } };
	section("who may");
	chmod(".", 0755);
	write_file("judged", "f");
	mkdir("searched", 0777);
	write_file("searched/f", "f");
	chown("judged", 3, 4), chown("searched", 3, 4);
	for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
		say("%s", lists[i]);
		SHOW(set("judged", ACCESS_LIST, lists[i]));
		SHOW(set("searched", ACCESS_LIST, lists[i]));
		for (unsigned j = 0; j < sizeof ids / sizeof *ids; j++) {
			as_uid = ids[j][0], as_gid = ids[j][1], as_group = ids[j][2];
			pid_t pid = must_fork();
			if (pid == 0)
				try_all();
			wait_for(pid);
		}
	}
}

static void set_as_another(void)
{
	become();
	SHOW(set("judged", ACCESS_LIST, "u:rwx g:r-x o:r-x"));
	SHOW(removexattr("judged", ACCESS_LIST));
	SHOW(set("judged", DEFAULT_LIST, "u:rwx g:r-x o:r-x"));
	SHOW(set("judged", ACCESS_LIST, "m:rwx"));
	show_list("judged", ACCESS_LIST);
	_exit(0);
}

static void who_sets(void)
{
	section("who may set one");
	set("judged", ACCESS_LIST, "u:rw- u5:rwx g:r-- m:rwx o:---");
	static const unsigned ids[][3] = { { 3, 3, 0 }, { 3, 3, 4 }, { 5, 5, 0 }, { 0, 0, 0 } };
	for (unsigned j = 0; j < sizeof ids / sizeof *ids; j++) {
		as_uid = ids[j][0], as_gid = ids[j][1], as_group = ids[j][2];
		chmod("judged", 02770);
		in_child("another", set_as_another);
		show("judged");
	}
	mkdir("ro", 0755);
	mount("tmpfs", "ro", "tmpfs", 0, 0);
	mount(0, "ro", 0, MS_REMOUNT | MS_RDONLY | MS_BIND, 0);
	SHOW(set("ro", ACCESS_LIST, "u:rwx g:r-x o:r-x"));
	SHOW(removexattr("ro", ACCESS_LIST));
	umount("ro");
}

int main(void)
{
	umask(022);
	mkdir("t", 0755);
	mount("tmpfs", "t", "tmpfs", 0, 0);
	if (chdir("t"))
		return 1;
	setting();
	kinds();
	modes();
	inheriting();
	judging();
	who_sets();
	chdir("..");
	umount("t");
	rmdir("t");
	return 0;
}
