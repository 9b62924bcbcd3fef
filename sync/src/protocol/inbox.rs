//! What other CPUs give back to one CPU: a stack on which anybody puts chains of objects, and from which its owner takes all at once.
//!
//! The word is the address of the first object, 0 none; objects link through their first word, which belongs to whoever gives them back until
//! they are put here. Since the owner takes everything, the same object on top again is no danger (no ABA).
//!
//! `inbox.put` and `inbox.take` order what was written to an object before it was given back, its link included, before the owner's use.
//! A later putter's exchange continues the release of those before it, so one acquire sees all.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU64, Ordering, const_new, site};

/// A stack of objects on their way home.
#[derive(Debug)]
pub struct Inbox {
    first: AtomicU64,
}

impl Inbox {
    const_new! {
        pub fn new() -> Self {
            Inbox { first: AtomicU64::new(0) }
        }
    }

    /// Puts the chain that begins with the object at `first`. `link` makes its last object lead to the one that it is told, 0 none; it may be called
    /// more than once. True: nothing was there before.
    #[inline]
    pub fn put(&self, first: u64, link: impl Fn(u64)) -> bool {
        self.put_onto(self.first.load(Ordering::Relaxed), first, link)
    }

    /// As `put`, where mostly nothing is there. The exchange is then the first use of the inbox's line, which so comes over once, and not first to be read and
    /// then to be written.
    #[inline]
    pub fn put_as_first(&self, first: u64, link: impl Fn(u64)) -> bool {
        self.put_onto(0, first, link)
    }

    /// `below`: what is there, as far as the caller knows.
    #[inline]
    fn put_onto(&self, mut below: u64, first: u64, link: impl Fn(u64)) -> bool {
        loop {
            link(below);
            let order = site("inbox.put", Ordering::Release);
            match self.first.compare_exchange_weak(below, first, order, Ordering::Relaxed) {
                Ok(_) => return below == 0,
                Err(now) => below = now,
            }
        }
    }

    /// Is nothing there? Ordered by a fence of the caller's, if by anything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.load(Ordering::Relaxed) == 0
    }

    /// Takes all: the first object of the chain, 0 if there is none. Only the owner calls it; while nobody gives back it writes nothing.
    #[inline]
    pub fn take(&self) -> u64 {
        if self.first.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.first.swap(0, site("inbox.take", Ordering::Acquire))
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}
