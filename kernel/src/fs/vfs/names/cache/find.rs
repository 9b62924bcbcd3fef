//! Asking the file system for a name that the cache does not hold, or holds no longer for certain.
//!
//! Sleeps in the file system with the name's claim and nothing else. What it says is entered under the directory's lock, which a change of
//! another name in the directory may hold meanwhile.
//!
//! Lock order: claim → super block's rename → directories.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::ptr;

use sync::level::Held;
use sync::percpu_ref::PerCpuOwner as Owner;
use sync::try_arc;

use super::{Cache, NameCache};
use crate::errno::{ELOOP, ENOENT, ENOTDIR, Result};
use crate::fs::caller;
use crate::fs::vfs::clock;
use crate::fs::vfs::dentry::{Dentry, DentryRef, Link, Name};
use crate::fs::vfs::directory::Directory;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::mount::Path;
use crate::fs::vfs::operations::Validity;
use crate::fs::vfs::superblock::SuperBlock;
use crate::lock_order as level;

/// Finds a name that a walk did not find in the cache, or must not believe. May sleep.
///
/// # Errors
/// ENOENT; EINTR: killed while another asked; those of the file system.
pub fn ask(dir: &Path, name: &[u8]) -> Result<DentryRef> {
    let inode = &dir.dentry.inode;
    let superblock = &dir.mount.superblock;
    if superblock.names.is_none() {
        let found = inode.ops.lookup(inode, name)?;
        return Dentry::try_unowned(found, Some(dir.dentry.clone()), name);
    }
    let here = dir.dentry.directory.as_deref().ok_or(ENOTDIR)?;
    let claims = here.claims.as_deref().ok_or(ENOTDIR)?;
    let claim = claims.claim(&Name::try_new(name)?)?;
    Ok(ask_claimed(dir, here, claim.name())?.ok_or(ENOENT)?.share())
}

/// As `ask`, for a name that the caller has claimed if names are cached. `None`: there is none of that name.
pub fn ask_claimed(dir: &Path, here: &Directory, name: &Arc<Name>) -> Result<Option<Arc<Owner<Dentry>>>> {
    let superblock = &dir.mount.superblock;
    let inode = &dir.dentry.inode;
    let Some(cache) = superblock.names.as_deref() else {
        return match inode.ops.lookup(inode, &name.bytes) {
            Ok(found) => Ok(Some(try_arc(Dentry::try_new(found, Some(dir.dentry.clone()), name.clone())?)?)),
            Err(ENOENT) => Ok(None),
            Err(e) => Err(e),
        };
    };
    let asking = Asking { superblock, cache, dir: &dir.dentry, here, name };
    if let Some(known) = here.peek(name) {
        if asking.holds(&known)? {
            known.note_use();
            return Ok((!known.is_absent()).then_some(known));
        }
    } else if here.claims.as_ref().is_some_and(|c| c.is_whole()) {
        return Ok(None);
    }
    asking.ask()
}

/// The rename lock may be held: what may be locked next.
type Order<'a> = Held<'a, level::Rename>;

struct Asking<'a> {
    superblock: &'a SuperBlock,
    cache: &'a NameCache,
    dir: &'a DentryRef,
    here: &'a Directory,
    name: &'a Arc<Name>,
}

