//! The operations on a locked node.
//!
//! Invariants: LeafOwns; the counts agree with the entries; a software write to an entry that the hardware may be using is
//! an atomic exchange, so that accessed and dirty bits are not lost.
//!
//! What is put into an entry says what it is by its type: a frame that nobody else has ([`OwnedFrame`]), the page of zeros, pages that are read
//! from an object's slots here and now (ReadSlotUnderLeaf), a page that was taken out of another leaf ([`Taken`]), a new node. Nobody
//! outside of `node` makes an entry up, or writes one without the lock:
//!
//! ```compile_fail,E0624
//! fn map_anything<M: vm::Machine>(leaf: &mut vm::node::Locked<'_>, frame: vm::PhysAddr) {
//!     leaf.fill::<M>(0, vm::Entry::page::<M>(frame, vm::Prot::READ, false));
//! }
//! ```
//!
//! ```compile_fail,E0624
//! fn write_unlocked(leaf: &vm::node::Node) {
//!     leaf.cell(0).store(0, core::sync::atomic::Ordering::Relaxed);
//! }
//! ```
//!
//! What an entry owned comes out of a leaf as a [`Taken`] and what an entry led to as a [`DetachedLeaf`]: values that are used up when they are
//! freed or put back. A space is reached from a leaf's list only with the leaf locked and within an RCU section, so any other reference is
//! no proof:
//!
//! ```compile_fail,E0308
//! fn space_of(leaf: &vm::node::Locked<'_>) -> u64 {
//!     leaf.spaces(&17).map(|space| space.id()).sum()
//! }
//! ```

use super::flush::{DebugOnly, Extent};
use super::segment::{MappingAttrs, Segment};
use super::{
    DetachedLeaf, LockedEntry, NewNode, Node, NodeState, OwnPage, RegisteredLeaf, Taken, UpperUsed, Used,
    node_of,
};
use crate::addr::PhysAddr;
use crate::frame::{self, OwnedFrame};
use crate::machine::{Entry, Machine};
use crate::object::ObjectRef;
use crate::order::Leaf;
use crate::protocol::{busy, leaf};
use crate::request::Prot;
use crate::swap::SlotRef;
use crate::tlb::SpaceTlb;
use core::ops::{Deref, DerefMut, Range};
use core::sync::atomic::Ordering;
use sync::rcu::RcuRead;
use sync::{CpuId, SpinGuard};

/// Pages of an object mapped at once around a fault, where they are resident: one line of entries holds 8.
const AROUND: u16 = 16;

/// What mapping a page of an object came to.
pub enum MapObject {
    /// It is mapped, and so many pages in all.
    Mapped(u16),
    /// This page of the object is not resident.
    NotResident(ObjectRef, u64),
    /// No object is mapped there.
    Nothing,
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

