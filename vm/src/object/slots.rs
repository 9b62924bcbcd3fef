//! The pages of an object: a radix array of slots, read without a lock.
//!
//! Tables are added and never removed while the object lives, so reading needs neither lock nor RCU. There is one tree per
//! order of magnitude instead of one that grows: a file of up to 64 pages has one table of 512 bytes.
//!
//! A slot (protocol/evict.rs) is *nothing*, a *frame*, or a *tagged* frame: one that is being taken away (truncate.rs). The object holds one
//! reference to the frame of a slot.
//!
//! A low room: a slot's reference is a bit in a word.

use crate::addr::PhysAddr;
use crate::error::VmError;
use crate::frame::{Evicted, Frame, OwnedFrame, Pin};
use crate::node::Locked;
use crate::once::OnceBox;
use crate::protocol::evict;
use sync::heap::SlabType;
use sync::rcu::RcuRead;
use sync::slab_box;

const BITS: u32 = 6;
const WIDTH: usize = 1 << BITS;
/// Pages that an object can have: 256 TiB.
pub const MAX_PAGES: u64 = 1 << (6 * BITS);

/// Slots from that of `page` to the end of its last-level table.
#[expect(clippy::arithmetic_side_effects, reason = "a remainder is below WIDTH")]
pub fn run_len(page: u64) -> usize {
    WIDTH - page as usize % WIDTH
}

/// One slot.
pub struct Slot(evict::Slot);

impl Slot {
    /// The frame, unless it is being taken away: for as long as an RCU section lasts.
    #[inline]
    pub fn frame(&self) -> Option<&'static Frame> {
        // SAFETY: what is in a slot is a frame's address.
        self.0.frame().map(|frame| unsafe { Frame::of(frame) })
    }

    /// Where the frame lies, for a leaf that is locked and shall map it or a copy of it, or does (ReadSlotUnderLeaf).
    #[inline]
    pub fn frame_for(&self, leaf: &Locked<'_>) -> Option<PhysAddr> {
        self.0.frame_for(leaf)
    }

    /// A reference to the frame, unless it is being taken away.
    #[inline]
    pub fn pin(&self, _rcu: &RcuRead) -> Option<Pin> {
        // SAFETY: the slot's reference is dropped a grace period after the slot was emptied, so not within this section.
        self.frame().map(|frame| unsafe { Pin::new(frame) })
    }

    /// Puts a frame into an empty slot, or gives it back if the slot is not empty.
    pub fn put(&self, frame: OwnedFrame) -> Result<(), OwnedFrame> {
        if self.0.put(frame.addr()) {
            // The one reference is the slot's now.
            frame.into_frame();
            Ok(())
        } else {
            Err(frame)
        }
    }

    /// Nobody maps the frame from here on. False: the slot is empty or tagged.
    pub fn tag(&self) -> bool {
        self.0.tag()
    }

    /// Where the frame lies that is being taken away.
    pub fn tagged(&self) -> Option<PhysAddr> {
        self.0.tagged()
    }

    /// Empties a tagged slot.
    ///
    /// # Safety
    /// Since it was tagged, all leaves on the object's lists have been visited, and all CPUs have flushed that could use what was found there.
    pub unsafe fn take_tagged(&self) -> Option<Evicted> {
        // SAFETY: the slot's reference, which went with the exchange; the rest is the caller's promise.
        self.0.take_tagged().map(|frame| unsafe { Evicted::new(Frame::of(frame)) })
    }
}

trait Tree: SlabType {
    /// log2 of the pages covered.
    const SPAN: u32;
    fn empty() -> Self;
    fn get(&self, page: u64) -> Option<&Slot> {
        self.last(page)?.0.get(page as usize % WIDTH)
    }
    /// The last-level table of `page`.
    fn last(&self, page: u64) -> Option<&Last>;
    /// The slot of `page`. `count` is asked before each table that is made for it.
    fn make(&self, page: u64, count: &dyn Fn() -> Result<(), VmError>) -> Result<&Slot, VmError>;
    /// Where the part of the tree without a place ends in which `page` lies; `page` itself if that has a place. Pages are counted as for `each`.
    fn absent_until(&self, page: u64) -> u64;
    /// Calls `f` for each slot of `first..end` that has a place; pages are counted from the tree's start.
    fn each(&self, first: u64, end: u64, base: u64, f: &mut dyn FnMut(u64, &Slot));
}

