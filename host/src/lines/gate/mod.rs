//! `darter lines --gate`: has a change made CPUs share a line that they did not share, or an operation longer?
//!
//! A machine with one CPU for each benchmark counts instructions exactly; one with two CPUs and one with four watch lines under
//! all of them. What seems worse is measured twice more, in new machines, and only what all show is held against the change.
#![forbid(unsafe_code)]

mod judge;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use anyhow::{Context, Result};
use darter_measure::Names;
use indicatif::ProgressBar;

use super::names;
use super::windows::{Watched, Watcher};
use crate::bench::exact::{Exact, count_on};
use crate::bench::guest::Command;
use crate::bench::progress_bar;
use crate::bench::results::qemu_version;
use crate::bench::suite::{self, Spec};
use crate::cli::Lines;
use crate::exit::usage;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::root::{self, Root};
use crate::symbols;
use judge::{Exactness, Measured, Rules, Seen, Verdict};
use table::{Allowed, Made, Table};

/// Windows of each benchmark, after the one that warms up.
const WINDOWS: usize = 3;
/// Seconds that one benchmark may take, on a busy machine: one takes two.
const LIMIT: u32 = 120;
/// How near instructions must be where emulator or programs differ from the table's: musl and gcc of Debian 13 make
/// `forkexit` 2.3 % longer.
const NEAR: f64 = 0.05;
/// Machines that look again at what seemed worse.
const LOOKS: usize = 2;

struct Gate<'a> {
    options: &'a Lines,
    paths: Tree,
    kernel: Kernel,
    names: Names,
    signals: Signals,
    progress: ProgressBar,
}

