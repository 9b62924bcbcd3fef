//! What is too much to drop at once, dropped in parts.
//!
//! The last reference to a large thing may go where nobody may sleep: in an RCU callback. There it is asked for one part after the other, each
//! from a callback of its own, and other threads run between them.

use super::{RcuHead, call_soon};
use alloc::boxed::Box;
use core::ptr::NonNull;

/// Drops itself in parts, each of some hundred thousand instructions at most.
pub trait Parts: Send + 'static {
    /// Takes a part away. False: nothing is left. Does not sleep.
    fn drop_part(&mut self) -> bool;
}

/// A thing with its place among the callbacks, so that dropping it needs no memory.
pub struct InParts<T: Parts> {
    value: T,
    rcu: RcuHead,
}

impl<T: Parts> InParts<T> {
    pub fn new(value: T) -> Self {
        InParts { value, rcu: RcuHead::new() }
    }

    pub fn value(&mut self) -> &mut T {
        &mut self.value
    }

    /// Takes the first part away now, and the others soon, on this CPU. Not from interrupt handlers.
    pub fn begin_drop(mut this: Box<Self>) {
        if this.value.drop_part() {
            Self::drop_soon(this);
        }
    }

    /// As `begin_drop`, the first part soon, too: for callers that have done enough, or hold a lock that a part takes.
    pub fn drop_soon(this: Box<Self>) {
        /// # Safety
        /// `object` came from `Box::into_raw` below, and is used no more.
        unsafe fn go_on<T: Parts>(object: *mut ()) {
            // SAFETY: as the caller promises.
            InParts::begin_drop(unsafe { Box::from_raw(object.cast::<InParts<T>>()) });
        }
        let rest = Box::into_raw(this);
        // SAFETY: the box is nobody else's, and stays until the call.
        unsafe { call_soon(NonNull::new_unchecked(&raw mut (*rest).rcu), rest.cast(), go_on::<T>) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::hosted::as_cpu;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    struct Counted(Arc<AtomicU32>, u32);

    impl Parts for Counted {
        fn drop_part(&mut self) -> bool {
            self.0.fetch_add(1, SeqCst);
            self.1 -= 1;
            self.1 > 0
        }
    }

    #[test]
    fn each_part_is_asked_for_once_and_the_rest_is_dropped() {
        as_cpu(100, || {
            let parts = Arc::new(AtomicU32::new(0));
            InParts::begin_drop(Box::new(InParts::new(Counted(parts.clone(), 5))));
            assert_eq!(parts.load(SeqCst), 1, "the first at once");
            while super::super::poll() && Arc::strong_count(&parts) > 1 {}
            super::super::drain();
            assert_eq!((parts.load(SeqCst), Arc::strong_count(&parts)), (5, 1));
        });
    }
}
