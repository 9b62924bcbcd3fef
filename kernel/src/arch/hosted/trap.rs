//! The registers of a program, as far as the kernel looks at them, and what is known of its exceptions.

use crate::arch::{Trap, USER_END};

/// What is known of the last exception.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrapRecord {
    pub address: usize,
}

impl Trap {
    pub fn record(self) -> TrapRecord {
        match self {
            Trap::PageFault(fault) => TrapRecord { address: fault.addr },
            _ => TrapRecord::default(),
        }
    }
}

/// Registers of a program. `pc` names a closure (`super::program`).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct UserRegs {
    pub(super) pc: usize,
    pub(super) sp: usize,
    pub(super) result: isize,
    pub(super) args: [usize; 6],
    /// The system call that the kernel was entered with.
    pub(super) call: Option<usize>,
}

/// Bytes of the instruction that makes a system call.
const SYSCALL: usize = 2;

impl UserRegs {
    pub fn new_user(entry: usize, sp: usize) -> UserRegs {
        UserRegs { pc: entry.min(USER_END), sp, ..UserRegs::default() }
    }

    /// The registers with which system call `number` enters the kernel.
    pub fn of_call(number: usize, args: [usize; 6]) -> UserRegs {
        UserRegs { call: Some(number), args, ..UserRegs::default() }
    }

    pub fn stay_in_call(&mut self, number: usize) {
        self.call = Some(number);
    }

    /// Closures have no instructions.
    pub fn steps(&self) -> bool {
        false
    }

    pub fn set_steps(&mut self, _steps: bool) {}

    pub fn set_resumes(&mut self) {}

    /// There are no segments here.
    pub fn mend_segments(&mut self) {}

    /// The registers of a forked child: the parent's, with result 0.
    pub fn fork_child(&self) -> UserRegs {
        UserRegs { result: 0, ..*self }
    }

    pub fn in_syscall(&self) -> bool {
        self.call.is_some()
    }

    pub fn number(&self) -> usize {
        self.call.unwrap_or(u32::MAX as usize)
    }

    pub fn args(&self) -> [usize; 6] {
        self.args
    }

    pub fn set_result(&mut self, result: isize) {
        self.result = result;
    }

    pub fn result(&self) -> isize {
        self.result
    }

    pub fn pc(&self) -> usize {
        self.pc
    }

    pub fn set_pc(&mut self, pc: usize) {
        self.pc = pc.min(USER_END);
    }

    pub fn sp(&self) -> usize {
        self.sp
    }

    pub fn set_sp(&mut self, sp: usize) {
        self.sp = sp;
    }

    pub fn set_arg(&mut self, n: usize, value: usize) {
        if let Some(arg) = self.args.get_mut(n) {
            *arg = value;
        }
    }

    /// Backs up over the instruction, so that the program makes the same call again.
    pub fn restart_syscall(&mut self) {
        self.restart_with(self.number());
    }

    /// As [`restart_syscall`](Self::restart_syscall), with another number (restart_syscall(2)).
    pub fn restart_with(&mut self, number: usize) {
        self.result = number as isize;
        self.pc = self.pc.wrapping_sub(SYSCALL);
        self.call = None;
    }

    /// Says that the registers no longer belong to a system call.
    pub fn leave_syscall(&mut self) {
        self.call = None;
    }
}

/// Registers in a core dump: where the program was, and its stack.
pub const CORE_REGISTERS: usize = 2;

pub fn core_registers(regs: &UserRegs) -> [u64; CORE_REGISTERS] {
    [regs.pc as u64, regs.sp as u64]
}

/// Nothing is set here by tracers.
pub mod place {
    pub const ARGUMENTS: [usize; 6] = [14, 13, 12, 7, 9, 8];
    pub const RAX: usize = 10;
    pub const ORIG_RAX: usize = 15;
    pub const RIP: usize = 16;
    pub const RSP: usize = 19;
}

pub fn traced_registers(regs: &UserRegs, _hides_step: bool) -> [u64; CORE_REGISTERS] {
    core_registers(regs)
}

pub fn set_traced_register(_words: &mut [u64; CORE_REGISTERS], _n: usize, _value: u64) -> bool {
    false
}

pub fn set_traced_registers(_regs: &mut UserRegs, _words: &[u64; CORE_REGISTERS]) -> Option<TrapRecord> {
    None
}
