//! Holding on to a frame while its bytes are copied.
//!
//! A low room: a frame's bytes are raw memory. Programs may write a mapped page while the kernel copies it; the copy is then a
//! mixture of old and new bytes, as on any kernel.

use super::{Frame, OwnedFrame};
use crate::addr::PAGE_SIZE;
use crate::node::Locked;
use sync::rcu::RcuRead;

/// One reference to a frame.
pub struct Pin(&'static Frame);

impl Pin {
    /// Pins `frame`, which was read from an object's slot or from an entry within this RCU section, in the latter case with the
    /// leaf locked.
    #[inline]
    pub fn new(frame: &'static Frame, _rcu: &RcuRead) -> Self {
        frame.get();
        Self(frame)
    }

    pub fn bytes(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: the reference keeps the page allocated; it is ordinary memory in the direct map.
        unsafe { &*self.0.bytes_ptr().cast() }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE_SIZE] {
        // SAFETY: as above. Other writers are programs or other calls of `write`, whose bytes may mix with these.
        unsafe { &mut *self.0.bytes_ptr().cast() }
    }
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        let_go(self.0);
    }
}

/// Drops one reference to a frame that no leaf maps any more, or that others hold too.
pub fn let_go(frame: &'static Frame) {
    // SAFETY: an object's frame leaves its slot only after every leaf was visited and every CPU flushed (truncate.rs); an owning
    // entry's reference is dropped only after the flush (flush.rs). So the last reference goes when no CPU can reach the page.
    unsafe { super::release(frame) };
}

/// Copies the page `from` into `to`. `from` is pinned, or an object's that was found within this RCU section.
#[inline]
pub fn copy(from: &'static Frame, to: &mut OwnedFrame, _rcu: &RcuRead) {
    // SAFETY: `to` is owned by the caller; the pin, or the section (FreeAfterFlush), keeps the source allocated.
    unsafe { super::copy(to.frame(), from) }
}

/// Clears a page that was taken dirty.
#[inline]
pub fn clear(frame: &mut OwnedFrame) {
    // SAFETY: owned by the caller.
    unsafe { super::zero(frame.frame()) }
}

/// Shows `f` the bytes of a page that the entry of a locked leaf leads to.
pub fn with_mapped(frame: &'static Frame, _leaf: &Locked<'_>, f: &mut dyn FnMut(&mut [u8; PAGE_SIZE])) {
    // SAFETY: the leaf's lock keeps the entry and so the frame. Programs may write the same bytes; they mix.
    f(unsafe { &mut *frame.bytes_ptr().cast() });
}

/// The page of zeros.
pub fn zeros() -> &'static [u8; PAGE_SIZE] {
    // SAFETY: never written and never freed.
    unsafe { &*super::zero_frame().bytes_ptr().cast() }
}
