//! What was measured against what the table says.
//!
//! Instructions are exact, so any other figure is a finding. Lines and transfers depend on who comes first, in part: each is
//! measured in several windows, and only what all windows show is held against a change. A line that conflicts now and then
//! is no finding; nor is one of the table that was not seen, which may be taken out.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use super::table::{Allowed, Row};

/// Above what was measured when the table was written, so much is still within the bound.
const ROOM: f64 = 1.5;
/// Transfers per operation below which nothing is said: a few per thousand operations come and go.
const QUIET: f64 = 0.01;
/// A bound so many times what was measured is asked to be lowered.
const SLACK: f64 = 4.0;

/// What one benchmark showed with one number of CPUs.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Transfers per operation, the least and the most of all windows.
    pub least: f64,
    pub most: f64,
    /// Conflict lines of all windows, by name, with what is said of each: class, writer and other user.
    pub steady: BTreeMap<String, String>,
    /// Conflict lines of any window.
    pub ever: BTreeSet<String>,
}

/// What one benchmark showed in all.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    pub instructions: Option<f64>,
    /// By number of CPUs.
    pub seen: BTreeMap<u32, Seen>,
    /// What did not run, and why.
    pub failed: Vec<String>,
}

/// How near instructions must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Exactness {
    Exact,
    /// Another emulator or other programs than the table's: within this part.
    Within(f64),
}

#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    /// Worse than the table.
    pub worse: Vec<String>,
    /// Better than the table in an exact figure: it must be lowered, or the next change could give it all back.
    pub lower: Vec<String>,
    /// May be lowered.
    pub ask: Vec<String>,
}

impl Seen {
    /// Folds one more window in.
    pub fn add(&mut self, first: bool, transfers: f64, lines: BTreeMap<String, String>) {
        self.ever.extend(lines.keys().cloned());
        if first {
            (self.least, self.most, self.steady) = (transfers, transfers, lines);
        } else {
            (self.least, self.most) = (self.least.min(transfers), self.most.max(transfers));
            self.steady.retain(|name, _| lines.contains_key(name));
        }
    }

    /// A second look at what seemed worse: only what it shows too remains.
    pub fn confirm(&mut self, again: &Seen) {
        self.least = self.least.min(again.least);
        self.most = self.most.max(again.most);
        self.steady.retain(|name, _| again.steady.contains_key(name));
        self.ever.extend(again.ever.iter().cloned());
    }

    fn new_lines<'a>(
        &'a self,
        bench: &'a str,
        row: &'a Row,
        allowed: &'a Allowed,
    ) -> impl Iterator<Item = (&'a String, &'a String)> {
        self.steady
            .iter()
            .filter(move |(name, _)| !row.lines.contains(*name) && allowed.why(bench, name).is_none())
    }

    fn above_bound(&self, cpus: u32, row: &Row) -> Option<f64> {
        row.transfers.get(&cpus.to_string()).copied().filter(|&bound| self.least > bound)
    }

    /// Seems worse than the table, which a second look must confirm.
    pub fn is_suspect(&self, bench: &str, cpus: u32, row: &Row, allowed: &Allowed) -> bool {
        self.new_lines(bench, row, allowed).next().is_some() || self.above_bound(cpus, row).is_some()
    }
}

pub fn judge(
    bench: &str,
    measured: &Measured,
    row: &Row,
    allowed: &Allowed,
    exactness: Exactness,
) -> Verdict {
    let mut verdict = Verdict::default();
    verdict.worse.extend(measured.failed.iter().cloned());
    if let (Some(now), Some(then)) = (measured.instructions, row.instructions) {
        let room = if let Exactness::Within(part) = exactness { then * part } else { 0.0 };
        let text = format!("{} instructions, the table says {}", show(now), show(then));
        if now > then + room {
            verdict.worse.push(text);
        } else if now < then - room {
            verdict.lower.push(text);
        }
    } else if measured.instructions.is_some() {
        verdict.lower.push("it has no instructions in the table".into());
    }
    let mut reported = BTreeSet::new();
    for (&cpus, seen) in &measured.seen {
        for (name, what) in seen.new_lines(bench, row, allowed) {
            if reported.insert(name) {
                verdict.worse.push(format!("new shared line at {cpus} CPUs: {name}\n{what}"));
            }
        }
        if let Some(bound) = seen.above_bound(cpus, row) {
            verdict
                .worse
                .push(format!("{:.3} transfers at {cpus} CPUs, the table's bound is {bound}", seen.least));
        }
        match row.transfers.get(&cpus.to_string()) {
            None => verdict.ask.push(format!("it has no bound of transfers at {cpus} CPUs in the table")),
            Some(&bound) if bound > QUIET && bound > SLACK * seen.most => verdict
                .ask
                .push(format!("at most {:.3} transfers at {cpus} CPUs, the bound is {bound}", seen.most)),
            _ => {}
        }
    }
    if measured.failed.is_empty() && !measured.seen.is_empty() {
        let gone = |name: &&String| !measured.seen.values().any(|seen| seen.ever.contains(*name));
        let gone: Vec<_> = row.lines.iter().filter(gone).map(String::as_str).collect();
        if !gone.is_empty() {
            verdict.ask.push(format!("not seen any more: {}", gone.join("; ")));
        }
    }
    verdict
}

