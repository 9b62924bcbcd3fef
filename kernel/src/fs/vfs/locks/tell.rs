//! What /proc/locks and /proc/PID/fdinfo tell of locks.
//!
//! Below a lock stand those who wait for it. One that could not have it beside one that waits longer stands below that one, as on Linux:
//!
//! ```text
//!   1: FLOCK  ADVISORY  READ 10 ...        the lock
//!   1: -> FLOCK  ADVISORY  WRITE 11 ...    waits for it
//!   1:  -> FLOCK  ADVISORY  WRITE 12 ...   would wait for 11, too
//! ```
//!
//! Locks: none while it gives way, but for /proc/PID/fdinfo, which holds the file's.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::{CpuId, TryVec, machine};

use super::FileLocks;
use super::listed::{Place, Spot, last_to};
use super::records::{Owner, Record};
use super::shown::Shown;
use crate::errno::{EINTR, Result};
use crate::fs::vfs::inode::Inode;
use crate::sched::give_way;

/// Where the next part of /proc/locks begins.
#[derive(Clone, Copy)]
pub struct Cursor {
    cpu: CpuId,
    /// Those with this number and before it.
    number: u64,
    /// How many have come.
    pub line: u64,
}

impl Cursor {
    pub const FIRST: Cursor = Cursor { cpu: 0, number: Cursor::LAST, line: 0 };
    /// No lock has a greater number: one a nanosecond, for days.
    const LAST: u64 = (1 << Cursor::BITS) - 1;
    const BITS: u32 = 48;

    /// The place in one number, which is not 0: what comes on a CPU's list ends with 1.
    pub fn place(self) -> usize {
        ((self.cpu as usize) << Cursor::BITS) | self.number as usize
    }

    pub fn at(place: usize, line: u64) -> Cursor {
        let place = place as u64;
        Cursor { cpu: (place >> Cursor::BITS) as CpuId, number: place & Cursor::LAST, line }
    }

    fn next_cpu(self) -> Cursor {
        Cursor { cpu: self.cpu.saturating_add(1), number: Cursor::LAST, line: self.line }
    }
}

/// Appends lines for locks from `from` on, to the end of the list or until there are `most` bytes, and leaves there where it stopped. False: nothing is left. Gives
/// way between locks.
///
/// # Errors
/// ENOMEM; EINTR: a signal that kills.
pub fn tell_locks(out: &mut Vec<u8>, from: &mut Cursor, most: usize) -> Result<bool> {
    let mut found = Vec::new();
    while from.cpu < machine::cpus() {
        if out.len() >= most {
            return Ok(true);
        }
        last_to(from.cpu, from.number, &mut found)?;
        if found.is_empty() {
            *from = from.next_cpu();
        }
        for &(spot, place, shown) in &found {
            if out.len() >= most {
                return Ok(true);
            }
            *from = Cursor { number: spot.before(), line: from.line.saturating_add(1), ..*from };
            shown.put(out, "", from.line, 0, place)?;
            tell_waiters(out, spot, from.line, place, shown)?;
            if give_way() {
                return Err(EINTR);
            }
        }
    }
    Ok(false)
}

/// A lock, which is the first, or one who waits; the others by their places among all.
struct Waits {
    shown: Shown,
    /// What it stands below.
    above: usize,
    first_below: Option<usize>,
    last_below: Option<usize>,
    /// The next that stands below the same.
    next: Option<usize>,
}

impl Waits {
    fn new(shown: Shown, above: usize) -> Waits {
        Waits { shown, above, first_below: None, last_below: None, next: None }
    }
}

/// Appends the lines of those who wait for the lock at `spot`.
fn tell_waiters(out: &mut Vec<u8>, spot: Spot, line: u64, place: Place, lock: Shown) -> Result {
    let Some(mut waiter) = spot.next_waiter(0) else { return Ok(()) };
    let mut all = Vec::new();
    all.try_push(Waits::new(lock, 0))?;
    loop {
        let (turn, shown) = waiter;
        add_waiter(&mut all, shown)?;
        match spot.next_waiter(turn) {
            Some(next) => waiter = next,
            None => break,
        }
    }
    // Each before those that stand below it.
    let (mut at, mut depth) = (0usize, 0usize);
    while let Some(waits) = all.get(at) {
        if depth > 0 {
            waits.shown.put(out, "", line, depth, place)?;
        }
        if give_way() {
            return Err(EINTR);
        }
        if let Some(below) = waits.first_below {
            (at, depth) = (below, depth.saturating_add(1));
            continue;
        }
        let mut here = waits;
        while here.next.is_none() && depth > 0 {
            let Some(above) = all.get(here.above) else { break };
            (here, depth) = (above, depth.saturating_sub(1));
        }
        match here.next {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(())
}

/// Puts one who waits below the one that it has to wait for. Gives way.
fn add_waiter(all: &mut Vec<Waits>, shown: Shown) -> Result {
    let mut above = 0usize;
    let mut candidate = all.first().and_then(|lock| lock.first_below);
    while let Some(place) = candidate {
        let Some(other) = all.get(place) else { break };
        candidate = if other.shown.conflicts(&shown) {
            above = place;
            other.first_below
        } else {
            other.next
        };
        if give_way() {
            return Err(EINTR);
        }
    }
    let place = all.len();
    all.try_push(Waits::new(shown, above))?;
    let before = all.get_mut(above).and_then(|waits| {
        waits.first_below.get_or_insert(place);
        waits.last_below.replace(place)
    });
    if let Some(before) = before.and_then(|before| all.get_mut(before)) {
        before.next = Some(place);
    }
    Ok(())
}

impl FileLocks {
    /// The locks and the lease of an open file of `inode`, and the record locks that a process set by it. Gives way, and ends at a signal that kills.
    pub fn tell(&self, inode: &Inode, file: Owner, process: Owner, out: &mut Vec<u8>) -> Result {
        let Some(lists) = self.lists() else { return Ok(()) };
        let held = lists.held.lock();
        let (place, mut number) = ((inode.device, inode.number), 0u64);
        let mut put = |shown: Shown| {
            number = number.saturating_add(1);
            shown.put(out, "lock:\t", number, 0, place)
        };
        held.whole.iter().filter(|w| w.holder == file).try_for_each(|lock| put(lock.shown()))?;
        for owner in [file, process] {
            let all = Record { owner, by: file, process: 0, start: 0, end: u64::MAX, exclusive: false };
            let mut next = held.records.own(&all);
            while let Some(lock) = next {
                if give_way() {
                    return Err(EINTR);
                }
                if lock.by == file {
                    put(Shown::of_record(&lock))?;
                }
                next = held.records.own_after(&lock, &all);
            }
        }
        held.leases.shown(file).map_or(Ok(()), put)
    }
}
