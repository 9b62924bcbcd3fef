//! The record locks of one file, so ordered that no call looks at all of them.
//!
//! Each lock stands in two trees. By owner and start, where one owner's locks do not overlap: what an owner's call changes lies in a row.
//! By start, where each subtree knows how far the locks of its two farthest owners reach: so the first lock of anybody else that overlaps
//! a range is found on one path, however many locks of the caller's own lie there.
//!
//! Which lock keeps its place in the list for /proc/locks (`listed`) where locks are cut and joined is as on Linux: the first that the new one is joined with, and of
//! two pieces the hind one.
//!
//! Invariants: both trees have the same locks, and each stands in the list. Locks of one owner do not overlap, and those of one kind do not touch. Locks of two owners
//! overlap only if both are shared.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::mem::{replace, swap};

use super::listed::{Listed, Place as Inode, Spot};
use super::shown::Shown;
use super::tree::{Item, Node, Tree};
use crate::account::{Charge, Kind, limits};
use crate::errno::{ENOLCK, Result};
use crate::fs::caller;
use crate::sched::schedule_if_needed;

/// Who holds a lock: an open file description, or a process by its descriptors, which it may share; by their address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner(usize);

impl Owner {
    pub(super) const NOBODY: Owner = Owner(0);
    /// What has an address is not at an odd one.
    const OPEN_FILE: usize = 1;

    pub fn of_descriptors(address: usize) -> Owner {
        Owner(address & !Owner::OPEN_FILE)
    }

    pub fn of_open_file(address: usize) -> Owner {
        Owner(address | Owner::OPEN_FILE)
    }

    pub fn is_open_file(self) -> bool {
        self.0 & Owner::OPEN_FILE != 0
    }
}

/// A record lock; `end` is the last byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub owner: Owner,
    /// The open file by which it was set, for /proc/PID/fdinfo.
    pub by: Owner,
    /// Who asked for it, for F_GETLK.
    pub process: u32,
    pub start: u64,
    pub end: u64,
    pub exclusive: bool,
}

impl Record {
    pub fn overlaps(&self, other: &Record) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    #[cfg(test)]
    pub fn conflicts(&self, other: &Record) -> bool {
        self.owner != other.owner && (self.exclusive || other.exclusive) && self.overlaps(other)
    }
}

struct ByOwner {
    record: Record,
    /// None: the lock's place in the list has gone to another.
    listed: Option<Listed>,
    /// The lock is counted for who asked for its memory.
    _charge: Charge,
}

impl Item for ByOwner {
    type Key = (Owner, u64);
    type Summary = ();
    fn key(&self) -> Self::Key {
        (self.record.owner, self.record.start)
    }
    fn summary(&self) {}
    fn join(_: &mut (), _: &()) {}
}

/// How far the locks of the two owners reach that reach farthest. A place that nobody has is [`Owner::NOBODY`]'s.
#[derive(Clone, Copy)]
struct Reach([(Owner, u64); 2]);

impl Reach {
    const NONE: Reach = Reach([(Owner::NOBODY, 0); 2]);

    fn of(owner: Owner, end: u64) -> Reach {
        Reach([(owner, end), (Owner::NOBODY, 0)])
    }

    #[inline]
    fn add(&mut self, (owner, end): (Owner, u64)) {
        let [first, second] = &mut self.0;
        if owner == first.0 {
            first.1 = end.max(first.1);
        } else if owner != Owner::NOBODY {
            Self::add_another(first, second, (owner, end));
        }
    }

    /// Of an owner that is not the first.
    fn add_another(first: &mut (Owner, u64), second: &mut (Owner, u64), new: (Owner, u64)) {
        if first.0 == Owner::NOBODY || new.1 > first.1 {
            *second = *first;
            *first = new;
        } else if second.0 == new.0 {
            second.1 = new.1.max(second.1);
        } else if second.0 == Owner::NOBODY || new.1 > second.1 {
            *second = new;
        }
    }

    #[inline]
    fn join(&mut self, other: &Reach) {
        self.add(other.0[0]);
        self.add(other.0[1]);
    }

    /// The end of the farthest lock that is not `owner`'s.
    fn of_others(&self, owner: Owner) -> Option<u64> {
        self.0.iter().find(|(o, _)| *o != owner && *o != Owner::NOBODY).map(|(_, end)| *end)
    }
}

