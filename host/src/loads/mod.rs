//! `darter loads`: programs that sleep and wake in the ways that schedulers are tried by, on a few CPUs.
//!
//! The programs are those of bench/sched; each runs in the machine of [`crate::paced`], and once more on one CPU, with the plugin that
//! counts the kernel's instructions between marks. (On one host thread it cannot tell several CPUs apart.)
#![forbid(unsafe_code)]

mod table;

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use darter_measure::Window;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::bench::guest::{self, Measured as Said};
use crate::bench::results::{qemu_version, version};
use crate::bench::{interrupted, progress_bar};
use crate::cli::Loads as Options;
use crate::exit::usage;
use crate::machine::kernel::Kernel;
use crate::paced;
use crate::paths::Tree;
use crate::relay::signals::Signals;

/// Iterations of a string instruction that count as one instruction: it moves a cache line in that time.
const ITERATIONS: f64 = 64.0;

/// Name, command, what it is.
const LOADS: [(&str, &str, &str); 9] = [
    ("messages", "messages 2 500", "two groups of five senders and five receivers over pipes, processes"),
    ("messages-threads", "messages 2 500 -t", "the same, threads of one process"),
    ("pairs", "pairs 1 10000", "two processes send each other a byte by pipes"),
    ("pairs-threads", "pairs 1 10000 -t", "the same, threads"),
    ("pairs-many", "pairs 8 1250", "eight pairs of processes"),
    ("wakes", "wakes 2 6 500", "two threads hand out work to six threads each, by futexes"),
    ("build-2", "build 2 240", "make -j 2: a shell and a compiler for each of 240 files"),
    ("build-4", "build 4 240", "make -j 4"),
    ("build-8", "build 8 240", "make -j 8"),
];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub cpus: u32,
    pub name: String,
}

/// What one case showed on one kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Operations a second.
    pub rate: f64,
    pub ops: u64,
    /// How late who was woken ran, in microseconds.
    pub median_us: f64,
    pub p99_us: f64,
    pub worst_us: f64,
    /// How often tasks found themselves on another CPU, all together.
    pub moves: u64,
    /// Processor time of all tasks, in seconds, and how long it took.
    pub cpu_seconds: f64,
    pub seconds: f64,
    /// The kernel's, for one operation, on one CPU.
    pub instructions: Option<f64>,
    pub failed: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub struct Column {
    pub kernel: String,
    pub version: String,
    pub shown: Vec<Shown>,
}

/// What `--json` writes.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub qemu: String,
    pub cases: Vec<Case>,
    pub kernels: Vec<Column>,
}

pub fn loads(options: &Options) -> Result<u8> {
    interrupted(run(options))
}

fn run(options: &Options) -> Result<u8> {
    let began = Instant::now();
    let paths = Tree::find();
    let measured = measured(options, &paths)?;
    out!("{}", table::table(&measured));
    out!("{}({:.0} s)", table::failures(&measured), began.elapsed().as_secs_f64());
    if let Some(file) = &options.page {
        write(file, &table::page(&measured))?;
    }
    if let Some(file) = &options.json {
        write(file, &serde_json::to_string_pretty(&measured)?)?;
    }
    let own = measured.kernels.first();
    Ok(u8::from(own.is_none_or(|own| own.shown.iter().any(|shown| shown.failed.is_some()))))
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn cases(options: &Options) -> Result<Vec<Case>> {
    let names: Vec<&str> = LOADS.iter().map(|(name, ..)| *name).collect();
    if let Some(name) = options.names.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(usage(format!("there is no load '{name}'; there are: {}", names.join(" "))));
    }
    let is_wanted = |name: &&str| options.names.is_empty() || options.names.iter().any(|own| own == *name);
    let names: Vec<&str> = names.into_iter().filter(is_wanted).collect();
    let each = |&cpus: &u32| names.iter().map(move |&name| Case { cpus, name: name.into() });
    Ok(options.cpus.iter().flat_map(each).collect())
}

fn command(name: &str) -> String {
    LOADS.iter().find(|(of, ..)| *of == name).map_or_else(String::new, |(_, line, _)| (*line).to_owned())
}

fn measured(options: &Options, paths: &Tree) -> Result<Measured> {
    let plugin = paths.lines_plugin();
    if !plugin.is_file() {
        bail!("{} is missing: run 'make plugin'", plugin.display());
    }
    let cases = cases(options)?;
    let mut signals = Signals::catch()?;
    let mut measured = Measured { qemu: qemu_version(), cases, kernels: Vec::new() };
    for kernel in [Some(&options.kernel), options.vs.as_ref()].into_iter().flatten() {
        let progress = progress_bar(measured.cases.len() as u64);
        let mut guest = Guest { options, paths, kernel, signals: &mut signals, progress: &progress };
        let mut shown = Vec::new();
        for cases in measured.cases.chunk_by(|one, other| one.cpus == other.cpus) {
            shown.extend(guest.run(cases, None)?);
        }
        let alone = guest.instructions(&measured.cases)?;
        for (case, shown) in measured.cases.iter().zip(&mut shown) {
            shown.instructions = alone.get(&case.name).copied();
        }
        progress.finish_and_clear();
        measured.kernels.push(Column { kernel: kernel.name(), version: version(paths, kernel), shown });
    }
    Ok(measured)
}

