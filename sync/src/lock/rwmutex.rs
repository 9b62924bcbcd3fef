//! The sleeping reader/writer lock with data, class and counts. Holders may sleep. Not for interrupt handlers, nor under a spinning lock.
//!
//! The readers are counted in one word: many CPUs that read at the same time pull that line from each other. Where that matters, read
//! under RCU instead.

use super::class::LockClass;
use super::order;
use crate::level::{Before, Held, Level, Other};
use crate::machine;
use crate::protocol::shared::RawRwMutex;
use core::cell::UnsafeCell;
use core::fmt;
use core::mem;
use core::ops::{Deref, DerefMut};
use core::panic::Location;

/// A sleeping reader/writer lock of level `L` around a `T`.
pub struct RwMutex<T: ?Sized, L: Level = Other> {
    class: &'static LockClass<L>,
    raw: RawRwMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one writer or to readers, which only share it.
unsafe impl<T: ?Sized + Send + Sync, L: Level> Sync for RwMutex<T, L> {}
// SAFETY: the lock owns the value.
unsafe impl<T: ?Sized + Send, L: Level> Send for RwMutex<T, L> {}

/// The lock, held for reading. Stays on its thread.
pub struct ReadGuard<'a, T: ?Sized, L: Level = Other> {
    lock: &'a RwMutex<T, L>,
    held: Held<'a, L>,
}

/// The lock, held for writing. Stays on its thread.
pub struct WriteGuard<'a, T: ?Sized, L: Level = Other> {
    lock: &'a RwMutex<T, L>,
    held: Held<'a, L>,
}

impl<T, L: Level> RwMutex<T, L> {
    pub const fn new(value: T, class: &'static LockClass<L>) -> Self {
        RwMutex { class, raw: RawRwMutex::new(), value: UnsafeCell::new(value) }
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, L: Level> RwMutex<T, L> {
    /// Takes the lock for reading, sleeping while there is a writer or somebody waits.
    ///
    /// A thread that reads already must not read again: a writer that waits in between would stop both.
    #[track_caller]
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T, L> {
        order::assert_may_sleep();
        if !self.raw.try_read() {
            self.collide(RawRwMutex::read_slow, Location::caller());
        }
        self.class.class().acquired();
        ReadGuard { lock: self, held: Held::new() }
    }

    /// Takes the lock for writing, sleeping until nobody else has it.
    #[track_caller]
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T, L> {
        order::assert_may_sleep();
        if !self.raw.try_write() {
            self.collide(RawRwMutex::write_slow, Location::caller());
        }
        self.class.class().acquired();
        WriteGuard { lock: self, held: Held::new() }
    }

    /// As `read`, with the order proved by types.
    #[track_caller]
    #[inline]
    pub fn read_in<'a, H: Before<L>>(&'a self, _held: &'a mut Held<'_, H>) -> ReadGuard<'a, T, L> {
        self.read()
    }

    /// As `write`, with the order proved by types.
    #[track_caller]
    #[inline]
    pub fn write_in<'a, H: Before<L>>(&'a self, _held: &'a mut Held<'_, H>) -> WriteGuard<'a, T, L> {
        self.write()
    }

    #[cold]
    #[inline(never)]
    fn collide(&self, wait: fn(&RawRwMutex) -> bool, caller: &'static Location<'static>) {
        let start = machine::cycles();
        let slept = wait(&self.raw);
        let waited = machine::cycles().wrapping_sub(start);
        self.class.class().stats.this().collided(waited, slept, 0, caller);
    }

    /// Takes the lock for reading if nobody writes or waits; does not sleep.
    #[inline]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T, L>> {
        self.raw.try_read().then(|| {
            self.class.class().acquired();
            ReadGuard { lock: self, held: Held::new() }
        })
    }

    /// Takes the lock for writing if it is free; does not sleep.
    #[inline]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T, L>> {
        self.raw.try_write().then(|| {
            self.class.class().acquired();
            WriteGuard { lock: self, held: Held::new() }
        })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<'a, T: ?Sized, L: Level> ReadGuard<'a, T, L> {
    /// What `lock_in` of the next lock takes.
    #[inline(always)]
    pub fn held(&mut self) -> &mut Held<'a, L> {
        &mut self.held
    }

    /// The data, and what `lock_in` of the next lock takes.
    #[inline(always)]
    pub fn split(&mut self) -> (&T, &mut Held<'a, L>) {
        // SAFETY: the lock is held for reading for as long as the guard is borrowed.
        (unsafe { &*self.lock.value.get() }, &mut self.held)
    }
}

