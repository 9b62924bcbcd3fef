//! A space on a leaf's list of those that use it.

use crate::tlb::{OwnTlb, SpaceTlb};
use core::ptr::NonNull;

/// A space that uses a leaf. It is not counted: fork would write a line of the parent for each leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Sharer(NonNull<SpaceTlb>);

// SAFETY: stands for a `&SpaceTlb`, and `SpaceTlb` is `Sync`.
unsafe impl Send for Sharer {}

impl Sharer {
    /// A space puts itself on the list of a leaf that is, or will be, in its tree. At its end it leaves all leaves there
    /// ([`Retired::leave_leaf`](super::Retired::leave_leaf)), and then an [`OwnTlb`] waits for a grace period.
    #[inline]
    pub fn new(tlb: &OwnTlb) -> Self {
        Self(NonNull::from(&**tlb))
    }

    /// Is it this space?
    #[inline]
    pub fn is(self, tlb: &SpaceTlb) -> bool {
        self.0 == NonNull::from(tlb)
    }

    /// For telling spaces apart.
    pub fn address(self) -> usize {
        self.0.addr().get()
    }

    /// The space.
    ///
    /// # Safety
    /// The leaf's lock was held in the RCU section that lasts for `'r`, with this on its list.
    #[inline]
    pub unsafe fn space<'r>(self) -> &'r SpaceTlb {
        // SAFETY: it was there then, and waits for the section's end.
        unsafe { self.0.as_ref() }
    }
}
