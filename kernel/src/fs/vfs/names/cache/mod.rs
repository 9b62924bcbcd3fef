//! The name cache: how the names in memory stand to those that the file system has. That is a property of the file system:
//!
//! | [`Cache`] | a name in the table | a name not in it | used by |
//! |---|---|---|---|
//! | `Complete` | is there | is not there | tmpfs, devtmpfs, devpts: the table is the directory |
//! | `Cached` | is there, or is known not to be | is asked for; not where the directory is known whole | disks |
//! | `Revalidated` | as `Cached`, for the lifetime of the answer; then `revalidate` | is asked for | names that change elsewhere |
//! | `Uncached` | (there is none) | is asked for at each use | procfs |
//!
//! A name goes through these states in a `Cached` or `Revalidated` directory:
//!
//! ```text
//!            claim, lookup             found: positive ◄───── create, link, rename here ──────┐
//!  unknown ────────────────► asked ──┤                                                        │
//!     ▲                        │       ENOENT: absent ◄────── unlink, rmdir, rename away ──── positive
//!     │                        │ error, killed
//!     └────────────────────────┴──── shrink, stale (revalidate), a change that found it otherwise
//! ```
//!
//! While a name is *claimed* ([`claim`]) nobody else asks for it or changes it; walks that find it in the table pass all the same.
//! A claim is taken before any directory lock and never under one. So lookups of several names go in parallel, one name is asked for
//! once, and a change and a lookup of one name do not overtake each other.
//!
//! A directory has one dentry, since its lock is there: [`inodes`] remembers it as long as anybody may hold it, and a directory that is
//! found again, here or elsewhere, comes back to it. Files may have several dentries; their inode is one ([`inodes`]).
//!
//! [`shrink`] bounds what is kept.
//!
//! Lock order: claims (two: by directory, then by name) → super block's rename → directories → the tables of `inodes` and `shrink`.
#![forbid(unsafe_code)]

pub mod claim;
mod find;
pub mod inodes;
pub mod shrink;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::TryVec;
use sync::level::Held;
use sync::percpu_ref::PerCpuOwner as Owner;

use self::inodes::{InodeTable, Left};
use self::shrink::Clock;
use super::dentry::{Dentry, DentryRef, Name};
use super::directory::{Directory, Names, Place};
use crate::errno::{ENOMEM, Result};
use crate::fs::vfs::inode::{Inode, Kind, NewInode};
use crate::fs::vfs::operations::Plain;
use crate::lock_order as level;

pub use find::{ask, ask_claimed};

/// How the name cache of a file system stands to its names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cache {
    Complete,
    Cached,
    Revalidated,
    Uncached,
}

/// What a super block has whose names are cached.
pub struct NameCache {
    pub inodes: Arc<InodeTable>,
    /// What absent dentries have for an inode, by the CPU that made them: it counts them.
    absent: Box<[Arc<Inode>]>,
    clock: Clock,
}

impl NameCache {
    pub fn try_new(device: u64, inodes: Arc<InodeTable>) -> Result<Arc<NameCache>> {
        let new = NewInode { kind: Kind::Socket, mode: 0, uid: 0, gid: 0, rdev: 0 };
        let mut absent = Vec::new();
        for _ in 0..sync::cpus() {
            absent.try_push(Inode::try_new(0, device, &new, sync::try_box(Plain)?)?)?;
        }
        let absent = absent.into_boxed_slice();
        let cache = sync::try_arc(NameCache { inodes, absent, clock: Clock::try_new()? })?;
        shrink::register(&cache)?;
        Ok(cache)
    }

    /// Takes `name`, if it leads to `dentry`, out of the table of `here`.
    ///
    /// `lost`: the file system has it no more, there. What is below it goes too, then. `false`: it is a mount point, and stays.
    fn take_out(
        &self,
        here: &Directory,
        name: &Name,
        dentry: &Arc<Owner<Dentry>>,
        lost: bool,
        order: &mut Held<'_, level::Rename>,
    ) -> bool {
        if lost && !dentry.lose() {
            return false;
        }
        if let Some(claims) = &here.claims {
            claims.set_whole(false);
        }
        let mut names = here.names.lock_in(order);
        if here.peek(name).is_some_and(|there| Arc::ptr_eq(&there, dentry)) {
            here.remove(&mut names, name);
        }
        drop(names);
        if lost && dentry.directory.is_some() {
            self.inodes.note_evicted(&dentry.inode);
            prune(self, dentry, &mut order.reborrow().lower());
        }
        true
    }

    /// A new dentry for a name that is not there.
    pub fn absent(&self) -> Result<Arc<Owner<Dentry>>> {
        let inode = self.absent.get(sync::machine::cpu_id() as usize).ok_or(ENOMEM)?;
        Ok(sync::try_arc(Dentry::try_absent(inode.clone())?)?)
    }

    /// Enters what was prepared in the table of `here`, whose lock the caller holds, and in the ring. True if there are too many names now:
    /// the caller lets go of the lock and calls `shrink_some`.
    ///
    /// # Errors
    /// ENOMEM: nothing was entered.
    pub fn admit(&self, dir: &DentryRef, here: &Directory, names: &mut Names, place: Place) -> Result<bool> {
        let crowded = match &place {
            Place::New(new) => {
                let dir = self.inodes.alias(&dir.inode).ok_or(ENOMEM)?;
                self.clock.push(dir, new.value().name.clone(), new.value().cookie)?
            }
            Place::Over(_) => false,
        };
        here.enter(names, place);
        Ok(crowded)
    }

    /// A dentry of `here` could not be entered in the table: it stays with those who hold it.
    pub fn leave_out(&self, here: &Directory, dentry: &Arc<Owner<Dentry>>) {
        if let Some(claims) = &here.claims {
            claims.set_whole(false);
        }
        dentry.take_use();
        if dentry.evict() && dentry.directory.is_some() {
            self.inodes.note_evicted(&dentry.inode);
        }
    }

    /// The super block goes: nothing is found here any more. Takes out what is left, one inode a call.
    pub fn clear(&self) -> Option<Left> {
        self.clock.clear();
        self.inodes.take_any()
    }
}

/// Drops what the cache has below a directory that is gone. Mount points stay, and so do directories that somebody is in: they are
/// found again by their inodes. Of the locks of directories at most that of its parent is held.
pub fn prune(cache: &NameCache, top: &Arc<Owner<Dentry>>, order: &mut Held<'_, level::Directory>) {
    let mut below = Vec::new();
    let mut here = top.clone();
    loop {
        if let Some(directory) = here.directory.as_deref() {
            if let Some(claims) = &directory.claims {
                claims.set_whole(false);
            }
            let mut names = directory.names.lock_nested_in(order);
            let mut at = 0;
            loop {
                let Some((entry, next)) = names.entries_from(at).next().map(|(e, next)| (e.clone(), next))
                else {
                    break;
                };
                at = next;
                // Whoever holds it has a file without a name, as on Linux.
                let stays = entry.dentry.directory.is_some() && below.try_push(entry.dentry.clone()).is_err();
                if stays || !entry.dentry.lose() {
                    continue;
                }
                directory.remove(&mut names, &entry.name);
                if entry.dentry.directory.is_some() {
                    cache.inodes.note_evicted(&entry.dentry.inode);
                }
            }
        }
        match below.pop() {
            Some(next) => here = next,
            None => return,
        }
    }
}
