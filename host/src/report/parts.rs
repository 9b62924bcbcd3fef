//! The commands that measure the parts of a report: what `--report` runs is what the page names.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};

use super::kept::Kept;
use crate::bench::suite::{self, Spec};
use crate::cli::{Bench, Cli, Command, Part};
use crate::exit::usage;
use crate::machine::accel::Wanted;
use crate::machine::kernel::Kernel;
use crate::{bench, flame, lines};

/// The command of the rates.
pub fn rates(options: &Bench, before: Option<&Kernel>) -> Vec<String> {
    let mut words = vec!["bench".to_owned()];
    words.extend(options.names.iter().cloned());
    words.extend(["--cpus".to_owned(), cpus(&options.cpus)]);
    words.extend(["--runs".to_owned(), options.runs.to_string()]);
    words.extend(["--seconds".to_owned(), options.seconds.to_string()]);
    if let Some(budget) = options.budget {
        words.extend(["--budget".to_owned(), budget.to_string()]);
    }
    if options.sockets > 1 {
        words.extend(["--sockets".to_owned(), options.sockets.to_string()]);
    }
    words.extend(["--cpu-models".to_owned(), value(options.cpu_models)]);
    if options.accel != Wanted::Auto {
        words.extend(["--accel".to_owned(), value(options.accel)]);
    }
    words.extend(machine(options, before));
    words
}

/// The command of exact counts of instructions.
pub fn instructions(options: &Bench, before: Option<&Kernel>) -> Vec<String> {
    let mut words = vec!["bench".to_owned(), "--instructions".to_owned()];
    words.extend(options.names.iter().cloned());
    words.extend(machine(options, before));
    words
}

/// The command of the lines and of the model's curves. One CPU takes no lines.
fn lines_of(options: &Bench) -> Result<Vec<String>> {
    let more: Vec<u32> = options.cpus.iter().copied().filter(|&cpus| cpus > 1).collect();
    let mut words = vec!["lines".to_owned()];
    words.extend(suite::choose(&options.names)?.into_iter().map(|spec| spec.name));
    words.extend(["--cpus".to_owned(), if more.is_empty() { "2".into() } else { cpus(&more) }]);
    words.push("--predict".into());
    words.extend(machine(options, None));
    Ok(words)
}

/// The command of the grid, of those benchmarks that can stand beside others.
fn grid(options: &Bench) -> Result<Vec<String>> {
    let mut words = vec!["lines".to_owned(), "--grid".to_owned()];
    if !options.names.is_empty() {
        let fits = |spec: &Spec| spec.threads() || spec.beside(1, spec, 1).is_some();
        let names: Vec<String> =
            suite::choose(&options.names)?.into_iter().filter(fits).map(|spec| spec.name).collect();
        if names.is_empty() {
            return Err(usage("--with grid: none of these benchmarks can stand beside another"));
        }
        words.extend(names);
    }
    words.extend(machine(options, None));
    Ok(words)
}

/// A flame graph of each benchmark with the most CPUs, beside the page: the commands and the files.
fn flames(options: &Bench, page: &Path) -> Result<Vec<(Vec<String>, PathBuf)>> {
    let most = options.cpus.iter().copied().max().unwrap_or(1);
    let stem = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let flame = |spec: Spec| {
        let file = page.with_file_name(format!("{stem}-{}.svg", spec.name.replace(['/', ' '], "-")));
        let mut words = vec!["flame".to_owned(), "--cpus".into(), most.to_string()];
        words.extend(["-o".into(), file.display().to_string()]);
        words.extend(["--memory".to_owned(), bytes(options.memory), "--".into()]);
        words.extend(spec.timed(most, options.seconds).split(' ').map(str::to_owned));
        (words, file)
    };
    Ok(suite::choose(&options.names)?.into_iter().map(flame).collect())
}

/// Is there something to measure for this part? Said before anything runs for nothing.
pub fn check(part: Part, options: &Bench) -> Result<()> {
    command(part, options).map(drop)
}

/// The command of a part; none for flame graphs, which are one for each benchmark.
fn command(part: Part, options: &Bench) -> Result<Option<Vec<String>>> {
    Ok(match part {
        Part::Instructions => Some(instructions(options, None)),
        Part::Lines => Some(lines_of(options)?),
        Part::Grid => Some(grid(options)?),
        Part::Flame => None,
    })
}

