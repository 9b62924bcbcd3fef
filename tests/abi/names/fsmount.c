/* What is set up by a descriptor and mounted, and what is mounted and changed by one: fsmount, fspick, fsconfig. */
#include "mounts.h"

static void kinds(void)
{
	static const char *const all[] = { "tmpfs", "proc", "sysfs", "devtmpfs", "devpts" };
	for (unsigned i = 0; i < 5; i++) {
		section(all[i]);
		int fd = begin(all[i], 0);
		TRY(config(fd, FLAG, "wrong", 0, 0));
		TRY(config(fd, STRING, "wrong", "x", 0));
		TRY(config(fd, STRING, "source", "src", 0));
		TRY(config(fd, STRING, "source", "src", 0));
		TRY(config(fd, FLAG, "source", 0, 0));
		TRY(config(fd, BINARY, "wrong", "x", 1));
		TRY(config(fd, PATHNAME, "wrong", "x", AT_FDCWD));
		TRY(config(fd, PATH_EMPTY, "wrong", "", AT_FDCWD));
		TRY(config(fd, FD, "wrong", 0, fd));
		TRY(config(fd, STRING, "wrong,x", "x", 0));
		TRY(config(fd, STRING, "wrong", "x,y", 0));
		close(fd);
		fd = begin(all[i], 0);
		/* The one sysfs of Linux is there already. */
		if (strcmp(all[i], "sysfs") != 0)
			TRY(config(fd, CREATE_EXCL, 0, 0, 0));
		close(fd);
		fd = begin(all[i], 0);
		if (strcmp(all[i], "devpts") == 0)
			config(fd, STRING, "mode", "620", 0);
		TRY(config(fd, CREATE, 0, 0, 0));
		int mount = made(fd, 1, 2 | 8);
		say("made %d, %d", mount >= 0, fcntl(mount, F_GETFD));
		SHOW(hang(mount, "m"));
		shown();
		close(fd), close(mount);
		SHOW(umount("m"));
	}
	section("too many options");
	int fd = begin("devpts", 0);
	char text[256];
	memset(text, 'v', 255), text[250] = 0;
	for (int i = 0; i < 17; i++) {
		say("%d", i);
		TRY(config(fd, STRING, "k", text, 0));
	}
	TRY(config(fd, CREATE, 0, 0, 0));
	TRY(config(fd, CREATE, 0, 0, 0));
	TRY(config(fd, FLAG, "ro", 0, 0));
	TRY(made(fd, 0, 0));
	close(fd);
}

