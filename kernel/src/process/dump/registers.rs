//! What a core tells of a thread.
#![forbid(unsafe_code)]

use crate::arch::{self, UserRegs};
use crate::errno::Result;
use crate::process::Current;
use crate::process::wait::UsageSum;
use crate::sched;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sync::try_box;

/// The state of a thread that runs no more.
pub struct Registers {
    pub tid: u32,
    /// struct user_regs_struct.
    pub general: [u64; arch::CORE_REGISTERS],
    /// The XSAVE area, whose first 512 bytes are what FXSAVE stores.
    pub extended: Vec<u8>,
    pub pending: u64,
    pub blocked: u64,
    pub usage: UsageSum,
}

impl Registers {
    /// Of the running thread, which was in user mode with `regs`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn of(thread: &Current, regs: &UserRegs) -> Result<Self> {
        Ok(Self {
            tid: thread.tid(),
            general: arch::core_registers(regs),
            extended: sched::copy_vector_registers()?,
            pending: thread.pending_signals(),
            blocked: thread.blocked.get(),
            usage: UsageSum::of_thread(thread, thread.task().times()),
        })
    }

    /// The same, not on the stack of who writes the core.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline(never)]
    pub fn boxed(thread: &Current, regs: &UserRegs) -> Result<Box<Self>> {
        Ok(try_box(Self::of(thread, regs)?)?)
    }
}
