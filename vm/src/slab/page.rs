//! A slab: a page, or a block of pages, cut into objects of one cache. Its header lies in the metadata of its frames.
//!
//! | where | holds | of which frames |
//! |---|---|---|
//! | word 0 | first free object (address; 0: none); free objects link through their first word | the first |
//! | word 1 | objects free in the slab | the first |
//! | words 2, 3 | next and previous slab on the owner's list (address of the frame's metadata; 0: none) | the first |
//! | word 4 | the cache | all |
//! | word 5 | the owner's [`OwnSlabs`] of the cache | all |
//! | flags | the owner, a CPU | all |
//!
//! Only the owner writes it, and words 4, 5 and the flags only before an object is handed out. So whoever has an object may read those.

use super::cache::Cache;
use super::own::OwnSlabs;
use crate::addr::PAGE_SIZE;
use crate::frame::{self, Frame, FrameKind};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use sync::machine::{self, CpuId};

const FIRST: usize = 0;
const FREE: usize = 1;
const NEXT: usize = 2;
const PREVIOUS: usize = 3;
const CACHE: usize = 4;
const OWNER: usize = 5;

const _: () = assert!(machine::MAX_CPUS <= 256, "the owner of a slab is kept in eight bits");

/// A page of a slab.
#[derive(Clone, Copy)]
pub(super) struct Page(&'static Frame);

/// The first page of a slab.
#[derive(Clone, Copy)]
pub(super) struct Slab(&'static Frame);

impl Page {
    /// The page that holds `object`, an object of some cache.
    #[inline(always)]
    pub(super) fn of(object: *mut u8) -> Self {
        Page(Frame::of_direct(object as usize))
    }

    /// The CPU that the slab belongs to.
    #[inline(always)]
    pub(super) fn owner(self) -> CpuId {
        CpuId::from(self.0.flags().load(Relaxed))
    }

    #[inline(always)]
    pub(super) fn cache(self) -> &'static Cache {
        // SAFETY: set by `Slab::make`, before any object was handed out, to a static.
        unsafe { &*(self.0.words()[CACHE].load(Relaxed) as *const Cache) }
    }

    /// The owner's slabs and magazine of the cache.
    #[inline(always)]
    pub(super) fn own(self) -> &'static OwnSlabs {
        // SAFETY: as above; per-CPU data lives for ever.
        unsafe { &*(self.0.words()[OWNER].load(Relaxed) as *const OwnSlabs) }
    }

    /// The slab, whose pages are `1 << order`. Slabs are aligned to their size.
    pub(super) fn slab(self, order: usize) -> Slab {
        Slab(Frame::of(crate::PhysAddr(self.0.addr().0 & !((PAGE_SIZE as u64) << order).wrapping_sub(1))))
    }
}

impl Slab {
    /// Cuts new pages into objects, all of them free. They are this CPU's. None: no memory.
    pub(super) fn make(cache: &'static Cache, own: &'static OwnSlabs) -> Option<Self> {
        let frame = if cache.order() == 0 {
            frame::alloc_dirty()?.into_frame()
        } else {
            Frame::of(frame::alloc_contiguous(cache.order(), machine::node_of(machine::cpu_id()))?)
        };
        let slab = Slab(frame);
        for page in slab.pages(cache.order()) {
            page.set_kind(FrameKind::Slab);
            page.flags().store(machine::cpu_id() as u8, Relaxed);
            page.words()[CACHE].store(ptr::from_ref(cache).expose_provenance() as u64, Relaxed);
            page.words()[OWNER].store(ptr::from_ref(own).expose_provenance() as u64, Relaxed);
        }
        let start = frame.bytes_ptr() as usize;
        let mut next = 0;
        for n in (0..cache.per_slab()).rev() {
            let object = start + n * cache.size();
            // SAFETY: within the slab's pages, which are ours.
            unsafe { *(object as *mut usize) = next };
            next = object;
        }
        frame.words()[FIRST].store(next as u64, Relaxed);
        frame.words()[FREE].store(cache.per_slab() as u64, Relaxed);
        Some(slab)
    }

