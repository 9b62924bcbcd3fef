//! Numbers that tell objects apart. Each CPU takes them in blocks, so that making files in different directories, say, shares nothing.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::percpu::Padded;
use sync::{LocalCell, per_cpu};

/// Numbers that a CPU takes at once.
const BLOCK: u64 = 1024;

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
