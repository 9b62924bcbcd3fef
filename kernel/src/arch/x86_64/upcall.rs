//! What arch calls in the rooms above, in one place.

use super::trap::UserRegs;
use crate::arch::Trap;
use crate::arch::interrupts::Interrupted;
use crate::sched;

/// Work waits that must be done before the current thread goes on in user mode.
#[inline(always)]
pub fn work_pending() -> bool {
    sched::current().work_pending() || sync::rcu::due()
}

/// After a round of it: work that came meanwhile, or that the round left.
#[inline(always)]
pub fn work_is_left() -> bool {
    sched::current().work_pending()
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

/// The last word before user mode, with interrupts off.
#[inline(always)]
pub fn leaving_kernel() {
    sync::lock::order::assert_none_held("return to user mode");
    sync::rcu::quiescent();
    #[cfg(feature = "lockdep")]
    sched::depth::note();
}

#[inline(always)]
pub fn syscall(regs: &mut UserRegs) {
    crate::syscall::dispatch(regs);
}

#[inline(always)]
pub fn user_trap(regs: &mut UserRegs, trap: Trap) {
    crate::process::trap::user_trap(regs, trap);
}

#[inline(always)]
pub fn kernel_fault(address: usize, write: bool) -> bool {
    crate::process::kernel_fault(address, write)
}

/// What this CPU watched for the running thread, or for another that was here before, it watches no more until the next return to user mode. May have
/// interrupted anything.
pub fn watches_unloaded() {
    if let Some(task) = sched::try_current() {
        task.raise_again();
    }
}

pub fn timer_interrupt(interrupted: Interrupted) {
    sched::timer_interrupt(interrupted);
}

pub fn reschedule_interrupt() {
    sched::reschedule_interrupt();
}

/// The serial port takes the log from here on.
pub fn early_console() {
    crate::device::serial::early_init();
}

/// An interrupt of a device on an ISA line.
pub fn isa_interrupt(line: u8) {
    crate::device::interrupt(line);
}

/// A message of a device that sends them to this CPU.
pub fn device_message() {
    crate::device::message();
}

/// A message of a device whose configuration has changed.
pub fn device_changed() {
    crate::device::changed();
}

/// One of the devices whose lines are routed by `arch::route_device_line` asks for attention.
pub fn device_line() {
    crate::device::line();
}
