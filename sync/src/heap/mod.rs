//! Fallible allocation. Allocation can fail, everywhere, and nothing in the kernel takes the forms that abort when it does.
//!
//! Boxes and vectors have fallible forms on stable Rust. `Arc` has not: there the allocator is first asked to have a block of the very
//! layout at hand on this CPU, after which `Arc::new` cannot fail: kernel code is not preempted, and interrupt handlers do not
//! allocate.
//!
//! A type that lives long or is hot has a slab cache of its own ([`SlabType`], which `vm::slab_type!` implements), so that a line of memory can be
//! named: [`slab_box`] and [`slab_arc`] allocate from it. How a block is freed does not depend on it.
//!
//! Hosted, [`hosted::fail_after`] makes the n-th allocation of a thread fail, so that tests walk every failing path.
//! No locks but the allocator's.
#![allow(clippy::disallowed_methods)] // The one place that may name the infallible forms.

#[cfg(not(target_os = "none"))]
pub mod hosted;
mod vec;

use alloc::alloc::alloc;
use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::sync::{Arc, Weak};
use core::alloc::Layout;
use core::fmt;
use core::sync::atomic::AtomicUsize;
pub use vec::{Text, TryString, TryVec, try_vec};

/// There is no memory. A program sees ENOMEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocError;

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl core::error::Error for AllocError {}

impl From<TryReserveError> for AllocError {
    fn from(_: TryReserveError) -> Self {
        AllocError
    }
}

#[cfg(not(target_os = "none"))]
#[inline]
pub(crate) fn allowed() -> Result<(), AllocError> {
    hosted::allowed()
}

#[cfg(target_os = "none")]
#[inline(always)]
pub(crate) fn allowed() -> Result<(), AllocError> {
    Ok(())
}

#[cfg(target_os = "none")]
unsafe extern "Rust" {
    /// Sees to it that the next allocation of the layout on this CPU cannot fail, if nothing else is allocated before. False: no memory.
    safe fn __darter_heap_reserve(layout: Layout) -> bool;
    /// An object of the cache, or null.
    fn __darter_slab_take(cache: *const ()) -> *mut u8;
    /// Lays an object of the cache where the next request for the layout finds it. False: no memory.
    fn __darter_slab_prepare(cache: *const (), layout: Layout) -> bool;
}

/// Sees to it that `layout`, whose size is not zero, can be allocated next.
#[cfg(target_os = "none")]
#[inline(always)]
fn reserve(layout: Layout) -> Result<(), AllocError> {
    if __darter_heap_reserve(layout) { Ok(()) } else { Err(AllocError) }
}

/// Whether `layout`, whose size is not zero, could be allocated a moment ago.
#[cfg(not(target_os = "none"))]
fn reserve(layout: Layout) -> Result<(), AllocError> {
    allowed()?;
    // SAFETY: the layout is not of size zero; what was allocated is freed with the same layout.
    unsafe {
        let block = alloc(layout);
        if block.is_null() {
            return Err(AllocError);
        }
        // Without this the compiler may leave the pair out, and the answer would be a guess.
        alloc::alloc::dealloc(core::hint::black_box(block), layout);
    }
    Ok(())
}

/// A slab cache, as the memory manager names it.
#[derive(Clone, Copy, Debug)]
pub struct SlabCache {
    #[cfg_attr(not(target_os = "none"), allow(dead_code))]
    cache: *const (),
    layout: Layout,
}

impl SlabCache {
    /// # Safety
    /// `cache` is what the hooks below take. Its objects have `layout`, whose size is not zero.
    pub const unsafe fn new(cache: *const (), layout: Layout) -> Self {
        SlabCache { cache, layout }
    }

    /// Is this the layout that the cache is for?
    pub(crate) const fn fits(&self, layout: Layout) -> bool {
        self.layout.size() == layout.size() && self.layout.align() == layout.align()
    }

    /// A block that nobody uses and that the global allocator takes back; null when memory is exhausted.
    #[inline(always)]
    pub(crate) fn take(&self) -> *mut u8 {
        // SAFETY: as `new` was promised.
        #[cfg(target_os = "none")]
        return unsafe { __darter_slab_take(self.cache) };
        // SAFETY: the size is not zero.
        #[cfg(not(target_os = "none"))]
        return unsafe { alloc(self.layout) };
    }

