//! Starting a machine: its initramfs, and the environment of its program.
#![forbid(unsafe_code)]

use std::os::fd::AsRawFd;
use std::path::PathBuf;

use anyhow::Result;
use rustix::io::FdFlags;

use crate::machine::Machine;
use crate::machine::qemu::{Start, Vm};

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

pub fn environment(own: &[String], tty: bool) -> Vec<String> {
    let mut environment =
        vec![PATH.to_owned(), "HOME=/root".into(), "USER=root".into(), "LOGNAME=root".into()];
    if tty {
        let term = std::env::var("TERM").unwrap_or_else(|_| "linux".into());
        environment.push(format!("TERM={term}"));
    }
    for word in own {
        let name = word.split('=').next().unwrap_or_default();
        environment.retain(|have| have.split('=').next() != Some(name));
        environment.push(word.clone());
    }
    environment
}
