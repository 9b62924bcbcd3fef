//! `darter lines --grid`: which operations can run side by side without touching a common line, as Commuter drew it.
//!
//! Task 0 does one operation on CPU 0 while task 1 does another on CPU 1 (bench/grid.c), each pair in a window of its own,
//! all in one machine. The two are processes, and threads of one process where either operation is one of threads. Each pair
//! runs twice, and a line counts when it conflicts by name in both windows. A cell of 0: the two commute, as far as the
//! kernel's memory can tell.
#![forbid(unsafe_code)]

mod picture;

pub use picture::draw;

use std::collections::BTreeMap;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use darter_measure::{LineWindow, Names};
use serde::{Deserialize, Serialize};

use super::names::users;
use super::windows::{Watched, Watcher};
use super::write;
use crate::bench::guest::Command;
use crate::bench::progress_bar;
use crate::bench::results::Origin;
use crate::bench::suite::{self, Spec};
use crate::cli::Lines;
use crate::exit::usage;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::symbols;

/// What is drawn when no operation is named.
const USUAL: [&str; 17] = [
    "faultzf",
    "faultzf-threads",
    "faultzf-span",
    "faultfile",
    "faultfile-shared",
    "mmap",
    "mmap-threads",
    "brk",
    "threads",
    "forkexit",
    "vforkexec",
    "tmpfs",
    "tmpfs-one",
    "openclose",
    "openclose-one",
    "pipe",
    "getppid",
];
const RUNS: usize = 2;
/// Seconds that one pair may take.
const LIMIT: u32 = 120;

/// What `darter lines --grid` counted: the content of its --json.
#[derive(Serialize, Deserialize, Clone)]
pub struct Grids {
    #[serde(flatten)]
    pub origin: Origin,
    pub grids: Vec<Grid>,
}

/// One pair of operations.
#[derive(Serialize, Deserialize, Clone)]
pub struct Cell {
    /// The operation of CPU 0 and of CPU 1.
    pub pair: [String; 2],
    /// Conflict lines, the fewer of the two windows; null: it did not run, or cannot.
    pub lines: Option<usize>,
    /// Their names, each with who writes and who else uses it.
    pub names: BTreeMap<String, String>,
    pub failed: Option<String>,
}

#[derive(Serialize, Deserialize, Clone)]
pub struct Grid {
    pub kernel: String,
    pub operations: Vec<String>,
    /// The lower triangle, row by row.
    pub cells: Vec<Cell>,
}

pub fn run(options: &Lines) -> Result<u8> {
    let specs = chosen(&options.benchmarks)?;
    let paths = Tree::find();
    let mut signals = Signals::catch()?;
    let mut grids = Vec::new();
    let kernels: Vec<Kernel> =
        [Some(options.machine.kernel.clone()), options.vs.clone()].into_iter().flatten().collect();
    for kernel in &kernels {
        let names = &symbols::names(kernel, &paths)?;
        let watcher =
            Watcher { options: &options.machine, kernel, names, paths: &paths, add: &[], limit: LIMIT };
        let grid = measure(&watcher, &specs, &mut signals)?;
        grid.print(options.names || specs.len() < 4);
        grids.push(grid);
    }
    let grids = Grids { origin: Origin::new(&paths, &kernels), grids };
    if let Some(file) = &options.svg {
        write(file, &picture::draw(&grids.grids)?)?;
    }
    if let Some(file) = &options.json {
        write(file, &serde_json::to_string_pretty(&grids)?)?;
    }
    let failed = grids.grids.iter().flat_map(|grid| &grid.cells).any(|cell| cell.failed.is_some());
    Ok(u8::from(failed))
}

fn chosen(names: &[String]) -> Result<Vec<Spec>> {
    let usual = USUAL.map(str::to_owned);
    let specs = suite::choose(if names.is_empty() { &usual } else { names })?;
    match specs.iter().find(|spec| !spec.threads() && spec.beside(1, spec, 1).is_none()) {
        Some(spec) => Err(usage(format!("{}: none of a grid's operations execs itself", spec.name))),
        None => Ok(specs),
    }
}

fn measure(watcher: &Watcher<'_>, specs: &[Spec], signals: &mut Signals) -> Result<Grid> {
    let pairs: Vec<(&Spec, &Spec)> =
        (0..specs.len()).flat_map(|row| (0..=row).map(move |column| (&specs[row], &specs[column]))).collect();
    let line = |(one, other): &(&Spec, &Spec)| one.beside(operations(one), other, operations(other));
    let commands: Vec<Command> = pairs
        .iter()
        .filter_map(line)
        .flat_map(|line| std::iter::repeat_n(line, RUNS))
        .map(|line| Command { line, huge_pages: false })
        .collect();
    let run: Vec<_> = pairs.iter().filter(|pair| line(pair).is_some()).collect();
    let progress = progress_bar(commands.len() as u64);
    let tell = |number: usize| {
        progress.set_position(number as u64);
        if let Some((one, other)) = run.get(number / RUNS) {
            progress.set_message(format!("{}: {} beside {}", watcher.kernel.name(), one.name, other.name));
        }
    };
    let ran = watcher.watch(2, &commands, signals, &tell)?;
    progress.finish_and_clear();
    let mut ran = ran.chunks(RUNS);
    let cells = pairs
        .iter()
        .map(|pair| {
            let names = [pair.0, pair.1].map(|spec| spec.name.clone());
            match line(pair).and_then(|_| ran.next()) {
                Some(windows) => cell(watcher.names, names, windows),
                None => Cell { pair: names, lines: None, names: BTreeMap::new(), failed: None },
            }
        })
        .collect();
    Ok(Grid {
        kernel: watcher.kernel.name(),
        operations: specs.iter().map(|spec| spec.name.clone()).collect(),
        cells,
    })
}

