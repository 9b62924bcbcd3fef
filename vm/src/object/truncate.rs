//! Changing an object's size, and taking pages away from everybody who maps them.
//!
//! The order, and why no mapping is missed, is in protocol/evict.rs.
//!
//! Private copies beyond a file's new end go the same way, with the size in the slot's part: it is set before the visit, and
//! nobody puts a copy into a leaf without having looked at it under the leaf's lock (op/fault.rs, space/walk.rs) or with `change` held,
//! which keeps the size as it is (op/remap.rs).
//!
//! Lock order: `change` is held by the caller → list → leaf.
//!
//! A low room: it says when nobody maps a page any more.

use super::slots::MAX_PAGES;
use super::{Object, Pages, count};
use crate::addr::{ENTRIES, PAGE_SHIFT, PAGE_SIZE};
use crate::error::VmError;
use crate::frame::{EvictedFrames, Pin};
use crate::machine::FlushRange;
use crate::node::flush::SharersFlushed;
use crate::node::{Node, Taken};
use crate::object::rmap::{Reached, ReverseOps};
use crate::order::{Object as ObjectLevel, ReverseMap as ReverseMapLevel};
use crate::protocol::evict;
use arrayvec::ArrayVec;
use core::ops::Range;
use core::sync::atomic::Ordering;
use sync::level::Held;
use sync::machine::{give_way, should_give_way};
use sync::rcu::{self, RcuRead};

/// Pages that wait for one grace period, and are freed at once: some hundred thousand instructions.
const PART: usize = 1024;

/// What of a range of pages is taken away.
#[derive(Clone, Copy)]
pub(super) struct Gone {
    /// Pages with marks too, whose contents nobody else has (protocol/evict.rs).
    marked: bool,
    /// Private copies too.
    copies: bool,
}

impl Gone {
    pub const ALL: Self = Self { marked: true, copies: false };
    pub const ALL_AND_COPIES: Self = Self { marked: true, copies: true };
    /// What can be had again.
    pub const READABLE: Self = Self { marked: false, copies: false };
}

impl Object {
    /// Sets the size in bytes. What lies beyond is gone for every mapping; what is added reads zero. May sleep.
    pub fn set_size(&self, size: u64) -> Result<(), VmError> {
        if size > MAX_PAGES << PAGE_SHIFT {
            return Err(VmError::Overflow);
        }
        let mut change = self.change.lock();
        self.set_size_under(size, change.held());
        Ok(())
    }

    /// As [`Self::set_size`], under `change`.
    pub(super) fn set_size_under(&self, size: u64, change: &mut Held<'_, ObjectLevel>) {
        let old = self.size.swap(size, Ordering::SeqCst);
        if size >= old {
            self.clear_tail(old, size);
            return;
        }
        // Private copies go too, as on Linux: who touches one gets SIGBUS, whatever it wrote there.
        let first = size.div_ceil(PAGE_SIZE as u64);
        self.note_replaced();
        self.evict(first, MAX_PAGES, Gone::ALL_AND_COPIES, change);
        let tail = size as usize % PAGE_SIZE;
        if tail != 0 {
            let mut last = self.pinned(size >> PAGE_SHIFT);
            if let Some(mut bytes) = last.as_mut().map(Pin::bytes_mut) {
                bytes.get_mut(tail..PAGE_SIZE).map(|mut rest| rest.clear());
            }
        }
    }

    /// Frees the pages `first..end`: they read zero afterwards; private copies stay. For fallocate. May sleep.
    pub fn punch(&self, first: u64, end: u64) -> Result<(), VmError> {
        let mut change = self.change.lock();
        self.note_replaced();
        self.evict(first, end, Gone::ALL, change.held());
        Ok(())
    }

    /// The pages `first..end` are not what the source has any more: who misses one reads it again. Those with marks stay. May sleep.
    pub fn forget(&self, first: u64, end: u64) -> Result<(), VmError> {
        let mut change = self.change.lock();
        self.note_replaced();
        self.evict(first, end, Gone::READABLE, change.held());
        Ok(())
    }

    /// May a page be mapped? A mapping that nobody has touched is none. May sleep.
    pub fn is_mapped(&self) -> bool {
        let mut change = self.change.lock();
        !self.leaves.is_empty(change.held())
    }

    /// Takes away all pages from `first` on but those with marks: who made the object shorter has taken such ones, and those of now were written when it was longer again. The caller
    /// holds `change`.
    pub(super) fn evict_beyond(&self, first: u64, change: &mut Held<'_, ObjectLevel>) {
        self.evict(first, MAX_PAGES, Gone::READABLE, change);
    }

    /// Takes the pages `first..end` away, as far as `what` says. The caller holds `change`, so nobody else tags meanwhile. Each leaf that
    /// may show some of them is visited once, however many pages there are. Gives way; what has begun is made whole, whatever signal has come.
    pub(super) fn evict(&self, first: u64, end: u64, what: Gone, change: &mut Held<'_, ObjectLevel>) {
        let visit = |tagged: &u64| {
            if first < end && (*tagged > 0 || what.copies) {
                self.clear_everywhere(first..end, what.copies, change);
            }
        };
        let mut page = first;
        let empty = |tagged: &u64| {
            if *tagged == 0 || page >= end {
                return None;
            }
            // SAFETY: `evict` calls this after the visit, which flushes for each leaf what it has cleared.
            let (frames, stop) = unsafe { self.empty_some(page, end) };
            page = stop;
            let _ = give_way();
            Some(frames)
        };
        // Dropped, the frames wait for the grace period.
        evict::evict(|| self.tag(first, end, what.marked), visit, empty, drop);
    }

