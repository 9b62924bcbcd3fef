//! The list that /proc/locks shows: locks of files, leases, and who waits for them.
//!
//! Each stands in a list of the CPU on which it was set, in the order in which they came; /proc/locks shows CPU after CPU, the last that came first, as Linux does.
//! So who locks what nobody else locks writes no line that others write. Who waits stands beside what it waits for, by its turn.
//! What is shown of a lock lies here, so that who lists locks no file's locks.
//!
//! ```text
//!   CPU 0:  3 FLOCK   1 POSIX     who waits for 1: turn 5, turn 9
//!   CPU 1:  7 LEASE
//! ```
//!
//! Entering and leaving cost the same however many locks there are. A reader gives way at a lock that rests meanwhile: one that leaves then is gone, and taken out by
//! the reader.
//!
//! Invariants: numbers ascend along a list. Who waits entered the list while what it waits for was in it; that may leave first.
//! Lock order: a file's locks → one of the locks here, each alone; the list's within a read section of RCU.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::rcu::{Entry, Queue};
use sync::{CpuId, SpinLock, TryVec, lock_class, machine, per_cpu};

use super::shown::Shown;
use super::tree::{Item, Node, Tree};
use crate::errno::{EINTR, Result};
use crate::lock_order as level;
use crate::sched::give_way;

lock_class! {
    static LISTED: LockClass = ("locks listed", level::LockList);
    static WAITERS: LockClass = ("waiters listed", level::LockList);
    static SHOWN: LockClass = ("lock shown", level::LockList);
}

/// The device and the number of an inode.
pub type Place = (u64, u64);

struct Line {
    /// Set when it is listed.
    number: AtomicU64,
    shown: SpinLock<(Place, Shown), level::LockList>,
}

/// Who waits for the lock of a number.
struct Waiter {
    lock: u64,
    turn: u64,
    shown: Shown,
}

impl Item for Waiter {
    type Key = (u64, u64);
    type Summary = ();
    fn key(&self) -> (u64, u64) {
        (self.lock, self.turn)
    }
    fn summary(&self) {}
    fn join(_: &mut (), _: &()) {}
}

#[repr(align(64))]
struct CpuList {
    locks: Queue<Line, level::LockList>,
    /// The number of the last that came. Written with `locks` locked.
    last: AtomicU64,
    waiters: SpinLock<Tree<Waiter>, level::LockList>,
}

per_cpu! {
    static LISTS: CpuList = CpuList {
        locks: Queue::new(&LISTED),
        last: AtomicU64::new(0),
        waiters: SpinLock::new(Tree::new(), &WAITERS),
    };
}

/// Where a lock stands.
#[derive(Clone, Copy)]
pub struct Spot {
    cpu: CpuId,
    number: u64,
}

/// A lock's place in the list, and the memory for it. That the lock leaves the list is not said by dropping this: where a tree of locks is changed, a list of
/// these would be, by the types.
pub struct Listed {
    entry: Entry<Line>,
    spot: Option<Spot>,
}

impl Listed {
    /// It is not in the list yet.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn try_new() -> Result<Listed> {
        let shown = SpinLock::new(((0, 0), Shown::NOTHING), &SHOWN);
        let entry = Entry::try_new(Line { number: AtomicU64::new(0), shown })?;
        Ok(Listed { entry, spot: None })
    }

    /// Lists a lock of the inode, on this CPU. Once.
    pub fn enter(&mut self, place: Place, shown: Shown) {
        *self.entry.value().shown.lock() = (place, shown);
        let cpu = machine::cpu_id();
        let (list, mut number) = (LISTS.of(cpu), 0);
        list.locks.enter(&self.entry, |line| {
            number = list.last.load(Relaxed).saturating_add(1);
            list.last.store(number, Relaxed);
            line.number.store(number, Relaxed);
        });
        self.spot = Some(Spot { cpu, number });
    }

    /// The same, when it is listed.
    pub fn entered(mut self, place: Place, shown: Shown) -> Listed {
        self.enter(place, shown);
        self
    }

    /// It is another one now.
    pub fn show(&self, shown: Shown) {
        self.entry.value().shown.lock().1 = shown;
    }

    /// The lock is gone, if it was listed.
    pub fn leave(self) {
        if let Some(Spot { cpu, .. }) = self.spot {
            LISTS.of(cpu).locks.leave(self.entry);
        }
    }

    pub fn spot(&self) -> Option<Spot> {
        self.spot
    }
}

/// Somebody waits for the lock at a spot, until this is dropped.
pub struct Blocked {
    spot: Spot,
    turn: u64,
}

impl Blocked {
    /// `turn`: which of those who wait for locks of the file it is. The lock is in the list, and stays there meanwhile.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn begin(spot: Spot, turn: u64, shown: Shown) -> Result<Blocked> {
        let node = Node::try_new(Waiter { lock: spot.number, turn, shown })?;
        LISTS.of(spot.cpu).waiters.lock().insert(node);
        Ok(Blocked { spot, turn })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let Spot { cpu, number } = self.spot;
        let gone = LISTS.of(cpu).waiters.lock().remove(&(number, self.turn));
        drop(gone);
    }
}

/// Locks that are looked at before a reader gives way.
const STEPS: usize = 256;
/// Locks that are told at a time.
const MOST: usize = 64;

/// Puts into `found` the locks on the list of `cpu` with `number` or before, the last that came first, and no more than are told at a time. Goes through the list
/// from its beginning, and gives way.
///
/// # Errors
/// ENOMEM; EINTR: a signal that kills.
pub(super) fn last_to(cpu: CpuId, number: u64, found: &mut Vec<(Spot, Place, Shown)>) -> Result {
    found.clear();
    let (mut next, mut result, mut rest) = (0usize, Ok(()), None);
    loop {
        rest = LISTS.of(cpu).locks.visit(rest.as_ref(), STEPS, |line| {
            let own = line.number.load(Relaxed);
            if own > number || result.is_err() {
                return ControlFlow::Break(());
            }
            let (place, shown) = *line.shown.lock();
            let lock = (Spot { cpu, number: own }, place, shown);
            match found.get_mut(next) {
                Some(slot) => *slot = lock,
                None => result = found.try_push(lock),
            }
            next = next.saturating_add(1) % MOST;
            ControlFlow::Continue(())
        });
        if rest.is_none() {
            break;
        }
        if give_way() {
            return Err(EINTR);
        }
    }
    result?;
    // The oldest of them is where the next would have come.
    if found.len() == MOST {
        found.rotate_left(next);
    }
    found.reverse();
    Ok(())
}

impl Spot {
    /// The number before this.
    pub(super) fn before(self) -> u64 {
        self.number.saturating_sub(1)
    }

    /// Who waits here whose turn comes after `turn`, the first of them. Turns begin with 1.
    pub(super) fn next_waiter(self, turn: u64) -> Option<(u64, Shown)> {
        let waiters = LISTS.of(self.cpu).waiters.lock();
        let waiter = waiters.first_above(&(self.number, turn))?;
        (waiter.lock == self.number).then_some((waiter.turn, waiter.shown))
    }
}
