/*
 * A live root: the host's files as they are now, by 9P, under an overlay whose upper half is memory.
 *
 *   /.darter/modules/   what Linux needs for that (Darter needs nothing)
 *   /lower              the host's files, read-only
 *   /upper              Linux: the overlay's upper half, a tmpfs
 *   /new                the overlay, which becomes /
 *   /.darter/add        files for the new root, in place of what stands there
 *   /.darter/missing    the same, where nothing stands
 *
 * The initramfs cannot be unmounted, so the overlay is moved over it (as switch_root(8) does it) and what it held is removed.
 *
 * Included by init.c alone.
 */
#ifndef LIVE_H
#define LIVE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "frames.h"

#define MODULES "/.darter/modules"
/* Of the root, names and attributes are the host's as they are asked for first, and stay: below an overlay nothing may change. QEMU advises the length of
   messages; a kernel that takes no such long ones takes shorter ones. */
#define ROOT_OPTIONS "trans=virtio,version=9p2000.L,cache=loose,msize=512000"
#define SHARE_OPTIONS "trans=virtio,version=9p2000.L,msize=512000"
/* Of one that may be written: what is written goes into the guest's pages, and to the host later. */
#define WRITTEN_OPTIONS SHARE_OPTIONS ",cache=mmap"
#define NO_9P "this kernel has no file system of 9P (Linux: CONFIG_NET_9P_VIRTIO and CONFIG_9P_FS must be built in)"
#define NO_OVERLAY "this kernel has no overlays (Linux: CONFIG_OVERLAY_FS must be built in)"

static int additions = -1, missing = -1; /* folders of the initramfs */

/* A file system that is not there, or stands already, is no error: what the program misses it will say itself. */
static void mount_at(const char *type, const char *where, unsigned long flags, const char *data)
{
	mkdir(where, 0755);
	mount(type, where, type, flags, data);
}

/* One that is there already is fine. */
static void insert_module(const char *name)
{
	char path[sizeof MODULES + NAME_MAX + 1];
	snprintf(path, sizeof path, MODULES "/%s", name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST))
		fail(path);
	close(fd);
	unlink(path);
}

/* Darter keeps the upper half itself; Linux does not know that option and wants folders. */
static void mount_overlay(void)
{
	if (mount("overlay", "/new", "overlay", 0, "lowerdir=/lower,upper=memory") == 0)
		return;
	if (errno == ENODEV)
		fail(NO_OVERLAY);
	mkdir("/upper", 0755);
	if (mount("tmpfs", "/upper", "tmpfs", 0, "mode=0755") != 0)
		fail("/upper");
	mkdir("/upper/u", 0755);
	mkdir("/upper/w", 0755);
	/* The folder's own attributes become the root's. */
	struct stat root;
	if (stat("/lower", &root) == 0)
		(void)!(chown("/upper/u", root.st_uid, root.st_gid) | chmod("/upper/u", root.st_mode & 07777));
	if (mount("overlay", "/new", "overlay", 0,
	          "lowerdir=/lower,upperdir=/upper/u,workdir=/upper/w,index=off,xino=auto") != 0)
		fail("mount of the overlay");
	umount2("/upper", MNT_DETACH);
}

static void enter_live_root(const char *tag)
{
	mkdir("/lower", 0755);
	mkdir("/new", 0755);
	if (mount(tag, "/lower", "9p", MS_RDONLY, ROOT_OPTIONS) != 0)
		fail(errno == ENODEV ? NO_9P : "mount of the host's files");
	mount_overlay();
	umount2("/lower", MNT_DETACH);
	additions = open("/.darter/add", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	missing = open("/.darter/missing", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	umount2("/dev", MNT_DETACH);
	unlink("/.darter/job");
	unlink("/init");
	if (chdir("/new") != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 || chdir("/") != 0)
		fail("the live root");
}

static void copy_file(int from, const char *name, int to, const struct stat *about)
{
	static char data[1 << 16];
	ssize_t n;
	int in = openat(from, name, O_RDONLY | O_CLOEXEC);
	int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (in < 0 || out < 0)
		fail(name);
	while ((n = read(in, data, sizeof data)) > 0)
		for (ssize_t at = 0, done; at < n; at += done)
			if ((done = write(out, data + at, (size_t)(n - at))) <= 0)
				fail(name);
	if (n < 0 || fchown(out, about->st_uid, about->st_gid) != 0 || fchmod(out, about->st_mode & 07777) != 0)
		fail(name);
	close(in);
	close(out);
}

static void copy_link(int from, const char *name, int to, const struct stat *about)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof target - 1);
	if (n < 0)
		fail(name);
	target[n] = 0;
	if (symlinkat(target, to, name) != 0 ||
	    fchownat(to, name, about->st_uid, about->st_gid, AT_SYMLINK_NOFOLLOW) != 0)
		fail(name);
}

/* Copies what is in a folder into another of the new root, and removes it; folders that are there stay as they are. Closes both. */
static void copy_folder(int from, int to, int replaces)
{
	DIR *folder = fdopendir(from);
	struct dirent *entry;
	if (!folder)
		fail("additions");
	while ((entry = readdir(folder))) {
		const char *name = entry->d_name;
		struct stat about, there;
		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		if (fstatat(from, name, &about, AT_SYMLINK_NOFOLLOW) != 0)
			fail(name);
		/* A link to a folder is followed: /lib is one on many systems. */
		int is_folder = S_ISDIR(about.st_mode);
		int stands = fstatat(to, name, &there, is_folder ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
		if (is_folder) {
			if (!stands && (mkdirat(to, name, 0700) != 0 ||
			                fchownat(to, name, about.st_uid, about.st_gid, 0) != 0 ||
			                fchmodat(to, name, about.st_mode & 07777, 0) != 0))
				fail(name);
			int inner = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			int outer = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (inner < 0 || outer < 0)
				fail(name);
			copy_folder(inner, outer, replaces);
			continue;
		}
		if (stands && replaces && unlinkat(to, name, 0) != 0)
			fail(name);
		if (!stands || replaces) {
			if (S_ISLNK(about.st_mode))
				copy_link(from, name, to, &about);
			else if (S_ISREG(about.st_mode))
				copy_file(from, name, to, &about);
			else if (mknodat(to, name, about.st_mode, about.st_rdev) != 0)
				fail(name);
		}
		unlinkat(from, name, 0);
	}
	closedir(folder);
	close(to);
}

static void copy_additions(int from, int replaces)
{
	if (from < 0)
		return;
	int to = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (to < 0)
		fail("/");
	copy_folder(from, to, replaces);
}

/* Once all file systems stand. */
static void finish_live_root(void)
{
	/* Where programs leave locks for others, and files for a while. */
	if (mkdir("/run/lock", 0) == 0)
		chmod("/run/lock", 01777);
	if (mkdir("/tmp", 0) == 0)
		chmod("/tmp", 01777);
	copy_additions(additions, 1);
	copy_additions(missing, 0);
}

#endif
