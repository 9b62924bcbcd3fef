//! `darter flame`: where CPUs were while a program ran, as a flame graph; with `--exact`, by counting (`exact`); with `--lines`, who takes cache lines
//! from whom (`lines`).
//!
//! Without a program it is the machine of another process (`crate::attach`).
//!
//! The kernel takes samples at the tick (kernel/src/trace/sample.rs); init sends them several times before their places are used again, with the mappings of the threads in
//! them. Names come from the kernel's file and from the programs' files, found through the root. What came before a machine failed is drawn.
#![forbid(unsafe_code)]

mod calls;
mod exact;
mod lines;
mod placed;
mod programs;
mod samples;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use darter_measure::Symbols;
use inferno::{differential, flamegraph};

use crate::attach::{self, Attaching, Running};
use crate::cli::{Flame, MachineOptions};
use crate::paths::Tree;
use crate::relay::output::Sink;
use crate::relay::watched::Watcher;
use crate::root::Watch;
use crate::run::{self, Ended, Watching};
use crate::symbols;
use exact::Counting;
pub use lines::Whose;
use programs::Programs;
use samples::{Samples, Stack};

/// The kernel's file.
const FILE: &str = "/proc/darter/samples";
/// The number behind the last watched file: mappings.
const MAPS: usize = 1;
/// Samples that a CPU may take between two times that they are read: half of those that the kernel keeps.
const BETWEEN: f64 = 64.0;
/// The longest time between two, so that a machine that fails leaves what it had, and threads are looked at before they have ended.
const LONGEST: f64 = 0.1;
/// A function of which no file is known.
const UNKNOWN: &str = "[unknown]";
/// Has programs lie at the same addresses each time, so that one that has ended is known by another of its name.
const APPEND: &str = "norandmaps";

/// What was found, and how the program ended.
struct Taken {
    /// A line for each stack (`fold`).
    folded: String,
    /// Of all stacks together, as who took them counted.
    all: u64,
    ended: Ended,
    /// What the stacks' numbers are of.
    unit: &'static str,
    /// Beside their number in the graph's title.
    how: String,
    /// In words, what is missing or else is to be said of them.
    but: String,
}

impl Taken {
    /// Nothing yet, as the program did not come to its end.
    fn unfinished(ended: Ended) -> Taken {
        let but = "the program did not come to its end".into();
        Taken { folded: String::new(), all: 0, ended, unit: "", how: String::new(), but }
    }
}

pub fn flame(options: &Flame) -> Result<u8> {
    // What cannot be read is said before a program runs for nothing.
    let old = options
        .diff
        .as_ref()
        .map(|path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display())));
    let old = old.transpose()?;
    let mut paths = Tree::find();
    let counted = if options.exact { Some("--exact") } else { options.lines.map(|_| "--lines") };
    if let Some(option) = counted {
        exact::check(option, &options.machine, &paths)?;
    }
    let mut machine = options.machine.clone();
    let mut title = options.command.join(" ");
    let mut running = None;
    if options.command.is_empty() {
        let found = attach::choose(options.attach.pid())?;
        let about = &found.about;
        if about.is_older_than_its_file() {
            note!(
                "darter: {} has changed since it was booted: functions of the kernel may be named wrongly",
                about.image.display()
            );
        }
        about.describe(&mut machine);
        (paths, title) = (Tree::at(&about.tree), about.command.clone());
        running = Some(found);
    } else {
        machine.append.insert(0, APPEND.into());
    }
    let kernel = symbols::of(&machine.kernel, &paths)?;
    let taken = if counted.is_some() {
        count(&mut machine, options, &kernel, &paths)?
    } else {
        sample(&machine, options, running, &kernel, &paths)?
    };
    let Taken { folded, all, ended, unit, how, but } = taken;
    if let Some(why) = &ended.why {
        note!("darter: {why}");
    }
    if all == 0 {
        note!("darter: {but}: nothing is drawn");
        return Ok(ended.status);
    }
    if let Some(path) = &options.folded {
        std::fs::write(path, &folded).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let title = format!("{title} ({all} {unit}{how})");
    let svg = draw(&folded, old.as_deref(), title, unit)?;
    std::fs::write(&options.output, svg)
        .with_context(|| format!("cannot write {}", options.output.display()))?;
    note!("darter: {all} {unit}{but}: {}", options.output.display());
    Ok(ended.status)
}

