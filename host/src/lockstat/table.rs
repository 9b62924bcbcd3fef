//! How the counts are shown: as NetBSD's lockstat(8) does, and as JSON.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::counts::{Counts, Kind, Waits};
use crate::cli::Lockstat;
use crate::run::Ended;

const ALL: &str = "<all>";

/// A line of the table.
struct Row<'a> {
    lock: &'a str,
    caller: &'a str,
    waits: Waits,
}

/// The waits of one kind as the options want them: those of all locks together, then each lock with its callers, what cost most first.
fn rows<'a>(counts: &'a Counts, kind: Kind, options: &Lockstat) -> Vec<Row<'a>> {
    let mut all = Waits::default();
    let mut locks: BTreeMap<&str, (Waits, BTreeMap<&str, Waits>)> = BTreeMap::new();
    for ((_, lock, caller), waits) in counts.waits.iter().filter(|((of, ..), _)| *of == kind) {
        let lock = if options.functions { ALL } else { lock.as_str() };
        let caller = if options.merge { file_of(caller) } else { caller.as_str() };
        let (sum, callers) = locks.entry(lock).or_default();
        callers.entry(caller).or_default().add(waits);
        sum.add(waits);
        all.add(waits);
    }
    let cost = |waits: &Waits| if options.count { (waits.count, waits.ns) } else { (waits.ns, waits.count) };
    let mut rows = Vec::new();
    if all.count > 0 {
        rows.push(Row { lock: ALL, caller: ALL, waits: all });
    }
    let mut locks: Vec<_> = locks.into_iter().collect();
    locks.sort_by_key(|(_, (sum, _))| std::cmp::Reverse(cost(sum)));
    for (lock, (sum, callers)) in locks {
        if !options.functions {
            rows.push(Row { lock, caller: ALL, waits: sum });
        }
        if !options.locks {
            let mut callers: Vec<_> = callers.into_iter().collect();
            callers.sort_by_key(|(_, waits)| std::cmp::Reverse(cost(waits)));
            rows.extend(callers.into_iter().map(|(caller, waits)| Row { lock, caller, waits }));
        }
    }
    rows
}

/// The source file of a place in it.
fn file_of(caller: &str) -> &str {
    caller.rsplit_once(':').map_or(caller, |(file, _)| file)
}

pub fn text(counts: &Counts, options: &Lockstat, cpus: u32) -> String {
    let mut text = format!("Elapsed time: {:.2} seconds.\n", counts.seconds);
    // What one unit of the columns is: the whole, or what falls to a second or a CPU.
    let per_second = if options.per_second { counts.seconds.max(1e-9) } else { 1.0 };
    let parts = per_second * if options.per_cpu { f64::from(cpus) } else { 1.0 };
    for (kind, title) in [(Kind::Spin, "Spinning"), (Kind::Sleep, "Sleeping")] {
        let rows = rows(counts, kind, options);
        let Some(all) = rows.first().map(|row| row.waits) else { continue };
        let _ = write!(
            text,
            "\n-- {title}\n\nTotal%    Count    Time/ms  Avg/us  Long/us Holder Lock                 Caller\n\
             ------ -------- ---------- ------- -------- ------ -------------------- ------------------------\n"
        );
        for row in rows {
            let waits = &row.waits;
            let share = if options.count {
                waits.count as f64 / all.count as f64
            } else {
                waits.ns as f64 / all.ns.max(1) as f64
            };
            let holder = waits.holder.map_or_else(String::new, |cpu| format!("cpu{cpu}"));
            let _ = writeln!(
                text,
                "{:>6.2} {:>8.*} {:>10.2} {:>7.1} {:>8.1} {:<6} {:<20} {}",
                share * 100.0,
                usize::from(parts != 1.0) * 2,
                waits.count as f64 / parts,
                waits.ns as f64 / 1e6 / parts,
                waits.average_ns() as f64 / 1e3,
                waits.longest_ns as f64 / 1e3,
                holder,
                row.lock,
                row.caller
            );
        }
    }
    acquisitions(counts, &mut text);
    if counts.waits.is_empty() {
        text.push_str("\nNo lock was waited for.\n");
    }
    if counts.lost > 0 {
        let _ = writeln!(text, "\n{} waits are missing above: the kernel's tables were full.", counts.lost);
    }
    text.truncate(text.trim_end().len());
    text
}

/// How often each lock that was waited for was taken, and in how many of a hundred times it was not free.
fn acquisitions(counts: &Counts, text: &mut String) {
    let met = met(counts);
    if met.is_empty() {
        return;
    }
    text.push_str("\n-- Acquisitions\n\n       Taken     Waits  Wait% Lock\n------------ --------- ------ --------------------\n");
    for (lock, waits) in met {
        let taken = counts.taken.get(lock).copied().unwrap_or(0);
        let _ = writeln!(text, "{taken:>12} {waits:>9} {:>6.2} {lock}", share_of(waits, taken) * 100.0);
    }
}

fn share_of(waits: u64, taken: u64) -> f64 {
    waits as f64 / taken.max(1) as f64
}

