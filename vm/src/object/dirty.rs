//! Pages that were written and that the object's pager has not got: which they are, and how they are given to it.
//!
//! An object is *tracked* if its pager takes writes. Its pages are mapped without the right to write; who wants to write one has it marked dirty first, with no lock held, and gets
//! the right under the leaf's lock while the mark is there. Who copies bytes into a page (write(2)) holds it meanwhile. Cleaning clears the marks, takes the right to write away from
//! all who map the pages, and then gives the bytes to the pager; a page that is written again meanwhile is dirty again. The marks are bits of the page's slot, so who writes pages writes
//! their lines and no other. The order, and why no write is missed, is in protocol/evict.rs.
//!
//! How many pages are dirty the pager counts, which may have those who would make more wait.
//!
//! **Told once**: the first page that gets dirty has the pager told (`Pager::begin_dirty`), which then sees to it that all are written; `begun` says that it was. Who finds nothing dirty clears
//! `begun` and looks once more ([`Object::is_settled`]); who marks a page looks at `begun` afterwards. One of the two sees the other.
//!
//! Lock order: as truncate.rs. The caller sees to it that an object is written, truncated and cleaned by one thread each at a time, as far as their functions say.
#![forbid(unsafe_code)]

use super::pager::{MOST, Paging};
use super::slots::{Held as HeldPage, MAX_PAGES, Slot};
use super::{Object, Pages, Source, count};
use crate::addr::{ENTRIES, PAGE_SHIFT, PAGE_SIZE, PhysAddr};
use crate::error::{FaultError, VmError};
use crate::frame::{self, FrameKind, OwnedFrame, Pin};
use crate::machine::FlushRange;
use crate::node::Node;
use crate::node::flush::SharersFlushed;
use crate::object::rmap::{Reached, ReverseOps};
use crate::order::{Object as ObjectLevel, ReverseMap as ReverseMapLevel};
use crate::protocol::evict;
use arrayvec::ArrayVec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use sync::level::Held;
use sync::machine::give_way;
use sync::rcu::{self, RcuRead};

/// Pages that are given to the pager at once.
struct Run {
    first: u64,
    frames: ArrayVec<PhysAddr, { MOST as usize }>,
    pins: ArrayVec<Pin, { MOST as usize }>,
}

impl Object {
    /// Does its pager take what is written to its pages? Always the same answer.
    #[inline]
    pub fn is_tracked(&self) -> bool {
        self.paging.as_deref().is_some_and(|paging| paging.is_tracked)
    }

    fn tracked(&self) -> Option<&Paging> {
        self.paging.as_deref().filter(|paging| paging.is_tracked)
    }

    /// Is `frame` that of `page`, and dirty? Asked with the leaf `_locked` whose entry shows it.
    #[inline]
    pub(crate) fn is_dirty_for<L>(&self, page: u64, frame: PhysAddr, locked: &L) -> bool {
        self.slots.get(page).is_some_and(|slot| slot.marks().is_dirty(frame, locked))
    }

    /// `n` dirty pages are clean, or gone.
    pub(super) fn count_clean(&self, n: u64) {
        if n > 0
            && let Some(paging) = self.tracked()
        {
            paging.pager.count_clean(n);
        }
    }

    /// The pager is to be told before a page is dirty.
    fn begin_dirty(paging: &Paging) -> Result<(), VmError> {
        if !paging.begun.load(SeqCst) {
            paging.pager.begin_dirty()?;
            paging.begun.store(true, SeqCst);
        }
        Ok(())
    }

    /// A page has been made dirty, or was all the time: `is_new` says whether it is to be counted, which it was beforehand.
    fn made_dirty(paging: &Paging, is_new: bool) -> Result<(), VmError> {
        if !is_new {
            paging.pager.count_clean(1);
        }
        // `begun` may have been cleared just before the mark was there.
        Self::begin_dirty(paging)
    }

    /// Marks `page` dirty, for a fault that wants to write it and comes again then. May sleep.
    pub(crate) fn make_dirty(&self, page: u64) -> Result<(), FaultError> {
        let Some(paging) = self.tracked() else { return Ok(()) };
        let failed = |error| match error {
            VmError::NoMemory => FaultError::NoMemory,
            _ => FaultError::Bus,
        };
        if page >= self.pages() {
            return Err(FaultError::Bus);
        }
        Self::begin_dirty(paging).map_err(failed)?;
        paging.pager.count_dirty(1).map_err(failed)?;
        match self.slots.get(page).and_then(|slot| slot.marks().make_dirty()) {
            Some(is_new) => Self::made_dirty(paging, is_new).map_err(failed),
            None => {
                paging.pager.count_clean(1);
                // Waits for who takes it away.
                self.fill(page)
            }
        }
    }