    /// Visits all leaves that may show some of `pages`, clears what shows those that are tagged, with `copies` private copies of any too, and flushes. Gives way.
    pub(super) fn clear_everywhere(
        &self,
        pages: Range<u64>,
        copies: bool,
        change: &mut Held<'_, ObjectLevel>,
    ) {
        if self.leaves.is_empty(change) {
            return;
        }
        let (mut reached, mut done) = (Reached::default(), false);
        while !done {
            let rcu = rcu::read();
            let all = Pages::new(pages.start, pages.end);
            done = self.leaves.visit(all, &mut reached, &rcu, change, |leaf, ops, held| {
                self.clear_leaf(leaf, ops, pages.clone(), copies, held, &rcu);
            });
            drop(rcu);
            let _ = give_way();
        }
    }

    /// Tags the slots of the pages `first..end`, those with marks only if they are to be `lost`; says how many.
    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    fn tag(&self, first: u64, end: u64, lost: bool) -> u64 {
        let (mut tagged, mut page, mut dirty) = (0u64, first, 0u64);
        while page < end {
            page = match self.slots.run(page) {
                Some(run) => {
                    let left = usize::try_from(end - page).unwrap_or(usize::MAX);
                    for was_dirty in run.iter().take(left).filter_map(|slot| slot.tag(lost)) {
                        tagged += 1;
                        dirty += u64::from(was_dirty);
                    }
                    page + run.len() as u64
                }
                None => self.slots.absent_until(page).max(page + 1),
            };
            let _ = give_way();
        }
        self.count_clean(dirty);
        tagged
    }

    /// Empties tagged slots of `first..end`, from the first one on; says where it stopped.
    ///
    /// # Safety
    /// That of [`Slot::take_tagged`](super::slots::Slot::take_tagged), for each of them.
    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    unsafe fn empty_some(&self, first: u64, end: u64) -> (EvictedFrames, u64) {
        let (mut frames, mut page) = (EvictedFrames::new(), first);
        while page < end && frames.len() < PART {
            page = match self.slots.run(page) {
                Some(run) => {
                    let left = usize::try_from(end - page).unwrap_or(usize::MAX);
                    for slot in run.iter().take(left) {
                        // SAFETY: as the caller says.
                        if let Some(frame) = unsafe { slot.take_tagged() } {
                            frames.add(frame);
                        }
                    }
                    page + run.len() as u64
                }
                None => self.slots.absent_until(page).max(page + 1),
            };
            if should_give_way() {
                break;
            }
        }
        self.resident.fetch_sub(frames.len() as u64, Ordering::Relaxed);
        count::left(self.is_paged(), frames.len() as u64);
        self.give_back_pages(frames.len() as u64);
        (frames, page)
    }

    /// Clears the entries of `leaf` that hold tagged frames of `first..end`, and with `copies` those that hold private copies of
    /// these pages; flushes its sharers.
    #[expect(clippy::arithmetic_side_effects, reason = "pages of a segment, which an object has")]
    // With checks what is gathered takes much of the stack: not that of the visit, too.
    #[cfg_attr(debug_assertions, inline(never))]
    fn clear_leaf(
        &self,
        leaf: &Node,
        ops: &ReverseOps,
        pages: Range<u64>,
        copies: bool,
        held: &mut Held<'_, ReverseMapLevel>,
        rcu: &RcuRead,
    ) {
        loop {
            let mut owned: ArrayVec<Taken, 64> = ArrayVec::new_const();
            let mut cleared = FlushRange::EMPTY;
            let mut locked = leaf.lock(held);
            for i in 0..locked.segments.as_slice().len() {
                let Some(segment) = locked.segments.as_slice().get(i) else { break };
                if !segment.attrs.object.as_ref().is_some_and(|o| core::ptr::eq(&**o, self)) {
                    continue;
                }
                let (start, offset) = (segment.start, segment.attrs.offset);
                let private = copies && !segment.attrs.is_shared();
                let low = pages.start.saturating_sub(offset).min(ENTRIES as u64) as u16 + start;
                let high =
                    (pages.end.saturating_sub(offset) + u64::from(start)).min(u64::from(segment.end)) as u16;
                for index in locked.used_in(&(low..high)) {
                    if owned.is_full() {
                        break;
                    }
                    let page = offset + u64::from(index - start);
                    let tagged = self.slots.get(page).and_then(|s| s.tagged());
                    let gone = tagged.is_some_and(|frame| (ops.clear)(&mut locked, index, frame));
                    let copy = if private && !gone { (ops.take_owned)(&mut locked, index) } else { None };
                    if gone || copy.is_some() {
                        cleared.add(leaf.address(index), leaf.address(index + 1));
                    }
                    owned.extend(copy);
                }
            }
            let viewers = locked.viewers();
            drop(locked);
            let more = owned.is_full();
            if !cleared.is_empty() {
                let proof = SharersFlushed::by_flushing(leaf, ops, cleared, &viewers, held, rcu);
                owned.into_iter().for_each(|page| (ops.release)(page, proof));
            }
            if !more {
                return;
            }
        }
    }
}
