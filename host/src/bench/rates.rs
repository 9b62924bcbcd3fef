//! Rates: operations a second, on each kernel in turn, at each CPU count.
//!
//! One round is a boot of every kernel at every CPU count and CPU model; the rounds follow each other, so that however
//! many there is time for, all cells have the same number of runs.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::ProgressBar;

use super::boot::{self, Boot};
use super::guest::Command;
use super::results::{Results, Sample};
use super::suite::{self, Spec};
use super::{FULL, PLAIN, SETTLE, append, progress_bar, table, write_json};
use crate::cli::{Bench, CpuModels};
use crate::machine::accel::Accel;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::signals::Signals;

struct Session<'a> {
    options: &'a Bench,
    paths: Tree,
    kernels: Vec<Kernel>,
    models: &'static [&'static str],
    accel: Accel,
    specs: Vec<Spec>,
    signals: Signals,
    progress: ProgressBar,
    results: Results,
}

pub fn measure(options: &Bench) -> Result<u8> {
    let paths = Tree::find();
    let specs = suite::choose(&options.names)?;
    let kernels: Vec<Kernel> =
        [Some(options.kernel.clone()), options.vs.clone()].into_iter().flatten().collect();
    for kernel in &kernels {
        kernel.image(&paths)?;
    }
    let accel = Accel::choose(options.accel)?;
    let models: &[&str] = match options.cpu_models {
        CpuModels::Max => &[FULL],
        CpuModels::Plain => &[PLAIN],
        CpuModels::Both => &[FULL, PLAIN],
    };
    for &cpus in &options.cpus {
        boot::machine(cpus, options.memory, accel, FULL).check()?;
    }
    let boots = models.len() * options.cpus.len() * options.runs as usize * kernels.len();
    let mut session = Session {
        progress: progress_bar((boots * specs.len()) as u64),
        results: Results::new(&paths, &kernels, accel, options),
        signals: Signals::catch()?,
        options,
        paths,
        kernels,
        models,
        accel,
        specs,
    };
    session.rounds()?;
    session.progress.finish_and_clear();
    let Session { results, specs, .. } = session;
    out!("{}", table::render(&results, &specs, &options.cpus, models).trim_end());
    if let Some(path) = &options.json {
        write_json(path, &results)?;
    }
    Ok(u8::from(results.samples.iter().any(|sample| sample.result.is_err() && sample.kernel == "darter")))
}

impl Session<'_> {
    fn rounds(&mut self) -> Result<()> {
        let budget = self.options.budget.map(Duration::from_secs_f64);
        let started = Instant::now();
        for run in 1..=self.options.runs {
            let begun = Instant::now();
            for model in self.models {
                for &cpus in &self.options.cpus {
                    for kernel in self.kernels.clone() {
                        self.one(run, model, cpus, &kernel)?;
                    }
                }
            }
            self.results.runs = run;
            self.results.seconds = started.elapsed().as_secs_f64();
            let another = begun.elapsed();
            if run < self.options.runs && budget.is_some_and(|budget| started.elapsed() + another > budget) {
                note!("darter: {run} of {} runs: another would not fit into --budget", self.options.runs);
                break;
            }
        }
        Ok(())
    }

    /// One boot, and all benchmarks in it but those that have failed here before.
    fn one(&mut self, run: u32, model: &str, cpus: u32, kernel: &Kernel) -> Result<()> {
        let name = kernel.name();
        let title = format!("{name} {cpus} CPUs run {run}");
        let known: Vec<Option<String>> = self
            .specs
            .iter()
            .map(|spec| self.results.failure(&spec.name, &name, model, cpus).map(str::to_owned))
            .collect();
        let specs: Vec<&Spec> = self
            .specs
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|(spec, _)| spec)
            .collect();
        let commands: Vec<Command> = specs
            .iter()
            .map(|spec| Command { line: spec.timed(cpus, self.options.seconds), huge_pages: spec.huge_pages })
            .collect();
        let mut machine = boot::machine(cpus, self.options.memory, self.accel, model);
        machine.sockets = self.options.sockets;
        let boot = Boot {
            paths: &self.paths,
            kernel,
            machine,
            add: &[],
            append: append(kernel, &self.options.append),
            settle: SETTLE,
            // Dozens of emulated CPUs on few real ones take their time to start as many tasks.
            limit: 30 + 2 * cpus + (self.options.seconds * 2.0).ceil() as u32,
            undisturbed: false,
        };
        let progress = &self.progress;
        progress.set_message(format!("{title}: boot"));
        let base = progress.position();
        let ran = boot.run_all(&mut self.signals, &commands, &|number| {
            progress.set_position(base + number as u64);
            progress.set_message(format!("{title}: {}", specs[number].name));
        })?;
        progress.set_position(base + self.specs.len() as u64);
        let mut results = ran.results.into_iter();
        let mut failed = 0;
        let mut samples = Vec::new();
        for (spec, known) in self.specs.iter().zip(known) {
            let result = match known {
                Some(why) => Err(why),
                None => results.next().flatten().unwrap_or_else(|| Err("it did not run".into())),
            };
            failed += usize::from(result.is_err());
            samples.push(Sample {
                benchmark: spec.name.clone(),
                kernel: name.clone(),
                cpu_model: model.to_owned(),
                cpus,
                run,
                boot_seconds: ran.boot_seconds,
                result,
            });
        }
        if progress.is_hidden() {
            let verdict = if failed > 0 { format!(", {failed} failed") } else { String::new() };
            note!("{title}: {} benchmarks{verdict}", self.specs.len());
        }
        self.results.samples.extend(samples);
        Ok(())
    }
}
