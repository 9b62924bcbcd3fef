//! A running QEMU: started, watched over its serial ports, and never left behind.
//!
//! QEMU is started through this same program (`darter machine-guard`), which asks the kernel to kill it when we die and
//! then becomes QEMU. So it ends with us even where we get no chance to end it (SIGKILL, a crash).
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use rustix::io::FdFlags;
use rustix::process::Signal;

use crate::machine::{Boot, Ends, Machine};

pub const QEMU: &str = "qemu-system-x86_64";
/// The hidden subcommand that becomes QEMU.
pub const GUARD: &str = "machine-guard";

/// What a pipe from the guest holds when it must never wait for us: all that an unprivileged process may have (pipe(7)).
const NEVER_FULL: usize = 1 << 20;

pub struct Vm {
    child: Child,
    pub console: Port,
    pub terminal: Port,
    pub control: Port,
    pub stderr: ChildStderr,
}

/// Our ends of a serial port, which do not block. Pipes, since a port writes a byte at a time: a socket is full after 280 of those, as it counts what it takes to
/// hold each, a pipe after 65,536.
pub struct Port {
    pub from_guest: PipeReader,
    pub to_guest: PipeWriter,
}

/// QEMU's ends.
struct FarPort {
    from_us: PipeReader,
    to_us: PipeWriter,
}

impl Port {
    fn new(roomy: bool) -> Result<(Self, FarPort)> {
        let pipe = || std::io::pipe().context("cannot make a pipe");
        let ((from_us, to_guest), (from_guest, to_us)) = (pipe()?, pipe()?);
        rustix::io::ioctl_fionbio(&from_guest, true)?;
        rustix::io::ioctl_fionbio(&to_guest, true)?;
        // QEMU inherits its ends; ours close at exec.
        rustix::io::fcntl_setfd(&from_us, FdFlags::empty())?;
        rustix::io::fcntl_setfd(&to_us, FdFlags::empty())?;
        if roomy {
            rustix::pipe::fcntl_setpipe_size(&to_us, NEVER_FULL).context("cannot enlarge a pipe")?;
        }
        Ok((Self { from_guest, to_guest }, FarPort { from_us, to_us }))
    }
}

impl FarPort {
    fn ends(&self) -> Ends<'_> {
        Ends { input: self.from_us.as_fd(), output: self.to_us.as_fd() }
    }
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
        let (console, far_console) = Port::new(machine.deterministic)?;
        let (terminal, far_terminal) = Port::new(machine.deterministic)?;
        let (control, far_control) = Port::new(machine.deterministic)?;
        let arguments = machine.arguments(&Boot {
            kernel: start.kernel,
            initramfs: start.initramfs,
            command_line: start.command_line,
            console: far_console.ends(),
            terminal: far_terminal.ends(),
            control: far_control.ends(),
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

/// QEMU's trace event of a machine that is to end, with the reason. A reset ends it without one.
pub const SHUTDOWN_REQUEST: &str = "qemu_system_shutdown_request";
/// `SHUTDOWN_CAUSE_GUEST_SHUTDOWN` (`ShutdownCause` in QEMU's qapi/run-state.json, by number).
const BY_GUEST: u32 = 6;

/// How QEMU ended, in words, with what it had said.
pub fn describe(status: ExitStatus, said: &str) -> String {
    let reason =
        |line: &str| line.strip_prefix(SHUTDOWN_REQUEST)?.trim().strip_prefix("reason=")?.parse().ok();
    let reasons: Vec<u32> = said.lines().filter_map(reason).collect();
    let rest: Vec<&str> = said.lines().filter(|line| reason(line).is_none()).collect();
    let how = match (status.code(), status.signal()) {
        (Some(0), _) => match reasons.first() {
            Some(&BY_GUEST) => "the machine was switched off".into(),
            _ => "the machine was switched off or reset".into(),
        },
        // isa-debug-exit: (value << 1) | 1.
        (Some(code), _) if code & 1 == 1 && code > 1 => {
            format!("the kernel ended the machine with value {:#x}", code >> 1)
        }
        (Some(code), _) => format!("QEMU ended with status {code}"),
        (None, signal) => format!("QEMU was killed by signal {}", signal.unwrap_or(0)),
    };
    match rest.join("\n").trim() {
        "" => how,
        words => format!("{how}: {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_ended_by_itself_says_how() {
        let ended = |said| describe(ExitStatus::from_raw(0), said);
        assert_eq!(ended("qemu_system_shutdown_request reason=6\n"), "the machine was switched off");
        assert_eq!(ended("oh\nqemu_system_shutdown_request reason=6\n"), "the machine was switched off: oh");
        assert_eq!(ended(""), "the machine was switched off or reset");
        let killed = ExitStatus::from_raw(9);
        assert_eq!(describe(killed, " \n"), "QEMU was killed by signal 9");
    }
}
