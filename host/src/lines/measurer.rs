//! Some hundred windows to a machine, each of another operation: shared lines by name, and in machines of their own instructions.
//!
//! What seems shared is looked at again, and counts only if all windows show it. Instructions come from one task on one CPU.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use anyhow::{Context, Result};
use darter_measure::{Line, LineWindow, Names, Window};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use super::gate::table::Allowed;
use super::names;
use super::windows::{Watched, Watcher};
use crate::bench::boot::{self, Boot};
use crate::bench::guest::{self, Command};
use crate::bench::{append, progress_bar};
use crate::machine::accel::Accel;
use crate::relay::signals::Signals;
use crate::symbols;

/// Windows of one machine: its script is one argument, and the plugin writes all of them at each.
const BATCH: usize = 150;
/// How what seems shared is looked at again: in so many further machines, so many windows in each.
///
/// A line is shared if all windows show it. A line of what a call does is in each of them, since turns follow from what CPUs did. What is
/// there by chance is not: several machines, since what lies beside what differs between them; several windows of one, since its first is that of a
/// machine that has done nothing else yet.
#[derive(Debug, Clone, Copy)]
pub struct Looks {
    pub machines: usize,
    pub windows: usize,
}

/// Of a gate: 33 windows with the first one, in nine machines. What eight windows in ten show, as lines of CPUs that meet do, all of them show once in
/// fifteen hundred times.
pub const LOOKS_OF_A_GATE: Looks = Looks { machines: 8, windows: 4 };
/// Of a table.
pub const LOOKS_OF_A_TABLE: Looks = Looks { machines: 2, windows: 1 };
/// So many runs that two machines confirm are no chance, and are not looked at any more: all calls with a new shared line would take an hour.
const NO_CHANCE: usize = 100;

/// What one run showed on one kernel.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Shown {
    pub failed: Option<String>,
    /// The kernel's, of one task on one CPU.
    pub instructions: Option<f64>,
    /// The program's, and how often the kernel returned to it: two kernels that did the same work differ in neither.
    #[serde(default)]
    pub user: Option<f64>,
    #[serde(default)]
    pub returns: Option<f64>,
    /// All lines taken from another CPU, per operation.
    pub transfers: f64,
    /// Of these, the ones that the kernel's code took, the program's memory among them.
    #[serde(default)]
    pub moved: f64,
    /// Shared lines by object and field: a line is under each name that it has.
    pub shared: BTreeMap<String, SharedLine>,
    /// Turns per operation of the shared lines, each counted once.
    #[serde(default)]
    pub turns: f64,
    /// Lines that the first windows showed, so many in a row, and a later one did not.
    #[serde(skip)]
    pub lost: BTreeMap<String, usize>,
    /// Windows that showed what is left.
    #[serde(skip)]
    pub windows: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SharedLine {
    /// Per operation.
    pub turns: f64,
    /// Class, writer and other user.
    pub how: String,
}

impl Shown {
    /// Only what a further look shows too remains.
    fn confirm(&mut self, again: &Shown) {
        if self.failed.is_some() {
            self.failed = again.failed.clone();
            (self.transfers, self.moved, self.turns) = (again.transfers, again.moved, again.turns);
            self.shared = again.shared.clone();
        } else if again.failed.is_none() {
            self.transfers = self.transfers.min(again.transfers);
            self.moved = self.moved.min(again.moved);
            self.turns = self.turns.min(again.turns);
            let (windows, lost) = (self.windows.max(1), &mut self.lost);
            self.shared.retain(|name, line| {
                let turns = again.shared.get(name).map_or(0.0, |line| line.turns);
                line.turns = line.turns.min(turns);
                if turns == 0.0 {
                    lost.insert(name.clone(), windows);
                }
                turns > 0.0
            });
            self.windows = windows.saturating_add(1);
        }
    }
}

/// Measures runs of one kind on one kernel.
pub struct Measurer<'a, R> {
    pub watcher: Watcher<'a>,
    pub allowed: &'a Allowed,
    /// What is measured, and the name by which tests/gate/allowed.toml may know it.
    pub what: &'a str,
    pub cpus: u32,
    /// Turns per operation from which on a line is shared: below are ends of grace periods, batches handed on, ticks.
    pub floor: f64,
    /// Turns of a whole window up to which a line is not shared either: what happens once in it weighs much where it has few operations.
    pub rare: &'a dyn Fn(&R) -> u64,
    /// How what seems shared is looked at again.
    pub looks: Looks,
    /// The lines that count.
    pub wanted: fn(&Line) -> bool,
    /// The command of a run with so many tasks.
    pub line: &'a dyn Fn(&R, u32) -> String,
}

