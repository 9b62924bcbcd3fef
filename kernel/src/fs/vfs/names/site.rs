//! The name that an operation is about to change: what it leads to now, and what the cache is to say of it afterwards, for all kinds of
//! cache in one way.
//!
//! Where the cache is the directory, its lock is all it takes. Elsewhere the name is claimed first and the file system asked for it, so
//! what it leads to is known, and stays, whatever leaves the cache meanwhile.
//!
//! Lock order: claims → directories.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::cell::Cell;
use core::cmp::Ordering;

use sync::level::Held;
use sync::percpu_ref::PerCpuOwner as Owner;
use sync::try_arc;

use super::cache::claim::{Claim, Claims};
use super::cache::{self, Cache, NameCache};
use super::dentry::{Dentry, DentryRef, Name};
use super::directory::{Directory, Names, Place};
use crate::errno::{ENOENT, ENOTDIR, Errno, Result};
use crate::fs::vfs::access::{self, Cred, EXEC, WRITE};
use crate::fs::vfs::clock;
use crate::fs::vfs::handles;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::mount::Path;
use crate::lock_order as level;

pub struct Site<'a> {
    pub dir: &'a Path,
    pub name: &'a Arc<Name>,
    pub here: &'a Directory,
    /// What the file system said, where the cache is not the directory.
    asked: Option<Arc<Owner<Dentry>>>,
    claimed: Option<Claimed<'a>>,
}

/// A claim of a name that is cached. It ends after the directory's lock.
struct Claimed<'a> {
    _claim: Claim<'a>,
    cache: &'a NameCache,
    /// The cache has reached a bound.
    crowded: Cell<bool>,
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if self.crowded.get() {
            self.cache.shrink_some();
        }
    }
}

pub fn directory(dentry: &Dentry) -> Result<&Directory> {
    dentry.directory.as_deref().ok_or(ENOTDIR)
}

