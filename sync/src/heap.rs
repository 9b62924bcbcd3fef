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

use alloc::alloc::alloc;
use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::alloc::Layout;
use core::fmt;
use core::sync::atomic::AtomicUsize;

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
    Ok(Arc::new(value))
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
    Ok(Arc::new(value))
}

/// `Arc::new_cyclic` that can fail. `make` may allocate, fallibly, only through what it returns: it cannot report failure itself.
#[inline]
pub fn try_arc_cyclic<T>(make: impl FnOnce(&Weak<T>) -> T) -> Result<Arc<T>, AllocError> {
    reserve(arc_layout::<T>())?;
    Ok(Arc::new_cyclic(make))
}

/// `Vec::with_capacity` that can fail. (Not a method: std has an unstable one by the obvious name.)
pub fn try_vec<T>(capacity: usize) -> Result<Vec<T>, AllocError> {
    allowed()?;
    let mut all = Vec::new();
    all.try_reserve_exact(capacity)?;
    Ok(all)
}

/// The fallible forms of `Vec`'s operations.
pub trait TryVec<T>: Sized + Default {
    fn try_push(&mut self, value: T) -> Result<(), AllocError>;
    /// Inserts at `index`, or at the end if there are fewer elements, into room that was made before; gives `value` back if there is none.
    /// Allocates nothing.
    fn insert_reserved(&mut self, index: usize, value: T) -> Result<(), T>;
    /// The same at the end.
    fn push_reserved(&mut self, value: T) -> Result<(), T>;
    /// Inserts at `index`, or at the end if there are fewer elements.
    fn try_insert(&mut self, index: usize, value: T) -> Result<(), AllocError>;
    fn try_extend_from_slice(&mut self, values: &[T]) -> Result<(), AllocError>
    where
        T: Clone;
    /// Appends what `values` yields; those already appended stay if memory runs out.
    fn try_extend(&mut self, values: impl IntoIterator<Item = T>) -> Result<(), AllocError>;
    fn try_resize(&mut self, len: usize, value: T) -> Result<(), AllocError>
    where
        T: Clone;
    fn try_from_slice(values: &[T]) -> Result<Self, AllocError>
    where
        T: Clone,
    {
        let mut all = Self::default();
        all.try_extend_from_slice(values)?;
        Ok(all)
    }
}

impl<T> TryVec<T> for Vec<T> {
    #[inline]
    fn try_push(&mut self, value: T) -> Result<(), AllocError> {
        if self.len() == self.capacity() {
            allowed()?;
            self.try_reserve(1)?;
        }
        self.push(value);
        Ok(())
    }

    #[inline]
    fn insert_reserved(&mut self, index: usize, value: T) -> Result<(), T> {
        if self.len() == self.capacity() {
            return Err(value);
        }
        self.insert(index.min(self.len()), value);
        Ok(())
    }

    #[inline]
    fn push_reserved(&mut self, value: T) -> Result<(), T> {
        if self.len() == self.capacity() {
            return Err(value);
        }
        self.push(value);
        Ok(())
    }

    fn try_insert(&mut self, index: usize, value: T) -> Result<(), AllocError> {
        if self.len() == self.capacity() {
            allowed()?;
            self.try_reserve(1)?;
        }
        self.insert(index.min(self.len()), value);
        Ok(())
    }

    fn try_extend_from_slice(&mut self, values: &[T]) -> Result<(), AllocError>
    where
        T: Clone,
    {
        allowed()?;
        self.try_reserve(values.len())?;
        self.extend_from_slice(values);
        Ok(())
    }

    fn try_extend(&mut self, values: impl IntoIterator<Item = T>) -> Result<(), AllocError> {
        let values = values.into_iter();
        self.try_reserve(values.size_hint().0)?;
        for value in values {
            self.try_push(value)?;
        }
        Ok(())
    }

    fn try_resize(&mut self, len: usize, value: T) -> Result<(), AllocError>
    where
        T: Clone,
    {
        if len > self.capacity() {
            allowed()?;
            self.try_reserve(len - self.len())?;
        }
        self.resize(len, value);
        Ok(())
    }
}

/// The fallible forms of `String`'s operations.
pub trait TryString: Sized {
    fn try_from_str(s: &str) -> Result<Self, AllocError>;
    fn try_push_str(&mut self, s: &str) -> Result<(), AllocError>;
    fn try_push_char(&mut self, c: char) -> Result<(), AllocError>;
}

impl TryString for String {
    fn try_from_str(s: &str) -> Result<Self, AllocError> {
        let mut all = String::new();
        all.try_push_str(s)?;
        Ok(all)
    }

    fn try_push_str(&mut self, s: &str) -> Result<(), AllocError> {
        allowed()?;
        self.try_reserve(s.len())?;
        self.push_str(s);
        Ok(())
    }

    fn try_push_char(&mut self, c: char) -> Result<(), AllocError> {
        self.try_push_str(c.encode_utf8(&mut [0; 4]))
    }
}

