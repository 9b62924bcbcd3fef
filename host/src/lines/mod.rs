//! `darter lines`: which cache lines CPUs take from each other, per operation of a benchmark, and where in the code.
//!
//! Each machine runs every benchmark several times with the same count. The first window is left out: in it, memory and
//! caches are still on their way to where they stay. Of the others, transfers are the last one's, and conflict lines those of any,
//! with the number of windows that showed them.
#![forbid(unsafe_code)]

mod calls;
mod cost;
pub mod gate;
pub mod grid;
pub mod measurer;
mod modelled;
pub mod names;
pub mod predict;
pub mod report;
mod selftest;
pub mod windows;

use std::path::Path;

use anyhow::{Context, Result};

pub use calls::Beside;

use crate::bench::exact::{self, Exact};
use crate::bench::guest::Command;
use crate::bench::results::Origin;
use crate::bench::suite::{self, Spec};
use crate::bench::{interrupted, progress_bar};
use crate::cli::Lines;
use crate::exit::usage;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::symbols;
use darter_measure::LineWindow;
use indicatif::ProgressBar;
use modelled::ModelledCache;
use report::{Counted, Figures};
use serde::de::DeserializeOwned;
use windows::Watcher;

/// The plugin tells 63 CPUs apart.
pub const MOST_CPUS: u32 = 63;

pub fn lines(options: &Lines) -> Result<u8> {
    interrupted(count(options))
}

fn count(options: &Lines) -> Result<u8> {
    if let Some(cpus) = options.cpus.iter().find(|&&cpus| !(2..=MOST_CPUS).contains(&cpus)) {
        return Err(usage(format!("--cpus {cpus}: lines are counted between 2 to {MOST_CPUS} CPUs")));
    }
    if options.self_test {
        return selftest::run(options);
    }
    if options.calls {
        return calls::run(options);
    }
    if options.gate {
        return gate::run(options);
    }
    if options.cost {
        return cost::run(options);
    }
    if options.grid {
        return grid::run(options);
    }
    let specs = suite::choose(&options.benchmarks)?;
    let kernels = [Some(options.machine.kernel.clone()), options.vs.clone()];
    let paths = Tree::find();
    let mut signals = Signals::catch()?;
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    let machines = kernels.iter().flatten().count() * options.cpus.len();
    let progress = progress_bar((machines * specs.len() * (1 + options.windows as usize)) as u64);
    for kernel in kernels.iter().flatten() {
        let names = &symbols::names(kernel, &paths)?;
        let watcher = Watcher {
            options: &options.machine,
            kernel,
            names,
            paths: &paths,
            add: &[],
            limit: windows::LIMIT,
        };
        for &cpus in &options.cpus {
            let windows = measure(options, &watcher, cpus, &specs, &mut signals, &progress)?;
            for (spec, windows) in specs.iter().zip(windows) {
                let windows = match windows {
                    Ok(windows) => windows,
                    Err(why) => {
                        failed.push(format!("{}, {cpus} CPUs, {}: failed: {why}", spec.name, kernel.name()));
                        continue;
                    }
                };
                let Some((ops, window)) = windows.last() else { continue };
                let report = window.report(*ops, names, options.top);
                let modelled = ModelledCache::of(options.machine.cache, window, *ops);
                let text = modelled.as_ref().map(ModelledCache::text).unwrap_or_default();
                progress.suspend(|| out!("{}, {cpus} CPUs, {}: {report}{text}", spec.name, kernel.name()));
                let mut figures = Figures::new(spec, kernel.name(), cpus, (*ops, window), names, report);
                figures.lines = window.named(names, options.top);
                figures.add_windows(names, &windows);
                figures.modelled_cache = modelled;
                all.push(figures);
            }
        }
        if options.instructions || options.predict {
            progress.set_message(format!("{}: instructions", kernel.name()));
            let how =
                Exact { memory: options.machine.memory, append: &options.machine.append, profile: false };
            let specs = suite::choose_exact(&options.benchmarks)?;
            let counts = exact::count_on(&mut signals, &paths, kernel, &specs, &how, &|_| {})?;
            all.iter_mut().for_each(|figures| figures.add_instructions(&counts));
        }
    }
    progress.finish_and_clear();
    // The kernels beside each other.
    all.sort_by(|a, b| (&a.bench, a.cpus).cmp(&(&b.bench, b.cpus)));
    out!("{}", report::table(&all));
    let curves = if options.predict { predict::curves(&all, &options.costs) } else { Vec::new() };
    if options.predict {
        out!("{}", predict::text(&curves, &options.costs));
    }
    if let Some(file) = options.svg.as_ref().filter(|_| options.predict) {
        write(file, &predict::draw(&curves, &options.costs)?)?;
    }
    if let Some(file) = &options.json {
        let kernels: Vec<Kernel> = kernels.into_iter().flatten().collect();
        let costs = options.predict.then(|| options.costs.text());
        let counted = Counted { origin: Origin::new(&paths, &kernels), figures: all, model: curves, costs };
        write(file, &serde_json::to_string_pretty(&counted)?)?;
    }
    failed.iter().for_each(|why| out!("{why}"));
    Ok(u8::from(!failed.is_empty()))
}

/// What the file says; what is the default if it is not there.
fn read<T: Default + DeserializeOwned>(file: &Path) -> Result<T> {
    match std::fs::read_to_string(file) {
        Ok(text) => toml::from_str(&text).with_context(|| file.display().to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Operations and window of each run of one benchmark.
type Windows = Result<Vec<(u64, LineWindow)>, String>;

/// All benchmarks in one machine: operations and window of each run but the first.
fn measure(
    options: &Lines,
    watcher: &Watcher<'_>,
    cpus: u32,
    specs: &[Spec],
    signals: &mut Signals,
    progress: &ProgressBar,
) -> Result<Vec<Windows>> {
    let runs = 1 + options.windows as usize;
    let before = progress.position();
    progress.set_message(format!("{}, {cpus} CPUs: boot", watcher.kernel.name()));
    let tell = |number: usize| {
        progress.set_position(before + number as u64);
        let name = specs.get(number / runs).map_or("", |spec| spec.name.as_str());
        progress.set_message(format!("{}, {cpus} CPUs: {name}", watcher.kernel.name()));
    };
    let commands: Vec<Command> = specs
        .iter()
        .flat_map(|spec| std::iter::repeat_n(spec, runs))
        .map(|spec| Command {
            line: spec.counted_on(cpus, options.ops.unwrap_or(spec.window_ops)),
            huge_pages: spec.huge_pages,
        })
        .collect();
    let mut ran = watcher.watch(cpus, &commands, signals, &tell)?.into_iter();
    progress.set_position(before + commands.len() as u64);
    Ok(specs
        .iter()
        .map(|_| {
            let ran: Vec<_> = ran.by_ref().take(runs).collect();
            let windows: Windows = ran.into_iter().collect();
            windows.map(|windows| windows.into_iter().skip(1).collect())
        })
        .collect())
}
