//! Memory in blocks, as Linux's sysfs-devices-memory has it: blocks of one size by their addresses, those in which there is ordinary memory.
#![forbid(unsafe_code)]

use crate::arch;

/// 128 MiB, as on Linux below 64 GiB.
const LEAST: u64 = 128 << 20;
/// 2 GiB.
const MOST: u64 = 2 << 30;
const LARGE_MACHINE: u64 = 64 << 30;

/// The first address behind all memory.
fn end() -> u64 {
    arch::memory_ranges().map(|(_, last)| last.saturating_add(1)).max().unwrap_or(0)
}

/// Bytes of a block. On a large machine the largest that divides its memory.
pub fn block_bytes() -> u64 {
    let end = end();
    if end < LARGE_MACHINE {
        return LEAST;
    }
    let mut bytes = MOST;
    while bytes > LEAST && !end.is_multiple_of(bytes) {
        bytes /= 2;
    }
    bytes
}

/// Is there memory in a block?
fn has_memory(n: u64, bytes: u64) -> bool {
    let first = n.saturating_mul(bytes);
    let last = first.saturating_add(bytes).saturating_sub(1);
    arch::memory_ranges().any(|(from, to)| from <= last && first <= to)
}

/// The blocks that there are.
pub fn blocks() -> impl Iterator<Item = u32> {
    let bytes = block_bytes();
    let count = end().div_ceil(bytes.max(1));
    (0..count).filter(move |n| has_memory(*n, bytes)).filter_map(|n| u32::try_from(n).ok())
}

/// The node that a block's first memory belongs to.
pub fn node_of(n: u32) -> u32 {
    let bytes = block_bytes();
    let first = u64::from(n).saturating_mul(bytes);
    let from =
        arch::memory_ranges().filter(|(_, last)| *last >= first).map(|(from, _)| from.max(first)).min();
    arch::node_of_address(from.unwrap_or(first))
}
