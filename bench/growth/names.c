/* Worlds of names: names in a directory, hard links of a file, mounts. */
#include "growth.h"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/statfs.h>

#define MANY "/tmp/growth/many"
static unsigned count;
static char last[64];

static const char *name(char *buffer, unsigned i)
{
	snprintf(buffer, 64, MANY "/%u", i);
	return buffer;
}

static void make_names(unsigned n)
{
	char path[64];
	count = n;
	ok("mkdir", mkdir(MANY, 0755));
	for (unsigned i = 0; i < n; i++)
		ok("close", close((int)ok("creat", creat(name(path, i), 0644))));
	name(last, n / 2);
}

static void unmake_names(void)
{
	char path[64];
	for (unsigned i = 0; i < count; i++)
		unlink(name(path, i));
	ok("rmdir", rmdir(MANY));
}

static void op_stat_name(void)
{
	struct stat stat_buffer;
	ok("stat", stat(last, &stat_buffer));
}

static void op_stat_absent(void)
{
	struct stat stat_buffer;
	if (stat(MANY "/absent", &stat_buffer) != -1 || errno != ENOENT)
		fail("stat");
}

static void op_open_name(void)
{
	ok("close", close((int)ok("open", open(last, O_RDONLY))));
}

static void op_create(void)
{
	ok("close", close((int)ok("creat", creat(MANY "/new", 0644))));
	ok("unlink", unlink(MANY "/new"));
}

static void op_rename(void)
{
	ok("rename", rename(last, MANY "/new"));
	ok("rename", rename(MANY "/new", last));
}

static void op_rename_dir(void)
{
	ok("rename", rename(MANY, MANY "2"));
	ok("rename", rename(MANY "2", MANY));
}

static void op_mkdir(void)
{
	ok("mkdir", mkdir(MANY "/new", 0755));
	ok("rmdir", rmdir(MANY "/new"));
}

static void op_link(void)
{
	ok("link", link(last, MANY "/new"));
	ok("unlink", unlink(MANY "/new"));
}

static void op_first_names(void)
{
	static char buffer[256];
	int fd = (int)ok("open", open(MANY, O_RDONLY | O_DIRECTORY));
	ok("getdents64", syscall(SYS_getdents64, fd, buffer, sizeof buffer));
	ok("close", close(fd));
}

const struct world names = { "names", "names-in-a-directory", 10000, make_names, (const struct row[]){
	ROW("stat", op_stat_name, CHEAP),
	ROW("stat-absent", op_stat_absent, CHEAP),
	ROW("open-close", op_open_name, CHEAP),
	ROW("create-unlink", op_create, CHEAP),
	ROW("rename", op_rename, FREEING),
	ROW("rename-directory", op_rename_dir, CHEAP),
	ROW("mkdir-rmdir", op_mkdir, CHEAP),
	ROW("link-unlink", op_link, CHEAP),
	ROW("getdents-first", op_first_names, CHEAP),
	END }, unmake_names };

static void make_links(unsigned n)
{
	char path[64];
	count = n;
	ok("mkdir", mkdir(MANY, 0755));
	for (unsigned i = 0; i < n; i++)
		ok("link", link(OWN_PATH, name(path, i)));
	name(last, n / 2);
}

static void op_chmod(void)
{
	ok("chmod", chmod(last, 0644));
}

const struct world links = { "links", "hard-links-of-a-file", 10000, make_links, (const struct row[]){
	ROW("stat", op_stat_name, CHEAP),
	ROW("open-close", op_open_name, CHEAP),
	ROW("link-unlink", op_link, CHEAP),
	ROW("rename", op_rename, FREEING),
	ROW("chmod", op_chmod, CHEAP),
	ROW("pread", op_read, CHEAP),
	END }, unmake_names };

/* The same directory, mounted again and again beside each other. */
static void make_mounts(unsigned n)
{
	char path[64];
	count = n;
	ok("mkdir", mkdir(MANY, 0755));
	ok("mount", mount("tmpfs", MANY, "tmpfs", 0, 0));
	ok("mount", mount(0, MANY, 0, MS_PRIVATE, 0));
	ok("mkdir", mkdir(MANY "/from", 0755));
	ok("mkdir", mkdir(MANY "/new", 0755));
	ok("close", close((int)ok("creat", creat(MANY "/from/file", 0644))));
	for (unsigned i = 0; i < n; i++) {
		ok("mkdir", mkdir(name(path, i), 0755));
		ok("mount", mount(MANY "/from", path, 0, MS_BIND, 0));
	}
	snprintf(last, sizeof last, MANY "/%u/file", n / 2);
}

static void unmake_mounts(void)
{
	char path[64];
	for (unsigned i = 0; i < count; i++)
		ok("umount", umount(name(path, i)));
	ok("umount", umount(MANY));
	ok("rmdir", rmdir(MANY));
}

static void op_mount(void)
{
	ok("mount", mount(MANY "/from", MANY "/new", 0, MS_BIND, 0));
	ok("umount", umount(MANY "/new"));
}

static void op_mount_tmpfs(void)
{
	ok("mount", mount("tmpfs", MANY "/new", "tmpfs", 0, 0));
	ok("umount", umount(MANY "/new"));
}

static void op_statfs(void)
{
	struct statfs buffer;
	ok("statfs", statfs(last, &buffer));
}

static void op_chdir(void)
{
	static char path[64];
	ok("chdir", chdir(name(path, count / 2)));
	ok("getcwd", syscall(SYS_getcwd, own_page, 4096));
	ok("chdir", chdir("/"));
}


static void op_rename_within(void)
{
	ok("rename", rename(MANY "/from/file", MANY "/from/new"));
	ok("rename", rename(MANY "/from/new", MANY "/from/file"));
}

const struct world mounts = { "mounts", "mounts", 10000, make_mounts, (const struct row[]){
	ROW("stat", op_stat_name, CHEAP),
	ROW("open-close", op_open_name, CHEAP),
	ROW("stat-outside", op_stat, CHEAP),
	ROW("rename", op_rename_within, FREEING),
	ROW("statfs", op_statfs, CHEAP),
	ROW("chdir-getcwd", op_chdir, CHEAP),
	ROW("mount-umount-bind", op_mount, DEAR),
	ROW("mount-umount-tmpfs", op_mount_tmpfs, DEAR),
	ROW("fork-exit-wait", op_fork, DEAR),
	END }, unmake_mounts };
