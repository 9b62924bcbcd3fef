//! Descriptors: close, dup, fcntl, flock.
#![forbid(unsafe_code)]

use super::file;
use crate::errno::*;
use crate::fs::anon::pipe::End;
use crate::fs::caller;
use crate::fs::file::truncate;
use crate::fs::file::{File, OpenFlags};
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::locks::Record;
use crate::memory::user::UserSlice;

pub fn sys_close(fd: i32) -> Result<usize> {
    caller::files().close(fd).map(|()| 0)
}

const CLOSE_RANGE_CLOEXEC: u32 = 4;

pub fn sys_close_range(first: u32, last: u32, flags: u32) -> Result<usize> {
    // CLOSE_RANGE_UNSHARE (2) has no effect on a table that nobody shares, and is refused for the others.
    if flags & !CLOSE_RANGE_CLOEXEC != 0 || first > last {
        return Err(EINVAL);
    }
    let files = caller::files();
    for fd in files.descriptors(first as usize)? {
        if fd.cast_unsigned() > last {
            break;
        }
        // Another thread may have closed it meanwhile.
        let _ = if flags != 0 { files.set_close_on_exec(fd, true) } else { files.close(fd) };
    }
    Ok(0)
}

pub fn sys_dup(fd: i32) -> Result<usize> {
    let files = caller::files();
    let new = files.install(files.get(fd)?, 0, caller::descriptor_limit(), false)?;
    Ok(new as usize)
}

pub fn sys_dup2(old: i32, new: i32) -> Result<usize> {
    let files = caller::files();
    let file = files.get(old)?;
    if old != new {
        files.install_at(file, new, caller::descriptor_limit(), false)?;
    }
    Ok(new as usize)
}

pub fn sys_dup3(old: i32, new: i32, flags: u32) -> Result<usize> {
    let flags = OpenFlags::from_bits_retain(flags);
    if old == new || !OpenFlags::CLOEXEC.contains(flags) {
        return Err(EINVAL);
    }
    let files = caller::files();
    let close_on_exec = flags.contains(OpenFlags::CLOEXEC);
    files.install_at(files.get(old)?, new, caller::descriptor_limit(), close_on_exec)?;
    Ok(new as usize)
}

const F_DUPFD: u32 = 0;
const F_GETFD: u32 = 1;
const F_SETFD: u32 = 2;
const F_GETFL: u32 = 3;
const F_SETFL: u32 = 4;
const F_GETLK: u32 = 5;
const F_SETLK: u32 = 6;
const F_SETLKW: u32 = 7;
const F_SETOWN: u32 = 8;
const F_GETOWN: u32 = 9;
const F_DUPFD_CLOEXEC: u32 = 1030;
const F_SETPIPE_SZ: u32 = 1031;
const F_GETPIPE_SZ: u32 = 1032;

pub fn sys_fcntl(fd: i32, command: u32, argument: usize) -> Result<usize> {
    let files = caller::files();
    let file = files.get(fd)?;
    let path_only = file.flags().contains(OpenFlags::PATH);
    if path_only && !matches!(command, F_DUPFD | F_DUPFD_CLOEXEC | F_GETFD | F_SETFD | F_GETFL) {
        return Err(EBADF);
    }
    match command {
        F_DUPFD | F_DUPFD_CLOEXEC => {
            let limit = caller::descriptor_limit();
            if argument as u32 as usize >= limit {
                return Err(EINVAL);
            }
            let new = files.install(file, argument as u32 as usize, limit, command == F_DUPFD_CLOEXEC)?;
            Ok(new as usize)
        }
        F_GETFD => Ok(usize::from(files.close_on_exec(fd)?)),
        F_SETFD => files.set_close_on_exec(fd, argument & 1 != 0).map(|()| 0),
        F_GETFL => {
            // A 64-bit program's files are all "large".
            Ok((file.flags() | large(&file)).bits() as usize)
        }
        F_SETFL => {
            file.set_flags(OpenFlags::from_bits_retain(argument as u32));
            Ok(0)
        }
        F_GETLK => get_lock(&file, argument),
        F_SETLK => set_lock(&file, argument, false),
        F_SETLKW => set_lock(&file, argument, true),
        F_SETOWN => Ok(0),
        F_GETOWN => Ok(0),
        F_SETPIPE_SZ => file.downcast::<End>().ok_or(EBADF)?.set_capacity(argument as u32 as usize),
        F_GETPIPE_SZ => Ok(file.downcast::<End>().ok_or(EBADF)?.capacity()),
        _ => Err(EINVAL),
    }
}

