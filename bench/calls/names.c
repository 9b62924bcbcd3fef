/* What is done by name. One object: one file under one name, or one directory in which each worker has names of its own. */
#include "calls.h"

static long op_open(struct work *w)
{
	return close((int)ok(w, open(w->path, (int)w->k->v[0], 0644)));
}

static long op_openat(struct work *w)
{
	return close((int)ok(w, openat(w->fd2, "file", O_RDWR)));
}

static long op_openat2(struct work *w)
{
	uint64_t how[3] = { O_RDWR, 0, (uint64_t)w->arg[0] };
	return close((int)ok(w, syscall(SYS_openat2, w->fd2, "file", how, sizeof how)));
}

static long op_open_own(struct work *w)
{
	return close((int)ok(w, open(w->own, (int)w->k->v[0], 0644)));
}

static long op_open_dir(struct work *w)
{
	return close((int)ok(w, open(w->dir, (int)w->k->v[0], 0644)));
}

static long op_open_link(struct work *w)
{
	return close((int)ok(w, open(w->own2, O_RDONLY)));
}

static long op_open_text(struct work *w)
{
	return close((int)ok(w, open((const char *)w->k->v[0], (int)w->k->v[1])));
}

static long op_create(struct work *w)
{
	close((int)ok(w, open(w->own, O_RDWR | O_CREAT | O_EXCL, 0644)));
	return ok(w, unlink(w->own));
}

static long op_creat(struct work *w)
{
	close((int)ok(w, syscall(SYS_creat, w->own, 0644)));
	return ok(w, unlink(w->own));
}

static long op_tmpfile(struct work *w)
{
	return close((int)ok(w, open(w->dir, O_RDWR | 020200000, 0600)));
}

static long op_mkdir(struct work *w)
{
	ok(w, syscall(SYS_mkdir, w->own, 0755));
	return ok(w, syscall(SYS_rmdir, w->own));
}

static long op_mkdirat(struct work *w)
{
	ok(w, mkdirat(AT_FDCWD, w->own, 0755));
	return ok(w, unlinkat(AT_FDCWD, w->own, AT_REMOVEDIR));
}

static long op_mknod(struct work *w)
{
	ok(w, syscall(SYS_mknod, w->own, w->k->v[0] | 0644, w->k->v[1]));
	return ok(w, unlink(w->own));
}

static long op_mknodat(struct work *w)
{
	ok(w, mknodat(AT_FDCWD, w->own, S_IFIFO | 0644, 0));
	return ok(w, unlinkat(AT_FDCWD, w->own, 0));
}

static long op_link(struct work *w)
{
	ok(w, syscall(SYS_link, w->path, w->own));
	return ok(w, syscall(SYS_unlink, w->own));
}

static long op_linkat(struct work *w)
{
	ok(w, linkat(AT_FDCWD, w->path, AT_FDCWD, w->own, 0));
	return ok(w, syscall(SYS_unlinkat, AT_FDCWD, w->own, 0));
}

static long op_symlink(struct work *w)
{
	ok(w, syscall(SYS_symlink, "file", w->own));
	return ok(w, unlink(w->own));
}

static long op_symlinkat(struct work *w)
{
	ok(w, symlinkat("file", AT_FDCWD, w->own));
	return ok(w, unlink(w->own));
}

static long op_rename(struct work *w)
{
	ok(w, syscall(SYS_rename, w->own2, w->own));
	return ok(w, syscall(SYS_rename, w->own, w->own2));
}

static long op_renameat(struct work *w)
{
	ok(w, syscall(SYS_renameat, AT_FDCWD, w->own2, AT_FDCWD, w->own));
	return ok(w, syscall(SYS_renameat, AT_FDCWD, w->own, AT_FDCWD, w->own2));
}

static long op_renameat2(struct work *w)
{
	return ok(w, syscall(SYS_renameat2, AT_FDCWD, w->own2, AT_FDCWD, w->own, 2));
}

