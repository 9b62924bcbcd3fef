/*
 * The window markers: instructions that do nothing on any machine, and that an emulator's plugin can recognise by their
 * bytes. Each task executes them on its own CPU, around its operations. On x86-64 a NOP with a 32-bit displacement,
 * 0f 1f 80 xx xx xx xx, where the displacement is the mark. Elsewhere they are left out, and only the clock bounds the
 * window.
 */
#ifndef MARKER_H
#define MARKER_H

#if defined(__x86_64__)
#define MARK_OPEN()  __asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long 0x44415201" ::: "memory")
#define MARK_CLOSE() __asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long 0x44415202" ::: "memory")
#define CPU_RELAX()  __asm__ volatile("pause" ::: "memory")
#else
#define MARK_OPEN()  __asm__ volatile("" ::: "memory")
#define MARK_CLOSE() __asm__ volatile("" ::: "memory")
#define CPU_RELAX()  __asm__ volatile("" ::: "memory")
#endif

#endif
