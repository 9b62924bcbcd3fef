//! `darter growth`: what a system call costs among 10, 100, 1,000 and 10,000 of what it might look at.
//!
//! The worlds are those of bench/growth: N things of a kind, made once, and rows of operations that are measured among them, in kernel
//! instructions, counted exactly on one CPU. A cost that grows where Linux's does not is a defect of the kernel.
#![forbid(unsafe_code)]

mod gate;
mod judge;
mod measure;
mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command as Process;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use self::gate::Bounds;
use crate::bench::interrupted;
use crate::cli::Growth as Options;
use crate::exit::usage;
use crate::paths::Tree;
use crate::relay::signals::Signals;

/// One operation in one world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub world: String,
    /// What N counts.
    pub of: String,
    /// N's most.
    pub most: u32,
    pub name: String,
    /// Its place in the world, which numbers its windows.
    place: u64,
    /// Operations in a window.
    times: u64,
}

impl Row {
    pub fn key(&self) -> String {
        format!("{} {}", self.world, self.name)
    }
}

/// What one row showed on one kernel: by N, instructions for one operation, or why there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    pub figures: Vec<(u32, f64)>,
    pub failed: Option<String>,
    /// With `--profile`: by function, what it costs among each N.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, Vec<(u32, f64)>>,
}

#[derive(Serialize, Deserialize)]
pub struct Column {
    pub kernel: String,
    pub shown: Vec<Shown>,
}

/// What `--json` writes.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub sizes: Vec<u32>,
    pub rows: Vec<Row>,
    pub kernels: Vec<Column>,
}

pub fn growth(options: &Options) -> Result<u8> {
    interrupted(run(options))
}

fn run(options: &Options) -> Result<u8> {
    let began = Instant::now();
    if options.sizes.is_empty() || !options.sizes.is_sorted_by(|one, other| one < other) {
        return Err(usage("--sizes: ascending numbers"));
    }
    let paths = Tree::find();
    let mut measured =
        if options.from.is_empty() { measured(options, &paths)? } else { earlier(&options.from)? };
    if options.gate {
        return held(options, &paths, &mut measured, began);
    }
    out!("{}", table::table(&measured));
    out!("{}", table::functions(&measured));
    out!("{}", table::failures(&measured));
    out!("{}", table::summary(&measured));
    if let Some(file) = &options.page {
        write(file, &table::page(&measured))?;
    }
    if let Some(file) = &options.json {
        write(file, &serde_json::to_string_pretty(&measured)?)?;
    }
    let failed =
        measured.kernels.first().is_some_and(|own| own.shown.iter().any(|shown| shown.failed.is_some()));
    Ok(u8::from(failed))
}

fn measured(options: &Options, paths: &Tree) -> Result<Measured> {
    let rows = chosen(&rows(paths)?, &options.cases)?;
    let mut signals = Signals::catch()?;
    let mut measured = Measured { sizes: options.sizes.clone(), rows, kernels: Vec::new() };
    for kernel in [Some(&options.kernel), options.vs.as_ref()].into_iter().flatten() {
        let shown = measure::measure(options, paths, kernel, &measured.rows, &mut signals)?;
        measured.kernels.push(Column { kernel: kernel.name(), shown });
    }
    Ok(measured)
}

