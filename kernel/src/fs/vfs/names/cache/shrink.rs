//! Bounds of the name cache, and giving its memory back: the names of a super block stand in rings, one for each CPU that entered them, and the hand goes round in each.
//!
//! A name that was used since the hand came by gets a second chance. What stays besides: names that are claimed, dentries that somebody
//! holds, mount points, and directories below which the cache has names. Negative entries count as names and go as they do.
//! A name that has left its directory otherwise stays in the ring until the hand comes by; it counts too, so the ring is bounded.
//!
//! Names go when a bound is reached, some at a time, and when memory is out, all that nobody needs (`drain`, called by `process::oom`).
//!
//! Pages of files that can be read again go where memory is scarce (`shed_pages`, called by `vm`), and many of them when it is out.
//!
//! But for that nothing here sleeps or waits for a lock of a directory: what is locked stays. So it may be called whatever sleeping locks are held.
//!
//! Lock order: `name ring` is innermost; nothing is freed under it. Directories, parent before child, are only tried.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use sync::percpu::Padded;
use sync::percpu_ref::PerCpuOwner as Owner;
use sync::{SpinLock, TryVec, lock_class};

use super::NameCache;
use crate::errno::{ENOMEM, Result};
use crate::fs::vfs::dentry::{Dentry, Name};
use crate::lock_order as level;
use crate::sched::schedule_if_needed;

lock_class! { static RING: LockClass = ("name ring", level::NameRing); }
lock_class! { static CACHES: LockClass = ("name caches", level::NameCaches); }

/// All name caches.
static ALL: SpinLock<Vec<Weak<NameCache>>, level::NameCaches> = SpinLock::new(Vec::new(), &CACHES);

/// Frames of memory per name, in one super block and in all: about a hundredth of memory, and two.
const FRAMES_PER_NAME: usize = 16;
const FRAMES_PER_NAME_IN_ALL: usize = 8;
const AT_LEAST: usize = 1024;
/// Names that come between two looks at the sum of all super blocks.
const BETWEEN: usize = 64;
/// Names taken out at once when a bound is reached.
const BATCH: usize = 32;
/// Names taken out before others get the CPU when memory is out.
const STEP: usize = 256;

/// A name of the cache.
#[derive(Clone)]
struct Item {
    dir: Arc<Owner<Dentry>>,
    name: Arc<Name>,
    cookie: u64,
}

/// Names that one CPU has entered. The hand is at the front.
type Ring = SpinLock<VecDeque<Item>, level::NameRing>;

/// The rings of a super block, one for each CPU: who makes names in directories of his own shares none.
pub struct Clock {
    rings: Box<[Padded<Ring>]>,
    /// The ring whose turn is next.
    next: AtomicUsize,
    /// One hand at a time, so that the fronts stay where they are.
    turning: AtomicBool,
    /// 0: by the size of memory.
    bound: AtomicUsize,
    /// Not one of all: a test counts what is asked for, and others that run beside it shrink all.
    #[cfg(test)]
    spared: AtomicBool,
}

enum Outcome {
    Evicted,
    /// It left its directory before.
    Gone,
    Stays,
}

impl Clock {
    /// # Errors
    /// ENOMEM.
    pub fn try_new() -> Result<Clock> {
        let cpus = sync::cpus() as usize;
        let mut rings = sync::try_vec(cpus)?;
        rings.resize_with(cpus, || Padded(SpinLock::new(VecDeque::new(), &RING)));
        Ok(Clock {
            rings: rings.into_boxed_slice(),
            next: AtomicUsize::new(0),
            turning: AtomicBool::new(false),
            bound: AtomicUsize::new(0),
            #[cfg(test)]
            spared: AtomicBool::new(true),
        })
    }

    fn len(&self) -> usize {
        self.rings.iter().map(|ring| ring.0.lock().len()).sum()
    }

    fn bound(&self) -> usize {
        match self.bound.load(Relaxed) {
            0 => (vm::frame::total_frames() as usize / FRAMES_PER_NAME).max(AT_LEAST),
            bound => bound,
        }
    }

    pub fn clear(&self) {
        for ring in &self.rings {
            let items = core::mem::take(&mut *ring.0.lock());
            drop(items);
        }
    }

    /// A name has entered its directory's table. True if there are too many now.
    ///
    /// # Errors
    /// ENOMEM: it must leave again, since the hand would not find it.
    pub fn push(&self, dir: Arc<Owner<Dentry>>, name: Arc<Name>, cookie: u64) -> Result<bool> {
        let ring = self.rings.get(sync::machine::cpu_id() as usize).ok_or(ENOMEM)?;
        let mut items = ring.0.lock();
        items.try_reserve(1).map_err(|_| ENOMEM)?;
        items.push_back(Item { dir, name, cookie });
        let len = items.len();
        drop(items);
        // Whoever adds up looks at all rings. A bound that a test has set is a small one.
        let is_due = len.is_multiple_of(BETWEEN) || self.bound.load(Relaxed) != 0;
        Ok(is_due && (self.len() > self.bound() || names() > bound_in_all()))
    }

    /// Takes out up to `count` names and says how many. Each is looked at twice at most.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of things in memory")]
    fn turn(&self, cache: &NameCache, count: usize) -> usize {
        if self.turning.swap(true, Acquire) {
            return 0;
        }
        let first = self.next.load(Relaxed) % self.rings.len().max(1);
        self.next.store(first + 1, Relaxed);
        let (before, after) = self.rings.split_at_checked(first).unwrap_or((&[], &self.rings));
        let mut taken = 0;
        for ring in after.iter().chain(before) {
            taken += turn_ring(&ring.0, cache, count - taken);
        }
        self.turning.store(false, Release);
        taken
    }
}

