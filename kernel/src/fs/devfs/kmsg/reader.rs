//! What syslog(2) and /proc/kmsg read: the log as text, in lines.
//!
//! One place in the log is for all who read so (`PLACE`): what one has read, no other gets. SYSLOG_ACTION_READ_ALL begins behind what was cleared and
//! takes nothing away.
//!
//! Lock order: `PLACE` → the log's lock.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::{Mutex, TryVec, lock_class};

use super::changes;
use crate::errno::{EFAULT, Result};
use crate::fs::file::buffer::Output;
use crate::lock_order as level;
use crate::log::kept;
use crate::log::ring::{self, Record};
use crate::sched::give_way;

lock_class! { static READER: LockClass = ("log reader", level::LogReader); }

/// How far has been read.
struct Place {
    seq: u64,
    /// Bytes of that record's lines that were read, where they did not fit.
    partial: usize,
}

static PLACE: Mutex<Place, level::LogReader> = Mutex::new(Place { seq: 0, partial: 0 }, &READER);

impl Place {
    /// Record `found` is the next that is there: those between are gone.
    fn come_to(&mut self, found: &Record) {
        if found.seq != self.seq {
            *self = Place { seq: found.seq, partial: 0 };
        }
    }
}

/// A record's text and its lines, in memory that is used again for the next.
struct Buffers {
    text: Vec<u8>,
    lines: Vec<u8>,
}

impl Buffers {
    fn try_new() -> Result<Buffers> {
        let mut text = Vec::new();
        text.try_resize(ring::MOST, 0)?;
        Ok(Buffers { text, lines: Vec::new() })
    }

    /// The record at `seq` or after it; `lines` are its lines.
    fn read(&mut self, seq: u64) -> Result<Option<Record>> {
        let Some(found) = kept::read(seq, &mut self.text) else { return Ok(None) };
        self.lines.clear();
        found.put_lines(self.text.get(..found.len).unwrap_or(&[]), &mut self.lines)?;
        Ok(Some(found))
    }
}

/// Is there anything to read?
pub fn is_ready() -> bool {
    let seq = PLACE.lock().seq;
    kept::look(seq).is_some()
}

/// SYSLOG_ACTION_READ: waits for a message, and reads as many as fit; of one that does not fit when it is the first, as much as does. Sleeps.
///
/// # Errors
/// ERESTARTSYS, EFAULT, ENOMEM.
#[expect(clippy::arithmetic_side_effects, reason = "within the lines of a record")]
pub fn read(out: &mut Output<'_>) -> Result<usize> {
    let mut buffers = Buffers::try_new()?;
    let mut done = 0;
    while out.left() > 0 && (done == 0 || !give_way()) {
        let piece = {
            let mut place = PLACE.lock();
            match buffers.read(place.seq)? {
                None => None,
                Some(found) => {
                    place.come_to(&found);
                    let (from, len, room) = (place.partial, buffers.lines.len(), out.left());
                    if len - from.min(len) <= room {
                        *place = Place { seq: found.seq + 1, partial: 0 };
                        Some(from..len)
                    } else if done == 0 {
                        place.partial += room;
                        Some(from..from + room)
                    } else {
                        break;
                    }
                }
            }
        };
        let Some(piece) = piece else {
            if done > 0 {
                break;
            }
            let seq = PLACE.lock().seq;
            changes().wait(None, || kept::look(seq).map(|_| ()))?;
            continue;
        };
        out.put(buffers.lines.get(piece.clone()).unwrap_or(&[]));
        if out.faulted() {
            return if done == 0 { Err(EFAULT) } else { Ok(done) };
        }
        done += piece.len();
    }
    Ok(done)
}

/// SYSLOG_ACTION_READ_ALL: the newest messages that fit, all of them whole; `clears`: and they are cleared. Sleeps not, but for the program's memory.
///
/// # Errors
/// EFAULT, ENOMEM.
#[expect(clippy::arithmetic_side_effects, reason = "lengths of records that are kept")]
pub fn read_all(out: &mut Output<'_>, clears: bool) -> Result<usize> {
    let mut buffers = Buffers::try_new()?;
    let end = kept::ends().1;
    let room = out.left();
    let each = |from: u64| {
        let mut seq = from;
        core::iter::from_fn(move || {
            give_way_among(seq);
            let found = kept::look(seq).filter(|found| found.seq < end)?;
            seq = found.seq + 1;
            Some(found)
        })
    };
    let mut len: usize = each(kept::cleared()).map(|found| found.shown_len()).sum();
    let mut seq = kept::cleared();
    for found in each(seq) {
        if len <= room {
            break;
        }
        len = len.saturating_sub(found.shown_len());
        seq = found.seq + 1;
    }
    let mut done = 0;
    // What is said meanwhile is not waited for: somebody may go on without end.
    while let Some(found) = buffers.read(seq)?.filter(|found| found.seq < end) {
        give_way_among(seq);
        if done + buffers.lines.len() > room {
            break;
        }
        out.put(&buffers.lines);
        if out.faulted() {
            return Err(EFAULT);
        }
        done += buffers.lines.len();
        seq = found.seq + 1;
    }
    if clears {
        kept::clear(seq);
    }
    Ok(done)
}

/// Lets others run now and then on the way through all records.
fn give_way_among(seq: u64) {
    if seq.is_multiple_of(128) {
        let _ = give_way();
    }
}

/// SYSLOG_ACTION_CLEAR.
pub fn clear() {
    kept::clear(kept::ends().1);
}

/// SYSLOG_ACTION_SIZE_UNREAD: bytes that `read` would give.
#[expect(clippy::arithmetic_side_effects, reason = "lengths of records that are kept")]
pub fn unread() -> usize {
    let (mut seq, partial) = {
        let mut place = PLACE.lock();
        let Some(found) = kept::look(place.seq) else { return 0 };
        place.come_to(&found);
        (place.seq, place.partial)
    };
    let (end, mut len) = (kept::ends().1, 0);
    while let Some(found) = kept::look(seq).filter(|found| found.seq < end) {
        len += found.shown_len();
        seq = found.seq + 1;
        give_way_among(seq);
    }
    len.saturating_sub(partial)
}
