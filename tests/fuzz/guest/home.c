/* The directory of a program: what it finds there, and that nothing of it is left. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor.h"

/* A program makes nothing deeper or wider. */
#define DEEPEST 12

int home = -1;

/* Is it the root of something mounted? A program may mount /proc, where nothing can be taken away. */
static int is_mounted(int dir, int below)
{
	struct stat here, there;

	return fstat(dir, &here) == 0 && fstat(below, &there) == 0 && here.st_dev != there.st_dev;
}

/* Empties a directory, whatever a program made of it. */
void empty(int dir, int depth)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy >= 0 ? fdopendir(copy) : 0;
	if (!list)
		return;
	for (struct dirent *entry; (entry = readdir(list));) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		for (int tries = 0; tries < 16; tries++) {
			if (unlinkat(dir, entry->d_name, 0) == 0)
				break;
			if (errno == EISDIR || errno == EPERM) {
				int below = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
				int mounted = below >= 0 && is_mounted(dir, below);
				if (below >= 0 && !mounted && depth < DEEPEST)
					empty(below, depth + 1);
				if (below >= 0)
					close(below);
				if (mounted && fchdir(dir) == 0)
					umount2(entry->d_name, MNT_DETACH | UMOUNT_NOFOLLOW);
				if (unlinkat(dir, entry->d_name, AT_REMOVEDIR) == 0)
					break;
			}
			if (errno == EBUSY && fchdir(dir) == 0)
				umount2(entry->d_name, MNT_DETACH | UMOUNT_NOFOLLOW);
		}
	}
	closedir(list);
	fchdir(home);
}

static void make_file(int dir, const char *name, const char *text, mode_t mode)
{
	int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, mode);
	if (fd >= 0) {
		(void)!write(fd, text, strlen(text));
		fchmod(fd, mode);
		if (program.uid)
			fchown(fd, 1000, 1000);
		close(fd);
	}
}

/* What a program finds in its directory (src/paths.rs names it, too). */
int furnish(void)
{
	if (mkdirat(home, "w", 0777) != 0)
		return -1;
	int dir = openat(home, "w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	fchmod(dir, 0777);
	make_file(dir, "f", "0123456789abcdefghijklmnopqrstuvwxyz\n", 0644);
	make_file(dir, "s", "#!/fuzz/executor @exit\n", 0755);
	mkdirat(dir, "d", 0777);
	make_file(dir, "d/g", "g", 0600);
	symlinkat("f", dir, "l");
	symlinkat("loop", dir, "loop");
	symlinkat("d", dir, "ld");
	mknodat(dir, "p", S_IFIFO | 0666, 0);
	symlinkat("/fuzz/executor", dir, "x");
	if (program.uid) {
		fchownat(dir, "d", 1000, 1000, 0);
		fchownat(dir, "p", 1000, 1000, 0);
	}
	mkdirat(dir, "root", 0700);
	return dir;
}
