//! Kernel stacks: 16 KiB each, below each at least one page that is never mapped, so that an overflow is a double fault
//! (reported on its own stack) and never a write into somebody else's memory.
//!
//! A stack keeps its address for good, so handing one from a dead thread to a new one changes no translation. Free stacks
//! are cached on the CPU that freed them (CountLocal), the rest lie in one pool. `trim` gives the memory of many pooled
//! stacks back at once, against one flush of the kernel's translations on all CPUs.
//!
//! With feature lockdep a stack is painted, so that what a call has used of it can be told (`depth`).
//!
//! Lock order: the pool's lock is taken alone; frames are allocated before it is taken where possible, and under it where a
//! page table is missing (pool → frame lists).

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::lock_order as level;
use alloc::vec::Vec;
use sync::heap::TryVec;
use sync::lock::SpinLock;
use sync::percpu::LocalCell;
use sync::{lock_class, per_cpu};
use vm::addr::PhysAddr;
use vm::frame::{self, Frame, OwnedFrame};

use super::cpu::percpu::MAX_CPUS;
use super::cpu::reg;
use super::memory::tables::{self, FrameTables};
use super::memory::{STACKS, early};

/// Bytes of a kernel stack.
pub const SIZE: usize = 16 * 1024;
const PAGES: usize = SIZE / 4096;
/// Address space of a stack with its guard, which lies below it.
pub const SLOT: usize = 32 * 1024;
const SLOTS: usize = (1 << 39) / SLOT;
/// Free stacks kept on one CPU.
const CACHED: usize = 8;
/// Free stacks that the pool keeps, per CPU present, when it is trimmed.
const KEPT_PER_CPU: usize = 2;
/// Stacks whose memory goes back against one flush.
const BATCH: usize = 32;

lock_class! { static POOL_CLASS: LockClass = ("kernel stacks", level::KernelStacks); }

/// Free stacks and free addresses.
struct Pool {
    /// A free stack's last word holds the slot of the next; 0 ends the list (slot 0 is the boot CPU's, never free).
    first: usize,
    count: usize,
    /// Slots below this have been used.
    next_slot: usize,
    /// Slots whose memory went back.
    vacant: Vec<u32>,
}

static POOL: SpinLock<Pool, level::KernelStacks> =
    SpinLock::new(Pool { first: 0, count: 0, next_slot: MAX_CPUS, vacant: Vec::new() }, &POOL_CLASS);
/// `Pool::count`, for a look without the lock.
static POOLED: AtomicUsize = AtomicUsize::new(0);

struct Cache {
    slots: [usize; CACHED],
    count: usize,
}

per_cpu! {
    static CACHE: LocalCell<Cache> = LocalCell::new(Cache { slots: [0; CACHED], count: 0 });
}

/// A kernel stack. Its contents are unspecified.
pub struct KernelStack {
    slot: usize,
}

/// True if `address` lies in a guard: a push has run off the end of a stack.
pub fn is_guard(address: usize) -> bool {
    (STACKS..STACKS + SLOTS * SLOT).contains(&address) && (address - STACKS) % SLOT < SLOT - SIZE
}

/// The top of the stack in slot `slot`.
fn top_of(slot: usize) -> usize {
    STACKS + (slot + 1) * SLOT
}

impl KernelStack {
    /// A stack, from this CPU's cache, the pool, or new. `None`: no memory.
    pub fn try_new() -> Option<KernelStack> {
        let stack = KernelStack::find()?;
        #[cfg(feature = "lockdep")]
        depth::paint(&stack);
        Some(stack)
    }

    fn find() -> Option<KernelStack> {
        let cached = CACHE.with(|cache| {
            cache.count = cache.count.checked_sub(1)?;
            Some(cache.slots[cache.count % CACHED])
        });
        if let Some(Some(slot)) = cached {
            return Some(KernelStack { slot });
        }
        if POOLED.load(Ordering::Relaxed) != 0
            && let Some(slot) = POOL.lock().pop()
        {
            return Some(KernelStack { slot });
        }
        KernelStack::make()
    }

