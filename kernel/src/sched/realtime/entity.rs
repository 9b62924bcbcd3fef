//! What the order of real-time tasks knows of a task. All but `ran` changes under the lock of the task's queue, or by its own CPU.
#![forbid(unsafe_code)]

use super::settings::slice;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// See the head of the file.
pub struct Entity {
    /// The priority at which it waits, or last waited.
    priority: AtomicU32,
    /// It goes before others of its priority the next time that it is put on a queue.
    is_first: AtomicBool,
    /// It waits, and may run elsewhere.
    is_movable: AtomicBool,
    /// What is left of its slice, ns; 0: it has not begun.
    left: AtomicU64,
    /// How long it has run since it last slept, as its ticks tell, ns.
    ran: AtomicU64,
}

impl Entity {
    pub const fn new() -> Self {
        Self {
            priority: AtomicU32::new(0),
            is_first: AtomicBool::new(false),
            is_movable: AtomicBool::new(false),
            left: AtomicU64::new(0),
            ran: AtomicU64::new(0),
        }
    }

    pub fn priority(&self) -> u32 {
        self.priority.load(Relaxed)
    }

    pub fn set_priority(&self, priority: u32) {
        self.priority.store(priority, Relaxed);
    }

    pub fn is_movable(&self) -> bool {
        self.is_movable.load(Relaxed)
    }

    pub fn set_movable(&self, is_movable: bool) {
        self.is_movable.store(is_movable, Relaxed);
    }

    /// Who runs goes before its equals when it is put back; who has given its turn up, or slept, does not.
    pub fn set_first(&self, is_first: bool) {
        self.is_first.store(is_first, Relaxed);
    }

    pub fn take_first(&self) -> bool {
        let is_first = self.is_first.load(Relaxed);
        self.is_first.store(false, Relaxed);
        is_first
    }

    /// Its CPU has ticked, after `ns` of its time. Is its slice over? Then the next one begins.
    pub fn tick(&self, ns: u64) -> bool {
        self.ran.store(self.ran.load(Relaxed).saturating_add(ns), Relaxed);
        let left = match self.left.load(Relaxed) {
            0 => slice(),
            left => left,
        };
        let left = left.saturating_sub(ns);
        self.left.store(left, Relaxed);
        left == 0
    }

    /// It sleeps.
    pub fn sleep(&self) {
        self.set_first(false);
        self.ran.store(0, Relaxed);
    }

    /// How long it has run since it last slept, as its ticks tell, ns.
    pub fn ran(&self) -> u64 {
        self.ran.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_after_its_time_and_the_next_begins() {
        let entity = Entity::new();
        let ends: std::vec::Vec<u32> = (0..30).filter(|_| entity.tick(10_000_000)).collect();
        assert_eq!(ends, [9, 19, 29]);
        assert_eq!(entity.ran(), 300_000_000);
        entity.sleep();
        assert_eq!(entity.ran(), 0);
    }
}
