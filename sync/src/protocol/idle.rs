//! A CPU that goes to sleep because it has nothing to do, and who gives it something.
//!
//! ```text
//!   the CPU                            who gives it work
//!   shows that it idles                puts it where the CPU looks
//!   --- idle.show ---                  --- idle.give ---
//!   looks for work; none: halts        is it shown? takes that back, and kicks the CPU
//! ```
//!
//! - One of the two sees the other: so the CPU does not halt beside work, or is kicked. A kick that comes before the halt ends it at once.
//! - What is shown is taken back by an exchange, so of several who give it work one kicks.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicBool, Ordering, const_new, fence_at};

/// Whether a CPU idles, and has not been given anything.
#[derive(Debug)]
pub struct Idle(AtomicBool);

impl Idle {
    const_new! {
        pub fn new() -> Self {
            Idle(AtomicBool::new(false))
        }
    }

    /// Of the CPU itself. It looks for work after it has shown that it idles.
    #[inline]
    pub fn show(&self, idle: bool) {
        if self.is_shown() != idle {
            self.0.store(idle, Ordering::Relaxed);
        }
        if idle {
            fence_at("idle.show");
        }
    }

    #[inline]
    pub fn is_shown(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The CPU has been given something. True: it idled, and the caller kicks it.
    #[inline]
    pub fn take(&self) -> bool {
        fence_at("idle.give");
        self.is_shown() && self.0.swap(false, Ordering::Relaxed)
    }
}

impl Default for Idle {
    fn default() -> Self {
        Self::new()
    }
}
