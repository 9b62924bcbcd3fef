//! Runs one command in a machine of its own and keeps what it printed: for measuring, not for people at a terminal.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Result, bail};

use super::last_words::explain_machine;
use super::start::{attachable, boot, environment};
use crate::attach::wire::Guest;
use crate::machine::Machine;
use crate::machine::kernel::Kernel;
use crate::paths::Tree;
use crate::relay::outcome::{self, End};
use crate::relay::output::Sink;
use crate::relay::signals::Signals;
use crate::relay::{self, Relay};
use crate::root::{self, Addition, Job, Root};

/// For a kernel to start init; emulated, with dozens of CPUs on few real ones.
const BOOT_LIMIT: Duration = Duration::from_secs(300);

/// What the command printed on stdout. An error if it did not end with status 0 in time. The guest has busybox,
/// the benchmarks and `additions`.
pub fn capture(
    machine: &Machine,
    kernel: &Kernel,
    append: &[String],
    additions: &[Addition],
    command: &[String],
    limit: Duration,
) -> Result<String> {
    let mut signals = Signals::catch()?;
    let paths = Tree::find();
    let shared = root::prepare(&paths, &Root::Busybox, additions, &[], machine.memory)?;
    let job = Job { environment: environment(false), arguments: command.to_vec(), ..Job::default() };
    let initramfs = root::with_job(&paths, &shared, &job)?;
    let vm = boot(machine, kernel.image(&paths)?, &initramfs, kernel.command_line(true, append))?;
    let guest = Guest { kernel, append, root: &Root::Busybox, add: additions, command };
    let (stdout, stderr) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let options = relay::Options {
        tty: false,
        input: false,
        stdout: Sink::Call(Box::new(|data| stdout.borrow_mut().extend_from_slice(data))),
        stderr: Sink::Call(Box::new(|data| stderr.borrow_mut().extend_from_slice(data))),
        time_limit: Some(limit),
        forward_signals: false,
        silence_limit: None,
        boot_limit: BOOT_LIMIT,
        verbose: false,
        watcher: None,
        keys: None,
        attached: attachable(machine, &guest, false, false),
    };
    let end = Relay::new(vm, &mut signals, options).run()?.end;
    let command = short(command);
    let said = String::from_utf8_lossy(&stderr.borrow()).trim().to_owned();
    match end {
        End::Program(0) => Ok(String::from_utf8_lossy(&stdout.borrow()).into_owned()),
        End::Program(_) => {
            bail!("'{command}' failed in the guest with status {}: {said}", outcome::status_of(&end))
        }
        End::TimeLimit => {
            let printed = String::from_utf8_lossy(&stdout.borrow()).into_owned();
            let last = [printed.trim(), &said].map(last_lines).join("\n");
            bail!(
                "'{command}' took longer than {} s in the guest; what it had said ends with:\n{}",
                limit.as_secs(),
                last.trim()
            )
        }
        End::Interrupted(signal) => bail!("ended by signal {signal}"),
        End::Machine { why, last_words } => bail!(explain_machine(kernel, &why, &last_words)),
    }
}

/// As many lines as a message can take.
fn last_lines(text: &str) -> String {
    const MOST: usize = 5;
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(MOST)..).unwrap_or_default().join("\n")
}

/// The command's first line, as far as a message can take it.
fn short(command: &[String]) -> String {
    const MOST: usize = 60;
    let line = command.join(" ");
    let first = line.lines().next().unwrap_or_default();
    let cut: String = first.chars().take(MOST).collect();
    if cut.len() < line.len() { format!("{cut} …") } else { cut }
}
