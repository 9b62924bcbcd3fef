//! `darter lines --calls --gate`: has a change made a system call share a line?
//!
//! tests/gate/calls.toml says which lines may be shared, and why: a reason names lines by object and field, and each case and form that
//! shares lines names its reasons, and how many turns per operation these may take at most. Whatever else shares a line fails, and so does a
//! line that no reason of its row names. The lines of `waiting` may come with any reason and are not counted: who waits for what a
//! reason allows is put to sleep and woken, when and how often the host decides.
//!
//! `--update` writes the bounds anew, and what no reason names into the row; people put lines and reasons where they belong.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;

use super::{Run, Shown};
use crate::lines;

const HEAD: &str = "\
# What system calls may share. Read by `darter lines --calls --gate`. `--update` writes the turns, and into a row the lines that no reason of it
# names; people write the reasons.
#
# because: reasons, and the lines that each allows, by object and field. waiting: lines of whoever waits for what a reason allows.
# rows: by case and form of bench/calls, with the most turns of these lines per operation of two CPUs.
";
/// Above what was measured, so much is still within the bound: where CPUs meet at one object, turns depend on how they meet.
const ROOM: f64 = 5.0;
/// Bounds below are not written.
const LEAST: f64 = 0.5;

/// Why lines may be shared.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    why: String,
    /// Names, or with a `*` at the end their beginnings.
    lines: BTreeSet<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The reasons' names.
    because: BTreeSet<String>,
    turns: f64,
    /// Found, and named by no reason yet.
    #[serde(default)]
    lines: BTreeSet<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    #[serde(default)]
    waiting: Reason,
    #[serde(default)]
    because: BTreeMap<String, Reason>,
    /// By case and form: "read one".
    #[serde(default)]
    rows: BTreeMap<String, Row>,
}

#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    pub worse: Vec<String>,
    /// May be taken out.
    pub ask: Vec<String>,
}

pub fn file(root: &Path) -> PathBuf {
    root.join("tests/gate/calls.toml")
}

fn names(lines: &BTreeSet<String>, name: &str) -> bool {
    lines.contains(name)
        || lines.iter().filter_map(|line| line.strip_suffix('*')).any(|start| name.starts_with(start))
}

