//! Readiness: queues that a file wakes, and the two kinds of waiter: a thread in read, write, poll or select, which joins
//! for one sleep, and an epoll, which stays.
//!
//! Those who stay, and how many of them are told, are in [`watchers`]; which of them end with an open file, in [`stays`].
//!
//! Lock order: what the file holds when it wakes → `watching`, innermost.
#![deny(unsafe_code)]

mod stays;
mod watchers;

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::lock_order as level;
use sync::{SpinLock, lock_class, try_arc};

use super::async_io::Place;
use crate::errno::{EINTR, ERESTARTSYS, ETIMEDOUT, Errno, Result};
use crate::sched::{Deadline, PollSet, Sleep, WaitQueue, Woken};
use watchers::Watching;

pub use stays::Stays;
pub use watchers::{Pace, Watcher};

lock_class! { static WATCHING: LockClass = ("poll queue", level::PollQueue); }

pub const IN: u32 = 0x001;
pub const PRI: u32 = 0x002;
pub const OUT: u32 = 0x004;
pub const ERR: u32 = 0x008;
pub const HUP: u32 = 0x010;
pub const NVAL: u32 = 0x020;
pub const RDNORM: u32 = 0x040;
pub const WRNORM: u32 = 0x100;
pub const WRBAND: u32 = 0x200;
pub const RDHUP: u32 = 0x2000;

/// Begins with those who sleep.
#[repr(C)]
pub struct PollQueue {
    queue: WaitQueue,
    watched: AtomicBool,
    /// Made for the first one.
    watching: SpinLock<Option<Arc<Watching>>, level::PollQueue>,
}

impl PollQueue {
    pub const fn new() -> Self {
        PollQueue {
            queue: WaitQueue::new(),
            watched: AtomicBool::new(false),
            watching: SpinLock::new(None, &WATCHING),
        }
    }

    /// Something changed: all sleepers look again.
    pub fn wake(&self) {
        self.queue.wake_all();
        if self.watched.load(SeqCst) {
            self.tell_watchers(&mut Pace::hurried());
        }
    }

    /// As `wake`, for callers that hold no lock but sleeping ones: it gives way among many watchers.
    pub fn wake_and_give_way(&self) {
        self.wake_at(&mut Pace::resting());
    }

    /// As `wake`: the caller has told others, or may rest.
    pub fn wake_at(&self, pace: &mut Pace) {
        self.queue.wake_all();
        if self.watched.load(SeqCst) {
            self.tell_watchers(pace);
        }
    }

    /// As `wake`, because bytes have moved: owners of files with O_ASYNC get their signal, too.
    pub fn wake_for_io(&self) {
        self.wake();
        self.signal_owners();
    }

    /// As `wake_for_io`, for callers that hold no lock but sleeping ones and have just given back the one under which bytes moved.
    pub fn wake_for_io_and_give_way(&self) {
        self.queue.wake_all_after_unlock();
        self.tell_all();
    }

    /// As `wake_for_io_and_give_way`; but of those who `wait_alone` one is woken, who passes on what it leaves (`wake_next`).
    pub fn wake_one_for_io_and_give_way(&self) {
        self.queue.wake_one_after_unlock();
        self.tell_all();
    }

    /// Wakes one of those who `wait_alone`, on a queue that no poll comes to. The caller has just given back the sleeping lock under which it made its change.
    pub fn wake_one_after_unlock(&self) {
        self.queue.wake_one_after_unlock();
    }

    /// Wakes another of those who `wait_alone`, since there is more than the one before has taken.
    pub fn wake_next(&self) {
        self.queue.wake_one();
    }

    fn tell_all(&self) {
        if self.watched.load(SeqCst) {
            self.tell_watchers(&mut Pace::resting());
            self.tell_owners(&mut Pace::resting());
        }
    }

    /// Tells the owners of files with O_ASYNC.
    pub fn signal_owners(&self) {
        if self.watched.load(SeqCst) {
            self.tell_owners(&mut Pace::hurried());
        }
    }

    /// From now on nobody is told by signal, until O_ASYNC is turned on again.
    pub fn stop_signals(&self) {
        if self.watched.load(SeqCst)
            && let Some(watching) = self.watching()
        {
            watching.stop_signals();
        }
    }

    /// Does a thread sleep here?
    pub fn has_sleepers(&self) -> bool {
        self.queue.has_waiters()
    }

    fn watching(&self) -> Option<Arc<Watching>> {
        self.watching.lock().clone()
    }

    #[cold]
    fn tell_watchers(&self, pace: &mut Pace) {
        if let Some(watching) = self.watching() {
            watching.tell_watchers(pace);
        }
    }

    #[cold]
    fn tell_owners(&self, pace: &mut Pace) {
        if let Some(watching) = self.watching() {
            watching.tell_owners(pace);
        }
    }

    /// The owner of a file with O_ASYNC comes to stand here.
    pub(super) fn join(&self, place: Place) -> Result {
        self.with_watching(|watching| watching.join(place))
    }