static long op_noreplace(struct work *w)
{
	ok(w, syscall(SYS_renameat2, AT_FDCWD, w->own2, AT_FDCWD, w->own, 1));
	return ok(w, syscall(SYS_renameat2, AT_FDCWD, w->own, AT_FDCWD, w->own2, 1));
}

/* The name, in the worker's directory, that a file or a directory moves to. */
static const char *below(struct work *w)
{
	static _Thread_local char name[80];
	snprintf(name, sizeof name, "%s/below%u", w->own, w->i);
	return name;
}

/* From beside the worker's directory into it, and back. */
static long op_move(struct work *w)
{
	ok(w, rename(w->own2, below(w)));
	return ok(w, rename(below(w), w->own2));
}

static void s_move(struct work *w)
{
	s_dir(w);
	remove(below(w)), rmdir(w->own);
	ok(w, mkdir(w->own, 0755));
	close((int)ok(w, open(w->own2, O_RDWR | O_CREAT, 0644)));
}

static void s_move_dir(struct work *w)
{
	s_dir(w);
	remove(below(w)), rmdir(w->own);
	ok(w, mkdir(w->own, 0755));
	ok(w, mkdir(w->own2, 0755));
}

static long op_truncate(struct work *w)
{
	ok(w, truncate(w->path, 65536 + 4096));
	return ok(w, truncate(w->path, 65536));
}

static void s_mount(struct work *w)
{
	s_dir(w);
	ok(w, mkdir(w->own, 0755));
}

struct handle {
	unsigned bytes;
	int type;
	unsigned char data[12];
};

/* A file of a tmpfs of its own, which goes with the file. */
static void s_handle(struct work *w)
{
	char file[sizeof w->own + 8];
	s_dir(w);
	ok(w, mkdir(w->own, 0755));
	ok(w, syscall(SYS_mount, "none", w->own, "tmpfs", 0, ""));
	snprintf(file, sizeof file, "%s/file", w->own);
	w->fd = (int)ok(w, open(file, O_RDWR | O_CREAT, 0644));
	ok(w, syscall(SYS_umount2, w->own, 2));
	ok(w, rmdir(w->own));
}

static long op_handle(struct work *w)
{
	struct handle h = { sizeof h.data, 0, { 0 } };
	long mount;
	return ok(w, syscall(SYS_name_to_handle_at, w->fd, "", &h, &mount, 0x1000));
}

static long op_by_handle(struct work *w)
{
	struct handle h = { sizeof h.data, 0, { 0 } };
	long mount;
	ok(w, syscall(SYS_name_to_handle_at, w->fd, "", &h, &mount, 0x1000));
	return close((int)ok(w, syscall(SYS_open_by_handle_at, w->fd, &h, O_RDWR)));
}

static long op_statmount(struct work *w)
{
	uint64_t x[32], to[64], request[3] = { 24, 0, 0x47 };
	ok(w, syscall(SYS_statx, -100, "/dev", 0, 0x4000, x));
	request[1] = x[18];
	return ok(w, syscall(SYS_statmount, request, to, sizeof to, 0));
}

static long op_listmount(struct work *w)
{
	uint64_t to[64], request[3] = { 24, -1, 0 };
	return ok(w, syscall(SYS_listmount, request, to, 64, 0));
}

static long op_mount(struct work *w)
{
	ok(w, syscall(SYS_mount, "none", w->own, "tmpfs", 0, ""));
	return ok(w, syscall(SYS_umount2, w->own, 0));
}

static void s_space(struct work *w)
{
	w->fd = (int)ok(w, open("/proc/self/ns/mnt", O_RDONLY));
}

/* Into a namespace of its own, and back. */
static long op_space(struct work *w)
{
	ok(w, syscall(SYS_unshare, 0x20000));
	return ok(w, syscall(SYS_setns, w->fd, 0x20000));
}

/* The root of everything stays where it is. */
static long op_pivot(struct work *w)
{
	return syscall(SYS_pivot_root, "/", w->own) < 0 && errno == EINVAL ? 0 : ok(w, -1);
}

static long op_bind(struct work *w)
{
	ok(w, syscall(SYS_mount, w->dir, w->own, "", 4096, ""));
	return ok(w, syscall(SYS_umount2, w->own, 2));
}

