//! Extended attributes.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;

use super::{AT_FDCWD, Target, target};
use crate::errno::*;
use crate::fs::caller;
use crate::fs::file::OpenFlags;
use crate::fs::vfs::notify::events::ATTRIB;
use crate::fs::vfs::operations::XattrMode;
use crate::fs::vfs::xattr::{self, SIZE_MAX};
use crate::memory::user::{UserSlice, UserStr};

/// Longest name.
const NAME_MAX: usize = 255;

fn open_file(fd: i32) -> Result<Target> {
    let file = caller::file(fd)?;
    if file.flags().contains(OpenFlags::PATH) { Err(EBADF) } else { Ok(Target::File(file)) }
}

fn by_path(path: usize, follow: bool) -> Result<Target> {
    target(AT_FDCWD, path, follow, false)
}

/// EROFS on a read-only mount.
fn writable(found: &Target) -> Result {
    super::attributes::writable(found.mount())
}

fn with_name<R>(name: usize, f: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
    let mut buffer = [0; NAME_MAX + 1];
    let name = UserStr::new(name).read_or(&mut buffer, ERANGE)?;
    if name.is_empty() { Err(ERANGE) } else { f(name) }
}

/// Writes what was asked for, or with no room at all says how long it is.
fn give(bytes: &[u8], address: usize, size: usize) -> Result<usize> {
    if size != 0 {
        if bytes.len() > size {
            return Err(ERANGE);
        }
        UserSlice::new(address, bytes.len()).write(bytes)?;
    }
    Ok(bytes.len())
}

fn set(found: &Target, name: usize, value: usize, size: usize, flags: u32) -> Result<usize> {
    writable(found)?;
    let mode = match flags {
        0 => XattrMode::Any,
        1 => XattrMode::Create,
        2 => XattrMode::Replace,
        3 => XattrMode::CreateAndReplace,
        _ => return Err(EINVAL),
    };
    with_name(name, |name| {
        if size > SIZE_MAX {
            return Err(E2BIG);
        }
        let mut bytes = Vec::new();
        bytes.try_resize(size, 0)?;
        UserSlice::new(value, size).read(&mut bytes)?;
        xattr::set(found.inode(), name, &bytes, mode)
    })?;
    found.tell(ATTRIB);
    Ok(0)
}

fn get(found: &Target, name: usize, value: usize, size: usize) -> Result<usize> {
    let mut out = Vec::new();
    with_name(name, |name| xattr::get(found.inode(), name, &mut out))?;
    give(&out, value, size)
}

fn list(found: &Target, address: usize, size: usize) -> Result<usize> {
    let mut out = Vec::new();
    let len = xattr::list(found.inode(), &mut out)?;
    if len <= SIZE_MAX || size == 0 {
        return if size == 0 { Ok(len) } else { give(&out, address, size) };
    }
    Err(if size < SIZE_MAX { ERANGE } else { E2BIG })
}

fn remove(found: &Target, name: usize) -> Result<usize> {
    writable(found)?;
    with_name(name, |name| xattr::remove(found.inode(), name))?;
    found.tell(ATTRIB);
    Ok(0)
}

pub fn sys_setxattr(path: usize, name: usize, value: usize, size: usize, flags: u32) -> Result<usize> {
    set(&by_path(path, true)?, name, value, size, flags)
}

pub fn sys_lsetxattr(path: usize, name: usize, value: usize, size: usize, flags: u32) -> Result<usize> {
    set(&by_path(path, false)?, name, value, size, flags)
}

pub fn sys_fsetxattr(fd: i32, name: usize, value: usize, size: usize, flags: u32) -> Result<usize> {
    set(&open_file(fd)?, name, value, size, flags)
}

pub fn sys_getxattr(path: usize, name: usize, value: usize, size: usize) -> Result<usize> {
    get(&by_path(path, true)?, name, value, size)
}

pub fn sys_lgetxattr(path: usize, name: usize, value: usize, size: usize) -> Result<usize> {
    get(&by_path(path, false)?, name, value, size)
}

pub fn sys_fgetxattr(fd: i32, name: usize, value: usize, size: usize) -> Result<usize> {
    get(&open_file(fd)?, name, value, size)
}

pub fn sys_listxattr(path: usize, address: usize, size: usize) -> Result<usize> {
    list(&by_path(path, true)?, address, size)
}

pub fn sys_llistxattr(path: usize, address: usize, size: usize) -> Result<usize> {
    list(&by_path(path, false)?, address, size)
}

pub fn sys_flistxattr(fd: i32, address: usize, size: usize) -> Result<usize> {
    list(&open_file(fd)?, address, size)
}

pub fn sys_removexattr(path: usize, name: usize) -> Result<usize> {
    remove(&by_path(path, true)?, name)
}

pub fn sys_lremovexattr(path: usize, name: usize) -> Result<usize> {
    remove(&by_path(path, false)?, name)
}

pub fn sys_fremovexattr(fd: i32, name: usize) -> Result<usize> {
    remove(&open_file(fd)?, name)
}
