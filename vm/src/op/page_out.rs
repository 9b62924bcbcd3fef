//! Private pages go to swap: those that a program names (madvise(2), MADV_PAGEOUT), or those that nobody has used for a while, where memory is short.
//!
//! **Ageing.** Which pages are not used is found by walking leaves: the hardware notes in an entry that it was used, and who comes by takes that out. A page that has no such note when somebody comes by
//! again goes. No CPU is flushed for it: one that keeps a translation uses the page without a note, as on Linux, and then it comes back from the cache, or from the device. Of a
//! large leaf the notes are in the links of views; such leaves are passed over. Nobody who faults, maps or unmaps does anything for it.
//!
//! Sixteen pages of a leaf at a time: their slots are taken first, then their entries are busy for one flush; after that nobody writes the pages, which go into the cache of their area as they are,
//! and their entries say where. Only then are they written, with nothing locked: who wants one meanwhile takes it from the cache. The leaf may be one that a fork shared: then all who
//! use it flush.
//!
//! A page that anybody else refers to stays: another leaf, a pool, who copies it just now. So does what is locked in memory.
//!
//! Invariants: NothingSlowUnderLeaf, FreeAfterFlush, BusyWhileFlushed, SlotCounted.
//! Lock order: the leaf alone.
#![forbid(unsafe_code)]

use crate::addr::ENTRIES;
use crate::machine::{FlushRange, Machine};
use crate::node::flush::SharersFlushed;
use crate::node::segment::SegFlags;
use crate::node::{Locked, Node, Retired, Taken, WalkPath};
use crate::object::rmap::ReverseOps;
use crate::order::{self, Order};
use crate::policy::Nodes;
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

/// Which pages go.
#[derive(Clone, Copy)]
enum Which {
    All,
    /// Those on these nodes that have not been used since somebody asked.
    Unused(Nodes),
}

/// Pages of a leaf that are to go, a bit each.
#[derive(Default)]
struct Wanted([u64; ENTRIES / 64]);

impl Wanted {
    fn add(&mut self, index: u16) {
        if let Some(word) = self.0.get_mut(usize::from(index / 64)) {
            *word |= 1 << (index % 64);
        }
    }

    fn has(&self, index: u16) -> bool {
        self.0.get(usize::from(index / 64)).is_some_and(|word| word >> (index % 64) & 1 != 0)
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// What came of a look for pages that are not used.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Aged {
    /// Where to go on; None: at the beginning.
    pub next: Option<usize>,
    /// Pages that were looked at.
    pub looked: usize,
    /// Pages that went.
    pub gone: usize,
}

/// May the page of entry `index` go, and is it one of those?
fn goes<M: Machine>(leaf: &Locked<'_>, index: u16, which: Which) -> bool {
    let stays = SegFlags::LOCKED | SegFlags::QUARANTINE;
    let entry = leaf.look(index);
    let node = || entry.frame::<M>().map_or(0, |frame| frame.numa_node() as u32);
    let is_there = match which {
        Which::All | Which::Unused(Nodes::MAX) => true,
        Which::Unused(nodes) => nodes.checked_shr(node()).unwrap_or(0) & 1 != 0,
    };
    is_there
        && entry.can_go_out::<M>()
        && leaf.segments.find(index).is_some_and(|segment| !segment.attrs.flags.intersects(stays))
}

impl<M: Machine> Space<M> {
    /// Writes private pages of `range`, whole pages, to swap; says how many. Ends where there is no slot any more, and at a fatal signal. May sleep.
    pub fn page_out(&self, range: Range<usize>) -> usize {
        let (mut at, mut gone) = (range.start, 0usize);
        let end = range.end.min(M::USER_END);
        while at < end && swap::is_on() {
            let part = self.page_part_out(at..end, Which::All);
            gone = gone.saturating_add(part.gone);
            match part.next {
                Some(next) if !give_way() => at = next,
                _ => break,
            }
        }
        gone
    }

