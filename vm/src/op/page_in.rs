//! Private pages come back from swap: at a fault, and all of an area that is to go (swapoff).
//!
//! The slot is held while its page is read and copied with nothing locked, so the same entry means the same page afterwards (protocol/swap.rs).
//!
//! Invariants: NothingSlowUnderLeaf, SlotCounted, CopyBeforeWrite: the page is one that nobody else has, in a leaf that may be shared; who writes it then copies the leaf as ever.
//! Lock order: the leaf alone.
#![forbid(unsafe_code)]

use super::fault::Spare;
use crate::addr::{ENTRIES, LEAF_SPAN, PAGE_SIZE};
use crate::error::FaultError;
use crate::machine::{Entry, Machine};
use crate::node::WalkPath;
use crate::order::{self, Order};
use crate::policy::Place;
use crate::protocol::swap as protocol;
use crate::space::Space;
use crate::swap::{self, SWAP_COUNTS, SlotRef};
use core::ops::Range;
use sync::machine::give_way;
use sync::rcu;

impl<M: Machine> Space<M> {
    /// Puts the page of `slot` back at `addr`, if it is still to be there. `spare` is used for it, or serves the next attempt. May sleep.
    #[cold]
    #[inline(never)]
    pub(crate) fn page_in(
        &self,
        addr: usize,
        slot: SlotRef,
        spare: &mut Option<Spare>,
        order: &mut Order<'_>,
    ) -> Result<(), FaultError> {
        let place = {
            let rcu = rcu::read();
            let path = WalkPath::walk::<M>(self.root(), addr, &rcu);
            let node = path.node();
            let locked = node.lock(order);
            let index = node.index(addr);
            let segment = locked.segments.find(index).filter(|_| node.is_leaf());
            segment.map_or(Place::of_anonymous(addr), |segment| segment.place(index, node.address(index)))
        };
        Spare::want_any(spare, place)?;
        let Some(mut new) = spare.take() else { return Ok(()) };
        new.zero = false;
        slot.read_into(&mut new.frame)?;
        let then = slot.entry();
        let rcu = rcu::read();
        let path = WalkPath::walk::<M>(self.root(), addr, &rcu);
        let leaf = path.node();
        let index = leaf.index(addr);
        let Some(mut locked) = path.enter::<M>(order).filter(|_| leaf.is_leaf()) else {
            *spare = Some(new);
            return Ok(());
        };
        let mapped = locked.segments.find(index).map(|segment| segment.attrs.prot);
        let is_same = protocol::is_same(locked.entry(index), then);
        let Some(prot) = mapped.filter(|_| is_same) else {
            *spare = Some(new);
            return Ok(());
        };
        let count = locked.bring_back::<M>(index, new.frame, prot);
        drop(locked);
        drop((count, slot));
        SWAP_COUNTS.this().came_in.add(1);
        Ok(())
    }

    /// Calls `f` for each page of `range`, whole pages, that is in swap with how many spaces have it there. A leaf is locked meanwhile: `f` does not wait. Gives way between leaves; a fatal signal ends
    /// it. May sleep.
    pub fn for_each_swapped(&self, range: Range<usize>, f: &mut dyn FnMut(u32)) {
        let (mut at, end) = (range.start, range.end.min(M::USER_END));
        while at < end && swap::was_on() {
            {
                let rcu = rcu::read();
                let node = WalkPath::walk::<M>(self.root(), at, &rcu).node();
                if node.is_leaf() && node.counts().may_have_swapped() {
                    let order = &mut order::begin();
                    let locked = node.lock(order);
                    let last = if end >= node.end() { ENTRIES as u16 } else { node.index(end) };
                    for index in locked.used_in(&(node.index(at)..last)) {
                        if let Some(place) = locked.entry(index).swap_place() {
                            f(swap::count_of(place).max(locked.sharer_count()));
                        }
                    }
                }
                let span = if node.is_leaf() { LEAF_SPAN } else { node.span() };
                at = at.saturating_add(1).checked_next_multiple_of(span).unwrap_or(usize::MAX);
            }
            if give_way() {
                break;
            }
        }
    }

    /// A count of the slot of the page at `addr`, if it is in swap, and in `area` if one is named.
    fn slot_at(&self, addr: usize, area: Option<u8>) -> Option<SlotRef> {
        let rcu = rcu::read();
        let path = WalkPath::walk::<M>(self.root(), addr, &rcu);
        let node = path.node();
        let order = &mut order::begin();
        let locked = path.enter::<M>(order).filter(|_| node.is_leaf())?;
        let entry = locked.look(node.index(addr));
        let place = entry.swap_place()?;
        if area.is_none_or(|area| area == place.area) { entry.hold_slot() } else { None }
    }

    /// Brings in all pages that the space has in the swap area `area`; says how many. What a fork gives a child meanwhile is the child's. Ends at a fatal signal. May sleep.
    ///
    /// # Errors
    /// `Bus`: a page cannot be read. `NoMemory`, `NoneBound`. Those before it are in.
    pub fn leave_swap(&self, area: u8) -> Result<usize, FaultError> {
        let (mut at, mut came, mut spare) = (0usize, 0usize, None);
        let is_there = |entry: Entry| entry.swap_place().is_some_and(|place| place.area == area);
        while let Some(page) = self.next_entry(at, M::USER_END, is_there) {
            match self.slot_at(page, Some(area)) {
                Some(slot) => self.page_in(page, slot, &mut spare, &mut order::begin())?,
                // It is elsewhere by now.
                None => at = page.saturating_add(1).next_multiple_of(PAGE_SIZE),
            }
            came = came.saturating_add(1);
        }
        Ok(came)
    }

    /// Reads what of `range`, whole pages, is in swap, so that it is at hand when it is touched (MADV_WILLNEED). What cannot be read, or finds no memory, is left. May sleep.
    pub fn read_ahead(&self, range: Range<usize>) {
        let mut at = range.start;
        let is_there = |entry: Entry| entry.swap_place().is_some();
        while let Some(page) = self.next_entry(at, range.end.min(M::USER_END), is_there) {
            if self.slot_at(page, None).is_some_and(|slot| slot.bring_in().is_err()) || give_way() {
                return;
            }
            at = page.saturating_add(1).next_multiple_of(PAGE_SIZE);
        }
    }
}
