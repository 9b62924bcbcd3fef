//! Leases of a file (fcntl(2)): an open file holds one until somebody else opens the file in a way that it forbids, who then waits until it is given up.
//!
//! ```text
//!   held ---break by who writes---> to end ------F_UNLCK, close, time---> gone
//!     \----break by who reads-----> to weaken ---F_RDLCK, time---> held to read
//! ```
//!
//! A lease to read forbids opening to write, one to write forbids all. What forbids a lease is asked of the caller of `set_lease`, under the lock
//! of the file's locks and behind the claim (`sync::protocol::readers`): who opens the file meanwhile is counted there, or sees the claim and comes to `break_leases`.
//!
//! A lease whose time is over is taken by whoever comes next to the file's leases, as on Linux.
//!
//! Invariants: while the file has a lease it is claimed. An open file has one lease at the most. Each lease stands in the list for /proc/locks (`listed`), until it is taken out of the file's.
//! Lock order: `held` → what tells the holder; → the list.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::SeqCst;

use sync::rcu;

use super::listed::{Blocked, Listed, Spot};
use super::shown::Shown;
use super::tree::{Item, Node, Tree};
use super::{FileLocks, Held, Lists, Owner};
use crate::account::limits;
use crate::arch;
use crate::errno::{EAGAIN, EINTR, EINVAL, ERESTARTSYS, Result};
use crate::fs::caller;
use crate::fs::vfs::inode::Inode;
use crate::sched::{Deadline, Sleep, Woken, give_way};

/// Whoever is told of a lease that somebody else wants to end. Called under the lock of the file's locks.
pub trait Holder: Send + Sync {
    /// It is to be given up, or weakened.
    fn broken(&self);
    /// It is gone.
    fn ended(&self);
}

/// A lease that is asked for.
pub struct Wanted<'a> {
    pub inode: &'a Inode,
    pub file: Owner,
    /// F_WRLCK, else F_RDLCK.
    pub exclusive: bool,
    pub holder: Arc<dyn Holder>,
}

/// A time of `arch::time::now`; none: never.
type When = Option<u64>;

struct Lease {
    file: Owner,
    /// Who asked for it.
    process: u32,
    exclusive: bool,
    /// Somebody wants to write.
    ends: bool,
    /// Somebody wants to read.
    weakens: bool,
    end_at: When,
    /// It stays when the holder has weakened the lease, as on Linux: one that he makes exclusive again is weakened at once.
    weaken_at: When,
    holder: Arc<dyn Holder>,
    listed: Listed,
}

impl Lease {
    fn forbids(&self, writing: bool) -> bool {
        self.exclusive || writing
    }

    /// What it is, or is to become: `None` for nothing.
    fn target(&self) -> Option<bool> {
        if self.ends { None } else { Some(self.exclusive && !self.weakens) }
    }

    fn shown(&self) -> Shown {
        Shown::of_lease(self.process, self.target(), self.ends || self.weakens)
    }

    /// Its holder has it so from now on.
    fn change(&mut self, exclusive: bool) {
        self.exclusive = exclusive;
        if !exclusive {
            self.weakens = false;
        }
    }

    /// Somebody wants to open the file. True: the holder does not know that yet.
    fn mark(&mut self, writing: bool, until: When) -> bool {
        if !self.forbids(writing) || self.ends || self.weakens && !writing {
            return false;
        }
        if writing {
            (self.ends, self.end_at) = (true, until);
        } else {
            (self.weakens, self.weaken_at) = (true, until);
        }
        true
    }

    fn next_time(&self) -> When {
        [self.end_at, self.weaken_at].into_iter().flatten().min()
    }
}

impl Item for Lease {
    type Key = Owner;
    type Summary = ();
    fn key(&self) -> Owner {
        self.file
    }
    fn summary(&self) {}
    fn join(_: &mut (), _: &()) {}
}

/// The leases of one file.
pub(super) struct Leases {
    all: Tree<Lease>,
    count: usize,
    exclusive: usize,
    /// No lease's time is over before.
    due: When,
    /// A grace period has passed since the file was claimed.
    alone: bool,
}

impl Leases {
    pub(super) const fn new() -> Self {
        Leases { all: Tree::new(), count: 0, exclusive: 0, due: None, alone: false }
    }

    fn after(&self, file: Owner) -> Option<&Lease> {
        self.all.first_above(&file)
    }

    fn get(&self, file: Owner) -> Option<&Lease> {
        self.all.last_to(&file).filter(|lease| lease.file == file)
    }

    /// What the open file has.
    pub(super) fn shown(&self, file: Owner) -> Option<Shown> {
        self.get(file).map(Lease::shown)
    }

    fn forbid(&self, writing: bool) -> bool {
        if writing { self.count > 0 } else { self.exclusive > 0 }
    }

