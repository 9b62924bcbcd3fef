//! Inode numbers for file systems that keep none on a disk. Each CPU takes them in blocks, so that making files in
//! different directories shares nothing.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::percpu::Padded;
use sync::{LocalCell, per_cpu};

const BLOCK: u64 = 1024;

/// On lines of its own, so that taking a block disturbs nobody who reads what lies beside it.
static NEXT: Padded<AtomicU64> = Padded(AtomicU64::new(BLOCK));

per_cpu! { static MINE: LocalCell<(u64, u64)> = LocalCell::new((0, 0)); }

#[expect(clippy::arithmetic_side_effects, reason = "2^64 numbers last for ever")]
pub fn next() -> u64 {
    let taken = MINE.this().with(|(next, end)| {
        if next == end {
            *next = NEXT.fetch_add(BLOCK, Relaxed);
            *end = *next + BLOCK;
        }
        *next += 1;
        *next - 1
    });
    // Only a re-entry finds the cell in use, and none happens here; a whole block for one number is still right.
    taken.unwrap_or_else(|| NEXT.fetch_add(BLOCK, Relaxed))
}
