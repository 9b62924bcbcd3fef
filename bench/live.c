/*
 * Files of the host, as a live root has them: 9P with an overlay above, whose changes are in memory. See bench_live in bench.h.
 *
 * The machine has a share whose folders 0 to 63 have a file of 1 MiB, a static program and a dynamic one each (target/live).
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define BELOW "/below"
#define ABOVE "/above"

static void make(const char *path)
{
	if (mkdir(path, 0755) != 0 && errno != EEXIST)
		bench_fail(path);
}

void bench_live(void)
{
	struct stat root, above;
	make(BELOW);
	make(ABOVE);
	if (stat("/", &root) != 0 || stat(ABOVE, &above) != 0)
		bench_fail("stat");
	if (root.st_dev == above.st_dev) {
		if (mount("share0", BELOW, "9p", MS_RDONLY, "trans=virtio,version=9p2000.L,cache=loose") != 0)
			bench_fail("mount -t 9p share0");
		if (mount("overlay", ABOVE, "overlay", 0, "lowerdir=" BELOW ",upper=memory") != 0) {
			/* Linux's keeps them in a directory. */
			make("/upper");
			if (mount("tmpfs", "/upper", "tmpfs", 0, "") != 0)
				bench_fail("mount -t tmpfs");
			make("/upper/u");
			make("/upper/w");
			if (mount("overlay", ABOVE, "overlay", 0, "lowerdir=" BELOW ",upperdir=/upper/u,workdir=/upper/w") != 0)
				bench_fail("mount -t overlay");
		}
	}
	if (setenv("TMPDIR", ABOVE, 1) != 0)
		bench_fail("setenv");
}

void bench_live_name(char *name, unsigned index, const char *what)
{
	snprintf(name, PATH_MAX, ABOVE "/%u/%s", index % 64, what);
}
