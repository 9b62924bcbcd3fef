//! A CPU's view links to a leaf, and who changes the leaf finds the CPU.
//!
//! | link in the view        | CPU among the leaf's viewers | the CPU may hold            |
//! |-------------------------|------------------------------|-----------------------------|
//! | absent                  | no                           | nothing of the leaf         |
//! | leads to the leaf       | yes                          | translations through it     |
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
//! - Whoever takes the right to write away from the entry in the tree does so under the leaf's lock and cuts, so no link grants more.
#![forbid(unsafe_code)]

use super::leaf::leads_to;
use crate::addr::PhysAddr;
use crate::atomic::{AtomicU64, Ordering, step};
use crate::machine::{Entry, Machine};

/// Makes `place`, in this CPU's view, say what `upper` says. The leaf below is locked and entered. `note` puts the CPU among the viewers.
/// (Relaxed: only this CPU walks through its view.)
#[inline]
pub fn link(place: &AtomicU64, upper: &AtomicU64, note: impl FnOnce()) {
    let entry = upper.load(Ordering::Relaxed);
    if place.load(Ordering::Relaxed) != entry {
        if step("view.note") {
            note();
        }
        place.store(entry, Ordering::Relaxed);
    }
}

/// Empties `place` if it links to the leaf with `table`, which is locked. The view's CPU may put a link to the leaf's successor there at any moment, so
/// it is compared and exchanged by one step.
#[inline]
pub fn cut<M: Machine>(place: &AtomicU64, table: PhysAddr) {
    let entry = place.load(Ordering::Relaxed);
    if leads_to::<M>(Entry(entry), table) && step("view.cut") {
        let _ = place.compare_exchange(entry, Entry::ABSENT.0, Ordering::AcqRel, Ordering::Relaxed);
    }
}