pub fn run(options: &Lines) -> Result<u8> {
    if options.machine.kernel == Kernel::Linux {
        return Err(usage("--gate: the table is Darter's"));
    }
    let began = Instant::now();
    let paths = Tree::find();
    let kernel = options.machine.kernel.clone();
    let specs = chosen(&options.benchmarks)?;
    let names = symbols::names(&kernel, &paths)?;
    let file = table::table_file(paths.root());
    let mut table = Table::read(&file)?;
    let allowed = Allowed::read(&table::allowed_file(paths.root()))?;
    let made = made(&paths, options.machine.memory)?;
    let steps = specs.len() * (2 + options.cpus.len() * (1 + WINDOWS));
    let mut gate = Gate {
        options,
        kernel,
        names,
        signals: Signals::catch()?,
        progress: progress_bar(steps as u64),
        paths,
    };
    let mut measured = gate.measure(&specs)?;
    if options.update {
        gate.progress.finish_and_clear();
        for (spec, measured) in specs.iter().zip(&measured) {
            let row = table.rows.entry(spec.name.clone()).or_default();
            let rules = Rules { bench: &spec.name, row, allowed: &allowed, exactness: Exactness::Exact };
            *row = rules.row(measured);
            measured.failed.iter().for_each(|why| note!("darter: {}: {why}", spec.name));
        }
        table.made = made;
        table.write(&file)?;
        out!("{} benchmarks written to {} ({:.0} s)", specs.len(), file.display(), seconds(began));
        return Ok(u8::from(measured.iter().any(|measured| !measured.failed.is_empty())));
    }
    let exactness = if table.made == made { Exactness::Exact } else { Exactness::Within(NEAR) };
    gate.confirm(&specs, &mut measured, &table, &allowed)?;
    gate.progress.finish_and_clear();
    if exactness != Exactness::Exact {
        out!(
            "the table was made with QEMU {}, or other programs in the guest: instructions are compared to {} %",
            table.made.qemu,
            NEAR * 100.0
        );
    }
    let mut failed = 0;
    for (spec, measured) in specs.iter().zip(&measured) {
        let row = table.rows.get(&spec.name).cloned().unwrap_or_default();
        let rules = Rules { bench: &spec.name, row: &row, allowed: &allowed, exactness };
        let verdict = rules.judge(measured);
        failed += usize::from(!verdict.worse.is_empty() || !verdict.lower.is_empty());
        print(&rules, measured, &verdict, options.names);
    }
    if let Some(file) = &options.json {
        let all: BTreeMap<_, _> = specs.iter().map(|spec| &spec.name).zip(&measured).collect();
        super::write(file, &serde_json::to_string_pretty(&all)?)?;
    }
    out!("{} passed, {failed} failed", specs.len() - failed);
    out!(
        "gate of {} benchmarks against {}: {:.0} s",
        specs.len(),
        file.strip_prefix(gate.paths.root()).unwrap_or(&file).display(),
        seconds(began)
    );
    Ok(u8::from(failed > 0))
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// All benchmarks of which the table can speak: those about Linux's large pages and host libraries are left out.
fn chosen(names: &[String]) -> Result<Vec<Spec>> {
    let all = ["all".to_owned()];
    let names = if names.is_empty() { &all } else { names };
    let mut specs = suite::choose_exact(names)?;
    specs.retain(|spec| !spec.huge_pages && !spec.name.ends_with("-dynamic"));
    Ok(specs)
}

fn made(paths: &Tree, memory: u64) -> Result<Made> {
    let guest = root::prepare(paths, &Root::Busybox, &[], &[], memory)?;
    let content = std::fs::read(&guest).with_context(|| format!("cannot read {}", guest.display()))?;
    let guest = blake3::hash(&content).to_hex();
    Ok(Made { qemu: qemu_version(), guest: guest.get(..16).unwrap_or_default().into() })
}

impl Gate<'_> {
    fn measure(&mut self, specs: &[Spec]) -> Result<Vec<Measured>> {
        let began = Instant::now();
        let how = Exact {
            memory: self.options.machine.memory,
            append: &self.options.machine.append,
            profile: false,
        };
        let progress = self.progress.clone();
        let mut all = Vec::new();
        for spec in specs {
            progress.set_message(format!("instructions: {}", spec.name));
            // No exact figure: lines alone.
            if spec.is_live() {
                all.push(Measured::default());
                progress.inc(1);
                continue;
            }
            // A machine each: what ran before leaves lists longer or shorter, and an exact figure would tell.
            let only = std::slice::from_ref(spec);
            let tell = |_| progress.inc(1);
            for count in count_on(&mut self.signals, &self.paths, &self.kernel, only, &how, &tell)? {
                all.push(Measured {
                    instructions: count.kernel_instructions.map(judge::rounded),
                    expensive: judge::rounded_all(count.expensive),
                    failed: count.failed.into_iter().map(|why| format!("instructions: {why}")).collect(),
                    ..Measured::default()
                });
            }
        }
        self.phase("instructions", began);
        for &cpus in &self.options.cpus {
            for (measured, seen) in all.iter_mut().zip(self.look(specs, cpus)?) {
                match seen {
                    Ok(seen) => {
                        measured.seen.insert(cpus, seen);
                    }
                    Err(why) => measured.failed.push(format!("{cpus} CPUs: {why}")),
                }
            }
        }
        Ok(all)
    }

    /// Where people see no bar, a line a phase.
    fn phase(&self, what: &str, began: Instant) {
        if self.progress.is_hidden() {
            note!("gate: {what}: {:.0} s", seconds(began));
        }
    }

    /// All of `specs` in one machine with `cpus` CPUs.
    fn look(&mut self, specs: &[Spec], cpus: u32) -> Result<Vec<Result<Seen, String>>> {
        let began = Instant::now();
        let commands: Vec<Command> = specs
            .iter()
            .flat_map(|spec| std::iter::repeat_n(spec, 1 + WINDOWS))
            .map(|spec| Command { line: spec.window(cpus), huge_pages: false })
            .collect();
        let progress = self.progress.clone();
        let tell = |number: usize| {
            progress.inc(1);
            let name = specs.get(number / (1 + WINDOWS)).map_or("", |spec| spec.name.as_str());
            progress.set_message(format!("{cpus} CPUs: {name}"));
        };
        let Gate { options, kernel, names, paths, signals, .. } = &mut *self;
        let watcher = Watcher { options: &options.machine, kernel, names, paths, add: &[], limit: LIMIT };
        let ran = watcher.watch(cpus, &commands, signals, &tell)?;
        self.phase(&format!("{cpus} CPUs"), began);
        let fold = |windows: &[Watched]| {
            let mut seen = Seen::default();
            for (number, window) in windows.iter().enumerate() {
                let (ops, window) = window.as_ref().map_err(String::clone)?;
                // The first one warms up.
                if number == 0 {
                    continue;
                }
                let each = |count: u64| count as f64 / (*ops).max(1) as f64;
                let own = window.conflicts().map(|line| line.transfers).sum();
                let inherited = window.transfers().saturating_sub(own);
                seen.add(each(own), each(inherited), *ops, names::conflicts(&self.names, window));
            }
            Ok(seen)
        };
        Ok(ran.chunks(1 + WINDOWS).map(fold).collect())
    }

    /// Measures again what seems worse, and what still does once more.
    fn confirm(
        &mut self,
        specs: &[Spec],
        measured: &mut [Measured],
        table: &Table,
        allowed: &Allowed,
    ) -> Result<()> {
        for cpus in self.options.cpus.repeat(LOOKS) {
            let suspect = |spec: &Spec, measured: &Measured| {
                let row = table.rows.get(&spec.name).cloned().unwrap_or_default();
                let rules = Rules { bench: &spec.name, row: &row, allowed, exactness: Exactness::Exact };
                measured.seen.get(&cpus).is_some_and(|seen| rules.suspects(cpus, seen))
            };
            let places: Vec<usize> =
                (0..specs.len()).filter(|&at| suspect(&specs[at], &measured[at])).collect();
            if places.is_empty() {
                continue;
            }
            self.progress.inc_length((places.len() * (1 + WINDOWS)) as u64);
            let again: Vec<Spec> = places.iter().map(|&at| specs[at].clone()).collect();
            for (at, again) in places.into_iter().zip(self.look(&again, cpus)?) {
                if let (Some(seen), Ok(again)) = (measured[at].seen.get_mut(&cpus), again) {
                    seen.confirm(&again);
                }
            }
        }
        Ok(())
    }
}

