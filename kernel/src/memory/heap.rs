//! The kernel heap. Until `vm::slab` is wired in, every allocation fails.

use core::alloc::{GlobalAlloc, Layout};

struct NoHeap;

// SAFETY: never hands out memory.
unsafe impl GlobalAlloc for NoHeap {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static HEAP: NoHeap = NoHeap;