fn operations(spec: &Spec) -> u64 {
    if spec.program.starts_with("fault") { 2048 } else { 50 }
}

/// Conflict lines of a window by name: how many, and who uses the first of them.
fn named(names: &Names, window: &LineWindow) -> BTreeMap<String, (usize, String)> {
    let mut named: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for line in window.conflicts() {
        let name = names.line(window, line).stable();
        named.entry(name).or_insert_with(|| (0, users(names, line))).0 += 1;
    }
    named
}

fn cell(names: &Names, pair: [String; 2], windows: &[Watched]) -> Cell {
    let mut steady: Option<BTreeMap<String, (usize, String)>> = None;
    for window in windows {
        let found = match window {
            Ok((_, window)) => named(names, window),
            Err(why) => {
                return Cell { pair, lines: None, names: BTreeMap::new(), failed: Some(why.clone()) };
            }
        };
        steady = Some(match steady {
            None => found,
            Some(before) => before
                .into_iter()
                .filter_map(|(name, (count, what))| {
                    let (again, _) = found.get(&name)?;
                    Some((name, (count.min(*again), what)))
                })
                .collect(),
        });
    }
    let steady = steady.unwrap_or_default();
    Cell {
        pair,
        lines: Some(steady.values().map(|(count, _)| count).sum()),
        names: steady.into_iter().map(|(name, (_, what))| (name, what)).collect(),
        failed: None,
    }
}

impl Grid {
    fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        let (row, column) = (row.max(column), row.min(column));
        self.cells.get(row * (row + 1) / 2 + column)
    }

    fn print(&self, names: bool) {
        let free = self.cells.iter().filter(|cell| cell.lines == Some(0)).count();
        out!(
            "{}: conflict lines of two operations side by side; {free} of {} pairs share nothing",
            self.kernel,
            self.cells.len()
        );
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let numbers = (0..self.operations.len()).map(|number| number.to_string());
        table.set_header(["".to_owned(), String::new()].into_iter().chain(numbers));
        for (row, name) in self.operations.iter().enumerate() {
            let cells = (0..=row).filter_map(|column| self.cell(row, column)).map(Cell::text);
            table.add_row([row.to_string(), name.clone()].into_iter().chain(cells));
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        out!("{table}");
        for cell in &self.cells {
            let [one, other] = &cell.pair;
            if let Some(why) = &cell.failed {
                out!("{one} beside {other} failed: {why}");
            }
            if names && !cell.names.is_empty() {
                out!("\n{one} beside {other}:");
                cell.names.iter().for_each(|(name, what)| out!("    {name}\n        {what}"));
            }
        }
    }
}

impl Cell {
    fn text(&self) -> String {
        match self.lines {
            None if self.failed.is_some() => "?".into(),
            // Not side by side.
            None => "-".into(),
            Some(0) => "·".into(),
            Some(lines) => lines.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::layout;

    pub fn grid(operations: &[&str], lines: &[usize]) -> Grid {
        let cells = lines.iter().map(|&lines| Cell {
            pair: ["a".into(), "b".into()],
            lines: Some(lines),
            names: [("x::LIST<u8>.head".to_owned(), "lock: written in push".to_owned())].into(),
            failed: None,
        });
        Grid {
            kernel: "darter".into(),
            operations: operations.iter().map(|&name| name.to_owned()).collect(),
            cells: cells.collect(),
        }
    }

    #[test]
    fn the_grid_is_the_same_from_both_sides() {
        let grid = grid(&["a", "b", "c"], &[0, 1, 2, 3, 4, 5]);
        assert_eq!(grid.cell(2, 1).unwrap().lines, Some(4));
        assert_eq!(grid.cell(1, 2).unwrap().lines, Some(4));
        assert_eq!(grid.cell(0, 0).unwrap().text(), "·");
        let text = |failed: Option<&str>| {
            let cell = Cell {
                pair: ["a".into(), "b".into()],
                lines: None,
                names: BTreeMap::new(),
                failed: failed.map(str::to_owned),
            };
            cell.text()
        };
        assert_eq!((text(None).as_str(), text(Some("why")).as_str()), ("-", "?"));
    }

    #[test]
    fn operations_that_cannot_stand_beside_another_are_refused() {
        assert!(chosen(&[]).is_ok());
        assert!(chosen(&["faultzf-threads".to_owned(), "mmap -b 4096 -t".to_owned()]).is_ok());
        for wrong in ["doexec", "doexecsh"] {
            assert!(chosen(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_picture_names_the_lines_of_a_cell() {
        let grid = grid(&["tmpfs", "an-operation-with-a-name"], &[0, 12, 70_000]);
        let svg = picture::draw(&[grid.clone(), grid]).unwrap();
        layout::check(&svg).unwrap();
        assert_eq!(layout::read(&svg).titles, 6);
        assert!(svg.contains("x::LIST&lt;u8&gt;.head") && svg.contains("\n12\n"), "{svg}");
    }
}
