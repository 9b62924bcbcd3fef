//! `darter lines --calls --gate`: has a change made a system call share a line?
//!
//! tests/gate/calls.toml has a row for each case and form that shares lines: how many turns per operation at most, and why it may.
//! Whatever else shares anything fails. `--update` writes the bounds anew and keeps the reasons; a new row has none, and fails until a
//! person has written one.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;

use super::{Run, Shown};
use crate::lines;

const HEAD: &str = "\
# What system calls may share: case and form of bench/calls, the most turns of shared lines per operation of two CPUs, and why. Read by
# `darter lines --calls --gate`; `darter lines --calls --gate --update` writes the bounds, people the reasons.

";
/// Above what was measured when the file was written, so much is still within the bound.
const ROOM: f64 = 1.5;
/// A bound so many times what was measured is asked to be lowered.
const SLACK: f64 = 4.0;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub turns: f64,
    pub why: String,
}

/// By case and form: "read one".
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Bounds(BTreeMap<String, Row>);

#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    pub worse: Vec<String>,
    /// May be lowered.
    pub ask: Vec<String>,
}

pub fn file(root: &Path) -> PathBuf {
    root.join("tests/gate/calls.toml")
}

fn key(run: &Run) -> String {
    format!("{} {}", run.case, run.form)
}

impl Bounds {
    /// None where the file is not there.
    pub fn read(file: &Path) -> Result<Bounds> {
        lines::read(file)
    }

    pub fn write(&self, file: &Path) -> Result<()> {
        lines::write(file, &self.text())
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (key, row) in &self.0 {
            let _ = writeln!(text, "{key:?} = {{ turns = {:?}, why = {:?} }}", row.turns, row.why);
        }
        text
    }

    /// Seems worse than the file, which further looks must confirm.
    pub fn suspects(&self, run: &Run, shown: &Shown) -> bool {
        let bound = self.0.get(&key(run)).map_or(0.0, |row| row.turns);
        shown.failed.is_some() || shown.turns() > bound
    }

    pub fn judge(&self, runs: &[Run], shown: &[Shown], all: &[Run]) -> Verdict {
        let mut verdict = Verdict::default();
        for (run, shown) in runs.iter().zip(shown) {
            let (name, turns, row) = (key(run), shown.turns(), self.0.get(&key(run)));
            if let Some(why) = &shown.failed {
                verdict.worse.push(format!("{name}: {why}"));
                continue;
            }
            match row {
                None if shown.shared.is_empty() => {}
                None => verdict.worse.push(format!("{name}: shares lines, {turns:.2} turns\n{}", who(shown))),
                Some(row) if row.why.trim().is_empty() => {
                    verdict.worse.push(format!("{name}: may share lines without a reason: say why"));
                }
                Some(row) if turns > row.turns => {
                    verdict.worse.push(format!(
                        "{name}: {turns:.2} turns, the bound is {}\n{}",
                        row.turns,
                        who(shown)
                    ));
                }
                Some(row) if turns * SLACK < row.turns => {
                    verdict.ask.push(format!("{name}: {turns:.2} turns, the bound is {}", row.turns));
                }
                Some(_) => {}
            }
        }
        let unknown = self.0.keys().filter(|name| !all.iter().any(|run| key(run) == **name));
        verdict.worse.extend(unknown.map(|name| format!("{name}: there is no such case and form")));
        verdict
    }

    /// Bounds from what was measured; other rows stay.
    pub fn update(&mut self, runs: &[Run], shown: &[Shown], all: &[Run]) {
        self.0.retain(|name, _| all.iter().any(|run| key(run) == *name));
        for (run, shown) in runs.iter().zip(shown).filter(|(_, shown)| shown.failed.is_none()) {
            if shown.shared.is_empty() {
                self.0.remove(&key(run));
            } else {
                self.0.entry(key(run)).or_default().turns = bound(shown.turns());
            }
        }
    }
}

/// Half as much again, in two digits.
fn bound(turns: f64) -> f64 {
    let value = (turns * ROOM).max(0.1);
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / unit - 1e-9).ceil() * unit;
    format!("{rounded:.3}").parse().unwrap_or(rounded)
}

/// The lines and their users, an indented line each.
fn who(shown: &Shown) -> String {
    let mut worst: Vec<_> = shown.shared.iter().collect();
    worst.sort_by(|(_, one), (_, other)| other.turns.total_cmp(&one.turns));
    let lines: Vec<String> = worst
        .iter()
        .map(|(name, line)| format!("        {:.2} turns  {name}\n            {}", line.turns, line.how))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::measurer::SharedLine;

    fn run(case: &str) -> Run {
        Run { call: case.into(), case: case.into(), form: "one".into() }
    }

    fn shown(turns: f64) -> Shown {
        let line = SharedLine { turns, how: "by whom".into() };
        let shared =
            if turns > 0.0 { [("file.references".to_owned(), line)].into() } else { BTreeMap::new() };
        Shown { shared, ..Shown::default() }
    }

    #[test]
    fn what_shares_must_have_a_row_with_a_reason_and_stay_below_its_bound() {
        let bounds: Bounds = toml::from_str(
            "\"read one\" = { turns = 4.0, why = \"one file\" }\n\"write one\" = { turns = 4.0, why = \"\" }\n\"gone one\" = { turns = 1.0, why = \"x\" }",
        )
        .unwrap();
        let all = [run("read"), run("write"), run("stat")];
        let judge = |turns: [f64; 3]| bounds.judge(&all, &turns.map(shown), &all);
        let good = judge([3.0, 3.0, 0.0]);
        assert_eq!(good.worse.len(), 2, "{good:?}");
        assert!(good.worse[0].contains("say why") && good.worse[1].starts_with("gone one: there is no"));
        let bad = judge([4.1, 0.0, 0.1]);
        assert!(bad.worse[0].starts_with("read one: 4.10 turns, the bound is 4"), "{bad:?}");
        assert!(bad.worse.iter().any(|text| text.starts_with("stat one: shares lines")));
        assert_eq!(judge([0.5, 3.0, 0.0]).ask.len(), 1);
    }

    #[test]
    fn an_update_keeps_reasons_and_drops_what_shares_nothing() {
        let mut bounds: Bounds =
            toml::from_str("\"a one\" = { turns = 9.0, why = \"one \\\"file\\\"\" }\n\"b one\" = { turns = 9.0, why = \"x\" }").unwrap();
        let all = [run("a"), run("b"), run("c")];
        bounds.update(&all, &[shown(2.0), shown(0.0), shown(0.01)], &all);
        let again: Bounds = toml::from_str(&bounds.text()).unwrap();
        assert_eq!(again, bounds);
        let row = |turns: f64, why: &str| Row { turns, why: why.into() };
        let expected = [("a one".to_owned(), row(3.0, "one \"file\"")), ("c one".to_owned(), row(0.1, ""))];
        assert_eq!(again.0.into_iter().collect::<Vec<_>>(), expected);
    }
}
