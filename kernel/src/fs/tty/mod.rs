//! Terminals on serial ports and virtio consoles, and pseudo-terminals: line discipline, job control, and the devices tty, console, ttyS0 to ttyS3,
//! hvc0 to hvc7, ptmx and pts/N.
//!
//! Received bytes come in thread context from the drivers (`receive`), which may run in an idle CPU and so must not sleep:
//! it takes spin locks only, and echoes when nobody is writing; a writer echoes what piled up meanwhile.
//!
//! Lock order: `writing` (sleeping) → `settings` → `input` → `echo`; job-control state is innermost.
#![forbid(unsafe_code)]

mod control;
pub mod devpts;
mod input;
mod job;
mod open;
mod output;
mod packets;
pub mod pty;
mod read;
mod settings;
mod termios;

pub use open::{open_console, open_current, open_hvc, open_serial};

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use crate::lock_order as level;
use sync::rcu::{RcuArc, RcuHead};
use sync::{Mutex, SpinLock, TryVec, lock_class, try_arc};

use crate::device::serial;
use crate::device::virtio::console::{self, Console, Ends};
use crate::errno::Result;
use crate::fs::caller;
use crate::fs::file::async_io::{AsyncQueues, running_process};
use crate::fs::file::poll::PollQueue;
use crate::fs::vfs::device_number;
use input::{Effects, Input};
use termios::Termios;

lock_class! {
    static SETTINGS: LockClass = ("tty settings", level::TtySettings);
    static INPUT: LockClass = ("tty input", level::TtyInput);
    static ECHO: LockClass = ("tty echo", level::TtyEcho);
    static WRITING: LockClass = ("tty output", level::TtyOutput);
}

/// What is at the other end.
enum Line {
    /// A serial port.
    Port(usize),
    /// A virtio console.
    Console(&'static Console, usize),
    Pseudo(pty::Pty),
}

pub struct Tty {
    line: Line,
    settings: SpinLock<Termios, level::TtySettings>,
    /// What of the settings stays as it is (TIOCSLCKTRMIOS).
    locked: SpinLock<Termios, level::TtySettings>,
    /// Rows, columns, and two sizes in pixels that nobody uses.
    window: SpinLock<[u16; 4], level::TtySettings>,
    input: SpinLock<Input, level::TtyInput>,
    /// Echo that found somebody writing.
    echo: SpinLock<Vec<u8>, level::TtyEcho>,
    /// Held by whoever writes to the port; the column of the cursor.
    writing: Mutex<usize, level::TtyOutput>,
    /// Output is stopped (^S, or held).
    stopped: AtomicBool,
    /// A program has stopped it (TCOOFF): no character starts it.
    held: AtomicBool,
    /// Nobody opens it any more but the administrator (TIOCEXCL).
    exclusive: AtomicBool,
    /// Opens of a port: the last close ends what TIOCEXCL said.
    opens: AtomicU32,
    /// A write came to its end for want of room: whoever makes room tells so.
    lacked_room: AtomicBool,
    readable: PollQueue,
    writable: PollQueue,
    /// Session whose controlling terminal this is, and its foreground group; 0: none.
    session: AtomicU32,
    foreground: AtomicU32,
    /// Rises when the terminal is hung up; older opens then read end of file.
    hangups: AtomicU32,
    rcu: RcuHead,
}

sync::rcu_object!(Tty);

const PORTS: usize = 4;

static TTYS: [RcuArc<Tty>; PORTS] = [const { RcuArc::empty() }; PORTS];
static HVCS: [RcuArc<Tty>; console::MOST] = [const { RcuArc::empty() }; console::MOST];

/// First device number of the virtio consoles' terminals, as Linux has it.
pub const HVC_MAJOR: u64 = 229;

/// What /dev/console is: a port, or `HVC` and a console's number.
static CONSOLE: AtomicU32 = AtomicU32::new(0);
const HVC: u32 = 1 << 16;

static ENDS: Ends = Ends {
    receive: |n, bytes| with_console(n, |tty| tty.receive(bytes)),
    room: |n| with_console(n, Tty::wake_writers),
    resized: |n, rows, columns| with_console(n, |tty| tty.resize([rows, columns, 0, 0])),
    // Who has it open finds an end; nobody writes any more.
    failed: |n| with_console(n, Tty::cut_off),
};

fn with_console(n: usize, f: impl FnOnce(&Tty)) {
    if let Some(tty) = find_console(n) {
        f(&tty);
    }
}

/// Makes a terminal for every port and console there is. The last `console=ttySn` or `console=hvcn` of the command line says which one /dev/console is; one
/// that is not there is passed over.
pub fn init() -> Result {
    for (n, slot) in TTYS.iter().enumerate() {
        let Some(port) = serial::port(n) else { continue };
        slot.swap(Some(try_arc(Tty::new(Line::Port(n), Termios::DEFAULT))?));
        port.set_receive(receive);
    }
    for (n, slot) in HVCS.iter().enumerate() {
        let Some(console) = console::console(n) else { continue };
        slot.swap(Some(try_arc(Tty::new(Line::Console(console, n), Termios::CONSOLE))?));
        console.attach(&ENDS);
    }
    let words = crate::arch::command_line().split_ascii_whitespace();
    let mut named = words.filter_map(|word| of_name(word.strip_prefix("console=")?));
    if let Some(last) = named.rfind(|which| find_named(*which).is_some()) {
        CONSOLE.store(last, Relaxed);
    }
    Ok(())
}

/// What a word after `console=` names, in the form of `CONSOLE`.
fn of_name(name: &str) -> Option<u32> {
    let name = name.split(',').next()?;
    let number = |prefix| name.strip_prefix(prefix)?.parse::<u16>().ok().map(u32::from);
    number("ttyS").or_else(|| Some(number("hvc")? | HVC))
}

fn find_named(which: u32) -> Option<Arc<Tty>> {
    let n = (which & !HVC) as usize;
    if which & HVC != 0 { find_console(n) } else { find(n) }
}

/// Terminal of console `n`, if there is one.
pub fn find_console(n: usize) -> Option<Arc<Tty>> {
    let read = sync::rcu::read();
    HVCS.get(n)?.get(&read)
}

/// The virtio console that /dev/console is, if it is one: the kernel's messages go there.
pub fn message_console() -> Option<Arc<Tty>> {
    let which = CONSOLE.load(Relaxed);
    if which & HVC != 0 { find_named(which) } else { None }
}

/// The terminal that /dev/console is: the beginning of its name, and its number.
pub fn console_name() -> (&'static str, u32) {
    let which = CONSOLE.load(Relaxed);
    (if which & HVC != 0 { "hvc" } else { "ttyS" }, which & !HVC)
}

/// Terminal of port `n`, if there is one.
pub fn find(n: usize) -> Option<Arc<Tty>> {
    let read = sync::rcu::read();
    TTYS.get(n)?.get(&read)
}

/// Bytes from port `n`. In a thread or the idle loop, no lock held.
fn receive(n: usize, bytes: &[u8]) {
    if let Some(tty) = find(n) {
        tty.receive(bytes);
    }
}

impl Tty {
    fn new(line: Line, settings: Termios) -> Tty {
        Tty {
            line,
            settings: SpinLock::new(settings, &SETTINGS),
            locked: SpinLock::new(Termios::NONE, &SETTINGS),
            window: SpinLock::new([0; 4], &SETTINGS),
            input: SpinLock::new(Input::new(), &INPUT),
            echo: SpinLock::new(Vec::new(), &ECHO),
            writing: Mutex::new(0, &WRITING),
            stopped: AtomicBool::new(false),
            held: AtomicBool::new(false),
            exclusive: AtomicBool::new(false),
            opens: AtomicU32::new(0),
            lacked_room: AtomicBool::new(false),
            readable: PollQueue::new(),
            writable: PollQueue::new(),
            session: AtomicU32::new(0),
            foreground: AtomicU32::new(0),
            hangups: AtomicU32::new(0),
            rcu: RcuHead::new(),
        }
    }

