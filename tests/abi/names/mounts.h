/* What the programs share that mount by descriptors. */
#ifndef MOUNTS_H
#define MOUNTS_H

#include "t.h"

#include <sys/mount.h>

#ifndef SYS_fsopen
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#define SYS_fspick 433
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_statmount
#define SYS_statmount 457
#endif

enum { FLAG, STRING, BINARY, PATHNAME, PATH_EMPTY, FD, CREATE, RECONFIGURE, CREATE_EXCL };
enum { F_LINKS = 1, F_EMPTY = 4, T_LINKS = 0x10, T_EMPTY = 0x40, GROUP = 0x100, BENEATH = 0x200 };

static char base[PATH_MAX];

static inline int begin(const char *kind, unsigned flags) { return syscall(SYS_fsopen, kind, flags); }
static inline int config(int fd, unsigned command, const char *key, const void *value, int extra) { return syscall(SYS_fsconfig, fd, command, key, value, extra); }
static inline int made(int fd, unsigned flags, unsigned attributes) { return syscall(SYS_fsmount, fd, flags, attributes); }
static inline int pick(int dir, const char *path, unsigned flags) { return syscall(SYS_fspick, dir, path, flags); }
static inline int tree(int dir, const char *path, unsigned flags) { return syscall(SYS_open_tree, dir, path, flags); }
static inline int move(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) { return syscall(SYS_move_mount, from_dir, from, to_dir, to, flags); }
static inline int hang(int fd, const char *path) { return move(fd, "", AT_FDCWD, path, F_EMPTY); }

/* All that the log of a context has, then how it ends. */
static inline void logged(int fd)
{
	char text[512];
	for (;;) {
		errno = 0;
		long n = read(fd, text, sizeof text - 1);
		if (n < 0) {
			say("  log: %s", error_name(errno));
			return;
		}
		text[n] = 0;
		say("  log: %ld '%s'", n, text);
	}
}

#define TRY(call) do { SHOW(call); logged(fd); } while (0)

/* The mounts below the test's directory as /proc/mounts shows them. */
static inline void shown(void)
{
	char *all = read_file("/proc/self/mounts"), *rest = all;
	for (char *line; (line = strsep(&rest, "\n")) != 0;) {
		char from[64], at[PATH_MAX], kind[64], flags[256];
		size_t n = strlen(base);
		if (sscanf(line, "%63s %4095s %63s %255s", from, at, kind, flags) == 4 && strncmp(at, base, n) == 0) {
			/* The options of those are the machine's. */
			char *own = strstr(flags, strcmp(kind, "devtmpfs") == 0 ? ",size=" : ",mode=620");
			if (own != 0)
				*own = 0;
			say("  %s %s %s %s", from, at + n, kind, flags);
		}
	}
	free(all);
}

#endif
