//! Objects whose pages come from elsewhere, from a server's file or a disk's: a page that is not in memory is asked for when somebody reads or maps it.
//!
//! A pager is asked with no lock of vm held but, perhaps, that of a layout. What it gives is put in under `change`, if the contents are still those that were
//! asked for, so nobody sees a page of what was replaced. Where two miss one page at once, the pager has the second wait or gives the page to both: the first to come
//! puts it in, and the other's is given back.
//!
//! **Memory** that is scarce is not taken for them: who reads gives as many pages back as it brings in, of those that can be read again (`Shedder`, which the
//! kernel registers, finds the objects), and a file in memory that grows then does so too. An object loses pages from a hand on that goes round, and none at the
//! first call after it was read into.
//!
//! **An object of its own**: [`Object::own`] brings in what is not in memory yet, and asks the pager for nothing afterwards: the object is as one that never had a pager, for
//! all who map it too. Only then do its pages count in its budget, and may be written.
//!
//! **Read-ahead**: who reads on where the last read ended gets twice as many pages each time, up to `MOST`; who reads elsewhere a few.
#![forbid(unsafe_code)]

use super::slots::{MAX_PAGES, Slot};
use super::truncate::Gone;
use super::{BudgetKind, BudgetRef, Object, ObjectOwner, count};
use crate::addr::{PAGE_SHIFT, PAGE_SIZE};
use crate::error::VmError;
use crate::frame::{self, FrameKind, OwnedFrame, Pin};
use crate::policy;
use crate::protocol::swap::may_enter;
use alloc::boxed::Box;
use arrayvec::ArrayVec;
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use once_cell::race::OnceRef;
use sync::heap::try_box;
use sync::machine::give_way;

/// Pages that are read at once where nothing is known of who reads.
const FEW: u32 = 4;
/// Pages that are read at once at the most: 512 KiB.
pub(super) const MOST: u32 = 128;

/// What came of asking a pager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// What there is was given.
    Read,
    /// Another was reading the page, and has ended: it is to be looked for, and asked for again if it is not there.
    Waited,
}

/// Where the pages of an object come from.
pub trait Pager: Send + Sync {
    /// Reads up to `count` pages from page `first` on, and gives each to `give`, in their order; the bytes past the source's end are zero. Fewer may be
    /// given; where the source has ended none need be. May sleep; no lock of vm is held.
    ///
    /// # Errors
    /// `Io`, `NoMemory`, `Interrupted`: a fatal signal has come. Pages that were given are used all the same.
    fn read(&self, first: u64, count: usize, give: &mut dyn FnMut(OwnedFrame)) -> Result<Asked, VmError>;

    /// Takes it what is written to the object's pages? Always the same answer. Where not, nobody writes them.
    fn takes_writes(&self) -> bool {
        false
    }

    /// Takes the contents of `pages`, from page `first` on, up to byte `end` of the object. They may be written meanwhile: then they are given again. One call for an object at
    /// a time. May sleep; no lock of vm is held.
    ///
    /// # Errors
    /// `Interrupted`, `NoMemory`: the pages stay dirty. All others: what was written is lost, and the pager has noted it.
    fn write(&self, _first: u64, _pages: &[Pin], _end: u64) -> Result<(), VmError> {
        Err(VmError::Io)
    }

    /// `n` pages are to be dirty. May sleep, as `read`: until there are fewer, say.
    ///
    /// # Errors
    /// They are not made so.
    fn count_dirty(&self, _n: u64) -> Result<(), VmError> {
        Ok(())
    }

    /// `n` pages that were counted are clean. Does not sleep.
    fn count_clean(&self, _n: u64) {}

    /// A page is to be dirty, and none was since [`Object::is_settled`] was true: the pager sees to it that the object's pages are written some time. May sleep, as `read`.
    ///
    /// # Errors
    /// None is made dirty.
    fn begin_dirty(&self) -> Result<(), VmError> {
        Ok(())
    }
}

/// What an object has besides whose pages come from elsewhere.
pub(super) struct Paging {
    pub(super) pager: Box<dyn Pager>,
    /// It takes writes.
    pub(super) is_tracked: bool,
    /// The pager was told that there may be dirty pages (dirty.rs).
    pub(super) begun: AtomicBool,
    /// `ASKED`, `KEPT` or `OWN`. Changes under `change`.
    state: AtomicU8,
    /// Moves when the source has other contents, and with each eviction. Changes under `change`.
    contents: AtomicU64,
    /// Where the last read ended, and how many pages the next one is that begins there. Guesses: two that read at once mix them up, and read less ahead.
    next: AtomicU64,
    window: AtomicU32,
    /// From where on pages are given back next, and whether some were read since that was asked for.
    hand: AtomicU64,
    is_fresh: AtomicBool,
}

/// The pager has the pages, and those in memory may be given back.
const ASKED: u8 = 0;
/// The same, but all are being brought in, and none is given back.
const KEPT: u8 = 1;
/// The pager is asked for nothing any more.
const OWN: u8 = 2;

