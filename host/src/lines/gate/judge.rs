//! What was measured against what the table says.
//!
//! Instructions are exact, so any other figure is a finding. Lines and transfers are measured in several windows.
//!
//! A *shared line* is a name whose conflict lines could have moved so often per operation had the CPUs come to them in turns
//! ([`Line::turns`](darter_measure::Line::turns)), by the median of the windows. That follows from what the CPUs did and not
//! from who came first, so a busy host changes it little, and what happens once in hundreds of operations (a batch handed
//! on, the end of a grace period, a tick) stays below. Such lines are *rare*: counted, named, and no finding. Between the
//! thresholds for a new line and for one that the table knows lies a factor of `NEAR_FLOOR` at least, so that no name is in
//! one run's set and not in the next's.
//!
//! Transfers are those of conflict lines, the window's own. A line that one CPU alone used in the window, and took from
//! another first, is left from before: those are *inherited*, bounded apart and loosely, since they are once in a line's
//! life and not once in an operation.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::table::{Allowed, Row};
use crate::lines::names::Sharing;

/// Above what was measured when the table was written, so much is still within the bound: of transfers, and of inherited ones.
const ROOM: f64 = 1.5;
const ROOM_INHERITED: f64 = 4.0;
/// Inherited lines of a window that are never too many: sixteen pages. What was on which CPU before depends on how the
/// host's processors took their turns.
const ALWAYS_INHERITED: f64 = 16.0 * 64.0;
/// Transfers per operation below which nothing is said: a few per thousand operations come and go.
const QUIET: f64 = 0.01;
/// No window is so quiet that less can be told from nothing.
const LEAST: f64 = 0.001;
/// A bound so many times what was measured is asked to be lowered.
const SLACK: f64 = 4.0;
/// Turns per operation from which on a line is shared: this part of the target of transfers, and within these limits.
const FLOOR_OF_TARGET: f64 = 0.2;
const FLOOR: (f64, f64) = (0.002, 0.1);
const FLOOR_WITHOUT_TARGET: f64 = 0.02;
/// What has so many times less is taken into the table already, and what still has as much less again is not gone from it.
const NEAR_FLOOR: f64 = 2.0;
const GONE: f64 = 8.0;

/// What one benchmark showed with one number of CPUs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Seen {
    /// Transfers of conflict lines per operation, the least and the most of all windows.
    pub least: f64,
    pub most: f64,
    /// The same of inherited lines.
    pub least_inherited: f64,
    pub most_inherited: f64,
    /// Names of conflict lines.
    pub lines: BTreeMap<String, Shared>,
    #[serde(skip)]
    windows: usize,
    /// Operations of the shortest window.
    #[serde(skip)]
    ops: u64,
}

/// What conflict lines of one name did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Shared {
    /// Class, writer and other user.
    how: String,
    /// Turns per operation of the windows that show the name.
    turns: Vec<f64>,
    /// What further looks allow at most.
    #[serde(skip)]
    most: Option<f64>,
}

/// What one benchmark showed in all.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Measured {
    pub instructions: Option<f64>,
    /// Of them, those that cost more than others, by kind (lines/src/instructions/expensive.rs); bytes of string instructions.
    pub expensive: BTreeMap<String, f64>,
    /// By number of CPUs.
    pub seen: BTreeMap<u32, Seen>,
    /// What did not run, and why.
    pub failed: Vec<String>,
}

/// What a benchmark is held against.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    pub bench: &'a str,
    pub row: &'a Row,
    pub allowed: &'a Allowed,
    pub exactness: Exactness,
}

/// Of returns from interrupts two in a thousand operations say nothing where other programs were measured: they have the timer's ticks elsewhere.
const INTERRUPTS: &str = "iret";
const FEW: f64 = 0.002;

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

impl Shared {
    /// The median of so many windows; windows that did not show the name have 0.
    fn turns(&self, windows: usize) -> f64 {
        let mut turns = self.turns.clone();
        turns.resize(windows.max(turns.len()), 0.0);
        turns.sort_by(f64::total_cmp);
        let median = turns.get(turns.len() / 2).copied().unwrap_or_default();
        self.most.map_or(median, |most| median.min(most))
    }
}

