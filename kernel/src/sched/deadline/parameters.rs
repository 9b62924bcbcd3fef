//! What a program asks for (struct sched_attr): `runtime` in each `period`, by `deadline` after the period's begin.
#![forbid(unsafe_code)]

/// Bandwidths are parts of a CPU, in this unit (BW_UNIT).
pub const UNIT: u64 = 1 << 20;

/// The shortest run time, ns (DL_SCALE).
const SHORTEST: u64 = 1 << 10;

/// Times in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parameters {
    pub runtime: u64,
    pub deadline: u64,
    pub period: u64,
    /// SCHED_FLAG_RECLAIM: it may use what others leave.
    pub reclaims: bool,
    /// SCHED_FLAG_DL_OVERRUN: it is told when it has run for longer than it has said.
    pub is_told: bool,
}

/// Which part of `period` is `runtime`, in [`UNIT`]s, as Linux rounds it.
pub fn ratio(period: u64, runtime: u64) -> u64 {
    u64::try_from((u128::from(runtime) * u128::from(UNIT)).checked_div(u128::from(period)).unwrap_or(0))
        .unwrap_or(u64::MAX)
}

impl Parameters {
    /// As they count, with periods of `least` to `most`: one of 0 is the deadline. None: they do not go together.
    pub fn checked(self, least: u64, most: u64) -> Option<Self> {
        let period = if self.period == 0 { self.deadline } else { self.period };
        let is_ordered = SHORTEST <= self.runtime && self.runtime <= self.deadline && self.deadline <= period;
        (is_ordered && (least..=most).contains(&period)).then_some(Self { period, ..self })
    }

    /// The part of a CPU that it asks for.
    pub fn bandwidth(self) -> u64 {
        ratio(self.period, self.runtime)
    }

    /// Is the deadline before the end of the period?
    pub fn is_constrained(self) -> bool {
        self.deadline < self.period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn checked(runtime: u64, deadline: u64, period: u64) -> Option<Parameters> {
        Parameters { runtime, deadline, period, ..Default::default() }.checked(100_000, 4_194_304_000)
    }

    #[test]
    fn a_run_time_fits_into_the_deadline_and_that_into_the_period() {
        assert!(checked(10 * MS, 20 * MS, 30 * MS).is_some_and(Parameters::is_constrained));
        assert_eq!(
            checked(10 * MS, 20 * MS, 0).map(|p| (p.period, p.is_constrained())),
            Some((20 * MS, false))
        );
        assert_eq!(checked(21 * MS, 20 * MS, 30 * MS), None);
        assert_eq!(checked(10 * MS, 31 * MS, 30 * MS), None);
        assert_eq!(checked(0, 0, 30 * MS), None);
        assert_eq!(checked(1023, MS, MS), None);
        assert!(checked(1024, MS, MS).is_some());
    }

    #[test]
    fn a_period_has_its_bounds() {
        assert_eq!(checked(2000, 99_999, 0), None);
        assert!(checked(2000, 100_000, 0).is_some());
        assert!(checked(2000, 100_000, 4_194_304_000).is_some());
        assert_eq!(checked(2000, 100_000, 4_194_304_001), None);
        assert_eq!(checked(2000, 1 << 63, 0), None);
    }

    #[test]
    fn a_bandwidth_is_a_part_of_the_period() {
        assert_eq!(checked(10 * MS, 20 * MS, 40 * MS).map(Parameters::bandwidth), Some(UNIT / 4));
        assert_eq!(ratio(1_000_000_000, 950_000_000), 996_147);
        assert_eq!(ratio(0, 5), 0);
    }
}
