//! Removing names: unlink and rmdir. Each works under the lock of the directory that it changes; rmdir also under that of the directory
//! that it removes.
//!
//! Lock order: the name's claim (`site`) → directory → the directory removed from it.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use sync::level::{Before, Held};

use super::dentry::{Dentry, DentryRef, Name};
use super::directory::Directory;
use super::lookup::{Last, Parent, Start, resolve_parent};
use super::site::Site;
use crate::errno::*;
use crate::fs::vfs::access::{self, Cred};
use crate::fs::vfs::context::FsContext;
use crate::fs::vfs::mount::{self, Path};
use crate::fs::vfs::notify;
use crate::lock_order as level;
use crate::sched::give_way;

#[derive(Clone, Copy, PartialEq)]
enum Removal {
    Unlink,
    Rmdir,
}

/// unlink(2). May sleep.
pub fn unlink_at(context: &FsContext, cred: &Cred, start: Start<'_>, path: &[u8]) -> Result {
    let parent = resolve_parent(context, cred, start, path)?;
    let name = parent.name(EISDIR)?;
    remove(context, &parent, name, cred, Removal::Unlink)
}

/// rmdir(2). May sleep.
pub fn rmdir_at(context: &FsContext, cred: &Cred, start: Start<'_>, path: &[u8]) -> Result {
    let parent = resolve_parent(context, cred, start, path)?;
    let name = parent.name(match &parent.last {
        Last::Dot => EINVAL,
        Last::DotDot => ENOTEMPTY,
        _ => EBUSY,
    })?;
    remove(context, &parent, name, cred, Removal::Rmdir)
}

/// Is it the kind of file that the call removes? `slash`: the name was followed by one.
fn check_kind(victim: &Dentry, what: Removal, slash: bool) -> Result {
    match (what, victim.inode.is_dir()) {
        (Removal::Unlink, true) => Err(EISDIR),
        (Removal::Unlink, false) if slash => Err(ENOTDIR),
        (Removal::Rmdir, false) => Err(ENOTDIR),
        _ => Ok(()),
    }
}

/// What became of a removal.
enum Ran {
    Done,
    /// Nothing: something is mounted there. May the name be removed but for that?
    Covered(DentryRef, Result),
}

/// Of a name that other namespaces have mounts on these are taken off first.
fn remove(context: &FsContext, parent: &Parent, name: &Arc<Name>, cred: &Cred, what: Removal) -> Result {
    while let Ran::Covered(victim, otherwise) = try_remove(parent, name, cred, what)? {
        let within = context.namespace();
        if mount::covers(&victim, within) {
            return Err(EBUSY);
        }
        otherwise?;
        mount::uncover(&victim, within)?;
        if give_way() {
            return Err(EINTR);
        }
    }
    Ok(())
}

fn try_remove(parent: &Parent, name: &Arc<Name>, cred: &Cred, what: Removal) -> Result<Ran> {
    let dir = &parent.dir;
    let site = Site::new(dir, name)?;
    let mut names = site.here.names.lock();
    let (names, order) = names.split();
    let victim = site.there(names).ok_or(ENOENT)?;
    if what == Removal::Unlink && parent.slash {
        check_kind(&victim, what, true)?;
    }
    access::check_remove(&dir.mount, site.parent(), &victim.inode, cred)?;
    check_kind(&victim, what, parent.slash)?;
    if victim.begin_removal().is_err() {
        let may_be_empty = |inner: &Directory| site.may_be_empty(&inner.names.lock_nested_in(order));
        let is_empty = victim.directory.as_deref().is_none_or(may_be_empty);
        return Ok(Ran::Covered(victim.share(), if is_empty { Ok(()) } else { Err(ENOTEMPTY) }));
    }
    let ops = &site.parent().ops;
    let removed = match victim.directory.as_deref() {
        None => ops.unlink(site.parent(), &name.bytes, &victim.inode),
        Some(inner) => {
            let mut inside = inner.names.lock_nested_in(order);
            let removed = if site.may_be_empty(&inside) {
                ops.rmdir(site.parent(), &name.bytes, &victim.inode)
            } else {
                Err(ENOTEMPTY)
            };
            inside.dead |= removed.is_ok();
            removed
        }
    };
    if let Err(error) = removed {
        victim.end_removal(false);
        return Err(site.doubt(names, error));
    }
    site.leave(names);
    site.bury(&victim, order);
    if notify::is_used() {
        notify::on_remove(site.parent(), name, &victim);
    }
    Ok(Ran::Done)
}

/// Takes away a name that the kernel has entered itself (`create::enter`), whatever is mounted there.
///
/// # Errors
/// ENOENT.
pub fn withdraw(dir: &Path, name: &Arc<Name>, order: &mut Held<'_, impl Before<level::Directory>>) -> Result {
    let site = Site::new(dir, name)?;
    let mut names = site.here.names.lock_in(order);
    let victim = site.there(&names).ok_or(ENOENT)?;
    site.leave(&mut names);
    victim.inode.drop_link();
    victim.set_removed();
    if notify::is_used() {
        notify::on_withdraw(site.parent(), name, &victim);
    }
    Ok(())
}
