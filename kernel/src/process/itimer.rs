//! Interval timers of a process: setitimer(2), alarm(2).
//!
//! ITIMER_REAL is a `sched::Timer` of the CPU that armed it; when it goes off, in thread context, the process is looked up by
//! its id, so a process that is gone is simply not found. The timers of processor time (ITIMER_VIRTUAL, ITIMER_PROF) are not
//! there: EINVAL.
//!
//! LockOrder: the timer's state → timer queue.

use super::ids;
use crate::arch;
use crate::errno::{Errno, Result};
use crate::sched::Timer;
use alloc::sync::Arc;
use sync::level::Other;
use sync::{SpinLock, lock_class};

lock_class! { static ITIMER: LockClass = ("interval timer", Other); }

/// What a timer is set to, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Setting {
    /// Time between expiries after the first; 0: only one.
    pub interval: u64,
    /// Time to the next expiry; 0: not set.
    pub value: u64,
}

struct Real {
    timer: Option<Arc<Timer>>,
    interval: u64,
    /// When it goes off next, for keeping the pace.
    next: u64,
}

/// The interval timers of one process.
pub struct Itimers {
    real: SpinLock<Real>,
}

impl Default for Itimers {
    fn default() -> Self {
        Self::new()
    }
}

impl Itimers {
    pub const fn new() -> Self {
        Self { real: SpinLock::new(Real { timer: None, interval: 0, next: 0 }, &ITIMER) }
    }

    /// What ITIMER_REAL is set to now.
    pub fn real(&self) -> Setting {
        let real = self.real.lock();
        let value = real.timer.as_ref().and_then(|t| t.remaining()).map_or(0, |left| left.max(1));
        Setting { interval: real.interval, value }
    }

    /// Sets ITIMER_REAL of process `pid`, whose timers these are; returns what it was set to.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn set_real(&self, pid: u32, to: Setting) -> Result<Setting> {
        let before = self.real();
        let spare =
            if to.value != 0 { Some(sync::try_arc(Timer::new(expired, pid as usize))?) } else { None };
        let mut real = self.real.lock();
        if let Some(timer) = &real.timer {
            timer.cancel();
        }
        real.interval = to.interval;
        if to.value != 0 {
            real.next = arch::time::now().saturating_add(to.value);
            let next = real.next;
            if real.timer.is_none() {
                real.timer = spare;
            }
            if let Some(timer) = &real.timer {
                timer.arm(next);
            }
        }
        Ok(before)
    }

    /// The process ends: nothing goes off any more.
    pub fn cancel(&self) {
        let mut real = self.real.lock();
        if let Some(timer) = real.timer.take() {
            timer.cancel();
        }
    }

    fn rearm(&self) {
        let mut real = self.real.lock();
        if real.interval == 0 {
            return;
        }
        let now = arch::time::now();
        // Expiries that were missed are not made up for.
        let missed = now.saturating_sub(real.next) / real.interval;
        real.next = real.next.saturating_add(real.interval.saturating_mul(missed + 1));
        if let Some(timer) = &real.timer {
            timer.arm(real.next);
        }
    }
}

fn expired(pid: usize) {
    let Some(process) = ids::find_process(pid as u32) else { return };
    super::signal::send_kernel(&process, linux_raw_sys::general::SIGALRM);
    process.itimers.rearm();
}

/// The timer of `which`.
///
/// # Errors
/// EINVAL: there is none.
pub fn check_which(which: i32) -> Result {
    if which == linux_raw_sys::general::ITIMER_REAL as i32 { Ok(()) } else { Err(Errno::EINVAL) }
}
