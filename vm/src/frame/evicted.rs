//! Frames that have left an object's slots, until nobody can be reading them.
//!
//! Who finds a frame in a slot within an RCU section may use it until the section ends, without a reference. So a slot's reference is
//! dropped a grace period after the frame left the slot. The frames are linked through their own metadata, and the callback's head
//! lies there too: waiting needs no memory and so cannot fail.
//!
//! Dropping what is here is the wait, and it takes the value, so a reference is not dropped twice:
//!
//! ```compile_fail,E0382
//! fn twice(frame: vm::frame::Evicted) {
//!     drop(frame);
//!     drop(frame);
//! }
//! ```
//!
//! A low room.

use super::Frame;
use super::chain::Chain;
use core::mem::{ManuallyDrop, size_of};
use core::ptr::NonNull;
use sync::rcu::{RcuHead, call_rcu};

/// The reference of a slot that the frame has left. Dropped, it goes a grace period later.
pub struct Evicted(&'static Frame);

impl Evicted {
    /// # Safety
    /// The caller gives up a reference to the frame. No leaf maps the frame as the object's, and every CPU has flushed since one did.
    pub(crate) unsafe fn new(frame: &'static Frame) -> Self {
        Self(frame)
    }

    /// Drops the reference now.
    ///
    /// # Safety
    /// Nobody found the frame within an RCU section that is still open, unless he has a reference to it.
    pub(crate) unsafe fn free_unread(self) {
        // SAFETY: the reference that `new` was given; the rest is its caller's promise and that of ours.
        unsafe { super::release(ManuallyDrop::new(self).0) };
    }
}

impl Drop for Evicted {
    fn drop(&mut self) {
        let mut one = Chain::EMPTY;
        one.push(self.0);
        defer(one);
    }
}

/// Any number of them, for which one callback waits.
pub struct EvictedFrames(Chain);

impl EvictedFrames {
    pub const fn new() -> Self {
        Self(Chain::EMPTY)
    }

    pub fn add(&mut self, frame: Evicted) {
        self.0.push(ManuallyDrop::new(frame).0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for EvictedFrames {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for EvictedFrames {
    fn drop(&mut self) {
        defer(self.0.take_all());
    }
}

/// What waits: it lies in the owner's words of the chain's first frame, of which the slot was the owner.
struct Waiting {
    rcu: RcuHead,
    chain: Chain,
}

const _: () = assert!(size_of::<Waiting>() <= Frame::OWNERS_BYTES && align_of::<Waiting>() <= 8);

/// Drops one reference to each frame of `chain` after a grace period.
fn defer(chain: Chain) {
    /// # Safety
    /// `waiting` was written below, and is used no more.
    unsafe fn free(waiting: *mut ()) {
        // SAFETY: as the caller promises. It is moved out before its frame can go.
        let Waiting { mut chain, .. } = unsafe { waiting.cast::<Waiting>().read() };
        while let Some(frame) = chain.pop() {
            // SAFETY: an evicted frame's reference, a grace period after it left its slot.
            unsafe { super::release(frame) };
        }
    }
    let Some(first) = chain.first() else { return };
    let waiting = first.owners_bytes().cast::<Waiting>();
    // SAFETY: the words are the slot's, which has given the frame up, and are large enough. They stay until `free` has run: the
    // chain has a reference to the frame. A grace period separates them from all who found the frame in its slot.
    unsafe {
        waiting.write(Waiting { rcu: RcuHead::new(), chain });
        call_rcu(NonNull::new_unchecked(&raw mut (*waiting).rcu), waiting.cast(), free);
    }
}
