//! Descriptors: close, dup, fcntl.
#![forbid(unsafe_code)]

use super::{dnotify, file, lease, lock, owner};
use crate::errno::*;
use crate::fs::anon::pipe::End;
use crate::fs::caller;
use crate::fs::file::told;
use crate::fs::file::truncate;
use crate::fs::file::{File, OpenFlags};
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::notify::{self, events};
use crate::fs::vfs::seals;
use crate::memory::user::UserPtr;
use crate::process::pidfd::PidFile;
use core::ptr;
use linux_raw_sys::general::{
    F_ADD_SEALS, F_DUPFD, F_DUPFD_CLOEXEC, F_DUPFD_QUERY, F_GET_RW_HINT, F_GET_SEALS, F_GETFD, F_GETFL,
    F_GETLEASE, F_GETLK, F_GETOWN, F_GETOWN_EX, F_GETOWNER_UIDS, F_GETPIPE_SZ, F_GETSIG, F_NOTIFY,
    F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SEAL_SEAL, F_SET_RW_HINT, F_SETFD, F_SETFL, F_SETLEASE,
    F_SETLK, F_SETLKW, F_SETOWN, F_SETOWN_EX, F_SETPIPE_SZ, F_SETSIG,
};

pub fn sys_close(fd: i32) -> Result<usize> {
    caller::files().close(fd).map(|()| 0)
}

const CLOSE_RANGE_UNSHARE: u32 = 2;
const CLOSE_RANGE_CLOEXEC: u32 = 4;

pub fn sys_close_range(first: u32, last: u32, flags: u32) -> Result<usize> {
    if flags & !(CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE) != 0 || first > last {
        return Err(EINVAL);
    }
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        caller::unshare_files()?;
    }
    let files = caller::files();
    let mut from = first;
    while let Some(fd) = files.next_used(from as usize).filter(|fd| fd.cast_unsigned() <= last) {
        if crate::sched::give_way() {
            break;
        }
        // Another thread may have closed it meanwhile.
        let _ = if flags & CLOSE_RANGE_CLOEXEC != 0 {
            files.set_close_on_exec(fd, true)
        } else {
            files.close(fd)
        };
        if fd.cast_unsigned() == last {
            break;
        }
        from = fd.cast_unsigned().saturating_add(1);
    }
    Ok(0)
}

pub fn sys_dup(fd: i32) -> Result<usize> {
    let files = caller::files();
    let new = files.duplicate(files.get(fd)?, 0, caller::descriptor_limit(), false)?;
    Ok(new as usize)
}

