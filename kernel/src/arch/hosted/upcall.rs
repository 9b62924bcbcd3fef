//! What arch calls in the rooms above, in one place.

use super::trap::UserRegs;
use crate::arch::interrupts::{Interrupted, RESCHEDULE_INTERRUPTS, TIMER_INTERRUPTS};
use crate::sched::{self, Pending};

pub fn work_pending() -> bool {
    sched::current().work_pending() || sync::rcu::due()
}

/// What is left to do before user mode.
///
/// # Safety
/// The thread is on its way to user mode: no code goes on that it ran in the kernel before.
pub unsafe fn return_work(regs: &mut UserRegs) {
    // SAFETY: as the caller says.
    let let_go = unsafe { crate::process::before_user_mode() };
    // After an exec that was often all.
    if !let_go || work_pending() {
        crate::process::return_work(regs);
    }
}

/// The last word before user mode.
pub fn leaving_kernel() {
    sync::rcu::quiescent();
}

pub fn syscall(regs: &mut UserRegs) {
    crate::syscall::dispatch(regs);
}

pub fn kernel_fault(address: usize, write: bool) -> bool {
    crate::process::kernel_fault(address, write)
}

pub fn timer_interrupt() {
    TIMER_INTERRUPTS.add(1);
    sched::timer_interrupt(Interrupted::Kernel { pc: 0, frame: 0 });
}

pub fn reschedule_interrupt() {
    RESCHEDULE_INTERRUPTS.add(1);
    sched::reschedule_interrupt();
}

pub fn serial_received() {
    sched::pending::raise(Pending::Serial);
}

pub(super) use sched::hosted::{park, park_token, unpark};