impl Seen {
    /// Folds one more window in: transfers per operation of conflict lines and of inherited ones, and the conflict lines by name.
    pub fn add(&mut self, transfers: f64, inherited: f64, ops: u64, lines: BTreeMap<String, Sharing>) {
        let first = self.windows == 0;
        let fold = |least: &mut f64, most: &mut f64, now: f64| {
            (*least, *most) = if first { (now, now) } else { (least.min(now), most.max(now)) };
        };
        fold(&mut self.least, &mut self.most, transfers);
        fold(&mut self.least_inherited, &mut self.most_inherited, inherited);
        self.windows += 1;
        self.ops = if first { ops } else { self.ops.min(ops) }.max(1);
        for (name, sharing) in lines {
            let shared = self.lines.entry(name).or_default();
            shared.turns.push(sharing.turns as f64 / ops.max(1) as f64);
            if shared.how.is_empty() {
                shared.how = sharing.how;
            }
        }
    }

    /// A further look at what seemed worse: only what it shows too remains.
    pub fn confirm(&mut self, again: &Seen) {
        (self.least, self.most) = (self.least.min(again.least), self.most.max(again.most));
        self.least_inherited = self.least_inherited.min(again.least_inherited);
        self.most_inherited = self.most_inherited.max(again.most_inherited);
        for (name, shared) in &mut self.lines {
            let turns = again.turns(name);
            shared.most = Some(shared.most.map_or(turns, |most| most.min(turns)));
        }
    }

    fn turns(&self, name: &str) -> f64 {
        self.lines.get(name).map_or(0.0, |shared| shared.turns(self.windows))
    }

    /// Names with so many turns per operation.
    fn from(&self, turns: f64) -> impl Iterator<Item = (&String, &String)> {
        let enough = move |(_, shared): &(&String, &Shared)| shared.turns(self.windows) >= turns;
        self.lines.iter().filter(enough).map(|(name, shared)| (name, &shared.how))
    }
}

