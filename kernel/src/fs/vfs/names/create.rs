//! Making names: create, mkdir, mknod, symlink, link, and files without a name. Each works under the lock of the one directory that it
//! changes.
//!
//! Lock order: the name's claim (`site`) → directory.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use sync::level::{Before, Held};
use sync::try_arc;

use super::dentry::{Dentry, DentryRef, Name};
use super::lookup::{Start, resolve_parent};
use super::site::{Site, directory};
use crate::errno::*;
use crate::fs::caller::Capability;
use crate::fs::vfs::access::{self, Cred, EXEC, WRITE};
use crate::fs::vfs::acl::kept;
use crate::fs::vfs::context::FsContext;
use crate::fs::vfs::inode::{Inode, Kind, NewInode, SET_GROUP_ID};
use crate::fs::vfs::mount::Path;
use crate::fs::vfs::notify;
use crate::lock_order as level;

/// What becomes of a name that is to be made.
pub struct Making<'a> {
    pub kind: Kind,
    /// Permission bits before the umask.
    pub mode: u32,
    pub rdev: u64,
    /// Text of a symbolic link.
    pub target: &'a [u8],
}

/// Owner, group, mode and lists of what `cred` makes in `dir`: a directory with set-group-id hands its group on, but no right to act as that
/// group to those who are not of it.
///
/// # Errors
/// ENOMEM.
#[inline(always)]
pub(super) fn attributes(
    dir: &Dentry,
    cred: &Cred,
    making: &Making<'_>,
    umask: u32,
) -> Result<(NewInode, Option<kept::Ready>)> {
    let mut new = NewInode {
        kind: making.kind,
        mode: if making.kind == Kind::Symlink { 0o777 } else { making.mode & 0o7777 },
        uid: cred.uid,
        gid: cred.gid,
        rdev: making.rdev,
    };
    if dir.inode.mode() & SET_GROUP_ID != 0 {
        new.gid = dir.inode.gid();
        let acts_as_group = making.mode & (SET_GROUP_ID | 0o010) == SET_GROUP_ID | 0o010;
        if new.kind == Kind::Directory {
            new.mode |= SET_GROUP_ID;
        } else if acts_as_group && !cred.keeps_group_id(new.gid) {
            new.mode &= !SET_GROUP_ID;
        }
    }
    let lists = kept::inherited(&dir.inode, new.kind, &mut new.mode, umask)?;
    Ok((new, lists))
}

/// Makes `name` in `dir`. May sleep.
///
/// # Errors
/// EEXIST; ENOENT: the directory is gone; EACCES, EROFS; those of the file system.
pub fn make(dir: &Path, name: &Arc<Name>, cred: &Cred, making: &Making<'_>, umask: u32) -> Result<DentryRef> {
    let site = Site::new(dir, name)?;
    make_here(&site, cred, making, umask)
}

fn make_here(site: &Site<'_>, cred: &Cred, making: &Making<'_>, umask: u32) -> Result<DentryRef> {
    let mut names = site.here.names.lock();
    if site.exists(&names) {
        return Err(EEXIST);
    }
    site.check_makes()?;
    site.check_entry(&names, cred)?;
    // Device 0:0 opens nothing (overlays mark with it what is gone).
    let device = matches!(making.kind, Kind::Character | Kind::Block);
    let harmless = making.kind == Kind::Character && making.rdev == 0;
    if device && !harmless && !cred.capable(Capability::MKNOD) {
        return Err(EPERM);
    }
    let parent = site.parent();
    let (new, lists) = attributes(&site.dir.dentry, cred, making, umask)?;
    let (ops, name) = (&parent.ops, &site.name.bytes);
    let made = match new.kind {
        Kind::Regular => ops.create(parent, name, &new),
        Kind::Directory => ops.mkdir(parent, name, &new),
        Kind::Symlink => ops.symlink(parent, name, &new, making.target),
        _ => ops.mknod(parent, name, &new),
    };
    let inode = made.map_err(|e| site.doubt(&mut names, e))?;
    if let Some(lists) = lists {
        inode.acls.put(lists);
    }
    // A directory counts in its parent's links.
    let directory = (new.kind == Kind::Directory).then(|| inode.clone());
    let entered = site.enter_made(&mut names, inode);
    if let (Err(_), Some(inode)) = (&entered, directory) {
        ops.rmdir(parent, name, &inode)?;
    }
    if notify::is_used() && entered.is_ok() {
        notify::on_create(parent, site.name, new.kind == Kind::Directory);
    }
    entered
}