    #[cold]
    fn make() -> Option<KernelStack> {
        let mut frames = [const { None }; PAGES];
        for frame in &mut frames {
            *frame = Some(frame::alloc_dirty()?);
        }
        let mut pool = POOL.lock();
        let slot = match pool.vacant.pop() {
            Some(slot) => slot as usize,
            None if pool.next_slot < SLOTS => {
                pool.next_slot += 1;
                pool.next_slot - 1
            }
            None => return None,
        };
        let bottom = top_of(slot) - SIZE;
        for (i, frame) in frames.into_iter().flatten().enumerate() {
            // SAFETY: under the pool's lock nobody else changes this region's tables; the frame is owned.
            let mapped =
                unsafe { tables::map_data_page(bottom + i * 4096, frame.addr().0, &mut FrameTables) };
            if !mapped {
                pool.abandon(slot, i);
                return None;
            }
            // From here on the mapping owns it.
            frame.set_kind(frame::FrameKind::Stack);
            frame.into_frame();
        }
        Some(KernelStack { slot })
    }

    /// One past the last byte; a multiple of 16.
    #[inline]
    pub fn top(&self) -> usize {
        top_of(self.slot)
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        // What is left on it would hide from the audit what nothing else refers to.
        #[cfg(feature = "lockdep")]
        depth::paint(self);
        let slot = self.slot;
        let cached = CACHE.with(|cache| {
            let room = cache.count < CACHED;
            if room {
                cache.slots[cache.count] = slot;
                cache.count += 1;
            }
            room
        });
        if cached != Some(true) {
            POOL.lock().push(slot);
        }
    }
}

impl Pool {
    fn push(&mut self, slot: usize) {
        // SAFETY: the last word of a mapped stack that nobody uses.
        unsafe { ((top_of(slot) - 8) as *mut usize).write(self.first) };
        self.first = slot;
        self.count += 1;
        POOLED.store(self.count, Ordering::Relaxed);
    }

    fn pop(&mut self) -> Option<usize> {
        if self.first == 0 {
            return None;
        }
        let slot = self.first;
        // SAFETY: as in `push`.
        self.first = unsafe { ((top_of(slot) - 8) as *const usize).read() };
        self.count -= 1;
        POOLED.store(self.count, Ordering::Relaxed);
        Some(slot)
    }

    /// Takes back the first `pages` pages of a stack that could not be completed. Nobody has used these addresses since
    /// they were last flushed, so no translation is cached.
    fn abandon(&mut self, slot: usize, pages: usize) {
        for i in 0..pages {
            // SAFETY: mapped a moment ago, under the lock, and never used.
            unsafe { release(tables::unmap_page(top_of(slot) - SIZE + i * 4096)) };
        }
        // Without room to note the address it is lost, which costs nothing but address space.
        let _ = self.vacant.try_push(slot as u32);
    }
}

/// Frees the page that a mapping owned.
///
/// # Safety
/// No CPU can reach it through the old mapping any more.
unsafe fn release(physical: Option<u64>) {
    if let Some(physical) = physical {
        // SAFETY: the mapping held the only reference to a frame of the allocator's.
        drop(unsafe { OwnedFrame::from_frame(Frame::of(PhysAddr(physical))) });
    }
}

/// Gives back the memory of free stacks beyond what is worth keeping. Thread context, interrupts on, no lock held: it waits for
/// all CPUs. Cheap if there is nothing to do; meant for the idle loop. True: it gave a batch back, and there may be more.
pub fn trim() -> bool {
    let kept = KEPT_PER_CPU * super::cpus() as usize;
    let any = POOLED.load(Ordering::Relaxed) >= kept + BATCH;
    if any {
        trim_batch(kept);
    }
    any
}