static long op_fsopen(struct work *w)
{
	return close((int)ok(w, syscall(SYS_fsopen, "tmpfs", 1)));
}

static long op_fspick(struct work *w)
{
	return close((int)ok(w, syscall(SYS_fspick, -100, "/dev", 1)));
}

static void s_context(struct work *w)
{
	w->fd = (int)ok(w, syscall(SYS_fsopen, "tmpfs", 0));
}

static long op_fsconfig(struct work *w)
{
	return ok(w, syscall(SYS_fsconfig, w->fd, 1, "size", "1M", 0));
}

/* A tmpfs that is mounted nowhere; with `hangs` it is, meanwhile. */
static long fsmount(struct work *w, int hangs)
{
	int fd = (int)ok(w, syscall(SYS_fsopen, "tmpfs", 1));
	ok(w, syscall(SYS_fsconfig, fd, 6, 0, 0, 0));
	int tree = (int)ok(w, syscall(SYS_fsmount, fd, 1, 0));
	close(fd);
	if (hangs)
		ok(w, syscall(SYS_move_mount, tree, "", -100, w->own, 4));
	close(tree);
	return hangs ? ok(w, syscall(SYS_umount2, w->own, 0)) : 0;
}

static long op_fsmount(struct work *w)
{
	return fsmount(w, 0);
}

static long op_move_mount(struct work *w)
{
	return fsmount(w, 1);
}

static long op_open_tree(struct work *w)
{
	return close((int)ok(w, syscall(SYS_open_tree, -100, w->dir, w->k->v[0])));
}

static long op_attribute(struct work *w)
{
	ok(w, setxattr(w->path, "user.x", w->buf, 4, 0));
	return ok(w, syscall(SYS_removexattr, w->path, "user.x"));
}

static long op_link_attribute(struct work *w)
{
	ok(w, lsetxattr(w->path, "user.x", w->buf, 4, 0));
	return ok(w, syscall(SYS_lremovexattr, w->path, "user.x"));
}

/* The number of the file system with the worker's directory. */
static void s_device(struct work *w)
{
	struct stat st;
	s_dir(w);
	ok(w, stat(w->dir, &st));
	w->x[0] = (long)st.st_dev;
}

