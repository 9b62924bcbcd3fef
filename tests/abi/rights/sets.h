/* What the programs about rights share: a thread's sets of capabilities, got, put and shown. */
#ifndef SETS_H
#define SETS_H

#include "t.h"

enum { V1 = 0x19980330, V2 = 0x20071026, V3 = 0x20080522 };
enum { LAST = 40, BITS_ALL = 0xff };
#define ALL ((1ull << (LAST + 1)) - 1)
#define BIT(cap) (1ull << (cap))

enum { SETPCAP = 8, CHOWN = 0, KILL = 5, NET_RAW = 13 };

struct header { uint32_t version; int pid; };
struct data { uint32_t effective, permitted, inheritable; };

static inline long get(uint32_t version, int pid, struct data *data)
{
	struct header header = { version, pid };
	return syscall(SYS_capget, &header, data);
}

static inline long put(uint64_t effective, uint64_t permitted, uint64_t inheritable)
{
	struct header header = { V3, 0 };
	struct data data[2] = {
		{ (uint32_t)effective, (uint32_t)permitted, (uint32_t)inheritable },
		{ (uint32_t)(effective >> 32), (uint32_t)(permitted >> 32), (uint32_t)(inheritable >> 32) },
	};
	return syscall(SYS_capset, &header, data);
}

/* The lines of /proc/PID/status about rights. */
static inline void show(const char *when)
{
	char *text = read_file("/proc/thread-self/status");
	char line[400];
	int n = snprintf(line, sizeof line, "%s:", when);
	for (char *at = text ? strtok(text, "\n") : 0; at; at = strtok(0, "\n"))
		if (strncmp(at, "Cap", 3) == 0 || strncmp(at, "NoNew", 5) == 0 || strncmp(at, "Uid", 3) == 0 || strncmp(at, "Gid", 3) == 0)
			n += snprintf(line + n, sizeof line - (size_t)n, " %s", at);
	for (char *at = line; *at; at++)
		if (*at == '\t')
			*at = ' ';
	say("%s", line);
	free(text);
}

#endif
