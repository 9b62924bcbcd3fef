//! The users for whom something is counted, found by their numbers: as many as there may be.
//!
//! ```text
//!   level 0     64 chains    always there
//!   level 1     1,024        made when a user finds the chain of its number full in level 0
//!   level 2     16,384       in levels 0 and 1
//!   level 3     262,144      ...
//! ```
//!
//! A user is put into the first level whose chain for it has room and stays there, so nothing is moved when the table grows, and a search looks at
//! a chain of each level there is: 8 users at the most while the last level is not full, with which the table holds 260,000 and more.
//!
//! A user is made by its first charge. Whoever makes one takes out, of the chains that it looks at, those for whom nothing is counted; all of
//! them go when memory is short. Levels stay.
//!
//! Lock order: `SHARDS` are taken alone, by who makes a user. All chains of a shard's users, in all levels, change under its lock. Searching takes no lock.

use alloc::boxed::Box;

use super::KINDS;
use crate::lock_order as level;
use sync::heap::try_box_slice;
use sync::quota::Quota;
use sync::rcu::{Chain, Prepared, RcuArc, RcuHead, RcuRead};
use sync::{AllocError, SpinLock, lock_class, try_arc};
use vm::{Budget, BudgetKind, BudgetOwner, BudgetRef};

lock_class! { static USERS: LockClass = ("users", level::Users); }

pub(super) struct User {
    pub uid: u32,
    pub counts: Quota<KINDS>,
    /// The pages of its memory files, from the first one on.
    memory: RcuArc<Memory>,
}

struct Memory {
    budget: BudgetOwner,
    rcu: RcuHead,
}

sync::rcu_object!(Memory);

impl User {
    fn try_new(uid: u32) -> Result<User, AllocError> {
        Ok(User { uid, counts: Quota::try_new()?, memory: RcuArc::empty() })
    }

    /// What the pages of its memory files are counted in.
    pub fn budget(&self, read: &RcuRead) -> Result<BudgetRef, AllocError> {
        if self.memory.load(read).is_none() {
            let memory = Memory { budget: Budget::try_new()?, rcu: RcuHead::new() };
            // Where another CPU has made it meanwhile, it is that one.
            let _ = self.memory.put_if_empty(try_arc(memory)?);
        }
        self.memory.load(read).map(|memory| memory.budget.share()).ok_or(AllocError)
    }

    /// Pages of its memory files, and of their tables.
    pub fn memory_pages(&self, read: &RcuRead) -> u64 {
        self.memory.load(read).map_or(0, |memory| {
            let used = |kind| memory.budget.used(kind);
            used(BudgetKind::Pages).saturating_add(used(BudgetKind::Tables))
        })
    }

    /// Ends it, if nothing is counted for it and no file refers to its budget. Who gives that out is counted meanwhile.
    fn close(&self, read: &RcuRead) -> bool {
        self.memory.load(read).is_none_or(|memory| memory.budget.is_alone()) && self.counts.close()
    }
}

vm::slab_type!(User, "user", Chain);

/// Chains of level 0, and locks.
const FIRST: usize = 64;
/// Each level has so many times as many chains as the one before.
const STEP: usize = 16;
/// Levels above 0.
const LEVELS: usize = 3;
/// Users of a chain before the next level is used.
const FULL: usize = 2;

struct Level {
    chains: Box<[Chain<User>]>,
    rcu: RcuHead,
}

sync::rcu_object!(Level);

static FEW: [Chain<User>; FIRST] = [const { Chain::new() }; FIRST];
static MORE: [RcuArc<Level>; LEVELS] = [const { RcuArc::empty() }; LEVELS];
static SHARDS: [SpinLock<(), level::Users>; FIRST] = [const { SpinLock::new((), &USERS) }; FIRST];

/// Spreads numbers that follow each other, or are multiples of something.
fn hash(uid: u32) -> usize {
    (uid.wrapping_mul(0x9e37_79b1) >> 8) as usize
}

/// The place of `hash` among `all`, of which there is at least one.
fn at<T>(all: &[T], hash: usize) -> Option<&T> {
    all.get(hash.checked_rem(all.len())?)
}

/// The chains of each level that there is, from the first on.
fn levels(read: &RcuRead) -> impl Iterator<Item = &[Chain<User>]> {
    let more = MORE.iter().map_while(|level| level.load(read)).map(|level| &*level.chains);
    core::iter::once(&FEW[..]).chain(more)
}

