//! Depots: behind each CPU's magazine, the frames that it has given back before, and small blocks of frames.
//!
//! A program that frees and takes many pages again and again gets its own pages back, which no other CPU has touched meanwhile. Only what
//! a depot does not hold any more goes to the lists of the NUMA nodes. Slabs of larger objects and buffers of a few pages are blocks
//! ([`SMALL_ORDER`]): those too come back to the CPU that freed them, and from the buddy as many at a time as make a batch of frames.
//!
//! Each depot has a lock, which in the steady state its CPU alone takes, once for a batch of frames or a block. Another CPU takes from a
//! depot only when the lists of all NUMA nodes are empty or no large block is left. So what lies here is free memory for everybody at
//! once, though its CPU sleeps or stays in user mode for long: nobody is asked and nobody is waited for.
//!
//! LockOrder: FrameList, innermost; no other lock is taken under it.
//!
//! Where a host takes back what is free ([`super::idle`]), single frames that lay here from one tick to the next are cold, and go to the buddies, where
//! large blocks form: with a depot for nearly all memory the host would else get none of it.

use super::chain::Chain;
use super::{BATCH, Frame, buddy, idle};
use crate::order::FrameList;
use core::sync::atomic::{AtomicUsize, Ordering};
use sync::machine::{self, CpuId};
use sync::{SpinLock, lock_class, per_cpu};

lock_class! { static DEPOT: LockClass = ("frame depot", FrameList); }

/// Blocks of at most `1 << SMALL_ORDER` pages lie in depots: 32 KiB, as in the per-CPU lists of Linux (`PAGE_ALLOC_COSTLY_ORDER`).
pub(super) const SMALL_ORDER: usize = 3;

const _: () = assert!(1 << SMALL_ORDER <= BATCH, "a batch has room for every block");

/// With fewer frames than the smallest block of which the host is told, nobody is woken for a depot.
const WORTH: usize = 1 << buddy::HOST_ORDER;

struct Store {
    /// Single frames.
    pages: Chain,
    /// Of these the ones that nobody has taken since the last tick: taken after those.
    cold: Chain,
    /// First frames of blocks, by order from 1 on. The other frames of a block are marked as free and on no chain.
    blocks: [Chain; SMALL_ORDER],
    /// Of these the ones that nobody has taken since the last tick.
    cold_blocks: [Chain; SMALL_ORDER],
}

#[repr(align(64))]
pub(super) struct Depot {
    store: SpinLock<Store, FrameList>,
    /// Frames, for readers of sums; written under the lock.
    len: AtomicUsize,
}

per_cpu! {
    static DEPOTS: Depot = Depot { store: SpinLock::new(Store::EMPTY, &DEPOT), len: AtomicUsize::new(0) };
}

/// The depot of this CPU.
#[inline]
pub(super) fn this() -> &'static Depot {
    DEPOTS.this()
}

/// The depot of `cpu`.
pub(super) fn of(cpu: CpuId) -> &'static Depot {
    DEPOTS.of(cpu)
}

/// Frames in one depot at most: of memory shared out among the CPUs seven eighths, so that a CPU whose programs use its share gets its own pages back.
/// What it gives back beyond is touched by other CPUs later, 64 lines a page. An eighth stays where large blocks form.
fn limit() -> usize {
    let total = super::total_frames() as usize;
    (total - total / 8) / machine::cpus() as usize
}

/// Fills `out` from the depots of other CPUs, those of this CPU's NUMA node first, and where no depot has single frames from a block,
/// this CPU's first; says how many frames.
#[cold]
pub(super) fn take_elsewhere(out: &mut [u32]) -> usize {
    let (cpus, here) = (machine::cpus(), machine::cpu_id());
    let near = |cpu: &CpuId| machine::node_of(*cpu) == machine::node_of(here);
    let all = || (0..cpus).map(|i| (here + i) % cpus);
    let mut in_turn = all().filter(near).chain(all().filter(|cpu| !near(cpu)));
    let pages = in_turn.clone().map(|cpu| of(cpu).take(out)).find(|taken| *taken > 0);
    pages.or_else(|| in_turn.find_map(|cpu| of(cpu).split(out))).unwrap_or(0)
}

/// Fills `out` from the depots of the CPUs of NUMA node `node`: with single frames, else with those of a block. Says how many; a few may be of another node.
#[cold]
pub(super) fn take_of_node(node: usize, out: &mut [u32]) -> usize {
    let all = || (0..machine::cpus()).filter(|cpu| machine::node_of(*cpu) as usize == node);
    let pages = all().map(|cpu| of(cpu).take(out)).find(|taken| *taken > 0);
    pages.or_else(|| all().find_map(|cpu| of(cpu).split(out))).unwrap_or(0)
}

impl Store {
    const EMPTY: Self = Store {
        pages: Chain::EMPTY,
        cold: Chain::EMPTY,
        blocks: [Chain::EMPTY; SMALL_ORDER],
        cold_blocks: [Chain::EMPTY; SMALL_ORDER],
    };

