//! Figures as lines of text that fit 80 columns: for the screen, and where there is no terminal.
#![forbid(unsafe_code)]

use super::figures::{Column, Figures};

/// Columns of a number, with the space before it.
const WIDTH: usize = 5;
/// The first column's.
const FIRST: usize = 5;

/// What is shown, and in which order.
#[derive(Clone, Debug)]
pub struct View {
    pub sort: Column,
    pub reversed: bool,
    /// CPUs that did nothing are left out.
    pub busy: bool,
    /// CPUs alone whose lock or its caller has this text in it, in small letters or large ones. Empty: all.
    pub filter: String,
}

impl View {
    /// The CPUs in the view's order.
    pub fn of<'a>(&self, cpus: &'a [Figures]) -> Vec<&'a Figures> {
        let wanted = |cpu: &&Figures| (!self.busy || cpu.is_busy()) && self.has_text(cpu);
        let mut shown: Vec<&Figures> = cpus.iter().filter(wanted).collect();
        if self.sort != Column::Cpu {
            // The largest first; CPUs that are alike stay in their order.
            shown.sort_by(|one, other| self.sort.of(other).total_cmp(&self.sort.of(one)));
        }
        if self.reversed {
            shown.reverse();
        }
        shown
    }

    /// Does the CPU pass the filter?
    fn has_text(&self, cpu: &Figures) -> bool {
        let filter = self.filter.to_lowercase();
        let has =
            |text: &Option<String>| text.as_ref().is_some_and(|text| text.to_lowercase().contains(&filter));
        filter.is_empty() || has(&cpu.label) || has(&cpu.caller)
    }
}

/// The titles.
pub fn heading(width: usize) -> String {
    let mut line = format!("{:<FIRST$}", Column::Cpu.title());
    for column in &Column::ALL[1..] {
        line.push_str(&format!("{:>WIDTH$}", column.title()));
    }
    line.push_str(" label");
    cut(line, width)
}

/// A CPU's line, or that of all.
pub fn line(figures: &Figures, width: usize) -> String {
    let name = figures.cpu.map_or_else(|| "total".to_owned(), |cpu| format!("cpu{cpu}"));
    let mut line = format!("{name:<FIRST$}");
    for column in &Column::ALL[1..] {
        let value = column.of(figures);
        let text = short(value);
        // Nothing is a blank, as in systat: what there is can be seen.
        let text = if value < 0.05 { String::new() } else { text };
        line.push_str(&format!("{text:>WIDTH$}"));
    }
    if let Some(label) = &figures.label {
        line.push_str(&format!(" {label}"));
        if let Some(caller) = &figures.caller {
            line.push_str(&format!(" {caller}"));
        }
    }
    cut(line, width)
}

fn cut(line: String, width: usize) -> String {
    line.chars().take(width).collect::<String>().trim_end().to_owned()
}

/// A number in four characters at most.
fn short(value: f64) -> String {
    match value {
        v if v < 99.95 => format!("{v:.1}"),
        v if v < 9_999.5 => format!("{v:.0}"),
        v if v < 999_500.0 => format!("{:.0}k", v / 1e3),
        v if v < 9_950_000.0 => format!("{:.1}M", v / 1e6),
        v if v < 999_500_000.0 => format!("{:.0}M", v / 1e6),
        v => format!("{:.0}G", v / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::between;
    use super::super::figures::tests::looks;
    use super::*;

    #[test]
    fn eighty_columns_are_enough_and_more_show_more() {
        let (first, last) = looks();
        let (total, cpus) = between(&first, &last).unwrap();
        for line in [heading(80), line(&total, 80), line(&cpus[0], 80), line(&cpus[1], 80)] {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            words(&line(&cpus[0], 200)),
            [
                "cpu0", "100", "5.0", "3.0", "75.0", "25.0", "3.0", "1030", "1000", "2.0", "4.0", "96.0",
                "tree", "of", "leaves", "a.rs:1:2"
            ]
        );
        assert_eq!(words(&line(&cpus[1], 80)), ["cpu1", "2.0", "100"]);
    }

    #[test]
    fn large_numbers_stay_in_their_columns() {
        let values = [0.0, 9.9, 99.96, 9_999.0, 9_999.9, 123_456.0, 999_499.0, 999_999.0, 12_345_678.0, 5e9];
        let texts = values.map(short);
        assert_eq!(texts, ["0.0", "9.9", "100", "9999", "10k", "123k", "999k", "1.0M", "12M", "5G"]);
        assert!(texts.iter().all(|text| text.len() < WIDTH));
    }

    #[test]
    fn a_view_sorts_and_leaves_out() {
        let (first, last) = looks();
        let (_, cpus) = between(&first, &last).unwrap();
        let order = |view: View| view.of(&cpus).iter().map(|cpu| cpu.cpu.unwrap()).collect::<Vec<_>>();
        let plain = || View { sort: Column::Cpu, reversed: false, busy: false, filter: String::new() };
        assert_eq!(order(plain()), [0, 1]);
        assert_eq!(order(View { sort: Column::Idle, ..plain() }), [1, 0]);
        assert_eq!(order(View { reversed: true, ..plain() }), [1, 0]);
        assert_eq!(order(View { busy: true, ..plain() }), [0]);
        for (filter, wanted) in
            [("OF leav", &[0][..]), ("a.rs:1", &[0]), ("pipe", &[]), ("cpu1", &[]), ("é", &[])]
        {
            assert_eq!(order(View { filter: filter.into(), ..plain() }), wanted, "{filter}");
        }
    }
}
