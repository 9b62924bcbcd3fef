//! A task's policy, and whose turn it is where that interleaves (set_mempolicy(2)).
#![forbid(unsafe_code)]

use super::{Mode, Policy, next_of, note_use, weights};
use crate::frame::MAX_NUMA_NODES;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// The policy of a task. Written by the task alone; others read it for /proc.
pub struct TaskPolicy {
    policy: AtomicU32,
    /// The node that had the last page that was interleaved by turns.
    last: AtomicU8,
    /// How many more it gets in a row.
    left: AtomicU8,
}

/// Before the first node.
const BEFORE: u8 = u8::MAX;

impl TaskPolicy {
    pub const fn new() -> Self {
        Self { policy: AtomicU32::new(0), last: AtomicU8::new(BEFORE), left: AtomicU8::new(0) }
    }

    /// A child's, which goes on where its parent is.
    pub fn copy(&self) -> Self {
        Self {
            policy: AtomicU32::new(self.policy.load(Relaxed)),
            last: AtomicU8::new(self.last.load(Relaxed)),
            left: AtomicU8::new(self.left.load(Relaxed)),
        }
    }

    #[inline]
    pub fn get(&self) -> Policy {
        Policy::from_word(self.policy.load(Relaxed))
    }

    /// Sets the running task's own.
    pub fn set(&self, policy: Policy) {
        if !policy.is_none() {
            note_use();
        }
        self.policy.store(policy.word(), Relaxed);
        if policy.mode().is_some_and(Mode::interleaves) {
            self.last.store(BEFORE, Relaxed);
            self.left.store(0, Relaxed);
        }
    }

    /// The node whose turn is next (MPOL_F_NODE). None: the policy does not interleave.
    pub fn next(&self) -> Option<usize> {
        let (policy, last) = (self.get(), usize::from(self.last.load(Relaxed)));
        policy.mode().filter(|mode| mode.interleaves())?;
        let goes_on = policy.mode() == Some(Mode::WeightedInterleave) && self.left.load(Relaxed) > 0;
        Some(if goes_on { last % MAX_NUMA_NODES } else { next_of(policy.nodes(), last) })
    }

    /// Takes a turn by `policy`, which interleaves.
    pub(super) fn advance(&self, policy: Policy) -> usize {
        let (last, left, nodes) =
            (usize::from(self.last.load(Relaxed)), self.left.load(Relaxed), policy.nodes());
        let goes_on = left > 0 && last < MAX_NUMA_NODES && nodes >> last & 1 != 0;
        let node = if goes_on { last } else { next_of(nodes, last) };
        if policy.mode() == Some(Mode::WeightedInterleave) {
            let left = if goes_on { left } else { weights::weight_of(node) };
            self.left.store(left.saturating_sub(1), Relaxed);
        }
        self.last.store(node as u8, Relaxed);
        node
    }
}

impl Default for TaskPolicy {
    fn default() -> Self {
        Self::new()
    }
}
