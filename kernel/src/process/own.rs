//! A reference that a thread keeps to something shared, and that only the thread itself exchanges.
//!
//! The thread looks at it without a lock and without counting, so threads that use one file table write no common line;
//! others (`/proc`) take the lock and count.

use crate::lock_order as level;
use crate::sched;
use alloc::sync::Arc;
use core::cell::UnsafeCell;
use sync::{SpinLock, lock_class};

lock_class! { static OWN: LockClass = ("thread's references", level::ThreadReference); }

/// See the head of the file. Made for a thread by its creator; from then on exchanged by that thread alone.
pub struct Own<T> {
    value: UnsafeCell<Option<Arc<T>>>,
    lock: SpinLock<(), level::ThreadReference>,
}

// SAFETY: the cell is written only in `replace`, by the owning thread under the lock; others read it under the lock.
unsafe impl<T: Send + Sync> Sync for Own<T> {}
// SAFETY: an `Arc` of a `Send + Sync` type may move between threads.
unsafe impl<T: Send + Sync> Send for Own<T> {}

impl<T> Own<T> {
    pub fn new(value: Arc<T>) -> Self {
        Self { value: UnsafeCell::new(Some(value)), lock: SpinLock::new((), &OWN) }
    }

    /// The owning thread's look, reached through `process::Current` alone. Not kept over a `replace`.
    ///
    /// # Panics
    /// After the thread has given it up in its exit.
    #[inline]
    pub fn borrow(&self) -> &Arc<T> {
        // SAFETY: only this thread writes the cell, in `replace`, and it holds no borrow over that (exec, exit, set*id
        // exchange at points where the callers above hold none).
        match unsafe { &*self.value.get() } {
            Some(value) => value,
            None => panic!("used after exit"),
        }
    }

    /// As `borrow`; None after the thread has given it up.
    pub fn borrow_if_any(&self) -> Option<&Arc<T>> {
        // SAFETY: as in `borrow`.
        unsafe { (*self.value.get()).as_ref() }
    }

    /// A counted reference, for any thread.
    pub fn get_shared(&self) -> Option<Arc<T>> {
        let _lock = self.lock.lock();
        // SAFETY: the lock excludes `replace`.
        unsafe { (*self.value.get()).clone() }
    }

    /// Exchanges the value; the old one is dropped after the lock. The owning thread only, or nobody runs it yet.
    pub fn replace(&self, to: Option<Arc<T>>) -> Option<Arc<T>> {
        debug_assert!(sched::current().thread.is_some());
        let _lock = self.lock.lock();
        // SAFETY: the owner writes, with the lock against other readers; it holds no borrow.
        unsafe { core::mem::replace(&mut *self.value.get(), to) }
    }
}
