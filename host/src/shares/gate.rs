//! `darter shares --gate`: is a share further from its due, or the sleeper later, than tests/gate/shares.toml allows?
//!
//! A run repeats exactly, but any change of the kernel, or a window that is a little longer, makes another of it: one task among many, or one
//! nap in a hundred, meets another moment. So what seems worse is looked at twice more, and the median is held against the bound.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::table::GOAL;
use super::{Case, Shown};

const HEAD: &str = "\
# How far from its due the share of a task may be, in per cent, and how late the sleeper may wake, in microseconds, at worst (late_us) and in 99 of
# 100 naps (usual_us), by CPUs, tasks for each CPU and nice values. Read by `darter shares --gate`, written by `darter shares --gate --update`.

";
/// Above what was measured when the file was written, so much is still within the bound: another kernel meets other moments.
const ROOM: f64 = 1.3;
/// No sleeper is held to less: at worst it wakes as somebody is nearly through, and waits for a tick, and then once more. Whether it meets such a moment at all
/// hangs on a few instructions.
const LEAST_US: f64 = 10600.0;
/// The same in 99 of 100 naps: it waits for the end of a turn.
const LEAST_USUAL_US: f64 = 1000.0;
/// Below such a part of the bound it may be taken back.
const FAR_BELOW: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    share: f64,
    late_us: f64,
    usual_us: f64,
}

/// By [`Case::key`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Bounds(BTreeMap<String, Bound>);

#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    pub worse: Vec<String>,
    /// May be taken back.
    pub ask: Vec<String>,
}

pub fn file(root: &Path) -> PathBuf {
    root.join("tests/gate/shares.toml")
}

/// All looks at one case.
pub struct Looks {
    pub case: Case,
    pub shown: Vec<Shown>,
}

impl Looks {
    /// What was measured, case by case; several of one key are looks at one.
    pub fn each(cases: &[Case], mut shown: &[Shown]) -> Vec<Looks> {
        let mut all = Vec::new();
        for cases in cases.chunk_by(|one, other| one.key() == other.key()) {
            let (own, rest) = shown.split_at(cases.len().min(shown.len()));
            shown = rest;
            all.extend(cases.first().map(|case| Looks { case: case.clone(), shown: own.to_vec() }));
        }
        all
    }

    /// The case of the next look: a window that is a hundredth longer each time.
    pub fn next(&self) -> Case {
        Case { seconds: self.case.seconds * (1.0 + self.shown.len() as f64 / 100.0), ..self.case.clone() }
    }

    /// The medians, in per cent and microseconds. None: a look failed.
    fn figures(&self) -> Option<[f64; 3]> {
        let each = self.shown.iter().enumerate();
        let scaled: Vec<Shown> =
            each.map(|(look, shown)| shown.scaled(1.0 / (1.0 + look as f64 / 100.0))).collect();
        let shown = Shown::median(&self.case, &scaled);
        let share = shown.worst(&self.case).filter(|_| shown.failed.is_none())?.deviation().abs();
        Some([share, shown.ticker.worst_us as f64, shown.ticker.p99_us as f64])
    }
}

