//! What is shown of a lock, and the line that says it (/proc/locks, the `lock:` lines of /proc/PID/fdinfo; proc_locks(5)).
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap;

use super::Whole;
use super::listed::Place;
use super::records::{Owner, Record};
use crate::errno::{ENOMEM, Result};
use crate::fs::vfs::device_number;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Whole,
    Record,
    Lease {
        /// Somebody wants it to end, or to be weaker.
        breaking: bool,
    },
    /// Who wants that. It has no place.
    Breaker,
}

/// What is shown of a lock, or of who waits for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    what: What,
    /// Or shared; none: it is to end.
    exclusive: Option<bool>,
    owner: Owner,
    /// Who asked for it.
    process: u32,
    start: u64,
    /// The last byte.
    end: u64,
}

impl Shown {
    pub const NOTHING: Shown = Shown {
        what: What::Whole,
        exclusive: None,
        owner: Owner::NOBODY,
        process: 0,
        start: 0,
        end: u64::MAX,
    };

    pub(super) fn of_whole(owner: Owner, process: u32, exclusive: bool) -> Shown {
        Shown { owner, process, exclusive: Some(exclusive), ..Shown::NOTHING }
    }

    pub(super) fn of_record(record: &Record) -> Shown {
        let &Record { owner, process, start, end, exclusive, .. } = record;
        Shown { what: What::Record, exclusive: Some(exclusive), owner, process, start, end }
    }

    /// `target`: what the lease is, or is to become.
    pub(super) fn of_lease(process: u32, target: Option<bool>, breaking: bool) -> Shown {
        Shown { what: What::Lease { breaking }, exclusive: target, process, ..Shown::NOTHING }
    }

    pub(super) fn of_breaker(process: u32, writing: bool) -> Shown {
        Shown { what: What::Breaker, exclusive: Some(writing), process, ..Shown::NOTHING }
    }

    /// Does one who waits have to wait for the other?
    pub(super) fn conflicts(&self, other: &Shown) -> bool {
        let exclusive = self.exclusive == Some(true) || other.exclusive == Some(true);
        let overlaps = self.start <= other.end && other.start <= self.end;
        exclusive && overlaps && (self.what == What::Breaker || self.owner != other.owner)
    }

    fn columns(&self) -> &'static str {
        match self.what {
            What::Whole => "FLOCK  ADVISORY  ",
            What::Record if self.owner.is_open_file() => "OFDLCK ADVISORY  ",
            What::Record => "POSIX  ADVISORY  ",
            What::Lease { breaking: false } => "LEASE  ACTIVE    ",
            What::Lease { breaking: true } => "LEASE  BREAKING  ",
            What::Breaker => "LEASE  BREAKER   ",
        }
    }

    /// Appends its line, the `number`th, of a lock on the inode there. `depth`: how many wait before it for the lock, itself among them; 0: it is the lock.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn put(
        &self,
        out: &mut Vec<u8>,
        prefix: &str,
        number: u64,
        depth: usize,
        place: Place,
    ) -> Result {
        let access = match self.exclusive {
            Some(true) => "WRITE",
            Some(false) => "READ",
            None => "UNLCK",
        };
        // No process has an open file's.
        let of_file = self.what == What::Record && self.owner.is_open_file();
        let process = if of_file { -1 } else { i64::from(self.process) };
        let (arrow, width) = if depth > 0 { ("-> ", depth.saturating_add(2)) } else { ("", 0) };
        let columns = self.columns();
        let mut out = heap::Text(out);
        write!(out, "{prefix}{number}: {arrow:>width$}{columns}{access} {process} ").map_err(|_| ENOMEM)?;
        let (device, inode) = place;
        let written = if self.what == What::Breaker {
            write!(out, "<none>:0 ")
        } else {
            let (major, minor) = (device_number::major(device), device_number::minor(device));
            write!(out, "{major:02x}:{minor:02x}:{inode} ")
        };
        written.map_err(|_| ENOMEM)?;
        let (start, end) = (self.start, self.end);
        let written =
            if end == u64::MAX { writeln!(out, "{start} EOF") } else { writeln!(out, "{start} {end}") };
        written.map_err(|_| ENOMEM)
    }
}

impl Whole {
    pub(super) fn shown(&self) -> Shown {
        Shown::of_whole(self.holder, self.process, self.exclusive)
    }
}
