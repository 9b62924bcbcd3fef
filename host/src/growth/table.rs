//! The table of growth: kernels beside each other.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::judge::{Growth, each, worse};
use super::{Measured, Shown};

const PAGE: &str = "\
Each row is an operation of `bench/growth`, measured among N of something that it might look at. The figures are the kernel's instructions
for one operation (64 iterations of a string instruction count as one), counted on one CPU; each is the median of three windows. *Growth* is
told from the figures: *flat*; *log n*, where a step to ten times as many adds no more than the step before, or hardly anything; *n*, with
what each further thing adds. A row is **worse** where Darter's cost grows faster than Linux's (as *log n* only if it is dearer among the most), or
as *n* on both and each thing costs half as much again.
";

/// The figures by N and the growth.
fn cells(shown: &Shown, sizes: &[u32]) -> Vec<String> {
    let mut cells: Vec<String> = sizes
        .iter()
        .map(|n| {
            shown
                .figures
                .iter()
                .find(|(of, _)| of == n)
                .map_or_else(String::new, |(_, cost)| format!("{cost:.0}"))
        })
        .collect();
    cells.push(match Growth::of(&shown.figures) {
        _ if shown.failed.is_some() => "failed".into(),
        Some(growth @ (Growth::Linear | Growth::Quadratic)) => {
            format!("{}, {:.2} each", growth.name(), each(&shown.figures))
        }
        Some(growth) => growth.name().into(),
        None => String::new(),
    });
    cells
}

/// Does the first kernel's cost grow faster than the second's?
fn is_worse(measured: &Measured, at: usize) -> bool {
    let mut of = measured.kernels.iter().filter_map(|column| column.shown.get(at));
    match (of.next(), of.next()) {
        (Some(own), Some(other)) if own.failed.is_none() && other.failed.is_none() => {
            worse(&own.figures, &other.figures)
        }
        _ => false,
    }
}

/// With `--profile`: for each row the functions whose costs differ most among the sizes; of one size those that cost most.
pub fn functions(measured: &Measured) -> String {
    /// Functions shown for a row.
    const SHOWN: usize = 16;
    let mut text = String::new();
    for column in &measured.kernels {
        for (row, shown) in
            measured.rows.iter().zip(&column.shown).filter(|(_, shown)| !shown.functions.is_empty())
        {
            let _ = writeln!(text, "{} on {}, instructions by function:", row.key(), column.kernel);
            let mut functions: Vec<_> = shown
                .functions
                .iter()
                .map(|(name, costs)| {
                    let at = |n: &u32| costs.iter().find(|(of, _)| of == n).map_or(0.0, |(_, cost)| *cost);
                    let costs: Vec<f64> = shown.figures.iter().map(|(n, _)| at(n)).collect();
                    let most = costs.iter().copied().fold(0.0, f64::max);
                    let least = if let [_] = costs.as_slice() {
                        0.0
                    } else {
                        costs.iter().copied().fold(most, f64::min)
                    };
                    (most - least, costs, name)
                })
                .collect();
            functions.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.2.cmp(other.2)));
            let sizes: String = shown.figures.iter().map(|(n, _)| format!("{n:10}")).collect();
            let _ = writeln!(text, "  {sizes}");
            for (_, costs, name) in functions.iter().take(SHOWN) {
                let costs: String = costs.iter().map(|cost| format!("{cost:10.1}")).collect();
                let _ = writeln!(text, "  {costs}  {name}");
            }
        }
    }
    text
}

