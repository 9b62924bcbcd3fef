//! The table, in the manner of the posts: each run, then median, smallest, largest and the ratio of the medians.
#![forbid(unsafe_code)]

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::results::Results;
use super::suite::Spec;

pub fn render(results: &Results, specs: &[Spec], cpus: &[u32], models: &[&str]) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} on QEMU {} ({}), {} host CPUs; operations a second, {} s each",
        results.origin.versions.join(" beside "),
        results.origin.qemu,
        results.accel,
        results.host_cpus,
        results.seconds_each,
    );
    for model in models {
        for &count in cpus {
            let _ = writeln!(text, "\n{count} CPU{}, -cpu {model}", if count == 1 { "" } else { "s" });
            let _ = writeln!(text, "{}", section(results, specs, count, model));
        }
    }
    text.push_str(&failures(results));
    let _ = writeln!(text, "{} ({:.0} s)", results.origin.command, results.seconds);
    text
}

fn section(results: &Results, specs: &[Spec], cpus: u32, model: &str) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec!["benchmark".to_owned(), "kernel".to_owned()];
    header.extend((1..=results.runs).map(|run| format!("run {run}")));
    header.extend(["median", "min", "max", "ratio"].map(str::to_owned));
    table.set_header(header);
    for spec in specs {
        let medians: Vec<Option<f64>> = results
            .kernels
            .iter()
            .map(|kernel| median(&results.rates(&spec.name, kernel, model, cpus)))
            .collect();
        for (place, kernel) in results.kernels.iter().enumerate() {
            let rates = results.rates(&spec.name, kernel, model, cpus);
            let mut row = vec![if place == 0 { spec.name.clone() } else { String::new() }, kernel.clone()];
            row.extend(rates.iter().map(|rate| rate.map_or_else(|| "failed".to_owned(), number)));
            let good: Vec<f64> = rates.iter().flatten().copied().collect();
            for value in
                [medians[place], good.iter().copied().reduce(f64::min), good.iter().copied().reduce(f64::max)]
            {
                row.push(value.map_or_else(|| "-".to_owned(), number));
            }
            let ratio = match (place, medians.as_slice()) {
                (0, [Some(ours), Some(theirs)]) if *theirs > 0.0 => format!("{:.2}", ours / theirs),
                _ => String::new(),
            };
            row.push(ratio);
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// None as soon as one run has failed: a median of the rest would hide it.
pub fn median(rates: &[Option<f64>]) -> Option<f64> {
    let mut good: Vec<f64> = rates.iter().copied().collect::<Option<_>>()?;
    good.sort_by(f64::total_cmp);
    let middle = good.len() / 2;
    match good.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(good[middle]),
        _ => Some((good[middle - 1] + good[middle]) / 2.0),
    }
}

/// Each reason once, with how often.
fn failures(results: &Results) -> String {
    let mut text = String::new();
    let mut seen: Vec<(String, String, usize)> = Vec::new();
    for sample in &results.samples {
        let Err(why) = &sample.result else { continue };
        let name = format!("{} on {} with {} CPUs", sample.benchmark, sample.kernel, sample.cpus);
        match seen.iter_mut().find(|(known, reason, _)| *known == name && reason == why) {
            Some((.., count)) => *count += 1,
            None => seen.push((name, why.clone(), 1)),
        }
    }
    for (name, why, count) in seen {
        let _ = writeln!(text, "failed: {name} ({count} of {}): {why}", results.runs);
    }
    text
}

/// A rate with as many digits as mean something, thousands apart.
pub fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_run_is_not_hidden_by_a_median() {
        assert_eq!(median(&[Some(3.0), Some(1.0), Some(2.0)]), Some(2.0));
        assert_eq!(median(&[Some(3.0), Some(1.0)]), Some(2.0));
        assert_eq!(median(&[Some(3.0), None]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(number(27145.65), "27,146");
        assert_eq!(number(1_234_567.0), "1,234,567");
        assert_eq!(number(999.6), "1,000");
        assert_eq!(number(12.34), "12.3");
    }
}
