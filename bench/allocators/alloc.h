/* What the patterns of alloc share. */
#ifndef ALLOC_H
#define ALLOC_H

#include "../bench.h"
#include "../marker.h"

#include <stddef.h>

enum { SLOTS = 512 };

struct slot_block {
	void *block;
	size_t size;
};

/* A task's own. */
struct worker {
	uint64_t seed;
	uint64_t turn;
	struct slot_block slot[SLOTS];
};

/* A number below 2^31; the same ones in every run. */
uint64_t draw(struct worker *worker);
/* A block of at least 16 bytes whose first and last word are written; give() frees it, and ends the program where they have changed. */
void *take(size_t size);
void give(void *block, size_t size);
_Noreturn void bad(const char *what, const void *block, size_t size);
/* objects.cpp: returns how many things it has made and found again, 1006. */
uint64_t objects_round(uint64_t *seed);

#endif
