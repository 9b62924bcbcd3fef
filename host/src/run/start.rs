//! Starting a machine: its initramfs, and the environment of its program.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::Result;
use rustix::io::FdFlags;

use crate::attach::wire::{About, Guest};
use crate::machine::Machine;
use crate::machine::qemu::{Start, Vm};
use crate::relay::attached::Attached;

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts QEMU with an initramfs that only an open file names.
pub fn boot(
    machine: &Machine,
    kernel: PathBuf,
    initramfs: &std::fs::File,
    command_line: String,
) -> Result<Vm> {
    // QEMU inherits the file and opens it by this name.
    rustix::io::fcntl_setfd(initramfs, FdFlags::empty())?;
    let initramfs = PathBuf::from(format!("/proc/self/fd/{}", initramfs.as_raw_fd()));
    Vm::start(machine, Start { kernel, initramfs, command_line })
}

/// Lets other processes watch the machine, unless it is to run the same each time. `own`: this process does that itself, and the others are told so. Where no
/// socket can be made the machine runs all the same; `verbose` says why.
pub fn attachable(machine: &Machine, guest: &Guest<'_>, own: bool, verbose: bool) -> Option<Attached> {
    if machine.deterministic {
        return None;
    }
    let attached = About::new(machine, guest).and_then(|about| Attached::open(about, own));
    attached
        .inspect_err(|error| {
            if verbose {
                note!("darter: no other process can watch this machine: {error:#}");
            }
        })
        .ok()
}

/// The environment of a packed root or another machine's: its root's.
pub fn environment(tty: bool) -> Vec<OsString> {
    let mut environment: Vec<OsString> =
        vec![PATH.into(), "HOME=/root".into(), "USER=root".into(), "LOGNAME=root".into()];
    if tty {
        let mut term = OsString::from("TERM=");
        term.push(std::env::var_os("TERM").unwrap_or_else(|| "linux".into()));
        environment.push(term);
    }
    environment
}

/// The user's own words, each in place of what has its name.
pub fn set(environment: &mut Vec<OsString>, own: &[String]) {
    for word in own {
        environment.retain(|have| name(have.as_bytes()) != name(word.as_bytes()));
        environment.push(word.into());
    }
}

fn name(word: &[u8]) -> &[u8] {
    word.split(|byte| *byte == b'=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_words_take_the_place_of_others() {
        let mut words: Vec<OsString> = vec!["A=1".into(), "AB=2".into()];
        set(&mut words, &["A=3=4".into(), "C".into()]);
        assert_eq!(words, ["AB=2", "A=3=4", "C"]);
    }
}
