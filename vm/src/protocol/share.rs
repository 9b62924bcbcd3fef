//! Leaves that several spaces use: fork shares them, a write copies them, the last sharer takes over.
//!
//! | sharers | entries above | private pages of the leaf | a write                                          |
//! |---------|---------------|---------------------------|--------------------------------------------------|
//! | one     | writable      | writable, or not          | `write`: there, in place, or to a copy of the page |
//! | several | not writable  | as they were              | `claim` says Copy: the leaf is copied first      |
//! | one     | not writable  | not writable              | `claim`: the last sharer takes the leaf over     |
//!
//! ```text
//! fork   forking, (lock leaf, protect, unlink, add sharer, unlock) for each, flush, not forking
//! copy   lock leaf, lock copy, (read-only in both, count) for each entry, replace, unlink, unlock, flush, leave (leaf.rs)
//! ```
//!
//! CopyBeforeWrite: a shared leaf is never writable through any sharer, unless all that it maps is shared memory; and no page that two
//! leaves have is writable in either.
//!
//! - Nobody writes a shared leaf's pages: its entries above lose the right under its lock, before another sharer is there (`share.protect`), and what
//!   TLBs remember is flushed before fork returns (`share.flush`).
//! - Until then threads of the parent may still write. A copy made meanwhile, of the leaf or a page, would miss that: who wants one waits. It sees
//!   `forking`, which was set before the leaf's lock was taken (`share.forking`); and when it sees it cleared, it sees what was written
//!   (`share.flushed`, `share.over`).
//! - A copier takes a reference to each page (`share.count`) and takes the right to write away in both leaves (`share.copy`, `share.old`) before it
//!   leaves the old leaf. So a sharer that is left alone there finds that others have the pages.
//! - A page is written in place only by who has the only reference (`share.sole`) and no list has one (`share.pooled`, pool.rs).

use super::leaf::leads_to;
use crate::addr::PhysAddr;
use crate::atomic::{AtomicBool, AtomicU64, Ordering, site, step};
use crate::machine::{Entry, Machine};

/// A fork from its first shared leaf to its flush. `share` shares leaves, all or, where it fails, some.
#[inline]
pub fn fork<R>(forking: &AtomicBool, share: impl FnOnce() -> R, flush: impl FnOnce()) -> R {
    forking.store(true, Ordering::Relaxed);
    let shared = share();
    if step("share.flush") {
        flush();
    }
    forking.store(false, site("share.flushed", Ordering::Release));
    shared
}

/// Is a fork under way? Asked under the lock of a leaf that it may have shared.
#[inline]
pub fn is_forking(forking: &AtomicBool) -> bool {
    forking.load(site("share.over", Ordering::Acquire)) && step("share.forking")
}

/// Makes the leaf with `table`, locked and attached to `upper`, ready for one more sharer, whose own entry is returned: `unlink` cuts the links of views,
/// and the caller puts the sharer on the leaf's list before it unlocks. `common` says whether all that the leaf maps is shared memory, and one table will do
/// for writing too. None: the leaf was detached meanwhile.
#[inline]
pub fn protect<M: Machine>(
    upper: &AtomicU64,
    now: Entry,
    table: PhysAddr,
    common: impl FnOnce() -> bool,
    unlink: impl FnOnce(),
) -> Option<Entry> {
    let writable = M::is_writable(now) && (common() || !step("share.protect"));
    let entry = M::table(table, writable);
    // Nobody but who detaches the leaf changes the entry without its lock. (Relaxed: it leads where it led, and a read-modify-write carries
    // the release of `leaf.fill` on.)
    upper.compare_exchange(now.0, entry.0, Ordering::Relaxed, Ordering::Relaxed).ok()?;
    if !writable {
        unlink();
    }
    Some(entry)
}

/// What a space has to do before it may change a leaf that was not its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// Walk again: the leaf is its own by now, or is gone.
    Again,
    /// Wait for the end of the fork.
    Wait,
    /// Copy the leaf.
    Copy,
}

