//! What a node's lock guards, and the operations on a locked node.
//!
//! Invariants: LeafOwns; the counts agree with the entries; a software write to an entry that the hardware may be using is
//! an atomic exchange, so that accessed and dirty bits are not lost.
//!
//! What an entry owned comes out of a leaf as a [`Taken`] and what an entry led to as a [`Detached`]: values that are used up when they are
//! freed or put back. A space is reached from a leaf's list only with the leaf locked and within an RCU section, so any other reference is
//! no proof:
//!
//! ```compile_fail,E0308
//! fn space_of(leaf: &vm::node::Locked<'_>) -> u64 {
//!     leaf.spaces(&17).map(|space| space.id()).sum()
//! }
//! ```

use super::flush::{DebugOnly, Extent};
use super::segment::{MappingAttrs, SegmentList};
use super::{NewNode, Node, PoolShare, node_of};
use crate::addr::{ENTRIES, PhysAddr};
use crate::frame::{Frame, OwnedFrame, Pin, SharedBytesMut};
use crate::machine::{CpuSet, Entry, Machine};
use crate::object::ObjectRef;
use crate::order::Leaf;
use crate::protocol::{busy, leaf};
use crate::request::Prot;
use crate::small::SmallList;
use crate::tlb::SpaceTlb;
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use sync::rcu::RcuRead;
use sync::{CpuId, SpinGuard};

/// A space that uses a leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sharer(NonNull<SpaceTlb>);

// SAFETY: stands for a `&SpaceTlb`, and `SpaceTlb` is `Sync`.
unsafe impl Send for Sharer {}

impl Sharer {
    pub fn new(tlb: &SpaceTlb) -> Self {
        Self(NonNull::from(tlb))
    }
}

/// "This leaf is on that object's list": where, so that it can be taken off.
pub struct Registration {
    pub object: ObjectRef,
    pub place: crate::object::rmap::Place,
}

/// What a node's lock guards.
pub struct NodeState {
    /// Interior nodes: the space is gone. (Leaves: see `WalkPath::enter`.)
    pub stray: bool,
    /// Entries that are not absent.
    present: u16,
    /// Of these, private memory: entries that own a reference to their frame, or are pooled.
    private: u16,
    /// Bit `g`: among the entries `8 * g..8 * g + 8`, one line, some may be other than absent.
    groups: u64,
    pub segments: SegmentList,
    /// Spaces that use the leaf; one, unless fork shared it. Unused in interior nodes.
    pub sharers: SmallList<Sharer, 2>,
    /// Objects on whose lists the leaf is (RegisterBeforeMap): all that its segments name.
    pub registrations: SmallList<Registration, 2>,
    /// CPUs whose views (space/view.rs) link to the leaf, or did so: all CPUs with a view that may hold translations through it.
    pub viewers: CpuSet,
    /// Has the references to the frames of pooled entries (PooledByFamily).
    pub pool: Option<Arc<PoolShare>>,
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
            pool: None,
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

