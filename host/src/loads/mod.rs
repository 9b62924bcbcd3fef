//! `darter loads`: programs that sleep and wake in the ways that schedulers are tried by, on a few CPUs.
//!
//! The programs are those of bench/sched; each runs in the machine of [`crate::paced`], several times with a little more or less to do, and once
//! more on one CPU, with the plugin that counts the kernel's instructions between marks. (On one host thread it cannot tell several CPUs apart.)
//!
//! A run repeats exactly, but one that is a little longer is another: who waits longest, and how often tasks move, differs by half. So
//! figures are medians of the runs.
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

struct Load {
    name: &'static str,
    /// The command; `#` stands for the amount.
    line: &'static str,
    /// How much it has to do.
    amount: u64,
    what: &'static str,
}

const fn load(name: &'static str, line: &'static str, amount: u64, what: &'static str) -> Load {
    Load { name, line, amount, what }
}

const LOADS: [Load; 9] = [
    load(
        "messages",
        "messages 2 #",
        500,
        "two groups of five senders and five receivers over pipes, processes",
    ),
    load("messages-threads", "messages 2 # -t", 500, "the same, threads of one process"),
    load("pairs", "pairs 1 #", 10000, "two processes send each other a byte by pipes"),
    load("pairs-threads", "pairs 1 # -t", 10000, "the same, threads"),
    load("pairs-many", "pairs 8 #", 1250, "eight pairs of processes"),
    load("wakes", "wakes 2 6 #", 500, "two threads hand out work to six threads each, by futexes"),
    load("build-2", "build 2 #", 240, "make -j 2: a shell and a compiler for each of 240 files"),
    load("build-4", "build 4 #", 240, "make -j 4"),
    load("build-8", "build 8 #", 240, "make -j 8"),
];

impl Load {
    /// The command of run `run` of `runs`: the middle one does the amount, each before it a hundredth less, each after it more.
    fn command(&self, run: u32, runs: u32) -> String {
        let hundredths = u64::from(100 + run) - u64::from(runs / 2);
        self.line.replace('#', &(self.amount * hundredths / 100).to_string())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub cpus: u32,
    pub name: String,
}

/// What one case showed on one kernel: one run, or the medians of several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// Operations a second.
    pub rate: f64,
    pub ops: f64,
    /// How late who was woken ran, in microseconds.
    pub median_us: f64,
    pub p99_us: f64,
    pub worst_us: f64,
    /// How often tasks found themselves on another CPU, for one operation.
    pub moves: f64,
    /// CPUs' worth of time that the tasks had.
    pub used: f64,
    /// The kernel's, for one operation, on one CPU.
    pub instructions: Option<f64>,
    pub failed: Option<String>,
}

impl Shown {
    /// The median of each figure; where one run failed, that.
    fn medians(runs: &[Shown]) -> Shown {
        if let Some(bad) = runs.iter().find(|run| run.failed.is_some()) {
            return bad.clone();
        }
        let median = |of: fn(&Shown) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or_default()
        };
        Shown {
            rate: median(|run| run.rate),
            ops: median(|run| run.ops),
            median_us: median(|run| run.median_us),
            p99_us: median(|run| run.p99_us),
            worst_us: median(|run| run.worst_us),
            moves: median(|run| run.moves),
            used: median(|run| run.used),
            instructions: None,
            failed: None,
        }
    }
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
    /// Runs of each case.
    pub runs: u32,
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
    let names: Vec<&str> = LOADS.iter().map(|load| load.name).collect();
    if let Some(name) = options.names.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(usage(format!("there is no load '{name}'; there are: {}", names.join(" "))));
    }
    let is_wanted = |name: &&str| options.names.is_empty() || options.names.iter().any(|own| own == *name);
    let names: Vec<&str> = names.into_iter().filter(is_wanted).collect();
    let each = |&cpus: &u32| names.iter().map(move |&name| Case { cpus, name: name.into() });
    Ok(options.cpus.iter().flat_map(each).collect())
}

