//! fsopen(2), fsconfig(2), fsmount(2), fspick(2): file systems that are set up by a descriptor, and mounted.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;
use sync::rcu::Lent;

use super::mounts::check_may_mount;
use super::setattr::attribute_flags;
use super::trees::{enter_tree, place};
use super::{AT_FDCWD, PathText};
use crate::errno::*;
use crate::fs::anon::fscontext::{self, Context};
use crate::fs::caller::{self, Capability};
use crate::fs::file::{File, OpenFlags};
use crate::fs::vfs::configuration::{Configuration, Made};
use crate::fs::vfs::mount;
use crate::fs::vfs::parameters::{Parameters, Value};
use crate::fs::vfs::superblock;
use crate::memory::user::{UserSlice, UserStr};
use crate::sched::give_way;

const FSOPEN_CLOEXEC: u32 = 1;
const FSMOUNT_CLOEXEC: u32 = 1;
const FSPICK_CLOEXEC: u32 = 1;
const FSPICK_SYMLINK_NOFOLLOW: u32 = 2;
const FSPICK_NO_AUTOMOUNT: u32 = 4;
const FSPICK_EMPTY_PATH: u32 = 8;

const SET_FLAG: u32 = 0;
const SET_STRING: u32 = 1;
const SET_BINARY: u32 = 2;
const SET_PATH: u32 = 3;
const SET_PATH_EMPTY: u32 = 4;
const SET_FD: u32 = 5;
const CREATE: u32 = 6;
const RECONFIGURE: u32 = 7;
const CREATE_EXCLUSIVE: u32 = 8;

/// The longest key or value, with its NUL.
const TEXT_MAX: usize = 256;
const BINARY_MAX: usize = 1 << 20;

fn enter(configuration: Configuration, close_on_exec: bool) -> Result<usize> {
    let file = fscontext::try_new(configuration)?;
    Ok(caller::files().install_new(file, caller::descriptor_limit(), close_on_exec)? as usize)
}

pub fn sys_fsopen(kind: usize, flags: u32) -> Result<usize> {
    check_may_mount()?;
    if flags & !FSOPEN_CLOEXEC != 0 {
        return Err(EINVAL);
    }
    // No name of a path: what is too long for a page is not valid.
    let kind = PathText::read(kind).map_err(|error| if error == ENAMETOOLONG { EINVAL } else { error })?;
    enter(Configuration::new(superblock::find_type(kind.bytes())?), flags & FSOPEN_CLOEXEC != 0)
}

pub fn sys_fspick(dir: i32, path: usize, flags: u32) -> Result<usize> {
    check_may_mount()?;
    let known = FSPICK_CLOEXEC | FSPICK_SYMLINK_NOFOLLOW | FSPICK_NO_AUTOMOUNT | FSPICK_EMPTY_PATH;
    if flags & !known != 0 {
        return Err(EINVAL);
    }
    let follow = flags & FSPICK_SYMLINK_NOFOLLOW == 0;
    let found = place(dir, path, follow, flags & FSPICK_EMPTY_PATH != 0)?.ok_or(EINVAL)?;
    if !core::ptr::eq(&*found.mount.root, &*found.dentry) {
        return Err(EINVAL);
    }
    let made = Made { superblock: found.mount.superblock.clone(), root: found.dentry };
    enter(Configuration::of(made), flags & FSPICK_CLOEXEC != 0)
}

/// The open file of a descriptor, which is there for more than its path.
fn open_file(fd: i32) -> Result<Lent<File>> {
    let file = caller::file(fd)?;
    if file.flags().contains(OpenFlags::PATH) { Err(EBADF) } else { Ok(file) }
}

