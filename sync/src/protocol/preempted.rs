//! A virtual CPU that its host does not run, and a flush of its translations that the host does before it runs it again.
//!
//! The word is shared with the host, which marks there that the CPU has stopped, between two instructions of the guest. Who changed entries of a
//! page table, and would interrupt the CPU and wait, leaves a mark for the flush instead and goes on:
//!
//! ```text
//! the host stops the CPU           store PREEMPTED
//! who has changed entries          load; PREEMPTED: compare and exchange for PREEMPTED | FLUSH; done: not to be waited for
//! the host runs the CPU again      exchange for 0; FLUSH was there: drop all translations; the CPU's next instruction
//! ```
//!
//! - The exchanges have an order. If that for FLUSH comes first, the host finds the mark; if it comes second it fails, as PREEMPTED is gone.
//! - `preempted.leave` orders the changed entries before what the CPU's walks read after it has been flushed, and what the CPU did through old
//!   translations before what is done with the memory now.
//!
//! So it is as if the CPU had been interrupted where it stopped. But it may have stopped with interrupts off, where an interrupt would have waited: this is
//! for flushes alone, whose end no code with interrupts off relies on, and not for what the CPU itself must do.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU32, Ordering, const_new, site};

/// KVM's KVM_VCPU_PREEMPTED and KVM_VCPU_FLUSH_TLB.
pub const PREEMPTED: u32 = 1;
pub const FLUSH: u32 = 2;

/// The word of one CPU.
#[derive(Debug)]
#[repr(transparent)]
pub struct Preempted(pub(crate) AtomicU32);

impl Preempted {
    const_new! {
        pub fn new() -> Self {
            Preempted(AtomicU32::new(0))
        }
    }

    /// Leaves a flush of all translations to the host. False: the CPU may be running.
    #[inline]
    pub fn leave_flush(&self) -> bool {
        let state = self.0.load(Ordering::Relaxed);
        let order = site("preempted.leave", Ordering::AcqRel);
        state & PREEMPTED != 0
            && self.0.compare_exchange(state, state | FLUSH, order, Ordering::Relaxed).is_ok()
    }
}

impl Default for Preempted {
    fn default() -> Self {
        Self::new()
    }
}
