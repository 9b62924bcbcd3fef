//! Reading and writing an object's bytes, for read(2), write(2) and the kernel itself.
//!
//! Bytes are copied within an RCU section, for which a page that its slot has shown stays memory, whoever takes it away (`vm::protocol::evict`,
//! evict.grace): so nobody writes the frame's count. Such a copy does not sleep, and ends short where it would have to, or is too long. What is left
//! goes by a copy that may sleep and fault: the frame is pinned and no lock is held while it runs.
#![forbid(unsafe_code)]

use super::Object;
use super::slots::MAX_PAGES;
use crate::addr::{PAGE_SHIFT, PAGE_SIZE};
use crate::error::VmError;
use crate::frame::{Pin, SharedBytes, SharedBytesMut};
use core::ops::Range;
use core::sync::atomic::Ordering;
use sync::rcu;

/// Where bytes go that are read.
pub trait Sink {
    /// Takes what can be had of `bytes` without sleeping; says how many. Interrupts may be off meanwhile.
    fn put_now(&mut self, bytes: SharedBytes<'_>) -> usize;
    /// Takes bytes; may sleep. Fewer than offered ends the reading.
    fn put(&mut self, bytes: SharedBytes<'_>) -> usize;
    /// A page is done, and what was held for it is let go.
    fn rest(&mut self);
}

/// Where bytes come from that are written.
pub trait Source {
    /// Fills what can be filled of `bytes` without sleeping; says how many.
    fn take_now(&mut self, bytes: SharedBytesMut<'_>) -> usize;
    /// Fills bytes; may sleep. Fewer than asked ends the writing.
    fn take(&mut self, bytes: SharedBytesMut<'_>) -> usize;
    /// A page is done, and what was held for it is let go.
    fn rest(&mut self);
}

/// A copy that may sleep: pages are pinned for it.
struct MaySleep<F>(F);

impl<F: FnMut(SharedBytes<'_>) -> usize> Sink for MaySleep<F> {
    fn put_now(&mut self, _: SharedBytes<'_>) -> usize {
        0
    }

    fn put(&mut self, bytes: SharedBytes<'_>) -> usize {
        self.0(bytes)
    }

    fn rest(&mut self) {}
}

impl<F: FnMut(SharedBytesMut<'_>) -> usize> Source for MaySleep<F> {
    fn take_now(&mut self, _: SharedBytesMut<'_>) -> usize {
        0
    }

    fn take(&mut self, bytes: SharedBytesMut<'_>) -> usize {
        self.0(bytes)
    }

    fn rest(&mut self) {}
}

impl Object {
    /// Passes up to `len` bytes from `offset` on to `copy`, page by page, up to the object's end. `copy` says how many it took;
    /// fewer than offered ends the reading. Returns the bytes taken. May sleep.
    pub fn read(
        &self,
        offset: u64,
        len: usize,
        copy: impl FnMut(SharedBytes<'_>) -> usize,
    ) -> Result<usize, VmError> {
        self.read_to(offset, len, &mut MaySleep(copy))
    }

    /// As [`read`](Self::read), for who can take bytes without sleeping.
    #[expect(clippy::arithmetic_side_effects, reason = "done is at most len, start inside its page")]
    pub fn read_to(&self, offset: u64, len: usize, to: &mut impl Sink) -> Result<usize, VmError> {
        let mut done = 0;
        // Where one copy has ended short, the next would.
        let mut now = true;
        while done < len {
            let Some(at) = offset.checked_add(done as u64) else { break };
            let left = self.size().saturating_sub(at).min((len - done) as u64) as usize;
            let start = at as usize % PAGE_SIZE;
            let n = left.min(PAGE_SIZE - start);
            if n == 0 {
                break;
            }
            let page = at >> PAGE_SHIFT;
            let mut taken = if now { self.read_now(page, start..start + n, to).min(n) } else { 0 };
            now = taken == n;
            if taken < n {
                let pinned = self.pinned(page);
                if pinned.is_none() && self.is_paged() {
                    match self.bring_in(page) {
                        // Another may have taken it away meanwhile: it is looked for again.
                        Ok(()) => continue,
                        Err(_) if done > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
                if pinned.is_none() && self.waited_for(page) {
                    continue;
                }
                let bytes = pinned.as_ref().map_or(SharedBytes::zeros(), Pin::bytes);
                taken += bytes.get(start + taken..start + n).map_or(0, |bytes| to.put(bytes)).min(n - taken);
            } else {
                to.rest();
            }
            done += taken;
            if taken < n {
                break;
            }
        }
        Ok(done)
    }

    /// What can be read of one page without sleeping, and without counting its frame.
    #[inline]
    fn read_now(&self, page: u64, part: Range<usize>, to: &mut impl Sink) -> usize {
        let rcu = rcu::read();
        let bytes = self.slots.get(page).and_then(|slot| slot.bytes(&rcu));
        bytes.map_or(0, |bytes| bytes.to_read().get(part).map_or(0, |bytes| to.put_now(bytes)))
    }

    /// Has `copy` fill up to `len` bytes from `offset` on, page by page; the object grows as far as bytes were filled. `copy`
    /// says how many it filled; fewer than asked ends the writing. Returns the bytes filled. May sleep.
    pub fn write(
        &self,
        offset: u64,
        len: usize,
        copy: impl FnMut(SharedBytesMut<'_>) -> usize,
    ) -> Result<usize, VmError> {
        self.write_from(offset, len, &mut MaySleep(copy))
    }

    /// As [`write`](Self::write), for who can fill bytes without sleeping.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the caller found the range to end at the largest file size"
    )]
    pub fn write_from(&self, offset: u64, len: usize, from: &mut impl Source) -> Result<usize, VmError> {
        if offset.checked_add(len as u64).is_none_or(|end| end > MAX_PAGES << PAGE_SHIFT) {
            return Err(VmError::Overflow);
        }
        let mut done = 0;
        let mut now = true;
        while done < len {
            let at = offset + done as u64;
            let start = at as usize % PAGE_SIZE;
            let n = (len - done).min(PAGE_SIZE - start);
            match self.check_scarcity(at >> PAGE_SHIFT).and_then(|()| self.bring_in(at >> PAGE_SHIFT)) {
                Ok(()) => {}
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
            let page = at >> PAGE_SHIFT;
            let mut filled = if now { self.write_now(page, start..start + n, from).min(n) } else { 0 };
            now = filled == n;
            if filled < n {
                let pinned = self.pinned(page);
                // Otherwise it has been taken away meanwhile.
                if let Some(mut pin) = pinned {
                    let bytes = &mut pin.bytes_mut();
                    let rest = bytes.get_mut(start + filled..start + n).map_or(0, |bytes| from.take(bytes));
                    filled += rest.min(n - filled);
                } else if filled == 0 {
                    continue;
                }
            } else {
                from.rest();
            }
            done += filled;
            if filled > 0 {
                self.grow_to(offset + done as u64);
            }
            if filled < n {
                break;
            }
        }
        Ok(done)
    }

    /// What can be written of one page without sleeping, and without counting its frame.
    #[inline]
    fn write_now(&self, page: u64, part: Range<usize>, from: &mut impl Source) -> usize {
        let rcu = rcu::read();
        let bytes = self.slots.get(page).and_then(|slot| slot.bytes(&rcu));
        bytes.map_or(0, |mut bytes| bytes.get_mut(part).map_or(0, |bytes| from.take_now(bytes)))
    }

    /// Waits if `page` is on its way to another place, or away; says whether it did. May sleep.
    fn waited_for(&self, page: u64) -> bool {
        let is_tagged = self.slots.get(page).is_some_and(|slot| slot.tagged().is_some());
        if is_tagged {
            drop(self.change.lock());
        }
        is_tagged
    }

    pub(super) fn pinned(&self, page: u64) -> Option<Pin> {
        let rcu = rcu::read();
        self.slots.get(page)?.pin(&rcu)
    }

    pub(super) fn grow_to(&self, size: u64) {
        if self.size() < size {
            let _change = self.change.lock();
            self.size.fetch_max(size, Ordering::SeqCst);
        }
    }
}
