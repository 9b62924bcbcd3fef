//! Runs bench/sched/shares.c in machines, one for each number of CPUs, and reads what it prints.
#![forbid(unsafe_code)]

use std::time::Instant;

use anyhow::Result;

use super::{Case, Shown, Task, Ticker};
use crate::bench::guest::Measured;
use crate::bench::progress_bar;
use crate::cli::Shares as Options;
use crate::machine::kernel::Kernel;
use crate::paced;
use crate::paths::Tree;
use crate::relay::signals::Signals;

pub fn measure(
    options: &Options,
    paths: &Tree,
    kernel: &Kernel,
    cases: &[Case],
    signals: &mut Signals,
) -> Result<Vec<Shown>> {
    let mut shown = Vec::new();
    let progress = progress_bar(cases.len() as u64);
    for cases in cases.chunk_by(|one, other| one.cpus == other.cpus) {
        let Some(cpus) = cases.first().map(|case| case.cpus) else { continue };
        let began = Instant::now();
        progress.set_message(format!("{}, {cpus} CPUs: boot", kernel.name()));
        let lines: Vec<String> = cases.iter().map(Case::line).collect();
        let tell = |number: usize| {
            let line = lines.get(number).map_or("", String::as_str);
            progress.set_message(format!("{}, {cpus} CPUs: {line}", kernel.name()));
            progress.inc(1);
        };
        let machine = paced::machine(cpus, options.memory);
        let ran = paced::run(paths, kernel, machine, &options.append, &lines, signals, &tell)?;
        for result in ran.results {
            shown.push(match result {
                Some(Ok(measured)) => read(&measured),
                Some(Err(why)) => failed(why),
                None => failed(ran.machine.clone().unwrap_or_else(|| "it did not run".into())),
            });
        }
        if progress.is_hidden() {
            note!("{}, {cpus} CPUs: {:.0} s", kernel.name(), began.elapsed().as_secs_f64());
        }
    }
    progress.finish_and_clear();
    Ok(shown)
}

fn failed(why: String) -> Shown {
    Shown { failed: Some(why), ..Shown::default() }
}

fn read(measured: &Measured) -> Shown {
    match parse(&measured.said) {
        Some(shown) if shown.tasks.len() as u64 == measured.ops => shown,
        _ => failed(format!("it said {}", measured.said.join("; "))),
    }
}

/// Lines `share NICE CPU_US MOVES` and one `ticker CPU_US NAPS MEDIAN_US P99_US WORST_US`.
fn parse(said: &[String]) -> Option<Shown> {
    let mut shown = Shown::default();
    for line in said {
        let mut words = line.split(' ');
        let kind = words.next()?;
        let numbers: Option<Vec<i64>> = words.map(|word| word.parse().ok()).collect();
        match (kind, numbers?.as_slice()) {
            ("share", &[nice, cpu_us, moves]) => shown.tasks.push(Task {
                nice: nice.try_into().ok()?,
                seconds: cpu_us as f64 / 1e6,
                moves: moves.try_into().ok()?,
            }),
            ("ticker", &[cpu_us, naps, median_us, p99_us, worst_us]) => {
                shown.ticker = Ticker {
                    seconds: cpu_us as f64 / 1e6,
                    naps: naps.try_into().ok()?,
                    median_us: median_us.try_into().ok()?,
                    p99_us: p99_us.try_into().ok()?,
                    worst_us: worst_us.try_into().ok()?,
                }
            }
            _ => return None,
        }
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_the_ticker_are_read_off_the_programs_lines() {
        let said = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let shown =
            parse(&said("share 0 4000000 3\nshare -5 500000 0\nticker 4626 1906 99 102 153\n")).unwrap();
        assert_eq!(shown.tasks[1], Task { nice: -5, seconds: 0.5, moves: 0 });
        assert_eq!((shown.ticker.naps, shown.ticker.worst_us), (1906, 153));
        assert!(parse(&said("share 0 4000000\n")).is_none());
        assert!(parse(&said("shares: fork: no memory\n")).is_none());
    }
}