fn measured(options: &Options, paths: &Tree) -> Result<Measured> {
    let plugin = paths.lines_plugin();
    if !plugin.is_file() {
        bail!("{} is missing: run 'make plugin'", plugin.display());
    }
    let cases = cases(options)?;
    let mut signals = Signals::catch()?;
    let mut measured = Measured { qemu: qemu_version(), runs: options.runs, cases, kernels: Vec::new() };
    for kernel in [Some(&options.kernel), options.vs.as_ref()].into_iter().flatten() {
        let progress = progress_bar(measured.cases.len() as u64 * u64::from(options.runs));
        let mut guest = Guest { options, paths, kernel, signals: &mut signals, progress: &progress };
        let mut shown = Vec::new();
        for cases in measured.cases.chunk_by(|one, other| one.cpus == other.cpus) {
            shown.extend(guest.run(cases, options.runs, None)?);
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
    /// Cases with the same number of CPUs, so many runs of each, in one machine; `out`: with the plugin, which writes there.
    fn run(&mut self, cases: &[Case], runs: u32, out: Option<&Path>) -> Result<Vec<Shown>> {
        let Some(cpus) = cases.first().map(|case| case.cpus) else { return Ok(Vec::new()) };
        let Guest { options, paths, kernel, signals, progress } = self;
        let mut machine = paced::machine(cpus, options.memory);
        if let Some(out) = out {
            let plugin = darter_measure::instructions_plugin(&paths.lines_plugin(), out, false);
            machine.extra.extend(["-plugin".into(), plugin]);
        }
        let known = |case: &Case| LOADS.iter().find(|load| load.name == case.name);
        let lines: Vec<String> = cases
            .iter()
            .filter_map(known)
            .flat_map(|load| (0..runs).map(move |run| load.command(run, runs)))
            .collect();
        let tell = |number: usize| {
            let line = lines.get(number).map_or("", String::as_str);
            progress.set_message(format!("{}, {cpus} CPUs: {line}", kernel.name()));
            progress.inc(1);
        };
        let ran = paced::run(paths, kernel, machine, &options.append, &lines, signals, &tell)?;
        let lost = || failed(ran.machine.clone().unwrap_or_else(|| "it did not run".into()));
        let results = ran.results.into_iter();
        let each: Vec<Shown> = results
            .map(|result| match result {
                Some(Ok(said)) => shown(&said),
                Some(Err(why)) => failed(why),
                None => lost(),
            })
            .collect();
        Ok(each.chunks(runs as usize).map(Shown::medians).collect())
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
        let shown = self.run(&alone, 1, Some(&out))?;
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
                Some((case.name, all / shown.ops.max(1.0)))
            })
            .collect())
    }
}

fn failed(why: String) -> Shown {
    Shown { failed: Some(why), ..Shown::default() }
}

fn shown(said: &Said) -> Shown {
    match said.said.iter().find_map(|line| parse(line)) {
        Some((late, moves, cpu_seconds)) => Shown {
            rate: said.rate,
            ops: said.ops as f64,
            moves: moves / said.ops.max(1) as f64,
            used: cpu_seconds / said.seconds,
            ..late
        },
        None => failed(format!("it said {}", said.said.join("; "))),
    }
}

/// `load SAMPLES MEDIAN_US P99_US WORST_US MOVES CPU_US`: how late, moves of all tasks, and their seconds.
fn parse(line: &str) -> Option<(Shown, f64, f64)> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["load", _, median, p99, worst, moves, cpu_us] = words.as_slice() else { return None };
    let late = Shown {
        median_us: median.parse().ok()?,
        p99_us: p99.parse().ok()?,
        worst_us: worst.parse().ok()?,
        ..Shown::default()
    };
    Some((late, moves.parse().ok()?, cpu_us.parse::<f64>().ok()? / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loads_line_is_read() {
        let (shown, moves, seconds) = parse("load 800 15.6 284.0 3918.9 7 500000").unwrap();
        assert_eq!((shown.median_us, shown.worst_us, moves, seconds), (15.6, 3918.9, 7.0, 0.5));
        assert!(parse("load 800 15.6 284.0").is_none() && parse("wakes: no memory").is_none());
    }

    #[test]
    fn of_several_runs_each_figure_is_the_median() {
        let run = |rate, worst_us| Shown { rate, worst_us, ..Shown::default() };
        let runs = [run(3.0, 10.0), run(1.0, 30.0), run(2.0, 20.0)];
        assert_eq!(Shown::medians(&runs), run(2.0, 20.0));
        assert_eq!(Shown::medians(&[run(1.0, 1.0), failed("it".into())]), failed("it".into()));
    }

    #[test]
    fn runs_differ_a_little_in_what_they_do() {
        let load = LOADS.iter().find(|load| load.name == "messages-threads").unwrap();
        let lines: Vec<String> = (0..5).map(|run| load.command(run, 5)).collect();
        assert_eq!(lines[0], "messages 2 490 -t");
        assert_eq!((lines[2].as_str(), lines[4].as_str()), ("messages 2 500 -t", "messages 2 510 -t"));
        assert_eq!(load.command(0, 1), "messages 2 500 -t");
    }

    #[test]
    fn every_load_has_a_command_of_a_program() {
        for load in LOADS {
            assert!(load.line.contains('#') && !load.what.is_empty());
            let program = load.line.split(' ').next().unwrap();
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../bench/sched/{program}.c"));
            assert!(source.is_file(), "{}", source.display());
        }
    }
}