/// As `Clock::turn`, of one ring.
#[expect(clippy::arithmetic_side_effects, reason = "counts of things in memory")]
fn turn_ring(ring: &Ring, cache: &NameCache, count: usize) -> usize {
    let mut taken = 0;
    let looks = 2 * ring.lock().len();
    for _ in 0..looks {
        if taken == count {
            break;
        }
        let Some(item) = ring.lock().front().cloned() else { break };
        let outcome = item.evict(cache);
        let mut items = ring.lock();
        let left = match outcome {
            Outcome::Stays => {
                items.rotate_left(1);
                None
            }
            Outcome::Gone | Outcome::Evicted => items.pop_front(),
        };
        drop(items);
        drop(left);
        taken += usize::from(matches!(outcome, Outcome::Evicted));
    }
    taken
}

impl Item {
    fn evict(&self, cache: &NameCache) -> Outcome {
        let Some(here) = self.dir.directory.as_deref() else { return Outcome::Gone };
        let Some(mut names) = here.names.try_lock() else { return Outcome::Stays };
        let dentry = {
            let read = sync::rcu::read();
            match here.find(&self.name.bytes, self.name.hash, &read) {
                Some(entry) if entry.cookie == self.cookie => entry.dentry.clone(),
                _ => return Outcome::Gone,
            }
        };
        if dentry.take_use() || here.claims.as_ref().is_none_or(|c| c.is_claimed(&self.name)) {
            return Outcome::Stays;
        }
        let below = dentry.directory.as_deref();
        let inside = below.map(|d| d.names.try_lock());
        let keeps_names = match &inside {
            None => false,
            Some(None) => true,
            Some(Some(inside)) => !inside.is_empty(),
        };
        let claimed_below = below.and_then(|d| d.claims.as_ref()).is_some_and(|c| !c.is_quiet());
        // A hot count is taken for one in use; a file may go all the same, since who holds it needs no place in the table.
        let in_use = !dentry.is_alone() && (below.is_some() || !dentry.is_per_cpu());
        if keeps_names || claimed_below || in_use {
            return Outcome::Stays;
        }
        if let Some(claims) = &here.claims
            && !dentry.is_absent()
        {
            claims.set_whole(false);
        }
        if !dentry.evict() {
            return Outcome::Stays;
        }
        here.remove(&mut names, &self.name);
        if below.is_some() {
            cache.inodes.note_evicted(&dentry.inode);
        }
        Outcome::Evicted
    }
}

impl NameCache {
    /// Takes out up to `count` names that were not used lately, and lets go of directories that were taken out before and are held by
    /// nobody now. Returns how many names left.
    pub fn shrink(&self, count: usize) -> usize {
        self.inodes.let_go();
        self.clock.turn(self, count)
    }

    /// A bound was reached. No directory's lock is held, or its names would stay.
    pub fn shrink_some(&self) {
        let over = self.clock.len().saturating_sub(self.clock.bound());
        if over > 0 {
            self.shrink(over.max(BATCH));
        } else {
            shrink(BATCH);
        }
    }

    /// How many names the rings have.
    pub fn len(&self) -> usize {
        self.clock.len()
    }

    #[cfg(test)]
    pub fn set_bound(&self, names: usize) {
        self.clock.bound.store(names, Relaxed);
    }

    /// From now on it is one of all.
    #[cfg(test)]
    pub fn join_all(&self) {
        self.clock.spared.store(false, Relaxed);
    }

    fn is_one_of_all(&self) -> bool {
        #[cfg(test)]
        return !self.clock.spared.load(Relaxed);
        #[cfg(not(test))]
        true
    }
}

pub(super) fn register(cache: &Arc<NameCache>) -> Result {
    let mut all = ALL.lock();
    all.retain(|c| c.strong_count() > 0);
    Ok(all.try_push(Arc::downgrade(cache))?)
}

fn nth(i: usize) -> Option<Weak<NameCache>> {
    ALL.lock().get(i).cloned()
}

fn each() -> impl Iterator<Item = Arc<NameCache>> {
    (0..).map_while(nth).filter_map(|weak| weak.upgrade()).filter(|cache| cache.is_one_of_all())
}

/// Names in all rings.
pub fn names() -> usize {
    each().map(|cache| cache.len()).sum()
}

fn bound_in_all() -> usize {
    (vm::frame::total_frames() as usize / FRAMES_PER_NAME_IN_ALL).max(AT_LEAST)
}

/// Memory is out: all names go that nobody needs, those used lately too. What a directory had keeps it until a grace period has passed, so
/// a tree goes one level at a call. Gives way; no spinning lock is held.
pub fn drain() {
    for cache in each() {
        while cache.shrink(STEP) == STEP {
            schedule_if_needed();
        }
    }
}

/// Has files give back up to `most` pages that can be read again; says how many. Gives way, and ends early where a fatal signal has come.
pub fn shed_pages(most: u64) -> u64 {
    let mut given = 0_u64;
    for cache in each() {
        given = given.saturating_add(cache.inodes.shed(most.saturating_sub(given)));
        if given >= most {
            break;
        }
    }
    given
}

/// Who is asked for pages where memory is scarce.
pub static SHEDDER: vm::Shedder = vm::Shedder(shed_pages);

/// Takes up to `count` names out of all caches, of each in proportion to what it has, and says how many. Does not sleep.
#[expect(clippy::arithmetic_side_effects, reason = "counts of things in memory")]
pub fn shrink(count: usize) -> usize {
    let all = names().max(1);
    let mut taken = 0;
    for cache in each() {
        let share = (count * cache.len()).div_ceil(all);
        taken += cache.shrink(share.min(count - taken));
    }
    taken
}
