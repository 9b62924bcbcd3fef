//! When a sleep ends that nothing ends before: not before a moment, and in a span after it, the timer slack.
//!
//! The moment is on the monotonic clock or on the wall clock. One on the wall clock comes earlier or later when that clock is set.
//!
//! A CPU's timer is set for the end of the span, and what interrupts the CPU before ends the sleep as well. So threads that sleep to near
//! times are woken by one interrupt. Which sleeps have a slack says prctl(2), PR_SET_TIMERSLACK: those of programs, but not their timers.
#![forbid(unsafe_code)]

use crate::arch;
use crate::sched::task::current;
use core::num::NonZeroU64;

/// The most slack that the length of a wait alone gives, ns.
const MOST: u64 = 100_000_000;

/// The end of time, as Linux has it (KTIME_MAX).
const END: u64 = i64::MAX as u64;

/// In the last moment of a deadline: it is on the wall clock.
const ON_WALL: u64 = 1 << 63;

/// The clock that a moment is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClockBase {
    #[default]
    Monotonic,
    /// CLOCK_REALTIME, which clock_settime moves: nanoseconds since 1970.
    Wall,
}

impl ClockBase {
    /// What the clock shows, ns.
    pub fn now(self) -> u64 {
        self.at(arch::time::now())
    }

    /// What the clock shows while the monotonic clock shows `monotonic`.
    pub fn at(self, monotonic: u64) -> u64 {
        match self {
            Self::Monotonic => monotonic,
            Self::Wall => monotonic.saturating_add(arch::time::wall_offset()),
        }
    }

    /// What the monotonic clock shows when this one shows `moment`, if it is not set meanwhile. Before boot is 0.
    pub fn to_monotonic(self, moment: u64) -> u64 {
        match self {
            Self::Monotonic => moment,
            Self::Wall => moment.saturating_sub(arch::time::wall_offset()),
        }
    }
}

/// A clock that programs name, by what setting the wall clock does to what they set on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeClock {
    /// Nothing (CLOCK_MONOTONIC, CLOCK_BOOTTIME).
    Monotonic,
    /// It moves moments, but not lengths of time (CLOCK_REALTIME).
    Realtime,
    /// It moves both: a length of time becomes a moment when it is set (CLOCK_REALTIME_ALARM), as on Linux.
    RealtimeThroughout,
    /// As that, and the clock is ahead (CLOCK_TAI). A moment is the wall clock's that it is when it is set.
    Tai,
}

impl TimeClock {
    /// What a moment on the clock (`absolute`) or a length of time from now is set on.
    pub fn base(self, absolute: bool) -> ClockBase {
        match self {
            Self::Monotonic => ClockBase::Monotonic,
            Self::Realtime if !absolute => ClockBase::Monotonic,
            Self::Realtime | Self::RealtimeThroughout | Self::Tai => ClockBase::Wall,
        }
    }

    /// What its base shows when the clock shows `moment`.
    pub fn moment(self, moment: u64) -> u64 {
        match self {
            Self::Tai => {
                moment.saturating_sub(arch::time::tai_offset().saturating_sub(arch::time::wall_offset()))
            }
            _ => moment,
        }
    }
}

/// The first and the last moment, ns. (`NonZeroU64` makes an `Option` of it no larger, nor does the clock.)
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    soft: NonZeroU64,
    /// And [`ON_WALL`].
    hard: u64,
}

impl From<u64> for Deadline {
    /// On the monotonic clock, without slack.
    fn from(at: u64) -> Self {
        Self::after(at, 0)
    }
}

impl Deadline {
    /// From `at` to `slack` after it, on the monotonic clock.
    pub(super) fn after(at: u64, slack: u64) -> Self {
        Self { soft: NonZeroU64::new(at).unwrap_or(NonZeroU64::MIN), hard: at.saturating_add(slack).min(END) }
    }

    /// The same moments on `base`.
    pub fn on(self, base: ClockBase) -> Self {
        match base {
            ClockBase::Monotonic => Self { hard: self.hard & !ON_WALL, ..self },
            ClockBase::Wall => Self { hard: self.hard | ON_WALL, ..self },
        }
    }

    /// Setting the wall clock makes it come earlier or later.
    pub(in crate::sched) fn may_move(self) -> bool {
        self.base() == ClockBase::Wall
    }

    /// The clock that it is on.
    pub(super) fn base(self) -> ClockBase {
        if self.hard & ON_WALL == 0 { ClockBase::Monotonic } else { ClockBase::Wall }
    }

    /// May the sleep end by itself?
    pub(in crate::sched) fn has_come(self) -> bool {
        self.left() == 0
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

    /// As it is, without slack.
    pub fn without_slack(self) -> Self {
        Self::after(self.soft.get(), 0).on(self.base())
    }

    /// How long until the sleep may end by itself, ns.
    pub fn left(self) -> u64 {
        self.soft.get().saturating_sub(self.base().now())
    }

    /// Before this the sleep does not end by itself.
    pub(super) fn soft(self) -> u64 {
        self.soft.get()
    }

    /// By this the CPU is interrupted.
    pub(super) fn hard(self) -> u64 {
        self.hard & !ON_WALL
    }
}

fn slack() -> u64 {
    // What is real time is woken in time.
    if current().class().is_realtime() {
        return 0;
    }
    current().thread.as_ref().map_or(0, |thread| thread.attributes.slack())
}
