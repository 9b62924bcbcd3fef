//! `darter shares`: which part of the CPUs each of many busy processes gets, beside what it is due, and how late a sleeper wakes among them.
//!
//! The program is bench/sched/shares.c, the machine that of [`crate::paced`]. `due` says what each process should have had.
#![forbid(unsafe_code)]

pub mod due;
mod gate;
mod measure;
mod table;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use self::due::{Nices, dues, weight};
use self::gate::{Bounds, Looks};
use crate::bench::interrupted;
use crate::bench::results::{qemu_version, version};
use crate::cli::Shares as Options;
use crate::exit::usage;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;

/// Seconds of a window, and with more than [`FEW_CPUS`].
const SECONDS: f64 = 4.0;
const SECONDS_OF_MANY: f64 = 20.0;
const FEW_CPUS: u32 = 16;
/// Further looks of the gate at what seems worse.
const LOOKS: usize = 2;

/// One run of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub cpus: u32,
    pub load: f64,
    pub nice: Nices,
    pub seconds: f64,
}

impl Case {
    pub fn tasks(&self) -> u32 {
        ((f64::from(self.cpus) * self.load).round() as u32).max(1)
    }

    fn line(&self) -> String {
        format!("shares {} {} {}", self.tasks(), self.seconds, self.nice)
    }

    /// As the file of bounds calls it.
    pub fn key(&self) -> String {
        format!("{} CPUs x {}, nice {}", self.cpus, self.load, self.nice)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub nice: i32,
    /// Of processor time in the window.
    pub seconds: f64,
    /// How often it found itself on another CPU.
    pub moves: u64,
}

/// The process that sleeps 2 ms at a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ticker {
    pub seconds: f64,
    pub naps: u64,
    /// How late it woke.
    pub median_us: u64,
    pub p99_us: u64,
    pub worst_us: u64,
}

/// What one case showed on one kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    pub tasks: Vec<Task>,
    pub ticker: Ticker,
    pub failed: Option<String>,
}

/// One task beside its due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    pub nice: i32,
    pub got: f64,
    pub due: f64,
}

impl Share {
    /// In per cent of the due: negative where it got less.
    pub fn deviation(&self) -> f64 {
        if self.due > 0.0 { (self.got / self.due - 1.0) * 100.0 } else { 0.0 }
    }
}

impl Shown {
    /// Each task with its due of what the ticker left, in seconds.
    pub fn shares(&self, case: &Case) -> Vec<Share> {
        let weights: Vec<f64> = self.tasks.iter().map(|task| weight(task.nice)).collect();
        let dues = dues(&weights, f64::from(case.cpus) - self.ticker.seconds / case.seconds);
        let pairs = self.tasks.iter().zip(dues);
        pairs
            .map(|(task, due)| Share { nice: task.nice, got: task.seconds, due: due * case.seconds })
            .collect()
    }

    /// The task that is furthest from its due.
    pub fn worst(&self, case: &Case) -> Option<Share> {
        let further = |one: &Share, other: &Share| one.deviation().abs().total_cmp(&other.deviation().abs());
        self.shares(case).into_iter().max_by(further)
    }

    /// How much of the CPUs tasks and ticker had, in per cent.
    pub fn used(&self, case: &Case) -> f64 {
        let sum: f64 = self.tasks.iter().map(|task| task.seconds).sum();
        (sum + self.ticker.seconds) / (f64::from(case.cpus) * case.seconds) * 100.0
    }