    /// Looks at `most` private pages from `from` on, or some more, and writes those to swap that are on one of `nodes` and have not been used since they were looked at last. Ends early where there
    /// is no slot any more, and at a fatal signal. May sleep.
    pub fn age(&self, from: usize, most: usize, nodes: Nodes) -> Aged {
        let mut aged = Aged { next: Some(from), ..Aged::default() };
        while let Some(at) = aged.next
            && aged.looked < most
            && swap::is_on()
        {
            let part = self.page_part_out(at..M::USER_END, Which::Unused(nodes));
            aged.next = part.next.filter(|next| *next < M::USER_END);
            aged.looked = aged.looked.saturating_add(part.looked);
            aged.gone = aged.gone.saturating_add(part.gone);
            if give_way() {
                break;
            }
        }
        aged
    }

    /// Writes pages of the first part of `range` out. `next`: where the next part begins, which may be the end; None: there are no more slots.
    fn page_part_out(&self, range: Range<usize>, which: Which) -> Aged {
        let mut wanted = Wanted::default();
        let mut part = self.find_pages_to_go(range.clone(), which, &mut wanted);
        if wanted.len() > 0 {
            let slots = swap::take_slots(wanted.len());
            if slots.is_empty() {
                return Aged { next: None, ..part };
            }
            let mut written = Slots::new_const();
            part.gone = self.take_pages_out(range.start, &wanted, which, slots, &mut written);
            swap::write_out(&written);
        }
        part
    }

    /// Finds the pages that are to go in the first part of `range` that lies in one leaf and has no more of them than are taken at once.
    fn find_pages_to_go(&self, range: Range<usize>, which: Which, wanted: &mut Wanted) -> Aged {
        let Range { start, end } = range;
        let rcu = rcu::read();
        let path = WalkPath::walk::<M>(self.root(), start, &rcu);
        let node = path.node();
        let order = &mut order::begin();
        let nothing = |next: usize| Aged { next: Some(next), ..Aged::default() };
        let Some(locked) = path.enter::<M>(order) else { return nothing(start) };
        let index = node.index(start);
        if !node.is_leaf() {
            if !locked.entry(index).is_absent() {
                return nothing(start);
            }
            let child = locked.upper_used_from(index).find(|i| *i > index && !locked.entry(*i).is_absent());
            return nothing(child.map_or(node.end(), |child| node.address(child)));
        }
        let last = if end >= node.end() { ENTRIES as u16 } else { node.index(end) };
        let is_unused = matches!(which, Which::Unused(_));
        // Nobody notes there what is used.
        let indices = if is_unused && locked.is_large() { last..last } else { index..last };
        let (mut looked, mut count) = (0usize, 0usize);
        for index in locked.used_in(&indices) {
            if count == AT_ONCE {
                return Aged { next: Some(node.address(index)), looked, gone: 0 };
            }
            if goes::<M>(&locked, index, which) {
                looked = looked.saturating_add(1);
                if !is_unused || !locked.look(index).take_use::<M>() {
                    wanted.add(index);
                    count = count.saturating_add(1);
                }
            }
        }
        Aged { next: Some(node.end().min(end)), looked, gone: 0 }
    }

    /// Takes the `wanted` pages of the leaf at `start` out to `slots`, as many as there are. Says how many went; `written`: a count of each that is in the cache now.
    fn take_pages_out(
        &self,
        start: usize,
        wanted: &Wanted,
        which: Which,
        mut slots: Slots,
        written: &mut Slots,
    ) -> usize {
        let rcu = rcu::read();
        let order = &mut order::begin();
        let path = WalkPath::walk::<M>(self.root(), start, &rcu);
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
        let is_unused = matches!(which, Which::Unused(_));
        // A large leaf that others have too is split by who copies it.
        let may = !locked.is_large();
        for index in locked.used().filter(|index| may && wanted.has(*index)) {
            if slots.is_empty() {
                break;
            }
            if goes::<M>(&locked, index, which)
                && !(is_unused && locked.look(index).was_used::<M>())
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
        SWAP_COUNTS.this().went_out.add(gone as u64);
        gone
    }
}
