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

use super::after_readers;
use crate::addr::PhysAddr;
use crate::atomic::{AtomicU64, Ordering, const_new, fence_after_rmw, site, step};
use crate::machine::{Entry, Machine};

const FRAME: u64 = 1;
const TAGGED: u64 = 3;
const STATE: u64 = 3;

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
        (value & STATE == FRAME).then_some(PhysAddr(value & !STATE))
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

    /// Nobody maps the frame from here on. False: the slot is empty or tagged.
    pub fn tag(&self) -> bool {
        let value = self.0.load(Ordering::Relaxed);
        value & STATE == FRAME
            && self.0.compare_exchange(value, value | TAGGED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The frame that is being taken away.
    #[inline]
    pub fn tagged(&self) -> Option<PhysAddr> {
        let value = self.0.load(Ordering::Acquire);
        (value & STATE == TAGGED).then_some(PhysAddr(value & !STATE))
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
        && (!step("evict.match") || !entry.is_busy() && !entry.is_private() && entry.address::<M>() == frame)
}

/// May a copy of the page in `source` be put into a leaf that is locked? `now`: what the page's slot has.
#[inline]
pub fn is_still(now: Option<PhysAddr>, source: PhysAddr) -> bool {
    now == Some(source) || !step("evict.again")
}
