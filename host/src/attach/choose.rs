//! Which machines run, and which of them is meant.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::place;
use super::wire::{self, About, Frames};
use crate::exit::usage;
use crate::machine::kernel::Kernel;

/// For an owner to say which machine it has: it does so at once, unless it is stopped.
const PATIENCE: Duration = Duration::from_secs(3);

/// A machine that runs, and the connection to who owns it.
pub struct Running {
    pub about: About,
    pub(super) socket: UnixStream,
    pub(super) frames: Frames,
}

impl Running {
    fn greet(mut socket: UnixStream) -> Result<Self> {
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut frames = Frames::of_owner();
        let mut buffer = [0u8; 4096];
        loop {
            if let Some((kind, data)) = frames.next()? {
                return Ok(Self { about: wire::about(kind, &data)?, socket, frames });
            }
            match socket.read(&mut buffer) {
                Ok(0) => bail!("it takes no connections of this user's, or just ended"),
                Ok(n) => frames.take(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => bail!("it does not answer"),
                Err(error) => return Err(error).context("its socket"),
            }
        }
    }
}

/// The machine of process `pid`; without, the only one that runs.
///
/// # Errors
/// There is none, there are several, or it cannot be watched.
pub fn choose(pid: Option<u32>) -> Result<Running> {
    let running = match pid {
        Some(pid) => {
            let socket = place::connect(pid)?.ok_or_else(|| usage(why_not(pid)))?;
            Running::greet(socket).with_context(|| format!("the machine of process {pid}"))?
        }
        None => only()?,
    };
    let About { pid, kernel, watcher, .. } = &running.about;
    if *kernel == Kernel::Linux.name() {
        return Err(usage(format!(
            "the machine of process {pid} runs Linux: only Darter shows what is watched here"
        )));
    }
    if let Some(watcher) = watcher {
        bail!("the machine of process {pid} is being watched by process {watcher}");
    }
    Ok(running)
}

fn only() -> Result<Running> {
    let (mut found, mut silent) = (Vec::new(), String::new());
    for (pid, socket) in place::all()? {
        match Running::greet(socket) {
            Ok(running) => found.push(running),
            Err(error) => {
                let _ = write!(silent, "\nnot counted: process {pid}: {error:#}");
            }
        }
    }
    match found.len() {
        0 => Err(anyhow!(
            "no machine of this user's runs that could be watched: start one by 'darter run', or give a command here{silent}"
        )),
        1 => found.pop().context("there is one"),
        several => {
            let list = table(&found.iter().map(|running| &running.about).collect::<Vec<_>>());
            Err(usage(format!("{several} machines run: choose one by --attach PID\n{list}{silent}")))
        }
    }
}

/// A line for each.
fn table(machines: &[&About]) -> String {
    const WIDTH: usize = 50;
    let mut text = format!("{:>9}  {:>4}  {:<8}  command", "PID", "CPUs", "kernel");
    for about in machines {
        let command: String = about.command.chars().take(WIDTH).collect();
        let _ = write!(text, "\n{:>9}  {:>4}  {:<8}  {command}", about.pid, about.cpus, about.kernel);
        if let Some(watcher) = about.watcher {
            let _ = write!(text, "  (watched by {watcher})");
        }
    }
    text
}

/// Why a process has no socket.
fn why_not(pid: u32) -> String {
    let user = rustix::process::geteuid().as_raw();
    match std::fs::metadata(format!("/proc/{pid}")) {
        Err(_) => format!("there is no process {pid}"),
        Ok(process) if process.uid() != user => {
            format!("process {pid} is another user's: only who started a machine may watch it")
        }
        Ok(_) => format!(
            "process {pid} has no machine that could be watched: none runs in it, or a deterministic one"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::root::Root;

    fn about(pid: u32, watcher: Option<u32>) -> About {
        About {
            version: wire::VERSION,
            pid,
            kernel: "darter".into(),
            image: PathBuf::new(),
            image_written: None,
            cpus: 4,
            root: Root::Busybox,
            add: Vec::new(),
            same_addresses: false,
            tree: PathBuf::new(),
            command: "sh -c ".to_owned() + &"x".repeat(100),
            watcher,
        }
    }

    #[test]
    fn several_machines_are_told_apart_in_a_line_each() {
        let (one, other) = (about(12, None), about(4_000_000, Some(13)));
        let table = table(&[&one, &other]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines.iter().all(|line| line.len() < 110), "{table}");
        assert!(lines[1].starts_with("       12     4  darter    sh -c xxx"), "{table}");
        assert!(lines[2].ends_with("x  (watched by 13)"), "{table}");
    }

    #[test]
    fn a_process_without_a_machine_says_what_it_is() {
        assert!(why_not(std::process::id()).contains("has no machine"));
        assert!(why_not(u32::MAX).contains("there is no process"));
    }

    #[test]
    fn an_owner_that_says_nothing_is_no_machine() {
        let (here, there) = UnixStream::pair().unwrap();
        drop(there);
        assert!(Running::greet(here).is_err());
    }
}