impl Rules<'_> {
    fn floor(&self) -> f64 {
        let of_target = |target: f64| (target * FLOOR_OF_TARGET).clamp(FLOOR.0, FLOOR.1);
        self.allowed.target(self.bench).map_or(FLOOR_WITHOUT_TARGET, of_target)
    }

    /// The shared lines: those of the table as long as they are not gone, and new ones.
    pub fn shared<'a>(&self, seen: &'a Seen) -> BTreeSet<&'a str> {
        let floor = self.floor();
        let known = seen.from(floor / GONE).filter(|(name, _)| self.row.lines.contains(*name));
        seen.from(floor).chain(known).map(|(name, _)| name.as_str()).collect()
    }

    fn new_lines<'a>(&self, seen: &'a Seen) -> impl Iterator<Item = (&'a String, &'a String)> {
        let Rules { bench, row, allowed, .. } = *self;
        seen.from(self.floor())
            .filter(move |(name, _)| !row.lines.contains(*name) && allowed.why(bench, name).is_none())
    }

    /// The table's bound of transfers; where it has none, the target.
    fn bound(&self, cpus: u32) -> Option<f64> {
        self.row.transfers.get(&cpus.to_string()).copied().or(self.allowed.target(self.bench))
    }

    fn above(&self, cpus: u32, seen: &Seen) -> Vec<String> {
        let always = ALWAYS_INHERITED / seen.ops.max(1) as f64;
        let inherited = self.row.inherited.get(&cpus.to_string()).map(|bound| bound.max(always));
        [("", seen.least, self.bound(cpus)), ("inherited ", seen.least_inherited, inherited)]
            .into_iter()
            .filter_map(|(what, least, bound)| {
                let bound = bound.filter(|&bound| least > bound.max(LEAST))?;
                Some(format!("{least:.3} {what}transfers at {cpus} CPUs, the bound is {}", show(bound)))
            })
            .collect()
    }

    /// Seems worse than the table, which further looks must confirm.
    pub fn suspects(&self, cpus: u32, seen: &Seen) -> bool {
        self.new_lines(seen).next().is_some() || !self.above(cpus, seen).is_empty()
    }

    pub fn judge(&self, measured: &Measured) -> Verdict {
        let row = self.row;
        let mut verdict = Verdict::default();
        verdict.worse.extend(measured.failed.iter().cloned());
        let mut exact = |what: &str, now: f64, then: f64| {
            let room = match self.exactness {
                Exactness::Exact => 0.0,
                Exactness::Within(part) if what == INTERRUPTS => (then * part).max(FEW),
                Exactness::Within(part) => then * part,
            };
            let text = format!("{} {what}, the table says {}", show(now), show(then));
            if now > then + room {
                verdict.worse.push(text);
            } else if now < then - room {
                verdict.lower.push(text);
            }
        };
        if let (Some(now), Some(then)) = (measured.instructions, row.instructions) {
            exact("instructions", now, then);
            let kinds: BTreeSet<&String> = measured.expensive.keys().chain(row.expensive.keys()).collect();
            for kind in kinds {
                let of = |counts: &BTreeMap<String, f64>| counts.get(kind).copied().unwrap_or_default();
                exact(kind, of(&measured.expensive), of(&row.expensive));
            }
        } else if measured.instructions.is_some() {
            verdict.lower.push("it has no instructions in the table".into());
        }
        let mut reported = BTreeSet::new();
        for (&cpus, seen) in &measured.seen {
            for (name, what) in self.new_lines(seen) {
                if reported.insert(name) {
                    let turns = seen.turns(name);
                    verdict
                        .worse
                        .push(format!("new shared line at {cpus} CPUs, {turns:.3} turns: {name}\n{what}"));
                }
            }
            verdict.worse.extend(self.above(cpus, seen));
            match self.bound(cpus) {
                None => verdict.ask.push(format!("it has no bound of transfers at {cpus} CPUs in the table")),
                Some(bound) if self.allowed.target(self.bench) != Some(bound) => {
                    let at_most = format!("at most {:.3} transfers at {cpus} CPUs", seen.most);
                    if bound > QUIET && bound > SLACK * seen.most {
                        verdict.ask.push(format!("{at_most}, the bound is {bound}"));
                    }
                }
                Some(_) => {}
            }
        }
        if measured.failed.is_empty() && !measured.seen.is_empty() {
            let seen = |name: &str| measured.seen.values().any(|seen| self.shared(seen).contains(name));
            let gone: Vec<_> = row.lines.iter().map(String::as_str).filter(|name| !seen(name)).collect();
            if !gone.is_empty() {
                verdict.ask.push(format!("not seen any more: {}", gone.join("; ")));
            }
        }
        verdict
    }

    /// The row that what was measured makes: allowed lines are left out. What was not measured stays as it was.
    pub fn row(&self, measured: &Measured) -> Row {
        let mut row = self.row.clone();
        if measured.instructions.is_some() {
            (row.instructions, row.expensive) = (measured.instructions, measured.expensive.clone());
        }
        for (cpus, seen) in &measured.seen {
            let target = self.allowed.target(self.bench);
            if target.is_some_and(|target| seen.most <= target) {
                row.transfers.remove(&cpus.to_string());
            } else {
                row.transfers.insert(cpus.to_string(), bound(seen.most * ROOM));
            }
            row.inherited.insert(cpus.to_string(), bound(seen.most_inherited * ROOM_INHERITED));
        }
        if !measured.seen.is_empty() {
            row.lines = measured
                .seen
                .values()
                .flat_map(|seen| seen.from(self.floor() / NEAR_FLOOR))
                .filter(|(name, _)| self.allowed.why(self.bench, name).is_none())
                .map(|(name, _)| name.clone())
                .collect();
        }
        row
    }
}

/// Two digits, rounded up.
fn bound(transfers: f64) -> f64 {
    let value = transfers.max(QUIET);
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / unit - 1e-9).ceil() * unit;
    // As a person would write it.
    format!("{rounded:.4}").parse().unwrap_or(rounded)
}

