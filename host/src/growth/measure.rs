//! Machines that measure: each world with each N is one command, and all of them run one after another in one machine.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use darter_measure::{Symbols, Window};

use super::{Row, Shown};
use crate::bench::boot::{self, Boot};
use crate::bench::guest::{self, Command};
use crate::bench::{append, progress_bar};
use crate::cli::Growth as Options;
use crate::machine::accel::Accel;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::symbols;

/// Seconds that one world may take: Linux makes ten thousand processes in a minute.
const LIMIT: u32 = 400;
/// Windows of each row, as bench/growth/main.c numbers them.
const ROUNDS: u64 = 3;
const NUMBERS: u64 = 1000;
/// Iterations of a string instruction that count as one instruction: it moves a cache line in that time.
const ITERATIONS: f64 = 64.0;

/// One world with one N.
struct Part<'a> {
    n: u32,
    rows: Vec<(usize, &'a Row)>,
}

impl Part<'_> {
    /// The line for the shell; the rows are named unless they are all of the world.
    fn line(&self, whole: bool) -> Option<String> {
        let world = &self.rows.first()?.1.world;
        let names: String = if whole {
            String::new()
        } else {
            self.rows.iter().map(|(_, row)| format!(" {}", row.name)).collect()
        };
        Some(format!("growth run {world} {}{names}", self.n))
    }
}

pub fn measure(
    options: &Options,
    paths: &Tree,
    kernel: &Kernel,
    rows: &[Row],
    signals: &mut Signals,
) -> Result<Vec<Shown>> {
    let plugin = paths.lines_plugin();
    if !plugin.is_file() {
        bail!("{} is missing: run 'make plugin'", plugin.display());
    }
    let symbols = if options.profile { Some(symbols::of(kernel, paths)?) } else { None };
    let mut shown = vec![Shown::default(); rows.len()];
    let mut parts = parts(rows, &options.sizes);
    let whole = options.cases.is_empty();
    let progress = progress_bar(parts.len() as u64);
    while !parts.is_empty() {
        let folder = tempfile::tempdir_in(paths.cache("run")?)?;
        let out = folder.path().join("counts.json");
        let mut machine = boot::machine(1, options.memory, Accel::Tcg, "max");
        machine.deterministic = true;
        machine.extra =
            vec!["-plugin".into(), darter_measure::instructions_plugin(&plugin, &out, options.profile)];
        let mut words = append(kernel, &options.append);
        words.push(symbols::COUNTED_APPEND.into());
        let settle = if *kernel == Kernel::Linux { 3.0 } else { 0.5 };
        let boot =
            Boot { paths, kernel, machine, add: &[], append: words, settle, limit: LIMIT, undisturbed: true };
        let commands: Vec<Command> = parts
            .iter()
            .filter_map(|part| Some(Command { line: part.line(whole)?, huge_pages: false }))
            .collect();
        let (begun, since) = (Cell::new(0), Cell::new(Instant::now()));
        let tell = |number: usize| {
            let took = since.replace(Instant::now()).elapsed().as_secs_f64();
            if progress.is_hidden()
                && let Some(command) = number.checked_sub(1).and_then(|at| commands.get(at))
            {
                note!("{}: {}: {took:.1} s", kernel.name(), command.line);
            }
            begun.set(begun.get().max(number + 1));
            progress.inc(1);
            progress.set_message(format!(
                "{}: {}",
                kernel.name(),
                commands.get(number).map_or("", |command| command.line.as_str())
            ));
        };
        let ran = boot.run(signals, &commands, &tell)?;
        let windows = match std::fs::read_to_string(&out) {
            Ok(text) => darter_measure::parse_instructions(&text).context("the plugin's counts")?,
            Err(_) => Vec::new(),
        };
        let windows: HashMap<u64, Window> =
            windows.into_iter().map(|window| (window.number, window)).collect();
        // Where the machine ended under one, those that have not begun go on in another.
        let done = begun.get().max(1);
        for (number, (part, result)) in parts.iter().zip(ran.results).take(done).enumerate() {
            let failed = match result {
                Some(Ok(_)) => None,
                Some(Err(why)) => Some(why),
                None => Some(ran.machine.clone().unwrap_or_else(|| "it did not run".into())),
            };
            for &(at, row) in &part.rows {
                let Some(shown) = shown.get_mut(at) else { continue };
                match median(&windows, number, row) {
                    Some(window) => {
                        shown.figures.push((part.n, cost(window, row)));
                        for (name, cost) in
                            symbols.iter().flat_map(|symbols| by_function(window, row, symbols))
                        {
                            shown.functions.entry(name).or_default().push((part.n, cost));
                        }
                    }
                    None => {
                        let why = failed.clone().unwrap_or_else(|| "the plugin saw no window for it".into());
                        shown.failed.get_or_insert(format!("{}: {why}", part.n));
                    }
                }
            }
        }
        parts.drain(..done.min(parts.len()));
    }
    progress.finish_and_clear();
    Ok(shown)
}

