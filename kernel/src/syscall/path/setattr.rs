//! mount_setattr(2).
#![forbid(unsafe_code)]

use super::mounts::{check_may_mount, kind_of};
use super::openat2::check_rest;
use super::{AT_EMPTY_PATH, AT_NO_AUTOMOUNT, AT_SYMLINK_NOFOLLOW, At, Target, meant};
use crate::errno::*;
use crate::fs::caller;
use crate::fs::file::OpenFlags;
use crate::fs::vfs::mount::{self, Change};
use crate::memory::user::UserPtr;

const AT_RECURSIVE: u32 = 0x8000;
/// `struct mount_attr`.
const SIZE: usize = 32;
const SIZE_MAX: usize = 4096;
const NOATIME: u64 = 0x10;
const STRICTATIME: u64 = 0x20;
/// Says when a read is noted: one of several values.
const ATIME: u64 = 0x70;
const IDMAP: u64 = 0x10_0000;
/// What a mount allows, as MOUNT_ATTR_* and as a mount has it.
const FLAGS: [(u64, u32); 6] = [
    (1, mount::READ_ONLY),
    (2, mount::NO_SUID),
    (4, mount::NO_DEV),
    (8, mount::NO_EXEC),
    (0x80, mount::NO_DIR_ATIME),
    (0x20_0000, mount::NO_SYMFOLLOW),
];

fn flags_of(attributes: u64) -> u32 {
    FLAGS.iter().filter(|(attribute, _)| attributes & attribute != 0).fold(0, |all, (_, flag)| all | flag)
}

/// The flags of a new mount, from MOUNT_ATTR_*.
///
/// # Errors
/// EINVAL: one is none, or they say in several ways when a read is noted.
pub(super) fn attribute_flags(attributes: u32) -> Result<u32> {
    let attributes = u64::from(attributes);
    let known = FLAGS.iter().fold(ATIME, |all, (attribute, _)| all | attribute);
    if attributes & !known != 0 {
        return Err(EINVAL);
    }
    let when = match attributes & ATIME {
        0 => 0,
        NOATIME => mount::NO_ATIME,
        STRICTATIME => mount::STRICT_ATIME,
        _ => return Err(EINVAL),
    };
    Ok(flags_of(attributes) | when)
}

/// Mounts are mapped to other users for a namespace of users, and there is none but the first, which can be used for none.
fn refuse_map(set: u64, clear: u64, space: u64) -> Result {
    if (set | clear) & IDMAP == 0 {
        return Ok(());
    }
    let fd = i32::try_from(space).ok().filter(|_| clear & IDMAP == 0).ok_or(EINVAL)?;
    if caller::file(fd)?.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    Err(EINVAL)
}

fn change_of([set, clear, propagation, space]: [u64; 4]) -> Result<Change> {
    let kind = if propagation == 0 { None } else { Some(kind_of(propagation)?) };
    let known = FLAGS.iter().fold(ATIME | IDMAP, |all, (attribute, _)| all | attribute);
    if (set | clear) & !known != 0 {
        return Err(EINVAL);
    }
    let mut change = Change { set: flags_of(set), clear: flags_of(clear), kind };
    match (clear & ATIME, set & ATIME) {
        (0, 0) => {}
        (ATIME, when) => {
            change.clear |= mount::NO_ATIME | mount::STRICT_ATIME;
            change.set |= match when {
                0 => 0,
                NOATIME => mount::NO_ATIME,
                STRICTATIME => mount::STRICT_ATIME,
                _ => return Err(EINVAL),
            };
        }
        _ => return Err(EINVAL),
    }
    refuse_map(set, clear, space)?;
    Ok(change)
}

pub fn sys_mount_setattr(fd: i32, path: usize, flags: u32, attributes: usize, size: usize) -> Result<usize> {
    if flags & !(AT_EMPTY_PATH | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0 {
        return Err(EINVAL);
    }
    if size > SIZE_MAX {
        return Err(E2BIG);
    }
    if size < SIZE {
        return Err(EINVAL);
    }
    check_may_mount()?;
    check_rest(attributes, SIZE, size)?;
    let attributes = UserPtr::<[u64; 4]>::new(attributes).read()?;
    let [set, clear, propagation, _] = attributes;
    if set | clear | propagation == 0 {
        return Ok(0);
    }
    let change = change_of(attributes)?;
    // Not even with AT_EMPTY_PATH there may be no path at all.
    if path == 0 {
        return Err(EFAULT);
    }
    let resolve = |at: &At, path: &[u8]| at.resolve(path, flags & AT_SYMLINK_NOFOLLOW == 0).map(Target::Path);
    let found = meant(fd, path, flags & AT_EMPTY_PATH != 0, resolve)?;
    let place = match &found {
        Target::Path(path) => path,
        Target::Inode(..) => return Err(EINVAL),
        Target::File(file) => file.path().ok_or(EINVAL)?,
    };
    let below = flags & AT_RECURSIVE != 0;
    mount::change(place, &change, below, caller::context().namespace(), caller::writes_to_mounts)?;
    Ok(0)
}
