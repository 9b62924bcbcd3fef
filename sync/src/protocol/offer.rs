//! Tasks that a CPU shows to others, which may take them, and CPUs that halt.
//!
//! ```text
//!   a CPU with tasks to give away            a CPU that idles
//!   shows it, under its queue's lock         looks at what is shown; takes one, under that lock, if it gets the lock
//!   at each tick, while it shows any:        shows that it idles
//!     takes back that another idles          shows that it halts, unless that was taken back: then it looks anew
//!     it halted: kicks it                    halts until it is kicked
//! ```
//!
//! What is shown has no order to who idles, so the one may miss the other, and a CPU halts beside a task. It does so until the next tick of who shows it and no longer:
//! each tick looks anew, and the offer stands until the task is gone (`offer.again`), since a CPU that was seen looking may find the lock taken.
//! The word is written under the queue's lock and says what is on the queue, so several that come for one task get it once.
#![forbid(unsafe_code)]

use super::idle::{Found, Idle};
use crate::atomic::{AtomicU64, Ordering, const_new, step};

/// What a CPU shows; 0: nothing.
#[derive(Debug)]
pub struct Offer(AtomicU64);

impl Offer {
    const_new! {
        pub fn new() -> Self {
            Offer(AtomicU64::new(0))
        }
    }

    #[inline]
    pub fn shown(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Under the queue's lock.
    #[inline]
    pub fn show(&self, word: u64) {
        self.0.store(word, Ordering::Relaxed);
    }

    /// A tick of the CPU that shows something, or one that has just taken a part of it: another, which `idle` is of, may take it. True: the caller kicks that.
    #[inline]
    pub fn make(&self, idle: &Idle) -> bool {
        let halted = idle.is_shown() && idle.take() == Found::Halted;
        if !step("offer.again") {
            self.show(0);
        }
        halted
    }
}

impl Default for Offer {
    fn default() -> Self {
        Self::new()
    }
}
