//! Whether a CPU still runs on a task's stack.
//!
//! A task that gives its CPU up is on a queue, or asleep, before its registers are saved: the lock of its queue is dropped first, and the CPU then changes stacks. Whoever
//! finds it meanwhile leaves it to that CPU, whose next switch comes after; once it is off, anyone may run it.
//!
//! `saved.off` and `saved.look` order the last use of its stack and registers before the next CPU's.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicBool, Ordering, const_new, site};

/// See the head of the file.
#[derive(Debug)]
pub struct OnCpu(AtomicBool);

impl OnCpu {
    const_new! {
        pub fn new() -> Self {
            OnCpu(AtomicBool::new(false))
        }
    }

    /// A CPU has taken the task from its queue, whose lock it holds, and is about to run it.
    #[inline]
    pub fn on(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The CPU has left the task's stack.
    #[inline]
    pub fn off(&self) {
        self.0.store(false, site("saved.off", Ordering::Release));
    }

    /// Is it still there? False: under the lock of its queue, the task may run elsewhere.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.load(site("saved.look", Ordering::Acquire))
    }

    /// As `is_on`, for who orders this behind what it stored before.
    #[inline]
    pub fn is_on_after(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Default for OnCpu {
    fn default() -> Self {
        Self::new()
    }
}
