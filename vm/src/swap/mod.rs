//! Swap: where private pages of programs go when memory is short.
//!
//! An *area* is a device with slots of a page each, which are counted as frames are (slots.rs), and a *cache*: an object whose page with the number of a slot is that slot's.
//! The object's pager reads the device. Nobody maps the object: what comes in is copied from it (`op/page_in.rs`), what goes out is put into it (`op/page_out.rs`).
//! An area is known by its number, which entries name (`vm::entry`). It stays as long as a slot of it is taken.
//!
//! Invariants: SlotCounted (protocol/swap.rs). A [`SlotRef`] is one count of a slot: an entry's, which is taken out of the entry with it, or one that keeps the slot while somebody reads or writes its page.
//! To give one up takes no lock and does not sleep.
//!
//! Lock order: the cache object's `change`, where pages are read or given up; nothing else is held.
#![forbid(unsafe_code)]

mod slots;

/// Areas that there can be at once.
pub use crate::entry::MAX_AREAS;
pub(crate) use crate::object::swap::AT_ONCE;

use self::slots::SlotMap;
use crate::entry::{Entry, SwapPlace};
use crate::error::{FaultError, VmError};
use crate::frame::{self, OwnedFrame, Pin, pin};
use crate::object::pager::{Asked, Pager};
use crate::object::{Object, ObjectRef};
use crate::protocol::swap as protocol;
use alloc::boxed::Box;
use alloc::sync::Arc;
use arrayvec::ArrayVec;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use sync::heap::try_box;
use sync::rcu::{self, RcuArc, RcuHead, RcuRead};
use sync::{Count, per_cpu, try_arc};

/// Slots that are read together at the most.
const READ_AT_ONCE: usize = 32;

/// What a swap area lies on.
pub trait SwapDevice: Send + Sync {
    /// Reads the slots from `first` on into `pages`. May sleep; no lock of vm is held.
    ///
    /// # Errors
    /// `Io`, `NoMemory`, `Interrupted`: what is in the pages then means nothing.
    fn read(&self, first: u32, pages: &mut [OwnedFrame]) -> Result<(), VmError>;

    /// Writes `pages` to the slots from `first` on. Nobody writes the pages meanwhile. May sleep; no lock of vm is held.
    ///
    /// # Errors
    /// `Io`, `NoMemory`, `Interrupted`: what is in the slots then means nothing.
    fn write(&self, first: u32, pages: &[Pin]) -> Result<(), VmError>;
}

/// Events of one CPU.
pub struct SwapCounts {
    /// Pages that went out, and that came in.
    pub went_out: Count,
    pub came_in: Count,
    /// Slots that were read, reading ahead included, and written.
    pub read: Count,
    pub written: Count,
    /// Pages that could not be written, and stay in memory.
    pub failed: Count,
}

per_cpu! {
    /// What went to swap and came from it, for /proc.
    pub static SWAP_COUNTS: SwapCounts = SwapCounts {
        went_out: Count::new(), came_in: Count::new(), read: Count::new(), written: Count::new(), failed: Count::new(),
    };
}

struct Store {
    device: Box<dyn SwapDevice>,
    slots: SlotMap,
}

/// The pager of an area's cache.
struct Reader(Arc<Store>);

impl Pager for Reader {
    /// Slots that nobody has taken are not read: reading ahead ends there.
    fn read(&self, first: u64, count: usize, give: &mut dyn FnMut(OwnedFrame)) -> Result<Asked, VmError> {
        let first = u32::try_from(first).map_err(|_| VmError::Invalid)?;
        let taken = (first..).take(count.min(READ_AT_ONCE)).take_while(|slot| self.0.slots.is_taken(*slot));
        let mut pages: ArrayVec<OwnedFrame, READ_AT_ONCE> = ArrayVec::new_const();
        for _ in taken {
            let Some(page) = frame::alloc_dirty() else { break };
            pages.push(page);
        }
        if pages.is_empty() {
            return Err(VmError::NoMemory);
        }
        self.0.device.read(first, &mut pages)?;
        SWAP_COUNTS.this().read.add(pages.len() as u64);
        pages.into_iter().for_each(give);
        Ok(Asked::Read)
    }
}

/// A swap area.
pub struct SwapArea {
    number: AtomicU8,
    priority: i32,
    store: Arc<Store>,
    cache: ObjectRef,
    /// It is to go: no slot of it is taken any more.
    is_closed: AtomicBool,
    rcu: RcuHead,
}

sync::rcu_object!(SwapArea);

static AREAS: [RcuArc<SwapArea>; MAX_AREAS] = [const { RcuArc::empty() }; MAX_AREAS];

/// There was an area once.
static WAS_ON: AtomicBool = AtomicBool::new(false);

/// The area with that number.
fn area(number: u8, rcu: &RcuRead) -> Option<&SwapArea> {
    AREAS.get(usize::from(number))?.load(rcu)
}

