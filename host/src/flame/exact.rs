//! `darter flame --exact`: every instruction of the machine while the program runs, counted by the plugin (lines/src/stacks).
//!
//! Counting begins when the guest's init starts the program and ends when it has seen its end.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result, bail};
use darter_measure::{Counted, Instructions, Program, Stacks, Symbols};
use serde::de::DeserializeOwned;

use super::Taken;
use super::calls::{Calls, Count};
use super::placed;
use super::programs::Programs;
use crate::cli::MachineOptions;
use crate::exit::usage;
use crate::lines::MOST_CPUS;
use crate::machine::accel::Wanted;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::output::Sink;
use crate::root::Watch;
use crate::run::{self, Ended, Watching};

/// Says what cannot be counted before anything runs. `option`: what asks for it.
pub fn check(option: &str, machine: &MachineOptions, paths: &Tree) -> Result<()> {
    if machine.kernel == Kernel::Linux {
        return Err(usage(format!(
            "{option} tells threads apart by Darter's kernel stacks: leave out --kernel linux"
        )));
    }
    if matches!(machine.accel, Wanted::Kvm | Wanted::Nested) {
        return Err(usage(format!("{option} counts in emulation: leave out --accel")));
    }
    if machine.cpus > MOST_CPUS {
        return Err(usage(format!("{option} --cpus {}: at most {MOST_CPUS} are counted", machine.cpus)));
    }
    if machine.deterministic && machine.cpus > 1 {
        return Err(usage(format!(
            "{option} --deterministic: one host thread runs all CPUs then, and QEMU names the wrong one; give --cpus 1",
        )));
    }
    let plugin = paths.lines_plugin();
    if !plugin.is_file() {
        bail!("{} is missing: run 'make plugin'", plugin.display());
    }
    Ok(())
}

/// What is counted where.
pub struct Counting<'a> {
    pub machine: &'a mut MachineOptions,
    pub command: &'a [String],
    pub kernel: &'a Symbols,
    pub paths: &'a Tree,
}

impl Counting<'_> {
    /// Runs the program while the plugin counts, whose option `plugin` makes of its file and that of its counts. None: it did not come to its end.
    pub fn run<C: Counted + DeserializeOwned>(
        &mut self,
        plugin: fn(&Path, &Path) -> OsString,
    ) -> Result<(Ended, Option<Stacks<C>>)> {
        let folder = tempfile::tempdir_in(self.paths.cache("run")?)?;
        let out = folder.path().join("stacks.json");
        self.machine.accel = Wanted::Tcg;
        self.machine.qemu_arg.push("-plugin".into());
        self.machine.qemu_arg.push(plugin(&self.paths.lines_plugin(), &out));
        let watching = Watching {
            watch: Watch::default(),
            watcher: Box::new(|_, _| {}),
            keys: None,
            stdout: Sink::Fd(rustix::stdio::stdout()),
            stderr: Sink::Fd(rustix::stdio::stderr()),
        };
        let ended = run::watched(self.machine, self.command, watching)?;
        let Ok(text) = std::fs::read_to_string(&out) else { return Ok((ended, None)) };
        let stacks = darter_measure::parse_stacks(&text).context("the plugin's counts")?;
        Ok((ended, Some(stacks)))
    }

    /// The folded stacks of these counts.
    pub fn fold<C>(&self, stacks: &Stacks<C>, counts: impl Iterator<Item = Count>) -> String {
        let (machine, paths): (&MachineOptions, _) = (self.machine, self.paths);
        let mappings =
            stacks.programs.iter().map(|program| placed::mappings(program, paths, machine)).collect();
        let names: Vec<String> = stacks.programs.iter().map(|Program(file, ..)| placed::name(file)).collect();
        let programs = Programs::new(paths, machine);
        Calls::new(&stacks.nodes, &names, mappings, self.kernel, programs).fold(counts)
    }
}

/// Runs the program and counts instructions.
pub fn count(mut counting: Counting<'_>) -> Result<Taken> {
    let (ended, stacks) = counting.run(darter_measure::stacks_plugin)?;
    let mut taken = Taken { unit: "instructions", how: ", exact".into(), ..Taken::unfinished(ended) };
    if let Some(stacks) = stacks {
        let counts = stacks.counts.iter();
        let counts =
            counts.map(|&Instructions(node, place, number)| Count { node, place, number, from: None });
        taken.folded = counting.fold(&stacks, counts);
        (taken.all, taken.but) = (stacks.all, String::new());
    }
    Ok(taken)
}
