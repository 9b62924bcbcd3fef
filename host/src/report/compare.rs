//! Before and after: medians, how far apart they are, and whether that is too much.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::sections::place;
use crate::bench::exact::Counts;
use crate::bench::results::Results;
use crate::bench::table::{median, number};

/// Percent by which a median of rates may be worse. A kernel beside itself, three runs of a second on two busy cores under emulation, differed by
/// up to 7 in nineteen of twenty rows and by 14 in one.
const RATES: f64 = 15.0;
/// Of instructions, which are counted exactly, and move a little with where code and data lie.
const INSTRUCTIONS: f64 = 1.0;

/// What one benchmark gave on one side.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Side {
    /// Not measured there.
    None,
    /// A run of it failed.
    Failed,
    Measured {
        median: f64,
        min: f64,
        max: f64,
    },
}

pub struct Row {
    pub benchmark: String,
    /// What is compared, and where: "rate, 2 CPUs".
    pub what: String,
    pub before: Side,
    pub after: Side,
    /// The larger, the better.
    pub rate: bool,
    /// Percent by which it may be worse.
    threshold: f64,
}

pub struct Comparison {
    pub before: String,
    pub after: String,
    pub rows: Vec<Row>,
    /// How the two were measured otherwise.
    pub notes: Vec<String>,
}

impl Side {
    fn of(values: &[Option<f64>]) -> Side {
        let good: Vec<f64> = values.iter().flatten().copied().collect();
        match median(values) {
            Some(median) => Side::Measured {
                median,
                min: good.iter().copied().fold(f64::INFINITY, f64::min),
                max: good.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            },
            None if values.is_empty() => Side::None,
            None => Side::Failed,
        }
    }

    fn median(self) -> Option<f64> {
        match self {
            Side::Measured { median, .. } => Some(median),
            _ => None,
        }
    }

    /// Median, minimum and maximum.
    pub fn cells(self) -> [String; 3] {
        match self {
            Side::None => ["-", "", ""].map(str::to_owned),
            Side::Failed => ["failed", "", ""].map(str::to_owned),
            Side::Measured { median, min, max } => [median, min, max].map(number),
        }
    }
}

impl Row {
    /// Percent, of the medians; None where one side has none.
    pub fn change(&self) -> Option<f64> {
        let (before, after) = (self.before.median()?, self.after.median()?);
        Some(match before {
            0.0 if after == 0.0 => 0.0,
            0.0 => f64::INFINITY,
            before => (after - before) / before * 100.0,
        })
    }

    /// Worse by more than it may be, or it fails now and did not before.
    pub fn is_worse(&self) -> bool {
        let lost = |change: f64| if self.rate { -change } else { change };
        match self.change() {
            Some(change) => lost(change) > self.threshold,
            None => self.before.median().is_some() && self.after == Side::Failed,
        }
    }

    pub fn verdict(&self) -> &'static str {
        let lost = self.change().map(|change| if self.rate { -change } else { change });
        match lost {
            _ if self.is_worse() => "WORSE",
            Some(lost) if lost < -self.threshold => "better",
            _ => "",
        }
    }

    pub fn percent(&self) -> String {
        // Nothing is neither more nor less.
        let round = |change: f64| if change.abs() < 0.05 { 0.0 } else { change };
        self.change().map_or_else(String::new, |change| format!("{:+.1} %", round(change)))
    }
}

impl Comparison {
    pub fn new(before: String, after: String) -> Self {
        Self { before, after, rows: Vec::new(), notes: Vec::new() }
    }

    /// The rates of a kernel there beside those of a kernel here.
    pub fn rates(
        &mut self,
        (before, old): (&Results, &str),
        (after, new): (&Results, &str),
        threshold: Option<f64>,
    ) {
        let mut seen: Vec<(&str, &str, u32)> = Vec::new();
        for sample in after.samples.iter().filter(|sample| sample.kernel == new) {
            let key = (sample.benchmark.as_str(), sample.cpu_model.as_str(), sample.cpus);
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let (benchmark, model, cpus) = key;
            self.rows.push(Row {
                benchmark: benchmark.to_owned(),
                what: format!("rate, {}", place(model, cpus)),
                before: Side::of(&before.rates(benchmark, old, model, cpus)),
                after: Side::of(&after.rates(benchmark, new, model, cpus)),
                rate: true,
                threshold: threshold.unwrap_or(RATES),
            });
        }
        for (what, one, other) in [
            ("seconds of a run", before.seconds_each.to_string(), after.seconds_each.to_string()),
            ("accelerator", before.accel.clone(), after.accel.clone()),
            ("host CPUs", before.host_cpus.to_string(), after.host_cpus.to_string()),
            ("bytes of memory", before.memory_bytes.to_string(), after.memory_bytes.to_string()),
            ("QEMU", before.origin.qemu.clone(), after.origin.qemu.clone()),
        ] {
            if one != other {
                self.notes.push(format!("{what}: {one} before, {other} after"));
            }
        }
    }

