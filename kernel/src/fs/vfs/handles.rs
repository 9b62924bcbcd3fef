//! Handles of files (name_to_handle_at(2)): the way from an inode's number back to its place in the tree, for file systems whose names are in
//! memory alone.
//!
//! A file stands in the table from its first handle until it goes, which the end of its inode sees to. So files without a handle cost nothing, and a
//! second handle is made without a lock. The table holds neither file nor name: it says where the file was, which is right as long as that name is
//! there; else the tree is searched. What has lost its last name and is held by somebody is found by a dentry of its own, under the name it had.
//!
//! Lock order: a shard is innermost, and nothing is freed under it.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::mem;
use core::ptr;

use sync::percpu::Padded;
use sync::percpu_ref::PerCpuOwner as Owner;
use sync::{SpinLock, TryVec, lock_class};

use super::dentry::{Dentry, DentryRef, Link, Name};
use super::inode::Inode;
use super::superblock::SuperBlock;
use crate::errno::{EINTR, ENOMEM, ESTALE, Result};
use crate::lock_order as level;
use crate::sched::give_way;

lock_class! { static HANDLES: LockClass = ("file handles", level::InodeTable); }

/// With a million handles each has a thousand.
const SHARDS: usize = 1024;
/// The highest bits of a hash are the number of its shard.
const SHIFT: u32 = 64 - SHARDS.ilog2();
/// Bytes of a handle.
pub const LEN: usize = 12;
/// Grace periods after which a file that nobody uses any more is gone: that of its last open file or name, that of its dentry, and one for callbacks that
/// came late.
const PERIODS: usize = 4;
/// Names of a directory that are looked at before others may run.
const TURN: usize = 64;

struct Known {
    number: u64,
    device: u64,
    inode: Weak<Inode>,
    /// A name of it.
    alias: Weak<Owner<Dentry>>,
    /// The last name that it had, or the text that it has instead of one. Its holder holds the directory as well, but not for longer.
    last: Option<Arc<Link>>,
}

type Shard = Padded<SpinLock<Vec<Known>, level::InodeTable>>;

static TABLE: [Shard; SHARDS] = [const { Padded(SpinLock::new(Vec::new(), &HANDLES)) }; SHARDS];

/// CPUs take numbers in blocks, so that those of two differ above the lowest bits.
fn shard(number: u64) -> &'static Shard {
    let [first, ..] = &TABLE;
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SHIFT;
    TABLE.get(hash as usize).unwrap_or(first)
}

/// What is in the handle beside the number, so that one of another boot is known for it.
fn generation(inode: &Inode) -> u32 {
    inode.born as u32
}

fn words(inode: &Inode) -> [u32; 3] {
    [generation(inode), inode.number as u32, (inode.number >> 32) as u32]
}

/// The owning handle of a dentry that has a name.
fn owner(dentry: &Dentry, superblock: &SuperBlock) -> Option<Arc<Owner<Dentry>>> {
    let found = {
        let read = sync::rcu::read();
        let link = dentry.link(&read)?;
        match &link.parent {
            Some(parent) => parent.directory.as_ref()?.peek(&link.name),
            None => superblock.owned_root(),
        }
    };
    found.filter(|owner| ptr::eq::<Dentry>(&***owner, dentry))
}

/// The handle of the file at `dentry`.
///
/// # Errors
/// ENOMEM.
pub fn of_place(dentry: &Dentry, superblock: &SuperBlock) -> Result<[u32; 3]> {
    if !dentry.inode.has_handle() {
        let alias = owner(dentry, superblock);
        let last = if alias.is_some() { None } else { dentry.last_link() };
        enter(&dentry.inode, alias.map(|owner| Arc::downgrade(&owner)), last)?;
    }
    Ok(words(&dentry.inode))
}

/// The handle of a file that has no place, but a text instead of a name.
///
/// # Errors
/// ENOMEM; ENAMETOOLONG.
pub fn of_unplaced(inode: &Arc<Inode>, text: &[u8]) -> Result<[u32; 3]> {
    if !inode.has_handle() {
        enter(inode, None, Some(Link::try_new(None, Name::try_new(text)?)?))?;
    }
    Ok(words(inode))
}

fn enter(inode: &Arc<Inode>, alias: Option<Weak<Owner<Dentry>>>, last: Option<Arc<Link>>) -> Result {
    let (number, device) = (inode.number, inode.device);
    let known =
        Known { number, device, inode: Arc::downgrade(inode), alias: alias.unwrap_or_default(), last };
    let mut shard = shard(number).0.lock();
    // Somebody else may have been faster. Nothing is freed here: what is not entered is dropped after the lock.
    let left = if inode.has_handle() { Ok(Some(known)) } else { shard.try_push(known).map(|()| None) };
    if matches!(left, Ok(None)) {
        inode.note_handle();
    }
    drop(shard);
    left?;
    Ok(())
}

