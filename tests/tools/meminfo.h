/* Free memory, for the tools that look whether it comes back. */
#ifndef MEMINFO_H
#define MEMINFO_H

#include "t.h"

/* MemFree of /proc/meminfo in KiB; -1 where the file does not say. */
static inline long mem_free(void)
{
	char *text = read_file("/proc/meminfo");
	char *line = text ? strstr(text, "MemFree:") : 0;
	long free_kib = line ? atol(line + 8) : -1;
	free(text);
	return free_kib;
}

#endif
