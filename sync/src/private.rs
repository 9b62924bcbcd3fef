//! A counted reference that one thread, its owner, looks at without a lock and without counting; others take the lock and count.
//!
//! Threads that refer to one object by a `Private` each write no common line when they use it. Only the owner exchanges the reference, so
//! what it reads without the lock cannot change meanwhile.

use crate::level::Level;
use crate::lock::{LockClass, SpinLock};
use alloc::sync::Arc;
use core::cell::UnsafeCell;

/// See the head of the file.
///
/// Whoever says that it is the owner, and that it does not use what it was lent before an exchange, says so in an `unsafe` block:
///
/// ```compile_fail,E0133
/// # use std::sync::Arc;
/// # sync::lock_order! { level Name = 1; }
/// # use sync::{Private, lock_class};
/// # lock_class! { static NAME: LockClass = ("name", Name); }
/// let name = Private::new(Arc::new(1), &NAME);
/// let lent = name.look();
/// drop(name.replace(None)); // what is lent is gone
/// ```
pub struct Private<T, L: Level> {
    value: UnsafeCell<Option<Arc<T>>>,
    lock: SpinLock<(), L>,
}

// SAFETY: the cell is written in `replace` alone, by the owner under the lock; others read it under the lock.
unsafe impl<T: Send + Sync, L: Level> Sync for Private<T, L> {}
// SAFETY: an `Arc` of a `Send + Sync` type may move between threads.
unsafe impl<T: Send + Sync, L: Level> Send for Private<T, L> {}

impl<T, L: Level> Private<T, L> {
    pub fn new(value: Arc<T>, class: &'static LockClass<L>) -> Self {
        Self { value: UnsafeCell::new(Some(value)), lock: SpinLock::new((), class) }
    }

    /// A counted reference, for any thread; None once the owner has given it up.
    pub fn shared(&self) -> Option<Arc<T>> {
        let _lock = self.lock.lock();
        // SAFETY: the lock excludes `replace`.
        unsafe { (*self.value.get()).clone() }
    }

    /// What `f` makes of the object under the lock, without counting, for any thread; None once the owner has given it up. `f` is short.
    pub fn look_locked<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let _lock = self.lock.lock();
        // SAFETY: the lock excludes `replace`, so the cell's reference keeps the object.
        unsafe { (*self.value.get()).as_deref() }.map(f)
    }

    /// The owner's look; None once it has given the reference up.
    ///
    /// # Safety
    /// The caller is the owner, and uses the result no more once what the next `replace` returns is dropped.
    #[inline(always)]
    pub unsafe fn look(&self) -> Option<&T> {
        // SAFETY: only the owner writes the cell, and it is here. The object is counted by the cell, and then by what `replace` returned.
        unsafe { (*self.value.get()).as_deref() }
    }

    /// A counted reference, for the owner: as [`shared`](Self::shared) without the lock.
    ///
    /// # Safety
    /// The caller is the owner.
    #[inline(always)]
    pub unsafe fn count(&self) -> Option<Arc<T>> {
        // SAFETY: only the owner writes the cell, and it is here.
        unsafe { (*self.value.get()).clone() }
    }

    /// How many references to the object are counted, this one with them, for the owner; 0 once it has given it up.
    ///
    /// # Safety
    /// The caller is the owner.
    pub unsafe fn references(&self) -> usize {
        // SAFETY: only the owner writes the cell, and it is here.
        unsafe { (*self.value.get()).as_ref().map_or(0, Arc::strong_count) }
    }

    /// Exchanges the reference, and returns the old one.
    ///
    /// # Safety
    /// The caller is the owner. While something that `look` lent is in use, it keeps what is returned.
    pub unsafe fn replace(&self, to: Option<Arc<T>>) -> Option<Arc<T>> {
        let _lock = self.lock.lock();
        // SAFETY: the owner writes, with the lock against other readers. Of its own looks none refers to the cell itself.
        unsafe { core::mem::replace(&mut *self.value.get(), to) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lock_class, lock_order};
    use std::thread;

    lock_order! { level Number = 1; }
    lock_class! { static NUMBER: LockClass = ("number", Number); }

    #[test]
    fn what_the_owner_is_lent_lives_as_long_as_what_replace_returned() {
        let number = Private::new(Arc::new(1), &NUMBER);
        // SAFETY: this thread alone has it, and `old` outlives the use of `lent`.
        unsafe {
            let lent = number.look();
            let old = number.replace(Some(Arc::new(2)));
            assert_eq!((lent, number.look()), (Some(&1), Some(&2)));
            assert_eq!(old.as_deref(), Some(&1));
            assert_eq!((number.references(), number.count()), (1, Some(Arc::new(2))));
            drop(number.replace(None));
            assert_eq!((number.look(), number.references()), (None, 0));
        }
        assert_eq!(number.shared(), None);
    }

    #[test]
    fn others_see_whole_references_while_the_owner_exchanges_them() {
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        let number = Private::new(Arc::new(0), &NUMBER);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while let Some(seen) = number.shared() {
                        assert!(*seen >= last);
                        last = *seen;
                        number.look_locked(|seen| assert!(*seen >= last));
                    }
                });
            }
            for n in 1..=rounds {
                // SAFETY: this thread is the owner; nothing that it looked at is in use.
                let old = unsafe { number.replace(Some(Arc::new(n))) };
                assert_eq!(old.as_deref(), Some(&(n - 1)));
                // SAFETY: the same; used at once.
                assert_eq!(unsafe { number.look() }, Some(&n));
            }
            // SAFETY: the same.
            drop(unsafe { number.replace(None) });
        });
    }
}