impl Bounds {
    /// None where the file is not there.
    pub fn read(file: &Path) -> Result<Bounds> {
        match std::fs::read_to_string(file) {
            Ok(text) => toml::from_str(&text).with_context(|| file.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Bounds::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    pub fn write(&self, file: &Path) -> Result<()> {
        std::fs::write(file, self.text()).with_context(|| format!("cannot write {}", file.display()))
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (key, Bound { share, late_us, usual_us }) in &self.0 {
            let _ = writeln!(
                text,
                "{key:?} = {{ share = {share:?}, late_us = {late_us:?}, usual_us = {usual_us:?} }}"
            );
        }
        text
    }

    /// Does a look seem worse than the bounds?
    pub fn suspects(&self, looks: &Looks) -> bool {
        !self.judge(std::slice::from_ref(looks)).worse.is_empty()
    }

    pub fn judge(&self, all: &[Looks]) -> Verdict {
        let mut verdict = Verdict::default();
        for looks in all {
            let key = looks.case.key();
            let (Some(figures), Some(bound)) = (looks.figures(), self.0.get(&key)) else {
                let failed = looks.shown.iter().find_map(|shown| shown.failed.as_deref());
                verdict.worse.push(format!("{key}: {}", failed.unwrap_or("there is no bound: --update")));
                continue;
            };
            let bounds = [
                (bound.share, "% from its due", GOAL),
                (bound.late_us, "us late at worst", LEAST_US),
                (bound.usual_us, "us late in 99 of 100 naps", LEAST_USUAL_US),
            ];
            for (figure, (bound, what, least)) in figures.into_iter().zip(bounds) {
                let text = format!("{key}: {figure:.1} {what}, the bound is {bound}");
                if figure > bound {
                    verdict.worse.push(text);
                } else if figure < bound * FAR_BELOW && bound > least {
                    verdict.ask.push(text);
                }
            }
        }
        verdict
    }

    /// Bounds from what was measured; other rows stay.
    pub fn update(&mut self, all: &[Looks]) {
        for looks in all {
            let Some([share, late, usual]) = looks.figures() else { continue };
            let roomy = |us: f64, least: f64| ((us * ROOM / 100.0).ceil() * 100.0).max(least);
            let bound = Bound {
                share: (share * ROOM).ceil().max(GOAL),
                late_us: roomy(late, LEAST_US),
                usual_us: roomy(usual, LEAST_USUAL_US),
            };
            self.0.insert(looks.case.key(), bound);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::due::Nices;
    use super::super::{Task, Ticker};
    use super::*;

    fn case(load: f64) -> Case {
        Case { cpus: 2, load, nice: Nices::parse("0").unwrap(), seconds: 4.0 }
    }

    fn shown(seconds: [f64; 3], worst_us: u64) -> Shown {
        let tasks = seconds.map(|seconds| Task { nice: 0, seconds, moves: 0 }).to_vec();
        Shown { tasks, ticker: Ticker { worst_us, p99_us: worst_us / 2, ..Ticker::default() }, failed: None }
    }

    fn looks(load: f64, shown: &[Shown]) -> [Looks; 1] {
        [Looks { case: case(load), shown: shown.to_vec() }]
    }

    #[test]
    fn a_share_or_a_sleeper_beyond_its_bound_fails_and_so_does_a_row_without_one() {
        let mut bounds = Bounds::default();
        let fair = shown([8.0 / 3.0; 3], 150);
        bounds.update(&looks(1.5, std::slice::from_ref(&fair)));
        let read: Bounds = toml::from_str(&bounds.text()).unwrap();
        assert_eq!(read, bounds);
        assert_eq!(read.0["2 CPUs x 1.5, nice 0"], Bound { share: GOAL, late_us: 10600.0, usual_us: 1000.0 });
        assert_eq!(read.judge(&looks(1.5, std::slice::from_ref(&fair))), Verdict::default());
        let unfair = read.judge(&looks(1.5, &[shown([4.0, 2.0, 2.0], 12000)]));
        assert_eq!(unfair.worse.len(), 3, "{unfair:?}");
        assert!(unfair.worse[0].contains("50.0 % from its due, the bound is 10"), "{unfair:?}");
        assert!(read.judge(&looks(2.5, &[fair])).worse[0].contains("no bound"));
        let failed = Shown { failed: Some("hung".into()), ..Shown::default() };
        assert_eq!(read.judge(&looks(1.5, &[failed])).worse, ["2 CPUs x 1.5, nice 0: hung"]);
    }

    #[test]
    fn further_looks_outvote_one_that_met_a_bad_moment_and_no_more() {
        let mut bounds = Bounds::default();
        let (fair, bad) = (shown([8.0 / 3.0; 3], 150), shown([4.0, 2.0, 2.0], 12000));
        bounds.update(&looks(1.5, std::slice::from_ref(&fair)));
        let [first] = looks(1.5, std::slice::from_ref(&bad));
        assert!(bounds.suspects(&first));
        assert_eq!(first.next().seconds, 4.04);
        assert_eq!(bounds.judge(&looks(1.5, &[bad.clone(), fair.clone(), fair.clone()])), Verdict::default());
        assert_eq!(bounds.judge(&looks(1.5, &[bad.clone(), fair.clone(), bad.clone()])).worse.len(), 3);
        let failed = Shown { failed: Some("hung".into()), ..Shown::default() };
        assert_eq!(bounds.judge(&looks(1.5, &[bad, failed, fair])).worse, ["2 CPUs x 1.5, nice 0: hung"]);
    }

    #[test]
    fn a_bound_far_above_is_asked_for() {
        let mut bounds = Bounds::default();
        bounds.update(&looks(1.5, &[shown([4.0, 2.0, 2.0], 9000)]));
        let verdict = bounds.judge(&looks(1.5, &[shown([8.0 / 3.0; 3], 100)]));
        assert!(verdict.worse.is_empty());
        assert_eq!(verdict.ask.len(), 3, "{verdict:?}");
    }
}
