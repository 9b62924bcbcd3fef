//! The spinning lock with data, class and counts.
//!
//! Not for what an interrupt handler locks too (`IrqSpinLock`), nor for many waiters (`QueueLock`). The holder does not sleep.
//! Uncontended, lock and unlock write the lock's own line and this CPU's counts, nothing else.

use super::class::{Class, LockClass};
use super::order;
use crate::atomic::holder;
use crate::level::{Before, Held, Level, Other};
use crate::machine;
use crate::protocol::spin::RawSpin;
use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::panic::Location;
use core::ptr;

/// A spinning lock of level `L` around a `T`.
pub struct SpinLock<T: ?Sized, L: Level = Other> {
    class: &'static LockClass<L>,
    raw: RawSpin,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread at a time.
unsafe impl<T: ?Sized + Send, L: Level> Sync for SpinLock<T, L> {}
// SAFETY: the lock owns the value.
unsafe impl<T: ?Sized + Send, L: Level> Send for SpinLock<T, L> {}

/// The lock, held. Stays on its thread, which does not sleep while it lives.
pub struct SpinGuard<'a, T: ?Sized, L: Level = Other> {
    lock: &'a SpinLock<T, L>,
    held: Held<'a, L>,
}

impl<T, L: Level> SpinLock<T, L> {
    pub const fn new(value: T, class: &'static LockClass<L>) -> Self {
        SpinLock { class, raw: RawSpin::new(), value: UnsafeCell::new(value) }
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// Waits for `raw`, which was not free, and counts the collision.
#[cold]
#[inline(never)]
pub(super) fn collide(raw: &RawSpin, class: &'static Class, me: u32, caller: &'static Location<'static>) {
    let holder = raw.holder();
    assert!(holder != me, "deadlock: {} taken at {caller} is held by this CPU", class.name);
    let start = machine::cycles();
    raw.lock(me);
    class.stats.this().collided(machine::cycles().wrapping_sub(start), false, holder, caller);
}

impl<T: ?Sized, L: Level> SpinLock<T, L> {
    /// Takes the lock, spinning until it is free.
    #[track_caller]
    #[inline(always)]
    pub fn lock(&self) -> SpinGuard<'_, T, L> {
        self.acquire(false)
    }

    /// As `lock`, where locks of the same level are held and the caller has a rule for their order.
    #[track_caller]
    #[inline(always)]
    pub fn lock_nested(&self) -> SpinGuard<'_, T, L> {
        self.acquire(true)
    }

    /// As `lock`, with the order proved by types.
    #[track_caller]
    #[inline(always)]
    pub fn lock_in<'a, H: Before<L>>(&'a self, _held: &'a mut Held<'_, H>) -> SpinGuard<'a, T, L> {
        self.acquire(false)
    }

    #[track_caller]
    #[inline(always)]
    fn acquire(&self, nested: bool) -> SpinGuard<'_, T, L> {
        let class = self.class.class();
        order::check(class, self.address(), nested, Location::caller());
        let me = holder();
        if !self.raw.try_lock(me) {
            collide(&self.raw, class, me, Location::caller());
        }
        self.taken(Location::caller())
    }

    #[inline(always)]
    fn taken(&self, caller: &'static Location<'static>) -> SpinGuard<'_, T, L> {
        self.class.class().acquired();
        order::acquired(self.class.class(), self.address(), caller);
        SpinGuard { lock: self, held: Held::new() }
    }

    /// Takes the lock if it is free. Needs no order, since it does not wait.
    #[track_caller]
    #[inline(always)]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T, L>> {
        self.raw.try_lock(holder()).then(|| self.taken(Location::caller()))
    }

    /// The CPU that holds the lock just now.
    pub fn holder(&self) -> Option<machine::CpuId> {
        self.raw.holder().checked_sub(1)
    }

    /// Whether anybody holds the lock just now.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.raw.holder() != 0
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn address(&self) -> usize {
        ptr::from_ref(&self.raw).addr()
    }
}

impl<'a, T: ?Sized, L: Level> SpinGuard<'a, T, L> {
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

impl<T: ?Sized, L: Level> Deref for SpinGuard<'_, T, L> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> DerefMut for SpinGuard<'_, T, L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and the guard borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> Drop for SpinGuard<'_, T, L> {
    #[inline(always)]
    fn drop(&mut self) {
        order::released(self.lock.address());
        self.lock.raw.unlock();
    }
}

impl<T: ?Sized + fmt::Debug, L: Level> fmt::Debug for SpinGuard<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized, L: Level> fmt::Debug for SpinLock<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock")
            .field("class", &self.class.class().name)
            .field("holder", &self.holder())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::stats::Sums;
    use crate::{level, lock_class};
    use std::thread;

    lock_class! {
        static QUIET: LockClass = ("quiet", level::Other);
        static BUSY: LockClass = ("busy", level::Other);
    }

    #[test]
    fn an_uncontended_lock_counts_an_acquisition_and_no_collision() {
        let lock = SpinLock::<_>::new(1, &QUIET);
        *lock.lock() += 1;
        assert_eq!(*lock.try_lock().unwrap(), 2);
        let sums = Sums::of(&QUIET.class().stats);
        assert_eq!((sums.acquisitions, sums.collisions), (2, 0));
        assert_eq!(lock.into_inner(), 2);
    }

    #[test]
    fn a_held_lock_names_its_holder_and_cannot_be_tried() {
        let lock = SpinLock::<_>::new((), &crate::lock::UNCLASSED);
        let guard = lock.lock();
        assert_eq!(lock.holder(), Some(machine::cpu_id()));
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert!(!lock.is_locked());
    }

    #[test]
    fn threads_that_collide_lose_no_update_and_the_collision_is_counted() {
        let lock = SpinLock::<_>::new(0u32, &BUSY);
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        thread::scope(|scope| {
            let held = lock.lock();
            for _ in 0..3 {
                scope.spawn(|| (0..rounds).for_each(|_| *lock.lock() += 1));
            }
            while Sums::of(&BUSY.class().stats).acquisitions > 1 {}
            thread::sleep(core::time::Duration::from_millis(20));
            drop(held);
        });
        assert_eq!(*lock.lock(), 3 * rounds);
        let sums = Sums::of(&BUSY.class().stats);
        assert!(sums.collisions >= 3 && sums.waited > 0 && sums.longest > 0, "{sums:?}");
        assert!(sums.longest_caller.unwrap().file().ends_with("spin.rs"));
        assert!(sums.longest_holder.is_some());
    }
}
