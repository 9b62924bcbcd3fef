//! `darter run` and `darter shell`.
#![forbid(unsafe_code)]

mod caller;
mod capture;
mod gdb;
mod last_words;
pub mod nested;
mod start;
mod user;
mod watched;

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use crate::attach::wire::Guest;
use crate::cli::{MachineOptions, Run, Shell};
use crate::exit::usage;
use crate::machine::accel::{Accel, Wanted};
use crate::machine::kernel::Kernel;
use crate::machine::qemu::Vm;
use crate::machine::{Machine, Model, share};
use crate::paths::Tree;
use crate::relay::attached::Attached;
use crate::relay::outcome::{self, End, Outcome};
use crate::relay::output::Sink;
use crate::relay::signals::Signals;
use crate::relay::terminal;
use crate::relay::{self, Relay};
use crate::root::{self, Job, Root, Watch};
use crate::symbols;
use caller::Identity;
pub use capture::capture;
pub use last_words::{explain_machine, explain_stall};
use nested::Around;
pub use start::{attachable, boot, environment};
pub use user::Asked;
pub use watched::{Ended, Watching, watched};

/// A kernel that is stepped through starts when it starts.
const FOR_GDB: Duration = Duration::from_secs(1_000_000_000);

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    status: u8,
    /// program, time-limit, interrupted or machine.
    ended_by: &'static str,
    signal: Option<u32>,
    stdout: String,
    stderr: String,
    kernel: String,
    accel: &'static str,
    cpus: u32,
    sockets: u32,
    memory_bytes: u64,
    /// From the start of QEMU to the guest's init.
    boot_seconds: Option<f64>,
    /// The program alone.
    program_seconds: Option<f64>,
    /// All of it, our own work included.
    seconds: f64,
    error: Option<String>,
    last_words: Option<String>,
}

pub fn run(options: &Run) -> Result<u8> {
    let (machine, command) = (&options.machine, options.command.as_slice());
    match (machine.accel, options.json) {
        (Wanted::Nested, json) => {
            let (outer, command) = nested::outer(&Tree::find(), machine, json, command, &Around::default())?;
            run_plain(&outer, &command)
        }
        (_, true) => run_json(options),
        (_, false) => run_plain(machine, command),
    }
}

pub fn shell(options: &Shell) -> Result<u8> {
    // On this machine's files it is the user's own.
    let own = std::env::var("SHELL").ok().filter(|_| options.machine.root == Root::Host);
    let command = vec![own.unwrap_or_else(|| "sh".into()), "-l".into()];
    run(&Run { machine: options.machine.clone(), json: false, command })
}

fn run_plain(options: &MachineOptions, command: &[String]) -> Result<u8> {
    let mut signals = Signals::catch()?;
    let tty = terminal::is_interactive();
    let (vm, attached) = start(options, command, Streams { tty, input: true }, None)?;
    let relay = Relay::new(
        vm,
        &mut signals,
        relay::Options {
            stdout: Sink::Fd(rustix::stdio::stdout()),
            stderr: Sink::Fd(rustix::stdio::stderr()),
            attached,
            ..relay_options(options, tty)
        },
    );
    let outcome = relay.run()?;
    if let Some(text) = explain(&outcome.end, outcome.stall.as_deref(), options) {
        note!("darter: {text}");
    }
    Ok(outcome::status_of(&outcome.end))
}

fn run_json(options: &Run) -> Result<u8> {
    let started = Instant::now();
    let machine = &options.machine;
    let mut signals = Signals::catch()?;
    let (vm, attached) = start(machine, &options.command, Streams { tty: false, input: true }, None)?;
    let (stdout, stderr) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let outcome = Relay::new(
        vm,
        &mut signals,
        relay::Options {
            stdout: Sink::Call(Box::new(|data| stdout.borrow_mut().extend_from_slice(data))),
            stderr: Sink::Call(Box::new(|data| stderr.borrow_mut().extend_from_slice(data))),
            attached,
            ..relay_options(machine, false)
        },
    )
    .run()?;
    let status = outcome::status_of(&outcome.end);
    let Outcome { end, boot, program, stall } = outcome;
    let error = explain(&end, stall.as_deref(), machine);
    let (ended_by, signal, last_words) = match end {
        End::Program(word) => ("program", Some(word & 0x7f).filter(|signal| *signal != 0), None),
        End::TimeLimit => ("time-limit", None, stall),
        End::Interrupted(signal) => ("interrupted", Some(signal as u32), stall),
        End::Machine { last_words, .. } => ("machine", None, Some(last_words)),
    };
    let report = Report {
        status,
        ended_by,
        signal,
        stdout: String::from_utf8_lossy(&stdout.borrow()).into_owned(),
        stderr: String::from_utf8_lossy(&stderr.borrow()).into_owned(),
        kernel: machine.kernel.name(),
        accel: accel(machine)?.name(),
        cpus: machine.cpus,
        sockets: machine.sockets,
        memory_bytes: machine.memory,
        boot_seconds: boot.map(|time| time.as_secs_f64()),
        program_seconds: program.map(|time| time.as_secs_f64()),
        seconds: started.elapsed().as_secs_f64(),
        error,
        last_words,
    };
    out!("{}", serde_json::to_string(&report)?);
    Ok(status)
}