    /// The entry, as it is while it is borrowed.
    #[inline]
    pub fn look(&self, index: u16) -> LockedEntry<'_> {
        LockedEntry { node: self.node, index, entry: self.entry(index), _locked: PhantomData }
    }

    /// The spaces that use the leaf: a space takes itself off its leaves before its TLB state waits for a grace period and goes, so what is
    /// found on the list under the lock stays until the RCU section ends.
    pub fn spaces<'r>(
        &self,
        _rcu: &'r RcuRead,
    ) -> impl DoubleEndedIterator<Item = &'r SpaceTlb> + ExactSizeIterator {
        // SAFETY: see above.
        self.state.sharers.as_slice().iter().map(|sharer| unsafe { sharer.0.as_ref() })
    }

    /// Entries of `range` that may be other than absent.
    #[inline]
    pub fn used_in(&self, range: &Range<u16>) -> Used {
        Used { groups: self.state.groups, at: range.start, end: range.end }
    }

    /// Changes what is mapped in `range`: not what is in quarantine.
    #[inline]
    pub fn update_mapped(&mut self, range: Range<u16>, mut change: impl FnMut(&mut MappingAttrs)) {
        let shift = self.node.shift();
        self.state.segments.update(range, shift, |attrs| {
            if !attrs.is_quarantine() {
                change(attrs);
            }
        });
    }

    /// Sets an absent entry.
    #[inline]
    pub fn fill<M: Machine>(&mut self, index: u16, entry: Entry) {
        debug_assert!(self.entry(index).is_absent() && !entry.is_absent());
        self.assert_kind::<M>(entry);
        leaf::fill(self.node.cell(index), entry);
        let private = self.node.is_leaf() && entry.is_private();
        self.state.count_in(index, private);
    }

    /// Sets an absent entry to a page that the leaf will own.
    #[inline]
    pub fn fill_owned<M: Machine>(&mut self, index: u16, frame: OwnedFrame, prot: Prot) {
        let entry = Entry::page::<M>(frame.into_frame().addr(), prot, true);
        debug_assert!(self.entry(index).is_absent() && self.node.is_leaf());
        self.assert_kind::<M>(entry);
        leaf::fill(self.node.cell(index), entry);
        self.state.count_in(index, true);
    }

    /// Sets an absent entry to a page that belongs to an object or is the page of zeros.
    #[inline]
    pub fn fill_borrowed<M: Machine>(&mut self, index: u16, frame: &Frame, prot: Prot) {
        self.fill::<M>(index, Entry::page::<M>(frame.addr(), prot, false));
    }

    /// Sets the absent ones of the entries from `first` on to pages that belong to an object: those of `frames` that are not 0.
    /// Returns how many it set.
    #[inline]
    pub fn fill_borrowed_run<M: Machine>(&mut self, first: u16, frames: &[PhysAddr], prot: Prot) -> u16 {
        let rights = Entry::page::<M>(PhysAddr(0), prot, false).0;
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

    /// Writes a private entry anew that says the same of the same page, but grants no more and may be pooled now. The leaf is shared, so no
    /// translation in any TLB is writable.
    #[inline]
    pub fn restate(&mut self, index: u16, entry: Entry) {
        leaf::fill(self.node.cell(index), entry);
    }

    /// Puts `node` under an absent entry of this interior node.
    #[inline]
    pub fn fill_node<M: Machine>(&mut self, index: u16, node: NewNode) {
        debug_assert!(!self.node.is_leaf());
        self.fill::<M>(index, node.publish::<M>(true));
    }

    /// Sets an absent entry to a page that was taken out elsewhere. It cannot be written until the next fault.
    #[inline]
    pub fn fill_taken<M: Machine>(&mut self, index: u16, page: Taken) {
        self.fill::<M>(index, M::read_only(page.entry));
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
        let old = leaf::exchange(self.node.cell(index), Entry::ABSENT);
        self.assert_kind::<M>(old);
        if !old.is_absent() {
            self.state.count_out(old.is_private());
        }
        Taken { entry: old, origin: DebugOnly::new(|| self.extent(index)) }
    }

    /// Takes a private page out, together with a reference to its frame, even if the page is pooled.
    #[inline]
    pub fn take_private<M: Machine>(&mut self, index: u16) -> Taken {
        let mut old = self.take::<M>(index);
        if old.is_private() && old.is_pooled() {
            Frame::of(old.entry.address::<M>()).get();
            old.entry = old.entry.owning();
        }
        old
    }

    /// Puts a page that the leaf will own in place of what is there.
    #[inline]
    pub fn replace<M: Machine>(&mut self, index: u16, frame: OwnedFrame, prot: Prot) -> Taken {
        self.exchange::<M>(index, Entry::page::<M>(frame.into_frame().addr(), prot, true))
    }

    /// Takes a page out and makes the entry busy: `cpu` is replacing it.
    #[inline]
    pub fn make_busy<M: Machine>(&mut self, index: u16, cpu: CpuId) -> Taken {
        let mark = busy::mark(cpu, || self.entry(index));
        self.exchange::<M>(index, mark)
    }

    /// Puts a page back in place of a busy entry. It cannot be written until the next fault.
    #[inline]
    pub fn put_back<M: Machine>(&mut self, index: u16, page: Taken) {
        let busy = self.exchange::<M>(index, M::read_only(page.entry));
        debug_assert!(busy.is_busy());
    }

    /// Takes out the entry of this interior node that leads to a node, if it leads to one. By one swap: a shared leaf may be exchanged for a
    /// copy at any moment.
    #[inline]
    pub fn detach<'r, M: Machine>(&mut self, index: u16, rcu: &'r RcuRead) -> Option<Detached<'r>> {
        debug_assert!(!self.node.is_leaf());
        let old = self.exchange::<M>(index, Entry::ABSENT).entry;
        old.table::<M>().map(|table| Detached(node_of(Frame::of(table), rcu)))
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
    fn extent(&self, index: u16) -> Extent {
        let space = match self.sharers.as_slice() {
            [only] => only.0.addr().get(),
            _ => 0,
        };
        let (start, end) = (self.node.address(index), self.node.address(index) + self.node.span());
        Extent { space, leaf: core::ptr::from_ref(self.node).addr(), start, end }
    }

    /// Exchanges an entry, whatever it is.
    #[inline]
    fn exchange<M: Machine>(&mut self, index: u16, entry: Entry) -> Taken {
        let old = leaf::exchange(self.node.cell(index), entry);
        self.assert_kind::<M>(old);
        let is_leaf = self.node.is_leaf();
        if !old.is_absent() {
            self.state.count_out(is_leaf && old.is_private());
        }
        if !entry.is_absent() {
            self.state.count_in(index, is_leaf && entry.is_private());
        }
        Taken { entry: old, origin: DebugOnly::new(|| self.extent(index)) }
    }
}

