//! Caches of one type each: `slab_type!` gives a type its cache, and `sync::heap::slab_box` and `slab_arc` allocate from it.
//!
//! A box or `Arc` is freed by its ordinary drop: the allocator learns from the slab's header which cache a block is from. `Arc::new` asks the
//! allocator for a block without saying for which type; so the block is laid where that very request finds it (`sync::heap::slab_arc`).

use super::cache::Cache;
use super::heap;
use core::alloc::Layout;

/// For the macro.
pub mod __private {
    pub use super::super::cache::{Cache, Holder, Registration};
    pub use super::super::own::OwnSlabs;
    pub use super::{prepare_arc, take};
    pub use sync::heap::{SlabType, arc_layout, arc_value_offset};
    pub use sync::per_cpu;
}

/// Gives a type a slab cache of its own, with a name for `/proc/slabinfo`. Beside the type's definition:
///
/// ```
/// struct Inode(u64);
/// vm::slab_type!(Inode, "inode", Arc); // values made by sync::heap::slab_arc
/// struct Leaf([u64; 5]);
/// vm::slab_type!(Leaf, "leaf", Box); // by slab_box
/// assert!(sync::heap::slab_arc(Inode(7)).is_ok_and(|inode| inode.0 == 7));
/// assert!(sync::heap::slab_box(Leaf([1; 5])).is_ok());
/// ```
#[macro_export]
macro_rules! slab_type {
    (@holder $t:ty, Box) => {
        $crate::slab::__private::Holder { value_offset: 0, layout: ::core::alloc::Layout::new::<$t>() }
    };
    (@holder $t:ty, Arc) => {
        $crate::slab::__private::Holder {
            value_offset: $crate::slab::__private::arc_value_offset::<$t>(),
            layout: $crate::slab::__private::arc_layout::<$t>(),
        }
    };
    ($t:ty, $name:literal, $holder:ident) => {
        const _: () = {
            use $crate::slab::__private as slab;
            const HOLDER: slab::Holder = $crate::slab_type!(@holder $t, $holder);
            slab::per_cpu! { static OWN: slab::OwnSlabs = slab::OwnSlabs::new(slab::Cache::size_for(HOLDER)); }
            static REGISTRATION: slab::Registration = slab::Registration::new();
            static CACHE: slab::Cache = slab::Cache::of_type(
                $name,
                ::core::concat!(::core::module_path!(), "::", ::core::stringify!($t)),
                HOLDER,
                &OWN,
                &REGISTRATION,
            );
            // SAFETY: the cache's objects have `HOLDER`'s layout, which is that of the block that is asked for.
            unsafe impl slab::SlabType for $t {
                const LAYOUT: ::core::alloc::Layout = HOLDER.layout;
                #[inline(always)]
                fn take() -> *mut u8 {
                    slab::take(&CACHE, HOLDER.layout)
                }
                #[inline(always)]
                fn prepare_arc() -> bool {
                    slab::prepare_arc(&CACHE, HOLDER.layout)
                }
            }
        };
    };
}

/// A block of the cache; null when memory is exhausted. Where the kernel's heap is not the allocator it is the allocator's.
#[inline(always)]
pub fn take(cache: &'static Cache, layout: Layout) -> *mut u8 {
    if cfg!(target_os = "none") {
        cache.alloc()
    } else {
        // SAFETY: no type with a cache has size zero: its objects would have.
        unsafe { alloc::alloc::alloc(layout) }
    }
}

/// Lays a block of the cache where the next request for `layout` finds it. False when memory is exhausted.
#[inline(always)]
pub fn prepare_arc(cache: &'static Cache, layout: Layout) -> bool {
    if cfg!(target_os = "none") {
        let block = cache.alloc();
        if block.is_null() {
            return false;
        }
        // SAFETY: just allocated on this CPU, for this layout; `SlabType::prepare_arc` asks for the rest.
        unsafe { heap::lay_on_top(block, layout) };
        return true;
    }
    let block = take(cache, layout);
    if !block.is_null() {
        // SAFETY: just allocated with this layout.
        unsafe { alloc::alloc::dealloc(block, layout) };
    }
    !block.is_null()
}
