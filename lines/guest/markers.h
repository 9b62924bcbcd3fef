/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Markers for the plugin: NOPs on every kernel and processor. The first process executes WINDOWS_FOLLOW before there are tasks; between
 * WINDOW_OPEN and WINDOW_CLOSE one task on its CPU is measured. Numbers of windows ascend. */
#ifndef DARTER_MARKERS_H
#define DARTER_MARKERS_H
#define WINDOW_OPEN(number) \
    __asm__ volatile(".byte 0x0f,0x1f,0x80,0x01,0x52,0x41,0x44" : : "a"((unsigned long)(number)) : "memory")
#define WINDOW_CLOSE() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x02,0x52,0x41,0x44" ::: "memory")
#define WINDOWS_FOLLOW() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x03,0x52,0x41,0x44" ::: "memory")
/* The guest's init alone: the program that it was given begins, and has ended. What is between is counted by stacks. */
#define PROGRAM_BEGINS() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x05,0x52,0x41,0x44" ::: "memory")
#define PROGRAM_HAS_ENDED() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x06,0x52,0x41,0x44" ::: "memory")
#endif