    /// The kernel's instructions of an operation.
    pub fn instructions(
        &mut self,
        (before, old): (&Counts, &str),
        (after, new): (&Counts, &str),
        threshold: Option<f64>,
    ) {
        let values = |counts: &Counts, kernel: &str, benchmark: &str| -> Vec<Option<f64>> {
            let own =
                |count: &&crate::bench::exact::Count| count.benchmark == benchmark && count.kernel == kernel;
            counts.counts.iter().filter(own).map(|count| count.kernel_instructions).collect()
        };
        for count in after.counts.iter().filter(|count| count.kernel == new) {
            self.rows.push(Row {
                benchmark: count.benchmark.clone(),
                what: "instructions".into(),
                before: Side::of(&values(before, old, &count.benchmark)),
                after: Side::of(&values(after, new, &count.benchmark)),
                rate: false,
                threshold: threshold.unwrap_or(INSTRUCTIONS),
            });
        }
        if before.origin.qemu != after.origin.qemu {
            self.notes.push(format!("QEMU: {} before, {} after", before.origin.qemu, after.origin.qemu));
        }
    }

    /// Nothing was measured on both sides.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.before == Side::None)
    }

    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(Row::is_worse)
    }

    /// How many are worse, and by how much one has to be for that.
    pub fn summary(&self) -> String {
        let worse = self.rows.iter().filter(|row| row.is_worse()).count();
        let mut allowed: Vec<String> = Vec::new();
        for (rate, name) in [(true, "rates"), (false, "instructions")] {
            if let Some(row) = self.rows.iter().find(|row| row.rate == rate) {
                allowed.push(format!("{} % of {name}", row.threshold));
            }
        }
        format!("{worse} of {} are worse by more than {}", self.rows.len(), allowed.join(" and "))
    }

    pub fn text(&self) -> String {
        let mut text = format!("before: {}\nafter:  {}\n", self.before, self.after);
        self.notes.iter().for_each(|note| {
            let _ = writeln!(text, "not measured alike: {note}");
        });
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(HEADER);
        for row in &self.rows {
            let mut cells = vec![row.benchmark.clone(), row.what.clone()];
            cells.extend(row.before.cells());
            cells.extend(row.after.cells());
            cells.extend([row.percent(), row.verdict().to_owned()]);
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(2).take(7) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let _ = write!(text, "{table}\n{}", self.summary());
        text
    }
}

pub const HEADER: [&str; 10] =
    ["benchmark", "what", "before", "min", "max", "after", "min", "max", "change", ""];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Rates of "mmap" on "darter", each run so many times the usual rate.
    fn rates(factor: f64) -> Results {
        let mut rates = sample::kept().rates.unwrap();
        for sample in &mut rates.samples {
            if let Ok(measured) = &mut sample.result {
                measured.rate *= factor;
            }
        }
        rates
    }

    fn compared(before: &Results, after: &Results, threshold: Option<f64>) -> Comparison {
        let mut comparison = Comparison::new("one".into(), "other".into());
        comparison.rates((before, "darter"), (after, "darter"), threshold);
        comparison
    }

    #[test]
    fn a_rate_fails_past_the_threshold_and_not_before() {
        let before = rates(1.0);
        assert!(!compared(&before, &rates(1.0), None).is_worse());
        assert!(!compared(&before, &rates(0.86), None).is_worse());
        assert!(compared(&before, &rates(0.84), None).is_worse());
        assert!(!compared(&before, &rates(0.84), Some(17.0)).is_worse());
        assert!(compared(&before, &rates(0.97), Some(2.0)).is_worse());
        let faster = compared(&before, &rates(2.0), None);
        assert!(!faster.is_worse() && faster.rows.iter().all(|row| row.verdict() == "better"));
        assert!(faster.text().contains("+100.0 %"), "{}", faster.text());
    }

    #[test]
    fn more_instructions_are_worse_and_fewer_are_not() {
        let before = sample::kept().instructions.unwrap();
        let compared = |factor: f64| {
            let mut after = before.clone();
            after.counts.iter_mut().for_each(|count| {
                count.kernel_instructions = count.kernel_instructions.map(|value| value * factor);
            });
            let mut comparison = Comparison::new("one".into(), "other".into());
            comparison.instructions((&before, "darter"), (&after, "darter"), None);
            assert!(!comparison.rows.is_empty());
            comparison.is_worse()
        };
        assert_eq!([0.5, 1.0, 1.009, 1.02].map(compared), [false, false, false, true]);
    }

    #[test]
    fn what_fails_now_is_worse_and_what_was_not_measured_before_is_not() {
        let before = rates(1.0);
        let mut after = rates(1.0);
        after.samples[0].result = Err("it hung".into());
        let comparison = compared(&before, &after, None);
        assert!(comparison.is_worse() && comparison.text().contains("failed"));
        assert!(!compared(&after, &before, None).is_worse());
        let mut nothing = rates(1.0);
        nothing.samples.clear();
        let comparison = compared(&nothing, &before, None);
        assert!(comparison.is_empty() && !comparison.is_worse());
    }

    #[test]
    fn what_was_measured_otherwise_is_said() {
        let mut after = rates(1.0);
        after.seconds_each = 9.0;
        let text = compared(&rates(1.0), &after, None).text();
        assert!(text.contains("not measured alike: seconds of a run: 1 before, 9 after"), "{text}");
    }
}
