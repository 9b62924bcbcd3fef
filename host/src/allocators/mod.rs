//! `darter allocators`: what malloc and free by threads cost in the kernel, with the allocators that programs use.
//!
//! The programs are those of bench/allocators. For each pattern with each allocator: the kernel's lines that CPUs could take from each
//! other, the kernel's instructions per operation of one task, and rates. What the program itself shares is not counted.
#![forbid(unsafe_code)]

mod programs;
mod table;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use self::programs::{Programs, Row};
use crate::bench::boot::{self, Boot};
use crate::bench::guest::Command;
use crate::bench::results::{qemu_version, version};
use crate::bench::{append, interrupted, progress_bar};
use crate::cli::Allocators as Options;
use crate::exit::usage;
use crate::lines::gate::table::{Allowed, allowed_file};
use crate::lines::measurer::{LOOKS_OF_A_TABLE, Measurer, Shown};
use crate::lines::names::is_of_kernel;
use crate::lines::windows::Watcher;
use crate::machine::accel::{Accel, Wanted};
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::symbols;

/// Seconds that one window may take.
const LIMIT: u32 = 120;
/// Turns per operation from which on a line is shared.
const FLOOR: f64 = 0.02;
/// Turns per operation, of all lines together, from which on there is no further look.
const UNSURE: f64 = 1.0;
/// The name by which tests/gate/allowed.toml may know all rows.
const WHAT: &str = "allocators";

/// One kernel's column.
#[derive(Serialize, Deserialize)]
pub struct Column {
    pub kernel: String,
    pub version: String,
    pub shown: Vec<Shown>,
    /// Operations a second, of each run; none where it failed.
    pub rates: Vec<Vec<f64>>,
}

/// What `--json` writes.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub cpus: u32,
    pub qemu: String,
    pub rows: Vec<Row>,
    pub kernels: Vec<Column>,
}

pub fn allocators(options: &Options) -> Result<u8> {
    interrupted(run(options))
}

fn run(options: &Options) -> Result<u8> {
    let began = Instant::now();
    let paths = Tree::find();
    let measured = if options.from.is_empty() { measured(options, &paths)? } else { earlier(&options.from)? };
    out!("{}", table::table(&measured));
    out!("{}", table::lines(&measured, options.names));
    out!("{}({:.0} s)", table::summary(&measured), began.elapsed().as_secs_f64());
    let write = |file: &PathBuf, text: String| {
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    if let Some(file) = &options.page {
        write(file, table::page(&measured))?;
    }
    if let Some(file) = &options.json {
        write(file, serde_json::to_string_pretty(&measured)?)?;
    }
    let Some(own) = measured.kernels.first() else { return Ok(1) };
    Ok(u8::from(own.shown.iter().any(|shown| shown.failed.is_some())))
}

fn measured(options: &Options, paths: &Tree) -> Result<Measured> {
    if options.cpus < 2 {
        return Err(usage("--cpus: lines are counted between 2 CPUs or more"));
    }
    let programs = Programs::find(paths)?;
    if !programs.missing.is_empty() {
        note!(
            "darter: left out, for want of their libraries or compiler (make allocators): {}",
            programs.missing.join(", ")
        );
    }
    let rows = programs.chosen(&options.rows)?;
    let allowed = Allowed::read(&allowed_file(paths.root()))?;
    let mut signals = Signals::catch()?;
    let mut measured =
        Measured { cpus: options.cpus, qemu: qemu_version(), rows: rows.clone(), kernels: Vec::new() };
    let machine = &options.machine;
    let kernels: Vec<&Kernel> = [Some(&machine.kernel), options.vs.as_ref()].into_iter().flatten().collect();
    for &kernel in &kernels {
        let names = symbols::names(kernel, paths)?;
        let watcher =
            Watcher { options: machine, kernel, names: &names, paths, add: &programs.add, limit: LIMIT };
        let line = |row: &Row, tasks| row.window(tasks);
        let measurer = Measurer {
            watcher,
            allowed: &allowed,
            what: WHAT,
            cpus: options.cpus,
            floor: FLOOR,
            rare: &|_| 0,
            looks: LOOKS_OF_A_TABLE,
            wanted: is_of_kernel,
            line: &line,
        };
        let shown = measurer.measure(&rows, &mut signals, &|_| true, &unsure)?;
        measured.kernels.push(Column {
            kernel: kernel.name(),
            version: version(paths, kernel),
            shown,
            rates: vec![Vec::new(); rows.len()],
        });
    }
    // In turns, so that what else goes on on this machine falls on all kernels alike.
    for _ in 0..options.runs {
        for (&kernel, column) in kernels.iter().zip(&mut measured.kernels) {
            let seen = rates(options, paths, kernel, &programs, &rows, &mut signals)?;
            for (all, rate) in column.rates.iter_mut().zip(seen) {
                all.extend(rate);
            }
        }
    }
    Ok(measured)
}

/// Failed, or shares lines in so few operations that it may not do so again.
fn unsure(_: &Row, shown: &Shown) -> bool {
    shown.failed.is_some() || (!shown.shared.is_empty() && shown.turns < UNSURE)
}

/// One boot: operations a second of each row.
fn rates(
    options: &Options,
    paths: &Tree,
    kernel: &Kernel,
    programs: &Programs,
    rows: &[Row],
    signals: &mut Signals,
) -> Result<Vec<Option<f64>>> {
    let accel = Accel::choose(Wanted::Auto)?;
    let boot = Boot {
        paths,
        kernel,
        machine: boot::machine(options.cpus, options.machine.memory, accel, crate::bench::FULL),
        add: &programs.add,
        append: append(kernel, &options.machine.append),
        settle: crate::bench::SETTLE,
        limit: LIMIT,
        undisturbed: false,
    };
    let commands: Vec<Command> = rows
        .iter()
        .map(|row| Command { line: row.timed(options.cpus, options.seconds), huge_pages: false })
        .collect();
    let progress = progress_bar(rows.len() as u64);
    let ran = boot.run_all(signals, &commands, &|number| {
        progress.set_position(number as u64);
        progress.set_message(format!("{}: rates", kernel.name()));
    })?;
    progress.finish_and_clear();
    Ok(ran.results.into_iter().map(|result| Some(result?.ok()?.rate)).collect())
}

/// What earlier runs wrote, kernels beside each other.
fn earlier(files: &[PathBuf]) -> Result<Measured> {
    let mut all: Option<Measured> = None;
    for file in files {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let one: Measured = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        match &mut all {
            Some(all) if (all.cpus, &all.rows) != (one.cpus, &one.rows) => {
                bail!("{}: other rows, or other CPUs, than in the first", file.display());
            }
            Some(all) => all.kernels.extend(one.kernels),
            None => all = Some(one),
        }
    }
    all.context("--from names no file")
}