/// Object and field of a name, whatever lies below.
fn general(name: &str) -> String {
    match name.match_indices('.').nth(1) {
        Some((end, _)) => format!("{}*", name.get(..end).unwrap_or(name)),
        None => name.to_owned(),
    }
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
        let mut reason = |head: &str, reason: &Reason| {
            let lines: String = reason.lines.iter().map(|line| format!("    {line:?},\n")).collect();
            let _ = writeln!(text, "\n[{head}]\nwhy = {:?}\nlines = [\n{lines}]", reason.why);
        };
        reason("waiting", &self.waiting);
        for (name, because) in &self.because {
            reason(&format!("because.{name}"), because);
        }
        text.push_str("\n[rows]\n");
        for (key, row) in &self.rows {
            let lines =
                if row.lines.is_empty() { String::new() } else { format!(", lines = {}", list(&row.lines)) };
            let (because, turns) = (list(&row.because), row.turns);
            let _ = writeln!(text, "{key:?} = {{ because = {because}, turns = {turns:?}{lines} }}");
        }
        text
    }

    /// May lie in any row.
    fn is_waiting(&self, name: &str) -> bool {
        names(&self.waiting.lines, name)
    }

    /// Does a reason of the row allow the line?
    fn allows(&self, row: &Row, name: &str) -> bool {
        let reasons = row.because.iter().filter_map(|reason| self.because.get(reason));
        names(&row.lines, name) || reasons.into_iter().any(|reason| names(&reason.lines, name))
    }

    /// Turns of the lines that are not those of waiting.
    fn turns(&self, shown: &Shown) -> f64 {
        shown.shared.iter().filter(|(name, _)| !self.is_waiting(name)).map(|(_, line)| line.turns).sum()
    }

    /// What is wrong with a row, if anything.
    fn wrong(&self, run: &Run, shown: &Shown) -> Option<String> {
        if let Some(why) = &shown.failed {
            return Some(why.clone());
        }
        if shown.shared.is_empty() {
            return None;
        }
        let turns = self.turns(shown);
        let Some(row) = self.rows.get(&run.key()) else {
            return Some(format!("shares lines, {turns:.2} turns\n{}", who(shown, &|_| true)));
        };
        if row.because.is_empty() {
            return Some("may share lines without a reason: say why".into());
        }
        let unnamed = |name: &str| !self.is_waiting(name) && !self.allows(row, name);
        if shown.shared.keys().any(|name| unnamed(name)) {
            return Some(format!("shares lines that no reason of it names\n{}", who(shown, &unnamed)));
        }
        (turns > row.turns).then(|| {
            format!(
                "{turns:.2} turns, the bound is {}\n{}",
                row.turns,
                who(shown, &|name| !self.is_waiting(name))
            )
        })
    }

    /// Seems worse than the file, which further looks must confirm.
    pub fn suspects(&self, run: &Run, shown: &Shown) -> bool {
        self.wrong(run, shown).is_some()
    }

    pub fn judge(&self, runs: &[Run], shown: &[Shown], all: &[Run]) -> Verdict {
        let mut verdict = Verdict::default();
        for (run, shown) in runs.iter().zip(shown) {
            match self.wrong(run, shown) {
                Some(why) => verdict.worse.push(format!("{}: {why}", run.key())),
                None if shown.shared.is_empty() && self.rows.contains_key(&run.key()) => {
                    verdict.ask.push(format!("{}: shares nothing, and has a row", run.key()));
                }
                None => {}
            }
        }
        verdict.worse.extend(self.unfounded(all));
        verdict
    }

    /// Lines that nothing allows and that not all windows showed: those that the first windows showed one after the other.
    pub fn rare(&self, runs: &[Run], shown: &[Shown]) -> Vec<String> {
        let none = Row::default();
        let mut found = Vec::new();
        for (run, shown) in runs.iter().zip(shown) {
            let row = self.rows.get(&run.key()).unwrap_or(&none);
            let unnamed = |name: &&String| !self.is_waiting(name) && !self.allows(row, name);
            for (name, windows) in shown.lost.iter().filter(|(name, _)| unnamed(name)) {
                found.push(format!("{}: {windows} windows showed {name}, the next did not", run.key()));
            }
        }
        found
    }

    /// What the file says that means nothing.
    fn unfounded(&self, all: &[Run]) -> Vec<String> {
        let mut found = Vec::new();
        for (name, reason) in &self.because {
            if reason.why.trim().is_empty() {
                found.push(format!("because.{name}: no reason: say why"));
            }
            if !self.rows.values().any(|row| row.because.contains(name)) {
                found.push(format!("because.{name}: no row is so for that reason"));
            }
        }
        for (key, row) in &self.rows {
            if !all.iter().any(|run| run.key() == *key) {
                found.push(format!("{key}: there is no such case and form"));
            }
            let unknown = row.because.iter().filter(|name| !self.because.contains_key(*name));
            found.extend(unknown.map(|name| format!("{key}: no reason is named {name}")));
        }
        found
    }

    /// Bounds from what was measured, never lower than they were where something is shared; and the lines that nobody named. Rows stay.
    pub fn update(&mut self, runs: &[Run], shown: &[Shown], all: &[Run]) {
        self.rows.retain(|key, _| all.iter().any(|run| run.key() == *key));
        for (run, shown) in runs.iter().zip(shown) {
            if shown.failed.is_some() || shown.shared.is_empty() {
                continue;
            }
            let mut row = self.rows.remove(&run.key()).unwrap_or_default();
            row.turns = row.turns.max(bound(self.turns(shown)));
            for name in shown.shared.keys().filter(|name| !self.is_waiting(name)) {
                if !self.allows(&row, name) {
                    row.lines.insert(general(name));
                }
            }
            self.rows.insert(run.key(), row);
        }
    }
}

fn list(names: &BTreeSet<String>) -> String {
    format!("[{}]", names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", "))
}

/// With the room that it has, in two digits.
fn bound(turns: f64) -> f64 {
    let value = (turns * ROOM).max(LEAST);
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    let rounded = (value / unit - 1e-9).ceil() * unit;
    format!("{rounded:.3}").parse().unwrap_or(rounded)
}