    /// Gives the pages back.
    ///
    /// # Safety
    /// Every object of the slab is free, and it is on no list.
    pub(super) unsafe fn drop_pages(self, order: usize) {
        if order == 0 {
            // SAFETY: `make` took this one frame; nothing refers to it now.
            return drop(unsafe { frame::OwnedFrame::from_frame(self.0) });
        }
        // What of a block is not its first frame counts as free all the time.
        self.pages(order).skip(1).for_each(Frame::mark_free);
        // SAFETY: as above, with the order that it was taken with.
        unsafe { frame::free_contiguous(self.0.addr(), order) };
    }

    fn pages(self, order: usize) -> impl Iterator<Item = &'static Frame> {
        (0..1u64 << order).map(move |n| Frame::of(crate::PhysAddr(self.0.addr().0 + n * PAGE_SIZE as u64)))
    }

    pub(super) fn free_objects(self) -> usize {
        self.0.words()[FREE].load(Relaxed) as usize
    }

    /// Takes free objects into `out`, as many as there are and fit; says how many.
    pub(super) fn take(self, out: &mut [usize]) -> usize {
        let words = self.0.words();
        let taken = out.len().min(self.free_objects());
        let mut object = words[FIRST].load(Relaxed) as usize;
        for place in &mut out[..taken] {
            *place = object;
            // SAFETY: a free object of this slab, whose first word is the link.
            object = unsafe { *(object as *const usize) };
        }
        words[FIRST].store(object as u64, Relaxed);
        words[FREE].store((self.free_objects() - taken) as u64, Relaxed);
        taken
    }

    /// Puts an object back; says how many are free now.
    ///
    /// # Safety
    /// The object is of this slab, and nobody uses it.
    pub(super) unsafe fn put(self, object: usize) -> usize {
        let words = self.0.words();
        // SAFETY: free, ours, and at least a word long.
        unsafe { *(object as *mut usize) = words[FIRST].load(Relaxed) as usize };
        words[FIRST].store(object as u64, Relaxed);
        let free = self.free_objects() + 1;
        words[FREE].store(free as u64, Relaxed);
        free
    }
}

/// A list of slabs of one CPU, linked through their headers.
pub(super) struct List {
    head: usize,
}

impl List {
    pub(super) const EMPTY: Self = List { head: 0 };

    pub(super) fn first(&self) -> Option<Slab> {
        Self::at(self.head)
    }

    /// The slab behind `slab`.
    pub(super) fn after(&self, slab: Slab) -> Option<Slab> {
        Self::at(slab.0.words()[NEXT].load(Relaxed) as usize)
    }

    fn at(address: usize) -> Option<Slab> {
        // SAFETY: a list's addresses are those of frames' metadata, which live for ever.
        unsafe { (address as *const Frame).as_ref() }.map(Slab)
    }

    pub(super) fn push(&mut self, slab: Slab) {
        let this = ptr::from_ref(slab.0) as u64;
        slab.0.words()[NEXT].store(self.head as u64, Relaxed);
        slab.0.words()[PREVIOUS].store(0, Relaxed);
        if let Some(second) = self.first() {
            second.0.words()[PREVIOUS].store(this, Relaxed);
        }
        self.head = this as usize;
    }

    pub(super) fn remove(&mut self, slab: Slab) {
        let next = slab.0.words()[NEXT].load(Relaxed);
        let previous = slab.0.words()[PREVIOUS].load(Relaxed);
        match Self::at(previous as usize) {
            None => self.head = next as usize,
            Some(before) => before.0.words()[NEXT].store(next, Relaxed),
        }
        if let Some(behind) = Self::at(next as usize) {
            behind.0.words()[PREVIOUS].store(previous, Relaxed);
        }
    }
}