/// One line of figures, and below it what is wrong or could be lowered, and the lines that are shared now and then.
fn print(rules: &Rules<'_>, measured: &Measured, verdict: &Verdict, names: bool) {
    let name = rules.bench;
    let word = match () {
        () if !verdict.worse.is_empty() => "FAILED",
        () if !verdict.lower.is_empty() => "LOWER",
        () => "ok",
    };
    let instructions = measured.instructions.map_or("-".into(), judge::show);
    let transfers: Vec<String> = measured
        .seen
        .iter()
        .map(|(cpus, seen)| format!("{:.3}+{:.3} ({cpus})", seen.least, seen.least_inherited))
        .collect();
    let shared: BTreeSet<&str> = measured.seen.values().flat_map(|seen| rules.shared(seen)).collect();
    let is_allowed = |line: &&str| rules.allowed.why(name, line).is_some();
    let rare: BTreeSet<&str> = measured
        .seen
        .values()
        .flat_map(|seen| seen.lines.keys().map(String::as_str))
        .filter(|line| !shared.contains(line) && !is_allowed(line))
        .collect();
    out!(
        "{word:7} {name:18} {instructions:>10} instructions  transfers {:30} shared lines {}, {} allowed, {} rare",
        transfers.join(" "),
        shared.len(),
        shared.iter().copied().filter(is_allowed).count(),
        rare.len()
    );
    for text in &verdict.worse {
        text.lines().enumerate().for_each(|(at, line)| out!("        {}{line}", ["", "    "][at.min(1)]));
    }
    for text in &verdict.lower {
        out!("        {text}: lower the table: darter lines --gate --update {name}");
    }
    for text in &verdict.ask {
        out!("        {text}; the table could be lower: darter lines --gate --update {name}");
    }
    if names {
        let list = |what: &str, names: &BTreeSet<&str>| {
            names.iter().for_each(|line| out!("        {what} {line}"));
        };
        list("shared", &shared);
        list("rare", &rare);
    }
}
