//! Pages that leaves hold together: the references lie on a list, and leaves count the list.
//!
//! | an entry of a private page is | the reference to its frame is   | a write goes to                     |
//! |-------------------------------|---------------------------------|-------------------------------------|
//! | owning                        | the entry's                     | the page, or a copy of it (share.rs) |
//! | pooled                          | on the list of the leaf's pool | a copy of it, always               |
//!
//! ```text
//! copy   lock leaf, what does it want?, unlock     memory for a pool
//!        lock leaf and copy, does it fit?, references move (share::copy_private), give, unlock     after readers: the old pool goes
//! write  lock leaf, pooled: unlock, copy the page within a read section
//! ```
//!
//! PooledByFamily: a pooled entry's frame is on the list of its leaf's pool, and the entry is never writable again.
//!
//! - A pool is made for the leaf as it was. If another copier has given the leaf another list meanwhile, with references of entries that are
//!   pooled since, it does not fit (`pool.fits`).
//! - A new list takes a reference to each page that the list before had (`pool.keep`), and an entry whose reference moves is marked at once
//!   (`pool.mark`): else entry and list would both let it go.
//! - Nobody has a reference on behalf of a copy of a pooled page that is being made, without the leaf's lock. Meanwhile another thread may give the page up,
//!   so that it comes onto no later list, and a copy of the leaf may replace the list. So a list goes when all who may copy its pages have ended
//!   their read sections (`pool.grace`), and so does the last one, with its leaf (`leaf.grace`).

use super::after_readers;
use crate::atomic::step;
use alloc::sync::Arc;

/// May a pool that was made for a leaf with the pool `then` take its place `now`?
#[inline]
pub fn fits<T>(then: Option<&Arc<T>>, now: Option<&Arc<T>>) -> bool {
    match (then, now) {
        (None, None) => true,
        (Some(then), Some(now)) if Arc::ptr_eq(then, now) => true,
        _ => !step("pool.fits"),
    }
}

/// Gives a leaf and its copy a new pool. The one that it replaces goes by [`let_go`], with the leaf unlocked.
#[inline]
pub fn give<T>(new: Arc<T>, leaf: &mut Option<Arc<T>>, copy: &mut Option<Arc<T>>) -> Option<Arc<T>> {
    *copy = Some(new.clone());
    leaf.replace(new)
}

/// Lets a pool go that was replaced: `defer` does it when nobody copies its pages any more.
#[inline]
pub fn let_go<T>(replaced: Arc<T>, defer: impl FnOnce(Arc<T>)) {
    after_readers("pool.grace", replaced, defer);
}
