//! The copy of a leaf's entries, for a leaf that was shared.
//!
//! Invariants: CopyBeforeWrite, PooledByFamily, ReadSlotUnderLeaf.

use super::pool::PoolFill;
use super::segment::{SegFlags, Segment};
use super::{Locked, NewPoolShare, PoolShare};
use crate::addr::PhysAddr;
use crate::frame::Frame;
use crate::machine::{Entry, Machine};
use crate::protocol::share::{self, Pair};
use crate::swap::SlotRef;
use alloc::sync::Arc;
use core::marker::PhantomData;
use sync::CpuId;

/// Pages of an object looked up at once.
const RUN: u16 = 16;

/// Gives `copy`, a leaf without entries, those of `leaf` that its segments allow; `part`: they do not allow all. Both are locked;
/// `leaf` has no busy entries, and no view links to it as to a large page. `pool`, if it fits, takes what other leaves have too; returns the one that it replaced. Where it is of no use it stays the
/// caller's, who lets it go when no node is locked.
///
/// What may not be copied: entries of an object whose slot has been emptied (ReadSlotUnderLeaf) and private copies of pages beyond
/// its end. A visit of the reverse map may have passed `copy` already, and finds them in `leaf`.
#[must_use]
pub fn copy_entries<M: Machine>(
    leaf: &mut Locked<'_>,
    copy: &mut Locked<'_>,
    pool: &mut Option<NewPoolShare>,
    part: bool,
) -> Option<Arc<PoolShare>> {
    // Its pages become others' too.
    leaf.end_large();
    let doubtful = part || copy.segments.as_slice().iter().any(ends_past_object);
    let fits = pool.as_ref().is_some_and(|new| new.fits(leaf));
    let mut counting = Counting {
        list: pool.as_mut().filter(|_| fits).and_then(NewPoolShare::list),
        cpu: sync::cpu_id(),
        common: 0,
        foreign: false,
    };
    // What the objects hold now is looked up in runs.
    let mut around = [PhysAddr(0); RUN as usize];
    let (mut run, mut is_tracked) = (0..0, false);
    let present = usize::from(leaf.present());
    let may_have_swapped = leaf.node().counts().may_have_swapped();
    for (index, old) in leaf.node().entries(leaf.used()).take(present) {
        if old.is_private() {
            let wanted = !doubtful || takes_copies(copy, index);
            if may_have_swapped && let Some(place) = old.swap_place() {
                if wanted {
                    copy.fill_swapped::<M>(index, SlotRef::share(place));
                }
                continue;
            }
            let mut page = OnePage { leaf, copy, index, counting: &mut counting, machine: PhantomData::<M> };
            share::copy_private::<M>(&mut page, old, wanted);
            continue;
        }
        if !run.contains(&index) {
            let Some(segment) = copy.segments.find(index) else { continue };
            debug_assert!(
                segment.object_pages().is_none_or(|(object, pages)| copy.is_registered(object, pages)),
                "RegisterBeforeMap"
            );
            let Some((object, page)) = segment.object_page(index) else {
                // The page of zeros.
                copy.fill::<M>(index, old);
                continue;
            };
            is_tracked = segment.attrs.is_tracked();
            run = index..((index | (RUN - 1)) + 1).min(segment.end);
            around = [PhysAddr(0); RUN as usize];
            object.resident(page, around.get_mut(..run.len()).unwrap_or_default(), leaf);
        }
        if around.get(usize::from(index - run.start)).is_some_and(|now| *now == old.address::<M>()) {
            // A visit that takes the right to write away may have passed the copy (DirtyBeforeWritable).
            copy.fill::<M>(index, if is_tracked { M::read_only(old) } else { old });
        }
    }
    leaf.foreign = if counting.foreign { counting.common } else { 0 };
    copy.foreign = leaf.foreign;
    if !fits {
        copy.pool = leaf.pool.clone();
        return None;
    }
    pool.take_if(|new| !new.is_empty())?.give(leaf, copy)
}

/// Who counts the private pages on their way into the copy of a leaf.
struct Counting<'a> {
    /// Takes the references to those that others have too.
    list: Option<PoolFill<'a>>,
    cpu: CpuId,
    /// Of those that go on counting their references: how many others have too, and whether another CPU counted one last.
    common: u16,
    foreign: bool,
}

/// One of them, in both leaves.
struct OnePage<'a, 'l, 'c, 'h, M> {
    leaf: &'a mut Locked<'l>,
    copy: &'a mut Locked<'c>,
    index: u16,
    counting: &'a mut Counting<'h>,
    machine: PhantomData<M>,
}

impl<M: Machine> OnePage<'_, '_, '_, '_, M> {
    /// The frame of a private page.
    #[inline]
    fn frame(entry: Entry) -> &'static Frame {
        // SAFETY: `copy_private` passes on the entry that it was given: one of a leaf, with a frame's address.
        unsafe { Frame::of(entry.address::<M>()) }
    }
}

impl<M: Machine> Pair for OnePage<'_, '_, '_, '_, M> {
    #[inline]
    fn restate(&mut self, entry: Entry) {
        self.leaf.restate(self.index, entry);
    }

    #[inline]
    fn fill(&mut self, entry: Entry) {
        self.copy.fill::<M>(self.index, entry);
    }

    #[inline]
    fn count(&mut self, entry: Entry) {
        let (others, other_cpu) = Self::frame(entry).get_for_copy(self.counting.cpu);
        self.counting.common += u16::from(others);
        self.counting.foreign |= other_cpu;
    }

    #[inline]
    fn hand_over(&mut self, entry: Entry) -> bool {
        let Some(list) = &mut self.counting.list else { return false };
        let frame = Self::frame(entry);
        // What nobody else has stays the leaf's own.
        frame.refs() > 1 && list.take(frame)
    }

    #[inline]
    fn keep(&mut self, entry: Entry) {
        if let Some(list) = &mut self.counting.list {
            list.add_again(Self::frame(entry));
        }
    }
}

/// Does the segment reach beyond the end of its object?
fn ends_past_object(segment: &Segment) -> bool {
    segment.object_page(segment.end - 1).is_some_and(|(object, page)| page >= object.pages())
}

/// May entry `index` hold a private page of another leaf? Not if nothing is mapped there, if it is to be empty in a child, or if it
/// stands for a page beyond the end of its object.
fn takes_copies(leaf: &Locked<'_>, index: u16) -> bool {
    leaf.segments.find(index).is_some_and(|s| {
        !s.attrs.flags.contains(SegFlags::WIPE_ON_FORK)
            && s.object_page(index).is_none_or(|(object, page)| page < object.pages())
    })
}
