//! Free memory that lies idle: the host is told of it, and may use it otherwise (free page reporting; Virtio 1.2, 5.5.6.7).
//!
//! One thread has the [`Ticker`] and calls [`Ticker::tick`] about once a second as long as there is something to do:
//!
//! * frames that lay in a depot from one tick to the next, and on colour lists of which nobody took and to which nobody gave, go to the buddies, 64 at a time;
//! * blocks of 2 MiB and more that lay in a buddy from one tick to the next are taken out ([`Out::take`]), a bounded part of what is free, the host is told,
//!   and they come back ([`Out::told`]).
//!
//! A single page that is kept somewhere keeps the block around it from forming. So where there is nothing large left, small remains go the same way, and if much has
//! moved, CPUs are called to give back what they keep ([`super::call_back`]).
//!
//! So memory is told of two to four ticks after it was freed. When nothing is left to do the thread sleeps without a timer: [`Ticker::sleep`] has whoever
//! makes a large block, or puts a batch into a depot with enough for one, call the waker. That is a look at a word that nobody writes, once
//! in 64 frames.
//!
//! **Invariants.** DeviceOwns: a block that is out is on no list, and its frames are marked free, so nobody gets it; it comes back by the drop of its
//! [`Out`] alone, which lies in the device's request. What is out counts as free in `free_frames`, and nowhere else.
//!
//! A block that comes back holds anything: that a host gives zeros is not built on.
//!
//! Locks: those of depots, colour lists and buddies, one at a time.

use super::colour::{self, COLOURS};
use super::{BATCH, Frame, MAX_NUMA_NODES, NUMA_NODES, PAGE_SIZE, PhysAddr, buddy, depot, poison};
use arrayvec::ArrayVec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use once_cell::race::OnceRef;
use sync::machine;

/// Blocks that are out at once, at most: 128 MiB.
pub const MOST: usize = 32;
/// Of what is free so much is out at once, at most: one part in eight.
const SHARE: u64 = 8;

/// Is to be called when memory is freed: the ticker sleeps.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
static WAKER: OnceRef<'static, Waker> = OnceRef::new();
/// Ticks after which nothing more comes together: what CPUs gave back has lain in depots and in buddies meanwhile.
const QUIET: u32 = 4;

/// After so many frames CPUs are called: 16 MiB.
const MUCH: u64 = 4096;

/// Pages that are out.
static OUT: AtomicU64 = AtomicU64::new(0);

/// Has the ticker's thread look, soon. Called under any lock but a run queue's and with none: it does not wake anybody itself.
pub struct Waker(pub fn());

/// Sets the waker. Once.
pub fn set_waker(waker: &'static Waker) {
    let _ = WAKER.set(waker);
}

/// Pages of which a device is being told.
pub fn out() -> u64 {
    OUT.load(Ordering::Relaxed)
}

/// A large block was freed, or enough for one.
#[inline]
pub(super) fn freed() {
    if IS_WATCHED.load(Ordering::Relaxed) {
        wake();
    }
}

#[cold]
fn wake() {
    if IS_WATCHED.swap(false, Ordering::SeqCst)
        && let Some(waker) = WAKER.get()
    {
        (waker.0)();
    }
}

/// The state of the one thread that looks for idle memory.
pub struct Ticker {
    /// What was on each NUMA node's colour lists at the last tick.
    listed: [u64; MAX_NUMA_NODES],
    /// Ticks since there was something worth it.
    quiet: u32,
    /// Single frames that went to the buddies since CPUs were called to give back what they keep.
    moved: u64,
}

impl Ticker {
    pub const fn new() -> Self {
        Self { listed: [0; MAX_NUMA_NODES], quiet: 0, moved: MUCH }
    }