/// Of all locks, and of the exclusive ones.
#[derive(Clone, Copy)]
struct Reaches {
    all: Reach,
    exclusive: Reach,
}

#[derive(Clone, Copy)]
struct ByStart(Record);

impl Item for ByStart {
    type Key = (u64, Owner);
    type Summary = Reaches;

    fn key(&self) -> Self::Key {
        (self.0.start, self.0.owner)
    }

    fn summary(&self) -> Reaches {
        let all = Reach::of(self.0.owner, self.0.end);
        Reaches { all, exclusive: if self.0.exclusive { all } else { Reach::NONE } }
    }

    fn join(sum: &mut Reaches, other: &Reaches) {
        sum.all.join(&other.all);
        sum.exclusive.join(&other.exclusive);
    }
}

/// The memory of one lock.
struct Place {
    by_owner: Box<Node<ByOwner>>,
    by_start: Box<Node<ByStart>>,
}

/// Who pays for further locks: the user, and how many it may have.
#[derive(Clone, Copy)]
pub struct Payer {
    pub uid: u32,
    pub limit: u64,
}

impl Payer {
    /// The running thread's user.
    pub fn caller() -> Payer {
        Payer { uid: caller::uid(), limit: limits::record_locks() }
    }
}

impl Place {
    fn try_new(record: &Record, payer: Payer) -> Result<Place> {
        let charge = Charge::try_new(payer.uid, Kind::RecordLocks, 1, payer.limit).map_err(|_| ENOLCK)?;
        let listed = Some(Listed::try_new().map_err(|_| ENOLCK)?);
        let by_owner =
            Node::try_new(ByOwner { record: *record, listed, _charge: charge }).map_err(|_| ENOLCK)?;
        let by_start = Node::try_new(ByStart(*record)).map_err(|_| ENOLCK)?;
        Ok(Place { by_owner, by_start })
    }

    /// The lock is gone, and leaves the list.
    fn leave(mut self) -> Place {
        if let Some(listed) = self.by_owner.item.listed.take() {
            listed.leave();
        }
        self
    }
}

/// Memory for the locks that a change adds, two at the most, and for one that it took away; and for their places in the list.
struct Spare {
    places: [Option<Place>; 3],
    listed: [Option<Listed>; 3],
}

impl Spare {
    /// Memory for `n` locks, and for `entries` that are listed.
    ///
    /// # Errors
    /// ENOLCK: the payer has as many as may be, or there is no memory.
    fn try_new(record: &Record, n: usize, entries: usize, payer: Payer) -> Result<Spare> {
        let mut spare = Spare { places: [const { None }; 3], listed: [const { None }; 3] };
        for slot in spare.places.iter_mut().take(n) {
            *slot = Some(Place::try_new(record, payer)?);
        }
        // A place has memory for one.
        for slot in spare.listed.iter_mut().take(entries.saturating_sub(n)) {
            *slot = Some(Listed::try_new().map_err(|_| ENOLCK)?);
        }
        Ok(spare)
    }

    fn take(&mut self) -> Option<Place> {
        self.places.iter_mut().find_map(Option::take)
    }

    /// Keeps the memory of a lock that is gone, if there is use for it.
    fn give(&mut self, place: Place) {
        if let Some(slot) = self.places.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(place);
        }
    }

    fn take_listed(&mut self) -> Option<Listed> {
        self.listed.iter_mut().find_map(Option::take)
    }

    /// Keeps the memory of a place in the list, where a lock has got another's.
    fn give_listed(&mut self, listed: Listed) {
        if let Some(slot) = self.listed.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(listed);
        }
    }
}

pub struct Records {
    by_owner: Tree<ByOwner>,
    by_start: Tree<ByStart>,
    inode: Inode,
}

impl Records {
    /// Of an inode of this device and number.
    pub const fn new(inode: Inode) -> Self {
        Records { by_owner: Tree::new(), by_start: Tree::new(), inode }
    }

    /// Where one of the locks stands in the list.
    pub fn spot(&self, record: &Record) -> Option<Spot> {
        let item = self.by_owner.last_to(&(record.owner, record.start))?;
        item.listed.as_ref().filter(|_| item.record == *record)?.spot()
    }

