//! Carries a guest program's streams, signals and end between this process and the machine.
//!
//! One loop over poll(2), no threads. Nothing here waits for one side while the other has something to say: a slow
//! reader of our stdout holds back the guest (we stop reading its port), a program that does not read holds back
//! our stdin (INPUT_WINDOW), and signals and the time limit are served meanwhile.
#![forbid(unsafe_code)]

pub mod attached;
mod console;
pub mod outcome;
pub mod output;
mod protocol;
pub mod signals;
pub mod terminal;
pub mod watched;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

use crate::attach::wire::Over;
use crate::machine::qemu::{Vm, describe};
use attached::Attached;
use console::Console;
use outcome::{End, Outcome};
use output::{Output, Sink};
use protocol::{Decoder, FromGuest, INPUT_FRAME, ToGuest, Window};
use signals::Signals;
use watched::{Keys, Watched, Watcher};

/// A program told to end by SIGTERM or SIGHUP may take so long before its machine is ended.
const GRACE: Duration = Duration::from_secs(3);
/// So many Ctrl-C end the machine, whatever the program makes of them.
const PATIENCE: u32 = 3;
/// Ctrl-]: on a terminal, so many of these in a row do.
const ESCAPE: u8 = 0x1d;

pub struct Options<'a> {
    /// The program has a terminal: our stdin and stdout are carried raw.
    pub tty: bool,
    /// Our stdin is its input; otherwise it has none, as its job says, and we send nothing.
    pub input: bool,
    pub stdout: Sink<'a>,
    pub stderr: Sink<'a>,
    /// From the start of the machine.
    pub time_limit: Option<Duration>,
    /// Signals are the program's; otherwise they end the machine.
    pub forward_signals: bool,
    /// Between two pieces of output.
    pub silence_limit: Option<Duration>,
    /// For the kernel to start init.
    pub boot_limit: Duration,
    /// Show the kernel's console.
    pub verbose: bool,
    /// Gets the files that the job has watched.
    pub watcher: Option<Watcher<'a>>,
    /// Gets what is typed, where that is not the program's input.
    pub keys: Option<Keys<'a>>,
    /// Those who watch from other processes, where they may.
    pub attached: Option<Attached>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Control,
    Console,
    Terminal,
    QemuStderr,
    Stdin,
    Stdout,
    Stderr,
    Signals,
    Attached,
}

pub struct Relay<'a> {
    vm: Vm,
    signals: &'a mut Signals,
    forward: bool,
    /// Held while the program has our terminal.
    raw: Option<terminal::Raw>,
    /// ESCAPE keys typed in a row.
    escapes: u32,
    console: Console,
    tty: bool,
    stdout: Output<'a>,
    stderr: Output<'a>,
    watched: Watched<'a>,
    keys: Option<Keys<'a>>,
    attached: Option<Attached>,
    decoder: Decoder,
    to_guest: Vec<u8>,
    to_terminal: Vec<u8>,
    window: Window,
    stdin_open: bool,
    console_open: bool,
    qemu_said: Vec<u8>,
    qemu_stderr_open: bool,
    interrupts: u32,
    started: Instant,
    ready: Option<Instant>,
    ended: Option<(u32, Instant)>,
    time_limit: Option<Instant>,
    silence_limit: Option<Duration>,
    last_output: Instant,
    boot_limit: Instant,
    boot_seconds: u64,
    /// After SIGTERM or SIGHUP: when to end the machine, and with which signal's status.
    grace: Option<(Instant, i32)>,
}

impl<'a> Relay<'a> {
    pub fn new(vm: Vm, signals: &'a mut Signals, options: Options<'a>) -> Self {
        let started = Instant::now();
        Self {
            vm,
            signals,
            forward: options.forward_signals,
            raw: None,
            escapes: 0,
            console: Console::new(options.verbose),
            tty: options.tty,
            stdout: Output::new(options.stdout),
            stderr: Output::new(options.stderr),
            watched: Watched::new(options.watcher),
            decoder: Decoder::default(),
            to_guest: Vec::new(),
            to_terminal: Vec::new(),
            window: Window::default(),
            stdin_open: options.input || options.keys.is_some(),
            keys: options.keys,
            attached: options.attached,
            console_open: true,
            qemu_said: Vec::new(),
            qemu_stderr_open: true,
            interrupts: 0,
            started,
            ready: None,
            ended: None,
            time_limit: options.time_limit.map(|limit| started + limit),
            silence_limit: options.silence_limit,
            last_output: started,
            boot_limit: started + options.boot_limit,
            boot_seconds: options.boot_limit.as_secs(),
            grace: None,
        }
    }

