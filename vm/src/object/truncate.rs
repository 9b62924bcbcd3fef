//! Changing an object's size, and taking pages away from everybody who maps them.
//!
//! The order, and why no mapping is missed: (1) tag the slots; (2) visit every leaf on the lists and clear the entries that
//! hold those frames; (3) flush the leaf's sharers; (4) empty the slots; (5) free the frames a grace period later.
//! A fault reads the slot under the leaf's lock: if it comes before the visit, the visit finds its entry; if after, it finds
//! the tag. A leaf registered after its list was visited reads the slot later still.
//!
//! Lock order: `change` is held by the caller → list → leaf.
#![forbid(unsafe_code)]

use super::Object;
use super::slots::MAX_PAGES;
use crate::addr::{ENTRIES, PAGE_SHIFT, PAGE_SIZE};
use crate::error::{FaultError, VmError};
use crate::frame::Frame;
use crate::machine::FlushRange;
use crate::node::Node;
use crate::node::Sharer;
use crate::object::rmap::ReverseOps;
use crate::pin;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::sync::atomic::Ordering;
use sync::rcu::{self, RcuHead, RcuObject};

impl Object {
    /// Sets the size in bytes. What lies beyond is gone for every mapping; what is added reads zero. May sleep.
    pub fn set_size(&self, size: u64) -> Result<(), VmError> {
        if size > MAX_PAGES << PAGE_SHIFT {
            return Err(VmError::Overflow);
        }
        let _change = self.change.lock();
        let old = self.size.swap(size, Ordering::SeqCst);
        if size >= old {
            return Ok(());
        }
        self.evict_beyond(size.div_ceil(PAGE_SIZE as u64)).map_err(|_| VmError::NoMemory)?;
        let tail = size as usize % PAGE_SIZE;
        if tail != 0 {
            let rcu = rcu::read();
            if let Some(frame) = self.frame(size >> PAGE_SHIFT) {
                let mut pin = pin::Pin::new(frame, &rcu);
                if let Some(bytes) = pin.bytes_mut().get_mut(tail..) {
                    bytes.fill(0);
                }
            }
        }
        Ok(())
    }

    /// Frees the pages `start..end` (bytes, whole pages inside it): they read zero afterwards. For fallocate. May sleep.
    pub fn punch(&self, first: u64, end: u64) -> Result<(), VmError> {
        let _change = self.change.lock();
        self.evict(first, end).map_err(|_| VmError::NoMemory)
    }

    /// Takes away all pages from `first` on. The caller holds `change`.
    pub(super) fn evict_beyond(&self, first: u64) -> Result<(), FaultError> {
        self.evict(first, MAX_PAGES)
    }

    fn evict(&self, first: u64, end: u64) -> Result<(), FaultError> {
        let mut tagged = 0u64;
        self.slots.each(first, end, &mut |_, slot| tagged += u64::from(slot.tag()));
        if tagged == 0 {
            return Ok(());
        }
        if !self.leaves.is_empty() {
            let rcu = rcu::read();
            self.leaves.visit(&rcu, |leaf, ops| self.clear_leaf(leaf, ops, first, end));
        }
        // Readers within RCU sections may still use the frames: a batch is freed when none can be left. Where there is no
        // memory to remember them by, wait here.
        let mut batch = sync::try_box(Batch::new()).ok();
        if let Some(batch) = &mut batch {
            let _ = batch.frames.try_reserve(tagged as usize);
        }
        let mut rest: ArrayVec<&'static Frame, 64> = ArrayVec::new_const();
        let let_go = |rest: &mut ArrayVec<&'static Frame, 64>| {
            if !rest.is_empty() {
                rcu::synchronize();
                rest.drain(..).for_each(pin::let_go);
            }
        };
        let mut freed = 0;
        self.slots.each(first, end, &mut |_, slot| {
            let Some(frame) = slot.take_tagged() else { return };
            freed += 1;
            match &mut batch {
                Some(batch) if batch.frames.len() < batch.frames.capacity() => batch.frames.push(frame),
                _ => {
                    if rest.is_full() {
                        let_go(&mut rest);
                    }
                    rest.push(frame);
                }
            }
        });
        let_go(&mut rest);
        self.resident.fetch_sub(freed, Ordering::Relaxed);
        if let Some(batch) = batch {
            rcu::defer_box(batch);
        }
        Ok(())
    }

    /// Clears the entries of `leaf` that hold tagged frames of `first..end`, and flushes its sharers.
    fn clear_leaf(&self, leaf: &Node, ops: &ReverseOps, first: u64, end: u64) {
        let mut locked = leaf.lock();
        let mut cleared = FlushRange::EMPTY;
        for i in 0..locked.segments.as_slice().len() {
            let Some(segment) = locked.segments.as_slice().get(i) else { break };
            if !segment.meaning.object.as_ref().is_some_and(|o| core::ptr::eq(&**o, self)) {
                continue;
            }
            let (start, offset) = (segment.start, segment.meaning.offset);
            let low = first.saturating_sub(offset).min(ENTRIES as u64) as u16 + start;
            let high = (end.saturating_sub(offset) + u64::from(start)).min(u64::from(segment.end)) as u16;
            for index in locked.used_in(&(low..high)) {
                let page = offset + u64::from(index - start);
                let Some(frame) = self.slots.get(page).and_then(|s| s.tagged()) else { continue };
                if (ops.clear)(&mut locked, index, frame.addr()) {
                    cleared.add(leaf.address(index), leaf.address(index + 1));
                }
            }
        }
        if cleared.is_empty() {
            return;
        }
        // Flush the spaces that use the leaf, in batches, with the leaf unlocked. A space that comes to share it meanwhile is
        // a child of one of these, and finds the entries cleared.
        let mut next = 0;
        loop {
            let batch: ArrayVec<Sharer, 16> =
                locked.sharers.as_slice().iter().skip(next).take(16).copied().collect();
            if batch.is_empty() {
                return;
            }
            next += batch.len();
            drop(locked);
            for sharer in &batch {
                (ops.flush)(sharer.get(&leaf), cleared);
            }
            locked = leaf.lock();
        }
    }
}

/// Frames that wait for a grace period.
struct Batch {
    frames: Vec<&'static Frame>,
    rcu: RcuHead,
}

impl Batch {
    fn new() -> Self {
        Self { frames: Vec::new(), rcu: RcuHead::new() }
    }
}

impl RcuObject for Batch {
    fn rcu_head(&self) -> &RcuHead {
        &self.rcu
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        for frame in self.frames.drain(..) {
            pin::let_go(frame);
        }
    }
}
