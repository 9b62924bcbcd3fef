//! What is ready in an epoll: a queue in which each interest has its own link, so that coming takes no memory, and one that is removed leaves at once.
//!
//! It is a red-black tree by the order of coming. Whether there is anything is known without the lock ([`ReadyList::is_empty`]): who asks while nothing is
//! ready writes nothing.
//!
//! Lock order: as the epoll's (`super`).
#![deny(unsafe_code)]

use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::lock_order as level;
use intrusive_collections::{KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};

use super::interests::Interest;
use sync::{SpinGuard, SpinLock, lock_class};

lock_class! { static READY: LockClass = ("epoll ready list", level::EpollReady); }

intrusive_adapter!(ByTurn = Arc<Interest>: Interest { ready => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByTurn {
    type Key = u64;
    fn get_key(&self, interest: &'a Interest) -> u64 {
        interest.turn.load(Relaxed)
    }
}

/// The queue and its lock.
pub(super) struct ReadyList {
    ready: SpinLock<Ready, level::EpollReady>,
    /// Is there anything in the queue? Written under the lock, and only where it changes.
    some: AtomicBool,
}

impl ReadyList {
    pub(super) const fn new() -> Self {
        ReadyList { ready: SpinLock::new(Ready::new(), &READY), some: AtomicBool::new(false) }
    }

    /// Is nothing there, just now? What came before the caller asks is seen.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        !self.some.load(Acquire)
    }

    /// To look at it while nobody changes it.
    pub(super) fn lock(&self) -> SpinGuard<'_, Ready, level::EpollReady> {
        self.ready.lock()
    }

    /// Changes the queue by `f`, under the lock.
    #[inline]
    pub(super) fn change<R>(&self, f: impl FnOnce(&mut Ready) -> R) -> R {
        let mut ready = self.ready.lock();
        let result = f(&mut ready);
        let some = !ready.is_empty();
        if self.some.load(Relaxed) != some {
            self.some.store(some, Release);
        }
        result
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
