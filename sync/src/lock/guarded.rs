//! A lock with data, class and counts, around any way of waiting ([`RawLock`]).
//!
//! Uncontended, lock and unlock write the lock's own line and this CPU's counts, nothing else. The files beside this one say how
//! each raw lock waits: `spin`, `irq`, `mutex`.

use super::class::{Class, LockClass};
use super::order;
use crate::level::{Before, Held, Level};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::panic::Location;
use core::ptr;

/// One way of excluding others and of waiting for them.
///
/// # Safety
/// Between a `try_lock` or `lock_contended` that took the lock and the `unlock` that follows, nobody else takes it.
pub unsafe trait RawLock: Sized {
    /// A free lock.
    const FREE: Self;
    /// Whether waiters sleep, and the holder may.
    const SLEEPS: bool;
    /// What the guard keeps for `unlock`.
    type Kept: Copy;

    /// Takes the lock if it is free; does not wait.
    fn try_lock(&self) -> Option<Self::Kept>;

    /// Waits for a lock that was not free just now, takes it and counts the collision.
    fn lock_contended(&self, class: &'static Class, caller: &'static Location<'static>) -> Self::Kept;

    /// Gives the lock back.
    fn unlock(&self, kept: Self::Kept);

    /// Whether anybody holds the lock just now.
    fn is_locked(&self) -> bool;
}

/// A lock of level `L` around a `T`, which waits as `R` does.
pub struct Lock<R, T: ?Sized, L: Level> {
    class: &'static LockClass<L>,
    pub(super) raw: R,
    value: UnsafeCell<T>,
}

// SAFETY: the raw lock gives the value to one thread at a time.
unsafe impl<R: RawLock + Sync, T: ?Sized + Send, L: Level> Sync for Lock<R, T, L> {}
// SAFETY: the lock owns the value.
unsafe impl<R: RawLock + Send, T: ?Sized + Send, L: Level> Send for Lock<R, T, L> {}

/// The lock, held. Stays on its thread, which sleeps meanwhile only if `R` allows it.
pub struct Guard<'a, R: RawLock, T: ?Sized, L: Level> {
    lock: &'a Lock<R, T, L>,
    held: Held<'a, L>,
    kept: R::Kept,
}

impl<R: RawLock, T, L: Level> Lock<R, T, L> {
    pub const fn new(value: T, class: &'static LockClass<L>) -> Self {
        Lock { class, raw: R::FREE, value: UnsafeCell::new(value) }
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<R: RawLock, T: ?Sized, L: Level> Lock<R, T, L> {
    /// Takes the lock, waiting until it is free.
    #[track_caller]
    #[inline(always)]
    pub fn lock(&self) -> Guard<'_, R, T, L> {
        self.acquire(false)
    }

    /// As `lock`, where locks of the same level are held and the caller has a rule for their order.
    #[track_caller]
    #[inline(always)]
    pub fn lock_nested(&self) -> Guard<'_, R, T, L> {
        self.acquire(true)
    }

    /// As `lock`, with the order proved by types.
    #[track_caller]
    #[inline(always)]
    pub fn lock_in<'a, H: Before<L>>(&'a self, _held: &'a mut Held<'_, H>) -> Guard<'a, R, T, L> {
        self.acquire(false)
    }

    /// As `lock_in`, where the innermost lock held is of the same level and the caller has a rule for their order.
    #[track_caller]
    #[inline(always)]
    pub fn lock_nested_in<'a>(&'a self, _held: &'a mut Held<'_, L>) -> Guard<'a, R, T, L> {
        self.acquire(true)
    }

    #[track_caller]
    #[inline(always)]
    fn acquire(&self, nested: bool) -> Guard<'_, R, T, L> {
        order::check(self.class.class(), self.address(), nested, R::SLEEPS, Location::caller());
        // Where nothing is checked, the exchange of the word is the first use of the lock's line (the class lies on it too): another CPU's comes over once,
        // and not first to be read and then to be written.
        let kept = match self.raw.try_lock() {
            Some(kept) => kept,
            None => self.raw.lock_contended(self.class.class(), Location::caller()),
        };
        self.taken(kept, Location::caller())
    }

    /// Takes the lock if it is free. Needs no order, since it does not wait.
    #[track_caller]
    #[inline(always)]
    pub fn try_lock(&self) -> Option<Guard<'_, R, T, L>> {
        let kept = self.raw.try_lock()?;
        Some(self.taken(kept, Location::caller()))
    }

    #[inline(always)]
    fn taken(&self, kept: R::Kept, caller: &'static Location<'static>) -> Guard<'_, R, T, L> {
        self.class.class().acquired();
        order::acquired(self.class.class(), self.address(), R::SLEEPS, caller);
        Guard { lock: self, held: Held::new(), kept }
    }

    /// Whether anybody holds the lock just now.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[inline(always)]
    fn released(&self, kept: R::Kept) {
        order::released(self.class.class(), self.address(), R::SLEEPS);
        self.raw.unlock(kept);
    }

    fn address(&self) -> usize {
        ptr::from_ref(&self.raw).addr()
    }
}

/// A lock around nothing may be taken and given back without a guard: where one that is taken at times would be kept in between by who does not take it.
impl<R: RawLock<Kept = ()>, L: Level> Lock<R, (), L> {
    /// Takes the lock, waiting until it is free, until this thread calls [`Self::give_back`].
    #[track_caller]
    #[inline(always)]
    pub fn take(&self) {
        let _kept = ManuallyDrop::new(self.lock());
    }

    /// Gives back what this thread took by [`Self::take`].
    #[inline(always)]
    pub fn give_back(&self) {
        debug_assert!(self.is_locked());
        self.released(());
    }
}

impl<'a, R: RawLock, T: ?Sized, L: Level> Guard<'a, R, T, L> {
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

impl<R: RawLock, T: ?Sized, L: Level> Deref for Guard<'_, R, T, L> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<R: RawLock, T: ?Sized, L: Level> DerefMut for Guard<'_, R, T, L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and the guard borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<R: RawLock, T: ?Sized, L: Level> Drop for Guard<'_, R, T, L> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.released(self.kept);
    }
}

impl<R: RawLock, T: ?Sized + fmt::Debug, L: Level> fmt::Debug for Guard<'_, R, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<R: RawLock, T: ?Sized, L: Level> fmt::Debug for Lock<R, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("class", &self.class.class().name)
            .field("locked", &self.is_locked())
            .finish()
    }
}
