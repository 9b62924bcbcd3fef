//! The line discipline's output side: OPOST and its kin, and the echo.
//!
//! Lock order: `writing` → `settings`, `echo`, a pseudo-terminal's `output`; one of them at a time.
#![forbid(unsafe_code)]

use core::mem::take;
use core::sync::atomic::Ordering::Relaxed;

use super::termios::{OCRNL, OLCUC, ONLCR, ONLRET, ONOCR, OPOST, Termios, XTABS};
use super::{Line, Tty};
use crate::device::serial;
use crate::errno::{EAGAIN, EIO, Result};
use crate::fs::file::File;
use crate::fs::file::buffer::Input;
use crate::lock_order as level;
use sync::MutexGuard;

/// Bytes of a program that are processed at a time; processing makes at most eight of one.
const PIECE: usize = 128;

/// Bytes on their way to the port.
struct Cooked {
    bytes: [u8; PIECE * 8],
    len: usize,
}

impl Cooked {
    #[expect(clippy::arithmetic_side_effects, reason = "the length is checked against the array")]
    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.len) {
            *slot = byte;
            self.len += 1;
        }
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a column counts bytes: 2^64 of them are never written"
    )]
    fn cook(&mut self, byte: u8, t: &Termios, column: &mut usize) {
        if !t.output(OPOST) {
            self.push(byte);
            return;
        }
        let byte = if t.output(OLCUC) { byte.to_ascii_uppercase() } else { byte };
        match byte {
            b'\n' => {
                if t.output(ONLCR) {
                    self.push(b'\r');
                }
                if t.output(ONLCR) || t.output(ONLRET) {
                    *column = 0;
                }
                self.push(b'\n');
            }
            b'\r' if t.output(OCRNL) => self.push(b'\n'),
            b'\r' if t.output(ONOCR) && *column == 0 => {}
            b'\r' => {
                *column = 0;
                self.push(b'\r');
            }
            b'\t' if t.output & XTABS == XTABS => {
                for _ in 0..8 - *column % 8 {
                    self.push(b' ');
                }
                *column += 8 - *column % 8;
            }
            8 => {
                *column = column.saturating_sub(1);
                self.push(8);
            }
            _ => {
                if byte >= 0x20 && byte & 0xc0 != 0x80 {
                    *column += 1;
                }
                self.push(byte);
            }
        }
    }
}

impl Tty {
    /// Whoever sends has locked the line, and shows it.
    fn send(&self, bytes: &[u8], t: &Termios, line: &mut MutexGuard<'_, usize, level::TtyOutput>) {
        let (column, order) = line.split();
        for piece in bytes.chunks(PIECE) {
            let mut cooked = Cooked { bytes: [0; PIECE * 8], len: 0 };
            for &byte in piece {
                cooked.cook(byte, t, column);
            }
            let cooked = cooked.bytes.get(..cooked.len).unwrap_or(&[]);
            match &self.line {
                Line::Port(n) => serial::port(*n).into_iter().for_each(|port| port.write(cooked)),
                // Where there is no room what is echoed is lost, as on Linux; who writes has looked.
                Line::Console(console, _) => drop(console.append(cooked)),
                Line::Pseudo(pty) => pty.put(cooked, order),
            }
        }
    }

    /// Writes all that `from` has, unless output is stopped or the writer is killed.
    pub(super) fn write(&self, file: &File, from: &mut Input<'_>) -> Result<usize> {
        let written = self.write_pieces(file, from);
        self.send_rest();
        written
    }

    /// What was written goes to the device.
    fn send_rest(&self) {
        if matches!(self.line, Line::Console(..)) {
            self.flush(&mut self.writing.lock());
        }
    }

    /// The same, by who sends.
    fn flush(&self, _: &mut MutexGuard<'_, usize, level::TtyOutput>) {
        if let Line::Console(console, _) = &self.line {
            console.flush();
        }
    }

    /// The kernel's messages, without OPOST. In a thread of its own, which waits as long as there is no room. False: the console has failed.
    pub fn write_message(&self, line: &[u8]) -> bool {
        for piece in line.chunks(PIECE) {
            loop {
                let room = || (!self.is_full() || self.is_ended()).then_some(());
                if self.writable.wait(None, room).is_err() || self.is_ended() {
                    return false;
                }
                let mut writing = self.writing.lock();
                if !self.is_full() {
                    let raw = Termios { output: 0, ..Termios::CONSOLE };
                    self.send(piece, &raw, &mut writing);
                    break;
                }
            }
        }
        self.send_rest();
        true
    }

    fn write_pieces(&self, file: &File, from: &mut Input<'_>) -> Result<usize> {
        let mut buffer = [0; PIECE];
        let mut kept = None;
        while from.left() > 0 {
            if self.is_blocked() {
                if file.nonblocking() {
                    self.lacked_room.store(true, Relaxed);
                    return if from.done() > 0 { Ok(from.done()) } else { Err(EAGAIN) };
                }
                if self.is_ended() {
                    return Err(EIO);
                }
                self.send_rest();
                if kept.is_none() {
                    // Closed meanwhile it keeps its terminal.
                    kept = Some(file.keep_open()?);
                }
                let woken =
                    self.writable.wait(None, || (!self.is_blocked() || self.is_ended()).then_some(()));
                if let Err(e) = woken {
                    return if from.done() > 0 { Ok(from.done()) } else { Err(e) };
                }
            }
            // Copied before the lock is taken: a fault may sleep for long.
            let n = from.take(&mut buffer);
            if n == 0 {
                break;
            }
            let settings = self.settings();
            loop {
                let mut line = self.writing.lock();
                if !matches!(self.line, Line::Console(..)) || !self.is_full() {
                    self.send(buffer.get(..n).unwrap_or(&[]), &settings, &mut line);
                    break;
                }
                // Another writer has taken the room meanwhile.
                drop(line);
                let woken = self.writable.wait(None, || (!self.is_full() || self.is_ended()).then_some(()));
                if let Err(e) = woken {
                    let sent = from.done().saturating_sub(n);
                    return if sent > 0 { Ok(sent) } else { Err(e) };
                }
            }
            if matches!(self.line, Line::Console(..)) && self.is_ended() {
                return Err(EIO);
            }
            self.try_echo();
            if crate::sched::give_way() {
                break;
            }
        }
        from.result()
    }

    /// Writes the special character `which`, as it is. Zero switches one off.
    pub(super) fn send_special(&self, which: usize) {
        let raw = Termios { output: 0, ..self.settings() };
        let character = raw.char(which);
        if character != 0 {
            let mut line = self.writing.lock();
            self.send(&[character], &raw, &mut line);
            self.flush(&mut line);
        }
    }

    /// Writes the echo that has piled up, unless somebody is writing: then that one does it. Never sleeps for a lock.
    pub(super) fn try_echo(&self) {
        while !self.echo.lock().is_empty() {
            let Some(mut line) = self.writing.try_lock() else { return };
            let settings = *self.settings.lock_in(line.held());
            let bytes = take(&mut *self.echo.lock_in(line.held()));
            self.send(&bytes, &settings, &mut line);
            self.flush(&mut line);
        }
    }
}
