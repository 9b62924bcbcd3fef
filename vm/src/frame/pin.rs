//! Holding on to a frame while its bytes are copied, and copies of whole pages.
//!
//! A low room: a frame's bytes are raw memory.

use super::{Frame, OwnedFrame, SharedBytes, SharedBytesMut};
use crate::addr::PAGE_SIZE;
use sync::rcu::RcuRead;

/// One reference to a frame. The last one to go frees the frame.
pub struct Pin(&'static Frame);

impl Pin {
    /// Takes a reference to `frame`.
    ///
    /// # Safety
    /// Somebody has a reference to the frame for as long as this call takes, and drops it only after FreeAfterFlush.
    #[inline]
    pub(crate) unsafe fn new(frame: &'static Frame) -> Self {
        frame.get();
        Self(frame)
    }

    /// The page. Programs may write it meanwhile.
    #[inline]
    pub fn bytes(&self) -> SharedBytes<'_> {
        // SAFETY: the reference keeps the page allocated, and nobody makes a `&mut` of a page that others refer to.
        unsafe { SharedBytes::new(self.0.bytes_ptr(), PAGE_SIZE) }
    }

    /// The page, to be written. Programs may read and write it meanwhile, and so may other pins.
    #[inline]
    pub fn bytes_mut(&mut self) -> SharedBytesMut<'_> {
        // SAFETY: as above.
        unsafe { SharedBytesMut::new(self.0.bytes_ptr(), PAGE_SIZE) }
    }
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the pin's own reference. Who drops the others does so after FreeAfterFlush, so if this is the last, no CPU can reach
        // the page any more.
        unsafe { super::release(self.0) };
    }
}

/// Copies the page `from`, which is pinned or was found within this RCU section, into `to`. A page that is freed meanwhile is still
/// memory: what is copied of it is what anybody wrote there.
#[inline]
pub fn copy(from: &'static Frame, to: &mut OwnedFrame, _rcu: &RcuRead) {
    // SAFETY: `to` is owned by the caller. The copy makes no reference to the source.
    unsafe { super::copy(to.frame(), from) }
}

/// Clears a page that was taken dirty.
#[inline]
pub fn clear(frame: &mut OwnedFrame) {
    // SAFETY: owned by the caller.
    unsafe { super::zero(frame.frame()) }
}
