//! How a cost grows with N, from a few figures.
//!
//! N grows tenfold from figure to figure. Where each thing costs something, the last step adds ten times what the step before it added;
//! where a tree is searched, it adds the same or nothing. Between these a growth is told by what a step adds.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// In the order of better to worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Growth {
    #[serde(rename = "flat")]
    Flat,
    /// Less than with each thing: a tree's depth, or a step that comes once.
    #[serde(rename = "log n")]
    Log,
    #[serde(rename = "n")]
    Linear,
    #[serde(rename = "n²")]
    Quadratic,
}

/// How much a flat cost may vary: so many instructions, or such a part of the least.
const STEADY: f64 = 150.0;
const STEADY_PART: f64 = 0.05;
/// A step that adds less is no walk, but one more level of a tree.
const LEVEL: f64 = 256.0;
/// Between what a step adds when N grows tenfold: 1 for a logarithm, 10 for each thing, 100 for each pair.
const LINEAR: f64 = 4.0;
const QUADRATIC: f64 = 40.0;

impl Growth {
    pub fn name(self) -> &'static str {
        match self {
            Growth::Flat => "flat",
            Growth::Log => "log n",
            Growth::Linear => "n",
            Growth::Quadratic => "n²",
        }
    }

    /// From pairs of N and cost, N ascending. None without two.
    pub fn of(figures: &[(u32, f64)]) -> Option<Growth> {
        let (&(_, first), rest) = figures.split_first().filter(|(_, rest)| !rest.is_empty())?;
        let least = figures.iter().map(|&(_, cost)| cost).fold(first, f64::min);
        let steady = STEADY.max(least * STEADY_PART);
        // A first use may cost more than all that follow, and a cost may fall: only what rises above one before it counts.
        let rises = rest.iter().scan(first, |before, &(_, cost)| {
            let rise = cost - *before;
            *before = before.min(cost);
            Some(rise)
        });
        if rises.into_iter().all(|rise| rise <= steady) {
            return Some(Growth::Flat);
        }
        let steps: Vec<f64> = figures.windows(2).filter_map(step).collect();
        let (&last, before) = steps.split_last()?;
        let before = before.iter().copied().fold(0.0, f64::max);
        Some(if last < LEVEL || (before > steady && last < LINEAR * before) {
            Growth::Log
        } else if before > steady && last >= QUADRATIC * before {
            Growth::Quadratic
        } else {
            Growth::Linear
        })
    }
}

fn step(pair: &[(u32, f64)]) -> Option<f64> {
    let [(_, one), (_, other)] = pair else { return None };
    Some(other - one)
}

/// What each further thing costs, between the last two figures.
pub fn each(figures: &[(u32, f64)]) -> f64 {
    match figures {
        [.., (few, one), (many, other)] if many > few => (other - one) / f64::from(many - few),
        _ => 0.0,
    }
}

/// Room for what each thing costs, before it is worse than another kernel's.
const DEARER: f64 = 1.5;

/// Does the cost grow faster than the other one? A tree that is searched in less than the other takes among the most is none the worse.
pub fn worse(own: &[(u32, f64)], other: &[(u32, f64)]) -> bool {
    let below =
        matches!((own.last(), other.last()), (Some((n, own)), Some((of, other))) if n == of && own <= other);
    match (Growth::of(own), Growth::of(other)) {
        (Some(Growth::Log), Some(_)) if below => false,
        (Some(ours), Some(theirs)) if ours == theirs => {
            ours >= Growth::Linear && each(own) > DEARER * each(other)
        }
        (Some(ours), Some(theirs)) => ours > theirs,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(cost: impl Fn(f64) -> f64) -> Vec<(u32, f64)> {
        [10, 100, 1000, 10000].map(|n| (n, cost(f64::from(n)))).to_vec()
    }

    #[test]
    fn growth_is_told_from_four_figures() {
        let of = |cost: &dyn Fn(f64) -> f64| Growth::of(&figures(cost)).unwrap();
        assert_eq!(of(&|_| 26_000.0), Growth::Flat);
        assert_eq!(of(&|n| 26_000.0 + 300.0 * n.log10()), Growth::Flat, "within the twentieth part");
        assert_eq!(of(&|n| 300.0 + 100.0 * n.log10()), Growth::Log);
        assert_eq!(of(&|n| 26_000.0 + n), Growth::Linear);
        assert_eq!(of(&|n| 300.0 + n / 20.0), Growth::Linear, "a bitmap");
        assert_eq!(of(&|n| 300.0 + n * n / 1000.0), Growth::Quadratic);
    }

    #[test]
    fn a_step_that_comes_once_is_no_walk() {
        let of =
            |costs: [f64; 4]| Growth::of(&[10, 100, 1000, 10000].into_iter().zip(costs).collect::<Vec<_>>());
        assert_eq!(of([300.0, 300.0, 300.0, 500.0]), Some(Growth::Log), "a tree one deeper");
        assert_eq!(of([300.0, 600.0, 600.0, 600.0]), Some(Growth::Log));
        assert_eq!(of([300.0, 300.0, 300.0, 900.0]), Some(Growth::Linear), "so much is more than a level");
        assert_eq!(of([900.0, 300.0, 310.0, 305.0]), Some(Growth::Flat), "a first use");
        assert_eq!(of([3460.0, 3590.0, 3130.0, 3140.0]), Some(Growth::Flat), "it falls");
        assert_eq!(of([3460.0, 3590.0, 3130.0, 3600.0]), Some(Growth::Linear), "it falls and rises");
    }

    #[test]
    fn three_figures_do_and_one_does_not() {
        assert_eq!(Growth::of(&[(10, 310.0), (100, 400.0), (1000, 1300.0)]), Some(Growth::Linear));
        assert_eq!(Growth::of(&[(10, 310.0), (100, 312.0), (1000, 308.0)]), Some(Growth::Flat));
        assert_eq!(Growth::of(&[(10, 310.0)]), None);
    }

    #[test]
    fn worse_is_to_grow_faster_or_to_pay_more_for_each() {
        let (flat, cheap, dear) =
            (figures(|_| 500.0), figures(|n| 500.0 + 4.0 * n), figures(|n| 500.0 + 9.0 * n));
        assert!(worse(&cheap, &flat) && worse(&dear, &cheap));
        let tree = |all: f64| figures(|n| all + 100.0 * n.log10());
        assert!(worse(&tree(200.0), &flat) && !worse(&tree(50.0), &flat), "by what the tree costs");
        assert!(!worse(&flat, &cheap) && !worse(&cheap, &dear) && !worse(&cheap, &cheap));
    }
}