    /// A lease that forbids it. A lease to write is alone, but where a file was opened for nothing (access mode 3).
    fn first_to_forbid(&self, writing: bool) -> Option<&Lease> {
        let mut next = self.after(Owner::NOBODY).filter(|_| self.forbid(writing));
        while let Some(lease) = next.filter(|lease| !lease.forbids(writing)) {
            next = self.after(lease.file);
        }
        next
    }

    /// Changes the lease of `file`, which has one. Its key stays.
    fn change(&mut self, file: Owner, f: impl FnOnce(&mut Lease)) {
        let exclusive = &mut self.exclusive;
        self.all.change(&file, |lease| {
            *exclusive = exclusive.saturating_sub(usize::from(lease.exclusive));
            f(lease);
            *exclusive = exclusive.saturating_add(usize::from(lease.exclusive));
        });
        // Not while the tree is gone down: the list is one, too.
        if let Some(lease) = self.get(file) {
            lease.listed.show(lease.shown());
        }
    }

    fn insert(&mut self, node: Box<Node<Lease>>) {
        self.count = self.count.saturating_add(1);
        self.exclusive = self.exclusive.saturating_add(usize::from(node.item.exclusive));
        self.all.insert(node);
    }

    fn remove(&mut self, file: Owner) -> Option<Box<Node<Lease>>> {
        let gone = self.all.remove(&file)?;
        self.count = self.count.saturating_sub(1);
        self.exclusive = self.exclusive.saturating_sub(usize::from(gone.item.exclusive));
        Some(gone)
    }

    /// Are those of other open files to end? Then somebody is about to open the file for writing. They are marked in their order, and none comes before
    /// they have ended: the first one tells.
    fn others_end(&self, file: Owner) -> bool {
        let first = self.after(Owner::NOBODY);
        let other = first.and_then(|lease| if lease.file == file { self.after(file) } else { Some(lease) });
        other.is_some_and(|lease| lease.ends)
    }

    fn note_due(&mut self, at: When) {
        self.due = [self.due, at].into_iter().flatten().min();
    }
}

/// Until when holders are to give up leases that are broken now.
fn break_time() -> When {
    let seconds = u64::from(limits::LEASE_BREAK_TIME.get().max(0).unsigned_abs());
    (seconds > 0).then(|| arch::time::now().saturating_add(seconds.saturating_mul(1_000_000_000)))
}

impl Lists {
    /// Takes the lease of `file`, if it has one.
    fn end_lease(&self, held: &mut Held, file: Owner) -> bool {
        let Some(gone) = held.leases.remove(file) else { return false };
        gone.item.holder.ended();
        gone.item.listed.leave();
        self.unclaim(held);
        self.changed();
        true
    }

    /// Without leases the file is open to all.
    fn unclaim(&self, held: &mut Held) {
        if held.leases.count == 0 {
            held.leases.alone = false;
            held.leases.due = None;
            self.claim.end();
        }
    }

    /// Takes and weakens leases whose time is over. Gives way.
    fn time_out(&self, held: &mut Held) {
        let now = arch::time::now();
        let over = |at: When| at.is_some_and(|at| now > at);
        if !over(held.leases.due) {
            return;
        }
        held.leases.due = None;
        let mut at = Owner::NOBODY;
        while let Some(lease) = held.leases.after(at) {
            at = lease.file;
            let (weaken, end, next) = (over(lease.weaken_at), over(lease.end_at), lease.next_time());
            if end {
                self.end_lease(held, at);
            } else if weaken {
                held.leases.change(at, |lease| lease.change(false));
                self.changed();
            }
            if !end {
                held.leases.note_due(next);
            }
            // Each is looked at, whatever signal has come: there are no more than files are open.
            let _ = give_way();
        }
    }

    /// Marks the leases that forbid the opening, and tells their holders. Gives way.
    ///
    /// # Errors
    /// EINTR: a signal that kills.
    fn mark(held: &mut Held, writing: bool) -> Result {
        let until = break_time();
        let mut at = Owner::NOBODY;
        while let Some(lease) = held.leases.after(at) {
            at = lease.file;
            let mut told = None;
            held.leases.change(at, |lease| told = lease.mark(writing, until).then(|| lease.holder.clone()));
            if let Some(holder) = told {
                held.leases.note_due(until);
                holder.broken();
            }
            if give_way() {
                return Err(EINTR);
            }
        }
        Ok(())
    }

