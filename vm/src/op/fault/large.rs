//! The first write to a leaf that may be one large page.
//!
//! The block is taken and cleared with nothing locked, piece by piece; then the leaf is looked at anew. Where there is no block, or another thread was first,
//! the fault goes on with single pages.
//!
//! Invariants: NothingSlowUnderLeaf, LeafOwns, LinkUnderLeaf.
//! Lock order: the leaf alone.
#![forbid(unsafe_code)]

use super::{FAULTS, Spare, no_memory};
use crate::addr::{ENTRIES, LEAF_SPAN};
use crate::error::FaultError;
use crate::frame::{self, OwnedBlock};
use crate::large::LARGE_COUNTS;
use crate::machine::{FlushCause, Machine};
use crate::node::Locked;
use crate::node::flush::Gather;
use crate::order::Order;
use crate::policy::Place;
use crate::request::Prot;
use crate::space::Space;
use crate::space::range::RangeOp;
use core::ops::Range;
use sync::machine::give_way;
use sync::rcu;

/// Takes the page of zeros out, wherever it was read.
struct DropZerosOp;

impl<M: Machine> RangeOp<M> for DropZerosOp {
    const CAUSE: FlushCause = FlushCause::CopyPage;
    const CLEARS: bool = false;
    const DETACHES: bool = false;
    const CHANGES_SEGMENTS: bool = false;

    #[expect(clippy::arithmetic_side_effects, reason = "places in a leaf")]
    fn entries(&mut self, leaf: &mut Locked<'_>, range: Range<u16>, gather: &mut Gather<'_>) {
        for index in leaf.used_in(&range) {
            let is_zeros =
                leaf.look(index).frame::<M>().is_some_and(|f| core::ptr::eq(f, frame::zero_frame()));
            if is_zeros {
                let _borrowed = leaf.take_page::<M>(index);
                gather.touched(leaf, index..index + 1);
            }
        }
    }
}

/// Pages that are cleared before another thread may run: 64 KiB.
const PIECE: u16 = 16;

impl<M: Machine> Space<M> {
    /// Fills the leaf of `addr` with a large page, if it may have one. False: it is not, and a page of zeros is in `spare`, so that the fault does not come here
    /// again.
    #[cold]
    #[inline(never)]
    pub(super) fn fault_large(
        &self,
        addr: usize,
        spare: &mut Option<Spare>,
        order: &mut Order<'_>,
    ) -> Result<bool, FaultError> {
        let base = addr & !(LEAF_SPAN - 1);
        let is_filled = match self.place_of_large(base, order)? {
            Some(place) => self.fill_large(base, place, order)?,
            None => false,
        };
        if !is_filled && spare.is_none() {
            *spare = Some(Spare::zeroed(Place::of_anonymous(addr))?);
        }
        Ok(is_filled)
    }

    /// Where the block for the leaf at `base` comes from; None: it may not have one.
    fn place_of_large(&self, base: usize, order: &mut Order<'_>) -> Result<Option<Place>, FaultError> {
        let rcu = rcu::read();
        let Some(path) = self.reach(base, false, order, &rcu).map_err(no_memory)? else { return Ok(None) };
        let Some(locked) = path.enter::<M>(order) else { return Ok(None) };
        if !path.is_exclusive::<M>(&locked) {
            return Ok(None);
        }
        let policy = self.large_candidate(&locked).map(|attrs| attrs.policy);
        Ok(policy.map(|policy| Place { policy, ..Place::of_anonymous(base) }))
    }

    /// False: there is no block, or the leaf is not what it was.
    fn fill_large(&self, base: usize, place: Place, order: &mut Order<'_>) -> Result<bool, FaultError> {
        let Some(mut block) = place.try_block() else {
            LARGE_COUNTS.this().lacked.add(1);
            return Ok(false);
        };
        for index in 0..ENTRIES as u16 {
            block.clear(index);
            if index % PIECE == PIECE.saturating_sub(1) && give_way() {
                return Ok(false);
            }
        }
        // Who has read zeros there must not read on when others write.
        self.apply(base, base.saturating_add(LEAF_SPAN), &mut DropZerosOp, order).map_err(no_memory)?;
        // A thread that goes on alone has none as yet.
        self.use_views();
        self.want_view();
        let rcu = rcu::read();
        self.put_large(base, place, block, order, &rcu)
    }

    fn put_large(
        &self,
        base: usize,
        place: Place,
        block: OwnedBlock,
        order: &mut Order<'_>,
        rcu: &rcu::RcuRead,
    ) -> Result<bool, FaultError> {
        self.widen_view(base, order, rcu).map_err(no_memory)?;
        let Some(path) = self.reach(base, false, order, rcu).map_err(no_memory)? else { return Ok(false) };
        let Some(mut locked) = path.enter::<M>(order) else { return Ok(false) };
        if !path.is_exclusive::<M>(&locked) || locked.present() != 0 {
            return Ok(false);
        }
        let wanted = self.large_candidate(&locked).filter(|attrs| attrs.policy == place.policy);
        let Some(prot) = wanted.map(|attrs| attrs.prot).filter(|prot| prot.contains(Prot::WRITE)) else {
            return Ok(false);
        };
        locked.fill_block::<M>(block, prot);
        // Else the next access does it.
        let _linked = self.link(&path, &mut locked, rcu);
        LARGE_COUNTS.this().made.add(1);
        FAULTS.this().zero_fill.add(1);
        Ok(true)
    }
}