pub(super) fn find(uid: u32, read: &RcuRead) -> Option<&User> {
    let hash = hash(uid);
    levels(read)
        .filter_map(|chains| at(chains, hash))
        .find_map(|chain| chain.iter(read).find(|user| user.uid == uid))
}

/// Puts user `uid` into the table, if it is not there.
#[cold]
pub(super) fn make(uid: u32) -> Result<(), AllocError> {
    let new = Prepared::try_new(User::try_new(uid)?)?;
    let hash = hash(uid);
    let Some(shard) = at(&SHARDS, hash) else { return Ok(()) };
    let _guard = shard.lock();
    let read = sync::rcu::read();
    // Closed ones leave the table under the lock, so one that is found is open.
    if find(uid, &read).is_some() {
        return Ok(());
    }
    let has_room = |chain: &Chain<User>| {
        drop_idle(chain, &read);
        chain.iter(&read).count() < FULL
    };
    let mut last = None;
    for chain in levels(&read).filter_map(|chains| at(chains, hash)) {
        last = Some(chain);
        if has_room(chain) {
            break;
        }
    }
    let Some(last) = last else { return Ok(()) };
    // Without memory for a further level the chains of the last get longer.
    match if has_room(last) { None } else { grown(&read) } {
        Some(level) => at(level, hash).unwrap_or(last).push_prepared(new),
        None => last.push_prepared(new),
    }
    Ok(())
}

/// One level more.
fn grown(read: &RcuRead) -> Option<&[Chain<User>]> {
    let (n, next) = MORE.iter().enumerate().find(|(_, level)| level.load(read).is_none())?;
    let count = STEP.checked_pow(u32::try_from(n).ok()?.checked_add(1)?)?.checked_mul(FIRST)?;
    let chains = try_box_slice(count, |_| Chain::new()).ok()?;
    // Where another CPU has made it meanwhile, it is that one.
    let _ = next.put_if_empty(try_arc(Level { chains, rcu: RcuHead::new() }).ok()?);
    next.load(read).map(|level| &*level.chains)
}

/// Shows `f` each chain with the number of its shard, in no order. `between` is called now and then outside of all, and may sleep.
fn for_each_chain(mut f: impl FnMut(usize, &Chain<User>, &RcuRead), mut between: impl FnMut()) {
    /// Chains that are looked at in one go.
    const TURN: usize = 1024;
    for n in 0..=LEVELS {
        let mut from = 0usize;
        loop {
            let read = sync::rcu::read();
            let Some(chains) = levels(&read).nth(n) else { return };
            if from >= chains.len() {
                break;
            }
            for (i, chain) in chains.iter().enumerate().skip(from).take(TURN) {
                f(i, chain, &read);
            }
            from = from.saturating_add(TURN);
            drop(read);
            between();
        }
    }
}

/// Shows `f` each user, in no order. `f` does not sleep; `between` may.
pub(super) fn for_each(mut f: impl FnMut(&User, &RcuRead), between: impl FnMut()) {
    for_each_chain(|_, chain, read| chain.iter(read).for_each(|user| f(user, read)), between);
}

/// Takes out those for whom nothing is counted. `between` may sleep.
pub(super) fn forget_idle(between: impl FnMut()) {
    let forget = |n: usize, chain: &Chain<User>, read: &RcuRead| {
        // The levels' lengths are multiples of the shards' number.
        if chain.iter(read).next().is_some()
            && let Some(shard) = at(&SHARDS, n)
        {
            let _guard = shard.lock();
            drop_idle(chain, read);
        }
    };
    for_each_chain(forget, between);
}

/// The shard's lock is held.
fn drop_idle(chain: &Chain<User>, read: &RcuRead) {
    while chain.remove(|user| user.close(read), read).is_some() {}
}

/// How many users a search for `uid` looks at.
#[cfg(test)]
pub(super) fn steps(uid: u32) -> usize {
    let read = sync::rcu::read();
    let chains = levels(&read).filter_map(|chains| at(chains, hash(uid)));
    chains.map(|chain| chain.iter(&read).count()).sum()
}

#[cfg(test)]
pub(super) fn count(uids: core::ops::Range<u32>) -> usize {
    let mut n = 0;
    for_each(|user, _| n += usize::from(uids.contains(&user.uid)), || {});
    n
}
