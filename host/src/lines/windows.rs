//! Boots a machine whose every load and store the plugin watches, runs commands in it, and gives each its window.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Result, bail};
use darter_measure::{LineWindow, Names, lines_plugin, parse_lines};

use crate::bench::boot::{self, Boot};
use crate::bench::guest::{self, Command};
use crate::bench::{PLAIN, append};
use crate::cli::LineMachine;
use crate::machine::Machine;
use crate::machine::accel::Accel;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;
use crate::root::Addition;
use crate::symbols;

/// Seconds that one command may take.
pub const LIMIT: u32 = 900;
/// Seconds after the boot: Linux still works in the background then.
pub const SETTLE: f64 = 3.0;
/// Darter has nothing in the background.
const SETTLE_DARTER: f64 = 0.5;

/// What one command did: its operations, all tasks together, and what moved while it did them.
pub type Watched = Result<(u64, LineWindow), String>;

/// What all machines of one kernel have in common.
pub struct Watcher<'a> {
    pub options: &'a LineMachine,
    pub kernel: &'a Kernel,
    pub names: &'a Names,
    pub paths: &'a Tree,
    /// For the guest's root, beside what every guest has.
    pub add: &'a [Addition],
    /// Seconds that one command may take.
    pub limit: u32,
}

impl Watcher<'_> {
    /// Runs `commands` one after another in one machine, each with a task on each of `cpus` CPUs. `begun` is told of each.
    pub fn watch(
        &self,
        cpus: u32,
        commands: &[Command],
        signals: &mut Signals,
        begun: &dyn Fn(usize),
    ) -> Result<Vec<Watched>> {
        let Watcher { options, kernel, names, paths, add, limit } = *self;
        let folder = tempfile::tempdir_in(paths.cache("run")?)?;
        let out = folder.path().join("lines.json");
        let machine = machine(options, cpus, paths, &out, &names.plugin_options(cpus))?;
        let mut words = append(kernel, &options.append);
        words.push(symbols::COUNTED_APPEND.into());
        let settle = if kernel.is_darter() { SETTLE_DARTER } else { SETTLE };
        let boot = Boot { paths, kernel, machine, add, append: words, settle, limit, undisturbed: true };
        let ran = boot.run(signals, commands, begun)?;
        let (windows, unread) = match read(&out) {
            Ok(windows) => (windows, None),
            Err(why) => (Vec::new(), Some(format!("the plugin's windows: {why:#}"))),
        };
        let mut windows: HashMap<u64, LineWindow> =
            windows.into_iter().map(|window| (window.number, window)).collect();
        let missing = || ran.machine.clone().unwrap_or_else(|| "it did not run".into());
        Ok(ran
            .results
            .into_iter()
            .enumerate()
            .map(|(number, result)| {
                let measured = result.unwrap_or_else(|| Err(missing()))?;
                let lost = || unread.clone().unwrap_or_else(|| "the plugin saw no window of it".into());
                let window = windows.remove(&guest::window(number)).ok_or_else(lost)?;
                Ok((measured.ops, window))
            })
            .collect())
    }
}

/// A machine whose every load and store the plugin watches. Without ERMS: kernels clear and copy pages by 8 bytes then, which touches
/// the same lines in an eighth of the iterations, and each iteration is watched.
/// `read`: what the plugin shall read of the guest's memory.
pub fn machine(options: &LineMachine, cpus: u32, paths: &Tree, out: &Path, read: &str) -> Result<Machine> {
    let plugin = paths.lines_plugin();
    if !plugin.is_file() {
        bail!("{} is missing: run 'make plugin'", plugin.display());
    }
    let mut machine = boot::machine(cpus, options.memory, Accel::Tcg, PLAIN);
    machine.sockets = options.sockets;
    let node_cpus = if options.sockets > 1 { cpus / options.sockets } else { 0 };
    let read = format!("{read}{}", cache(options.cache, &machine));
    machine.extra = vec!["-plugin".into(), lines_plugin(&plugin, out, cpus, node_cpus, &read)];
    machine.check()?;
    Ok(machine)
}

/// The plugin's options for a modelled cache of so many bytes.
fn cache(bytes: Option<u64>, machine: &Machine) -> String {
    let Some(bytes) = bytes else { return String::new() };
    let homes = machine.homes().into_iter().map(|(start, end, node)| format!(",home={start}:{end}:{node}"));
    format!(",cache={bytes}{}", homes.collect::<String>())
}

pub fn read(out: &Path) -> Result<Vec<LineWindow>> {
    Ok(parse_lines(&std::fs::read_to_string(out)?)?)
}
