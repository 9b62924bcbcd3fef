//! Blocks of frames for large pages: 512 in a row, aligned, each with its own metadata and references as any page's, so that whoever has one of them
//! need not know that it is part of a block.
//!
//! A block comes from a buddy and goes back there as a whole, if nobody else has any of its frames by then. No single pages are joined for one: that would
//! drain what other CPUs keep.
//!
//! Invariants: CountLocal. Lock order: FrameList. A low room.

use super::{Frame, MAX_NUMA_NODES, OwnedFrame, buddy, magazine, poison, private, zero};
use crate::addr::{ENTRIES, PhysAddr};
use crate::policy::Nodes;
use sync::{Count, per_cpu};

/// log2 of the frames of a block.
pub const LARGE_ORDER: usize = ENTRIES.trailing_zeros() as usize;

const _: () = assert!(LARGE_ORDER <= super::MAX_ORDER);

per_cpu! {
    /// Leaves that show a block whole: made by this CPU, less those that it ended, by the block's NUMA node.
    static SHOWN: [Count; MAX_NUMA_NODES] = [const { Count::new() }; MAX_NUMA_NODES];
}

/// 512 frames of one block that nobody else refers to. Dropped, it goes back.
pub struct OwnedBlock(&'static Frame);

impl OwnedBlock {
    /// A block of NUMA node `node`, with unspecified contents. None: its buddy has none just now.
    fn take_from(node: usize) -> Option<Self> {
        let first = buddy::of_numa_node(node).take(LARGE_ORDER)?;
        frames_of(first).for_each(Frame::mark_taken);
        Some(Self(first))
    }

    /// A block of one of the nodes `allowed`, with unspecified contents: of `first` if it has one. Neither waits nor asks other CPUs. No node is locked.
    pub(crate) fn try_take(first: usize, allowed: Nodes) -> Option<Self> {
        #[cfg(not(target_os = "none"))]
        sync::heap::hosted::allowed().ok()?;
        crate::order::assert_no_node_locked();
        let in_turn = (0..MAX_NUMA_NODES).map(|n| (first + n) % MAX_NUMA_NODES);
        in_turn.filter(|node| allowed >> node & 1 != 0).find_map(Self::take_from)
    }

    /// Clears frame `index` of the block. Not to be called with a leaf locked (NothingSlowUnderLeaf).
    pub(crate) fn clear(&mut self, index: u16) {
        let number = self.0.number() + u32::from(index) % ENTRIES as u32;
        // SAFETY: one of the block's own frames.
        unsafe { zero(Frame::by_number(number)) }
    }

    /// Gives the frames to a leaf that shows them whole: from now on their references are its entries'.
    pub(crate) fn into_leaf(self) -> LargeFrame {
        let first = self.0;
        core::mem::forget(self);
        private::entered_many(ENTRIES as u64);
        LargeFrame::of(first)
    }
}

impl Drop for OwnedBlock {
    fn drop(&mut self) {
        give_back(self.0);
    }
}

/// A block whose frames are taken one by one. Dropped, the others go back: as a block, if they are all.
pub struct BlockFrames {
    first: &'static Frame,
    /// A bit for each frame that is still here.
    left: [u64; ENTRIES / 64],
}

impl BlockFrames {
    pub fn new(block: OwnedBlock) -> Self {
        let first = block.0;
        core::mem::forget(block);
        Self { first, left: [u64::MAX; ENTRIES / 64] }
    }

    /// Takes frame `index` of the block, with unspecified contents. None: it was taken before.
    pub fn take(&mut self, index: u16) -> Option<OwnedFrame> {
        let word = self.left.get_mut(usize::from(index) / 64)?;
        let bit = 1 << (index % 64);
        let is_left = *word & bit != 0;
        *word &= !bit;
        let frame = Frame::by_number(self.first.number() + u32::from(index));
        // SAFETY: taken with the block, whose frames nobody else refers to, and this one is given away once.
        is_left.then(|| unsafe { OwnedFrame::from_frame(frame) })
    }

    /// Takes a frame back that was taken here.
    pub fn put_back(&mut self, frame: OwnedFrame) {
        let index = frame.frame().number().wrapping_sub(self.first.number()) as usize;
        if let Some(word) = self.left.get_mut(index / 64) {
            *word |= 1 << (index % 64);
            let _of_block = frame.into_frame();
        }
    }
}

impl Drop for BlockFrames {
    fn drop(&mut self) {
        if self.left == [u64::MAX; ENTRIES / 64] {
            return give_back(self.first);
        }
        for (frame, n) in frames_of(self.first).zip(0..) {
            if self.left[n / 64] >> (n % 64) & 1 != 0 {
                magazine::give(frame);
            }
        }
    }
}

/// "A leaf shows this block whole": counted until it is ended.
#[must_use = "it stays counted"]
pub struct LargeFrame(&'static Frame);

impl LargeFrame {
    /// Of the block that begins with `first`, which a leaf shows whole from now on, each page by a reference of its own.
    pub(crate) fn of(first: &'static Frame) -> Self {
        SHOWN.this()[first.numa_node() % MAX_NUMA_NODES].add(1);
        Self(first)
    }

    /// Physical address of the block.
    #[inline]
    pub fn addr(&self) -> PhysAddr {
        self.0.addr()
    }

    /// The leaf shows it whole no more; the references to its frames are what they were.
    pub fn end(self) -> &'static Frame {
        SHOWN.this()[self.0.numa_node() % MAX_NUMA_NODES].sub(1);
        self.0
    }
}

/// Drops one reference to each frame of the block that begins with `first`; together, if these were the last.
///
/// # Safety
/// As `release`, for each of the frames.
pub(crate) unsafe fn release_block(first: &'static Frame) {
    // A bit for each frame whose last reference it was.
    let mut last = [0u64; ENTRIES / 64];
    for (word, part) in last.iter_mut().zip(0..) {
        for bit in 0..u64::BITS {
            let frame = Frame::by_number(first.number() + part * u64::BITS + bit);
            *word |= u64::from(frame.put()) << bit;
        }
    }
    if last == [u64::MAX; ENTRIES / 64] {
        private::left_many(ENTRIES as u64);
        return give_back(first);
    }
    for (frame, n) in frames_of(first).zip(0..) {
        if last[n / 64] >> (n % 64) & 1 != 0 {
            private::left(frame);
            magazine::give(frame);
        }
    }
}

/// Gives back a block of which nobody has anything.
fn give_back(first: &'static Frame) {
    crate::order::assert_no_node_locked();
    for frame in frames_of(first) {
        frame.mark_free();
        if poison::ON {
            frame.poison();
        }
    }
    buddy::of_numa_node(first.numa_node()).give(first, LARGE_ORDER);
}

fn frames_of(first: &Frame) -> impl Iterator<Item = &'static Frame> {
    let first = first.number();
    (first..first + ENTRIES as u32).map(Frame::by_number)
}

/// Leaves that show a block of `node` whole; None: of any. What changes meanwhile may be missed.
pub fn large_pages(node: Option<usize>) -> u64 {
    let of = |counts: &[Count; MAX_NUMA_NODES]| -> u64 {
        let wanted = |n: &usize| node.is_none_or(|node| node == *n);
        let counts = counts.iter().enumerate().filter(|(n, _)| wanted(n));
        counts.fold(0, |sum, (_, count)| sum.wrapping_add(count.get()))
    };
    let sum = SHOWN.iter().fold(0u64, |sum, counts| sum.wrapping_add(of(counts)));
    sum.cast_signed().max(0).cast_unsigned()
}
