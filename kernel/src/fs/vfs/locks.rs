//! Advisory locks on files: flock, whole and by open file description, and POSIX record locks, by range and process.
//! Deadlocks between record locks are not looked for (EDEADLK never comes).
//!
//! The lists are made at the first lock, so an inode that is never locked carries one pointer.
//! Lock order: `held` is innermost.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::lock_order as level;
use sync::rcu::{RcuArc, RcuHead};
use sync::{SpinLock, TryVec, lock_class, try_arc};

use crate::errno::{EAGAIN, ERESTARTSYS, Result};
use crate::sched::{Sleep, WaitQueue};

lock_class! { static FILE_LOCKS: LockClass = ("file locks", level::FileLocks); }

/// Who holds a lock of a whole file: an open file description, by its address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Holder(pub usize);

#[derive(Clone, Copy)]
struct Whole {
    holder: Holder,
    exclusive: bool,
}

/// A record lock; `end` is the last byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub process: u32,
    pub start: u64,
    pub end: u64,
    pub exclusive: bool,
}

impl Record {
    fn conflicts(&self, other: &Record) -> bool {
        self.process != other.process
            && (self.exclusive || other.exclusive)
            && self.start <= other.end
            && other.start <= self.end
    }
}

#[derive(Default)]
struct Held {
    whole: Vec<Whole>,
    records: Vec<Record>,
}

struct Lists {
    held: SpinLock<Held, level::FileLocks>,
    freed: WaitQueue,
    rcu: RcuHead,
}

sync::rcu_object!(Lists);

impl Lists {
    /// Sleeps, open to signals, until `attempt` gives a result.
    fn wait<R>(&self, attempt: impl FnMut() -> Option<R>) -> Result<R> {
        self.freed.wait_shared(Sleep::Interruptible, None, attempt).map_err(|_| ERESTARTSYS)
    }
}

pub struct FileLocks {
    lists: RcuArc<Lists>,
}

impl FileLocks {
    pub const fn new() -> Self {
        FileLocks { lists: RcuArc::empty() }
    }

    fn lists(&self) -> Option<Arc<Lists>> {
        let read = sync::rcu::read();
        self.lists.get(&read)
    }

    fn make(&self) -> Result<Arc<Lists>> {
        if let Some(lists) = self.lists() {
            return Ok(lists);
        }
        let held = SpinLock::new(Held { whole: Vec::new(), records: Vec::new() }, &FILE_LOCKS);
        let new = try_arc(Lists { held, freed: WaitQueue::new(), rcu: RcuHead::new() })?;
        match self.lists.put_if_empty(new.clone()) {
            Ok(()) => Ok(new),
            Err(_) => self.lists().ok_or(EAGAIN),
        }
    }

    /// flock(2). `exclusive`: `None` unlocks.
    pub fn flock(&self, me: Holder, exclusive: Option<bool>, wait: bool) -> Result {
        let Some(exclusive) = exclusive else {
            self.release_whole(me);
            return Ok(());
        };
        let lists = self.make()?;
        let attempt = || {
            let mut held = lists.held.lock();
            if held.whole.iter().any(|w| w.holder != me && (w.exclusive || exclusive)) {
                return None;
            }
            if let Some(mine) = held.whole.iter_mut().find(|w| w.holder == me) {
                mine.exclusive = exclusive;
                return Some(Ok(()));
            }
            Some(held.whole.try_push(Whole { holder: me, exclusive }).map_err(Into::into))
        };
        match attempt() {
            Some(result) => {
                lists.freed.wake_all(); // an exclusive lock may have become a shared one
                result
            }
            None => {
                // A conversion gives up the old lock first, as Linux does, even if it fails then.
                self.release_whole(me);
                if wait { lists.wait(attempt)? } else { Err(EAGAIN) }
            }
        }
    }

