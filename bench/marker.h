/*
 * The markers: instructions that do nothing on any machine, and that an emulator's plugin can recognise by their bytes. On x86-64 a
 * NOP with a 32-bit displacement, 0f 1f 80 xx xx xx xx, where the displacement is the mark.
 *
 * WATCH says that windows follow: the first process executes it before there are tasks. Then each task, on its own CPU, executes OPEN and
 * CLOSE around its operations. What OPEN has in RAX is the window's number, by which it is told from those before and after.
 * REST says that none follows until the next WATCH: what comes between runs at full speed. It is for programs with one task.
 * Elsewhere they are left out, and only the clock bounds the window.
 */
#ifndef MARKER_H
#define MARKER_H

#if defined(__x86_64__)
#define MARK_OPEN(number) \
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long 0x44415201" : : "a"((unsigned long)(number)) : "memory")
#define MARK_CLOSE() __asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long 0x44415202" ::: "memory")
#define MARK_WATCH() __asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long 0x44415203" ::: "memory")
#define MARK_REST() __asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long 0x44415204" ::: "memory")
#define CPU_RELAX()  __asm__ volatile("pause" ::: "memory")
#else
#define MARK_OPEN(number) ((void)(number))
#define MARK_CLOSE() __asm__ volatile("" ::: "memory")
#define MARK_WATCH() ((void)0)
#define MARK_REST() ((void)0)
#define CPU_RELAX()  __asm__ volatile("" ::: "memory")
#endif

#endif