/// Enters `inode`, which the kernel has made itself, in a directory that programs may not change (devpts).
///
/// # Errors
/// EEXIST, ENOMEM.
pub fn enter(
    dir: &Path,
    name: &Arc<Name>,
    inode: Arc<Inode>,
    order: &mut Held<'_, impl Before<level::Directory>>,
) -> Result {
    let site = Site::new(dir, name)?;
    let mut names = site.here.names.lock_in(order);
    if site.exists(&names) {
        return Err(EEXIST);
    }
    site.enter_made(&mut names, inode)?;
    site.parent().touch_modified();
    if notify::is_used() {
        notify::on_create(site.parent(), site.name, false);
    }
    Ok(())
}

/// An inode in `dir`'s file system that has no name (O_TMPFILE).
pub fn make_unnamed(dir: &Path, cred: &Cred, making: &Making<'_>, umask: u32) -> Result<DentryRef> {
    directory(&dir.dentry)?;
    let parent = &dir.dentry.inode;
    access::check_on(&dir.mount, parent, cred, WRITE | EXEC)?;
    let (new, lists) = attributes(&dir.dentry, cred, making, umask)?;
    let inode = parent.ops.make_unnamed(parent, &new)?;
    if let Some(lists) = lists {
        inode.acls.put(lists);
    }
    inode.set_unnamed();
    let dentry = Dentry::try_unowned(inode, Some(dir.dentry.clone()), b"#tmpfile")?;
    dentry.set_removed();
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
    let site = Site::new(&parent.dir, parent.name(EEXIST)?)?;
    if parent.slash && making.kind != Kind::Directory {
        // Nothing but a directory can be made under a name with a slash after it.
        let exists = site.exists(&site.here.names.lock());
        return Err(if exists { EEXIST } else { ENOENT });
    }
    make_here(&site, cred, making, context.umask())?;
    Ok(())
}

/// link(2): one more name for what lies at `old`.
pub fn link_at(context: &FsContext, cred: &Cred, old: &Path, start: Start<'_>, path: &[u8]) -> Result {
    let parent = resolve_parent(context, cred, start, path)?;
    let name = parent.name(EEXIST)?;
    let site = Site::new(&parent.dir, name)?;
    let mut names = site.here.names.lock();
    if site.exists(&names) {
        return Err(EEXIST);
    }
    site.check_makes()?;
    if parent.slash {
        return Err(ENOENT);
    }
    if old.mount.id != parent.dir.mount.id {
        return Err(EXDEV);
    }
    let inode = &old.dentry.inode;
    access::check_link(inode, cred)?;
    site.check_entry(&names, cred)?;
    if inode.is_dir() {
        return Err(EPERM);
    }
    // A file that has lost its last name stays without; one that never had any gets its first.
    if inode.links() == 0 && !inode.is_unnamed() {
        return Err(ENOENT);
    }
    let owner = Dentry::try_new(inode.clone(), Some(site.dir.dentry.clone()), name.clone())?;
    let dentry = try_arc(owner)?;
    let place = site.prepare_new(&mut names, &dentry)?;
    let linked = site.parent().ops.link(site.parent(), &name.bytes, inode);
    linked.map_err(|e| site.doubt(&mut names, e))?;
    inode.end_unnamed();
    site.enter(&mut names, place, &dentry);
    if notify::is_used() {
        notify::on_link(site.parent(), name, inode);
    }
    Ok(())
}
