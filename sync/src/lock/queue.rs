//! The queue lock: for the few locks that many CPUs may wait for.
//!
//! Waiters spin on nodes of their own CPU, so a release moves one line to one CPU, and the lock passes in order of arrival.
//! Not for interrupt handlers. The holder does not sleep.

use super::class::Class;
use super::guarded::{Guard, Lock, RawLock};
use crate::level::Other;
use crate::machine;
use crate::per_cpu;
use crate::percpu::Count;
use crate::protocol::queue::{Node, Nodes, RawQueue};
use core::panic::Location;

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
pub type QueueLock<T, L = Other> = Lock<RawQueue, T, L>;
/// The lock, held. Stays on its thread, which does not sleep while it lives.
pub type QueueGuard<'a, T, L = Other> = Guard<'a, RawQueue, T, L>;

// SAFETY: a `RawQueue` passes from one holder to the next, never to two.
unsafe impl RawLock for RawQueue {
    const FREE: Self = RawQueue::new();
    const SLEEPS: bool = false;
    type Kept = ();

    #[inline(always)]
    fn try_lock(&self) -> Option<()> {
        RawQueue::try_lock(self).then_some(())
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self, class: &'static Class, caller: &'static Location<'static>) {
        let start = machine::cycles();
        let places = PLACES.this();
        let used = places.used.get() as u32;
        if used < NESTING {
            places.used.add(1);
            self.lock_queued(&AllPlaces, machine::cpu_id() * NESTING + used + 1);
            places.used.sub(1);
        } else {
            while !RawQueue::try_lock(self) {
                machine::relax();
            }
        }
        class.stats.this().collided(machine::cycles().wrapping_sub(start), false, 0, caller);
    }

    #[inline(always)]
    fn unlock(&self, (): ()) {
        RawQueue::unlock(self);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        RawQueue::is_locked(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::stats::Sums;
    use crate::machine::hosted::wait_until;
    use crate::{level, lock_class};
    use std::thread;
    use std::vec::Vec;

    lock_class! { static TURNS: LockClass = ("turns", level::Other) }

    #[test]
    fn waiters_get_the_lock_in_order_of_arrival() {
        let lock = QueueLock::<_>::new(Vec::new(), &TURNS);
        thread::scope(|scope| {
            let held = lock.lock();
            for turn in 0..4 {
                let (lock, before) = (&lock, lock.raw.tail());
                scope.spawn(move || lock.lock().push(turn));
                // The thread is in the queue before the next begins.
                wait_until(|| lock.raw.tail() != before);
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
