//! How urgent a task is of those that go before all fair ones.
#![forbid(unsafe_code)]

use super::super::policy::Class;

/// A priority, 1 to 99; or above all those how early a deadline is. 0: it is a fair one. Of 63 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rank(u64);

const HIGHEST: u64 = u64::MAX >> 1;
/// The lowest rank of a deadline.
const DEADLINES: u64 = Class::DEADLINES as u64;

impl Rank {
    pub const NONE: Rank = Rank(0);

    pub fn of_priority(priority: u32) -> Self {
        Self(u64::from(priority).min(DEADLINES - 1))
    }

    /// Of a deadline, on the monotonic clock, ns.
    pub fn of_deadline(at: u64) -> Self {
        Self(HIGHEST.saturating_sub(at).max(DEADLINES))
    }

    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    pub fn has_deadline(self) -> bool {
        self.0 >= DEADLINES
    }

    /// As `Class::priority` has it.
    pub fn priority(self) -> u32 {
        self.0.min(DEADLINES) as u32
    }

    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub fn from_word(word: u64) -> Self {
        Self(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_deadline_goes_before_all_priorities_and_an_early_one_before_a_late_one() {
        let late = Rank::of_deadline(u64::MAX);
        assert!(Rank::of_priority(99) < late && late < Rank::of_deadline(5_000_000_000));
        assert!(Rank::of_deadline(5_000_000_000) < Rank::of_deadline(4_999_999_999));
        assert!(Rank::NONE < Rank::of_priority(1) && Rank::NONE.is_none());
        assert_eq!([late, Rank::of_deadline(0), Rank::of_priority(7)].map(Rank::priority), [100, 100, 7]);
        assert_eq!(Rank::of_deadline(0).word() >> 63, 0);
    }
}
