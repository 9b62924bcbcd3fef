//! The kernel heap: `alloc`'s boxes, arcs and vectors from size classes; whole pages above 2 KiB.

use super::cache::Cache;
use crate::addr::PAGE_SIZE;
use crate::frame::{self, Frame};
use core::alloc::{GlobalAlloc, Layout};
use sync::machine;

/// Sizes and their names. Every size is a multiple of the alignment it is likely to be asked with.
static CACHES: [Cache; 14] = [
    Cache::new("heap-16", 16, 0),
    Cache::new("heap-32", 32, 1),
    Cache::new("heap-48", 48, 2),
    Cache::new("heap-64", 64, 3),
    Cache::new("heap-96", 96, 4),
    Cache::new("heap-128", 128, 5),
    Cache::new("heap-192", 192, 6),
    Cache::new("heap-256", 256, 7),
    Cache::new("heap-384", 384, 8),
    Cache::new("heap-512", 512, 9),
    Cache::new("heap-768", 768, 10),
    Cache::new("heap-1024", 1024, 11),
    Cache::new("heap-1536", 1536, 12),
    Cache::new("heap-2048", 2048, 13),
];

/// Largest size that comes from a cache.
const LARGEST: usize = 2048;

/// Cache for each multiple of 16 up to [`LARGEST`]: built at compile time from the sizes.
static CLASS_OF: [u8; LARGEST / 16 + 1] = {
    const SIZES: [usize; 14] = [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];
    let mut table = [0; LARGEST / 16 + 1];
    let mut units = 0;
    while units < table.len() {
        let mut class = 0;
        while SIZES[class] < units * 16 {
            class += 1;
        }
        table[units] = class as u8;
        units += 1;
    }
    table
};

pub(super) fn caches() -> &'static [Cache] {
    &CACHES
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
            return CACHES[CLASS_OF[size.div_ceil(16)] as usize].alloc();
        }
        alloc_pages(size)
    }

    #[inline]
    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        let size = effective(layout);
        if size <= LARGEST {
            // SAFETY: the same layout leads to the same cache; the caller's promise for the rest.
            return unsafe { CACHES[CLASS_OF[size.div_ceil(16)] as usize].free(object) };
        }
        // SAFETY: as above.
        unsafe { free_pages(object, size) }
    }
}

const fn order_of(size: usize) -> usize {
    size.div_ceil(PAGE_SIZE).next_power_of_two().trailing_zeros() as usize
}

#[cold]
fn alloc_pages(size: usize) -> *mut u8 {
    let frame = match order_of(size) {
        0 => frame::alloc_dirty().map(frame::OwnedFrame::into_frame),
        order => frame::alloc_contiguous(order, machine::node_of(machine::cpu_id())).map(Frame::of),
    };
    frame.map_or(core::ptr::null_mut(), Frame::bytes_ptr)
}

/// # Safety
/// `start` came from `alloc_pages(size)` and is not used any more.
#[cold]
unsafe fn free_pages(start: *mut u8, size: usize) {
    let frame = Frame::of_direct(start as usize);
    match order_of(size) {
        // SAFETY: one frame, taken by `alloc_pages`.
        0 => drop(unsafe { frame::OwnedFrame::from_frame(frame) }),
        // SAFETY: a block of this order, taken by `alloc_pages`.
        order => unsafe { frame::free_contiguous(frame.addr(), order) },
    }
}
