//! A program's thread pointers: the FS base, which points to the thread's own data (TLS), and the GS base, which programs seldom use.

use core::arch::asm;

use super::cpu::{features, reg};
use super::trap::UserRegs;
use super::{disable_interrupts, enable_interrupts};
use crate::arch::USER_END;

/// The thread pointers of a thread that does not run.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadPointers {
    tls: usize,
    gs: usize,
}

impl ThreadPointers {
    /// Those of a new thread, whose TLS is at `tls`.
    pub const fn new(tls: usize) -> Self {
        Self { tls, gs: 0 }
    }

    /// Takes over the running thread's.
    #[inline]
    pub fn save(&mut self) {
        self.tls = tls();
        self.gs = gs();
    }

    /// Gives them to the running thread.
    #[inline]
    pub fn restore(&self) {
        set_tls(self.tls);
        set_gs(self.gs);
    }
}

/// The program's FS base.
#[inline]
pub fn tls() -> usize {
    let value;
    if features::get().fsgsbase {
        // SAFETY: enabled where offered.
        unsafe { asm!("rdfsbase {}", out(reg) value, options(nomem, nostack, preserves_flags)) };
    } else {
        // SAFETY: the register exists on every 64-bit processor.
        value = unsafe { reg::rdmsr(reg::IA32_FS_BASE) } as usize;
    }
    value
}

/// Sets the program's FS base; an address outside the user half becomes 0 (the register refuses non-canonical ones).
#[inline]
fn set_tls(base: usize) {
    let base = if base < USER_END { base } else { 0 };
    if features::get().fsgsbase {
        // SAFETY: canonical; the kernel does not use FS.
        unsafe { asm!("wrfsbase {}", in(reg) base, options(nostack, preserves_flags)) };
    } else {
        // SAFETY: as above.
        unsafe { reg::wrmsr(reg::IA32_FS_BASE, base as u64) };
    }
}

/// The program's GS base, which waits in KERNEL_GS_BASE while the kernel runs.
#[inline]
fn gs() -> usize {
    if features::get().fsgsbase {
        let was = disable_interrupts();
        let value;
        // SAFETY: interrupts are off, and entries that cannot be held off do not trust GS.
        unsafe {
            asm!("swapgs", "rdgsbase {}", "swapgs", out(reg) value, options(nomem, nostack, preserves_flags))
        };
        if was {
            enable_interrupts();
        }
        return value;
    }
    // SAFETY: the register exists on every 64-bit processor.
    unsafe { reg::rdmsr(reg::IA32_KERNEL_GS_BASE) as usize }
}

/// Sets the program's GS base, as [`set_tls`].
#[inline]
fn set_gs(base: usize) {
    let base = if base < USER_END { base } else { 0 };
    if features::get().fsgsbase {
        let was = disable_interrupts();
        // SAFETY: as in `gs`; canonical.
        unsafe { asm!("swapgs", "wrgsbase {}", "swapgs", in(reg) base, options(nostack, preserves_flags)) };
        if was {
            enable_interrupts();
        }
    } else {
        // SAFETY: canonical.
        unsafe { reg::wrmsr(reg::IA32_KERNEL_GS_BASE, base as u64) };
    }
}

/// Words of struct user_regs_struct.
pub const CORE_REGISTERS: usize = 27;

/// The running thread's registers as a core dump has them (struct user_regs_struct).
pub fn core_registers(regs: &UserRegs) -> [u64; CORE_REGISTERS] {
    let r = regs;
    let (fs_base, gs_base) = (tls() as u64, gs() as u64);
    [
        r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx, r.rdx, r.rsi,
        r.rdi, r.original, r.rip, r.cs, r.rflags, r.rsp, r.ss, fs_base, gs_base, 0, 0, 0, 0,
    ]
}

/// What became of arch_prctl(2).
pub enum ArchPrctl {
    Done,
    /// The value asked for.
    Value(usize),
    /// The address is not one of a program's.
    NotPermitted,
    /// There is no such operation.
    Unknown,
}

/// arch_prctl(2): sets a thread pointer of the running thread to `value`, or tells it.
pub fn arch_prctl(operation: u32, value: usize) -> ArchPrctl {
    const SET_GS: u32 = 0x1001;
    const SET_FS: u32 = 0x1002;
    const GET_FS: u32 = 0x1003;
    const GET_GS: u32 = 0x1004;
    match operation {
        SET_FS | SET_GS if value >= USER_END => return ArchPrctl::NotPermitted,
        SET_FS => set_tls(value),
        SET_GS => set_gs(value),
        GET_FS => return ArchPrctl::Value(tls()),
        GET_GS => return ArchPrctl::Value(gs()),
        _ => return ArchPrctl::Unknown,
    }
    ArchPrctl::Done
}
