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
//! Invariants: who waits entered the list while what it waits for was in it; that may leave first.
//! Lock order: a file's locks → a CPU's list.
#![forbid(unsafe_code)]

use alloc::boxed::Box;

use sync::{CpuId, SpinLock, lock_class, machine, per_cpu};

use super::shown::Shown;
use super::tree::{Item, Node, Tree};
use crate::errno::Result;
use crate::lock_order as level;

lock_class! { static LISTED: LockClass = ("locks listed", level::LockList); }

/// The device and the number of an inode.
pub type Place = (u64, u64);

#[derive(Clone, Copy)]
struct Entry {
    number: u64,
    place: Place,
    shown: Shown,
}

impl Item for Entry {
    type Key = u64;
    type Summary = ();
    fn key(&self) -> u64 {
        self.number
    }
    fn summary(&self) {}
    fn join(_: &mut (), _: &()) {}
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

struct List {
    locks: Tree<Entry>,
    waiters: Tree<Waiter>,
    /// The number of the next that comes.
    next: u64,
}

#[repr(align(64))]
struct CpuList(SpinLock<List, level::LockList>);

per_cpu! {
    static LISTS: CpuList = CpuList(SpinLock::new(List { locks: Tree::new(), waiters: Tree::new(), next: 1 }, &LISTED));
}

/// Where a lock stands.
#[derive(Clone, Copy)]
pub struct Spot {
    cpu: CpuId,
    number: u64,
}

/// A lock's place in the list, and the memory for it. That the lock leaves the list is not said by dropping this: where a tree of locks is changed, a tree of
/// these would be, by the types.
pub struct Listed {
    memory: Option<Box<Node<Entry>>>,
    spot: Option<Spot>,
}

impl Listed {
    /// It is not in the list yet.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn try_new() -> Result<Listed> {
        let memory = Node::try_new(Entry { number: 0, place: (0, 0), shown: Shown::NOTHING })?;
        Ok(Listed { memory: Some(memory), spot: None })
    }

    /// Lists a lock of the inode, on this CPU.
    pub fn enter(&mut self, place: Place, shown: Shown) {
        let Some(mut node) = self.memory.take() else { return };
        let cpu = machine::cpu_id();
        let mut list = LISTS.of(cpu).0.lock();
        let number = list.next;
        list.next = number.saturating_add(1);
        node.item = Entry { number, place, shown };
        list.locks.insert(node);
        drop(list);
        self.spot = Some(Spot { cpu, number });
    }

    /// The same, when it is listed.
    pub fn entered(mut self, place: Place, shown: Shown) -> Listed {
        self.enter(place, shown);
        self
    }

    /// It is another one now.
    pub fn show(&self, shown: Shown) {
        if let Some(Spot { cpu, number }) = self.spot {
            LISTS.of(cpu).0.lock().locks.change(&number, |entry| entry.shown = shown);
        }
    }

    /// The lock is gone. It may be listed again.
    pub fn leave(&mut self) {
        if let Some(Spot { cpu, number }) = self.spot.take() {
            self.memory = LISTS.of(cpu).0.lock().locks.remove(&number);
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
        LISTS.of(spot.cpu).0.lock().waiters.insert(node);
        Ok(Blocked { spot, turn })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let Spot { cpu, number } = self.spot;
        let gone = LISTS.of(cpu).0.lock().waiters.remove(&(number, self.turn));
        drop(gone);
    }
}

/// The lock on the list of `cpu` that came last with `number` or before.
pub(super) fn last_to(cpu: CpuId, number: u64) -> Option<(Spot, Place, Shown)> {
    let list = LISTS.of(cpu).0.lock();
    let entry = list.locks.last_to(&number)?;
    Some((Spot { cpu, number: entry.number }, entry.place, entry.shown))
}

impl Spot {
    /// The number before this.
    pub(super) fn before(self) -> u64 {
        self.number.saturating_sub(1)
    }

    /// Who waits here whose turn comes after `turn`, the first of them. Turns begin with 1.
    pub(super) fn next_waiter(self, turn: u64) -> Option<(u64, Shown)> {
        let list = LISTS.of(self.cpu).0.lock();
        let waiter = list.waiters.first_above(&(self.number, turn))?;
        (waiter.lock == self.number).then_some((waiter.turn, waiter.shown))
    }
}
