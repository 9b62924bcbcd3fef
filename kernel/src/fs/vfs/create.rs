//! Making and removing names: create, mkdir, mknod, symlink, link, unlink, rmdir. Each works under the lock of the one
//! directory it changes (rmdir also under that of the directory it removes).
//!
//! Lock order: directory → the directory removed from it.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use sync::try_arc;

use super::access::{self, Cred, EXEC, WRITE};
use super::context::FsContext;
use super::dentry::{Dentry, DentryRef, Name};
use super::directory::{Directory, Names};
use super::inode::{Kind, NewInode, SET_GROUP_ID};
use super::lookup::{Last, Start, resolve_parent};
use super::mount::Path;
use crate::errno::*;

/// What becomes of a name that is to be made.
pub struct Making<'a> {
    pub kind: Kind,
    /// Permission bits before the umask.
    pub mode: u32,
    pub rdev: u64,
    /// Text of a symbolic link.
    pub target: &'a [u8],
}

fn directory(dentry: &Dentry) -> Result<&Directory> {
    dentry.directory.as_deref().ok_or(ENOTDIR)
}

/// May a name be entered here now?
fn check_entry(dir: &Path, names: &Names, cred: &Cred) -> Result<()> {
    if names.dead {
        return Err(ENOENT);
    }
    access::check_on(&dir.mount, &dir.dentry.inode, cred, WRITE | EXEC)
}

/// Owner, group and mode of what `cred` makes in `dir`: a directory with set-group-id hands its group on.
fn attributes(dir: &Dentry, cred: &Cred, making: &Making<'_>, umask: u32) -> NewInode {
    let mut new = NewInode {
        kind: making.kind,
        mode: if making.kind == Kind::Symlink { 0o777 } else { making.mode & !umask & 0o7777 },
        uid: cred.uid,
        gid: cred.gid,
        rdev: making.rdev,
    };
    if dir.inode.mode() & SET_GROUP_ID != 0 {
        new.gid = dir.inode.gid();
        if new.kind == Kind::Directory {
            new.mode |= SET_GROUP_ID;
        }
    }
    new
}

/// Makes `name` in `dir`. EEXIST if it is there.
pub fn make(dir: &Path, name: &Arc<Name>, cred: &Cred, making: &Making<'_>, umask: u32) -> Result<DentryRef> {
    let parent = &dir.dentry;
    let here = directory(parent)?;
    let mut names = here.names.lock();
    if here.contains(&names, name) {
        return Err(EEXIST);
    }
    check_entry(dir, &names, cred)?;
    let new = attributes(parent, cred, making, umask);
    let inode = parent.inode.ops.make(&parent.inode, &new, making.target)?;
    let owner = try_arc(Dentry::try_new(inode, Some(parent.clone()), name.clone())?)?;
    let dentry = owner.share();
    here.insert(&mut names, name.clone(), owner)?;
    if new.kind == Kind::Directory {
        parent.inode.add_link();
    }
    parent.inode.touch_modified();
    Ok(dentry)
}

/// An inode in `dir`'s file system that has no name (O_TMPFILE).
pub fn make_unnamed(dir: &Path, cred: &Cred, making: &Making<'_>, umask: u32) -> Result<DentryRef> {
    directory(&dir.dentry)?;
    access::check_on(&dir.mount, &dir.dentry.inode, cred, WRITE | EXEC)?;
    let new = attributes(&dir.dentry, cred, making, umask);
    let inode = dir.dentry.inode.ops.make(&dir.dentry.inode, &new, making.target)?;
    inode.set_links(0);
    let dentry = Dentry::try_unowned(inode, Some(dir.dentry.clone()), b"#tmpfile")?;
    dentry.set_removed(true);
    Ok(dentry)
}

/// mkdir, mknod and symlink by path.
pub fn make_at(
    context: &FsContext,
    cred: &Cred,
    start: Start<'_>,
    path: &[u8],
    making: &Making<'_>,
) -> Result {
    let parent = resolve_parent(context, cred, start, path)?;
    let Last::Name(name) = &parent.last else { return Err(EEXIST) };
    if parent.slash && making.kind != Kind::Directory {
        // Nothing but a directory can be made under a name with a slash after it.
        let there = directory(&parent.dir.dentry)?;
        let exists = there.contains(&there.names.lock(), name);
        return Err(if exists { EEXIST } else { ENOENT });
    }
    if !parent.dir.mount.superblock.kind.names_complete
        && parent.dir.dentry.inode.ops.lookup(&parent.dir.dentry.inode, &name.bytes).is_ok()
    {
        return Err(EEXIST);
    }
    make(&parent.dir, name, cred, making, context.umask())?;
    Ok(())
}

