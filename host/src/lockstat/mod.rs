//! `darter lockstat`: which locks a program's kernel waited for, and where from, in the layout of NetBSD's lockstat(8).
//!
//! The kernel counts waits by lock class and caller while /proc/darter/contention is switched on, which init does before the program starts, or when we attach to a
//! machine that runs (`crate::attach`); it sends the file every second, so that a machine that fails leaves what it had.
#![forbid(unsafe_code)]

mod counts;
mod table;

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::attach::{self, Attaching};
use crate::cli::Lockstat;
use crate::relay::output::Sink;
use crate::relay::watched::Watcher;
use crate::root::Watch;
use crate::run::{self, Watching};
use counts::{Counts, Snapshot};

/// The kernel's file.
const FILE: &str = "/proc/darter/contention";
/// Between two looks: what a machine that fails may lose.
const EVERY: Duration = Duration::from_secs(1);

pub fn lockstat(options: &Lockstat) -> Result<u8> {
    let snapshots: RefCell<(Option<Snapshot>, Option<Snapshot>)> = RefCell::default();
    let wrong = RefCell::new(None);
    // The report has stdout for itself where a program is to read it.
    let stdout = if options.json && options.output.is_none() {
        rustix::stdio::stderr()
    } else {
        rustix::stdio::stdout()
    };
    let watch = Watch { set: vec![format!("{FILE}=on")], files: vec![FILE], maps: None, every: EVERY };
    let watcher: Watcher<'_> = Box::new(|_, text| match Snapshot::parse(&String::from_utf8_lossy(text)) {
        Ok(snapshot) => {
            let (first, last) = &mut *snapshots.borrow_mut();
            if first.is_none() {
                *first = Some(snapshot);
            } else {
                *last = Some(snapshot);
            }
        }
        Err(error) => *wrong.borrow_mut() = Some(error),
    });
    let (cpus, ended) = if options.command.is_empty() {
        let running = attach::choose(options.attach.pid())?;
        let limit = options.attach.limit();
        let cpus = running.about.cpus;
        (cpus, attach::watch(running, Attaching { watch, watcher, keys: None, limit })?)
    } else {
        let (stdout, stderr) = (Sink::Fd(stdout), Sink::Fd(rustix::stdio::stderr()));
        let watching = Watching { watch, watcher, keys: None, stdout, stderr };
        (options.machine.cpus, run::watched(&options.machine, &options.command, watching)?)
    };
    if let Some(why) = &ended.why {
        note!("darter: {why}");
    }
    if let Some(error) = wrong.into_inner() {
        bail!("{FILE} is not as this program knows it: {error}");
    }
    let (Some(first), last) = snapshots.into_inner() else {
        // The machine failed before the program began, which has been said.
        return Ok(ended.status);
    };
    let counts = Counts::between(&first, last.as_ref().unwrap_or(&first));
    let report =
        if options.json { table::json(&counts, &ended)? } else { table::text(&counts, options, cpus) };
    match &options.output {
        None => out!("{report}"),
        Some(path) => File::create(path)
            .and_then(|mut file| writeln!(file, "{report}"))
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(ended.status)
}
