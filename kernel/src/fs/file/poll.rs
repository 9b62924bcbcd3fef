//! Readiness: queues that a file wakes, and the two kinds of waiter: a thread in read, write, poll or select, which joins
//! for one sleep, and an epoll, which stays.
//!
//! Lock order: what the file holds when it wakes → `watchers` → the watcher's own lock.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::lock_order as level;
use sync::{SpinLock, TryVec, lock_class, try_box};

use super::async_io::{AsyncIo, Place};
use crate::errno::{EINTR, ERESTARTSYS, ETIMEDOUT, Errno, Result};
use crate::fs::caller::Band;
use crate::sched::{Deadline, PollSet, Sleep, WaitQueue, Woken, schedule_if_needed};

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
    /// The file may be ready. Says whether a thread sleeps for it.
    fn notify(&self) -> bool;

    /// Among several of these one that somebody sleeps for is enough (EPOLLEXCLUSIVE).
    fn is_exclusive(&self) -> bool {
        false
    }
}

/// What stands on a queue's list.
trait Standing {
    fn is_gone(&self) -> bool;
}

impl Standing for Weak<dyn Watcher> {
    fn is_gone(&self) -> bool {
        self.strong_count() == 0
    }
}

impl Standing for Place {
    fn is_gone(&self) -> bool {
        self.to.strong_count() == 0
    }
}

/// Those who watch a queue. They keep their places: `notify` may be among them.
struct Watchers<W> {
    list: Vec<W>,
    /// Where the last newcomer looked for the place of one that is gone.
    looked: usize,
}

impl<W: Standing> Watchers<W> {
    const fn new() -> Self {
        Watchers { list: Vec::new(), looked: 0 }
    }

    /// A newcomer looks at a few places only. So as many are there as were in use at once, and a part more.
    fn put(&mut self, watcher: W) -> Result {
        const LOOKS: usize = 4;
        for _ in 0..LOOKS.min(self.list.len()) {
            self.looked = self.looked.checked_add(1).filter(|&at| at < self.list.len()).unwrap_or(0);
            if let Some(place) = self.list.get_mut(self.looked).filter(|w| w.is_gone()) {
                *place = watcher;
                return Ok(());
            }
        }
        Ok(self.list.try_push(watcher)?)
    }
}

struct Watching {
    all: Watchers<Weak<dyn Watcher>>,
    exclusive: Watchers<Weak<dyn Watcher>>,
    /// Files that tell their owners by signal.
    signals: Watchers<Place>,
}

impl Watching {
    const fn new() -> Self {
        Watching { all: Watchers::new(), exclusive: Watchers::new(), signals: Watchers::new() }
    }
}

pub struct PollQueue {
    queue: WaitQueue,
    watched: AtomicBool,
    /// Made for the first one.
    watchers: SpinLock<Option<Box<Watching>>, level::PollWatchers>,
}

impl PollQueue {
    pub const fn new() -> Self {
        PollQueue {
            queue: WaitQueue::new(),
            watched: AtomicBool::new(false),
            watchers: SpinLock::new(None, &WATCHERS),
        }
    }

    /// Something changed: all sleepers look again.
    pub fn wake(&self) {
        self.queue.wake_all();
        if self.watched.load(SeqCst) {
            self.notify();
        }
    }

    /// As `wake`, because bytes have moved: owners of files with O_ASYNC get their signal, too.
    pub fn wake_for_io(&self) {
        self.wake();
        self.signal_owners();
    }

    /// As `wake_for_io`, for callers that hold no lock but sleeping ones: it gives way among many watchers.
    pub fn wake_for_io_and_give_way(&self) {
        self.queue.wake_all();
        if self.watched.load(SeqCst) {
            self.notify_and_give_way();
            self.signal_owners();
        }
    }

    /// Tells the owners of files with O_ASYNC.
    pub fn signal_owners(&self) {
        if self.watched.load(SeqCst) {
            self.for_each_place(|io, band| io.tell(band));
        }
    }

    /// From now on nobody is told by signal, until O_ASYNC is turned on again.
    pub fn stop_signals(&self) {
        if self.watched.load(SeqCst) {
            self.for_each_place(|io, _| io.turn_off());
        }
    }

    #[cold]
    fn for_each_place(&self, f: impl Fn(&AsyncIo, Band)) {
        let mut i = 0usize;
        loop {
            let place = match &*self.watchers.lock() {
                Some(watchers) => watchers.signals.list.get(i).cloned(),
                None => None,
            };
            let Some(place) = place else { return };
            if let Some(io) = place.to.upgrade() {
                f(&io, place.band);
            }
            i = i.saturating_add(1);
        }
    }