    /// As [`Self::write_from`], of a tracked object: pages are read first that are written in part, and are dirty when this returns. The caller keeps others from writing the object
    /// and from changing its size meanwhile. May sleep.
    ///
    /// # Errors
    /// Those of the pager, if nothing was written.
    #[expect(clippy::arithmetic_side_effects, reason = "the range was found to end at the largest file size")]
    pub fn write_tracked(&self, offset: u64, len: usize, from: &mut impl Source) -> Result<usize, VmError> {
        let Some(paging) = self.tracked() else { return Err(VmError::Invalid) };
        if offset.checked_add(len as u64).is_none_or(|end| end > MAX_PAGES << PAGE_SHIFT) {
            return Err(VmError::Overflow);
        }
        self.clear_tail(self.size(), offset);
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let start = at as usize % PAGE_SIZE;
            let n = (len - done).min(PAGE_SIZE - start);
            let filled = match self.write_page(paging, at, start..start + n, from) {
                Ok(filled) => filled,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            };
            done += filled;
            if filled < n || give_way() {
                break;
            }
        }
        Ok(done)
    }

    /// Writes `part` of the page of byte `at`, and has the object reach as far; says how many bytes. The object has grown before the page is dirty: who gives the page to the pager as far as
    /// an end of before finds it dirty once more.
    fn write_page(
        &self,
        paging: &Paging,
        at: u64,
        part: Range<usize>,
        from: &mut impl Source,
    ) -> Result<usize, VmError> {
        let page = at >> PAGE_SHIFT;
        // Nothing of the page is there but what is written now.
        let is_new = page >= self.pages();
        let ends = at.saturating_add(part.len() as u64);
        let is_whole = is_new || part.start == 0 && (part.end == PAGE_SIZE || ends >= self.size());
        loop {
            let slot = self.slots.make(page, &|| Ok(()))?;
            if let Some(held) = slot.hold() {
                return self.fill_held(paging, held, at, part, from);
            }
            if slot.frame().is_some() || slot.tagged().is_some() {
                // Another writes it against the rule, or takes it away with this held.
                drop(self.change.lock());
                if give_way() {
                    return Err(VmError::Interrupted);
                }
                continue;
            }
            if !is_whole {
                self.bring_in(page)?;
                continue;
            }
            if frame::is_scarce() {
                super::pager::make_room(1);
            }
            let mut new = frame::alloc_zeroed().ok_or(VmError::NoMemory)?;
            let filled = {
                let bytes = &mut new.bytes()[..];
                bytes.get_mut(part.clone()).map_or(0, |bytes| from.take(bytes.into())).min(part.len())
            };
            from.rest();
            if filled == 0 {
                return Ok(0);
            }
            Self::begin_dirty(paging)?;
            paging.pager.count_dirty(1)?;
            if is_new || filled == part.len() {
                new.set_kind(FrameKind::Object);
                match self.put_grown(slot, new, at.saturating_add(filled as u64)) {
                    Ok(()) => {
                        self.resident.fetch_add(1, Relaxed);
                        count::entered(true, 1);
                        Self::made_dirty(paging, true)?;
                        return Ok(filled);
                    }
                    Err(back) => new = back,
                }
            }
            // Less came than was promised, or another has read the page meanwhile: the bytes go into it.
            let part = part.start..part.start.saturating_add(filled);
            let copied = self.copy_in(paging, slot, at, part, new.bytes());
            if copied.is_err() {
                paging.pager.count_clean(1);
            }
            return copied;
        }
    }

    /// Puts a page in, dirty, of an object that reaches to `end` with it. Nobody can hold the page before it is there, so none that cleans comes between.
    fn put_grown(&self, slot: &Slot, new: OwnedFrame, end: u64) -> Result<(), OwnedFrame> {
        if end <= self.size() {
            return slot.put_dirty(new);
        }
        let _change = self.change.lock();
        slot.put_dirty(new)?;
        self.size.fetch_max(end, SeqCst);
        Ok(())
    }

    /// Writes bytes that were fetched already, `part` of `bytes`, into the page of byte `at`. It is counted as dirty.
    fn copy_in(
        &self,
        paging: &Paging,
        slot: &Slot,
        at: u64,
        part: Range<usize>,
        bytes: &[u8; PAGE_SIZE],
    ) -> Result<usize, VmError> {
        loop {
            if let Some(mut held) = slot.hold() {
                let from = bytes.get(part.clone()).unwrap_or_default();
                if let Some(mut to) = held.pin.bytes_mut().get_mut(part.clone()) {
                    to.copy_from(from.into());
                }
                self.grow_to(at.saturating_add(part.len() as u64));
                let is_new = held.end_dirty();
                Self::made_dirty(paging, is_new)?;
                return Ok(part.len());
            }
            self.bring_in(at >> PAGE_SHIFT)?;
            if give_way() {
                return Err(VmError::Interrupted);
            }
        }
    }

    /// Has `from` fill `part` of a page that is held, that of byte `at`.
    fn fill_held(
        &self,
        paging: &Paging,
        mut held: HeldPage<'_>,
        at: u64,
        part: Range<usize>,
        from: &mut impl Source,
    ) -> Result<usize, VmError> {
        Self::begin_dirty(paging)?;
        paging.pager.count_dirty(1)?;
        let len = part.len();
        let filled = held.pin.bytes_mut().get_mut(part).map_or(0, |bytes| from.take(bytes)).min(len);
        from.rest();
        if filled > 0 {
            self.grow_to(at.saturating_add(filled as u64));
        }
        // Some bytes may have been copied where none was said to be.
        let is_new = held.end_dirty();
        Self::made_dirty(paging, is_new)?;
        Ok(filled)
    }

    /// The object grows from `old` bytes to `new`: what mappings wrote behind the end in its last page is not shown. Of tracked objects: what the pager was given ended there.
    pub(super) fn clear_tail(&self, old: u64, new: u64) {
        let tail = old as usize % PAGE_SIZE;
        if tail == 0 || new <= old || !self.is_tracked() {
            return;
        }
        let room = usize::try_from(new.saturating_sub(old)).unwrap_or(PAGE_SIZE);
        let end = tail.saturating_add(room).min(PAGE_SIZE);
        let mut last = self.pinned(old >> PAGE_SHIFT);
        if let Some(mut bytes) = last.as_mut().map(Pin::bytes_mut) {
            bytes.get_mut(tail..end).map(|mut rest| rest.clear());
        }
    }

    /// Gives the dirty ones of the pages `first..end` to the pager, up to `most` of them or a few more; says how many it was given. One call for the object at a time, and none that changes the
    /// size meanwhile. Ends at a fatal signal. May sleep.
    ///
    /// # Errors
    /// `Interrupted`, `NoMemory`: some are dirty yet. All others: what was in some pages is lost; all were tried.
    pub fn write_back(&self, first: u64, end: u64, most: u64) -> Result<u64, VmError> {
        let Some(paging) = self.tracked() else { return Ok(0) };
        let (mut page, mut written, mut failed) = (first, 0u64, None);
        // One for all, filled where it lies: it is large for a stack.
        let mut run = Run { first, frames: ArrayVec::new_const(), pins: ArrayVec::new_const() };
        while written < most && self.begin_run(page, end, &mut run) {
            if run.pins.is_empty() {
                // It is gone, or another cleans it against the rule.
                page = run.first.saturating_add(1);
                continue;
            }
            page = run.first.saturating_add(run.pins.len() as u64);
            written = written.saturating_add(run.pins.len() as u64);
            // What was written beyond it since has marked its page anew.
            let said = paging.pager.write(run.first, &run.pins, self.size());
            let again = matches!(said, Err(VmError::Interrupted | VmError::NoMemory));
            self.end_run(&run, again);
            match said {
                Err(error) if again => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
                Ok(()) => {}
            }
            if give_way() {
                return Err(VmError::Interrupted);
            }
        }
        failed.map_or(Ok(written), Err)
    }

    /// `run` becomes the next dirty page of `page..end` and those that follow it, which are clean from here on unless they are written again, and which nobody can write
    /// without a fault. False: there is none.
    fn begin_run(&self, page: u64, end: u64, run: &mut Run) -> bool {
        run.frames.clear();
        run.pins.clear();
        let Some(first) = self.next_dirty(page, end.min(self.pages())) else { return false };
        run.first = first;
        let mut change = self.change.lock();
        let begin = || {
            for page in (first..end.min(self.pages())).take(MOST as usize) {
                let Some((frame, pin)) = self.slots.get(page).and_then(Slot::begin_clean) else { break };
                run.frames.push(frame);
                run.pins.push(pin);
            }
            run
        };
        evict::clean(begin, |run| self.protect_run(run, change.held()));
        true
    }

    /// Takes the right to write the run's pages away from all who map them.
    fn protect_run(&self, run: &Run, change: &mut Held<'_, ObjectLevel>) {
        let pages = run.first..run.first.saturating_add(run.frames.len() as u64);
        if run.frames.is_empty() || self.leaves.is_empty(change) {
            return;
        }
        let (mut reached, mut done) = (Reached::default(), false);
        while !done {
            let rcu = rcu::read();
            let within = Pages::new(pages.start, pages.end);
            done = self.leaves.visit(within, &mut reached, &rcu, change, |leaf, ops, held| {
                self.protect_leaf(leaf, ops, run, held, &rcu);
            });
            drop(rcu);
            let _ = give_way();
        }
    }

    /// Takes the right to write the run's pages away in `leaf`; flushes its sharers.
    #[expect(clippy::arithmetic_side_effects, reason = "pages of a segment, which an object has")]
    fn protect_leaf(
        &self,
        leaf: &Node,
        ops: &ReverseOps,
        run: &Run,
        held: &mut Held<'_, ReverseMapLevel>,
        rcu: &RcuRead,
    ) {
        let end = run.first + run.frames.len() as u64;
        let mut changed = FlushRange::EMPTY;
        let mut locked = leaf.lock(held);
        for i in 0..locked.segments.as_slice().len() {
            let Some(segment) = locked.segments.as_slice().get(i) else { break };
            let is_of = segment.attrs.object.as_ref().is_some_and(|o| core::ptr::eq(&**o, self));
            if !is_of || !segment.attrs.is_tracked() {
                continue;
            }
            let (start, offset) = (segment.start, segment.attrs.offset);
            let low = run.first.saturating_sub(offset).min(ENTRIES as u64) as u16 + start;
            let high = (end.saturating_sub(offset) + u64::from(start)).min(u64::from(segment.end)) as u16;
            for index in locked.used_in(&(low..high)) {
                let at = offset + u64::from(index - start) - run.first;
                let frame = run.frames.get(at as usize);
                if frame.is_some_and(|frame| (ops.protect)(&mut locked, index, *frame)) {
                    changed.add(leaf.address(index), leaf.address(index + 1));
                }
            }
        }
        let viewers = locked.viewers();
        drop(locked);
        if !changed.is_empty() {
            let _flushed = SharersFlushed::by_flushing(leaf, ops, changed, &viewers, held, rcu);
        }
    }

    /// The pager has the run's pages; `again`: it has not, and they are dirty as before.
    fn end_run(&self, run: &Run, again: bool) {
        let mut clean = 0u64;
        for (page, frame) in (run.first..).zip(&run.frames) {
            let is_dirty = self.slots.get(page).is_some_and(|slot| slot.marks().end_clean(*frame, again));
            clean = clean.saturating_add(u64::from(!is_dirty));
        }
        self.count_clean(clean);
    }

    /// The first dirty page of `page..end`.
    fn next_dirty(&self, mut page: u64, end: u64) -> Option<u64> {
        self.next_marked(&mut page, end, |slot| slot.marks().needs_cleaning())
    }

    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    fn next_marked(&self, page: &mut u64, end: u64, is_it: impl Fn(&Slot) -> bool) -> Option<u64> {
        while *page < end {
            *page = match self.slots.run(*page) {
                Some(run) => match run.iter().position(&is_it) {
                    Some(at) => return Some(*page + at as u64).filter(|found| *found < end),
                    None => *page + run.len() as u64,
                },
                None => self.slots.absent_until(*page).max(*page + 1),
            };
            let _ = give_way();
        }
        None
    }

    /// Is no page dirty, held or on its way to the pager? Then the pager is told again before one is. May sleep.
    pub fn is_settled(&self) -> bool {
        let Some(paging) = self.tracked() else { return true };
        paging.begun.swap(false, SeqCst);
        let is_settled = self.next_marked(&mut 0, self.pages(), |slot| slot.marks().is_marked()).is_none();
        if !is_settled {
            paging.begun.store(true, SeqCst);
        }
        is_settled
    }
}
