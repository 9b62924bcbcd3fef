//! The kernel heap: `alloc`'s boxes, arcs and vectors from size classes; whole pages above 2 KiB.

use super::cache::{Cache, Registration, check_tail};
use super::own::OwnSlabs;
use crate::addr::PAGE_SIZE;
use crate::frame::{self, Frame, FrameKind, poison};
use core::alloc::{GlobalAlloc, Layout};
use sync::{machine, per_cpu};

macro_rules! size_classes {
    ($($name:literal $size:literal),+) => {
        /// Largest size that comes from a cache.
        pub(super) const LARGEST: usize = 2048;
        const SIZES: [usize; 10] = [$($size),+];
        static CACHES: [Cache; 10] = [$({
            per_cpu! { static OWN: OwnSlabs = OwnSlabs::new($size); }
            static REGISTRATION: Registration = Registration::new();
            Cache::of_size($name, $size, &OWN, &REGISTRATION)
        }),+];
    };
}

// Whole cache lines: beside a small object that a CPU uses all the time there may lie one that all CPUs read.
size_classes! {
    "heap-64" 64, "heap-128" 128, "heap-192" 192, "heap-256" 256, "heap-384" 384, "heap-512" 512, "heap-768" 768,
    "heap-1024" 1024, "heap-1536" 1536, "heap-2048" 2048
}

/// Cache for each multiple of 64 up to [`LARGEST`]: built at compile time from the sizes.
static CLASS_OF: [u8; LARGEST / 64 + 1] = {
    let mut table = [0; LARGEST / 64 + 1];
    let mut units = 0;
    while units < table.len() {
        let mut class = 0;
        while SIZES[class] < units * 64 {
            class += 1;
        }
        table[units] = class as u8;
        units += 1;
    }
    table
};

#[inline(always)]
fn class_of(size: usize) -> &'static Cache {
    &CACHES[CLASS_OF[size.div_ceil(64)] as usize]
}

/// The size that an allocation is made with: above 16 bytes of alignment a power of two, whose class is aligned to itself.
#[inline]
const fn effective(layout: Layout) -> usize {
    if layout.align() <= 16 {
        layout.size()
    } else if layout.size() <= layout.align() {
        layout.align()
    } else {
        layout.size().next_power_of_two()
    }
}

/// The allocator behind `alloc`; a null pointer, never a panic, when memory is exhausted.
pub struct KernelHeap;

// SAFETY: objects are disjoint, live until freed, of at least the size and alignment asked for (power-of-two classes are
// aligned to themselves within a page-aligned slab).
unsafe impl GlobalAlloc for KernelHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = effective(layout);
        if size <= LARGEST {
            return class_of(size).alloc();
        }
        alloc_pages(size)
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        let size = effective(layout);
        if size <= LARGEST {
            if poison::ON {
                // SAFETY: as below.
                unsafe { check_tail(object, layout.size()) };
            }
            // SAFETY: a block of this size came from some cache, whose slab says which; the caller's promise for the rest.
            return unsafe { Cache::free(object) };
        }
        // SAFETY: as above.
        unsafe { free_pages(object, size) }
    }
}

impl KernelHeap {
    /// Sees to it that the next allocation of `layout` on this CPU cannot fail, if nothing else is allocated before. False: no memory.
    #[inline]
    pub fn reserve(layout: Layout) -> bool {
        let size = effective(layout);
        if size <= LARGEST {
            return class_of(size).reserve();
        }
        let block = alloc_pages(size);
        if !block.is_null() {
            // SAFETY: just allocated. The page is this CPU's again, or the block the buddy's, which gives it out again.
            unsafe { free_pages(block, size) };
        }
        !block.is_null()
    }

    /// Has the next allocation of `layout` on this CPU give an object of `cache`. False: no memory.
    ///
    /// # Safety
    /// Objects of `cache` fit the layout, which is one that a cache serves, and it is allocated before anything else is allocated or freed.
    #[inline(always)]
    pub unsafe fn prepare(cache: &'static Cache, layout: Layout) -> bool {
        let object = cache.alloc();
        if !object.is_null() {
            // SAFETY: just allocated on this CPU; the caller promises the rest.
            unsafe { class_of(effective(layout)).lay_on_top(object) };
        }
        !object.is_null()
    }
}

/// The hook of `sync::heap`.
#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
extern "Rust" fn __darter_heap_reserve(layout: Layout) -> bool {
    KernelHeap::reserve(layout)
}

const fn order_of(size: usize) -> usize {
    size.div_ceil(PAGE_SIZE).next_power_of_two().trailing_zeros() as usize
}

#[cold]
fn alloc_pages(size: usize) -> *mut u8 {
    let frame = match order_of(size) {
        0 => {
            let page = frame::alloc_dirty().map(frame::OwnedFrame::into_frame);
            page.inspect(|page| page.set_kind(FrameKind::Block))
        }
        order => {
            let start = frame::alloc_contiguous(order, machine::node_of(machine::cpu_id()));
            // SAFETY: an address from the allocator.
            start.map(|start| unsafe { Frame::of(start) })
        }
    };
    frame.map_or(core::ptr::null_mut(), Frame::bytes_ptr)
}

/// # Safety
/// `start` came from `alloc_pages(size)` and is not used any more.
#[cold]
unsafe fn free_pages(start: *mut u8, size: usize) {
    // SAFETY: a page of the allocator's, as the caller says.
    let frame = unsafe { Frame::of_direct(start as usize) };
    match order_of(size) {
        // SAFETY: one frame, taken by `alloc_pages`.
        0 => drop(unsafe { frame::OwnedFrame::from_frame(frame) }),
        // SAFETY: a block of this order, taken by `alloc_pages`.
        order => unsafe { frame::free_contiguous(frame.addr(), order) },
    }
}
