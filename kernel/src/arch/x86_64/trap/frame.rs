//! The registers of a user program as entry code leaves them at the top of the thread's kernel stack.
//!
//! The layout is known to `entry.rs`. Everything that changes a saved register must leave the frame one that IRET
//! accepts: segments are never the program's choice (but for [`UserRegs::set_segments`]), and of the flags only [`USER_FLAGS`].

use core::mem::offset_of;

use super::super::cpu::gdt::{USER_CODE, USER_DATA};
use super::super::cpu::reg::{FLAG_IF, FLAG_RF, FLAG_TF};
use crate::arch::USER_END;

/// `vector` of a frame that SYSCALL made and nobody has changed since: SYSRET may return to it, because RCX and R11
/// hold RIP and RFLAGS.
pub const VECTOR_SYSCALL: u64 = 0x100;
/// `vector` of a frame that only IRET can return to.
pub const VECTOR_FULL: u64 = 0x101;
/// `vector` of a frame that SYSRET may return to, but with no register as the program had it when it made its call.
pub const VECTOR_SYSRET: u64 = 0x102;

/// The flags that a program may set: status flags, TF, DF, NT, AC, ID (Linux's FIX_EFLAGS and ID). IOPL, IF and the
/// virtual-8086 flags are the kernel's; RF is allowed by sigreturn alone.
pub const USER_FLAGS: u64 = 0x0025_4dd5 & !(1 << 16);

/// Registers of a user program. 16-byte aligned, 176 bytes.
#[repr(C, align(16))]
#[derive(Clone, Copy, Default, Debug)]
pub struct UserRegs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    /// With [`VECTOR_SYSCALL`] and [`VECTOR_SYSRET`], what SYSRET takes for the flags.
    pub(in super::super) r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    /// RIP, with [`VECTOR_SYSCALL`] and [`VECTOR_SYSRET`].
    pub(in super::super) rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// How the kernel was entered: an interrupt vector, or one of the `VECTOR_` values.
    pub(in super::super) vector: u64,
    /// System call number, or error code of an exception, or -1.
    pub(in super::super) original: u64,
    pub(in super::super) rip: u64,
    pub(in super::super) cs: u64,
    pub(in super::super) rflags: u64,
    pub(in super::super) rsp: u64,
    pub(in super::super) ss: u64,
}

pub const VECTOR: usize = offset_of!(UserRegs, vector);
pub const RIP: usize = offset_of!(UserRegs, rip);
pub const CS: usize = offset_of!(UserRegs, cs);
pub const SIZE: usize = size_of::<UserRegs>();
const _: () = assert!(SIZE == 176);

impl UserRegs {
    /// The registers of a fresh program: everything zero but the entry point and the stack (as Linux's exec leaves them).
    pub fn new_user(entry: usize, sp: usize) -> UserRegs {
        UserRegs {
            vector: VECTOR_FULL,
            original: u64::MAX,
            rip: entry.min(USER_END) as u64,
            cs: u64::from(USER_CODE),
            rflags: FLAG_IF | 2,
            rsp: sp as u64,
            ss: u64::from(USER_DATA),
            ..UserRegs::default()
        }
    }

    /// The registers of a forked child: the parent's, with result 0.
    pub fn fork_child(&self) -> UserRegs {
        UserRegs { rax: 0, vector: VECTOR_FULL, ..*self }
    }

    /// True if the kernel was entered by SYSCALL and the frame is still that call's.
    #[inline(always)]
    pub fn in_syscall(&self) -> bool {
        self.original != u64::MAX && self.vector >= VECTOR_SYSCALL
    }

    /// The system call's number, as the program gave it (Linux looks at the low 32 bits alone).
    #[inline(always)]
    pub fn number(&self) -> usize {
        self.original as u32 as usize
    }

