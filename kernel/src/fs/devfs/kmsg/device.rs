//! /dev/kmsg: each read gives the next record, each write makes one.
//!
//! Each open file has a place of its own in the log. Locks: none but the log's.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use sync::{TryVec, try_box, try_vec};

use super::{Taken, changes, check, takes};
use crate::arch;
use crate::errno::{EAGAIN, EFAULT, EINVAL, EPERM, EPIPE, ESPIPE, Result};
use crate::fs::caller;
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::poll::{self, Poller};
use crate::fs::file::{File, FileOps, OpenFlags, Order};
use crate::log::{self, kept, ring, text};

/// An open /dev/kmsg.
struct Device {
    /// The record that is read next.
    at: AtomicU64,
    rate: Rate,
}

/// # Errors
/// EPERM: it would be read by who may not, or messages of programs are not taken.
pub fn open(flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    if takes().1 == Taken::None {
        return Err(EPERM);
    }
    if flags.reads() || !flags.writes() {
        check(true)?;
    }
    Ok(try_box(Device { at: AtomicU64::new(kept::ends().0), rate: Rate::default() })?)
}

/// How many messages come through an open file: Linux's ratelimit.
#[derive(Default)]
struct Rate {
    /// When the time began in which they are counted; 0: not yet.
    since: AtomicU64,
    taken: AtomicU32,
    left_out: AtomicU32,
}

impl Rate {
    const INTERVAL: u64 = 5_000_000_000;
    const MOST: u32 = 10;

    /// Is one more taken at `now`? Two at once may both be the last one.
    fn takes(&self, now: u64) -> bool {
        let since = self.since.load(Relaxed);
        if since == 0 || now.saturating_sub(since) > Self::INTERVAL {
            self.since.store(now.max(1), Relaxed);
            self.taken.store(0, Relaxed);
        }
        let takes = self.taken.load(Relaxed) < Self::MOST;
        let count = if takes { &self.taken } else { &self.left_out };
        count.fetch_add(1, Relaxed);
        takes
    }
}

/// Prints a program's message on the console, if its level says so.
fn print(level: u8, text: &[u8]) -> Result {
    if !log::enabled(level) {
        return Ok(());
    }
    let mut line = Vec::new();
    for part in text.split(|byte| *byte == b'\n') {
        line.try_extend_from_slice(part)?;
        line.try_extend_from_slice(b"\r\n")?;
    }
    log::write(&line);
    Ok(())
}

impl FileOps for Device {
    /// # Errors
    /// EPIPE: records were pushed out before they were read; the oldest comes next. EINVAL: the record does not fit, and is passed over. EAGAIN.
    #[expect(clippy::arithmetic_side_effects, reason = "record numbers do not overflow")]
    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        let mut bytes = [Vec::new(), Vec::new()];
        let [text, line] = &mut bytes;
        text.try_resize(ring::MOST, 0)?;
        let found = loop {
            let at = self.at.load(Relaxed);
            let found = match kept::read(at, text) {
                Some(found) => found,
                None if file.nonblocking() => return Err(EAGAIN),
                None => {
                    changes().wait(None, || kept::look(at).map(|_| ()))?;
                    continue;
                }
            };
            // Of two who read at once one has the record.
            let lost = found.seq != at;
            let next = if lost { found.seq } else { at + 1 };
            if self.at.compare_exchange(at, next, Relaxed, Relaxed).is_ok() {
                if lost {
                    return Err(EPIPE);
                }
                break found;
            }
        };
        found.put_record(text.get(..found.len).unwrap_or(&[]), line)?;
        if line.len() > out.next_segment() {
            return Err(EINVAL);
        }
        out.put(line);
        if out.faulted() { Err(EFAULT) } else { Ok(line.len()) }
    }

    /// # Errors
    /// EINVAL: more than a record has room for.
    fn write(&self, _: &File, _: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        let len = from.left();
        if len > ring::MOST {
            return Err(EINVAL);
        }
        let takes = match takes().1 {
            Taken::All => true,
            Taken::None => false,
            Taken::Some => self.rate.takes(arch::time::now()),
        };
        if !takes {
            return Ok(from.skip());
        }
        let mut bytes = try_vec(len)?;
        bytes.try_resize(len, 0)?;
        if from.take(&mut bytes) < len {
            return Err(EFAULT);
        }
        let (facility, level, text) = text::parse(&bytes, log::message_level());
        kept::keep(facility, level, text);
        print(level, text)?;
        Ok(len)
    }

    fn release(&self, _: &File) {
        let left_out = self.rate.left_out.load(Relaxed);
        if left_out > 0 {
            let (name, len) = caller::current().comm();
            let name = core::str::from_utf8(name.get(..len).unwrap_or(&[])).unwrap_or("?");
            crate::warn!("printk: {name}: {left_out} output lines suppressed due to ratelimiting");
        }
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(changes());
        let at = self.at.load(Relaxed);
        match kept::look(at) {
            None => 0,
            Some(found) if found.seq == at => poll::IN | poll::RDNORM,
            Some(_) => poll::IN | poll::RDNORM | poll::ERR | poll::PRI,
        }
    }

    fn seeks(&self) -> bool {
        true
    }

    fn moves(&self) -> bool {
        false
    }

    /// To the oldest record, past the newest one, or to the first that was not cleared (SEEK_DATA).
    fn seek(&self, _: &File, offset: i64, whence: u32, _: u64) -> Result<u64> {
        if offset != 0 {
            return Err(ESPIPE);
        }
        let (first, next) = kept::ends();
        let to = match whence {
            0 => first,
            2 => next,
            3 => kept::cleared(),
            _ => return Err(EINVAL),
        };
        self.at.store(to, Relaxed);
        Ok(0)
    }

    fn splices(&self) -> bool {
        false
    }

    fn takes_spliced(&self) -> bool {
        false
    }

    fn takes_flags(&self, writing: bool) -> bool {
        writing
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_messages_are_taken_in_five_seconds_and_the_others_counted() {
        let (rate, second) = (Rate::default(), 1_000_000_000);
        let taken = |now| (0..15).filter(|_| rate.takes(now)).count();
        assert_eq!((taken(second), taken(4 * second), taken(6 * second)), (10, 0, 0));
        assert_eq!(rate.left_out.load(Relaxed), 35);
        assert_eq!(taken(7 * second), 10);
    }
}