/// Runs the program while the plugin counts.
fn count(machine: &mut MachineOptions, options: &Flame, kernel: &Symbols, paths: &Tree) -> Result<Taken> {
    let counting = Counting { machine, command: &options.command, kernel, paths };
    let taken = match options.lines {
        Some(whose) => lines::count(counting, whose)?,
        None => exact::count(counting)?,
    };
    let folded = sum(&taken.folded);
    if folded != taken.all {
        bail!("the graph would have {folded} {}, and {} were counted", taken.unit, taken.all);
    }
    Ok(taken)
}

/// Runs the program while the kernel takes samples, or watches the machine that is `running`.
fn sample(
    machine: &MachineOptions,
    options: &Flame,
    running: Option<Running>,
    kernel: &Symbols,
    paths: &Tree,
) -> Result<Taken> {
    let same_addresses = running.as_ref().is_none_or(|running| running.about.same_addresses);
    let samples = RefCell::new(Samples::new(same_addresses));
    let wrong = RefCell::new(None);
    let every = Duration::from_secs_f64((BETWEEN / f64::from(options.rate)).min(LONGEST));
    let watch =
        Watch { set: vec![format!("{FILE}={}", options.rate)], files: vec![FILE], maps: Some(0), every };
    let watcher: Watcher<'_> = Box::new(|number, text| {
        let text = String::from_utf8_lossy(text);
        if number == MAPS {
            samples.borrow_mut().take_maps(&text);
        } else if let Err(error) = samples.borrow_mut().take(&text) {
            *wrong.borrow_mut() = Some(error);
        }
    });
    let ended = match running {
        Some(running) => {
            let limit = options.attach.limit();
            attach::watch(running, Attaching { watch, watcher, keys: None, limit })?
        }
        None => {
            let (stdout, stderr) = (Sink::Fd(rustix::stdio::stdout()), Sink::Fd(rustix::stdio::stderr()));
            let watching = Watching { watch, watcher, keys: None, stdout, stderr };
            run::watched(machine, &options.command, watching)?
        }
    };
    if let Some(error) = wrong.into_inner() {
        if let Some(why) = &ended.why {
            note!("darter: {why}");
        }
        bail!("{FILE} is not as this program knows it: {error:#}");
    }
    let samples = samples.into_inner();
    let but = match samples.lost {
        _ if samples.stacks.is_empty() => "no CPU was found busy".into(),
        0 => String::new(),
        lost => format!(", {lost} were lost"),
    };
    let all = samples.stacks.values().sum();
    let folded = fold(&samples, kernel, paths, machine);
    Ok(Taken { folded, all, ended, unit: "samples", how: format!(", {} a second", options.rate), but })
}

/// A line for each stack, the outermost first: who ran, its program's functions, then the kernel's with a mark behind each, and how many samples.
fn fold(samples: &Samples, kernel: &Symbols, paths: &Tree, machine: &MachineOptions) -> String {
    let mut programs = Programs::new(paths, machine);
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, count) in &samples.stacks {
        *lines.entry(line(stack, samples, kernel, &mut programs)).or_default() += count;
    }
    text(&lines)
}

/// Lines of stacks, as flame graph tools read them.
fn text(lines: &BTreeMap<String, u64>) -> String {
    lines.iter().fold(String::new(), |mut text, (line, count)| {
        let _ = writeln!(text, "{line} {count}");
        text
    })
}

