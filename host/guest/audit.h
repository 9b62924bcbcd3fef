/* A kernel that checks itself (the lockdep kernel) looks whether anything was lost, for whoever runs in a guest last; what it finds is a panic. */
#ifndef AUDIT_H
#define AUDIT_H

#include <fcntl.h>
#include <unistd.h>

static inline void audit(void)
{
	char nothing;
	int fd = open("/proc/darter/audit", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)!read(fd, &nothing, 1);
		close(fd);
	}
}

#endif
