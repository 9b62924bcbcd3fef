//! The ioctls of terminals (ioctl_tty(2)).
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::sync::atomic::Ordering::SeqCst;

use super::pty::TIOCGPTPEER;
use super::settings::{self, Form};
use super::termios::{ICANON, VSTART, VSTOP};
use super::{Line, Tty, job};
use crate::arch;
use crate::errno::{EFAULT, EINVAL, EIO, ENOTTY, EPERM, Result};
use crate::fs::caller::{self, Capability};
use crate::fs::file::File;
use crate::fs::file::ioctl::{FIONREAD, get_u32, put_u32};

const TCGETS: u32 = 0x5401;
const TCSETS: u32 = 0x5402;
const TCSETSW: u32 = 0x5403;
const TCSETSF: u32 = 0x5404;
const TCGETA: u32 = 0x5405;
const TCSETA: u32 = 0x5406;
const TCSETAW: u32 = 0x5407;
const TCSETAF: u32 = 0x5408;
const TCSBRK: u32 = 0x5409;
const TCXONC: u32 = 0x540a;
const TCFLSH: u32 = 0x540b;
pub const TIOCEXCL: u32 = 0x540c;
pub const TIOCNXCL: u32 = 0x540d;
pub const TIOCGEXCL: u32 = 0x8004_5440;
const TIOCSCTTY: u32 = 0x540e;
const TIOCGPGRP: u32 = 0x540f;
const TIOCSPGRP: u32 = 0x5410;
const TIOCOUTQ: u32 = 0x5411;
const TIOCSTI: u32 = 0x5412;
const TIOCGWINSZ: u32 = 0x5413;
const TIOCSWINSZ: u32 = 0x5414;
const TIOCMGET: u32 = 0x5415;
const TIOCGSOFTCAR: u32 = 0x5419;
const TIOCSSOFTCAR: u32 = 0x541a;
const TIOCCONS: u32 = 0x541d;
const TIOCNOTTY: u32 = 0x5422;
const TIOCSETD: u32 = 0x5423;
const TIOCGETD: u32 = 0x5424;
const TCSBRKP: u32 = 0x5425;
const TIOCSBRK: u32 = 0x5427;
const TIOCCBRK: u32 = 0x5428;
const TIOCGSID: u32 = 0x5429;
const TCGETS2: u32 = 0x802c_542a;
const TCSETS2: u32 = 0x402c_542b;
const TCSETSW2: u32 = 0x402c_542c;
const TCSETSF2: u32 = 0x402c_542d;
const TIOCGDEV: u32 = 0x8004_5432;
const TIOCVHANGUP: u32 = 0x5437;
const TIOCGLCKTRMIOS: u32 = 0x5456;
const TIOCSLCKTRMIOS: u32 = 0x5457;

pub const SIGWINCH: u32 = 28;

