//! One boot: a machine that runs a list of commands one after another.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Result, bail};

use super::guest::{self, Command, Event, Measured, Reader};
use crate::attach::wire::Guest;
use crate::machine::accel::Accel;
use crate::machine::kernel::Kernel;
use crate::machine::{Machine, Model, Share, share};
use crate::paths::Tree;
use crate::relay::outcome::End;
use crate::relay::output::Sink;
use crate::relay::signals::Signals;
use crate::relay::{self, Relay};
use crate::root::{self, Addition, Job, Root};
use crate::run;

/// For a kernel to start init: Linux with 48 CPUs on one host thread takes some minutes.
const BOOT_LIMIT: Duration = Duration::from_secs(600);
/// With this word a benchmark takes the files of this machine (bench/live.c).
const LIVE: &str = "-l";

pub struct Boot<'a> {
    pub paths: &'a Tree,
    pub kernel: &'a Kernel,
    pub machine: Machine,
    /// For the guest's root, beside what every guest has.
    pub add: &'a [Addition],
    /// Words for the kernel's command line.
    pub append: Vec<String>,
    /// Seconds to wait after the boot until the guest is quiet.
    pub settle: f64,
    /// Seconds that one command may take.
    pub limit: u32,
    /// Nothing but the command may wake meanwhile, not even to see whether its time is up.
    pub undisturbed: bool,
}

/// What became of each command; None where the machine ended before it began.
pub struct Ran {
    pub results: Vec<Option<Result<Measured, String>>>,
    /// Why the machine failed, if it did.
    pub machine: Option<String>,
    pub boot_seconds: Option<f64>,
}

/// The user asked to stop.
#[derive(Debug)]
pub struct Interrupted(pub i32);

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ended by signal {}", self.0)
    }
}

impl std::error::Error for Interrupted {}

