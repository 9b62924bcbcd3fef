//! Reading and writing an object's bytes, for read(2), write(2) and the kernel itself.
//!
//! The copy function may sleep and fault: the frame is pinned and no lock is held while it runs.
#![forbid(unsafe_code)]

use super::Object;
use super::slots::MAX_PAGES;
use crate::addr::{PAGE_SHIFT, PAGE_SIZE};
use crate::error::VmError;
use crate::frame::{Pin, SharedBytes, SharedBytesMut};
use core::sync::atomic::Ordering;
use sync::rcu;

impl Object {
    /// Passes up to `len` bytes from `offset` on to `copy`, page by page, up to the object's end. `copy` says how many it took;
    /// fewer than offered ends the reading. Returns the bytes taken. May sleep.
    #[expect(clippy::arithmetic_side_effects, reason = "done is at most len, start inside its page")]
    pub fn read(
        &self,
        offset: u64,
        len: usize,
        copy: &mut dyn FnMut(SharedBytes<'_>) -> usize,
    ) -> Result<usize, VmError> {
        let mut done = 0;
        while done < len {
            let Some(at) = offset.checked_add(done as u64) else { break };
            let left = self.size().saturating_sub(at).min((len - done) as u64) as usize;
            let start = at as usize % PAGE_SIZE;
            let n = left.min(PAGE_SIZE - start);
            if n == 0 {
                break;
            }
            let page = at >> PAGE_SHIFT;
            let pinned = self.pinned(page);
            let page = pinned.as_ref().map_or(SharedBytes::zeros(), Pin::bytes);
            let taken = page.get(start..start + n).map_or(0, &mut *copy).min(n);
            done += taken;
            if taken < n {
                break;
            }
        }
        Ok(done)
    }

    /// Has `copy` fill up to `len` bytes from `offset` on, page by page; the object grows as far as bytes were filled. `copy`
    /// says how many it filled; fewer than asked ends the writing. Returns the bytes filled. May sleep.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the caller found the range to end at the largest file size"
    )]
    pub fn write(
        &self,
        offset: u64,
        len: usize,
        copy: &mut dyn FnMut(SharedBytesMut<'_>) -> usize,
    ) -> Result<usize, VmError> {
        if offset.checked_add(len as u64).is_none_or(|end| end > MAX_PAGES << PAGE_SHIFT) {
            return Err(VmError::Overflow);
        }
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let start = at as usize % PAGE_SIZE;
            let n = (len - done).min(PAGE_SIZE - start);
            match self.check_scarcity(at >> PAGE_SHIFT).and_then(|()| self.bring_in(at >> PAGE_SHIFT)) {
                Ok(()) => {}
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
            let Some(mut pin) = self.pinned(at >> PAGE_SHIFT) else { continue };
            let filled = pin.bytes_mut().get_mut(start..start + n).map_or(0, &mut *copy).min(n);
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

    pub(super) fn pinned(&self, page: u64) -> Option<Pin> {
        let rcu = rcu::read();
        self.slots.get(page)?.pin(&rcu)
    }

    fn grow_to(&self, size: u64) {
        if self.size() < size {
            let _change = self.change.lock();
            self.size.fetch_max(size, Ordering::SeqCst);
        }
    }
}
