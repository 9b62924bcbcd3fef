//! The table of calls: kernels beside each other, then who takes which line.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{Beside, Column, Run, Shown, calls};

/// Names shown of Linux's lines of one case, unless all are wanted.
const SHOWN: usize = 3;

/// Cases listed whose instructions come nearest to the other kernel's.
const CLOSEST: usize = 10;

const PAGE: &str = "\
Each case of `bench/calls` does one call, or one of its variants that takes another path, again and again on each CPU at the same time:
as processes, each with objects of its own; as threads of one process, each with objects of its own; all on the one object that the call
is about. *Instructions* are the kernel's per operation, of one task on one CPU. *Lines* are the shared ones, by object and field: those
that CPUs could take from each other at least once in twenty operations; one with several fields has as many names. *Turns* is how often they could in one
operation, each line counted once: what the CPUs did, whoever came first. A point: nothing is shared. tests/gate/calls.toml names each line that may be shared, and why.
";

const BESIDE: &str = "\
Beside others: one worker, and on the other CPU nothing (*idle*), a loop that makes no call (*busy*), or a program that works as a build does:
it reads, writes, maps, forks, executes and waits (*program*). Shared lines, and in brackets turns in one operation of the worker. Those that
share a line on one kernel at least:
";

fn cells(shown: &Shown) -> [String; 3] {
    let instructions = shown.instructions.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"));
    if shown.failed.is_some() {
        return [instructions, "failed".into(), String::new()];
    }
    let lines = if shown.shared.is_empty() { "·".to_owned() } else { shown.shared.len().to_string() };
    let turns = if shown.shared.is_empty() { "·".to_owned() } else { format!("{:.2}", shown.turns) };
    [instructions, lines, turns]
}

/// The page.
pub fn page(runs: &[Run], columns: &[Column], summary: &str, picture: Option<&str>) -> String {
    let mut table = table(runs, columns);
    let beside = beside(runs, columns);
    let vs: String = columns.iter().skip(1).map(|column| format!(" --vs {}", column.kernel)).collect();
    let (mut options, mut text) = (vs, String::new());
    if let Some(mut beside) = beside {
        options.push_str(" --beside idle,busy,program");
        let _ = write!(text, "\n{BESIDE}\n{}\n", markdown(&mut beside));
    }
    let picture = picture.map_or_else(String::new, |name| {
        let _ = write!(options, " --svg docs/{name}");
        format!("![Which system calls share lines]({name})\n\n")
    });
    format!(
        "# Lines that system calls share\n\nPrinted by `./darter lines --calls{options} --page docs/calls.md`; not written by hand.\n\n{PAGE}\n{}\n{picture}{}\n{}{text}",
        summary.lines().map(|line| format!("- {line}\n")).collect::<String>(),
        markdown(&mut table),
        closest_text(runs, columns),
    )
}

fn markdown(table: &mut Table) -> String {
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    format!("{table}\n")
}

/// Cases by how near the first kernel's instructions are to the second's.
fn closest(runs: &[Run], columns: &[Column]) -> Vec<(f64, String)> {
    let [first, second, ..] = columns else { return Vec::new() };
    let mut ratios: Vec<(f64, String)> = runs
        .iter()
        .zip(first.shown.iter().zip(&second.shown))
        .filter_map(|(run, (own, other))| {
            let (own, other) = (own.instructions?, other.instructions.filter(|&count| count > 0.0)?);
            Some((own / other, format!("{}: {own:.0} beside {other:.0}", run.key())))
        })
        .collect();
    ratios.sort_by(|one, other| other.0.total_cmp(&one.0));
    ratios
}

/// Those that cost more than on the second kernel, and the nearest of those that do not.
pub fn closest_text(runs: &[Run], columns: &[Column]) -> String {
    let ratios = closest(runs, columns);
    let Some(second) = columns.get(1).filter(|_| !ratios.is_empty()) else { return String::new() };
    let (above, below): (Vec<_>, Vec<_>) = ratios.iter().partition(|(ratio, _)| *ratio > 1.0);
    let mut text = format!(
        "\nInstructions above {}'s: {}.\n\n",
        second.kernel,
        if above.is_empty() { "none" } else { "these" }
    );
    for (ratio, what) in &above {
        let _ = writeln!(text, "- {what}: {ratio:.2}");
    }
    let _ = writeln!(text, "\nThe {CLOSEST} that come nearest to {}'s instructions:\n", second.kernel);
    for (ratio, what) in below.iter().take(CLOSEST) {
        let _ = writeln!(text, "- {what}: {ratio:.2}");
    }
    text
}

