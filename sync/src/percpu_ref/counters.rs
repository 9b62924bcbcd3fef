//! Per-CPU counters by number. A CPU's counters lie together, so a line of them has one writer (CountLocal).
//!
//! They come in chunks of 512 numbers, a page per CPU. A chunk is added where allocation is allowed ([`prepare`]), when the last
//! one ran out; [`take`] never allocates nor waits, and a count that gets no number stays shared.

use crate::heap::{AllocError, try_box, try_vec};
use crate::level::PerCpuCounters;
use crate::lock::SpinLock;
use crate::protocol::count::Locals;
use crate::{lock_class, machine, per_cpu};
use alloc::boxed::Box;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};

/// Numbers per chunk.
const CHUNK: usize = 512;
const CHUNKS: usize = 64;
const WORDS: usize = CHUNK / 64;

/// One CPU's counters of a chunk.
type Page = [AtomicI64; CHUNK];

lock_class! { static CLASS: LockClass = ("percpu counters", PerCpuCounters) }

per_cpu! {
    static PAGES: [AtomicPtr<Page>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
}

struct Free {
    /// A set bit is a number that can be had.
    bits: [[u64; WORDS]; CHUNKS],
    chunks: usize,
}

static FREE: SpinLock<Free, PerCpuCounters> =
    SpinLock::new(Free { bits: [[0; WORDS]; CHUNKS], chunks: 0 }, &CLASS);

/// Whether a number was wanted and there was none, or there is no chunk yet.
static SHORT: AtomicBool = AtomicBool::new(true);

fn page(cpu_pages: &[AtomicPtr<Page>; CHUNKS], number: u32) -> &AtomicI64 {
    let number = number as usize;
    // The remainder is never taken: it spares a check.
    let page = cpu_pages[number / CHUNK % CHUNKS].load(Ordering::Relaxed);
    // SAFETY: numbers are given out only after their chunk's pages are in place on all CPUs, for good, and whoever
    // knows a number learned it by an acquire of what came after that.
    unsafe { &(*page)[number % CHUNK] }
}

/// The counters, as the protocol sees them.
pub(super) struct Counters;

impl Locals for Counters {
    #[inline(always)]
    fn this(&self, number: u32) -> &AtomicI64 {
        page(PAGES.this(), number)
    }

    fn sum(&self, number: u32) -> i64 {
        (0..machine::cpus()).map(|cpu| page(PAGES.of(cpu), number).load(Ordering::Relaxed)).sum()
    }
}

/// Takes a number whose counters are zero. `None` if there is none just now.
pub(super) fn take() -> Option<u32> {
    let mut free = FREE.try_lock()?;
    let chunks = free.chunks;
    for chunk in 0..chunks {
        for word in 0..WORDS {
            let bits = &mut free.bits[chunk][word];
            if *bits != 0 {
                let bit = bits.trailing_zeros();
                *bits &= *bits - 1;
                drop(free);
                let number = (chunk * CHUNK + word * 64) as u32 + bit;
                for cpu in 0..machine::cpus() {
                    page(PAGES.of(cpu), number).store(0, Ordering::Relaxed);
                }
                return Some(number);
            }
        }
    }
    SHORT.store(true, Ordering::Relaxed);
    None
}

/// Gives a number back, whose counters nobody uses any more.
pub(super) fn give_back(number: u32) {
    let number = number as usize;
    FREE.lock().bits[number / CHUNK][number % CHUNK / 64] |= 1 << (number % 64);
}

/// Adds a chunk if numbers ran out. May allocate.
pub(super) fn prepare() -> Result<(), AllocError> {
    if !SHORT.load(Ordering::Relaxed) || !SHORT.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    let added = add_chunk();
    if added.is_err() {
        SHORT.store(true, Ordering::Relaxed);
    }
    added
}

fn add_chunk() -> Result<(), AllocError> {
    // Hosted, CPUs appear as threads do.
    let cpus = if cfg!(target_os = "none") { machine::cpus() } else { machine::MAX_CPUS as u32 };
    let mut pages = try_vec(cpus as usize)?;
    for _ in 0..cpus {
        let page: Box<Page> = try_box([const { AtomicI64::new(0) }; CHUNK])?;
        if pages.len() < pages.capacity() {
            #[allow(clippy::disallowed_methods)] // Has the capacity.
            pages.push(page);
        }
    }
    let mut free = FREE.lock();
    let chunk = free.chunks;
    if chunk == CHUNKS {
        return Ok(());
    }
    for (cpu, page) in (0..).zip(pages) {
        PAGES.of(cpu)[chunk].store(Box::into_raw(page), Ordering::Relaxed);
    }
    free.bits[chunk] = [u64::MAX; WORDS];
    free.chunks = chunk + 1;
    Ok(())
}
