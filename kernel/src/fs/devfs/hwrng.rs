//! /dev/hwrng: bytes as the machine's source of entropy gives them, not stretched by a generator. It is there where the machine has such a source.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::any::Any;

use sync::try_box;

use super::devices::seek_nowhere;
use crate::device::virtio::{Failure, entropy};
use crate::errno::{EINVAL, EIO, ENODEV, ENOMEM, ERESTARTSYS, Result};
use crate::fs::file::buffer::Output;
use crate::fs::file::{File, FileOps, OpenFlags, Order};
use crate::sched::Sleep;

struct Source;

/// To be read alone, as on Linux.
pub fn open(flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    if flags.writes() || !flags.reads() {
        return Err(EINVAL);
    }
    Ok(try_box(Source)?)
}

impl FileOps for Source {
    fn read(&self, _: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        let mut failure = None;
        while out.left() > 0 && failure.is_none() {
            let wanted = out.left().min(entropy::MOST);
            match entropy::read(wanted, Sleep::Interruptible, None, |bytes| out.put(bytes)) {
                Some(Ok(_)) => {}
                Some(Err(why)) => failure = Some(errno_of(why)),
                None => failure = Some(ENODEV),
            }
        }
        // What came before counts.
        match (failure, out.result()) {
            (Some(errno), Ok(0)) => Err(errno),
            (_, result) => result,
        }
    }

    fn splices(&self) -> bool {
        false
    }

    fn takes_flags(&self, _: bool) -> bool {
        false
    }

    fn seeks(&self) -> bool {
        true
    }

    fn moves(&self) -> bool {
        false
    }

    fn seek(&self, _: &File, _: i64, whence: u32, _: u64) -> Result<u64> {
        seek_nowhere(whence)
    }

    fn can_be_watched(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn errno_of(why: Failure) -> crate::errno::Errno {
    match why {
        Failure::Broken => EIO,
        Failure::NoMemory => ENOMEM,
        Failure::Woken(_) => ERESTARTSYS,
    }
}
