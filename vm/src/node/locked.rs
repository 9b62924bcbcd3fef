//! What a node's lock guards, and the operations on a locked node.
//!
//! Invariants: LeafOwns; the counts agree with the entries; a software write to an entry that the hardware may be using is
//! an atomic exchange, so that accessed and dirty bits are not lost.

use super::segment::SegmentList;
use super::{Holder, Node};
use crate::addr::{ENTRIES, PhysAddr};
use crate::frame::{Frame, OwnedFrame};
use crate::machine::{CpuSet, Entry, Machine};
use crate::object::ObjectRef;
use crate::protocol::leaf;
use crate::request::Prot;
use crate::small::SmallList;
use crate::tlb::SpaceTlb;
use alloc::sync::Arc;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use sync::SpinGuard;
use sync::level::Leaf;

/// A space that uses a leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sharer(NonNull<SpaceTlb>);

// SAFETY: stands for a `&SpaceTlb`, and `SpaceTlb` is `Sync`.
unsafe impl Send for Sharer {}

impl Sharer {
    pub fn new(tlb: &SpaceTlb) -> Self {
        Self(NonNull::from(tlb))
    }

    /// The space's TLB state. `_listed` stands for the lock of the leaf whose list it is on or the RCU section in which that
    /// lock was held: a space takes itself off its leaves before its TLB state waits for a grace period and goes.
    pub fn get<'g, T>(&self, _listed: &'g T) -> &'g SpaceTlb {
        // SAFETY: see above.
        unsafe { self.0.as_ref() }
    }
}

/// "This leaf is on that object's list": where, so that it can be taken off.
pub struct Registration {
    pub object: ObjectRef,
    pub place: crate::object::rmap::Place,
}

/// What a node's lock guards.
pub struct NodeState {
    /// Interior nodes: the space is gone. (Leaves: see `Arrival::enter`.)
    pub stray: bool,
    /// Entries that are not absent.
    present: u16,
    /// Of these, private memory: entries that own a reference to their frame, or are held.
    private: u16,
    /// Bit `g`: among the entries `8 * g..8 * g + 8`, one line, some may be other than absent.
    groups: u64,
    pub segments: SegmentList,
    /// Spaces that use the leaf; one, unless fork shared it. Unused in interior nodes.
    pub sharers: SmallList<Sharer, 2>,
    /// Objects on whose lists the leaf is (RegisterBeforeMap): all that its segments name.
    pub registrations: SmallList<Registration, 2>,
    /// CPUs whose views (view.rs) link to the leaf, or did so: all CPUs with a view that may hold translations through it.
    pub viewers: CpuSet,
    /// Has the references to the frames of held entries (HeldByList).
    pub holder: Option<Arc<Holder>>,
    /// Frames that this leaf and others own, as its last copy found them; 0 if no other CPU counted any of them.
    pub foreign: u16,
}

impl NodeState {
    pub(super) const fn new() -> Self {
        Self {
            stray: false,
            present: 0,
            private: 0,
            groups: 0,
            segments: SegmentList::new(),
            sharers: SmallList::new(),
            registrations: SmallList::new(),
            viewers: CpuSet::EMPTY,
            holder: None,
            foreign: 0,
        }
    }

    pub fn present(&self) -> u16 {
        self.present
    }

    pub fn private(&self) -> u16 {
        self.private
    }

    /// Entries that may be other than absent, lines of absent ones left out.
    #[inline]
    pub fn used(&self) -> Used {
        Used { groups: self.groups, at: 0, end: ENTRIES as u16 }
    }

    pub fn is_registered(&self, object: &ObjectRef) -> bool {
        self.registrations.as_slice().iter().any(|r| ObjectRef::ptr_eq(&r.object, object))
    }

    /// Is the leaf used by more than one space?
    pub fn is_shared(&self) -> bool {
        self.sharers.len() > 1
    }

    #[inline]
    fn count_in(&mut self, index: u16, private: bool) {
        self.groups |= 1 << ((index >> 3) & 63);
        self.present += 1;
        self.private += u16::from(private);
    }

    #[inline]
    fn count_out(&mut self, private: bool) {
        self.present -= 1;
        self.private -= u16::from(private);
        if self.present == 0 {
            self.groups = 0;
        }
    }
}

/// Indices of entries that may be other than absent, in order.
#[derive(Clone)]
pub struct Used {
    groups: u64,
    at: u16,
    end: u16,
}

impl Iterator for Used {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        if self.at >= self.end {
            return None;
        }
        let group = self.at >> 3;
        let rest = self.groups >> (group & 63);
        if rest & 1 == 0 {
            let skip = rest.checked_ilog2().map(|_| rest.trailing_zeros() as u16);
            match skip.map(|skip| (group + skip) << 3) {
                Some(next) if next < self.end => self.at = next,
                _ => {
                    self.at = self.end;
                    return None;
                }
            }
        }
        let index = self.at;
        self.at += 1;
        Some(index)
    }
}