fn write(file: &std::path::Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Against tests/gate/growth.toml, or into it.
fn held(options: &Options, paths: &Tree, measured: &mut Measured, began: Instant) -> Result<u8> {
    let file = options.bounds.clone().unwrap_or_else(|| gate::file(paths.root()));
    let (mut bounds, all) = (Bounds::read(&file)?, rows(paths)?);
    let Some(own) = measured.kernels.first_mut() else { return Ok(1) };
    let seconds = || began.elapsed().as_secs_f64();
    if options.update {
        bounds.update(&measured.rows, &own.shown, &all);
        bounds.write(&file)?;
        out!("{} rows, written to {} ({:.0} s)", measured.rows.len(), file.display(), seconds());
        return Ok(u8::from(own.shown.iter().any(|shown| shown.failed.is_some())));
    }
    if options.from.is_empty() {
        look_again(options, paths, &bounds, &measured.rows, &mut own.shown)?;
    }
    let verdict = bounds.judge(&measured.rows, &own.shown, &all);
    verdict.worse.iter().for_each(|text| out!("FAILED  {text}"));
    verdict.ask.iter().for_each(|text| out!("ok      {text}"));
    out!("{} rows, {} failed: {:.0} s", measured.rows.len(), verdict.worse.len(), seconds());
    Ok(u8::from(!verdict.worse.is_empty()))
}

/// Measures again what seems worse, without the other rows of its world, and keeps the smaller figures: what came into a window and belongs to no
/// operation, a tick or the end of a grace period, does not come again at the same place.
fn look_again(
    options: &Options,
    paths: &Tree,
    bounds: &Bounds,
    rows: &[Row],
    shown: &mut [Shown],
) -> Result<()> {
    let suspects: Vec<usize> = rows
        .iter()
        .zip(&*shown)
        .enumerate()
        .filter(|(_, (row, shown))| bounds.suspects(row, shown))
        .map(|(at, _)| at)
        .collect();
    let again: Vec<Row> = suspects.iter().filter_map(|&at| rows.get(at).cloned()).collect();
    if again.is_empty() {
        return Ok(());
    }
    let options = Options { cases: again.iter().map(Row::key).collect(), ..options.clone() };
    let seen = measure::measure(&options, paths, &options.kernel, &again, &mut Signals::catch()?)?;
    for (at, again) in suspects.into_iter().zip(seen) {
        let first = shown.get_mut(at).map_or(&mut [][..], |shown| &mut shown.figures);
        for ((_, cost), (_, again)) in first.iter_mut().zip(again.figures) {
            *cost = cost.min(again);
        }
    }
    Ok(())
}

/// What earlier runs wrote, kernels beside each other.
fn earlier(files: &[PathBuf]) -> Result<Measured> {
    let mut all: Option<Measured> = None;
    for file in files {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let one: Measured = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        match &mut all {
            Some(all) if (&all.sizes, &all.rows) != (&one.sizes, &one.rows) => {
                return Err(usage(format!(
                    "{}: other rows, or other sizes, than in the first",
                    file.display()
                )));
            }
            Some(all) => all.kernels.extend(one.kernels),
            None => all = Some(one),
        }
    }
    all.context("--from names no file")
}

/// All rows, as the program itself names them.
fn rows(paths: &Tree) -> Result<Vec<Row>> {
    let program = paths.benchmarks().join("growth");
    let said = Process::new(&program).arg("list").output();
    let said = said.with_context(|| format!("cannot ask {}: run 'make benchmarks'", program.display()))?;
    let rows = parse(&String::from_utf8_lossy(&said.stdout)).unwrap_or_default();
    if rows.is_empty() {
        bail!("{} names no rows", program.display());
    }
    Ok(rows)
}

/// Lines `WORLD OF MOST ROW TIMES`.
fn parse(list: &str) -> Option<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for line in list.lines() {
        let mut words = line.split(' ').map(str::to_owned);
        let (world, of) = (words.next()?, words.next()?.replace('-', " "));
        let (most, name, times) = (words.next()?.parse().ok()?, words.next()?, words.next()?.parse().ok()?);
        let place = rows.last().filter(|last| last.world == world).map_or(0, |last| last.place + 1);
        rows.push(Row { world, of, most, name, place, times });
    }
    Some(rows)
}

/// All, or those whose world or operation is named, or both: "children setsid".
fn chosen(all: &[Row], names: &[String]) -> Result<Vec<Row>> {
    let is = |row: &Row, name: &str| row.world == name || row.name == name || row.key() == name;
    if let Some(name) = names.iter().find(|name| !all.iter().any(|row| is(row, name))) {
        return Err(usage(format!("no world and no operation is named {name}")));
    }
    let wanted = |row: &&Row| names.is_empty() || names.iter().any(|name| is(row, name));
    Ok(all.iter().filter(wanted).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "children sleeping-children 10000 getpid 32\nchildren sleeping-children 10000 setsid 1\nnames names 100 setsid 8\n";

    #[test]
    fn rows_are_placed_by_world_and_chosen_by_any_of_their_names() {
        let all = parse(LIST).unwrap();
        assert_eq!(all.iter().map(|row| row.place).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(all[0].of, "sleeping children");
        let keys = |name: &str| {
            chosen(&all, &[name.to_owned()]).map(|rows| rows.iter().map(Row::key).collect::<Vec<_>>())
        };
        assert_eq!(keys("setsid").unwrap(), ["children setsid", "names setsid"]);
        assert_eq!(keys("names setsid").unwrap(), ["names setsid"]);
        assert_eq!(keys("children").unwrap().len(), 2);
        assert!(keys("child").is_err());
    }
}