    /// Device number, as in `tty_nr` of /proc/PID/stat.
    #[expect(clippy::arithmetic_side_effects, reason = "ports are few")]
    pub fn number(&self) -> u64 {
        match &self.line {
            Line::Port(n) => device_number::number(4, 64 + *n as u64),
            Line::Console(_, n) => device_number::number(HVC_MAJOR, *n as u64),
            Line::Pseudo(pty) => pty.device(),
        }
    }

    /// Is it a pseudo-terminal whose master is gone, or a console whose device has failed?
    fn is_ended(&self) -> bool {
        match &self.line {
            Line::Pseudo(pty) => pty.is_ended(),
            Line::Console(console, _) => console.has_failed(),
            Line::Port(_) => false,
        }
    }

    /// Must a writer wait: output is stopped, or nobody has taken what was written?
    fn is_blocked(&self) -> bool {
        self.stopped.load(SeqCst) || self.is_full()
    }

    /// Has nobody taken what was written?
    fn is_full(&self) -> bool {
        match &self.line {
            Line::Pseudo(pty) => pty.is_full(),
            Line::Console(console, _) => !console.has_room(),
            Line::Port(_) => false,
        }
    }

    pub fn foreground(&self) -> u32 {
        self.foreground.load(Relaxed)
    }

    /// The foreground group, to be told of something; 0: none. A group that has ended leaves its number behind, which may be another's by now.
    fn told(&self) -> u32 {
        let (session, group) = (self.session.load(SeqCst), self.foreground());
        if caller::is_group_of(group, session) { group } else { 0 }
    }

    fn settings(&self) -> Termios {
        *self.settings.lock()
    }

