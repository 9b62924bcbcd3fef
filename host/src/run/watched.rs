//! Runs a program while the guest's init sends what the kernel shows of itself: for `lockstat`, `top` and `flame`.
//!
//! The program's streams, signals and end are those of `run`. What the watcher got up to a failure of the machine is whole, so its caller shows that, and
//! then why it failed.
#![forbid(unsafe_code)]

use std::time::Duration;

use anyhow::Result;

use super::{Streams, explain, relay_options, start};
use crate::cli::MachineOptions;
use crate::exit::usage;
use crate::machine::accel::Wanted;
use crate::machine::kernel::Kernel;
use crate::relay::outcome;
use crate::relay::output::Sink;
use crate::relay::signals::Signals;
use crate::relay::watched::{Keys, Watcher};
use crate::relay::{self, Relay};
use crate::root::Watch;

/// Who watches what, and where the program's streams go.
pub struct Watching<'a> {
    pub watch: Watch,
    pub watcher: Watcher<'a>,
    /// Gets what is typed; the program has no input then.
    pub keys: Option<Keys<'a>>,
    pub stdout: Sink<'a>,
    pub stderr: Sink<'a>,
}

/// How it ended.
pub struct Ended {
    /// As `run`'s.
    pub status: u8,
    /// What is to be said where the program did not end by itself: why, with the kernel's last words.
    pub why: Option<String>,
    /// How long the program ran, as far as it began.
    pub program: Option<Duration>,
}

/// Runs `command` in a machine of its own.
///
/// # Errors
/// It is not Darter, which alone has such files, or cannot be watched; what `run` refuses.
pub fn watched(options: &MachineOptions, command: &[String], watching: Watching<'_>) -> Result<Ended> {
    if options.kernel == Kernel::Linux {
        return Err(usage("only Darter shows what is watched here: leave out --kernel linux"));
    }
    if options.accel == Wanted::Nested {
        return Err(usage("a machine of --accel nested cannot be watched"));
    }
    let mut signals = Signals::catch()?;
    let Watching { watch, watcher, keys, stdout, stderr } = watching;
    let input = keys.is_none();
    let (vm, attached) = start(options, command, Streams { tty: false, input }, Some(watch))?;
    let plain = relay_options(options, false);
    let relay = Relay::new(
        vm,
        &mut signals,
        relay::Options { input, stdout, stderr, watcher: Some(watcher), keys, attached, ..plain },
    );
    let outcome = relay.run()?;
    Ok(Ended {
        status: outcome::status_of(&outcome.end),
        why: explain(&outcome.end, outcome.stall.as_deref(), options),
        program: outcome.program,
    })
}
