//! The pages of an object: a radix array of slots, read without a lock.
//!
//! Tables are added and never removed while the object lives, so reading needs neither lock nor RCU. There is one tree per
//! order of magnitude instead of one that grows: a file of up to 64 pages has one table of 512 bytes.
//!
//! A slot (protocol/evict.rs) is *nothing*, a *frame*, or a *tagged* frame: one that is being taken away (truncate.rs). The object holds one
//! reference to the frame of a slot.
//!
//! A low room: a slot's reference is a bit in a word.

use super::shed::Gone;
use crate::addr::PhysAddr;
use crate::error::VmError;
use crate::frame::{Evicted, Frame, OwnedFrame, Pin, SharedBytesMut};
use crate::node::Locked;
use crate::once::OnceBox;
use crate::protocol::evict;
use sync::heap::SlabType;
use sync::rcu::{RcuHead, RcuRead};
use sync::slab_box;

const BITS: u32 = 6;
const WIDTH: usize = 1 << BITS;
/// Pages that an object can have: as many as a file's size, a signed number of 64 bits, can tell of.
pub const MAX_PAGES: u64 = 1 << 51;

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

    /// The page's bytes, unless it is being taken away: they are there as long as the section lasts.
    #[inline]
    pub fn bytes<'r>(&self, _rcu: &'r RcuRead) -> Option<SharedBytesMut<'r>> {
        // SAFETY: the slot's reference is dropped a grace period after the slot was emptied, so not within this section. Nobody makes a reference to
        // the bytes of a page of an object's.
        self.frame().map(|frame| unsafe { frame.shared_bytes() })
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

    /// As `put`, of a page that is dirty.
    pub fn put_dirty(&self, frame: OwnedFrame) -> Result<(), OwnedFrame> {
        if self.0.put_dirty(frame.addr()) {
            frame.into_frame();
            Ok(())
        } else {
            Err(frame)
        }
    }

    /// Nobody maps the frame from here on. None: the slot is empty or tagged, or has marks that may not be `lost`. Else: was it dirty?
    pub fn tag(&self, lost: bool) -> Option<bool> {
        self.0.tag(lost)
    }

    /// The marks (protocol/evict.rs).
    #[inline]
    pub fn marks(&self) -> &evict::Slot {
        &self.0
    }

    /// Holds the page, and pins it, so that bytes may be copied into it. None: there is none that can be held now.
    pub fn hold(&self) -> Option<Held<'_>> {
        let _rcu = sync::rcu::read();
        let frame = self.0.hold()?;
        // SAFETY: what is in a slot is a frame's address, and the slot's reference is dropped a grace period after it was emptied.
        let pin = unsafe { Pin::new(Frame::of(frame)) };
        Some(Held { slot: &self.0, frame, pin, is_ended: false })
    }

    /// Begins to clean the page, which is pinned. None: it is not dirty.
    pub fn begin_clean(&self) -> Option<(PhysAddr, Pin)> {
        let _rcu = sync::rcu::read();
        let frame = self.0.begin_clean()?;
        // SAFETY: as above.
        Some((frame, unsafe { Pin::new(Frame::of(frame)) }))
    }

    /// Where the frame lies that is being taken away.
    pub fn tagged(&self) -> Option<PhysAddr> {
        self.0.tagged()
    }

    /// Is there a frame, though it may be on its way to another place, or away?
    pub fn holds(&self) -> bool {
        self.frame().is_some() || self.tagged().is_some()
    }

    /// The frame of a tagged slot stays after all.
    pub fn untag(&self) {
        self.0.untag();
    }

    /// Puts `new` in the place of a tagged frame, which goes when what is returned is dropped. None, and `new` is given back: the slot is not tagged.
    ///
    /// # Safety
    /// That of [`Self::take_tagged`].
    pub unsafe fn exchange_tagged(&self, new: OwnedFrame) -> Option<Evicted> {
        let old = self.0.exchange_tagged(new.addr())?;
        // The one reference is the slot's now.
        new.into_frame();
        // SAFETY: the slot's reference, which went with the exchange; the rest is the caller's promise.
        Some(unsafe { Evicted::new(Frame::of(old)) })
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

/// A page that is held: who shares the object's pages away passes it by.
pub struct Held<'s> {
    slot: &'s evict::Slot,
    frame: PhysAddr,
    /// Its bytes.
    pub pin: Pin,
    is_ended: bool,
}