    /// Runs until the program or the machine ends; QEMU has ended when this returns.
    pub fn run(mut self) -> Result<Outcome> {
        let end = loop {
            if let Some((word, _)) = self.ended
                && self.stdout.pending.is_empty()
                && self.stderr.pending.is_empty()
            {
                break End::Program(word);
            }
            if let Some(end) = self.check_clock() {
                break end;
            }
            let ready = self.wait()?;
            if let Some(end) = self.serve(&ready)? {
                break end;
            }
        };
        let boot = self.ready.map(|at| at - self.started);
        let until = self.ended.map_or_else(Instant::now, |(_, at)| at);
        let stall = self.console.stall();
        if let Some(attached) = self.attached.take() {
            attached.finish(&Over { end: end.clone(), stall: stall.clone() });
        }
        Ok(Outcome { end, boot, program: self.ready.map(|at| until - at), stall })
    }

    fn next_deadline(&self) -> Option<Instant> {
        let boot = self.ready.is_none().then_some(self.boot_limit);
        [self.time_limit, boot, self.silence(), self.grace.map(|(at, _)| at)].into_iter().flatten().min()
    }

    /// When the program will have been silent for too long.
    fn silence(&self) -> Option<Instant> {
        let begin = self.ready?.max(self.last_output);
        self.silence_limit.map(|limit| begin + limit)
    }

    fn check_clock(&self) -> Option<End> {
        let now = Instant::now();
        if let Some((at, signal)) = self.grace
            && now >= at
        {
            return Some(End::Interrupted(signal));
        }
        let limits = [self.time_limit, self.silence()];
        if self.ended.is_none() && limits.into_iter().flatten().any(|at| now >= at) {
            return Some(End::TimeLimit);
        }
        if self.ready.is_none() && now >= self.boot_limit {
            return Some(End::Machine {
                why: format!("the kernel did not start init within {} s", self.boot_seconds),
                last_words: self.console.last_words(),
            });
        }
        None
    }

    /// Waits for something to do; leaves out whoever has to wait for another.
    fn wait(&self) -> Result<Vec<Source>> {
        let (mut fds, mut sources) = (Vec::with_capacity(16), Vec::with_capacity(16));
        let mut wanted: Vec<(Source, BorrowedFd<'_>, PollFlags)> = Vec::with_capacity(16);
        let mut add = |source, fd, flags| wanted.push((source, fd, flags));
        let (control, terminal) = (&self.vm.control, &self.vm.terminal);
        let when = |condition: bool, flag: PollFlags| if condition { flag } else { PollFlags::empty() };
        let room = !self.stdout.is_full() && !self.stderr.is_full() && self.ended.is_none();
        add(Source::Control, control.from_guest.as_fd(), when(room, PollFlags::IN));
        add(Source::Control, control.to_guest.as_fd(), when(!self.to_guest.is_empty(), PollFlags::OUT));
        add(Source::Console, self.vm.console.from_guest.as_fd(), when(self.console_open, PollFlags::IN));
        add(Source::QemuStderr, self.vm.stderr.as_fd(), when(self.qemu_stderr_open, PollFlags::IN));
        if self.tty {
            add(Source::Terminal, terminal.from_guest.as_fd(), when(room, PollFlags::IN));
            add(
                Source::Terminal,
                terminal.to_guest.as_fd(),
                when(!self.to_terminal.is_empty(), PollFlags::OUT),
            );
        }
        add(Source::Stdin, rustix::stdio::stdin(), when(self.wants_input(), PollFlags::IN));
        for (source, output) in [(Source::Stdout, &self.stdout), (Source::Stderr, &self.stderr)] {
            if let Sink::Fd(fd) = output.sink {
                add(source, fd, when(!output.pending.is_empty(), PollFlags::OUT));
            }
        }
        for fd in self.signals.fds() {
            add(Source::Signals, fd, PollFlags::IN);
        }
        self.attached.iter().flat_map(Attached::fds).for_each(|(fd, flags)| add(Source::Attached, fd, flags));
        for (source, fd, flags) in wanted.into_iter().filter(|(.., flags)| !flags.is_empty()) {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        let timeout = self.next_deadline().map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e).context("poll"),
        }
        let mut ready: Vec<Source> = Vec::new();
        for (source, fd) in sources.into_iter().zip(&fds) {
            if !fd.revents().is_empty() && !ready.contains(&source) {
                ready.push(source);
            }
        }
        Ok(ready)
    }