/// A space wants the leaf with `table`, which is locked, for its own.
#[inline]
pub fn claim<M: Machine>(upper: &AtomicU64, table: PhysAddr, is_shared: bool, forking: &AtomicBool) -> Claim {
    if is_forking(forking) {
        return Claim::Wait;
    }
    let now = Entry(upper.load(Ordering::Relaxed));
    if !leads_to::<M>(now, table) {
        return Claim::Again;
    }
    if is_shared && step("share.alone") {
        return Claim::Copy;
    }
    if !M::is_writable(now) {
        // The last sharer. Fails if the leaf was detached meanwhile. (Relaxed: as in `protect`.)
        let entry = M::table(table, true);
        let _ = upper.compare_exchange(now.0, entry.0, Ordering::Relaxed, Ordering::Relaxed);
    }
    Claim::Again
}

/// The two leaves of a copy, and who counts their pages.
pub trait Pair {
    /// Writes an entry of the old leaf anew: the same page, and no more rights.
    fn restate(&mut self, entry: Entry);
    /// Sets the entry of the copy.
    fn fill(&mut self, entry: Entry);
    /// Takes a reference to the page for the copy.
    fn count(&mut self, entry: Entry);
    /// Moves the old leaf's reference to the list, whose the copy's will be too (pool.rs). False: to none.
    fn hand_over(&mut self, entry: Entry) -> bool;
    /// Takes a reference to a page that was pooled before, for a new list, if there is one.
    fn keep(&mut self, entry: Entry);
}

/// Copies the entry of a private page; `wanted`: the copy gets it. Both leaves are locked.
#[inline]
pub fn copy_private<M: Machine>(pair: &mut impl Pair, old: Entry, wanted: bool) {
    let mut entry = M::read_only(old);
    if old.is_pooled() {
        // Also if the copy does not get it: the new list is the old leaf's too.
        if step("pool.keep") {
            pair.keep(entry);
        }
    } else if !wanted {
        return;
    } else {
        if pair.hand_over(entry) {
            if step("pool.mark") {
                entry = entry.pooled();
            }
        } else if step("share.count") {
            pair.count(entry);
        }
        pair.restate(if step("share.old") { entry } else { old });
    }
    if wanted {
        pair.fill(if step("share.copy") { entry } else { old });
    }
}

/// Puts a copy of the leaf with `table`, which is locked and shared, in its place. `unlink` cuts the links of views. None: the leaf was detached
/// meanwhile.
#[inline]
pub fn replace<M: Machine, R>(
    upper: &AtomicU64,
    table: PhysAddr,
    copy: Entry,
    unlink: impl FnOnce() -> R,
) -> Option<R> {
    let now = Entry(upper.load(Ordering::Relaxed));
    if !leads_to::<M>(now, table) {
        return None;
    }
    let order = site("share.replace", Ordering::Release);
    upper.compare_exchange(now.0, copy.0, order, Ordering::Relaxed).ok()?;
    Some(unlink())
}

/// How a page may be written whose entry is not absent, in a leaf that is locked, attached and writable from above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// It may already.
    There,
    /// By an entry with more rights: nobody else has the page.
    InPlace,
    /// Wait for the end of a fork that may have given the page to a child.
    Wait,
    /// To a copy of the page.
    Copy,
    /// By an entry with more rights, when the page was marked dirty (evict.rs).
    Dirty,
}

/// `common`: the page is shared memory.
#[inline]
pub fn write<M: Machine>(
    entry: Entry,
    common: bool,
    references: impl FnOnce() -> u32,
    forking: &AtomicBool,
) -> Write {
    if M::is_writable(entry) {
        return Write::There;
    }
    let owned = if step("share.pooled") { entry.owns_frame() } else { entry.is_private() };
    if common || owned && (references() == 1 || !step("share.sole")) {
        return Write::InPlace;
    }
    if is_forking(forking) { Write::Wait } else { Write::Copy }
}
