//! A static written by the boot CPU before anybody reads it, and only read afterwards.

use core::cell::UnsafeCell;

pub struct BootCell<T>(UnsafeCell<T>);

// SAFETY: writes happen through `get_mut`, whose caller vouches that no other CPU runs and no reference is held;
// afterwards there are only readers.
unsafe impl<T: Sync> Sync for BootCell<T> {}

impl<T> BootCell<T> {
    pub const fn new(value: T) -> BootCell<T> {
        BootCell(UnsafeCell::new(value))
    }

    #[inline]
    pub fn get(&self) -> &T {
        // SAFETY: see the `Sync` impl.
        unsafe { &*self.0.get() }
    }

    /// # Safety
    /// Only while the boot CPU runs alone and no reference from this cell is held.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn get_mut(&self) -> &mut T {
        // SAFETY: as the caller says.
        unsafe { &mut *self.0.get() }
    }
}