/// What was taken out of an entry, with the reference to a frame that it may have owned. It is put back, put in elsewhere, or freed after
/// a flush ([`Retired::entry`](super::Retired::entry)); each uses it up:
///
/// ```compile_fail,E0382
/// use vm::node::{Retired, Taken, flush::Flushed};
/// fn twice<M: vm::Machine>(page: Taken, proof: Flushed<'_>) {
///     Retired::entry::<M>(page, proof);
///     Retired::entry::<M>(page, proof);
/// }
/// ```
///
/// Nobody makes one of an entry that he made up:
///
/// ```compile_fail,E0451
/// fn forge(entry: vm::Entry) -> vm::node::Taken {
///     vm::node::Taken { entry }
/// }
/// ```
#[must_use = "the frame is never freed"]
pub struct Taken {
    entry: Entry,
    pub(super) origin: DebugOnly<Extent>,
}

impl Deref for Taken {
    type Target = Entry;
    #[inline]
    fn deref(&self) -> &Entry {
        &self.entry
    }
}

/// A node to which an entry led that is gone now. Who takes it out has it leave the space, after a flush; once, since that uses it up:
///
/// ```compile_fail,E0382
/// use vm::node::{Detached, Retired, flush::Flushed};
/// fn twice(node: Detached<'_>, proof: Flushed<'_>) {
///     Retired::node(node, proof);
///     Retired::node(node, proof);
/// }
/// ```
#[must_use = "the node is never freed"]
pub struct Detached<'r>(pub(super) &'r Node);

impl<'r> Detached<'r> {
    #[inline]
    pub fn node(&self) -> &'r Node {
        self.0
    }
}

/// An entry of a locked node. Only its rights change while this is borrowed.
pub struct LockedEntry<'l> {
    node: &'l Node,
    index: u16,
    entry: Entry,
    _locked: PhantomData<&'l Locked<'l>>,
}

impl<'l> LockedEntry<'l> {
    /// Does it lead to a page?
    #[inline]
    fn is_page(&self) -> bool {
        self.node.is_leaf() && !self.entry.is_absent() && !self.entry.is_busy()
    }

    /// A reference to a private page, if the entry has one of its own.
    #[inline]
    pub fn pin<M: Machine>(&self) -> Option<Pin> {
        // SAFETY: the entry, which no table's is, has a reference and keeps it while the leaf is locked; who takes it out drops it only
        // after a flush.
        self.entry.owns_frame().then(|| unsafe { Pin::new(Frame::of(self.entry.address::<M>())) })
    }

    /// The bytes of the page, which the entry keeps in memory while the leaf is locked. Programs may read and write them meanwhile.
    pub fn bytes<M: Machine>(&self) -> Option<SharedBytesMut<'l>> {
        // SAFETY: see above. To a page that programs map, nobody makes a reference.
        self.is_page().then(|| unsafe { Frame::of(self.entry.address::<M>()).shared_bytes() })
    }

    /// Gives the program other rights to the same page. Nothing happens if there is none.
    #[inline]
    pub fn set_prot<M: Machine>(&self, prot: Prot) {
        if self.is_page() {
            leaf::exchange(self.node.cell(self.index), self.entry.with_prot::<M>(prot));
        }
    }
}

impl Deref for LockedEntry<'_> {
    type Target = Entry;
    #[inline]
    fn deref(&self) -> &Entry {
        &self.entry
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
