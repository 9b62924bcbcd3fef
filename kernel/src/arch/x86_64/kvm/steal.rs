//! MSR_KVM_STEAL_TIME: how long this CPU was ready to run while the host ran something else.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};

use sync::{CpuId, per_cpu};

use super::STEAL_TIME;

const MSR_KVM_STEAL_TIME: u32 = 0x4b56_4d03;

/// The host's words, 64 bytes.
#[repr(C, align(64))]
struct Steal {
    /// Written in one piece, so that nothing must be known of when the host writes.
    ns: AtomicU64,
    rest: UnsafeCell<[u64; 7]>,
}

// SAFETY: nobody looks at `rest`.
unsafe impl Sync for Steal {}

per_cpu! {
    static STEAL: Steal = Steal { ns: AtomicU64::new(0), rest: UnsafeCell::new([0; 7]) };
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
