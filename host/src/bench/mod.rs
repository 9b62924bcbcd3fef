//! `darter bench`: the benchmarks on one kernel, or on two that take turns.
//!
//! One machine per kernel, CPU count and run; it runs all benchmarks one after another. The kernels alternate, so that
//! what else goes on on this machine falls on both alike. A benchmark that fails is shown as failed.
#![forbid(unsafe_code)]

pub mod boot;
pub mod exact;
pub mod guest;
mod rates;
pub mod results;
pub mod suite;
pub mod table;

use std::path::Path;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::Bench;
use crate::machine::kernel::Kernel;
use boot::Interrupted;

pub const FULL: &str = "max";
/// Without fast string instructions: emulation pays for each iteration of one, hardware does not.
pub const PLAIN: &str = "max,-erms,-fsrm";
/// Linux's transparent huge pages are off, but for the benchmarks that are about them.
const LINUX: [&str; 1] = ["transparent_hugepage=never"];
/// Seconds after the boot: Linux still works in the background then.
pub const SETTLE: f64 = 1.0;

pub fn bench(options: &Bench) -> Result<u8> {
    interrupted(if options.instructions { exact::count(options) } else { rates::measure(options) })
}

/// Whoever asked to stop gets the status of the signal, and no complaint.
pub fn interrupted(result: Result<u8>) -> Result<u8> {
    match result {
        Err(error) if error.downcast_ref::<Interrupted>().is_some() => {
            note!("darter: {error}");
            Ok(error.downcast_ref::<Interrupted>().map_or(1, |end| 128u8.wrapping_add(end.0 as u8)))
        }
        result => result,
    }
}

pub fn append(kernel: &Kernel, own: &[String]) -> Vec<String> {
    let fixed: &[&str] = if *kernel == Kernel::Linux { &LINUX } else { &[] };
    fixed.iter().map(|&word| word.to_owned()).chain(own.iter().cloned()).collect()
}

pub fn progress_bar(length: u64) -> ProgressBar {
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
