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
        watchers.retain(|w| w.strong_count() > 0);
        watchers.try_push(watcher)?;
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
