//! Reading and changing a terminal's settings, in the forms that programs have them (ioctl_tty(2)): `struct termios`, `termios2`, and System V's `termio`.
//!
//! A part of the settings may be locked against change (TIOCSLCKTRMIOS). A pseudo-terminal has characters of eight bits without parity, whatever it is asked for.
//!
//! Lock order: as in `tty`; `settings` and `locked` are of one class and are not held together.
#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::SeqCst;

use super::termios::{CLOCAL, CREAD, CS8, CSIZE, EXTPROC, ICANON, IXON, PARENB};
use super::termios::{SIZE, SIZE2, Termios, VSTART, VSTOP};
use super::{Line, Tty, job};
use crate::arch::user::{copy_from_user, copy_to_user};
use crate::errno::{EFAULT, EPERM, Result};
use crate::fs::caller::{self, Capability};
use crate::fs::file::ioctl::{get_u32, put_u32};

/// How a program has the settings in its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Four halves of words, the line discipline and the first eight special characters.
    Termio,
    Termios,
    /// With the speeds as numbers.
    Termios2,
}

/// Bytes of `struct termio`; the last one means nothing.
const TERMIO: usize = 18;
/// Where its halves of words lie in `struct termios`.
const HALVES: [usize; 4] = [0, 4, 8, 12];
/// What follows them, in both.
const REST: usize = 9;

impl Form {
    /// The settings as this form has them, and how many bytes these are.
    fn of(self, settings: &Termios) -> ([u8; SIZE2], usize) {
        let bytes = settings.to_bytes();
        match self {
            Form::Termios => (bytes, SIZE),
            Form::Termios2 => (bytes, SIZE2),
            Form::Termio => {
                let halves = HALVES.into_iter().flat_map(|at| bytes.iter().skip(at).take(2));
                let all = halves.chain(bytes.iter().skip(16).take(REST));
                let mut termio = [0; SIZE2];
                for (to, from) in termio.iter_mut().zip(all) {
                    *to = *from;
                }
                (termio, TERMIO)
            }
        }
    }

    /// `settings` changed to what a program has at `address`: what its form has not stays.
    ///
    /// # Errors
    /// EFAULT.
    fn read(self, address: usize, settings: &Termios) -> Result<Termios> {
        let mut bytes = settings.to_bytes();
        let get = |size: usize, to: &mut [u8]| {
            copy_from_user(to.get_mut(..size).unwrap_or(&mut []), address).map_err(|_| EFAULT)
        };
        match self {
            Form::Termios => get(SIZE, &mut bytes)?,
            Form::Termios2 => get(SIZE2, &mut bytes)?,
            Form::Termio => {
                let mut termio = [0; TERMIO];
                get(TERMIO, &mut termio)?;
                let places = HALVES.into_iter().flat_map(|at| at..at.saturating_add(2)).chain(16..16 + REST);
                for (at, from) in places.zip(termio) {
                    if let Some(to) = bytes.get_mut(at) {
                        *to = from;
                    }
                }
            }
        }
        Ok(Termios::from_bytes(&bytes))
    }
}

/// TCGETS and its kin.
pub fn get(tty: &Tty, argument: usize, form: Form) -> Result<usize> {
    let (bytes, len) = form.of(&tty.settings());
    copy_to_user(argument, bytes.get(..len).unwrap_or(&[])).map_err(|_| EFAULT)?;
    Ok(0)
}

/// TCSETS and its kin. `flush`: input that nobody has read is dropped.
pub fn set(tty: &Tty, argument: usize, form: Form, flush: bool) -> Result<usize> {
    job::check_change(tty)?;
    let new = form.read(argument, &tty.settings())?;
    if flush {
        tty.flush_input();
    }
    change(tty, |_| new);
    Ok(0)
}

/// TIOCGSOFTCAR: is the line taken to be there, whatever the modem says?
pub fn is_local(tty: &Tty, argument: usize) -> Result<usize> {
    put_u32(argument, u32::from(tty.settings().control & CLOCAL != 0))
}

