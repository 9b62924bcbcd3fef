//! MSR_KVM_STEAL_TIME: how long this CPU was ready to run while the host ran something else, and whether it runs now.
//!
//! A CPU that does not run need not be interrupted to drop its translations: the host does so before it runs the CPU again, if it is told to
//! (`sync::protocol::preempted`). So a flush does not wait for a CPU that the host lets wait. One that idles in HLT is interrupted as before: KVM says
//! that a CPU does not run only of those that an interrupt of the host stopped.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};

use sync::protocol::preempted::Preempted;
use sync::{CpuId, per_cpu};

use super::{FLUSH, STEAL_TIME};

const MSR_KVM_STEAL_TIME: u32 = 0x4b56_4d03;

/// The host's words, 64 bytes.
#[repr(C, align(64))]
struct Steal {
    /// Written in one piece, so that nothing must be known of when the host writes.
    ns: AtomicU64,
    /// Version and flags.
    about: UnsafeCell<u64>,
    /// Of which the host has the lowest byte.
    preempted: Preempted,
    rest: UnsafeCell<[u32; 11]>,
}

// SAFETY: nobody looks at `about` and `rest`.
unsafe impl Sync for Steal {}

per_cpu! {
    static STEAL: Steal = Steal {
        ns: AtomicU64::new(0),
        about: UnsafeCell::new(0),
        preempted: Preempted::new(),
        rest: UnsafeCell::new([0; 11]),
    };
}

/// # Safety
/// Each CPU once, with its area loaded.
pub unsafe fn init_cpu() {
    if super::offers(STEAL_TIME) {
        // SAFETY: offered; the host writes these 64 bytes, all of which may change.
        unsafe { super::share(MSR_KVM_STEAL_TIME, STEAL.this()) };
    }
}

/// How long the host let `cpu` wait, ns; 0 where it does not say.
pub fn stolen_ns(cpu: CpuId) -> u64 {
    STEAL.of(cpu).ns.load(Ordering::Relaxed)
}

/// The same of this CPU.
#[inline]
pub fn stolen_here_ns() -> u64 {
    STEAL.this().ns.load(Ordering::Relaxed)
}

/// Leaves it to the host that `cpu` drops all translations before it runs on. False: it may be running, or the host does not offer that.
#[inline]
pub fn leave_flush(cpu: CpuId) -> bool {
    super::offers(STEAL_TIME | FLUSH) && STEAL.of(cpu).preempted.leave_flush()
}
