//! open_tree(2), move_mount(2): trees of mounts that a descriptor holds, and where they come to hang.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use super::mounts::check_may_mount;
use super::{AT_EMPTY_PATH, AT_NO_AUTOMOUNT, AT_SYMLINK_NOFOLLOW, At, Target, enter, meant};
use crate::errno::*;
use crate::fs::caller;
use crate::fs::file::tree;
use crate::fs::file::{File, OpenFlags, Place, open};
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::mount::{self, Path, Where};

const OPEN_TREE_CLONE: u32 = 1;
const AT_RECURSIVE: u32 = 0x8000;
const CLOEXEC: u32 = OpenFlags::CLOEXEC.bits();

const F_SYMLINKS: u32 = 1;
const F_AUTOMOUNTS: u32 = 2;
const F_EMPTY_PATH: u32 = 4;
const T_SYMLINKS: u32 = 0x10;
const T_AUTOMOUNTS: u32 = 0x20;
const T_EMPTY_PATH: u32 = 0x40;
const SET_GROUP: u32 = 0x100;
const BENEATH: u32 = 0x200;

/// What a descriptor and a path lead to. With `empty` no path means the descriptor's file.
fn find(dir: i32, path: usize, follow: bool, empty: bool) -> Result<Target> {
    // Not even then there may be no path at all.
    if path == 0 {
        return Err(EFAULT);
    }
    meant(dir, path, empty, |at: &At, path| at.resolve(path, follow).map(Target::Path))
}

/// As `find`; nothing for a file that has no place in a tree.
pub(super) fn place(dir: i32, path: usize, follow: bool, empty: bool) -> Result<Option<Path>> {
    Ok(match find(dir, path, follow, empty)? {
        Target::Path(path) => Some(path),
        Target::Inode(..) => None,
        Target::File(file) => file.path().cloned(),
    })
}

/// A descriptor that holds the tree, which ends with it.
pub(super) fn enter_tree(tree: Path, close_on_exec: bool) -> Result<usize> {
    let file = tree::open(tree)?;
    Ok(caller::files().install_new(file, caller::descriptor_limit(), close_on_exec)? as usize)
}

pub fn sys_open_tree(dir: i32, path: usize, flags: u32) -> Result<usize> {
    let known =
        AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | OPEN_TREE_CLONE | CLOEXEC;
    if flags & !known != 0 || flags & (AT_RECURSIVE | OPEN_TREE_CLONE) == AT_RECURSIVE {
        return Err(EINVAL);
    }
    let clones = flags & OPEN_TREE_CLONE != 0;
    if clones {
        check_may_mount()?;
    }
    let limit = caller::descriptor_limit();
    caller::files().check_room(limit)?;
    let found = find(dir, path, flags & AT_SYMLINK_NOFOLLOW == 0, flags & AT_EMPTY_PATH != 0)?;
    let path = match &found {
        Target::Path(path) => Some(path),
        Target::Inode(..) => None,
        Target::File(file) => file.path(),
    };
    if clones {
        return enter_tree(
            mount::copy(path.ok_or(EINVAL)?, flags & AT_RECURSIVE != 0, caller::context().namespace())?,
            flags & CLOEXEC != 0,
        );
    }
    let file: Arc<File> = match (path, &found) {
        (Some(path), _) => {
            open::open_place(&caller::context(), &Cred::current(), path.clone(), OpenFlags::PATH)?
        }
        (None, Target::File(file)) => match &file.place {
            Place::Anonymous(inode, name) => tree::path_only(inode.clone(), name)?,
            Place::Named(_) => return Err(EINVAL),
        },
        (None, _) => return Err(EINVAL),
    };
    enter(file, OpenFlags::from_bits_truncate(flags & CLOEXEC), limit)
}

pub fn sys_move_mount(from_dir: i32, from: usize, to_dir: i32, to: usize, flags: u32) -> Result<usize> {
    check_may_mount()?;
    let known = F_SYMLINKS
        | F_AUTOMOUNTS
        | F_EMPTY_PATH
        | T_SYMLINKS
        | T_AUTOMOUNTS
        | T_EMPTY_PATH
        | SET_GROUP
        | BENEATH;
    if flags & !known != 0 || flags & (SET_GROUP | BENEATH) == SET_GROUP | BENEATH {
        return Err(EINVAL);
    }
    let from = place(from_dir, from, flags & F_SYMLINKS != 0, flags & F_EMPTY_PATH != 0)?;
    let to = place(to_dir, to, flags & T_SYMLINKS != 0, flags & T_EMPTY_PATH != 0)?;
    if flags & SET_GROUP != 0 {
        mount::join_group(&from.ok_or(EINVAL)?, &to.ok_or(EINVAL)?)?;
        return Ok(0);
    }
    let context = caller::context();
    let (from, to) = (from.ok_or(EINVAL)?, mount::top(to.ok_or(EINVAL)?));
    if flags & BENEATH != 0 {
        let root = context.root()?;
        mount::move_to(&from, Where::Beneath(to, &root), context.namespace())?;
    } else {
        mount::move_to(&from, Where::On(to), context.namespace())?;
    }
    Ok(0)
}
