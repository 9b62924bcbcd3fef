//! The line discipline's input side: what becomes of a received byte, and what a read finds.
//!
//! In canonical mode a line is gathered in `line`, where it can be edited, and moves to `ready` when it is complete; `lines` holds the
//! lengths of complete lines (an end of file is a line without its character). Otherwise bytes go to `ready` at once.
//! No locks of its own: `Tty::input` guards this.
#![forbid(unsafe_code)]

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use sync::TryVec;

use super::termios::*;

/// Bytes that wait for a reader at most; what comes after them is lost, as on Linux (there it is 4096).
pub const ROOM: usize = 1 << 16;
/// Longest line in canonical mode, with its end.
const LINE_MAX: usize = 4095;

/// What the receiver has to do beyond storing.
#[derive(Default)]
pub struct Effects {
    /// To be written to the terminal as it stands.
    pub echo: Vec<u8>,
    /// Signal for the foreground group.
    pub signal: Option<u32>,
    /// Flush what the program has written and what it has not read.
    pub flush: bool,
    /// Stop or go on with output.
    pub stop: Option<bool>,
    pub readable: bool,
}

#[derive(Default)]
pub struct Input {
    ready: VecDeque<u8>,
    lines: VecDeque<usize>,
    line: Vec<u8>,
    /// The next byte is taken as it is (^V).
    literal: bool,
}

impl Input {
    pub const fn new() -> Self {
        Input { ready: VecDeque::new(), lines: VecDeque::new(), line: Vec::new(), literal: false }
    }

    /// Bytes that a read would find.
    pub fn available(&self, canonical: bool) -> usize {
        match canonical {
            true => self.lines.front().copied().unwrap_or(0),
            false => self.ready.len(),
        }
    }

    /// FIONREAD.
    pub fn pending(&self) -> usize {
        self.ready.len()
    }

    /// Would a read return?
    pub fn has_line(&self) -> bool {
        !self.lines.is_empty()
    }

    pub fn flush(&mut self) {
        self.ready.clear();
        self.lines.clear();
        self.line.clear();
        self.literal = false;
    }

    /// The mode changes: an unfinished line becomes readable, or what is there becomes a line.
    pub fn set_canonical(&mut self, canonical: bool) {
        if canonical {
            self.lines.clear();
            if !self.ready.is_empty() && self.lines.try_reserve(1).is_ok() {
                self.lines.push_back(self.ready.len());
            }
        } else {
            self.lines.clear();
            if self.ready.try_reserve(self.line.len()).is_ok() {
                self.ready.extend(self.line.drain(..));
            }
        }
    }

    /// Takes up to `to.len()` bytes: of one line in canonical mode.
    #[expect(clippy::arithmetic_side_effects, reason = "compared just before")]
    pub fn take(&mut self, to: &mut [u8], canonical: bool) -> usize {
        let n = to.len().min(self.available(canonical));
        for (slot, byte) in to.iter_mut().zip(self.ready.drain(..n)) {
            *slot = byte;
        }
        if canonical {
            match self.lines.front_mut() {
                Some(left) if *left > n => *left -= n,
                Some(_) => {
                    self.lines.pop_front();
                }
                None => {}
            }
        }
        n
    }

    /// A byte from the line.
    pub fn receive(&mut self, byte: u8, t: &Termios, effects: &mut Effects) {
        let mut byte = if t.input(ISTRIP) { byte & 0x7f } else { byte };
        if self.literal {
            self.literal = false;
            self.store(byte, t, effects);
            return;
        }
        if t.input(IXON) {
            if t.is(byte, VSTOP) {
                effects.stop = Some(true);
                return;
            }
            if t.is(byte, VSTART) {
                effects.stop = Some(false);
                return;
            }
            if t.input(IXANY) {
                effects.stop = Some(false);
            }
        }
        match byte {
            b'\r' if t.input(IGNCR) => return,
            b'\r' if t.input(ICRNL) => byte = b'\n',
            b'\n' if t.input(INLCR) => byte = b'\r',
            _ => {}
        }
        if t.input(IUCLC) && t.local(IEXTEN) {
            byte = byte.to_ascii_lowercase();
        }
        if t.local(ISIG) {
            const SIGNALS: [(usize, u32); 3] = [(VINTR, 2), (VQUIT, 3), (VSUSP, 20)];
            if let Some(&(_, signal)) = SIGNALS.iter().find(|(which, _)| t.is(byte, *which)) {
                effects.signal = Some(signal);
                if !t.local(NOFLSH) {
                    effects.flush = true;
                    self.flush();
                }
                if t.local(ECHO) {
                    echo(byte, t, effects);
                }
                return;
            }
        }
        if t.local(ICANON) && self.edit(byte, t, effects) {
            return;
        }
        self.store(byte, t, effects);
    }

