//! The inodes of a super block by their numbers, so that the names of one file, and a name that comes back to the cache, lead to one
//! inode, with its locks, its pages and its writers. A number keeps an inode from being forgotten, not from being freed.
//!
//! For directories the table also holds the one dentry, its *alias*. It outlives its place in the parent's table while somebody may
//! hold it: evicted, it is let go when a grace period has passed, so that no walk can have met it that has no reference, and
//! nobody has one.
//!
//! Lock order: a shard is innermost, and nothing is freed under it.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sync::percpu::Padded;
use sync::percpu_ref::PerCpuOwner as Owner;
use sync::{SpinLock, TryVec, lock_class, try_arc};

use crate::errno::Result;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::Inode;
use crate::fs::vfs::numbers;
use crate::lock_order as level;
use crate::sched::give_way;

lock_class! { static INODES: LockClass = ("inode table", level::InodeTable); }

/// Each on lines of its own: CPUs that make files use different ones for the most part.
const SHARDS: usize = 256;

struct Known {
    number: u64,
    inode: Weak<Inode>,
    alias: Option<Arc<Owner<Dentry>>>,
    /// It stays, though nobody uses it.
    kept: Option<Arc<Inode>>,
    /// The grace period during which the alias was evicted.
    since: u64,
}

impl Known {
    fn is(&self, inode: &Inode) -> bool {
        ptr::eq(self.inode.as_ptr(), inode)
    }

    /// Is the alias out of its parent's table, and with nobody?
    fn is_idle(&self, now: u64) -> bool {
        now >= self.since.wrapping_add(2)
            && self.alias.as_ref().is_some_and(|a| a.is_evicted() && a.is_alone())
    }
}

type Shard = SpinLock<Vec<Known>, level::InodeTable>;

/// What is left of an inode at the super block's end.
pub struct Left {
    /// Of a directory: its dentry, which is not its directory's any more.
    pub alias: Option<Arc<Owner<Dentry>>>,
    _kept: Option<Arc<Inode>>,
}

pub struct InodeTable {
    /// Each in the order of numbers.
    shards: Box<[Padded<Shard>]>,
    /// The shard whose files give pages back next.
    hand: AtomicUsize,
}

/// The grace period that is under way. One that began before a reader did is over when the number is two higher.
fn period() -> u64 {
    sync::rcu::progress().0
}

impl InodeTable {
    pub fn try_new() -> Result<Arc<InodeTable>> {
        let mut shards = sync::try_vec(SHARDS)?;
        shards.resize_with(SHARDS, || Padded(SpinLock::new(Vec::new(), &INODES)));
        Ok(try_arc(InodeTable { shards: shards.into_boxed_slice(), hand: AtomicUsize::new(0) })?)
    }

    fn shard(&self, number: u64) -> Option<&Shard> {
        self.shards.get(numbers::spread(number) as usize % SHARDS).map(|shard| &shard.0)
    }

    /// The inode of that number, or the one that `make` makes and numbers so. `make` may sleep; of two made at once one is kept.
    /// For file systems, in `lookup` and where they make files.
    pub fn get(&self, number: u64, make: impl FnOnce() -> Result<Arc<Inode>>) -> Result<Arc<Inode>> {
        if let Some(inode) = self.find(number) {
            return Ok(inode);
        }
        let inode = make()?;
        self.enter(&inode, |known| match known.inode.upgrade() {
            Some(first) => first,
            None => {
                known.inode = Arc::downgrade(&inode);
                inode.clone()
            }
        })
    }

    /// The inode of that number, if it is known.
    pub fn find(&self, number: u64) -> Option<Arc<Inode>> {
        let shard = self.shard(number)?.lock();
        let i = shard.binary_search_by_key(&number, |k| k.number).ok()?;
        shard.get(i)?.inode.upgrade()
    }

    /// What `f` says of the inode's place in the table, which is made if it is not there.
    fn enter<R>(&self, inode: &Arc<Inode>, f: impl FnOnce(&mut Known) -> R) -> Result<R> {
        let mut shard = self.shard(inode.number).ok_or(crate::errno::ENOMEM)?.lock();
        let at = match shard.binary_search_by_key(&inode.number, |k| k.number) {
            Ok(at) => at,
            Err(_) => {
                if shard.len() == shard.capacity() {
                    shard.retain(|k| k.alias.is_some() || k.inode.strong_count() > 0);
                }
                let at = shard.partition_point(|k| k.number < inode.number);
                let known =
                    Known { number: inode.number, inode: Weak::new(), alias: None, kept: None, since: 0 };
                shard.try_insert(at, known)?;
                at
            }
        };
        shard.get_mut(at).map(f).ok_or(crate::errno::ENOMEM)
    }

