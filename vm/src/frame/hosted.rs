//! Physical memory for tests: an arena on the host's heap, with the same frame table and direct map as the kernel's.

#![allow(clippy::disallowed_methods)] // A test may die when memory is out.

extern crate std;

use super::{Frame, FrameKind};
use crate::addr::{PAGE_SIZE, PhysAddr};
use crate::policy::TaskPolicy;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc_zeroed};
use std::sync::{Mutex, Once, PoisonError};

/// The largest block of the allocator.
const ALIGN: usize = PAGE_SIZE << super::MAX_ORDER;

static DIRECT_MAP: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the arena: more than the allocator has, which leaves out the page at address 0.
static LEN: AtomicUsize = AtomicUsize::new(0);
static TABLE: AtomicUsize = AtomicUsize::new(0);
static START: Once = Once::new();
/// What comes between the begin of a copy and its end.
static ON_COPY: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Calls `f` once, when the next copy of a page has begun.
pub fn on_next_copy(f: impl FnOnce() + Send + 'static) {
    *ON_COPY.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(f));
}

/// Starts the frame allocator with `pages` pages spread over `numa_nodes` NUMA nodes. The first call of a process counts; every
/// test calls it and all share the memory.
pub fn start(pages: usize, numa_nodes: usize) {
    START.call_once(|| {
        let pages = pages.next_multiple_of(1024 * numa_nodes.max(1));
        // Aligned here: an aligned request for zeros would touch all of it.
        let memory = Layout::array::<u8>(pages * PAGE_SIZE + ALIGN);
        let table = Layout::array::<u8>((pages + 1) * size_of::<Frame>());
        let (Ok(memory), Ok(table)) = (memory, table) else {
            panic!("test memory of {pages} pages is too large")
        };
        // SAFETY: both layouts have a size above zero.
        let (base, frames) = unsafe { (alloc_zeroed(memory) as usize, alloc_zeroed(table) as usize) };
        assert!(base != 0 && frames != 0, "the host has no memory for {pages} pages");
        LEN.store(pages * PAGE_SIZE, Ordering::Relaxed);
        DIRECT_MAP.store(base.next_multiple_of(ALIGN), Ordering::Relaxed);
        TABLE.store(frames.next_multiple_of(size_of::<Frame>()), Ordering::Relaxed);
        let share = pages / numa_nodes.max(1);
        for numa_node in 0..numa_nodes.max(1) {
            let (first, last) = (numa_node * share, (numa_node + 1) * share);
            // SAFETY: the arena is ours, never freed, and handed over once; the table is zeroed.
            unsafe {
                super::add_region(
                    PhysAddr((first * PAGE_SIZE) as u64),
                    PhysAddr((last * PAGE_SIZE) as u64),
                    numa_node as u32,
                );
            }
        }
        assert!(super::finish_init());
    });
}

/// Takes all blocks of 2 MiB that there are, shows where they are, and gives them back.
pub fn each_large_block(mut f: impl FnMut(PhysAddr)) {
    let order = super::buddy::HOST_ORDER;
    let mut taken = alloc::vec::Vec::new();
    while let Some(block) = super::alloc_contiguous(order, 0) {
        f(block);
        taken.push(block);
    }
    // SAFETY: taken just now, and nothing refers to them.
    taken.into_iter().for_each(|block| unsafe { super::free_contiguous(block, order) });
}

/// What a device that a test plays reads of the arena.
pub fn device_reads(at: PhysAddr, into: &mut [u8]) {
    let from = arena(at, into.len());
    // SAFETY: within the arena; the other side is the caller's.
    unsafe { __darter_copy_bytes(into.as_mut_ptr(), from, into.len()) };
}

/// What such a device writes there. Earlier writes are seen first.
pub fn device_writes(at: PhysAddr, bytes: &[u8]) {
    let to = arena(at, bytes.len());
    core::sync::atomic::fence(Ordering::Release);
    // SAFETY: as above.
    unsafe { __darter_copy_bytes(to, bytes.as_ptr(), bytes.len()) };
}

/// # Panics
/// The driver has told the device of memory that is none.
fn arena(at: PhysAddr, len: usize) -> *mut u8 {
    let end = at.0.saturating_add(len as u64);
    assert!(end <= LEN.load(Ordering::Relaxed) as u64, "{at:?} is no memory");
    (DIRECT_MAP.load(Ordering::Relaxed) + at.0 as usize) as *mut u8
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_direct_map_base() -> usize {
    DIRECT_MAP.load(Ordering::Relaxed)
}

std::thread_local! {
    /// The policy of this thread, which a test takes for a task.
    pub static TASK_POLICY: TaskPolicy = const { TaskPolicy::new() };
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_task_policy(show: &mut dyn FnMut(&TaskPolicy)) {
    TASK_POLICY.with(|policy| show(policy));
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_frame_table() -> usize {
    TABLE.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
unsafe extern "Rust" fn __darter_zero_page(page: *mut u8) {
    // SAFETY: the caller owns the page.
    unsafe { page.write_bytes(0, PAGE_SIZE) }
}

#[unsafe(no_mangle)]
unsafe extern "Rust" fn __darter_copy_page(to: *mut u8, from: *const u8) {
    let f = ON_COPY.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(f) = f {
        f();
    }
    // SAFETY: both are pages of the arena.
    unsafe { __darter_copy_bytes(to, from, PAGE_SIZE) };
    // SAFETY: a page of the arena.
    let source = unsafe { Frame::of_direct(from as usize) };
    assert_ne!(source.kind(), FrameKind::Free, "a page is freed while it is copied");
}

/// Others may write both sides meanwhile, in words or in bytes: words are copied as words.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __darter_copy_bytes(to: *mut u8, from: *const u8, len: usize) {
    let mut done = 0;
    while done < len {
        // SAFETY: both sides have `len` bytes; each access is atomic and within them, words at addresses that are aligned.
        unsafe {
            let (to, from) = (to.add(done), from.add(done));
            if to.cast::<u64>().is_aligned() && from.cast::<u64>().is_aligned() && len - done >= 8 {
                let word = (*from.cast::<AtomicU64>()).load(Ordering::Relaxed);
                (*to.cast::<AtomicU64>()).store(word, Ordering::Relaxed);
                done += 8;
            } else {
                let byte = (*from.cast::<AtomicU8>()).load(Ordering::Relaxed);
                (*to.cast::<AtomicU8>()).store(byte, Ordering::Relaxed);
                done += 1;
            }
        }
    }
}
