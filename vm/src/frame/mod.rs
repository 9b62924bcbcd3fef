//! Physical page frames: 64 bytes of metadata each, and the allocator.
//!
//! A frame travels between four stores:
//!
//! ```text
//!   magazine (per CPU, no lock)  <-- batches -->  depot (per CPU, a lock that it alone takes while others have memory)
//!             ^                                                        | when there is no large block
//!             +---- batches ---->  colour lists (per NUMA node,  -- runs -->  buddy (per NUMA node,
//!                                  a lock each)                               one lock)
//! ```
//!
//! * CountLocal: taking and giving back a frame writes this CPU's magazine and depot and the frame's own metadata line, nothing else,
//!   until the depot is empty or full. `free_frames` is a sum taken by the reader.
//! * Blocks of two to eight pages go through the depots too, larger ones between their users and the buddy.
//! * What lies in depots, lists and buddies is free for every CPU at once; what lies in magazines, when their CPUs are called
//!   ([`call_back`]).
//! * Blocks for large pages (`large`) come from the buddy, and go back there whole.
//! * A frame freed far from home waits in a per-CPU chain for its own NUMA node and goes back in batches.
//! * LockOrder: depot, colour list and buddy locks are FrameList, the innermost level of `vm`; none is held while taking another.
//!
//! Nothing here sleeps. Interrupt handlers neither allocate nor free.
//!
//! Under Miri: `MIRIFLAGS="-Zmiri-ignore-leaks -Zmiri-permissive-provenance -Zmiri-tree-borrows -Zmiri-disable-weak-memory-emulation" cargo
//! +nightly miri test -p darter-vm --lib -- frame::tests::bytes frame::tests::evicted` (the arena is never given back; words and bytes of
//! a page are copied by accesses of different sizes).

mod balloon;
mod buddy;
mod bytes;
#[cfg(all(debug_assertions, target_os = "none"))]
mod census;
mod chain;
mod colour;
mod depot;
mod device;
mod evicted;
#[cfg(not(target_os = "none"))]
pub mod hosted;
pub mod idle;
mod large;
mod magazine;
mod meta;
mod owned;
pub(crate) mod pin;
mod placed;
pub mod poison;
mod private;
mod report;

#[cfg(test)]
pub(crate) mod tests;

pub use balloon::{Balloon, managed_frames};
pub use bytes::{SharedBytes, SharedBytesMut};
#[cfg(all(debug_assertions, target_os = "none"))]
pub(crate) use census::{end_of_numbers, every, known, with_metadata_at, with_page_at};
pub use device::DevicePage;
pub use evicted::{Evicted, EvictedFrames};
pub(crate) use large::release_block;
pub use large::{BlockFrames, LARGE_ORDER, LargeFrame, OwnedBlock, large_pages};
pub use magazine::{CpuFrameCounts, counts_of};
pub use meta::{Frame, FrameKind, FrameLayout, LAYOUT};
pub use owned::{OwnedFrame, alloc_dirty, alloc_zeroed, release};
pub(crate) use owned::{alloc_dirty_from, alloc_zeroed_from};
pub use pin::Pin;
pub use private::private_frames;
pub use report::{NumaNode, numa_node};

use crate::addr::{PAGE_SIZE, PhysAddr};
use crate::policy::{Nodes, TaskPolicy};
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use sync::machine;

/// NUMA nodes that the allocator tells apart.
pub const MAX_NUMA_NODES: usize = 16;
/// The largest block of [`alloc_contiguous`] is `1 << MAX_ORDER` pages (4 MiB).
pub const MAX_ORDER: usize = 10;
/// Frames moved at a time.
const BATCH: usize = 64;

// How this room meets the machine. The kernel defines these in `arch`, `hosted` for tests; all are inlined by LTO.
unsafe extern "Rust" {
    /// Virtual address at which physical address 0 appears.
    safe fn __darter_direct_map_base() -> usize;
    /// Address of the metadata of frame 0.
    safe fn __darter_frame_table() -> usize;
    /// Clears one page (`rep stosb` where the processor says ERMS).
    fn __darter_zero_page(page: *mut u8);
    /// Copies one page.
    fn __darter_copy_page(to: *mut u8, from: *const u8);
    /// Copies `len` bytes that others may read and write meanwhile, by instructions that the compiler knows nothing of.
    fn __darter_copy_bytes(to: *mut u8, from: *const u8, len: usize);
    /// Shows the running task's policy; does nothing where no program's thread runs.
    safe fn __darter_task_policy(show: &mut dyn FnMut(&TaskPolicy));
}

static ZERO: AtomicPtr<Frame> = AtomicPtr::new(core::ptr::null_mut());
static TOTAL: AtomicU64 = AtomicU64::new(0);
/// NUMA nodes that have memory, and those before them.
static TOTAL_OF: [AtomicU64; MAX_NUMA_NODES] = [const { AtomicU64::new(0) }; MAX_NUMA_NODES];
static NUMA_NODES: AtomicUsize = AtomicUsize::new(0);
/// Those that have memory, a bit each.
static WITH_MEMORY: AtomicU16 = AtomicU16::new(0);

