//! What a node's lock guards, and the operations on a locked node.
//!
//! Invariants: LeafOwns; the counts agree with the entries; a software write to an entry that the hardware may be using is
//! an atomic exchange, so that accessed and dirty bits are not lost.

use super::Node;
use crate::frame::{Frame, OwnedFrame};
use crate::machine::{Entry, Machine};
use crate::object::ObjectRef;
use crate::request::Prot;
use crate::segment::SegmentList;
use crate::small::SmallList;
use crate::tlb::SpaceTlb;
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
    /// Interior nodes: the space is gone. (Leaves: see `Arrival::is_current`.)
    pub stray: bool,
    /// Entries that are not absent.
    present: u16,
    /// Of these, entries that hold a reference to their frame: private memory.
    owned: u16,
    /// All entries that are not absent lie in here.
    used: (u16, u16),
    pub segments: SegmentList,
    /// Spaces that use the leaf; one, unless fork shared it. Unused in interior nodes.
    pub sharers: SmallList<Sharer, 2>,
    /// Objects on whose lists the leaf is (RegisterBeforeMap): all that its segments name.
    pub registrations: SmallList<Registration, 2>,
}

impl NodeState {
    pub(super) const fn new() -> Self {
        Self {
            stray: false,
            present: 0,
            owned: 0,
            used: (u16::MAX, 0),
            segments: SegmentList::new(),
            sharers: SmallList::new(),
            registrations: SmallList::new(),
        }
    }

    pub fn present(&self) -> u16 {
        self.present
    }

    pub fn owned(&self) -> u16 {
        self.owned
    }

    /// Entries outside this range are absent.
    pub fn used(&self) -> Range<u16> {
        if self.present == 0 { 0..0 } else { self.used.0..self.used.1 }
    }

    pub fn is_registered(&self, object: &ObjectRef) -> bool {
        self.registrations.as_slice().iter().any(|r| ObjectRef::ptr_eq(&r.object, object))
    }

    /// Is the leaf used by more than one space?
    pub fn is_shared(&self) -> bool {
        self.sharers.len() > 1
    }

    #[inline]
    fn count_in(&mut self, index: u16, owned: bool) {
        if self.present == 0 {
            self.used = (index, index + 1);
        } else {
            self.used = (self.used.0.min(index), self.used.1.max(index + 1));
        }
        self.present += 1;
        self.owned += u16::from(owned);
    }

    #[inline]
    fn count_out(&mut self, owned: bool) {
        self.present -= 1;
        self.owned -= u16::from(owned);
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
    pub fn used_in(&self, range: &Range<u16>) -> Range<u16> {
        let used = self.state.used();
        let start = used.start.max(range.start);
        start..used.end.min(range.end).max(start)
    }

    /// Sets an absent entry.
    #[inline]
    pub fn fill<M: Machine>(&mut self, index: u16, entry: Entry) {
        debug_assert!(self.entry(index).is_absent() && !entry.is_absent());
        self.node.cell(index).store(entry.0, Ordering::Release);
        let owned = self.node.is_leaf() && !entry.is_busy() && M::is_owned(entry);
        self.state.count_in(index, owned);
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

    /// Takes one more reference to the frame of owning entry `index` for a copy of the leaf, and makes the entry `read_only`: its
    /// leaf is shared, so no translation in any TLB is writable.
    #[inline]
    pub fn share_owned<M: Machine>(&mut self, index: u16, read_only: Entry) {
        Frame::of(M::address(read_only)).get();
        self.node.cell(index).store(read_only.0, Ordering::Release);
    }

    /// Exchanges an entry, whatever it is. The old one's reference, if it owned one, is the caller's.
    #[inline]
    pub fn exchange<M: Machine>(&mut self, index: u16, entry: Entry) -> Entry {
        let old = Entry(self.node.cell(index).swap(entry.0, Ordering::AcqRel));
        let leaf = self.node.is_leaf();
        if !old.is_absent() {
            self.state.count_out(leaf && !old.is_busy() && M::is_owned(old));
        }
        if !entry.is_absent() {
            self.state.count_in(index, leaf && !entry.is_busy() && M::is_owned(entry));
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
