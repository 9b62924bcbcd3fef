/*
 * The one file that knows operating systems apart: how many CPUs there are and how a thread is pinned to one.
 * Where a system has no way to pin, tasks run unpinned and the result says nothing of it: the options do.
 */
#define _GNU_SOURCE
#include "pin.h"

#if defined(__linux__)
#include <sched.h>

/* Read before anything is pinned: a pinned task would see its own single CPU. */
static cpu_set_t allowed;

void pin_prepare(void)
{
	if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
		CPU_ZERO(&allowed);
}

/* The index-th CPU that this process may use, so that a container's or taskset's mask is respected. */
int pin_to(unsigned index)
{
	unsigned count = (unsigned)CPU_COUNT(&allowed);
	if (count == 0)
		return -1;
	index %= count;
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || index-- != 0)
			continue;
		cpu_set_t one;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return sched_setaffinity(0, sizeof one, &one);
	}
	return -1;
}

unsigned pin_cpus(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
		return (unsigned)CPU_COUNT(&set);
	return 1;
}

#else

#include <unistd.h>

#if defined(__FreeBSD__)
#include <sys/param.h>
#include <sys/cpuset.h>
#elif defined(__DragonFly__)
#include <pthread.h>
#include <pthread_np.h>
#include <sched.h>
#elif defined(__NetBSD__)
#include <pthread.h>
#include <sched.h>
#endif

unsigned pin_cpus(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (unsigned)n : 1;
}

void pin_prepare(void)
{
}

int pin_to(unsigned index)
{
	index %= pin_cpus();
#if defined(__FreeBSD__)
	cpuset_t one;
	CPU_ZERO(&one);
	CPU_SET(index, &one);
	return cpuset_setaffinity(CPU_LEVEL_WHICH, CPU_WHICH_TID, -1, sizeof one, &one);
#elif defined(__DragonFly__)
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(index, &one);
	return pthread_setaffinity_np(pthread_self(), sizeof one, &one);
#elif defined(__NetBSD__)
	cpuset_t *one = cpuset_create();
	if (!one)
		return -1;
	cpuset_set(index, one);
	int status = pthread_setaffinity_np(pthread_self(), cpuset_size(one), one);
	cpuset_destroy(one);
	return status;
#else
	return 0;
#endif
}
#endif