impl Asking<'_> {
    /// Does what the cache has hold now? If not it is taken out.
    fn holds(&self, known: &Arc<Owner<Dentry>>) -> Result<bool> {
        let now = clock::since_boot();
        if self.superblock.cache != Cache::Revalidated || known.is_mount_point() {
            return Ok(true);
        }
        if known.is_fresh(now) && !caller::walks_anew() {
            return Ok(true);
        }
        let child = (!known.is_absent()).then_some(&*known.inode);
        match self.dir.inode.ops.revalidate(&self.dir.inode, &self.name.bytes, child)? {
            Validity::Valid => {
                self.believe(known, child, now);
                Ok(true)
            }
            Validity::Stale => {
                let order = &mut Held::clean().lower();
                Ok(!self.cache.take_out(self.here, self.name, known, true, order))
            }
        }
    }

    fn believe(&self, dentry: &Dentry, child: Option<&Inode>, now: u64) {
        let lifetime = self.dir.inode.ops.lifetime(&self.dir.inode, child);
        dentry.believe_until(now.saturating_add(lifetime));
    }

    fn ask(&self) -> Result<Option<Arc<Owner<Dentry>>>> {
        let now = clock::since_boot();
        match self.dir.inode.ops.lookup(&self.dir.inode, &self.name.bytes) {
            Ok(inode) => {
                let dentry = self.enter(inode)?;
                self.believe(&dentry, Some(&*dentry.inode), now);
                Ok(Some(dentry))
            }
            Err(ENOENT) => {
                // Without memory it is asked for again the next time.
                let _remembered = self.put_absent(now);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Enters the name, which leads to `inode`.
    ///
    /// # Errors
    /// ENOENT: the directory was removed meanwhile; ELOOP: the directory lies above itself; ENOMEM.
    fn enter(&self, inode: Arc<Inode>) -> Result<Arc<Owner<Dentry>>> {
        if let Some(alias) = inode.is_dir().then(|| self.cache.inodes.alias(&inode)).flatten() {
            return self.bring_back(alias);
        }
        let dentry = try_arc(Dentry::try_new(inode, Some(self.dir.clone()), self.name.clone())?)?;
        dentry.enter_cache();
        if dentry.directory.is_some() {
            let first = self.cache.inodes.set_alias(dentry.clone())?;
            if !Arc::ptr_eq(&first, &dentry) {
                // Found at the same time by another name.
                return self.bring_back(first);
            }
        }
        self.put_or_leave(&dentry, &mut Held::clean().lower())?;
        Ok(dentry)
    }

    fn put_absent(&self, now: u64) -> Result {
        let absent = self.cache.absent()?;
        self.believe(&absent, None, now);
        self.put(&absent, &mut Held::clean().lower())
    }

    /// Puts the name into the table. Without memory it stays out, and whoever asked holds what he asked for.
    fn put_or_leave(&self, dentry: &Arc<Owner<Dentry>>, order: &mut Order<'_>) -> Result {
        let Err(error) = self.put(dentry, order) else { return Ok(()) };
        self.cache.leave_out(self.here, dentry);
        if error == ENOENT { Err(ENOENT) } else { Ok(()) }
    }

    fn put(&self, dentry: &Arc<Owner<Dentry>>, order: &mut Order<'_>) -> Result {
        let mut names = self.here.names.lock_in(order);
        if names.dead {
            return Err(ENOENT);
        }
        let place = self.here.prepare_over(&mut names, self.name, dentry.clone())?;
        let crowded = self.cache.admit(self.dir, self.here, &mut names, place)?;
        drop(names);
        if crowded {
            self.cache.shrink_some();
        }
        Ok(())
    }

    /// A directory that the cache knows is found under this name: it gets its place here, and leaves the one it had.
    fn bring_back(&self, alias: Arc<Owner<Dentry>>) -> Result<Arc<Owner<Dentry>>> {
        let link = Link::try_new(Some(self.dir.clone()), self.name.clone())?;
        let mut still = self.superblock.rename.lock();
        let (shape, order) = still.split();
        if shape.contains(&alias, self.dir) {
            return Err(ELOOP);
        }
        let old = {
            let read = sync::rcu::read();
            alias.link(&read).map(|old| (old.parent.clone(), old.name.clone()))
        };
        if let Some((Some(parent), name)) = old
            && !(ptr::eq(&*parent, &**self.dir) && *name.bytes == *self.name.bytes)
        {
            if let Some(there) = parent.directory.as_deref() {
                self.cache.take_out(there, &name, &alias, false, order);
            }
            alias.set_link(link);
        }
        alias.enter_cache();
        self.put_or_leave(&alias, order)?;
        Ok(alias)
    }
}
