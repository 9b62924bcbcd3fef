//! Page-table entries of programs' pages in x86-64's format (SDM vol. 3, 5.5), as the processor and the hosted walk read them.

use vm::{Entry, PhysAddr, Prot};

/// First address above the user half. As in Linux the last page below 2^47 stays out of reach, so that the address after a
/// SYSCALL instruction is always canonical (a non-canonical one makes SYSRET fault in the kernel).
pub const USER_END: usize = 0x7fff_ffff_f000;

pub const PRESENT: u64 = 1 << 0;
pub const WRITABLE: u64 = 1 << 1;
pub const USER: u64 = 1 << 2;
pub const ACCESSED: u64 = 1 << 5;
pub const DIRTY: u64 = 1 << 6;
pub const LARGE: u64 = 1 << 7;
pub const NO_EXECUTE: u64 = 1 << 63;
/// Bits 9 to 11 and 52 to 58 of a present entry (5.5.4; bit 11 with HLAT paging off, which it is).
pub const IGNORED: u64 = 0b111 << 9 | 0x7f << 52;
/// Bits 12 to 51: the physical address.
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// See [`vm::Machine::table`].
#[inline]
pub fn table(table: PhysAddr, writable: bool) -> Entry {
    Entry(table.0 | PRESENT | USER | ACCESSED | if writable { WRITABLE } else { 0 })
}

/// See [`vm::Machine::rights`].
#[inline]
pub fn rights(prot: Prot) -> u64 {
    let write = if prot.contains(Prot::WRITE) { WRITABLE } else { 0 };
    let execute = if prot.contains(Prot::EXEC) { 0 } else { NO_EXECUTE };
    // "Accessed" beforehand: the page is mapped because it is being touched, and the processor need not write.
    PRESENT | USER | ACCESSED | write | execute
}

/// See [`vm::Machine::is_writable`].
#[inline]
pub fn is_writable(entry: Entry) -> bool {
    entry.0 & (PRESENT | WRITABLE) == PRESENT | WRITABLE
}

/// See [`vm::Machine::read_only`].
#[inline]
pub fn read_only(entry: Entry) -> Entry {
    Entry(entry.0 & !WRITABLE)
}
