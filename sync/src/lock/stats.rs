//! What a lock class counts on each CPU (CountLocal), for /proc.
//!
//! The fast path of every lock is one `acquired`. The rest is written only after a wait, by the CPU that waited.

use super::class::{self, Class};
use super::contention;
use crate::percpu::{Count, PerCpu};
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// One CPU's counts of one class, one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct ClassStats {
    /// Times a lock of the class was taken.
    pub acquisitions: Count,
    /// Of these, the times that it was not free.
    pub collisions: Count,
    /// Of these, the times that the thread slept.
    pub sleeps: Count,
    /// Cycles waited in all.
    pub waited: Count,
    /// Cycles of the longest wait.
    pub longest: Count,
    longest_caller: AtomicPtr<Location<'static>>,
    longest_holder: AtomicU32,
}

impl ClassStats {
    #[doc(hidden)]
    pub const fn new() -> Self {
        ClassStats {
            acquisitions: Count::new(),
            collisions: Count::new(),
            sleeps: Count::new(),
            waited: Count::new(),
            longest: Count::new(),
            longest_caller: AtomicPtr::new(ptr::null_mut()),
            longest_holder: AtomicU32::new(0),
        }
    }

    /// Where the longest wait was called from.
    pub fn longest_caller(&self) -> Option<&'static Location<'static>> {
        // SAFETY: null, or from a `&'static Location` by `collided`.
        unsafe { self.longest_caller.load(Ordering::Relaxed).as_ref() }
    }

    /// The CPU that held the lock when the longest wait began, where the lock knows it.
    pub fn longest_holder(&self) -> Option<u32> {
        self.longest_holder.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Notes a wait of `cycles`; `holder` is a CPU's number plus one, or 0.
    fn collided(&self, cycles: u64, slept: bool, holder: u32, caller: &'static Location<'static>) {
        self.collisions.add(1);
        self.sleeps.add(u64::from(slept));
        self.waited.add(cycles);
        if self.longest.max(cycles) {
            self.longest_caller.store(ptr::from_ref(caller).cast_mut(), Ordering::Relaxed);
            self.longest_holder.store(holder, Ordering::Relaxed);
        }
    }

    fn reset(&self) {
        for count in [&self.acquisitions, &self.collisions, &self.sleeps, &self.waited, &self.longest] {
            count.set(0);
        }
        self.longest_caller.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

impl Default for ClassStats {
    fn default() -> Self {
        Self::new()
    }
}

impl Class {
    /// Counts an acquisition on this CPU.
    #[inline(always)]
    pub(super) fn acquired(&self) {
        self.stats.this().acquisitions.add(1);
    }

    /// Counts a wait of `cycles` that this CPU has had; `holder` is a CPU's number plus one, or 0.
    pub(super) fn collided(
        &'static self,
        cycles: u64,
        slept: bool,
        holder: u32,
        caller: &'static Location<'static>,
    ) {
        self.stats.this().collided(cycles, slept, holder, caller);
        contention::note(&contention::Wait { class: self, caller, cycles, slept, holder });
    }
}

/// A class's counts over all CPUs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    pub acquisitions: u64,
    pub collisions: u64,
    pub sleeps: u64,
    /// Cycles.
    pub waited: u64,
    /// Cycles.
    pub longest: u64,
    pub longest_caller: Option<&'static Location<'static>>,
    pub longest_holder: Option<u32>,
}

impl Sums {
    pub fn of(stats: &PerCpu<ClassStats>) -> Self {
        stats.iter().fold(Sums::default(), |mut sums, cpu| {
            sums.acquisitions += cpu.acquisitions.get();
            sums.collisions += cpu.collisions.get();
            sums.sleeps += cpu.sleeps.get();
            sums.waited += cpu.waited.get();
            if cpu.longest.get() > sums.longest {
                sums.longest = cpu.longest.get();
                sums.longest_caller = cpu.longest_caller();
                sums.longest_holder = cpu.longest_holder();
            }
            sums
        })
    }
}

/// Calls `f` with the name and per-CPU counts of each class. The same name may come more than once.
pub fn for_each_class(mut f: impl FnMut(&'static str, &'static PerCpu<ClassStats>)) {
    for class in class::all() {
        f(class.name, &class.stats);
    }
}

/// Sets all counts to zero. A count made at the same moment on another CPU may survive.
pub fn reset() {
    for class in class::all() {
        class.stats.iter().for_each(ClassStats::reset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::tests::Inner;
    use crate::{SpinLock, lock_class};

    lock_class! { static FOUND: LockClass = ("found by the linker", Inner) }

    #[test]
    #[cfg_attr(miri, ignore)] // Miri does not link.
    fn every_class_is_found_without_registration() {
        let lock = SpinLock::new((), &FOUND);
        drop(lock.lock());
        let mut found = None;
        for_each_class(|name, stats| {
            if name == "found by the linker" {
                found = Some(Sums::of(stats).acquisitions);
            }
        });
        assert_eq!(found, Some(1));
    }

    #[test]
    fn one_cpus_counts_are_one_line() {
        assert_eq!((size_of::<ClassStats>(), align_of::<ClassStats>()), (64, 64));
    }
}
