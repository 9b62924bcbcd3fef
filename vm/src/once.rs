//! A place that is filled once and then read without a lock. Who has it alone may empty it again.
//!
//! A low room: it holds a raw pointer so that the object's radix tree above needs none.

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Empty, or a box for good.
pub struct OnceBox<T> {
    value: AtomicPtr<T>,
    _owns: PhantomData<Box<T>>,
}

impl<T> OnceBox<T> {
    pub const fn new() -> Self {
        Self { value: AtomicPtr::new(ptr::null_mut()), _owns: PhantomData }
    }

    #[inline]
    pub fn get(&self) -> Option<&T> {
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: null or a box that `set` stored with release order and that lives as long as `self`.
        unsafe { value.as_ref() }
    }

    /// The value, made by `make` if the place is empty.
    pub fn get_or_try<E>(&self, make: impl FnOnce() -> Result<Box<T>, E>) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let raw = Box::into_raw(make()?);
        match self.value.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: stored for good just now.
            Ok(_) => Ok(unsafe { &*raw }),
            Err(other) => {
                // SAFETY: not stored, so still ours alone; `other` was stored for good.
                unsafe {
                    drop(Box::from_raw(raw));
                    Ok(&*other)
                }
            }
        }
    }
}

impl<T> OnceBox<T> {
    /// The value, which nobody else looks at.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: null or a box of `self`'s.
        unsafe { self.value.get_mut().as_mut() }
    }

    /// Takes the value out.
    pub fn take(&mut self) -> Option<Box<T>> {
        let value = core::mem::replace(self.value.get_mut(), ptr::null_mut());
        // SAFETY: stored from a box, and taken out here, once.
        (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
    }
}

impl<T> Default for OnceBox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        let value = *self.value.get_mut();
        if !value.is_null() {
            // SAFETY: stored by `set` from a box; `self` goes, so nobody reads it any more.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

// SAFETY: owns a `T` and hands out `&T` only.
unsafe impl<T: Send + Sync> Send for OnceBox<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for OnceBox<T> {}
