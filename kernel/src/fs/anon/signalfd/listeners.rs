//! The signal files that a process has looked at. A program chooses how many, so they are found by a tree, and told and dropped in parts.
//!
//! A file stays known for as long as anybody else refers to its queue. Of those that are gone, each newcomer takes some away. It remembers by which
//! process it was made known last ([`KnownTo`]), so threads that read signal files of their own take no lock for that.
//!
//! Lock order: `known`, innermost but for the allocator.
#![deny(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::mem::take;
use core::sync::atomic::{AtomicU64, Ordering};

use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use once_cell::race::OnceBox;

use crate::lock_order as level;
use sync::rcu::{InParts, Parts};
use sync::{SpinLock, lock_class, try_arc, try_box};

use crate::errno::Result;
use crate::fs::file::poll::{Pace, PollQueue, Watcher};

lock_class! { static LISTENERS: LockClass = ("signalfd listeners", level::SignalfdListeners); }

/// Listeners that are dropped before others may run.
const TURN: usize = 64;
/// Known listeners that a newcomer looks at for one that is gone.
const LOOKS: usize = 2;

/// The last of a process's [`Listeners`] to which a file has made itself known.
pub(super) struct KnownTo(AtomicU64);

impl KnownTo {
    pub const fn nobody() -> Self {
        KnownTo(AtomicU64::new(0))
    }
}

/// Numbers of those that have been made: no two are the same. A process takes one when it first has a signal file.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Whom a process tells of signals that wait. Made for the first signal file.
pub struct Listeners(OnceBox<Told>);

struct Told {
    /// Each listener watches it.
    queue: PollQueue,
    number: u64,
    known: SpinLock<Known, level::SignalfdListeners>,
}

/// The queue of a signal file.
struct Listener {
    queue: Weak<PollQueue>,
    link: RBTreeAtomicLink,
}

