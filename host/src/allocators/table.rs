//! The table of allocators: kernels beside each other, then who takes which line.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{Column, Measured};
use crate::bench::table::{median, number};
use crate::lines::measurer::Shown;

/// Lines shown of each row of the other kernel, unless all are wanted.
const SHOWN: usize = 3;
/// Instructions and returns are compared to this part: ticks fall into one window and not into another.
const NEAR: f64 = 0.02;

const PAGE: &str = "\
Threads of one process, each pinned to its CPU, take and free memory in the patterns of `bench/allocators`, with the allocators that programs
use: musl's and glibc's own, Debian's jemalloc and mimalloc by `LD_PRELOAD`, and Go's. Those named *-eager* are told to give memory back to the
kernel at once. *Instructions* are the kernel's per operation and *returns* how often it returns to the program (calls, faults, ticks), both of one
task on one CPU; iterations of string instructions are apart and left out. *Turns* is how often CPUs could take a line of the kernel's own
memory from each other in one operation; *lines* how many there are of at least one in fifty operations; a point: none. *Moved* are all lines that the kernel's code took from
another CPU, the program's own memory among them: a page that one CPU frees and another clears is 64. *Rate* is operations a second
of all threads together, the median, under emulation; the last column is the first kernel's rate by the second's.

The *-eager* rows and `churn`, `grow` and `handover` do the same work on both kernels. jemalloc and mimalloc as they come look at the clock before
they give memory back, so how often they do depends on the machine's speed; where *returns* differ, so did the work.
";

fn point(shown: &Shown, text: String) -> String {
    if shown.shared.is_empty() { "·".into() } else { text }
}

fn cells(column: &Column, at: usize) -> Vec<String> {
    let Some(shown) = column.shown.get(at) else { return vec![String::new(); 6] };
    let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    let moved = if shown.moved < 0.005 { "·".to_owned() } else { format!("{:.2}", shown.moved) };
    let rate = show(column.rates.get(at).and_then(|rates| middle(rates)));
    let instructions = show(shown.instructions);
    let returns = shown.returns.map_or_else(|| "-".to_owned(), |returns| format!("{returns:.2}"));
    if shown.failed.is_some() {
        return vec![instructions, returns, "failed".into(), String::new(), String::new(), rate];
    }
    let turns = point(shown, format!("{:.2}", shown.turns));
    vec![instructions, returns, point(shown, shown.shared.len().to_string()), turns, moved, rate]
}

fn middle(rates: &[f64]) -> Option<f64> {
    median(&rates.iter().copied().map(Some).collect::<Vec<_>>())
}

pub fn table(measured: &Measured) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["allocator".to_owned(), "pattern".into()];
    for column in &measured.kernels {
        header.push(format!("{}: instructions", column.kernel));
        header.extend(["returns", "lines", "turns", "moved", "rate"].map(str::to_owned));
    }
    header.push("×".into());
    table.set_header(header);
    for (at, row) in measured.rows.iter().enumerate() {
        let mut line = vec![row.allocator.clone(), row.pattern.clone()];
        line.extend(measured.kernels.iter().flat_map(|column| cells(column, at)));
        let rates: Vec<f64> =
            measured.kernels.iter().filter_map(|column| middle(column.rates.get(at)?)).collect();
        line.push(match rates.as_slice() {
            [ours, theirs] if *theirs > 0.0 => format!("{:.2}", ours / theirs),
            _ => String::new(),
        });
        table.add_row(line);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The shared lines of each row of the first kernel (with `all`: of each), and why rows failed.
pub fn lines(measured: &Measured, all: bool) -> String {
    let mut text = String::new();
    for (place, column) in measured.kernels.iter().enumerate() {
        for (row, shown) in measured.rows.iter().zip(&column.shown) {
            let row = format!("{} {} on {}", row.allocator, row.pattern, column.kernel);
            if let Some(why) = &shown.failed {
                let _ = writeln!(text, "{row}: failed: {why}");
            }
            if (place > 0 && !all) || shown.shared.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{row}:");
            let mut worst: Vec<_> = shown.shared.iter().collect();
            worst.sort_by(|(_, one), (_, other)| other.turns.total_cmp(&one.turns));
            for (name, line) in worst.iter().take(if place > 0 { SHOWN } else { usize::MAX }) {
                let _ = writeln!(text, "    {:.2} turns  {name}\n        {}", line.turns, line.how);
            }
        }
    }
    text
}

/// A sentence a kernel, and the rows in which the first does worse than the second.
pub fn summary(measured: &Measured) -> String {
    let Measured { cpus, qemu, rows, kernels } = measured;
    let mut text = format!("{} rows, {cpus} CPUs, QEMU {qemu}\n", rows.len());
    for column in kernels {
        let share = column.shown.iter().filter(|shown| !shown.shared.is_empty()).count();
        let failed = column.shown.iter().filter(|shown| shown.failed.is_some()).count();
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        let _ = writeln!(text, "{} ({}): {share} rows share a line{failed}", column.kernel, column.version);
    }
    let [own, other] = kernels.as_slice() else { return text };
    let named = |worse: &dyn Fn(&Shown, &Shown) -> bool| -> String {
        let rows = rows.iter().zip(own.shown.iter().zip(&other.shown));
        let names: Vec<String> = rows
            .filter(|(_, (own, other))| worse(own, other))
            .map(|(row, _)| format!("{} {}", row.allocator, row.pattern))
            .collect();
        if names.is_empty() { "none".into() } else { names.join(", ") }
    };
    let above = |own: Option<f64>, other: Option<f64>| {
        own.zip(other).is_some_and(|(own, other)| own > other * (1.0 + NEAR) + 0.5)
    };
    let _ =
        writeln!(text, "More turns than {}: {}", other.kernel, named(&|own, other| own.turns > other.turns));
    let _ = writeln!(
        text,
        "More instructions than {}: {}",
        other.kernel,
        named(&|own, other| above(own.instructions, other.instructions))
    );
    let same = |own: Option<f64>, other: Option<f64>| {
        own.zip(other).is_none_or(|(own, other)| (own - other).abs() <= other * NEAR + 0.05)
    };
    let _ = writeln!(
        text,
        "Other work than on {}: {}",
        other.kernel,
        named(&|own, other| !same(own.returns, other.returns))
    );
    text
}

/// The page.
pub fn page(measured: &Measured) -> String {
    let mut table = table(measured);
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let vs: String =
        measured.kernels.iter().skip(1).map(|column| format!(" --vs {}", column.kernel)).collect();
    let patterns: BTreeMap<&str, &str> =
        measured.rows.iter().map(|row| (row.pattern.as_str(), row.what.as_str())).collect();
    let patterns: String = patterns.iter().map(|(name, what)| format!("- `{name}`: {what}\n")).collect();
    let summary: String = summary(measured).lines().map(|line| format!("- {line}\n")).collect();
    format!(
        "# Allocators\n\nPrinted by `make allocators` and `./darter allocators{vs} --page docs/allocators.md`; not written by hand.\n\n\
         {PAGE}\n{patterns}\n{summary}\n{table}\n"
    )
}
