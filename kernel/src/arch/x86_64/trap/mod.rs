//! Traps: system calls, exceptions, interrupts. Entry code (`entry`) calls the functions here; they sort by cause and
//! call up into `syscall`, `process` and `sched`.
//!
//! Interrupts: SYSCALL and user exceptions run with interrupts on, but for the last steps before the return; kernel
//! exceptions keep the state of what they interrupted; interrupt handlers run with interrupts off throughout.

mod entry;
pub mod frame;
mod idt;
mod plant;

use super::cpu::reg;
use super::debug::{take_debug_status, unload_watches};
use super::{apic, close_interrupts, disable_interrupts, enable_interrupts, irq, user};
use crate::arch::interrupts::Interrupted;
use crate::arch::{PageFault, Trap, USER_END};
pub use entry::{patch_smap, return_to_user};
pub use frame::UserRegs;

/// Reads a page fault's error code (SDM vol. 3, 5.7).
#[inline(always)]
fn page_fault(addr: usize, code: u64) -> PageFault {
    PageFault { addr, write: code & 2 != 0, exec: code & 16 != 0, present: code & 1 != 0 }
}

/// What a signal handler is told of the last exception (`trapno`, `err` and `cr2` of its context).
#[derive(Clone, Copy, Debug, Default)]
pub struct TrapRecord {
    pub vector: u64,
    pub code: u64,
    pub address: u64,
}

impl Trap {
    pub fn record(self) -> TrapRecord {
        let (code, address) = match self {
            Trap::PageFault(fault) => {
                // Of an address in the kernel's half a program learns nothing, not even what is mapped there.
                let present = fault.present || fault.addr >= USER_END;
                // Present, write, user, instruction fetch (SDM vol. 3, 5.7).
                let code = u64::from(present) | u64::from(fault.write) << 1 | 4 | u64::from(fault.exec) << 4;
                (code, fault.addr as u64)
            }
            Trap::SegmentNotPresent(code) | Trap::StackFault(code) | Trap::Protection(code) => {
                (u64::from(code), 0)
            }
            _ => (0, 0),
        };
        TrapRecord { vector: self.vector(), code, address }
    }

