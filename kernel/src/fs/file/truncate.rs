//! Changing a file's size, and fallocate.
//!
//! Lock order: inode write lock → the object's.
#![forbid(unsafe_code)]

use super::regular::SIZE_MAX;
use crate::errno::*;
use crate::fs::vfs::attributes::{Changes, without_set_id_by_write};
use crate::fs::vfs::inode::{Inode, Kind};
use crate::fs::vfs::notify::{self, events};
use sync::level::Held;

/// Sets the size of a regular file, whose permissions are checked already.
pub fn set_size(inode: &Inode, size: u64) -> Result {
    match inode.kind {
        Kind::Regular => {}
        Kind::Directory => return Err(EISDIR),
        _ => return Err(EINVAL),
    }
    if size > SIZE_MAX {
        return Err(EFBIG);
    }
    if size > crate::fs::caller::file_size_limit() {
        crate::fs::caller::signal_file_size();
        return Err(EFBIG);
    }
    let order = &mut Held::clean();
    let mut write = inode.lock_write(order);
    let kept = without_set_id_by_write(inode);
    inode.ops.set_attributes(inode, &Changes { size: Some(size), ..kept }, write.held().reborrow())
}

/// What a new size does besides, as an event for those who watch the file: it may lose its set-id bits. Asked before.
#[inline]
pub fn lost_by_size(inode: &Inode) -> u32 {
    let loses = notify::is_used() && without_set_id_by_write(inode).mode.is_some();
    if loses { events::ATTRIB } else { 0 }
}

/// As `set_size`, for callers that have not opened the file for writing.
///
/// # Errors
/// ETXTBSY besides.
pub fn set_size_unopened(inode: &Inode, size: u64) -> Result {
    inode.begin_write()?;
    let result = set_size(inode, size);
    inode.end_write();
    result
}

/// truncate(2): as `set_size_unopened`, once nobody has a lease of the file. May sleep, open to signals.
///
/// # Errors
/// ETXTBSY besides, ERESTARTSYS, EINTR.
pub fn truncate(inode: &Inode, size: u64) -> Result {
    inode.begin_write()?;
    let leased = inode.locks.is_leased();
    let broken = if leased { inode.locks.break_leases(true, true) } else { Ok(()) };
    let result = broken.and_then(|()| set_size(inode, size));
    inode.end_write();
    result
}

const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;

/// Does any file system know the mode? What this one does of it, [`allocate`] says.
pub fn check_mode(mode: u32) -> Result {
    const ZERO_RANGE: u32 = 16;
    const COLLAPSE_RANGE: u32 = 8;
    const INSERT_RANGE: u32 = 32;
    const UNSHARE_RANGE: u32 = 64;
    match mode & !KEEP_SIZE {
        0 | ZERO_RANGE | UNSHARE_RANGE => Ok(()),
        PUNCH_HOLE if mode & KEEP_SIZE != 0 => Ok(()),
        COLLAPSE_RANGE | INSERT_RANGE if mode & KEEP_SIZE == 0 => Ok(()),
        _ => Err(EOPNOTSUPP),
    }
}

/// Makes a hole.
///
/// # Errors
/// As `allocate`.
pub fn punch(inode: &Inode, offset: u64, len: u64) -> Result {
    allocate(inode, PUNCH_HOLE | KEEP_SIZE, offset, len)
}

/// fallocate(2). It counts as a write.
///
/// # Errors
/// ENOSPC: nothing has been changed where that was plain before; EINTR.
pub fn allocate(inode: &Inode, mode: u32, offset: u64, len: u64) -> Result {
    if inode.kind != Kind::Regular {
        return Err(if inode.is_dir() { EISDIR } else { ENODEV });
    }
    let end = offset.checked_add(len).filter(|&end| i64::try_from(end).is_ok()).ok_or(EFBIG)?;
    let holes = mode == PUNCH_HOLE | KEEP_SIZE;
    // Of the other modes tmpfs has none, as on Linux.
    let object = inode.object().filter(|_| holes || mode & !KEEP_SIZE == 0).ok_or(EOPNOTSUPP)?;
    if object.is_paged() {
        return Err(EOPNOTSUPP);
    }
    if end > SIZE_MAX {
        return Err(EFBIG);
    }
    let order = &mut Held::clean();
    let mut write = inode.lock_write(order);
    if let Some(seals) = inode.ops.seals() {
        seals.check_allocate(holes, object.size(), end)?;
    }
    if holes {
        zero(&object, offset, end.min(object.size()))?;
    }
    if mode & PUNCH_HOLE == 0 {
        // With KEEP_SIZE too, as on Linux.
        if end > object.size() && end > crate::fs::caller::file_size_limit() {
            crate::fs::caller::signal_file_size();
            return Err(EFBIG);
        }
        if !object.allocate(offset / PAGE, end.div_ceil(PAGE), &crate::fs::caller::is_interrupted)? {
            return Err(EINTR);
        }
    }
    let lost = without_set_id_by_write(inode);
    if mode & KEEP_SIZE == 0 && end > object.size() {
        let size = Changes { size: Some(end), ..lost };
        return inode.ops.set_attributes(inode, &size, write.held().reborrow());
    }
    inode.touch_modified();
    inode.tell_times();
    if lost == Changes::default() {
        return Ok(());
    }
    inode.ops.set_attributes(inode, &lost, write.held().reborrow())
}

const PAGE: u64 = 4096;

/// Pages that lie in the range whole are taken away, parts of others cleared, where there are any.
#[expect(clippy::arithmetic_side_effects, reason = "at is below end, and end is a file's")]
fn zero(object: &vm::Object, offset: u64, end: u64) -> Result {
    let mut at = offset;
    while at < end {
        let n = if at.is_multiple_of(PAGE) && end - at >= PAGE {
            let whole = (end - at) / PAGE;
            object.punch(at / PAGE, at / PAGE + whole)?;
            whole * PAGE
        } else {
            let n = (PAGE - at % PAGE).min(end - at);
            if object.frame(at / PAGE).is_some() {
                object.write(at, n as usize, |mut bytes| bytes.clear())?;
            }
            n
        };
        at += n;
    }
    Ok(())
}
