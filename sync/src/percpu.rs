//! Per-CPU data: one copy per CPU, on that CPU's own node, reached without a shared line (CountLocal).
//!
//! In the kernel a `per_cpu!` static lies in section `.percpu`, which the linker makes an image of, between `__percpu_start` and
//! `__percpu_end`. Every CPU has a copy of the image; the copy of a static is found by adding the CPU's displacement
//! (`__darter_percpu_base`) to its link address, so `this()` is one load and one addition. The image itself is never written after boot.
//! Hosted, the static is an array of padded copies.
//!
//! Kernel code is not preempted, so a reference from `this()` stays this CPU's until the caller sleeps or yields. No locks.

use crate::machine::{self, CpuId};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};

/// A value on cache lines of its own (two, because processors fetch lines in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Declares per-CPU statics: `per_cpu! { pub static FAULTS: Count = Count::new(); }`. The initializer is a constant.
#[macro_export]
macro_rules! per_cpu {
    ($($(#[$meta:meta])* $vis:vis static $name:ident : $t:ty = $init:expr;)+) => {$(
        $(#[$meta])*
        #[cfg_attr(target_os = "none", unsafe(link_section = ".percpu"))]
        $vis static $name: $crate::percpu::PerCpu<$t> = $crate::__per_cpu_init!($init);
    )+};
}

#[cfg(target_os = "none")]
#[macro_export]
#[doc(hidden)]
macro_rules! __per_cpu_init {
    ($init:expr) => {
        // SAFETY: the macro's caller puts the value in a static of section `.percpu`.
        unsafe { $crate::percpu::PerCpu::in_image($init) }
    };
}

#[cfg(not(target_os = "none"))]
#[macro_export]
#[doc(hidden)]
macro_rules! __per_cpu_init {
    ($init:expr) => {
        $crate::percpu::PerCpu::from_copies(
            [const { $crate::percpu::Padded($init) }; $crate::machine::MAX_CPUS],
        )
    };
}

/// One `T` per CPU. Other CPUs' copies can be read (`of`, `iter`), so `T` is `Sync`.
#[cfg_attr(target_os = "none", repr(transparent))]
pub struct PerCpu<T> {
    // The cell keeps the static in a writable section even where `T` has no interior mutability.
    #[cfg(target_os = "none")]
    image: UnsafeCell<T>,
    #[cfg(not(target_os = "none"))]
    copies: [Padded<T>; machine::MAX_CPUS],
}

// SAFETY: shared references are all that it gives out.
unsafe impl<T: Sync> Sync for PerCpu<T> {}

#[cfg(target_os = "none")]
impl<T> PerCpu<T> {
    /// # Safety
    /// The value is (part of) a static in section `.percpu`.
    #[doc(hidden)]
    pub const unsafe fn in_image(value: T) -> Self {
        PerCpu { image: UnsafeCell::new(value) }
    }

    #[inline(always)]
    fn copy_at(&self, displacement: usize) -> &T {
        let image = self.image.get().expose_provenance();
        // SAFETY: `in_image` promises that `self` is in the image, and arch that every CPU present has a copy of
        // the whole image at its displacement, alive for good; only shared references to `T: Sync` are made.
        unsafe { &*core::ptr::with_exposed_provenance::<T>(image.wrapping_add(displacement)) }
    }

    /// This CPU's copy.
    #[inline(always)]
    pub fn this(&self) -> &T {
        self.copy_at(machine::percpu_base())
    }

    /// The copy of `cpu`, a CPU that is present.
    #[inline]
    pub fn of(&self, cpu: CpuId) -> &T {
        self.copy_at(machine::percpu_base_of(cpu))
    }
}

#[cfg(not(target_os = "none"))]
impl<T> PerCpu<T> {
    #[doc(hidden)]
    pub const fn from_copies(copies: [Padded<T>; machine::MAX_CPUS]) -> Self {
        PerCpu { copies }
    }

    /// This CPU's copy.
    #[inline]
    pub fn this(&self) -> &T {
        self.of(machine::cpu_id())
    }

    /// The copy of `cpu`, a CPU that is present.
    #[inline]
    pub fn of(&self, cpu: CpuId) -> &T {
        &self.copies[cpu as usize]
    }
}

impl<T> PerCpu<T> {
    /// The copies of all CPUs present, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..machine::cpus()).map(|cpu| self.of(cpu))
    }
}

impl PerCpu<Count> {
    /// Counts on this CPU.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.this().add(n);
    }

    /// The sum over all CPUs, taken one after the other: exact once they are quiet.
    pub fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, count| sum.wrapping_add(count.get()))
    }
}

