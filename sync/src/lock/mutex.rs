//! The sleeping lock. The holder may sleep. Not for interrupt handlers, nor under a spinning lock.

use super::class::Class;
use super::guarded::{Guard, Lock, RawLock};
use crate::machine;
use crate::protocol::sleep::RawMutex;
use core::panic::Location;

/// Looks at a held lock before sleeping for it: about as long as a sleep and a wake-up take.
const SPINS: u32 = if cfg!(target_os = "none") { 200 } else { 20 };

/// A sleeping lock of level `L` around a `T`.
pub type Mutex<T, L> = Lock<RawMutex, T, L>;
/// The lock, held. Stays on its thread.
pub type MutexGuard<'a, T, L> = Guard<'a, RawMutex, T, L>;

// SAFETY: a `RawMutex` is free or belongs to one thread, to which a waker may hand it directly.
unsafe impl RawLock for RawMutex {
    const FREE: Self = RawMutex::new();
    const SLEEPS: bool = true;
    type Kept = ();

    #[inline(always)]
    fn try_lock(&self) -> Option<()> {
        RawMutex::try_lock(self).then_some(())
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self, class: &'static Class, caller: &'static Location<'static>) {
        let start = machine::cycles();
        let slept = self.lock_slow(SPINS);
        class.collided(machine::cycles().wrapping_sub(start), slept, 0, caller);
    }

    #[inline(always)]
    fn unlock(&self, (): ()) {
        RawMutex::unlock(self);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        RawMutex::is_locked(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::stats::Sums;
    use crate::lock::tests::{INNER, Inner};
    use crate::lock_class;
    use crate::machine::hosted::wait_until;
    use std::thread;
    use std::time::Duration;

    lock_class! { static SLEPT: LockClass = ("slept", Inner) }

    #[test]
    fn a_thread_that_finds_the_lock_held_sleeps_and_gets_it_afterwards() {
        let lock = Mutex::new(0, &SLEPT);
        thread::scope(|scope| {
            let held = lock.lock();
            assert!(lock.try_lock().is_none());
            scope.spawn(|| *lock.lock() += 1);
            wait_until(|| lock.raw.is_waited_for());
            thread::sleep(Duration::from_millis(2));
            drop(held);
        });
        assert_eq!(*lock.lock(), 1);
        let sums = Sums::of(&SLEPT.class().stats);
        assert_eq!((sums.collisions, sums.sleeps), (1, 1));
        assert!(sums.waited >= 1_000_000, "waited {} ns", sums.waited);
    }

    #[test]
    fn threads_that_collide_lose_no_update_and_all_wake() {
        let lock = Mutex::new(0u32, &INNER);
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
