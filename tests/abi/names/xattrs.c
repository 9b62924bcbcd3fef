/* Extended attributes, of which Darter keeps none: EOPNOTSUPP where Linux keeps them, by path, of a link itself, and by descriptor. */
#include "t.h"
#include <sys/xattr.h>

static char value[64];

int main(void)
{
	static const int flags[] = { 0, XATTR_CREATE, XATTR_REPLACE };
	write_file("file", "f");
	int fd = open("file", O_RDONLY), path = open("file", O_PATH);
	/* In this order Linux does each: a name of its own per call, made, changed and taken away. */
	for (int i = 0; i < 3; i++) {
		say("flags %d", flags[i]);
		if (flags[i] == XATTR_CREATE) {
			removexattr("file", "user.a"), lremovexattr("file", "user.b"), fremovexattr(fd, "user.c");
		}
		MISSING(setxattr("file", "user.a", "v", 1, flags[i]), EOPNOTSUPP);
		MISSING(lsetxattr("file", "user.b", "v", 1, flags[i]), EOPNOTSUPP);
		MISSING(fsetxattr(fd, "user.c", "v", 1, flags[i]), EOPNOTSUPP);
	}
	MISSING(getxattr("file", "user.a", value, sizeof value), EOPNOTSUPP);
	MISSING(lgetxattr("file", "user.b", value, sizeof value), EOPNOTSUPP);
	MISSING(fgetxattr(fd, "user.c", value, sizeof value), EOPNOTSUPP);
	MISSING(listxattr("file", value, sizeof value), EOPNOTSUPP);
	MISSING(llistxattr("file", value, sizeof value), EOPNOTSUPP);
	MISSING(flistxattr(fd, value, sizeof value), EOPNOTSUPP);
	MISSING(removexattr("file", "user.a"), EOPNOTSUPP);
	MISSING(lremovexattr("file", "user.b"), EOPNOTSUPP);
	MISSING(fremovexattr(fd, "user.c"), EOPNOTSUPP);
	section("errors");
	SHOW(setxattr("file", "", "v", 1, 0));
	SHOW(setxattr("file", "plain", "v", 1, 0));
	SHOW(setxattr("file", "user.v", "v", 1, 4));
	SHOW(setxattr("nowhere", "user.v", "v", 1, 0));
	SHOW(setxattr("file", "user.v", value, 65537, 0));
	SHOW(syscall(SYS_setxattr, "file", 8, value, 1, 0));
	SHOW(fsetxattr(path, "user.v", "v", 1, 0));
	SHOW(fgetxattr(-1, "user.v", value, 1));
	SHOW(setxattr("/proc/self/status", "user.v", "v", 1, 0));
	return 0;
}
