//! The kernel log: `error!`, `warn!`, `info!`, `debug!`.
//!
//! A line is formatted into a buffer on the stack, kept (`kept`, in a `ring`; `text` is how programs see it), and written to COM1 in one piece
//! if the console's level is above its own.
//!
//! Lock order: the log's lock, then, when that is given back, the serial port's. Both are below all others.
#![forbid(unsafe_code)]

pub mod kept;
pub mod ring;
pub mod text;

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Message levels, numbered as Linux numbers them for `loglevel=`: a message is printed if its level is below the
/// console's.
pub const ERROR: u8 = 3;
pub const WARN: u8 = 4;
pub const INFO: u8 = 6;
pub const DEBUG: u8 = 7;

static CONSOLE_LEVEL: AtomicU8 = AtomicU8::new(7);
/// Of messages that programs write without one.
static MESSAGE_LEVEL: AtomicU8 = AtomicU8::new(WARN);
/// The least that programs may set the console's level to, and what it is when they turn the console off.
static LEAST_LEVEL: AtomicU8 = AtomicU8::new(1);
/// The console's level as it was before any word of the command line. Only shown.
static OWN_LEVEL: AtomicU8 = AtomicU8::new(7);
/// As kernel.printk has them in a line.
static LEVELS: [&AtomicU8; 4] = [&CONSOLE_LEVEL, &MESSAGE_LEVEL, &LEAST_LEVEL, &OWN_LEVEL];

/// Sets the console's level from the words `quiet`, `debug` and `loglevel=N` of the kernel command line.
pub fn configure(command_line: &str) {
    for word in command_line.split_ascii_whitespace() {
        let level = match word {
            "quiet" => Some(4),
            "debug" => Some(8),
            _ => word.strip_prefix("loglevel=").and_then(|n| n.parse().ok()),
        };
        if let Some(level) = level {
            CONSOLE_LEVEL.store(level, Ordering::Relaxed);
        }
    }
}

/// The levels of kernel.printk: the console's, that of messages without one, the least that the console may be set to, the console's own.
pub fn levels() -> [u8; 4] {
    LEVELS.map(|level| level.load(Ordering::Relaxed))
}

/// Sets as many of these as are given.
pub fn set_levels(to: &[u8]) {
    LEVELS.iter().zip(to).for_each(|(level, to)| level.store(*to, Ordering::Relaxed));
}

/// The level of messages that programs write without one.
pub fn message_level() -> u8 {
    MESSAGE_LEVEL.load(Ordering::Relaxed)
}

/// The console's level while it is turned off, and what it goes back to; 0: it is on.
static BEFORE_OFF: AtomicU8 = AtomicU8::new(0);

/// Sets the console's level, 1 to 8, but not below the least.
pub fn set_level(level: u8) {
    BEFORE_OFF.store(0, Ordering::Relaxed);
    CONSOLE_LEVEL.store(level.max(LEAST_LEVEL.load(Ordering::Relaxed)), Ordering::Relaxed);
}

/// Prints only what is the end of the machine, until `set_on`.
pub fn set_off() {
    let level = CONSOLE_LEVEL.swap(LEAST_LEVEL.load(Ordering::Relaxed), Ordering::Relaxed);
    let _ = BEFORE_OFF.compare_exchange(0, level, Ordering::Relaxed, Ordering::Relaxed);
}

/// Prints again what was printed before `set_off`.
pub fn set_on() {
    match BEFORE_OFF.swap(0, Ordering::Relaxed) {
        0 => {}
        level => CONSOLE_LEVEL.store(level, Ordering::Relaxed),
    }
}

/// True if messages of `level` are printed.
pub fn enabled(level: u8) -> bool {
    level < CONSOLE_LEVEL.load(Ordering::Relaxed)
}

/// One formatted line of at most N bytes; what does not fit is cut off.
pub struct Line<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Line<N> {
    pub const fn new() -> Self {
        Line { bytes: [0; N], len: 0 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl<const N: usize> Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            match self.bytes.get_mut(self.len) {
                Some(place) => *place = byte,
                None => return Ok(()),
            }
            self.len += 1;
        }
        Ok(())
    }
}

/// A kernel panic is under way.
fn is_panicking() -> bool {
    #[cfg(target_os = "none")]
    return crate::panic::in_progress();
    #[cfg(not(target_os = "none"))]
    false
}

/// The facility of the kernel's messages.
const KERNEL: u8 = 0;

/// Formats one line, keeps it and prints it. Called through the macros, with any lock held.
pub fn print(level: u8, message: fmt::Arguments<'_>) {
    let mut line = Line::<256>::new();
    let _ = line.write_fmt(format_args!("{message}\r\n"));
    let text = line.as_bytes();
    kept::keep(KERNEL, level, text.strip_suffix(b"\r\n").unwrap_or(text));
    if enabled(level) {
        write(text);
    }
}

/// Prints one line and does not keep it: what is said at every call of programs would push out all else.
pub fn tell(level: u8, message: fmt::Arguments<'_>) {
    if enabled(level) {
        let mut line = Line::<256>::new();
        let _ = line.write_fmt(format_args!("{message}\r\n"));
        write(line.as_bytes());
    }
}

/// A virtio console has the messages, and no serial port.
static IS_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Messages are shown elsewhere from now on, and on the serial port only if the command line names one as a console. What is said in a panic goes there in any case.
pub fn leave_serial(command_line: &str) {
    let is_named = command_line.split_ascii_whitespace().any(|word| word.starts_with("console=ttyS"));
    IS_ELSEWHERE.store(!is_named, Ordering::Relaxed);
}

/// They are shown nowhere else any more.
pub fn return_to_serial() {
    IS_ELSEWHERE.store(false, Ordering::Relaxed);
}

/// Writes to the console, from anywhere.
pub fn write(text: &[u8]) {
    if IS_ELSEWHERE.load(Ordering::Relaxed) && !is_panicking() {
        return;
    }
    match crate::device::serial::port(0) {
        Some(port) if crate::arch::percpu_ready() => port.write_line(text),
        _ => crate::device::serial::early_write(text),
    }
}

#[macro_export]
macro_rules! error { ($($t:tt)*) => { $crate::log::print($crate::log::ERROR, format_args!($($t)*)) } }
#[macro_export]
macro_rules! warn { ($($t:tt)*) => { $crate::log::print($crate::log::WARN, format_args!($($t)*)) } }
#[macro_export]
macro_rules! info { ($($t:tt)*) => { $crate::log::print($crate::log::INFO, format_args!($($t)*)) } }
#[macro_export]
macro_rules! debug { ($($t:tt)*) => { $crate::log::print($crate::log::DEBUG, format_args!($($t)*)) } }
