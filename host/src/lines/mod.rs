//! `darter lines`: which cache lines CPUs take from each other, per operation of a benchmark, and where in the code.
//!
//! Each machine runs every benchmark twice with the same count, and the second window is reported: in the first, memory and
//! caches are still on their way to where they stay.
#![forbid(unsafe_code)]

mod cost;
mod gate;
mod names;
mod selftest;
mod windows;

use anyhow::{Context, Result, anyhow};
use comfy_table::{CellAlignment, Table, presets};
use darter_measure::LineWindow;
use serde::Serialize;

use crate::bench::guest::Command;
use crate::bench::interrupted;
use crate::bench::suite::{self, Spec};
use crate::cli::Lines;
use crate::exit::usage;
use crate::kernel_image::Kernel;
use crate::paths::Tree;
use crate::signals::Signals;
use crate::symbols;
use windows::{Watched, Watcher};

/// The plugin tells 63 CPUs apart.
const MOST_CPUS: u32 = 63;

/// One benchmark on one kernel with one number of CPUs.
#[derive(Serialize)]
struct Figures {
    bench: String,
    kernel: String,
    cpus: u32,
    ops: u64,
    transfers_per_op: f64,
    kernel_transfers_per_op: f64,
    remote_transfers_per_op: f64,
    conflict_lines: usize,
    accesses_per_op: f64,
    /// What the text shows of the lines.
    report: String,
}

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
    if options.gate {
        return gate::run(options);
    }
    if options.cost {
        return cost::run(options);
    }
    let specs = suite::choose(&options.benchmarks)?;
    let kernels = [Some(options.machine.kernel.clone()), options.vs.clone()];
    let paths = Tree::find();
    let mut signals = Signals::catch()?;
    let mut all = Vec::new();
    for kernel in kernels.iter().flatten() {
        let names = &symbols::names(kernel, &paths)?;
        let watcher = Watcher { options: &options.machine, kernel, names, paths: &paths };
        for &cpus in &options.cpus {
            let windows = measure(options, &watcher, cpus, &specs, &mut signals)?;
            for (spec, window) in specs.iter().zip(windows) {
                let (ops, window) = window
                    .map_err(|why| anyhow!(why))
                    .with_context(|| format!("{} on {}", spec.name, kernel.name()))?;
                let report = window.report(ops, names, options.top);
                out!("{}, {cpus} CPUs, {}: {report}", spec.name, kernel.name());
                all.push(figures(spec, kernel, cpus, ops, &window, report));
            }
        }
    }
    // The kernels beside each other.
    all.sort_by(|a, b| (&a.bench, a.cpus).cmp(&(&b.bench, b.cpus)));
    out!("{}", table(&all));
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(&all)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(0)
}

/// All benchmarks in one machine, each twice: operations and window of the second run.
fn measure(
    options: &Lines,
    watcher: &Watcher<'_>,
    cpus: u32,
    specs: &[Spec],
    signals: &mut Signals,
) -> Result<Vec<Watched>> {
    let commands: Vec<Command> = specs
        .iter()
        .flat_map(|spec| [spec, spec])
        .map(|spec| Command {
            line: spec.counted_on(cpus, options.ops.unwrap_or(default_ops(spec))),
            huge_pages: spec.huge_pages,
        })
        .collect();
    let mut ran = watcher.watch(cpus, &commands, signals, &|_| {})?.into_iter();
    Ok(specs.iter().filter_map(|_| ran.next().and_then(|first| Some(first.and(ran.next()?)))).collect())
}

fn default_ops(spec: &Spec) -> u64 {
    if spec.program.starts_with("fault") { 4096 } else { 200 }
}

fn figures(
    spec: &Spec,
    kernel: &Kernel,
    cpus: u32,
    ops: u64,
    window: &LineWindow,
    report: String,
) -> Figures {
    let each = |count: u64| count as f64 / ops.max(1) as f64;
    Figures {
        bench: spec.name.clone(),
        kernel: kernel.name(),
        cpus,
        ops,
        transfers_per_op: each(window.transfers()),
        kernel_transfers_per_op: each(window.kernel_reads + window.kernel_writes),
        remote_transfers_per_op: each(window.remote),
        conflict_lines: window.conflicts().count(),
        accesses_per_op: each(window.user_accesses + window.kernel_accesses),
        report,
    }
}

fn table(all: &[Figures]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["benchmark", "kernel", "CPUs", "operations", "lines taken / op", "conflict lines"]);
    for figures in all {
        table.add_row([
            figures.bench.clone(),
            figures.kernel.clone(),
            figures.cpus.to_string(),
            figures.ops.to_string(),
            format!("{:.3}", figures.transfers_per_op),
            figures.conflict_lines.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
