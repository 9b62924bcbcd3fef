//! What each of several busy tasks is due: CPU time by weight, at most one CPU each.
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The weight of nice 0.
const UNIT: f64 = 1024.0;
/// Between a nice value and the next: a tenth of the CPU more for one of two tasks, as setpriority's users know it. Linux's table of weights
/// is this, rounded.
const STEP: f64 = 1.25;

/// Nice values that tasks get in turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Nices(Vec<i32>);

impl Nices {
    /// Values by colons: 0:5:10.
    pub fn parse(text: &str) -> Result<Self, String> {
        let values: Result<Vec<i32>, _> = text.split(':').map(i32::from_str).collect();
        match values {
            Ok(values) if values.iter().all(|nice| (-20..=19).contains(nice)) => Ok(Self(values)),
            _ => Err(format!("'{text}' is no list of nice values (-20 to 19) by colons")),
        }
    }
}

impl TryFrom<String> for Nices {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Nices> for String {
    fn from(nices: Nices) -> Self {
        nices.to_string()
    }
}

impl fmt::Display for Nices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(i32::to_string).collect();
        f.write_str(&words.join(":"))
    }
}

pub fn weight(nice: i32) -> f64 {
    UNIT / STEP.powi(nice)
}

/// In CPUs, in the order of `weights`: max-min fair. Whoever would get more than one CPU gets one, and the others share the rest.
pub fn dues(weights: &[f64], cpus: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let weight = |at: usize| weights.get(at).copied().unwrap_or(0.0);
    order.sort_by(|&one, &other| weight(other).total_cmp(&weight(one)));
    let mut dues = vec![0.0; weights.len()];
    let (mut left, mut sum) = (cpus, weights.iter().sum::<f64>());
    // Heaviest first: once one gets less than a CPU, so do all after it.
    for at in order {
        let due = if sum > 0.0 { (left * weight(at) / sum).clamp(0.0, 1.0) } else { 0.0 };
        if let Some(place) = dues.get_mut(at) {
            *place = due;
        }
        left -= due;
        sum -= weight(at);
    }
    dues
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(own: &[f64], expected: &[f64]) {
        assert_eq!(own.len(), expected.len());
        for (own, expected) in own.iter().zip(expected) {
            assert!((own - expected).abs() < 1e-3, "{own} instead of {expected}");
        }
    }

    #[test]
    fn weights_are_those_of_the_table_but_for_its_rounding() {
        for (nice, listed) in
            [(0, 1024.0), (1, 820.0), (5, 335.0), (10, 110.0), (19, 15.0), (-5, 3121.0), (-20, 88761.0)]
        {
            assert!((weight(nice) / listed - 1.0).abs() < 0.02, "nice {nice}: {}", weight(nice));
        }
    }

    #[test]
    fn equal_tasks_share_evenly_and_few_have_a_cpu_each() {
        near(&dues(&[1.0; 3], 2.0), &[2.0 / 3.0; 3]);
        near(&dues(&[1.0; 20], 2.0), &[0.1; 20]);
        near(&dues(&[1.0; 2], 4.0), &[1.0; 2]);
        near(&dues(&[], 4.0), &[]);
    }

    #[test]
    fn what_a_heavy_task_cannot_use_goes_to_the_others_by_weight() {
        // By weight alone the first would have 1.39 of two CPUs.
        near(&dues(&[1024.0, 335.0, 110.0], 2.0), &[1.0, 335.0 / 445.0, 110.0 / 445.0]);
        // The second then reaches one as well.
        near(&dues(&[1024.0, 1.0, 512.0], 2.5), &[1.0, 0.5, 1.0]);
        near(&dues(&[110.0, 1024.0, 335.0, 1024.0], 3.0), &[110.0 / 445.0, 1.0, 335.0 / 445.0, 1.0]);
    }

    #[test]
    fn all_of_the_cpus_is_given_away() {
        for (tasks, cpus) in [(6, 4.0), (10, 4.0), (120, 48.0), (480, 47.9)] {
            let weights: Vec<f64> = (0..tasks).map(|at| weight([0, 5, 10][at % 3])).collect();
            let dues = dues(&weights, cpus);
            assert!((dues.iter().sum::<f64>() - cpus).abs() < 1e-6);
            assert!(dues.iter().all(|&due| due > 0.0 && due <= 1.0));
        }
    }

    #[test]
    fn nice_values_are_read_by_colons() {
        assert_eq!(Nices::parse("0:5:10").unwrap().to_string(), "0:5:10");
        assert_eq!(Nices::parse("-3").unwrap(), Nices(vec![-3]));
        assert!(Nices::parse("0:").is_err() && Nices::parse("").is_err() && Nices::parse("20").is_err());
    }
}
