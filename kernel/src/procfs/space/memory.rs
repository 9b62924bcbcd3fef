//! /proc/PID/mem: the memory of a process, a byte at each address. Whoever may trace the process when the file is opened reads it, and writes it as a tracer
//! does, until its program ends or executes another.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::any::Any;

use sync::try_box;

use crate::errno::{EINVAL, Result};
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::{File, FileOps, Order};
use crate::process::foreign::Opened;
use crate::procfs::task::who::Who;

struct Memory(Opened);

/// # Errors
/// ESRCH, EACCES, ENOMEM.
pub fn open(who: Who) -> Result<Box<dyn FileOps>> {
    let (_, thread) = who.find()?;
    Ok(try_box(Memory(Opened::of(&thread)?))?)
}

impl FileOps for Memory {
    fn read(&self, _: &File, at: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        self.0.read(at as usize, out)
    }

    fn write(&self, _: &File, at: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        self.0.write(at as usize, from)
    }

    fn seeks(&self) -> bool {
        true
    }

    /// Every number is a place, and there is no end.
    fn seek(&self, _: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        const SEEK_SET: u32 = 0;
        const SEEK_CUR: u32 = 1;
        match whence {
            SEEK_SET => Ok(offset.cast_unsigned()),
            SEEK_CUR => Ok(now.wrapping_add_signed(offset)),
            _ => Err(EINVAL),
        }
    }

    fn has_unsigned_places(&self) -> bool {
        true
    }

    fn ignores_append(&self) -> bool {
        true
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

    fn as_any(&self) -> &dyn Any {
        self
    }
}
