//! `darter lines --calls`: every system call, and each of its variants that takes another path: how many lines CPUs take from each
//! other for one.
//!
//! The cases are those of bench/calls: each in up to three forms (processes, threads of one process, all on one object). With `--beside` one
//! CPU fewer does them, and the last one idles, is busy, or runs a program that works as a build does.
#![forbid(unsafe_code)]

mod gate;
mod picture;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command as Process;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use darter_measure::Names;
use serde::{Deserialize, Serialize};

use self::gate::Bounds;
use super::gate::table::{Allowed, allowed_file};
use super::measurer::{LOOKS_OF_A_GATE, LOOKS_OF_A_TABLE, Looks, Measurer, Shown};
use super::windows::Watcher;
use super::write;
use crate::cli::Lines;
use crate::exit::usage;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::symbols;

/// Operations of each task.
const OPS: u64 = 100;
/// Seconds that one case may take.
const LIMIT: u32 = 30;
/// Turns per operation from which on a line is shared.
const FLOOR: f64 = 0.05;
/// Turns of a window beside something else that come once in it: a CPU that leaves a memory in which it idled is told of one change more.
const RARE: u64 = 6;
/// The name by which tests/gate/allowed.toml may know all cases.
const WHAT: &str = "calls";

/// The form in which all workers use one object.
const ONE: &str = "one";

/// What the last CPU does while the others make calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Beside {
    Idle,
    Busy,
    Program,
}

impl Beside {
    fn name(self) -> &'static str {
        match self {
            Beside::Idle => "idle",
            Beside::Busy => "busy",
            Beside::Program => "program",
        }
    }
}

/// One case in one form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Run {
    /// The system call.
    pub call: String,
    pub case: String,
    pub form: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
}

impl Run {
    /// "read one", "fork processes beside idle".
    fn key(&self) -> String {
        let beside = self.beside.map_or_else(String::new, |beside| format!(" beside {}", beside.name()));
        format!("{} {}{beside}", self.case, self.form)
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
    let runs = beside(&chosen(&cases(&paths)?, &options.benchmarks)?, &options.beside);
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
            let shown =
                measurer(watcher, &allowed, cpus, LOOKS_OF_A_TABLE, &|run, cpus| line(run, cpus, ops))
                    .measure(&runs, &mut signals, &|run| run.beside.is_none(), &unsure)?;
            measured.kernels.push(Column { kernel: kernel.name(), shown });
        }
        failed |= show(options, &measured, Some(began.elapsed().as_secs_f64()))?;
    }
    Ok(failed)
}

/// What earlier runs wrote, kernels beside each other. Each may have measured some of the cases; of what several have, the last one counts.
fn earlier(files: &[PathBuf]) -> Result<Measured> {
    let mut read = Vec::new();
    for file in files {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let one: Measured = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        read.push(one);
    }
    let cpus = read.first().context("--from names no file")?.cpus;
    if read.iter().any(|one| one.cpus != cpus) {
        return Err(usage("--from: the files are of machines with different numbers of CPUs"));
    }
    Ok(joined(cpus, read))
}

fn joined(cpus: u32, read: Vec<Measured>) -> Measured {
    let mut runs: Vec<Run> = read.iter().flat_map(|one| one.runs.iter().cloned()).collect();
    runs.sort_by(|one, other| (one.beside, one).cmp(&(other.beside, other)));
    runs.dedup();
    let mut kernels: Vec<(String, BTreeMap<Run, Shown>)> = Vec::new();
    for one in read {
        for Column { kernel, shown } in one.kernels {
            let seen = one.runs.iter().cloned().zip(shown);
            match kernels.iter_mut().find(|(name, _)| *name == kernel) {
                Some((_, all)) => all.extend(seen),
                None => kernels.push((kernel, seen.collect())),
            }
        }
    }
    let column = |(kernel, mut all): (String, BTreeMap<Run, Shown>)| {
        let missing = || Shown { failed: Some("not measured".into()), ..Shown::default() };
        let shown = runs.iter().map(|run| all.remove(run).unwrap_or_else(missing)).collect();
        Column { kernel, shown }
    };
    let kernels = kernels.into_iter().map(column).collect();
    Measured { cpus, runs, kernels }
}

/// Prints what was measured, and writes it where the options say. 1: a case failed on the first kernel.
fn show(options: &Lines, measured: &Measured, seconds: Option<f64>) -> Result<u8> {
    let Measured { cpus, runs, kernels } = measured;
    out!("{}", table::table(runs, kernels));
    out!("{}", table::closest_text(runs, kernels));
    table::beside(runs, kernels).iter().for_each(|table| out!("{table}\n"));
    out!("{}", table::lines(runs, kernels, options.names));
    out!("{}", table::summary(runs, kernels, *cpus, seconds));
    if let Some(file) = &options.page {
        let picture = options.svg.as_ref().and_then(|file| file.file_name()?.to_str());
        write(file, &table::page(runs, kernels, &table::summary(runs, kernels, *cpus, None), picture))?;
    }
    if let Some(file) = &options.svg {
        write(file, &picture::draw(runs, kernels))?;
    }
    if let Some(file) = &options.json {
        write(file, &serde_json::to_string_pretty(measured)?)?;
    }
    let failed = kernels.first().is_some_and(|own| own.shown.iter().any(|shown| shown.failed.is_some()));
    Ok(u8::from(failed))
}

