//! Making, removing and moving names.
#![forbid(unsafe_code)]

use super::{AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, At, PathText, Target, meant, target};
use crate::errno::*;
use crate::fs::vfs::create::{self, Making};
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::lookup::resolve_parent;
use crate::fs::vfs::remove;
use crate::fs::vfs::rename;
use crate::memory::user::UserSlice;

pub fn sys_mkdir(path: usize, mode: u32) -> Result<usize> {
    sys_mkdirat(AT_FDCWD, path, mode)
}

pub fn sys_mkdirat(fd: i32, path: usize, mode: u32) -> Result<usize> {
    let text = PathText::read(path)?;
    let at = At::new(fd, text.bytes())?;
    let making = Making { kind: Kind::Directory, mode: mode & 0o1777, rdev: 0, target: &[] };
    create::make_at(&at.context, &at.cred, at.start(), text.bytes(), &making)?;
    Ok(0)
}

pub fn sys_mknod(path: usize, mode: u32, device: u64) -> Result<usize> {
    sys_mknodat(AT_FDCWD, path, mode, device)
}

pub fn sys_mknodat(fd: i32, path: usize, mode: u32, device: u64) -> Result<usize> {
    let kind = match mode & 0o170_000 {
        0 => Kind::Regular,
        bits => Kind::from_mode(bits).ok_or(EINVAL)?,
    };
    match kind {
        Kind::Directory => return Err(EPERM),
        Kind::Symlink => return Err(EINVAL),
        _ => {}
    }
    let text = PathText::read(path)?;
    let at = At::new(fd, text.bytes())?;
    let node = matches!(kind, Kind::Character | Kind::Block);
    // The call takes 32 bits of a device number.
    let rdev = if node { device & 0xffff_ffff } else { 0 };
    let making = Making { kind, mode: mode & 0o7777, rdev, target: &[] };
    create::make_at(&at.context, &at.cred, at.start(), text.bytes(), &making)?;
    Ok(0)
}

pub fn sys_symlink(to: usize, path: usize) -> Result<usize> {
    sys_symlinkat(to, AT_FDCWD, path)
}

pub fn sys_symlinkat(to: usize, fd: i32, path: usize) -> Result<usize> {
    let to = PathText::read(to)?;
    if to.bytes().is_empty() {
        return Err(ENOENT);
    }
    let text = PathText::read(path)?;
    let at = At::new(fd, text.bytes())?;
    let making = Making { kind: Kind::Symlink, mode: 0o777, rdev: 0, target: to.bytes() };
    create::make_at(&at.context, &at.cred, at.start(), text.bytes(), &making)?;
    Ok(0)
}

pub fn sys_link(old: usize, new: usize) -> Result<usize> {
    sys_linkat(AT_FDCWD, old, AT_FDCWD, new, 0)
}

pub fn sys_linkat(old_fd: i32, old: usize, new_fd: i32, new: usize, flags: u32) -> Result<usize> {
    if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    let follow = flags & AT_SYMLINK_FOLLOW != 0;
    let resolve = |at: &At, path: &[u8]| at.resolve(path, follow).map(Target::Path);
    let found = meant(old_fd, old, flags & AT_EMPTY_PATH != 0, resolve)?;
    let path = match &found {
        Target::Path(path) => path,
        Target::Inode(..) => return Err(EXDEV),
        Target::File(file) => file.path().ok_or(EXDEV)?,
    };
    let text = PathText::read(new)?;
    let at = At::new(new_fd, text.bytes())?;
    create::link_at(&at.context, &at.cred, path, at.start(), text.bytes())?;
    Ok(0)
}

pub fn sys_unlink(path: usize) -> Result<usize> {
    sys_unlinkat(AT_FDCWD, path, 0)
}

pub fn sys_rmdir(path: usize) -> Result<usize> {
    sys_unlinkat(AT_FDCWD, path, AT_REMOVEDIR)
}

pub fn sys_unlinkat(fd: i32, path: usize, flags: u32) -> Result<usize> {
    if flags & !AT_REMOVEDIR != 0 {
        return Err(EINVAL);
    }
    let text = PathText::read(path)?;
    let at = At::new(fd, text.bytes())?;
    if flags & AT_REMOVEDIR != 0 {
        remove::rmdir_at(&at.context, &at.cred, at.start(), text.bytes())?;
    } else {
        remove::unlink_at(&at.context, &at.cred, at.start(), text.bytes())?;
    }
    Ok(0)
}

pub fn sys_rename(old: usize, new: usize) -> Result<usize> {
    sys_renameat2(AT_FDCWD, old, AT_FDCWD, new, 0)
}

pub fn sys_renameat(old_fd: i32, old: usize, new_fd: i32, new: usize) -> Result<usize> {
    sys_renameat2(old_fd, old, new_fd, new, 0)
}

pub fn sys_renameat2(old_fd: i32, old: usize, new_fd: i32, new: usize, flags: u32) -> Result<usize> {
    rename::check_flags(flags)?;
    // What is wrong with the old path comes before all that is wrong with the new one.
    let old = PathText::read(old)?;
    let at = At::new(old_fd, old.bytes())?;
    let from = resolve_parent(&at.context, &at.cred, at.start(), old.bytes())?;
    let new = PathText::read(new)?;
    let start = At::new(new_fd, new.bytes())?;
    let to = resolve_parent(&at.context, &at.cred, start.start(), new.bytes())?;
    rename::rename(&at.cred, &from, &to, flags, at.context.namespace())?;
    Ok(0)
}

pub fn sys_readlink(path: usize, address: usize, len: i32) -> Result<usize> {
    sys_readlinkat(AT_FDCWD, path, address, len)
}

pub fn sys_readlinkat(fd: i32, path: usize, address: usize, len: i32) -> Result<usize> {
    let len = usize::try_from(len).ok().filter(|&n| n > 0).ok_or(EINVAL)?;
    // An O_PATH descriptor of a link is read with an empty path.
    let found = target(fd, path, false, fd != AT_FDCWD)?;
    let inode = found.inode();
    if inode.kind != Kind::Symlink {
        return Err(if matches!(found, Target::File(_)) { ENOENT } else { EINVAL });
    }
    let text = inode.ops.read_link(inode)?;
    let part = text.get(..len.min(text.len())).unwrap_or(&[]);
    UserSlice::new(address, part.len()).write(part)?;
    Ok(part.len())
}