    /// Takes the place in the list of the lock for another, which begins at the same place.
    fn take_listed(&mut self, record: &Record) -> Option<Listed> {
        let mut listed = None;
        self.by_owner.change(&(record.owner, record.start), |item| swap(&mut listed, &mut item.listed));
        listed
    }

    /// Puts a lock in, which has the place in the list of `kept`, or a new one.
    fn put(&mut self, record: Record, kept: Option<Listed>, spare: &mut Spare) {
        // There is always a place: see `Spare`.
        if let Some(mut place) = spare.take() {
            let shown = Shown::of_record(&record);
            let listed = &mut place.by_owner.item.listed;
            if let Some(kept) = kept {
                kept.show(shown);
                listed.replace(kept).into_iter().for_each(|own| spare.give_listed(own));
            } else {
                let own = listed.take().or_else(|| spare.take_listed());
                *listed = own.map(|own| own.entered(self.inode, shown));
            }
            (place.by_owner.item.record, place.by_start.item) = (record, ByStart(record));
            self.by_owner.insert(place.by_owner);
            self.by_start.insert(place.by_start);
        }
    }

    fn take(&mut self, record: &Record) -> Option<Place> {
        let by_owner = self.by_owner.remove(&(record.owner, record.start))?;
        let by_start = self.by_start.remove(&ByStart(*record).key())?;
        Some(Place { by_owner, by_start })
    }

    /// Lets a lock end elsewhere; it overlaps no other of its owner's then.
    fn set_end(&mut self, record: &Record, end: u64) {
        self.by_owner.change(&(record.owner, record.start), |item| item.record.end = end);
        // Not while the tree is gone down: the list is one, too.
        if let Some(item) = self.by_owner.last_to(&(record.owner, record.start))
            && let Some(listed) = &item.listed
        {
            listed.show(Shown::of_record(&item.record));
        }
        self.by_start.change(&ByStart(*record).key(), |item| item.0.end = end);
    }

    /// The lock of somebody else that is in the way of `want`: the one that begins first.
    pub fn conflict(&self, want: &Record) -> Option<Record> {
        let reaches = |node: &Node<ByStart>| {
            let summary = node.summary();
            let reach = if want.exclusive { summary.all } else { summary.exclusive };
            reach.of_others(want.owner).is_some_and(|end| end >= want.start)
        };
        let mut at = self.by_start.root();
        while let Some(node) = at {
            match node.left() {
                // If the lock there that reaches so far begins behind the range, all that follow do.
                Some(left) if reaches(left) => at = Some(left),
                _ if node.item.0.start > want.end => return None,
                _ => {
                    let here = &node.item.0;
                    let other = here.owner != want.owner && (here.exclusive || want.exclusive);
                    if other && here.end >= want.start {
                        return Some(*here);
                    }
                    at = node.right();
                }
            }
        }
        None
    }

    /// The owner's first lock that overlaps `range`.
    pub fn own(&self, range: &Record) -> Option<Record> {
        let before = self.by_owner.last_to(&(range.owner, range.start)).map(|r| r.record);
        let before = before.filter(|r| r.owner == range.owner && r.end >= range.start);
        before
            .or_else(|| self.by_owner.first_above(&(range.owner, range.start)).map(|r| r.record))
            .filter(|r| r.owner == range.owner && r.overlaps(range))
    }

    /// The owner's first lock behind `old` that begins in `around`.
    pub fn own_after(&self, old: &Record, around: &Record) -> Option<Record> {
        let after = self.by_owner.first_above(&(around.owner, old.end)).map(|r| r.record);
        after.filter(|r| r.owner == around.owner && r.start <= around.end)
    }

    /// How many locks there are more after a change (`change`), whose `first` lock of the owner's lies in `around`.
    #[expect(clippy::arithmetic_side_effects, reason = "no more than three on either side")]
    fn more_after(&self, range: &Record, around: &Record, first: Option<Record>, add: bool) -> usize {
        let (mut gone, mut left) = (0usize, usize::from(add));
        let mut next = first;
        while let Some(old) = next.filter(|_| gone <= 2) {
            if add && old.exclusive == range.exclusive {
                gone += 1;
            } else if old.overlaps(range) {
                gone += 1;
                left += usize::from(old.start < range.start) + usize::from(old.end > range.end);
            }
            next = self.own_after(&old, around);
        }
        // Where more than two go, no more come: a lock, and what is left of the first and the last.
        left.saturating_sub(gone)
    }

