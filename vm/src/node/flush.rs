//! Gathering what an operation took away, until every CPU that could still use it has flushed.
//!
//! Invariants: FreeAfterFlush, as a type: frames and leaves are freed only against a [`Flushed`] or [`SharersFlushed`], which only a
//! completed flush makes. Entries are cleared under the leaf's lock, the locks are dropped, then CPUs are interrupted, then memory is
//! freed. Neither a flush nor a release happens under a leaf's lock (NothingSlowUnderLeaf).
#![forbid(unsafe_code)]

use super::segment::Removed;
use super::{DetachedLeaf, Locked, Node, Registration, Retired, Taken, TakenBlock};
use crate::machine::{CpuSet, FlushCause, FlushRange, Machine};
use crate::object::rmap::ReverseOps;
use crate::order::Leaf;
use crate::order::Order;
use crate::tlb::{OwnTlb, SpaceTlb};
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::TryVec;
use sync::level::{Before, Held};
use sync::rcu::RcuRead;

/// Proof that no CPU holds a translation of a space that was made before: of a range of addresses in it, or of all. Only a flush makes one:
///
/// ```compile_fail,E0451
/// use vm::{SpaceTlb, node::flush::Flushed};
/// fn forge(space: &SpaceTlb) -> Flushed<'_> {
///     Flushed { space }
/// }
/// ```
///
/// ```compile_fail,E0599
/// fn forge() -> vm::node::flush::Flushed<'static> {
///     vm::node::flush::Flushed::never_mapped()
/// }
/// ```
///
/// It names the space, so a leaf leaves the space that has flushed and no other. For pages the place is compared with debug assertions.
#[derive(Clone, Copy)]
pub struct Flushed<'s> {
    space: &'s SpaceTlb,
    reached: DebugOnly<Extent>,
    begun: DebugOnly<Moment>,
}

/// Proof that no CPU holds a translation through a range of a leaf's entries that was made before, in any space.
#[derive(Clone, Copy)]
pub struct SharersFlushed<'l> {
    _leaf: PhantomData<&'l Node>,
    reached: DebugOnly<Extent>,
    begun: DebugOnly<Moment>,
}

/// Proof that translations are gone.
pub trait FlushProof {
    /// With debug assertions: panics if the flush did not reach `origin`, where something was taken out, or began before that was `taken`.
    fn check(&self, origin: DebugOnly<Extent>, taken: DebugOnly<Moment>);
}

impl FlushProof for Flushed<'_> {
    #[inline]
    fn check(&self, origin: DebugOnly<Extent>, taken: DebugOnly<Moment>) {
        Extent::check(self.reached, origin);
        Moment::check(self.begun, taken);
    }
}

impl FlushProof for SharersFlushed<'_> {
    #[inline]
    fn check(&self, origin: DebugOnly<Extent>, taken: DebugOnly<Moment>) {
        Extent::check(self.reached, origin);
        Moment::check(self.begun, taken);
    }
}

/// A value that is there with debug assertions only.
#[derive(Clone, Copy)]
pub struct DebugOnly<T> {
    #[cfg(debug_assertions)]
    value: T,
    _value: PhantomData<T>,
}

impl<T> DebugOnly<T> {
    #[inline]
    pub(super) fn new(_make: impl FnOnce() -> T) -> Self {
        Self {
            #[cfg(debug_assertions)]
            value: _make(),
            _value: PhantomData,
        }
    }
}

/// When something was taken out, or a flush began.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Moment(u64);

impl Moment {
    /// Later than all flushes: of a space that no CPU comes to any more.
    const END: Self = Self(u64::MAX);

    /// A later one at each call. For debug assertions.
    pub(super) fn now() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// With debug assertions: panics if the flush began before `_taken`.
    #[inline]
    fn check(_flush: DebugOnly<Self>, _taken: DebugOnly<Self>) {
        #[cfg(debug_assertions)]
        assert!(_taken.value < _flush.value, "FreeAfterFlush: taken out after the flush had begun");
    }
}

/// Addresses in one space or one leaf, which are told apart by where they lie in memory.
#[derive(Clone, Copy)]
#[cfg_attr(not(debug_assertions), expect(dead_code, reason = "read with debug assertions only"))]
pub struct Extent {
    /// 0: in several spaces.
    pub(super) space: usize,
    /// 0: in any leaf.
    pub(super) leaf: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Extent {
    #[inline]
    fn check(_reached: DebugOnly<Self>, _taken: DebugOnly<Self>) {
        #[cfg(debug_assertions)]
        {
            let (reached, taken) = (_reached.value, _taken.value);
            let same_leaf = reached.leaf == taken.leaf;
            let same_space = reached.leaf == 0 && reached.space == taken.space;
            assert!(same_leaf || same_space, "FreeAfterFlush: another space was flushed");
            let within = reached.start <= taken.start && taken.end <= reached.end;
            assert!(within, "FreeAfterFlush: other addresses were flushed");
        }
    }
}

impl Extent {
    /// With debug assertions: panics if the entry was not number `_index` of `_node`.
    #[inline]
    pub(super) fn check_entry(_entry: DebugOnly<Self>, _node: &Node, _index: u16) {
        #[cfg(debug_assertions)]
        {
            let entry = _entry.value;
            let same =
                entry.leaf == core::ptr::from_ref(_node).addr() && entry.start == _node.address(_index);
            assert!(same, "a page is put back where it did not come from");
        }
    }
}

impl<'s> Flushed<'s> {
    /// After a flush.
    fn new(space: &'s SpaceTlb, range: FlushRange, begun: DebugOnly<Moment>) -> Self {
        let reached = DebugOnly::new(|| Extent {
            space: core::ptr::from_ref(space).addr(),
            leaf: 0,
            start: range.start.0,
            end: range.end.0,
        });
        Self { space, reached, begun }
    }

