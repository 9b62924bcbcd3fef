//! What this client has written of a file and the server has not got: whether there is any, whose turn it is to send it, and what went wrong.
//!
//! **Turns**: pages are sent, and the file's size is set, by one at a time; who waits is killable. So no message with old bytes comes after one that cuts them off.
//!
//! **Errors** of pages that were sent later than they were written (write-back) are told to each open file once: it notes which it has seen ([`Errors`], as Linux's errseq_t).
//! One that nobody has been told is told to who opens the file next.
//!
//! No locks. Lock order: a turn comes after the inode's lock of writes; with it the server is asked, and what is known of the file is locked.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::errno::{EINTR, Errno, Result};
use crate::fs::vfs::clock;
use crate::sched::{Sleep, WaitQueue};

/// Of one file.
pub struct Unwritten {
    /// Pages of it may be dirty.
    dirty: AtomicBool,
    /// Since when, nanoseconds since boot.
    since: AtomicU64,
    /// Writes into the cache that are under way.
    writers: AtomicU32,
    turn: AtomicBool,
    ended: WaitQueue,
    pub errors: Errors,
}

/// The right to send pages, or to set the size.
#[must_use]
pub struct Turn<'a>(&'a Unwritten);

/// A write into the cache, until it is dropped.
pub struct Writing<'a>(&'a Unwritten);

impl Unwritten {
    pub const fn new() -> Unwritten {
        Unwritten {
            dirty: AtomicBool::new(false),
            since: AtomicU64::new(0),
            writers: AtomicU32::new(0),
            turn: AtomicBool::new(false),
            ended: WaitQueue::new(),
            errors: Errors(AtomicU64::new(0)),
        }
    }

    /// Has the file anything that the server has not, or is about to have? Then what the server says of its contents is old.
    pub fn is_any(&self) -> bool {
        self.dirty.load(SeqCst) || self.writers.load(SeqCst) > 0
    }

    /// May pages be dirty?
    pub fn is_dirty(&self) -> bool {
        self.dirty.load(SeqCst)
    }

    /// When a page was made dirty first that may be so still, nanoseconds since boot.
    pub fn since(&self) -> u64 {
        self.since.load(SeqCst)
    }

    /// Pages may be dirty from here on.
    pub fn begin(&self) {
        if !self.dirty.swap(true, SeqCst) {
            self.since.store(clock::since_boot(), SeqCst);
        }
    }

    /// No page is dirty any more, if `is_settled` says so afterwards (`vm::Object::is_settled`).
    pub fn settle(&self, is_settled: impl FnOnce() -> bool) {
        self.dirty.store(false, SeqCst);
        if !is_settled() {
            self.begin();
        }
    }

    /// The caller holds what is known of the file: no answer of before is being taken over.
    pub fn write(&self) -> Writing<'_> {
        self.writers.fetch_add(1, SeqCst);
        Writing(self)
    }

    /// Waits for one's turn. May sleep, killably.
    ///
    /// # Errors
    /// EINTR.
    pub fn turn(&self) -> Result<Turn<'_>> {
        let take = || (!self.turn.swap(true, SeqCst)).then_some(());
        self.ended.wait_shared(Sleep::Killable, None, take).map_err(|_| EINTR)?;
        Ok(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turn.store(false, SeqCst);
        self.0.ended.wake_all();
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, SeqCst);
    }
}

/// The last error: its number, whether somebody was told, and how many there were before.
pub struct Errors(AtomicU64);

/// The errors that an open file has seen.
pub struct SeenErrors(AtomicU64);

const TOLD: u64 = 1 << 12;
const NUMBER: u64 = TOLD - 1;
const ONE: u64 = 1 << 13;

impl Errors {
    pub fn note(&self, error: Errno) {
        let new = |now: u64| {
            Some((now & !(NUMBER | TOLD)).wrapping_add(ONE) | error.0.unsigned_abs() as u64 & NUMBER)
        };
        let _always = self.0.fetch_update(SeqCst, SeqCst, new);
    }

    /// A file is opened: it has seen what was told.
    pub fn sample(&self) -> SeenErrors {
        let now = self.0.load(SeqCst);
        SeenErrors(AtomicU64::new(if now & TOLD != 0 { now } else { 0 }))
    }

    /// The last one, whoever was told.
    pub fn last(&self) -> Option<Errno> {
        let number = self.0.load(SeqCst) & NUMBER;
        i32::try_from(number).ok().filter(|number| *number != 0).map(Errno)
    }

    /// # Errors
    /// The last one, if this open file was not told of it.
    pub fn tell(&self, seen: &SeenErrors) -> Result {
        let now = self.0.load(SeqCst);
        if now & NUMBER == 0 || now | TOLD == seen.0.load(SeqCst) {
            return Ok(());
        }
        // Where it is another by now that one is told next time.
        let _ = self.0.compare_exchange(now, now | TOLD, SeqCst, SeqCst);
        seen.0.store(now | TOLD, SeqCst);
        Err(Errno((now & NUMBER) as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::{EIO, ENOSPC};

    #[test]
    fn each_open_file_is_told_once() {
        let errors = Errors(AtomicU64::new(0));
        let [one, other] = [errors.sample(), errors.sample()];
        assert_eq!((errors.tell(&one), errors.last()), (Ok(()), None));
        errors.note(EIO);
        let late = errors.sample();
        assert_eq!((errors.tell(&one), errors.tell(&one)), (Err(EIO), Ok(())));
        let later = errors.sample();
        assert_eq!((errors.tell(&late), errors.tell(&later)), (Err(EIO), Ok(())));
        errors.note(ENOSPC);
        errors.note(ENOSPC);
        assert_eq!((errors.tell(&one), errors.tell(&one)), (Err(ENOSPC), Ok(())));
        assert_eq!((errors.tell(&other), errors.tell(&other)), (Err(ENOSPC), Ok(())));
        // The same error once more is another.
        errors.note(ENOSPC);
        assert_eq!((errors.tell(&one), errors.last()), (Err(ENOSPC), Some(ENOSPC)));
    }
}