impl Boot<'_> {
    /// `begun` is told of each command as it begins.
    pub fn run(&self, signals: &mut Signals, commands: &[Command], begun: &dyn Fn(usize)) -> Result<Ran> {
        let mut machine = self.machine.clone();
        if commands.iter().any(is_live) {
            machine.shares.push(live(self.paths)?);
        }
        let modules = self.kernel.modules(self.paths, &machine)?;
        // A machine with a live root has the files of this one, and everybody else busybox and the benchmarks.
        let (root, folder) =
            if machine.root.is_some() { (Root::Host, "/") } else { (Root::Busybox, "/root") };
        let shared = root::prepare(self.paths, &root, self.add, &modules, machine.memory)?;
        let script = guest::script(commands, self.settle, self.limit, self.undisturbed);
        let job = Job {
            environment: run::environment(false),
            folder: folder.into(),
            root: machine.root.is_some().then_some(share::ROOT),
            modules: modules.iter().filter_map(|module| Some(module.file_name()?.to_owned())).collect(),
            arguments: vec!["sh".into(), "-c".into(), script],
            ..Job::default()
        };
        let initramfs = root::with_job(self.paths, &shared, &job)?;
        let kernel = self.kernel.image(self.paths)?;
        let command_line = self.kernel.command_line(true, &self.append);
        let vm = run::boot(&machine, kernel, &initramfs, command_line)?;
        let lines: Vec<String> = commands.iter().map(|command| format!("{};", command.line)).collect();
        let guest =
            Guest { kernel: self.kernel, append: &self.append, root: &root, add: self.add, command: &lines };
        let attached = run::attachable(&machine, &guest, false, false);
        let results = RefCell::new(commands.iter().map(|_| None).collect::<Vec<_>>());
        let reader = RefCell::new(Reader::default());
        let complaints = RefCell::new(Vec::new());
        let take = |bytes: &[u8]| {
            let mut events = Vec::new();
            reader.borrow_mut().take(bytes, &mut events);
            for event in events {
                match event {
                    Event::Begun(number) => begun(number),
                    Event::Ended(number, result) => {
                        if let Some(slot) = results.borrow_mut().get_mut(number) {
                            *slot = Some(result);
                        }
                    }
                }
            }
        };
        let options = relay::Options {
            tty: false,
            input: false,
            stdout: Sink::Call(Box::new(take)),
            stderr: Sink::Call(Box::new(|bytes| complaints.borrow_mut().extend_from_slice(bytes))),
            time_limit: None,
            // A kernel that hangs under a benchmark says nothing more.
            forward_signals: false,
            silence_limit: Some(Duration::from_secs(u64::from(self.limit) + 10)),
            boot_limit: BOOT_LIMIT,
            verbose: false,
            watcher: None,
            keys: None,
            attached,
        };
        let outcome = Relay::new(vm, signals, options).run()?;
        let name = self.kernel.name();
        let mut machine = match outcome.end {
            End::Program(0) => None,
            End::Program(word) => Some(format!(
                "the guest's shell ended with wait status {word:#x}: {}",
                String::from_utf8_lossy(&complaints.borrow()).trim()
            )),
            End::TimeLimit => Some(format!("the machine with kernel {name} hung")),
            End::Interrupted(signal) => return Err(Interrupted(signal).into()),
            End::Machine { why, last_words } => Some(run::explain_machine(self.kernel, &why, &last_words)),
        };
        let mut results = results.into_inner();
        if let Some(number) = reader.borrow().current() {
            let why = machine.clone().unwrap_or_else(|| "it did not end".into());
            if let Some(slot) = results.get_mut(number) {
                *slot = Some(Err(why));
            }
        }
        if machine.is_none() && results.iter().any(Option::is_none) {
            machine = Some("the guest's shell ended early".into());
        }
        Ok(Ran { results, machine, boot_seconds: outcome.boot.map(|time| time.as_secs_f64()) })
    }

    /// Runs all commands; where the machine fails under one, the others go on in another machine.
    pub fn run_all(&self, signals: &mut Signals, commands: &[Command], begun: &dyn Fn(usize)) -> Result<Ran> {
        let mut all: Vec<Option<Result<Measured, String>>> = commands.iter().map(|_| None).collect();
        let (mut boot_seconds, mut first_failure) = (None, None);
        loop {
            let left: Vec<usize> = (0..commands.len()).filter(|number| all[*number].is_none()).collect();
            if left.is_empty() {
                break;
            }
            let part: Vec<Command> = left
                .iter()
                .map(|number| Command {
                    line: commands[*number].line.clone(),
                    huge_pages: commands[*number].huge_pages,
                })
                .collect();
            let ran = self.run(signals, &part, &|number| begun(left[number]))?;
            let progress = ran.results.iter().any(Option::is_some);
            for (number, result) in left.iter().zip(ran.results) {
                all[*number] = result;
            }
            boot_seconds = boot_seconds.or(ran.boot_seconds);
            if let Some(why) = ran.machine {
                if !progress {
                    // It does not even come up: once is enough.
                    for slot in all.iter_mut().filter(|slot| slot.is_none()) {
                        *slot = Some(Err(why.clone()));
                    }
                }
                first_failure.get_or_insert(why);
            }
        }
        Ok(Ran { results: all, machine: first_failure, boot_seconds })
    }
}

fn is_live(command: &Command) -> bool {
    command.line.split(' ').any(|word| word == LIVE)
}

/// The device of those files, share0 in the guest. Benchmarks mount it themselves.
fn live(paths: &Tree) -> Result<Share> {
    let folder = paths.live();
    if !folder.is_dir() {
        bail!("{} is missing: run 'make benchmarks'", folder.display());
    }
    Ok(Share { folder, at: String::new(), writes: false })
}

/// The machine that both kernels get.
pub fn machine(cpus: u32, memory: u64, accel: Accel, cpu_model: &str) -> Machine {
    Machine {
        model: Model::Q35,
        cpus,
        sockets: 1,
        threads: 1,
        memory,
        accel,
        cpu_model: cpu_model.into(),
        deterministic: false,
        disks: Vec::new(),
        balloon: false,
        root: None,
        shares: Vec::new(),
        gdb: None,
        extra: Vec::<OsString>::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_files_of_this_one_where_a_benchmark_takes_them() {
        let live = |line: &str| is_live(&Command { line: line.into(), huge_pages: false });
        assert!(live("file-read 2 -l -b 1048576 -q -c 20") && live("doexec 1 -l"));
        assert!(!live("file-list 2 -q") && !live("growth list"));
    }
}
