//! Ownership of one frame as a type, and the two calls that everybody uses.

use super::{Frame, FrameKind, magazine, placed, private, zero};
use crate::addr::{PAGE_SIZE, PhysAddr};
use crate::policy::Choice;

/// One page that nobody else refers to. Dropping it gives the frame back to this CPU's magazine.
#[derive(Debug)]
pub struct OwnedFrame(&'static Frame);

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "frame {:#x} ({:?}, {} refs)", self.addr().0, self.kind(), self.refs())
    }
}

/// A page with unspecified contents, from this CPU's magazine; None when memory is exhausted.
#[inline]
pub fn alloc_dirty() -> Option<OwnedFrame> {
    take().map(OwnedFrame)
}

#[cfg(target_os = "none")]
#[inline(always)]
fn take() -> Option<&'static Frame> {
    magazine::take()
}

/// Hosted tests make allocations fail.
#[cfg(not(target_os = "none"))]
fn take() -> Option<&'static Frame> {
    sync::heap::hosted::allowed().ok()?;
    magazine::take()
}

/// A page of zeros, from this CPU's magazine; None when memory is exhausted.
/// Clears 4 KiB: not to be called with a leaf locked (NothingSlowUnderLeaf).
#[inline]
pub fn alloc_zeroed() -> Option<OwnedFrame> {
    let frame = take()?;
    // SAFETY: just taken, so this is the only reference.
    unsafe { zero(frame) };
    Some(OwnedFrame(frame))
}

/// As [`alloc_dirty`], from the nodes of `choice`; None when those that are allowed have nothing left.
#[cold]
pub(crate) fn alloc_dirty_from(choice: &Choice) -> Option<OwnedFrame> {
    #[cfg(not(target_os = "none"))]
    sync::heap::hosted::allowed().ok()?;
    placed::take(choice).map(OwnedFrame)
}

/// As [`alloc_zeroed`], from the nodes of `choice`.
#[cold]
pub(crate) fn alloc_zeroed_from(choice: &Choice) -> Option<OwnedFrame> {
    let page = alloc_dirty_from(choice)?;
    // SAFETY: just taken, so this is the only reference.
    unsafe { zero(page.0) };
    Some(page)
}

/// Drops one reference to `frame` and frees it if that was the last.
///
/// # Safety
/// The caller held that reference and does not use the frame any more; no CPU can still reach it by a stale
/// translation (FreeAfterFlush).
#[inline]
pub unsafe fn release(frame: &'static Frame) {
    if frame.put() {
        private::left(frame);
        magazine::give(frame);
    }
}

impl OwnedFrame {
    #[inline]
    pub fn frame(&self) -> &'static Frame {
        self.0
    }

    #[inline]
    pub fn addr(&self) -> PhysAddr {
        self.0.addr()
    }

    /// What the page is used for, for tools that look at memory from outside.
    #[inline]
    pub fn set_kind(&self, kind: FrameKind) {
        self.0.set_kind(kind);
    }

    /// The page's bytes.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8; PAGE_SIZE] {
        // SAFETY: the page is in the direct map and owned by `self`, which is borrowed for as long.
        unsafe { &mut *self.0.bytes_ptr().cast() }
    }

    /// Gives up the ownership without freeing: the one reference that [`Frame::refs`] counts is now the caller's.
    #[inline]
    pub fn into_frame(self) -> &'static Frame {
        let frame = self.0;
        core::mem::forget(self);
        frame
    }

    /// As [`Self::into_frame`], for a leaf that gets a page of its own.
    #[inline]
    pub(crate) fn into_private(self) -> &'static Frame {
        debug_assert_eq!(self.0.kind(), FrameKind::Page);
        let frame = self.into_frame();
        private::entered();
        frame
    }

    /// Takes the ownership of a page back that was a leaf's own. It is no program's page any more.
    ///
    /// # Safety
    /// As [`Self::from_frame`].
    pub(crate) unsafe fn from_private(frame: &'static Frame) -> Self {
        private::left(frame);
        // SAFETY: as the caller promises.
        unsafe { Self::from_frame(frame) }
    }

    /// Takes the ownership back.
    ///
    /// # Safety
    /// The caller holds the only reference, and FreeAfterFlush has been observed.
    #[inline]
    pub unsafe fn from_frame(frame: &'static Frame) -> Self {
        Self(frame)
    }
}

impl Drop for OwnedFrame {
    #[inline]
    fn drop(&mut self) {
        magazine::give(self.0);
    }
}