impl Paging {
    pub(super) fn is_asked(&self) -> bool {
        self.state.load(Acquire) != OWN
    }
}

/// Gives back pages that can be read again, up to so many, and says how many. Sleeping locks are held, those of inodes' writes and of layouts.
pub struct Shedder(pub fn(u64) -> u64);

static SHEDDER: OnceRef<'static, Shedder> = OnceRef::new();

/// Sets who gives pages back where memory is scarce. Once.
pub fn register_shedder(shedder: &'static Shedder) {
    let _ = SHEDDER.set(shedder);
}

/// May what no program's end gives back grow by a page, at the cost of pages that can be read again if need be? May sleep, as the [`Shedder`] says.
pub fn may_grow() -> bool {
    !frame::is_scarce() || make_room(ROOM)
}

/// Pages that are given back for one by which files in memory grow, while memory is scarce.
const ROOM: u64 = 2;

/// Gives back up to `pages` pages that can be read again; says how many. They are free after a grace period. May sleep, as the [`Shedder`] says.
pub fn shed(pages: u64) -> u64 {
    SHEDDER.get().map_or(0, |shedder| (shedder.0)(pages))
}

/// Memory is scarce, and up to `pages` more are wanted: are as many given back, or some of them?
#[cold]
pub(super) fn make_room(pages: u64) -> bool {
    let has_shed = SHEDDER.get().is_some_and(|shedder| (shedder.0)(pages) > 0);
    // What was evicted here is free after a grace period, which would else wait for more callbacks.
    sync::rcu::hurry();
    has_shed
}

impl Object {
    /// An object of `size` bytes whose pages come from `pager`. `inode_number` is not 0. Once the pages are its own they count in `budget`.
    pub fn try_owned_paged(
        inode_number: usize,
        size: u64,
        pager: Box<dyn Pager>,
        budget: Option<BudgetRef>,
    ) -> Result<ObjectOwner, VmError> {
        let paging = try_box(Paging {
            is_tracked: pager.takes_writes(),
            begun: AtomicBool::new(false),
            pager,
            state: AtomicU8::new(ASKED),
            contents: AtomicU64::new(0),
            next: AtomicU64::new(0),
            window: AtomicU32::new(FEW),
            hand: AtomicU64::new(0),
            is_fresh: AtomicBool::new(false),
        })?;
        Self::try_owned_with(inode_number, size, budget, Some(paging))
    }

    /// Do its pages come from elsewhere? Then one that is not in memory is no hole.
    pub fn is_paged(&self) -> bool {
        self.asked().is_some()
    }

    /// Who is asked for pages.
    #[inline]
    pub(super) fn asked(&self) -> Option<&Paging> {
        self.paging.as_deref().filter(|paging| paging.is_asked())
    }

    /// From here on the object's pages are its own: those of the first `size` bytes are brought in, what lies beyond is gone, and the pager is asked no more. False: `stop` says
    /// so, or a fatal signal has come. Unless the answer is true the object is as before. The caller sees to it that nobody does the same, or changes its size or contents,
    /// meanwhile. May sleep.
    ///
    /// # Errors
    /// `Full`: the budget, or memory, has no room for them. Those of the pager.
    pub fn own(&self, size: u64, stop: &dyn Fn() -> bool) -> Result<bool, VmError> {
        let Some(paging) = self.asked() else { return Ok(true) };
        {
            let _change = self.change.lock();
            paging.state.store(KEPT, Relaxed);
        }
        let owned = self.own_kept(paging, size.min(self.size()), stop);
        if owned != Ok(true) {
            let _change = self.change.lock();
            paging.state.store(ASKED, Relaxed);
        }
        owned
    }

    /// As `own`, of an object that gives no pages back.
    fn own_kept(&self, paging: &Paging, size: u64, stop: &dyn Fn() -> bool) -> Result<bool, VmError> {
        let pages = size.div_ceil(PAGE_SIZE as u64);
        if let Some(budget) = &self.budget {
            budget.charge(BudgetKind::Pages, pages)?;
        }
        let whole = self.bring_all(pages, stop);
        if whole != Ok(true) {
            self.give_back_charged(pages);
            return whole;
        }
        let mut change = self.change.lock();
        // What lies beyond is not counted, and goes while it is not; who reads some of it from the pager now does not put it in.
        if size < self.size() {
            self.set_size_under(size, change.held());
        }
        // With `change` held none comes in and none goes.
        let resident = self.resident.load(Relaxed);
        count::left(true, resident);
        count::entered(false, resident);
        paging.state.store(OWN, Release);
        Ok(true)
    }

    fn give_back_charged(&self, pages: u64) {
        if let Some(budget) = &self.budget {
            budget.give_back(BudgetKind::Pages, pages);
        }
    }

