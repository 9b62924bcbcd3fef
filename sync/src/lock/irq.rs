//! The spinning lock that interrupt handlers take too: interrupts are off on the holder's CPU.
//!
//! A CPU that waits has interrupts as its caller had them, so that it still answers TLB shootdowns. Guards are dropped in the
//! reverse of the order in which they were taken.

use super::class::Class;
use super::guarded::{Guard, Lock, RawLock};
use super::waits;
use crate::atomic::holder;
use crate::machine;
use crate::protocol::spin::RawSpin;
use core::panic::Location;

/// A spinning lock of level `L` around a `T`, which disables interrupts while it is held.
pub type IrqSpinLock<T, L> = Lock<RawIrqSpin, T, L>;
/// The lock, held, with interrupts off.
pub type IrqSpinGuard<'a, T, L> = Guard<'a, RawIrqSpin, T, L>;

/// A [`RawSpin`] that is held with interrupts off.
#[derive(Default)]
pub struct RawIrqSpin(RawSpin);

// SAFETY: as `RawSpin`.
unsafe impl RawLock for RawIrqSpin {
    const FREE: Self = RawIrqSpin(RawSpin::new());
    const SLEEPS: bool = false;
    /// Whether interrupts were enabled before.
    type Kept = bool;

    #[inline(always)]
    fn try_lock(&self) -> Option<bool> {
        let were_enabled = machine::irq_save();
        if self.0.try_lock(holder()) {
            return Some(were_enabled);
        }
        machine::irq_restore(were_enabled);
        None
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self, class: &'static Class, caller: &'static Location<'static>) -> bool {
        let holder_then = self.0.holder();
        assert!(holder_then != holder(), "deadlock: {} taken at {caller} is held by this CPU", class.name);
        let start = machine::cycles();
        let kept = waits::during(class, caller, holder_then, || {
            loop {
                while self.0.holder() != 0 {
                    machine::relax();
                }
                if let Some(kept) = self.try_lock() {
                    break kept;
                }
            }
        });
        class.collided(machine::cycles().wrapping_sub(start), false, holder_then, caller);
        kept
    }

    #[inline(always)]
    fn unlock(&self, were_enabled: bool) {
        self.0.unlock();
        machine::irq_restore(were_enabled);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.holder() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::tests::{INNER, OUTER};
    use crate::machine::hosted::irqs_enabled;

    #[test]
    fn interrupts_are_off_exactly_while_the_lock_is_held() {
        let (a, b) = (IrqSpinLock::new(1, &OUTER), IrqSpinLock::new(2, &INNER));
        let outer = a.lock();
        assert!(!irqs_enabled());
        let inner = b.lock();
        assert!(a.try_lock().is_none());
        drop(inner);
        assert!(!irqs_enabled(), "the inner lock left interrupts as it found them");
        drop(outer);
        assert!(irqs_enabled());
    }

    #[test]
    fn a_failed_try_leaves_interrupts_as_they_were() {
        let lock = IrqSpinLock::new((), &INNER);
        std::thread::scope(|scope| {
            let _held = lock.lock();
            let other = scope.spawn(|| (lock.try_lock().is_none(), irqs_enabled()));
            assert_eq!(other.join().unwrap(), (true, true));
        });
    }
}