impl<T> PerCpu<LocalCell<T>> {
    /// Runs `f` on this CPU's value; see [`LocalCell::with`].
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let cell = self.this();
        cell.enter().then(|| {
            let _leave = Leave(&cell.busy);
            // SAFETY: the cell is this CPU's, and `enter` has found it free.
            f(unsafe { &mut *cell.value.get() })
        })
    }
}

/// A counter that one CPU writes and any may read: plain load and store, no lock prefix.
///
/// A count that is made both in an interrupt handler and outside one can lose the odd event.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub const fn new() -> Self {
        Count(AtomicU64::new(0))
    }

    /// Counts `n` events; only on the CPU that owns the counter.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Counts back, for gauges whose sum over the CPUs matters: one CPU's may wrap below zero.
    #[inline(always)]
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }

    /// Keeps the larger value.
    #[inline]
    pub fn max(&self, n: u64) -> bool {
        let more = n > self.0.load(Ordering::Relaxed);
        if more {
            self.0.store(n, Ordering::Relaxed);
        }
        more
    }

    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value of one CPU, for that CPU's threads; not for interrupt handlers. Lies in a `per_cpu!` static.
pub struct LocalCell<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` lets one caller at a time at the value: the owner's threads by `busy`, since they are not preempted, and other
// CPUs not at all (kernel: `owned` refuses; hosted: `busy` is taken with an exchange). The value may be used by different threads.
unsafe impl<T: Send> Sync for LocalCell<T> {}

impl<T> LocalCell<T> {
    pub const fn new(value: T) -> Self {
        LocalCell { busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `f` on the value. `None` if the value is in use already (by a caller further up, or by the thread that an interrupt
    /// handler interrupted), or if the cell is another CPU's.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        (self.owned() && self.enter()).then(|| {
            let _leave = Leave(&self.busy);
            // SAFETY: the cell is this CPU's, and `busy` was clear and is set: no other reference exists until `Leave` is dropped.
            f(unsafe { &mut *self.value.get() })
        })
    }

    #[cfg(target_os = "none")]
    #[inline(always)]
    fn enter(&self) -> bool {
        let free = !self.busy.load(Ordering::Relaxed);
        if free {
            self.busy.store(true, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
        }
        free
    }

    #[cfg(not(target_os = "none"))]
    fn enter(&self) -> bool {
        !self.busy.swap(true, Ordering::Acquire)
    }

    /// Whether the cell lies in this CPU's copy of the image.
    #[cfg(target_os = "none")]
    #[inline(always)]
    fn owned(&self) -> bool {
        unsafe extern "C" {
            static __percpu_start: u8;
            static __percpu_end: u8;
        }
        let start = (&raw const __percpu_start).addr();
        let end = (&raw const __percpu_end).addr();
        let link = core::ptr::from_ref(self).addr().wrapping_sub(machine::percpu_base());
        (start..end).contains(&link)
    }

    /// Hosted, taking `busy` is an exchange, and enough.
    #[cfg(not(target_os = "none"))]
    fn owned(&self) -> bool {
        true
    }
}

struct Leave<'a>(&'a AtomicBool);

impl Drop for Leave<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::hosted::as_cpu;

    per_cpu! {
        static EVENTS: Count = Count::new();
        static LIST: LocalCell<u32> = LocalCell::new(7);
    }

    #[test]
    fn each_cpu_counts_on_its_own_copy_and_the_reader_adds_up() {
        as_cpu(101, || EVENTS.add(2));
        as_cpu(102, || EVENTS.add(3));
        assert_eq!((EVENTS.of(101).get(), EVENTS.of(102).get()), (2, 3));
        assert_eq!(EVENTS.sum(), 5);
    }

    #[test]
    fn a_local_cell_refuses_a_second_entry_and_allows_the_next() {
        as_cpu(103, || {
            assert_eq!(
                LIST.with(|v| {
                    *v += 1;
                    LIST.with(|v| *v)
                }),
                Some(None)
            );
            assert_eq!(LIST.with(|v| *v), Some(8));
        });
        as_cpu(104, || assert_eq!(LIST.with(|v| *v), Some(7)));
    }

    #[test]
    fn copies_of_two_cpus_share_no_line() {
        let (a, b) = (core::ptr::from_ref(EVENTS.of(0)).addr(), core::ptr::from_ref(EVENTS.of(1)).addr());
        assert!(a.abs_diff(b) >= 64);
    }
}