impl Held<'_> {
    /// Lets the page go, with bytes copied into it. Says whether it was clean until now.
    pub fn end_dirty(mut self) -> bool {
        self.is_ended = true;
        self.slot.let_go(self.frame, true).unwrap_or(false)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.slot.let_go(self.frame, false);
        }
    }
}

pub(super) trait Tree: SlabType {
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
    /// Takes the tree apart from its start on, as far as `left` tables; what frames it had comes to `f`. True: it is empty. Nobody looks at it any more.
    fn shed(&mut self, left: &mut usize, f: &mut dyn FnMut(Evicted)) -> bool;
}

pub(super) struct Last([Slot; WIDTH]);

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

    fn shed(&mut self, left: &mut usize, f: &mut dyn FnMut(Evicted)) -> bool {
        for slot in self.0.iter().filter(|slot| slot.tag(true).is_some()) {
            // SAFETY: nobody looks at the tree, so no leaf maps anything of it.
            unsafe { slot.take_tagged() }.into_iter().for_each(&mut *f);
        }
        *left = left.saturating_sub(1);
        true
    }
}

pub(super) struct Upper<T>([OnceBox<T>; WIDTH]);

crate::slab_type!(Upper<Last>, "object-tree-1", Box);
crate::slab_type!(Upper<Upper<Last>>, "object-tree-2", Box);
crate::slab_type!(Upper<Upper<Upper<Last>>>, "object-tree-3", Box);
crate::slab_type!(Upper<Upper<Upper<Upper<Last>>>>, "object-tree-4", Box);
crate::slab_type!(Upper<Upper<Upper<Upper<Upper<Last>>>>>, "object-tree-5", Box);
crate::slab_type!(Upper<L5>, "object-tree-6", Box);
crate::slab_type!(Upper<L6>, "object-tree-7", Box);
crate::slab_type!(Upper<L7>, "object-tree-8", Box);

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

    fn shed(&mut self, left: &mut usize, f: &mut dyn FnMut(Evicted)) -> bool {
        for place in &mut self.0 {
            let Some(tree) = place.get_mut() else { continue };
            if *left == 0 || !tree.shed(left, f) {
                return false;
            }
            drop(place.take());
        }
        *left = left.saturating_sub(1);
        true
    }
}

type L1 = Upper<Last>;
type L2 = Upper<L1>;
type L3 = Upper<L2>;
type L4 = Upper<L3>;
type L5 = Upper<L4>;
type L6 = Upper<L5>;
type L7 = Upper<L6>;
type L8 = Upper<L7>;

/// All slots of an object.
pub struct Slots {
    pub(super) t0: OnceBox<Last>,
    pub(super) t1: OnceBox<L1>,
    pub(super) large: OnceBox<Large>,
}

/// The trees for pages that small objects have not.
pub(super) struct Large {
    pub t2: OnceBox<L2>,
    pub t3: OnceBox<L3>,
    pub t4: OnceBox<L4>,
    pub t5: OnceBox<L5>,
    pub t6: OnceBox<L6>,
    pub t7: OnceBox<L7>,
    pub t8: OnceBox<L8>,
    /// Where the object is gone and the trees are taken apart.
    pub gone: Option<Gone>,
    pub rcu: RcuHead,
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

impl Slots {
    pub const fn new() -> Self {
        Self { t0: OnceBox::new(), t1: OnceBox::new(), large: OnceBox::new() }
    }

