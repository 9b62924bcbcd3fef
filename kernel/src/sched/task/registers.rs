//! The registers with which a task that sleeps goes back to its program, for others to see.
//!
//! A task leaves them at the top of its kernel stack when it comes into the kernel, and changes them while it runs there. Who looks at them asks before and
//! after whether it sleeps: where it ran meanwhile, what was read is thrown away. The task is not stopped, and writes nothing for this.

use super::Task;
use crate::arch::{self, UserRegs};
use core::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

impl Task {
    /// The task's registers in user mode, if it sleeps or is the running one. None: it runs, or is about to, or has done so meanwhile.
    ///
    /// # Safety
    /// It is a user thread's, and does not come to its end meanwhile, where it loses its stack.
    pub unsafe fn user_regs(&self) -> Option<UserRegs> {
        let before = self.switches_at_rest()?;
        let hardware = self.hardware.get();
        // SAFETY: the stack is set before the task first runs, and taken away at its end alone.
        let stack = unsafe { &(*hardware).stack }.as_ref()?;
        // SAFETY: plain words at the top of a stack, which stays, as the caller says. If the task runs just now they are of no meaning, and not used.
        let regs = unsafe { arch::user_regs(stack).read_volatile() };
        fence(Acquire);
        (self.switches_at_rest() == Some(before)).then_some(regs)
    }

    /// How often the task has been switched out, if nothing changes its registers now: it sleeps, or it is the one that asks.
    fn switches_at_rest(&self) -> Option<u64> {
        let is_own = super::current_address() == core::ptr::from_ref(self) as usize;
        let rests = is_own || self.state_letter() != b'R' && !self.on_cpu.is_on();
        rests.then(|| self.voluntary.load(Relaxed).wrapping_add(self.involuntary.load(Relaxed)))
    }
}