pub fn sys_dup2(old: i32, new: i32) -> Result<usize> {
    let files = caller::files();
    let file = files.get(old)?;
    if old != new {
        files.duplicate_at(file, new, caller::descriptor_limit(), false)?;
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
    files.duplicate_at(files.get(old)?, new, caller::descriptor_limit(), close_on_exec)?;
    Ok(new as usize)
}

/// The last hint (RWH_WRITE_LIFE_EXTREME).
const WRITE_HINTS: u8 = 5;

pub fn sys_fcntl(fd: i32, command: u32, argument: usize) -> Result<usize> {
    let files = caller::files();
    let file = file(fd)?;
    let path_only = file.flags().contains(OpenFlags::PATH);
    if path_only
        && !matches!(command, F_DUPFD | F_DUPFD_CLOEXEC | F_DUPFD_QUERY | F_GETFD | F_SETFD | F_GETFL)
    {
        return Err(EBADF);
    }
    match command {
        F_DUPFD | F_DUPFD_CLOEXEC => {
            let limit = caller::descriptor_limit();
            if argument as u32 as usize >= limit {
                return Err(EINVAL);
            }
            let file = file.into_counted();
            let new = files.duplicate(file, argument as u32 as usize, limit, command == F_DUPFD_CLOEXEC)?;
            Ok(new as usize)
        }
        F_DUPFD_QUERY => Ok(usize::from(ptr::eq(&*file, &*self::file(argument as i32)?))),
        F_GETFD => Ok(usize::from(files.close_on_exec(fd)?)),
        F_SETFD => files.set_close_on_exec(fd, argument & 1 != 0).map(|()| 0),
        F_GETFL => Ok(file.flags_told().bits() as usize),
        F_SETFL => {
            set_flags(fd, &file, OpenFlags::from_bits_retain(argument as u32))?;
            Ok(0)
        }
        F_GETLK | F_OFD_GETLK => lock::get(&file, argument, command == F_OFD_GETLK),
        F_SETLK | F_SETLKW => lock::set(fd, &file, argument, command == F_SETLKW, false),
        F_OFD_SETLK | F_OFD_SETLKW => lock::set(fd, &file, argument, command == F_OFD_SETLKW, true),
        F_SETLEASE => lease::set(fd, &file, argument),
        F_GETLEASE => Ok(lease::get(&file)),
        F_GETOWN => Ok(owner::get(&file)),
        F_SETOWN => owner::set(&file, argument as i32).map(|()| 0),
        F_GETSIG => Ok(owner::signal(&file)),
        F_SETSIG => owner::set_signal(&file, argument as i32).map(|()| 0),
        F_GETOWN_EX => owner::get_ex(&file, argument).map(|()| 0),
        F_SETOWN_EX => owner::set_ex(&file, argument).map(|()| 0),
        F_GETOWNER_UIDS => owner::get_ids(&file, argument).map(|()| 0),
        F_NOTIFY => dnotify::watch(fd, &file, argument as u32).map(|()| 0),
        F_ADD_SEALS => {
            if !file.flags().writes() {
                return Err(EPERM);
            }
            seals::add(file.inode(), argument as u32)?;
            Ok(0)
        }
        F_GET_SEALS => match file.inode().ops.seals() {
            Some(seals) => Ok(seals.get() as usize),
            // What was not made to be sealed is sealed against that.
            None if file.object().is_some() => Ok(F_SEAL_SEAL as usize),
            None => Err(EINVAL),
        },
        F_GET_RW_HINT => {
            UserPtr::<u64>::new(argument).write(&u64::from(file.inode().write_hint()))?;
            Ok(0)
        }
        F_SET_RW_HINT => {
            // Nobody changes anything of a process's file.
            if file.downcast::<PidFile>().is_some() {
                return Err(EPERM);
            }
            let hint = UserPtr::<u64>::new(argument).read()?;
            file.inode().set_write_hint(u8::try_from(hint).ok().filter(|n| *n <= WRITE_HINTS).ok_or(EINVAL)?);
            Ok(0)
        }
        F_SETPIPE_SZ => file.downcast::<End>().ok_or(EBADF)?.set_capacity(argument as u32 as usize),
        F_GETPIPE_SZ => Ok(file.downcast::<End>().ok_or(EBADF)?.capacity()),
        _ => Err(EINVAL),
    }
}

/// F_SETFL.
///
/// # Errors
/// EPERM: O_NOATIME on somebody else's file. EINVAL: O_DIRECT of what has no cache to go by, but for pipes, to which it means packets.
fn set_flags(fd: i32, file: &File, flags: OpenFlags) -> Result {
    let new = flags.difference(file.flags());
    if new.contains(OpenFlags::NOATIME) && !Cred::current().owns(file.inode()) {
        return Err(EPERM);
    }
    let may_be_direct =
        || file.inode().kind == Kind::Fifo || file.path().is_some() && file.inode().is_direct();
    if new.contains(OpenFlags::DIRECT) && !may_be_direct() {
        return Err(EINVAL);
    }
    // A kind of file that tells nobody ignores it.
    file.set_async(fd, flags.contains(OpenFlags::ASYNC))?;
    file.set_flags(flags);
    Ok(())
}

pub fn sys_ftruncate(fd: i32, size: i64) -> Result<usize> {
    let size = u64::try_from(size).map_err(|_| EINVAL)?;
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    if !file.flags().writes() {
        return Err(EINVAL);
    }
    if file.inode().kind != Kind::Regular {
        // What was not opened for large files: that is told first.
        return Err(if size > i32::MAX as u64 { EINVAL } else { file.ops().has_no_size().0 });
    }
    let lost = truncate::lost_by_size(file.inode());
    truncate::set_size(file.inode(), size)?;
    if notify::is_used() {
        told::on_place(&file, events::MODIFY | lost);
    }
    Ok(0)
}

pub fn sys_fallocate(fd: i32, mode: u32, start: i64, len: i64) -> Result<usize> {
    let file = file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    let start = u64::try_from(start).map_err(|_| EINVAL)?;
    let len = u64::try_from(len).ok().filter(|&n| n > 0).ok_or(EINVAL)?;
    truncate::check_mode(mode)?;
    if !file.flags().writes() {
        return Err(EBADF);
    }
    if file.downcast::<End>().is_some() {
        return Err(ESPIPE);
    }
    if file.path().is_none() && file.object().is_none() {
        // An eventfd and its like.
        return Err(file.ops().has_no_size().1);
    }
    // The fuzzer has to find this (`make fuzz-planted`).
    #[cfg(feature = "planted")]
    assert!(mode & 2 == 0 || start % 4096 == 0, "planted: a hole that begins within a page");
    truncate::allocate(file.inode(), mode, start, len)?;
    if notify::is_used() {
        told::on_file(&file, events::MODIFY);
    }
    Ok(0)
}
