//! The share of the processor that a nice value stands for (sched(7)), and run time measured by it.
#![forbid(unsafe_code)]

/// The weight of nice 0.
pub const UNIT: u64 = 1024;

/// The weight of SCHED_IDLE.
const IDLE: u64 = 3;

const NICES: usize = 40;

/// Weights of the nice values from -20 on: each step is a factor of 1.25 (sched(7)).
const WEIGHTS: [u64; NICES] = {
    let mut weights = [0; NICES];
    let mut n = 0;
    while n < NICES {
        // In units of 2^-24, so that nineteen steps round once.
        let mut weight = UNIT << 24;
        let mut step = n.abs_diff(20);
        while step > 0 {
            weight = if n < 20 { weight / 4 * 5 } else { weight / 5 * 4 };
            step -= 1;
        }
        weights[n] = (weight + (1 << 23)) >> 24;
        n += 1;
    }
    weights
};

/// The weight of a nice value; of SCHED_IDLE beyond the last.
pub fn weight(rank: i32) -> u64 {
    usize::try_from(rank.saturating_add(20)).ok().and_then(|n| WEIGHTS.get(n)).copied().unwrap_or(IDLE)
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
        assert_eq!([-20, -1, 0, 1, 5, 10, 19].map(weight), [88818, 1280, 1024, 819, 336, 110, 15]);
        assert_eq!(weight(26), 3);
        assert_eq!(virtual_ns(1000, weight(5)), 3047);
        assert_eq!(real_ns(3048, weight(5)), 1000);
    }
}
