//! The spinning lock: test and test-and-set on one word that names the holder.
//!
//! Acquire/release on the word is the whole argument: what the holder wrote before `unlock` is seen by the next. The
//! word holds the holder's number rather than 1 so that a CPU that waits for itself can be told, and a collision be blamed.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU32, Ordering, const_new, relax, site};

/// A lock without its data.
#[derive(Debug)]
pub struct RawSpin {
    /// 0 free, else who holds it.
    word: AtomicU32,
}

impl RawSpin {
    const_new! {
        pub fn new() -> Self {
            RawSpin { word: AtomicU32::new(0) }
        }
    }

    /// Takes the lock for `me` (not zero) if it is free.
    #[inline(always)]
    pub fn try_lock(&self, me: u32) -> bool {
        self.word.compare_exchange(0, me, site("spin.lock", Ordering::Acquire), Ordering::Relaxed).is_ok()
    }

    /// Takes the lock for `me`, reading the word until it is free between attempts.
    pub fn lock(&self, me: u32) {
        while !self.try_lock(me) {
            while self.holder() != 0 {
                relax();
            }
        }
    }

    /// Gives the lock back; only its holder may.
    #[inline(always)]
    pub fn unlock(&self) {
        self.word.store(0, site("spin.unlock", Ordering::Release));
    }

    /// Who holds the lock just now; 0 nobody.
    #[inline(always)]
    pub fn holder(&self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }
}

impl Default for RawSpin {
    fn default() -> Self {
        Self::new()
    }
}