    /// The characters that edit or end a line. True if `byte` was one.
    fn edit(&mut self, byte: u8, t: &Termios, effects: &mut Effects) -> bool {
        if t.is(byte, VERASE) {
            self.erase(t, effects);
        } else if t.local(IEXTEN) && t.is(byte, VWERASE) {
            while self.line.last().is_some_and(|b| !is_word(*b)) {
                self.erase(t, effects);
            }
            while self.line.last().is_some_and(|b| is_word(*b)) {
                self.erase(t, effects);
            }
        } else if t.is(byte, VKILL) {
            if t.local(ECHOKE) && t.local(ECHOE) {
                while !self.line.is_empty() {
                    self.erase(t, effects);
                }
            } else {
                self.line.clear();
                if t.local(ECHO) {
                    echo(byte, t, effects);
                    if t.local(ECHOK) {
                        push(&mut effects.echo, b'\n');
                    }
                }
            }
        } else if t.local(IEXTEN) && t.is(byte, VLNEXT) {
            self.literal = true;
            if t.local(ECHO) && t.local(ECHOCTL) {
                let _ = effects.echo.try_extend_from_slice(b"^\x08");
            }
        } else if t.local(IEXTEN) && t.is(byte, VREPRINT) {
            if t.local(ECHO) {
                echo(byte, t, effects);
                push(&mut effects.echo, b'\n');
                for i in 0..self.line.len() {
                    if let Some(&b) = self.line.get(i) {
                        echo(b, t, effects);
                    }
                }
            }
        } else if t.is(byte, VEOF) {
            self.end_line(effects);
        } else if byte == b'\n' {
            if t.local(ECHO) || t.local(ECHONL) {
                push(&mut effects.echo, b'\n');
            }
            push(&mut self.line, byte);
            self.end_line(effects);
        } else if t.is(byte, VEOL) || (t.local(IEXTEN) && t.is(byte, VEOL2)) {
            if t.local(ECHO) {
                echo(byte, t, effects);
            }
            push(&mut self.line, byte);
            self.end_line(effects);
        } else {
            return false;
        }
        true
    }

    fn end_line(&mut self, effects: &mut Effects) {
        if self.lines.try_reserve(1).is_err() || self.ready.try_reserve(self.line.len()).is_err() {
            return;
        }
        self.lines.push_back(self.line.len());
        self.ready.extend(self.line.drain(..));
        effects.readable = true;
    }

    /// Takes the last character back, with all its bytes if the terminal is for UTF-8.
    fn erase(&mut self, t: &Termios, effects: &mut Effects) {
        let Some(mut byte) = self.line.pop() else { return };
        while t.input(IUTF8)
            && byte & 0xc0 == 0x80
            && let Some(before) = self.line.pop()
        {
            byte = before;
        }
        if !t.local(ECHO) {
            return;
        }
        if !t.local(ECHOE) {
            echo(t.char(VERASE), t, effects);
            return;
        }
        let columns = match byte {
            b'\t' => 1,
            b if b < 0x20 || b == 0x7f => {
                if t.local(ECHOCTL) {
                    2
                } else {
                    0
                }
            }
            _ => 1,
        };
        for _ in 0..columns {
            let _ = effects.echo.try_extend_from_slice(b"\x08 \x08");
        }
    }

    fn store(&mut self, byte: u8, t: &Termios, effects: &mut Effects) {
        if t.local(ICANON) {
            if self.line.len() >= LINE_MAX || self.line.try_push(byte).is_err() {
                if t.input(IMAXBEL) {
                    push(&mut effects.echo, 7);
                }
                return;
            }
        } else {
            if self.ready.len() >= ROOM || self.ready.try_reserve(1).is_err() {
                return;
            }
            self.ready.push_back(byte);
            effects.readable = true;
        }
        if t.local(ECHO) {
            echo(byte, t, effects);
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn push(to: &mut Vec<u8>, byte: u8) {
    let _ = to.try_push(byte);
}

/// A byte as it is echoed: control characters as ^X.
fn echo(byte: u8, t: &Termios, effects: &mut Effects) {
    let control = (byte < 0x20 && byte != b'\t' && byte != b'\n') || byte == 0x7f;
    if control && t.local(ECHOCTL) {
        let _ = effects.echo.try_extend_from_slice(&[b'^', byte ^ 0x40]);
    } else {
        push(&mut effects.echo, byte);
    }
}

#[cfg(test)]
mod tests;
