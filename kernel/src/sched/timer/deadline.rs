//! When a sleep ends that nothing ends before: not before a moment, and in a span after it, the timer slack.
//!
//! A CPU's timer is set for the end of the span, and what interrupts the CPU before ends the sleep as well. So threads that sleep to near
//! times are woken by one interrupt. Which sleeps have a slack says prctl(2), PR_SET_TIMERSLACK: those of programs, but not their timers.
#![forbid(unsafe_code)]

use crate::arch;
use crate::sched::task::current;
use core::num::NonZeroU64;

/// The most slack that the length of a wait alone gives, ns.
const MOST: u64 = 100_000_000;

/// The first and the last moment, ns on the monotonic clock. (`NonZeroU64` makes an `Option` of it no larger.)
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    soft: NonZeroU64,
    hard: u64,
}

impl From<u64> for Deadline {
    /// Without slack.
    fn from(at: u64) -> Self {
        Self::after(at, 0)
    }
}

impl Deadline {
    /// From `at` to `slack` after it.
    pub(super) fn after(at: u64, slack: u64) -> Self {
        Self { soft: NonZeroU64::new(at).unwrap_or(NonZeroU64::MIN), hard: at.saturating_add(slack) }
    }

    /// Of a sleep, or a wait for one thing, of the running thread: it has the thread's slack.
    pub fn of_sleep(at: u64) -> Self {
        Self::after(at, slack())
    }

    /// Of a wait for one of several files (select, poll, epoll): a thousandth of the time from now on, if that is more than the thread's slack;
    /// for a thread with a nice value above 0 a two hundredth.
    pub fn of_poll(at: u64) -> Self {
        let part = if current().nice() > 0 { 200 } else { 1000 };
        let estimate = at.saturating_sub(arch::time::now()) / part;
        Self::after(at, estimate.min(MOST).max(slack()))
    }

    /// Before this the sleep does not end by itself.
    pub fn soft(self) -> u64 {
        self.soft.get()
    }

    /// By this the CPU is interrupted.
    pub(super) fn hard(self) -> u64 {
        self.hard
    }
}

fn slack() -> u64 {
    current().thread.as_ref().map_or(0, |thread| thread.attributes.slack())
}
