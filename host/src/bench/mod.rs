//! `darter bench`: the benchmarks on one kernel, or on two that take turns.
//!
//! One machine per kernel, CPU count and run; it runs all benchmarks one after another. The kernels alternate, so that
//! what else goes on on this machine falls on both alike. A benchmark that fails is shown as failed.
#![forbid(unsafe_code)]

pub mod boot;
mod exact;
pub mod guest;
mod results;
pub mod suite;
mod table;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

use crate::accel::Accel;
use crate::cli::{Bench, CpuModels};
use crate::kernel_image::Kernel;
use crate::paths::Tree;
use crate::signals::Signals;
use boot::{Boot, Interrupted};
use guest::Command;
use results::{Results, Sample};
use suite::Spec;

const FULL: &str = "max";
/// Without fast string instructions: emulation pays for each iteration of one, hardware does not.
const PLAIN: &str = "max,-erms,-fsrm";
/// Linux's transparent huge pages are off, but for the benchmarks that are about them.
const LINUX: [&str; 1] = ["transparent_hugepage=never"];
/// Seconds after the boot: Linux still works in the background then.
const SETTLE: f64 = 1.0;

pub fn bench(options: &Bench) -> Result<u8> {
    interrupted(if options.instructions { exact::count(options) } else { rates(options) })
}

/// Whoever asked to stop gets the status of the signal, and no complaint.
pub fn interrupted(result: Result<u8>) -> Result<u8> {
    match result {
        Err(error) if error.downcast_ref::<Interrupted>().is_some() => {
            eprintln!("darter: {error}");
            Ok(error.downcast_ref::<Interrupted>().map_or(1, |end| 128u8.wrapping_add(end.0 as u8)))
        }
        result => result,
    }
}

fn rates(options: &Bench) -> Result<u8> {
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
    let mut signals = Signals::catch()?;
    let mut results = Results::new(&paths, &kernels, accel, options);
    let boots = models.len() * options.cpus.len() * options.runs as usize * kernels.len();
    let progress = progress_bar((boots * specs.len()) as u64);
    let started = Instant::now();
    for model in models {
        for &cpus in &options.cpus {
            for run in 1..=options.runs {
                for kernel in &kernels {
                    let boot = Boot {
                        paths: &paths,
                        kernel,
                        machine: boot::machine(cpus, options.memory, accel, model),
                        append: append(kernel, &options.append),
                        settle: SETTLE,
                        limit: 30 + (options.seconds * 2.0).ceil() as u32,
                    };
                    let title = format!("{} {cpus} CPUs run {run}", kernel.name());
                    let samples = run_one(&mut signals, &boot, &specs, options.seconds, &title, &progress)?;
                    results.samples.extend(samples.into_iter().map(|(spec, result, boot_seconds)| Sample {
                        benchmark: spec,
                        kernel: kernel.name(),
                        cpu_model: (*model).to_owned(),
                        cpus,
                        run,
                        boot_seconds,
                        result,
                    }));
                }
            }
        }
    }
    progress.finish_and_clear();
    results.seconds = started.elapsed().as_secs_f64();
    print!("{}", table::render(&results, &specs, &options.cpus, models));
    if let Some(path) = &options.json {
        write_json(path, &results)?;
    }
    Ok(u8::from(results.samples.iter().any(|sample| sample.result.is_err() && sample.kernel == "darter")))
}

type One = (String, Result<guest::Measured, String>, Option<f64>);

fn run_one(
    signals: &mut Signals,
    boot: &Boot<'_>,
    specs: &[Spec],
    seconds: f64,
    title: &str,
    progress: &ProgressBar,
) -> Result<Vec<One>> {
    let commands: Vec<Command> = specs
        .iter()
        .map(|spec| Command { line: spec.timed(boot.machine.cpus, seconds), huge_pages: spec.huge_pages })
        .collect();
    progress.set_message(format!("{title}: boot"));
    let base = progress.position();
    let ran = boot.run_all(signals, &commands, &|number| {
        progress.set_position(base + number as u64);
        progress.set_message(format!("{title}: {}", specs[number].name));
    })?;
    progress.set_position(base + specs.len() as u64);
    if progress.is_hidden() {
        let failed = ran.results.iter().filter(|result| !matches!(result, Some(Ok(_)))).count();
        let verdict = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        eprintln!("{title}: {} benchmarks{verdict}", specs.len());
    }
    let results =
        ran.results.into_iter().map(|result| result.unwrap_or_else(|| Err("it did not run".into())));
    Ok(specs
        .iter()
        .zip(results)
        .map(|(spec, result)| (spec.name.clone(), result, ran.boot_seconds))
        .collect())
}

pub fn append(kernel: &Kernel, own: &[String]) -> Vec<String> {
    let fixed: &[&str] = if *kernel == Kernel::Linux { &LINUX } else { &[] };
    fixed.iter().map(|&word| word.to_owned()).chain(own.iter().cloned()).collect()
}

fn progress_bar(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed} (left {eta})  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(length).with_style(style);
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}
