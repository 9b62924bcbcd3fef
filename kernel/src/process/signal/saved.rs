//! The mask that a thread goes back to when a call that waits with another one is over, or the signal that ended it has been delivered.
//!
//! The thread alone looks at it and changes it, so there is no lock.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub struct SavedMask {
    is_there: AtomicBool,
    mask: AtomicU64,
}

impl SavedMask {
    pub const fn none() -> Self {
        Self { is_there: AtomicBool::new(false), mask: AtomicU64::new(0) }
    }

    #[inline]
    pub fn set(&self, mask: u64) {
        self.mask.store(mask, Relaxed);
        self.is_there.store(true, Relaxed);
    }

    /// Keeps the one that is there, or else `mask`.
    pub fn set_if_none(&self, mask: u64) {
        if !self.is_there.load(Relaxed) {
            self.set(mask);
        }
    }

    /// The one that is there.
    pub fn look(&self) -> Option<u64> {
        self.is_there.load(Relaxed).then(|| self.mask.load(Relaxed))
    }

    #[inline]
    pub fn take(&self) -> Option<u64> {
        self.is_there.load(Relaxed).then(|| {
            self.is_there.store(false, Relaxed);
            self.mask.load(Relaxed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SavedMask;

    #[test]
    fn the_first_mask_is_gone_back_to_and_once() {
        let saved = SavedMask::none();
        assert_eq!(saved.take(), None);
        saved.set_if_none(0);
        saved.set_if_none(7);
        assert_eq!((saved.take(), saved.take()), (Some(0), None));
        saved.set(5);
        saved.set(6);
        assert_eq!((saved.take(), saved.take()), (Some(6), None));
    }
}
