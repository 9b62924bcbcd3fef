//! Numbers that tell objects apart. Each CPU takes them in blocks, so that making files in different directories, say, shares nothing.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::percpu::Padded;
use sync::{LocalCell, per_cpu};

/// Numbers that a CPU takes at once: those with the same upper bits.
const BLOCK: u64 = 1 << BLOCK_BITS;
const BLOCK_BITS: u32 = 10;

/// In the numbers that the kernel gives to files among others that a file system numbers. Of such a file system it is in no other number.
pub const OWN: u64 = 1 << 62;

/// Where the next block begins: on lines of its own, so that taking one disturbs nobody who reads what lies beside it.
pub type Blocks = Padded<AtomicU64>;
/// What is left of a CPU's block.
pub type Mine = LocalCell<(u64, u64)>;

/// The next number of a kind that is kept in `blocks` and, for this CPU, in `mine`.
#[expect(clippy::arithmetic_side_effects, reason = "2^64 numbers last for ever")]
pub fn take(blocks: &Blocks, mine: &Mine) -> u64 {
    let taken = mine.with(|(next, end)| {
        if next == end {
            *next = blocks.fetch_add(BLOCK, Relaxed);
            *end = *next + BLOCK;
        }
        *next += 1;
        *next - 1
    });
    // Only a re-entry finds the cell in use, and none happens here; a whole block for one number is still right.
    taken.unwrap_or_else(|| blocks.fetch_add(BLOCK, Relaxed))
}

static NEXT: Blocks = Padded(AtomicU64::new(BLOCK));
per_cpu! { static MINE: Mine = LocalCell::new((0, 0)); }

/// An inode number for a file system that keeps none on a disk.
pub fn next() -> u64 {
    take(&NEXT, MINE.this())
}

/// The same, among those of a file system's own.
pub fn next_own() -> u64 {
    OWN | next()
}

/// By what a number is told apart where CPUs are to stay apart: numbers that one CPU has given are alike for the most part, others differ.
pub fn spread(number: u64) -> u64 {
    if number & OWN != 0 { number >> BLOCK_BITS } else { number ^ number >> 8 }
}
