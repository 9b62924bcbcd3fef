//! Job control: who may use a terminal, and whose it is.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::sync::atomic::Ordering::SeqCst;

use super::Tty;
use super::termios::TOSTOP;
use crate::errno::{EINVAL, EIO, ENOTTY, EPERM, ERESTARTSYS, ESRCH, Result};
use crate::fs::caller::{self, Capability};

const SIGHUP: u32 = 1;
const SIGCONT: u32 = 18;
pub const SIGTTIN: u32 = 21;
pub const SIGTTOU: u32 = 22;

/// Is this the caller's controlling terminal, with another group in the foreground?
fn in_background(tty: &Tty) -> bool {
    let session = tty.session.load(SeqCst);
    session != 0 && session == caller::tty_session() && {
        let foreground = tty.foreground.load(SeqCst);
        foreground != 0 && foreground != caller::group()
    }
}

/// A background job that reads is stopped; if nobody could go on with it, the read fails.
pub fn check_read(tty: &Tty) -> Result {
    if !in_background(tty) {
        return Ok(());
    }
    if caller::is_ignored(SIGTTIN) || caller::is_orphaned() {
        return Err(EIO);
    }
    caller::signal_group(caller::group(), SIGTTIN);
    Err(ERESTARTSYS)
}

/// A background job that writes is stopped if the terminal asks for that.
pub fn check_write(tty: &Tty) -> Result {
    if tty.settings().local(TOSTOP) { check_change(tty) } else { Ok(()) }
}

/// A background job that changes the terminal is stopped.
pub fn check_change(tty: &Tty) -> Result {
    if !in_background(tty) || caller::is_ignored(SIGTTOU) {
        return Ok(());
    }
    if caller::is_orphaned() {
        return Err(EIO);
    }
    caller::signal_group(caller::group(), SIGTTOU);
    Err(ERESTARTSYS)
}

/// The first terminal that a session leader without one opens becomes its own.
pub fn adopt(tty: &Arc<Tty>) {
    if caller::is_session_leader() && caller::controlling_tty().is_none() {
        let _ = take(tty, false);
    }
}

/// TIOCSCTTY.
pub fn take(tty: &Arc<Tty>, steal: bool) -> Result {
    let session = caller::session();
    if tty.session.load(SeqCst) == session && caller::is_session_leader() {
        return Ok(());
    }
    if !caller::is_session_leader() || caller::controlling_tty().is_some() {
        return Err(EPERM);
    }
    if let Err(other) = tty.session.compare_exchange(0, session, SeqCst, SeqCst) {
        if !(steal && caller::capable(Capability::SYS_ADMIN)) {
            return Err(EPERM);
        }
        caller::drop_session_tty(other);
        tty.session.store(session, SeqCst);
    }
    tty.foreground.store(caller::group(), SeqCst);
    caller::set_controlling_tty(Some(tty.clone()));
    Ok(())
}

/// TIOCNOTTY: the leader gives the terminal up for the whole session, others for themselves.
pub fn give_up(tty: &Tty) -> Result {
    let session = tty.session.load(SeqCst);
    if session == 0 || session != caller::tty_session() {
        return Err(ENOTTY);
    }
    if caller::is_session_leader() {
        caller::set_controlling_tty(None);
        caller::drop_session_tty(session);
        let group = tty.release();
        caller::signal_group(group, SIGHUP);
        caller::signal_group(group, SIGCONT);
    } else {
        caller::leave_tty();
    }
    Ok(())
}

/// TIOCGPGRP.
pub fn foreground(tty: &Tty) -> Result<u32> {
    let session = tty.session.load(SeqCst);
    if session == 0 || session != caller::tty_session() {
        return Err(ENOTTY);
    }
    Ok(tty.foreground.load(SeqCst))
}

/// TIOCSPGRP.
pub fn set_foreground(tty: &Tty, group: i32) -> Result {
    check_change(tty)?;
    let session = tty.session.load(SeqCst);
    if session == 0 || session != caller::tty_session() {
        return Err(ENOTTY);
    }
    let group = u32::try_from(group).map_err(|_| EINVAL)?;
    match caller::session_of_group(group) {
        None => Err(ESRCH),
        Some(s) if s != session => Err(EPERM),
        Some(_) => {
            tty.foreground.store(group, SeqCst);
            Ok(())
        }
    }
}
