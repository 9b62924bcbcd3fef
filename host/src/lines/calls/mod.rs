//! `darter lines --calls`: every system call, and each of its variants that takes another path: how many lines CPUs take from each
//! other for one.
//!
//! The cases are those of bench/calls: each in up to three forms (processes, threads of one process, all on one object). Some
//! hundred windows to a machine, each case's form in one of its own. What seems shared is looked at again, and counts only if both
//! windows show it. Instructions come from one task on one CPU, in machines of their own.
#![forbid(unsafe_code)]

mod gate;
mod table;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::Command as Process;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use darter_measure::{LineWindow, Names};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use self::gate::Bounds;
use super::gate::table::{Allowed, allowed_file};
use super::windows::{Watched, Watcher};
use super::{names, write};
use crate::bench::boot::{self, Boot};
use crate::bench::guest::{self, Command};
use crate::bench::{append, progress_bar};
use crate::cli::Lines;
use crate::exit::usage;
use crate::machine::accel::Accel;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::symbols;

/// Windows of one machine: its script is one argument, and the plugin writes all of them at each.
const BATCH: usize = 150;
/// Operations of each task.
const OPS: u64 = 100;
/// Seconds that one case may take.
const LIMIT: u32 = 30;
/// Turns per operation from which on a line is shared: below are ends of grace periods, batches handed on, ticks.
const FLOOR: f64 = 0.05;
/// Turns per operation from which on a line is shared without a further look, in the table.
const UNSURE: f64 = 0.5;
/// Looks at what seems shared, after the first.
const LOOKS: usize = 2;
/// The name by which tests/gate/allowed.toml may know all cases.
const BENCH: &str = "calls";

/// One case in one form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Run {
    /// The system call.
    pub call: String,
    pub case: String,
    pub form: String,
}

/// What one run showed on one kernel.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Shown {
    pub failed: Option<String>,
    /// The kernel's, of one task on one CPU.
    pub instructions: Option<f64>,
    /// All lines taken from another CPU, per operation.
    pub transfers: f64,
    /// Shared lines by object and field.
    pub shared: BTreeMap<String, SharedLine>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SharedLine {
    /// Per operation.
    pub turns: f64,
    /// Class, writer and other user.
    pub how: String,
}

impl Shown {
    pub fn turns(&self) -> f64 {
        self.shared.values().map(|line| line.turns).sum()
    }

    fn of(window: &LineWindow, ops: u64, names: &Names, allowed: &Allowed) -> Shown {
        let each = |count: u64| count as f64 / ops.max(1) as f64;
        let shared = names::conflicts(names, window)
            .into_iter()
            .map(|(name, sharing)| (name, SharedLine { turns: each(sharing.turns), how: sharing.how }))
            .filter(|(name, line)| line.turns >= FLOOR && allowed.why(BENCH, name).is_none())
            .collect();
        Shown { transfers: each(window.transfers()), shared, ..Shown::default() }
    }

    /// Only what a further look shows too remains.
    fn confirm(&mut self, again: &Shown) {
        if self.failed.is_some() {
            self.failed = again.failed.clone();
            (self.transfers, self.shared) = (again.transfers, again.shared.clone());
        } else if again.failed.is_none() {
            self.transfers = self.transfers.min(again.transfers);
            self.shared.retain(|name, line| {
                let turns = again.shared.get(name).map_or(0.0, |line| line.turns);
                line.turns = line.turns.min(turns);
                turns > 0.0
            });
        }
    }
}

/// One kernel's column.
#[derive(Serialize, Deserialize)]
pub struct Column {
    pub kernel: String,
    pub shown: Vec<Shown>,
}

/// What `--json` writes.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    cpus: u32,
    runs: Vec<Run>,
    kernels: Vec<Column>,
}

pub fn run(options: &Lines) -> Result<u8> {
    let began = Instant::now();
    let paths = Tree::find();
    let runs = chosen(&cases(&paths)?, &options.benchmarks)?;
    let allowed = Allowed::read(&allowed_file(paths.root()))?;
    let mut signals = Signals::catch()?;
    if options.gate {
        return held(options, &paths, &runs, &allowed, &mut signals);
    }
    if !options.from.is_empty() {
        let measured = earlier(&options.from)?;
        return show(options, &measured, None);
    }
    let mut failed = 0;
    let ops = options.ops.unwrap_or(OPS);
    for &cpus in &options.cpus {
        let mut measured = Measured { cpus, runs: runs.clone(), kernels: Vec::new() };
        for kernel in [Some(&options.machine.kernel), options.vs.as_ref()].into_iter().flatten() {
            let names = symbols::names(kernel, &paths)?;
            let watcher = watcher(options, kernel, &names, &paths);
            let measurer = Measurer { watcher, allowed: &allowed, cpus, ops };
            let shown = measurer.measure(&runs, &mut signals, true, &unsure)?;
            measured.kernels.push(Column { kernel: kernel.name(), shown });
        }
        failed |= show(options, &measured, Some(began.elapsed().as_secs_f64()))?;
    }
    Ok(failed)
}

