//! inotify(7).
#![forbid(unsafe_code)]

use super::{AT_FDCWD, At, PathText};
use crate::errno::*;
use crate::fs::anon::inotify::{self, Inotify};
use crate::fs::file::OpenFlags;
use crate::fs::vfs::access::{self, READ};
use crate::fs::vfs::notify::{self, events};
use crate::syscall::file::{install, opened};

pub fn sys_inotify_init() -> Result<usize> {
    sys_inotify_init1(0)
}

pub fn sys_inotify_init1(flags: u32) -> Result<usize> {
    let flags = OpenFlags::from_bits_retain(flags);
    if !(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK).contains(flags) {
        return Err(EINVAL);
    }
    install(|| inotify::try_new(flags & OpenFlags::NONBLOCK), flags.contains(OpenFlags::CLOEXEC))
}

pub fn sys_inotify_add_watch(fd: i32, path: usize, mask: u32) -> Result<usize> {
    if mask == 0 || mask & !events::KNOWN != 0 {
        return Err(EINVAL);
    }
    let file = opened(fd)?;
    if mask & events::MASK_ADD != 0 && mask & events::MASK_CREATE != 0 {
        return Err(EINVAL);
    }
    let inotify = file.downcast::<Inotify>().ok_or(EINVAL)?;
    let text = PathText::read(path)?;
    let at = At::new(AT_FDCWD, text.bytes())?;
    let found = at.resolve(text.bytes(), mask & events::DONT_FOLLOW == 0)?;
    let inode = &found.dentry.inode;
    if mask & events::ONLYDIR != 0 && !inode.is_dir() {
        return Err(ENOTDIR);
    }
    inode.refresh()?;
    access::check(inode, &at.cred, READ)?;
    // The last close, which ends all watches, comes after this one.
    let _open = file.keep_open()?;
    Ok(notify::watch(&inotify.instance, &found, mask)? as usize)
}

pub fn sys_inotify_rm_watch(fd: i32, watch: i32) -> Result<usize> {
    let file = opened(fd)?;
    let inotify = file.downcast::<Inotify>().ok_or(EINVAL)?;
    inotify.instance.unwatch(watch)?;
    Ok(0)
}
