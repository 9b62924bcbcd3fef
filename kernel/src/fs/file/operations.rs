//! What one kind of file does when it is open: read, write, seek, poll and the rest, each with what a kind without it answers.
#![forbid(unsafe_code)]

use super::File;
use super::async_io::AsyncQueues;
use super::buffer::{Input, Output};
use super::poll::{self, Poller};
use crate::errno::{EINVAL, ENODEV, ENOTDIR, ENOTTY, ENXIO, Errno, Result};
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::operations::DirEntry;
use crate::lock_order as level;
use alloc::vec::Vec;
use core::any::Any;
use sync::level::Held;
use vm::ObjectRef;

/// What mmap makes of a file.
pub enum Mapping {
    Object(ObjectRef),
    /// As if there were no file (/dev/zero).
    Anonymous,
}

/// The file's position may be locked: what is locked next comes after it.
pub type Order<'a> = Held<'a, level::FilePosition>;

/// What one kind of file does when it is open.
pub trait FileOps: Send + Sync + Any {
    /// Reads at `at` (ignored by files without a position) and puts the bytes out. May sleep.
    fn read(&self, _file: &File, _at: u64, _out: &mut Output<'_>, _order: Order<'_>) -> Result<usize> {
        Err(EINVAL)
    }

    fn write(&self, _file: &File, _at: u64, _from: &mut Input<'_>, _order: Order<'_>) -> Result<usize> {
        Err(EINVAL)
    }

    /// Writes at the end of a regular file, in one step with finding it (O_APPEND). The bytes written, and the position after them. May sleep.
    fn append(&self, file: &File, from: &mut Input<'_>, order: Order<'_>) -> Result<(usize, u64)> {
        super::regular::append(file, from, order)
    }

    /// Is what is written to its pages written? Where not, nobody maps it shared who might.
    fn takes_shared_writes(&self) -> bool {
        true
    }

    /// Are there bytes to read at all? Where not, even reading none is EINVAL.
    fn can_read(&self) -> bool {
        true
    }

    fn can_write(&self) -> bool {
        true
    }

    /// Do splice and sendfile take bytes from it? On Linux not from what is read in one way alone.
    fn splices(&self) -> bool {
        true
    }

    /// Do splice and sendfile put bytes into it? On Linux not into what is written in one way alone.
    fn takes_spliced(&self) -> bool {
        self.can_write()
    }

    /// Does it take flags of preadv2 and pwritev2 beyond RWF_HIPRI? On Linux what is read or written
    /// a segment at a time does not.
    fn takes_flags(&self, _writing: bool) -> bool {
        true
    }

    /// Does it know RWF_NOWAIT? It then looks at its buffer's `nowait` before it waits.
    fn takes_nowait(&self, _file: &File) -> bool {
        false
    }

    /// Has a position: lseek, pread and pwrite work.
    fn seeks(&self) -> bool {
        false
    }

    /// Do read, write and lseek move its position? Where not, though it has one, that is 0 and nobody locks it.
    fn moves(&self) -> bool {
        self.seeks()
    }

    /// Do pread and pwrite take a place, be it that they are refused for a better reason?
    fn takes_places(&self, _writing: bool) -> bool {
        self.seeks()
    }

    /// Are its places numbers without a sign, so that those of the upper half are places too?
    fn has_unsigned_places(&self) -> bool {
        false
    }

    /// Does O_APPEND mean nothing to it? What is made at each read has no end.
    fn ignores_append(&self) -> bool {
        false
    }

    /// Is it a regular file for calls that want one? A process's is, though stat does not say so.
    fn is_regular(&self, file: &File) -> bool {
        file.inode().kind == Kind::Regular
    }

    /// What ftruncate and fallocate say where there is nothing that has a size.
    fn has_no_size(&self) -> (Errno, Errno) {
        (EINVAL, ENODEV)
    }

    /// Has no position, but lseek succeeds and says 0, as Linux has it for what is no stream.
    fn ignores_seek(&self) -> bool {
        false
    }

    fn seek(&self, file: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        seek_in(file.inode().size(), offset, whence, now)
    }

    /// May epoll watch it? Not where nothing ever has to be waited for.
    fn can_be_watched(&self) -> bool {
        true
    }

    /// The events that hold now; queues that wake when that changes are added to `poller`.
    fn poll<'a>(&'a self, _file: &'a File, _poller: &mut Poller<'_, 'a>) -> u32 {
        poll::IN | poll::OUT | poll::RDNORM | poll::WRNORM
    }

    /// The queues whose changes it tells by signal (O_ASYNC). None: it never does.
    fn async_queues(&self) -> Option<AsyncQueues<'_>> {
        None
    }

    fn ioctl(&self, _file: &File, _command: u32, _argument: usize) -> Result<usize> {
        Err(ENOTTY)
    }

    /// fsync of a block device: what was written to it before is there for good. May sleep.
    fn sync_device(&self) -> Result {
        Ok(())
    }

    /// `_shared`: a shared mapping that may be written.
    fn mapping(&self, _file: &File) -> Result<Mapping> {
        Err(ENODEV)
    }

    /// Lists from `at` on.
    fn read_dir(
        &self,
        _file: &File,
        _at: u64,
        _emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
        _order: Order<'_>,
    ) -> Result<()> {
        Err(ENOTDIR)
    }

    /// Pages that go with the file, about, for the choice when memory is out. Waits for nobody.
    fn held_pages(&self, _file: &File) -> u64 {
        0
    }

    /// What /proc/PID/fdinfo tells of its kind, in lines.
    fn tell(&self, _file: &File, _out: &mut Vec<u8>) -> Result {
        Ok(())
    }

    /// What was written is put where it lasts, and what went wrong with it is told (fsync(2)). May sleep.
    fn sync(&self, file: &File, data_only: bool) -> Result {
        file.inode().ops.fsync(file.inode(), data_only)
    }

    /// The last descriptor is about to be closed by a call, which says what this says. May sleep. Not called where the file ends otherwise.
    fn flush(&self, _file: &File) -> Result {
        Ok(())
    }

    /// The last descriptor is gone.
    fn release(&self, _file: &File) {}

    fn as_any(&self) -> &dyn Any;
}

/// The last of the places from which lseek counts.
pub(super) const SEEK_SET: u32 = 0;
pub(super) const SEEK_HOLE: u32 = 4;

/// lseek's arithmetic. SEEK_DATA and SEEK_HOLE see a file without holes.
pub fn seek_in(size: u64, offset: i64, whence: u32, now: u64) -> Result<u64> {
    let base = match whence {
        SEEK_SET => 0,
        1 => now,
        2 => size,
        3 | 4 => {
            let at = u64::try_from(offset).map_err(|_| ENXIO)?;
            if at >= size {
                return Err(ENXIO);
            }
            return Ok(if whence == 3 { at } else { size });
        }
        _ => return Err(EINVAL),
    };
    let at = i64::try_from(base).map_err(|_| EINVAL)?.checked_add(offset).ok_or(EINVAL)?;
    u64::try_from(at).map_err(|_| EINVAL)
}
