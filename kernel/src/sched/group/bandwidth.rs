//! How much of the CPUs' time a group may have in a period, however much is free: a quota, as cpu.max of Linux's cgroups gives one.
//!
//! CPUs take the quota in slices, as the group's tasks run there (`sync::protocol::bandwidth`). A CPU's cell keeps what it has left of a slice for later periods, so a group
//! may run for its quota and a slice for each CPU. Cells are told the run time of tasks at ticks, at sleeps and on the way to user mode, and what was too much is taken off
//! what comes next: so over many periods the quota is exact.
//!
//! Who finds nothing left sleeps until the next period begins, on its way to user mode alone, where it holds no lock (`runqueue::quota`). Tasks of real time have no quota.
#![forbid(unsafe_code)]

use crate::errno::{EINVAL, Result};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::protocol::bandwidth::{MOST, Pool};

/// What a CPU takes at a time, us.
const SLICE: u64 = 5_000;
/// The shortest quota and the shortest period, us, and the longest period: those of cpu.max.
const SHORTEST: u64 = 1_000;
const LONGEST_PERIOD: u64 = 1_000_000;

const NS_PER_US: u64 = 1_000;

/// So much run time in each period, us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    quota: u32,
    period: u32,
}

impl Quota {
    /// # Errors
    /// EINVAL: the quota is not between 1,000 and 268,435,455 us, or the period not between 1,000 and 1,000,000.
    pub fn new(quota: u64, period: u64) -> Result<Self> {
        if !(SHORTEST..=MOST).contains(&quota) || !(SHORTEST..=LONGEST_PERIOD).contains(&period) {
            return Err(EINVAL);
        }
        let both = u32::try_from(quota).ok().zip(u32::try_from(period).ok());
        both.map(|(quota, period)| Self { quota, period }).ok_or(EINVAL)
    }

    pub fn quota_us(self) -> u32 {
        self.quota
    }

    pub fn period_us(self) -> u32 {
        self.period
    }

    fn word(self) -> u64 {
        u64::from(self.quota) << 32 | u64::from(self.period)
    }

    fn period_ns(self) -> u64 {
        u64::from(self.period).saturating_mul(NS_PER_US).max(1)
    }

    /// The number of the period at `now`, ns.
    fn number(self, now: u64) -> u64 {
        now / self.period_ns()
    }

    /// When the next period begins, ns.
    pub fn next(self, now: u64) -> u64 {
        self.number(now).saturating_add(1).saturating_mul(self.period_ns())
    }
}

/// See the head of the file.
pub struct Bandwidth {
    /// The quota (`Quota::word`); 0: there is none.
    quota: AtomicU64,
    pool: Pool,
    /// How often a task had to wait, and for how long in all, ns. Written by those who have waited.
    throttles: AtomicU64,
    throttled: AtomicU64,
}

impl Bandwidth {
    pub(super) const fn new() -> Self {
        Self {
            quota: AtomicU64::new(0),
            pool: Pool::new(),
            throttles: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
        }
    }

    #[inline]
    pub fn is_limited(&self) -> bool {
        self.quota.load(Relaxed) != 0
    }

    pub fn quota(&self) -> Option<Quota> {
        let word = self.quota.load(Relaxed);
        (word != 0).then_some(Quota { quota: (word >> 32) as u32, period: word as u32 })
    }

    /// The period that goes on begins anew.
    pub(super) fn set(&self, quota: Option<Quota>, now: u64) {
        if let Some(quota) = quota {
            self.pool.begin(quota.number(now), u64::from(quota.quota));
        }
        self.quota.store(quota.map_or(0, Quota::word), Relaxed);
    }

    /// A slice of the quota, ns, and what a cell that has run for too long `owes`; less than that, and in the end 0, where less is left.
    pub(super) fn take(&self, quota: Quota, owes: u64, now: u64) -> u64 {
        let most = owes.div_ceil(NS_PER_US).saturating_add(SLICE);
        self.pool.take(quota.number(now), u64::from(quota.quota), most).saturating_mul(NS_PER_US)
    }

    /// A task has waited for `ns`.
    pub fn waited(&self, ns: u64) {
        self.throttles.fetch_add(1, Relaxed);
        self.throttled.fetch_add(ns, Relaxed);
    }

    /// How often tasks had to wait, and for how long in all, ns.
    pub fn waits(&self) -> (u64, u64) {
        (self.throttles.load(Relaxed), self.throttled.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_have_the_bounds_of_cpu_max() {
        for (quota, period) in [(999, 100_000), (MOST + 1, 100_000), (1_000, 999), (1_000, 1_000_001), (0, 0)]
        {
            assert_eq!(Quota::new(quota, period), Err(EINVAL));
        }
        for (quota, period) in [(1_000, 1_000), (1_000, 1_000_000), (MOST, 100_000)] {
            let made = Quota::new(quota, period).unwrap();
            assert_eq!((u64::from(made.quota_us()), u64::from(made.period_us())), (quota, period));
        }
    }

    #[test]
    fn periods_begin_at_multiples_of_their_length() {
        let quota = Quota::new(1_000, 10_000).unwrap();
        assert_eq!(
            [0, 9_999_999, 10_000_000].map(|now| quota.next(now)),
            [10_000_000, 10_000_000, 20_000_000]
        );
    }

    #[test]
    fn what_was_too_much_is_taken_off_what_comes_next() {
        let (bandwidth, quota) = (Bandwidth::new(), Quota::new(8_000, 100_000).unwrap());
        bandwidth.set(Some(quota), 0);
        assert_eq!(bandwidth.take(quota, 2_000_000, 0), 7_000_000);
        assert_eq!(bandwidth.take(quota, 0, 0), 1_000_000);
        assert_eq!(bandwidth.take(quota, 0, 0), 0);
        assert_eq!(bandwidth.take(quota, 0, 100_000_000), 5_000_000);
    }
}
