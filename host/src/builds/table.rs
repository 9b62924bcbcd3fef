//! The tables of builds: kernels beside each other.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{BUILDS, Case, Measured, Shown};
use crate::bench::table::number;

const PAGE: &str = "\
Each kernel has the files of one machine as its live root: compilers, headers and sources come by 9P, and what is written stays in the guest's memory. *Cold* is the first thing that
the machine does after it has started, *warm* the same build once more, when what the first one made has been removed. *Real* is the time that passed, in seconds, *user* and *sys* are the
processors' time in programs and in the kernel as the kernel itself accounts it, and *used* is which part of the CPUs' time both are. *Files* are compilations a second. The last column is the
second kernel's real time by the first's. All builds of the same sources made the same files, byte by byte.
";
const COUNTS: &str = "\
Of one compilation, warm. *Instructions* are the kernel's and the programs', of one task on one CPU, counted exactly; 64 iterations of a string instruction count as one. *Lines taken* are the cache lines that the
kernel's code took from the other CPU while two CPUs compile, and *shared* those of the whole window with a writer and another CPU. Of `cargo` one library is meant, and no lines are counted.
";

fn label(case: &Case) -> String {
    format!("{}, {}", case.name, if case.warm { "warm" } else { "cold" })
}

fn cells(cpus: u32, shown: Option<&Shown>) -> Vec<String> {
    match shown {
        Some(shown) if shown.failed.is_none() => vec![
            format!("{:.1}", shown.real),
            format!("{:.1}", shown.user),
            format!("{:.1}", shown.sys),
            format!("{:.0} %", shown.used(cpus)),
            number(shown.files as f64 / shown.real),
        ],
        _ => vec!["failed".into(), String::new(), String::new(), String::new(), String::new()],
    }
}

pub fn times(measured: &Measured) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["build".to_owned(), "CPUs".into()];
    for column in &measured.kernels {
        header.push(format!("{}: real", column.kernel));
        header.extend(["user", "sys", "used", "files"].map(str::to_owned));
    }
    header.push("×".into());
    table.set_header(header);
    for (at, case) in measured.cases.iter().enumerate() {
        let shown: Vec<Option<&Shown>> = measured.kernels.iter().map(|column| column.shown.get(at)).collect();
        let mut line = vec![label(case), case.cpus.to_string()];
        line.extend(shown.iter().flat_map(|shown| cells(case.cpus, *shown)));
        line.push(match shown.as_slice() {
            [Some(ours), Some(theirs)] if ours.failed.is_none() && theirs.failed.is_none() => {
                format!("{:.2}", theirs.real / ours.real)
            }
            _ => String::new(),
        });
        table.add_row(line);
    }
    right(&mut table);
    table
}

pub fn counts(measured: &Measured) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["a compilation".to_owned()];
    for column in &measured.kernels {
        header.push(format!("{}: instructions", column.kernel));
        header.extend(["(user)", "lines taken", "shared"].map(str::to_owned));
    }
    header.push("ratio".into());
    table.set_header(header);
    let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    for build in &BUILDS {
        let found: Vec<_> =
            measured.kernels.iter().filter_map(|column| column.counts.get(build.name)).collect();
        if found.is_empty() {
            continue;
        }
        let mut line = vec![build.name.to_owned()];
        for counts in &found {
            line.extend([show(counts.kernel), show(counts.user), show(counts.taken)]);
            line.push(counts.shared.map_or_else(|| "-".into(), |lines| lines.to_string()));
        }
        let kernels: Vec<f64> = found.iter().filter_map(|counts| counts.kernel).collect();
        line.push(match kernels.as_slice() {
            [ours, theirs] if *theirs > 0.0 => format!("{:.2}", ours / theirs),
            _ => String::new(),
        });
        table.add_row(line);
    }
    right(&mut table);
    table
}

fn right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

pub fn failures(measured: &Measured) -> String {
    let mut text = String::new();
    for column in &measured.kernels {
        for (case, shown) in measured.cases.iter().zip(&column.shown) {
            if let Some(why) = &shown.failed {
                let _ =
                    writeln!(text, "{}, {} CPUs, {}: failed: {why}", label(case), case.cpus, column.kernel);
            }
        }
        for (name, counts) in &column.counts {
            if let Some(why) = &counts.failed {
                let _ = writeln!(text, "{name}, counted, {}: failed: {why}", column.kernel);
            }
        }
    }
    text
}

pub fn page(measured: &Measured) -> String {
    let markdown = |mut table: Table| {
        table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        table
    };
    let versions: Vec<&str> = measured.kernels.iter().map(|column| column.version.as_str()).collect();
    let known: String = BUILDS
        .iter()
        .filter(|build| measured.cases.iter().any(|case| case.name == build.name))
        .map(|build| format!("- `{}`: {}\n", build.name, build.says))
        .collect();
    let full = if measured.full { " With `--full` parts and counts are larger." } else { "" };
    let runs = if measured.runs == 1 {
        "Each figure is of one run, in a machine of its own, under emulation on a machine that does other things too: differences of a tenth say nothing."
            .to_owned()
    } else {
        format!("Each figure is the median of {} runs, each in a machine of its own.", measured.runs)
    };
    format!(
        "# Builds\n\nPrinted by `{}` ({}, QEMU {}, {}); not written by hand.\n\n{PAGE}\n{runs}{full}\n\n{known}\n{}\n\n{COUNTS}\n{}\n{}",
        measured.command,
        versions.join(" beside "),
        measured.qemu,
        measured.compiler,
        markdown(times(measured)),
        markdown(counts(measured)),
        failures(measured)
    )
}
