//! The sleeping lock with data, class and counts. The holder may sleep. Not for interrupt handlers, nor under a spinning lock.

use super::class::LockClass;
use super::order;
use crate::level::{Before, Held, Level, Other};
use crate::machine;
use crate::protocol::sleep::RawMutex;
use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::panic::Location;

/// Looks at a held lock before sleeping for it: about as long as a sleep and a wake-up take.
const SPINS: u32 = if cfg!(target_os = "none") { 200 } else { 20 };

/// A sleeping lock of level `L` around a `T`.
pub struct Mutex<T: ?Sized, L: Level = Other> {
    class: &'static LockClass<L>,
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread at a time.
unsafe impl<T: ?Sized + Send, L: Level> Sync for Mutex<T, L> {}
// SAFETY: the lock owns the value.
unsafe impl<T: ?Sized + Send, L: Level> Send for Mutex<T, L> {}

/// The lock, held. Stays on its thread.
pub struct MutexGuard<'a, T: ?Sized, L: Level = Other> {
    lock: &'a Mutex<T, L>,
    held: Held<'a, L>,
}

impl<T, L: Level> Mutex<T, L> {
    pub const fn new(value: T, class: &'static LockClass<L>) -> Self {
        Mutex { class, raw: RawMutex::new(), value: UnsafeCell::new(value) }
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, L: Level> Mutex<T, L> {
    /// Takes the lock, sleeping until it is free.
    #[track_caller]
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T, L> {
        order::assert_may_sleep();
        if !self.raw.try_lock() {
            self.collide(Location::caller());
        }
        self.taken()
    }

    /// As `lock`, with the order proved by types.
    #[track_caller]
    #[inline]
    pub fn lock_in<'a, H: Before<L>>(&'a self, _held: &'a mut Held<'_, H>) -> MutexGuard<'a, T, L> {
        self.lock()
    }

    #[cold]
    #[inline(never)]
    fn collide(&self, caller: &'static Location<'static>) {
        let start = machine::cycles();
        let slept = self.raw.lock_slow(SPINS);
        let waited = machine::cycles().wrapping_sub(start);
        self.class.class().stats.this().collided(waited, slept, 0, caller);
    }

    #[inline(always)]
    fn taken(&self) -> MutexGuard<'_, T, L> {
        self.class.class().acquired();
        MutexGuard { lock: self, held: Held::new() }
    }

    /// Takes the lock if it is free; does not sleep.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, L>> {
        self.raw.try_lock().then(|| self.taken())
    }

    /// Whether anybody holds the lock just now.
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<'a, T: ?Sized, L: Level> MutexGuard<'a, T, L> {
    /// What `lock_in` of the next lock takes.
    #[inline(always)]
    pub fn held(&mut self) -> &mut Held<'a, L> {
        &mut self.held
    }

    /// The data, and what `lock_in` of the next lock takes.
    #[inline(always)]
    pub fn split(&mut self) -> (&mut T, &mut Held<'a, L>) {
        // SAFETY: the lock is held for as long as the guard is borrowed.
        (unsafe { &mut *self.lock.value.get() }, &mut self.held)
    }
}

impl<T: ?Sized, L: Level> Deref for MutexGuard<'_, T, L> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> DerefMut for MutexGuard<'_, T, L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and the guard borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> Drop for MutexGuard<'_, T, L> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock();
    }
}

impl<T: ?Sized + fmt::Debug, L: Level> fmt::Debug for MutexGuard<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized, L: Level> fmt::Debug for Mutex<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex")
            .field("class", &self.class.class().name)
            .field("locked", &self.is_locked())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::stats::Sums;
    use crate::{level, lock_class};
    use std::thread;
    use std::time::Duration;

    lock_class! { static SLEPT: LockClass = ("slept", level::Other) }

    #[test]
    fn a_thread_that_finds_the_lock_held_sleeps_and_gets_it_afterwards() {
        let lock = Mutex::<_>::new(0, &SLEPT);
        thread::scope(|scope| {
            let held = lock.lock();
            assert!(lock.try_lock().is_none());
            scope.spawn(|| *lock.lock() += 1);
            thread::sleep(Duration::from_millis(50));
            drop(held);
        });
        assert_eq!(*lock.lock(), 1);
        let sums = Sums::of(&SLEPT.class().stats);
        assert_eq!((sums.collisions, sums.sleeps), (1, 1));
        assert!(sums.waited >= 1_000_000, "waited {} ns", sums.waited);
    }

    #[test]
    fn threads_that_collide_lose_no_update_and_all_wake() {
        let lock = Mutex::<_>::new(0u32, &crate::lock::UNCLASSED);
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut value = lock.lock();
                        *value += 1;
                        if value.is_multiple_of(64) {
                            thread::yield_now();
                        }
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 4 * rounds);
    }
}
