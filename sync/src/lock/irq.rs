//! The spinning lock that interrupt handlers take too: interrupts are off on the holder's CPU.
//!
//! A CPU that waits has interrupts as its caller had them, so that it still answers TLB shootdowns.

use super::class::LockClass;
use super::order;
use crate::atomic::holder;
use crate::level::{Before, Held, Level, Other};
use crate::machine;
use crate::protocol::spin::RawSpin;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::panic::Location;
use core::ptr;

/// A spinning lock of level `L` around a `T`, which disables interrupts while it is held.
pub struct IrqSpinLock<T: ?Sized, L: Level = Other> {
    class: &'static LockClass<L>,
    raw: RawSpin,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread or handler at a time.
unsafe impl<T: ?Sized + Send, L: Level> Sync for IrqSpinLock<T, L> {}
// SAFETY: the lock owns the value.
unsafe impl<T: ?Sized + Send, L: Level> Send for IrqSpinLock<T, L> {}

/// The lock, held, with interrupts off. Guards are dropped in the reverse of the order in which they were taken.
pub struct IrqSpinGuard<'a, T: ?Sized, L: Level = Other> {
    lock: &'a IrqSpinLock<T, L>,
    held: Held<'a, L>,
    were_enabled: bool,
}

impl<T, L: Level> IrqSpinLock<T, L> {
    pub const fn new(value: T, class: &'static LockClass<L>) -> Self {
        IrqSpinLock { class, raw: RawSpin::new(), value: UnsafeCell::new(value) }
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, L: Level> IrqSpinLock<T, L> {
    /// Disables interrupts and takes the lock, spinning until it is free.
    #[track_caller]
    #[inline(always)]
    pub fn lock(&self) -> IrqSpinGuard<'_, T, L> {
        self.acquire(false)
    }

    /// As `lock`, where locks of the same level are held and the caller has a rule for their order.
    #[track_caller]
    #[inline(always)]
    pub fn lock_nested(&self) -> IrqSpinGuard<'_, T, L> {
        self.acquire(true)
    }

    /// As `lock`, with the order proved by types.
    #[track_caller]
    #[inline(always)]
    pub fn lock_in<'a, H: Before<L>>(&'a self, _held: &'a mut Held<'_, H>) -> IrqSpinGuard<'a, T, L> {
        self.acquire(false)
    }

    #[track_caller]
    #[inline(always)]
    fn acquire(&self, nested: bool) -> IrqSpinGuard<'_, T, L> {
        order::check(self.class.class(), self.address(), nested, Location::caller());
        let were_enabled = machine::irq_save();
        let me = holder();
        if !self.raw.try_lock(me) {
            self.collide(me, were_enabled, Location::caller());
        }
        self.taken(were_enabled, Location::caller())
    }

    #[cold]
    #[inline(never)]
    fn collide(&self, me: u32, were_enabled: bool, caller: &'static Location<'static>) {
        let class = self.class.class();
        let holder = self.raw.holder();
        assert!(holder != me, "deadlock: {} taken at {caller} is held by this CPU", class.name);
        let start = machine::cycles();
        loop {
            machine::irq_restore(were_enabled);
            while self.raw.holder() != 0 {
                machine::relax();
            }
            machine::irq_save();
            if self.raw.try_lock(me) {
                break;
            }
        }
        class.stats.this().collided(machine::cycles().wrapping_sub(start), false, holder, caller);
    }

    #[inline(always)]
    fn taken(&self, were_enabled: bool, caller: &'static Location<'static>) -> IrqSpinGuard<'_, T, L> {
        self.class.class().acquired();
        order::acquired(self.class.class(), self.address(), caller);
        IrqSpinGuard { lock: self, held: Held::new(), were_enabled }
    }

    /// Takes the lock if it is free.
    #[track_caller]
    #[inline(always)]
    pub fn try_lock(&self) -> Option<IrqSpinGuard<'_, T, L>> {
        let were_enabled = machine::irq_save();
        if self.raw.try_lock(holder()) {
            return Some(self.taken(were_enabled, Location::caller()));
        }
        machine::irq_restore(were_enabled);
        None
    }

    /// The CPU that holds the lock just now.
    pub fn holder(&self) -> Option<machine::CpuId> {
        self.raw.holder().checked_sub(1)
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Gives the lock back by force, for the panic screen, when the holder will never run again.
    ///
    /// # Safety
    /// No other CPU runs, or none uses the value.
    pub unsafe fn force_unlock(&self) {
        order::released(self.address());
        self.raw.unlock();
    }

    fn address(&self) -> usize {
        ptr::from_ref(&self.raw).addr()
    }
}

impl<'a, T: ?Sized, L: Level> IrqSpinGuard<'a, T, L> {
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

impl<T: ?Sized, L: Level> Deref for IrqSpinGuard<'_, T, L> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> DerefMut for IrqSpinGuard<'_, T, L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and the guard borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized, L: Level> Drop for IrqSpinGuard<'_, T, L> {
    #[inline(always)]
    fn drop(&mut self) {
        order::released(self.lock.address());
        self.lock.raw.unlock();
        machine::irq_restore(self.were_enabled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::UNCLASSED;
    use crate::machine::hosted::irqs_enabled;

    #[test]
    fn interrupts_are_off_exactly_while_the_lock_is_held() {
        let (a, b) = (IrqSpinLock::<_>::new(1, &UNCLASSED), IrqSpinLock::<_>::new(2, &UNCLASSED));
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
        let lock = IrqSpinLock::<_>::new((), &UNCLASSED);
        std::thread::scope(|scope| {
            let _held = lock.lock();
            let other = scope.spawn(|| (lock.try_lock().is_none(), irqs_enabled()));
            assert_eq!(other.join().unwrap(), (true, true));
        });
    }
}
