//! A program's segment registers: the selectors of DS, ES, FS and GS, the FS base, which points to the thread's own data (TLS), and the
//! GS base, which programs seldom use. CS and SS belong to the frame of each entry (`trap::frame`).
//!
//! A selector says nothing in 64-bit mode but for the base of FS and GS, which loading one replaces; so a base is set after its selector.
//! Programs may load what the descriptors of ring 3 allow (`cpu::gdt`): any selector that a program has is valid on each CPU, so putting it back
//! cannot fault. Nearly all programs leave the four at zero. So a switch stores those of the task it leaves and makes them zero if
//! they are not, and looks only at what it puts back: the registers are zero between `save` and `restore`.
//!
//! SS needs no care: in 64-bit mode a program can load the one selector that SYSRET and a frame of the kernel's give it, and its attributes,
//! which some processors do not reload at SYSRET, are not looked at there.

use core::arch::asm;

use super::cpu::gdt::{USER_CODE, USER_DATA};
use super::cpu::{features, reg};
use super::trap::{TrapRecord, UserRegs};
use super::{disable_interrupts, enable_interrupts};
use crate::arch::{ArchPrctl, Trap, USER_END};

/// Selectors of DS, ES, FS and GS.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
struct Selectors {
    ds: u16,
    es: u16,
    fs: u16,
    gs: u16,
}

impl Selectors {
    const NULL: Self = Self { ds: 0, es: 0, fs: 0, gs: 0 };

    /// The running thread's.
    #[inline]
    fn now() -> Self {
        let mut now = Self::NULL;
        now.store();
        now
    }

    #[inline]
    fn store(&mut self) {
        // SAFETY: stores the four selectors in the four fields.
        unsafe {
            asm!("mov word ptr [{at}], ds", "mov word ptr [{at} + 2], es", "mov word ptr [{at} + 4], fs", "mov word ptr [{at} + 6], gs",
                at = in(reg) &raw mut *self, options(nostack, preserves_flags));
        }
    }

    #[inline]
    fn is_null(&self) -> bool {
        u64::from(self.ds) | u64::from(self.es) << 16 | u64::from(self.fs) << 32 | u64::from(self.gs) << 48
            == 0
    }

    /// Gives them to the running thread. The bases of FS and GS are lost.
    #[cold]
    fn load(&self) {
        load_fs(self.fs);
        load_gs(self.gs);
        // SAFETY: valid selectors, as the module's head says; the kernel uses neither segment.
        unsafe {
            asm!("mov ds, {:e}", "mov es, {:e}", in(reg) u32::from(self.ds), in(reg) u32::from(self.es), options(nostack, preserves_flags));
        }
    }
}

fn load_fs(selector: u16) {
    // SAFETY: a valid selector; the kernel does not use FS.
    unsafe { asm!("mov fs, {:e}", in(reg) u32::from(selector), options(nostack, preserves_flags)) };
}

fn load_gs(selector: u16) {
    let was = disable_interrupts();
    // SAFETY: a valid selector; what it does to GS base it does to the program's, with interrupts off, and entries that cannot be held
    // off do not trust GS.
    unsafe {
        asm!("swapgs", "mov gs, {:e}", "swapgs", in(reg) u32::from(selector), options(nostack, preserves_flags))
    };
    if was {
        enable_interrupts();
    }
}

/// The segment registers of a thread that does not run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segments {
    selectors: Selectors,
    tls: usize,
    gs: usize,
}

impl Segments {
    /// Those of a child of the running thread: the same, or with its own data at `tls`, which is less than `USER_END`.
    pub fn of_child(tls: Option<usize>) -> Self {
        let mut child = Self { selectors: Selectors::now(), tls: self::tls(), gs: gs() };
        if let Some(tls) = tls {
            child.selectors.fs = 0;
            child.tls = tls;
        }
        child
    }

    /// Takes over the running thread's, whose selectors are then zero, whose bases are then anything.
    #[inline]
    pub fn save(&mut self) {
        self.tls = tls();
        self.gs = gs();
        self.selectors.store();
        if !self.selectors.is_null() {
            Selectors::NULL.load();
        }
    }

    /// Gives them to the running thread, whose selectors are zero.
    #[inline]
    pub fn restore(&self) {
        if !self.selectors.is_null() {
            self.selectors.load();
        }
        set_tls(self.tls);
        set_gs(self.gs);
    }

    /// The running thread's become those of a new program: all zero.
    pub fn reset() {
        if !Selectors::now().is_null() {
            Selectors::NULL.load();
        }
        Self::default().restore();
    }
}

