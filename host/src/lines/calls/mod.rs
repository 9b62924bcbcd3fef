//! `darter lines --calls`: every system call, and each of its variants that takes another path: how many lines CPUs take from each
//! other for one.
//!
//! The cases are those of bench/calls: each in up to three forms (processes, threads of one process, all on one object). With `--beside` one
//! CPU fewer does them, and the last one idles, is busy, or runs a program that works as a build does.
#![forbid(unsafe_code)]

mod gate;
mod kept;
mod picture;
mod table;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command as Process;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use darter_measure::Names;
use serde::{Deserialize, Serialize};

use self::gate::Bounds;
pub use self::kept::Column;
use self::kept::{Known, Measured};
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
/// Cases and forms that are measured, with all further looks at them, before what is known is written down.
const PART: usize = 600;
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
        let measured = kept::earlier(&options.from)?;
        return show(options, &measured, None);
    }
    let mut failed = 0;
    for &cpus in &options.cpus {
        let measured = measured(options, &paths, &runs, &allowed, &mut signals, cpus)?;
        failed |= show(options, &measured, Some(began.elapsed().as_secs_f64()))?;
    }
    Ok(failed)
}

/// Measures all that `--resume` does not know, some at a time, and writes what is known after each.
fn measured(
    options: &Lines,
    paths: &Tree,
    runs: &[Run],
    allowed: &Allowed,
    signals: &mut Signals,
    cpus: u32,
) -> Result<Measured> {
    let mut known = Known::of(options, cpus)?;
    let ops = options.ops.unwrap_or(OPS);
    for kernel in [Some(&options.machine.kernel), options.vs.as_ref()].into_iter().flatten() {
        let left = known.left(kernel, paths, runs)?;
        let names = symbols::names(kernel, paths)?;
        let command = |run: &Run, cpus| line(run, cpus, ops);
        for part in left.chunks(PART) {
            let measurer =
                measurer(watcher(options, kernel, &names, paths), allowed, cpus, LOOKS_OF_A_TABLE, &command);
            let shown = measurer.measure(part, signals, &|run| run.beside.is_none(), &unsure)?;
            known.add(kernel, part, shown);
            if let Some(file) = &options.json {
                known.write(file)?;
            }
        }
    }
    Ok(known.measured())
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
        write(file, &picture::draw(runs, kernels)?)?;
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

/// Does all cases.
fn program(paths: &Tree) -> PathBuf {
    paths.benchmarks().join("calls")
}

/// All cases in all their forms, as the program itself names them.
pub fn cases(paths: &Tree) -> Result<Vec<Run>> {
    let program = program(paths);
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
