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

/// One run of the program. Several of one key are looks at the same: one after the other, each with a window a hundredth longer.
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

    /// As if the window had been so many times as long.
    fn scaled(&self, by: f64) -> Shown {
        let scale = |task: &Task| Task {
            seconds: task.seconds * by,
            moves: (task.moves as f64 * by).round() as u64,
            ..task.clone()
        };
        Shown {
            tasks: self.tasks.iter().map(scale).collect(),
            ticker: Ticker { seconds: self.ticker.seconds * by, ..self.ticker.clone() },
            failed: self.failed.clone(),
        }
    }

    /// Of several looks the one whose worst share is the median, with the medians of how late the ticker woke; or one that failed.
    fn median(case: &Case, looks: &[Shown]) -> Shown {
        if let Some(failed) = looks.iter().find(|look| look.failed.is_some()) {
            return failed.clone();
        }
        let off = |look: &&Shown| look.worst(case).map_or(0.0, |share| share.deviation().abs());
        let mut sorted: Vec<&Shown> = looks.iter().collect();
        sorted.sort_by(|one, other| off(one).total_cmp(&off(other)));
        let mut shown = sorted.get(sorted.len() / 2).copied().cloned().unwrap_or_default();
        let late = |of: fn(&Ticker) -> u64| {
            let mut all: Vec<u64> = looks.iter().map(|look| of(&look.ticker)).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or_default()
        };
        shown.ticker.median_us = late(|ticker| ticker.median_us);
        shown.ticker.p99_us = late(|ticker| ticker.p99_us);
        shown.ticker.worst_us = late(|ticker| ticker.worst_us);
        shown
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

impl Measured {
    /// Has the other further cases of the same kernels?
    fn goes_on_with(&self, other: &Measured) -> bool {
        let of = |measured: &Measured| -> Vec<(String, String)> {
            let both = |column: &Column| (column.kernel.clone(), column.version.clone());
            measured.kernels.iter().map(both).collect()
        };
        of(self) == of(other) && !other.cases.iter().any(|case| self.cases.contains(case))
    }

    /// One row for each key: the medians of its looks.
    fn medians(&self) -> Measured {
        let groups: Vec<&[Case]> = self.cases.chunk_by(|one, other| one.key() == other.key()).collect();
        let fold = |column: &Column| {
            let mut rest = column.shown.as_slice();
            let mut shown = Vec::new();
            for cases in &groups {
                let (looks, others) = rest.split_at(cases.len().min(rest.len()));
                rest = others;
                let Some(first) = cases.first() else { continue };
                let pairs = cases.iter().zip(looks);
                let looks: Vec<Shown> =
                    pairs.map(|(case, look)| look.scaled(first.seconds / case.seconds)).collect();
                shown.push(Shown::median(first, &looks));
            }
            Column { kernel: column.kernel.clone(), version: column.version.clone(), shown }
        };
        Measured {
            qemu: self.qemu.clone(),
            cases: groups.iter().filter_map(|cases| cases.first().cloned()).collect(),
            kernels: self.kernels.iter().map(fold).collect(),
        }
    }
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
    let medians = measured.medians();
    out!("{}", table::table(&medians));
    out!("{}{}({:.0} s)", table::failures(&medians), table::summary(&medians), began.elapsed().as_secs_f64());
    if let Some(file) = &options.page {
        write(file, &table::page(&medians))?;
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
        // The gate looks again by itself, and a long window of many CPUs says enough.
        let looks = if options.gate || cpus > FEW_CPUS { 1 } else { options.runs };
        let longer = |look: u32| seconds * (1.0 + f64::from(look) / 100.0);
        for nice in &options.nice {
            let looks = |&load: &f64| {
                (0..looks).map(move |look| Case { cpus, load, nice: nice.clone(), seconds: longer(look) })
            };
            cases.extend(options.load.iter().flat_map(looks));
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

/// What earlier runs wrote: further cases of the same kernels behind each other, and then kernels beside each other, whose cases must be the same.
fn earlier(options: &Options) -> Result<Measured> {
    let mut parts: Vec<Measured> = Vec::new();
    for file in &options.from {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let one: Measured = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        match parts.iter_mut().find(|part| part.goes_on_with(&one)) {
            Some(part) => {
                part.cases.extend(one.cases);
                let pairs = part.kernels.iter_mut().zip(one.kernels);
                pairs.for_each(|(part, one)| part.shown.extend(one.shown));
            }
            None => parts.push(one),
        }
    }
    let mut parts = parts.into_iter();
    let mut all = parts.next().context("--from names no file")?;
    for part in parts {
        if part.cases != all.cases {
            return Err(usage("--from: the files have other cases of one kernel than of another"));
        }
        all.kernels.extend(part.kernels);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(nice: i32, seconds: f64) -> Task {
        Task { nice, seconds, moves: 8 }
    }

    #[test]
    fn of_several_looks_the_row_has_the_medians_and_its_own_window() {
        let case = |seconds| Case { cpus: 2, load: 1.0, nice: Nices::parse("0").unwrap(), seconds };
        let look = |seconds: [f64; 2], worst_us| Shown {
            tasks: seconds.map(|seconds| task(0, seconds)).to_vec(),
            ticker: Ticker { worst_us, ..Ticker::default() },
            failed: None,
        };
        let shown = vec![look([4.0, 2.0], 30), look([5.0, 4.0], 10), look([6.0, 6.0], 20)];
        let kernels = vec![Column { kernel: "a".into(), version: "1".into(), shown }];
        let measured = Measured { qemu: "1".into(), cases: [4.0, 5.0, 6.0].map(case).to_vec(), kernels };
        let medians = measured.medians();
        assert_eq!(medians.cases, [case(4.0)]);
        assert_eq!(medians.kernels[0].shown[0].tasks[1].seconds, 3.2);
        assert_eq!(medians.kernels[0].shown[0].ticker.worst_us, 20);
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