intrusive_adapter!(ByQueue = Arc<Listener>: Listener { link => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByQueue {
    /// The address: it is not used again while it is referred to here.
    type Key = usize;
    fn get_key(&self, listener: &'a Listener) -> usize {
        listener.queue.as_ptr().addr()
    }
}

impl Watcher for Listener {
    fn notify(&self, pace: &mut Pace) -> bool {
        let Some(queue) = self.queue.upgrade() else { return false };
        let waited_for = queue.has_sleepers();
        queue.wake_at(pace);
        waited_for
    }
}

struct Known {
    tree: RBTree<ByQueue>,
    count: usize,
    /// Where the last newcomer looked.
    hand: usize,
    /// The place for dropping them in parts, once they are many.
    leaving: Option<Box<InParts<Leaving>>>,
}

impl Known {
    /// Takes out some that are gone.
    fn sweep(&mut self) -> [Option<Arc<Listener>>; LOOKS] {
        [(); LOOKS].map(|()| {
            let mut at = self.tree.lower_bound_mut(Bound::Excluded(&self.hand));
            let Some(listener) = at.get() else {
                self.hand = 0;
                return None;
            };
            self.hand = listener.queue.as_ptr().addr();
            if listener.queue.strong_count() != 0 {
                return None;
            }
            self.count = self.count.saturating_sub(1);
            at.remove()
        })
    }

    fn insert(&mut self, listener: Arc<Listener>) -> Result {
        if self.count >= TURN && self.leaving.is_none() {
            self.leaving = Some(try_box(InParts::new(Leaving::default()))?);
        }
        self.tree.insert(listener);
        self.count = self.count.saturating_add(1);
        Ok(())
    }
}

impl Listeners {
    pub const fn new() -> Listeners {
        Listeners(OnceBox::new())
    }

    /// `queue` is woken from now on, that of a file which was last made known to `last`.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn add(&self, queue: &Arc<PollQueue>, last: &KnownTo) -> Result {
        let told = self.0.get_or_try_init(Told::try_new)?;
        // Acquire and release: who finds it known relies on what made it so.
        if last.0.load(Ordering::Acquire) != told.number {
            told.add(queue)?;
            last.0.store(told.number, Ordering::Release);
        }
        Ok(())
    }

    /// A signal has come that waits. No lock is held.
    #[inline]
    pub fn wake(&self, pace: &mut Pace) {
        if let Some(told) = self.0.get() {
            told.queue.wake_at(pace);
        }
    }

    #[cfg(test)]
    fn known(&self) -> usize {
        self.0.get().map_or(0, |told| told.known.lock().count)
    }
}

impl Told {
    fn try_new() -> Result<Box<Told>> {
        let known = Known { tree: RBTree::new(ByQueue::NEW), count: 0, hand: 0, leaving: None };
        let number = MADE.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Ok(try_box(Told { queue: PollQueue::new(), number, known: SpinLock::new(known, &LISTENERS) })?)
    }

    fn add(&self, queue: &Arc<PollQueue>) -> Result {
        let key = Arc::as_ptr(queue).addr();
        if !self.known.lock().tree.find(&key).is_null() {
            return Ok(());
        }
        // It is told before it is known: another thread that finds it relies on that.
        let listener = try_arc(Listener { queue: Arc::downgrade(queue), link: RBTreeAtomicLink::new() })?;
        let (weak, exclusive) = (Arc::downgrade(&listener), false);
        self.queue.watch(weak, exclusive)?;
        let mut known = self.known.lock();
        let gone = known.sweep();
        let entered = if known.tree.find(&key).is_null() { known.insert(listener) } else { Ok(()) };
        drop(known);
        drop(gone);
        entered
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let mut known = self.known.lock();
        if let Some(mut leaving) = known.leaving.take() {
            leaving.value().0 = take(&mut known.tree);
            drop(known);
            InParts::begin_drop(leaving);
        }
    }
}

/// Those of a process that is gone.
#[derive(Default)]
struct Leaving(RBTree<ByQueue>);

impl Parts for Leaving {
    fn drop_part(&mut self) -> bool {
        for _ in 0..TURN {
            if self.0.front_mut().remove().is_none() {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn queues(n: usize) -> Vec<Arc<PollQueue>> {
        (0..n).map(|_| Arc::new(PollQueue::new())).collect()
    }

    #[test]
    fn a_file_that_is_known_is_entered_once() {
        crate::testing::in_process(|| {
            let (listeners, queues) = (Listeners::new(), queues(100));
            for queue in queues.iter().chain(&queues) {
                listeners.add(queue, &KnownTo::nobody()).unwrap();
            }
            assert_eq!(listeners.known(), 100);
        });
    }

    #[test]
    fn a_file_that_another_process_has_read_meanwhile_is_known_to_both_and_found_without_a_lock() {
        crate::testing::in_process(|| {
            let (one, other, last) = (Listeners::new(), Listeners::new(), KnownTo::nobody());
            let queue = Arc::new(PollQueue::new());
            for listeners in [&one, &other, &one, &other] {
                listeners.add(&queue, &last).unwrap();
                assert_eq!(listeners.known(), 1);
            }
            // Who wanted it would wait for ever.
            let _held = other.0.get().unwrap().known.lock();
            other.add(&queue, &last).unwrap();
        });
    }

    #[test]
    fn newcomers_take_the_places_of_those_that_are_gone() {
        crate::testing::in_process(|| {
            let listeners = Listeners::new();
            for _ in 0..1000 {
                listeners.add(&Arc::new(PollQueue::new()), &KnownTo::nobody()).unwrap();
            }
            assert!(listeners.known() < 10, "{} are kept", listeners.known());
        });
    }

    #[test]
    fn many_are_dropped_in_parts() {
        sync::machine::hosted::as_cpu(142, || {
            let (listeners, queues) = (Listeners::new(), queues(1000));
            queues.iter().for_each(|queue| listeners.add(queue, &KnownTo::nobody()).unwrap());
            drop(listeners);
            let kept = queues.iter().filter(|queue| Arc::weak_count(queue) == 1).count();
            assert_eq!(kept, 1000 - TURN, "a part at once");
            sync::rcu::drain();
            assert!(queues.iter().all(|queue| Arc::weak_count(queue) == 0));
        });
    }
}
