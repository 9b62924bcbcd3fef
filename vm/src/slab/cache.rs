//! One cache: objects of one size, in slabs of one page (or a block of pages for the larger sizes).
//!
//! A slab's header lies in the metadata of its first frame (`Frame::words`):
//!
//! | word | holds |
//! |---|---|
//! | 0 | first free object (address; 0: none); free objects link through their first word |
//! | 1 | objects free in the slab |
//! | 2, 3 | next and previous slab with free objects (frame's address in the table; 0: none) |
//! | 4 | the cache |
//!
//! All of it is written under the cache's lock alone.

use crate::addr::PAGE_SIZE;
use crate::frame::{self, Frame, FrameKind};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::level::FrameList;
use sync::machine;
use sync::per_cpu;
use sync::{SpinLock, lock_class};

/// Caches there can be.
pub(super) const MAX_CACHES: usize = 48;
/// Objects a magazine holds at most.
const CAPACITY: usize = 64;
/// Objects moved at a time.
const BATCH: usize = 32;
/// Wholly free slabs that a cache keeps for the next need.
const SPARE: usize = 8;

lock_class! { static SLAB: LockClass = ("slab cache", FrameList); }

#[repr(align(64))]
struct Magazine {
    len: AtomicUsize,
    objects: UnsafeCell<[usize; CAPACITY]>,
}

// SAFETY: `objects` is touched by the owning CPU alone: kernel code is not preempted and interrupt handlers do not allocate.
unsafe impl Sync for Magazine {}

per_cpu! {
    static MAGAZINES: [Magazine; MAX_CACHES] =
        [const { Magazine { len: AtomicUsize::new(0), objects: UnsafeCell::new([0; CAPACITY]) } }; MAX_CACHES];
}

/// Slabs that have free objects.
struct Partial {
    head: usize,
    /// Slabs all of whose objects are free, somewhere on the list.
    empty: usize,
}

/// A cache of objects of `size` bytes.
#[repr(align(64))]
pub struct Cache {
    name: &'static str,
    size: usize,
    /// The pages of a slab are `1 << order`.
    order: usize,
    /// Place of this cache in every CPU's row of magazines.
    index: usize,
    partial: SpinLock<Partial, FrameList>,
    slabs: AtomicU64,
    free: AtomicU64,
}

/// What a cache holds, for `/proc/slabinfo`.
#[derive(Clone, Copy, Debug)]
pub struct CacheInfo {
    pub name: &'static str,
    /// Bytes per object.
    pub size: usize,
    /// Objects in use, magazines not counted.
    pub used: u64,
    /// Objects there is room for.
    pub objects: u64,
    pub pages: u64,
}

impl Cache {
    /// A cache; `index` is unique below [`MAX_CACHES`], `size` a multiple of 16 from 16 to 2,048.
    pub(super) const fn new(name: &'static str, size: usize, index: usize) -> Self {
        assert!(size >= 16 && size.is_multiple_of(16) && size <= PAGE_SIZE && index < MAX_CACHES);
        // Above an eighth of a page a slab of several pages wastes less.
        let order = if size <= 512 { 0 } else { 3 };
        Self {
            name,
            size,
            order,
            index,
            partial: SpinLock::new(Partial { head: 0, empty: 0 }, &SLAB),
            slabs: AtomicU64::new(0),
            free: AtomicU64::new(0),
        }
    }

    const fn per_slab(&self) -> usize {
        (PAGE_SIZE << self.order) / self.size
    }

    pub(super) fn info(&self) -> CacheInfo {
        let slabs = self.slabs.load(Ordering::Relaxed);
        let objects = slabs * self.per_slab() as u64;
        let cached: u64 = (0..machine::cpus())
            .map(|cpu| MAGAZINES.of(cpu)[self.index].len.load(Ordering::Relaxed) as u64)
            .sum();
        CacheInfo {
            name: self.name,
            size: self.size,
            used: objects.saturating_sub(self.free.load(Ordering::Relaxed) + cached),
            objects,
            pages: slabs << self.order,
        }
    }

