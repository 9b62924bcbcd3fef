//! Readiness: queues that a file wakes, and the two kinds of waiter: a thread in read, write, poll or select, which joins
//! for one sleep, and an epoll, which stays.
//!
//! Lock order: what the file holds when it wakes → `watchers` → the watcher's own lock.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::lock_order as level;
use sync::{SpinLock, TryVec, lock_class};

use crate::errno::{EINTR, ERESTARTSYS, ETIMEDOUT, Errno, Result};
use crate::sched::{PollSet, Sleep, WaitQueue, Woken};

lock_class! { static WATCHERS: LockClass = ("poll watchers", level::PollWatchers); }

pub const IN: u32 = 0x001;
pub const PRI: u32 = 0x002;
pub const OUT: u32 = 0x004;
pub const ERR: u32 = 0x008;
pub const HUP: u32 = 0x010;
pub const NVAL: u32 = 0x020;
pub const RDNORM: u32 = 0x040;
pub const WRNORM: u32 = 0x100;

/// Who stays on queues: an epoll's interest in one file.
pub trait Watcher: Send + Sync {
    fn notify(&self);
}

pub struct PollQueue {
    queue: WaitQueue,
    watched: AtomicBool,
    watchers: SpinLock<Vec<Weak<dyn Watcher>>, level::PollWatchers>,
}

impl PollQueue {
    pub const fn new() -> Self {
        PollQueue {
            queue: WaitQueue::new(),
            watched: AtomicBool::new(false),
            watchers: SpinLock::new(Vec::new(), &WATCHERS),
        }
    }

    /// Something changed: all sleepers look again.
    pub fn wake(&self) {
        self.queue.wake_all();
        if self.watched.load(SeqCst) {
            self.notify();
        }
    }

    #[cold]
    #[expect(clippy::arithmetic_side_effects, reason = "counts no more than the array holds")]
    fn notify(&self) {
        let mut i = 0;
        // One at a time and with the lock dropped: a watcher may be the last to hold itself.
        loop {
            let watcher = match self.watchers.lock().get(i) {
                Some(weak) => weak.upgrade(),
                None => return,
            };
            if let Some(watcher) = watcher {
                watcher.notify();
            }
            i += 1;
        }
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) -> Result {
        let mut watchers = self.watchers.lock();
        // The others keep their places: `notify` may be among them. Whoever comes behind its back looks at the file itself.
        match watchers.iter_mut().find(|w| w.strong_count() == 0) {
            Some(place) => *place = watcher,
            None => watchers.try_push(watcher)?,
        }
        self.watched.store(true, SeqCst);
        Ok(())
    }

    /// Sleeps, open to signals, until `condition` gives a value; a signal gives ERESTARTSYS.
    pub fn wait<R>(&self, deadline: Option<u64>, condition: impl FnMut() -> Option<R>) -> Result<R> {
        self.queue.wait_shared(Sleep::Interruptible, deadline, condition).map_err(woken)
    }
}

/// The error of a sleep that ended early.
pub fn woken(why: Woken) -> Errno {
    match why {
        Woken::Signal => ERESTARTSYS,
        Woken::Timeout => ETIMEDOUT,
    }
}

/// For calls that are never restarted (poll, select, epoll_wait).
pub fn interrupted(error: Errno) -> Errno {
    if error == ERESTARTSYS { EINTR } else { error }
}

/// Whom a file's `poll` should tell of its queues.
pub enum Poller<'p, 'a> {
    /// Nobody: only the state is asked for.
    Nobody,
    Sleeper(&'p mut PollSet<'a>),
    Watcher(&'p Arc<dyn Watcher>, &'p mut Result),
}

impl<'a> Poller<'_, 'a> {
    pub fn add(&mut self, queue: &'a PollQueue) {
        match self {
            Poller::Nobody => {}
            Poller::Sleeper(set) => set.add(&queue.queue),
            Poller::Watcher(watcher, outcome) => {
                if let Err(e) = queue.watch(Arc::downgrade(watcher)) {
                    **outcome = Err(e);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::boxed::Box;
    use std::vec::Vec;

    type OnNotify = Box<dyn Fn() + Send + Sync>;

    /// Counts what it is told, and does something then.
    struct Counting(AtomicU32, OnNotify);

    impl Watcher for Counting {
        fn notify(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            (self.1)();
        }
    }

    fn watcher(queue: &PollQueue, f: OnNotify) -> Arc<Counting> {
        let watcher = Arc::new(Counting(AtomicU32::new(0), f));
        let weak: Weak<dyn Watcher> = Arc::<Counting>::downgrade(&watcher);
        queue.watch(weak).unwrap();
        watcher
    }

    fn told(watcher: &Counting) -> u32 {
        watcher.0.load(Ordering::Relaxed)
    }

    #[test]
    fn every_watcher_is_told_once_and_those_that_are_gone_are_forgotten() {
        let queue = PollQueue::new();
        let mut watchers: Vec<_> = (0..3).map(|_| watcher(&queue, Box::new(|| ()))).collect();
        queue.wake();
        drop(watchers.remove(1));
        queue.wake();
        assert!(watchers.iter().all(|watcher| told(watcher) == 2));
        for _ in 0..100 {
            drop(watcher(&queue, Box::new(|| ())));
        }
        assert!(queue.watchers.lock().len() <= 3, "places of those that are gone are used again");
    }

    /// Somebody comes while the watchers are told: the places of others stay, or one would be passed over and sleep for ever.
    #[test]
    fn a_newcomer_does_not_hide_a_watcher_from_a_wake() {
        let queue = Arc::new(PollQueue::new());
        let gone = watcher(&queue, Box::new(|| ()));
        let (theirs, newcomers) = (queue.clone(), SpinLock::new(Vec::new(), &WATCHERS));
        let add = move || {
            let newcomer = watcher(&theirs, Box::new(|| ()));
            newcomers.lock().push(newcomer);
        };
        let first = watcher(&queue, Box::new(add));
        let second = watcher(&queue, Box::new(|| ()));
        drop(gone);
        queue.wake();
        assert_eq!((told(&first), told(&second)), (1, 1));
    }
}