/// Of all lines' numbers.
fn sum(folded: &str) -> u64 {
    folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

fn line(stack: &Stack, samples: &Samples, kernel: &Symbols, programs: &mut Programs<'_>) -> String {
    let who = match (stack.thread, &*stack.name) {
        (0, _) => "kernel",
        (_, "-") => "ended",
        (_, name) => name,
    };
    let mut names = vec![clean(who)];
    for (n, pc) in stack.user.iter().enumerate().rev() {
        let name =
            samples.find(stack, inside(*pc, n)).map(|(mapping, offset)| programs.name(&mapping.file, offset));
        names.push(clean(&name.unwrap_or_else(|| UNKNOWN.into())));
    }
    for (n, pc) in stack.kernel.iter().enumerate().rev() {
        names.push(of_kernel(kernel, inside(*pc, n)));
    }
    names.join(";")
}

/// The kernel's function at an address, with its mark.
fn of_kernel(kernel: &Symbols, address: u64) -> String {
    clean(kernel.name(address)).replace("darter_kernel::", "") + "_[k]"
}

/// An address within the call that a return address stands behind; the innermost one is no return address.
fn inside(pc: u64, depth: usize) -> u64 {
    pc.saturating_sub(u64::from(depth > 0))
}

/// What separates names in a folded line is in none.
fn clean(name: &str) -> String {
    name.replace(';', ":").replace('\n', " ")
}

/// The graph; beside an old one, in the colours of what has become more and less.
fn draw(folded: &str, old: Option<&[u8]>, title: String, unit: &str) -> Result<Vec<u8>> {
    let mut options = flamegraph::Options::default();
    options.title = title;
    options.count_name = unit.into();
    let mut svg = Vec::new();
    let drawn = match old {
        None => flamegraph::from_lines(&mut options, folded.lines(), &mut svg),
        Some(old) => {
            let mut both = Vec::new();
            let compared = differential::Options { normalize: true, ..Default::default() };
            differential::from_readers(compared, old, folded.as_bytes(), &mut both)
                .map_err(|error| anyhow!("cannot compare with the old stacks: {error}"))?;
            let both = String::from_utf8_lossy(&both).into_owned();
            flamegraph::from_lines(&mut options, both.lines(), &mut svg)
        }
    };
    drawn.map_err(|error| anyhow!("cannot draw the graph: {error}"))?;
    Ok(svg)
}

/// For clap: a rate that the kernel takes.
pub fn parse_rate(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rate) if (1..=10_000).contains(&rate) => Ok(rate),
        _ => Err("not between 1 and 10000 a second".into()),
    }
}

/// Where the graph goes if nothing is said.
pub const OUTPUT: &str = "flame.svg";

/// For clap: a file in a folder that is there, so that no run is for nothing.
pub fn parse_output(text: &str) -> Result<std::path::PathBuf, String> {
    let path = Path::new(text);
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) if !folder.is_dir() => Err(format!("there is no folder {}", folder.display())),
        _ => Ok(path.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine of a command without options.
    pub fn machine() -> MachineOptions {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            options: Flame,
        }
        Line::try_parse_from(["flame", "--", "true"]).unwrap().options.machine
    }

    /// A kernel with two functions, 256 bytes apart: `entry`, which is at this address, and `fault`.
    pub const ENTRY: u64 = 0xffff_ffff_8020_0000;

    pub fn kernel() -> Symbols {
        Symbols::from_system_map("ffffffff80200000 T entry\nffffffff80200100 T fault\n").unwrap()
    }

    #[test]
    fn stacks_are_named_from_the_outside_in() {
        let mut samples = Samples::new(true);
        samples
            .take("version 1\nsampled 99 0\n0 1 7 ffffffff80200104,ffffffff80200100 1234 a;b\n0 2 0 ffffffff80200000 - -\n")
            .unwrap();
        let folded = fold(&samples, &kernel(), &Tree::find(), &machine());
        assert_eq!(folded, "a:b;[unknown];entry_[k];fault_[k] 1\nkernel;entry_[k] 1\n");
        let svg = String::from_utf8(draw(&folded, None, "title".into(), "samples").unwrap()).unwrap();
        // The mark behind a name is for its colour, and is not drawn.
        assert!(svg.contains("fault (") && svg.contains("title"));
        let diff = draw(&folded, Some(b"kernel;entry_[k] 5\n"), String::new(), "samples").unwrap();
        assert!(String::from_utf8(diff).unwrap().contains("fault ("));
    }
}