    /// The blocks of `order`, which is one of those kept here.
    fn blocks(&mut self, order: usize) -> &mut Chain {
        &mut self.blocks[order - 1]
    }

    /// Small blocks, with their orders.
    fn all_blocks(&mut self) -> impl Iterator<Item = (usize, &mut Chain)> {
        (1..).zip(&mut self.blocks).chain((1..).zip(&mut self.cold_blocks))
    }

    fn len(&self) -> usize {
        let of =
            |all: &[Chain]| -> usize { (1..).zip(all).map(|(order, blocks)| blocks.len() << order).sum() };
        self.pages.len() + self.cold.len() + of(&self.blocks) + of(&self.cold_blocks)
    }
}

impl Depot {
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Is there room for so many frames?
    pub(super) fn has_capacity(&self, frames: usize) -> bool {
        self.len() + frames <= limit()
    }

    fn with<R>(&self, then: impl FnOnce(&mut Store) -> R) -> R {
        let mut store = self.store.lock();
        let result = then(&mut store);
        self.len.store(store.len(), Ordering::Relaxed);
        result
    }

    /// Fills `out` with single frames; says how many.
    pub(super) fn take(&self, out: &mut [u32]) -> usize {
        if self.len() == 0 {
            return 0;
        }
        self.with(|store| match store.pages.len() {
            0 => store.cold.pop_into(out),
            _ => store.pages.pop_into(out),
        })
    }

    pub(super) fn put(&self, frames: &[u32]) {
        self.with(|store| frames.iter().for_each(|number| store.pages.push(Frame::by_number(*number))));
        if self.is_worth() {
            idle::freed();
        }
    }

    /// Fills `out` with cold frames; says how many.
    pub(super) fn take_cold(&self, out: &mut [u32]) -> usize {
        if self.len() == 0 {
            return 0;
        }
        self.with(|store| store.cold.pop_into(out))
    }

    /// A cold small block: its first frame, and its order.
    pub(super) fn take_cold_block(&self) -> Option<(&'static Frame, usize)> {
        if self.len() == 0 {
            return None;
        }
        self.with(|store| {
            (1..).zip(&mut store.cold_blocks).find_map(|(order, blocks)| Some((blocks.pop()?, order)))
        })
    }

    /// Has it enough for a block of which the host is told?
    pub(super) fn is_worth(&self) -> bool {
        self.len() >= WORTH
    }

    /// A tick: what there is is cold until somebody takes it. What was cold before has been taken ([`Self::take_cold`]), or some of it
    /// has come since.
    pub(super) fn age(&self) {
        if self.len() > 0 {
            self.with(|store| {
                if store.cold.len() == 0 {
                    store.cold = store.pages.take_all();
                }
                for (cold, blocks) in store.cold_blocks.iter_mut().zip(&mut store.blocks) {
                    if cold.len() == 0 {
                        *cold = blocks.take_all();
                    }
                }
            });
        }
    }

    /// A block of `1 << order` frames, all of them marked as free. `order` is 1 to [`SMALL_ORDER`].
    pub(super) fn take_block(&self, order: usize) -> Option<&'static Frame> {
        if self.len() == 0 {
            return None;
        }
        self.with(|store| store.blocks(order).pop().or_else(|| store.cold_blocks[order - 1].pop()))
    }

    /// Puts in blocks of `1 << order` frames, all of them marked as free. `order` is 1 to [`SMALL_ORDER`].
    pub(super) fn put_blocks(&self, blocks: &[u32], order: usize) {
        self.with(|store| blocks.iter().for_each(|first| store.blocks(order).push(Frame::by_number(*first))));
    }

    /// Fills `out` with the frames of one block, a small one if there is any; says how many.
    #[cold]
    fn split(&self, out: &mut [u32]) -> Option<usize> {
        if self.len() == 0 {
            return None;
        }
        self.with(|store| {
            let (order, block) =
                store.all_blocks().find_map(|(order, blocks)| Some((order, blocks.pop()?)))?;
            let frames = block.number()..block.number() + (1 << order);
            Some(out.iter_mut().zip(frames).map(|(place, number)| *place = number).count())
        })
    }

    /// Gives the frames to the buddies of their NUMA nodes, where large blocks form; of what others put in meanwhile some may stay. At most a
    /// batch is in nobody's count at a time: a depot may hold most of memory, and who asked in between would find none.
    pub(super) fn drain(&self) {
        let rounds = 0..=self.len();
        let mut batch = [0; BATCH];
        for _ in rounds.clone() {
            match self.take(&mut batch) {
                0 => break,
                taken => buddy::give_frames(&batch[..taken]),
            }
        }
        let blocks = rounds.map_while(|_| {
            self.with(|store| store.all_blocks().find_map(|(order, blocks)| Some((blocks.pop()?, order))))
        });
        for (block, order) in blocks {
            buddy::of_numa_node(block.numa_node()).give(block, order);
        }
    }
}
