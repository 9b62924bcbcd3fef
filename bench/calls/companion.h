/* Who runs beside the workers, see companion.c. */
#ifndef COMPANION_H
#define COMPANION_H

#include <stdint.h>

enum { IDLE, BUSY, PROGRAM };

int companion_kind(const char *name);           /* or -1 */
/* In the first process, before the workers start: on that CPU, once it is warm. */
void companion_start(int kind, unsigned cpu);
/* In the first worker, around its window; nothing if there is no companion. */
void companion_begin(uint32_t window);
void companion_end(void);
/* In the first process, at the end: until its window is closed. */
void companion_leave(void);

#endif