impl<'a, T: ?Sized, L: Level> WriteGuard<'a, T, L> {
    /// What `lock_in` of the next lock takes.
    #[inline(always)]
    pub fn held(&mut self) -> &mut Held<'a, L> {
        &mut self.held
    }

    /// The data, and what `lock_in` of the next lock takes.
    #[inline(always)]
    pub fn split(&mut self) -> (&mut T, &mut Held<'a, L>) {
        // SAFETY: the lock is held for writing for as long as the guard is borrowed.
        (unsafe { &mut *self.lock.value.get() }, &mut self.held)
    }

    /// Goes on as a reader; no writer comes in between.
    pub fn downgrade(self) -> ReadGuard<'a, T, L> {
        let lock = self.lock;
        mem::forget(self);
        lock.raw.downgrade();
        ReadGuard { lock, held: Held::new() }
    }
}

impl<T: ?Sized, L: Level> Deref for ReadGuard<'_, T, L> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held for reading.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> Deref for WriteGuard<'_, T, L> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held for writing.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> DerefMut for WriteGuard<'_, T, L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held for writing, and the guard borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> Drop for ReadGuard<'_, T, L> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock_read();
    }
}

impl<T: ?Sized, L: Level> Drop for WriteGuard<'_, T, L> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock_write();
    }
}

impl<T: ?Sized, L: Level> fmt::Debug for RwMutex<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (written, readers) = self.raw.holders();
        let class = self.class.class().name;
        f.debug_struct("RwMutex")
            .field("class", &class)
            .field("written", &written)
            .field("readers", &readers)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::UNCLASSED;
    use crate::machine::hosted::wait_until;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let lock = RwMutex::<_>::new(1, &UNCLASSED);
        let (a, b) = (lock.read(), lock.try_read().unwrap());
        assert_eq!(*a + *b, 2);
        assert!(lock.try_write().is_none());
        drop((a, b));
        let mut w = lock.write();
        *w = 5;
        assert!(lock.try_read().is_none());
        let r = w.downgrade();
        assert_eq!(*lock.try_read().unwrap() + *r, 10);
    }

    #[test]
    fn a_waiting_writer_goes_before_readers_that_come_later() {
        let lock = RwMutex::<_>::new(0, &UNCLASSED);
        let wrote = AtomicBool::new(false);
        thread::scope(|scope| {
            let first = lock.read();
            scope.spawn(|| {
                *lock.write() = 1;
                wrote.store(true, Ordering::SeqCst);
            });
            // Once the writer waits, no reader passes it.
            wait_until(|| lock.try_read().is_none());
            let late = scope.spawn(|| *lock.read());
            thread::sleep(Duration::from_millis(30));
            assert!(!wrote.load(Ordering::SeqCst));
            drop(first);
            assert_eq!(late.join().unwrap(), 1);
        });
    }

    #[test]
    fn readers_and_writers_that_collide_see_whole_values() {
        let lock = RwMutex::<_>::new((0u32, 0u32), &UNCLASSED);
        let rounds = if cfg!(miri) { 20 } else { 1000 };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut pair = lock.write();
                        pair.0 += 1;
                        pair.1 += 1;
                    }
                });
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let pair = lock.read();
                        assert_eq!(pair.0, pair.1);
                    }
                });
            }
        });
        assert_eq!(lock.into_inner(), (2 * rounds, 2 * rounds));
    }
}