    /// The space that has flushed.
    #[inline]
    pub fn space(self) -> &'s SpaceTlb {
        self.space
    }

    /// With debug assertions: panics if the flush began before `leaf` was taken out.
    #[inline]
    pub(super) fn check_leaf(self, leaf: &DetachedLeaf<'_>) {
        Moment::check(self.begun, leaf.taken());
    }

    /// The space is loaded on no CPU, and its address-space ids are dead. It ends, since it is the caller's alone: no CPU comes to it any more,
    /// so this holds for what is taken out later, too.
    pub fn by_leaving<M: Machine>(space: &'s mut OwnTlb) -> Self {
        let space = &**space;
        space.leave_everywhere::<M>();
        Self::new(space, FlushRange::ALL, DebugOnly::new(|| Moment::END))
    }

    /// All translations of `range`, which lies in leaves that `viewers` link to, in `space` are gone; `tables`: and all pointers to tables that were taken out.
    pub fn by_flushing<M: Machine>(
        space: &'s SpaceTlb,
        range: FlushRange,
        viewers: &CpuSet,
        tables: bool,
        cause: FlushCause,
    ) -> Self {
        let begun = DebugOnly::new(Moment::now);
        space.flush::<M>(range, viewers, tables, cause);
        Self::new(space, range, begun)
    }

    /// All translations of user addresses in `space` are gone.
    pub fn by_flushing_all<M: Machine>(space: &'s SpaceTlb, cause: FlushCause) -> Self {
        let begun = DebugOnly::new(Moment::now);
        space.flush_all::<M>(FlushRange::ALL, cause);
        Self::new(space, FlushRange::ALL, begun)
    }
}

impl<'l> SharersFlushed<'l> {
    /// All translations of `range`, which lies in `leaf`, are gone in every space that used the leaf when its entries were
    /// changed. A space that comes to share it later is a child of one of these, and finds the entries as they are now.
    pub fn by_flushing(
        leaf: &'l Node,
        ops: &ReverseOps,
        range: FlushRange,
        viewers: &CpuSet,
        held: &mut Held<'_, impl Before<Leaf>>,
        rcu: &RcuRead,
    ) -> Self {
        // In batches, with the leaf unlocked, and from the end of the list: when a space leaves meanwhile, the last of the list
        // takes its place, and the last were flushed first.
        let mut left = usize::MAX;
        let begun = DebugOnly::new(Moment::now);
        loop {
            let locked = leaf.lock(held);
            let spaces = locked.spaces(rcu);
            let rest = spaces.len().min(left);
            let batch: ArrayVec<&SpaceTlb, 16> = spaces.take(rest).rev().take(16).collect();
            left = rest - batch.len();
            drop(locked);
            if batch.is_empty() {
                let leaf = core::ptr::from_ref(leaf).addr();
                let reached =
                    DebugOnly::new(|| Extent { space: 0, leaf, start: range.start.0, end: range.end.0 });
                return Self { _leaf: PhantomData, reached, begun };
            }
            for space in batch {
                (ops.flush)(space, range, viewers);
            }
        }
    }
}

/// Pages that wait for one flush at most, beside those in [`Gather`] itself.
const ASIDE: usize = 1024;

/// Frames and leaves that wait for a flush. Operations stop when it is full, flush and go on.
pub struct Gather<'g> {
    pub range: FlushRange,
    /// CPUs whose views link to the leaves in which the entries lay.
    viewers: CpuSet,
    /// Two of these lie on one stack where a leaf is copied on the way.
    entries: ArrayVec<Taken, 60>,
    /// More of them, where a flush interrupts other CPUs: one is sent for all.
    aside: Vec<Taken>,
    /// Of a leaf that was large: one, since a gather lies on the stack.
    blocks: ArrayVec<TakenBlock, 1>,
    leaves: ArrayVec<DetachedLeaf<'g>, 16>,
    pub removed: Removed,
    /// Of objects in `removed`: lists that a leaf is on and need not be. No more than `removed` has.
    left: ArrayVec<Registration, { Removed::MOST }>,
    cause: FlushCause,
}