const struct kase names[] = {
	OP("open-read", open, PTO, s_file, op_open, O_RDONLY),
	OP("open-write", open, PTO, s_file, op_open, O_WRONLY),
	OP("open-both", open, PT, s_file, op_open, O_RDWR),
	OP("open-append", open, PT, s_file, op_open, O_WRONLY | O_APPEND),
	OP("open-creat-there", open, PTO, s_file, op_open, O_RDWR | O_CREAT),
	OP("open-trunc", open, PT, s_names, op_open_own, O_RDWR | O_TRUNC),
	OP("open-nofollow", open, PT, s_file, op_open, O_RDONLY | 0400000),
	OP("open-nonblock", open, PT, s_file, op_open, O_RDONLY | O_NONBLOCK),
	OP("open-path", open, PTO, s_file, op_open, 010000000),
	OP("open-directory", open, PTO, s_file, op_open_dir, O_RDONLY | O_DIRECTORY),
	OP("open-link", open, PT, s_names, op_open_link),
	OP("open-create", open, PTO, s_dir, op_create),
	OP("open-tmpfile", open, PTO, s_dir, op_tmpfile),
	FAILS("open-missing", open, PTO, s_dir, ENOENT, OWN, 0),
	FAILS("open-exists", open, PT, s_file, EEXIST, PATH, O_CREAT | O_EXCL, 0644),
	OP("open-null", open, PT, 0, op_open_text, TEXT("/dev/null"), O_RDWR),
	OP("open-zero", open, PT, 0, op_open_text, TEXT("/dev/zero"), O_RDWR),
	OP("open-proc", open, PT, 0, op_open_text, TEXT("/proc/self/status"), O_RDONLY),
	OP("open-proc-dir", open, PT, 0, op_open_text, TEXT("/proc/self"), O_RDONLY),
	OP("openat", openat, PTO, s_file, op_openat),
	OP("openat2", openat2, PTO, s_file, op_openat2, 8),
	OP("openat2-no-xdev", openat2, P, s_file, op_openat2, 1),
	OP("openat2-no-magiclinks", openat2, P, s_file, op_openat2, 2),
	OP("openat2-no-symlinks", openat2, P, s_file, op_openat2, 4),
	OP("openat2-in-root", openat2, P, s_file, op_openat2, 0x10),
	OP("creat", creat, PTO, s_dir, op_creat),
	RAW("stat", stat, PTO, s_file, PATH, BUF(0)),
	RAW("lstat", lstat, PTO, s_names, OWN2, BUF(0)),
	RAW("stat-link", stat, PT, s_names, OWN2, BUF(0)),
	FAILS("stat-missing", stat, PTO, s_dir, ENOENT, OWN, BUF(0)),
	RAW("stat-root", stat, PTO, s_file, TEXT("/"), BUF(0)),
	RAW("stat-proc", stat, PT, 0, TEXT("/proc/1/stat"), BUF(0)),
	RAW("newfstatat", newfstatat, PTO, s_file, FD2, TEXT("file"), BUF(0), 0),
	RAW("newfstatat-empty", newfstatat, PTO, s_file, FD, TEXT(""), BUF(0), 0x1000),
	RAW("statx", statx, PTO, s_file, FD2, TEXT("file"), 0, 0x7ff, BUF(0)),
	OP("name_to_handle_at", name_to_handle_at, PT, s_handle, op_handle),
	OP("open_by_handle_at", open_by_handle_at, PT, s_handle, op_by_handle),
	OP("statmount", statmount, PT, 0, op_statmount),
	OP("listmount", listmount, PT, 0, op_listmount),
	OP("fsopen", fsopen, PT, 0, op_fsopen),
	OP("fsconfig", fsconfig, PT, s_context, op_fsconfig),
	OP("fspick", fspick, PT, 0, op_fspick),
	OP("open_tree", open_tree, PT, s_dir, op_open_tree, 0),
	FAILS("mount_setattr", mount_setattr, PT, s_file, EINVAL, PATH, 0, 0, 0, 0),
	RAW("access", access, PTO, s_file, PATH, 4),
	RAW("faccessat", faccessat, PT, s_file, FD2, TEXT("file"), 4),
	RAW("faccessat2", faccessat2, PT, s_file, FD2, TEXT("file"), 4, 0x200),
	RAW("readlink-ns", readlink, PT, 0, TEXT("/proc/self/ns/mnt"), BUF(0), 64),
	OP("open-ns", open, PT, 0, op_open_text, TEXT("/proc/self/ns/mnt"), O_RDONLY),
	RAW("readlink", readlink, PTO, s_names, OWN2, BUF(0), 64),
	RAW("readlinkat", readlinkat, PT, s_names, -100, OWN2, BUF(0), 64),
	OP("mkdir", mkdir, PTO, s_dir, op_mkdir),
	OP("rmdir", rmdir, P, s_dir, op_mkdir),
	OP("mkdirat", mkdirat, PT, s_dir, op_mkdirat),
	OP("mknod-fifo", mknod, PTO, s_dir, op_mknod, S_IFIFO),
	OP("mknod-file", mknod, PT, s_dir, op_mknod, S_IFREG),
	OP("mknod-device", mknod, PT, s_dir, op_mknod, S_IFCHR, 0x103),
	OP("mknodat", mknodat, PT, s_dir, op_mknodat),
	OP("link", link, PTO, s_link, op_link),
	OP("unlink", unlink, P, s_link, op_link),
	OP("linkat", linkat, PT, s_link, op_linkat),
	OP("unlinkat", unlinkat, P, s_link, op_linkat),
	OP("symlink", symlink, PTO, s_dir, op_symlink),
	OP("symlinkat", symlinkat, PT, s_dir, op_symlinkat),
	OP("rename", rename, PT, s_link, op_rename),
	OP("renameat", renameat, PT, s_link, op_renameat),
	OP("renameat2-exchange", renameat2, PTO, s_names, op_renameat2),
	OP("renameat2-noreplace", renameat2, PT, s_link, op_noreplace),
	OP("rename-move", rename, PT, s_move, op_move),
	OP("rename-move-directory", rename, PT, s_move_dir, op_move),
	RAW("chmod", chmod, PTO, s_file, PATH, 0644),
	RAW("fchmodat", fchmodat, PT, s_file, FD2, TEXT("file"), 0644),
	RAW("fchmodat2", fchmodat2, PT, s_file, FD2, TEXT("file"), 0644, 0),
	RAW("chown", chown, PTO, s_file, PATH, 0, 0),
	RAW("lchown", lchown, PT, s_names, OWN2, 0, 0),
	RAW("fchownat", fchownat, PT, s_file, FD2, TEXT("file"), 0, 0, 0),
	RAW("utime", utime, PTO, s_file, PATH, BUF(C_OFF)),
	RAW("utime-now", utime, PT, s_file, PATH, 0),
	RAW("utimes", utimes, PT, s_file, PATH, BUF(C_OFF)),
	RAW("futimesat", futimesat, PT, s_file, FD2, TEXT("file"), BUF(C_OFF)),
	RAW("utimensat", utimensat, PTO, s_file, FD2, TEXT("file"), BUF(C_OFF), 0),
	RAW("utimensat-now", utimensat, PT, s_file, FD2, TEXT("file"), 0, 0),
	RAW("truncate-same", truncate, PT, s_file, PATH, 65536),
	OP("truncate", truncate, PTO, s_file, op_truncate),
	RAW("statfs", statfs, PTO, s_file, PATH, BUF(0)),
	RAW("ustat", ustat, PTO, s_device, X(0), BUF(0)),
	RAW("sysfs", sysfs, PT, 0, 1, TEXT("proc")),
	RAW("sysfs-name", sysfs, PT, 0, 2, 0, BUF(0)),
	RAW("statfs-root", statfs, PTO, s_file, TEXT("/"), BUF(0)),
	RAW("getcwd", getcwd, PT, s_dir, BUF(0), 512),
	RAW("chdir", chdir, PTO, s_dir, DIRECTORY),
	RAW("fchdir", fchdir, PTO, s_dir, FD2),
	RAW("chroot", chroot, PT, 0, TEXT("/")),
	DEAR("mount", mount, P, s_mount, op_mount),
	DEAR("mount-bind", mount, P, s_mount, op_bind),
	DEAR("setns-file", setns, P, s_space, op_space),
	DEAR("unshare-mounts", unshare, P, s_space, op_space),
	OP("pivot_root", pivot_root, P, s_mount, op_pivot),
	DEAR("open_tree-clone", open_tree, P, s_dir, op_open_tree, 1),
	DEAR("fsmount", fsmount, P, 0, op_fsmount),
	DEAR("move_mount", move_mount, P, s_mount, op_move_mount),
	DEAR("umount2", umount2, P, s_mount, op_mount),
	RAW("setxattr", setxattr, PTO, s_attribute, PATH, TEXT("user.x"), BUF(0), 4, 0),
	RAW("lsetxattr", lsetxattr, PTO, s_attribute, PATH, TEXT("user.x"), BUF(0), 4, 0),
	RAW("getxattr", getxattr, PTO, s_attribute, PATH, TEXT("user.x"), BUF(0), 64),
	FAILS("getxattr-none", getxattr, PTO, s_file, ENODATA, PATH, TEXT("user.y"), BUF(0), 64),
	RAW("lgetxattr", lgetxattr, PTO, s_attribute, PATH, TEXT("user.x"), BUF(0), 64),
	RAW("listxattr", listxattr, PTO, s_attribute, PATH, BUF(0), 64),
	RAW("llistxattr", llistxattr, PTO, s_attribute, PATH, BUF(0), 64),
	OP("removexattr", removexattr, PT, s_file, op_attribute),
	OP("lremovexattr", lremovexattr, PT, s_file, op_link_attribute),
	END
};
