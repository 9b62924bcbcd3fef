//! How `sync` and `vm` learn of the machine: which CPU this is, the clock, interrupts, and how to sleep.
//!
//! In the kernel these are link-time hooks (`__darter_*`, defined by the kernel's arch and sched), which fat LTO inlines into their
//! callers: a trait object or a table of functions would cost an indirect call on every lock. Hosted, [`hosted`] gives them over
//! std's threads, each of which is a CPU for as long as it lives.
//!
//! Nothing here sleeps but [`park`].

use core::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(target_os = "none"))]
pub mod hosted;
#[cfg(not(target_os = "none"))]
use hosted as hooks;
#[cfg(target_os = "none")]
mod kernel;
#[cfg(target_os = "none")]
use kernel as hooks;

/// The most CPUs there can be. Bitmaps have this size; structures are sized by the CPUs present.
pub const MAX_CPUS: usize = 256;

/// A CPU: `0..cpus()`, without gaps.
pub type CpuId = u32;

/// This CPU. Kernel code is not preempted, so the answer holds until the caller sleeps or yields.
#[inline(always)]
pub fn cpu_id() -> CpuId {
    hooks::cpu_id()
}

/// CPUs present. Does not change once another CPU has started.
#[inline(always)]
pub fn cpus() -> u32 {
    hooks::cpus()
}

/// The NUMA node of a CPU, `0..nodes()`.
#[inline(always)]
pub fn node_of(cpu: CpuId) -> u32 {
    hooks::node_of(cpu)
}

/// NUMA nodes present, at least one.
#[inline(always)]
pub fn nodes() -> u32 {
    hooks::nodes()
}

/// The time-stamp counter; [`cycles_per_ms`] says how fast it runs.
#[inline(always)]
pub fn cycles() -> u64 {
    hooks::cycles()
}

/// Tells the processor (or, hosted, the host's scheduler) that the caller waits for another CPU.
#[inline(always)]
pub fn relax() {
    hooks::relax();
}

/// For loops whose length a program chooses: lets another thread have this CPU if one should. True: a fatal signal has come for the caller, which
/// ends early and whose result nobody sees. May sleep: no spinning lock is held and no RCU read section is open.
#[inline]
#[must_use]
pub fn give_way() -> bool {
    hooks::give_way()
}

/// Should another thread run? For loops that hold something which they have to put down before they call [`give_way`].
#[inline]
#[must_use]
pub fn should_give_way() -> bool {
    hooks::should_give_way()
}

/// Disables interrupts on this CPU and says whether they were enabled.
#[inline(always)]
pub fn irq_save() -> bool {
    hooks::irq_save()
}

/// Enables interrupts if `was`, the answer of the matching [`irq_save`].
#[inline(always)]
pub fn irq_restore(was: bool) {
    hooks::irq_restore(was);
}

/// Names the current thread to [`unpark`]. Valid for as long as the thread lives.
#[inline]
pub fn park_token() -> usize {
    hooks::park_token()
}

/// Sleeps until the current thread has been unparked since its last `park`; may return without cause.
///
/// The caller holds no spinning lock and is in no RCU read section.
#[inline]
pub fn park() {
    hooks::park();
}

/// Wakes the thread that took `token`, or lets its next [`park`] return at once. The thread must still live: a waker makes
/// sure of it by waking while the sleeper cannot leave. So this is for [`crate::protocol::sleep`] and [`crate::rcu`] alone, which do.
#[inline]
pub(crate) fn unpark(token: usize) {
    hooks::unpark(token);
}

/// Kicks `cpu`: interrupts it so that it passes a quiescent state soon (see `sync::rcu`).
#[inline]
pub fn kick(cpu: CpuId) {
    hooks::kick(cpu);
}

/// Runs `f` on the list of sleeping locks that the current thread holds. Only where lock order is checked (see [`crate::lock::order`]).
pub(crate) fn with_thread_locks<R>(f: impl FnOnce(&crate::lock::order::HeldLocks) -> R) -> R {
    hooks::with_thread_locks(f)
}

/// What to add to the link address of a `.percpu` static for this CPU's copy (kernel only; see `sync::percpu`).
#[cfg(target_os = "none")]
#[inline(always)]
pub(crate) fn percpu_base() -> usize {
    hooks::percpu_base()
}

#[cfg(target_os = "none")]
#[inline(always)]
pub(crate) fn percpu_base_of(cpu: CpuId) -> usize {
    hooks::percpu_base_of(cpu)
}

static CYCLES_PER_MS: AtomicU64 = AtomicU64::new(2_000_000);

/// The clock's rate; 2 GHz until the kernel has measured it.
#[inline]
pub fn cycles_per_ms() -> u64 {
    CYCLES_PER_MS.load(Ordering::Relaxed)
}

/// Sets the clock's rate. Called once at boot.
pub fn set_cycles_per_ms(rate: u64) {
    CYCLES_PER_MS.store(rate.max(1), Ordering::Relaxed);
}
