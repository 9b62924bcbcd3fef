//! A leaf is found without a lock, changed under its own lock, and taken away by whoever cuts the entry above it.
//!
//! | the entry above          | the leaf              | who changes the leaf's entries               |
//! |--------------------------|-----------------------|----------------------------------------------|
//! | absent                   | new                   | who makes it; then `fill` puts it in         |
//! | leads to the leaf        | attached              | who has locked it and found it so (`enter`)  |
//! | absent, or leads elsewhere | stray, to this space | nobody                                      |
//!
//! ```text
//! fault   look ........ lock, enter, fill, unlock
//! unmap        detach ............................. flush, lock, leave, unlock, drain
//! ```
//!
//! LeafOwns: a leaf's entries change only under its lock, and only while the entry above leads to it.
//!
//! - A fault that entered before the drain: its lock came before the lock of `leave`, so the drain finds what it filled in.
//! - A fault that locks after `leave`: it sees the entry above cut (the lock orders it behind the detaching) and goes back.
//! - With several sharers each detaches its own entry above; the last to leave, and only that one, drains (`leaf.last`).
//! - Who finds a node through an entry sees what was written to it, or to the page, before the entry was filled in (`leaf.fill`, `leaf.look`);
//!   who takes an entry out sees it too (`leaf.take`).
//!
//! - A leaf, and the list of pooled pages that goes with it (pool.rs), is there as long as anybody who may have found it reads (`leaf.grace`).
//!
//! That the flush comes between detaching and leaving is carried by a type (`node::flush::Flushed`).
#![forbid(unsafe_code)]

use super::after_readers;
use crate::addr::PhysAddr;
use crate::atomic::{AtomicU64, Ordering, site, step};
use crate::machine::{Entry, Machine};

/// What an entry says now; unlocked.
#[inline]
pub fn look(cell: &AtomicU64) -> Entry {
    Entry(cell.load(site("leaf.look", Ordering::Acquire)))
}

/// Sets an entry, under the lock of the node that it lies in.
#[inline]
pub fn fill(cell: &AtomicU64, entry: Entry) {
    cell.store(entry.0, site("leaf.fill", Ordering::Release));
}

/// Takes an entry out, or exchanges it, by one step: the hardware may note an access meanwhile, and an entry above a shared leaf may be exchanged
/// under the leaf's lock.
#[inline]
pub fn exchange(cell: &AtomicU64, entry: Entry) -> Entry {
    Entry(cell.swap(entry.0, site("leaf.take", Ordering::AcqRel)))
}

/// Takes bits out that the hardware sets at any moment, under the lock of the node: says whether there were any.
#[inline]
pub fn take_bits(cell: &AtomicU64, bits: u64) -> bool {
    cell.fetch_and(!bits, Ordering::Relaxed) & bits != 0
}

/// Does the entry lead to `table`?
#[inline]
pub fn leads_to<M: Machine>(entry: Entry, table: PhysAddr) -> bool {
    entry.table::<M>() == Some(table)
}

/// Is the leaf with `table`, which is `_locked`, attached to `upper`? A shared leaf can be stray for one space and attached to another.
/// (Not acquire: the lock orders what matters here.)
#[inline]
pub fn is_attached<M: Machine, L>(upper: &AtomicU64, table: PhysAddr, _locked: &L) -> bool {
    leads_to::<M>(Entry(upper.load(Ordering::Relaxed)), table) || !step("leaf.enter")
}

/// The lock of a leaf, taken just now, if the leaf is attached.
#[inline]
pub fn enter<M: Machine, L>(upper: &AtomicU64, table: PhysAddr, locked: L) -> Option<L> {
    if is_attached::<M, L>(upper, table, &locked) { Some(locked) } else { None }
}

/// A space that detached the leaf, and has flushed, leaves it. The lock comes back from `forget`, which takes the space off the list of sharers and
/// says whether it was the last: then the leaf is drained.
#[inline]
pub fn leave<L>(mut locked: L, forget: impl FnOnce(&mut L) -> bool) -> Option<L> {
    let last = forget(&mut locked);
    (last || !step("leaf.last")).then_some(locked)
}

/// Frees a leaf that nothing leads to: `defer` does it when nobody reads it any more.
#[inline]
pub fn free<T>(leaf: T, defer: impl FnOnce(T)) {
    after_readers("leaf.grace", leaf, defer);
}