/// Waits of both kinds by lock, the most first.
fn met(counts: &Counts) -> Vec<(&str, u64)> {
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    for ((_, lock, _), waits) in &counts.waits {
        *met.entry(lock).or_default() += waits.count;
    }
    let mut met: Vec<_> = met.into_iter().collect();
    met.sort_by_key(|(_, waits)| std::cmp::Reverse(*waits));
    met
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    status: u8,
    error: Option<&'a str>,
    elapsed_seconds: f64,
    program_seconds: Option<f64>,
    lost: u64,
    waits: Vec<WaitsOf<'a>>,
    locks: Vec<LockOf<'a>>,
}

#[derive(Serialize)]
struct WaitsOf<'a> {
    /// spin or sleep.
    kind: &'static str,
    lock: &'a str,
    caller: &'a str,
    count: u64,
    ns: u64,
    average_ns: u64,
    longest_ns: u64,
    holder: Option<u32>,
}

#[derive(Serialize)]
struct LockOf<'a> {
    lock: &'a str,
    taken: u64,
    waits: u64,
    contended_share: f64,
}

/// All that was counted, whatever the options fold and sum up in the table.
///
/// # Errors
/// None that is known: the report has no maps with odd keys.
pub fn json(counts: &Counts, ended: &Ended) -> Result<String> {
    let waits = counts.waits.iter().map(|((kind, lock, caller), waits)| WaitsOf {
        kind: if *kind == Kind::Spin { "spin" } else { "sleep" },
        lock,
        caller,
        count: waits.count,
        ns: waits.ns,
        average_ns: waits.average_ns(),
        longest_ns: waits.longest_ns,
        holder: waits.holder,
    });
    let locks = met(counts).into_iter().map(|(lock, waits)| {
        let taken = counts.taken.get(lock).copied().unwrap_or(0);
        LockOf { lock, taken, waits, contended_share: share_of(waits, taken) }
    });
    let report = Report {
        status: ended.status,
        error: ended.why.as_deref(),
        elapsed_seconds: counts.seconds,
        program_seconds: ended.program.map(|time| time.as_secs_f64()),
        lost: counts.lost,
        waits: waits.collect(),
        locks: locks.collect(),
    };
    Ok(serde_json::to_string(&report)?)
}

#[cfg(test)]
mod tests {
    use super::super::counts::tests::counts;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Lockstat,
    }

    fn table(flags: &[&str]) -> String {
        let words = ["lockstat"].iter().chain(flags).chain(&["--", "true"]);
        text(&counts(), &Line::try_parse_from(words).unwrap().options, 2)
    }

    fn rows_of<'a>(table: &'a str, title: &str) -> Vec<Vec<&'a str>> {
        let (_, rest) = table.split_once(&format!("-- {title}\n\n")).unwrap();
        let lines = rest.lines().skip(2).take_while(|line| !line.is_empty());
        lines.map(|line| line.split_whitespace().collect()).collect()
    }

    #[test]
    fn all_comes_first_then_each_lock_with_its_callers_by_time() {
        let table = table(&[]);
        assert!(table.starts_with("Elapsed time: 2.00 seconds.\n"));
        let rows = rows_of(&table, "Spinning");
        assert_eq!(rows[0], ["100.00", "52", "8.00", "153.9", "900.0", "cpu1", "<all>", "<all>"]);
        assert_eq!(rows[1][6..], ["leaf", "<all>"]);
        assert_eq!(
            rows[2],
            ["74.99", "40", "6.00", "150.0", "900.0", "cpu1", "leaf", "vm/src/op/fault.rs:120"]
        );
        assert_eq!(rows[3][7], "vm/src/op/fault.rs:200");
        let sleeps = rows_of(&table, "Sleeping");
        assert_eq!(sleeps.len(), 3);
        assert_eq!(sleeps[2][1..3], ["50", "80.00"]);
        let taken = rows_of(&table, "Acquisitions");
        assert_eq!(taken[0], ["500", "52", "10.40", "pipe", "data"]);
        assert_eq!(taken[1], ["1000", "50", "5.00", "leaf"]);
        assert!(table.ends_with("3 waits are missing above: the kernel's tables were full."));
    }

    #[test]
    fn the_flags_fold_count_and_divide() {
        let spinning = |flags: &[&str]| {
            let table = table(flags);
            let rows = rows_of(&table, "Spinning");
            rows.iter().map(|row| row.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(spinning(&["-l"]).len(), 3, "locks alone");
        let by_function = spinning(&["-f"]);
        assert!(
            by_function[1..]
                .iter()
                .all(|row| row.contains("<all> vm/src") || row.contains("<all> kernel/src"))
        );
        let merged = spinning(&["-m"]);
        assert!(
            merged.iter().any(|row| row.starts_with("99.99 50 8.00") && row.ends_with("vm/src/op/fault.rs"))
        );
        assert!(spinning(&["-c"])[1].starts_with("96.15 50"), "{:?}", spinning(&["-c"]));
        assert!(spinning(&["-s", "-p"])[0].starts_with("100.00 13.00 2.00"));
    }

    #[test]
    fn a_quiet_run_says_so() {
        let quiet = Counts { seconds: 1.0, lost: 0, taken: BTreeMap::new(), waits: BTreeMap::new() };
        let options = Line::try_parse_from(["lockstat", "--", "true"]).unwrap().options;
        assert_eq!(text(&quiet, &options, 1), "Elapsed time: 1.00 seconds.\n\nNo lock was waited for.");
    }
}
