//! Boot option `plant=fault-counter`: page faults of user mode bump one counter that all CPUs share.
//!
//! That is what the gate on cache lines (`darter lines --gate`) exists to find, so a test plants it and expects the gate to fail.
//! The option chooses another entry in the descriptor table at boot: without it nothing is asked and nothing is paid.
#![forbid(unsafe_code)]

use super::frame::UserRegs;
use core::sync::atomic::{AtomicU64, Ordering};

const OPTION: &str = "plant=fault-counter";

/// On a line of its own, so that nothing else is blamed.
#[repr(align(64))]
struct Planted(AtomicU64);

static PLANTED_FAULTS: Planted = Planted(AtomicU64::new(0));

/// Does the command line ask for it?
pub fn is_wanted(command_line: &str) -> bool {
    command_line.split_ascii_whitespace().any(|word| word == OPTION)
}

/// A page fault in user mode, counted where it hurts.
pub extern "C" fn planted_fault(regs: &mut UserRegs) {
    PLANTED_FAULTS.0.fetch_add(1, Ordering::Relaxed);
    super::user_fault(regs);
}