/// link(2): one more name for what lies at `old`.
pub fn link_at(context: &FsContext, cred: &Cred, old: &Path, start: Start<'_>, path: &[u8]) -> Result {
    let parent = resolve_parent(context, cred, start, path)?;
    let Last::Name(name) = &parent.last else { return Err(EEXIST) };
    let dir = &parent.dir;
    let here = directory(&dir.dentry)?;
    let mut names = here.names.lock();
    if here.contains(&names, name) {
        return Err(EEXIST);
    }
    if parent.slash {
        return Err(ENOENT);
    }
    if old.mount.id != dir.mount.id {
        return Err(EXDEV);
    }
    let inode = &old.dentry.inode;
    check_entry(dir, &names, cred)?;
    if inode.is_dir() {
        return Err(EPERM);
    }
    dir.dentry.inode.ops.allow_link()?;
    if inode.links() == 0 && !old.dentry.is_removed() {
        return Err(ENOENT);
    }
    let owner = try_arc(Dentry::try_new(inode.clone(), Some(dir.dentry.clone()), name.clone())?)?;
    here.insert(&mut names, name.clone(), owner)?;
    inode.add_link();
    dir.dentry.inode.touch_modified();
    Ok(())
}

/// unlink(2).
pub fn unlink_at(context: &FsContext, cred: &Cred, start: Start<'_>, path: &[u8]) -> Result {
    let parent = resolve_parent(context, cred, start, path)?;
    let Last::Name(name) = &parent.last else { return Err(EISDIR) };
    let dir = &parent.dir;
    if !dir.mount.superblock.kind.names_complete {
        dir.dentry.inode.ops.lookup(&dir.dentry.inode, &name.bytes)?;
        return dir.dentry.inode.ops.allow_remove();
    }
    let here = directory(&dir.dentry)?;
    let mut names = here.names.lock();
    let victim = here.get(&names, &name.bytes).ok_or(ENOENT)?;
    let inode = &victim.dentry.inode;
    if parent.slash {
        return Err(if inode.is_dir() { EISDIR } else { ENOTDIR });
    }
    access::check_remove(&dir.mount, &dir.dentry.inode, inode, cred)?;
    if inode.is_dir() {
        return Err(EISDIR);
    }
    if victim.dentry.is_mount_point() {
        return Err(EBUSY);
    }
    dir.dentry.inode.ops.allow_remove()?;
    here.remove(&mut names, name);
    victim.dentry.set_removed(true);
    inode.drop_link();
    dir.dentry.inode.touch_modified();
    Ok(())
}

/// rmdir(2).
pub fn rmdir_at(context: &FsContext, cred: &Cred, start: Start<'_>, path: &[u8]) -> Result {
    let parent = resolve_parent(context, cred, start, path)?;
    let name = match &parent.last {
        Last::Name(name) => name,
        Last::Dot => return Err(EINVAL),
        Last::DotDot => return Err(ENOTEMPTY),
        Last::Root => return Err(EBUSY),
    };
    let dir = &parent.dir;
    if !dir.mount.superblock.kind.names_complete {
        dir.dentry.inode.ops.lookup(&dir.dentry.inode, &name.bytes)?;
        return dir.dentry.inode.ops.allow_remove();
    }
    let here = directory(&dir.dentry)?;
    let mut names = here.names.lock();
    let victim = here.get(&names, &name.bytes).ok_or(ENOENT)?;
    let inode = &victim.dentry.inode;
    access::check_remove(&dir.mount, &dir.dentry.inode, inode, cred)?;
    let inner = victim.dentry.directory.as_ref().ok_or(ENOTDIR)?;
    if victim.dentry.is_mount_point() {
        return Err(EBUSY);
    }
    dir.dentry.inode.ops.allow_remove()?;
    let mut inside = inner.names.lock_nested();
    if !inside.is_empty() {
        return Err(ENOTEMPTY);
    }
    here.remove(&mut names, name);
    inside.dead = true;
    victim.dentry.set_removed(true);
    inode.set_links(0);
    inode.touch_changed();
    dir.dentry.inode.drop_link();
    dir.dentry.inode.touch_modified();
    Ok(())
}
