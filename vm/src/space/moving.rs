//! Moves of pages (mremap) beside forks, in spaces with several threads: while a mremap moves pages some are at neither place, and a child of a fork would
//! not have them. Who seals mappings (seals.rs) stops moves as a fork does, and so forks too.
//!
//! Moves on different CPUs write no line in common: each takes its CPU's lock (protocol/moving.rs).
//!
//! Lock order: the common lock → a CPU's.
#![forbid(unsafe_code)]

use super::Space;
use crate::machine::Machine;
use crate::order::Moving as MovingLevel;
use crate::protocol::moving::{Forks, Moved};
use core::sync::atomic::Ordering;
use sync::{Mutex, MutexGuard, lock_class};

lock_class! { static MOVING: LockClass = ("pages that move", MovingLevel); }

/// Of a space.
pub(crate) struct Moving {
    common: Mutex<(), MovingLevel>,
    forks: Forks,
}

impl Moving {
    pub const fn new() -> Self {
        Self { common: Mutex::new((), &MOVING), forks: Forks::new() }
    }
}

/// Of a CPU in a space. On a line of its own, which forks only read where no thread has moved pages on that CPU.
#[repr(align(64))]
pub(crate) struct OwnMoving {
    lock: Mutex<(), MovingLevel>,
    moved: Moved,
}

impl OwnMoving {
    pub const fn new() -> Self {
        Self { lock: Mutex::new((), &MOVING), moved: Moved::new() }
    }
}

/// While this is there, no page of the space is on its way.
pub(crate) struct Standing<'a> {
    forks: &'a Forks,
    _common: MutexGuard<'a, (), MovingLevel>,
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.forks.end();
    }
}

impl<M: Machine> Space<M> {
    /// While the result is there the caller may move pages: no fork copies. May sleep.
    pub(crate) fn start_moving(&self) -> Option<MutexGuard<'_, (), MovingLevel>> {
        if !self.multithreaded.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(own) = self.spans.own_moving() {
            let guard = own.lock.lock();
            if self.moving.forks.may_move(&own.moved) {
                return Some(guard);
            }
        }
        // A fork is under way, or there was no memory.
        Some(self.moving.common.lock())
    }

    /// While the result is there no page is on its way, for a fork or who seals. May sleep.
    pub(crate) fn stop_moving(&self) -> Option<Standing<'_>> {
        if !self.multithreaded.load(Ordering::Relaxed) {
            return None;
        }
        let common = self.moving.common.lock();
        self.moving.forks.announce();
        let standing = Standing { forks: &self.moving.forks, _common: common };
        for own in self.spans.each_moving().filter(|own| own.moved.is_noted()) {
            drop(own.lock.lock_nested());
        }
        Some(standing)
    }
}
