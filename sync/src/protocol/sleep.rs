//! The sleeping lock: one word, and a list of parked waiters under a spinning lock of its own.
//!
//! Word: LOCKED, and QUEUED exactly while the list is not empty (outside the list's lock). An unlock that finds QUEUED wakes the first
//! waiter, which competes with whoever passes by; a waiter that lost once is handed the lock itself (so nobody starves).
//!
//! - No wake-up is lost: QUEUED is set by a compare-and-swap on a word with LOCKED, so the holder's unlock sees it.
//! - A waiter's node lies on its stack and its token dies with its thread: the waker uses both under the list's lock, and
//!   the woken takes that lock once before it leaves (`sleep.leave`).
//!
//! Lock order: the list's lock is inner to everything but what `unpark` takes.

use super::spin::RawSpin;
use crate::atomic::{
    AtomicU32, Ordering, Token, const_new, holder, park, park_token, relax, site, step, unpark,
};
use core::cell::{Cell, UnsafeCell};
use core::ptr;

const LOCKED: u32 = 1;
const QUEUED: u32 = 2;

const WAITING: u32 = 0;
const WOKEN: u32 = 1;
const OWNER: u32 = 2;

/// A thread that waits.
struct Waiter {
    token: Token,
    state: AtomicU32,
    /// Whether it was woken once and found the lock taken: the next unlock hands it the lock.
    lost: Cell<bool>,
    next: Cell<*const Waiter>,
}

impl Waiter {
    fn new() -> Self {
        Waiter {
            token: park_token(),
            state: AtomicU32::new(WAITING),
            lost: Cell::new(false),
            next: Cell::new(ptr::null()),
        }
    }

    fn wait_again(&self) {
        self.state.store(WAITING, Ordering::Relaxed);
        self.lost.set(true);
    }

    /// Parks until woken, and leaves only when the waker is done with this node. Gives the state.
    fn sleep(&self, list: &RawSpin) -> u32 {
        while self.state.load(Ordering::Acquire) == WAITING {
            park();
        }
        let state = self.state.load(Ordering::Relaxed);
        // Who is only woken takes the list's lock next anyway.
        if state == OWNER && step("sleep.leave") {
            list.lock(holder());
            list.unlock();
        }
        state
    }

    /// Wakes the waiter. The caller holds the list's lock and has taken the waiter off the list.
    fn wake(&self, owner: bool) {
        let state = if owner { OWNER } else { WOKEN };
        self.state.store(state, Ordering::Release);
        unpark(&self.token);
    }
}

/// A lock without its data.
pub struct RawMutex {
    word: AtomicU32,
    /// Of the list of waiters, which `ends` are the ends of: in the order in which they will be woken.
    list: RawSpin,
    ends: UnsafeCell<Ends>,
}

struct Ends {
    first: *const Waiter,
    last: *const Waiter,
}

// SAFETY: `ends` is used by the holder of `list` alone, and the waiters on the list stay where they are until they are woken.
unsafe impl Send for RawMutex {}
// SAFETY: as above.
unsafe impl Sync for RawMutex {}

impl RawMutex {
    const_new! {
        pub fn new() -> Self {
            RawMutex {
                word: AtomicU32::new(0),
                list: RawSpin::new(),
                ends: UnsafeCell::new(Ends { first: ptr::null(), last: ptr::null() }),
            }
        }
    }

    /// Puts `waiter` on the list: at its end, or in front if it has lost.
    ///
    /// # Safety
    /// The caller holds `list`; the waiter is on no list and stays in place until taken off.
    unsafe fn insert(&self, waiter: &Waiter) {
        // SAFETY: the caller holds the lock that guards the ends and all links.
        let ends = unsafe { &mut *self.ends.get() };
        if waiter.lost.get() || ends.first.is_null() {
            waiter.next.set(ends.first);
            ends.first = waiter;
            if ends.last.is_null() {
                ends.last = waiter;
            }
        } else {
            waiter.next.set(ptr::null());
            // SAFETY: the list is not empty, so `last` is a waiter on it, which is in place.
            unsafe { (*ends.last).next.set(waiter) };
            ends.last = waiter;
        }
    }

