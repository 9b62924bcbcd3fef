//! The table of shares: kernels beside each other, and which goals are met.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{Case, Measured, Shown};

/// Per cent that a share may be from its due.
pub const GOAL: f64 = 10.0;
/// A sleeper is no later than another kernel's if it is by no more than this, in microseconds and as a part: a timer's slack.
const NEAR_US: f64 = 50.0;
const NEAR: f64 = 0.05;

const PAGE: &str = "\
Processes that only compute, several for each CPU (`bench/sched/shares.c`), and one that sleeps 2 ms at a time. *Worst* is the share that is furthest from its due, in
per cent of the due, with the task's nice value, what it got and what it was due in seconds. A task is due CPU time by weight (a nice value less is a quarter more), but no
more than one CPU: what it cannot use the others share by weight (max-min fairness), all of it out of what the sleeper left. *Used* is how much of the CPUs tasks and sleeper had; the
rest the kernel spent outside of any task, or let idle. *Moves* is how often in a second a task found itself on another CPU. *Late* is how much later than
asked the sleeper woke, in milliseconds: the median, the 99th percentile and the worst.

Time counts in instructions, 2 ns each, and one host thread runs all CPUs in turns of at most 50 µs, with 16 and more CPUs 10 (`host/src/paced.rs`), so runs repeat exactly
and the host's own scheduling does not show. A CPU of N busy ones is therefore as slow as 500/N million instructions a second: with 48 CPUs
the way through a kernel weighs as much as on a machine of ten megahertz. The window is 4 seconds, with more than 16 CPUs 20, and opens a second after the tasks began.
A row of up to 16 CPUs is of three runs, each with a window a hundredth longer, since a little more or less makes another run of it: that whose worst share is the median,
and the medians of how late the sleeper woke.
";

fn worst(case: &Case, shown: &Shown) -> Option<f64> {
    shown.worst(case).filter(|_| shown.failed.is_none()).map(|share| share.deviation().abs())
}

/// Is the sleeper later than on the other kernel?
fn is_later(own: &Shown, other: &Shown) -> bool {
    let [own, other] = [own, other].map(|shown| shown.ticker.worst_us as f64);
    own > other * (1.0 + NEAR) + NEAR_US
}

fn cells(case: &Case, shown: &Shown) -> Vec<String> {
    let Some(share) = shown.worst(case).filter(|_| shown.failed.is_none()) else {
        let mut cells = vec![String::new(); 5];
        cells[0] = "failed".into();
        return cells;
    };
    let (ticker, ms) = (&shown.ticker, |us: u64| format!("{:.1}", us as f64 / 1e3));
    vec![
        format!("{:+.1} %", share.deviation()),
        format!("nice {}: {:.2} of {:.2} s", share.nice, share.got, share.due),
        format!("{:.1} %", shown.used(case)),
        format!("{:.1}", shown.moves(case)),
        [ticker.median_us, ticker.p99_us, ticker.worst_us].map(ms).join(" / "),
    ]
}

/// Of the first kernel's row: the goals of shares and of the sleeper.
fn goals(measured: &Measured, at: usize) -> [String; 2] {
    let word = |met: Option<bool>| match met {
        Some(true) => "met".to_owned(),
        Some(false) => "not met".to_owned(),
        None => String::new(),
    };
    let shown = |kernel: usize| {
        let shown = measured.kernels.get(kernel)?.shown.get(at)?;
        shown.failed.is_none().then_some(shown)
    };
    let own = shown(0);
    let share = own.zip(measured.cases.get(at)).and_then(|(own, case)| Some(worst(case, own)? <= GOAL));
    let late = own.zip(shown(1)).map(|(own, other)| !is_later(own, other));
    [word(share), word(late)]
}