/// The row that what was measured makes: allowed lines are left out. What was not measured stays as it was.
pub fn row(bench: &str, measured: &Measured, old: &Row, allowed: &Allowed) -> Row {
    let mut row = old.clone();
    row.instructions = measured.instructions.or(old.instructions);
    for (cpus, seen) in &measured.seen {
        row.transfers.insert(cpus.to_string(), bound(seen.most));
    }
    if !measured.seen.is_empty() {
        // What comes now and then too, or it would be called new on the day when it comes in every window.
        row.lines = measured
            .seen
            .values()
            .flat_map(|seen| &seen.ever)
            .filter(|name| allowed.why(bench, name).is_none())
            .cloned()
            .collect();
    }
    row
}

/// Two digits, rounded up.
fn bound(transfers: f64) -> f64 {
    let value = (transfers * ROOM).max(QUIET);
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / unit - 1e-9).ceil() * unit;
    // As a person would write it.
    format!("{rounded:.4}").parse().unwrap_or(rounded)
}

/// Three digits behind the point, as the table holds them.
pub fn rounded(instructions: f64) -> f64 {
    (instructions * 1000.0).round() / 1000.0
}

pub fn show(instructions: f64) -> String {
    format!("{instructions:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(names: &[&str]) -> BTreeMap<String, String> {
        names.iter().map(|&name| (name.to_owned(), "by whom".to_owned())).collect()
    }

    fn seen(windows: &[(f64, &[&str])]) -> Seen {
        let mut seen = Seen::default();
        for (number, (transfers, names)) in windows.iter().enumerate() {
            seen.add(number == 0, *transfers, lines(names));
        }
        seen
    }

    fn measured(instructions: f64, seen: Seen) -> Measured {
        Measured { instructions: Some(instructions), seen: [(2, seen)].into(), failed: Vec::new() }
    }

    fn known() -> Row {
        Row { instructions: Some(608.0), transfers: [("2".into(), 0.5)].into(), lines: ["old".into()].into() }
    }

    fn verdict(measured: &Measured) -> Verdict {
        judge("faultzf", measured, &known(), &Allowed::default(), Exactness::Exact)
    }

    #[test]
    fn nothing_is_said_of_what_the_table_knows() {
        let same = measured(608.0, seen(&[(0.4, &["old"]), (0.6, &["old", "rare"])]));
        assert_eq!(verdict(&same), Verdict::default());
    }

    #[test]
    fn a_line_of_every_window_is_new_and_one_of_some_is_not() {
        let new = verdict(&measured(608.0, seen(&[(0.4, &["old", "new", "rare"]), (0.4, &["old", "new"])])));
        assert_eq!(new.worse, ["new shared line at 2 CPUs: new\nby whom"]);
    }

    #[test]
    fn a_second_look_takes_back_what_it_does_not_see() {
        let mut first = seen(&[(0.9, &["old", "new"])]);
        assert!(first.is_suspect("faultzf", 2, &known(), &Allowed::default()));
        first.confirm(&seen(&[(0.4, &["old"])]));
        assert_eq!(verdict(&measured(608.0, first)), Verdict::default());
    }

    #[test]
    fn more_instructions_are_worse_and_fewer_lower_the_table() {
        let windows: &[(f64, &[&str])] = &[(0.4, &["old"])];
        assert_eq!(verdict(&measured(608.001, seen(windows))).worse.len(), 1);
        let fewer = measured(607.0, seen(windows));
        assert_eq!(verdict(&fewer).lower, ["607 instructions, the table says 608"]);
        let near = judge("faultzf", &fewer, &known(), &Allowed::default(), Exactness::Within(0.01));
        assert_eq!(near, Verdict::default());
    }

    #[test]
    fn transfers_fail_when_every_window_is_above_the_bound() {
        assert!(verdict(&measured(608.0, seen(&[(0.7, &["old"]), (0.4, &["old"])]))).worse.is_empty());
        assert_eq!(verdict(&measured(608.0, seen(&[(0.7, &["old"]), (0.6, &["old"])]))).worse.len(), 1);
    }

    #[test]
    fn a_line_that_is_gone_and_a_bound_far_off_are_asked_for() {
        let better = verdict(&measured(608.0, seen(&[(0.1, &[])])));
        assert_eq!((better.worse.len(), better.lower.len(), better.ask.len()), (0, 0, 2));
    }

    #[test]
    fn the_new_row_has_what_comes_now_and_then_and_not_what_is_allowed() {
        let allowed: Allowed = toml::from_str("[[line]]\nname = \"fine\"\nwhy = \"x\"").unwrap();
        let now = measured(600.0, seen(&[(0.2, &["old", "new", "fine"]), (0.3, &["new", "fine"])]));
        let row = row("faultzf", &now, &known(), &allowed);
        assert_eq!(row.lines, ["new".to_owned(), "old".to_owned()].into());
        assert_eq!((row.instructions, row.transfers["2"]), (Some(600.0), 0.45));
    }

    #[test]
    fn bounds_have_two_digits() {
        assert_eq!(bound(0.0), 0.01);
        assert_eq!(bound(24.2), 37.0);
        assert_eq!(bound(0.3), 0.45);
    }
}
