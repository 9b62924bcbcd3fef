//! Colour lists: a NUMA node's single free pages, split so that CPUs that refill at once meet at different locks.
//!
//! A colour is a group of 32-page runs (bits 5..9 of the page number), so a run split by the buddy keeps one colour. Each
//! CPU starts at its own colour. A list that grows long gives its surplus back to the buddy, so that large blocks form
//! again.

use super::chain::Chain;
use super::{BATCH, Frame, MAX_NUMA_NODES, buddy, idle};
use crate::order::FrameList;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::{SpinLock, lock_class};

/// Lists per NUMA node.
pub(super) const COLOURS: usize = 16;
/// Pages a list holds before it gives half of them to the buddy.
const LONG: usize = 1024;

lock_class! { static COLOUR: LockClass = ("frame colour list", FrameList); }

#[repr(align(64))]
struct List {
    chain: SpinLock<Chain, FrameList>,
    /// Length, for readers of sums; written under the lock.
    free: AtomicU64,
}

/// The colour lists of one NUMA node.
pub(super) struct ColourLists {
    lists: [List; COLOURS],
}

static NUMA_NODES: [ColourLists; MAX_NUMA_NODES] = [const {
    ColourLists {
        lists: [const { List { chain: SpinLock::new(Chain::EMPTY, &COLOUR), free: AtomicU64::new(0) } };
            COLOURS],
    }
}; MAX_NUMA_NODES];

pub(super) fn of_numa_node(n: usize) -> &'static ColourLists {
    &NUMA_NODES[n % MAX_NUMA_NODES]
}

/// Colour of a frame.
pub(super) fn of(frame: &Frame) -> usize {
    (frame.number() >> 5) as usize % COLOURS
}

impl ColourLists {
    pub(super) fn free(&self) -> u64 {
        self.lists.iter().map(|l| l.free.load(Ordering::Relaxed)).sum()
    }

    /// Is there enough for a block of which the host is told?
    pub(super) fn is_worth(&self) -> bool {
        self.free() >= 1 << buddy::HOST_ORDER
    }

    /// Fills `out` from the first list at or after colour `start` that has anything; returns how many frames.
    pub(super) fn take(&self, start: usize, out: &mut [u32]) -> usize {
        for list in (0..COLOURS).map(|i| &self.lists[(start + i) % COLOURS]) {
            if list.free.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut chain = list.chain.lock();
            let taken = chain.pop_into(out);
            list.free.store(chain.len() as u64, Ordering::Relaxed);
            if taken > 0 {
                return taken;
            }
        }
        0
    }

    /// Takes in one chain per colour, of frames of this NUMA node.
    pub(super) fn give(&self, chains: [Chain; COLOURS]) {
        for (list, chain) in self.lists.iter().zip(chains) {
            if chain.len() == 0 {
                continue;
            }
            let mut surplus = Chain::EMPTY;
            {
                let mut held = list.chain.lock();
                held.splice(chain);
                if held.len() > LONG {
                    for _ in 0..LONG / 2 {
                        let Some(frame) = held.pop() else { break };
                        surplus.push(frame);
                    }
                }
                list.free.store(held.len() as u64, Ordering::Relaxed);
            }
            buddy::give_pages(surplus);
        }
        if self.is_worth() {
            idle::freed();
        }
    }

    /// Gives the pages of list `n` to the buddy of its NUMA node, a batch at a time, so that never more is in nobody's count; of what others give
    /// meanwhile some may stay.
    pub(super) fn drain_list(&self, n: usize) {
        let Some(list) = self.lists.get(n) else { return };
        let mut batch = [0; BATCH];
        for _ in 0..=list.free.load(Ordering::Relaxed) {
            let taken = {
                let mut chain = list.chain.lock();
                let taken = chain.pop_into(&mut batch);
                list.free.store(chain.len() as u64, Ordering::Relaxed);
                taken
            };
            if taken == 0 {
                break;
            }
            buddy::give_frames(&batch[..taken]);
        }
    }

    /// Gives every page to the buddy of its NUMA node, so that large blocks form.
    pub(super) fn drain(&self) {
        (0..COLOURS).for_each(|n| self.drain_list(n));
    }
}