impl SwapArea {
    /// Pages go to the first `slots` slots of `device` but number 0 from now on, to those of higher priority first. All memory that the area needs for what it holds is taken here, so a page can go out
    /// when there is none: 13 bytes a slot. May sleep.
    ///
    /// # Errors
    /// `NoMemory`; `Permission`: there are as many areas as there can be; `Invalid`: it has no slot.
    pub fn open(device: Box<dyn SwapDevice>, slots: u32, priority: i32) -> Result<Arc<Self>, VmError> {
        if slots < 2 {
            return Err(VmError::Invalid);
        }
        let store = try_arc(Store { device, slots: SlotMap::try_new(slots)? })?;
        let bytes = u64::from(slots).saturating_mul(crate::PAGE_SIZE as u64);
        let cache = Object::try_owned_paged(1, bytes, try_box(Reader(store.clone()))?, None)?.share();
        cache.make_places(slots.into())?;
        let mut area = try_arc(Self {
            number: AtomicU8::new(0),
            priority,
            store,
            cache,
            is_closed: AtomicBool::new(false),
            rcu: RcuHead::new(),
        })?;
        WAS_ON.store(true, Relaxed);
        for (number, place) in (0u8..).zip(&AREAS) {
            area.number.store(number, Relaxed);
            match place.put_if_empty(area.clone()) {
                Ok(()) => return Ok(area),
                Err(back) => area = back,
            }
        }
        Err(VmError::Permission)
    }

    /// All areas that there are.
    pub fn all() -> impl Iterator<Item = Arc<SwapArea>> {
        AREAS.iter().filter_map(|place| place.get(&rcu::read()))
    }

    pub fn number(&self) -> u8 {
        self.number.load(Relaxed)
    }

    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Slots that can be taken.
    pub fn slots(&self) -> u32 {
        self.store.slots.len().saturating_sub(1)
    }

    /// Slots that are taken.
    pub fn used(&self) -> u32 {
        self.store.slots.taken()
    }

    /// Counts of its slots, added up: those of entries, and of who reads or writes just now.
    pub fn counted(&self) -> u64 {
        self.store.slots.counted()
    }

    /// Pages in its cache.
    pub fn cached(&self) -> u64 {
        self.cache.resident_pages()
    }

    /// Gives pages of the cache back that can be read again, up to `most` or a few more; says how many. The first call after some were read gives back none. May sleep.
    pub fn shed(&self, most: u64) -> u64 {
        self.cache.shed(most)
    }

    /// No page goes to it any more.
    pub fn close(&self) {
        protocol::close(&self.is_closed);
    }

    /// Pages go to it again, where it could not be removed.
    pub fn reopen(&self) {
        self.is_closed.store(false, Relaxed);
    }

    /// Ends the area, which is closed. One caller for an area at a time.
    ///
    /// # Errors
    /// `Busy`: a slot is taken.
    pub fn remove(&self) -> Result<(), VmError> {
        if !self.is_closed.load(Relaxed) || self.used() > 0 {
            return Err(VmError::Busy);
        }
        let place = AREAS.get(usize::from(self.number())).ok_or(VmError::Invalid)?;
        drop(place.take());
        Ok(())
    }

    /// Takes a slot. None: there is none, or the area is to go.
    fn take(&self) -> Option<SlotRef> {
        let slot = self.store.slots.take()?;
        if !protocol::may_keep(&self.is_closed) {
            self.store.slots.free(slot);
            return None;
        }
        Some(SlotRef { area: self.number(), slot })
    }

    /// Writes the pages of `slots`, in ascending order, that are dirty, and gives them up. The caller has a count of each.
    fn write_out(&self, slots: &[u64]) {
        let write = |first: u64, pages: &[Pin]| {
            self.store.device.write(u32::try_from(first).map_err(|_| VmError::Invalid)?, pages)
        };
        let (written, failed) = self.cache.write_out(slots, write);
        SWAP_COUNTS.this().written.add(written);
        SWAP_COUNTS.this().failed.add(failed);
    }
}

/// May a page be in swap?
pub(crate) fn was_on() -> bool {
    WAS_ON.load(Relaxed)
}

/// Is there an area that may have a slot?
pub(crate) fn is_on() -> bool {
    let rcu = rcu::read();
    AREAS.iter().filter_map(|place| place.load(&rcu)).any(|area| !area.is_closed.load(Relaxed))
}

/// Takes up to `most` slots, in one area and beside each other as far as there are such.
pub(crate) fn take_slots(most: usize) -> ArrayVec<SlotRef, AT_ONCE> {
    let mut taken: ArrayVec<SlotRef, AT_ONCE> = ArrayVec::new_const();
    let rcu = rcu::read();
    let open = AREAS.iter().filter_map(|place| place.load(&rcu)).filter(|area| !area.is_closed.load(Relaxed));
    let mut areas: ArrayVec<&SwapArea, MAX_AREAS> = open.collect();
    areas.sort_unstable_by_key(|area| core::cmp::Reverse(area.priority));
    for area in areas {
        while taken.len() < most.min(AT_ONCE) {
            match area.take() {
                Some(slot) => taken.push(slot),
                None => break,
            }
        }
    }
    taken
}