/// What earlier runs wrote, kernels beside each other.
fn earlier(files: &[PathBuf]) -> Result<Measured> {
    let mut all: Option<Measured> = None;
    for file in files {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let one: Measured = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        match &mut all {
            Some(all) if (all.cpus, &all.runs) != (one.cpus, &one.runs) => {
                return Err(usage(format!(
                    "{}: other cases, or other CPUs, than in the first",
                    file.display()
                )));
            }
            Some(all) => all.kernels.extend(one.kernels),
            None => all = Some(one),
        }
    }
    all.context("--from names no file")
}

/// Prints what was measured, and writes it where the options say. 1: a case failed on the first kernel.
fn show(options: &Lines, measured: &Measured, seconds: Option<f64>) -> Result<u8> {
    let Measured { cpus, runs, kernels } = measured;
    out!("{}", table::table(runs, kernels));
    out!("{}", table::lines(runs, kernels, options.names));
    out!("{}", table::summary(runs, kernels, *cpus, seconds));
    if let Some(file) = &options.page {
        write(file, &table::page(runs, kernels, &table::summary(runs, kernels, *cpus, None)))?;
    }
    if let Some(file) = &options.json {
        write(file, &serde_json::to_string_pretty(measured)?)?;
    }
    let failed = kernels.first().is_some_and(|own| own.shown.iter().any(|shown| shown.failed.is_some()));
    Ok(u8::from(failed))
}

/// Failed, or shares a line in so few operations that it may not do so again.
fn unsure(_: &Run, shown: &Shown) -> bool {
    shown.failed.is_some() || shown.shared.values().any(|line| line.turns < UNSURE)
}

/// Against tests/gate/calls.toml, or into it.
fn held(options: &Lines, paths: &Tree, runs: &[Run], allowed: &Allowed, signals: &mut Signals) -> Result<u8> {
    let began = Instant::now();
    let [cpus] = options.cpus[..] else {
        return Err(usage("--calls --gate: the bounds are those of one number of CPUs"));
    };
    let (file, all) = (gate::file(paths.root()), cases(paths)?);
    let mut bounds = Bounds::read(&file)?;
    let kernel = &options.machine.kernel;
    let names = symbols::names(kernel, paths)?;
    let watcher = watcher(options, kernel, &names, paths);
    let shown = Measurer { watcher, allowed, cpus, ops: options.ops.unwrap_or(OPS) }.measure(
        runs,
        signals,
        false,
        &|run, shown| options.update || bounds.suspects(run, shown),
    )?;
    let shares = shown.iter().filter(|shown| !shown.shared.is_empty()).count();
    let said = format!("{} cases and forms, {shares} share lines", runs.len());
    if options.update {
        bounds.update(runs, &shown, &all);
        bounds.write(&file)?;
        out!("{said}, written to {} ({:.0} s)", file.display(), began.elapsed().as_secs_f64());
        return Ok(u8::from(shown.iter().any(|shown| shown.failed.is_some())));
    }
    let verdict = bounds.judge(runs, &shown, &all);
    verdict.worse.iter().for_each(|text| out!("FAILED  {text}"));
    verdict.ask.iter().for_each(|text| out!("ok      {text}: the bound could be lower"));
    out!("{said}, {} failed: {:.0} s", verdict.worse.len(), began.elapsed().as_secs_f64());
    Ok(u8::from(!verdict.worse.is_empty()))
}

/// All cases in all their forms, as the program itself names them.
pub fn cases(paths: &Tree) -> Result<Vec<Run>> {
    let program = paths.benchmarks().join("calls");
    let said = Process::new(&program).arg("list").output();
    let said = said.with_context(|| format!("cannot ask {}: run 'make benchmarks'", program.display()))?;
    let runs = parse(&String::from_utf8_lossy(&said.stdout));
    if runs.is_empty() {
        bail!("{} names no cases", program.display());
    }
    Ok(runs)
}