/// The inode ends.
pub fn forget(inode: &Inode) {
    let mut shard = shard(inode.number).0.lock();
    let at = shard.iter().rposition(|known| ptr::eq(known.inode.as_ptr(), inode));
    let gone = at.map(|at| shard.swap_remove(at));
    let memory = if shard.is_empty() { mem::take(&mut *shard) } else { Vec::new() };
    drop(shard);
    drop((gone, memory));
}

/// A file that a handle was given of has lost its last name.
#[cold]
pub fn note_last(dentry: &Dentry) {
    let link = dentry.last_link();
    let old = with(&dentry.inode, |known| mem::replace(&mut known.last, link));
    drop(old);
}

fn with<R>(inode: &Inode, f: impl FnOnce(&mut Known) -> R) -> Option<R> {
    let mut shard = shard(inode.number).0.lock();
    shard.iter_mut().rfind(|known| ptr::eq(known.inode.as_ptr(), inode)).map(f)
}

struct Met {
    inode: Arc<Inode>,
    alias: Option<Arc<Owner<Dentry>>>,
    last: Option<Arc<Link>>,
}

fn look(device: u64, [born, low, high]: [u32; 3]) -> Option<Met> {
    let number = u64::from(high) << 32 | u64::from(low);
    let found = {
        let shard = shard(number).0.lock();
        let known = shard.iter().rfind(|known| known.number == number && known.device == device)?;
        Met { inode: known.inode.upgrade()?, alias: known.alias.upgrade(), last: known.last.clone() }
    };
    (generation(&found.inode) == born).then_some(found)
}

/// A dentry of the file that the handle is of, in the file system with that device number; `superblock` is that, if it is mounted. May sleep.
///
/// # Errors
/// ESTALE: there is no such file. EINTR: a fatal signal came. ENOMEM.
pub fn find(superblock: Option<&SuperBlock>, device: u64, words: [u32; 3]) -> Result<DentryRef> {
    let mut met = look(device, words).ok_or(ESTALE)?;
    if met.inode.links() == 0 || superblock.is_none() {
        // What held it last may wait for a grace period, and what that held for the next.
        for _ in 0..PERIODS {
            drop(met);
            sync::rcu::expedite();
            sync::rcu::hurry();
            sync::rcu::synchronize();
            sync::rcu::run_ripe(give_way);
            if give_way() {
                return Err(EINTR);
            }
            met = look(device, words).ok_or(ESTALE)?;
        }
    }
    if let Some(owner) = &met.alias
        && (met.inode.links() == 0 || !owner.is_removed())
    {
        return Ok(owner.share());
    }
    if met.inode.links() > 0
        && let Some(superblock) = superblock
        && let Some(owner) = search(superblock, &met.inode)?
    {
        let alias = Arc::downgrade(&owner);
        let old = with(&met.inode, |known| mem::replace(&mut known.alias, alias));
        drop(old);
        return Ok(owner.share());
    }
    nameless(met)
}

/// A dentry for a file that somebody holds, and that no name leads to.
fn nameless(met: Met) -> Result<DentryRef> {
    let link = met.last.ok_or(ESTALE)?;
    let dentry = Dentry::try_unowned(met.inode, link.parent.clone(), &link.name.bytes)?;
    if link.parent.is_some() {
        dentry.set_removed();
    }
    if let Some(directory) = &dentry.directory {
        directory.names.lock().dead = true;
    }
    Ok(dentry)
}

/// Looks through all directories for a name of the file. Gives way. One that is renamed meanwhile may be missed.
fn search(superblock: &SuperBlock, inode: &Inode) -> Result<Option<Arc<Owner<Dentry>>>> {
    let mut left = Vec::new();
    left.try_push(superblock.root()?)?;
    while let Some(here) = left.pop() {
        let Some(directory) = &here.directory else { continue };
        let mut position = Some(0);
        while let Some(from) = position.take() {
            if give_way() {
                return Err(EINTR);
            }
            let names = directory.names.lock();
            for (n, (entry, after)) in names.entries_from(from).enumerate() {
                if ptr::eq(&*entry.dentry.inode, inode) {
                    return Ok(Some(entry.dentry.clone()));
                }
                if entry.dentry.inode.is_dir() {
                    left.try_push(entry.dentry.share()).map_err(|_| ENOMEM)?;
                }
                if n >= TURN {
                    position = Some(after);
                    break;
                }
            }
        }
    }
    Ok(None)
}