pub fn table(measured: &Measured) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["among".to_owned(), "operation".into()];
    for column in &measured.kernels {
        let kernel = &column.kernel;
        header.extend(
            measured
                .sizes
                .iter()
                .enumerate()
                .map(|(at, n)| if at == 0 { format!("{kernel}: {n}") } else { n.to_string() }),
        );
        header.push("growth".into());
    }
    if measured.kernels.len() > 1 {
        header.push(String::new());
    }
    table.set_header(header);
    for (at, row) in measured.rows.iter().enumerate() {
        let mut cells_of_row = vec![row.of.clone(), row.name.clone()];
        let columns = measured.kernels.iter().filter_map(|column| column.shown.get(at));
        cells_of_row.extend(columns.flat_map(|shown| cells(shown, &measured.sizes)));
        if measured.kernels.len() > 1 {
            cells_of_row.push(if is_worse(measured, at) { "worse".into() } else { String::new() });
        }
        table.add_row(cells_of_row);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

pub fn failures(measured: &Measured) -> String {
    let mut text = String::new();
    for column in &measured.kernels {
        for (row, shown) in measured.rows.iter().zip(&column.shown) {
            if let Some(why) = &shown.failed {
                let _ = writeln!(text, "{} on {}: failed with {why}", row.key(), column.kernel);
            }
        }
    }
    text
}

/// How many rows grow in which way, a line a kernel, and which are worse.
pub fn summary(measured: &Measured) -> String {
    let mut text = String::new();
    for column in &measured.kernels {
        let growths: Vec<Growth> =
            column.shown.iter().filter_map(|shown| Growth::of(&shown.figures)).collect();
        let said: Vec<String> = [Growth::Flat, Growth::Log, Growth::Linear, Growth::Quadratic]
            .into_iter()
            .map(|growth| (growth, growths.iter().filter(|of| **of == growth).count()))
            .filter(|(_, count)| *count > 0)
            .map(|(growth, count)| format!("{count} {}", growth.name()))
            .collect();
        let _ = writeln!(text, "{}: of {} rows {}", column.kernel, measured.rows.len(), said.join(", "));
    }
    if measured.kernels.len() > 1 {
        let names: Vec<String> = measured
            .rows
            .iter()
            .enumerate()
            .filter(|(at, _)| is_worse(measured, *at))
            .map(|(_, row)| row.key())
            .collect();
        let _ = match names.as_slice() {
            [] => writeln!(text, "No row is worse."),
            names => writeln!(text, "{} worse: {}", names.len(), names.join(", ")),
        };
    }
    text
}

pub fn page(measured: &Measured) -> String {
    let mut table = table(measured);
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let vs: String =
        measured.kernels.iter().skip(1).map(|column| format!(" --vs {}", column.kernel)).collect();
    format!(
        "# What system calls cost among many\n\nPrinted by `./darter growth{vs} --page docs/growth.md`; not written by hand.\n\n{PAGE}\n{}\n{table}\n",
        summary(measured).lines().map(|line| format!("- {line}\n")).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::super::Column;
    use super::*;

    #[test]
    fn a_row_that_grows_where_the_others_does_not_is_said_to_be_worse() {
        let rows = super::super::parse("w things 1000 walks 1\nw things 1000 looks 1").unwrap();
        let column = |kernel: &str, last: f64| {
            let shown =
                |last| Shown { figures: vec![(10, 300.0), (100, 300.0), (1000, last)], ..Shown::default() };
            Column { kernel: kernel.into(), shown: vec![shown(last), shown(300.0)] }
        };
        let kernels = vec![column("darter", 5000.0), column("linux", 310.0)];
        let measured = Measured { sizes: vec![10, 100, 1000], rows, kernels };
        assert!(summary(&measured).contains("darter: of 2 rows 1 flat, 1 n\n"), "{}", summary(&measured));
        assert!(summary(&measured).contains("1 worse: w walks"));
        let page = page(&measured);
        let line = page.lines().find(|line| line.starts_with('|') && line.contains("walks")).unwrap();
        assert!(line.contains("n, 5.22 each") && line.contains("worse"), "{line}");
    }

    #[test]
    fn functions_are_sorted_by_how_their_costs_differ() {
        let functions = [("same", vec![(10, 40.0), (1000, 40.0)]), ("looks", vec![(1000, 7.0)])];
        let functions = functions.map(|(name, costs)| (name.to_owned(), costs)).into();
        let shown = Shown { figures: vec![(10, 40.0), (1000, 47.0)], functions, ..Shown::default() };
        let rows = super::super::parse("w things 1000 walks 1").unwrap();
        let kernels = vec![Column { kernel: "darter".into(), shown: vec![shown] }];
        let measured = Measured { sizes: vec![10, 1000], rows, kernels };
        let text = super::functions(&measured);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[1..],
            [vec!["10", "1000"], vec!["0.0", "7.0", "looks"], vec!["40.0", "40.0", "same"]]
        );
    }
}
