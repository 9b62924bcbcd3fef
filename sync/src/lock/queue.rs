//! The queue lock with data, class and counts: for the few locks that many CPUs may wait for.
//!
//! Waiters spin on nodes of their own CPU, so a release moves one line to one CPU, and the lock passes in order of arrival.
//! Not for interrupt handlers. The holder does not sleep.

use super::class::LockClass;
use super::order;
use crate::level::{Before, Held, Level, Other};
use crate::machine;
use crate::per_cpu;
use crate::percpu::Count;
use crate::protocol::queue::{Node, Nodes, RawQueue};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::panic::Location;
use core::ptr;

/// Queue locks that one CPU can wait for at once, each within the wait of an interrupt in the one before.
const NESTING: u32 = 4;

#[repr(align(64))]
struct Places {
    nodes: [Node; NESTING as usize],
    used: Count,
}

per_cpu! {
    static PLACES: Places = Places { nodes: [const { Node::new() }; NESTING as usize], used: Count::new() };
}

struct AllPlaces;

impl Nodes for AllPlaces {
    fn node(&self, code: u32) -> &Node {
        let place = code - 1;
        &PLACES.of(place / NESTING).nodes[(place % NESTING) as usize]
    }
}

/// A queue lock of level `L` around a `T`.
pub struct QueueLock<T: ?Sized, L: Level = Other> {
    class: &'static LockClass<L>,
    raw: RawQueue,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread at a time.
unsafe impl<T: ?Sized + Send, L: Level> Sync for QueueLock<T, L> {}
// SAFETY: the lock owns the value.
unsafe impl<T: ?Sized + Send, L: Level> Send for QueueLock<T, L> {}

/// The lock, held. Stays on its thread, which does not sleep while it lives.
pub struct QueueGuard<'a, T: ?Sized, L: Level = Other> {
    lock: &'a QueueLock<T, L>,
    held: Held<'a, L>,
}

impl<T, L: Level> QueueLock<T, L> {
    pub const fn new(value: T, class: &'static LockClass<L>) -> Self {
        QueueLock { class, raw: RawQueue::new(), value: UnsafeCell::new(value) }
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, L: Level> QueueLock<T, L> {
    /// Takes the lock, spinning in the queue until it is this CPU's turn.
    #[track_caller]
    #[inline(always)]
    pub fn lock(&self) -> QueueGuard<'_, T, L> {
        self.acquire(false)
    }

    /// As `lock`, where locks of the same level are held and the caller has a rule for their order.
    #[track_caller]
    #[inline(always)]
    pub fn lock_nested(&self) -> QueueGuard<'_, T, L> {
        self.acquire(true)
    }

    /// As `lock`, with the order proved by types.
    #[track_caller]
    #[inline(always)]
    pub fn lock_in<'a, H: Before<L>>(&'a self, _held: &'a mut Held<'_, H>) -> QueueGuard<'a, T, L> {
        self.acquire(false)
    }

    #[track_caller]
    #[inline(always)]
    fn acquire(&self, nested: bool) -> QueueGuard<'_, T, L> {
        order::check(self.class.class(), self.address(), nested, Location::caller());
        if !self.raw.try_lock() {
            self.collide(Location::caller());
        }
        self.taken(Location::caller())
    }

    #[cold]
    #[inline(never)]
    fn collide(&self, caller: &'static Location<'static>) {
        let start = machine::cycles();
        let places = PLACES.this();
        let used = places.used.get() as u32;
        if used < NESTING {
            places.used.add(1);
            self.raw.lock_queued(&AllPlaces, machine::cpu_id() * NESTING + used + 1);
            places.used.sub(1);
        } else {
            while !self.raw.try_lock() {
                machine::relax();
            }
        }
        let waited = machine::cycles().wrapping_sub(start);
        self.class.class().stats.this().collided(waited, false, 0, caller);
    }

    #[inline(always)]
    fn taken(&self, caller: &'static Location<'static>) -> QueueGuard<'_, T, L> {
        self.class.class().acquired();
        order::acquired(self.class.class(), self.address(), caller);
        QueueGuard { lock: self, held: Held::new() }
    }

    /// Takes the lock if it is free and nobody waits.
    #[track_caller]
    #[inline(always)]
    pub fn try_lock(&self) -> Option<QueueGuard<'_, T, L>> {
        self.raw.try_lock().then(|| self.taken(Location::caller()))
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn address(&self) -> usize {
        ptr::from_ref(&self.raw).addr()
    }
}

impl<'a, T: ?Sized, L: Level> QueueGuard<'a, T, L> {
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

impl<T: ?Sized, L: Level> Deref for QueueGuard<'_, T, L> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> DerefMut for QueueGuard<'_, T, L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and the guard borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> Drop for QueueGuard<'_, T, L> {
    #[inline(always)]
    fn drop(&mut self) {
        order::released(self.lock.address());
        self.lock.raw.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::stats::Sums;
    use crate::{level, lock_class};
    use std::sync::Mutex as StdMutex;
    use std::thread;
    use std::time::Duration;
    use std::vec::Vec;

    lock_class! { static TURNS: LockClass = ("turns", level::Other) }

    #[test]
    fn waiters_get_the_lock_in_order_of_arrival() {
        let lock = QueueLock::<_>::new(Vec::new(), &TURNS);
        let waiting = StdMutex::new(());
        thread::scope(|scope| {
            let held = lock.lock();
            for turn in 0..4 {
                let (lock, _order) = (&lock, waiting.lock());
                scope.spawn(move || lock.lock().push(turn));
                // The thread is in the queue long before the next begins.
                thread::sleep(Duration::from_millis(30));
            }
            drop(held);
        });
        assert_eq!(*lock.lock(), [0, 1, 2, 3]);
        assert_eq!(Sums::of(&TURNS.class().stats).collisions, 4);
    }

    #[test]
    fn threads_that_collide_lose_no_update() {
        let lock = QueueLock::<_>::new(0u32, &crate::lock::UNCLASSED);
        let rounds = if cfg!(miri) { 20 } else { 1000 };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..rounds).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 3 * rounds);
        assert!(lock.try_lock().is_some());
    }
}
