//! What exceptions of a program become: a page, or a signal with the code that Linux gives (sigaction(2)).
#![forbid(unsafe_code)]

use super::ptrace::breakpoints;
use super::signal::{Info, send};
use crate::arch::{PageFault, Trap, UserRegs};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as abi;
use vm::addr::VirtAddr;
use vm::{Access, FaultError};

/// An exception in user mode; interrupts are enabled.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "a count of faults")]
pub fn user_trap(regs: &mut UserRegs, trap: Trap) {
    if let Trap::PageFault(fault) = trap {
        let access = Access { write: fault.write, exec: fault.exec, foreign: false, forced: false };
        let thread = super::current();
        match thread.space().fault(VirtAddr(fault.addr), access) {
            Ok(()) => {
                let faults = &thread.minor_faults;
                faults.store(faults.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            Err(error) => refused(&fault, error),
        }
        return;
    }
    exception(regs, trap);
}

/// Any but a page fault.
#[cold]
#[inline(never)]
fn exception(regs: &mut UserRegs, trap: Trap) {
    let pc = regs.pc();
    let info = match trap {
        Trap::DivideError => Info::fault(abi::SIGFPE, abi::FPE_INTDIV as i32, pc),
        Trap::Debug(status) => match breakpoints::taken(regs, status) {
            Some(code) => Info::fault(abi::SIGTRAP, code, pc),
            None => return,
        },
        Trap::Breakpoint => Info::kernel(abi::SIGTRAP),
        Trap::Overflow => Info::kernel(abi::SIGSEGV),
        Trap::InvalidOpcode => Info::fault(abi::SIGILL, abi::ILL_ILLOPN as i32, pc),
        Trap::FloatingPoint | Trap::SimdFloatingPoint => {
            Info::fault(abi::SIGFPE, crate::arch::float_code(trap) as i32, pc)
        }
        Trap::Alignment => Info::fault(abi::SIGBUS, abi::BUS_ADRALN as i32, 0),
        Trap::StackFault(_) | Trap::SegmentNotPresent(_) => Info::kernel(abi::SIGBUS),
        _ => Info::kernel(abi::SIGSEGV),
    };
    *super::current().trap.lock() = trap.record();
    send::forced(info);
}

#[cold]
fn refused(fault: &PageFault, error: FaultError) {
    // An address of the kernel's half, or none at all, is told as not mapped whatever lies there.
    let info = match error {
        FaultError::NotMapped => Info::fault(abi::SIGSEGV, abi::SEGV_MAPERR as i32, fault.addr),
        FaultError::Denied => Info::fault(abi::SIGSEGV, abi::SEGV_ACCERR as i32, fault.addr),
        FaultError::Bus => Info::fault(abi::SIGBUS, abi::BUS_ADRERR as i32, fault.addr),
        FaultError::NoMemory => {
            // The instruction is tried again, or the thread ends.
            super::oom::wait_for_memory();
            return;
        }
        FaultError::NoneBound => {
            super::oom::wait_for_nodes();
            return;
        }
    };
    *super::current().trap.lock() = Trap::PageFault(*fault).record();
    send::forced(info);
}

/// A page fault of the kernel's own copy from or to the running program's memory. False: there is no such memory.
pub fn kernel_fault(address: usize, write: bool) -> bool {
    let Some(task) = crate::sched::try_current() else { return false };
    if task.thread.is_none() {
        return false;
    }
    let access = Access { write, exec: false, foreign: false, forced: false };
    let thread = super::current();
    let Some(space) = thread.space_if_any() else { return false };
    loop {
        match space.fault(VirtAddr(address), access) {
            Ok(()) => return true,
            Err(FaultError::NoMemory) if super::oom::wait_for_memory() => {}
            Err(FaultError::NoneBound) if super::oom::wait_for_nodes() => {}
            Err(_) => return false,
        }
    }
}
