//! Pages are taken away from everybody who maps them, and nobody maps them again.
//!
//! | slot     | what it says                        | mapped by                              |
//! |----------|-------------------------------------|----------------------------------------|
//! | nothing  | the page is not resident            | nobody                                 |
//! | frame    | the page                            | leaves on the object's lists           |
//! | tagged   | the page is being taken away        | leaves that the visit has not come to  |
//!
//! ```text
//! fault   register the leaf; lock it, read the slot, fill, unlock
//! evict   tag each slot, visit each leaf that is on the lists for such pages (lock it, clear what matches, unlock, flush), empty each slot, after readers: free the frame
//! ```
//!
//! ReadSlotUnderLeaf: a page is mapped only from a slot read under the leaf's lock ([`Slot::frame_for`] wants to see it).
//! RegisterBeforeMap: a leaf is on the object's list, for the page, before the first entry for it (`evict.first`). It comes there for more pages under the lock
//! of the list, which a visit holds when it passes the leaf by.
//! A leaf goes off the list when its last segment of the object is gone (`evict.named`), after the flush of what was cleared with it.
//! MatchBeforeClear: a visit clears only entries that show the frame that it looks for (`evict.match`).
//!
//! - A fault whose lock came before the visit's: the visit finds its entry. After it: the lock orders the tag before its reading.
//! - A leaf that comes onto a list after its visit, or after the visit has passed its place, reads the tag too, since the list's lock orders it; and so does one on a list that was made when the
//!   visit had looked for lists: of the two fences (`evict.tag`, `evict.register`) one is first.
//! - A private copy of an object's page is made with the leaf unlocked, and put in only if the slot still has the page (`evict.again`). So there is none
//!   beyond the end of a file that was made shorter.
//! - A page put in beyond the end is seen by who makes the file shorter, or by who put it in (`slot.put`, `evict.begin`).
//! - A page that moves goes the same way, but its slot gets another frame instead of none: bytes are copied when those who read slots have ended (`exchange.grace`), and
//!   are there before the frame is (`slot.exchange`).
//! - Who reads a slot within a read section uses the page as long as that lasts (`evict.grace`).
//!
//! **Marks** of a page whose contents an object's pager keeps (object/dirty.rs). A page with any of them is taken away only by who makes the object shorter:
//!
//! | mark  | what it says                                              | set by                                     | cleared by                              |
//! |-------|-----------------------------------------------------------|--------------------------------------------|-----------------------------------------|
//! | dirty | the pager has not got what was written                    | who writes: before a mapping may, after a copy into the page | `begin_clean`, before the bytes are read |
//! | held  | somebody is copying bytes into the page                   | that one, before                           | that one, after, in one step with setting dirty |
//! | sent  | the pager is being given the bytes                        | `begin_clean`                              | `end_clean`, after                      |
//!
//! ```text
//! write fault   unlocked: mark dirty;   leaf locked: dirty? then the entry may write
//! write(2)      hold, copy, dirty and let go
//! clean         begin_clean, visit each leaf (lock it, take the right to write away, unlock, flush), the bytes to the pager, end_clean
//! ```
//!
//! DirtyBeforeWritable: an entry may write only where the slot was seen dirty under the leaf's lock (`evict.dirty`).
//!
//! - A fault whose lock came before the visit's: the visit takes the right away, and the bytes are read after that (`evict.clean`). After it: the lock orders the clearing
//!   before its look, so the mark that it sees was made later and stays.
//! - Bytes copied into a page that is held: the mark comes after them (`evict.let_go`), so who clears it sees them (`evict.clean`).
//! - An object that grows with them has grown before the mark is there, so who clears that gives the pager all that it reaches to (object/dirty.rs).

use super::after_readers;
use crate::addr::PhysAddr;
use crate::atomic::{AtomicU64, Ordering, const_new, fence_after_rmw, site, step};
use crate::machine::{Entry, Machine};

const FRAME: u64 = 1;
const TAGGED: u64 = 3;
const STATE: u64 = 3;
const DIRTY: u64 = 4;
const HELD: u64 = 8;
const SENT: u64 = 16;
const MARKS: u64 = DIRTY | HELD | SENT;
/// What is no address.
const REST: u64 = (1 << crate::addr::PAGE_SHIFT) - 1;

/// One page of an object.
pub struct Slot(AtomicU64);

impl Slot {
    const_new! {
        pub fn new() -> Self {
            Slot(AtomicU64::new(0))
        }
    }

    /// The frame, unless it is being taken away. It lives as long as the caller's read section.
    #[inline]
    pub fn frame(&self) -> Option<PhysAddr> {
        let value = self.0.load(site("slot.look", Ordering::Acquire));
        (value & STATE == FRAME).then_some(PhysAddr(value & !REST))
    }

    /// The frame, for a leaf that is `_locked` and shall map it, or did.
    #[inline]
    pub fn frame_for<L>(&self, _locked: &L) -> Option<PhysAddr> {
        self.frame()
    }

