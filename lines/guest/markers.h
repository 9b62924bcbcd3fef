/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Marks a window for the plugin: NOPs on every kernel and processor. Between them, one task on its CPU is measured. */
#ifndef DARTER_MARKERS_H
#define DARTER_MARKERS_H
#define WINDOW_OPEN() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x01,0x52,0x41,0x44" ::: "memory")
#define WINDOW_CLOSE() __asm__ volatile(".byte 0x0f,0x1f,0x80,0x02,0x52,0x41,0x44" ::: "memory")
#endif