    fn wants_input(&self) -> bool {
        let room = if self.tty { self.to_terminal.len() < INPUT_FRAME } else { self.window.has_room() };
        self.stdin_open && self.ready.is_some() && self.ended.is_none() && room
    }

    fn serve(&mut self, ready: &[Source]) -> Result<Option<End>> {
        for source in ready {
            let end = match source {
                Source::Signals => self.serve_signals(),
                Source::Control => self.serve_control()?,
                Source::Console => {
                    self.console_open = self.read_console();
                    None
                }
                Source::QemuStderr => {
                    self.read_qemu_stderr();
                    None
                }
                Source::Terminal => {
                    write_some(&mut self.vm.terminal.to_guest, &mut self.to_terminal)?;
                    self.read_terminal();
                    None
                }
                Source::Stdin => self.read_stdin()?,
                Source::Attached => {
                    self.attach(Attached::serve);
                    None
                }
                Source::Stdout => {
                    if self.stdout.flush_some()? {
                        ToGuest::StdoutClosed.encode(&mut self.to_guest);
                    }
                    None
                }
                Source::Stderr => {
                    if self.stderr.flush_some()? {
                        ToGuest::StderrClosed.encode(&mut self.to_guest);
                    }
                    None
                }
            };
            if end.is_some() {
                return Ok(end);
            }
        }
        Ok(None)
    }

    fn serve_signals(&mut self) -> Option<End> {
        for signal in self.signals.take() {
            if signal == SIGWINCH {
                if self.tty && self.ready.is_some() {
                    self.send_window_size();
                }
                continue;
            }
            if !self.forward || self.ready.is_none() || self.ended.is_some() {
                // No program (yet, any more) that could take it.
                if signal != SIGUSR1 && signal != SIGUSR2 {
                    return Some(End::Interrupted(signal));
                }
                continue;
            }
            if signal == SIGINT {
                self.interrupts += 1;
                if self.interrupts >= PATIENCE {
                    return Some(End::Interrupted(signal));
                }
            }
            if (signal == SIGTERM || signal == SIGHUP) && self.grace.is_none() {
                self.grace = Some((Instant::now() + GRACE, signal));
            }
            ToGuest::Signal(signal as u8).encode(&mut self.to_guest);
        }
        None
    }

    fn serve_control(&mut self) -> Result<Option<End>> {
        write_some(&mut self.vm.control.to_guest, &mut self.to_guest)?;
        if self.ended.is_some() || self.stdout.is_full() || self.stderr.is_full() {
            return Ok(None);
        }
        let mut buffer = [0u8; 16 << 10];
        let n = match self.vm.control.from_guest.read(&mut buffer) {
            Ok(0) => return self.machine_gone().map(Some),
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock || e.kind() == ErrorKind::Interrupted => {
                return Ok(None);
            }
            Err(e) => return Err(e).context("cannot read the machine's control port"),
        };
        let mut frames = Vec::new();
        if let Err(garbled) = self.decoder.take(&buffer[..n], &mut frames) {
            return Ok(Some(End::Machine {
                why: garbled.to_string(),
                last_words: self.console.last_words(),
            }));
        }
        for frame in frames {
            self.take_frame(frame)?;
        }
        Ok(None)
    }

    fn take_frame(&mut self, frame: FromGuest) -> Result<()> {
        match frame {
            FromGuest::Ready => {
                self.ready = Some(Instant::now());
                if self.tty {
                    // Not earlier: until now Ctrl-C was for us.
                    self.raw = Some(terminal::Raw::enter()?);
                    self.send_window_size();
                }
                self.attach(Attached::ready);
            }
            FromGuest::Consumed(bytes) => self.window.acknowledged(bytes as usize),
            FromGuest::Stdout(data) => {
                self.last_output = Instant::now();
                self.stdout.take(&data);
            }
            FromGuest::Stderr(data) => self.stderr.take(&data),
            FromGuest::Watched(data) => {
                self.watched.take(&data);
                self.attach(|attached, _| attached.take_piece(&data));
            }
            FromGuest::Look => self.attach(Attached::take_look),
            FromGuest::WatchEnded(why) => self.attach(|attached, to_guest| attached.take_end(&why, to_guest)),
            FromGuest::Ended(word) => {
                self.ended = Some((word, Instant::now()));
                self.attach(|attached, _| attached.ended());
                if self.tty {
                    // The guest has drained its terminal before it said so; what it wrote is in the pipe.
                    while self.read_terminal() {}
                }
            }
        }
        Ok(())
    }