    /// The entry, as it is while it is borrowed.
    #[inline]
    pub fn look(&self, index: u16) -> LockedEntry<'_> {
        LockedEntry::new(self, index, self.entry(index))
    }

    /// Entries that are not absent.
    #[inline]
    pub fn present(&self) -> u16 {
        self.node.counts.present()
    }

    /// Of these, private memory.
    #[inline]
    pub fn private(&self) -> u16 {
        self.node.counts.private()
    }

    /// Entries that may be other than absent, lines of absent ones left out.
    #[inline]
    pub fn used(&self) -> Used {
        self.node.counts.used()
    }

    /// Entries of `range` that may be other than absent.
    #[inline]
    pub fn used_in(&self, range: &Range<u16>) -> Used {
        self.node.counts.used_in(range)
    }

    /// Entries of this interior node from `first` on that may be other than absent.
    #[inline]
    pub fn upper_used_from(&self, first: u16) -> UpperUsed {
        debug_assert!(!self.node.is_leaf());
        self.node.counts.upper_used_from(first)
    }

    /// The spaces that use the leaf: a space takes itself off its leaves before its TLB state waits for a grace period and goes, so what is
    /// found on the list under the lock stays until the RCU section ends.
    pub fn spaces<'r>(
        &self,
        _rcu: &'r RcuRead,
    ) -> impl DoubleEndedIterator<Item = &'r SpaceTlb> + ExactSizeIterator {
        // SAFETY: see above.
        self.state.sharers.as_slice().iter().map(|sharer| unsafe { sharer.space() })
    }

    /// Does no segment speak for an entry of `range`? Where an interior node has children, they say the rest.
    #[inline]
    pub fn is_free(&self, range: &Range<u16>) -> bool {
        !self.segments.any_in(range) || (!self.node.is_leaf() && self.is_free_beside_children(range))
    }

    #[cold]
    fn is_free_beside_children(&self, range: &Range<u16>) -> bool {
        let within = |s: &Segment| s.start.max(range.start)..s.end.min(range.end);
        self.segments.as_slice().iter().all(|s| within(s).all(|index| !self.entry(index).is_absent()))
    }

    /// Changes what is mapped in `range`: not what is in quarantine.
    #[inline]
    pub fn update_mapped(&mut self, range: Range<u16>, mut change: impl FnMut(&mut MappingAttrs)) {
        let shift = self.node.shift();
        self.node.counts.forget_sizes();
        self.state.segments.update(range, shift, |attrs| {
            if !attrs.is_quarantine() {
                change(attrs);
            }
        });
    }

    /// Sets an absent entry.
    #[inline]
    pub(super) fn fill<M: Machine>(&mut self, index: u16, entry: Entry) {
        debug_assert!(self.entry(index).is_absent() && !entry.is_absent());
        self.assert_kind::<M>(entry);
        leaf::fill(self.node.cell(index), entry);
        self.count_in(index, entry);
    }

    /// Sets an absent entry to a page that the leaf will own.
    #[inline(always)]
    pub fn fill_owned<M: Machine>(&mut self, index: u16, frame: OwnedFrame, prot: Prot) {
        let entry = Entry::page::<M>(frame.into_private().addr(), prot, true);
        debug_assert!(self.entry(index).is_absent() && self.node.is_leaf());
        self.assert_kind::<M>(entry);
        leaf::fill(self.node.cell(index), entry);
        self.node.counts.count_in(index, true);
    }

    /// Sets an absent entry to the page of zeros.
    #[inline(always)]
    pub fn fill_zero_page<M: Machine>(&mut self, index: u16, prot: Prot) {
        let zeros = frame::zero_frame().addr();
        self.fill::<M>(index, Entry::page::<M>(zeros, prot.without_write(), false));
    }

    /// Maps the page of the object at `index`, and its neighbours where they are resident and not mapped yet: from slots that are read under
    /// this lock (ReadSlotUnderLeaf), of an object on whose list the leaf is (RegisterBeforeMap). Writes no line of the object and none
    /// of the frames.
    #[inline]
    pub fn map_object<M: Machine>(&mut self, index: u16) -> MapObject {
        let mut frames = [PhysAddr(0); AROUND as usize];
        let (low, rights);
        {
            let Some(segment) = self.segments.find(index) else { return MapObject::Nothing };
            low = (index & !(AROUND - 1)).max(segment.start);
            let high = ((index | (AROUND - 1)) + 1).min(segment.end);
            let Some((object, first)) = segment.object_page(low) else { return MapObject::Nothing };
            debug_assert!(
                segment.object_pages().is_some_and(|(object, pages)| self.is_registered(object, pages)),
                "RegisterBeforeMap: the leaf is not on the object's list, or not for this page"
            );
            let around = frames.get_mut(..usize::from(high - low)).unwrap_or_default();
            object.resident(first, around, self);
            let at = usize::from(index - low);
            if around.get(at).is_none_or(|frame| frame.0 == 0) {
                return MapObject::NotResident(object.clone(), first + at as u64);
            }
            // An object that keeps its pages itself need not know which were written, so a shared mapping of it is writable from the start.
            rights = segment.attrs.object_rights();
        }
        MapObject::Mapped(self.fill_run::<M>(low, &frames, rights))
    }

    /// Sets the absent ones of the entries from `first` on to pages that belong to an object: those of `frames` that are not 0.
    /// Returns how many it set.
    #[inline]
    fn fill_run<M: Machine>(&mut self, first: u16, frames: &[PhysAddr], prot: Prot) -> u16 {
        let rights = Entry::page::<M>(PhysAddr(0), prot, false).0;
        let mut count = 0;
        for (cell, frame) in self.node.cells(first, frames.len()).iter().zip(frames) {
            if frame.0 != 0 && cell.load(Ordering::Relaxed) == 0 {
                leaf::fill(cell, Entry(rights | frame.0));
                count += 1;
            }
        }
        if count > 0 {
            let last = first + (frames.len() - 1) as u16;
            self.node.counts.count_in_run(first, last, count);
        }
        count
    }

    /// Writes a private entry anew that says the same of the same page, but grants no more and may be pooled now. The leaf is shared, so no
    /// translation in any TLB is writable.
    #[inline]
    pub(super) fn restate(&mut self, index: u16, entry: Entry) {
        self.assert_split();
        leaf::fill(self.node.cell(index), entry);
    }

    /// Puts `node`, an interior node, under an absent entry of this interior node.
    #[inline]
    pub fn fill_node<M: Machine>(&mut self, index: u16, node: NewNode) {
        debug_assert!(!self.node.is_leaf() && !node.node().is_leaf());
        self.fill::<M>(index, node.publish::<M>(true));
    }

    /// Puts `leaf` under an absent entry of this interior node.
    #[inline]
    pub fn fill_leaf<M: Machine>(&mut self, index: u16, leaf: RegisteredLeaf) {
        debug_assert!(!self.node.is_leaf());
        self.fill::<M>(index, leaf.publish::<M>());
    }

    /// Sets an absent entry to a page that another leaf owned, in a mapping that allows `prot`. It cannot be written until the next fault.
    #[inline]
    pub fn fill_own<M: Machine>(&mut self, index: u16, page: OwnPage, prot: Prot) {
        debug_assert!(self.node.is_leaf());
        let page = page.into_taken();
        if page.is_away() {
            self.node.counts.note_swapped();
            return self.fill::<M>(index, *page);
        }
        self.fill::<M>(index, page.with_prot::<M>(prot.without_write()));
    }

    /// Takes out whatever the entry is.
    #[inline]
    pub fn take<M: Machine>(&mut self, index: u16) -> Taken {
        self.exchange::<M>(index, Entry::ABSENT)
    }

    /// As `take`, of a leaf.
    #[inline]
    pub fn take_page<M: Machine>(&mut self, index: u16) -> Taken {
        debug_assert!(self.node.is_leaf());
        self.assert_split();
        let old = leaf::exchange(self.node.cell(index), Entry::ABSENT);
        self.assert_kind::<M>(old);
        if !old.is_absent() {
            self.node.counts.count_out(old.is_private());
        }
        Taken::new(old, DebugOnly::new(|| self.extent(index)))
    }

    /// Takes a private page out, together with a reference to its frame, even if the page is pooled. None: there is none, and the entry stays as
    /// it is.
    #[inline]
    pub fn take_private<M: Machine>(&mut self, index: u16) -> Option<OwnPage> {
        self.entry(index).is_private().then(|| OwnPage::new::<M>(self.take::<M>(index)))
    }

    /// Puts a page that the leaf will own in place of what is there.
    #[inline]
    pub fn replace<M: Machine>(&mut self, index: u16, frame: OwnedFrame, prot: Prot) -> Taken {
        self.exchange::<M>(index, Entry::page::<M>(frame.into_private().addr(), prot, true))
    }

    /// Takes a page out and makes the entry busy: `cpu` is replacing it.
    #[inline]
    pub fn make_busy<M: Machine>(&mut self, index: u16, cpu: CpuId) -> Taken {
        let mark = busy::mark(cpu, || self.entry(index));
        self.exchange::<M>(index, mark)
    }

    /// Puts a page back in place of the busy entry that it was taken out for, in a mapping that allows `prot`. It cannot be written until the next fault.
    #[inline]
    pub fn put_back<M: Machine>(&mut self, index: u16, page: Taken, prot: Prot) {
        page.assert_from(self.node, index);
        let busy = self.exchange::<M>(index, busy::back::<M>(*page, prot));
        debug_assert!(busy.is_busy());
    }

    /// Puts a page in swap in place of the busy entry that it was taken out for. The entry has the count of the slot.
    pub fn put_in_swap<M: Machine>(&mut self, index: u16, slot: SlotRef) {
        let busy = self.exchange::<M>(index, slot.into_entry());
        debug_assert!(busy.is_busy());
        self.node.counts.note_swapped();
    }

    /// Sets an absent entry of this new copy of a leaf to a page in swap that the other leaf has too.
    pub(super) fn fill_swapped<M: Machine>(&mut self, index: u16, slot: SlotRef) {
        self.fill::<M>(index, slot.into_entry());
        self.node.counts.note_swapped();
    }

    /// Puts a page that the leaf will own in place of one in swap, which is in `frame`, in a mapping that allows `prot`. What comes out is the entry's count of the slot. No CPU can have a
    /// translation.
    pub fn bring_back<M: Machine>(&mut self, index: u16, frame: OwnedFrame, prot: Prot) -> Option<SlotRef> {
        let swapped = self.replace::<M>(index, frame, prot);
        debug_assert!(swapped.swap_place().is_some());
        swapped.swap_place().map(SlotRef::of_entry)
    }

    /// Takes out the entry of this node of level 1 that leads to a leaf, if it leads to one. By one swap: a shared leaf may be exchanged for a
    /// copy at any moment.
    #[inline]
    pub fn detach<'r, M: Machine>(&mut self, index: u16, rcu: &'r RcuRead) -> Option<DetachedLeaf<'r>> {
        debug_assert_eq!(self.node.level(), 1);
        let old = *self.exchange::<M>(index, Entry::ABSENT);
        // SAFETY: an interior node's entry, taken out within this section.
        old.table::<M>().map(|table| DetachedLeaf::new(unsafe { node_of(table, rcu) }))
    }

    /// With debug assertions: panics if the entry is of no kind that is found here.
    #[inline]
    fn assert_kind<M: Machine>(&self, entry: Entry) {
        if cfg!(not(debug_assertions)) {
        } else if self.node.is_leaf() {
            entry.in_leaf::<M>();
        } else {
            entry.in_upper::<M>();
        }
    }

    /// Where entry `index` lies, and whose it is.
    pub(super) fn extent(&self, index: u16) -> Extent {
        let space = match self.sharers.as_slice() {
            [only] => only.address(),
            _ => 0,
        };
        let (start, end) = (self.node.address(index), self.node.address(index) + self.node.span());
        Extent { space, leaf: core::ptr::from_ref(self.node).addr(), start, end }
    }

    /// Entry `index` is `entry`, and was absent.
    #[inline]
    fn count_in(&self, index: u16, entry: Entry) {
        if self.node.is_leaf() {
            self.node.counts.count_in(index, entry.is_private());
        } else {
            self.node.counts.count_in_upper(index);
        }
    }

    /// With debug assertions: panics if the entries show a block whole, which is split before one of them changes (large.rs).
    #[inline]
    fn assert_split(&self) {
        debug_assert!(!self.is_large(), "an entry of a large leaf changes");
    }

    /// Exchanges an entry, whatever it is.
    #[inline]
    fn exchange<M: Machine>(&mut self, index: u16, entry: Entry) -> Taken {
        self.assert_split();
        let old = leaf::exchange(self.node.cell(index), entry);
        self.assert_kind::<M>(old);
        if !old.is_absent() {
            self.node.counts.count_out(self.node.is_leaf() && old.is_private());
        }
        if !entry.is_absent() {
            self.count_in(index, entry);
        }
        Taken::new(old, DebugOnly::new(|| self.extent(index)))
    }
}

impl Deref for Locked<'_> {
    type Target = NodeState;
    #[inline]
    fn deref(&self) -> &NodeState {
        &self.state
    }
}

/// Segments are changed by way of this, and what they come to is not known afterwards.
impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut NodeState {
        self.node.counts.forget_sizes();
        &mut self.state
    }
}
