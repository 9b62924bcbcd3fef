//! Open regular files and directories of any file system: contents through the inode's object, names through the
//! name cache or the file system.
//!
//! Lock order: file position → inode write lock, or directory names.
#![forbid(unsafe_code)]

use core::any::Any;

use super::buffer::{Input, Output};
use super::poll::Poller;
use super::{File, FileOps, Mapping, Order, seek_in, told};
use crate::errno::{EBADF, EFBIG, EINVAL, EISDIR, ENODEV, ENXIO, Result};
use crate::fs::vfs::attributes::{Changes, without_set_id_by_write};
use crate::fs::vfs::cache::Cache;
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::notify::{self, events};
use crate::fs::vfs::operations::{DirEntry, Writing};
use crate::fs::vfs::seals;

/// Largest size of a file: what a signed number of 64 bits can tell, as on Linux.
pub const SIZE_MAX: u64 = i64::MAX as u64;

pub struct Regular;
pub struct Directory;
pub struct PathOnly;

pub static REGULAR: Regular = Regular;
pub static DIRECTORY: Directory = Directory;
pub static PATH_ONLY: PathOnly = PathOnly;

impl FileOps for Regular {
    fn read(&self, file: &File, at: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        let object = file.inode().object().ok_or(EINVAL)?;
        let left = out.left();
        let n = object.read_to(at, left, out)?;
        if n == 0 { out.result() } else { Ok(n) }
    }

    fn write(&self, file: &File, at: u64, from: &mut Input<'_>, mut order: Order<'_>) -> Result<usize> {
        let inode = file.inode();
        let mut write = inode.lock_write(&mut order);
        write_locked(file, at, from, write.held().reborrow())
    }

    fn seeks(&self) -> bool {
        true
    }

    fn seek(&self, file: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        // Only these ask for the object, which is counted meanwhile.
        if matches!(whence, SEEK_DATA | SEEK_HOLE)
            && let Some(object) = file.inode().object()
        {
            return seek_hole(&object, offset, whence);
        }
        seek_in(file.inode().size(), offset, whence, now)
    }