struct Last([Slot; WIDTH]);

crate::slab_type!(Last, "object-slots", Box);

impl Tree for Last {
    const SPAN: u32 = BITS;

    fn empty() -> Self {
        Self([const { Slot(evict::Slot::new()) }; WIDTH])
    }

    #[inline]
    fn last(&self, _page: u64) -> Option<&Last> {
        Some(self)
    }

    fn make(&self, page: u64, _: &dyn Fn() -> Result<(), VmError>) -> Result<&Slot, VmError> {
        self.0.get(page as usize % WIDTH).ok_or(VmError::NoMemory)
    }

    fn absent_until(&self, page: u64) -> u64 {
        page
    }

    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    fn each(&self, first: u64, end: u64, base: u64, f: &mut dyn FnMut(u64, &Slot)) {
        for (i, slot) in self.0.iter().enumerate().take(end as usize).skip(first as usize) {
            f(base + i as u64, slot);
        }
    }
}

struct Upper<T>([OnceBox<T>; WIDTH]);

crate::slab_type!(Upper<Last>, "object-tree-1", Box);
crate::slab_type!(Upper<Upper<Last>>, "object-tree-2", Box);
crate::slab_type!(Upper<Upper<Upper<Last>>>, "object-tree-3", Box);
crate::slab_type!(Upper<Upper<Upper<Upper<Last>>>>, "object-tree-4", Box);
crate::slab_type!(Upper<Upper<Upper<Upper<Upper<Last>>>>>, "object-tree-5", Box);

impl<T: Tree> Tree for Upper<T>
where
    Upper<T>: SlabType,
{
    const SPAN: u32 = T::SPAN + BITS;

    fn empty() -> Self {
        Self([const { OnceBox::new() }; WIDTH])
    }

    #[inline]
    fn last(&self, page: u64) -> Option<&Last> {
        self.0.get((page >> T::SPAN) as usize % WIDTH)?.get()?.last(page)
    }

    fn make(&self, page: u64, count: &dyn Fn() -> Result<(), VmError>) -> Result<&Slot, VmError> {
        let place = self.0.get((page >> T::SPAN) as usize % WIDTH).ok_or(VmError::NoMemory)?;
        table(place, count)?.make(page, count)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    fn absent_until(&self, page: u64) -> u64 {
        let span = 1u64 << T::SPAN;
        match self.0.get((page / span) as usize % WIDTH).and_then(OnceBox::get) {
            Some(tree) => page - page % span + tree.absent_until(page % span),
            None => (page / span + 1) * span,
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "pages of a file are below 2^51")]
    fn each(&self, first: u64, end: u64, base: u64, f: &mut dyn FnMut(u64, &Slot)) {
        let span = 1u64 << T::SPAN;
        let (low, high) = ((first >> T::SPAN) as usize, end.div_ceil(span) as usize);
        for (i, place) in self.0.iter().enumerate().take(high).skip(low) {
            let start = i as u64 * span;
            if let Some(tree) = place.get() {
                tree.each(first.saturating_sub(start), (end - start).min(span), base + start, f);
            }
        }
    }
}

type L1 = Upper<Last>;
type L2 = Upper<L1>;
type L3 = Upper<L2>;
type L4 = Upper<L3>;
type L5 = Upper<L4>;

/// All slots of an object.
pub struct Slots {
    t0: OnceBox<Last>,
    t1: OnceBox<L1>,
    t2: OnceBox<L2>,
    t3: OnceBox<L3>,
    t4: OnceBox<L4>,
    t5: OnceBox<L5>,
}

/// What is in `place`, made if there is nothing.
fn table<'a, T: Tree>(
    place: &'a OnceBox<T>,
    count: &dyn Fn() -> Result<(), VmError>,
) -> Result<&'a T, VmError> {
    place.get_or_try(|| {
        count()?;
        Ok(slab_box(T::empty())?)
    })
}