    /// Nobody refers to the open file description any more, or it gives its lock up.
    pub fn release_whole(&self, holder: Holder) {
        let Some(lists) = self.lists() else { return };
        let mut held = lists.held.lock();
        let before = held.whole.len();
        held.whole.retain(|w| w.holder != holder);
        let freed = held.whole.len() != before;
        drop(held);
        if freed {
            lists.freed.wake_all();
        }
    }

    /// A process closed some descriptor of the file, or is gone.
    pub fn release_process(&self, process: u32) {
        let Some(lists) = self.lists() else { return };
        let mut held = lists.held.lock();
        let before = held.records.len();
        held.records.retain(|r| r.process != process);
        let freed = held.records.len() != before;
        drop(held);
        if freed {
            lists.freed.wake_all();
        }
    }

    /// F_GETLK: a lock that is in the way of `want`.
    pub fn conflict(&self, want: &Record) -> Option<Record> {
        let lists = self.lists()?;
        let held = lists.held.lock();
        held.records.iter().copied().find(|r| r.conflicts(want))
    }

    /// F_SETLK and F_SETLKW with F_RDLCK or F_WRLCK.
    pub fn lock_record(&self, want: Record, wait: bool) -> Result {
        let lists = self.make()?;
        let attempt = || {
            let mut held = lists.held.lock();
            if held.records.iter().any(|r| r.conflicts(&want)) {
                return None;
            }
            Some(change(&mut held.records, &want, true))
        };
        match attempt() {
            Some(result) => {
                lists.freed.wake_all();
                result
            }
            None if !wait => Err(EAGAIN),
            None => lists.wait(attempt)?,
        }
    }

    /// F_UNLCK.
    pub fn unlock_record(&self, range: Record) -> Result {
        let Some(lists) = self.lists() else { return Ok(()) };
        let result = change(&mut lists.held.lock().records, &range, false);
        lists.freed.wake_all();
        result
    }
}

/// Cuts `range` out of the process's locks, and with `add` puts it in.
#[expect(clippy::arithmetic_side_effects, reason = "both ends were compared just before")]
fn change(records: &mut Vec<Record>, range: &Record, add: bool) -> Result {
    // A lock cut in two and the new one: nothing fails after this.
    records.try_reserve(2).map_err(|_| crate::errno::ENOLCK)?;
    let mut tail = None;
    for r in records.iter_mut().filter(|r| r.process == range.process) {
        if r.start < range.start && r.end > range.end {
            tail = Some(Record { start: range.end.saturating_add(1), ..*r });
            r.end = range.start - 1;
        } else if r.start < range.start && r.end >= range.start {
            r.end = range.start - 1;
        } else if r.start <= range.end && r.end > range.end && r.start >= range.start {
            r.start = range.end + 1;
        }
    }
    records.retain(|r| r.process != range.process || r.start < range.start || r.end > range.end);
    if let Some(tail) = tail {
        put(records, tail)?;
    }
    if add {
        let new = joined(records, *range);
        put(records, new)?;
    }
    Ok(())
}

/// `range` with the locks of the same kind that the process has right before and behind it, which leave the list.
fn joined(records: &mut Vec<Record>, mut range: Record) -> Record {
    records.retain(|r| {
        let touches = r.end.checked_add(1) == Some(range.start) || range.end.checked_add(1) == Some(r.start);
        let joins = touches && r.process == range.process && r.exclusive == range.exclusive;
        if joins {
            range.start = range.start.min(r.start);
            range.end = range.end.max(r.end);
        }
        !joins
    });
    range
}

/// Puts a lock among its process's, by its start: F_GETLK shows the first that is in the way.
#[expect(clippy::arithmetic_side_effects, reason = "a count of things in memory")]
fn put(records: &mut Vec<Record>, new: Record) -> Result {
    let own = |r: &Record| r.process == new.process;
    let at = records.iter().position(|r| own(r) && r.start > new.start);
    let at = at.or_else(|| records.iter().rposition(own).map(|last| last + 1)).unwrap_or(records.len());
    Ok(records.try_insert(at, new)?)
}

#[cfg(test)]
mod tests;
