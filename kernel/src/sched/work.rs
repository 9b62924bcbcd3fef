//! Reasons for a task to do something before it returns to user mode, or to end a sleep: flags that anyone may set and the task clears.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

/// Reasons to do something before returning to user mode, or to end a sleep.
pub struct Work(AtomicU32);

impl Work {
    /// Another task should run here.
    pub const RESCHED: u32 = 1;
    /// A signal is to be delivered: interruptible sleeps end.
    pub const SIGNAL: u32 = 2;
    /// A fatal signal: killable sleeps end.
    pub const KILL: u32 = 4;
    /// An interrupt handler left work for this CPU (`pending`).
    pub const PENDING: u32 = 8;
    /// A tick has found the task in a real-time class, or it has run for longer than its deadline's run time.
    pub const REALTIME: u32 = 16;
    /// The task's group has a quota: there may be nothing left of it (`sched::throttle`).
    pub const QUOTA: u32 = 32;
    /// The first bit that `process` may use as it likes.
    pub const PROCESS: u32 = 1 << 16;

    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Is any of `flags` set?
    #[inline]
    pub fn any(&self, flags: u32) -> bool {
        self.0.load(Ordering::Relaxed) & flags != 0
    }

    #[inline]
    pub fn set(&self, flags: u32) {
        if self.0.load(Ordering::Relaxed) & flags != flags {
            self.0.fetch_or(flags, Ordering::SeqCst);
        }
    }

    #[inline]
    pub fn clear(&self, flags: u32) {
        if self.0.load(Ordering::Relaxed) & flags != 0 {
            self.0.fetch_and(!flags, Ordering::SeqCst);
        }
    }
}