    /// The slot of `page`, if it has a place.
    #[inline]
    pub fn get(&self, page: u64) -> Option<&Slot> {
        match page.checked_ilog2().map_or(0, |l| l / BITS) {
            0 => self.t0.get()?.get(page),
            1 => self.t1.get()?.get(page),
            2 => self.large.get()?.t2.get()?.get(page),
            3 => self.large.get()?.t3.get()?.get(page),
            4 => self.large.get()?.t4.get()?.get(page),
            5 => self.large.get()?.t5.get()?.get(page),
            6 => self.large.get()?.t6.get()?.get(page),
            7 => self.large.get()?.t7.get()?.get(page),
            8 => self.large.get()?.t8.get()?.get(page),
            _ => None,
        }
    }

    /// The slots from that of `page` to the end of its last-level table ([`run_len`] of them), if they have a place.
    #[inline]
    pub fn run(&self, page: u64) -> Option<&[Slot]> {
        let last = match page.checked_ilog2().map_or(0, |l| l / BITS) {
            0 => self.t0.get()?.last(page),
            1 => self.t1.get()?.last(page),
            2 => self.large.get()?.t2.get()?.last(page),
            3 => self.large.get()?.t3.get()?.last(page),
            4 => self.large.get()?.t4.get()?.last(page),
            5 => self.large.get()?.t5.get()?.last(page),
            6 => self.large.get()?.t6.get()?.last(page),
            7 => self.large.get()?.t7.get()?.last(page),
            8 => self.large.get()?.t8.get()?.last(page),
            _ => None,
        };
        last?.0.get(page as usize % WIDTH..)
    }

    /// The end of the part without a place in which `page`, which is below [`MAX_PAGES`], lies; `page` itself if that has one.
    pub fn absent_until(&self, page: u64) -> u64 {
        let end = match page.checked_ilog2().map_or(0, |l| l / BITS) {
            0 => absent_in(&self.t0, page),
            1 => absent_in(&self.t1, page),
            2 => self.large.get().map_or(MAX_PAGES, |large| absent_in(&large.t2, page)),
            3 => self.large.get().map_or(MAX_PAGES, |large| absent_in(&large.t3, page)),
            4 => self.large.get().map_or(MAX_PAGES, |large| absent_in(&large.t4, page)),
            5 => self.large.get().map_or(MAX_PAGES, |large| absent_in(&large.t5, page)),
            6 => self.large.get().map_or(MAX_PAGES, |large| absent_in(&large.t6, page)),
            7 => self.large.get().map_or(MAX_PAGES, |large| absent_in(&large.t7, page)),
            8 => self.large.get().map_or(MAX_PAGES, |large| absent_in(&large.t8, page)),
            _ => MAX_PAGES,
        };
        // The last tree has places for more.
        end.min(MAX_PAGES)
    }

    /// The slot of `page`, which is below [`MAX_PAGES`]. `count` is asked before each table that is made for it, but for the one that an object of
    /// up to 64 pages has.
    pub fn make(&self, page: u64, count: &dyn Fn() -> Result<(), VmError>) -> Result<&Slot, VmError> {
        match page.checked_ilog2().map_or(0, |l| l / BITS) {
            0 => make_in(&self.t0, page, &|| Ok(())),
            1 => make_in(&self.t1, page, count),
            2 => make_in(&self.large()?.t2, page, count),
            3 => make_in(&self.large()?.t3, page, count),
            4 => make_in(&self.large()?.t4, page, count),
            5 => make_in(&self.large()?.t5, page, count),
            6 => make_in(&self.large()?.t6, page, count),
            7 => make_in(&self.large()?.t7, page, count),
            8 => make_in(&self.large()?.t8, page, count),
            _ => Err(VmError::Overflow),
        }
    }

    fn large(&self) -> Result<&Large, VmError> {
        Ok(self.large.get_or_try(|| {
            sync::try_box(Large {
                t2: OnceBox::new(),
                t3: OnceBox::new(),
                t4: OnceBox::new(),
                t5: OnceBox::new(),
                t6: OnceBox::new(),
                t7: OnceBox::new(),
                t8: OnceBox::new(),
                gone: None,
                rcu: RcuHead::new(),
            })
        })?)
    }
}

impl Default for Slots {
    fn default() -> Self {
        Self::new()
    }
}
