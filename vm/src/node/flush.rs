//! Gathering what an operation took away, until every CPU that could still use it has flushed.
//!
//! Invariants: FreeAfterFlush, as a type: frames and leaves are freed only against a [`Flushed`], which only a completed
//! flush makes. Entries are cleared under the leaf's lock, the locks are dropped, then CPUs are interrupted, then memory is
//! freed. Neither a flush nor a release happens under a leaf's lock (NothingSlowUnderLeaf).
#![forbid(unsafe_code)]

use super::segment::Removed;
use super::{Locked, Node, Retired, Sharer};
use crate::machine::{CpuSet, Entry, FlushRange, Machine};
use crate::object::rmap::ReverseOps;
use crate::order::Order;
use crate::tlb::SpaceTlb;
use arrayvec::ArrayVec;
use core::ops::Range;
use sync::level::{Before, Held, Leaf};
use sync::rcu::RcuRead;

/// Proof that no CPU holds a translation through the entries in question.
pub struct Flushed(());

impl Flushed {
    /// The space is loaded on no CPU, and its address-space ids are dead.
    pub fn by_leaving<M: Machine>(space: &SpaceTlb) -> Self {
        space.leave_everywhere::<M>();
        Self(())
    }

    /// Nothing was ever reachable by hardware.
    pub fn never_mapped() -> Self {
        Self(())
    }

    /// All translations of `range`, which lies in leaves that `viewers` link to, in `space` are gone.
    pub fn by_flushing<M: Machine>(space: &SpaceTlb, range: FlushRange, viewers: &CpuSet) -> Self {
        space.flush::<M>(range, viewers);
        Self(())
    }

    /// All translations of user addresses in `space` are gone.
    pub fn by_flushing_all<M: Machine>(space: &SpaceTlb) -> Self {
        space.flush_all::<M>(FlushRange::ALL);
        Self(())
    }

    /// All translations of `range`, which lies in `leaf`, are gone in every space that used the leaf when its entries were
    /// changed. A space that comes to share it later is a child of one of these, and finds the entries as they are now.
    pub fn by_flushing_sharers(
        leaf: &Node,
        ops: &ReverseOps,
        range: FlushRange,
        viewers: &CpuSet,
        held: &mut Held<'_, impl Before<Leaf>>,
        _rcu: &RcuRead,
    ) -> Self {
        // In batches, with the leaf unlocked, and from the end of the list: when a space leaves meanwhile, the last of the list
        // takes its place, and the last were flushed first.
        let mut left = usize::MAX;
        loop {
            let locked = leaf.lock(held);
            let rest = locked.sharers.as_slice();
            let rest = rest.get(..left).unwrap_or(rest);
            let batch: ArrayVec<Sharer, 16> = rest.iter().rev().take(16).copied().collect();
            left = rest.len() - batch.len();
            drop(locked);
            if batch.is_empty() {
                return Self(());
            }
            for sharer in &batch {
                (ops.flush)(sharer.get(leaf), range, viewers);
            }
        }
    }
}

/// Frames and leaves that wait for a flush. Operations stop when it is full, flush and go on.
pub struct Gather<'g> {
    pub range: FlushRange,
    /// CPUs whose views link to the leaves in which the entries lay.
    viewers: CpuSet,
    entries: ArrayVec<Entry, 64>,
    leaves: ArrayVec<&'g Node, 32>,
    pub removed: Removed,
}

impl<'g> Gather<'g> {
    pub fn new() -> Self {
        Self {
            range: FlushRange::EMPTY,
            viewers: CpuSet::EMPTY,
            entries: ArrayVec::new_const(),
            leaves: ArrayVec::new_const(),
            removed: Removed::new(),
        }
    }

    /// Must it be flushed before more goes in?
    #[inline]
    pub fn is_full(&self) -> bool {
        self.entries.is_full() || self.leaves.is_full()
    }

    /// The entries `range` of `leaf` were cleared or changed.
    #[inline]
    pub fn touched(&mut self, leaf: &Locked<'_>, range: Range<u16>) {
        self.range.add(leaf.node().address(range.start), leaf.node().address(range.end));
        self.viewers.add(&leaf.viewers);
    }

    /// `entry` was taken out; its reference is dropped after the flush. The caller checked [`Self::is_full`].
    #[inline]
    pub fn add_entry(&mut self, entry: Entry) {
        let fits = self.entries.try_push(entry);
        debug_assert!(fits.is_ok());
    }

    /// `leaf` was detached from the space, whose views do not link to it any more; the space leaves it after the flush. The caller
    /// checked [`Self::is_full`].
    #[inline]
    pub fn add_leaf(&mut self, leaf: &'g Node, viewers: &CpuSet) {
        self.range.add(leaf.base(), leaf.end());
        self.viewers.add(viewers);
        let fits = self.leaves.try_push(leaf);
        debug_assert!(fits.is_ok());
    }

    /// Flushes and frees. No leaf is locked.
    pub fn finish<M: Machine>(&mut self, space: &SpaceTlb, order: &mut Order<'_>) {
        if !self.range.is_empty() {
            let proof = Flushed::by_flushing::<M>(space, self.range, &self.viewers);
            self.range = FlushRange::EMPTY;
            self.viewers = CpuSet::EMPTY;
            for entry in self.entries.drain(..) {
                Retired::entry::<M>(entry, &proof);
            }
            for leaf in self.leaves.drain(..) {
                Retired::leave_leaf::<M>(leaf, space, &proof, order);
            }
        }
        self.removed.let_go();
    }
}

impl Drop for Gather<'_> {
    fn drop(&mut self) {
        debug_assert!(self.range.is_empty(), "gathered pages were not flushed");
    }
}

impl Default for Gather<'_> {
    fn default() -> Self {
        Self::new()
    }
}
