//! Locks on files: flock(2), and the record locks of fcntl(2).
#![forbid(unsafe_code)]

use super::file;
use crate::errno::*;
use crate::fs::caller;
use crate::fs::file::{File, OpenFlags};
use crate::fs::vfs::locks::Record;
use crate::memory::user::UserSlice;

/// `struct flock`: type and whence (i16), start and length (i64, at 8 and 16), process (i32, at 24).
const FLOCK_SIZE: usize = 32;
const READ_LOCK: i16 = 0;
const WRITE_LOCK: i16 = 1;
const UNLOCK: i16 = 2;

#[expect(clippy::arithmetic_side_effects, reason = "lengths are at most eight bytes")]
fn number(bytes: &[u8; FLOCK_SIZE], at: usize, len: usize) -> i64 {
    let n = bytes.iter().skip(at).take(len).rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let unused = 64 - 8 * len as u32;
    (n << unused).cast_signed() >> unused
}

struct Request {
    kind: i16,
    process: i64,
    record: Record,
}

/// `of_file`: the locks are the open file's, not the process's. `asks`: F_GETLK, which knows no F_UNLCK.
#[expect(clippy::arithmetic_side_effects, reason = "the start is not negative, and a length is not 0 here")]
fn request(file: &File, address: usize, of_file: bool, asks: bool) -> Result<Request> {
    let mut bytes = [0; FLOCK_SIZE];
    UserSlice::new(address, FLOCK_SIZE).read(&mut bytes)?;
    let kind = number(&bytes, 0, 2) as i16;
    if asks && !of_file && !matches!(kind, READ_LOCK | WRITE_LOCK) {
        return Err(EINVAL);
    }
    let base = match number(&bytes, 2, 2) {
        0 => 0,
        1 => i64::try_from(*file.position.lock()).map_err(|_| EOVERFLOW)?,
        2 => i64::try_from(file.inode().size()).map_err(|_| EOVERFLOW)?,
        _ => return Err(EINVAL),
    };
    let start = base.checked_add(number(&bytes, 8, 8)).ok_or(EOVERFLOW)?;
    if start < 0 {
        return Err(EINVAL);
    }
    let len = number(&bytes, 16, 8);
    let (start, end) = match len {
        0 => (start, i64::MAX),
        1.. => (start, start.checked_add(len - 1).ok_or(EOVERFLOW)?),
        _ => (start.checked_add(len).ok_or(EINVAL)?, start - 1),
    };
    let start = u64::try_from(start).map_err(|_| EINVAL)?;
    let end = if end == i64::MAX { u64::MAX } else { u64::try_from(end).map_err(|_| EINVAL)? };
    if !matches!(kind, READ_LOCK | WRITE_LOCK | UNLOCK) {
        return Err(EINVAL);
    }
    let owner = if of_file { file.lock_holder() } else { caller::files().lock_owner() };
    let by = file.lock_holder();
    let record = Record { owner, by, process: caller::pid(), start, end, exclusive: kind == WRITE_LOCK };
    Ok(Request { kind, process: number(&bytes, 24, 4), record })
}

/// F_GETLK and F_OFD_GETLK, which with F_UNLCK asks for the open file's own locks.
#[expect(clippy::arithmetic_side_effects, reason = "the end is not the last, and not before the start")]
pub fn get(file: &File, address: usize, of_file: bool) -> Result<usize> {
    let request = request(file, address, of_file, true)?;
    if of_file && request.process != 0 {
        return Err(EINVAL);
    }
    let locks = &file.inode().locks;
    let found = if request.kind == UNLOCK {
        locks.own_record(&request.record)
    } else {
        locks.conflict(&request.record)
    };
    let at = UserSlice::new(address, FLOCK_SIZE);
    let Some(other) = found else {
        at.take(2).write(&UNLOCK.to_ne_bytes())?;
        return Ok(0);
    };
    let len = if other.end == u64::MAX { 0 } else { other.end - other.start + 1 };
    let process = if other.owner.is_open_file() { -1 } else { other.process.cast_signed() };
    at.take(2).write(&(if other.exclusive { WRITE_LOCK } else { READ_LOCK }).to_ne_bytes())?;
    at.skip(2).take(2).write(&0i16.to_ne_bytes())?;
    at.skip(8).take(8).write(&other.start.to_ne_bytes())?;
    at.skip(16).take(8).write(&len.to_ne_bytes())?;
    at.skip(24).take(4).write(&process.to_ne_bytes())?;
    Ok(0)
}

/// F_SETLK and its kin on `file`, which is descriptor `fd`.
pub fn set(fd: i32, file: &File, address: usize, wait: bool, of_file: bool) -> Result<usize> {
    let Request { kind, process, record } = request(file, address, of_file, false)?;
    let open_for_it = match kind {
        READ_LOCK => file.flags().reads(),
        WRITE_LOCK => file.flags().writes(),
        _ => true,
    };
    if !open_for_it {
        return Err(EBADF);
    }
    if of_file && process != 0 {
        return Err(EINVAL);
    }
    let locks = &file.inode().locks;
    if kind == UNLOCK {
        return locks.unlock_record(record).map(|()| 0);
    }
    // As in flock: the locks of an open file end with it.
    let _kept = if of_file { Some(file.keep_open()?) } else { None };
    locks.lock_record(file.inode().place(), record, wait.then(caller::tid))?;
    // Another thread may have closed the descriptor meanwhile: the process's locks on the file were given up then, but for this one.
    let still = || caller::files().is(fd, file);
    if !of_file && !still() {
        locks.release_records(record.owner);
        return Err(EBADF);
    }
    Ok(0)
}

pub fn sys_flock(fd: i32, operation: u32) -> Result<usize> {
    // LOCK_MAND, which says nothing any more.
    if operation & 32 != 0 {
        return Ok(0);
    }
    let wait = operation & 4 == 0;
    let exclusive = match operation & !4 {
        1 => Some(false),
        2 => Some(true),
        8 => None,
        _ => return Err(EINVAL),
    };
    let file = file(fd)?;
    let opened = file.flags();
    // One that was opened for nothing (access mode 3) gives up a lock, but has none.
    if opened.contains(OpenFlags::PATH) || exclusive.is_some() && !opened.reads() && !opened.writes() {
        return Err(EBADF);
    }
    // The last close gives the lock up, so it must not come before the lock.
    let _kept = file.keep_open()?;
    let inode = file.inode();
    inode.locks.flock(inode.place(), file.lock_holder(), exclusive, wait)?;
    Ok(0)
}