fn relay_options(options: &MachineOptions, tty: bool) -> relay::Options<'static> {
    relay::Options {
        tty,
        input: true,
        stdout: Sink::Call(Box::new(|_| {})),
        stderr: Sink::Call(Box::new(|_| {})),
        time_limit: options.timeout.map(Duration::from_secs_f64),
        forward_signals: true,
        silence_limit: None,
        boot_limit: options.gdb.map_or(Duration::from_secs_f64(options.boot_timeout), |_| FOR_GDB),
        verbose: options.verbose,
        watcher: None,
        keys: None,
        attached: None,
    }
}

/// What to say about an end that is not the program's own.
fn explain(end: &End, stall: Option<&str>, options: &MachineOptions) -> Option<String> {
    let why = match end {
        End::Program(_) => return None,
        End::TimeLimit => format!("the time limit of {} s was reached", options.timeout.unwrap_or(0.0)),
        End::Interrupted(signal) => format!("ended by signal {signal}"),
        End::Machine { why, last_words } => return Some(explain_machine(&options.kernel, why, last_words)),
    };
    Some(stall.map_or(why.clone(), |words| explain_stall(&options.kernel, &why, words)))
}

/// Which accelerator `--accel` means here; exact counting needs emulation.
fn accel(options: &MachineOptions) -> Result<Accel> {
    if options.deterministic && options.accel == Wanted::Auto {
        return Ok(Accel::Tcg);
    }
    Accel::choose(options.accel)
}

/// What the program has of our streams.
#[derive(Clone, Copy)]
struct Streams {
    tty: bool,
    input: bool,
}

/// `watch`: what this process watches itself, which nobody else does then.
fn start(
    options: &MachineOptions,
    command: &[String],
    streams: Streams,
    watch: Option<Watch>,
) -> Result<(Vm, Option<Attached>)> {
    let machine = Machine {
        model: options.machine,
        cpus: options.cpus,
        sockets: options.sockets,
        threads: options.threads,
        memory: options.memory,
        accel: accel(options)?,
        cpu_model: options.cpu_model.clone(),
        deterministic: options.deterministic,
        disks: options.disk.clone(),
        balloon: !options.no_balloon,
        root: options.root.live().map(std::path::absolute).transpose()?,
        shares: options.share.iter().chain(&options.rw).cloned().collect(),
        gdb: options.gdb,
        extra: options.qemu_arg.clone(),
    };
    machine.check()?;
    if (machine.model, machine.accel, &options.kernel) == (Model::Microvm, Accel::Tcg, &Kernel::Linux) {
        return Err(usage(
            "--machine microvm --kernel linux: emulated it has no clock by which Linux could tell the time; give --accel nested, or kvm",
        ));
    }
    let paths = Tree::find();
    let kernel = options.kernel.image(&paths)?;
    let modules = options.kernel.modules(&paths, &machine)?;
    let shared = match &options.initramfs {
        Some(made) => made.clone(),
        None => root::prepare(&paths, &options.root, &options.add, &modules, options.memory)?,
    };
    let Identity { user, folder, environment } = Identity::find(options, streams.tty)?;
    let own = watch.is_some();
    let job = Job {
        tty: streams.tty,
        input: streams.input,
        folder: folder.into(),
        user,
        modules: modules.iter().filter_map(|module| Some(module.file_name()?.to_owned())).collect(),
        root: machine.root.is_some().then_some(share::ROOT),
        shares: machine.shares.iter().zip(0..).map(|(share, n)| (share::tag(n), share.clone())).collect(),
        watch: watch.unwrap_or_default(),
        environment,
        arguments: command.to_vec(),
    };
    let initramfs = root::with_job(&paths, &shared, &job)?;
    if options.verbose {
        note!("darter: kernel {}, accelerator {}", kernel.display(), machine.accel.name());
    }
    if let Some(port) = options.gdb {
        note!("darter: the machine waits for {}", gdb::command(port, &kernel));
    }
    let mut append = options.append.clone();
    if options.deterministic {
        // First, so that the user's words win.
        append.insert(0, symbols::COUNTED_APPEND.into());
    }
    let vm = boot(&machine, kernel, &initramfs, options.kernel.command_line(!options.verbose, &append))?;
    let guest =
        Guest { kernel: &options.kernel, append: &append, root: &options.root, add: &options.add, command };
    let attached = attachable(&machine, &guest, own, options.verbose);
    Ok((vm, attached))
}
