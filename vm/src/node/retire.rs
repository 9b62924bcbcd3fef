//! The end of nodes and of what they own. The only place where a frame that was mapped is freed.
//!
//! Invariants: FreeAfterFlush. [`Flushed`] is the proof that no CPU holds an old translation, and what it is shown for is used up: a
//! [`Taken`] page, a [`DetachedLeaf`] or an [`OwnedInterior`] node. Tables and metadata wait for an RCU grace period besides, because walkers hold no lock.

use super::flush::{FlushProof, Flushed};
use super::{DetachedLeaf, Locked, Node, OwnedInterior, RegisteredLeaf, Taken};
use crate::frame::{self, Frame, OwnedFrame};
use crate::machine::{Entry, Machine};
use crate::order::Order;
use crate::protocol::leaf as protocol;
use crate::swap::SlotRef;
use alloc::boxed::Box;
use core::ptr::NonNull;

/// Nodes on their way out.
pub struct Retired;

impl Retired {
    /// Drops the reference that came with what was taken out, if it owned one.
    #[inline]
    pub fn entry<M: Machine>(page: Taken, proof: impl FlushProof) {
        proof.check(page.origin, page.taken);
        // SAFETY: taken out once, and every CPU has flushed since.
        unsafe { Self::drop_reference::<M>(*page) }
    }

    /// # Safety
    /// If the entry, which was a leaf's, owned a frame, its reference is the caller's, and no CPU has a translation through the entry.
    #[inline]
    unsafe fn drop_reference<M: Machine>(entry: Entry) {
        if entry.owns_frame() {
            // SAFETY: as the caller promises.
            unsafe { frame::release(Frame::of(entry.address::<M>())) };
        } else {
            Self::drop_slot(entry);
        }
    }

    /// Gives back the count of a slot, if the entry, which was a leaf's, had one.
    #[inline]
    fn drop_slot(entry: Entry) {
        drop(entry.swap_place().map(SlotRef::of_entry));
    }

    /// The frame of a private page that was taken out, if nobody else refers to it: it is nobody's page any more. Else the reference is dropped.
    pub fn into_frame<M: Machine>(page: Taken, proof: impl FlushProof) -> Option<OwnedFrame> {
        proof.check(page.origin, page.taken);
        // SAFETY: such an entry has a frame's address.
        let frame = page.owns_frame().then(|| unsafe { Frame::of(page.address::<M>()) });
        match frame.filter(|frame| frame.refs() == 1) {
            // SAFETY: the reference came with the entry, and is the only one; every CPU has flushed since it was taken out.
            Some(frame) => Some(unsafe { OwnedFrame::from_private(frame) }),
            None => {
                // SAFETY: as in `entry`.
                unsafe { Self::drop_reference::<M>(*page) };
                None
            }
        }
    }

    /// The space that has flushed no longer uses `leaf`: no entry of its tree leads there. The last sharer's leaving ends the leaf. Returns
    /// how many pages were mapped by it.
    pub fn leave_leaf<M: Machine>(
        leaf: DetachedLeaf<'_>,
        proof: Flushed<'_>,
        order: &mut Order<'_>,
    ) -> usize {
        proof.check_leaf(&leaf);
        let node = leaf.node();
        let mut mapped = 0;
        let last = |locked: &mut Locked<'_>| {
            mapped = usize::from(locked.present()).saturating_sub(locked.node().swapped_pages());
            let place = locked.sharers.as_slice().iter().position(|s| s.is(proof.space()));
            debug_assert!(place.is_some(), "a space leaves a leaf that it does not use");
            if let Some(place) = place {
                locked.sharers.swap_remove(place);
            }
            locked.sharers.is_empty()
        };
        let Some(mut locked) = protocol::leave(node.lock(order), last) else { return mapped };
        locked.stray = true;
        let used = locked.used();
        let present = usize::from(locked.present());
        let private = locked.private() > 0;
        let block = locked.large.take();
        let registrations = locked.registrations.take();
        let segments = locked.segments.clear();
        drop(locked);
        // The leaf is stray and unreachable: only reverse-map visits may still look, at entries that own nothing.
        if let Some(block) = block {
            // SAFETY: as below, of all entries.
            unsafe { frame::release_block(block.end()) };
        } else if private {
            for (_, entry) in node.entries(used.clone()).take(present) {
                if entry.owns_frame() {
                    // SAFETY: nobody takes an entry out of a leaf that no space uses, and each that used it has flushed.
                    unsafe { frame::release(Frame::of(entry.address::<M>())) };
                }
            }
            if node.counts().may_have_swapped() {
                node.entries(used).take(present).for_each(|(_, entry)| Self::drop_slot(entry));
            }
        }
        for r in registrations.as_slice() {
            r.undo(order);
        }
        drop((registrations, segments));
        // SAFETY: published; no space uses it, and the last one has detached it, flushed and left it just now.
        unsafe { Self::free(node) };
        mapped
    }

    /// Frees an interior node that nothing leads to, after a grace period.
    pub fn interior(node: OwnedInterior, _proof: Flushed<'_>) {
        // SAFETY: published; its one space has detached it, which happens once, and has flushed.
        unsafe { Self::free(node.node()) };
    }

    /// Frees a node after a grace period.
    ///
    /// # Safety
    /// The node was published. Nothing leads to it any more, no CPU walks through it, and it is freed once.
    unsafe fn free(node: &Node) {
        // SAFETY: `NewNode::publish` leaked this box; the rest is the caller's promise.
        let node = unsafe { Box::from_raw(NonNull::from(node).as_ptr()) };
        protocol::free(node, sync::rcu::defer_box);
    }

    /// A new leaf that could not be put in: the references that its entries took are given back. There is nothing to flush.
    pub fn unused<M: Machine>(leaf: RegisteredLeaf, order: &mut Order<'_>) {
        // If it is on an object's list, visits of the reverse map know it: the lists first, then what it holds.
        let mut locked = leaf.node().lock(order);
        locked.stray = true;
        let registrations = locked.registrations.take();
        let segments = locked.segments.clear();
        let used = locked.used();
        drop(locked);
        for r in registrations.as_slice() {
            r.undo(order);
        }
        for index in used {
            // SAFETY: stray, so nobody takes the entry out, and no hardware ever found the table.
            unsafe { Self::drop_reference::<M>(leaf.node().peek(index)) };
        }
        drop((registrations, segments));
        sync::rcu::defer_box(leaf.into_box());
    }
}
