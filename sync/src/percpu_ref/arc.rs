//! A shared pointer counted by [`PerCpuRef`], and its owner.
//!
//! An object has one [`PerCpuOwner`] and any number of [`PerCpuArc`]s. It lives until the owner is dropped, a grace period has
//! passed, and the last `PerCpuArc` is gone; if there is none when the owner is dropped, no longer than the owner. Cloning and
//! dropping a `PerCpuArc` of a hot object writes lines of this CPU alone. An object that nobody is to find has no owner
//! ([`PerCpuArc::try_slab`]): it is counted in one place and lives until the last `PerCpuArc` is gone.

use super::{PerCpuRef, counters};
use crate::heap;
use crate::heap::{AllocError, SlabType, try_box};
use alloc::boxed::Box;
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

/// The count is first: its address is the object's, and a pointer to the object is one to the count.
#[repr(C)]
struct Inner<T> {
    count: PerCpuRef,
    value: T,
}

/// # Safety
/// `count` is that of an `Inner<T>` from `Box::into_raw`, to which no reference is left.
unsafe fn free<T>(count: NonNull<PerCpuRef>) {
    // SAFETY: the count is the first field; the caller promises the rest.
    drop(unsafe { Box::from_raw(count.as_ptr().cast::<Inner<T>>()) });
}

/// A reference.
pub struct PerCpuArc<T: Send + Sync + 'static> {
    inner: NonNull<Inner<T>>,
    _owns: PhantomData<Inner<T>>,
}

// SAFETY: as for `Arc`: it gives out shared references, and the last one drops the value.
unsafe impl<T: Send + Sync> Send for PerCpuArc<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for PerCpuArc<T> {}

/// Puts what `make` gives, from its count's `zero`, into the type's own slab cache.
#[inline(always)]
fn in_slab<T: SlabType>(
    make: impl FnOnce(unsafe fn(NonNull<PerCpuRef>)) -> Inner<T>,
) -> Result<NonNull<Inner<T>>, AllocError> {
    const { assert!(T::CACHE.fits(Layout::new::<Inner<T>>())) };
    heap::allowed()?;
    let inner = NonNull::new(T::CACHE.take().cast::<Inner<T>>()).ok_or(AllocError)?;
    // SAFETY: `take` gave a block of this layout (asserted above) that the global allocator takes back, as `free` will.
    unsafe { inner.write(make(free::<T>)) };
    Ok(inner)
}

impl<T: Send + Sync> PerCpuArc<T> {
    /// An object without an owner, from the type's own slab cache, and the first reference to it. May sleep for memory.
    pub fn try_slab(value: T) -> Result<Self, AllocError>
    where
        T: SlabType,
    {
        let inner = in_slab(|zero| Inner { count: PerCpuRef::unowned(zero), value })?;
        Ok(PerCpuArc { inner, _owns: PhantomData })
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: the reference keeps the object in place.
        unsafe { self.inner.as_ref() }
    }

    /// Whether the owner has let go of the object, or there never was one.
    pub fn is_dead(this: &Self) -> bool {
        this.inner().count.is_dead()
    }

    pub fn ptr_eq(a: &Self, b: &Self) -> bool {
        a.inner == b.inner
    }
}

impl<T: Send + Sync> Clone for PerCpuArc<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.inner().count.get();
        PerCpuArc { inner: self.inner, _owns: PhantomData }
    }
}

impl<T: Send + Sync> Deref for PerCpuArc<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: Send + Sync> Drop for PerCpuArc<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the reference is given up here.
        unsafe { PerCpuRef::put(self.inner.cast()) };
    }
}

impl<T: Send + Sync + fmt::Debug> fmt::Debug for PerCpuArc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The owner: while it lives, new references can be taken. Dropping it does not wait.
pub struct PerCpuOwner<T: Send + Sync + 'static> {
    inner: NonNull<Inner<T>>,
    _owns: PhantomData<Inner<T>>,
}

// SAFETY: as for `PerCpuArc`.
unsafe impl<T: Send + Sync> Send for PerCpuOwner<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for PerCpuOwner<T> {}

impl<T: Send + Sync> PerCpuOwner<T> {
    /// The layout of what is allocated for a `T`.
    pub const LAYOUT: Layout = Layout::new::<Inner<T>>();
    /// Where in it the value is.
    pub const VALUE_OFFSET: usize = core::mem::offset_of!(Inner<T>, value);

    /// May sleep for memory.
    pub fn try_new(value: T) -> Result<Self, AllocError> {
        // Without counters to go over to, counts stay shared and right.
        let _ = counters::prepare();
        let inner = try_box(Inner { count: PerCpuRef::new(free::<T>), value })?;
        Ok(Self::from_raw(NonNull::from(Box::leak(inner))))
    }

    /// The same, from the type's own slab cache.
    pub fn try_slab(value: T) -> Result<Self, AllocError>
    where
        T: SlabType,
    {
        let _ = counters::prepare();
        let inner = in_slab(|zero| Inner { count: PerCpuRef::new(zero), value })?;
        Ok(Self::from_raw(inner))
    }

    const fn from_raw(inner: NonNull<Inner<T>>) -> Self {
        PerCpuOwner { inner, _owns: PhantomData }
    }

    /// A reference.
    #[inline]
    pub fn share(&self) -> PerCpuArc<T> {
        // SAFETY: the owner's reference keeps the object in place.
        unsafe { self.inner.as_ref() }.count.get();
        PerCpuArc { inner: self.inner, _owns: PhantomData }
    }

    /// Whether nobody else has a reference. It holds until somebody takes one through this owner. A hot object, counted per CPU, is taken
    /// for one that is in use.
    pub fn is_alone(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.inner.as_ref() }.count.is_alone()
    }

    /// Whether references are counted per CPU just now.
    pub fn is_per_cpu(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.inner.as_ref() }.count.is_per_cpu()
    }
}

impl<T: Send + Sync> Deref for PerCpuOwner<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the owner's reference keeps the object in place.
        &unsafe { self.inner.as_ref() }.value
    }
}

impl<T: Send + Sync> Drop for PerCpuOwner<T> {
    fn drop(&mut self) {
        // SAFETY: the box is freed by `zero` alone. Who could find the object could do so through this owner, which nobody
        // borrows: what read sections find by way of RCU is dropped after them.
        unsafe { PerCpuRef::leave(self.inner.cast()) };
    }
}
