//! What is in an entry, while its leaf is locked, and what comes out of one.

use super::flush::{DebugOnly, Extent, Moment};
use super::segment::Segment;
use super::{Locked, Node};
use crate::addr::PhysAddr;
use crate::frame::{Frame, Pin, SharedBytesMut};
use crate::machine::{Entry, Machine};
use crate::protocol::share::{self, Write};
use crate::protocol::{evict, leaf};
use crate::request::Prot;
use crate::swap::SlotRef;
use core::marker::PhantomData;
use core::ops::Deref;
use core::sync::atomic::AtomicBool;

/// The frame of a page.
///
/// # Safety
/// The entry, of a leaf, is neither absent nor away.
#[inline]
unsafe fn frame_of<M: Machine>(entry: Entry) -> &'static Frame {
    // SAFETY: such an entry has a frame's address, which `Locked` put there.
    unsafe { Frame::of(entry.address::<M>()) }
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
///
/// And nobody puts one into another leaf, which might not be on the list of the object whose page it is, or not have the pool that owns it. See
/// [`OwnPage`]:
///
/// ```compile_fail,E0308
/// fn elsewhere<M: vm::Machine>(leaf: &mut vm::node::Locked<'_>, page: vm::node::Taken) {
///     leaf.fill_own::<M>(0, page);
/// }
/// ```
#[must_use = "the frame is never freed"]
pub struct Taken {
    entry: Entry,
    pub(super) origin: DebugOnly<Extent>,
    pub(super) taken: DebugOnly<Moment>,
}

impl Deref for Taken {
    type Target = Entry;
    #[inline]
    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl Taken {
    #[inline]
    /// Taken out just now.
    pub(super) fn new(entry: Entry, origin: DebugOnly<Extent>) -> Self {
        Self { entry, origin, taken: DebugOnly::new(Moment::now) }
    }

    /// With debug assertions: panics if this did not come out of entry `index` of `node`.
    #[inline]
    pub(super) fn assert_from(&self, node: &Node, index: u16) {
        Extent::check_entry(self.origin, node, index);
    }
}

/// A private page that was taken out, with a reference of its own to the frame, or in swap with a count of its slot: no leaf's pool has it, and no object. So any leaf may have it.
#[must_use = "the frame is never freed"]
pub struct OwnPage(Taken);

impl OwnPage {
    /// Of a private page.
    #[inline]
    pub(super) fn new<M: Machine>(mut page: Taken) -> Self {
        debug_assert!(page.is_private());
        if page.is_pooled() {
            // SAFETY: a private page.
            unsafe { frame_of::<M>(page.entry) }.get();
            page.entry = page.entry.owning();
        }
        Self(page)
    }

    /// To be freed, or put back where it was.
    #[inline]
    pub fn into_taken(self) -> Taken {
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
    #[inline]
    pub(super) fn new(locked: &'l Locked<'_>, index: u16, entry: Entry) -> Self {
        Self { node: locked.node(), index, entry, _locked: PhantomData }
    }

    /// Does it lead to a page?
    #[inline]
    pub fn is_page(&self) -> bool {
        self.node.is_leaf() && !self.entry.is_absent() && !self.entry.is_away()
    }

    /// A reference to a private page, if the entry has one of its own.
    #[inline]
    pub fn pin<M: Machine>(&self) -> Option<Pin> {
        // SAFETY: the entry, which no table's is, has a reference and keeps it while the leaf is locked; who takes it out drops it only
        // after a flush.
        self.entry.owns_frame().then(|| unsafe { Pin::new(frame_of::<M>(self.entry)) })
    }

    /// The page, if it can go to swap: nobody but this entry refers to it.
    pub fn can_go_out<M: Machine>(&self) -> bool {
        self.entry.owns_frame() && self.frame::<M>().is_some_and(|frame| frame.refs() == 1)
    }

    /// Has a program used the page? A CPU that has the translation notes nothing.
    #[inline]
    pub fn was_used<M: Machine>(&self) -> bool {
        self.is_page() && self.entry.0 & M::ACCESSED != 0
    }

    /// The same, since this was asked last.
    pub fn take_use<M: Machine>(&self) -> bool {
        self.was_used::<M>() && leaf::take_bits(self.node.cell(self.index), M::ACCESSED)
    }

    /// The bytes of the page, which the entry keeps in memory while the leaf is locked. Programs may read and write them meanwhile.
    pub fn bytes<M: Machine>(&self) -> Option<SharedBytesMut<'l>> {
        // SAFETY: see above. To a page that programs map, nobody makes a reference.
        self.is_page().then(|| unsafe { frame_of::<M>(self.entry).shared_bytes() })
    }

    /// The frame of the page, if there is one.
    #[inline]
    pub fn frame<M: Machine>(&self) -> Option<&'static Frame> {
        let is_page = !self.entry.is_absent() && !self.entry.is_away();
        // SAFETY: so it is a page's, or a table's.
        is_page.then(|| unsafe { frame_of::<M>(self.entry) })
    }

    /// One more count of the slot, for who reads the page, if it is in swap.
    pub fn hold_slot(&self) -> Option<SlotRef> {
        self.entry.swap_place().map(SlotRef::hold)
    }

    /// Gives the program other rights to the same page, but not the one to write if it has not got it: that takes a fault ([`Self::write`]).
    /// Nothing happens if there is no page.
    #[inline]
    pub fn protect<M: Machine>(&self, prot: Prot) {
        let keep_write = M::is_writable(self.entry) && prot.contains(Prot::WRITE);
        self.set_prot::<M>(if keep_write { prot } else { prot.without_write() });
    }

    /// A write to the page, which is there, in a leaf that is the space's own: if nobody else has the page, gives the program the rights that
    /// `segment` says; else says what comes first (CopyBeforeWrite).
    #[inline]
    pub fn write<M: Machine>(&self, segment: &Segment, forking: &AtomicBool) -> Write {
        if segment.attrs.is_shared() {
            return self.write_shared::<M>(segment, forking);
        }
        let references = || self.frame::<M>().map_or(u32::MAX, Frame::refs);
        let write = share::write::<M>(self.entry, false, references, forking);
        if write == Write::InPlace {
            // The same frame with more rights: nobody needs to flush.
            self.set_prot::<M>(segment.attrs.prot);
        }
        write
    }

    /// The same of memory that others share. Where its contents are the pager's the page must be dirty first (DirtyBeforeWritable).
    fn write_shared<M: Machine>(&self, segment: &Segment, forking: &AtomicBool) -> Write {
        let write = share::write::<M>(self.entry, true, || u32::MAX, forking);
        if write == Write::InPlace {
            let is_dirty = || {
                let (object, page) = segment.object_page(self.index)?;
                object.is_dirty_for(page, self.entry.address::<M>(), self).then_some(())
            };
            if segment.attrs.is_tracked() && is_dirty().is_none() {
                return Write::Dirty;
            }
            self.set_prot::<M>(segment.attrs.prot);
        }
        write
    }

    /// Takes the right to write away, if the entry shows `frame` as an object's page; says whether it had it.
    pub fn take_write<M: Machine>(&self, frame: PhysAddr) -> bool {
        let writes = evict::shows::<M>(self.entry, frame) && self.is_page() && M::is_writable(self.entry);
        if writes {
            debug_assert!(!self.node.counts().is_large());
            leaf::exchange(self.node.cell(self.index), M::read_only(self.entry));
        }
        writes
    }

    #[inline]
    fn set_prot<M: Machine>(&self, prot: Prot) {
        debug_assert!(!self.node.counts().is_large(), "an entry of a large leaf changes");
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