#[cold]
fn trim_batch(kept: usize) {
    let mut pages = [0u64; BATCH * PAGES];
    let mut slots = [0usize; BATCH];
    let mut count = 0;
    {
        let mut pool = POOL.lock();
        while count < BATCH && pool.count > kept {
            let Some(slot) = pool.pop() else { break };
            slots[count] = slot;
            for i in 0..PAGES {
                // SAFETY: under the lock; a free stack.
                let page = unsafe { tables::unmap_page(top_of(slot) - SIZE + i * 4096) };
                pages[count * PAGES + i] = page.unwrap_or(0);
            }
            count += 1;
        }
    }
    // FreeAfterFlush. Kernel translations are global: only toggling PGE drops them all (SDM vol. 3, 5.10.4.1).
    flush_global(0);
    super::call_others(0..super::cpus(), flush_global, 0);
    for &page in pages.iter().take(count * PAGES) {
        // SAFETY: every CPU has flushed.
        unsafe { release((page != 0).then_some(page)) };
    }
    let mut pool = POOL.lock();
    for &slot in slots.iter().take(count) {
        let _ = pool.vacant.try_push(slot as u32);
    }
}

fn flush_global(_: usize) {
    let was = super::disable_interrupts();
    let cr4 = reg::cr4();
    // SAFETY: clearing and setting PGE changes nothing but the cached translations.
    unsafe {
        reg::set_cr4(cr4 & !reg::CR4_PGE);
        reg::set_cr4(cr4);
    }
    if was {
        super::enable_interrupts();
    }
}

/// The stack on which CPU `cpu` boots and idles; returns its top.
///
/// # Safety
/// On the boot CPU, alone, while early memory lasts; once for each CPU.
pub unsafe fn boot_stack(cpu: u32) -> usize {
    let top = top_of(cpu as usize);
    // SAFETY: boot CPU, alone; fresh memory at addresses of this region that nobody uses.
    unsafe {
        let physical =
            early::allocate(SIZE as u64, SIZE as u64, super::boot::topology::node_of(cpu), u64::MAX);
        for offset in (0..SIZE).step_by(4096) {
            tables::map_data_page(
                top - SIZE + offset,
                physical + offset as u64,
                &mut tables::EarlyTables::new(),
            );
        }
    }
    top
}

/// How deep calls go: what has lost its paint was used.
#[cfg(feature = "lockdep")]
pub mod depth {
    use super::{KernelStack, SIZE};
    use crate::arch::x86_64::cpu::percpu;
    use core::arch::asm;

    const PAINT: usize = 0x5ac4_5ac4_5ac4_5ac4;
    const WORD: usize = size_of::<usize>();
    /// Words that are looked at together, since most are painted; a stack is a whole number of them.
    const BLOCK: usize = 16;

    pub(super) fn paint(stack: &KernelStack) {
        // SAFETY: a mapped stack that nobody uses yet.
        unsafe { paint_words(stack.top() - SIZE, stack.top()) };
    }

    /// # Safety
    /// From `from` to `to` lie words of a mapped stack, of which nobody uses any.
    unsafe fn paint_words(from: usize, to: usize) {
        for word in (from..to).step_by(WORD) {
            // SAFETY: the caller's promise.
            unsafe { (word as *mut usize).write_volatile(PAINT) };
        }
    }

    /// Bytes of the running thread's stack that were used since this was last asked; paints them again. Interrupts are off.
    pub fn used() -> usize {
        let top = percpu::kernel_stack();
        let now: usize;
        // SAFETY: reads a register.
        unsafe { asm!("mov {}, rsp", out(reg) now, options(nomem, nostack, preserves_flags)) };
        let bottom = top - SIZE;
        // SAFETY: a word of this thread's own stack, which stays mapped; below `now` nobody has anything: interrupts are off.
        let is_painted = |word: usize| unsafe { (word as *const usize).read_volatile() } == PAINT;
        let mut lowest = bottom;
        while lowest + BLOCK * WORD <= now
            && (0..BLOCK).fold(true, |all, index| all & is_painted(lowest + index * WORD))
        {
            lowest += BLOCK * WORD;
        }
        while lowest < now && is_painted(lowest) {
            lowest += WORD;
        }
        // SAFETY: as above.
        unsafe { paint_words(lowest, now) };
        top - lowest
    }
}