    /// Puts a frame into an empty slot; false: it is not empty. The caller looks at the object's end then.
    #[inline]
    pub fn put(&self, frame: PhysAddr) -> bool {
        let order = site("slot.fill", Ordering::Release);
        let put = self.0.compare_exchange(0, frame.0 | FRAME, order, Ordering::Relaxed).is_ok();
        fence_after_rmw("slot.put");
        put
    }

    /// As `put`, of a page that is dirty.
    #[inline]
    pub fn put_dirty(&self, frame: PhysAddr) -> bool {
        let order = site("slot.fill", Ordering::Release);
        let put = self.0.compare_exchange(0, frame.0 | FRAME | DIRTY, order, Ordering::Relaxed).is_ok();
        fence_after_rmw("slot.put");
        put
    }

    /// Nobody maps the frame from here on. None: the slot is empty or tagged, or has marks and `lost` does not say that they may go. Else: was it dirty?
    pub fn tag(&self, lost: bool) -> Option<bool> {
        let mut value = self.0.load(Ordering::Relaxed);
        loop {
            let stays = !lost && value & MARKS != 0 && step("evict.marks");
            if value & STATE != FRAME || stays {
                return None;
            }
            let new = value & !MARKS | TAGGED;
            match self.0.compare_exchange(value, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(value & DIRTY != 0),
                Err(now) => value = now,
            }
        }
    }

    /// Changes the marks of `frame`, or of whatever frame there is, to what `new` says, if it says any. None: there is no such frame, or `new` says none. Else the frame, and
    /// what they were.
    fn mark(
        &self,
        frame: Option<PhysAddr>,
        order: Ordering,
        new: impl Fn(u64) -> Option<u64>,
    ) -> Option<(PhysAddr, u64)> {
        let mut value = self.0.load(Ordering::Relaxed);
        loop {
            let is_it = frame.is_none_or(|frame| value & !REST == frame.0);
            if value & STATE != FRAME || !is_it {
                return None;
            }
            let marks = new(value & MARKS)?;
            match self.0.compare_exchange(value, value & !MARKS | marks, order, Ordering::Relaxed) {
                Ok(_) => return Some((PhysAddr(value & !REST), value & MARKS)),
                Err(now) => value = now,
            }
        }
    }

    /// Is `frame` there, and dirty? Asked under the lock of a leaf whose entry shows it.
    #[inline]
    pub fn is_dirty<L>(&self, frame: PhysAddr, _locked: &L) -> bool {
        let value = self.0.load(Ordering::Acquire);
        value & !REST == frame.0 && value & (STATE | DIRTY) == FRAME | DIRTY || !step("evict.dirty")
    }

    /// Has the page marks? One that is being taken away has none.
    #[inline]
    pub fn is_marked(&self) -> bool {
        let value = self.0.load(Ordering::Acquire);
        value & STATE == FRAME && value & MARKS != 0
    }

    /// Is the page dirty?
    #[inline]
    pub fn needs_cleaning(&self) -> bool {
        let value = self.0.load(Ordering::Acquire);
        value & (STATE | DIRTY) == FRAME | DIRTY
    }

    /// Marks the page dirty. None: there is none, or it is being taken away. Else: was it clean?
    pub fn make_dirty(&self) -> Option<bool> {
        self.mark(None, Ordering::AcqRel, |marks| Some(marks | DIRTY)).map(|(_, marks)| marks & DIRTY == 0)
    }

    /// The frame, which nobody but who makes the object shorter takes away until `let_go`. None: there is none, it is being taken away, or somebody else holds it.
    pub fn hold(&self) -> Option<PhysAddr> {
        let hold = |marks: u64| (marks & HELD == 0).then_some(marks | HELD);
        self.mark(None, Ordering::AcqRel, hold).map(|(frame, _)| frame)
    }

    /// Ends what `hold` began of `frame`; `dirty`: bytes were copied into it. Says whether it was clean until now. None: it was taken away all the same.
    pub fn let_go(&self, frame: PhysAddr, dirty: bool) -> Option<bool> {
        let order = site("evict.let_go", Ordering::AcqRel);
        let added = if dirty { DIRTY } else { 0 };
        self.mark(Some(frame), order, |marks| Some(marks & !HELD | added))
            .map(|(_, marks)| marks & DIRTY == 0)
    }

    /// The page is clean from here on, unless it is written after this; its bytes are to be read when no entry can write it. The frame; None: it is not dirty.
    pub fn begin_clean(&self) -> Option<PhysAddr> {
        let clear = |marks: u64| {
            let cleared = if step("evict.clear") { marks & !DIRTY } else { marks };
            (marks & DIRTY != 0 && marks & SENT == 0).then_some(cleared | SENT)
        };
        self.mark(None, Ordering::Relaxed, clear).map(|(frame, _)| frame)
    }