/// Measures a part, and takes what it gave: the status.
pub fn measure(
    part: Part,
    options: &Bench,
    page: &Path,
    kept: &mut Kept,
    graphs: &mut Vec<PathBuf>,
) -> Result<u8> {
    if let Some(words) = command(part, options)? {
        return take(&words, kept);
    }
    let mut worst = 0;
    for (words, file) in flames(options, page)? {
        worst = worst.max(run(&words)?);
        if interrupted(worst) {
            break;
        }
        // There is none where no CPU was found busy.
        graphs.extend(file.is_file().then_some(file));
    }
    Ok(worst)
}

/// A command ended by a signal: nothing else is begun.
pub fn interrupted(status: u8) -> bool {
    status > 128
}

/// Runs one of the commands that have --json, and takes what it wrote.
pub fn take(words: &[String], kept: &mut Kept) -> Result<u8> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("measured.json");
    let mut all = words.to_vec();
    all.extend(["--json".to_owned(), file.display().to_string()]);
    let status = run(&all)?;
    if interrupted(status) {
        return Ok(status);
    }
    let mut measured = Kept::read(&file)?;
    let command = shell(words);
    let origins = [
        measured.rates.as_mut().map(|rates| &mut rates.origin),
        measured.instructions.as_mut().map(|counts| &mut counts.origin),
        measured.lines.as_mut().map(|lines| &mut lines.origin),
        measured.grid.as_mut().map(|grid| &mut grid.origin),
    ];
    origins.into_iter().flatten().for_each(|origin| origin.command.clone_from(&command));
    kept.add(measured);
    Ok(status)
}

fn run(words: &[String]) -> Result<u8> {
    note!("{}", shell(words));
    let line = std::iter::once("darter".to_owned()).chain(words.iter().cloned());
    match Cli::try_parse_from(line)?.command {
        Command::Bench(options) => bench::bench(&options),
        Command::Lines(options) => lines::lines(&options),
        Command::Flame(options) => flame::flame(&options),
        _ => bail!("'{}' measures nothing", shell(words)),
    }
}

/// As it is typed.
pub fn shell(words: &[String]) -> String {
    bench::results::typed(words.iter().cloned())
}

/// Both kernels, memory, and words for them.
fn machine(options: &Bench, before: Option<&Kernel>) -> Vec<String> {
    let mut words = Vec::new();
    if options.kernel != Kernel::Darter {
        words.extend(["--kernel".to_owned(), options.kernel.name()]);
    }
    let vs = before.or(options.vs.as_ref()).map(Kernel::name);
    words.extend(vs.into_iter().flat_map(|vs| ["--vs".to_owned(), vs]));
    words.extend(["--memory".to_owned(), bytes(options.memory)]);
    words.extend(options.append.iter().flat_map(|text| ["--append".to_owned(), text.clone()]));
    words
}

fn cpus(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn bytes(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "G"), (1 << 20, "M")] {
        if bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{}K", bytes.div_ceil(1 << 10))
}

fn value(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Bench {
        match Cli::try_parse_from(line.split(' ')).unwrap().command {
            Command::Bench(options) => options,
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn the_commands_of_the_parts_are_commands_of_this_program() {
        let options = options(
            "darter bench faultzf doexec --cpus 1,2,4 --vs linux --runs 2 -m 512M --budget 9 --accel tcg --append a=b",
        );
        let page = Path::new("/tmp/page.html");
        let mut all = vec![
            rates(&options, None),
            instructions(&options, None),
            lines_of(&options).unwrap(),
            grid(&options).unwrap(),
        ];
        all.extend(flames(&options, page).unwrap().into_iter().map(|(words, _)| words));
        for words in &all {
            let line = std::iter::once("darter".to_owned()).chain(words.iter().cloned());
            assert!(Cli::try_parse_from(line).is_ok(), "{words:?}");
        }
        let shown: Vec<String> = all.iter().map(|words| shell(words)).collect();
        let memory = "--vs linux --memory 512M --append a=b";
        assert_eq!(shown[2], format!("./darter lines faultzf doexec --cpus 2,4 --predict {memory}"));
        assert_eq!(shown[3], format!("./darter lines --grid faultzf {memory}"));
        assert_eq!(
            shown[4],
            "./darter flame --cpus 4 -o /tmp/page-faultzf.svg --memory 512M -- faultzf 4 -q -s 1"
        );
    }

    #[test]
    fn a_grid_needs_something_that_stands_beside_another() {
        assert!(grid(&options("darter bench doexec")).is_err());
        assert_eq!(lines_of(&options("darter bench mmap --cpus 1")).unwrap()[2..4], ["--cpus", "2"]);
    }
}
