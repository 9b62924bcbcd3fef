//! The share of the processor that a nice value stands for (sched(7)), and run time measured by it.
#![forbid(unsafe_code)]

/// The weight of nice 0 as tasks have it: [`NICE_0`] with more bits, for a small part of a group's weight.
pub const UNIT: u64 = NICE_0 << SHIFT;

/// The weight of nice 0 as it is told.
pub const NICE_0: u64 = 1024;
const SHIFT: u32 = 10;

/// The factor of a task that counts with its own weight: see `sched::group`.
pub const ONE: u64 = 1 << 24;

/// The weight of SCHED_IDLE.
const IDLE: u64 = 3;

const NICES: usize = 40;

/// Weights of the nice values from -20 on, as Linux 6.12 tells them in /proc/PID/sched: each is about 1.25 of the next (sched(7)).
const WEIGHTS: [u64; NICES] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121,
    2501, 1991, 1586, 1277, NICE_0, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

/// The weight of a nice value; of SCHED_IDLE beyond the last.
pub fn weight(rank: i32) -> u64 {
    usize::try_from(rank.saturating_add(20)).ok().and_then(|n| WEIGHTS.get(n)).copied().unwrap_or(IDLE)
}

/// The weight with which a task of a nice value's weight counts that has this factor, in parts of [`ONE`].
#[inline]
pub fn effective(own: u64, factor: u64) -> u64 {
    // A weight has 17 bits, and a factor below 2^40.
    (own.wrapping_mul(factor) >> (ONE.trailing_zeros() - SHIFT)).max(1)
}

/// How far `ns` of run time take the virtual run time of a task of this weight.
#[inline]
pub fn virtual_ns(ns: u64, weight: u64) -> u64 {
    if weight == UNIT { ns } else { ns.saturating_mul(UNIT) / weight.max(1) }
}

/// The run time that takes a task of this weight so far: the inverse.
#[inline]
pub fn real_ns(virtual_ns: u64, weight: u64) -> u64 {
    if weight == UNIT { virtual_ns } else { virtual_ns.saturating_mul(weight) / UNIT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_powers_of_one_and_a_quarter() {
        for nice in -20..=10 {
            let exact = 1024.0 * 0.8f64.powi(nice);
            let off = weight(nice) as f64 / exact - 1.0;
            assert!(off.abs() < 0.02, "nice {nice} is {off} off");
        }
        assert_eq!([-20, -1, 0, 1, 5, 10, 19].map(weight), [88761, 1277, 1024, 820, 335, 110, 15]);
        assert_eq!(weight(26), 3);
        assert_eq!(virtual_ns(1000, effective(weight(5), ONE)), 3056);
        assert_eq!(real_ns(3057, effective(weight(5), ONE)), 1000);
    }

    #[test]
    fn a_small_part_of_a_group_is_still_told_from_another() {
        assert_eq!(effective(weight(0), ONE), UNIT);
        assert_eq!(effective(weight(0), ONE / 10_000), 104);
        assert_eq!(effective(weight(19), ONE / 1_000_000), 1, "nobody weighs nothing");
    }
}