/// The lines that are `wanted`, and their users, an indented line each.
fn who(shown: &Shown, wanted: &dyn Fn(&str) -> bool) -> String {
    let mut worst: Vec<_> = shown.shared.iter().filter(|(name, _)| wanted(name)).collect();
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

    const FILE: &str = "
        [waiting]
        why = \"who waits sleeps\"
        lines = [\"task.*\"]
        [because.file]
        why = \"one file\"
        lines = [\"file.references\", \"inode.times*\"]
        [rows]
        \"read one\" = { because = [\"file\"], turns = 4.0 }
        \"write one\" = { because = [], turns = 4.0 }
        \"gone one\" = { because = [\"none\"], turns = 1.0 }";

    fn run(case: &str) -> Run {
        Run { call: case.into(), case: case.into(), form: "one".into(), beside: None }
    }

    fn shown(lines: &[(&str, f64)]) -> Shown {
        let line = |turns| SharedLine { turns, how: "by whom".into() };
        let shared = lines.iter().map(|&(name, turns)| (name.to_owned(), line(turns))).collect();
        Shown { shared, ..Shown::default() }
    }

    #[test]
    fn what_shares_has_a_reason_that_names_its_lines_and_stays_below_its_bound() {
        let bounds: Bounds = toml::from_str(FILE).unwrap();
        let all = [run("read"), run("write"), run("stat")];
        let judge = |lines: [&[(&str, f64)]; 3]| bounds.judge(&all, &lines.map(shown), &all);
        let good = judge([&[("file.references", 2.0), ("inode.times.modified", 2.0)], &[], &[]]);
        assert_eq!(
            good.worse,
            ["gone one: there is no such case and form", "gone one: no reason is named none"]
        );
        assert_eq!(good.ask, ["write one: shares nothing, and has a row"]);
        let bad = |lines| judge(lines).worse.remove(0);
        assert!(
            bad([&[("file.references", 4.1)], &[], &[]]).starts_with("read one: 4.10 turns, the bound is 4")
        );
        let unnamed = bad([&[("file.references", 1.0), ("inode.size", 0.1)], &[], &[]]);
        assert!(unnamed.contains("no reason of it names\n        0.10 turns  inode.size"), "{unnamed}");
        assert!(!unnamed.contains("file.references"), "{unnamed}");
        assert!(bad([&[], &[("file.references", 0.1)], &[]]).contains("say why"));
        assert!(bad([&[], &[], &[("task.state", 0.1)]]).starts_with("stat one: shares lines"));
    }

    #[test]
    fn what_some_windows_showed_is_told_unless_a_reason_allows_it() {
        let bounds: Bounds = toml::from_str(FILE).unwrap();
        let lost = [("file.references", 9), ("inode.size", 2), ("task.state", 1)];
        let lost = lost.map(|(name, windows)| (name.to_owned(), windows)).into();
        let told = bounds.rare(&[run("read")], &[Shown { lost, ..Shown::default() }]);
        assert_eq!(told, ["read one: 2 windows showed inode.size, the next did not"]);
    }

    #[test]
    fn who_waits_is_not_counted_where_there_is_a_reason_to_wait() {
        let bounds: Bounds = toml::from_str(FILE).unwrap();
        let waits = shown(&[("file.references", 3.0), ("task.state", 900.0)]);
        assert!(!bounds.suspects(&run("read"), &waits));
        assert!(bounds.suspects(&run("stat"), &waits));
    }

    #[test]
    fn an_update_keeps_reasons_and_leaves_it_to_people_why_lines_are_shared() {
        let mut bounds: Bounds = toml::from_str(FILE).unwrap();
        let all = [run("read"), run("write"), run("stat")];
        let found = [
            shown(&[("file.references", 1.0), ("inode.lock.raw.word", 1.0), ("task.state", 9.0)]),
            shown(&[]),
            shown(&[("heap-64", 0.01)]),
        ];
        bounds.update(&all, &found, &all);
        let again: Bounds = toml::from_str(&bounds.text()).unwrap();
        assert_eq!(again, bounds);
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        let row =
            |because: &[&str], turns, lines: &[&str]| Row { because: set(because), turns, lines: set(lines) };
        let expected = [
            ("read one".to_owned(), row(&["file"], 10.0, &["inode.lock*"])),
            ("stat one".to_owned(), row(&[], 0.5, &["heap-64"])),
            ("write one".to_owned(), row(&[], 4.0, &[])),
        ];
        assert_eq!(again.rows.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn lines_are_known_by_object_and_field() {
        let general = |name| super::general(name);
        assert_eq!(general("process.family.children.raw"), "process.family*");
        assert_eq!(general("inode.size"), "inode.size");
        assert_eq!(general("per-CPU sched::QUEUES.queue.raw"), "per-CPU sched::QUEUES.queue*");
    }
}