/// Lines `CASE CALL FORM...`.
fn parse(list: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = list
        .lines()
        .flat_map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            let (case, call) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            words.map(move |form| Run { call: call.clone(), case: case.clone(), form }).collect::<Vec<_>>()
        })
        .collect();
    runs.sort();
    runs
}

/// All, or those whose call or case is named, or case and form: "read one".
fn chosen(all: &[Run], names: &[String]) -> Result<Vec<Run>> {
    let is = |run: &Run, name: &str| {
        run.call == name || run.case == name || format!("{} {}", run.case, run.form) == name
    };
    if let Some(name) = names.iter().find(|name| !all.iter().any(|run| is(run, name))) {
        return Err(usage(format!("no call and no case is named {name}")));
    }
    let wanted = |run: &&Run| names.is_empty() || names.iter().any(|name| is(run, name));
    Ok(all.iter().filter(wanted).cloned().collect())
}

fn watcher<'a>(options: &'a Lines, kernel: &'a Kernel, names: &'a Names, paths: &'a Tree) -> Watcher<'a> {
    Watcher { options: &options.machine, kernel, names, paths, limit: LIMIT }
}

/// Measures on one kernel.
struct Measurer<'a> {
    watcher: Watcher<'a>,
    allowed: &'a Allowed,
    cpus: u32,
    /// Operations of each task.
    ops: u64,
}

impl Measurer<'_> {
    fn measure(
        &self,
        runs: &[Run],
        signals: &mut Signals,
        count: bool,
        suspect: &dyn Fn(&Run, &Shown) -> bool,
    ) -> Result<Vec<Shown>> {
        let progress = progress_bar((1 + u64::from(count)) * runs.len() as u64);
        let all: Vec<&Run> = runs.iter().collect();
        let began = Instant::now();
        let mut shown = self.look(&all, signals, &progress)?;
        self.phase(&progress, "lines", began);
        let began = Instant::now();
        for _ in 0..LOOKS {
            let places: Vec<usize> = (0..runs.len())
                .filter(|&at| runs.get(at).zip(shown.get(at)).is_some_and(|(run, shown)| suspect(run, shown)))
                .collect();
            let again: Vec<&Run> = places.iter().filter_map(|&at| runs.get(at)).collect();
            progress.inc_length(again.len() as u64);
            for (at, again) in places.into_iter().zip(self.look(&again, signals, &progress)?) {
                shown.get_mut(at).into_iter().for_each(|first| first.confirm(&again));
            }
        }
        self.phase(&progress, "further looks", began);
        if !count {
            progress.finish_and_clear();
            return Ok(shown);
        }
        let began = Instant::now();
        let counts = self.count(&all, signals, &progress)?;
        for (shown, count) in shown.iter_mut().zip(counts) {
            shown.instructions = count;
        }
        self.phase(&progress, "instructions", began);
        progress.finish_and_clear();
        Ok(shown)
    }

    /// Where people see no bar, a line a phase.
    fn phase(&self, progress: &ProgressBar, what: &str, began: Instant) {
        if progress.is_hidden() {
            note!("calls: {}: {what}: {:.0} s", self.watcher.kernel.name(), began.elapsed().as_secs_f64());
        }
    }

    fn commands(&self, runs: &[&Run], cpus: u32) -> Vec<Command> {
        runs.iter()
            .map(|run| Command {
                line: format!("calls run {} {} {cpus} {}", run.case, run.form, self.ops),
                huge_pages: false,
            })
            .collect()
    }

    /// One window of each.
    fn look(&self, runs: &[&Run], signals: &mut Signals, progress: &ProgressBar) -> Result<Vec<Shown>> {
        let Measurer { watcher, allowed, cpus, .. } = self;
        self.batches(runs, *cpus, progress, &mut |commands, begun| {
            let watched = watcher.watch(*cpus, commands, signals, begun)?;
            let shown = |watched: Watched| match watched {
                Ok((ops, window)) => Shown::of(&window, ops, watcher.names, allowed),
                Err(why) => Shown { failed: Some(why), ..Shown::default() },
            };
            Ok(watched.into_iter().map(shown).collect())
        })
    }

    /// Instructions of each, without lines.
    fn count(
        &self,
        runs: &[&Run],
        signals: &mut Signals,
        progress: &ProgressBar,
    ) -> Result<Vec<Option<f64>>> {
        let Watcher { options, kernel, paths, .. } = self.watcher;
        self.batches(runs, 1, progress, &mut |commands, begun| {
            let folder = tempfile::tempdir_in(paths.cache("run")?)?;
            let out = folder.path().join("counts.json");
            let mut machine = boot::machine(1, options.memory, Accel::Tcg, "max");
            machine.deterministic = true;
            let plugin = darter_measure::instructions_plugin(&paths.lines_plugin(), &out, false);
            machine.extra = vec!["-plugin".into(), plugin];
            let mut words = append(kernel, &options.append);
            words.push(symbols::COUNTED_APPEND.into());
            let boot =
                Boot { paths, kernel, machine, append: words, settle: 0.5, limit: LIMIT, undisturbed: true };
            let ran = boot.run(signals, commands, begun)?;
            let windows = match std::fs::read_to_string(&out) {
                Ok(text) => darter_measure::parse_instructions(&text).context("the plugin's counts")?,
                Err(_) => Vec::new(),
            };
            let counts: HashMap<u64, u64> =
                windows.into_iter().map(|window| (window.number, window.kernel)).collect();
            Ok(ran
                .results
                .into_iter()
                .enumerate()
                .map(|(number, result)| {
                    let ops = result?.ok()?.ops;
                    counts.get(&guest::window(number)).map(|&count| count as f64 / ops.max(1) as f64)
                })
                .collect())
        })
    }

    /// Some hundred commands to a machine; where one ends under a command, those that have not begun go on in another.
    fn batches<T: Default>(
        &self,
        runs: &[&Run],
        cpus: u32,
        progress: &ProgressBar,
        watch: &mut Watch<'_, T>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::with_capacity(runs.len());
        while all.len() < runs.len() {
            let from = all.len();
            let part: Vec<&Run> = runs.iter().skip(from).take(BATCH).copied().collect();
            let commands = self.commands(&part, cpus);
            let begun = Cell::new(0);
            let tell = |number: usize| {
                begun.set(begun.get().max(number + 1));
                progress.inc(1);
                if let Some(run) = part.get(number) {
                    progress.set_message(format!(
                        "{}: {} {}",
                        self.watcher.kernel.name(),
                        run.case,
                        run.form
                    ));
                }
            };
            let got = watch(&commands, &tell)?;
            // One at least: it does not even come up, or it was the first that ended the machine.
            all.extend(got.into_iter().take(begun.get().max(1)));
            if all.len() == from {
                all.push(T::default());
            }
            if progress.is_hidden() && runs.len() > BATCH {
                note!("calls: {}: {} of {}", self.watcher.kernel.name(), all.len(), runs.len());
            }
        }
        Ok(all)
    }
}

