//! References to spaces whose holder may be the last: who looks at another process, and who makes one and fails half way.
//!
//! The last reference ends the space, which takes as long as the space is large. Dropped plainly that happens at once; here it gives way.
//! A thread that runs in a space lets go of it at its end (`process::exit`) or on its way to user mode (`process::own`).
#![forbid(unsafe_code)]

use super::Space;
use alloc::sync::{Arc, Weak};
use core::ops::Deref;
use scopeguard::ScopeGuard;

/// A reference to a space. Dropping it may sleep.
pub struct HeldSpace(ScopeGuard<Arc<Space>, fn(Arc<Space>)>);

impl HeldSpace {
    pub fn new(space: Arc<Space>) -> Self {
        Self(scopeguard::guard(space, Space::let_go))
    }

    /// What leads to the space while others have it.
    pub fn downgrade(&self) -> Weak<Space> {
        Arc::downgrade(&self.0)
    }
}

impl Deref for HeldSpace {
    type Target = Space;
    fn deref(&self) -> &Space {
        &self.0
    }
}
