//! How many tasks run, wait for a CPU or sleep where no signal wakes them, on average over 1, 5 and 15 minutes: /proc/loadavg, sysinfo(2).
//!
//! Each sample weighs less from the next one on, e^(-5/60) of it after 5 s for the shortest average, as on Linux. Since a sum of such averages is the average of
//! the sum, each CPU keeps those of its own tasks, and who asks adds up. A CPU takes samples at its ticks. One that idles has none, and nothing
//! changes there meanwhile: it makes up for them when it ticks again, and who asks before that does the same on a copy.
//!
//! CountLocal: a CPU writes its own averages alone.
#![forbid(unsafe_code)]

use super::{cpustat, runqueue};
use crate::arch;
use sync::protocol::sequence::{Sequence, Word};
use sync::{CpuId, per_cpu};

/// Time between samples, ns.
const PERIOD: u64 = 5_000_000_000;
/// What a task counts in an average.
const ONE: i64 = 1 << 20;
/// What is left of a sample after a period, of 2^32: e^(-5/60), e^(-5/300), e^(-5/900).
const KEEPS: [i64; 3] = [3_951_461_462, 4_223_979_396, 4_271_172_345];
/// How often a reader looks again.
const TRIES: u32 = 1 << 10;

/// Averages, and when the next sample is due.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Averages {
    due: u64,
    of: [i64; 3],
}

/// What is counted of a CPU.
#[derive(Clone, Copy)]
struct Tasks {
    /// Those that sleep where no signal wakes them.
    blocked: i64,
    /// Those that run or wait.
    running: i64,
}

/// `keep` to the power of `n`, of 2^32.
#[expect(clippy::arithmetic_side_effects, reason = "factors of at most 2^32")]
fn power(keep: i64, mut n: u64) -> i64 {
    let (mut result, mut factor) = (1i128 << 32, i128::from(keep));
    while n > 0 {
        if n & 1 == 1 {
            result = (result * factor) >> 32;
        }
        factor = (factor * factor) >> 32;
        n >>= 1;
    }
    result as i64
}

impl Averages {
    /// Takes `n` samples of `active`, which are `ONE` a task.
    #[expect(clippy::arithmetic_side_effects, reason = "as many tasks as fit in memory")]
    fn take(&mut self, n: u64, active: i64) {
        for (average, keep) in self.of.iter_mut().zip(KEEPS) {
            let kept = power(keep, n);
            let sum = i128::from(*average) * i128::from(kept)
                + i128::from(active) * ((1i128 << 32) - i128::from(kept));
            *average = ((sum + (1 << 31)) >> 32) as i64;
        }
    }

    /// Takes the samples that are due, of which all but the last were of a CPU that idled. True: there were some.
    #[expect(clippy::arithmetic_side_effects, reason = "now is not before due, and a period is not zero")]
    fn catch_up(&mut self, now: u64, tasks: impl FnOnce() -> Tasks) -> bool {
        if now < self.due {
            return false;
        }
        let Tasks { blocked, running } = tasks();
        let missed = (now - self.due) / PERIOD;
        self.take(missed, blocked.saturating_mul(ONE));
        self.take(1, blocked.saturating_add(running).saturating_mul(ONE));
        self.due += (missed + 1) * PERIOD;
        true
    }
}

/// On a line of its own: who asks takes no other from the CPU.
#[repr(align(64))]
struct Own {
    sequence: Sequence,
    due: Word,
    of: [Word; 3],
}

impl Own {
    fn load(&self) -> Averages {
        Averages { due: self.due.load(), of: self.of.each_ref().map(|word| word.load().cast_signed()) }
    }

    fn read(&self) -> Averages {
        for _ in 0..TRIES {
            if let Some(averages) = self.sequence.read(|| self.load()) {
                return averages;
            }
            core::hint::spin_loop();
        }
        self.load()
    }
}

per_cpu! {
    static OWN: Own = Own {
        sequence: Sequence::new(),
        due: Word::new(),
        of: [const { Word::new() }; 3],
    };
}

