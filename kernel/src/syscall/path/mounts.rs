//! mount(2), umount2(2), pivot_root(2).
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use super::{AT_FDCWD, At, PathText};
use crate::errno::*;
use crate::fs::caller::{self, Capability};
use crate::fs::vfs::configuration::{self, CHANGED};
use crate::fs::vfs::mount::{self, ATIME, KEPT, Kind, NO_ATIME, Namespace, Path, STRICT_ATIME, Where};
use crate::fs::vfs::notify;
use crate::fs::vfs::superblock::{self, Mounting};

const REMOUNT: u64 = 32;
const BIND: u64 = 4096;
const MOVE: u64 = 8192;
const RECURSIVE: u64 = 1 << 14;
const SILENT: u64 = 1 << 15;
const UNBINDABLE: u64 = 1 << 17;
const PRIVATE: u64 = 1 << 18;
const SLAVE: u64 = 1 << 19;
const SHARED: u64 = 1 << 20;
const PROPAGATION: u64 = UNBINDABLE | PRIVATE | SLAVE | SHARED;
const RELATIME: u64 = 1 << 21;
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
pub(super) fn check_may_mount() -> Result {
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
    let context = caller::context();
    let within = context.namespace();
    if flags & REMOUNT != 0 {
        remount(&point, flags, options.bytes(), within)?;
    } else if flags & BIND != 0 {
        mount::bind_tree(&resolve(source.bytes())?, point, flags & RECURSIVE != 0, within)?;
    } else if flags & PROPAGATION != 0 {
        set_kind(&point, flags)?;
    } else if flags & MOVE != 0 {
        mount::move_to(&resolve(source.bytes())?, Where::On(point), within)?;
    } else if no_kind {
        return Err(EINVAL);
    } else {
        let found = superblock::find_type(kind.bytes())?;
        let asked = Mounting { source: Some(source.bytes()), options: options.bytes() };
        let superblock = (found.mount)(found, &asked)?;
        superblock.set_flags(flags as u32, u32::MAX);
        let root = superblock.root()?;
        let source = if source.bytes().is_empty() { b"none" } else { source.bytes() };
        mount::mount(superblock, root, source, kept(flags), point, within)?;
    }
    Ok(0)
}

/// The flags of the mount itself. What is said last of noting reads holds.
fn kept(flags: u64) -> u32 {
    let kept = flags as u32 & KEPT;
    if kept & STRICT_ATIME != 0 { kept & !NO_ATIME } else { kept }
}

fn is_mounted(point: &Path) -> Result {
    if core::ptr::eq(&*point.mount.root, &*point.dentry) { Ok(()) } else { Err(EINVAL) }
}

/// MS_REMOUNT; with MS_BIND of the mount alone. Where nothing is said of noting reads that stays.
fn remount(point: &Path, flags: u64, options: &[u8], within: &Namespace) -> Result {
    is_mounted(point)?;
    if !point.mount.is_in(within) {
        return Err(EINVAL);
    }
    if flags & BIND == 0 {
        let superblock = &point.mount.superblock;
        let writes = caller::writes_to_superblock;
        configuration::reconfigure(superblock, flags as u32, CHANGED, options, writes)
            .map_err(|(error, _)| error)?;
    }
    let says = flags & (u64::from(ATIME) | RELATIME) != 0;
    let old = if says { 0 } else { point.mount.flags() & ATIME };
    point.mount.set_flags(kept(flags) | old);
    Ok(())
}

/// What is to be bound or moved. No name at all is no path either.
fn resolve(source: &[u8]) -> Result<Path> {
    if source.is_empty() {
        return Err(EINVAL);
    }
    At::new(AT_FDCWD, source)?.resolve(source, true)
}

/// What MS_SHARED and its kin say, in mount(2) and mount_setattr(2): one of them.
pub(super) fn kind_of(flag: u64) -> Result<Kind> {
    match flag {
        SHARED => Ok(Kind::Shared),
        SLAVE => Ok(Kind::Slave),
        PRIVATE => Ok(Kind::Private),
        UNBINDABLE => Ok(Kind::Unbindable),
        _ => Err(EINVAL),
    }
}

/// MS_SHARED and its kin.
fn set_kind(point: &Path, flags: u64) -> Result {
    let kind = kind_of(flags & !(RECURSIVE | SILENT))?;
    is_mounted(point)?;
    if !point.mount.is_attached() {
        return Err(EINVAL);
    }
    mount::set_kind(&point.mount, kind, flags & RECURSIVE != 0)
}

/// pivot_root(2).
pub fn sys_pivot_root(new: usize, old: usize) -> Result<usize> {
    check_may_mount()?;
    let directory = |address| {
        let text = PathText::read(address)?;
        let found = At::new(AT_FDCWD, text.bytes())?.resolve(text.bytes(), true)?;
        if found.dentry.inode.is_dir() { Ok(found) } else { Err(ENOTDIR) }
    };
    let (new, old) = (directory(new)?, directory(old)?);
    let context = caller::context();
    let root = context.root()?;
    mount::pivot(&root, &new, old, context.namespace())?;
    caller::replace_root(&root, &new)?;
    Ok(0)
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
    let found = mount::top(At::new(AT_FDCWD, text.bytes())?.resolve(text.bytes(), flags & NOFOLLOW == 0)?);
    check_may_mount()?;
    let context = caller::context();
    let within = context.namespace();
    if flags & EXPIRE != 0 {
        is_mounted(&found)?;
        if !found.mount.is_in(within) {
            return Err(EINVAL);
        }
        let is_root = core::ptr::eq(&*context.root()?.mount, &*found.mount);
        if is_root || flags & (FORCE | DETACH) != 0 {
            return Err(EINVAL);
        }
        mount::check_expired(&found.mount, caller::uses_mount)?;
    }
    if flags & (FORCE | EXPIRE) == 0 {
        // What cannot be written is told to who has it open, who is not here.
        let superblock = &found.mount.superblock;
        if superblock.ops.sync(superblock, true) == Err(EINTR) {
            return Err(EINTR);
        }
    }
    mount::unmount(&found, flags & DETACH != 0, within, caller::uses_mount)?;
    if notify::is_used() && flags & DETACH == 0 && !mount::is_mounted(&found.mount.superblock) {
        notify::unmounted(found.mount.superblock.device);
    }
    Ok(0)
}
