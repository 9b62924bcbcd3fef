//! How many pages are private memory of programs, for /proc/meminfo: counted by each CPU, where a leaf gets a page of its own and where the last reference to one
//! goes, in a line that is written then anyhow. No locks.
#![forbid(unsafe_code)]

use sync::{Count, per_cpu};

use super::{Frame, FrameKind};

per_cpu! {
    static PAGES: Count = Count::new();
}

/// A leaf gets a frame for its own.
#[inline(always)]
pub(super) fn entered() {
    PAGES.this().add(1);
}

/// The last reference to a frame is gone. Objects' frames say that they are.
#[inline(always)]
pub(super) fn left(frame: &Frame) {
    if frame.kind() == FrameKind::Page {
        PAGES.this().sub(1);
    }
}

/// As `entered` and `left`, of so many private pages at once.
pub(super) fn entered_many(pages: u64) {
    PAGES.this().add(pages);
}

pub(super) fn left_many(pages: u64) {
    PAGES.this().sub(pages);
}

/// Pages that are private memory. What changes meanwhile may be missed.
pub fn private_frames() -> u64 {
    let sum = PAGES.iter().fold(0u64, |sum, pages| sum.wrapping_add(pages.get()));
    sum.cast_signed().max(0).cast_unsigned()
}
