//! What the administrator sets of real-time tasks: /proc/sys/kernel/sched_rr_timeslice_ms, sched_rt_period_us, sched_rt_runtime_us.
//!
//! The last two bound what tasks with deadlines may ask for, on Linux 6.12 as here; what is left to fair tasks (`throttle`) does not go by them.
#![forbid(unsafe_code)]

use super::super::deadline;
use crate::errno::{Errno, Result};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How long a task of SCHED_RR runs while others of its priority wait, ms: Linux's.
const FIRST_SLICE: u64 = 100;
const NS_PER_MS: u64 = 1_000_000;

static SLICE: AtomicU64 = AtomicU64::new(FIRST_SLICE);
/// The period in the upper half, and the run time in the lower one, which is signed, so that both are read at once; in microseconds.
static BOUND: AtomicU64 = AtomicU64::new(word(1_000_000, 950_000));

const fn word(period: i32, runtime: i32) -> u64 {
    (period.cast_unsigned() as u64) << 32 | runtime.cast_unsigned() as u64
}

/// How long a task of SCHED_RR runs while others of its priority wait, ns.
pub fn slice() -> u64 {
    SLICE.load(Relaxed).saturating_mul(NS_PER_MS)
}

/// As `slice`, in ms; nothing or less: what it was at first.
pub fn set_slice(ms: i32) {
    SLICE.store(u64::try_from(ms).ok().filter(|ms| *ms != 0).unwrap_or(FIRST_SLICE), Relaxed);
}

/// Period and run time, in microseconds; a run time of -1: no bound.
pub fn bound() -> (i32, i32) {
    let word = BOUND.load(Relaxed);
    (((word >> 32) as u32).cast_signed(), (word as u32).cast_signed())
}

/// Changes both as `change` does.
///
/// # Errors
/// EINVAL: they do not go together; EBUSY: no run time at all, as on Linux, or less than tasks with deadlines have been promised.
pub fn set_bound(change: impl Fn((i32, i32)) -> (i32, i32)) -> Result {
    let old = bound();
    let (period, runtime) = change(old);
    if period <= 0 || runtime < -1 || runtime > period {
        return Err(Errno::EINVAL);
    }
    if runtime == 0 {
        return Err(Errno::EBUSY);
    }
    // Of two who write at once one has written before the other.
    deadline::allows_bound(period, runtime, || BOUND.store(word(period, runtime), Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_time_longer_than_its_period_is_refused() {
        assert_eq!(bound(), (1_000_000, 950_000));
        assert_eq!(set_bound(|(period, _)| (period, period + 1)), Err(Errno::EINVAL));
        assert_eq!(set_bound(|(_, runtime)| (0, runtime)), Err(Errno::EINVAL));
        assert_eq!(set_bound(|(period, _)| (period, -2)), Err(Errno::EINVAL));
        assert_eq!(set_bound(|(period, _)| (period, 0)), Err(Errno::EBUSY));
        assert_eq!(bound(), (1_000_000, 950_000));
        assert_eq!(set_bound(|(period, _)| (period, -1)), Ok(()));
        assert_eq!(bound(), (1_000_000, -1));
        assert_eq!(set_bound(|_| (1_000_000, 950_000)), Ok(()));
    }
}
