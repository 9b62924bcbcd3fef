//! Who holds kernel memory: counts per user of what a program can have much of without having memory of its own.
//!
//! A user is known by its number. It is made by its first charge, and goes, when the table is looked through, once nothing is counted for it. It is
//! found under RCU, and counts per CPU in batches (`sync::quota`): as long as it is far from a limit, users and CPUs share no line that is written.
//!
//! A [`Charge`] stands for what is counted, lies in what holds the memory, and gives back when it is dropped: also in an RCU callback.
//!
//! Lock order: `USERS` is taken alone, by who makes a user. Charging takes no lock.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod limits;
#[cfg(test)]
mod tests;

use crate::lock_order as level;
use sync::quota::{Quota, Refused};
use sync::rcu::{Chain, Prepared, RcuRead};
use sync::{AllocError, SpinLock, lock_class};

lock_class! { static USERS_CLASS: LockClass = ("users", level::Users); }

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Pages that pipes may fill.
    PipePages,
    /// Files that epolls watch.
    Watches,
    /// Signals that wait, and POSIX timers, each of which keeps one.
    Signals,
    /// Threads, and dead processes that nobody has waited for (RLIMIT_NPROC). Those of user 0, who has no limit, are not counted.
    Threads,
    /// Record locks on files.
    RecordLocks,
}

const KINDS: usize = 5;

impl Kind {
    /// All of them, with the names that /proc shows.
    pub const ALL: [(Kind, &'static str); KINDS] = [
        (Kind::PipePages, "pipe-pages"),
        (Kind::Watches, "epoll-watches"),
        (Kind::Signals, "signals"),
        (Kind::Threads, "threads"),
        (Kind::RecordLocks, "record-locks"),
    ];
}

struct User {
    uid: u32,
    counts: Quota<KINDS>,
}

vm::slab_type!(User, "user", Chain);

const BUCKETS: usize = 64;
/// Users that the table has before it is first looked through.
const FEW: usize = 64;

static TABLE: [Chain<User>; BUCKETS] = [const { Chain::new() }; BUCKETS];

/// How many users the table has, and at how many it is looked through.
struct Size {
    known: usize,
    look_at: usize,
}

static USERS: SpinLock<Size, level::Users> = SpinLock::new(Size { known: 0, look_at: FEW }, &USERS_CLASS);

fn bucket(uid: u32) -> &'static Chain<User> {
    // There are as many as the remainder says.
    TABLE.get(uid as usize % BUCKETS).unwrap_or(&TABLE[0])
}

fn find(uid: u32, read: &RcuRead) -> Option<&User> {
    bucket(uid).iter(read).find(|user| user.uid == uid)
}

/// Why something is not counted, and so may not be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    /// The limit.
    Full,
    NoMemory,
}

impl From<AllocError> for Denied {
    fn from(_: AllocError) -> Self {
        Denied::NoMemory
    }
}

/// What is counted for a user until it is dropped.
#[derive(Debug)]
pub struct Charge {
    uid: u32,
    kind: Kind,
    n: u64,
}

impl Charge {
    /// Counts `n` for user `uid`, if it has no more than `limit` then.
    ///
    /// # Errors
    /// `Full`, `NoMemory`.
    pub fn try_new(uid: u32, kind: Kind, n: u64, limit: u64) -> Result<Charge, Denied> {
        add(uid, kind, n, limit)?;
        Ok(Charge { uid, kind, n })
    }

    /// Makes it `n`: more, if the user has no more than `limit` then, or less.
    ///
    /// # Errors
    /// `Full`.
    pub fn set(&mut self, n: u64, limit: u64) -> Result<(), Denied> {
        match n.checked_sub(self.n) {
            Some(0) => {}
            Some(more) => add(self.uid, self.kind, more, limit)?,
            None => give_back(self.uid, self.kind, self.n.saturating_sub(n)),
        }
        self.n = n;
        Ok(())
    }

    pub fn n(&self) -> u64 {
        self.n
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        give_back(self.uid, self.kind, self.n);
    }
}

fn add(uid: u32, kind: Kind, n: u64, limit: u64) -> Result<(), Denied> {
    loop {
        {
            let read = sync::rcu::read();
            if let Some(user) = find(uid, &read) {
                match user.counts.charge(kind as usize, n, limit) {
                    Ok(()) => return Ok(()),
                    Err(Refused::Full) => return Err(Denied::Full),
                    // It is just being taken out of the table.
                    Err(Refused::Closed) => {}
                }
            }
        }
        make(uid)?;
    }
}

fn give_back(uid: u32, kind: Kind, n: u64) {
    // It is there: a user for whom something is counted is not taken out.
    if let Some(user) = find(uid, &sync::rcu::read()) {
        user.counts.give_back(kind as usize, n);
    }
}

/// Puts user `uid` into the table, if it is not there.
#[cold]
fn make(uid: u32) -> Result<(), Denied> {
    let new = Prepared::try_new(User { uid, counts: Quota::try_new()? })?;
    let mut size = USERS.lock();
    let read = sync::rcu::read();
    // Closed ones leave the table under the lock, so one that is found is open.
    if find(uid, &read).is_some() {
        return Ok(());
    }
    if size.known >= size.look_at {
        look_through(&mut size, &read);
    }
    bucket(uid).push_prepared(new);
    size.known = size.known.saturating_add(1);
    Ok(())
}

/// Takes out the users for whom nothing is counted.
fn look_through(size: &mut Size, read: &RcuRead) {
    for chain in &TABLE {
        while chain.remove(|user| user.counts.close(), read).is_some() {
            size.known = size.known.saturating_sub(1);
        }
    }
    size.look_at = size.known.saturating_mul(2).max(FEW);
}

/// How much is counted for user `uid`.
pub fn used(uid: u32, kind: Kind) -> u64 {
    find(uid, &sync::rcu::read()).map_or(0, |user| user.counts.used(kind as usize))
}

/// Shows `f` each user for whom something is counted, and how much of each kind, in no order. `f` does not sleep.
pub fn for_each(mut f: impl FnMut(u32, [u64; KINDS])) {
    let read = sync::rcu::read();
    for user in TABLE.iter().flat_map(|chain| chain.iter(&read)) {
        let used = Kind::ALL.map(|(kind, _)| user.counts.used(kind as usize));
        if used.iter().any(|n| *n > 0) {
            f(user.uid, used);
        }
    }
}
