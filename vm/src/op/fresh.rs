//! Mapping where nothing is mapped, while other threads map and unmap. Whether the addresses are free is decided under the lock under which they
//! are taken, so of two threads that want the same addresses one finds something there.
//!
//! In one leaf that is one step. A longer mapping takes its addresses node by node: it first claims them (addresses in quarantine, which nobody has
//! and nobody gets), and then puts the mapping where the claims are. Who finds something in its way gives its claims up.
//!
//! ```text
//!   free ── claim ──> claimed ── settle ──> mapped
//!    ^                   │
//!    └───── give up ─────┘       another node's addresses are not free, or there is no memory
//! ```
//!
//! A claim has the number of who made it. Another thread may map over claims (MAP_FIXED) or unmap them, as it may the mapping that they are for: what is
//! not claimed any more stays as it is.
//!
//! Invariants: LeafOwns, RegisterBeforeMap. Lock order: one node at a time.
#![forbid(unsafe_code)]

use super::map::MapOp;
use crate::addr::LEAF_SPAN;
use crate::error::VmError;
use crate::machine::{FlushCause, Machine};
use crate::node::Locked;
use crate::node::flush::Gather;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::object::{ObjectRef, Pages};
use crate::order::Order;
use crate::space::Space;
use crate::space::range::RangeOp;
use core::ops::Range;
use core::sync::atomic::Ordering;

/// Takes addresses that are free: for the mapping, or with a claim of this number.
struct TakeOp<'a> {
    map: &'a mut MapOp,
    claim: Option<u64>,
}

impl<M: Machine> RangeOp<M> for TakeOp<'_> {
    const CAUSE: FlushCause = FlushCause::Unmap;
    const CREATES: bool = true;
    const CLEARS: bool = false;
    // A leaf that was left empty stays: whether it is, only its own lock says.
    const DETACHES: bool = false;
    // What fails half way is given up.
    const PREPARES: bool = false;

    #[inline]
    fn object(&self, start: usize, end: usize) -> Option<(&ObjectRef, Pages)> {
        RangeOp::<M>::object(self.map, start, end)
    }

    fn registered(&self, start: usize, pages: Pages) -> Pages {
        RangeOp::<M>::registered(self.map, start, pages)
    }

    #[inline]
    fn admits(&self, node: &Locked<'_>, range: &Range<u16>) -> Result<(), VmError> {
        if node.is_free(range) { Ok(()) } else { Err(VmError::Exists) }
    }

    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        match self.claim {
            None => RangeOp::<M>::segments(self.map, node, range, gather),
            Some(number) => {
                let attrs =
                    MappingAttrs { flags: SegFlags::QUARANTINE, offset: number, ..MappingAttrs::nothing() };
                let shift = node.node().shift();
                node.segments.insert(range, attrs, shift, &mut gather.removed);
            }
        }
    }
}

/// Ends the claims of a number: puts the mapping there, or nothing.
struct SettleOp<'a> {
    map: Option<&'a mut MapOp>,
    claim: u64,
}

impl<M: Machine> RangeOp<M> for SettleOp<'_> {
    const CAUSE: FlushCause = FlushCause::Unmap;
    const CLEARS: bool = false;
    const DETACHES: bool = false;
    const PREPARES: bool = false;
    // Each claim is a segment, and another takes its place, or none.
    const NEEDS_CAPACITY: bool = false;

    #[inline]
    fn object(&self, start: usize, end: usize) -> Option<(&ObjectRef, Pages)> {
        RangeOp::<M>::object(self.map.as_deref()?, start, end)
    }

    fn registered(&self, start: usize, pages: Pages) -> Pages {
        self.map.as_deref().map_or(pages, |map| RangeOp::<M>::registered(map, start, pages))
    }

    fn segments(&mut self, node: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        let shift = node.node().shift();
        let mut at = range.start;
        loop {
            let is_claim = |attrs: &MappingAttrs| attrs.is_quarantine() && attrs.offset == self.claim;
            let all = node.segments.as_slice();
            let Some(next) = all.iter().find(|s| s.end > at && is_claim(&s.attrs)) else { return };
            let claimed = next.start.max(at)..next.end.min(range.end);
            if claimed.is_empty() {
                return;
            }
            at = claimed.end;
            match &mut self.map {
                Some(map) => RangeOp::<M>::segments(*map, node, claimed, gather),
                None => node.segments.remove(claimed, shift, &mut gather.removed),
            }
        }
    }
}

impl<M: Machine> Space<M> {
    /// Maps `op.start..end`, a checked range, if nothing is mapped there. Who has one thread has looked. May sleep unless the layout is locked.
    ///
    /// # Errors
    /// `Exists`: something is. Then nothing has changed, nor where there is no memory; but for what was settled before a fork shared the rest of the
    /// claims, if there is no memory to copy those.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "end is not zero")]
    pub(crate) fn map_free(&self, op: &mut MapOp, end: usize, order: &mut Order<'_>) -> Result<(), VmError> {
        let start = op.start;
        if !self.multithreaded.load(Ordering::Relaxed) {
            self.apply(start, end, op, order)
        } else if start / LEAF_SPAN == (end - 1) / LEAF_SPAN {
            self.apply(start, end, &mut TakeOp { map: op, claim: None }, order)
        } else {
            self.claim_and_map(op, end, order)
        }
    }

    #[inline(never)]
    fn claim_and_map(&self, op: &mut MapOp, end: usize, order: &mut Order<'_>) -> Result<(), VmError> {
        let start = op.start;
        // Nobody else has this place on its stack.
        let claim = core::ptr::from_ref(op).addr() as u64;
        self.apply(start, end, &mut TakeOp { map: op, claim: Some(claim) }, order)
            .and_then(|()| self.apply(start, end, &mut SettleOp { map: Some(op), claim }, order))
            .inspect_err(|_| {
                // Fails only if a fork shared the claims meanwhile and there is no memory to copy them: then these addresses stay taken.
                let _ = self.apply(start, end, &mut SettleOp { map: None, claim }, order);
            })
    }
}
