//! The CPUs that a task may run on (sched_setaffinity(2)).
//!
//! Whoever places a task reads without a lock, and may meet half of a change: it is told to look again after it (`runqueue::move_if_needed`). Who
//! hands a mask on, or changes it, has the lock.
//! Lock order: `changing` is innermost; nothing is taken under it.
#![forbid(unsafe_code)]

use crate::lock_order as level;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sync::machine::{CpuId, MAX_CPUS};
use sync::{SpinLock, lock_class};

lock_class! { static AFFINITY: LockClass = ("affinity", level::Affinity); }

/// The CPUs that a task may run on.
pub struct Affinity {
    words: [AtomicU64; MAX_CPUS / 64],
    /// The one CPU that is allowed; `MANY`: there are others. Each wake-up asks.
    only: AtomicU32,
    changing: SpinLock<(), level::Affinity>,
}

const MANY: u32 = u32::MAX;

impl Affinity {
    pub(super) fn all() -> Self {
        Self {
            words: [const { AtomicU64::new(u64::MAX) }; MAX_CPUS / 64],
            only: AtomicU32::new(MANY),
            changing: SpinLock::new((), &AFFINITY),
        }
    }

    pub fn allows(&self, cpu: CpuId) -> bool {
        self.words.get(cpu as usize / 64).is_some_and(|w| w.load(Ordering::Relaxed) >> (cpu % 64) & 1 != 0)
    }

    /// A child that nobody else sees yet gets what its parent has.
    pub(super) fn inherit(&self, parent: &Affinity) {
        let _whole = parent.changing.lock();
        for (to, from) in self.words.iter().zip(&parent.words) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.only.store(parent.only.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The mask as words of 64 CPUs, lowest first.
    pub fn words(&self) -> [u64; MAX_CPUS / 64] {
        let _whole = self.changing.lock();
        core::array::from_fn(|n| self.words[n].load(Ordering::Relaxed))
    }

    pub(super) fn store(&self, words: [u64; MAX_CPUS / 64]) {
        let _alone = self.changing.lock();
        self.words.iter().zip(words).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
        let single = words.iter().map(|w| w.count_ones()).sum::<u32>() == 1;
        let cpu = words.iter().position(|w| *w != 0).map(|n| n as u32 * 64 + words[n].trailing_zeros());
        self.only.store(cpu.filter(|_| single).unwrap_or(MANY), Ordering::Relaxed);
    }

    /// The first CPU present that is allowed.
    pub(super) fn first(&self) -> Option<CpuId> {
        (0..sync::machine::cpus()).find(|cpu| self.allows(*cpu))
    }

    /// The one CPU that is allowed, if it is only one.
    pub(super) fn only(&self) -> Option<CpuId> {
        Some(self.only.load(Ordering::Relaxed)).filter(|cpu| *cpu != MANY)
    }
}
