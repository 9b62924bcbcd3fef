/* Pinning, see pin.c. */
#ifndef PIN_H
#define PIN_H

unsigned pin_cpus(void);       /* CPUs that this process may use */
void pin_prepare(void);        /* call once, before the tasks start */
int pin_to(unsigned index);    /* the calling thread, to the index-th of them; 0, or -1 with errno */

#endif
