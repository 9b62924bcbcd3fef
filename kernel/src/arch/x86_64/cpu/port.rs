//! Port input and output.

use core::arch::asm;

/// Reads a byte from an I/O port.
///
/// # Safety
/// The port belongs to the caller, and reading it has no effect the rest of the kernel does not expect.
pub unsafe fn inb(port: u16) -> u8 {
    let value: u8;
    // SAFETY: the caller owns the port.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes a byte to an I/O port.
///
/// # Safety
/// As [`inb`], for the write.
pub unsafe fn outb(port: u16, value: u8) {
    // SAFETY: the caller owns the port.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) };
}

/// Writes a 16-bit word to an I/O port.
///
/// # Safety
/// As [`outb`].
pub unsafe fn outw(port: u16, value: u16) {
    // SAFETY: the caller owns the port.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags)) };
}

/// Reads a 32-bit word from an I/O port.
///
/// # Safety
/// As [`inb`].
pub unsafe fn inl(port: u16) -> u32 {
    let value: u32;
    // SAFETY: the caller owns the port.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes a 32-bit word to an I/O port.
///
/// # Safety
/// As [`outb`].
pub unsafe fn outl(port: u16, value: u32) {
    // SAFETY: the caller owns the port.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack, preserves_flags)) };
}

/// Writes bytes one after the other to an I/O port.
///
/// # Safety
/// As [`outb`].
pub unsafe fn outsb(port: u16, bytes: &[u8]) {
    // SAFETY: the caller owns the port; the bytes are readable. DF is clear in the kernel.
    unsafe {
        asm!("rep outsb", in("dx") port, inout("rcx") bytes.len() => _, inout("rsi") bytes.as_ptr() => _,
             options(readonly, nostack, preserves_flags));
    }
}