pub fn ioctl(tty: &Arc<Tty>, _file: &File, command: u32, argument: usize) -> Result<usize> {
    match command {
        TCGETS => settings::get(tty, argument, Form::Termios),
        TCGETS2 => settings::get(tty, argument, Form::Termios2),
        TCGETA => settings::get(tty, argument, Form::Termio),
        TCSETS | TCSETSW => settings::set(tty, argument, Form::Termios, false),
        TCSETS2 | TCSETSW2 => settings::set(tty, argument, Form::Termios2, false),
        TCSETA | TCSETAW => settings::set(tty, argument, Form::Termio, false),
        TCSETSF => settings::set(tty, argument, Form::Termios, true),
        TCSETSF2 => settings::set(tty, argument, Form::Termios2, true),
        TCSETAF => settings::set(tty, argument, Form::Termio, true),
        TIOCGLCKTRMIOS => settings::locked(tty, argument),
        TIOCSLCKTRMIOS => settings::lock(tty, argument),
        TIOCGSOFTCAR => settings::is_local(tty, argument),
        TIOCSSOFTCAR => settings::set_local(tty, argument),
        // Output is gone when write returns; a break cannot be sent.
        TCSBRK | TCSBRKP | TIOCSBRK | TIOCCBRK => {
            job::check_change(tty)?;
            Ok(0)
        }
        TCXONC => {
            job::check_change(tty)?;
            match argument {
                0 => tty.hold(true),
                1 => tty.hold(false),
                2 => tty.send_special(VSTOP),
                3 => tty.send_special(VSTART),
                _ => return Err(EINVAL),
            }
            Ok(0)
        }
        TCFLSH => {
            job::check_change(tty)?;
            match argument {
                0 => tty.flush_input(),
                1 => tty.flush_output(),
                2 => {
                    tty.flush_input();
                    tty.flush_output();
                }
                _ => return Err(EINVAL),
            }
            Ok(0)
        }
        TIOCEXCL | TIOCNXCL => {
            tty.exclusive.store(command == TIOCEXCL, SeqCst);
            Ok(0)
        }
        TIOCGEXCL => put_u32(argument, u32::from(tty.exclusive.load(SeqCst))),
        TIOCSCTTY => job::take(tty, argument == 1).map(|()| 0),
        TIOCNOTTY => job::give_up(tty).map(|()| 0),
        TIOCGPGRP => put_u32(argument, job::foreground(tty)?),
        TIOCSPGRP => job::set_foreground(tty, get_u32(argument)?.cast_signed()).map(|()| 0),
        TIOCGSID => {
            job::foreground(tty)?;
            put_u32(argument, tty.session.load(SeqCst))
        }
        TIOCOUTQ => put_u32(argument, 0),
        FIONREAD => {
            let canonical = tty.settings().local(ICANON);
            let input = tty.input.lock();
            let n = if canonical && !input.has_line() { 0 } else { input.pending() };
            drop(input);
            put_u32(argument, n as u32)
        }
        TIOCGWINSZ => {
            let window = *tty.window.lock();
            let mut bytes = [0; 8];
            for (to, from) in bytes.chunks_mut(2).zip(window) {
                to.copy_from_slice(&from.to_ne_bytes());
            }
            put(argument, &bytes)
        }
        TIOCSWINSZ => {
            let mut bytes = [0; 8];
            get(argument, &mut bytes)?;
            let mut window = [0; 4];
            for (to, from) in window.iter_mut().zip(bytes.chunks(2)) {
                *to = from.iter().rev().fold(0u16, |n, b| n << 8 | u16::from(*b));
            }
            let changed = {
                let mut kept = tty.window.lock();
                core::mem::replace(&mut *kept, window) != window
            };
            if changed {
                caller::signal_group(tty.told(), SIGWINCH);
            }
            Ok(0)
        }
        TIOCSTI => {
            if !caller::capable(Capability::SYS_ADMIN) {
                return Err(EPERM);
            }
            let mut byte = [0];
            get(argument, &mut byte)?;
            tty.receive(&byte);
            Ok(0)
        }
        // DTR, RTS, CTS, CD, DSR: a line that is always there. A pseudo-terminal has none.
        TIOCMGET if matches!(tty.line, Line::Port(_)) => put_u32(argument, 0x166),
        // For masters alone.
        TIOCGPTPEER => Err(EIO),
        // N_TTY is the only line discipline.
        TIOCGETD => put_u32(argument, 0),
        TIOCSETD => {
            job::check_change(tty)?;
            if get_u32(argument)? == 0 { Ok(0) } else { Err(EINVAL) }
        }
        TIOCGDEV => put_u32(argument, tty.number() as u32),
        // What is written to the console goes nowhere else.
        TIOCCONS if caller::capable(Capability::SYS_ADMIN) => Err(EINVAL),
        TIOCCONS => Err(EPERM),
        TIOCVHANGUP if caller::capable(Capability::SYS_ADMIN) => {
            tty.hang_up();
            Ok(0)
        }
        TIOCVHANGUP => Err(EPERM),
        _ => Err(ENOTTY),
    }
}

fn put(address: usize, bytes: &[u8]) -> Result<usize> {
    arch::user::copy_to_user(address, bytes).map_err(|_| EFAULT)?;
    Ok(0)
}

fn get(address: usize, bytes: &mut [u8]) -> Result {
    arch::user::copy_from_user(bytes, address).map_err(|_| EFAULT)
}