    /// Moves of a task in a second.
    pub fn moves(&self, case: &Case) -> f64 {
        let sum: u64 = self.tasks.iter().map(|task| task.moves).sum();
        sum as f64 / (self.tasks.len().max(1) as f64 * case.seconds)
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
    pub cases: Vec<Case>,
    pub kernels: Vec<Column>,
}

pub fn shares(options: &Options) -> Result<u8> {
    interrupted(run(options))
}

fn run(options: &Options) -> Result<u8> {
    let began = Instant::now();
    let paths = Tree::find();
    let measured = if options.from.is_empty() { measured(options, &paths)? } else { earlier(options)? };
    if options.gate {
        return held(options, &paths, &measured, began);
    }
    out!("{}", table::table(&measured));
    out!(
        "{}{}({:.0} s)",
        table::failures(&measured),
        table::summary(&measured),
        began.elapsed().as_secs_f64()
    );
    if let Some(file) = &options.page {
        write(file, &table::page(&measured))?;
    }
    if let Some(file) = &options.json {
        write(file, &serde_json::to_string_pretty(&measured)?)?;
    }
    Ok(u8::from(has_failed(&measured)))
}

fn has_failed(measured: &Measured) -> bool {
    measured.kernels.first().is_none_or(|own| own.shown.iter().any(|shown| shown.failed.is_some()))
}

fn cases(options: &Options) -> Result<Vec<Case>> {
    if let Some(load) = options.load.iter().find(|load| !(0.01..=1000.0).contains(*load)) {
        return Err(usage(format!("--load {load}: busy processes for each CPU, 0.01 to 1000")));
    }
    let mut cases = Vec::new();
    for &cpus in &options.cpus {
        let usual = if cpus > FEW_CPUS { SECONDS_OF_MANY } else { SECONDS };
        let seconds = options.seconds.unwrap_or(usual);
        for nice in &options.nice {
            cases.extend(options.load.iter().map(|&load| Case { cpus, load, nice: nice.clone(), seconds }));
        }
    }
    Ok(cases)
}

fn measured(options: &Options, paths: &Tree) -> Result<Measured> {
    let kernels: Vec<&Kernel> = [Some(&options.kernel), options.vs.as_ref()].into_iter().flatten().collect();
    for kernel in &kernels {
        kernel.image(paths)?;
    }
    let mut signals = Signals::catch()?;
    let mut measured = Measured { qemu: qemu_version(), cases: cases(options)?, kernels: Vec::new() };
    for kernel in kernels {
        let shown = measure::measure(options, paths, kernel, &measured.cases, &mut signals)?;
        measured.kernels.push(Column { kernel: kernel.name(), version: version(paths, kernel), shown });
    }
    Ok(measured)
}

/// Against tests/gate/shares.toml, or into it.
fn held(options: &Options, paths: &Tree, measured: &Measured, began: Instant) -> Result<u8> {
    let file = options.bounds.clone().unwrap_or_else(|| gate::file(paths.root()));
    let mut bounds = Bounds::read(&file)?;
    let Some(own) = measured.kernels.first() else { return Ok(1) };
    let seconds = || began.elapsed().as_secs_f64();
    let mut all = Looks::each(&measured.cases, &own.shown);
    if options.update {
        bounds.update(&all);
        bounds.write(&file)?;
        out!("{}", table::failures(measured));
        out!("{} rows, written to {} ({:.0} s)", measured.cases.len(), file.display(), seconds());
        return Ok(u8::from(has_failed(measured)));
    }
    if options.from.is_empty() {
        confirm(options, paths, &bounds, &mut all)?;
    }
    let verdict = bounds.judge(&all);
    verdict.worse.iter().for_each(|text| out!("FAILED  {text}"));
    verdict.ask.iter().for_each(|text| out!("ok      {text}"));
    out!("{} rows, {} failed: {:.0} s", measured.cases.len(), verdict.worse.len(), seconds());
    Ok(u8::from(!verdict.worse.is_empty()))
}

/// Looks twice more at what seems worse.
fn confirm(options: &Options, paths: &Tree, bounds: &Bounds, all: &mut [Looks]) -> Result<()> {
    let mut suspects: Vec<&mut Looks> = all.iter_mut().filter(|looks| bounds.suspects(looks)).collect();
    let mut signals = Signals::catch()?;
    for _ in 0..LOOKS {
        let cases: Vec<Case> = suspects.iter().map(|looks| looks.next()).collect();
        let shown = measure::measure(options, paths, &options.kernel, &cases, &mut signals)?;
        for (looks, shown) in suspects.iter_mut().zip(shown) {
            looks.shown.push(shown);
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// What earlier runs wrote: kernels beside each other where the cases are the same.
fn earlier(options: &Options) -> Result<Measured> {
    let mut all: Option<Measured> = None;
    for file in &options.from {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let one: Measured = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        match &mut all {
            Some(all) if all.cases != one.cases => {
                return Err(usage(format!("{}: other cases than in the first", file.display())));
            }
            Some(all) => all.kernels.extend(one.kernels),
            None => all = Some(one),
        }
    }
    all.context("--from names no file")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(nice: i32, seconds: f64) -> Task {
        Task { nice, seconds, moves: 8 }
    }

    #[test]
    fn the_worst_share_is_the_one_furthest_from_its_due_of_what_the_ticker_left() {
        let case = Case { cpus: 2, load: 1.5, nice: Nices::parse("0").unwrap(), seconds: 4.0 };
        assert_eq!((case.tasks(), case.line()), (3, "shares 3 4 0".into()));
        let ticker = Ticker { seconds: 0.5, ..Ticker::default() };
        let shown = Shown { tasks: vec![task(0, 2.5), task(0, 2.75), task(0, 2.0)], ticker, failed: None };
        let worst = shown.worst(&case).unwrap();
        assert!((worst.due - 2.5).abs() < 1e-9 && (worst.deviation() + 20.0).abs() < 1e-9, "{worst:?}");
        assert!((shown.used(&case) - 96.875).abs() < 1e-9);
        assert!((shown.moves(&case) - 2.0).abs() < 1e-9);
        assert!(Shown::default().worst(&case).is_none());
    }
}
