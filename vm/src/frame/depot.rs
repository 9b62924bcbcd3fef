//! Depots: behind each CPU's magazine, the frames that it has given back before.
//!
//! A program that frees and takes many pages again and again gets its own pages back, which no other CPU has touched meanwhile. Only what
//! a depot does not hold any more goes to the lists of the NUMA nodes.
//!
//! Each depot has a lock, which in the steady state its CPU alone takes, once for a batch of frames. Another CPU takes from a depot
//! only when the lists of all NUMA nodes are empty or no large block is left. So what lies here is free memory for everybody at once,
//! though its CPU sleeps or stays in user mode for long: nobody is asked and nobody is waited for.
//!
//! LockOrder: FrameList, innermost; no other lock is taken under it.

use super::chain::Chain;
use super::{BATCH, Frame, buddy};
use crate::order::FrameList;
use core::sync::atomic::{AtomicUsize, Ordering};
use sync::machine::{self, CpuId};
use sync::{SpinLock, lock_class, per_cpu};

lock_class! { static DEPOT: LockClass = ("frame depot", FrameList); }

#[repr(align(64))]
pub(super) struct Depot {
    chain: SpinLock<Chain, FrameList>,
    /// Length, for readers of sums; written under the lock.
    len: AtomicUsize,
}

per_cpu! {
    static DEPOTS: Depot = Depot { chain: SpinLock::new(Chain::EMPTY, &DEPOT), len: AtomicUsize::new(0) };
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

/// Fills `out` from the depots of other CPUs, those of this CPU's NUMA node first; says how many frames.
#[cold]
pub(super) fn take_elsewhere(out: &mut [u32]) -> usize {
    let (cpus, here) = (machine::cpus(), machine::cpu_id());
    let near = |cpu: &CpuId| machine::node_of(*cpu) == machine::node_of(here);
    let others = || (1..cpus).map(|i| (here + i) % cpus);
    let in_turn = others().filter(near).chain(others().filter(|cpu| !near(cpu)));
    in_turn.map(|cpu| of(cpu).take(out)).find(|taken| *taken > 0).unwrap_or(0)
}

impl Depot {
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Is there room for a batch?
    pub(super) fn has_capacity(&self) -> bool {
        self.len() + BATCH <= limit()
    }

    /// Fills `out`; says how many frames.
    pub(super) fn take(&self, out: &mut [u32]) -> usize {
        if self.len() == 0 {
            return 0;
        }
        let mut chain = self.chain.lock();
        let taken = chain.pop_into(out);
        self.len.store(chain.len(), Ordering::Relaxed);
        taken
    }

    pub(super) fn put(&self, frames: &[u32]) {
        let mut chain = self.chain.lock();
        for number in frames {
            chain.push(Frame::by_number(*number));
        }
        self.len.store(chain.len(), Ordering::Relaxed);
    }

    /// Gives all frames to the buddies of their NUMA nodes, where large blocks form.
    pub(super) fn drain(&self) {
        let all = {
            let mut chain = self.chain.lock();
            self.len.store(0, Ordering::Relaxed);
            chain.take_all()
        };
        buddy::give_pages(all);
    }
}
