//! What real-time tasks leave to fair ones: they have at most [`MOST`] of each [`PERIOD`] of a CPU where fair tasks wait, as on Linux 6.12. So no
//! loop of a real-time task takes a CPU from all others.
//!
//! A period begins with the first real-time task that runs after the last one. Where no fair task waits, nobody is held back.
//!
//! Tasks with deadlines count for both, but have a bound of their own, which is reached only where they were promised more than that, or a promise of long ago
//! is made good: they go on while those with priorities are held back, and fair tasks have their part of that time too before the period is over. So neither makes the other late.
#![forbid(unsafe_code)]

/// ns.
const PERIOD: u64 = 1_000_000_000;
const MOST: u64 = 950_000_000;

/// See the head of the file.
pub struct Throttle {
    /// When the period began.
    began: u64,
    /// How long real-time tasks have run in it.
    ran: u64,
}

impl Throttle {
    pub const fn new() -> Self {
        Self { began: 0, ran: 0 }
    }

    /// A real-time task has run for the `ns` before `now`.
    pub fn count(&mut self, now: u64, ns: u64) {
        if self.is_past(now) {
            *self = Self { began: now.saturating_sub(ns.min(PERIOD - 1)), ran: 0 };
        }
        self.ran = self.ran.saturating_add(ns);
    }

    /// Others have run for `ns` while all of these were held back: the period takes so much longer, and by what fair tasks are due of that.
    pub fn postpone(&mut self, ns: u64) {
        self.began =
            self.began.saturating_add(ns.saturating_mul(PERIOD / (PERIOD - MOST)) / (MOST / (PERIOD - MOST)));
    }

    fn is_past(&self, now: u64) -> bool {
        now.saturating_sub(self.began) >= PERIOD
    }

    /// Have real-time tasks had what they may have, so that fair ones go first?
    pub fn holds_back(&self, now: u64) -> bool {
        self.ran >= MOST && !self.is_past(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_loop_has_no_more_than_its_part_of_each_second() {
        let mut throttle = Throttle::new();
        let mut had = 0;
        for tick in 0..10_000 {
            let now = (tick + 1) * MS;
            if !throttle.holds_back(now - MS) {
                throttle.count(now, MS);
                had += 1;
            }
        }
        assert!((9_450..=9_550).contains(&had), "{had} ms of 10 s");
    }

    #[test]
    fn one_that_sleeps_more_than_a_twentieth_is_never_held_back() {
        let mut throttle = Throttle::new();
        for round in 0..1_000 {
            let now = (round + 1) * 10 * MS;
            assert!(!throttle.holds_back(now - 9 * MS));
            throttle.count(now, 9 * MS);
        }
    }
}