    fn mapping(&self, file: &File) -> Result<Mapping> {
        file.object().map(Mapping::Object).ok_or(ENODEV)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Largest position in a directory whose names are made up.
const MADE_UP_MAX: u64 = i32::MAX as u64;

const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// A page that was never written is a hole, and so is what lies after the end.
#[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
fn seek_hole(object: &vm::Object, offset: i64, whence: u32) -> Result<u64> {
    const PAGE: u64 = 4096;
    let size = object.size();
    let start = u64::try_from(offset).ok().filter(|&at| at < size).ok_or(ENXIO)?;
    let pages = size.div_ceil(PAGE);
    let first = start / PAGE;
    let found = match whence {
        // Nothing to look for in a file that is all hole, however large.
        SEEK_DATA if object.resident_pages() == 0 && !object.is_paged() => None,
        _ => object.seek(first, pages, whence == SEEK_DATA),
    };
    match (found, whence) {
        (Some(page), _) => Ok((page * PAGE).max(start)),
        (None, SEEK_DATA) => Err(ENXIO),
        (None, _) => Ok(size),
    }
}

/// Writes at the end in one step with finding it. Returns the bytes written and the position after them.
#[expect(clippy::arithmetic_side_effects, reason = "a write ends at the largest file size")]
pub fn append(file: &File, from: &mut Input<'_>, mut order: Order<'_>) -> Result<(usize, u64)> {
    let inode = file.inode();
    if inode.kind != Kind::Regular {
        return Ok((file.ops().write(file, 0, from, order)?, 0));
    }
    let mut write = inode.lock_write(&mut order);
    let end = inode.size();
    from.limit(seals::allowed(inode, end, from.left())?);
    let n = write_locked(file, end, from, write.held().reborrow())?;
    Ok((n, end + n as u64))
}

#[inline]
pub fn write_locked(file: &File, at: u64, from: &mut Input<'_>, locked: Writing<'_>) -> Result<usize> {
    if from.left() == 0 {
        return Ok(0);
    }
    limit_write(at, from)?;
    let inode = file.inode();
    let object = inode.object().ok_or(EINVAL)?;
    let left = from.left();
    let n = object.write_from(at, left, from)?;
    if n == 0 {
        return from.result();
    }
    inode.touch_modified();
    if inode.has_work_after_write() {
        finish_write(file, locked)?;
    }
    Ok(n)
}

/// No more is written from `at` on than files may have, and the caller's.
///
/// # Errors
/// EFBIG: nothing.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "at is below limit")]
pub fn limit_write(at: u64, from: &mut Input<'_>) -> Result {
    let limit = crate::fs::caller::file_size_limit().min(SIZE_MAX);
    if at >= limit {
        if limit < SIZE_MAX {
            crate::fs::caller::signal_file_size();
        }
        return Err(EFBIG);
    }
    from.limit(usize::try_from(limit - at).unwrap_or(usize::MAX));
    Ok(())
}

/// The file system is told of the new times, and the file loses its set-id bits, as it may.
#[cold]
pub fn finish_write(file: &File, locked: Writing<'_>) -> Result {
    let inode = file.inode();
    inode.tell_times();
    let lost = without_set_id_by_write(inode);
    if lost == Changes::default() {
        return Ok(());
    }
    inode.ops.set_attributes(inode, &lost, locked)?;
    if notify::is_used() && lost.mode.is_some() {
        told::on_place(file, events::ATTRIB);
    }
    Ok(())
}

impl FileOps for Directory {
    fn read(&self, _: &File, _: u64, _: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        Err(EISDIR)
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

    fn seek(&self, file: &File, offset: i64, whence: u32, now: u64) -> Result<u64> {
        // Where the file system makes its names up, a directory has an end like a file that is empty.
        if whence > 1 && !file.inode().ops.names_are_given() {
            return Err(EINVAL);
        }
        let at = seek_in(0, offset, whence, now)?;
        if at > MADE_UP_MAX && file.inode().ops.names_are_given() { Err(EINVAL) } else { Ok(at) }
    }

    fn poll<'a>(&'a self, _file: &'a File, _poller: &mut Poller<'_, 'a>) -> u32 {
        super::poll::IN | super::poll::OUT | super::poll::RDNORM | super::poll::WRNORM
    }

    fn read_dir(
        &self,
        file: &File,
        at: u64,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
        mut order: Order<'_>,
    ) -> Result<()> {
        let path = file.path().ok_or(EINVAL)?;
        let dentry = &path.dentry;
        let above = dentry.parent().map_or(dentry.inode.number, |p| p.inode.number);
        if at == 0
            && !emit(&DirEntry { name: b".", number: dentry.inode.number, kind: Kind::Directory, next: 1 })
        {
            return Ok(());
        }
        if at <= 1 && !emit(&DirEntry { name: b"..", number: above, kind: Kind::Directory, next: 2 }) {
            return Ok(());
        }
        if path.mount.superblock.cache != Cache::Complete {
            return dentry.inode.ops.read_dir(&dentry.inode, at.max(2), emit);
        }
        let Some(directory) = &dentry.directory else { return Err(EINVAL) };
        let names = directory.names.lock_in(&mut order);
        if names.dead {
            return Err(crate::errno::ENOENT);
        }
        for (entry, next) in names.entries_from(at) {
            let inode = &entry.dentry.inode;
            if !emit(&DirEntry { name: &entry.name.bytes, number: inode.number, kind: inode.kind, next }) {
                break;
            }
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// O_PATH: a place, and nothing to read.
impl FileOps for PathOnly {
    fn ioctl(&self, _file: &File, _command: u32, _argument: usize) -> Result<usize> {
        Err(EBADF)
    }

    fn mapping(&self, _file: &File) -> Result<Mapping> {
        Err(EBADF)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
