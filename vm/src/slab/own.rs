//! One CPU's part of a cache: the magazine, and the slabs that belong to the CPU.
//!
//! Touched by that CPU alone, but for its counts: kernel code is not preempted, and interrupt handlers do not allocate. So nothing here is
//! atomic or locked, and a call may use the cells as long as it calls nothing that comes here again.

use super::cache::Cache;
use super::page::{List, Page, Slab};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Objects a magazine holds at most.
const CAPACITY: usize = 64;
/// Bytes of objects that a magazine holds at most.
const BYTES: usize = 32 << 10;
/// Wholly free slabs that a CPU keeps of a cache for the next need: what a grace period frees at once comes back to the CPU that freed it.
pub(super) const SPARE: usize = 16;

/// One CPU's magazine and slabs of one cache. Lies in a per-CPU static.
#[repr(C, align(64))]
pub struct OwnSlabs {
    /// Objects in the magazine.
    len: AtomicUsize,
    /// As many as it may hold.
    limit: usize,
    objects: UnsafeCell<[usize; CAPACITY]>,
    slabs: UnsafeCell<Slabs>,
    /// Slabs there are, and objects free in them, for readers of sums.
    count: AtomicUsize,
    free: AtomicUsize,
}

struct Slabs {
    /// Those with free objects.
    list: List,
    /// Those of them all of whose objects are free.
    empty: usize,
}

// SAFETY: the cells are touched by the owning CPU alone (see the head of the file); the rest is atomic.
unsafe impl Sync for OwnSlabs {}

impl OwnSlabs {
    /// For a cache with objects of `size` bytes.
    pub const fn new(size: usize) -> Self {
        let fit = BYTES / size;
        let limit = if fit > CAPACITY { CAPACITY } else { fit };
        OwnSlabs {
            len: AtomicUsize::new(0),
            limit,
            objects: UnsafeCell::new([0; CAPACITY]),
            slabs: UnsafeCell::new(Slabs { list: List::EMPTY, empty: 0 }),
            count: AtomicUsize::new(0),
            free: AtomicUsize::new(0),
        }
    }

    /// Takes an object out of the magazine; null: it is empty.
    #[inline(always)]
    pub(super) fn pop(&self) -> *mut u8 {
        let len = self.len.load(Relaxed);
        if len == 0 {
            return core::ptr::null_mut();
        }
        self.len.store(len - 1, Relaxed);
        // SAFETY: `len` is at most `CAPACITY`; this CPU's cell, and no reference to it is left by another call.
        unsafe { *(*self.objects.get()).get_unchecked(len - 1) as *mut u8 }
    }

    /// Puts an object into the magazine, unless it is full.
    #[inline(always)]
    pub(super) fn push(&self, object: *mut u8) -> bool {
        let len = self.len.load(Relaxed);
        if len >= self.limit {
            return false;
        }
        // SAFETY: `limit` is at most `CAPACITY`; the cell as above.
        unsafe { *(*self.objects.get()).get_unchecked_mut(len) = object as usize };
        self.len.store(len + 1, Relaxed);
        true
    }

    /// Whether the magazine holds anything.
    #[inline(always)]
    pub(super) fn has_any(&self) -> bool {
        self.len.load(Relaxed) != 0
    }

    /// Slabs, and objects free in them and in the magazine, for readers of sums.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.count.load(Relaxed), self.free.load(Relaxed) + self.len.load(Relaxed))
    }

    /// Fills the empty magazine up to its half, from slabs that there are or from a new one. False: no memory.
    pub(super) fn refill(&'static self, cache: &'static Cache) -> bool {
        // SAFETY: this CPU's cells; nothing that is called while they are borrowed comes here again.
        let (objects, slabs) = unsafe { (&mut *self.objects.get(), &mut *self.slabs.get()) };
        let wanted = self.limit.div_ceil(2);
        let mut len = self.len.load(Relaxed).min(wanted);
        while len < wanted {
            let slab = match slabs.list.first() {
                Some(slab) => slab,
                None if len > 0 => break,
                None => {
                    let Some(slab) = Slab::make(cache, self) else { return false };
                    slabs.list.push(slab);
                    slabs.empty += 1;
                    bump(&self.count, 1);
                    bump(&self.free, cache.per_slab() as isize);
                    slab
                }
            };
            if slab.free_objects() == cache.per_slab() {
                slabs.empty -= 1;
            }
            let taken = slab.take(&mut objects[len..wanted]);
            if slab.free_objects() == 0 {
                slabs.list.remove(slab);
            }
            bump(&self.free, -(taken as isize));
            len += taken;
        }
        self.len.store(len, Relaxed);
        true
    }

    /// Gives the older half of the magazine to the slabs.
    pub(super) fn spill(&self, cache: &Cache) {
        self.spill_all_but(self.limit / 2, cache);
    }

    fn spill_all_but(&self, left: usize, cache: &Cache) {
        // SAFETY: this CPU's cell; `put` does not touch it.
        let objects = unsafe { &mut *self.objects.get() };
        let len = self.len.load(Relaxed).min(CAPACITY);
        let out = len.saturating_sub(left);
        for object in &objects[..out] {
            // SAFETY: the magazine holds free objects of this CPU's slabs.
            unsafe { self.put(*object, cache) };
        }
        objects.copy_within(out..len, 0);
        self.len.store(len - out, Relaxed);
    }

    /// Puts an object back into its slab.
    ///
    /// # Safety
    /// The object is of a slab of this CPU and cache, and nobody uses it.
    pub(super) unsafe fn put(&self, object: usize, cache: &Cache) {
        // SAFETY: this CPU's cell; the borrow ends here, and nothing that is called comes here again.
        let slabs = unsafe { &mut *self.slabs.get() };
        // SAFETY: the caller's promise.
        let slab = unsafe { Page::of(object as *mut u8) }.slab(cache.order());
        // SAFETY: the caller's promise.
        let free = unsafe { slab.put(object) };
        bump(&self.free, 1);
        if free == 1 {
            slabs.list.push(slab);
        }
        if free == cache.per_slab() {
            slabs.empty += 1;
            if slabs.empty > SPARE {
                self.drop_slab(slabs, slab, cache);
            }
        }
    }

    /// Gives a wholly free slab's pages back.
    fn drop_slab(&self, slabs: &mut Slabs, slab: Slab, cache: &Cache) {
        slabs.list.remove(slab);
        slabs.empty -= 1;
        bump(&self.count, -1);
        bump(&self.free, -(cache.per_slab() as isize));
        // SAFETY: wholly free, and on the list no more.
        unsafe { slab.drop_pages(cache.order()) };
    }

    /// Forgets the addresses of objects that were in the empty magazine: the audit would take them for references.
    pub(super) fn wipe(&self) {
        // SAFETY: as in `put`.
        unsafe { (&mut *self.objects.get())[self.len.load(Relaxed).min(CAPACITY)..].fill(0) };
    }

    /// Gives back whatever is not in use.
    pub(super) fn trim(&self, cache: &Cache) {
        self.spill_all_but(0, cache);
        // SAFETY: as in `put`.
        let slabs = unsafe { &mut *self.slabs.get() };
        let mut next = slabs.list.first();
        while let Some(slab) = next {
            next = slabs.list.after(slab);
            if slab.free_objects() == cache.per_slab() {
                self.drop_slab(slabs, slab, cache);
            }
        }
    }
}

/// Counts on this CPU: only the owner writes, so no locked instruction.
fn bump(count: &AtomicUsize, by: isize) {
    count.store(count.load(Relaxed).wrapping_add_signed(by), Relaxed);
}
