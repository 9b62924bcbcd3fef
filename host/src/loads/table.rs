//! The table of loads: kernels beside each other.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{LOADS, Measured, Shown};
use crate::bench::table::number;

const PAGE: &str = "\
Programs that sleep and wake in the ways that schedulers are tried by (`bench/sched`): `messages` as hackbench and perf's bench sched messaging do, `pairs` as perf's bench sched
pipe, `wakes` as schbench, `build` as make -j. Nothing is pinned. *Rate* is operations a second; the last column is the first kernel's by the
second's. *Late* is how long who was woken took to run, in microseconds: the median, the 99th percentile and the worst; of `messages` it is how long a message took, its time in the pipe
with it. *Used* is which part of the CPUs' time the tasks had, their start and end with it. *Moves* is how often a task found itself on another CPU, in a thousand operations. *Instructions* are the kernel's for one operation, ticks
with them, on a machine with one CPU.

Time counts in instructions (2 ns each, of all CPUs in turn: `host/src/paced.rs`), so rates compare how much the kernels do, and not what a cache
line costs. A CPU that idles leaves its turns to the others, which are faster by that: time that a kernel leaves a CPU idle beside waiting tasks
shows in *used* and in *late*, and not in the rate.
";

fn cells(cpus: u32, shown: Option<&Shown>) -> Vec<String> {
    match shown {
        Some(shown) if shown.failed.is_none() => vec![
            number(shown.rate),
            format!("{:.1} / {:.1} / {:.1}", shown.median_us, shown.p99_us, shown.worst_us),
            format!("{:.0} %", shown.used / f64::from(cpus) * 100.0),
            format!("{:.1}", shown.moves * 1000.0),
            shown.instructions.map_or_else(|| "-".into(), number),
        ],
        _ => vec!["failed".into(), String::new(), String::new(), String::new(), String::new()],
    }
}

pub fn table(measured: &Measured) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["load".to_owned(), "CPUs".into()];
    for column in &measured.kernels {
        header.push(format!("{}: rate", column.kernel));
        header.extend(["late, us", "used", "moves", "instructions"].map(str::to_owned));
    }
    header.push("×".into());
    table.set_header(header);
    for (at, case) in measured.cases.iter().enumerate() {
        let mut line = vec![case.name.clone(), case.cpus.to_string()];
        line.extend(measured.kernels.iter().flat_map(|column| cells(case.cpus, column.shown.get(at))));
        let rates: Vec<f64> =
            measured.kernels.iter().filter_map(|column| Some(column.shown.get(at)?.rate)).collect();
        line.push(match rates.as_slice() {
            [ours, theirs] if *theirs > 0.0 => format!("{:.2}", ours / theirs),
            _ => String::new(),
        });
        table.add_row(line);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

pub fn failures(measured: &Measured) -> String {
    let mut text = String::new();
    for column in &measured.kernels {
        for (case, shown) in measured.cases.iter().zip(&column.shown) {
            if let Some(why) = &shown.failed {
                let _ = writeln!(text, "{}, {} CPUs, {}: failed: {why}", case.name, case.cpus, column.kernel);
            }
        }
    }
    text
}

pub fn page(measured: &Measured) -> String {
    let mut table = table(measured);
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let vs: String =
        measured.kernels.iter().skip(1).map(|column| format!(" --vs {}", column.kernel)).collect();
    let known: String = LOADS
        .iter()
        .map(|load| format!("- `{}`: {} (`{}`)\n", load.name, load.what, load.command(0, 1)))
        .collect();
    let versions: Vec<&str> = measured.kernels.iter().map(|column| column.version.as_str()).collect();
    format!(
        "# Loads of the scheduler\n\nPrinted by `./darter loads{vs} --page docs/loads.md` ({}, QEMU {}); not written by hand.\n\n{PAGE}\nEach load runs {} times, with a hundredth more to do each time, since a run repeats exactly, and one that is a little longer is another; each figure is the median of\nthese runs, *worst* too.\n\n{known}\n{table}\n{}",
        versions.join(" beside "),
        measured.qemu,
        measured.runs,
        failures(measured)
    )
}
