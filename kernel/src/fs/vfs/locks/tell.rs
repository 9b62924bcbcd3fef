//! The lines by which /proc/PID/fdinfo and /proc/locks tell of locks.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap;

use super::listed::Shown;
use super::records::{Owner, Record};
use super::{FileLocks, Whole};
use crate::errno::{EINTR, ENOMEM, Result};
use crate::fs::vfs::device_number;
use crate::fs::vfs::inode::Inode;
use crate::sched::give_way;

/// The first columns: what it is, and for what.
pub(super) struct Text {
    kind: &'static str,
    access: &'static str,
}

const FLOCK: &str = "FLOCK  ADVISORY  ";
const OF_PROCESS: &str = "POSIX  ADVISORY  ";
const OF_FILE: &str = "OFDLCK ADVISORY  ";
const LEASE: &str = "LEASE  ACTIVE    ";
const BROKEN_LEASE: &str = "LEASE  BREAKING  ";

impl Text {
    fn new(kind: &'static str, exclusive: bool) -> Text {
        Text { kind, access: if exclusive { "WRITE" } else { "READ" } }
    }

    pub(super) fn of_lease(shown: Shown) -> Text {
        let kind = if shown.breaking { BROKEN_LEASE } else { LEASE };
        match shown.target {
            Some(exclusive) => Text::new(kind, exclusive),
            None => Text { kind, access: "UNLCK" },
        }
    }
}

/// The bytes that are locked; `end` is the last.
pub(super) struct Range {
    start: u64,
    end: u64,
}

impl Range {
    pub(super) const WHOLE: Range = Range { start: 0, end: u64::MAX };
}

/// Appends the line of a lock, the `number`th, on the inode of this device and number. -1: no process has it.
///
/// # Errors
/// ENOMEM.
pub(super) fn put_lock(
    out: &mut Vec<u8>,
    prefix: &str,
    number: u64,
    text: Text,
    process: i64,
    (device, inode): (u64, u64),
    range: Range,
) -> Result {
    let Text { kind, access } = text;
    let (major, minor) = (device_number::major(device), device_number::minor(device));
    let Range { start, end } = range;
    let mut out = heap::Text(out);
    write!(out, "{prefix}{number}: {kind}{access} {process} {major:02x}:{minor:02x}:{inode} {start} ")
        .map_err(|_| ENOMEM)?;
    let written = if end == u64::MAX { writeln!(out, "EOF") } else { writeln!(out, "{end}") };
    written.map_err(|_| ENOMEM)
}

/// One more line.
struct Line<'a> {
    inode: &'a Inode,
    number: u64,
    out: &'a mut Vec<u8>,
}

impl Line<'_> {
    fn put(&mut self, text: Text, process: i64, range: Range) -> Result {
        self.number = self.number.saturating_add(1);
        let place = (self.inode.device, self.inode.number);
        put_lock(self.out, "lock:\t", self.number, text, process, place, range)
    }

    fn whole(&mut self, lock: &Whole) -> Result {
        self.put(Text::new(FLOCK, lock.exclusive), lock.process.into(), Range::WHOLE)
    }

    fn record(&mut self, lock: &Record) -> Result {
        let of_file = lock.owner.is_open_file();
        let process = if of_file { -1 } else { lock.process.into() };
        let text = Text::new(if of_file { OF_FILE } else { OF_PROCESS }, lock.exclusive);
        self.put(text, process, Range { start: lock.start, end: lock.end })
    }
}

impl FileLocks {
    /// The locks and the lease of an open file of `inode`, and the record locks of a process on it. Gives way, and ends at a signal that kills.
    pub fn tell(&self, inode: &Inode, file: Owner, process: Owner, out: &mut Vec<u8>) -> Result {
        let Some(lists) = self.lists() else { return Ok(()) };
        let held = lists.held.lock();
        let mut line = Line { inode, number: 0, out };
        held.whole.iter().filter(|w| w.holder == file).try_for_each(|lock| line.whole(lock))?;
        for owner in [file, process] {
            let all = Record { owner, process: 0, start: 0, end: u64::MAX, exclusive: false };
            let mut next = held.records.own(&all);
            while let Some(lock) = next {
                if give_way() {
                    return Err(EINTR);
                }
                line.record(&lock)?;
                next = held.records.own_after(&lock, &all);
            }
        }
        match held.leases.shown(file) {
            Some((listed, shown)) => line.put(Text::of_lease(shown), listed.process().into(), Range::WHOLE),
            None => Ok(()),
        }
    }
}
