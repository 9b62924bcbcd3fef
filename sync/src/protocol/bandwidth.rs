//! What a group of tasks may still run in this period (a quota, as cpu.max gives one): CPUs take it in slices, and who finds nothing waits for the next period.
//!
//! ```text
//!   the word:   number of the period (36 bits) | what is left of it, us (28 bits)
//!
//!   a CPU in period 7 finds     7 | 3000    takes up to 3000        7 | 0
//!                               6 | 900     a new quota             7 | quota - taken
//!                               8 | 5000    its clock is behind     8 | 5000 - taken
//! ```
//!
//! - Periods begin at multiples of their length, so nobody has to begin one, and no timer adds anything: who comes first in a period finds the word of an older one.
//! - What is taken is taken by an exchange (`bandwidth.take`): in one period no more than the quota is.
//! - Clocks of CPUs may differ a little, and so may who looked at his before a period began and comes after others. He takes from the newer period
//!   (`bandwidth.behind`): else each who comes so would begin a period anew, and the next one again.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU64, Ordering::Relaxed, const_new, step};

/// Bits of what is left.
const BITS: u32 = 28;
/// The most that may be had in a period, us: 268 seconds, more than 256 CPUs have in the longest.
pub const MOST: u64 = (1 << BITS) - 1;
/// The number of a period is taken modulo this.
pub const PERIODS: u64 = 1 << (u64::BITS - BITS);
/// So many periods a clock may be behind.
pub const BEHIND: u64 = 1024;

/// See the head of the file.
#[derive(Debug)]
pub struct Pool(AtomicU64);

impl Pool {
    const_new! {
        pub fn new() -> Self {
            Pool(AtomicU64::new(0))
        }
    }

    /// Takes up to `most` us of what is left in the period of this number, whose whole is `quota` us; 0: nothing is left.
    pub fn take(&self, period: u64, quota: u64, most: u64) -> u64 {
        let mut word = self.0.load(Relaxed);
        loop {
            let (newest, left) = (word >> BITS, word & MOST);
            let ahead = newest.wrapping_sub(period) % PERIODS;
            let is_newest = ahead == 0 || ahead < BEHIND && step("bandwidth.behind");
            let (number, left) = if is_newest { (newest, left) } else { (period % PERIODS, quota.min(MOST)) };
            let taken = left.min(most);
            if taken == 0 {
                return 0;
            }
            let rest = number << BITS | left.wrapping_sub(taken);
            if !step("bandwidth.take") {
                self.0.store(rest, Relaxed);
                return taken;
            }
            match self.0.compare_exchange_weak(word, rest, Relaxed, Relaxed) {
                Ok(_) => return taken,
                Err(now) => word = now,
            }
        }
    }

    /// The period of this number begins anew, with `quota` us: the quota has been changed.
    pub fn begin(&self, period: u64, quota: u64) {
        self.0.store((period % PERIODS) << BITS | quota.min(MOST), Relaxed);
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}