static void attributes(void)
{
	section("attributes of the mount");
	int fd = begin("tmpfs", 0), mount = -1;
	SHOW(made(fd, 0, 0));
	SHOW(made(fd, 2, 0));
	SHOW(made(-1, 0, 0));
	SHOW(made(0, 0, 0));
	SHOW(made(-1, 0, 0x100));
	config(fd, CREATE, 0, 0, 0);
	for (int bit = 0; bit < 32; bit++) {
		int got = made(fd, 0, 1u << bit | 0x100);
		int flag = made(fd, 1u << bit, 0x100);
		if (got != -1 || flag != -1 || errno != EINVAL)
			say("bit %d", bit);
	}
	SHOW(made(fd, 0, 0x40));
	SHOW(made(fd, 0, 0x30));
	SHOW(made(fd, 0, 0x100000));
	close(fd);
	static const unsigned each[] = { 0, 1, 2, 4, 8, 0x10, 0x20, 0x80, 0x90, 0x200000, 0x20009f };
	for (unsigned i = 0; i < sizeof each / sizeof *each; i++) {
		fd = begin("tmpfs", 0);
		config(fd, CREATE, 0, 0, 0);
		mount = made(fd, 0, each[i]);
		say("%x: %d", each[i], hang(mount, "m"));
		shown();
		close(mount), close(fd);
		umount("m");
	}
	section("read-only file systems");
	fd = begin("tmpfs", 0);
	config(fd, FLAG, "ro", 0, 0);
	config(fd, STRING, "source", "both", 0);
	config(fd, CREATE, 0, 0, 0);
	mount = made(fd, 0, 0);
	SHOW(hang(mount, "m"));
	shown();
	SHOW(mkdir("m/x", 0755));
	SHOW(access("m", W_OK));
	SHOW(chmod("m", 0700));
	SHOW(syscall(SYS_mount, "m", "n", 0, MS_BIND, 0));
	SHOW(mkdir("n/x", 0755));
	TRY(config(fd, FLAG, "rw", 0, 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	shown();
	SHOW(mkdir("n/x", 0755));
	int file = open("n/file", O_RDWR | O_CREAT, 0644);
	TRY(config(fd, FLAG, "ro", 0, 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	TRY(config(fd, FLAG, "ro", 0, 0));
	SHOW(mkdir("n/y", 0755));
	close(file), close(fd);
	/* A file without a name counts while it is open. */
	write_file("n/file", "text");
	file = open("n/file", O_RDONLY);
	unlink("n/file");
	fd = pick(AT_FDCWD, "m", 0);
	config(fd, FLAG, "ro", 0, 0);
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	close(fd), close(file);
	fd = pick(AT_FDCWD, "m", 0);
	config(fd, FLAG, "ro", 0, 0);
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	shown();
	config(fd, FLAG, "rw", 0, 0);
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	write_file("n/file", "text");
	close(fd);
	SHOW((file = openat(mount, "file", O_RDWR)) >= 0);
	close(file);
	fd = pick(AT_FDCWD, "m", 0);
	SHOW(fcntl(fd, F_GETFD));
	TRY(config(fd, FLAG, "ro", 0, 0));
	SHOW(syscall(SYS_mount, 0, "n", 0, MS_REMOUNT | MS_RDONLY, 0));
	shown();
	close(fd), close(mount);
}

static void picking(void)
{
	section("picking");
	int fd = -1;
	SHOW(pick(AT_FDCWD, "none", 0));
	SHOW(pick(AT_FDCWD, "", 0));
	SHOW(pick(AT_FDCWD, "", 8));
	SHOW(pick(AT_FDCWD, 0, 0));
	SHOW(pick(AT_FDCWD, "m/x", 0));
	SHOW(pick(999, "m", 0));
	SHOW(pick(999, "m", 0x10));
	for (int bit = 4; bit < 32; bit++)
		if (pick(AT_FDCWD, "none", 1u << bit) != -1 || errno != EINVAL)
			say("flag %d", bit);
	symlink("m", "link");
	SHOW(pick(AT_FDCWD, "link", 2));
	SHOW_OK(close(pick(AT_FDCWD, "m", 2)));
	SHOW_OK(fd = pick(AT_FDCWD, "link", 5));
	SHOW(fcntl(fd, F_GETFD));
	close(fd);
	unlink("link");
	int dir = open("m", O_PATH);
	SHOW_OK(fd = pick(dir, "", 8));
	close(dir);
	TRY(config(fd, CREATE, 0, 0, 0));
	TRY(config(fd, CREATE_EXCL, 0, 0, 0));
	TRY(made(fd, 0, 0));
	TRY(config(fd, FLAG, "wrong", 0, 0));
	TRY(config(fd, STRING, "size", "1m", 0));
	TRY(config(fd, STRING, "source", "1m", 0));
	TRY(config(fd, STRING, "nr_inodes", "2", 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	shown();
	TRY(config(fd, STRING, "nr_inodes", "1", 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	TRY(config(fd, STRING, "nr_inodes", "5", 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	close(fd);
	write_file("m/file", "some text");
	fd = pick(AT_FDCWD, "m", 0);
	TRY(config(fd, STRING, "nr_blocks", "0", 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	TRY(config(fd, STRING, "nr_blocks", "7", 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	close(fd);
	fd = pick(AT_FDCWD, "m", 0);
	TRY(config(fd, STRING, "nr_inodes", "0", 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	TRY(config(fd, STRING, "nr_inodes", "7", 0));
	TRY(config(fd, STRING, "mode", "123", 0));
	TRY(config(fd, STRING, "uid", "5", 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	shown();
	close(fd);
	SHOW(umount("n")), SHOW(umount("m"));
	section("it lives on");
	fd = begin("tmpfs", 0);
	config(fd, CREATE, 0, 0, 0);
	int mount = made(fd, 0, 0);
	SHOW(made(fd, 0, 0));
	SHOW(hang(mount, "m"));
	close(mount);
	write_file("m/kept", "x");
	SHOW(umount("m"));
	TRY(config(fd, STRING, "size", "4k", 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	close(fd);
}

/* What a context was told before it made its file system. */
static void remembered(void)
{
	section("flags are remembered");
	static const char *const each[] = { "sync", "dirsync", "mand", "lazytime", "rw" };
	for (unsigned i = 0; i < 5; i++) {
		int fd = begin("tmpfs", 0);
		config(fd, FLAG, each[i], 0, 0);
		config(fd, CREATE, 0, 0, 0);
		int mount = made(fd, 0, 0);
		hang(mount, "m");
		say("%s", each[i]);
		shown();
		TRY(config(fd, RECONFIGURE, 0, 0, 0));
		shown();
		close(mount), close(fd);
		umount("m");
	}
	mount("x", "m", "tmpfs", MS_SYNCHRONOUS, 0);
	int fd = pick(AT_FDCWD, "m", 0);
	TRY(config(fd, FLAG, "lazytime", 0, 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	shown();
	TRY(config(fd, FLAG, "dirsync", 0, 0));
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	shown();
	close(fd);
	umount("m");
	/* As mount -t tmpfs -o size=1M does it, and mount -o remount,ro. */
	fd = begin("tmpfs", 1);
	config(fd, STRING, "source", "x", 0);
	config(fd, STRING, "size", "1M", 0);
	config(fd, CREATE, 0, 0, 0);
	int mount = made(fd, 1, 0);
	SHOW(hang(mount, "m"));
	close(fd), close(mount);
	shown();
	fd = pick(AT_FDCWD, "m", 5);
	config(fd, FLAG, "ro", 0, 0);
	TRY(config(fd, RECONFIGURE, 0, 0, 0));
	close(fd);
	shown();
	SHOW(mkdir("m/x", 0755));
	umount("m");
}

int main(void)
{
	setvbuf(stdout, 0, _IONBF, 0);
	mount("none", "/", 0, MS_REC | MS_PRIVATE, 0);
	getcwd(base, sizeof base);
	mkdir("m", 0755), mkdir("n", 0755);
	kinds();
	attributes();
	picking();
	remembered();
	rmdir("m"), rmdir("n");
	return 0;
}