pub fn table(measured: &Measured) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = ["CPUs", "tasks", "nice"].map(str::to_owned).to_vec();
    for column in &measured.kernels {
        header.push(format!("{}: worst", column.kernel));
        header.extend(["of a task", "used", "moves/s", "late, ms"].map(str::to_owned));
    }
    header.extend(["share", "sleeper"].map(str::to_owned));
    table.set_header(header);
    for (at, case) in measured.cases.iter().enumerate() {
        let mut line = vec![case.cpus.to_string(), case.tasks().to_string(), case.nice.to_string()];
        for column in &measured.kernels {
            let failed = Shown::default();
            line.extend(cells(case, column.shown.get(at).unwrap_or(&failed)));
        }
        line.extend(goals(measured, at));
        table.add_row(line);
    }
    let last = 3 + measured.kernels.len() * 5;
    for (at, column) in table.column_iter_mut().enumerate() {
        if at != 2 && at < last {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

pub fn failures(measured: &Measured) -> String {
    let mut text = String::new();
    for column in &measured.kernels {
        for (case, shown) in measured.cases.iter().zip(&column.shown) {
            if let Some(why) = &shown.failed {
                let _ = writeln!(text, "{} on {}: failed: {why}", case.key(), column.kernel);
            }
        }
    }
    text
}

/// How many rows meet the goals.
pub fn summary(measured: &Measured) -> String {
    let mut text = String::new();
    for column in &measured.kernels {
        let rows = measured.cases.iter().zip(&column.shown);
        let figures: Vec<f64> = rows.filter_map(|(case, shown)| worst(case, shown)).collect();
        let met = figures.iter().filter(|&&figure| figure <= GOAL).count();
        let all = figures.len();
        let version = &column.version;
        let _ = writeln!(
            text,
            "{} ({version}): each share within {GOAL} % of its due in {met} of {all} rows",
            column.kernel
        );
    }
    let verdicts: Vec<String> =
        (0..measured.cases.len()).map(|at| goals(measured, at)).map(|[_, late]| late).collect();
    if let [_, other, ..] = measured.kernels.as_slice() {
        let met = verdicts.iter().filter(|word| *word == "met").count();
        let all = verdicts.iter().filter(|word| !word.is_empty()).count();
        let _ = writeln!(text, "The sleeper wakes no later than on {} in {met} of {all} rows", other.kernel);
    }
    text
}

pub fn page(measured: &Measured) -> String {
    let mut table = table(measured);
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    let vs: String =
        measured.kernels.iter().skip(1).map(|column| format!(" --vs {}", column.kernel)).collect();
    let summary: String = summary(measured).lines().map(|line| format!("- {line}\n")).collect();
    format!(
        "# Shares of busy processes\n\nPrinted by `./darter shares{vs} --page docs/shares.md` (QEMU {}); not written by hand.\n\n{PAGE}\n\
         Goals: each share within {GOAL} % of its due; the sleeper no later, at worst, than on the other kernel (by no more than 5 % and 50 µs).\n\n\
         {summary}\n{table}\n{}",
        measured.qemu,
        failures(measured)
    )
}

#[cfg(test)]
mod tests {
    use super::super::due::Nices;
    use super::super::{Column, Task, Ticker};
    use super::*;

    #[test]
    fn goals_are_judged_by_the_worst_share_and_beside_the_other_kernel() {
        let case = Case { cpus: 1, load: 2.0, nice: Nices::parse("0").unwrap(), seconds: 4.0 };
        let column = |kernel: &str, seconds: [f64; 2], worst_us: u64| {
            let tasks = seconds.map(|seconds| Task { nice: 0, seconds, moves: 0 }).to_vec();
            let shown = Shown { tasks, ticker: Ticker { worst_us, ..Ticker::default() }, failed: None };
            Column { kernel: kernel.into(), version: "1".into(), shown: vec![shown] }
        };
        let kernels = vec![column("darter", [2.6, 1.5], 4100), column("linux", [2.1, 1.9], 4000)];
        let measured = Measured { qemu: "1".into(), cases: vec![case], kernels };
        assert_eq!(goals(&measured, 0), ["not met", "met"]);
        let text = summary(&measured);
        assert!(text.contains("darter (1): each share within 10 % of its due in 0 of 1 rows"), "{text}");
        assert!(text.contains("no later than on linux in 1 of 1 rows"), "{text}");
        assert!(page(&measured).contains("nice 0: 2.60 of 2.00 s"), "{}", page(&measured));
    }
}