    /// One tick. `rest` is called every 64 frames, with no lock held; false ends the tick early. True: there is something that another tick would find
    /// older, or that can be told of now.
    pub fn tick(&mut self, mut rest: impl FnMut() -> bool) -> bool {
        let mut is_worth = false;
        for node in numa_nodes() {
            is_worth |= buddy::of_numa_node(node).age();
        }
        for cpu in 0..machine::cpus() {
            let depot = depot::of(cpu);
            let mut batch = [0; BATCH];
            loop {
                let taken = depot.take_cold(&mut batch);
                if taken == 0 {
                    break;
                }
                buddy::give_frames(&batch[..taken]);
                self.moved += taken as u64;
                if !rest() {
                    return true;
                }
            }
            while let Some((block, order)) = depot.take_cold_block() {
                buddy::of_numa_node(block.numa_node()).give(block, order);
                if !rest() {
                    return true;
                }
            }
            is_worth |= depot.is_worth();
            depot.age();
        }
        for (node, before) in numa_nodes().zip(&mut self.listed) {
            let lists = colour::of_numa_node(node);
            let now = lists.free();
            is_worth |= lists.is_worth();
            if now > 0 && *before == now {
                for n in 0..COLOURS {
                    lists.drain_list(n);
                    if !rest() {
                        return true;
                    }
                }
            }
            *before = lists.free();
        }
        if is_worth || has_untold() {
            self.quiet = 0;
        } else {
            self.quiet += 1;
            if self.moved >= MUCH {
                self.moved = 0;
                super::call_back();
            }
            // At once, or a CPU takes the remains again, 64 at a time, each of which keeps another block from forming.
            for cpu in 0..machine::cpus() {
                depot::of(cpu).drain();
                if !rest() {
                    return true;
                }
            }
        }
        self.quiet < QUIET
    }

    /// Nothing is left to do: from now on who frees much calls the waker, once. False: there is something after all.
    pub fn sleep(&mut self) -> bool {
        IS_WATCHED.store(true, Ordering::SeqCst);
        // What was freed before that is seen here, under the same locks.
        let is_idle = !has_untold()
            && !(0..machine::cpus()).any(|cpu| depot::of(cpu).is_worth())
            && !numa_nodes().any(|node| colour::of_numa_node(node).is_worth());
        if !is_idle {
            IS_WATCHED.store(false, Ordering::SeqCst);
        }
        self.quiet = 0;
        is_idle
    }
}

impl Default for Ticker {
    fn default() -> Self {
        Self::new()
    }
}

fn numa_nodes() -> core::ops::Range<usize> {
    0..NUMA_NODES.load(Ordering::Relaxed)
}

fn has_untold() -> bool {
    numa_nodes().any(|node| buddy::of_numa_node(node).has_untold())
}

/// Idle blocks that are on no list, while a device is told of them. Dropping it puts them back as they were.
pub struct Out {
    blocks: ArrayVec<(u32, u8), MOST>,
}

impl Out {
    /// Takes out up to `most` idle blocks; none where memory is scarce.
    pub fn take(most: usize) -> Out {
        let mut blocks = ArrayVec::new();
        let mut left = super::free_frames() / SHARE;
        if super::has_beyond_reserve(left) {
            let mut next = || {
                let (number, order) =
                    numa_nodes().find_map(|node| buddy::of_numa_node(node).take_aged(left))?;
                left -= 1 << order;
                OUT.fetch_add(1 << order, Ordering::Relaxed);
                if poison::ON {
                    pages(number, order).for_each(Frame::forget_poison);
                }
                Some((number, order as u8))
            };
            while blocks.len() < most.min(MOST)
                && let Some(block) = next()
            {
                blocks.push(block);
            }
        }
        Out { blocks }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Where the blocks are: the address of the first byte, and how many there are.
    pub fn ranges(&self) -> impl Iterator<Item = (PhysAddr, u32)> {
        self.blocks
            .iter()
            .map(|(number, order)| (Frame::by_number(*number).addr(), (PAGE_SIZE as u32) << order))
    }

    /// The device was told, and is done: the blocks are free again, and it is not told again of what nobody took meanwhile.
    pub fn told(mut self) {
        self.give_back(true);
    }

    fn give_back(&mut self, is_told: bool) {
        for (number, order) in self.blocks.drain(..) {
            let (frame, order) = (Frame::by_number(number), usize::from(order));
            let buddy = buddy::of_numa_node(frame.numa_node());
            if is_told {
                buddy.give_told(frame, order)
            } else {
                buddy.give(frame, order)
            }
            OUT.fetch_sub(1 << order, Ordering::Relaxed);
        }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        self.give_back(false);
    }
}

fn pages(number: u32, order: usize) -> impl Iterator<Item = &'static Frame> {
    (number..number + (1 << order)).map(Frame::by_number)
}

#[cfg(test)]
mod tests {
    use super::super::tests::arena;
    use super::super::{alloc_contiguous, free_contiguous, free_frames};
    use super::*;
    extern crate std;
    use std::vec::Vec;
    use sync::machine::hosted::as_cpu;

    /// Takes so many pages and gives them back.
    fn fill_depot(pages: usize) {
        let taken: Vec<_> = (0..pages).map(|_| super::super::alloc_dirty().expect("memory")).collect();
        drop(taken);
    }

