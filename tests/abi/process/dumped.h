/* What the programs about core dumps share: children that end with one, and a look at its file. */
#ifndef DUMPED_H
#define DUMPED_H

#include "t.h"

#include <sys/resource.h>

/* Where all of them write: "core" in the current directory. */
static inline void write_here(void)
{
	umask(022);
	write_file("/proc/sys/kernel/core_pattern", "core");
}

/* Runs `body` in a child with that RLIMIT_CORE, and tells how it ended. */
static inline pid_t dumped_within(rlim_t limit, const char *what, void (*body)(void))
{
	pid_t pid = must_fork();
	if (pid == 0) {
		struct rlimit r = { limit, RLIM_INFINITY };
		setrlimit(RLIMIT_CORE, &r);
		body();
		_exit(0);
	}
	int status = wait_for(pid);
	say("%s: %s, core %d", what, status_text(status), WIFSIGNALED(status) && WCOREDUMP(status) != 0);
	return pid;
}

static inline pid_t dumped(const char *what, void (*body)(void))
{
	return dumped_within(RLIM_INFINITY, what, body);
}

static inline void show_file(const char *name)
{
	struct stat s;
	if (lstat(name, &s) != 0)
		say("  no %s", name);
	else
		say("  %s: mode %o, owner %u, links %u, %s", name, s.st_mode, s.st_uid, (unsigned)s.st_nlink,
		    s.st_size == 0 ? "empty" : s.st_size <= 8192 ? "short" : "long");
}

#endif