    /// The processor's number of the exception (SDM vol. 3, 7.3.1).
    fn vector(self) -> u64 {
        match self {
            Trap::DivideError => 0,
            Trap::Debug(_) => 1,
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
}

/// Fills the tables that all CPUs share.
///
/// # Safety
/// Once, on the boot CPU, alone, when the loader's words are known.
pub unsafe fn init() {
    // SAFETY: as the caller says.
    unsafe { idt::init() };
}

/// Loads this CPU's trap registers.
///
/// # Safety
/// After [`init`], with this CPU's descriptors loaded.
pub unsafe fn load() {
    // SAFETY: as the caller says.
    unsafe { idt::load() };
}

/// What every return to user mode does last: pending work, until none is left. RCU callbacks alone are no reason for another round: there may be so many
/// that the thread would stay here, and its other deadlines with it. Leaves interrupts off.
///
/// # Safety
/// The caller goes on to user mode, and was not called by code of the kernel that goes on.
#[inline(always)]
pub unsafe fn finish(regs: &mut UserRegs) {
    close_interrupts();
    if super::upcall::work_pending() {
        loop {
            enable_interrupts();
            // SAFETY: as the caller says.
            unsafe { super::upcall::return_work(regs) };
            close_interrupts();
            if !super::upcall::work_is_left() {
                break;
            }
        }
    }
    super::upcall::leaving_kernel();
}

/// A system call, with interrupts on; returns with interrupts off.
extern "C" fn syscall(regs: &mut UserRegs) {
    super::upcall::syscall(regs);
    // SAFETY: called by the entry code alone, which came from user mode.
    unsafe { finish(regs) };
}

/// A page fault in user mode.
extern "C" fn user_fault(regs: &mut UserRegs) {
    let fault = page_fault(reg::cr2(), regs.original);
    enable_interrupts();
    super::upcall::user_trap(regs, Trap::PageFault(fault));
    // SAFETY: as in `syscall`.
    unsafe { finish(regs) };
}

/// A page fault in the kernel: a user copy that needs its page, or a bug.
extern "C" fn kernel_fault(regs: &mut UserRegs) {
    let addr = reg::cr2();
    let fault = page_fault(addr, regs.original);
    let Some(fixup) = user::fixup(regs.rip as usize) else {
        panic!(
            "page fault in the kernel: {} {addr:#x}{}, at {:#x}, stack {:#x}",
            if fault.exec {
                "execute"
            } else if fault.write {
                "write"
            } else {
                "read"
            },
            if fault.present { " (protection)" } else { "" },
            regs.rip,
            regs.rsp,
        );
    };
    if addr < USER_END {
        let interrupts = regs.rflags & reg::FLAG_IF != 0;
        if interrupts {
            enable_interrupts();
        }
        // With interrupts off the fault cannot be served: that may sleep.
        let served = interrupts && super::upcall::kernel_fault(addr, fault.write);
        disable_interrupts();
        if served {
            return;
        }
    }
    regs.rip = fixup as u64;
}

/// Any other exception or interrupt in user mode.
extern "C" fn user_trap(regs: &mut UserRegs) {
    if regs.vector >= 32 {
        irq::interrupt(regs.vector as u8, Interrupted::User);
        // SAFETY: as in `syscall`.
        unsafe { finish(regs) };
        return;
    }
    // Of this CPU, which the thread may leave.
    let debug = if regs.vector == 1 { take_debug_status() } else { 0 };
    enable_interrupts();
    let code = regs.original as u32;
    let trap = match regs.vector {
        0 => Trap::DivideError,
        1 => Trap::Debug(debug),
        3 => Trap::Breakpoint,
        4 => Trap::Overflow,
        5 => Trap::Bounds,
        6 => Trap::InvalidOpcode,
        7 => Trap::DeviceNotAvailable,
        11 => Trap::SegmentNotPresent(code),
        12 => Trap::StackFault(code),
        13 => Trap::Protection(code),
        16 => Trap::FloatingPoint,
        17 => Trap::Alignment,
        19 => Trap::SimdFloatingPoint,
        other => Trap::Other(other as u8),
    };
    // The frame is no system call's.
    regs.original = u64::MAX;
    super::upcall::user_trap(regs, trap);
    // SAFETY: as in `syscall`.
    unsafe { finish(regs) };
}

/// Any other exception or interrupt in the kernel.
extern "C" fn kernel_trap(regs: &mut UserRegs) {
    if regs.vector >= 32 {
        let interrupted = Interrupted::Kernel { pc: regs.rip as usize, frame: regs.rbp as usize };
        irq::interrupt(regs.vector as u8, interrupted);
        return;
    }
    // A non-canonical address in a user copy gives #GP (or #SS) instead of a page fault.
    if let (12 | 13, Some(fixup)) = (regs.vector, user::fixup(regs.rip as usize)) {
        regs.rip = fixup as u64;
        return;
    }
    panic!(
        "exception {} in the kernel, code {:#x}, at {:#x}, stack {:#x}",
        regs.vector, regs.original, regs.rip, regs.rsp
    );
}

/// NMI, machine check, double fault, debug in the kernel: on an exception stack, interrupts off.
extern "C" fn paranoid_trap(regs: &mut UserRegs) {
    match regs.vector {
        2 => {
            if crate::panic::in_progress() {
                crate::panic::stop_this_cpu(regs.rip as usize, regs.rbp as usize);
            }
            let takes_interrupts = regs.rflags & reg::FLAG_IF != 0;
            crate::report::asked(regs.rip as usize, regs.rbp as usize, takes_interrupts);
            apic::count_nmi();
        }
        // A copy from or to memory that is watched: the program meets that by itself alone.
        1 => {
            take_debug_status();
            unload_watches();
            super::upcall::watches_unloaded();
        }
        8 => {
            let addr = reg::cr2();
            if super::stack::is_guard(addr) {
                panic!("kernel stack overflow at {:#x}, stack {:#x}", regs.rip, regs.rsp);
            }
            panic!("double fault at {:#x}, stack {:#x}, cr2 {addr:#x}", regs.rip, regs.rsp);
        }
        vector => panic!("machine check (vector {vector}) at {:#x}", regs.rip),
    }
}