    /// Takes all memory and gives it back: tests before this one have told of it.
    fn use_all() {
        let taken: Vec<_> = core::iter::from_fn(super::super::alloc_dirty).collect();
        drop(taken);
        blocks_form();
    }

    /// Other tests find large blocks.
    fn blocks_form() {
        (0..COLOURS).for_each(|n| numa_nodes().for_each(|node| colour::of_numa_node(node).drain_list(n)));
        depot::this().drain();
    }

    /// Ticks until all idle memory was told of; the ranges.
    fn tell_all(ticker: &mut Ticker) -> Vec<(PhysAddr, u32)> {
        let mut told = Vec::new();
        while ticker.tick(|| true) {
            loop {
                let out = Out::take(MOST);
                if out.is_empty() {
                    break;
                }
                told.extend(out.ranges());
                out.told();
            }
        }
        told
    }

    #[test]
    fn what_lay_free_for_two_ticks_is_told_of_once() {
        as_cpu(0, || {
            let _one = arena();
            use_all();
            let mut ticker = Ticker::new();
            let free = free_frames();
            let first = tell_all(&mut ticker);
            let bytes: u64 = first.iter().map(|(_, len)| u64::from(*len)).sum();
            assert!(bytes > free * 4096 / 2, "{bytes} of {free} pages");
            assert_eq!(free_frames(), free);
            assert!(ticker.sleep());
            assert_eq!(tell_all(&mut ticker), []);
            // A block that was used is told of again, and only that (or what it is part of).
            let block = alloc_contiguous(9, 0).expect("memory");
            // SAFETY: just taken, nothing refers to it.
            unsafe { free_contiguous(block, 9) };
            let again = tell_all(&mut ticker);
            assert_eq!(again.len(), 1, "{again:?}");
            let (start, len) = again[0];
            assert!((start.0..start.0 + u64::from(len)).contains(&block.0));
        });
    }

    #[test]
    fn what_is_out_is_free_and_nobody_gets_it() {
        as_cpu(0, || {
            let _one = arena();
            use_all();
            let mut ticker = Ticker::new();
            let free = free_frames();
            for _ in 0..4 {
                ticker.tick(|| true);
            }
            let out = Out::take(3);
            assert!(!out.is_empty());
            assert_eq!(free_frames(), free);
            let ranges: Vec<_> = out.ranges().collect();
            let inside = |at: PhysAddr| {
                ranges.iter().any(|(start, len)| (start.0..start.0 + u64::from(*len)).contains(&at.0))
            };
            let mut taken = Vec::new();
            while let Some(page) = super::super::alloc_dirty() {
                assert!(!inside(page.addr()), "{:?} is out", page.addr());
                taken.push(page);
            }
            // With no more memory no more goes out.
            assert!(Out::take(3).is_empty());
            drop(out);
            let page = super::super::alloc_dirty().expect("what came back");
            assert!(inside(page.addr()));
            drop((page, taken));
            assert_eq!(free_frames(), free);
            blocks_form();
        });
    }

    #[test]
    fn frames_in_depots_become_blocks_when_they_are_cold() {
        as_cpu(0, || {
            let _one = arena();
            let mut ticker = Ticker::new();
            tell_all(&mut ticker);
            fill_depot(4096);
            assert!(!ticker.sleep(), "there is something to do");
            let told = tell_all(&mut ticker);
            let bytes: u64 = told.iter().map(|(_, len)| u64::from(*len)).sum();
            assert!(bytes >= 8 << 20, "{told:?}");
            assert!(ticker.sleep());
        });
    }

    #[test]
    fn who_frees_much_wakes_a_ticker_that_sleeps_once() {
        static WOKEN: AtomicU64 = AtomicU64::new(0);
        static WAKER: Waker = Waker(|| {
            WOKEN.fetch_add(1, Ordering::Relaxed);
        });
        as_cpu(0, || {
            let _one = arena();
            set_waker(&WAKER);
            let mut ticker = Ticker::new();
            tell_all(&mut ticker);
            assert!(ticker.sleep());
            let before = WOKEN.load(Ordering::Relaxed);
            drop(super::super::alloc_dirty());
            assert_eq!(WOKEN.load(Ordering::Relaxed), before);
            fill_depot(2048);
            assert_eq!(WOKEN.load(Ordering::Relaxed), before + 1);
            blocks_form();
        });
    }
}
