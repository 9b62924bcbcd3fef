//! What one compilation costs a kernel: instructions of one task on one CPU, counted exactly, and the cache lines that two CPUs take from each other.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, bail};
use darter_measure::{LineWindow, Window};
use serde::{Deserialize, Serialize};

use super::{Build, Compiler, Places, SETTLE, What, machine};
use crate::bench::boot::Boot;
use crate::bench::guest::{self, Command};
use crate::bench::{append, progress_bar};
use crate::cli::{Builds as Options, LineMachine};
use crate::lines::windows;
use crate::machine::Machine;
use crate::machine::accel::Accel;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::symbols;

/// Seconds that one window may take.
const LIMIT: u32 = 900;
/// Iterations of a string instruction that count as one instruction: it moves a cache line in that time.
const ITERATIONS: f64 = 64.0;
/// Compilations of each task before a window, after which all that the compiler reads is in memory, and in it. With all accesses watched one by gcc takes some seconds.
const TCC: (u32, u32) = (4, 4);
const GCC: (u32, u32) = (1, 2);
/// CPUs that lines are counted between.
const CPUS: u32 = 2;

/// Of one compilation, of cargo's builds of one library; none where it failed or was not counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// The kernel's, and the programs'.
    pub kernel: Option<f64>,
    pub user: Option<f64>,
    /// Lines that the kernel's code took from another CPU.
    pub taken: Option<f64>,
    /// Lines with a writer and another CPU, the kernel's and the programs', in the whole window.
    pub shared: Option<usize>,
    pub failed: Option<String>,
}

pub fn of(
    paths: &Tree,
    kernel: &Kernel,
    places: &Places,
    builds: &[&Build],
    options: &Options,
    signals: &mut Signals,
) -> Result<BTreeMap<String, Counts>> {
    let plugin = paths.lines_plugin();
    if !plugin.is_file() {
        bail!("{} is missing: run 'make plugin'", plugin.display());
    }
    // What is counted, and its compiler if it is a loop of compilations. Lines are counted of those alone: with all accesses watched, cargo's builds take hours.
    let counted: Vec<_> = builds
        .iter()
        .filter_map(|build| match build.what {
            What::Compile { compiler, .. } => Some((*build, Some(compiler))),
            What::Crates { .. } => Some((*build, None)),
            What::Tree { .. } => None,
        })
        .collect();
    let compilers: Vec<_> =
        counted.iter().filter_map(|(build, compiler)| Some((build.name.to_owned(), (*compiler)?))).collect();
    let mut counts: BTreeMap<String, Counts> =
        counted.iter().map(|(build, _)| (build.name.to_owned(), Counts::default())).collect();
    if counted.is_empty() {
        return Ok(counts);
    }
    let progress = progress_bar((counted.len() + compilers.len()) as u64);
    let loops = |tasks: u32, compiler| {
        let (warm, each) = if compiler == Compiler::Tcc { TCC } else { GCC };
        places.docomp(tasks, compiler, &format!("-w {warm} -c {each}"))
    };
    let command = |line| Command { line, huge_pages: false };
    // Cargo's builds have nothing before their window: the first of two warms the second.
    let (mut commands, mut windows_of) = (Vec::new(), Vec::new());
    for (build, compiler) in &counted {
        match compiler {
            Some(compiler) => commands.push(command(loops(1, *compiler))),
            None => commands.extend([(); 2].map(|()| command(build.line(places, 1, options.full)))),
        }
        windows_of.push((build.name, commands.len() - 1));
    }
    let folder = tempfile::tempdir_in(paths.cache("run")?)?;
    let mut guest = Guest { paths, kernel, options, signals };

    progress.set_message(format!("{}: instructions", kernel.name()));
    let out = folder.path().join("counts.json");
    let mut one = machine(1, options.memory, Accel::Tcg);
    one.deterministic = true;
    one.extra = vec!["-plugin".into(), darter_measure::instructions_plugin(&plugin, &out, false)];
    let ran = guest.run(one, &commands)?;
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    let seen = if text.is_empty() {
        Vec::new()
    } else {
        darter_measure::parse_instructions(&text).context("the plugin's counts")?
    };
    let seen: HashMap<u64, Window> = seen.into_iter().map(|window| (window.number, window)).collect();
    for (name, number) in windows_of {
        let (Some(counts), Some(ops)) = (counts.get_mut(name), ran.get(number)) else { continue };
        match (ops, seen.get(&guest::window(number))) {
            (Ok(ops), Some(window)) => {
                let each =
                    |count: u64, iterations: u64| (count as f64 + iterations as f64 / ITERATIONS) / ops;
                counts.kernel = Some(each(window.kernel, window.kernel_iterations));
                counts.user = Some(each(window.user, window.user_iterations));
            }
            (Ok(_), None) => counts.failed = Some("the plugin saw no window of it".into()),
            (Err(why), _) => counts.failed = Some(why.clone()),
        }
    }
    progress.inc(counted.len() as u64);
    if compilers.is_empty() {
        progress.finish_and_clear();
        return Ok(counts);
    }

    progress.set_message(format!("{}: lines", kernel.name()));
    let out = folder.path().join("lines.json");
    let names = symbols::names(kernel, paths)?;
    let watched = LineMachine {
        kernel: kernel.clone(),
        sockets: 1,
        cache: None,
        memory: options.memory,
        append: options.append.clone(),
    };
    let mut two = windows::machine(&watched, CPUS, paths, &out, &names.plugin_options(CPUS))?;
    two.root = Some("/".into());
    let commands: Vec<Command> =
        compilers.iter().map(|(_, compiler)| command(loops(CPUS, *compiler))).collect();
    let ran = guest.run(two, &commands)?;
    let seen = windows::read(&out).unwrap_or_default();
    let seen: HashMap<u64, LineWindow> = seen.into_iter().map(|window| (window.number, window)).collect();
    for (number, ((name, _), ops)) in compilers.iter().zip(ran).enumerate() {
        let Some(counts) = counts.get_mut(name) else { continue };
        match (ops, seen.get(&guest::window(number))) {
            (Ok(ops), Some(window)) => {
                counts.taken = Some((window.kernel_reads + window.kernel_writes) as f64 / ops);
                counts.shared = Some(window.conflicts().count());
            }
            (Ok(_), None) => counts.failed = Some("the plugin saw no window of its lines".into()),
            (Err(why), _) => counts.failed = Some(why),
        }
    }
    progress.finish_and_clear();
    Ok(counts)
}

struct Guest<'a> {
    paths: &'a Tree,
    kernel: &'a Kernel,
    options: &'a Options,
    signals: &'a mut Signals,
}

impl Guest<'_> {
    /// Operations of each command.
    fn run(&mut self, machine: Machine, commands: &[Command]) -> Result<Vec<Result<f64, String>>> {
        let mut words = append(self.kernel, &self.options.append);
        words.push(symbols::COUNTED_APPEND.into());
        let boot = Boot {
            paths: self.paths,
            kernel: self.kernel,
            machine,
            add: &[],
            append: words,
            settle: SETTLE,
            limit: LIMIT,
            undisturbed: true,
        };
        let ran = boot.run(self.signals, commands, &|_| {})?;
        let lost = || ran.machine.clone().unwrap_or_else(|| "it did not run".into());
        let results = ran.results.into_iter();
        Ok(results.map(|result| Ok(result.unwrap_or_else(|| Err(lost()))?.ops as f64)).collect())
    }
}