    /// An object with unspecified contents, or null when memory is exhausted.
    #[inline]
    pub(super) fn alloc(&self) -> *mut u8 {
        let m = &MAGAZINES.this()[self.index];
        let mut len = m.len.load(Ordering::Relaxed);
        if len == 0 {
            len = self.refill(m);
            if len == 0 {
                return core::ptr::null_mut();
            }
        }
        m.len.store(len - 1, Ordering::Relaxed);
        // SAFETY: this CPU's magazine; no other reference to the cell exists while this one does.
        unsafe { (&*m.objects.get())[(len - 1) % CAPACITY] as *mut u8 }
    }

    /// Takes an object back.
    ///
    /// # Safety
    /// `object` came from `alloc` of this cache and is not used any more.
    #[inline]
    pub(super) unsafe fn free(&self, object: *mut u8) {
        let m = &MAGAZINES.this()[self.index];
        let mut len = m.len.load(Ordering::Relaxed);
        if len == CAPACITY {
            len = self.spill(m);
        }
        // SAFETY: this CPU's magazine; no other reference to the cell exists while this one does.
        unsafe { (&mut *m.objects.get())[len % CAPACITY] = object as usize };
        m.len.store(len + 1, Ordering::Relaxed);
    }

    #[cold]
    fn refill(&self, m: &Magazine) -> usize {
        // SAFETY: this CPU's magazine; nothing below touches it again before the borrow ends.
        let objects = unsafe { &mut *m.objects.get() };
        loop {
            let taken = self.take_batch(&mut objects[..BATCH]);
            if taken > 0 {
                m.len.store(taken, Ordering::Relaxed);
                return taken;
            }
            // Another CPU may empty the new slab before this one gets to it; then a further one is needed.
            let Some(slab) = self.new_slab() else { return 0 };
            self.put_on_list(slab);
        }
    }

    fn take_batch(&self, out: &mut [usize]) -> usize {
        let mut partial = self.partial.lock();
        let mut taken = 0;
        while taken < out.len() && partial.head != 0 {
            // SAFETY: the list holds frames of this cache's slabs, under the lock.
            let slab = unsafe { slab_at(partial.head) };
            let words = slab.words();
            let mut left = words[1].load(Ordering::Relaxed);
            if left as usize == self.per_slab() {
                partial.empty -= 1;
            }
            while taken < out.len() && left > 0 {
                let object = words[0].load(Ordering::Relaxed) as usize;
                // SAFETY: a free object of this slab, whose first word is the link.
                words[0].store(unsafe { *(object as *const usize) } as u64, Ordering::Relaxed);
                out[taken] = object;
                taken += 1;
                left -= 1;
            }
            words[1].store(left, Ordering::Relaxed);
            if left == 0 {
                partial.unlink(slab);
            }
        }
        self.count(-(taken as i64));
        taken
    }

    #[cold]
    fn spill(&self, m: &Magazine) -> usize {
        // SAFETY: this CPU's magazine; nothing below touches it again before the borrow ends.
        let objects = unsafe { &mut *m.objects.get() };
        let mut surplus: [usize; BATCH] = [0; BATCH];
        let mut surplus_len = 0;
        {
            let mut partial = self.partial.lock();
            for object in &objects[..BATCH] {
                let slab = self.slab_of(*object);
                let words = slab.words();
                // SAFETY: the object is free and ours: nobody reads it, and it is at least a word long.
                unsafe { *(*object as *mut usize) = words[0].load(Ordering::Relaxed) as usize };
                words[0].store(*object as u64, Ordering::Relaxed);
                let free = words[1].load(Ordering::Relaxed) + 1;
                words[1].store(free, Ordering::Relaxed);
                if free == 1 {
                    partial.link(slab);
                }
                if free as usize == self.per_slab() {
                    if partial.empty < SPARE {
                        partial.empty += 1;
                    } else {
                        partial.unlink(slab);
                        surplus[surplus_len] = core::ptr::from_ref(slab) as usize;
                        surplus_len += 1;
                    }
                }
            }
            self.count(BATCH as i64 - (surplus_len * self.per_slab()) as i64);
        }
        objects.copy_within(BATCH.., 0);
        m.len.store(CAPACITY - BATCH, Ordering::Relaxed);
        for slab in &surplus[..surplus_len] {
            // SAFETY: put there above; wholly free and off the list, so ours alone.
            unsafe { self.drop_slab(slab_at(*slab)) };
        }
        CAPACITY - BATCH
    }