/// TIOCSSOFTCAR.
pub fn set_local(tty: &Tty, argument: usize) -> Result<usize> {
    let flag = if get_u32(argument)? == 0 { 0 } else { CLOCAL };
    change(tty, |old| Termios { control: old.control & !CLOCAL | flag, ..old });
    Ok(0)
}

/// TIOCGLCKTRMIOS: which bits and characters stay as they are.
pub fn locked(tty: &Tty, argument: usize) -> Result<usize> {
    let bytes = tty.locked.lock().to_bytes();
    copy_to_user(argument, bytes.get(..SIZE).unwrap_or(&[])).map_err(|_| EFAULT)?;
    Ok(0)
}

/// TIOCSLCKTRMIOS.
///
/// # Errors
/// EPERM without CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN; EFAULT.
pub fn lock(tty: &Tty, argument: usize) -> Result<usize> {
    if !caller::capable(Capability::CHECKPOINT_RESTORE) && !caller::capable(Capability::SYS_ADMIN) {
        return Err(EPERM);
    }
    let new = Form::Termios.read(argument, &Termios::NONE)?;
    *tty.locked.lock() = new;
    Ok(0)
}

/// Puts `new` of the settings in their place, as far as they are not locked, and has the terminal go by them.
fn change(tty: &Tty, new: impl FnOnce(Termios) -> Termios) {
    let locked = *tty.locked.lock();
    let is_pseudo = matches!(tty.line, Line::Pseudo(_));
    let (old, new) = {
        let mut settings = tty.settings.lock();
        let old = *settings;
        let mut new = keep_locked(new(old), &old, &locked);
        if is_pseudo {
            new.control = new.control & !(CSIZE | PARENB) | CS8 | CREAD;
        }
        *settings = new;
        (old, new)
    };
    if old.local(ICANON) != new.local(ICANON) {
        tty.input.lock().set_canonical(new.local(ICANON));
    }
    if !new.input(IXON) && old.input(IXON) && !tty.held.load(SeqCst) {
        tty.set_stopped(false);
    }
    if let Line::Pseudo(pty) = &tty.line {
        let has_flow = |t: &Termios| t.input(IXON) && t.char(VSTOP) == 0o23 && t.char(VSTART) == 0o21;
        let flow = (has_flow(&old) != has_flow(&new)).then_some(has_flow(&new));
        pty.settings_changed(flow, old.local(EXTPROC) || new.local(EXTPROC));
    }
    tty.readable.wake();
}

fn keep_locked(new: Termios, old: &Termios, locked: &Termios) -> Termios {
    let bits = |new: u32, old: u32, locked: u32| new & !locked | old & locked;
    let mut chars = new.chars;
    for ((to, old), locked) in chars.iter_mut().zip(old.chars).zip(locked.chars) {
        if locked != 0 {
            *to = old;
        }
    }
    Termios {
        input: bits(new.input, old.input, locked.input),
        output: bits(new.output, old.output, locked.output),
        control: bits(new.control, old.control, locked.control),
        local: bits(new.local, old.local, locked.local),
        line: if locked.line == 0 { new.line } else { old.line },
        chars,
        speeds: new.speeds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_termio_has_the_lower_halves_and_eight_characters() {
        let (bytes, len) = Form::Termio.of(&Termios::DEFAULT);
        assert_eq!(len, 18);
        assert_eq!(bytes[..8], [0, 5, 5, 0, 0xb2, 0x14, 0x3b, 0x8a]);
        assert_eq!(bytes[8..17], *b"\0\x03\x1c\x7f\x15\x04\x00\x01\x00");
    }

    #[test]
    fn what_is_locked_stays() {
        let old = Termios::DEFAULT;
        let new = Termios { local: 0, chars: [9; 19], line: 3, ..old };
        let mut locked = Termios { local: ICANON, line: 1, ..Termios::NONE };
        locked.chars[2] = 1;
        let kept = keep_locked(new, &old, &locked);
        assert_eq!((kept.local, kept.line), (ICANON, 0));
        assert_eq!(kept.chars[1..4], [9, 127, 9]);
    }
}
