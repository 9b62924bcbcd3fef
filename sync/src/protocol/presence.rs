//! Who waits on a word, as wakers see it without a lock: how many lie in a bucket, or that they have moved on to its children.
//!
//! ```text
//!   waiter, bucket locked           waker
//!   counts itself                   changes the word
//!   --- presence.enter ---          --- presence.look ---
//!   looks at the word               looks at the count; locks the bucket if it is not 0
//! ```
//!
//! - One of the two sees the other. So a waiter that sleeps is found by who changes the word afterwards, and a wake for nobody writes nothing.
//! - Whoever splits a bucket, which is locked, first puts its waiters into the children and counts them there, and then says that it is split
//!   (`presence.split`): who sees that sees them there (`presence.descend`). It stays split, and nobody lies in it any more. A waiter comes to a child
//!   only after it has seen that; a waker that has not seen it by its fence saw it before that waiter looked at the word.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU32, Ordering, const_new, fence_after_rmw, fence_at, site};

/// What the count of a split bucket is.
const SPLIT: u32 = u32::MAX;

/// How many wait in a bucket. Written under the bucket's lock.
#[derive(Debug)]
pub struct Presence(AtomicU32);

/// What a look found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    Nobody,
    /// So many.
    Waiters(u32),
    /// The waiters are in the bucket's children.
    Split,
}

impl Default for Presence {
    fn default() -> Self {
        Self::new()
    }
}

impl Presence {
    const_new! {
        pub fn new() -> Self {
            Presence(AtomicU32::new(0))
        }
    }

    /// One more waits. It looks at its word afterwards, if it has not yet.
    #[inline]
    pub fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        fence_after_rmw("presence.enter");
    }

    /// One more waits, whom a split brings. It has looked at its word.
    #[inline]
    pub fn receive(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// One waits no more, or elsewhere.
    #[inline]
    pub fn leave(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    }

    /// Who waits. Of wakers behind `before_look`; who has the bucket's lock sees how it is.
    #[inline]
    pub fn look(&self) -> Found {
        match self.0.load(site("presence.descend", Ordering::Acquire)) {
            0 => Found::Nobody,
            SPLIT => Found::Split,
            waiters => Found::Waiters(waiters),
        }
    }

    /// All that waited are counted in the children.
    pub fn split(&self) {
        self.0.store(SPLIT, site("presence.split", Ordering::Release));
    }
}

/// Between the change of a word and the look for who waits on it.
#[inline]
pub fn before_look() {
    fence_at("presence.look");
}
