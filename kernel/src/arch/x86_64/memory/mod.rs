//! The kernel half of the address space (see DESIGN.md):
//!
//! | from | what |
//! |---|---|
//! | `0xffff_8000_0000_0000` | direct map of all memory, 64 TiB |
//! | `0xffff_c000_0000_0000` | frame table, 64 bytes per frame |
//! | `0xffff_d000_0000_0000` | kernel stacks with their guard pages |
//! | `0xffff_e000_0000_0000` | device registers |
//! | `0xffff_ffff_8000_0000` | kernel image |
//!
//! Every top-level entry of this half is filled at boot and never changes, so a new space copies them and is done.

pub mod early;
pub mod frames;
mod map;
pub mod tables;
#[cfg(feature = "lockdep")]
pub mod variables;

pub const DIRECT_MAP: usize = 0xffff_8000_0000_0000;
pub const FRAME_TABLE: usize = 0xffff_c000_0000_0000;
pub const STACKS: usize = 0xffff_d000_0000_0000;
pub const DEVICES: usize = 0xffff_e000_0000_0000;
pub const IMAGE: usize = 0xffff_ffff_8000_0000;

/// Where the direct map shows physical address `address`.
#[inline]
pub fn direct_map(address: u64) -> *mut u8 {
    (DIRECT_MAP + address as usize) as *mut u8
}

/// The physical address of something in the kernel image.
#[inline]
pub fn physical_of_image(address: usize) -> u64 {
    (address - IMAGE) as u64
}
