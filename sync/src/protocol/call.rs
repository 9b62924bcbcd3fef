//! Waking a task of another CPU without touching what that CPU works with: the waker calls the task (one word beside its state) and leaves it in the CPU's
//! inbox (`protocol::inbox`); the CPU answers, looks at the task's state, and does the rest with lines of its own.
//!
//! ```text
//!   waker                                  the task's CPU
//!   changes the condition, fence           the task says that it sleeps, fence, looks at the condition
//!   the task sleeps?                       takes the inbox home
//!   calls it; into the inbox               answers; a task that sleeps is made to run
//!   the inbox was empty: kicks the CPU     says that it idles, fence, looks at the inbox; empty: halts until it is kicked
//! ```
//!
//! - A task is in one inbox at most: whoever calls one that has been called already leaves the rest to the first. That is enough, since the CPU answers before
//!   it looks at the state (`call.first`): a caller who found it called comes before the answer, which sees the sleep that the caller saw (`call.call`,
//!   `call.answer`), also where the task has moved. What makes it sleep no more is ordered by the fences that callers and sleepers have anyway.
//! - A called task may go on by itself, and sleep anew for something else: it is then woken for nothing, and looks at its condition.
//! - It may even end before its CPU has answered. Then the inbox still has it, and the reference that its end would give up belongs to who answers
//!   (`call.end`, `call.answer`); a waker that comes after the end calls nobody.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU16, Ordering, const_new, site, step};

const CALLED: u16 = 1;
const ENDED: u16 = 2;

/// Whether a task is on its way through an inbox.
#[derive(Debug)]
pub struct Call(AtomicU16);

impl Call {
    const_new! {
        pub fn new() -> Self {
            Call(AtomicU16::new(0))
        }
    }

    /// The task is to be woken. True: the caller puts it into its CPU's inbox; else it is there or about to be, or it has ended.
    #[inline]
    pub fn call(&self) -> bool {
        self.0.fetch_or(CALLED, site("call.call", Ordering::Release)) == 0
    }

    /// The task was taken out of the inbox: `wake` looks at its state and makes it run if it sleeps. True: it has ended, and its reference is the caller's.
    #[inline]
    pub fn answer(&self, wake: impl FnOnce()) -> bool {
        if !step("call.first") {
            wake();
            return self.cleared();
        }
        let has_ended = self.cleared();
        if !has_ended {
            wake();
        }
        has_ended
    }

    /// Has it been called, and not been answered yet? To be shown and no more.
    #[inline]
    pub fn is_called(&self) -> bool {
        self.0.load(Ordering::Acquire) & CALLED != 0
    }

    #[inline]
    fn cleared(&self) -> bool {
        self.0.fetch_and(!CALLED, site("call.answer", Ordering::Acquire)) & ENDED != 0
    }

    /// The task has run for the last time. False: its reference belongs to who answers.
    #[inline]
    pub fn end(&self) -> bool {
        self.0.fetch_or(ENDED, site("call.end", Ordering::Release)) & CALLED == 0
    }
}

impl Default for Call {
    fn default() -> Self {
        Self::new()
    }
}
