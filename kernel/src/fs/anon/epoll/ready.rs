//! What is ready in an epoll: a queue in which each interest has its own link, so that coming takes no memory, and one that is removed leaves at once.
//!
//! It is a red-black tree by the order of coming.
//!
//! Lock order: as the epoll's (`super`).
#![deny(unsafe_code)]

use alloc::sync::Arc;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use intrusive_collections::{KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};

use super::interests::Interest;

intrusive_adapter!(ByTurn = Arc<Interest>: Interest { ready => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByTurn {
    type Key = u64;
    fn get_key(&self, interest: &'a Interest) -> u64 {
        interest.turn.load(Relaxed)
    }
}

pub(super) struct Ready {
    tree: RBTree<ByTurn>,
    /// The number of the last that came. No other ever has it.
    last: u64,
}

impl Ready {
    pub(super) const fn new() -> Self {
        Ready { tree: RBTree::new(ByTurn::NEW), last: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tree.is_empty()
    }

    /// Those that are there have this number or a lower one.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// It comes last, unless it is removed. It has been marked as queued, so it is not there already.
    pub(super) fn push(&mut self, interest: Arc<Interest>) {
        if interest.removed.load(SeqCst) {
            return;
        }
        self.last = self.last.wrapping_add(1);
        interest.turn.store(self.last, Relaxed);
        self.tree.back_mut().insert_after(interest);
    }

    /// The first, if it came no later than `last`. One that `stays` goes to the end of the queue, so that whoever looks meanwhile finds it
    /// there; others are taken out. True: it stayed.
    pub(super) fn next(
        &mut self,
        last: u64,
        stays: impl FnOnce(&Interest) -> bool,
    ) -> Option<(Arc<Interest>, bool)> {
        let mut front = self.tree.front_mut();
        front.get().filter(|first| first.turn.load(Relaxed) <= last)?;
        let first = front.remove()?;
        if !stays(&first) {
            return Some((first, false));
        }
        self.push(first.clone());
        Some((first, true))
    }

    /// Takes it out and says so, if it is there: then the caller marks it as not queued.
    pub(super) fn take_out(&mut self, interest: &Interest) -> Option<Arc<Interest>> {
        // Who has marked it as queued may be about to push it.
        if interest.ready.is_linked() { self.remove(interest) } else { None }
    }

    /// Takes it out, if it is there. It is marked as removed, so it does not come back.
    pub(super) fn remove(&mut self, interest: &Interest) -> Option<Arc<Interest>> {
        self.tree.find_mut(&interest.turn.load(Relaxed)).remove()
    }
}
