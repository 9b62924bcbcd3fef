//! /proc/kmsg: reading it is SYSLOG_ACTION_READ of syslog(2) for whoever might do that when it was opened.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::any::Any;

use sync::try_box;

use crate::errno::{EAGAIN, EIO, Result};
use crate::fs::devfs::kmsg::{self, reader};
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::poll::{self, Poller};
use crate::fs::file::{File, FileOps, Mapping, Order};
use crate::procfs::manner::Manner;

struct Log;

/// # Errors
/// EPERM.
pub fn open() -> Result<Box<dyn FileOps>> {
    kmsg::check(false)?;
    Ok(try_box(Log)?)
}

impl FileOps for Log {
    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        if file.nonblocking() && !reader::is_ready() {
            return Err(EAGAIN);
        }
        reader::read(out)
    }

    fn write(&self, _: &File, _: u64, _: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        Err(EIO)
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(kmsg::changes());
        if reader::is_ready() { poll::IN | poll::RDNORM } else { 0 }
    }

    fn seeks(&self) -> bool {
        true
    }

    fn moves(&self) -> bool {
        false
    }

    fn seek(&self, _: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        Manner::Piece.seek(offset, whence, now)
    }

    fn splices(&self) -> bool {
        false
    }

    fn takes_spliced(&self) -> bool {
        false
    }

    fn takes_flags(&self, _: bool) -> bool {
        false
    }

    fn mapping(&self, _: &File) -> Result<Mapping> {
        Err(EIO)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