    /// Has those who watch served; what they want of the guest is sent to it.
    fn attach(&mut self, serve: impl FnOnce(&mut Attached, &mut Vec<u8>)) {
        if let Some(attached) = &mut self.attached {
            serve(attached, &mut self.to_guest);
        }
    }

    fn send_window_size(&mut self) {
        let (rows, cols) = terminal::window_size();
        ToGuest::WindowSize { rows, cols }.encode(&mut self.to_guest);
    }

    fn read_console(&mut self) -> bool {
        let mut buffer = [0u8; 16 << 10];
        match self.vm.console.from_guest.read(&mut buffer) {
            Ok(0) => false,
            Ok(n) => {
                self.console.take(&buffer[..n]);
                true
            }
            Err(e) => e.kind() == ErrorKind::WouldBlock || e.kind() == ErrorKind::Interrupted,
        }
    }

    fn read_qemu_stderr(&mut self) {
        let mut buffer = [0u8; 4096];
        match self.vm.stderr.read(&mut buffer) {
            Ok(0) => self.qemu_stderr_open = false,
            Ok(n) => self.qemu_said.extend_from_slice(&buffer[..n]),
            Err(_) => {}
        }
    }

    /// Whether there was anything.
    fn read_terminal(&mut self) -> bool {
        let mut buffer = [0u8; 16 << 10];
        match self.vm.terminal.from_guest.read(&mut buffer) {
            Ok(n) if n > 0 => {
                self.stdout.take(&buffer[..n]);
                true
            }
            _ => false,
        }
    }

    fn read_stdin(&mut self) -> Result<Option<End>> {
        let mut buffer = [0u8; INPUT_FRAME];
        let n = match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Ok(n) => n,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            // EIO: a terminal that has hung up, or we are in its background; either way no input comes.
            Err(rustix::io::Errno::IO | rustix::io::Errno::BADF) => 0,
            Err(e) => return Err(e).context("cannot read stdin"),
        };
        if let Some(keys) = &mut self.keys {
            self.stdin_open = n > 0;
            return Ok(keys(&buffer[..n]).then_some(End::Interrupted(SIGINT)));
        }
        match (n, self.tty) {
            (0, tty) => {
                self.stdin_open = false;
                let end = if tty { ToGuest::Signal(SIGHUP as u8) } else { ToGuest::StdinEnd };
                end.encode(&mut self.to_guest);
            }
            (n, true) => {
                for byte in &buffer[..n] {
                    self.escapes = if *byte == ESCAPE { self.escapes + 1 } else { 0 };
                    if self.escapes == PATIENCE {
                        return Ok(Some(End::Interrupted(SIGINT)));
                    }
                }
                self.to_terminal.extend_from_slice(&buffer[..n]);
            }
            (n, false) => {
                self.window.sent(n);
                ToGuest::Stdin(&buffer[..n]).encode(&mut self.to_guest);
            }
        }
        Ok(None)
    }

    /// QEMU has closed its ports without the program having ended.
    fn machine_gone(&mut self) -> Result<End> {
        while self.console_open && {
            let mut peek = [PollFd::new(&self.vm.console.from_guest, PollFlags::IN)];
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            matches!(poll(&mut peek, Some(&second)), Ok(n) if n > 0)
        } {
            self.console_open = self.read_console();
        }
        let (status, said) = self.vm.wait()?;
        let said = format!("{}{said}", String::from_utf8_lossy(&self.qemu_said));
        Ok(End::Machine { why: describe(status, &said), last_words: self.console.last_words() })
    }
}

/// Writes what the pipe takes now. That nobody reads it any more is noticed by who reads the other one.
fn write_some(pipe: &mut impl Write, pending: &mut Vec<u8>) -> Result<()> {
    if pending.is_empty() {
        return Ok(());
    }
    match pipe.write(pending) {
        Ok(n) => {
            pending.drain(..n);
            Ok(())
        }
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => {
            pending.clear();
            Ok(())
        }
        Err(e) => Err(e).context("cannot write to the machine"),
    }
}
