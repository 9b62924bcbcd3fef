//! A CPU's view links to a leaf, and who changes the leaf finds the CPU.
//!
//! | link in the view        | CPU among the leaf's viewers | the CPU may hold            |
//! |-------------------------|------------------------------|-----------------------------|
//! | absent                  | no                           | nothing of the leaf         |
//! | leads to the leaf       | yes                          | translations through it     |
//! | shows the leaf's block  | yes                          | one translation of all of it |
//! | absent, `cut`           | yes                          | old ones, until it flushes  |
//!
//! ```text
//! fault   lock the leaf, enter (leaf.rs), link, unlock     the hardware walks
//! change                                  lock, change entries, (cut), read viewers, unlock, flush them
//! ```
//!
//! LinkUnderLeaf: a link is made and cut only under the leaf's lock, made only while the tree leads to the leaf and with the CPU among the
//! viewers, and says what the entry in the tree says, or less.
//!
//! - Who changes entries under the lock comes before the link, and then the CPU sees the new entries; or after it, and finds the CPU among
//!   the viewers (`view.note`).
//! - Who has detached the leaf, or put a copy in its place, locks it once: a link made before is cut then (`view.cut`), and none is made later
//!   (`leaf.enter`). A link made unchecked would lead to the copy, and note the CPU in the old leaf.
//! - A link shows a block only while its leaf is large (node/large.rs); who ends that, under the lock, cuts. Until the entries change, translations of either
//!   size lead to the same pages, and then the viewers flush.
//! - A CPU has no translations of both sizes at once, which processors need not bear (SDM vol. 3, 5.10.2.3). Who cuts a link that showed a block leaves a mark
//!   (`Entry::CUT`), and by the next link, whatever leaf that leads to, the CPU walks only when it has dropped what it had (`view.small`); and so before it
//!   walks by one that shows a block (`view.large`).
//! - Whoever takes the right to write away from the entry in the tree does so under the leaf's lock and cuts, so no link grants more.
#![forbid(unsafe_code)]

use super::leaf::leads_to;
use crate::addr::PhysAddr;
use crate::atomic::{AtomicU64, Ordering, step};
use crate::machine::{Entry, Machine};

/// Does `place`, in this CPU's view, say what `upper` says? The leaf below is locked, entered and not large. Then `link` has nothing to do.
#[inline]
pub fn is_linked(place: &AtomicU64, upper: &AtomicU64) -> bool {
    place.load(Ordering::Relaxed) == upper.load(Ordering::Relaxed)
}

/// Makes `place`, in this CPU's view, say what `upper` says. The leaf below is locked and entered. `note` puts the CPU among the viewers; `flush` drops what the CPU
/// has cached of the leaf's addresses. (Relaxed: only this CPU walks through its view.)
#[inline]
pub fn link(place: &AtomicU64, upper: &AtomicU64, note: impl FnOnce(), flush: impl FnOnce()) {
    let entry = upper.load(Ordering::Relaxed);
    let before = place.load(Ordering::Relaxed);
    if before != entry {
        if step("view.note") {
            note();
        }
        if before == Entry::CUT.0 && step("view.small") {
            flush();
        }
        place.store(entry, Ordering::Relaxed);
    }
}

/// As `link`, to a large leaf: makes `place` say `entry`, which shows its block.
#[inline]
pub fn link_block<M: Machine>(place: &AtomicU64, entry: Entry, note: impl FnOnce(), flush: impl FnOnce()) {
    let before = Entry(place.load(Ordering::Relaxed));
    // The hardware notes in the entry that it was used.
    if before.large_block::<M>().is_some_and(|block| entry.large_block::<M>() == Some(block)) {
        return;
    }
    if step("view.note") {
        note();
    }
    // Nothing is cached by a link of before from here on.
    place.store(Entry::CUT.0, Ordering::Relaxed);
    if step("view.large") {
        flush();
    }
    place.store(entry.0, Ordering::Relaxed);
}

/// Ends the link in `place` if it leads to the leaf with `table`, or shows its `block`; the leaf is locked. The view's CPU may put a link to the leaf's
/// successor there at any moment, so it is compared and exchanged by one step.
#[inline]
pub fn cut<M: Machine>(place: &AtomicU64, table: PhysAddr, block: Option<PhysAddr>) {
    let mut entry = place.load(Ordering::Relaxed);
    // Once more where the hardware noted in the entry that it was used.
    loop {
        let (is_link, left) = match Entry(entry).large_block::<M>() {
            _ if entry == Entry::CUT.0 => (false, Entry::CUT),
            None => (leads_to::<M>(Entry(entry), table), Entry::ABSENT),
            shown => (shown == block, Entry::CUT),
        };
        if !is_link || !step("view.cut") {
            return;
        }
        match place.compare_exchange(entry, left.0, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => entry = now,
        }
    }
}
