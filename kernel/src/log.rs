//! The kernel log on COM1: `error!`, `warn!`, `info!`, `debug!`.
//!
//! A line is formatted into a buffer on the stack and written in one piece.
#![forbid(unsafe_code)]

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU8, Ordering};

/// Message levels, numbered as Linux numbers them for `loglevel=`: a message is printed if its level is below the
/// console's.
pub const ERROR: u8 = 3;
pub const WARN: u8 = 4;
pub const INFO: u8 = 6;
pub const DEBUG: u8 = 7;

static CONSOLE_LEVEL: AtomicU8 = AtomicU8::new(7);

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

/// The console's level while it is turned off, and what it goes back to; 0: it is on.
static BEFORE_OFF: AtomicU8 = AtomicU8::new(0);
const OFF: u8 = 1;

/// Sets the console's level, 1 to 8.
pub fn set_level(level: u8) {
    BEFORE_OFF.store(0, Ordering::Relaxed);
    CONSOLE_LEVEL.store(level, Ordering::Relaxed);
}

/// Prints only what is the end of the machine, until `set_on`.
pub fn set_off() {
    let level = CONSOLE_LEVEL.swap(OFF, Ordering::Relaxed);
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

/// One formatted line; what does not fit is cut off.
pub struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Line {
    pub const fn new() -> Line {
        Line { bytes: [0; 256], len: 0 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl Write for Line {
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

/// Formats and prints one line. Called through the macros.
pub fn print(level: u8, message: fmt::Arguments<'_>) {
    if !enabled(level) {
        return;
    }
    let mut line = Line::new();
    let _ = line.write_fmt(format_args!("{message}\r\n"));
    match crate::device::serial::port(0) {
        Some(port) if crate::arch::percpu_ready() => port.write_line(line.as_bytes()),
        _ => crate::device::serial::early_write(line.as_bytes()),
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