/// The program's FS base.
#[inline]
fn tls() -> usize {
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

/// Sets the program's FS base to a canonical address: one below `USER_END`, or one that it had (a program may set its bases to any).
#[inline]
fn set_tls(base: usize) {
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

/// Sets the program's GS base, as `set_tls`.
#[inline]
fn set_gs(base: usize) {
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
    let Selectors { ds, es, fs, gs } = Selectors::now();
    let [ds, es, fs, gs] = [ds, es, fs, gs].map(u64::from);
    [
        r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx, r.rdx, r.rsi,
        r.rdi, r.original, r.rip, r.cs, r.rflags, r.rsp, r.ss, fs_base, gs_base, ds, es, fs, gs,
    ]
}

/// Places in struct user_regs_struct.
pub mod place {
    /// Those of a system call's arguments.
    pub const ARGUMENTS: [usize; 6] = [14, 13, 12, 7, 9, 8];
    pub const RAX: usize = 10;
    pub const ORIG_RAX: usize = 15;
    pub const RIP: usize = 16;
    pub const CS: usize = 17;
    pub const FLAGS: usize = 18;
    pub const RSP: usize = 19;
    pub const SS: usize = 20;
    pub const FS_BASE: usize = 21;
    pub const GS_BASE: usize = 22;
    pub const DS: usize = 23;
    pub const GS: usize = 26;
}

/// The flags that a tracer may set: Linux's FLAG_MASK.
const TRACER_FLAGS: u64 = 0x0001_4dd5 | 1 << 18;
const TF: u64 = reg::FLAG_TF;

/// The running thread's registers as its tracer sees them. TF is left out where it is not the program's own (`hides_step`).
pub fn traced_registers(regs: &UserRegs, hides_step: bool) -> [u64; CORE_REGISTERS] {
    let mut words = core_registers(regs);
    words[place::ORIG_RAX] = regs.traced_number();
    if hides_step {
        words[place::FLAGS] &= !TF;
    }
    words
}

/// Sets one word of a stopped thread's registers as ptrace(2) does, with Linux's checks. False: it may not have this value.
pub fn set_traced_register(words: &mut [u64; CORE_REGISTERS], n: usize, value: u64) -> bool {
    let Some(word) = words.get_mut(n) else { return false };
    match n {
        place::CS | place::SS | place::DS..=place::GS => {
            let selector = value as u16;
            if selector != 0 && selector & 3 != 3 || selector == 0 && matches!(n, place::CS | place::SS) {
                return false;
            }
            *word = u64::from(selector);
        }
        place::FLAGS => *word = *word & !TRACER_FLAGS | value & TRACER_FLAGS,
        place::FS_BASE | place::GS_BASE if value >= USER_END as u64 => return false,
        _ => *word = value,
    }
    true
}

/// A selector as a program could load it itself; any other becomes zero, as on Linux.
fn loadable(selector: u64) -> u16 {
    const CPU_NUMBER: u16 = 0x7b;
    match selector as u16 {
        selector @ (USER_DATA | USER_CODE | CPU_NUMBER) => selector,
        _ => 0,
    }
}

/// Gives the running thread the registers that its tracer has set (`set_traced_register`): whatever these are, `regs` are such as IRET accepts, and
/// segment registers such as the program could load. Gives the exception that the program's code or stack segment causes, if it is none of its own.
#[must_use]
pub fn set_traced_registers(regs: &mut UserRegs, words: &[u64; CORE_REGISTERS]) -> Option<TrapRecord> {
    let [
        r15,
        r14,
        r13,
        r12,
        rbp,
        rbx,
        r11,
        r10,
        r9,
        r8,
        rax,
        rcx,
        rdx,
        rsi,
        rdi,
        original,
        rip,
        cs,
        flags,
        rsp,
        ss,
        fs_base,
        gs_base,
        ds,
        es,
        fs,
        gs,
    ] = *words;
    (regs.r15, regs.r14, regs.r13, regs.r12) = (r15, r14, r13, r12);
    (regs.rbp, regs.rbx, regs.r11, regs.r10) = (rbp, rbx, r11, r10);
    (regs.r9, regs.r8, regs.rax, regs.rcx) = (r9, r8, rax, rcx);
    (regs.rdx, regs.rsi, regs.rdi, regs.rsp) = (rdx, rsi, rdi, rsp);
    regs.original = original;
    // Also chooses IRET, which takes each register from the frame.
    regs.set_pc(rip as usize);
    regs.set_flags(flags);
    regs.rflags |= flags & reg::FLAG_RF;
    let selectors = Selectors { ds: loadable(ds), es: loadable(es), fs: loadable(fs), gs: loadable(gs) };
    selectors.load();
    set_tls(fs_base as usize);
    set_gs(gs_base as usize);
    let refused = regs.set_segments(cs as u16, ss as u16);
    refused.map(|selector| Trap::Protection(u32::from(selector)).record())
}

/// arch_prctl(2): sets a base of the running thread to `value`, or tells it; whether CPUID works, and which vector state there is. Shadow stacks and
/// tagged addresses are missing.
pub fn arch_prctl(operation: u32, value: usize) -> ArchPrctl {
    const SET_GS: u32 = 0x1001;
    const SET_FS: u32 = 0x1002;
    const GET_FS: u32 = 0x1003;
    const GET_GS: u32 = 0x1004;
    const GET_CPUID: u32 = 0x1011;
    const SET_CPUID: u32 = 0x1012;
    const GET_XCOMP_SUPP: u32 = 0x1021;
    const GET_XCOMP_PERM: u32 = 0x1022;
    const REQ_XCOMP_PERM: u32 = 0x1023;
    const GET_XCOMP_GUEST_PERM: u32 = 0x1024;
    const REQ_XCOMP_GUEST_PERM: u32 = 0x1025;
    /// The last component that Linux knows, and the only one that programs have to ask for: AMX's, which is never enabled here.
    const XTILE_DATA: usize = 18;
    match operation {
        SET_FS | SET_GS if value >= USER_END => return ArchPrctl::NotPermitted,
        // The base does not come from a descriptor any more.
        SET_FS => {
            load_fs(0);
            set_tls(value);
        }
        SET_GS => {
            load_gs(0);
            set_gs(value);
        }
        GET_FS => return ArchPrctl::Value(tls()),
        GET_GS => return ArchPrctl::Value(gs()),
        GET_CPUID => return ArchPrctl::Told(1),
        // CPUID never faults: no processor is asked to let it.
        SET_CPUID => return ArchPrctl::NoDevice,
        GET_XCOMP_SUPP | GET_XCOMP_PERM | GET_XCOMP_GUEST_PERM => {
            return ArchPrctl::Value(features::get().xcr0 as usize);
        }
        REQ_XCOMP_PERM | REQ_XCOMP_GUEST_PERM if value <= XTILE_DATA => return ArchPrctl::NotSupported,
        _ => return ArchPrctl::Unknown,
    }
    ArchPrctl::Done
}