/// Writes formatted text into a vector or string fallibly: `write!(Text(&mut v), ...)` gives `fmt::Error` when memory is out.
pub struct Text<'a, S>(pub &'a mut S);

impl fmt::Write for Text<'_, String> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0.try_push_str(s).map_err(|_| fmt::Error)
    }
}

impl fmt::Write for Text<'_, Vec<u8>> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0.try_extend_from_slice(s.as_bytes()).map_err(|_| fmt::Error)
    }
}

/// Failing on purpose, for tests.
#[cfg(not(target_os = "none"))]
pub mod hosted {
    use super::AllocError;
    use core::cell::Cell;

    std::thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Runs `f`; in it, `n` allocations of this thread through `sync::heap` succeed, those of frames among them, and all after
    /// them fail.
    pub fn fail_after<R>(n: u64, f: impl FnOnce() -> R) -> R {
        struct Back(Option<u64>);
        impl Drop for Back {
            fn drop(&mut self) {
                LEFT.set(self.0);
            }
        }
        let _back = Back(LEFT.replace(Some(n)));
        f()
    }

    /// For allocators that `fail_after` shall reach too: may this thread have what it asks for?
    pub fn allowed() -> Result<(), AllocError> {
        match LEFT.get() {
            None => Ok(()),
            Some(0) => Err(AllocError),
            Some(n) => {
                LEFT.set(Some(n - 1));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::fmt::Write;

    #[test]
    fn what_is_allocated_holds_the_value() {
        assert_eq!(*try_box([3u8; 100]).unwrap(), [3; 100]);
        assert_eq!(*try_box(()).unwrap(), ());
        assert_eq!(*try_arc(5).unwrap(), 5);
        let me = try_arc_cyclic(|weak: &Weak<Option<Weak<u8>>>| {
            assert!(weak.upgrade().is_none());
            None
        })
        .unwrap();
        assert!(me.is_none());
        let mut v = Vec::try_from_slice(&[1, 2]).unwrap();
        v.try_insert(0, 0).unwrap();
        v.try_insert(99, 3).unwrap();
        v.try_extend([4, 5]).unwrap();
        v.try_resize(7, 9).unwrap();
        assert_eq!(v, vec![0, 1, 2, 3, 4, 5, 9]);
    }

    #[test]
    fn a_failed_allocation_is_an_error_and_drops_the_value() {
        let token = Arc::new(());
        hosted::fail_after(0, || {
            assert_eq!(try_box(token.clone()).err(), Some(AllocError));
            assert!(try_arc(token.clone()).is_err());
            assert!(Vec::new().try_push(token.clone()).is_err());
            assert!(String::try_from_str("a").is_err());
            assert!(write!(Text(&mut String::new()), "{}", 1).is_err());
        });
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn the_nth_allocation_fails_and_those_before_it_do_not() {
        let done = hosted::fail_after(2, || (0..4).map(|i| try_box(i).is_ok()).collect::<Vec<_>>());
        assert_eq!(done, [true, true, false, false]);
        assert!(try_box(0).is_ok());
    }

    /// The tests' allocator: std's, and each thread knows its last request.
    struct Noting;

    std::thread_local! {
        static LAST: core::cell::Cell<Option<Layout>> = const { core::cell::Cell::new(None) };
    }

    // SAFETY: std's allocator does the work.
    unsafe impl core::alloc::GlobalAlloc for Noting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let _ = LAST.try_with(|last| last.set(Some(layout)));
            // SAFETY: as the caller promises.
            unsafe { std::alloc::System.alloc(layout) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: as the caller promises.
            unsafe { std::alloc::System.dealloc(block, layout) }
        }
    }

    #[global_allocator]
    static NOTING: Noting = Noting;

    /// A block of another size would be laid out where the request of `Arc::new` does not find it.
    #[test]
    fn the_layout_of_an_arc_is_what_it_allocates() {
        #[repr(align(64))]
        struct Wide(#[allow(dead_code)] u8);
        fn check<T>(value: T) {
            let arc = Arc::new(value);
            let asked = LAST.get();
            assert_eq!(asked, Some(arc_layout::<T>()));
            let block = Arc::as_ptr(&arc).addr() - arc_value_offset::<T>();
            assert_eq!(block % arc_layout::<T>().align(), 0);
        }
        check(0u64);
        check([0u8; 100]);
        check(Wide(1));
        assert_eq!(arc_layout::<u64>().size(), 24);
    }

    #[test]
    fn what_has_a_cache_of_its_own_comes_from_there() {
        struct Own(Arc<()>);
        impl SlabType for Own {
            // SAFETY: hosted, nothing but the layout is used.
            const CACHE: SlabCache = unsafe { SlabCache::new(core::ptr::null(), Layout::new::<Own>()) };
        }
        let token = Arc::new(());
        assert_eq!(Arc::strong_count(&slab_box(Own(token.clone())).unwrap().0), 2);
        hosted::fail_after(0, || assert!(slab_box(Own(token.clone())).is_err()));
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert!(try_vec::<u64>(usize::MAX / 4).is_err());
    }
}
