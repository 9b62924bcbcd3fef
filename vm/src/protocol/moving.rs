//! Moves of pages within a space by several threads, and forks, which are to find no page on its way.
//!
//! ```text
//! move    lock the CPU's own lock, note, fence, is a fork on?    no: move           yes: unlock it, lock the common lock, move
//! fork    lock the common lock, announce, fence, for each CPU that has noted: lock its lock and unlock it; copy, end
//! ```
//!
//! So moves on different CPUs write no line in common, and a fork of a space that moves nothing looks at words that nobody writes.
//!
//! - Of the two fences (`moving.note`, `moving.announce`) one is first: either the mover sees the fork, or the fork sees that this CPU has movers, and waits
//!   for the one that has the CPU's lock.
//! - Who sees the fork waits for the common lock until it is over (`moving.look`). Who sees it no more sees what it did (`moving.over`, `moving.end`).
#![forbid(unsafe_code)]

use crate::atomic::{AtomicBool, Ordering, const_new, fence_at, site, step};

/// The forks of a space.
#[derive(Debug)]
pub struct Forks {
    is_on: AtomicBool,
}

/// Whether there ever was a move under the lock that this belongs to.
#[derive(Debug)]
pub struct Moved(AtomicBool);

impl Default for Moved {
    fn default() -> Self {
        Self::new()
    }
}

impl Moved {
    const_new! {
        pub fn new() -> Self {
            Moved(AtomicBool::new(false))
        }
    }

    /// Has a fork, which was announced, to wait for this lock?
    #[inline]
    pub fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Forks {
    fn default() -> Self {
        Self::new()
    }
}

impl Forks {
    const_new! {
        pub fn new() -> Self {
            Forks { is_on: AtomicBool::new(false) }
        }
    }

    /// May the holder of a CPU's lock move? Else it needs the common lock instead.
    #[inline]
    pub fn may_move(&self, moved: &Moved) -> bool {
        if !moved.is_noted() {
            moved.0.store(true, Ordering::Relaxed);
        }
        fence_at("moving.note");
        !(self.is_on.load(site("moving.over", Ordering::Acquire)) && step("moving.look"))
    }

    /// A fork begins. The common lock is held.
    pub fn announce(&self) {
        self.is_on.store(true, Ordering::Relaxed);
        fence_at("moving.announce");
    }

    /// The fork has copied all. The common lock is held still.
    pub fn end(&self) {
        self.is_on.store(false, site("moving.end", Ordering::Release));
    }
}
