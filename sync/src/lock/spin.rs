//! The spinning lock.
//!
//! Not for what an interrupt handler locks too (`IrqSpinLock`). The holder does not sleep.

use super::class::Class;
use super::guarded::{Guard, Lock, RawLock};
use super::waits;
use crate::atomic::holder;
use crate::level::Level;
use crate::machine;
use crate::protocol::spin::RawSpin;
use core::panic::Location;

/// A spinning lock of level `L` around a `T`.
pub type SpinLock<T, L> = Lock<RawSpin, T, L>;
/// The lock, held. Stays on its thread, which does not sleep while it lives.
pub type SpinGuard<'a, T, L> = Guard<'a, RawSpin, T, L>;

// SAFETY: a `RawSpin` that holds one CPU's number is given to no other.
unsafe impl RawLock for RawSpin {
    const FREE: Self = RawSpin::new();
    const SLEEPS: bool = false;
    type Kept = ();

    #[inline(always)]
    fn try_lock(&self) -> Option<()> {
        RawSpin::try_lock(self, holder()).then_some(())
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self, class: &'static Class, caller: &'static Location<'static>) {
        let (me, holder) = (holder(), self.holder());
        assert!(holder != me, "deadlock: {} taken at {caller} is held by this CPU", class.name);
        let start = machine::cycles();
        waits::during(class, caller, holder, || self.lock(me));
        class.collided(machine::cycles().wrapping_sub(start), false, holder, caller);
    }

    #[inline(always)]
    fn unlock(&self, (): ()) {
        RawSpin::unlock(self);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.holder() != 0
    }
}

impl<T: ?Sized, L: Level> SpinLock<T, L> {
    /// The CPU that holds the lock just now.
    pub fn holder(&self) -> Option<machine::CpuId> {
        self.raw.holder().checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::stats::Sums;
    use crate::lock::tests::{INNER, Inner};
    use crate::lock_class;
    use std::thread;

    lock_class! {
        static QUIET: LockClass = ("quiet", Inner);
        static BUSY: LockClass = ("busy", Inner);
    }

    #[test]
    fn an_uncontended_lock_counts_an_acquisition_and_no_collision() {
        let lock = SpinLock::new(1, &QUIET);
        *lock.lock() += 1;
        assert_eq!(*lock.try_lock().unwrap(), 2);
        let sums = Sums::of(&QUIET.class().stats);
        assert_eq!((sums.acquisitions, sums.collisions), (2, 0));
        assert_eq!(lock.into_inner(), 2);
    }

    #[test]
    fn a_held_lock_names_its_holder_and_cannot_be_tried() {
        let lock = SpinLock::new((), &INNER);
        let guard = lock.lock();
        assert_eq!(lock.holder(), Some(machine::cpu_id()));
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert!(!lock.is_locked());
    }

    #[test]
    fn threads_that_collide_lose_no_update_and_the_collision_is_counted() {
        let lock = SpinLock::new(0u32, &BUSY);
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        // Nobody sees a thread spin; on a busy machine it may come too late to.
        let mut expected = 0;
        let mut tries = (0..100).map(|_| {
            thread::scope(|scope| {
                let held = lock.lock();
                for _ in 0..3 {
                    scope.spawn(|| (0..rounds).for_each(|_| *lock.lock() += 1));
                }
                thread::sleep(core::time::Duration::from_millis(20));
                drop(held);
            });
            expected += 3 * rounds;
            assert_eq!(*lock.lock(), expected);
            Sums::of(&BUSY.class().stats)
        });
        let sums = tries.find(|sums| sums.collisions >= 3).expect("collisions are not counted");
        assert!(sums.waited > 0 && sums.longest > 0, "{sums:?}");
        assert!(sums.longest_caller.unwrap().file().ends_with("spin.rs"));
        assert!(sums.longest_holder.is_some());
    }
}