    /// Makes the first `pages` pages resident.
    fn bring_all(&self, pages: u64, stop: &dyn Fn() -> bool) -> Result<bool, VmError> {
        for page in 0..pages {
            if self.frame(page).is_none() {
                if !may_grow() {
                    return Err(VmError::Full);
                }
                self.bring_in(page)?;
            }
            if page.is_multiple_of(64) && (give_way() || stop()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The source has other contents by now, of `size` bytes: no page of those before is read or mapped from here on, but what was written to and the source has not got
    /// yet. Private copies within the new size stay. May sleep.
    ///
    /// # Errors
    /// `Overflow`.
    pub fn replace(&self, size: u64) -> Result<(), VmError> {
        if size > MAX_PAGES << PAGE_SHIFT {
            return Err(VmError::Overflow);
        }
        let mut change = self.change.lock();
        self.note_replaced();
        self.evict(0, MAX_PAGES, Gone::READABLE, change.held());
        self.set_size_under(size, change.held());
        Ok(())
    }

    /// Pages are to be taken away: none that is being read now comes in afterwards. `change` is held.
    pub(super) fn note_replaced(&self) {
        if let Some(paging) = &self.paging {
            paging.contents.fetch_add(1, Release);
        }
    }

    /// Reads `page`, which is not resident, and some after it from the pager. False: it is past the end. True: it is to be looked for again. May sleep.
    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    pub(super) fn page_in(&self, paging: &Paging, page: u64) -> Result<bool, VmError> {
        let end = self.pages();
        if page >= end {
            return Ok(false);
        }
        // A look without the lock, and so of what the source has now or had before.
        let begun = paging.contents.load(Acquire);
        let count = self.wanted(paging, page, end);
        if frame::is_scarce() {
            make_room(count as u64);
        }
        let mut frames = ArrayVec::<OwnedFrame, { MOST as usize }>::new_const();
        let read = paging.pager.read(page, count, &mut |frame| {
            // What was not asked for is not taken.
            if frames.len() < count {
                frames.push(frame);
            }
        });
        if frames.is_empty() {
            if read? == Asked::Waited {
                return Ok(true);
            }
            // The source is shorter than it was said to be.
            frames.push(policy::alloc_cache_page().ok_or(VmError::NoMemory)?);
        }
        paging.next.store(page + frames.len() as u64, Relaxed);
        paging.is_fresh.store(true, Relaxed);
        let _change = self.change.lock();
        if may_enter(begun, paging.contents.load(Relaxed)) {
            // The first is wanted; what cannot be had of the others is not.
            for (at, frame) in (page..self.pages()).zip(frames) {
                match self.put(at, frame) {
                    Err(error) if at == page => return Err(error),
                    Err(_) => break,
                    Ok(()) => {}
                }
            }
        }
        Ok(true)
    }

    /// Gives back up to `most` pages or a few more, if they can be read again; says how many. The first call after pages were read gives back none. May sleep.
    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    pub fn shed(&self, most: u64) -> u64 {
        let Some(paging) = self.asked() else { return 0 };
        if paging.is_fresh.swap(false, Relaxed) || self.resident_pages() == 0 {
            return 0;
        }
        let (first, end) = (paging.hand.load(Relaxed), self.pages());
        let (mut page, mut found) = (first, 0);
        while page < end && found < most {
            page = match self.slots.run(page) {
                Some(run) => {
                    let goes = |slot: &&Slot| slot.frame().is_some() && !slot.marks().is_marked();
                    found += run.iter().filter(goes).count() as u64;
                    page + run.len() as u64
                }
                None => self.slots.absent_until(page).max(page + 1),
            };
            // The hand has far to go where a large file has few pages in memory. With a fatal signal what was found goes.
            if give_way() {
                break;
            }
        }
        paging.hand.store(if page < end { page } else { 0 }, Relaxed);
        if found > 0 {
            let mut change = self.change.lock();
            if paging.state.load(Relaxed) != ASKED {
                return 0;
            }
            // A page that was read from the source before it was written and cleaned here does not come in any more.
            self.note_replaced();
            self.evict(first, page, Gone::READABLE, change.held());
        }
        found
    }

    /// How many pages to read from `page` on, which is before `end`: up to the next that is resident.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "pages of a file are below 2^51, a window is at most MOST"
    )]
    fn wanted(&self, paging: &Paging, page: u64, end: u64) -> usize {
        let window = match paging.next.load(Relaxed) == page {
            true => (paging.window.load(Relaxed) * 2).min(MOST),
            false => FEW,
        };
        paging.window.store(window, Relaxed);
        let limit = end.min(page + u64::from(window));
        (page + 1..limit).take_while(|&next| self.frame(next).is_none()).count() + 1
    }

    /// Puts a page in that was read, if there is none by now.
    fn put(&self, page: u64, frame: OwnedFrame) -> Result<(), VmError> {
        let slot = self.slots.make(page, &|| self.charge_table())?;
        if let Some(budget) = self.counted() {
            budget.charge(BudgetKind::Pages, 1)?;
        }
        frame.set_kind(FrameKind::Object);
        match slot.put(frame) {
            Ok(()) => {
                self.resident.fetch_add(1, Relaxed);
                count::entered(self.is_paged(), 1);
            }
            Err(_) => self.give_back_pages(1),
        }
        Ok(())
    }
}
