//! Interrupts by kind, for /proc/interrupts, and what they interrupt.

use sync::per_cpu;
use sync::percpu::Count;

per_cpu! {
    pub static TIMER_INTERRUPTS: Count = Count::new();
    pub static RESCHEDULE_INTERRUPTS: Count = Count::new();
    pub static FLUSH_INTERRUPTS: Count = Count::new();
    pub static CALL_INTERRUPTS: Count = Count::new();
    pub static DEVICE_INTERRUPTS: Count = Count::new();
    pub static SPURIOUS_INTERRUPTS: Count = Count::new();
    /// Reschedule interrupts that the CPU sent.
    pub static RESCHEDULES_SENT: Count = Count::new();
}

/// What an interrupt interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupted {
    User,
    /// The kernel, at this program counter, with this frame pointer.
    Kernel {
        pc: usize,
        frame: usize,
    },
}

/// How the running user thread came into the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entered {
    /// By the system call of this number.
    Call(usize),
    /// By an exception.
    Exception,
    /// By an interrupt, or nobody knows any more: the thread is on its way back to user mode.
    Other,
}
