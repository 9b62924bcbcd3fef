//! `darter lines --cost`: what watching costs. The same operations on the same machine with and without the plugin, by the
//! processor time that QEMU takes for them: the clock on the wall says more about what else the host does.
#![forbid(unsafe_code)]

use std::cell::RefCell;

use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::windows::{LIMIT, SETTLE, machine};
use crate::bench::append;
use crate::bench::boot::Boot;
use crate::bench::guest::Command;
use crate::bench::suite::{self, Spec};
use crate::cli::Lines;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::symbols;

/// Times the operations of a count of lines, so that starting the program weighs little.
const LONGER: u64 = 2;

#[derive(Serialize)]
struct Cost {
    bench: String,
    kernel: String,
    cpus: u32,
    ops: u64,
    /// Processor time of the emulator, all its threads, from the program's start to its end.
    plain_seconds: f64,
    watched_seconds: f64,
    ratio: f64,
}

pub fn run(options: &Lines) -> Result<u8> {
    let specs = suite::choose(&options.benchmarks)?;
    let paths = Tree::find();
    let mut signals = Signals::catch()?;
    let mut all = Vec::new();
    for kernel in [Some(&options.machine.kernel), options.vs.as_ref()].into_iter().flatten() {
        for &cpus in &options.cpus {
            let plain = seconds(options, kernel, cpus, &paths, &specs, &mut signals, false)?;
            let watched = seconds(options, kernel, cpus, &paths, &specs, &mut signals, true)?;
            for ((spec, (ops, plain)), (_, watched)) in specs.iter().zip(plain).zip(watched) {
                all.push(Cost {
                    bench: spec.name.clone(),
                    kernel: kernel.name(),
                    cpus,
                    ops,
                    plain_seconds: plain,
                    watched_seconds: watched,
                    ratio: watched / plain,
                });
            }
        }
    }
    out!("{}", table(&all));
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_string_pretty(&all)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(0)
}

/// Operations and processor time of each benchmark's second run, all in one machine.
fn seconds(
    options: &Lines,
    kernel: &Kernel,
    cpus: u32,
    paths: &Tree,
    specs: &[Spec],
    signals: &mut Signals,
    watched: bool,
) -> Result<Vec<(u64, f64)>> {
    let folder = tempfile::tempdir_in(paths.cache("run")?)?;
    let mut machine = machine(&options.machine, cpus, paths, &folder.path().join("lines.json"), "")?;
    if !watched {
        machine.extra.clear();
    }
    let mut words = append(kernel, &options.machine.append);
    words.push(symbols::COUNTED_APPEND.into());
    let mut commands: Vec<Command> = specs
        .iter()
        .flat_map(|spec| [spec, spec])
        .map(|spec| Command {
            line: spec.counted_on(cpus, options.ops.unwrap_or(LONGER * spec.window_ops)),
            huge_pages: spec.huge_pages,
        })
        .collect();
    // Its beginning is the last benchmark's end.
    commands.push(Command { line: "getppid 1 -q -c 1".into(), huge_pages: false });
    let boot = Boot {
        paths,
        kernel,
        machine,
        add: &[],
        append: words,
        settle: SETTLE,
        limit: LIMIT,
        undisturbed: true,
    };
    let begun = RefCell::new(Vec::new());
    let ran = boot.run(signals, &commands, &|_| begun.borrow_mut().push(children_seconds()))?;
    let begun = begun.into_inner();
    let mut results = ran.results.into_iter();
    let mut costs = Vec::new();
    for (number, spec) in specs.iter().enumerate() {
        let ops = match results.by_ref().nth(1).flatten() {
            Some(Ok(measured)) => measured.ops,
            Some(Err(why)) => bail!("{} on {}: {why}", spec.name, kernel.name()),
            None => bail!(ran.machine.unwrap_or_else(|| "it did not run".into())),
        };
        let (Some(from), Some(to)) = (begun.get(2 * number + 1), begun.get(2 * number + 2)) else {
            bail!("{} did not begin", spec.name);
        };
        let seconds = from.zip(*to).map(|(from, to)| to - from);
        costs.push((ops, seconds.context("this host does not say what QEMU costs")?));
    }
    Ok(costs)
}

/// Processor time, so far, of the programs that this one has started and that still run.
fn children_seconds() -> Option<f64> {
    let this = std::process::id();
    let mut nanoseconds = 0;
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        // proc(5): number, name in parentheses, state, parent.
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse::<u32>().ok());
        if parent != Some(this) {
            continue;
        }
        for thread in std::fs::read_dir(process.path().join("task")).ok()?.flatten() {
            // Nanoseconds on a CPU, nanoseconds waiting for one, turns.
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            nanoseconds += text.split_whitespace().next()?.parse::<u64>().ok()?;
        }
    }
    Some(nanoseconds as f64 / 1e9)
}

fn table(all: &[Cost]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["benchmark", "kernel", "CPUs", "operations", "plain CPU s", "watched CPU s", "times"]);
    for cost in all {
        table.add_row([
            cost.bench.clone(),
            cost.kernel.clone(),
            cost.cpus.to_string(),
            cost.ops.to_string(),
            format!("{:.3}", cost.plain_seconds),
            format!("{:.3}", cost.watched_seconds),
            format!("{:.1}", cost.ratio),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