impl<'a> Site<'a> {
    /// Claims the name and asks for it, where that is needed. May sleep; no directory lock is held.
    #[inline(always)]
    pub fn new(dir: &'a Path, name: &'a Arc<Name>) -> Result<Site<'a>> {
        let here = directory(&dir.dentry)?;
        if dir.mount.superblock.cache == Cache::Complete {
            return Ok(Site { dir, name, here, asked: None, claimed: None });
        }
        Site::claim(dir, name)?.ask()
    }

    /// Two names, claimed in the order in which everybody claims them.
    pub fn pair(a: (&'a Path, &'a Arc<Name>), b: (&'a Path, &'a Arc<Name>)) -> Result<(Site<'a>, Site<'a>)> {
        if a.0.mount.superblock.names.is_none() {
            return Ok((Site::new(a.0, a.1)?, Site::new(b.0, b.1)?));
        }
        let claims = |dir: &'a Path| directory(&dir.dentry)?.claims.as_deref().ok_or(ENOTDIR);
        match Claims::order((claims(a.0)?, a.1), (claims(b.0)?, b.1)) {
            Ordering::Equal => {
                let first = Site::new(a.0, a.1)?;
                let same =
                    Site { dir: b.0, name: b.1, here: first.here, asked: first.asked.clone(), claimed: None };
                Ok((first, same))
            }
            Ordering::Less => {
                let (a, b) = (Site::claim(a.0, a.1)?, Site::claim(b.0, b.1)?);
                Ok((a.ask()?, b.ask()?))
            }
            Ordering::Greater => {
                let (b, a) = (Site::claim(b.0, b.1)?, Site::claim(a.0, a.1)?);
                Ok((a.ask()?, b.ask()?))
            }
        }
    }

    #[cold]
    fn claim(dir: &'a Path, name: &'a Arc<Name>) -> Result<Site<'a>> {
        let here = directory(&dir.dentry)?;
        let claimed = match (here.claims.as_deref(), dir.mount.superblock.names.as_deref()) {
            (Some(claims), Some(cache)) => {
                Some(Claimed { _claim: claims.claim(name)?, cache, crowded: Cell::new(false) })
            }
            _ => None,
        };
        Ok(Site { dir, name, here, asked: None, claimed })
    }

    fn ask(mut self) -> Result<Site<'a>> {
        self.asked = cache::ask_claimed(self.dir, self.here, self.name)?;
        Ok(self)
    }

    #[inline(always)]
    fn is_complete(&self) -> bool {
        self.dir.mount.superblock.cache == Cache::Complete
    }

    pub fn parent(&self) -> &Inode {
        &self.dir.dentry.inode
    }

    /// What the name leads to. `names` is the directory's lock.
    pub fn there(&self, names: &Names) -> Option<Arc<Owner<Dentry>>> {
        if self.is_complete() { self.here.get(names, self.name) } else { self.asked.clone() }
    }

    pub fn exists(&self, names: &Names) -> bool {
        if self.is_complete() { self.here.contains(names, self.name) } else { self.asked.is_some() }
    }

    /// Is `inner`, the directory that the name leads to, empty as far as the VFS can tell? Elsewhere the file system says.
    pub fn may_be_empty(&self, inner: &Names) -> bool {
        !self.is_complete() || inner.is_empty()
    }

    /// ENOENT: a name that is not there cannot come to be here.
    pub fn check_makes(&self) -> Result {
        if !self.is_complete() && self.parent().ops.names_are_given() { Err(ENOENT) } else { Ok(()) }
    }

    /// May a name be entered here now?
    pub fn check_entry(&self, names: &Names, cred: &Cred) -> Result {
        if names.dead {
            return Err(ENOENT);
        }
        access::check_on(&self.dir.mount, self.parent(), cred, WRITE | EXEC)
    }

    /// Finds the memory to make the name lead to `dentry`. `None`: the cache does not hold it, and there is nothing to enter.
    pub fn prepare(&self, names: &mut Names, dentry: &Arc<Owner<Dentry>>) -> Result<Option<Place>> {
        if self.is_complete() {
            return self.here.prepare_over(names, self.name, dentry.clone()).map(Some);
        }
        self.prepare_new(names, dentry)
    }

    /// The same for a name that is not there.
    #[inline]
    pub fn prepare_new(&self, names: &mut Names, dentry: &Arc<Owner<Dentry>>) -> Result<Option<Place>> {
        if self.is_complete() {
            return self.here.prepare(names, self.name.clone(), dentry.clone()).map(Some);
        }
        if self.dir.mount.superblock.names.is_none() {
            return Ok(None);
        }
        self.here.prepare_over(names, self.name, dentry.clone()).map(Some)
    }

    /// The name leads where it was prepared to lead.
    pub fn enter(&self, names: &mut Names, place: Option<Place>, dentry: &Arc<Owner<Dentry>>) {
        let Some(place) = place else { return };
        let Some(cache) = &self.dir.mount.superblock.names else {
            self.here.enter(names, place);
            return;
        };
        dentry.enter_cache();
        self.believe(dentry);
        match (cache.admit(&self.dir.dentry, self.here, names, place), &self.claimed) {
            (Ok(crowded), Some(claimed)) => claimed.crowded.set(claimed.crowded.get() | crowded),
            (Ok(_), None) => {}
            (Err(_), _) => {
                // The hand of the ring would not find it.
                self.forget(names);
                cache.leave_out(self.here, dentry);
            }
        }
    }

    fn believe(&self, dentry: &Dentry) {
        let inode = (!dentry.is_absent()).then_some(&*dentry.inode);
        let lifetime = self.parent().ops.lifetime(self.parent(), inode);
        dentry.believe_until(clock::since_boot().saturating_add(lifetime));
    }

    /// Enters what the file system has made under the name.
    ///
    /// # Errors
    /// ENOMEM: nothing was entered.
    #[inline]
    pub fn enter_made(&self, names: &mut Names, inode: Arc<Inode>) -> Result<DentryRef> {
        if !self.is_complete() {
            return self.cache_made(names, inode).inspect_err(|_| self.forget(names));
        }
        let owner = self.dentry(inode)?;
        let dentry = owner.share();
        self.here.insert(names, self.name.clone(), owner)?;
        Ok(dentry)
    }

    #[inline]
    fn dentry(&self, inode: Arc<Inode>) -> Result<Arc<Owner<Dentry>>> {
        Ok(try_arc(Dentry::try_new(inode, Some(self.dir.dentry.clone()), self.name.clone())?)?)
    }

    #[cold]
    fn cache_made(&self, names: &mut Names, inode: Arc<Inode>) -> Result<DentryRef> {
        let owner = &self.dentry(inode)?;
        let dentry = owner.share();
        let Some(cache) = &self.dir.mount.superblock.names else { return Ok(dentry) };
        if let Some(below) = owner.directory.as_ref().and_then(|d| d.claims.as_ref()) {
            cache.inodes.set_alias(owner.clone())?;
            // It is empty, and all that comes into it comes by way of the cache.
            below.set_whole(self.dir.mount.superblock.cache == Cache::Cached);
        }
        match self.prepare(names, owner) {
            Ok(place) => self.enter(names, place, owner),
            Err(_) => {
                self.forget(names);
                cache.leave_out(self.here, owner);
            }
        }
        Ok(dentry)
    }

    /// The file system has taken the name away.
    #[inline]
    pub fn leave(&self, names: &mut Names) {
        if self.is_complete() {
            self.here.remove(names, self.name);
        } else {
            self.leave_absent(names);
        }
    }

    #[cold]
    fn leave_absent(&self, names: &mut Names) {
        let Some(cache) = &self.dir.mount.superblock.names else { return };
        // Without memory to say that it is gone, the name is unknown.
        let absent = cache.absent().and_then(|absent| Ok((self.prepare(names, &absent)?, absent)));
        match absent {
            Ok((place, absent)) => self.enter(names, place, &absent),
            Err(_) => self.forget(names),
        }
    }

    /// What had the name is gone: removed, or replaced. Its directory is locked, and no lock of its own is held.
    pub fn bury(&self, victim: &Arc<Owner<Dentry>>, order: &mut Held<'_, level::Directory>) {
        victim.end_removal(true);
        if victim.inode.has_handle() && victim.inode.links() == 0 {
            handles::note_last(victim);
        }
        if let Some(cache) = &self.dir.mount.superblock.names {
            if victim.directory.is_some() {
                cache::prune(cache, victim, order);
            }
            if victim.inode.links() == 0 {
                cache.inodes.forget(&victim.inode);
            }
        }
    }

    /// The file system answered a change with `error`: the name may not be what the cache says (EEXIST), or nobody knows whether the change
    /// was made (EINTR, EIO). The cache forgets it.
    #[cold]
    pub fn doubt(&self, names: &mut Names, error: Errno) -> Errno {
        if !self.is_complete() {
            match self.asked.as_ref().filter(|known| known.directory.is_some()) {
                // A directory keeps its dentry; where names change elsewhere the next walk asks for it.
                Some(known) => known.believe_until(0),
                None => self.forget(names),
            }
        }
        error
    }

    /// What the name leads to is unknown from now on.
    fn forget(&self, names: &mut Names) {
        if let Some(claims) = &self.here.claims {
            claims.set_whole(false);
        }
        self.here.remove(names, self.name);
    }
}
