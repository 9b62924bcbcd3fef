//! The devices as open files: who may open a terminal, and what an open one does after a hang-up.
//!
//! No locks of its own: counts and flags of the terminal are atomic.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};
use sync::try_box;

use super::{CONSOLE, Line, Tty, control, find, find_console, find_named, job};
use crate::errno::{EBUSY, EIO, ENODEV, ENXIO, Result};
use crate::fs::caller;
use crate::fs::file::async_io::AsyncQueues;
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::poll::Poller;
use crate::fs::file::{File, FileOps, OpenFlags, Order};

/// An open terminal.
pub(super) struct Open {
    pub(super) tty: Arc<Tty>,
    /// Hang-ups before it was opened; `None` for the console, which is never hung up.
    hangups: Option<u32>,
    /// It is counted no more.
    left: AtomicBool,
}

impl Open {
    pub(super) fn is_hung_up(&self) -> bool {
        self.hangups.is_some_and(|n| self.tty.hangups.load(SeqCst) != n)
    }

    fn leave(&self) {
        if self.left.swap(true, SeqCst) {
            return;
        }
        match &self.tty.line {
            Line::Pseudo(pty) => pty.slave_left(),
            Line::Port(_) | Line::Console(..) => {
                if self.tty.opens.fetch_sub(1, SeqCst) == 1 {
                    self.tty.exclusive.store(false, SeqCst);
                }
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.leave();
    }
}

pub(super) fn open(tty: Arc<Tty>, flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    let hangups = Some(tty.hangups.load(SeqCst));
    let open = enter(tty, hangups)?;
    let open = try_box(open)?;
    if !flags.contains(OpenFlags::NO_CTTY) {
        job::adopt(&open.tty);
    }
    Ok(open)
}

/// Counts an open, until that is released or dropped.
///
/// # Errors
/// EBUSY: somebody has the terminal for itself. EIO: a pseudo-terminal is locked, or its master is gone; a console's device has failed.
fn enter(tty: Arc<Tty>, hangups: Option<u32>) -> Result<Open> {
    if tty.exclusive.load(SeqCst) && !caller::capable(caller::Capability::SYS_ADMIN) {
        return Err(EBUSY);
    }
    match &tty.line {
        Line::Pseudo(pty) => pty.slave_entered()?,
        Line::Console(console, _) if console.has_failed() => return Err(EIO),
        Line::Port(_) | Line::Console(..) => {
            tty.opens.fetch_add(1, SeqCst);
        }
    }
    // From here on its drop takes it from the count.
    Ok(Open { tty, hangups, left: AtomicBool::new(false) })
}

/// /dev/ttySn.
pub fn open_serial(n: usize, flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    open(find(n).ok_or(EIO)?, flags)
}

/// /dev/hvcn. ENODEV: there is none, as on Linux.
pub fn open_hvc(n: usize, flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    open(find_console(n).ok_or(ENODEV)?, flags)
}

/// /dev/console: never becomes anybody's controlling terminal.
pub fn open_console() -> Result<Box<dyn FileOps>> {
    let tty = find_named(CONSOLE.load(Relaxed)).ok_or(ENXIO)?;
    Ok(try_box(enter(tty, None)?)?)
}

/// /dev/tty: the caller's controlling terminal.
pub fn open_current(flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    open(caller::controlling_tty().ok_or(ENXIO)?, flags | OpenFlags::NO_CTTY)
}

impl FileOps for Open {
    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        self.tty.read(file, self, out)
    }

    fn write(&self, file: &File, _: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        if self.is_hung_up() {
            return Err(EIO);
        }
        job::check_write(&self.tty)?;
        self.tty.write(file, from)
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        self.tty.poll(self, poller)
    }

    fn async_queues(&self) -> Option<AsyncQueues<'_>> {
        (!self.is_hung_up()).then(|| self.tty.async_queues())
    }

    fn ioctl(&self, file: &File, command: u32, argument: usize) -> Result<usize> {
        if self.is_hung_up() {
            return Err(EIO);
        }
        control::ioctl(&self.tty, file, command, argument)
    }

    fn release(&self, _: &File) {
        self.leave();
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
