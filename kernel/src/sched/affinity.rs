//! The CPUs that a task may run on (sched_setaffinity(2)).
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};
use sync::machine::{CpuId, MAX_CPUS};

/// The CPUs that a task may run on.
pub struct Affinity([AtomicU64; MAX_CPUS / 64]);

impl Affinity {
    pub(super) fn all() -> Self {
        Self([const { AtomicU64::new(u64::MAX) }; MAX_CPUS / 64])
    }

    pub fn allows(&self, cpu: CpuId) -> bool {
        self.0.get(cpu as usize / 64).is_some_and(|w| w.load(Ordering::Relaxed) >> (cpu % 64) & 1 != 0)
    }

    /// The mask as words of 64 CPUs, lowest first.
    pub fn words(&self) -> [u64; MAX_CPUS / 64] {
        core::array::from_fn(|n| self.0[n].load(Ordering::Relaxed))
    }

    pub(super) fn store(&self, words: [u64; MAX_CPUS / 64]) {
        self.0.iter().zip(words).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
    }

    /// The first CPU present that is allowed.
    pub(super) fn first(&self) -> Option<CpuId> {
        (0..sync::machine::cpus()).find(|cpu| self.allows(*cpu))
    }

    /// The one CPU that is allowed, if it is only one.
    pub(super) fn only(&self) -> Option<CpuId> {
        let words = self.words();
        let (n, word) = words.iter().enumerate().find(|(_, word)| **word != 0)?;
        let is_only = word.is_power_of_two() && words.iter().skip(n + 1).all(|word| *word == 0);
        is_only.then(|| n as u32 * 64 + word.trailing_zeros())
    }
}
