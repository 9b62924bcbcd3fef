//! A CPU that goes to sleep because it has nothing to do, and who gives it something.
//!
//! ```text
//!   the CPU                            who gives it work
//!   shows that it idles                puts it where the CPU looks
//!   looks for work, as long as it will   --- idle.give ---
//!   shows that it halts                idles or halts? takes that back
//!   --- idle.halt ---                  it halted: kicks the CPU
//!   looks once more; none: halts
//! ```
//!
//! - A CPU that looks for work is not kicked: it can show that it halts only if nobody has taken back that it idles (`idle.untaken`); else it looks
//!   everywhere anew, and sees what was there before (`idle.taken`).
//! - After it has shown that it halts, one of the two sees the other: so it does not halt beside work, or is kicked. A kick that comes before the halt
//!   ends it at once.
//! - What is shown is taken back by an exchange, so of several who give it work one kicks at most.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU32, Ordering, const_new, fence_after_rmw, fence_at, site, step};

const BUSY: u32 = 0;
const LOOKS: u32 = 1;
const HALTS: u32 = 2;

/// Whether a CPU idles, and has not been given anything.
#[derive(Debug)]
pub struct Idle(AtomicU32);

/// What a CPU did that was given something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It does not idle, or was given something before: it looks when it does so anyway.
    Busy,
    /// It looks for work, and finds this.
    Looking,
    /// It halts: the caller kicks it.
    Halted,
}

impl Idle {
    const_new! {
        pub fn new() -> Self {
            Idle(AtomicU32::new(BUSY))
        }
    }

    /// Of the CPU itself: it idles and looks for work, or does so no more.
    #[inline]
    pub fn show(&self, idle: bool) {
        if self.is_shown() != idle {
            self.0.store(if idle { LOOKS } else { BUSY }, Ordering::Relaxed);
        }
    }

    /// Of the CPU itself, which has halted: it does so no more. Written whatever is there, so that the line comes over once where another CPU has given it
    /// something, and not first to be read and then to be written.
    #[inline]
    pub fn end_halt(&self) {
        self.0.store(BUSY, Ordering::Relaxed);
    }

    /// Of the CPU itself, which looks once more thereafter. False: it has been given something, and does not halt.
    #[inline]
    pub fn halt(&self) -> bool {
        if !step("idle.untaken") {
            self.0.store(HALTS, Ordering::Relaxed);
        } else {
            let taken = site("idle.taken", Ordering::Acquire);
            if self.0.compare_exchange(LOOKS, HALTS, Ordering::Relaxed, taken).is_err() {
                return false;
            }
        }
        fence_after_rmw("idle.halt");
        true
    }

    #[inline]
    pub fn is_shown(&self) -> bool {
        self.0.load(Ordering::Relaxed) != BUSY
    }

    /// The CPU has been given something.
    #[inline]
    pub fn take(&self) -> Found {
        fence_at("idle.give");
        if !self.is_shown() {
            return Found::Busy;
        }
        match self.0.swap(BUSY, Ordering::Relaxed) {
            HALTS => Found::Halted,
            LOOKS => Found::Looking,
            _ => Found::Busy,
        }
    }
}

impl Default for Idle {
    fn default() -> Self {
        Self::new()
    }
}