impl<R> Measurer<'_, R> {
    /// `count`: of which runs instructions too. What is `suspect` is looked at again.
    pub fn measure(
        &self,
        runs: &[R],
        signals: &mut Signals,
        count: &dyn Fn(&R) -> bool,
        suspect: &dyn Fn(&R, &Shown) -> bool,
    ) -> Result<Vec<Shown>> {
        let all: Vec<&R> = runs.iter().collect();
        let places: Vec<usize> =
            (0..all.len()).filter(|&at| all.get(at).is_some_and(|run| count(run))).collect();
        let counted: Vec<&R> = places.iter().filter_map(|&at| runs.get(at)).collect();
        let progress = progress_bar((all.len() + counted.len()) as u64);
        let began = Instant::now();
        let mut shown = self.look(&all, signals, &progress)?;
        self.phase(&progress, "lines", began);
        let began = Instant::now();
        for machine in 0..self.looks.machines {
            let places: Vec<usize> = (0..runs.len())
                .filter(|&at| runs.get(at).zip(shown.get(at)).is_some_and(|(run, shown)| suspect(run, shown)))
                .collect();
            if places.is_empty() || (machine >= 2 && self.looks.machines > 2 && places.len() > NO_CHANCE) {
                break;
            }
            // All of them, then all again: in one machine, unless they are too many.
            let windows = (BATCH / places.len()).clamp(1, self.looks.windows);
            let places = places.repeat(windows);
            let again: Vec<&R> = places.iter().filter_map(|&at| runs.get(at)).collect();
            progress.inc_length(again.len() as u64);
            for (at, again) in places.into_iter().zip(self.look(&again, signals, &progress)?) {
                shown.get_mut(at).into_iter().for_each(|first| first.confirm(&again));
            }
        }
        self.phase(&progress, "further looks", began);
        if !counted.is_empty() {
            let began = Instant::now();
            let counts = self.count(&counted, signals, &progress)?;
            for (at, (ops, window)) in places.into_iter().zip(counts) {
                let Some(shown) = shown.get_mut(at) else { continue };
                let each = |count: u64| (ops > 0).then(|| count as f64 / ops as f64);
                let of = |kind: &str| window.expensive.get(kind).copied().unwrap_or_default();
                shown.instructions = each(window.kernel);
                shown.user = each(window.user);
                shown.returns = each(of("iret") + of("sysret"));
            }
            self.phase(&progress, "instructions", began);
        }
        progress.finish_and_clear();
        Ok(shown)
    }

    /// Where people see no bar, a line a phase.
    fn phase(&self, progress: &ProgressBar, what: &str, began: Instant) {
        if progress.is_hidden() {
            let Measurer { what: ours, watcher, .. } = self;
            note!("{ours}: {}: {what}: {:.0} s", watcher.kernel.name(), began.elapsed().as_secs_f64());
        }
    }

    /// One window of each.
    fn look(&self, runs: &[&R], signals: &mut Signals, progress: &ProgressBar) -> Result<Vec<Shown>> {
        self.batches(runs, self.cpus, progress, &mut |of, commands, begun| {
            let watched = self.watcher.watch(self.cpus, commands, signals, begun)?;
            let shown = |(run, watched): (&&R, Watched)| match watched {
                Ok((ops, window)) => self.shown(&window, ops, (self.rare)(run), self.watcher.names),
                Err(why) => Shown { failed: Some(why), ..Shown::default() },
            };
            Ok(of.iter().zip(watched).map(shown).collect())
        })
    }

    fn shown(&self, window: &LineWindow, ops: u64, rare: u64, names: &Names) -> Shown {
        let each = |count: u64| count as f64 / ops.max(1) as f64;
        let shared: BTreeMap<_, _> = names::conflicts_where(names, window, self.wanted)
            .into_iter()
            .filter(|(_, sharing)| sharing.turns > rare)
            .map(|(name, sharing)| (name, SharedLine { turns: each(sharing.turns), how: sharing.how }))
            .filter(|(name, line)| line.turns >= self.floor && self.allowed.why(self.what, name).is_none())
            .collect();
        let is_shared = |line: &&Line| {
            (self.wanted)(line)
                && names.line(window, line).names().iter().any(|name| shared.contains_key(name))
        };
        let turns = each(window.conflicts().filter(is_shared).map(Line::turns).sum());
        let moved = each(window.kernel_reads + window.kernel_writes);
        Shown { transfers: each(window.transfers()), moved, shared, turns, ..Shown::default() }
    }

    /// Operations and instructions of each, without lines; no operations where it failed.
    fn count(
        &self,
        runs: &[&R],
        signals: &mut Signals,
        progress: &ProgressBar,
    ) -> Result<Vec<(u64, Window)>> {
        let Watcher { options, kernel, paths, limit, add, .. } = self.watcher;
        self.batches(runs, 1, progress, &mut |_, commands, begun| {
            let folder = tempfile::tempdir_in(paths.cache("run")?)?;
            let out = folder.path().join("counts.json");
            let mut machine = boot::machine(1, options.memory, Accel::Tcg, "max");
            machine.deterministic = true;
            let plugin = darter_measure::instructions_plugin(&paths.lines_plugin(), &out, false);
            machine.extra = vec!["-plugin".into(), plugin];
            let mut words = append(kernel, &options.append);
            words.push(symbols::COUNTED_APPEND.into());
            let boot =
                Boot { paths, kernel, machine, add, append: words, settle: 0.5, limit, undisturbed: true };
            let ran = boot.run(signals, commands, begun)?;
            let windows = match std::fs::read_to_string(&out) {
                Ok(text) => darter_measure::parse_instructions(&text).context("the plugin's counts")?,
                Err(_) => Vec::new(),
            };
            let mut windows: HashMap<u64, Window> =
                windows.into_iter().map(|window| (window.number, window)).collect();
            let counted = |(number, result): (usize, Option<Result<guest::Measured, String>>)| {
                Some((result?.ok()?.ops.max(1), windows.remove(&guest::window(number))?))
            };
            Ok(ran.results.into_iter().enumerate().map(counted).map(Option::unwrap_or_default).collect())
        })
    }

    /// Some hundred commands to a machine; where one ends under a command, those that have not begun go on in another.
    fn batches<T: Default>(
        &self,
        runs: &[&R],
        cpus: u32,
        progress: &ProgressBar,
        watch: &mut Watch<'_, R, T>,
    ) -> Result<Vec<T>> {
        let kernel = self.watcher.kernel.name();
        let mut all = Vec::with_capacity(runs.len());
        while all.len() < runs.len() {
            let from = all.len();
            let of: Vec<&R> = runs.iter().skip(from).take(BATCH).copied().collect();
            let commands: Vec<Command> =
                of.iter().map(|run| Command { line: (self.line)(run, cpus), huge_pages: false }).collect();
            let begun = Cell::new(0);
            let tell = |number: usize| {
                begun.set(begun.get().max(number + 1));
                progress.inc(1);
                if let Some(command) = commands.get(number) {
                    progress.set_message(format!("{kernel}: {}", command.line));
                }
            };
            let got = watch(&of, &commands, &tell)?;
            // One at least: it does not even come up, or it was the first that ended the machine.
            all.extend(got.into_iter().take(begun.get().max(1)));
            if all.len() == from {
                all.push(T::default());
            }
            if progress.is_hidden() && runs.len() > BATCH {
                note!("{}: {kernel}: {} of {}", self.what, all.len(), runs.len());
            }
        }
        Ok(all)
    }
}

