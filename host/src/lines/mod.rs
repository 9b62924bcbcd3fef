//! `darter lines`: which cache lines CPUs take from each other, per operation of a benchmark, and where in the code.
//!
//! Each machine runs every benchmark twice with the same count, and the second window is reported: in the first, memory and
//! caches are still on their way to where they stay.
#![forbid(unsafe_code)]

mod selftest;

use std::path::Path;

use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, Table, presets};
use darter_measure::{LineWindow, Names, lines_plugin, parse_lines};
use serde::Serialize;

use crate::accel::Accel;
use crate::bench::boot::{self, Boot};
use crate::bench::guest::Command;
use crate::bench::suite::{self, Spec};
use crate::bench::{append, interrupted};
use crate::cli::Lines;
use crate::exit::usage;
use crate::kernel_image::Kernel;
use crate::machine::Machine;
use crate::paths::Tree;
use crate::signals::Signals;
use crate::symbols;

/// The plugin tells 63 CPUs apart.
const MOST_CPUS: u32 = 63;
/// Seconds that one benchmark may take.
const LIMIT: u32 = 900;
/// Seconds after the boot: Linux still works in the background then.
const SETTLE: f64 = 3.0;

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
    let specs = suite::choose(&options.benchmarks)?;
    let kernels = [Some(options.kernel.clone()), options.vs.clone()];
    let paths = Tree::find();
    let mut signals = Signals::catch()?;
    let mut all = Vec::new();
    for kernel in kernels.iter().flatten() {
        let names = symbols::names(kernel, &paths)?;
        for &cpus in &options.cpus {
            let windows = measure(options, kernel, &names, cpus, &paths, &specs, &mut signals)?;
            for (spec, window) in specs.iter().zip(windows) {
                let (ops, window) = window.with_context(|| format!("{} on {}", spec.name, kernel.name()))?;
                let report = window.report(ops, &names, options.top);
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

/// Boots a machine and runs all benchmarks in it: for each its operations and the window that counts.
fn measure(
    options: &Lines,
    kernel: &Kernel,
    names: &Names,
    cpus: u32,
    paths: &Tree,
    specs: &[Spec],
    signals: &mut Signals,
) -> Result<Vec<Result<(u64, LineWindow)>>> {
    let folder = tempfile::tempdir_in(paths.cache("run")?)?;
    let out = folder.path().join("lines.json");
    let machine = machine(options, cpus, paths, &out, &names.plugin_options(cpus))?;
    let mut words = append(kernel, &options.append);
    words.push(symbols::LINUX_APPEND.into());
    let commands: Vec<Command> = specs
        .iter()
        .flat_map(|spec| [spec, spec])
        .map(|spec| Command {
            line: spec.counted_on(cpus, options.ops.unwrap_or(default_ops(spec))),
            huge_pages: spec.huge_pages,
        })
        .collect();
    let boot = Boot { paths, kernel, machine, append: words, settle: SETTLE, limit: LIMIT };
    let ran = boot.run(signals, &commands, &|_| {})?;
    let mut windows = read(&out).unwrap_or_default().into_iter();
    let mut results = ran.results.into_iter();
    let mut run = || match results.next().flatten() {
        Some(Ok(measured)) => {
            windows.next().map(|window| (measured.ops, window)).context("the plugin saw no window of it")
        }
        Some(Err(why)) => bail!(why),
        None => bail!(ran.machine.clone().unwrap_or_else(|| "it did not run".into())),
    };
    Ok(specs
        .iter()
        .map(|_| {
            let first = run();
            let second = run();
            first.and(second)
        })
        .collect())
}

/// A machine whose every load and store the plugin watches.
fn machine(options: &Lines, cpus: u32, paths: &Tree, out: &Path, read: &str) -> Result<Machine> {
    let mut machine = boot::machine(cpus, options.memory, Accel::Tcg, "max");
    machine.sockets = options.sockets;
    let node_cpus = if options.sockets > 1 { cpus / options.sockets } else { 0 };
    machine.extra = vec!["-plugin".into(), lines_plugin(&paths.lines_plugin(), out, cpus, node_cpus, read)];
    machine.check()?;
    Ok(machine)
}

fn default_ops(spec: &Spec) -> u64 {
    if spec.program.starts_with("fault") { 4096 } else { 200 }
}

fn read(out: &Path) -> Result<Vec<LineWindow>> {
    Ok(parse_lines(&std::fs::read_to_string(out)?)?)
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