struct Guest<'a> {
    options: &'a Options,
    paths: &'a Tree,
    kernel: &'a Kernel,
    signals: &'a mut Signals,
    progress: &'a ProgressBar,
}

impl Guest<'_> {
    /// Cases with the same number of CPUs, in one machine; `out`: with the plugin, which writes there.
    fn run(&mut self, cases: &[Case], out: Option<&Path>) -> Result<Vec<Shown>> {
        let Some(cpus) = cases.first().map(|case| case.cpus) else { return Ok(Vec::new()) };
        let Guest { options, paths, kernel, signals, progress } = self;
        let mut machine = paced::machine(cpus, options.memory);
        if let Some(out) = out {
            let plugin = darter_measure::instructions_plugin(&paths.lines_plugin(), out, false);
            machine.extra.extend(["-plugin".into(), plugin]);
        }
        let lines: Vec<String> = cases.iter().map(|case| command(&case.name)).collect();
        let tell = |number: usize| {
            let line = lines.get(number).map_or("", String::as_str);
            progress.set_message(format!("{}, {cpus} CPUs: {line}", kernel.name()));
            progress.inc(1);
        };
        let ran = paced::run(paths, kernel, machine, &options.append, &lines, signals, &tell)?;
        let lost = || failed(ran.machine.clone().unwrap_or_else(|| "it did not run".into()));
        let results = ran.results.into_iter();
        Ok(results
            .map(|result| match result {
                Some(Ok(said)) => shown(&said),
                Some(Err(why)) => failed(why),
                None => lost(),
            })
            .collect())
    }

    /// Of one operation of each load, on one CPU. None for a load that failed.
    fn instructions(&mut self, cases: &[Case]) -> Result<HashMap<String, f64>> {
        let mut alone: Vec<Case> = Vec::new();
        for case in cases {
            if !alone.iter().any(|known| known.name == case.name) {
                alone.push(Case { cpus: 1, name: case.name.clone() });
            }
        }
        self.progress.inc_length(alone.len() as u64);
        let folder = tempfile::tempdir_in(self.paths.cache("run")?)?;
        let out = folder.path().join("counts.json");
        let shown = self.run(&alone, Some(&out))?;
        let text = std::fs::read_to_string(&out).context("the plugin's counts")?;
        let windows = darter_measure::parse_instructions(&text).context("the plugin's counts")?;
        let windows: HashMap<u64, Window> =
            windows.into_iter().map(|window| (window.number, window)).collect();
        let rows = alone.into_iter().zip(shown).enumerate();
        let good = rows.filter(|(_, (_, shown))| shown.failed.is_none());
        Ok(good
            .filter_map(|(number, (case, shown))| {
                let window = windows.get(&guest::window(number))?;
                let all = window.kernel as f64 + window.kernel_iterations as f64 / ITERATIONS;
                Some((case.name, all / shown.ops.max(1) as f64))
            })
            .collect())
    }
}

fn failed(why: String) -> Shown {
    Shown { failed: Some(why), ..Shown::default() }
}

fn shown(said: &Said) -> Shown {
    match said.said.iter().find_map(|line| parse(line)) {
        Some(late) => Shown { rate: said.rate, ops: said.ops, seconds: said.seconds, ..late },
        None => failed(format!("it said {}", said.said.join("; "))),
    }
}

/// `load SAMPLES MEDIAN_US P99_US WORST_US MOVES CPU_US`.
fn parse(line: &str) -> Option<Shown> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["load", _, median, p99, worst, moves, cpu_us] = words.as_slice() else { return None };
    Some(Shown {
        median_us: median.parse().ok()?,
        p99_us: p99.parse().ok()?,
        worst_us: worst.parse().ok()?,
        moves: moves.parse().ok()?,
        cpu_seconds: cpu_us.parse::<f64>().ok()? / 1e6,
        ..Shown::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loads_line_is_read() {
        let shown = parse("load 800 15.6 284.0 3918.9 7 500000").unwrap();
        assert_eq!((shown.median_us, shown.worst_us, shown.moves, shown.cpu_seconds), (15.6, 3918.9, 7, 0.5));
        assert!(parse("load 800 15.6 284.0").is_none() && parse("wakes: no memory").is_none());
    }

    #[test]
    fn every_load_has_a_command_of_a_program() {
        for (name, line, what) in LOADS {
            assert!(command(name) == line && !what.is_empty());
            let program = line.split(' ').next().unwrap();
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../bench/sched/{program}.c"));
            assert!(source.is_file(), "{}", source.display());
        }
    }
}