    /// Has the next request for the layout on this CPU, which is the next use of the allocator, give a block of the cache.
    #[inline(always)]
    fn prepare(&self) -> Result<(), AllocError> {
        // SAFETY: as `new` was promised.
        #[cfg(target_os = "none")]
        return if unsafe { __darter_slab_prepare(self.cache, self.layout) } {
            Ok(())
        } else {
            Err(AllocError)
        };
        #[cfg(not(target_os = "none"))]
        return reserve(self.layout);
    }
}

/// A type with a slab cache of its own. Implemented by `vm::slab_type!`.
pub trait SlabType: Sized {
    /// For the value, or for the value behind the counts of an `Arc` or `PerCpuArc`.
    const CACHE: SlabCache;
}

/// `Box::new` from the type's own cache; `value` is dropped if memory is exhausted.
#[inline]
pub fn slab_box<T: SlabType>(value: T) -> Result<Box<T>, AllocError> {
    const { assert!(T::CACHE.fits(Layout::new::<T>())) };
    allowed()?;
    let block = T::CACHE.take().cast::<T>();
    if block.is_null() {
        return Err(AllocError);
    }
    // SAFETY: `take` gave a block of `T`'s layout (asserted above) that the global allocator takes back, as the box will.
    unsafe {
        block.write(value);
        Ok(Box::from_raw(block))
    }
}

/// `Arc::new` from the type's own cache; `value` is dropped if memory is exhausted.
#[inline]
pub fn slab_arc<T: SlabType>(value: T) -> Result<Arc<T>, AllocError> {
    const { assert!(T::CACHE.fits(arc_layout::<T>())) };
    T::CACHE.prepare()?;
    Ok(fill_arc(|| value))
}

/// As [`slab_arc`], of what `make` gives, which is made in its place where that is inlined. It is not called if memory is exhausted.
#[inline(always)]
pub fn slab_arc_of<T: SlabType>(make: impl FnOnce() -> T) -> Result<Arc<T>, AllocError> {
    const { assert!(T::CACHE.fits(arc_layout::<T>())) };
    T::CACHE.prepare()?;
    Ok(fill_arc(make))
}

/// `Arc::new`, which writes the value once: that one puts it and the counts together on the stack before it moves them.
#[inline(always)]
fn fill_arc<T>(make: impl FnOnce() -> T) -> Arc<T> {
    let empty = Arc::into_raw(Arc::<T>::new_uninit()).cast_mut();
    // SAFETY: it is the only reference, and the value is there when it becomes one to a `T`. A panic of `make`'s leaks the block.
    unsafe {
        (*empty).write(make());
        Arc::from_raw(empty.cast::<T>())
    }
}

/// `Box::new` that can fail; `value` is dropped if it does.
#[inline]
pub fn try_box<T>(value: T) -> Result<Box<T>, AllocError> {
    allowed()?;
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Ok(Box::new(value));
    }
    // SAFETY: the layout is not of size zero and is that of `T`; the block is written before it becomes a box, which
    // frees it to the same (global) allocator with the same layout.
    unsafe {
        let block = alloc(layout).cast::<T>();
        if block.is_null() {
            return Err(AllocError);
        }
        block.write(value);
        Ok(Box::from_raw(block))
    }
}

/// A boxed slice of `len` values made by `make`.
pub fn try_box_slice<T>(len: usize, mut make: impl FnMut(usize) -> T) -> Result<Box<[T]>, AllocError> {
    let mut values = try_vec(len)?;
    for i in 0..len {
        values.push(make(i));
    }
    Ok(values.into_boxed_slice())
}

/// What `Arc` allocates: two counts before the value.
#[repr(C)]
struct ArcBlock<T>(AtomicUsize, AtomicUsize, T);

/// The layout that `Arc` allocates for a `T`.
pub const fn arc_layout<T>() -> Layout {
    Layout::new::<ArcBlock<T>>()
}

/// Where in that block the value is.
pub const fn arc_value_offset<T>() -> usize {
    core::mem::offset_of!(ArcBlock<T>, 2)
}

/// `Arc::new` that can fail; `value` is dropped if it does.
#[inline]
pub fn try_arc<T>(value: T) -> Result<Arc<T>, AllocError> {
    reserve(arc_layout::<T>())?;
    Ok(fill_arc(|| value))
}

/// `Arc::new_cyclic` that can fail. `make` may allocate, fallibly, only through what it returns: it cannot report failure itself.
#[inline]
pub fn try_arc_cyclic<T>(make: impl FnOnce(&Weak<T>) -> T) -> Result<Arc<T>, AllocError> {
    reserve(arc_layout::<T>())?;
    Ok(Arc::new_cyclic(make))
}

#[cfg(test)]
mod tests;
