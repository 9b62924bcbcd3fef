//! What exceptions of a program become: a page, or a signal with the code that Linux gives (sigaction(2)).
#![forbid(unsafe_code)]

use super::signal::{Info, send};
use crate::arch::{PageFault, Trap, UserRegs};
use core::sync::atomic::Ordering;
use linux_raw_sys::general as abi;
use vm::addr::VirtAddr;
use vm::{Access, FaultError};

/// An exception in user mode; interrupts are enabled.
#[inline]
pub fn user_trap(regs: &mut UserRegs, trap: Trap) {
    if let Trap::PageFault(fault) = trap {
        let access = Access { write: fault.write, exec: fault.exec, user: true };
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
    let pc = regs.pc();
    let info = match trap {
        Trap::DivideError => Info::fault(abi::SIGFPE, abi::FPE_INTDIV as i32, pc),
        Trap::Debug => Info::fault(abi::SIGTRAP, abi::TRAP_TRACE as i32, pc),
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
    *super::current().trap.lock() = (vector_of(trap), code_of(trap), 0);
    send::forced(info);
}

/// The processor's number of an exception (SDM vol. 3, 7.3.1).
fn vector_of(trap: Trap) -> u64 {
    match trap {
        Trap::DivideError => 0,
        Trap::Debug => 1,
        Trap::Breakpoint => 3,
        Trap::Overflow => 4,
        Trap::Bounds => 5,
        Trap::InvalidOpcode => 6,
        Trap::DeviceNotAvailable => 7,
        Trap::SegmentNotPresent(_) => 11,
        Trap::StackFault(_) => 12,
        Trap::Protection(_) => 13,
        Trap::PageFault(_) => 14,
        Trap::FloatingPoint => 16,
        Trap::Alignment => 17,
        Trap::SimdFloatingPoint => 19,
        Trap::Other(vector) => u64::from(vector),
    }
}

fn code_of(trap: Trap) -> u64 {
    match trap {
        Trap::SegmentNotPresent(code) | Trap::StackFault(code) | Trap::Protection(code) => u64::from(code),
        _ => 0,
    }
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
    };
    // Bits of the error code: present, write, user, instruction fetch (SDM vol. 3, 5.7). Of an address in the kernel's half
    // a program learns nothing, not even what is mapped there.
    let present = fault.present || fault.addr >= crate::arch::USER_END;
    let code = u64::from(present) | u64::from(fault.write) << 1 | 4 | u64::from(fault.exec) << 4;
    *super::current().trap.lock() = (14, code, fault.addr as u64);
    send::forced(info);
}

/// A page fault of the kernel's own copy from or to the running program's memory. False: there is no such memory.
pub fn kernel_fault(address: usize, write: bool) -> bool {
    let Some(task) = crate::sched::try_current() else { return false };
    if task.thread.is_none() {
        return false;
    }
    let access = Access { write, exec: false, user: false };
    let thread = super::current();
    let Some(space) = thread.space_if_any() else { return false };
    loop {
        match space.fault(VirtAddr(address), access) {
            Ok(()) => return true,
            Err(FaultError::NoMemory) if super::oom::wait_for_memory() => {}
            Err(_) => return false,
        }
    }
}