    /// The pager has the bytes of `frame`; `again`: it has not, and they are dirty as before. Says whether that makes it dirty.
    pub fn end_clean(&self, frame: PhysAddr, again: bool) -> bool {
        let added = if again { DIRTY } else { 0 };
        let clear = |marks: u64| {
            let left = if step("evict.clear") { marks & !SENT } else { marks & !SENT & !DIRTY };
            (marks & SENT != 0).then_some(left | added)
        };
        let before = self.mark(Some(frame), Ordering::AcqRel, clear);
        again && before.is_some_and(|(_, marks)| marks & DIRTY == 0)
    }

    /// The frame that is being taken away.
    #[inline]
    pub fn tagged(&self) -> Option<PhysAddr> {
        let value = self.0.load(Ordering::Acquire);
        (value & STATE == TAGGED).then_some(PhysAddr(value & !REST))
    }

    /// Puts the frame of a tagged slot back.
    pub fn untag(&self) {
        if let Some(frame) = self.tagged() {
            let _ = self.exchange_tagged(frame);
        }
    }

    /// Puts a frame in the place of the tagged one, and says which that was.
    pub fn exchange_tagged(&self, new: PhysAddr) -> Option<PhysAddr> {
        let old = self.tagged()?;
        // Who reads the new frame sees what was copied there.
        let order = site("slot.exchange", Ordering::Release);
        self.0.compare_exchange(old.0 | TAGGED, new.0 | FRAME, order, Ordering::Relaxed).ok()?;
        Some(old)
    }

    /// Empties a tagged slot.
    pub fn take_tagged(&self) -> Option<PhysAddr> {
        let frame = self.tagged()?;
        self.0.compare_exchange(frame.0 | TAGGED, 0, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(frame)
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

/// Takes pages away: `tag` tags their slots, `visit` clears what shows them in all leaves on the lists and flushes, `empty` empties some slots and returns the
/// frames, which `defer` frees when nobody reads them any more, until there are none. Each may take its time. Where an object is made shorter, its size was
/// exchanged before.
#[inline]
pub fn evict<T, B>(
    tag: impl FnOnce() -> T,
    visit: impl FnOnce(&T),
    mut empty: impl FnMut(&T) -> Option<B>,
    mut defer: impl FnMut(B),
) {
    fence_after_rmw("evict.begin");
    let tagged = tag();
    fence_after_rmw("evict.tag");
    if step("evict.visit") {
        visit(&tagged);
    }
    while let Some(frames) = empty(&tagged) {
        after_readers("evict.grace", frames, &mut defer);
    }
}

/// Begins to clean pages: `begin` does so with the slots of some, `visit` takes the right to write them away in all leaves on the lists and flushes. When this returns their bytes
/// may be read for the pager.
#[inline]
pub fn clean<T>(begin: impl FnOnce() -> T, visit: impl FnOnce(&T)) -> T {
    let begun = begin();
    fence_after_rmw("evict.clean");
    if step("evict.protect") {
        visit(&begun);
    }
    begun
}

/// Takes pages away for a while, whose frames shall be exchanged ([`Slot::exchange_tagged`]): after this nobody reads or writes them. `tag` tags their slots, `visit` clears
/// what shows them in all leaves on the lists and flushes, `wait` waits for those who read slots.
#[inline]
pub fn take_for_exchange<T>(tag: impl FnOnce() -> T, visit: impl FnOnce(), wait: impl FnOnce()) -> T {
    let tagged = tag();
    fence_after_rmw("evict.tag");
    if step("evict.visit") {
        visit();
    }
    if step("exchange.grace") {
        wait();
    }
    tagged
}

/// Puts a leaf on a list of an object's: `add` does it, under the list's lock.
#[inline]
pub fn register<R>(add: impl FnOnce() -> R) -> R {
    let place = add();
    fence_after_rmw("evict.register");
    place
}

/// Has a leaf that is locked to come onto an object's list first, before anything of the object is put in?
#[inline]
pub fn registers_first(is_registered: bool) -> bool {
    !is_registered && step("evict.first")
}

/// May a leaf that is locked go off an object's list? `named`: a segment of it names the object, so a fault maps pages of it without looking for the list. It
/// goes when what was taken out of it is flushed: until then nobody else keeps the object.
#[inline]
pub fn may_leave(named: bool) -> bool {
    !named || !step("evict.named")
}

/// Does the entry show the frame as an object's page?
#[inline]
pub fn shows<M: Machine>(entry: Entry, frame: PhysAddr) -> bool {
    !entry.is_absent()
        && (!step("evict.match") || !entry.is_away() && !entry.is_private() && entry.address::<M>() == frame)
}

/// May a copy of the page in `source` be put into a leaf that is locked? `now`: what the page's slot has.
#[inline]
pub fn is_still(now: Option<PhysAddr>, source: PhysAddr) -> bool {
    now == Some(source) || !step("evict.again")
}
