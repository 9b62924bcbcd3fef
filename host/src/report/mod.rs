//! `darter bench --report` and `--compare`: a page of all that was measured, and before and after beside each other.
//!
//! Each part is measured by the command that the page names for it, in this process, and comes back by its --json: what is drawn is what
//! is written. A part that was not measured says so, with the command that would.
#![forbid(unsafe_code)]

mod before;
#[cfg(test)]
mod browser;
mod compare;
mod kept;
mod page;
mod parts;
#[cfg(test)]
pub mod sample;
mod sections;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::bench::results;
use crate::cli::{Bench, Part};
use crate::exit::{self, usage};
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use before::Before;
use compare::Comparison;
use kept::Kept;
use page::Page;

pub fn report(options: &Bench) -> Result<u8> {
    if options.report.is_none() && options.compare.is_none() {
        return Err(usage("--from: with --report or --compare"));
    }
    let paths = Tree::find();
    // What is not there is said before anything runs for nothing.
    let before = options.compare.as_ref().map(|text| Before::find(text, &paths)).transpose()?;
    if matches!(before, Some(Before::Commit(_) | Before::Switch(_)))
        && (options.vs.is_some() || !options.from.is_empty())
    {
        return Err(usage(
            "--compare REV or a switch: that kernel takes the place of --vs, and both are measured",
        ));
    }
    let other = before.as_ref().map_or(Ok(None), |before| before.kernel(&paths))?;
    let old = match &before {
        Some(Before::File(file)) => Some(Kept::read(file)?),
        _ => None,
    };
    let mut kept = Kept::default();
    for file in &options.from {
        kept.add(Kept::read(file)?);
    }
    let mut graphs = options.flames.clone();
    if let Some(file) = graphs.iter().find(|file| !file.is_file()) {
        return Err(usage(format!("--flames: there is no file {}", file.display())));
    }
    for &part in &options.with {
        parts::check(part, options)?;
    }
    let mut status = measure(options, other.as_ref(), &mut kept, &mut graphs)?;
    if parts::interrupted(status) {
        return Ok(status);
    }
    let comparison = match &before {
        Some(before) => Some(compared(options, before, old, other.as_ref(), &kept)?),
        None => None,
    };
    if let Some(comparison) = &comparison {
        out!("{}", comparison.text());
        status = status.max(u8::from(comparison.is_worse()));
    }
    if let Some(file) = &options.json {
        write(file, &(serde_json::to_string_pretty(&kept)? + "\n"))?;
    }
    if let Some(file) = &options.report {
        let folder = file.parent().unwrap_or(Path::new(""));
        let page = Page {
            kept: &kept,
            comparison: comparison.as_ref(),
            graphs,
            folder,
            command: results::command(),
        };
        write(file, &page.html()?)?;
        note!("darter: {}", file.display());
    }
    Ok(status)
}

/// Measures what the options say: the worst status.
fn measure(
    options: &Bench,
    other: Option<&Kernel>,
    kept: &mut Kept,
    graphs: &mut Vec<PathBuf>,
) -> Result<u8> {
    let mut worst = 0;
    if options.from.is_empty() {
        let words = match options.instructions {
            true => parts::instructions(options, other),
            false => parts::rates(options, other),
        };
        worst = parts::take(&words, kept)?;
    }
    let Some(page) = &options.report else { return Ok(worst) };
    for &part in &options.with {
        if parts::interrupted(worst) {
            break;
        }
        if part == Part::Instructions && options.instructions && options.from.is_empty() {
            continue;
        }
        // What was measured before is drawn though another part fails.
        worst = worst.max(parts::measure(part, options, page, kept, graphs).unwrap_or_else(|error| {
            note!("darter: {error:#}");
            exit::MACHINE
        }));
    }
    Ok(worst)
}

/// The kernel measured now beside what was measured before, or beside the other kernel.
fn compared(
    options: &Bench,
    before: &Before,
    old: Option<Kept>,
    other: Option<&Kernel>,
    kept: &Kept,
) -> Result<Comparison> {
    let name = other.map(Kernel::name);
    let old = old.as_ref().unwrap_or(kept);
    let mut comparison = Comparison::new(before.label(), versions(kept));
    if let (Some(before), Some(after)) = (&old.rates, &kept.rates) {
        let own = |rates: &results::Results| rates.kernels.first().cloned().unwrap_or_default();
        let (there, here) = (name.clone().unwrap_or_else(|| own(before)), own(after));
        comparison.rates((before, &there), (after, &here), options.threshold);
    }
    if let (Some(before), Some(after)) = (&old.instructions, &kept.instructions) {
        let own = |counts: &crate::bench::exact::Counts| {
            counts.counts.first().map(|count| count.kernel.clone()).unwrap_or_default()
        };
        let (there, here) = (name.unwrap_or_else(|| own(before)), own(after));
        comparison.instructions((before, &there), (after, &here), options.threshold);
    }
    if comparison.is_empty() {
        return Err(usage(format!("--compare: {} has nothing of what was measured now", comparison.before)));
    }
    Ok(comparison)
}

/// Of the kernel that is measured now.
fn versions(kept: &Kept) -> String {
    let origin = kept.rates.as_ref().map(|rates| &rates.origin);
    let origin = origin.or(kept.instructions.as_ref().map(|counts| &counts.origin));
    origin.and_then(|origin| origin.versions.first().cloned()).unwrap_or_else(|| "now".into())
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}
