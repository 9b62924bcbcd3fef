//! Caches of one type each: `slab_type!` gives a type its cache, and `sync::heap::slab_box` and `slab_arc` allocate from it.
//!
//! A box or `Arc` is freed by its ordinary drop: the allocator learns from the slab's header which cache a block is from. `Arc::new` asks the
//! allocator for a block without saying for which type; so the block is laid where that very request finds it (`sync::heap::slab_arc`).

use super::cache::Cache;
use sync::heap::SlabCache;

/// For the macro.
pub mod __private {
    pub use super::super::cache::{Cache, Container, Registration};
    pub use super::super::own::OwnSlabs;
    pub use sync::heap::{SlabCache, SlabType, arc_layout, arc_value_offset};
    pub use sync::per_cpu;
    pub use sync::percpu_ref::PerCpuOwner;
    pub use sync::rcu::Chain;
}

/// Gives a type a slab cache of its own, with a name for `/proc/slabinfo`. Beside the type's definition:
///
/// ```
/// struct Inode(u64);
/// vm::slab_type!(Inode, "inode", Arc); // values made by sync::heap::slab_arc
/// struct Leaf([u64; 5]);
/// vm::slab_type!(Leaf, "leaf", Box); // by slab_box
/// struct Mount(u64);
/// vm::slab_type!(Mount, "mount", PerCpuArc); // by PerCpuOwner::try_slab
/// struct Entry(u64);
/// vm::slab_type!(Entry, "entry", Chain); // by Chain::push
/// assert!(sync::heap::slab_arc(Inode(7)).is_ok_and(|inode| inode.0 == 7));
/// assert!(sync::heap::slab_box(Leaf([1; 5])).is_ok());
/// assert!(sync::percpu_ref::PerCpuOwner::try_slab(Mount(3)).is_ok_and(|mount| mount.0 == 3));
/// assert!(sync::rcu::Chain::new().push(Entry(9)).is_ok());
/// ```
#[macro_export]
macro_rules! slab_type {
    (@container $t:ty, Box) => {
        $crate::slab::__private::Container { value_offset: 0, layout: ::core::alloc::Layout::new::<$t>() }
    };
    (@container $t:ty, Arc) => {
        $crate::slab::__private::Container {
            value_offset: $crate::slab::__private::arc_value_offset::<$t>(),
            layout: $crate::slab::__private::arc_layout::<$t>(),
        }
    };
    (@container $t:ty, PerCpuArc) => {
        $crate::slab::__private::Container {
            value_offset: $crate::slab::__private::PerCpuOwner::<$t>::VALUE_OFFSET,
            layout: $crate::slab::__private::PerCpuOwner::<$t>::LAYOUT,
        }
    };
    (@container $t:ty, Chain) => {
        $crate::slab::__private::Container {
            value_offset: $crate::slab::__private::Chain::<$t>::VALUE_OFFSET,
            layout: $crate::slab::__private::Chain::<$t>::LAYOUT,
        }
    };
    ($t:ty, $name:literal, $container:ident) => {
        const _: () = {
            use $crate::slab::__private as slab;
            const CONTAINER: slab::Container = $crate::slab_type!(@container $t, $container);
            slab::per_cpu! { static OWN: slab::OwnSlabs = slab::OwnSlabs::new(slab::Cache::size_for(CONTAINER)); }
            static REGISTRATION: slab::Registration = slab::Registration::new();
            static CACHE: slab::Cache = slab::Cache::of_type(
                $name,
                ::core::concat!(::core::module_path!(), "::", ::core::stringify!($t)),
                CONTAINER,
                &OWN,
                &REGISTRATION,
            );
            impl slab::SlabType for $t {
                const CACHE: slab::SlabCache = CACHE.handle();
            }
        };
    };
}

impl Cache {
    /// The cache as `sync::heap` knows it.
    pub const fn handle(&'static self) -> SlabCache {
        // SAFETY: the hooks below take a cache; `of_type` made it for this layout.
        unsafe { SlabCache::new(core::ptr::from_ref(self).cast(), self.layout()) }
    }
}

/// Hooks of `sync::heap`.
#[cfg(target_os = "none")]
mod hooks {
    use super::super::{Cache, KernelHeap};
    use core::alloc::Layout;

    /// # Safety
    /// `cache` is a static [`Cache`].
    #[unsafe(no_mangle)]
    unsafe extern "Rust" fn __darter_slab_take(cache: *const ()) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { &*cache.cast::<Cache>() }.alloc()
    }

    /// # Safety
    /// `cache` is a static [`Cache`] for this layout, and a block of the layout is allocated before anything else is allocated or freed.
    #[unsafe(no_mangle)]
    unsafe extern "Rust" fn __darter_slab_prepare(cache: *const (), layout: Layout) -> bool {
        // SAFETY: the caller's promise, for all of it: the cache's objects have the layout.
        unsafe { KernelHeap::prepare(&*cache.cast::<Cache>(), layout) }
    }
}
