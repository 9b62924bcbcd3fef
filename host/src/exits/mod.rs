//! `darter exits`: how often an operation makes a virtual CPU leave the guest, and why, as KVM itself tells.
//!
//! `measure` runs the operations (host/guest/exits.c) in a machine under KVM, in an emulated one (run/nested.rs), with KVM's trace on.
//! `count` counts the trace there, and `table` shows the kernels beside each other.
#![forbid(unsafe_code)]

mod count;
mod measure;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::cli::Exits as Options;
use crate::exit::usage;
use crate::paths::Tree;

/// The hidden subcommand that counts.
pub const COUNT: &str = "exits-count";

/// Exits by cause.
pub type Causes = BTreeMap<String, f64>;

#[derive(Serialize, Deserialize)]
pub struct Measured {
    pub cpus: u32,
    pub kernels: Vec<Column>,
}

#[derive(Serialize, Deserialize)]
pub struct Column {
    pub kernel: String,
    /// Of one operation, in the order of the cases.
    pub cases: Vec<(String, Causes)>,
}

pub fn exits(options: &Options) -> Result<u8> {
    let measured = if options.from.is_empty() { measured(options)? } else { earlier(&options.from)? };
    let Some(measured) = measured else { return Ok(0) };
    out!("{}", table::table(&measured));
    out!("{}", table::summary(&measured));
    if let Some(file) = &options.page {
        write(file, &table::page(&measured))?;
    }
    if let Some(file) = &options.json {
        write(file, &serde_json::to_string_pretty(&measured)?)?;
    }
    Ok(0)
}

/// None: the operations are only listed.
fn measured(options: &Options) -> Result<Option<Measured>> {
    let paths = Tree::find();
    let known = measure::cases(&paths)?;
    if options.cases == ["list"] {
        known.iter().for_each(|name| out!("{name}"));
        return Ok(None);
    }
    if let Some(name) = options.cases.iter().find(|name| !known.contains(name)) {
        return Err(usage(format!("there is no operation {name}; there are {}", known.join(", "))));
    }
    let mut measured = Measured { cpus: options.cpus, kernels: Vec::new() };
    for kernel in [Some(&options.kernel), options.vs.as_ref()].into_iter().flatten() {
        let cases = measure::measure(options, &paths, kernel)?;
        measured.kernels.push(Column { kernel: kernel.name(), cases });
    }
    Ok(Some(measured))
}

/// What earlier runs wrote, kernels beside each other.
fn earlier(files: &[PathBuf]) -> Result<Option<Measured>> {
    let mut all: Option<Measured> = None;
    for file in files {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let one: Measured = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        match &mut all {
            Some(all) if all.cpus != one.cpus => {
                return Err(usage(format!("{}: other CPUs than in the first", file.display())));
            }
            Some(all) => all.kernels.extend(one.kernels),
            None => all = Some(one),
        }
    }
    Ok(all)
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// `darter exits-count`: a trace on stdin, lines of [`count::LINE`] on stdout.
pub fn count() -> Result<u8> {
    for (number, causes) in count::windows(std::io::stdin().lock())? {
        out!("{}{number} {}", count::LINE, serde_json::to_string(&causes)?);
    }
    Ok(0)
}