impl DoubleEndedIterator for Used {
    #[inline]
    fn next_back(&mut self) -> Option<u16> {
        if self.at >= self.end {
            return None;
        }
        let group = (self.end - 1) >> 3;
        let rest = self.groups << (63 - (group & 63));
        if rest >> 63 == 0 {
            let Some(top) = rest.checked_ilog2() else {
                self.end = self.at;
                return None;
            };
            // The group of the highest bit set: its last entry.
            let found = group - (63 - top as u16);
            self.end = ((found + 1) << 3).min(self.end);
            if self.end <= self.at {
                self.end = self.at;
                return None;
            }
        }
        self.end -= 1;
        Some(self.end)
    }
}

/// A node whose lock is held.
pub struct Locked<'g> {
    node: &'g Node,
    state: SpinGuard<'g, NodeState, Leaf>,
}

impl<'g> Locked<'g> {
    #[inline]
    pub(super) fn new(node: &'g Node, state: SpinGuard<'g, NodeState, Leaf>) -> Self {
        Self { node, state }
    }

    #[inline]
    pub fn node(&self) -> &'g Node {
        self.node
    }

    #[inline]
    pub fn entry(&self, index: u16) -> Entry {
        Entry(self.node.cell(index).load(Ordering::Relaxed))
    }

    /// Entries of `range` that may be other than absent.
    #[inline]
    pub fn used_in(&self, range: &Range<u16>) -> Used {
        Used { groups: self.state.groups, at: range.start, end: range.end }
    }

    /// Sets an absent entry.
    #[inline]
    pub fn fill<M: Machine>(&mut self, index: u16, entry: Entry) {
        debug_assert!(self.entry(index).is_absent() && !entry.is_absent());
        leaf::fill(self.node.cell(index), entry);
        let private = self.node.is_leaf() && entry.is_private::<M>();
        self.state.count_in(index, private);
    }

    /// Sets an absent entry to a page that the leaf will own.
    #[inline]
    pub fn fill_owned<M: Machine>(&mut self, index: u16, frame: OwnedFrame, prot: Prot) {
        self.fill::<M>(index, M::page(frame.into_frame().addr(), prot, true));
    }

    /// Sets an absent entry to a page that belongs to an object or is the page of zeros.
    #[inline]
    pub fn fill_borrowed<M: Machine>(&mut self, index: u16, frame: &Frame, prot: Prot) {
        self.fill::<M>(index, M::page(frame.addr(), prot, false));
    }

    /// Sets the absent ones of the entries from `first` on to pages that belong to an object: those of `frames` that are not 0.
    /// Returns how many it set.
    #[inline]
    pub fn fill_borrowed_run<M: Machine>(&mut self, first: u16, frames: &[PhysAddr], prot: Prot) -> u16 {
        let rights = M::page(PhysAddr(0), prot, false).0;
        let mut count = 0;
        for (cell, frame) in self.node.cells(first, frames.len()).iter().zip(frames) {
            if frame.0 != 0 && cell.load(Ordering::Relaxed) == 0 {
                leaf::fill(cell, Entry(rights | frame.0));
                count += 1;
            }
        }
        if count > 0 {
            // Which of the groups got something matters little: they only say where to look.
            let last = usize::from(first) + frames.len() - 1;
            let (low, high) = (u32::from(first >> 3) & 63, (last as u32 >> 3).min(63));
            self.state.groups |= (u64::MAX << low) & (u64::MAX >> (63 - high));
            self.state.present += count;
        }
        count
    }

    /// Writes a private entry anew that says the same of the same page, but grants no more and may be held now. The leaf is shared, so no
    /// translation in any TLB is writable.
    #[inline]
    pub fn restate(&mut self, index: u16, entry: Entry) {
        leaf::fill(self.node.cell(index), entry);
    }

    /// Takes a private page out. The reference to its frame is the caller's.
    #[inline]
    pub fn take_private<M: Machine>(&mut self, index: u16) -> Entry {
        let old = self.exchange::<M>(index, Entry::ABSENT);
        if old.is_private::<M>() && old.is_held() {
            Frame::of(M::address(old)).get();
            return old.owning();
        }
        old
    }

    /// Exchanges an entry, whatever it is. The old one's reference, if it owned one, is the caller's.
    #[inline]
    pub fn exchange<M: Machine>(&mut self, index: u16, entry: Entry) -> Entry {
        let old = leaf::exchange(self.node.cell(index), entry);
        let is_leaf = self.node.is_leaf();
        if !old.is_absent() {
            self.state.count_out(is_leaf && old.is_private::<M>());
        }
        if !entry.is_absent() {
            self.state.count_in(index, is_leaf && entry.is_private::<M>());
        }
        old
    }
}

impl Deref for Locked<'_> {
    type Target = NodeState;
    #[inline]
    fn deref(&self) -> &NodeState {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut NodeState {
        &mut self.state
    }
}