/// Hands the pages of `start..end`, which lie on NUMA node `numa_node`, to the allocator. Part pages at the ends are left out.
///
/// # Safety
/// The range is ordinary memory, mapped in the direct map, used by nobody else, and handed over once; the frame table is
/// mapped and zeroed for it. Called before other CPUs start. Frame 0 is never part of it.
pub unsafe fn add_region(start: PhysAddr, end: PhysAddr, numa_node: u32) {
    let first = start.0.div_ceil(PAGE_SIZE as u64).max(1);
    let last = end.page_number();
    if first >= last {
        return;
    }
    let numa_node = (numa_node as usize).min(MAX_NUMA_NODES - 1);
    for number in first..last {
        Frame::by_number(number as u32).set_home(numa_node as u8);
    }
    buddy::of_numa_node(numa_node).add(first as u32, last as u32);
    NUMA_NODES.fetch_max(numa_node + 1, Ordering::Relaxed);
    TOTAL.fetch_add(last - first, Ordering::Relaxed);
    TOTAL_OF[numa_node].fetch_add(last - first, Ordering::Relaxed);
    WITH_MEMORY.fetch_or(1 << numa_node, Ordering::Relaxed);
    #[cfg(all(debug_assertions, target_os = "none"))]
    census::add(first as u32, last as u32);
}

/// Completes the start of the allocator, after the last [`add_region`] and before the first fault.
/// False: there is not one free frame.
pub fn finish_init() -> bool {
    let Some(zero) = alloc_zeroed() else { return false };
    let frame = zero.into_frame();
    frame.set_kind(FrameKind::Zero);
    ZERO.store(core::ptr::from_ref(frame).cast_mut(), Ordering::Release);
    true
}

/// The one page of zeros that every untouched anonymous page reads. Never counted and never freed.
pub fn zero_frame() -> &'static Frame {
    let frame = ZERO.load(Ordering::Relaxed);
    assert!(!frame.is_null(), "frame allocator not started");
    // SAFETY: set once by `finish_init` to an element of the frame table, which lives for ever.
    unsafe { &*frame }
}

/// Pages that the allocator was given.
pub fn total_frames() -> u64 {
    TOTAL.load(Ordering::Relaxed)
}

/// The NUMA nodes that have memory.
pub(crate) fn nodes_with_memory() -> Nodes {
    WITH_MEMORY.load(Ordering::Relaxed)
}

/// Shows the running task's policy, if a program's thread runs.
pub(crate) fn with_task_policy(show: &mut dyn FnMut(&TaskPolicy)) {
    __darter_task_policy(show);
}

/// Pages free now: a sum over CPUs and NUMA nodes, exact when nothing allocates meanwhile.
pub fn free_frames() -> u64 {
    let cached: u64 = magazine::cached_everywhere();
    (0..NUMA_NODES.load(Ordering::Relaxed))
        .map(|n| colour::of_numa_node(n).free() + buddy::of_numa_node(n).free())
        .sum::<u64>()
        + cached
        + idle::out()
}

/// Memory is out: what CPUs keep for themselves alone goes where all take from, this CPU's now, that of the others when they
/// next call [`give_back_if_called`], for which idle ones are woken. Not under a lock, nor where objects are being allocated.
pub fn call_back() {
    crate::slab::give_back();
    magazine::call_back();
    let here = machine::cpu_id();
    (0..machine::cpus()).filter(|cpu| *cpu != here).for_each(machine::kick);
}

/// Have all CPUs followed the last [`call_back`]?
pub fn all_gave_back() -> bool {
    (0..machine::cpus()).all(magazine::has_followed)
}

/// For points where the CPU does nothing urgent: gives back what it keeps, if another CPU has called for it.
#[inline]
pub fn give_back_if_called() {
    if magazine::was_called() {
        crate::slab::give_back();
        magazine::follow_call();
    }
}

/// Is there so little left that nothing should grow that no program's end gives back (files in memory)? What CPUs hold in their
/// magazines is not counted, since another CPU cannot have it; what a device is just being told of is, since it comes back at once.
pub fn is_scarce() -> bool {
    !more_than(reserve()) && !more_than(reserve().saturating_sub(idle::out()))
}

/// Is there more left than what [`is_scarce`] keeps, by `pages`?
pub fn has_beyond_reserve(pages: u64) -> bool {
    more_than(reserve() + pages)
}

/// What is kept for programs: 64 MiB; of a small machine one part in 16. Pages.
fn reserve() -> u64 {
    const RESERVE: u64 = 16384;
    RESERVE.min(total_frames() / 16)
}

/// Can every CPU have a frame now?
pub fn has_any() -> bool {
    more_than(BATCH as u64)
}

