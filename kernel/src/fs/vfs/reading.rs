//! Pages of a file that are being read from elsewhere: who misses one that another reads already waits for that, killably, and looks again.
//!
//! A pager asks here first (`vm::Pager`). A read is cut off where another's begins. Of reads that find no place in the list each goes its own way: then
//! a page may be read twice.
//!
//! Lock order: the list's lock is under that of no spinning lock; it is looked at in a wait's condition.
#![forbid(unsafe_code)]

use crate::lock_order as level;
use crate::sched::{Sleep, WaitQueue, Woken};
use arrayvec::ArrayVec;
use core::ops::Range;
use sync::{SpinLock, lock_class};

lock_class! { static READING: LockClass = ("pages being read", level::PagesRead); }

/// Reads of one file that are known at once.
const MOST: usize = 8;

/// The reads of one file that are under way.
pub struct Reads {
    pages: SpinLock<ArrayVec<Range<u64>, MOST>, level::PagesRead>,
    ended: WaitQueue,
}

/// A read, until this is dropped.
pub struct Read<'a> {
    reads: &'a Reads,
    /// Empty: it found no place.
    pages: Range<u64>,
    /// How many pages to read.
    pub count: usize,
}

impl Reads {
    pub const fn new() -> Self {
        Self { pages: SpinLock::new(ArrayVec::new_const(), &READING), ended: WaitQueue::new() }
    }

    /// The caller is to read page `first`, and up to `count` pages from there on. None: another was reading that page, and has ended. May sleep.
    ///
    /// # Errors
    /// A fatal signal has come.
    pub fn begin(&self, first: u64, count: usize) -> Result<Option<Read<'_>>, Woken> {
        if let Some(read) = self.try_begin(first, count) {
            return Ok(Some(read));
        }
        let ended = || (!self.pages.lock().iter().any(|pages| pages.contains(&first))).then_some(());
        self.ended.wait_shared(Sleep::Killable, None, ended).map(|()| None)
    }

    /// None: another reads the page.
    fn try_begin(&self, first: u64, count: usize) -> Option<Read<'_>> {
        let mut pages = self.pages.lock();
        if pages.iter().any(|pages| pages.contains(&first)) {
            return None;
        }
        let end = first.saturating_add(count as u64);
        let end = pages
            .iter()
            .map(|pages| pages.start)
            .filter(|start| *start > first)
            .min()
            .map_or(end, |next| next.min(end));
        let count = usize::try_from(end.saturating_sub(first)).unwrap_or(count);
        let found = pages.try_push(first..end).is_ok();
        Some(Read { reads: self, pages: if found { first..end } else { 0..0 }, count })
    }
}

impl Drop for Read<'_> {
    fn drop(&mut self) {
        if self.pages.is_empty() {
            return;
        }
        let mut pages = self.reads.pages.lock();
        if let Some(at) = pages.iter().position(|pages| *pages == self.pages) {
            pages.swap_remove(at);
        }
        drop(pages);
        self.reads.ended.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Reads};
    use crate::testing::{in_process, is_asleep, thread, until};
    use alloc::sync::Arc;
    use std::vec::Vec;

    #[test]
    fn a_read_ends_where_another_begins() {
        let reads = Reads::new();
        let counts = |first, count| reads.try_begin(first, count).map(|read| read.count);
        let first = reads.try_begin(100, 8).unwrap();
        assert_eq!(first.count, 8);
        assert_eq!(
            (counts(98, 8), counts(99, 1), counts(107, 8), counts(108, 8)),
            (Some(2), Some(1), None, Some(8))
        );
        let second = reads.try_begin(96, 128);
        assert_eq!((counts(90, 100), counts(104, 1)), (Some(6), None));
        drop((first, second));
        assert_eq!(counts(104, 1), Some(1));
    }

    #[test]
    fn without_a_place_each_reads_for_itself() {
        let reads = Reads::new();
        let all: Vec<_> = (0..MOST as u64).map(|n| reads.try_begin(n * 10, 5).unwrap()).collect();
        let [one, other] = [0; 2].map(|_| reads.try_begin(1000, 5).unwrap());
        assert_eq!((one.count, other.count), (5, 5));
        drop((one, other));
        assert!(reads.try_begin(3, 1).is_none());
        drop(all);
        assert!(reads.try_begin(3, 1).is_some());
    }

    #[test]
    fn who_misses_a_page_that_is_read_waits() {
        in_process(|| {
            let reads = Arc::new(Reads::new());
            let read = reads.begin(5, 4).unwrap().unwrap();
            let waiters: Vec<_> = (5..9)
                .map(|page| {
                    let reads = reads.clone();
                    thread(move || reads.begin(page, 4).unwrap().is_none())
                })
                .collect();
            waiters.iter().for_each(|waiter| until(|| is_asleep(waiter.tid)));
            assert!(reads.begin(9, 1).unwrap().is_some(), "nobody reads that");
            drop(read);
            assert!(waiters.into_iter().all(crate::testing::Joining::join));
        });
    }
}