    /// The owner of a file with O_ASYNC comes to stand here.
    pub(super) fn join(&self, place: Place) -> Result {
        self.with_watching(|watching| watching.signals.put(place))
    }

    /// Does a thread sleep here?
    pub fn has_sleepers(&self) -> bool {
        self.queue.has_waiters()
    }

    #[cold]
    fn notify(&self) {
        self.tell(|_| ());
    }

    #[cold]
    fn notify_and_give_way(&self) {
        self.tell(|told| {
            if told.is_multiple_of(64) {
                schedule_if_needed();
            }
        });
    }

    /// Tells all watchers, and of the exclusive ones as many as it takes to find one that somebody sleeps for. `between` gets their number so
    /// far.
    fn tell(&self, mut between: impl FnMut(u32)) {
        let mut told = 0u32;
        for exclusive in [false, true] {
            let mut i = 0usize;
            // One at a time and with the lock dropped: a watcher may be the last to hold itself.
            loop {
                let watcher = {
                    let watchers = self.watchers.lock();
                    let Some(watchers) = &*watchers else { return };
                    let list = if exclusive { &watchers.exclusive.list } else { &watchers.all.list };
                    match list.get(i) {
                        Some(weak) => weak.upgrade(),
                        None => break,
                    }
                };
                if watcher.is_some_and(|watcher| watcher.notify()) && exclusive {
                    return;
                }
                i = i.saturating_add(1);
                told = told.wrapping_add(1);
                between(told);
            }
        }
    }

    fn watch(&self, watcher: Weak<dyn Watcher>, exclusive: bool) -> Result {
        // Whoever comes behind the back of `notify` looks at the file itself.
        self.with_watching(|watching| {
            let list = if exclusive { &mut watching.exclusive } else { &mut watching.all };
            list.put(watcher)
        })
    }

    fn with_watching(&self, put: impl FnOnce(&mut Watching) -> Result) -> Result {
        let mut watchers = self.watchers.lock();
        if watchers.is_none() {
            *watchers = Some(try_box(Watching::new())?);
        }
        let Some(watchers) = &mut *watchers else { return Ok(()) };
        put(watchers)?;
        self.watched.store(true, SeqCst);
        Ok(())
    }

    /// Sleeps, open to signals, until `condition` gives a value; a signal gives ERESTARTSYS.
    pub fn wait<R>(&self, deadline: Option<Deadline>, condition: impl FnMut() -> Option<R>) -> Result<R> {
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
                if let Err(e) = queue.watch(Arc::downgrade(watcher), watcher.is_exclusive()) {
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
    use std::vec::Vec;

    type OnNotify = Box<dyn Fn() + Send + Sync>;

    /// Counts what it is told, and does something then.
    /// The last: it is an exclusive one that somebody sleeps for.
    struct Counting(AtomicU32, OnNotify, bool);

    impl Watcher for Counting {
        fn notify(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            (self.1)();
            self.2
        }

        fn is_exclusive(&self) -> bool {
            self.2
        }
    }

    fn watcher(queue: &PollQueue, f: OnNotify) -> Arc<Counting> {
        make_watcher(queue, f, false)
    }

    fn make_watcher(queue: &PollQueue, f: OnNotify, exclusive: bool) -> Arc<Counting> {
        let watcher = Arc::new(Counting(AtomicU32::new(0), f, exclusive));
        let weak: Weak<dyn Watcher> = Arc::<Counting>::downgrade(&watcher);
        queue.watch(weak, exclusive).unwrap();
        watcher
    }

    #[test]
    fn of_exclusive_watchers_one_is_told_and_of_the_others_all() {
        let queue = PollQueue::new();
        let make = |exclusive| make_watcher(&queue, Box::new(|| ()), exclusive);
        let watchers = [true, false, true, false].map(make);
        queue.wake();
        assert_eq!(watchers.each_ref().map(|w| told(w)), [1, 1, 0, 1]);
        let [first, second, third, fourth] = watchers;
        drop(first);
        queue.wake();
        assert_eq!([second, third, fourth].map(|w| told(&w)), [2, 1, 2], "the next in turn");
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
        assert!(
            queue.watchers.lock().as_ref().unwrap().all.list.len() <= 3,
            "places of those that are gone are used again"
        );
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