/// Which of key, value and number there are, as the command wants it.
fn check_arguments(command: u32, key: usize, value: usize, extra: i32) -> Result {
    let fits = match command {
        SET_FLAG => key != 0 && value == 0 && extra == 0,
        SET_STRING => key != 0 && value != 0 && extra == 0,
        SET_BINARY => {
            let len = usize::try_from(extra).unwrap_or(0);
            key != 0 && value != 0 && len != 0 && len <= BINARY_MAX
        }
        SET_PATH | SET_PATH_EMPTY => key != 0 && value != 0 && (extra == AT_FDCWD || extra >= 0),
        SET_FD => key != 0 && value == 0 && extra >= 0,
        CREATE | CREATE_EXCLUSIVE | RECONFIGURE => key == 0 && value == 0 && extra == 0,
        _ => return Err(EOPNOTSUPP),
    };
    if fits { Ok(()) } else { Err(EINVAL) }
}

/// A value of bytes is read in parts, and only to know that it is there: no option takes one.
fn read_bytes(address: usize, len: usize) -> Result {
    let mut part = [0; TEXT_MAX];
    let mut done = 0usize;
    while done < len {
        let to = part.get_mut(..len.saturating_sub(done).min(TEXT_MAX)).ok_or(EFAULT)?;
        UserSlice::new(address.checked_add(done).ok_or(EFAULT)?, to.len()).read(to)?;
        done = done.saturating_add(TEXT_MAX);
        if give_way() {
            return Err(EINTR);
        }
    }
    Ok(())
}

fn set(context: &Context, command: u32, key: usize, value: usize, extra: i32) -> Result {
    let (mut key_text, mut value_text) = ([0; TEXT_MAX], [0; TEXT_MAX]);
    let key = UserStr::new(key).read_or(&mut key_text, EINVAL)?;
    let value = match command {
        SET_FLAG => Value::Flag,
        SET_STRING => Value::Text(UserStr::new(value).read_or(&mut value_text, EINVAL)?),
        SET_BINARY => {
            read_bytes(value, usize::try_from(extra).unwrap_or(0))?;
            Value::Other
        }
        SET_FD => {
            open_file(extra)?;
            Value::Other
        }
        _ => {
            if PathText::read(value)?.bytes().is_empty() && command == SET_PATH {
                return Err(ENOENT);
            }
            Value::Other
        }
    };
    context.configuration.lock().set(key, value)
}

pub fn sys_fsconfig(fd: i32, command: u32, key: usize, value: usize, extra: i32) -> Result<usize> {
    if fd < 0 {
        return Err(EINVAL);
    }
    check_arguments(command, key, value, extra)?;
    let file = open_file(fd)?;
    let context = file.downcast::<Context>().ok_or(EINVAL)?;
    let new_only = matches!(command, SET_BINARY | SET_PATH | SET_PATH_EMPTY | SET_FD | CREATE_EXCLUSIVE);
    let kind = context.configuration.lock().kind();
    if new_only && matches!(kind.parameters, Parameters::Text) {
        return Err(EOPNOTSUPP);
    }
    let may = caller::capable(Capability::SYS_ADMIN);
    match command {
        // Of the others each makes a file system of its own.
        CREATE | CREATE_EXCLUSIVE => context.configuration.lock().create(may)?,
        RECONFIGURE => context.configuration.lock().reconfigure(may, caller::writes_to_superblock)?,
        _ => set(context, command, key, value, extra)?,
    }
    Ok(0)
}

pub fn sys_fsmount(fd: i32, flags: u32, attributes: u32) -> Result<usize> {
    check_may_mount()?;
    if flags & !FSMOUNT_CLOEXEC != 0 {
        return Err(EINVAL);
    }
    let mount_flags = attribute_flags(attributes)?;
    let file = open_file(fd)?;
    let context = file.downcast::<Context>().ok_or(EINVAL)?;
    let (made, source) = context.configuration.lock().take_made()?;
    let source = match source {
        Some(source) => source,
        None => Vec::try_from_slice(b"none")?,
    };
    let tree = mount::new(made.superblock, made.root, &source, mount_flags)?;
    enter_tree(tree, flags & FSMOUNT_CLOEXEC != 0)
}