    /// Gives a lock whose place in the list has gone to another a new one.
    fn list_again(&mut self, record: &Record, spare: &mut Spare) {
        let shown = Shown::of_record(record);
        let mut listed = spare.take_listed().map(|listed| listed.entered(self.inode, shown));
        self.by_owner.change(&(record.owner, record.start), |item| swap(&mut listed, &mut item.listed));
    }

    /// Cuts `range` out of its owner's locks, and with `add` puts it in. Says whether anything went or became weaker.
    ///
    /// Gives way: no lock is held but sleeping ones.
    ///
    /// # Errors
    /// ENOLCK: there would be more locks than `payer` may have, or than there is memory for. Nothing is changed then.
    pub fn change(&mut self, range: &Record, add: bool, payer: Payer) -> Result<bool> {
        let mut new = *range;
        let (mut freed, mut grown, mut grows) = (false, false, None);
        // It took the place of one of another kind; the place in the list of the one that grows; one that was cut in two.
        let (mut replaced, mut kept, mut cut) = (false, None, None);
        // With its neighbours, which it may be joined with.
        let around =
            Record { start: range.start.saturating_sub(1), end: range.end.saturating_add(1), ..*range };
        let mut next = self.own(&around);
        // What is listed anew: the lock itself, and what was cut off.
        let is_cut = next.is_some_and(|old| old.start < range.start && old.end > range.end);
        let (more, entries) = (
            self.more_after(range, &around, next, add),
            usize::from(add).saturating_add(usize::from(is_cut)),
        );
        let mut spare = Spare::try_new(range, more, entries, payer)?;
        let mut steps = 0u32;
        while let Some(old) = next {
            if add && old.exclusive == range.exclusive {
                new.start = new.start.min(old.start);
                new.end = new.end.max(old.end);
                // It is the old lock that grows, and where its start stays, it does so in its place.
                let is_first = !replace(&mut grown, true);
                if is_first {
                    (new.process, new.by) = (old.process, old.by);
                    grows = Some(old).filter(|old| old.start <= range.start);
                }
                if grows != Some(old)
                    && let Some(mut place) = self.take(&old)
                {
                    if is_first && !replaced {
                        kept = place.by_owner.item.listed.take();
                    }
                    spare.give(place.leave());
                }
            } else if old.overlaps(range) {
                freed |= !add || old.exclusive;
                let has_rest = old.end > range.end;
                let mut listed = None;
                if old.start < range.start {
                    if has_rest {
                        listed = self.take_listed(&old);
                        cut = Some(old);
                    }
                    self.set_end(&old, range.start.saturating_sub(1));
                } else if let Some(mut place) = self.take(&old) {
                    if has_rest {
                        listed = place.by_owner.item.listed.take();
                    }
                    replaced |= !has_rest;
                    spare.give(place.leave());
                }
                if has_rest {
                    self.put(Record { start: range.end.saturating_add(1), ..old }, listed, &mut spare);
                }
            }
            next = self.own_after(&old, &around);
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(64) {
                schedule_if_needed();
            }
        }
        match grows {
            Some(old) if old.end != new.end => self.set_end(&old, new.end),
            None if add => self.put(new, kept, &mut spare),
            _ => {}
        }
        if let Some(old) = cut {
            self.list_again(&Record { end: range.start.saturating_sub(1), ..old }, &mut spare);
        }
        Ok(freed)
    }

    /// Takes away all locks of `owner`. Gives way.
    pub fn release(&mut self, owner: Owner) -> bool {
        let mut steps = 0u32;
        loop {
            let first = self.by_owner.first_above(&(owner, 0)).map(|r| r.record);
            let at_zero = self.by_owner.last_to(&(owner, 0)).map(|r| r.record);
            let Some(record) = at_zero.into_iter().chain(first).find(|r| r.owner == owner) else { break };
            drop(self.take(&record).map(Place::leave));
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(64) {
                schedule_if_needed();
            }
        }
        steps > 0
    }
}
