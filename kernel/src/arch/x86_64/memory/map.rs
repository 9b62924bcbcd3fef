//! The map of the kernel's memory, for tools that look at it from outside: section `.memory_map` of the kernel's ELF file.
//!
//! `darter lines` names cache lines by it: from an address it finds the page's frame, from the frame the kind of the page, and for
//! what lies in a per-CPU area the static of which it is a copy. The kernel itself never reads it. Whoever changes the fields
//! changes `VERSION`, and `lines/measure/src/map.rs` with it.

use vm::frame::{FrameKind, LAYOUT};

use super::super::cpu::BootCell;
use super::super::cpu::percpu::{self, MAX_CPUS};
use super::super::stack;
use super::{DIRECT_MAP, FRAME_TABLE, STACKS};

const VERSION: u64 = 2;

/// Eight-byte words, in this order.
#[repr(C)]
struct MemoryMap {
    magic: [u8; 8],
    version: u64,
    direct_map: usize,
    frame_table: usize,
    /// Bytes of a frame's metadata, and the offsets in it of the kind (a byte; bit 7: free since), the flags (a byte) and the owner's words.
    frame_size: usize,
    frame_kind: usize,
    frame_flags: usize,
    frame_words: usize,
    /// Kernel stacks: first address, bytes from one to the next, bytes of a stack, which ends where its slot ends.
    stacks: usize,
    stack_slot: usize,
    stack_size: usize,
    /// Where each CPU's area begins (an array of addresses; 0: no such CPU); areas are copies of section `.percpu`.
    percpu_bases: &'static BootCell<[usize; MAX_CPUS]>,
    percpu_count: usize,
    /// Address and number of strings (address and length): what pages of each kind are.
    kinds: &'static [&'static str],
}

#[unsafe(link_section = ".memory_map")]
#[used]
static MEMORY_MAP: MemoryMap = MemoryMap {
    magic: *b"DARTERMM",
    version: VERSION,
    direct_map: DIRECT_MAP,
    frame_table: FRAME_TABLE,
    frame_size: LAYOUT.size,
    frame_kind: LAYOUT.kind,
    frame_flags: LAYOUT.flags,
    frame_words: LAYOUT.words,
    stacks: STACKS,
    stack_slot: stack::SLOT,
    stack_size: stack::SIZE,
    percpu_bases: &percpu::BASES,
    percpu_count: MAX_CPUS,
    kinds: &FrameKind::NAMES,
};