fn large(file: &File) -> OpenFlags {
    if file.path().is_some() { OpenFlags::LARGEFILE } else { OpenFlags::empty() }
}

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

#[expect(clippy::arithmetic_side_effects, reason = "a start below the least number was refused")]
fn read_lock(file: &File, address: usize) -> Result<(i16, Record)> {
    let mut bytes = [0; FLOCK_SIZE];
    UserSlice::new(address, FLOCK_SIZE).read(&mut bytes)?;
    let kind = number(&bytes, 0, 2) as i16;
    let base = match number(&bytes, 2, 2) {
        0 => 0,
        1 => i64::try_from(*file.position.lock()).map_err(|_| EOVERFLOW)?,
        2 => i64::try_from(file.inode().size()).map_err(|_| EOVERFLOW)?,
        _ => return Err(EINVAL),
    };
    let start = base.checked_add(number(&bytes, 8, 8)).ok_or(EOVERFLOW)?;
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
    Ok((kind, Record { process: caller::pid(), start, end, exclusive: kind == WRITE_LOCK }))
}

#[expect(clippy::arithmetic_side_effects, reason = "the end is not the last, and not before the start")]
fn get_lock(file: &File, address: usize) -> Result<usize> {
    let (kind, want) = read_lock(file, address)?;
    if kind == UNLOCK {
        return Err(EINVAL);
    }
    let at = UserSlice::new(address, FLOCK_SIZE);
    match file.inode().locks.conflict(&want) {
        None => at.take(2).write(&UNLOCK.to_ne_bytes())?,
        Some(other) => {
            let len = if other.end == u64::MAX { 0 } else { other.end - other.start + 1 };
            at.take(2).write(&(if other.exclusive { WRITE_LOCK } else { READ_LOCK }).to_ne_bytes())?;
            at.skip(2).take(2).write(&0i16.to_ne_bytes())?;
            at.skip(8).take(8).write(&other.start.to_ne_bytes())?;
            at.skip(16).take(8).write(&len.to_ne_bytes())?;
            at.skip(24).take(4).write(&other.process.to_ne_bytes())?;
        }
    }
    Ok(0)
}

fn set_lock(file: &File, address: usize, wait: bool) -> Result<usize> {
    let (kind, want) = read_lock(file, address)?;
    let locks = &file.inode().locks;
    match kind {
        UNLOCK => locks.unlock_record(want)?,
        READ_LOCK if !file.flags().reads() => return Err(EBADF),
        WRITE_LOCK if !file.flags().writes() => return Err(EBADF),
        _ => locks.lock_record(want, wait)?,
    }
    Ok(0)
}

pub fn sys_flock(fd: i32, operation: u32) -> Result<usize> {
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    let wait = operation & 4 == 0;
    let exclusive = match operation & !4 {
        1 => Some(false),
        2 => Some(true),
        8 => None,
        _ => return Err(EINVAL),
    };
    file.inode().locks.flock(file.lock_holder(), exclusive, wait)?;
    Ok(0)
}

pub fn sys_ftruncate(fd: i32, size: i64) -> Result<usize> {
    let size = u64::try_from(size).map_err(|_| EINVAL)?;
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    if !file.flags().writes() || file.inode().kind != Kind::Regular {
        return Err(EINVAL);
    }
    truncate::set_size(file.inode(), size)?;
    Ok(0)
}

pub fn sys_fallocate(fd: i32, mode: u32, start: i64, len: i64) -> Result<usize> {
    let start = u64::try_from(start).map_err(|_| EINVAL)?;
    let len = u64::try_from(len).ok().filter(|&n| n > 0).ok_or(EINVAL)?;
    let file = file(fd)?;
    if !file.flags().writes() {
        return Err(EBADF);
    }
    if file.downcast::<End>().is_some() {
        return Err(ESPIPE);
    }
    truncate::allocate(file.inode(), mode, start, len)?;
    Ok(0)
}
