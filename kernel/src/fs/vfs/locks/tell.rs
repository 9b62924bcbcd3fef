//! The lines by which /proc/PID/fdinfo tells of locks.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;

use super::records::{Owner, Record};
use super::{FileLocks, Whole};
use crate::errno::{EINTR, ENOMEM, Result};
use crate::fs::vfs::device_number;
use crate::fs::vfs::inode::Inode;
use crate::sched::give_way;

/// One more line.
struct Line<'a> {
    inode: &'a Inode,
    number: u64,
    out: &'a mut Vec<u8>,
}

impl Line<'_> {
    fn put(&mut self, kind: &str, exclusive: bool, process: i64, start: u64, end: u64) -> Result {
        self.number = self.number.saturating_add(1);
        let access = if exclusive { "WRITE" } else { "READ" };
        let (number, device) = (self.number, self.inode.device);
        let (major, minor) = (device_number::major(device), device_number::minor(device));
        let mut out = Text(self.out);
        let inode = self.inode.number;
        write!(
            out,
            "lock:\t{number}: {kind} ADVISORY  {access} {process} {major:02x}:{minor:02x}:{inode} {start} "
        )
        .map_err(|_| ENOMEM)?;
        let written = if end == u64::MAX { writeln!(out, "EOF") } else { writeln!(out, "{end}") };
        written.map_err(|_| ENOMEM)
    }

    fn whole(&mut self, lock: &Whole) -> Result {
        self.put("FLOCK ", lock.exclusive, lock.process.into(), 0, u64::MAX)
    }

    fn record(&mut self, lock: &Record) -> Result {
        let of_file = lock.owner.is_open_file();
        let process = if of_file { -1 } else { lock.process.into() };
        self.put(if of_file { "OFDLCK" } else { "POSIX " }, lock.exclusive, process, lock.start, lock.end)
    }
}

impl FileLocks {
    /// The locks of an open file of `inode`, and the record locks of a process on it. Gives way, and ends at a signal that kills.
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
        Ok(())
    }
}