/// Runs commands in a machine; tells of each as it begins.
type Watch<'a, T> = dyn FnMut(&[Command], &dyn Fn(usize)) -> Result<Vec<T>> + 'a;

/// The calls that have a run.
pub fn calls(runs: &[Run]) -> BTreeSet<&str> {
    runs.iter().map(|run| run.call.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "write-null write processes one\nread read processes\n";

    #[test]
    fn cases_come_by_call_and_are_chosen_by_any_of_their_names() {
        let all = parse(LIST);
        let names = |runs: &[Run]| -> Vec<String> {
            runs.iter().map(|run| format!("{} {}", run.case, run.form)).collect()
        };
        assert_eq!(names(&all), ["read processes", "write-null one", "write-null processes"]);
        let chosen = |name: &str| chosen(&all, &[name.to_owned()]).map(|runs| names(&runs));
        assert_eq!(chosen("write").unwrap().len(), 2);
        assert_eq!(chosen("write-null one").unwrap(), ["write-null one"]);
        assert!(chosen("writ").is_err());
    }

    #[test]
    fn what_a_second_look_does_not_show_is_not_shared() {
        let shown = |lines: &[(&str, f64)]| Shown {
            shared: lines
                .iter()
                .map(|&(name, turns)| (name.to_owned(), SharedLine { turns, how: String::new() }))
                .collect(),
            ..Shown::default()
        };
        let mut first = shown(&[("a", 2.0), ("b", 1.0)]);
        first.confirm(&shown(&[("a", 1.5)]));
        assert_eq!(first.shared, shown(&[("a", 1.5)]).shared);
        let mut lost = Shown { failed: Some("machine".into()), ..Shown::default() };
        lost.confirm(&shown(&[("a", 1.0)]));
        assert!(lost.failed.is_none() && lost.turns() == 1.0);
    }
}
