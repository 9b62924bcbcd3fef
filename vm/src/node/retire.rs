//! The end of nodes and of what they own. The only place where a frame that was mapped is freed.
//!
//! Invariants: FreeAfterFlush. [`Flushed`](super::flush::Flushed) is the proof that no CPU holds an old translation; tables and
//! metadata wait for an RCU grace period besides, because walkers hold no lock.

use super::flush::Flushed;
use super::{Locked, NewNode, Node, Sharer};
use crate::frame::{self, Frame};
use crate::machine::{Entry, Machine};
use crate::order::Order;
use crate::protocol::leaf as protocol;
use crate::tlb::SpaceTlb;
use alloc::boxed::Box;
use core::ptr::NonNull;

/// Nodes on their way out.
pub struct Retired;

impl Retired {
    /// Drops the reference that a cleared entry held, if it owned one.
    #[inline]
    pub fn entry<M: Machine>(entry: Entry, _proof: &Flushed) {
        if entry.owns_frame::<M>() {
            // SAFETY: an owning entry held one reference; the caller cleared it and every CPU has flushed since.
            unsafe { frame::release(Frame::of(M::address(entry))) };
        }
    }

    /// `space` no longer uses `leaf`: no entry of its tree leads there. The last sharer's leaving ends the leaf. Returns how many
    /// pages were mapped by it.
    pub fn leave_leaf<M: Machine>(
        leaf: &Node,
        space: &SpaceTlb,
        proof: &Flushed,
        order: &mut Order<'_>,
    ) -> usize {
        let mut mapped = 0;
        let last = |locked: &mut Locked<'_>| {
            mapped = usize::from(locked.present());
            let me = Sharer::new(space);
            let place = locked.sharers.as_slice().iter().position(|s| *s == me);
            debug_assert!(place.is_some(), "a space leaves a leaf twice");
            if let Some(place) = place {
                locked.sharers.swap_remove(place);
            }
            locked.sharers.is_empty()
        };
        let Some(mut locked) = protocol::leave(leaf.lock(order), last) else { return mapped };
        locked.stray = true;
        let used = locked.used();
        let mut left = locked.present();
        let private = locked.private() > 0;
        let registrations = locked.registrations.take();
        let segments = locked.segments.clear();
        drop(locked);
        // The leaf is stray and unreachable: only reverse-map visits may still look, at entries that own nothing.
        if private {
            for index in used {
                let entry = leaf.peek(index);
                if !entry.is_absent() {
                    Self::entry::<M>(entry, proof);
                    left -= 1;
                    if left == 0 {
                        break;
                    }
                }
            }
        }
        for r in registrations.as_slice() {
            r.object.unregister(&r.place, order);
        }
        drop((registrations, segments));
        Self::node(leaf, proof);
        mapped
    }

    /// Frees a node that nothing leads to, after a grace period.
    pub fn node(node: &Node, _proof: &Flushed) {
        // SAFETY: published by `NewNode::publish` from a box; detached from every space, so this happens once.
        let node = unsafe { Box::from_raw(NonNull::from(node).as_ptr()) };
        sync::rcu::defer_box(node);
    }

    /// A new leaf that could not be put in: the references that its entries took are given back.
    pub fn unused<M: Machine>(leaf: NewNode, proof: &Flushed, order: &mut Order<'_>) {
        // If it is on an object's list, visits of the reverse map know it: the lists first, then what it holds.
        let mut locked = leaf.node().lock(order);
        locked.stray = true;
        let registrations = locked.registrations.take();
        let segments = locked.segments.clear();
        let used = locked.used();
        drop(locked);
        for r in registrations.as_slice() {
            r.object.unregister(&r.place, order);
        }
        for index in used {
            Self::entry::<M>(leaf.node().peek(index), proof);
        }
        drop((registrations, segments));
        sync::rcu::defer_box(leaf.0);
    }
}