/// Runs commands, those of these runs, in a machine; tells of each as it begins.
type Watch<'a, R, T> = dyn FnMut(&[&R], &[Command], &dyn Fn(usize)) -> Result<Vec<T>> + 'a;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_second_look_does_not_show_is_not_shared() {
        let shown = |lines: &[(&str, f64)]| Shown {
            shared: lines
                .iter()
                .map(|&(name, turns)| (name.to_owned(), SharedLine { turns, how: String::new() }))
                .collect(),
            turns: lines.iter().map(|(_, turns)| turns).sum(),
            ..Shown::default()
        };
        let mut first = shown(&[("a", 2.0), ("b", 1.0)]);
        first.confirm(&shown(&[("a", 1.5)]));
        assert_eq!(first.shared, shown(&[("a", 1.5)]).shared);
        assert_eq!(first.turns, 1.5);
        first.confirm(&shown(&[("a", 1.0), ("c", 1.0)]));
        first.confirm(&shown(&[]));
        assert!(first.shared.is_empty());
        let lost: Vec<_> = first.lost.iter().map(|(name, &windows)| (name.as_str(), windows)).collect();
        assert_eq!(lost, [("a", 3), ("b", 1)], "and how many windows showed it before");
        let mut lost = Shown { failed: Some("machine".into()), ..Shown::default() };
        lost.confirm(&shown(&[("a", 1.0)]));
        assert!(lost.failed.is_none() && lost.turns == 1.0);
    }
}
