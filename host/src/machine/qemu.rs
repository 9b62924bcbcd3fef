//! A running QEMU: started, watched over three sockets (its serial ports), and never left behind.
//!
//! QEMU is started through this same program (`darter machine-guard`), which asks the kernel to kill it when we die and
//! then becomes QEMU. So it ends with us even where we get no chance to end it (SIGKILL, a crash).
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use rustix::io::FdFlags;
use rustix::process::Signal;

use crate::machine::{Boot, Machine};

pub const QEMU: &str = "qemu-system-x86_64";
/// The hidden subcommand that becomes QEMU.
pub const GUARD: &str = "machine-guard";

pub struct Vm {
    child: Child,
    pub console: UnixStream,
    pub terminal: UnixStream,
    pub control: UnixStream,
    pub stderr: ChildStderr,
}

/// Files and words for one start.
pub struct Start {
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
    pub command_line: String,
}

impl Vm {
    /// Must be called on the main thread: the kernel ties QEMU's life to the thread that starts it.
    pub fn start(machine: &Machine, start: Start) -> Result<Self> {
        let pair = || -> Result<(UnixStream, UnixStream)> {
            let (ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
            ours.set_nonblocking(true)?;
            // QEMU inherits its end; ours closes at exec.
            rustix::io::fcntl_setfd(&theirs, FdFlags::empty())?;
            Ok((ours, theirs))
        };
        let (console, console_end) = pair()?;
        let (terminal, terminal_end) = pair()?;
        let (control, control_end) = pair()?;
        let arguments = machine.arguments(&Boot {
            kernel: start.kernel,
            initramfs: start.initramfs,
            command_line: start.command_line,
            console: console_end.as_fd(),
            terminal: terminal_end.as_fd(),
            control: control_end.as_fd(),
        })?;
        let myself = std::env::current_exe().context("cannot find this program's own file")?;
        let mut child = Command::new(myself)
            .arg(GUARD)
            .arg(std::process::id().to_string())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C on our terminal is for the program in the guest, not for QEMU.
            .process_group(0)
            .spawn()
            .context("cannot start QEMU")?;
        let stderr = child.stderr.take().context("QEMU's stderr is not a pipe")?;
        rustix::io::ioctl_fionbio(&stderr, true)?;
        Ok(Self { child, console, terminal, control, stderr })
    }

    /// For a machine whose control port has closed: why QEMU ended, and what it said.
    pub fn wait(&mut self) -> Result<(ExitStatus, String)> {
        let status = self.child.wait().context("cannot wait for QEMU")?;
        let mut said = Vec::new();
        // Non-blocking, and QEMU has ended: this reads what is there.
        let _ = self.stderr.read_to_end(&mut said);
        Ok((status, String::from_utf8_lossy(&said).trim().to_owned()))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of `darter machine-guard PARENT ARG...`: ties this process to its parent's life and becomes QEMU.
pub fn guard(parent: &str, arguments: &[OsString]) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    if now.as_deref() != Some(parent) {
        bail!("darter ended before QEMU started");
    }
    let error = Command::new(QEMU).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {QEMU}: run 'make setup'"))
}

/// How QEMU ended, in words.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "the machine was switched off or reset".into(),
        // isa-debug-exit: (value << 1) | 1.
        (Some(code), _) if code & 1 == 1 && code > 1 => {
            format!("the kernel ended the machine with value {:#x}", code >> 1)
        }
        (Some(code), _) => format!("QEMU ended with status {code}"),
        (None, signal) => format!("QEMU was killed by signal {}", signal.unwrap_or(0)),
    }
}
