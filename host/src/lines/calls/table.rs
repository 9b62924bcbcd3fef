//! The table of calls: kernels beside each other, then who takes which line.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{Column, Run, Shown, calls};

/// Names shown of Linux's lines of one case, unless all are wanted.
const SHOWN: usize = 3;

const PAGE: &str = "\
Each case of `bench/calls` does one call, or one of its variants that takes another path, again and again on each CPU at the same time:
as processes, each with objects of its own; as threads of one process, each with objects of its own; all on the one object that the call
is about. *Instructions* are the kernel's per operation, of one task on one CPU. *Lines* are the shared ones, by object and field: those
that CPUs could take from each other at least once in twenty operations. *Turns* is how often they could in one operation, all lines
together: what the CPUs did, whoever came first. A point: nothing is shared.
";

fn cells(shown: &Shown) -> [String; 3] {
    let instructions = shown.instructions.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"));
    if shown.failed.is_some() {
        return [instructions, "failed".into(), String::new()];
    }
    let lines = if shown.shared.is_empty() { "·".to_owned() } else { shown.shared.len().to_string() };
    let turns = if shown.shared.is_empty() { "·".to_owned() } else { format!("{:.2}", shown.turns()) };
    [instructions, lines, turns]
}

/// The page.
pub fn page(runs: &[Run], columns: &[Column], summary: &str) -> String {
    let mut table = table(runs, columns);
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let vs: String = columns.iter().skip(1).map(|column| format!(" --vs {}", column.kernel)).collect();
    format!(
        "# Lines that system calls share\n\nPrinted by `./darter lines --calls{vs} --page docs/calls.md`; not written by hand.\n\n{PAGE}\n{}\n{table}\n",
        summary.lines().map(|line| format!("- {line}\n")).collect::<String>()
    )
}

pub fn table(runs: &[Run], columns: &[Column]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["call".to_owned(), "case".into(), "form".into()];
    for column in columns {
        header.extend([format!("{}: instructions", column.kernel), "lines".into(), "turns".into()]);
    }
    table.set_header(header);
    for (at, run) in runs.iter().enumerate() {
        let mut row = vec![run.call.clone(), run.case.clone(), run.form.clone()];
        row.extend(columns.iter().filter_map(|column| column.shown.get(at)).flat_map(cells));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The shared lines of each case of the first kernel (with `all`: of each), and why cases failed.
pub fn lines(runs: &[Run], columns: &[Column], all: bool) -> String {
    let mut text = String::new();
    for (place, column) in columns.iter().enumerate() {
        for (run, shown) in runs.iter().zip(&column.shown) {
            if let Some(why) = &shown.failed {
                let _ = writeln!(text, "{} {} on {}: failed: {why}", run.case, run.form, column.kernel);
            }
            if (place > 0 && !all) || shown.shared.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{} {} on {}:", run.case, run.form, column.kernel);
            let mut worst: Vec<_> = shown.shared.iter().collect();
            worst.sort_by(|(_, one), (_, other)| other.turns.total_cmp(&one.turns));
            let most = if place > 0 { SHOWN } else { usize::MAX };
            for (name, line) in worst.iter().take(most) {
                let _ = writeln!(text, "    {:.2} turns  {name}\n        {}", line.turns, line.how);
            }
        }
    }
    text
}

/// A sentence a kernel and form.
pub fn summary(runs: &[Run], columns: &[Column], cpus: u32, seconds: Option<f64>) -> String {
    let seconds = seconds.map_or_else(String::new, |seconds| format!(": {seconds:.0} s"));
    let mut text =
        format!("{} calls, {} cases and forms, {cpus} CPUs{seconds}\n", calls(runs).len(), runs.len());
    for column in columns {
        let mut forms: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        for (run, shown) in runs.iter().zip(&column.shown) {
            let [of, share, failed] = forms.entry(&run.form).or_default();
            *of += 1;
            *share += usize::from(!shown.shared.is_empty());
            *failed += usize::from(shown.failed.is_some());
        }
        let said: Vec<String> = forms
            .iter()
            .map(|(form, [of, share, failed])| {
                let failed = if *failed > 0 { format!(" ({failed} failed)") } else { String::new() };
                format!("{form}: {share} of {of} share a line{failed}")
            })
            .collect();
        let _ = writeln!(text, "{}: {}", column.kernel, said.join(", "));
    }
    text
}