/// In the order of the worlds, N ascending.
fn parts<'a>(rows: &'a [Row], sizes: &[u32]) -> Vec<Part<'a>> {
    let mut worlds: Vec<Vec<(usize, &Row)>> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        match worlds.last_mut() {
            Some(last) if last.first().is_some_and(|(_, first)| first.world == row.world) => {
                last.push((at, row))
            }
            _ => worlds.push(vec![(at, row)]),
        }
    }
    worlds
        .into_iter()
        .flat_map(|rows| {
            let most = rows.first().map_or(0, |(_, row)| row.most);
            sizes.iter().filter(move |&&n| n <= most).map(move |&n| Part { n, rows: rows.clone() })
        })
        .collect()
}

/// The median of the row's windows.
fn median<'a>(windows: &'a HashMap<u64, Window>, number: usize, row: &Row) -> Option<&'a Window> {
    let first = guest::window(number) * NUMBERS + row.place * ROUNDS;
    let mut windows: Vec<_> = (first..first + ROUNDS).filter_map(|number| windows.get(&number)).collect();
    windows.sort_by(|one, other| cost(one, row).total_cmp(&cost(other, row)));
    windows.get(windows.len() / 2).copied()
}

/// Instructions for one operation.
fn cost(window: &Window, row: &Row) -> f64 {
    each(window.kernel, window.kernel_iterations, row)
}

fn each(instructions: u64, iterations: u64, row: &Row) -> f64 {
    (instructions as f64 + iterations as f64 / ITERATIONS) / row.times.max(1) as f64
}

/// What each of the kernel's functions costs of one operation.
fn by_function(window: &Window, row: &Row, symbols: &Symbols) -> HashMap<String, f64> {
    let mut costs = HashMap::new();
    for &(pc, executions, iterations) in &window.profile {
        *costs.entry(symbols.name(pc).to_owned()).or_default() += each(executions, iterations, row);
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(world: &str, place: u64) -> Row {
        let (of, name) = ("things".into(), format!("op{place}"));
        Row { world: world.into(), of, most: 100, name, place, times: 2 }
    }

    #[test]
    fn a_world_with_each_n_is_a_command() {
        let rows = [row("a", 0), row("a", 1), row("b", 0)];
        let parts = parts(&rows, &[10, 100, 1000]);
        let lines: Vec<_> = parts.iter().filter_map(|part| part.line(true)).collect();
        assert_eq!(lines, ["growth run a 10", "growth run a 100", "growth run b 10", "growth run b 100"]);
        assert_eq!(parts[0].line(false).unwrap(), "growth run a 10 op0 op1");
    }

    #[test]
    fn a_cost_is_the_median_of_the_rows_windows() {
        let window = |number, kernel, kernel_iterations| {
            (number, Window { number, kernel, kernel_iterations, ..Window::default() })
        };
        let windows = [window(2003, 600, 0), window(2004, 9000, 0), window(2005, 600, 64 * 10)].into();
        let cost_of = |row: &Row| median(&windows, 1, row).map(|window| cost(window, row));
        assert_eq!(cost_of(&row("a", 1)), Some(305.0));
        assert_eq!(cost_of(&row("a", 2)), None);
    }
}
