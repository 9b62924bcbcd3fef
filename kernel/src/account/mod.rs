//! Who holds kernel memory: counts per user of what a program can have much of without having memory of its own.
//!
//! A user is known by its number, and found under RCU (`users`). It counts per CPU in batches (`sync::quota`): as long as it is far from a limit, users and CPUs share no line that is written.
//!
//! A [`Charge`] stands for what is counted, lies in what holds the memory, and gives back when it is dropped: also in an RCU callback.
//!
//! Charging takes no lock but to make a user.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod limits;
#[cfg(test)]
mod tests;
mod users;

use self::users::{find, make};
use sync::AllocError;
use sync::quota::{Refused, UNLIMITED};
use sync::rcu::RcuRead;
use vm::BudgetRef;

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
    /// Memory files; their pages are counted apart ([`memory_file`]).
    MemoryFiles,
    /// Pages that sockets have had under way at once.
    SocketPages,
    /// Files in messages that nobody has received.
    FilesInFlight,
    /// KiB of extended attributes in memory.
    Attributes,
    /// Inotify instances.
    InotifyInstances,
    /// Their watches, each of which keeps an inode.
    InotifyWatches,
    /// Events that they had not read, as many as there were at once.
    InotifyEvents,
    /// KiB of filters of system calls.
    Filters,
    /// Pages of segments of shared memory that are locked (SHM_LOCK).
    LockedSegments,
    /// KiB of semaphores, of queues of messages and of what is in them.
    Ipc,
}

const KINDS: usize = 15;

impl Kind {
    /// All of them, with the names that /proc shows.
    pub const ALL: [(Kind, &'static str); KINDS] = [
        (Kind::PipePages, "pipe-pages"),
        (Kind::Watches, "epoll-watches"),
        (Kind::Signals, "signals"),
        (Kind::Threads, "threads"),
        (Kind::RecordLocks, "record-locks"),
        (Kind::MemoryFiles, "memory-files"),
        (Kind::SocketPages, "socket-pages"),
        (Kind::FilesInFlight, "files-in-flight"),
        (Kind::Attributes, "attribute-kib"),
        (Kind::InotifyInstances, "inotify-instances"),
        (Kind::InotifyWatches, "inotify-watches"),
        (Kind::InotifyEvents, "inotify-events"),
        (Kind::Filters, "filter-kib"),
        (Kind::LockedSegments, "locked-segment-pages"),
        (Kind::Ipc, "ipc-kib"),
    ];

    /// Bytes that one takes in the kernel, about: objects with what stands beside them in the slabs. A thread has a stack.
    const fn size(self) -> u64 {
        match self {
            Kind::PipePages | Kind::SocketPages => PAGE,
            Kind::Watches => 256,
            Kind::Signals | Kind::InotifyEvents => 128,
            Kind::Threads => 5 * PAGE,
            Kind::RecordLocks => 256,
            Kind::MemoryFiles | Kind::Attributes | Kind::InotifyInstances | Kind::Filters | Kind::Ipc => 1024,
            // They are counted as pages of memory files already.
            Kind::LockedSegments => 0,
            Kind::InotifyWatches => 1280,
            Kind::FilesInFlight => 64,
        }
    }
}

const PAGE: u64 = 4096;

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

/// How much is counted for user `uid`.
pub fn used(uid: u32, kind: Kind) -> u64 {
    find(uid, &sync::rcu::read()).map_or(0, |user| user.counts.used(kind as usize))
}

/// Waits until `seen`, which looks at what is counted, gives `expected`; ten seconds at most. While another test looks whether a user is idle, what
/// CPUs have put by for him shows as used.
#[cfg(test)]
#[track_caller]
pub fn assert_comes_to<T: PartialEq + core::fmt::Debug>(seen: impl Fn() -> T, expected: T) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let mut last = seen();
    while last != expected && std::time::Instant::now() < end {
        std::thread::yield_now();
        last = seen();
    }
    assert_eq!(last, expected);
}

/// A memory file of user `uid`: what counts it, and what its pages are counted in.
///
/// # Errors
/// Memory is out.
pub fn memory_file(uid: u32) -> Result<(Charge, BudgetRef), AllocError> {
    let charge = Charge::try_new(uid, Kind::MemoryFiles, 1, UNLIMITED).map_err(|_| AllocError)?;
    let read = sync::rcu::read();
    // It is there for the charge.
    let budget = find(uid, &read).ok_or(AllocError)?.budget(&read)?;
    Ok((charge, budget))
}

/// Pages that user `uid` holds in the kernel beside those of its processes' own memory, about.
pub fn held_pages(uid: u32) -> u64 {
    let read = sync::rcu::read();
    find(uid, &read).map_or(0, |user| {
        let bytes = Kind::ALL.iter().fold(0u64, |sum, (kind, _)| {
            sum.saturating_add(user.counts.used(*kind as usize).saturating_mul(kind.size()))
        });
        user.memory_pages(&read).saturating_add(bytes / PAGE)
    })
}

/// Shows `f` each user for whom something is counted, how much of each kind, and the pages of its memory files, in no order. `f` does not sleep;
/// `between`, which is called now and then, may.
pub fn for_each(mut f: impl FnMut(u32, [u64; KINDS], u64), between: impl FnMut()) {
    let show = |user: &users::User, read: &RcuRead| {
        let used = Kind::ALL.map(|(kind, _)| user.counts.used(kind as usize));
        let pages = user.memory_pages(read);
        if pages > 0 || used.iter().any(|n| *n > 0) {
            f(user.uid, used, pages);
        }
    };
    users::for_each(show, between);
}

/// Gives up the memory of users for whom nothing is counted. `between` is called now and then, and may sleep.
pub fn forget_idle(between: impl FnMut()) {
    users::forget_idle(between);
}