    /// F_SETLEASE, with the file claimed.
    fn grant(&self, held: &mut Held, wanted: Wanted<'_>, is_open_to: &dyn Fn(bool) -> bool) -> Result {
        let Wanted { file, exclusive, holder, .. } = wanted;
        if is_open_to(exclusive) {
            return Err(EAGAIN);
        }
        let mine = held.leases.get(file).is_some();
        let others = held.leases.count > usize::from(mine);
        if others && (exclusive || held.leases.others_end(file)) {
            return Err(EAGAIN);
        }
        if mine {
            held.leases.change(file, |lease| lease.change(exclusive));
            self.changed();
            return Ok(());
        }
        if limits::LEASES_ENABLE.get() == 0 {
            return Err(EINVAL);
        }
        let lease = Lease {
            file,
            process: caller::pid(),
            exclusive,
            ends: false,
            weakens: false,
            end_at: None,
            weaken_at: None,
            holder,
            listed: Listed::try_new()?,
        };
        let mut node = Node::try_new(lease)?;
        let shown = node.item.shown();
        node.item.listed.enter(self.inode, shown);
        held.leases.insert(node);
        Ok(())
    }
}

/// Lists the caller as one who waits for the lease at `spot`.
///
/// # Errors
/// ENOMEM.
fn breaker(held: &mut Held, spot: Option<Spot>, turn: &mut u64, writing: bool) -> Result<Option<Blocked>> {
    held.begin_wait(spot, turn, Shown::of_breaker(caller::pid(), writing))
}

impl FileLocks {
    /// Does anybody have a lease, or is about to? Asked by who opens the file, when he is counted among its writers or readers.
    #[inline(always)]
    pub fn is_leased(&self) -> bool {
        self.lists().is_some_and(|lists| lists.claim.is_begun())
    }

    /// F_SETLEASE with F_RDLCK or F_WRLCK. `is_open_to`: is the file open to others than the lease would allow? `begin` comes with the lease, under the lock.
    ///
    /// # Errors
    /// EAGAIN, EINVAL: leases are not allowed; ENOMEM.
    pub fn set_lease(
        &self,
        wanted: Wanted<'_>,
        is_open_to: &dyn Fn(bool) -> bool,
        begin: impl FnOnce(),
    ) -> Result {
        // Without a grace period for what cannot be.
        if is_open_to(wanted.exclusive) {
            return Err(EAGAIN);
        }
        let lists = self.make(wanted.inode.place())?;
        let mut held = lists.held.lock();
        let held = &mut *held;
        lists.time_out(held);
        let waits = wanted.exclusive && !held.leases.alone;
        lists.claim.begin(|| {
            if waits {
                rcu::synchronize();
            }
        });
        held.leases.alone |= waits;
        let result = lists.grant(held, wanted, is_open_to);
        if result.is_ok() {
            begin();
        }
        lists.unclaim(held);
        result
    }

    /// F_SETLEASE with F_UNLCK.
    ///
    /// # Errors
    /// EAGAIN: there is none.
    pub fn end_lease(&self, file: Owner) -> Result {
        let ended = self.lists().is_some_and(|lists| lists.end_lease(&mut lists.held.lock(), file));
        if ended { Ok(()) } else { Err(EAGAIN) }
    }

    /// The last descriptor of the open file is closed.
    #[cold]
    #[inline(never)]
    pub(super) fn release_lease(&self, file: Owner) {
        if self.is_leased() {
            let _ = self.end_lease(file);
        }
    }

    /// F_GETLEASE: what the open file has, or will have when it is broken; exclusive or not.
    pub fn lease(&self, file: Owner) -> Option<bool> {
        let lists = self.lists()?;
        let mut held = lists.held.lock();
        lists.time_out(&mut held);
        held.leases.get(file)?.target()
    }

    /// Somebody opens the file, or sets its size, who is counted among those who have it open. Breaks the leases that forbid that, and sleeps, open to signals, until they
    /// are gone. Locks of files are not held.
    ///
    /// # Errors
    /// EAGAIN: there is one, and the caller does not `wait`. ERESTARTSYS, EINTR.
    #[cold]
    pub fn break_leases(&self, writing: bool, wait: bool) -> Result {
        let Some(lists) = self.lists() else { return Ok(()) };
        let (mut first, mut turn) = (true, 0);
        loop {
            let (seen, until, blocked) = {
                let mut held = lists.held.lock();
                let held = &mut *held;
                lists.time_out(held);
                if first && held.leases.forbid(writing) {
                    Lists::mark(held, writing)?;
                }
                first = false;
                let Some(lease) = held.leases.first_to_forbid(writing) else { return Ok(()) };
                if !wait {
                    return Err(EAGAIN);
                }
                let (spot, until) = (lease.listed.spot(), lease.next_time());
                let blocked = breaker(held, spot, &mut turn, writing)?;
                (lists.changes.load(SeqCst), until, blocked)
            };
            // It is over once its moment is past.
            let deadline = until.map(|at| Deadline::of_sleep(at.saturating_add(1)));
            let changed = || (lists.changes.load(SeqCst) != seen).then_some(());
            let woken = lists.freed.wait_shared(Sleep::Interruptible, deadline, changed);
            drop(blocked);
            match woken {
                Ok(()) | Err(Woken::Timeout) => {}
                Err(_) => return Err(ERESTARTSYS),
            }
        }
    }
}

#[cfg(test)]
mod tests;