    /// `watcher` stays here and is told, for as long as somebody else keeps it.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn watch(&self, watcher: Weak<dyn Watcher>, exclusive: bool) -> Result {
        self.with_watching(|watching| watching.watch(watcher, exclusive))
    }

    fn with_watching(&self, put: impl FnOnce(&Watching) -> Result) -> Result {
        let watching = match &mut *self.watching.lock() {
            Some(watching) => watching.clone(),
            none => none.insert(try_arc(Watching::new())?).clone(),
        };
        put(&watching)?;
        self.watched.store(true, SeqCst);
        Ok(())
    }

    /// Sleeps, open to signals, until `condition` gives a value; a signal gives ERESTARTSYS.
    pub fn wait<R>(&self, deadline: Option<Deadline>, condition: impl FnMut() -> Option<R>) -> Result<R> {
        self.queue.wait_shared(Sleep::Interruptible, deadline, condition).map_err(woken)
    }

    /// As `wait`, for something that one takes and no other has then: of such sleepers each wake wakes one. The caller takes what there is, and
    /// calls `wake_next` if it leaves anything, whatever else becomes of it.
    pub fn wait_alone<R>(&self, condition: impl FnMut() -> Option<R>) -> Result<R> {
        self.wait_alone_until(None, condition)
    }

    /// As `wait_alone`, until `deadline` at the latest: ETIMEDOUT.
    pub fn wait_alone_until<R>(
        &self,
        deadline: Option<Deadline>,
        condition: impl FnMut() -> Option<R>,
    ) -> Result<R> {
        self.queue.wait_until(Sleep::Interruptible, deadline, condition).map_err(woken)
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
    use std::boxed::Box;
    use std::vec::Vec;

    type OnNotify = Box<dyn Fn() + Send + Sync>;

    /// Counts what it is told, and does something then.
    /// The last: it is an exclusive one that somebody sleeps for.
    struct Counting(AtomicU32, OnNotify, bool);

    impl Watcher for Counting {
        fn notify(&self, _: &mut Pace) -> bool {
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
        assert!(queue.watching().unwrap().places() <= 3, "places of those that are gone are used again");
    }

    /// Somebody comes while the watchers are told: the places of others stay, or one would be passed over and sleep for ever.
    #[test]
    fn a_newcomer_does_not_hide_a_watcher_from_a_wake() {
        let queue = Arc::new(PollQueue::new());
        let gone = watcher(&queue, Box::new(|| ()));
        let (theirs, newcomers) = (queue.clone(), SpinLock::new(Vec::new(), &WATCHING));
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

    const MANY: usize = 1000;

    fn many(queue: &PollQueue) -> Vec<Arc<Counting>> {
        (0..MANY).map(|_| watcher(queue, Box::new(|| ()))).collect()
    }

    fn told_so_far(watchers: &[Arc<Counting>]) -> usize {
        watchers.iter().filter(|watcher| told(watcher) > 0).count()
    }

    #[test]
    fn who_may_rest_tells_many_before_it_comes_back() {
        crate::testing::in_process(|| {
            let queue = PollQueue::new();
            let watchers = many(&queue);
            queue.wake_and_give_way();
            assert!(watchers.iter().all(|watcher| told(watcher) == 1));
        });
    }

    /// A timer, say: few are told at once, and all soon. One wake more during that comes to all of them, newcomers in places of others included.
    #[test]
    fn who_may_not_rest_tells_a_few_and_all_soon() {
        sync::machine::hosted::as_cpu(140, || {
            let queue = PollQueue::new();
            let mut watchers = many(&queue);
            queue.wake();
            assert_eq!(told_so_far(&watchers), 64);
            sync::rcu::poll();
            let so_far = told_so_far(&watchers);
            assert!(so_far < MANY || !sync::rcu::any_ripe());
            drop(watchers.swap_remove(3));
            watchers.push(watcher(&queue, Box::new(|| ())));
            watchers.extend(many(&queue));
            let before: Vec<u32> = watchers.iter().map(|watcher| told(watcher)).collect();
            queue.wake();
            sync::rcu::drain();
            let again = watchers.iter().zip(before).filter(|(watcher, before)| told(watcher) > *before);
            assert_eq!(again.count(), watchers.len());
        });
    }

    /// The queue goes while its watchers are told of it.
    #[test]
    fn a_round_outlives_the_queue_and_many_are_dropped_in_parts() {
        sync::machine::hosted::as_cpu(141, || {
            let queue = PollQueue::new();
            let watchers = many(&queue);
            queue.wake();
            drop(queue);
            assert!(watchers.iter().all(|watcher| Arc::weak_count(watcher) == 1));
            sync::rcu::drain();
            assert!(told_so_far(&watchers) == MANY);
            assert!(watchers.iter().all(|watcher| Arc::weak_count(watcher) == 0));
            let queue = PollQueue::new();
            let watchers = many(&queue);
            drop(queue);
            let kept = watchers.iter().filter(|watcher| Arc::weak_count(watcher) == 1).count();
            assert_eq!(kept, MANY - 64, "a part at once");
            sync::rcu::drain();
            assert!(watchers.iter().all(|watcher| Arc::weak_count(watcher) == 0));
        });
    }
}
