//! What arch calls in the rooms above, in one place.

use super::trap::{Trap, UserRegs};

/// Work waits that must be done before the current thread goes on in user mode.
#[inline(always)]
pub fn work_pending() -> bool {
    false
}

pub fn return_work(_regs: &mut UserRegs) {}

/// The last word before user mode, with interrupts off.
#[inline(always)]
pub fn leaving_kernel() {}

#[inline(always)]
pub fn syscall(regs: &mut UserRegs) {
    regs.set_result(-38);
}

pub fn user_trap(regs: &mut UserRegs, trap: Trap) {
    panic!("{trap:?} in user mode at {:#x} and no process to take it", regs.pc());
}

pub fn kernel_fault(_addr: usize, _write: bool) -> bool {
    false
}

pub fn timer_interrupt(_from_user: bool) {}

pub fn reschedule_interrupt() {}

pub fn serial_received() {}

// Until `sched` is in the tree: nobody sleeps during boot.
#[unsafe(no_mangle)]
extern "Rust" fn __darter_park_token() -> usize {
    0
}
#[unsafe(no_mangle)]
extern "Rust" fn __darter_park() {}
#[unsafe(no_mangle)]
extern "Rust" fn __darter_unpark(_: usize) {}
#[unsafe(no_mangle)]
extern "Rust" fn __darter_nudge(_: u32) {}