fn make_in<'a, T: Tree>(
    root: &'a OnceBox<T>,
    page: u64,
    count: &dyn Fn() -> Result<(), VmError>,
) -> Result<&'a Slot, VmError> {
    table(root, count)?.make(page, count)
}

fn absent_in<T: Tree>(root: &OnceBox<T>, page: u64) -> u64 {
    root.get().map_or(1 << T::SPAN, |tree| tree.absent_until(page))
}

fn each_in<T: Tree>(root: &OnceBox<T>, first: u64, end: u64, f: &mut dyn FnMut(u64, &Slot)) {
    // The tree holds the pages from a 64th of its span on; the first one, from 0.
    let (low, high) = (first, end.min(1 << T::SPAN));
    if let Some(tree) = root.get().filter(|_| low < high) {
        tree.each(low, high, 0, f);
    }
}

impl Slots {
    pub const fn new() -> Self {
        Self {
            t0: OnceBox::new(),
            t1: OnceBox::new(),
            t2: OnceBox::new(),
            t3: OnceBox::new(),
            t4: OnceBox::new(),
            t5: OnceBox::new(),
        }
    }

    /// The slot of `page`, if it has a place.
    #[inline]
    pub fn get(&self, page: u64) -> Option<&Slot> {
        match page.checked_ilog2().map_or(0, |l| l / BITS) {
            0 => self.t0.get()?.get(page),
            1 => self.t1.get()?.get(page),
            2 => self.t2.get()?.get(page),
            3 => self.t3.get()?.get(page),
            4 => self.t4.get()?.get(page),
            5 => self.t5.get()?.get(page),
            _ => None,
        }
    }

    /// The slots from that of `page` to the end of its last-level table ([`run_len`] of them), if they have a place.
    #[inline]
    pub fn run(&self, page: u64) -> Option<&[Slot]> {
        let last = match page.checked_ilog2().map_or(0, |l| l / BITS) {
            0 => self.t0.get()?.last(page),
            1 => self.t1.get()?.last(page),
            2 => self.t2.get()?.last(page),
            3 => self.t3.get()?.last(page),
            4 => self.t4.get()?.last(page),
            5 => self.t5.get()?.last(page),
            _ => None,
        };
        last?.0.get(page as usize % WIDTH..)
    }

    /// The end of the part without a place in which `page` lies; `page` itself if that has one.
    pub fn absent_until(&self, page: u64) -> u64 {
        match page.checked_ilog2().map_or(0, |l| l / BITS) {
            0 => absent_in(&self.t0, page),
            1 => absent_in(&self.t1, page),
            2 => absent_in(&self.t2, page),
            3 => absent_in(&self.t3, page),
            4 => absent_in(&self.t4, page),
            5 => absent_in(&self.t5, page),
            _ => u64::MAX,
        }
    }

    /// The slot of `page`, which is below [`MAX_PAGES`]. `count` is asked before each table that is made for it, but for the one that an object of
    /// up to 64 pages has.
    pub fn make(&self, page: u64, count: &dyn Fn() -> Result<(), VmError>) -> Result<&Slot, VmError> {
        match page.checked_ilog2().map_or(0, |l| l / BITS) {
            0 => make_in(&self.t0, page, &|| Ok(())),
            1 => make_in(&self.t1, page, count),
            2 => make_in(&self.t2, page, count),
            3 => make_in(&self.t3, page, count),
            4 => make_in(&self.t4, page, count),
            5 => make_in(&self.t5, page, count),
            _ => Err(VmError::Overflow),
        }
    }

    /// Calls `f` with the slots of `first..end` that have a place.
    pub fn each(&self, first: u64, end: u64, f: &mut dyn FnMut(u64, &Slot)) {
        each_in(&self.t0, first, end, f);
        each_in(&self.t1, first, end, f);
        each_in(&self.t2, first, end, f);
        each_in(&self.t3, first, end, f);
        each_in(&self.t4, first, end, f);
        each_in(&self.t5, first, end, f);
    }
}

impl Default for Slots {
    fn default() -> Self {
        Self::new()
    }
}
