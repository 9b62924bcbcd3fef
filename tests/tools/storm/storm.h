/* What the storms share: how a storm looks to the judge, and what it tells it. */
#ifndef STORM_H
#define STORM_H

#include "t.h"
#include <stdatomic.h>

/* What a storm of the kind `Darter bounds it` ends with is an errno. The others: */
enum {
	UNBOUNDED = 0,    /* it goes on until the judge ends it */
	KILLED = -SIGKILL /* memory was full, and one of its tasks was chosen */
};

struct storm {
	const char *name;
	void (*run)(void);
	int ends;         /* what has to refuse it on Darter; of Linux it is only shown */
	long least;       /* how many calls it has to get through before: one that did nothing shows nothing */
	int ms;           /* how long it may take, before the judge ends it; a bounded one ends itself */
	const char *size; /* of the tmpfs in which it runs; null: 64 MiB */
};

extern const struct storm task_storms[], memory_storms[], file_storms[], name_storms[], signal_storms[], socket_storms[];

/* In memory that all tasks of a storm share; also those that have called exec, as descriptor TOLD_FD. */
struct told {
	_Atomic long done;
	_Atomic int refused, killed, holding;
};
enum { TOLD_FD = 100 };
extern struct told *told;

/* How much larger than in the tests a storm is to be. */
extern int scale;

/* One call more was done. */
static inline void did(void) { atomic_fetch_add(&told->done, 1); }
/* A call failed. The first reason is shown. */
void refused(int error);
/* Takes what it can get in `tasks` processes, which then hold it until the judge ends them. Returns when all hold or are dead. */
void crowd(int tasks, void (*one)(void));
/* Descriptors as many as may be. */
void many_descriptors(void);
void at_most_tasks(int tasks);
/* Reserves addresses; ends the storm if that fails. */
char *reserve(long size);

#endif