    /// The system call's arguments.
    #[inline(always)]
    pub fn args(&self) -> [usize; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9].map(|r| r as usize)
    }

    #[inline(always)]
    pub fn set_result(&mut self, result: isize) {
        self.rax = result as u64;
    }

    pub fn result(&self) -> isize {
        self.rax as isize
    }

    pub fn pc(&self) -> usize {
        self.rip as usize
    }

    /// Sets where the program goes on. An address outside the user half becomes the first one past it, which faults
    /// in user mode; a non-canonical one in IRET's frame would fault in the kernel.
    pub fn set_pc(&mut self, pc: usize) {
        self.rip = pc.min(USER_END) as u64;
        self.vector = VECTOR_FULL;
    }

    pub fn sp(&self) -> usize {
        self.rsp as usize
    }

    pub fn set_sp(&mut self, sp: usize) {
        self.rsp = sp as u64;
    }

    /// Sets a function argument (0 to 5, C calling convention) for a signal handler or a fresh program.
    pub fn set_arg(&mut self, n: usize, value: usize) {
        let value = value as u64;
        match n {
            0 => self.rdi = value,
            1 => self.rsi = value,
            2 => self.rdx = value,
            3 => self.rcx = value,
            4 => self.r8 = value,
            _ => self.r9 = value,
        }
        self.vector = VECTOR_FULL;
    }

    /// Backs up over the SYSCALL instruction, so that the program makes the same call again.
    pub fn restart_syscall(&mut self) {
        self.restart_with(self.number());
    }

    /// As [`restart_syscall`](Self::restart_syscall), with another number (restart_syscall(2)).
    pub fn restart_with(&mut self, number: usize) {
        self.rax = number as u64;
        self.rip = self.rip.wrapping_sub(2);
        self.vector = VECTOR_FULL;
        self.original = u64::MAX;
    }

    /// Says that the frame no longer belongs to a system call (after a restart was decided, or by sigreturn).
    pub fn leave_syscall(&mut self) {
        self.original = u64::MAX;
        self.vector = VECTOR_FULL;
    }

    /// Sets the code and the stack segment as sigreturn finds them. If IRET would refuse one, says which, as an error code (SDM vol. 3, 7.13): then
    /// the program gets a signal before it goes on, and [`mend_segments`](Self::mend_segments) is called on its way there.
    #[must_use]
    pub fn set_segments(&mut self, cs: u16, ss: u16) -> Option<u16> {
        let (cs, ss) = (cs | 3, ss | 3);
        (self.cs, self.ss) = (u64::from(cs), u64::from(ss));
        match (cs, ss) {
            (USER_CODE, USER_DATA) => None,
            (USER_CODE, _) => Some(ss & !3),
            _ => Some(cs & !3),
        }
    }

    /// Every register is set, and the kernel was entered by a system call (sigreturn). Chooses SYSRET where it does the same as IRET: it takes RCX for RIP and
    /// R11 for the flags, as they are where a signal came at the end of a system call, and cannot set RF; with TF its step is not what IRET's is. The entry
    /// code looks itself whether RIP is canonical.
    pub fn choose_return(&mut self) {
        let can = self.rcx == self.rip
            && self.r11 == self.rflags
            && self.rflags & (FLAG_TF | FLAG_RF) == 0
            && self.cs == u64::from(USER_CODE)
            && self.ss == u64::from(USER_DATA);
        self.vector = if can { VECTOR_SYSRET } else { VECTOR_FULL };
    }

    /// The segments that a program has in its code.
    pub fn mend_segments(&mut self) {
        (self.cs, self.ss) = (u64::from(USER_CODE), u64::from(USER_DATA));
    }

    /// The call's number as a tracer sees it; `u64::MAX`: the frame is no call's.
    pub(in super::super) fn traced_number(&self) -> u64 {
        if self.in_syscall() { self.original } else { u64::MAX }
    }

    /// The frame of a program that has just begun stays that of the call by which it did (for who traces it).
    pub fn stay_in_call(&mut self, number: usize) {
        self.original = number as u64;
        self.vector = VECTOR_FULL;
    }

    /// Has the program TF set?
    pub fn steps(&self) -> bool {
        self.rflags & FLAG_TF != 0
    }

    /// Sets or clears TF: a debug exception comes after the program's next instruction.
    pub fn set_steps(&mut self, steps: bool) {
        self.rflags = self.rflags & !FLAG_TF | if steps { FLAG_TF } else { 0 };
        self.vector = VECTOR_FULL;
    }

    /// Sets RF: no breakpoint stops the program's next instruction.
    pub fn set_resumes(&mut self) {
        self.rflags |= FLAG_RF;
        self.vector = VECTOR_FULL;
    }

    /// The flags.
    pub fn flags(&self) -> u64 {
        self.rflags
    }

    /// Sets the flags that are the program's; keeps the others right.
    pub fn set_flags(&mut self, flags: u64) {
        self.rflags = (flags & USER_FLAGS) | FLAG_IF | 2;
        self.vector = VECTOR_FULL;
    }
}
