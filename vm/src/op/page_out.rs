//! Private pages go to swap (madvise(2), MADV_PAGEOUT).
//!
//! Sixteen pages of a leaf at a time: their slots are taken first, then their entries are busy for one flush; after that nobody writes the pages, which go into the cache of their area as they are,
//! and their entries say where. Only then are they written, with nothing locked: who wants one meanwhile takes it from the cache. The leaf may be one that a fork shared: then all who
//! use it flush.
//!
//! A page that anybody else refers to stays: another leaf, a pool, who copies it just now. So does what is locked in memory.
//!
//! Invariants: NothingSlowUnderLeaf, FreeAfterFlush, BusyWhileFlushed; protocol/swap.rs.
//! Lock order: the leaf alone.
#![forbid(unsafe_code)]

use crate::addr::ENTRIES;
use crate::machine::{FlushRange, Machine};
use crate::node::flush::SharersFlushed;
use crate::node::segment::SegFlags;
use crate::node::{Locked, Node, Retired, Taken, WalkPath};
use crate::object::rmap::ReverseOps;
use crate::order::{self, Order};
use crate::protocol::busy;
use crate::space::Space;
use crate::swap::{self, AT_ONCE, SWAP_COUNTS, SlotRef};
use arrayvec::ArrayVec;
use core::ops::Range;
use sync::machine::give_way;
use sync::{CpuId, rcu};

/// Counts of slots, one each.
type Slots = ArrayVec<SlotRef, AT_ONCE>;

/// A page on its way.
struct Going {
    index: u16,
    page: Taken,
    slot: SlotRef,
}

/// May the page of entry `index` go?
fn goes<M: Machine>(leaf: &Locked<'_>, index: u16) -> bool {
    let stays = SegFlags::LOCKED | SegFlags::QUARANTINE;
    leaf.look(index).can_go_out::<M>()
        && leaf.segments.find(index).is_some_and(|segment| !segment.attrs.flags.intersects(stays))
}

impl<M: Machine> Space<M> {
    /// Writes private pages of `range`, whole pages, to swap; says how many. Ends where there is no slot any more, and at a fatal signal. May sleep.
    pub fn page_out(&self, range: Range<usize>) -> usize {
        let (mut at, mut gone) = (range.start, 0usize);
        let end = range.end.min(M::USER_END);
        while at < end && swap::is_on() {
            let (next, wanted) = self.find_pages_to_go(at, end);
            if wanted > 0 {
                let slots = swap::take_slots(wanted);
                if slots.is_empty() {
                    break;
                }
                let mut written = Slots::new_const();
                gone = gone.saturating_add(self.take_pages_out(at..next, slots, &mut written));
                swap::write_out(&written);
            }
            at = next;
            if give_way() {
                break;
            }
        }
        gone
    }

    /// The first part of `at..end` that lies in one leaf and has no more pages that may go than are taken at once: where it ends, and how many.
    fn find_pages_to_go(&self, at: usize, end: usize) -> (usize, usize) {
        let rcu = rcu::read();
        let path = WalkPath::walk::<M>(self.root(), at, &rcu);
        let node = path.node();
        let order = &mut order::begin();
        let Some(locked) = path.enter::<M>(order) else { return (at, 0) };
        let index = node.index(at);
        if !node.is_leaf() {
            if !locked.entry(index).is_absent() {
                return (at, 0);
            }
            let child = locked.upper_used_from(index).find(|i| *i > index && !locked.entry(*i).is_absent());
            return (child.map_or(node.end(), |child| node.address(child)), 0);
        }
        let last = if end >= node.end() { ENTRIES as u16 } else { node.index(end) };
        let mut wanted = 0usize;
        for index in locked.used_in(&(index..last)) {
            if wanted == AT_ONCE {
                return (node.address(index), wanted);
            }
            wanted = wanted.saturating_add(usize::from(goes::<M>(&locked, index)));
        }
        (node.end().min(end), wanted)
    }

    /// Takes pages of `range`, which lies in one leaf, out to `slots`, as many as there are. Says how many went; `written`: a count of each that is in the cache now.
    fn take_pages_out(&self, range: Range<usize>, mut slots: Slots, written: &mut Slots) -> usize {
        let rcu = rcu::read();
        let order = &mut order::begin();
        let path = WalkPath::walk::<M>(self.root(), range.start, &rcu);
        let leaf = path.node();
        if !leaf.is_leaf() {
            return 0;
        }
        // The first is the lowest.
        slots.reverse();
        let cpu = sync::cpu_id();
        let mut going: ArrayVec<Going, AT_ONCE> = ArrayVec::new_const();
        let mut touched = FlushRange::EMPTY;
        let Some(mut locked) = path.enter::<M>(order) else { return 0 };
        if locked.is_large() && path.is_exclusive::<M>(&locked) {
            self.split(&mut locked);
        }
        // A large leaf that others have too is split by who copies it.
        let last = if range.end >= leaf.end() { ENTRIES as u16 } else { leaf.index(range.end) };
        let indices = if locked.is_large() { 0..0 } else { leaf.index(range.start)..last };
        for index in locked.used_in(&indices) {
            if slots.is_empty() {
                break;
            }
            if goes::<M>(&locked, index)
                && let Some(slot) = slots.pop()
            {
                going.push(Going { index, page: locked.make_busy::<M>(index, cpu), slot });
                touched.add(leaf.address(index), leaf.address(index.saturating_add(1)));
            }
        }
        let viewers = locked.viewers();
        drop(locked);
        if going.is_empty() {
            return 0;
        }
        let ops = ReverseOps::of::<M>();
        let proof = SharersFlushed::by_flushing(leaf, ops, touched, &viewers, order, &rcu);
        let mut there: ArrayVec<(u16, SlotRef), AT_ONCE> = ArrayVec::new_const();
        for Going { index, page, slot } in going {
            // Nobody writes it any more.
            let frame = Retired::into_frame::<M>(page, proof);
            debug_assert!(frame.is_some(), "a page that goes to swap got another reference");
            if let Some(frame) = frame {
                slot.fill(frame);
                written.push(slot.another());
                there.push((index, slot));
            }
        }
        Self::note_where(leaf, there, cpu, order)
    }

    /// Says in the entries of `leaf` that `cpu` has made busy where their pages are. Who unmapped one meanwhile has ended it. Says how many went.
    fn note_where(
        leaf: &Node,
        pages: ArrayVec<(u16, SlotRef), AT_ONCE>,
        cpu: CpuId,
        order: &mut Order<'_>,
    ) -> usize {
        let mut unwanted = Slots::new_const();
        let mut gone = 0usize;
        let mut locked = leaf.lock(order);
        for (index, slot) in pages {
            let is_own = busy::is_own(locked.entry(index), cpu);
            if is_own && !locked.is_stray() {
                locked.put_in_swap::<M>(index, slot);
                gone = gone.saturating_add(1);
                continue;
            }
            if is_own {
                let _busy = locked.take::<M>(index);
            }
            unwanted.push(slot);
        }
        drop(locked);
        SWAP_COUNTS.this().out.add(gone as u64);
        gone
    }
}