/// Writes the pages of `slots` and gives them up. May sleep; no lock is held.
pub(crate) fn write_out(slots: &[SlotRef]) {
    for run in slots.chunk_by(|a, b| a.area == b.area) {
        let Some(first) = run.first() else { continue };
        let Some(area) = first.area() else { continue };
        let mut numbers: ArrayVec<u64, AT_ONCE> =
            run.iter().take(AT_ONCE).map(|slot| slot.slot.into()).collect();
        numbers.sort_unstable();
        area.write_out(&numbers);
    }
}

/// One count of a slot. Dropped, it is given back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the count is given back"]
pub struct SlotRef {
    area: u8,
    slot: u32,
}

impl SlotRef {
    /// The count that came out of an entry in swap.
    pub(crate) fn of_entry(place: SwapPlace) -> Self {
        Self { area: place.area, slot: place.slot }
    }

    /// The entry that has this count.
    pub(crate) fn into_entry(self) -> Entry {
        let entry = self.entry();
        core::mem::forget(self);
        entry
    }

    /// What an entry says that has a count of this slot.
    pub(crate) fn entry(&self) -> Entry {
        Entry::in_swap(self.place())
    }

    fn place(&self) -> SwapPlace {
        SwapPlace { area: self.area, slot: self.slot }
    }

    /// One more count of the slot of an entry, whose leaf is locked: for a copy of the leaf.
    pub(crate) fn share(place: SwapPlace) -> Self {
        with_count(place, protocol::share);
        Self::of_entry(place)
    }

    /// The same, for who reads the page.
    pub(crate) fn hold(place: SwapPlace) -> Self {
        with_count(place, |count| _ = protocol::hold(count));
        Self::of_entry(place)
    }

    /// One more count, for who has one.
    pub(crate) fn another(&self) -> Self {
        Self::share(self.place())
    }

    /// Puts the page in, of a slot that was just taken.
    pub(crate) fn fill(&self, page: OwnedFrame) {
        if let Some(area) = area(self.area, &rcu::read()) {
            area.cache.put_over(self.slot.into(), page);
        }
    }

    fn area(&self) -> Option<Arc<SwapArea>> {
        AREAS.get(usize::from(self.area))?.get(&rcu::read())
    }

    /// Reads the slot's page into the cache, if it is not there. May sleep.
    ///
    /// # Errors
    /// Those of [`Self::read_into`].
    pub(crate) fn bring_in(&self) -> Result<(), FaultError> {
        let area = self.area().ok_or(FaultError::Bus)?;
        if area.cache.frame(self.slot.into()).is_some() { Ok(()) } else { area.cache.fill(self.slot.into()) }
    }

    /// Copies the slot's page into `to`; reads it first if need be. May sleep.
    ///
    /// # Errors
    /// `Bus`: it cannot be read. `NoMemory`, `NoneBound`.
    pub(crate) fn read_into(&self, to: &mut OwnedFrame) -> Result<(), FaultError> {
        loop {
            {
                let rcu = rcu::read();
                let cached = area(self.area, &rcu).and_then(|area| area.cache.frame(self.slot.into()));
                if let Some(page) = cached {
                    pin::copy(page, to, &rcu);
                    return Ok(());
                }
            }
            self.bring_in()?;
        }
    }
}

/// Is the page of an entry in swap in memory, in its area's cache? Whoever asks within an RCU section may find another's.
pub(crate) fn is_cached(place: SwapPlace) -> bool {
    area(place.area, &rcu::read()).is_some_and(|area| area.cache.frame(place.slot.into()).is_some())
}

/// Counts of the slot of an entry, whose leaf is locked.
pub(crate) fn count_of(place: SwapPlace) -> u32 {
    let mut counted = 0;
    with_count(place, |count| counted = count.count());
    counted
}

fn with_count(place: SwapPlace, f: impl FnOnce(&crate::protocol::refs::Refs)) {
    let rcu = rcu::read();
    let count = area(place.area, &rcu).and_then(|area| area.store.slots.count(place.slot));
    debug_assert!(count.is_some(), "an entry in swap names no area");
    if let Some(count) = count {
        f(count);
    }
}

impl Drop for SlotRef {
    fn drop(&mut self) {
        let rcu = rcu::read();
        let Some(area) = area(self.area, &rcu) else { return };
        let slots = &area.store.slots;
        if let Some(count) = slots.count(self.slot) {
            protocol::put(count, || area.cache.drop_page(self.slot.into()), || slots.free(self.slot));
        }
    }
}