/// Failed, or shares a line, and may not do so again: in few operations, or because two words came into one bucket.
fn unsure(_: &Run, shown: &Shown) -> bool {
    shown.failed.is_some() || !shown.shared.is_empty()
}

/// Against tests/gate/calls.toml, or into it.
fn held(options: &Lines, paths: &Tree, runs: &[Run], allowed: &Allowed, signals: &mut Signals) -> Result<u8> {
    let began = Instant::now();
    let [cpus] = options.cpus[..] else {
        return Err(usage("--calls --gate: the bounds are those of one number of CPUs"));
    };
    let all = beside(&cases(paths)?, Beside::value_variants());
    let file = gate::file(paths.root());
    let mut bounds = Bounds::read(&file)?;
    let kernel = &options.machine.kernel;
    let names = symbols::names(kernel, paths)?;
    let watcher = watcher(options, kernel, &names, paths);
    let ops = options.ops.unwrap_or(OPS);
    let shown = measurer(watcher, allowed, cpus, LOOKS_OF_A_GATE, &|run, cpus| line(run, cpus, ops))
        .measure(runs, signals, &|_| false, &|run, shown| options.update || bounds.suspects(run, shown))?;
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
    verdict.ask.iter().for_each(|text| out!("ok      {text}"));
    if options.names {
        bounds.rare(runs, &shown).iter().for_each(|text| out!("rare    {text}"));
    }
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
            let run = move |form| Run { call: call.clone(), case: case.clone(), form, beside: None };
            words.map(run).collect::<Vec<_>>()
        })
        .collect();
    runs.sort();
    runs
}

/// These, and those of them in which each worker has objects of its own beside something else.
fn beside(runs: &[Run], kinds: &[Beside]) -> Vec<Run> {
    let beside = |&kind: &Beside| {
        let own = runs.iter().filter(|run| run.form != ONE);
        own.map(move |run| Run { beside: Some(kind), ..run.clone() })
    };
    runs.iter().cloned().chain(kinds.iter().flat_map(beside)).collect()
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
    Watcher { options: &options.machine, kernel, names, paths, add: &[], limit: LIMIT }
}

fn line(run: &Run, cpus: u32, ops: u64) -> String {
    let Run { case, form, .. } = run;
    match run.beside {
        None => format!("calls run {case} {form} {cpus} {ops}"),
        Some(beside) => {
            let workers = cpus.saturating_sub(1).max(1);
            format!("calls run {case} {form} {workers} {ops} {}", beside.name())
        }
    }
}

fn measurer<'a>(
    watcher: Watcher<'a>,
    allowed: &'a Allowed,
    cpus: u32,
    looks: Looks,
    line: &'a dyn Fn(&Run, u32) -> String,
) -> Measurer<'a, Run> {
    let rare = &|run: &Run| if run.beside.is_some() { RARE } else { 0 };
    Measurer { watcher, allowed, what: WHAT, cpus, floor: FLOOR, rare, looks, wanted: |_| true, line }
}

/// The calls that have a run.
pub fn calls(runs: &[Run]) -> BTreeSet<&str> {
    runs.iter().map(|run| run.call.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "write-null write processes one\nread read processes\n";

    #[test]
    fn earlier_runs_are_joined_by_case_and_the_last_counts() {
        let run =
            |case: &str, beside| Run { call: case.into(), case: case.into(), form: "one".into(), beside };
        let shown = |turns| Shown { turns, ..Shown::default() };
        let column = |kernel: &str, turns: &[f64]| Column {
            kernel: kernel.into(),
            shown: turns.iter().copied().map(shown).collect(),
        };
        let (beside, read, write) = (run("read", Some(Beside::Idle)), run("read", None), run("write", None));
        let first = Measured {
            cpus: 2,
            runs: vec![read.clone(), beside.clone()],
            kernels: vec![column("darter", &[1.0, 2.0])],
        };
        let second = Measured {
            cpus: 2,
            runs: vec![write.clone(), read.clone()],
            kernels: vec![column("darter", &[3.0, 4.0]), column("linux", &[5.0, 6.0])],
        };
        let all = joined(2, vec![first, second]);
        assert_eq!(all.runs, [read, write, beside]);
        let turns =
            |place: usize| -> Vec<f64> { all.kernels[place].shown.iter().map(|shown| shown.turns).collect() };
        assert_eq!(turns(0), [4.0, 3.0, 2.0]);
        assert_eq!(turns(1), [6.0, 5.0, 0.0]);
        assert!(all.kernels[1].shown[2].failed.is_some());
    }

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
}
