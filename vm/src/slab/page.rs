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
use crate::frame::{self, Frame, FrameKind, poison};
use core::ptr;
use core::sync::atomic::AtomicU64;
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
    /// The page that holds `object`.
    ///
    /// # Safety
    /// `object` came from [`Cache::alloc`], and its slab has not been given back.
    #[inline(always)]
    pub(super) unsafe fn of(object: *mut u8) -> Self {
        // SAFETY: a slab's pages are the allocator's.
        Page(unsafe { Frame::of_direct(object as usize) })
    }

    /// The header's words.
    #[inline(always)]
    fn words(self) -> &'static [AtomicU64; 6] {
        // SAFETY: the page is a slab's, as who made this value promised, and this file alone writes them.
        unsafe { self.0.words() }
    }

    /// The CPU that the slab belongs to.
    #[inline(always)]
    pub(super) fn owner(self) -> CpuId {
        // SAFETY: as in `words`.
        CpuId::from(unsafe { self.0.flags() }.load(Relaxed))
    }

    #[inline(always)]
    pub(super) fn cache(self) -> &'static Cache {
        // SAFETY: set by `Slab::make`, before any object was handed out, to a static.
        unsafe { &*(self.words()[CACHE].load(Relaxed) as *const Cache) }
    }

    /// The owner's slabs and magazine of the cache.
    #[inline(always)]
    pub(super) fn own(self) -> &'static OwnSlabs {
        // SAFETY: as above; per-CPU data lives for ever.
        unsafe { &*(self.words()[OWNER].load(Relaxed) as *const OwnSlabs) }
    }

    /// The slab, whose pages are `1 << order`. Slabs are aligned to their size.
    pub(super) fn slab(self, order: usize) -> Slab {
        let first = crate::PhysAddr(self.0.addr().0 & !((PAGE_SIZE as u64) << order).wrapping_sub(1));
        // SAFETY: a page of the same slab.
        Slab(unsafe { Frame::of(first) })
    }
}

impl Slab {
    /// Cuts new pages into objects, all of them free. They are this CPU's. None: no memory.
    pub(super) fn make(cache: &'static Cache, own: &'static OwnSlabs) -> Option<Self> {
        let frame = if cache.order() == 0 {
            frame::alloc_dirty()?.into_frame()
        } else {
            let start = frame::alloc_contiguous(cache.order(), machine::node_of(machine::cpu_id()))?;
            // SAFETY: an address from the allocator.
            unsafe { Frame::of(start) }
        };
        let slab = Slab(frame);
        for page in slab.pages(cache.order()) {
            page.set_kind(FrameKind::Slab);
            // SAFETY: pages of the new slab, which are ours.
            let (flags, words) = unsafe { (page.flags(), page.words()) };
            flags.store(machine::cpu_id() as u8, Relaxed);
            words[CACHE].store(ptr::from_ref(cache).expose_provenance() as u64, Relaxed);
            words[OWNER].store(ptr::from_ref(own).expose_provenance() as u64, Relaxed);
        }
        let start = frame.bytes_ptr() as usize;
        let mut next = 0;
        for n in (0..cache.per_slab()).rev() {
            let object = start + n * cache.size();
            if poison::ON {
                // SAFETY: within the slab's pages, which are ours.
                unsafe { poison::fill(object as *mut u8, cache.size()) };
            }
            // SAFETY: as above.
            unsafe { *(object as *mut usize) = next };
            next = object;
        }
        slab.words()[FIRST].store(next as u64, Relaxed);
        slab.words()[FREE].store(cache.per_slab() as u64, Relaxed);
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
        let start = self.0.addr().0;
        // SAFETY: pages of one slab.
        (0..1u64 << order).map(move |n| unsafe { Frame::of(crate::PhysAddr(start + n * PAGE_SIZE as u64)) })
    }

    /// The header's words.
    #[inline(always)]
    fn words(self) -> &'static [AtomicU64; 6] {
        // SAFETY: as for a page.
        unsafe { self.0.words() }
    }

    pub(super) fn free_objects(self) -> usize {
        self.words()[FREE].load(Relaxed) as usize
    }

    /// Takes free objects into `out`, as many as there are and fit; says how many.
    pub(super) fn take(self, out: &mut [usize]) -> usize {
        let words = self.words();
        let taken = out.len().min(self.free_objects());
        let mut object = words[FIRST].load(Relaxed) as usize;
        for place in &mut out[..taken] {
            *place = object;
            // SAFETY: a free object of this slab, whose first word is the link.
            object = unsafe { *(object as *const usize) };
            if poison::ON {
                // SAFETY: the link is read.
                unsafe { poison::fill(*place as *mut u8, size_of::<usize>()) };
            }
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
        let words = self.words();
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
        Self::at(slab.words()[NEXT].load(Relaxed) as usize)
    }

    fn at(address: usize) -> Option<Slab> {
        // SAFETY: a list's addresses are those of frames' metadata, which live for ever.
        unsafe { (address as *const Frame).as_ref() }.map(Slab)
    }

    pub(super) fn push(&mut self, slab: Slab) {
        let this = ptr::from_ref(slab.0) as u64;
        slab.words()[NEXT].store(self.head as u64, Relaxed);
        slab.words()[PREVIOUS].store(0, Relaxed);
        if let Some(second) = self.first() {
            second.words()[PREVIOUS].store(this, Relaxed);
        }
        self.head = this as usize;
    }

    pub(super) fn remove(&mut self, slab: Slab) {
        let next = slab.words()[NEXT].load(Relaxed);
        let previous = slab.words()[PREVIOUS].load(Relaxed);
        match Self::at(previous as usize) {
            None => self.head = next as usize,
            Some(before) => before.words()[NEXT].store(next, Relaxed),
        }
        if let Some(behind) = Self::at(next as usize) {
            behind.words()[PREVIOUS].store(previous, Relaxed);
        }
    }
}
