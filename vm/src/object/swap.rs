//! An object as the cache of a swap area (`vm::swap`): its pages are private pages of programs on their way out, or read for who wants them back.
//!
//! Nobody maps such an object, so no leaf is ever visited for its pages: a page is taken away by whoever empties its slot. Who reads a slot within an RCU section uses the page as long as that lasts.
//! A page that goes out is dirty until the device has it.
//!
//! Lock order: `change`, where written pages are given up: a read that began before does not put its page in afterwards (protocol/swap.rs).
//!
//! A low room: it says when nobody maps a page any more.

use super::slots::run_len;
use super::{Object, count};
use crate::error::VmError;
use crate::frame::{EvictedFrames, FrameKind, OwnedFrame, Pin};
use crate::protocol::swap as protocol;
use arrayvec::ArrayVec;
use core::sync::atomic::Ordering::Relaxed;
use sync::machine::give_way;

/// Pages that go out together: their slots are taken, written and given up.
pub const AT_ONCE: usize = 16;

impl Object {
    /// Makes places for the first `pages` pages. May sleep.
    pub(crate) fn make_places(&self, pages: u64) -> Result<(), VmError> {
        let mut page = 0;
        while page < pages {
            self.slots.make(page, &|| Ok(())).map(drop)?;
            page = page.saturating_add(run_len(page) as u64);
            if give_way() {
                return Err(VmError::Interrupted);
            }
        }
        Ok(())
    }

    /// Puts the page of a slot in that the caller has just taken: dirty, and instead of what was read too late.
    pub(crate) fn put_over(&self, page: u64, frame: OwnedFrame) {
        let Some(slot) = self.slots.get(page) else {
            debug_assert!(false, "no place was made for a page that goes to swap");
            return;
        };
        frame.set_kind(FrameKind::Object);
        protocol::fill(frame, |frame| slot.put_dirty(frame), || self.drop_page(page));
        self.resident.fetch_add(1, Relaxed);
        count::entered(true, 1);
    }

    /// Nobody wants the page any more, written or not. Takes no lock.
    pub(crate) fn drop_page(&self, page: u64) {
        let mut gone = EvictedFrames::new();
        // It may be tagged already, by who gives pages back. Who takes the frame counts it.
        let _was_dirty = self.slots.get(page).and_then(|slot| slot.tag(true));
        self.take_tagged(page, &mut gone);
    }

    /// Takes a tagged page out.
    fn take_tagged(&self, page: u64, gone: &mut EvictedFrames) {
        // SAFETY: the caller's object is a swap area's cache, which no leaf maps.
        if let Some(frame) = self.slots.get(page).and_then(|slot| unsafe { slot.take_tagged() }) {
            gone.add(frame);
            self.resident.fetch_sub(1, Relaxed);
            count::left(true, 1);
        }
    }

    /// Gives those of `pages`, in ascending order and at most [`AT_ONCE`], that are dirty to `write`, as many as follow each other at once, and takes those away that are clean then. Says how many were
    /// written, and how many could not be: these are dirty as before. The caller sees to it that nobody drops one of them. May sleep.
    pub(crate) fn write_out(
        &self,
        pages: &[u64],
        write: impl Fn(u64, &[Pin]) -> Result<(), VmError>,
    ) -> (u64, u64) {
        let (mut written, mut failed) = (0u64, 0u64);
        for run in pages.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
            let mut rest = run;
            while let Some(first) = rest.first() {
                let begun = rest.iter().map_while(|page| self.slots.get(*page)?.begin_clean());
                let (frames, pins): (ArrayVec<_, AT_ONCE>, ArrayVec<Pin, AT_ONCE>) =
                    begun.take(AT_ONCE).unzip();
                let (done, later) = rest.split_at_checked(pins.len().max(1)).unwrap_or((rest, &[]));
                if !pins.is_empty() {
                    let again = write(*first, &pins).is_err();
                    for (page, frame) in done.iter().zip(frames) {
                        self.slots.get(*page).map(|slot| slot.marks().end_clean(frame, again));
                    }
                    let count = if again { &mut failed } else { &mut written };
                    *count = count.saturating_add(pins.len() as u64);
                }
                rest = later;
            }
        }
        self.give_up(pages);
        (written, failed)
    }

    /// Takes those of `pages` away that are clean.
    fn give_up(&self, pages: &[u64]) {
        let mut gone = EvictedFrames::new();
        let _change = self.change.lock();
        self.note_replaced();
        for page in pages {
            if self.slots.get(*page).is_some_and(|slot| slot.tag(false).is_some()) {
                self.take_tagged(*page, &mut gone);
            }
        }
    }
}