impl<'g> Gather<'g> {
    pub fn new(cause: FlushCause) -> Self {
        Self {
            cause,
            range: FlushRange::EMPTY,
            viewers: CpuSet::EMPTY,
            entries: ArrayVec::new_const(),
            aside: Vec::new(),
            blocks: ArrayVec::new_const(),
            leaves: ArrayVec::new_const(),
            removed: Removed::new(),
            left: ArrayVec::new_const(),
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

    /// `page` was taken out; its reference is dropped after the flush. If there is no room, never: the caller checked [`Self::is_full`].
    #[inline]
    pub fn add_page(&mut self, page: Taken) {
        let fits = self.entries.try_push(page);
        debug_assert!(fits.is_ok());
    }

    /// Is there room for one more block?
    pub fn has_room_for_block(&self) -> bool {
        !self.blocks.is_full()
    }

    /// The pages of a block were taken out; their references are dropped after the flush. If there is no room, never: the caller checked
    /// [`Self::has_room_for_block`].
    pub fn add_block(&mut self, block: TakenBlock) {
        let fits = self.blocks.try_push(block);
        debug_assert!(fits.is_ok());
    }

    /// Segments of `leaf` were cut out, those in `removed` after the first `known`: after the flush the leaf goes off the lists of objects that it names
    /// no more. Another thread that took pages of such an object out of this leaf has the object among its own `removed` until it has flushed.
    #[inline]
    pub fn leave_unnamed(&mut self, leaf: &mut Locked<'_>, known: usize) {
        for object in self.removed.objects_after(known) {
            let Some(registration) = leaf.take_unnamed(object) else { continue };
            let fits = self.left.try_push(registration);
            debug_assert!(fits.is_ok(), "more lists than objects that were cut out");
        }
    }

    /// The space's views do not link to `leaf` any more either; the space leaves it after the flush. If there is no room, never: the caller
    /// checked [`Self::is_full`].
    #[inline]
    pub fn add_leaf(&mut self, leaf: DetachedLeaf<'g>, viewers: &CpuSet) {
        self.range.add(leaf.node().base(), leaf.node().end());
        self.viewers.add(viewers);
        let fits = self.leaves.try_push(leaf);
        debug_assert!(fits.is_ok());
    }

    /// Makes room where it is full. No leaf is locked.
    #[inline]
    pub fn make_room<M: Machine>(&mut self, space: &SpaceTlb, order: &mut Order<'_>) {
        if self.blocks.is_full() || (self.is_full() && (self.leaves.is_full() || !self.set_aside(space))) {
            self.finish::<M>(space, order);
        }
    }

    /// Makes room among the entries without a flush, if that would interrupt others and there is memory. [`ASIDE`] pages are kept back at most.
    #[cold]
    #[inline(never)]
    fn set_aside(&mut self, space: &SpaceTlb) -> bool {
        if !space.is_used_elsewhere(&self.viewers) {
            return false;
        }
        let len = self.aside.len();
        if len.saturating_add(self.entries.len()) > ASIDE
            || self.aside.try_reserve_exact(ASIDE.saturating_sub(len)).is_err()
        {
            return false;
        }
        // There is room for all.
        while let Some(page) = self.entries.pop() {
            let kept = self.aside.push_reserved(page);
            debug_assert!(kept.is_ok());
        }
        true
    }

    /// Flushes and frees. No leaf is locked.
    #[inline]
    pub fn finish<M: Machine>(&mut self, space: &SpaceTlb, order: &mut Order<'_>) {
        // Where there was nothing to change.
        if !self.range.is_empty() || !self.removed.is_empty() || !self.left.is_empty() {
            self.flush_and_free::<M>(space, order);
        }
    }

    fn flush_and_free<M: Machine>(&mut self, space: &SpaceTlb, order: &mut Order<'_>) {
        if !self.range.is_empty() {
            let tables = !self.leaves.is_empty();
            let proof = Flushed::by_flushing::<M>(space, self.range, &self.viewers, tables, self.cause);
            self.range = FlushRange::EMPTY;
            self.viewers = CpuSet::EMPTY;
            for page in self.entries.drain(..) {
                Retired::entry::<M>(page, proof);
            }
            if !self.aside.is_empty() {
                self.free_aside::<M>(proof);
            }
            if !self.blocks.is_empty() {
                self.free_blocks(proof);
            }
            for leaf in self.leaves.drain(..) {
                Retired::leave_leaf::<M>(leaf, proof, order);
            }
        }
        for registration in self.left.drain(..) {
            registration.undo(order);
        }
        self.removed.let_go();
    }
}

impl Gather<'_> {
    #[cold]
    #[inline(never)]
    fn free_blocks(&mut self, proof: Flushed<'_>) {
        for block in self.blocks.drain(..) {
            Retired::block(block, proof);
        }
    }

    /// In a frame of its own: what has nothing aside pays nothing for it.
    #[cold]
    #[inline(never)]
    fn free_aside<M: Machine>(&mut self, proof: Flushed<'_>) {
        for page in core::mem::take(&mut self.aside) {
            Retired::entry::<M>(page, proof);
        }
    }
}

impl Drop for Gather<'_> {
    fn drop(&mut self) {
        debug_assert!(self.range.is_empty() && self.left.is_empty(), "what was gathered was not flushed");
    }
}
