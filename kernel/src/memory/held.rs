//! References to spaces whose holder may be the last: who looks at another process, and who makes one and fails half way.
//!
//! The last reference ends the space, which takes as long as the space is large. Dropped plainly that happens at once; here it gives way.
//! A thread that runs in a space lets go of it at its end (`process::exit`) or on its way to user mode (`process::own`).
#![forbid(unsafe_code)]

use super::Space;
use alloc::sync::Arc;
use core::ops::Deref;

/// A reference to a space. Dropping it may sleep.
pub struct HeldSpace(Option<Arc<Space>>);

impl HeldSpace {
    pub fn new(space: Arc<Space>) -> Self {
        Self(Some(space))
    }
}

impl Deref for HeldSpace {
    type Target = Space;
    fn deref(&self) -> &Space {
        match &self.0 {
            Some(space) => space,
            // Only `drop` takes it out.
            None => unreachable!("a space is used after it was let go"),
        }
    }
}

impl Drop for HeldSpace {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Space::let_go);
    }
}
