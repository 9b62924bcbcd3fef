//! mount(2), umount2(2).
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use super::{AT_FDCWD, At, PathText};
use crate::errno::*;
use crate::fs::caller::{self, Capability};
use crate::fs::vfs::mount::{self, KEPT, Path};
use crate::fs::vfs::superblock;

const REMOUNT: u64 = 32;
const BIND: u64 = 4096;
const MOVE: u64 = 8192;
const SILENT: u64 = 1 << 15;
const RECURSIVE: u64 = 1 << 14;
/// Unbindable, private, slave and shared: there is one namespace and nothing to propagate.
const PROPAGATION: u64 = 1 << 17 | 1 << 18 | 1 << 19 | 1 << 20;
/// The kernel's own mounts, which no program makes.
const NO_USER: u64 = 1 << 31;

/// An optional string argument.
fn text(address: usize) -> Result<PathText> {
    if address == 0 {
        return Ok(PathText::Long(Vec::new()));
    }
    // These are no names: what is too long for a page is not valid.
    PathText::read(address).map_err(|error| if error == ENAMETOOLONG { EINVAL } else { error })
}

/// Asked only once the place is found: who may not mount is told first that there is none.
fn check_may_mount() -> Result {
    if caller::capable(Capability::SYS_ADMIN) { Ok(()) } else { Err(EPERM) }
}

pub fn sys_mount(source: usize, point: usize, kind: usize, flags: u64, data: usize) -> Result<usize> {
    // The magic number of old programs.
    let flags = if flags >> 16 & 0xffff == 0xc0ed { flags & 0xffff } else { flags };
    // In this order, for the errors.
    let no_kind = kind == 0;
    let kind = text(kind)?;
    let source = text(source)?;
    let options = text(data)?;
    let point_text = PathText::read(point)?;
    let at = At::new(AT_FDCWD, point_text.bytes())?;
    let point = at.resolve(point_text.bytes(), true)?;
    if flags & NO_USER != 0 {
        return Err(EINVAL);
    }
    check_may_mount()?;
    let kept = (flags & u64::from(KEPT)) as u32;
    if flags & REMOUNT != 0 {
        if !core::ptr::eq(&*point.mount.root, &*point.dentry) {
            return Err(EINVAL);
        }
        let superblock = &point.mount.superblock;
        superblock.ops.remount(superblock, options.bytes())?;
        point.mount.set_flags(kept);
        return Ok(0);
    }
    let from = |source: &PathText| {
        // No name at all is no path either.
        let source = Some(source.bytes()).filter(|text| !text.is_empty()).ok_or(EINVAL)?;
        At::new(AT_FDCWD, source)?.resolve(source, true)
    };
    if flags & BIND != 0 {
        let from = from(&source)?;
        let superblock = from.mount.superblock.clone();
        let inherited = from.mount.flags() | kept;
        mount::mount(superblock, from.dentry, source.bytes(), inherited, point)?;
        return Ok(0);
    }
    if flags & PROPAGATION != 0 {
        return propagate(&point, flags);
    }
    if flags & MOVE != 0 {
        return from(&source).and(Err(EINVAL));
    }
    if no_kind || flags & !(u64::from(KEPT) | SILENT | 1 << 4 | 1 << 6 | 1 << 24 | 1 << 25) != 0 {
        return Err(EINVAL);
    }
    let found = superblock::find_type(kind.bytes())?;
    let superblock = (found.mount)(found, options.bytes())?;
    let root = superblock.root()?;
    let source = if source.bytes().is_empty() { b"none" } else { source.bytes() };
    mount::mount(superblock, root, source, kept, point)?;
    Ok(0)
}

/// Says how what is mounted later below a mount is to be shared with others: one way at a time, and of a whole mount.
fn propagate(point: &Path, flags: u64) -> Result<usize> {
    let one = (flags & PROPAGATION).is_power_of_two();
    let whole = core::ptr::eq(&*point.mount.root, &*point.dentry);
    if one && whole && flags & !(PROPAGATION | RECURSIVE | SILENT) == 0 { Ok(0) } else { Err(EINVAL) }
}

pub fn sys_umount2(point: usize, flags: u32) -> Result<usize> {
    const FORCE: u32 = 1;
    const DETACH: u32 = 2;
    const EXPIRE: u32 = 4;
    const NOFOLLOW: u32 = 8;
    if flags & !(FORCE | DETACH | EXPIRE | NOFOLLOW) != 0 {
        return Err(EINVAL);
    }
    let text = PathText::read(point)?;
    let found = At::new(AT_FDCWD, text.bytes())?.resolve(text.bytes(), flags & NOFOLLOW == 0)?;
    check_may_mount()?;
    mount::unmount(&found, flags & DETACH != 0, caller::uses_mount)?;
    Ok(0)
}
