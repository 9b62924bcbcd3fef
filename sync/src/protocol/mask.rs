//! Who takes a signal that waits: senders look at the masks of threads, and each thread changes its own, without a lock for both.
//!
//! ```text
//!   sender                          thread
//!   queues the signal               changes its mask
//!   --- mask.choose ---             --- mask.changed ---
//!   looks at masks, tells one       looks at what waits
//! ```
//!
//! - One of the two sees the other. So a thread that unblocks a signal finds it, or is found by its sender.
//! - A thread that blocks a signal finds it, or its sender does not choose this thread. Who finds one that it has just blocked chooses another thread as
//!   a sender does: behind the same fence, since the next one may be blocking it too. A thread that ends blocks all.
//! - A thread that was told takes that note away and looks then (`mask.look`). A sender that finds the note still there does not write it again: by the
//!   same fence the thread has not looked yet.
//!
//! So no signal waits while a thread that does not block it sleeps.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU64, Ordering, const_new, fence_after_rmw, fence_at};

/// The signals that wait in a queue. Written under the queue's lock.
#[derive(Debug)]
pub struct Waiting(AtomicU64);

impl Default for Waiting {
    fn default() -> Self {
        Self::new()
    }
}

impl Waiting {
    const_new! {
        pub fn new() -> Self {
            Waiting(AtomicU64::new(0))
        }
    }

    #[inline]
    pub fn set(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn store(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }
}

/// The signals that a thread blocks. Written by the thread alone.
#[derive(Debug)]
pub struct Mask(AtomicU64);

impl Default for Mask {
    fn default() -> Self {
        Self::new()
    }
}

impl Mask {
    const_new! {
        pub fn new() -> Self {
            Mask(AtomicU64::new(0))
        }
    }

    /// Before others see it.
    pub fn inherit(self, from: u64) -> Self {
        self.0.store(from, Ordering::Relaxed);
        self
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The thread's own mask changes. Gives the old one; the caller looks at what waits.
    #[inline]
    pub fn change(&self, to: u64) -> u64 {
        let before = self.0.swap(to, Ordering::Relaxed);
        fence_after_rmw("mask.changed");
        before
    }
}

/// Between the queueing of a signal and the look for a thread that takes it; also between the look that found a signal and that for another thread.
#[inline]
pub fn before_choice() {
    fence_at("mask.choose");
}

/// Between the taking away of what tells a thread to look, by a read-modify-write, and the look.
#[inline]
pub fn before_look() {
    fence_after_rmw("mask.look");
}
