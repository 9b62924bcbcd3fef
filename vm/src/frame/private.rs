//! How many pages are private memory of programs, for /proc/meminfo: counted by each CPU and by the frame's node, where a leaf gets a page of its own and where
//! the last reference to one goes. Two instructions or three each, on lines that are written then anyhow. No locks.
#![forbid(unsafe_code)]

use sync::{Count, per_cpu};

use super::{Frame, FrameKind, MAX_NUMA_NODES};

const NODES: usize = MAX_NUMA_NODES.next_power_of_two();

struct Pages([Count; NODES]);

impl Pages {
    #[inline(always)]
    fn of(&self, frame: &Frame) -> Option<&Count> {
        self.0.get(frame.numa_node() & (NODES - 1))
    }
}

per_cpu! {
    static PAGES: Pages = Pages([const { Count::new() }; NODES]);
}

/// A leaf gets the frame for its own.
#[inline(always)]
pub(super) fn entered(frame: &Frame) {
    if let Some(count) = PAGES.this().of(frame) {
        count.add(1);
    }
}

/// The last reference to a frame is gone. Objects' frames say that they are.
#[inline(always)]
pub(super) fn left(frame: &Frame) {
    if frame.kind() == FrameKind::Page
        && let Some(count) = PAGES.this().of(frame)
    {
        count.sub(1);
    }
}

/// Pages of a node that are private memory. What changes meanwhile may be missed.
pub fn private_frames(node: u32) -> u64 {
    let of = |pages: &Pages| pages.0.get(node as usize).map_or(0, Count::get);
    let sum = PAGES.iter().fold(0u64, |sum, pages| sum.wrapping_add(of(pages)));
    sum.cast_signed().max(0).cast_unsigned()
}
