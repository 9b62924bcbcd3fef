//! `darter lines`: which cache lines CPUs take from each other, per operation of a benchmark, and where in the code.
//!
//! Each machine runs every benchmark twice with the same count, and the second window is reported: in the first, memory and
//! caches are still on their way to where they stay.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, Table};
use darter_measure::{LineWindow, lines_plugin, parse_lines};
use serde::Serialize;

use crate::accel::Accel;
use crate::capture::capture;
use crate::cli::Lines;
use crate::exit::usage;
use crate::kernel_image::Kernel;
use crate::machine::Machine;
use crate::paths::Tree;
use crate::symbols;

/// The plugin tells 63 CPUs apart.
const MOST_CPUS: u32 = 63;
const LIMIT: Duration = Duration::from_secs(1800);

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
    if let Some(cpus) = options.cpus.iter().find(|&&cpus| !(2..=MOST_CPUS).contains(&cpus)) {
        return Err(usage(format!("--cpus {cpus}: lines are counted between 2 to {MOST_CPUS} CPUs")));
    }
    let mut kernels = vec![options.kernel.clone()];
    kernels.extend(options.vs.clone());
    let paths = Tree::find();
    let mut all = Vec::new();
    for kernel in &kernels {
        let symbols = symbols::of(kernel, &paths)?;
        for &cpus in &options.cpus {
            for (bench, ops, window) in measure(options, kernel, cpus, &paths)? {
                let figures =
                    figures(bench, kernel, cpus, ops, &window, window.report(ops, &symbols, options.top));
                println!("{}, {} CPUs, {}: {}", figures.bench, cpus, figures.kernel, figures.report);
                all.push(figures);
            }
        }
    }
    println!("{}", table(&all));
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(&all)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(0)
}

/// Boots a machine and runs all benchmarks in it: each with its operations and the window that counts.
fn measure(
    options: &Lines,
    kernel: &Kernel,
    cpus: u32,
    paths: &Tree,
) -> Result<Vec<(String, u64, LineWindow)>> {
    let folder = tempfile::tempdir_in(paths.cache("run")?)?;
    let out = folder.path().join("lines.json");
    let sockets = options.sockets;
    let machine = Machine {
        cpus,
        sockets,
        memory: options.memory,
        accel: Accel::Tcg,
        cpu_model: "max".into(),
        deterministic: false,
        extra: vec![
            "-plugin".into(),
            lines_plugin(&paths.lines_plugin(), &out, cpus, if sockets > 1 { cpus / sockets } else { 0 }),
        ],
    };
    machine.check()?;
    let mut append = options.append.clone();
    append.push(symbols::LINUX_APPEND.into());
    let command = ["sh".into(), "-c".into(), script(&options.benchmarks, cpus, options.ops)?];
    let printed = capture(&machine, kernel, &append, &command, LIMIT)?;
    let ops: Vec<u64> = printed.lines().filter_map(operations).collect();
    let windows = read(&out)?;
    if windows.len() != 2 * options.benchmarks.len() || ops.len() != windows.len() {
        bail!(
            "{} windows and {} results for {} runs",
            windows.len(),
            ops.len(),
            2 * options.benchmarks.len()
        );
    }
    let counted = ops.into_iter().zip(windows).skip(1).step_by(2);
    Ok(options
        .benchmarks
        .iter()
        .cloned()
        .zip(counted)
        .map(|(bench, (ops, window))| (bench, ops, window))
        .collect())
}

fn read(out: &Path) -> Result<Vec<LineWindow>> {
    let text =
        std::fs::read_to_string(out).context("the plugin left no counts: was a window ever closed?")?;
    Ok(parse_lines(&text)?)
}

/// The guest's work: a pause for a kernel that goes on working after its start, then each benchmark twice.
fn script(benchmarks: &[String], cpus: u32, ops: Option<u64>) -> Result<String> {
    let mut script = String::from("sleep 3");
    for bench in benchmarks {
        let mut words = bench.split_whitespace();
        let Some(name) = words.next() else { return Err(usage("a benchmark's name is empty")) };
        if bench.contains(|c: char| !c.is_ascii_alphanumeric() && !" -_./".contains(c)) {
            return Err(usage(format!("'{bench}' is no benchmark with options")));
        }
        let arguments: Vec<&str> = words.collect();
        let ops = ops.unwrap_or(if name.starts_with("fault") { 4096 } else { 200 });
        let run = format!(" && {name} {cpus} -q -c {ops} {}", arguments.join(" "));
        script.push_str(&run);
        script.push_str(&run);
    }
    Ok(script)
}

/// The operations of a closing line, `bench=… cpus=… ops=… …`.
fn operations(line: &str) -> Option<u64> {
    let words = line.strip_prefix("bench=")?;
    words.split(' ').find_map(|word| word.strip_prefix("ops=")?.parse().ok())
}

fn figures(
    bench: String,
    kernel: &Kernel,
    cpus: u32,
    ops: u64,
    window: &LineWindow,
    report: String,
) -> Figures {
    let each = |count: u64| count as f64 / ops.max(1) as f64;
    Figures {
        bench,
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
    table.load_style(comfy_table::presets::NOTHING);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_benchmark_runs_twice_with_its_options() {
        let script = script(&["faultzf -t".into(), "forkexit".into()], 4, None).unwrap();
        assert_eq!(
            script,
            "sleep 3 && faultzf 4 -q -c 4096 -t && faultzf 4 -q -c 4096 -t && forkexit 4 -q -c 200  && forkexit 4 -q -c 200 "
        );
    }

    #[test]
    fn a_benchmark_is_no_way_into_the_shell() {
        assert!(script(&["faultzf; reboot".into()], 2, None).is_err());
        assert!(script(&[" ".into()], 2, None).is_err());
    }

    #[test]
    fn operations_come_from_the_closing_line_alone() {
        assert_eq!(operations("bench=doexec cpus=2 ops=47190 seconds=2.2"), Some(47190));
        assert_eq!(operations("doexec 2 21488.83/sec"), None);
    }
}