/// Those of `cpu` now.
fn tasks_of(cpu: CpuId) -> Tasks {
    let load = runqueue::load_of(cpu);
    Tasks {
        blocked: cpustat::blocked(cpu),
        running: i64::from(load.waiting).saturating_add(i64::from(!load.idle)),
    }
}

/// A tick of this CPU, in a thread's context.
#[inline]
pub(super) fn tick(now: u64) {
    let own = OWN.this();
    if now >= own.due.load() {
        sample(own, now);
    }
}

#[cold]
fn sample(own: &Own, now: u64) {
    let here = sync::cpu_id();
    let mut averages = own.load();
    averages.catch_up(now, || tasks_of(here));
    own.sequence.write(|| {
        own.due.store(averages.due);
        for (word, average) in own.of.iter().zip(averages.of) {
            word.store(average.cast_unsigned());
        }
    });
}

/// The three averages, in units of 1/65536 of a task.
pub fn load_averages() -> [u64; 3] {
    let now = arch::time::now();
    let mut sum = [0i64; 3];
    for cpu in 0..sync::cpus() {
        let mut averages = OWN.of(cpu).read();
        averages.catch_up(now, || tasks_of(cpu));
        for (sum, average) in sum.iter_mut().zip(averages.of) {
            *sum = sum.saturating_add(average);
        }
    }
    sum.map(|average| average.max(0).cast_unsigned() >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of `ONE` after `seconds`, by the definition.
    fn left(seconds: f64, minutes: f64) -> f64 {
        (-seconds / (minutes * 60.0)).exp()
    }

    #[test]
    fn each_average_comes_as_near_as_its_time_says() {
        let mut averages = Averages { due: PERIOD, of: [0; 3] };
        for second in 1..=120 {
            averages.catch_up(second * 1_000_000_000, || Tasks { blocked: 0, running: 3 });
        }
        for (average, minutes) in averages.of.into_iter().zip([1.0, 5.0, 15.0]) {
            let expected = 3.0 * (1.0 - left(120.0, minutes));
            assert!((average as f64 / ONE as f64 - expected).abs() < 0.001, "{average} is not {expected}");
        }
    }

    #[test]
    fn samples_that_an_idle_cpu_missed_are_made_up_for() {
        let mut stepwise = Averages { due: PERIOD, of: [5 * ONE; 3] };
        let mut late = stepwise;
        for n in 1..=99 {
            stepwise.catch_up(n * PERIOD, || Tasks { blocked: 2, running: 0 });
        }
        stepwise.catch_up(100 * PERIOD, || Tasks { blocked: 2, running: 4 });
        assert!(late.catch_up(100 * PERIOD + 1, || Tasks { blocked: 2, running: 4 }));
        assert_eq!(late.due, stepwise.due);
        for (a, b) in late.of.into_iter().zip(stepwise.of) {
            assert!(a.abs_diff(b) < 200, "{a} {b}");
        }
        assert!(!late.catch_up(101 * PERIOD - 1, || Tasks { blocked: 2, running: 4 }), "none is due");
    }

    #[test]
    fn sums_over_cpus_are_the_average_of_the_sum() {
        // One CPU's sleepers are woken by another.
        let (mut a, mut b, mut all) = (Averages::default(), Averages::default(), Averages::default());
        for n in 1..=60 {
            a.catch_up(n * PERIOD, || Tasks { blocked: n as i64, running: 1 });
            b.catch_up(n * PERIOD, || Tasks { blocked: -(n as i64) / 2, running: 0 });
            all.catch_up(n * PERIOD, || Tasks { blocked: n as i64 - n as i64 / 2, running: 1 });
        }
        for i in 0..3 {
            assert!((a.of[i] + b.of[i]).abs_diff(all.of[i]) < 200);
        }
    }

    #[test]
    fn a_day_without_a_sample_leaves_nothing() {
        let mut averages = Averages { due: PERIOD, of: [1000 * ONE; 3] };
        averages.catch_up(24 * 3600 * 1_000_000_000, || Tasks { blocked: 0, running: 0 });
        assert_eq!(averages.of, [0; 3]);
    }
}
