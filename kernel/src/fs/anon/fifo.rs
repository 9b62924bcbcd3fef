//! Named pipes, of any file system, and pipes of pipe(2) that are opened once more by way of /proc/PID/fd. The pipe exists while somebody has it open;
//! what is kept with the inode finds it by a weak reference.
//!
//! Opening a named one for one direction waits for the other, as fifo(7) says; a nameless one has both already, or had them.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering::SeqCst;

use crate::lock_order as level;
use sync::{Mutex, lock_class, try_arc};

use super::pipe::{End, Pipe};
use crate::errno::{EINVAL, ENOMEM, ENXIO, Result};
use crate::fs::file::{File, FileOps, OpenFlags};
use crate::fs::vfs::inode::Inode;

lock_class! { static FIFO: LockClass = ("fifo", level::Fifo); }

/// What is kept with the inode of a fifo.
struct Fifo {
    pipe: Mutex<Weak<Pipe>, level::Fifo>,
    /// It lies in a file system.
    is_named: bool,
}

impl Fifo {
    fn try_new(pipe: Weak<Pipe>, is_named: bool) -> Result<Arc<Fifo>> {
        Ok(try_arc(Fifo { pipe: Mutex::new(pipe, &FIFO), is_named })?)
    }

    fn of(inode: &Inode) -> Result<Arc<Fifo>> {
        inode.attached(|| Fifo::try_new(Weak::new(), true), Arc::clone)
    }

    fn pipe(&self) -> Result<Arc<Pipe>> {
        let mut kept = self.pipe.lock();
        if let Some(pipe) = kept.upgrade() {
            return Ok(pipe);
        }
        let pipe = Pipe::try_new().map_err(|_| ENOMEM)?;
        *kept = Arc::downgrade(&pipe);
        Ok(pipe)
    }
}

/// Makes the pipe of pipe(2) that `file` is an end of known to its inode, so that it can be opened by that; what is no such end has nothing to be known.
///
/// # Errors
/// ENOMEM.
pub fn show(file: &File) -> Result {
    match file.downcast::<End>() {
        Some(end) if file.path().is_none() => {
            file.inode().attached(|| Fifo::try_new(Arc::downgrade(&end.pipe), false), |_| ())
        }
        _ => Ok(()),
    }
}

/// Opens the fifo of `inode`, waiting for the other end as fifo(7) says.
pub fn open(inode: &Inode, flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    let (reads, writes) = (flags.reads(), flags.writes());
    if flags.is_for_ioctl() {
        return Err(EINVAL);
    }
    let fifo = Fifo::of(inode)?;
    let pipe = fifo.pipe()?;
    let wait = fifo.is_named && !flags.contains(OpenFlags::NONBLOCK);
    if fifo.is_named && writes && !reads && !wait && pipe.readers.load(SeqCst) == 0 {
        return Err(ENXIO);
    }
    // Looked at before this end is seen: who waited for it may come, write and leave before the next line.
    let (reader_opens, writer_opens) = (pipe.reader_opens.load(SeqCst), pipe.writer_opens.load(SeqCst));
    let (has_reader, has_writer) = (pipe.readers.load(SeqCst) > 0, pipe.writers.load(SeqCst) > 0);
    let end = End::try_new(pipe.clone(), reads, writes)?;
    if reads && !writes && wait && !has_writer {
        pipe.readable.wait(None, || {
            let came = pipe.writers.load(SeqCst) > 0 || pipe.writer_opens.load(SeqCst) != writer_opens;
            came.then_some(())
        })?;
    }
    if writes && !reads && wait && !has_reader {
        pipe.writable.wait(None, || {
            let came = pipe.readers.load(SeqCst) > 0 || pipe.reader_opens.load(SeqCst) != reader_opens;
            came.then_some(())
        })?;
    }
    Ok(end)
}