    /// The first frame of the slab that holds `object`. Slabs are aligned to their size.
    fn slab_of(&self, object: usize) -> &'static Frame {
        Frame::of_direct(object & !((PAGE_SIZE << self.order) - 1))
    }

    fn new_slab(&self) -> Option<&'static Frame> {
        let slab = if self.order == 0 {
            frame::alloc_dirty()?.into_frame()
        } else {
            Frame::of(frame::alloc_contiguous(self.order, machine::node_of(machine::cpu_id()))?)
        };
        slab.set_kind(FrameKind::Slab);
        let start = slab.bytes_ptr() as usize;
        let mut next = 0;
        for n in (0..self.per_slab()).rev() {
            let object = start + n * self.size;
            // SAFETY: within the slab's pages, which are ours.
            unsafe { *(object as *mut usize) = next };
            next = object;
        }
        let words = slab.words();
        words[0].store(next as u64, Ordering::Relaxed);
        words[1].store(self.per_slab() as u64, Ordering::Relaxed);
        words[4].store(core::ptr::from_ref(self) as u64, Ordering::Relaxed);
        Some(slab)
    }

    fn put_on_list(&self, slab: &'static Frame) {
        let mut partial = self.partial.lock();
        partial.link(slab);
        partial.empty += 1;
        self.slabs.store(self.slabs.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.count(self.per_slab() as i64);
    }

    /// # Safety
    /// Every object of the slab is free and it is on no list.
    unsafe fn drop_slab(&self, slab: &'static Frame) {
        self.slabs.fetch_sub(1, Ordering::Relaxed);
        if self.order == 0 {
            // SAFETY: `new_slab` took this one frame; nothing refers to it now.
            drop(unsafe { frame::OwnedFrame::from_frame(slab) });
        } else {
            // SAFETY: as above, with the order it was taken with.
            unsafe { frame::free_contiguous(slab.addr(), self.order) };
        }
    }

    fn count(&self, objects: i64) {
        self.free.store(self.free.load(Ordering::Relaxed).wrapping_add_signed(objects), Ordering::Relaxed);
    }
}

/// # Safety
/// `address` is that of a frame's metadata.
unsafe fn slab_at(address: usize) -> &'static Frame {
    // SAFETY: the caller's promise; the frame table lives for ever.
    unsafe { &*(address as *const Frame) }
}

impl Partial {
    fn link(&mut self, slab: &'static Frame) {
        let this = core::ptr::from_ref(slab) as usize;
        slab.words()[2].store(self.head as u64, Ordering::Relaxed);
        slab.words()[3].store(0, Ordering::Relaxed);
        if self.head != 0 {
            // SAFETY: the list holds slabs only.
            unsafe { slab_at(self.head) }.words()[3].store(this as u64, Ordering::Relaxed);
        }
        self.head = this;
    }

    fn unlink(&mut self, slab: &'static Frame) {
        let next = slab.words()[2].load(Ordering::Relaxed) as usize;
        let prev = slab.words()[3].load(Ordering::Relaxed) as usize;
        if prev == 0 {
            self.head = next;
        } else {
            // SAFETY: the list holds slabs only.
            unsafe { slab_at(prev) }.words()[2].store(next as u64, Ordering::Relaxed);
        }
        if next != 0 {
            // SAFETY: the list holds slabs only.
            unsafe { slab_at(next) }.words()[3].store(prev as u64, Ordering::Relaxed);
        }
    }
}

/// Visits every cache, for `/proc/slabinfo`.
pub fn for_each_cache(f: &mut dyn FnMut(CacheInfo)) {
    super::heap::caches().iter().for_each(|c| f(c.info()));
}
