//! The table of exits: kernels beside each other.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::count::HOST;
use super::{Causes, Measured};

const PAGE: &str = "\
How often one operation makes a virtual CPU leave the guest under KVM, on all CPUs together: what users of real machines pay beside
instructions. KVM runs in an emulated machine (QEMU emulates AMD's virtualization), and its own trace is counted between marks around the
operations (host/guest/exits.c); each figure is the median of three windows. A second is that of one CPU: *busy* with a program in user mode
on each CPU, *idle* with nobody doing anything. Ticks of the guest's clock fall into a window as they come; a fork takes milliseconds here, so
more of them than on hardware. Interrupts of the host's own devices and timers count in their own column alone: they depend on how slow the
emulation is. Among them are those by which a host tells a running CPU of an interrupt for it.
";

/// Without the host's own.
fn total(causes: &Causes) -> f64 {
    causes.iter().filter(|(cause, _)| *cause != HOST).map(|(_, rate)| rate).sum()
}

fn listed(causes: &Causes) -> String {
    let mut sorted: Vec<(&str, f64)> = causes
        .iter()
        .filter(|(cause, _)| *cause != HOST)
        .map(|(cause, rate)| (cause.as_str(), *rate))
        .collect();
    sorted.sort_by(|one, other| other.1.total_cmp(&one.1));
    let shown = sorted.iter().filter(|(_, rate)| *rate >= 0.005);
    shown.map(|(cause, rate)| format!("{cause} {rate:.2}")).collect::<Vec<_>>().join(", ")
}

/// More than the other kernel's by more than what comes and goes.
fn is_more(own: f64, other: f64) -> bool {
    own > other * 1.05 + 0.05
}

pub fn table(measured: &Measured) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["operation".to_owned()];
    for column in &measured.kernels {
        header.extend([column.kernel.clone(), HOST.into(), "causes".into()]);
    }
    table.set_header(header);
    let names = measured.kernels.first().into_iter().flat_map(|column| &column.cases).map(|(name, _)| name);
    for name in names {
        let mut cells = vec![name.clone()];
        for column in &measured.kernels {
            match column.cases.iter().find(|(of, _)| of == name) {
                Some((_, causes)) => cells.extend([
                    format!("{:.2}", total(causes)),
                    format!("{:.2}", causes.get(HOST).copied().unwrap_or(0.0)),
                    listed(causes),
                ]),
                None => cells.extend([const { String::new() }; 3]),
            }
        }
        table.add_row(cells);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        if at > 0 && at % 3 != 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Which operations leave the guest more often on the first kernel than on the second.
pub fn summary(measured: &Measured) -> String {
    let [own, other] = measured.kernels.as_slice() else { return String::new() };
    let mut worse = Vec::new();
    for (name, causes) in &own.cases {
        let Some((_, others)) = other.cases.iter().find(|(of, _)| of == name) else { continue };
        if is_more(total(causes), total(others)) {
            worse.push(name.as_str());
        }
    }
    let mut text = String::new();
    let _ = match worse.as_slice() {
        [] => write!(
            text,
            "No operation leaves the guest more often on {} than on {}.",
            own.kernel, other.kernel
        ),
        worse => write!(text, "More often than on {}: {}.", other.kernel, worse.join(", ")),
    };
    text
}

pub fn page(measured: &Measured) -> String {
    let mut table = table(measured);
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let vs: String =
        measured.kernels.iter().skip(1).map(|column| format!(" --vs {}", column.kernel)).collect();
    format!(
        "# What leaves the guest under KVM\n\nPrinted by `./darter exits{vs} --cpus {} --page docs/exits.md`; not written by hand.\n\n{PAGE}\n{}\n\n{table}\n",
        measured.cpus,
        summary(measured)
    )
}

#[cfg(test)]
mod tests {
    use super::super::Column;
    use super::*;

    #[test]
    fn an_operation_that_exits_more_often_is_named_and_the_hosts_own_interrupts_do_not_count() {
        let column = |kernel: &str, hlt: f64, host: f64| {
            let causes = Causes::from([("HLT".to_owned(), hlt), (HOST.to_owned(), host)]);
            Column { kernel: kernel.into(), cases: vec![("fork".into(), causes)] }
        };
        let measured = |own, other| Measured { cpus: 2, kernels: vec![own, other] };
        let text = summary(&measured(column("darter", 2.0, 0.0), column("linux", 1.0, 9.0)));
        assert_eq!(text, "More often than on linux: fork.");
        let equal = measured(column("darter", 1.0, 7.0), column("linux", 1.0, 0.0));
        assert!(summary(&equal).starts_with("No operation"));
        assert!(
            page(&equal).contains("| fork      |   1.00 |           7.00 | HLT 1.00 |"),
            "{}",
            page(&equal)
        );
    }
}