/// The same of what is more than nothing.
pub fn rounded_all(counts: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    counts.into_iter().map(|(kind, count)| (kind, rounded(count))).filter(|&(_, count)| count > 0.0).collect()
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

    const OPS: u64 = 1000;

    /// Windows: transfers per operation, and names with their turns in all.
    fn seen(windows: &[(f64, &[(&str, u64)])]) -> Seen {
        let mut seen = Seen::default();
        for (transfers, names) in windows {
            let sharing = |turns| Sharing { how: "by whom".into(), transfers: 0, turns };
            let lines = names.iter().map(|&(name, turns)| (name.to_owned(), sharing(turns)));
            seen.add(*transfers, 0.0, OPS, lines.collect());
        }
        seen
    }

    fn measured(instructions: f64, seen: Seen) -> Measured {
        Measured {
            instructions: Some(instructions),
            expensive: [("locked".into(), 2.0)].into(),
            seen: [(2, seen)].into(),
            failed: Vec::new(),
        }
    }

    fn known() -> Row {
        Row {
            instructions: Some(608.0),
            expensive: [("locked".into(), 2.0)].into(),
            transfers: [("2".into(), 0.5)].into(),
            lines: ["old".into()].into(),
            ..Row::default()
        }
    }

    fn with<T>(exactness: Exactness, then: impl FnOnce(Rules<'_>) -> T) -> T {
        let allowed =
            Allowed::parse("[[line]]\nname = \"fine\"\nwhy = \"x\"\n[targets]\ntarget = 0.1").unwrap();
        then(Rules { bench: "none", row: &known(), allowed: &allowed, exactness })
    }

    fn verdict(measured: &Measured) -> Verdict {
        with(Exactness::Exact, |rules| rules.judge(measured))
    }

    const OLD: (&str, u64) = ("old", 1000);
    const NEW: (&str, u64) = ("new", 1000);

    #[test]
    fn nothing_is_said_of_what_the_table_knows() {
        let same = measured(608.0, seen(&[(0.4, &[OLD]), (0.6, &[OLD, ("rare", 5)]), (0.4, &[OLD])]));
        assert_eq!(verdict(&same), Verdict::default());
    }

    #[test]
    fn a_line_of_most_windows_is_new_and_one_of_few_turns_or_windows_is_not() {
        let rare = ("rare", 19);
        let new = verdict(&measured(
            608.0,
            seen(&[(0.4, &[OLD, NEW, rare]), (0.4, &[OLD, rare, ("once", 1000)]), (0.4, &[OLD, NEW, rare])]),
        ));
        assert_eq!(new.worse, ["new shared line at 2 CPUs, 1.000 turns: new\nby whom"]);
    }

    #[test]
    fn what_is_near_the_floor_is_in_the_set_of_every_run_once_the_table_has_it() {
        let turns = |turns| seen(&[(0.4, &[("near", turns)])]);
        let row = with(Exactness::Exact, |rules| rules.row(&measured(608.0, turns(11))));
        assert!(row.lines.contains("near"));
        for now in [10, 19, 21] {
            let shared = with(Exactness::Exact, |rules| {
                Rules { row: &row, ..rules }.shared(&turns(now)).contains("near")
            });
            assert!(shared, "{now}");
        }
        let low = with(Exactness::Exact, |rules| rules.row(&measured(608.0, turns(9))));
        assert!(low.lines.is_empty());
    }

    #[test]
    fn the_floor_follows_the_target() {
        let floor = |bench| with(Exactness::Exact, |rules| Rules { bench, ..rules }.floor());
        assert_eq!((floor("target"), floor("none")), (0.1 * FLOOR_OF_TARGET, FLOOR_WITHOUT_TARGET));
    }

    #[test]
    fn a_second_look_takes_back_what_it_does_not_see() {
        let mut first = seen(&[(0.9, &[OLD, NEW])]);
        assert!(with(Exactness::Exact, |rules| rules.suspects(2, &first)));
        first.confirm(&seen(&[(0.4, &[OLD])]));
        assert_eq!(verdict(&measured(608.0, first)), Verdict::default());
    }

    #[test]
    fn more_instructions_are_worse_and_fewer_lower_the_table() {
        let windows: &[(f64, &[(&str, u64)])] = &[(0.4, &[OLD])];
        assert_eq!(verdict(&measured(608.001, seen(windows))).worse.len(), 1);
        let fewer = measured(607.0, seen(windows));
        assert_eq!(verdict(&fewer).lower, ["607 instructions, the table says 608"]);
        let near = with(Exactness::Within(0.01), |rules| rules.judge(&fewer));
        assert_eq!(near, Verdict::default());
    }

    #[test]
    fn of_other_programs_ticks_say_nothing_and_more_does() {
        let windows: &[(f64, &[(&str, u64)])] = &[(0.4, &[OLD])];
        let now = |kind: &str, count| {
            let expensive = BTreeMap::from([("locked".to_owned(), 2.0), (kind.to_owned(), count)]);
            let measured = Measured { expensive, ..measured(608.0, seen(windows)) };
            with(Exactness::Within(0.05), |rules| rules.judge(&measured)).worse.len()
        };
        assert_eq!((now("iret", 0.002), now("iret", 0.003), now("cr3", 0.002)), (0, 1, 1));
    }

    #[test]
    fn each_kind_of_expensive_instructions_is_held_exactly() {
        let windows: &[(f64, &[(&str, u64)])] = &[(0.4, &[OLD])];
        let with = |kinds: &[(&str, f64)]| {
            let expensive = kinds.iter().map(|&(kind, count)| (kind.to_owned(), count)).collect();
            verdict(&Measured { expensive, ..measured(608.0, seen(windows)) })
        };
        assert_eq!(with(&[("locked", 2.5)]).worse, ["2.5 locked, the table says 2"]);
        assert_eq!(with(&[("locked", 2.001)]).worse, ["2.001 locked, the table says 2"]);
        assert_eq!(with(&[("locked", 2.0), ("cr3", 1.0)]).worse, ["1 cr3, the table says 0"]);
        assert_eq!(with(&[]).lower, ["0 locked, the table says 2"]);
        let rounded = rounded_all([("locked".into(), 2.000_4), ("iret".into(), -0.001)].into());
        assert_eq!(rounded, [("locked".into(), 2.0)].into());
    }

    #[test]
    fn transfers_fail_when_every_window_is_above_the_bound() {
        assert!(verdict(&measured(608.0, seen(&[(0.7, &[OLD]), (0.4, &[OLD])]))).worse.is_empty());
        assert_eq!(verdict(&measured(608.0, seen(&[(0.7, &[OLD]), (0.6, &[OLD])]))).worse.len(), 1);
    }

    #[test]
    fn inherited_transfers_have_a_bound_of_their_own() {
        let inherits = |transfers| {
            let mut seen = seen(&[]);
            seen.add(0.4, transfers, OPS, BTreeMap::new());
            seen
        };
        let row = with(Exactness::Exact, |rules| rules.row(&measured(608.0, inherits(0.5))));
        assert_eq!(row.inherited["2"], 2.0);
        let worse = |now| {
            let of = |rules: Rules<'_>| Rules { row: &row, ..rules }.judge(&measured(608.0, inherits(now)));
            with(Exactness::Exact, of).worse.len()
        };
        assert_eq!((worse(1.9), worse(2.1)), (0, 1));
        let row = with(Exactness::Exact, |rules| rules.row(&measured(608.0, inherits(0.01))));
        let worse = |now| {
            let of = |rules: Rules<'_>| Rules { row: &row, ..rules }.judge(&measured(608.0, inherits(now)));
            with(Exactness::Exact, of).worse.len()
        };
        assert_eq!((worse(1.0), worse(1.1)), (0, 1), "sixteen pages in {OPS} operations");
    }

    #[test]
    fn a_met_target_is_the_bound_and_a_missed_one_is_not() {
        let row = |transfers| {
            let of = |rules: Rules<'_>| {
                Rules { bench: "target", ..rules }.row(&measured(608.0, seen(&[(transfers, &[])])))
            };
            with(Exactness::Exact, of)
        };
        assert!(row(0.1).transfers.is_empty());
        assert_eq!(row(0.2).transfers["2"], 0.3);
        let judged = |transfers| {
            let of = |rules: Rules<'_>| {
                let rules = Rules { bench: "target", row: &row(0.05), ..rules };
                rules.judge(&measured(608.0, seen(&[(transfers, &[])]))).worse
            };
            with(Exactness::Exact, of)
        };
        assert!(judged(0.1).is_empty());
        assert_eq!(judged(0.11), ["0.110 transfers at 2 CPUs, the bound is 0.1"]);
    }

    #[test]
    fn a_line_that_is_gone_and_a_bound_far_off_are_asked_for() {
        let better = verdict(&measured(608.0, seen(&[(0.1, &[("old", 2)])])));
        assert_eq!((better.worse.len(), better.lower.len(), better.ask.len()), (0, 0, 2));
    }

    #[test]
    fn the_new_row_has_neither_what_is_rare_nor_what_is_allowed() {
        let windows: &[(f64, &[(&str, u64)])] =
            &[(0.2, &[OLD, NEW, ("fine", 1000)]), (0.3, &[NEW, ("fine", 1000)]), (0.3, &[NEW])];
        let row = with(Exactness::Exact, |rules| rules.row(&measured(600.0, seen(windows))));
        assert_eq!(row.lines, ["new".to_owned()].into());
        assert_eq!((row.instructions, row.transfers["2"]), (Some(600.0), 0.45));
    }

    #[test]
    fn bounds_have_two_digits() {
        assert_eq!(bound(0.0), 0.01);
        assert_eq!(bound(36.3), 37.0);
        assert_eq!(bound(0.45), 0.45);
    }
}