    fn with<R>(&self, inode: &Inode, f: impl FnOnce(&mut Known) -> R) -> Option<R> {
        let mut shard = self.shard(inode.number)?.lock();
        let i = shard.binary_search_by_key(&inode.number, |k| k.number).ok()?;
        shard.get_mut(i).filter(|known| known.is(inode)).map(f)
    }

    /// A counted reference to an inode that was not forgotten.
    pub fn counted(&self, inode: &Inode) -> Option<Arc<Inode>> {
        self.with(inode, |known| known.inode.upgrade())?
    }

    /// The inode stays until it is forgotten, or the super block goes: what it is was written nowhere else.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn keep(&self, inode: &Arc<Inode>) -> Result {
        let old = self.enter(inode, |known| {
            let stranger = (!known.is(inode)).then(|| known.alias.take());
            known.inode = Arc::downgrade(inode);
            (stranger, known.kept.replace(inode.clone()))
        })?;
        drop(old);
        Ok(())
    }

    /// The file is gone; its number may be another's from now on.
    pub fn forget(&self, inode: &Inode) {
        let gone = self.with(inode, |known| {
            (core::mem::replace(&mut known.inode, Weak::new()), known.alias.take(), known.kept.take())
        });
        drop(gone);
    }

    /// The dentry of a directory, if it is known.
    pub fn alias(&self, inode: &Inode) -> Option<Arc<Owner<Dentry>>> {
        self.with(inode, |known| known.alias.clone())?
    }

    /// Makes `dentry` the one of its directory, and gives it back, or the one that there is.
    pub fn set_alias(&self, dentry: Arc<Owner<Dentry>>) -> Result<Arc<Owner<Dentry>>> {
        self.enter(&dentry.inode.clone(), |known| {
            if !known.is(&dentry.inode) {
                // The number was another's.
                known.inode = Arc::downgrade(&dentry.inode);
                return (known.alias.replace(dentry.clone()), dentry);
            }
            (None, known.alias.get_or_insert(dentry).clone())
        })
        .map(|(_old, alias)| alias)
    }

    /// The directory's dentry was taken out of its parent's table just now.
    pub fn note_evicted(&self, inode: &Inode) {
        let now = period();
        self.with(inode, |known| known.since = now);
    }

    /// Lets go of evicted directories that nobody holds.
    pub fn let_go(&self) {
        let now = period();
        for shard in &self.shards {
            let mut from = 0;
            loop {
                let gone = {
                    let mut shard = shard.0.lock();
                    let found =
                        shard.iter().enumerate().skip(from).find(|(_, k)| k.is_idle(now)).map(|(i, _)| i);
                    from = found.unwrap_or(0);
                    found.and_then(|i| shard.get_mut(i)).and_then(|k| k.alias.take())
                };
                if gone.is_none() {
                    break;
                }
            }
        }
    }

    /// Has its files give back up to `most` pages that can be read again, those first that were not read into since the last time; says how many. Gives way, and
    /// ends early where a fatal signal has come. May sleep, under the locks of inodes' writes and of layouts.
    pub fn shed(&self, most: u64) -> u64 {
        let mut given = 0;
        // Twice round: the first time a file is only asked to be ready.
        for _ in 0..2 * SHARDS {
            let hand = self.hand.load(Relaxed);
            let mut next = 0;
            while let Some(inode) = self.first_of(hand, next) {
                given = inode.ops.shed(most.saturating_sub(given)).saturating_add(given);
                if given >= most || give_way() {
                    return given;
                }
                next = inode.number.saturating_add(1);
            }
            self.hand.store(hand.wrapping_add(1) % SHARDS, Relaxed);
        }
        given
    }

    /// The first inode of a shard, by numbers from `number` on.
    fn first_of(&self, shard: usize, number: u64) -> Option<Arc<Inode>> {
        let shard = self.shards.get(shard % SHARDS)?.0.lock();
        let from = shard.partition_point(|known| known.number < number);
        shard.get(from..)?.iter().find_map(|known| known.inode.upgrade())
    }

    /// Takes an inode out, with what was kept for it: at the super block's end. None: there is none left.
    pub fn take_any(&self) -> Option<Left> {
        let known = self.shards.iter().find_map(|shard| shard.0.lock().pop())?;
        Some(Left { alias: known.alias, _kept: known.kept })
    }
}