    fn receive(&self, bytes: &[u8]) {
        let settings = self.settings();
        let mut all = Effects::default();
        let mut signals = 0u32;
        {
            let mut input = self.input.lock();
            for &byte in bytes {
                let mut effects = Effects::default();
                input.receive(byte, &settings, &mut effects);
                let _ = all.echo.try_extend_from_slice(&effects.echo);
                all.readable |= effects.readable;
                all.stop = effects.stop.or(all.stop);
                all.flush |= effects.flush;
                if let Some(signal) = effects.signal {
                    signals |= 1u32.wrapping_shl(signal);
                }
            }
        }
        // Each once, as they would wait: these are standard signals.
        for signal in (1..32).filter(|signal| signals.wrapping_shr(*signal) & 1 != 0) {
            match self.line {
                // What was typed may be handled in the idle loop.
                Line::Port(_) | Line::Console(..) => caller::signal_group_soon(self.told(), signal),
                Line::Pseudo(_) => caller::signal_group(self.told(), signal),
            }
        }
        if all.flush
            && let Line::Pseudo(pty) = &self.line
        {
            pty.tell(packets::FLUSH_READ | packets::FLUSH_WRITE, 0);
        }
        if let Some(stop) = all.stop
            && (stop || !self.held.load(SeqCst))
        {
            self.set_stopped(stop);
        }
        if !all.echo.is_empty() {
            let _ = self.echo.lock().try_extend_from_slice(&all.echo);
            self.try_echo();
        }
        if all.readable {
            self.readable.wake_for_io();
        } else if all.flush {
            self.readable.wake();
        }
    }

    /// Output stops, or goes on.
    fn set_stopped(&self, stop: bool) {
        if self.stopped.swap(stop, SeqCst) == stop {
            return;
        }
        if let Line::Pseudo(pty) = &self.line {
            match stop {
                true => pty.tell(packets::STOP, packets::START),
                false => pty.tell(packets::START, packets::STOP),
            }
        }
        self.wake_writers();
    }

    /// TCOOFF and TCOON.
    fn hold(&self, hold: bool) {
        if self.held.swap(hold, SeqCst) != hold {
            self.set_stopped(hold);
        }
    }

    /// Drops what nobody has read (TCIFLUSH).
    fn flush_input(&self) {
        self.input.lock().flush();
        if let Line::Pseudo(pty) = &self.line {
            pty.tell(packets::FLUSH_READ, 0);
            pty.input_taken();
        }
    }

    /// TCOFLUSH: what was written is at the other end when write returns, so there is nothing to drop.
    fn flush_output(&self) {
        if let Line::Pseudo(pty) = &self.line {
            pty.tell(packets::FLUSH_WRITE, 0);
        }
    }

    /// The window has another size. Where nobody may sleep.
    fn resize(&self, window: [u16; 4]) {
        if core::mem::replace(&mut *self.window.lock(), window) != window {
            caller::signal_group_soon(self.told(), control::SIGWINCH);
        }
    }

    /// There may be room for output.
    fn wake_writers(&self) {
        self.writable.wake();
        if self.lacked_room.load(Relaxed) && self.lacked_room.swap(false, SeqCst) {
            self.writable.signal_owners();
        }
    }

    /// Input is told by signal, and output where a write lacked room; to the foreground group if nobody else is named.
    fn async_queues(&self) -> AsyncQueues<'_> {
        let owner = match self.foreground() {
            0 => running_process(),
            group => (caller::OwnerKind::Group, group),
        };
        AsyncQueues { input: Some(&self.readable), output: Some(&self.writable), owner: Some(owner) }
    }

    /// No session has it any more. Returns the foreground group, which is to be told.
    fn release(&self) -> u32 {
        let group = self.told();
        self.session.store(0, SeqCst);
        self.foreground.store(0, SeqCst);
        group
    }

    /// The leader of its session ends. A line is hung up by that; a pseudo-terminal is not, for its master is still there.
    /// Returns the foreground group, which is to be told.
    pub fn disassociate(&self) -> u32 {
        let group = self.release();
        if !matches!(self.line, Line::Pseudo(_)) {
            self.cut_off();
        }
        group
    }

    /// Open descriptors read end of file.
    fn cut_off(&self) {
        self.hangups.fetch_add(1, SeqCst);
        self.input.lock().flush();
        self.held.store(false, SeqCst);
        self.stopped.store(false, SeqCst);
        self.readable.stop_signals();
        self.writable.stop_signals();
        self.readable.wake();
        self.writable.wake();
    }

    /// vhangup(2), or the end of a pseudo-terminal.
    pub fn hang_up(&self) {
        let (session, group) = (self.session.load(SeqCst), self.release());
        self.cut_off();
        caller::drop_session_tty(session);
        if session != group {
            caller::signal_process(session, 1);
            caller::signal_process(session, 18);
        }
        caller::signal_group(group, 1); // SIGHUP
        caller::signal_group(group, 18); // SIGCONT
    }
}

#[cfg(test)]
mod tests;
