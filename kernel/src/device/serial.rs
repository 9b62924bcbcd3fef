//! The serial ports.

use crate::arch::port::{inb, outb};

const COM1: u16 = 0x3f8;

/// Prepares COM1 for the kernel log: 115200 8N1, FIFOs on, interrupts off.
pub fn early_init() {
    // SAFETY: COM1's registers (16550 data sheet); absent hardware ignores the writes.
    unsafe {
        outb(COM1 + 1, 0);
        outb(COM1 + 3, 0x80);
        outb(COM1, 1);
        outb(COM1 + 1, 0);
        outb(COM1 + 3, 0x03);
        outb(COM1 + 2, 0x07);
        outb(COM1 + 4, 0x0b);
    }
}

/// Writes bytes to COM1 by polling. For the log and for a panic; takes no lock.
pub fn early_write(bytes: &[u8]) {
    for &byte in bytes {
        // SAFETY: COM1's registers. The wait is bounded: an absent port reads 0xff, which has the bit set.
        unsafe {
            let mut patience = 1_000_000u32;
            while inb(COM1 + 5) & 0x20 == 0 && patience > 0 {
                patience -= 1;
            }
            outb(COM1, byte);
        }
    }
}
