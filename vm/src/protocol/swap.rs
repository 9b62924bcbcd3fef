//! Private pages in swap: an entry has a count of a slot, and the slot's page is in the area's cache, on its device, or in both.
//!
//! | the slot        | counts it                        | the cache has                      | the device has |
//! |-----------------|----------------------------------|------------------------------------|----------------|
//! | free            | nobody                           | nothing, or what was read too late | anything       |
//! | being filled    | who took it                      | the page, from `fill` on           | anything       |
//! | in use          | entries, and faults that read it | the page, or nothing when it was written | the page, when it was written |
//!
//! ```text
//! out    take, (busy.rs: busy, flush) fill, lock leaf, the entry has the count, unlock     write, give up
//! in     lock leaf, hold, unlock     the page into the cache, copy it     lock leaf, same?, put the copy in, unlock     put both counts
//! fork   lock leaf and copy, share for each entry
//! last   forget the cache's page, free the slot
//! ```
//!
//! SlotCounted: a slot has one page for as long as anybody counts it, and is free when nothing of that page is left in the cache.
//!
//! - So a fault that holds a count while it reads (`swap.hold`), and then finds the same entry (`swap.same`), has what the entry means.
//!   Without it the page may have come in, been written and gone out to the same slot again meanwhile.
//! - A copy of a leaf counts each slot once more before anybody else finds the copy (`swap.count`).
//! - What the cache has of a slot is forgotten before the slot is free (`swap.forget`): after that it would be the next owner's page.
//! - A page that was read for a slot while that was free, or not filled yet, is garbage: who fills the slot takes it away (`swap.over`).
//! - What is read from the device goes into the cache only if no page was given up since the read began (`swap.late`); the object's lock orders the two. Else the read may have come before the
//!   page was written, and after it was given up nothing else would keep it out.
//! - Of the two fences (`swap.taken`, `swap.close`) one is first: an area that goes has no slot taken, or who takes one sees that it goes.
#![forbid(unsafe_code)]

use super::refs::Refs;
use crate::atomic::{AtomicBool, AtomicU64, Ordering, const_new, fence_after_rmw, fence_at, step};
use crate::machine::Entry;

/// Which of 64 slots are taken, a bit each.
pub struct Taken(AtomicU64);

impl Taken {
    const_new! {
        pub fn new(taken: u64) -> Self {
            Taken(AtomicU64::new(taken))
        }
    }

    pub fn bits(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Takes the lowest that is free. None: none is.
    pub fn take(&self) -> Option<u32> {
        let mut taken = self.0.load(Ordering::Relaxed);
        while taken != u64::MAX {
            let slot = taken.trailing_ones();
            match self.0.compare_exchange(taken, taken | 1 << slot, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(slot),
                Err(now) => taken = now,
            }
        }
        None
    }

    /// Slot `slot` is free from here on.
    pub fn free(&self, slot: u32) {
        self.0.fetch_and(!(1 << (slot % 64)), Ordering::Release);
    }
}

/// A slot was taken: may the caller keep it? Not if the area is to go; then it frees the slot.
#[inline]
pub fn may_keep(is_closed: &AtomicBool) -> bool {
    fence_after_rmw("swap.taken");
    !is_closed.load(Ordering::Relaxed)
}

/// No slot that is taken from here on is kept; those that were taken before are seen.
#[inline]
pub fn close(is_closed: &AtomicBool) {
    is_closed.store(true, Ordering::Relaxed);
    fence_at("swap.close");
}

/// Puts the page of a slot that the caller has taken into the cache. `put` gives it back where something is there; `forget` takes that away.
#[inline]
pub fn fill<P>(mut page: P, mut put: impl FnMut(P) -> Result<(), P>, mut forget: impl FnMut()) {
    while let Err(back) = put(page) {
        if !step("swap.over") {
            return;
        }
        page = back;
        forget();
    }
}

/// The copy of a leaf has one more count, of an entry that it was given. Both leaves are locked.
#[inline]
pub fn share(counts: &Refs) {
    if step("swap.count") {
        counts.get();
    }
}

/// A fault's own count of the slot, under the lock of the leaf whose entry has one. Says whether it was taken.
#[inline]
pub fn hold(counts: &Refs) -> bool {
    let holds = step("swap.hold");
    if holds {
        counts.get();
    }
    holds
}

/// May the copy of the slot's page be put in? `now`: the entry, locked again; `then`: what it said when the count was taken.
#[inline]
pub fn is_same(now: Entry, then: Entry) -> bool {
    now == then || !step("swap.same")
}

/// Gives a count back. With the last the slot is free: `forget` takes away what the cache has of it, `free` lets others take it.
#[inline]
pub fn put(counts: &Refs, forget: impl FnOnce(), free: impl FnOnce()) {
    if !counts.put() {
        return;
    }
    if step("swap.forget") {
        forget();
        free();
    } else {
        free();
        forget();
    }
}

/// May a page that was read go into the cache, if the count of givings-up was `begun` before it was read, and is `now`? Asked under the object's lock.
#[inline]
pub fn may_enter(begun: u64, now: u64) -> bool {
    begun == now || !step("swap.late")
}
