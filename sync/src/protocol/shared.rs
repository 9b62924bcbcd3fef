//! The sleeping reader/writer lock: one word, and the same list of parked waiters as the sleeping lock's.
//!
//! Word: readers counted from bit 0; WRITER; QUEUED, set while anybody waits. With QUEUED set nobody takes the lock in passing; the last
//! holder to leave hands it to the first waiter, or to all readers in front. So the order is that of arrival and nobody starves.
//!
//! - No wake-up is lost: QUEUED is set by a compare-and-swap on a word that has a holder (or another QUEUED), so the last holder sees it.
//! - With QUEUED set and no holder, exactly one thread, the one that left last, runs `hand_over`.
//!
//! Waiters' nodes and tokens live as described in [`super::sleep`].

use super::sleep::{List, Waiter};
use crate::atomic::{AtomicU32, Ordering, const_new, holder, site, step};

const QUEUED: u32 = 1 << 31;
const WRITER: u32 = 1 << 30;
const READERS: u32 = WRITER - 1;

const READ: u32 = 0;
const WRITE: u32 = 1;

/// A lock without its data.
pub struct RawRwMutex {
    word: AtomicU32,
    list: List,
}

impl RawRwMutex {
    const_new! {
        pub fn new() -> Self {
            RawRwMutex { word: AtomicU32::new(0), list: List::new() }
        }
    }

    /// Becomes a reader if nobody writes or waits.
    #[inline(always)]
    pub fn try_read(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (WRITER | QUEUED) == 0 {
            match self.word.compare_exchange_weak(
                word,
                word + 1,
                site("shared.read", Ordering::Acquire),
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Becomes the writer if nobody else is here.
    #[inline(always)]
    pub fn try_write(&self) -> bool {
        self.word
            .compare_exchange(0, WRITER, site("shared.write", Ordering::Acquire), Ordering::Relaxed)
            .is_ok()
    }

    /// Becomes a reader, sleeping for it. Says whether it slept.
    pub fn read_slow(&self) -> bool {
        self.wait(READ)
    }

    /// Becomes the writer, sleeping for it. Says whether it slept.
    pub fn write_slow(&self) -> bool {
        self.wait(WRITE)
    }

    fn wait(&self, kind: u32) -> bool {
        self.list.lock.lock(holder());
        loop {
            if if kind == READ { self.try_read() } else { self.try_write() } {
                self.list.lock.unlock();
                return false;
            }
            let word = self.word.load(Ordering::Relaxed);
            if word == 0 || kind == READ && word & (WRITER | QUEUED) == 0 {
                continue; // Free again meanwhile.
            }
            if !step("shared.mark")
                || self
                    .word
                    .compare_exchange(word, word | QUEUED, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                break;
            }
        }
        let waiter = Waiter::new(kind);
        // SAFETY: the list's lock is held; the waiter is new, and this frame does not return before it is taken off.
        unsafe { self.list.insert(&waiter, false) };
        self.list.lock.unlock();
        waiter.sleep(&self.list);
        true
    }

    /// Ends reading.
    #[inline(always)]
    pub fn unlock_read(&self) {
        if self.word.fetch_sub(1, site("shared.unread", Ordering::Release)) == QUEUED | 1 {
            self.hand_over();
        }
    }

    /// Ends writing.
    #[inline(always)]
    pub fn unlock_write(&self) {
        let order = site("shared.unwrite", Ordering::Release);
        if self.word.compare_exchange(WRITER, 0, order, Ordering::Relaxed).is_err() {
            self.hand_over();
        }
    }

    /// Turns the writer into a reader without letting another writer in between. Waiting readers wait on.
    pub fn downgrade(&self) {
        self.word.fetch_sub(WRITER - 1, site("shared.downgrade", Ordering::Release));
    }

    /// Gives the lock to whoever is first; the caller is the last holder, and QUEUED is set.
    #[cold]
    fn hand_over(&self) {
        self.list.lock.lock(holder());
        // Sees what every reader before did, for the new holder to see.
        self.word.load(site("shared.gather", Ordering::Acquire));
        // SAFETY: the list's lock is held throughout, and a waiter's reference is not used after it is woken.
        unsafe {
            let writes = self.list.first().is_some_and(|waiter| waiter.kind.get() == WRITE);
            let taken = if writes { WRITER } else { self.readers_in_front() };
            let leaves_some = self.queue_is_longer_than(if writes { 1 } else { taken });
            let queued = if leaves_some { QUEUED } else { 0 };
            // The word says who holds before any of them runs and may leave. A store is enough: with QUEUED nobody else writes.
            // Release, because more readers may join the first in passing.
            self.word.store(taken | queued, site("shared.release", Ordering::Release));
            for _ in 0..if writes { 1 } else { taken } {
                if let Some(waiter) = self.list.take_first() {
                    waiter.wake(true);
                }
            }
        }
        self.list.lock.unlock();
    }

    /// # Safety
    /// The caller holds the list's lock.
    unsafe fn readers_in_front(&self) -> u32 {
        let mut n = 0;
        // SAFETY: the caller holds the list's lock.
        unsafe { self.list.each(|waiter| (waiter.kind.get() == READ).then(|| n += 1).is_some()) };
        n & READERS
    }

    /// # Safety
    /// The caller holds the list's lock.
    unsafe fn queue_is_longer_than(&self, n: u32) -> bool {
        let mut seen = 0;
        // SAFETY: the caller holds the list's lock.
        unsafe {
            self.list.each(|_| {
                seen += 1;
                seen <= n
            });
        }
        seen > n
    }

    /// Whether anybody writes, and how many read, just now.
    pub fn holders(&self) -> (bool, u32) {
        let word = self.word.load(Ordering::Relaxed);
        (word & WRITER != 0, word & READERS)
    }
}

impl Default for RawRwMutex {
    fn default() -> Self {
        Self::new()
    }
}
