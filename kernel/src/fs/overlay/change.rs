//! Changing names. The VFS has locked the directories, and claimed the names: nobody else asks for them or changes them.
//!
//! What may fail is done first: attributes of the directories, and of what gets or loses a name, become the overlay's own, and memory is found for names. Then names
//! change, and link counts.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use super::list;
use super::node::{self, Node};
use crate::errno::{EIO, ENOTEMPTY, EPERM, Result};
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::operations::Moving;

/// A node of a directory, which all of them have.
fn directory(inode: &Inode) -> Result<&Node> {
    node::of(inode).ok_or(EIO)
}

/// Has the attributes of what is about to get or lose a name be the overlay's own.
fn own(inode: &Inode) -> Result {
    node::of(inode).map_or(Ok(()), |node| node.own_attributes(inode))
}

/// Makes a file of any kind. `text`: of a symbolic link.
pub fn make(node: &Node, dir: &Inode, name: &[u8], new: &NewInode, text: &[u8]) -> Result<Arc<Inode>> {
    // That is how Linux's overlay marks a name that is gone, and refuses to make one.
    if new.kind == Kind::Character && new.rdev == 0 {
        return Err(EPERM);
    }
    node.own_attributes(dir)?;
    let spare = node.names.spare(name, &node.fs.budget.share())?;
    let made = node.fs.make(new, text)?;
    node.fs.inodes.keep(&made)?;
    if let Err(error) = node.names.set(name, spare, (made.number, made.kind), false) {
        node.fs.inodes.forget(&made);
        return Err(error);
    }
    if made.is_dir() {
        dir.add_link();
    }
    dir.touch_modified();
    Ok(made)
}

/// See `InodeOps::link`.
pub fn link(node: &Node, dir: &Inode, name: &[u8], inode: &Inode) -> Result {
    node.own_attributes(dir)?;
    own(inode)?;
    let spare = node.names.spare(name, &node.fs.budget.share())?;
    let counted = node.fs.inodes.counted(inode).ok_or(EIO)?;
    node.fs.inodes.keep(&counted)?;
    node.names.set(name, spare, (inode.number, inode.kind), false)?;
    inode.add_link();
    dir.touch_modified();
    Ok(())
}

/// See `InodeOps::unlink`. The VFS forgets what has no name any more.
pub fn unlink(node: &Node, dir: &Inode, name: &[u8], victim: &Inode) -> Result {
    node.own_attributes(dir)?;
    own(victim)?;
    let spare = node.names.spare(name, &node.fs.budget.share())?;
    node.names.take_away(name, spare)?;
    victim.drop_link();
    dir.touch_modified();
    Ok(())
}

/// See `InodeOps::rmdir`.
pub fn rmdir(node: &Node, dir: &Inode, name: &[u8], victim: &Inode) -> Result {
    let inner = directory(victim)?;
    if !list::is_empty(inner)? {
        return Err(ENOTEMPTY);
    }
    node.own_attributes(dir)?;
    own(victim)?;
    let spare = node.names.spare(name, &node.fs.budget.share())?;
    node.names.take_away(name, spare)?;
    bury(inner, victim);
    dir.drop_link();
    dir.touch_modified();
    Ok(())
}

/// A directory, which is empty, has no name any more.
fn bury(node: &Node, victim: &Inode) {
    node.names.clear();
    victim.set_links(0);
    victim.touch_changed();
}

/// See `InodeOps::rename`.
pub fn rename(moving: &Moving<'_>) -> Result {
    let (from, to) = (directory(moving.old_dir)?, directory(moving.new_dir)?);
    let (old, target) = (moving.old, moving.target);
    let replaced = target.filter(|_| !moving.exchange);
    if let Some(replaced) = replaced.filter(|replaced| replaced.is_dir())
        && !list::is_empty(directory(replaced)?)?
    {
        return Err(ENOTEMPTY);
    }
    from.own_attributes(moving.old_dir)?;
    to.own_attributes(moving.new_dir)?;
    own(old)?;
    target.map_or(Ok(()), own)?;
    let budget = from.fs.budget.share();
    let (new_spare, old_spare) =
        (to.names.spare(moving.new_name, &budget)?, from.names.spare(moving.old_name, &budget)?);
    to.names.set(moving.new_name, new_spare, (old.number, old.kind), target.is_some())?;
    match target {
        // It stands here already, or below: the other one is entered as it was.
        Some(other) if moving.exchange => {
            from.names.set(moving.old_name, old_spare, (other.number, other.kind), true)?;
        }
        _ => from.names.take_away(moving.old_name, old_spare)?,
    }
    finish(moving, replaced)
}

/// Link counts and times.
fn finish(moving: &Moving<'_>, replaced: Option<&Inode>) -> Result {
    let (from, to) = (moving.old_dir, moving.new_dir);
    if moving.old.is_dir() {
        from.drop_link();
        to.add_link();
    }
    moving.old.touch_changed();
    match (moving.target, replaced) {
        (_, Some(replaced)) if replaced.is_dir() => {
            bury(directory(replaced)?, replaced);
            to.drop_link();
        }
        (_, Some(replaced)) => replaced.drop_link(),
        (Some(other), None) => {
            if other.is_dir() {
                to.drop_link();
                from.add_link();
            }
            other.touch_changed();
        }
        (None, None) => {}
    }
    from.touch_modified();
    to.touch_modified();
    Ok(())
}

/// A file is about to be written: the name by which it was found leads to it from here on, whatever becomes of that name below. May sleep.
///
/// # Errors
/// ENOSPC, ENOMEM; those of what lies below.
pub fn pin(file: &Node, dentry: &Dentry) -> Result {
    let place = {
        let read = sync::rcu::read();
        dentry.link(&read).map(|link| (link.parent.clone(), link.name.clone()))
    };
    let Some((Some(parent), name)) = place else { return Ok(()) };
    let Some(dir) = node::of(&parent.inode).filter(|dir| dir.below.is_some()) else { return Ok(()) };
    if dir.names.find(&name.bytes).is_some() {
        return Ok(());
    }
    // The number leads to the inode as long as that is kept.
    file.own_attributes(&dentry.inode)?;
    dir.own_attributes(&parent.inode)?;
    let spare = dir.names.spare(&name.bytes, &file.fs.budget.share())?;
    dir.names.pin(&name.bytes, spare, (dentry.inode.number, dentry.inode.kind))
}
