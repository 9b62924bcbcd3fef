//! The CPUs that a task may run on (sched_setaffinity(2)).
//!
//! Whoever places a task reads without a lock, and may meet half of a change: it is told to look again after it (`runqueue::move_if_needed`). Who
//! hands a mask on, or shows it, reads it as a whole (`sync::protocol::sequence`); who changes it has the lock.
//! Lock order: `changing` is innermost; nothing is taken under it.
#![forbid(unsafe_code)]

use crate::lock_order as level;
use sync::machine::{CpuId, MAX_CPUS};
use sync::protocol::sequence::{HalfWord, Sequence, Word};
use sync::{SpinLock, lock_class};

lock_class! { static AFFINITY: LockClass = ("affinity", level::Affinity); }

/// The CPUs that a task may run on.
pub struct Affinity {
    words: [Word; MAX_CPUS / 64],
    sequence: Sequence,
    /// The one CPU that is allowed; `MANY`: there are others. Each wake-up asks.
    only: HalfWord,
    changing: SpinLock<(), level::Affinity>,
}

const MANY: u32 = u32::MAX;

/// Are all CPUs of the machine in this mask?
pub fn is_everywhere(words: &[u64; MAX_CPUS / 64]) -> bool {
    (0..sync::machine::cpus()).all(|cpu| words[cpu as usize / 64] >> (cpu % 64) & 1 != 0)
}

impl Affinity {
    pub(super) fn all() -> Self {
        Self {
            words: [const { Word::with(u64::MAX) }; MAX_CPUS / 64],
            sequence: Sequence::new(),
            only: HalfWord::with(MANY),
            changing: SpinLock::new((), &AFFINITY),
        }
    }

    pub fn allows(&self, cpu: CpuId) -> bool {
        self.words.get(cpu as usize / 64).is_some_and(|w| w.load() >> (cpu % 64) & 1 != 0)
    }

    /// A child that nobody else sees yet gets what its parent has.
    pub(super) fn inherit(&self, parent: &Affinity) {
        let (words, only) = parent.read(|| (parent.copy(), parent.only.load()));
        self.words.iter().zip(words).for_each(|(to, from)| to.store(from));
        self.only.store(only);
    }

    /// The mask as words of 64 CPUs, lowest first.
    pub fn words(&self) -> [u64; MAX_CPUS / 64] {
        self.read(|| self.copy())
    }

    fn copy(&self) -> [u64; MAX_CPUS / 64] {
        core::array::from_fn(|n| self.words[n].load())
    }

    fn read<T>(&self, read: impl Fn() -> T) -> T {
        self.sequence.read(&read).unwrap_or_else(|| {
            let _whole = self.changing.lock();
            read()
        })
    }

    pub(super) fn store(&self, words: [u64; MAX_CPUS / 64]) {
        let _alone = self.changing.lock();
        let single = words.iter().map(|w| w.count_ones()).sum::<u32>() == 1;
        let cpu = words.iter().position(|w| *w != 0).map(|n| n as u32 * 64 + words[n].trailing_zeros());
        self.sequence.write(|| {
            self.words.iter().zip(words).for_each(|(to, from)| to.store(from));
            self.only.store(cpu.filter(|_| single).unwrap_or(MANY));
        });
    }

    /// The one CPU that is allowed, if it is only one.
    pub(super) fn only(&self) -> Option<CpuId> {
        Some(self.only.load()).filter(|cpu| *cpu != MANY)
    }
}
