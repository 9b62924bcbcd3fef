//! How many refer to a frame: entries of leaves, lists of pools (pool.rs), slots of objects, pins.
//!
//! - Who finds itself alone (`refs.sole`) sees all that others did to the page before they put their references (`refs.put`), and may write the page or
//!   free it: nobody else can take a reference, since one is taken only by who has one, or under the lock of the leaf that has it.
//! - Who puts the last reference sees the same (`refs.last`).

use crate::atomic::{AtomicU32, Ordering, const_new, fence, site, step};

/// A count of references; 0 while the frame is with the allocator.
pub struct Refs(AtomicU32);

impl Refs {
    const_new! {
        pub fn new(count: u32) -> Self {
            Refs(AtomicU32::new(count))
        }
    }

    /// By the allocator, of a frame that it gives out.
    #[inline]
    pub fn begin(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// References at this moment.
    #[inline]
    pub fn count(&self) -> u32 {
        self.0.load(site("refs.sole", Ordering::Acquire))
    }

    /// Takes one more; the caller has one, or the lock under which one is had. Returns how many there were.
    #[inline]
    pub fn get(&self) -> u32 {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before != 0 && before < u32::MAX / 2, "reference to a free frame");
        before
    }

    /// Drops one; true if it was the last, and the frame is the caller's alone. Who has the only one pays no locked instruction.
    #[inline]
    pub fn put(&self) -> bool {
        if self.count() == 1 {
            return true;
        }
        if self.0.fetch_sub(1, site("refs.put", Ordering::Release)) == 1 {
            if step("refs.last") {
                fence(Ordering::Acquire);
            }
            self.0.store(1, Ordering::Relaxed);
            return true;
        }
        false
    }
}