/// Do the stores that all can take from hold more than `pages`? Most often the first of them says so.
fn more_than(pages: u64) -> bool {
    let buddies = (0..MAX_NUMA_NODES).map(|n| buddy::of_numa_node(n).free());
    let lists = (0..MAX_NUMA_NODES).map(|n| colour::of_numa_node(n).free());
    let depots = (0..machine::cpus()).map(|cpu| depot::of(cpu).len() as u64);
    let mut free = 0;
    buddies.chain(lists).chain(depots).any(|more| {
        free += more;
        free > pages
    })
}

/// `1 << order` physically contiguous pages, on `numa_node` if it has any, contents unspecified; the first frame is
/// marked [`FrameKind::Block`]. None: no NUMA node has such a block, or `order` is above [`MAX_ORDER`].
pub fn alloc_contiguous(order: usize, numa_node: u32) -> Option<PhysAddr> {
    if order > MAX_ORDER {
        return None;
    }
    let home = numa_node as usize % MAX_NUMA_NODES;
    let here = machine::node_of(machine::cpu_id()) as usize % MAX_NUMA_NODES;
    let own = if is_small(order) && home == here { own_block(order, home) } else { None };
    let frame = own.or_else(|| take_block(order, home)).or_else(|| join_block(order, home))?;
    frame.mark_taken();
    if poison::ON {
        rest_of_block(frame, order).for_each(Frame::check_poison);
    }
    frame.set_kind(FrameKind::Block);
    // SAFETY: just taken; those of a block are for tools that look at memory from outside.
    unsafe { frame.flags() }.store(order as u8, Ordering::Relaxed);
    Some(frame.addr())
}

/// The pages of a block but the first, which is marked as taken or free by itself: these count as free all the time.
fn rest_of_block(first: &Frame, order: usize) -> impl Iterator<Item = &'static Frame> {
    let first = first.number();
    (1..1 << order).map(move |n| Frame::by_number(first + n))
}

/// Do blocks of `order` lie in depots?
fn is_small(order: usize) -> bool {
    (1..=depot::SMALL_ORDER).contains(&order)
}

/// A small block from this CPU's depot, for which the buddy of `home` gives a batch where it has none.
fn own_block(order: usize, home: usize) -> Option<&'static Frame> {
    let depot = depot::this();
    depot.take_block(order).or_else(|| {
        let mut batch = [0; BATCH / 2];
        let taken = buddy::of_numa_node(home).take_blocks(order, &mut batch[..BATCH >> order]);
        let (first, rest) = batch[..taken].split_first()?;
        depot.put_blocks(rest, order);
        Some(Frame::by_number(*first))
    })
}

fn take_block(order: usize, home: usize) -> Option<&'static Frame> {
    (0..MAX_NUMA_NODES).find_map(|i| buddy::of_numa_node((home + i) % MAX_NUMA_NODES).take(order))
}

/// A block made of single pages: those on the lists, then those that lie in depots, one depot after the other.
#[cold]
fn join_block(order: usize, home: usize) -> Option<&'static Frame> {
    magazine::call_back();
    (0..MAX_NUMA_NODES).for_each(|n| colour::of_numa_node(n).drain());
    let (cpus, here) = (machine::cpus(), machine::cpu_id());
    take_block(order, home).or_else(|| {
        (0..cpus).find_map(|i| {
            depot::of((here + i) % cpus).drain();
            take_block(order, home)
        })
    })
}

/// Gives back a block of [`alloc_contiguous`].
///
/// # Safety
/// `start` and `order` are those of one allocation, given back once, and nothing refers to the pages any more.
pub unsafe fn free_contiguous(start: PhysAddr, order: usize) {
    // SAFETY: an address from the allocator, as the caller says.
    let frame = unsafe { Frame::of(start) };
    frame.mark_free();
    if poison::ON {
        core::iter::once(frame).chain(rest_of_block(frame, order)).for_each(Frame::poison);
    }
    let depot = depot::this();
    let is_near = frame.numa_node() == machine::node_of(machine::cpu_id()) as usize;
    if is_small(order) && is_near && depot.has_capacity(1 << order) {
        return depot.put_blocks(&[frame.number()], order);
    }
    buddy::of_numa_node(frame.numa_node()).give(frame, order);
}

/// Where the direct map shows `address`.
#[inline]
pub(crate) fn direct_map(address: PhysAddr) -> *mut u8 {
    // It does not wrap: physical addresses have 52 bits. A check would cost every level of every walk.
    __darter_direct_map_base().wrapping_add(address.0 as usize) as *mut u8
}

/// Clears the page of `frame`.
///
/// # Safety
/// Nobody else reads or writes the page meanwhile.
pub unsafe fn zero(frame: &Frame) {
    // SAFETY: the direct map holds the page; the caller owns it.
    unsafe { __darter_zero_page(frame.bytes_ptr()) }
}

/// Copies the page of `from` over the page of `to`.
///
/// # Safety
/// The caller owns `to`; `from` stays allocated meanwhile. Programs may write `from` at the same time: the copy is then
/// some mixture, as on Linux.
pub unsafe fn copy(to: &Frame, from: &Frame) {
    // SAFETY: both pages are in the direct map; see above.
    unsafe { __darter_copy_page(to.bytes_ptr(), from.bytes_ptr()) }
}