    /// The first waiter.
    ///
    /// # Safety
    /// The caller holds `list`, and drops the reference before it unlocks or wakes the waiter by other means.
    unsafe fn first(&self) -> Option<&Waiter> {
        // SAFETY: the lock guards the ends; a waiter on the list is in place.
        unsafe { (*self.ends.get()).first.as_ref() }
    }

    /// Takes the first waiter off the list.
    ///
    /// # Safety
    /// As for `first`.
    unsafe fn take_first(&self) -> Option<&Waiter> {
        // SAFETY: the caller holds the lock.
        let waiter = unsafe { self.first() }?;
        // SAFETY: the lock guards the ends.
        let ends = unsafe { &mut *self.ends.get() };
        ends.first = waiter.next.get();
        if ends.first.is_null() {
            ends.last = ptr::null();
        }
        Some(waiter)
    }

    /// Takes the lock if it is free.
    #[inline(always)]
    pub fn try_lock(&self) -> bool {
        self.word
            .compare_exchange(0, LOCKED, site("sleep.lock", Ordering::Acquire), Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the lock, after at most `spins` looks sleeping for it. Says whether it slept.
    pub fn lock_slow(&self, spins: u32) -> bool {
        for _ in 0..spins {
            match self.word.load(Ordering::Relaxed) {
                0 if self.try_lock() => return false,
                word if word & QUEUED != 0 => break,
                _ => relax(),
            }
        }
        let waiter = Waiter::new();
        loop {
            self.list.lock(holder());
            if self.take_or_mark() {
                self.list.unlock();
                return waiter.lost.get();
            }
            // SAFETY: the list's lock is held; the waiter is on no list (new, or taken off by its waker) and this frame does not
            // return before it is taken off.
            unsafe { self.insert(&waiter) };
            self.list.unlock();
            if waiter.sleep(&self.list) == OWNER {
                return true;
            }
            waiter.wait_again();
        }
    }

    /// Takes the lock, or marks it as waited for. The caller holds the list's lock.
    fn take_or_mark(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let free = word & LOCKED == 0;
            let next = if free { word | LOCKED } else { word | QUEUED };
            if !free && !step("sleep.mark") {
                return false;
            }
            match self.word.compare_exchange(
                word,
                next,
                site("sleep.retake", Ordering::Acquire),
                Ordering::Relaxed,
            ) {
                Ok(_) => return free,
                Err(now) => word = now,
            }
        }
    }

    /// Gives the lock back; only its holder may.
    #[inline(always)]
    pub fn unlock(&self) {
        let order = site("sleep.unlock", Ordering::Release);
        if self.word.compare_exchange(LOCKED, 0, order, Ordering::Relaxed).is_err() {
            self.unlock_slow();
        }
    }

    #[cold]
    fn unlock_slow(&self) {
        self.list.lock(holder());
        // SAFETY: the list's lock is held until after the wake-up.
        let waiter = unsafe { self.take_first() };
        // SAFETY: as above; only whether there is one is asked.
        let queued = if unsafe { self.first() }.is_some() { QUEUED } else { 0 };
        let owner = waiter.is_some_and(|waiter| waiter.lost.get());
        // A store is enough: LOCKED keeps others from changing the word, and QUEUED changes under the list's lock.
        let locked = if owner { LOCKED } else { 0 };
        self.word.store(locked | queued, site("sleep.release", Ordering::Release));
        if let Some(waiter) = waiter {
            waiter.wake(owner);
        }
        self.list.unlock();
    }

    /// Whether anybody holds the lock just now.
    pub fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// Whether anybody sleeps for the lock, or is about to.
    #[cfg(test)]
    pub fn is_waited_for(&self) -> bool {
        self.word.load(Ordering::Relaxed) & QUEUED != 0
    }
}

impl Default for RawMutex {
    fn default() -> Self {
        Self::new()
    }
}