/// What shares a line beside something else, on any kernel: a column for each companion. None where nothing was run beside others.
pub fn beside(runs: &[Run], columns: &[Column]) -> Option<Table> {
    let kinds: BTreeSet<Beside> = runs.iter().filter_map(|run| run.beside).collect();
    if kinds.is_empty() {
        return None;
    }
    let mut places: BTreeMap<(&str, &str, &str), BTreeMap<Beside, usize>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        let Some(kind) = run.beside else { continue };
        places.entry((&run.call, &run.case, &run.form)).or_default().insert(kind, at);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let heads = columns.iter().flat_map(|column| kinds.iter().map(|kind| (&column.kernel, kind.name())));
    let heads = heads.map(|(kernel, kind)| format!("{kernel}: {kind}"));
    table.set_header(["call", "case", "form"].map(str::to_owned).into_iter().chain(heads));
    for ((call, case, form), at) in places {
        let of = |column: &'_ Column, kind| at.get(kind).and_then(|&at| column.shown.get(at)).cloned();
        let shown: Vec<Option<Shown>> =
            columns.iter().flat_map(|column| kinds.iter().map(|kind| of(column, kind))).collect();
        if shown.iter().flatten().any(shows) {
            let cells = shown.iter().map(|shown| shown.as_ref().map_or_else(String::new, cell));
            table.add_row([call, case, form].map(str::to_owned).into_iter().chain(cells));
        }
    }
    right(&mut table);
    Some(table)
}

/// Lines and turns in one.
fn cell(shown: &Shown) -> String {
    let [_, lines, turns] = cells(shown);
    if shown.failed.is_some() || shown.shared.is_empty() { lines } else { format!("{lines} ({turns})") }
}

/// Shares a line, or failed.
fn shows(shown: &Shown) -> bool {
    shown.failed.is_some() || !shown.shared.is_empty()
}

/// All that was run by itself.
pub fn table(runs: &[Run], columns: &[Column]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["call".to_owned(), "case".into(), "form".into()];
    for column in columns {
        header.extend([format!("{}: instructions", column.kernel), "lines".into(), "turns".into()]);
    }
    table.set_header(header);
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.beside.is_none()) {
        let mut row = vec![run.call.clone(), run.case.clone(), run.form.clone()];
        row.extend(columns.iter().filter_map(|column| column.shown.get(at)).flat_map(cells));
        table.add_row(row);
    }
    right(&mut table);
    table
}

/// Numbers stand at the right of their columns.
fn right(table: &mut Table) {
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// The shared lines of each case of the first kernel (with `all`: of each), and why cases failed.
pub fn lines(runs: &[Run], columns: &[Column], all: bool) -> String {
    let mut text = String::new();
    for (place, column) in columns.iter().enumerate() {
        for (run, shown) in runs.iter().zip(&column.shown) {
            if let Some(why) = &shown.failed {
                let _ = writeln!(text, "{} on {}: failed: {why}", run.key(), column.kernel);
            }
            if (place > 0 && !all) || shown.shared.is_empty() {
                continue;
            }
            let _ = writeln!(text, "{} on {}:", run.key(), column.kernel);
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
        let mut forms: BTreeMap<(Option<Beside>, &str), [usize; 3]> = BTreeMap::new();
        for (run, shown) in runs.iter().zip(&column.shown) {
            let [of, share, failed] = forms.entry((run.beside, &run.form)).or_default();
            *of += 1;
            *share += usize::from(!shown.shared.is_empty());
            *failed += usize::from(shown.failed.is_some());
        }
        let said: Vec<String> = forms
            .iter()
            .map(|((beside, form), [of, share, failed])| {
                let beside = beside.map_or_else(String::new, |beside| format!(" beside {}", beside.name()));
                let failed = if *failed > 0 { format!(" ({failed} failed)") } else { String::new() };
                format!("{form}{beside}: {share} of {of} share a line{failed}")
            })
            .collect();
        let _ = writeln!(text, "{}: {}", column.kernel, said.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::measurer::SharedLine;

    fn shown(turns: &[f64]) -> Shown {
        let line =
            |(at, &turns): (usize, &f64)| (format!("line {at}"), SharedLine { turns, how: String::new() });
        let shared = turns.iter().enumerate().map(line).collect();
        Shown { shared, turns: turns.iter().sum(), ..Shown::default() }
    }

    #[test]
    fn what_any_kernel_shares_beside_others_is_shown_of_all() {
        let run = |case: &str, beside| Run {
            call: case.into(),
            case: case.into(),
            form: "processes".into(),
            beside: Some(beside),
        };
        let runs = [
            run("read", Beside::Idle),
            run("stat", Beside::Idle),
            run("read", Beside::Program),
            run("stat", Beside::Program),
        ];
        let column = |kernel: &str, shown: [&[f64]; 4]| Column {
            kernel: kernel.into(),
            shown: shown.into_iter().map(self::shown).collect(),
            ..Column::default()
        };
        let darter = column("darter", [&[], &[], &[], &[]]);
        let linux = column("linux", [&[], &[], &[1.5, 2.0], &[]]);
        let text = beside(&runs, &[darter, linux]).unwrap().to_string();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[0],
            [
                "call", "case", "form", "darter:", "idle", "darter:", "program", "linux:", "idle", "linux:",
                "program"
            ]
        );
        assert_eq!(lines[1], ["read", "read", "processes", "·", "·", "·", "2", "(3.50)"]);
        assert_eq!(lines.len(), 2);
        assert!(beside(&[], &[]).is_none());
    }
}
