//! A futex that lends priority, its word, its state and the threads: whoever waits gets it, or is told that nobody has it, and one at a time has it.
//!
//! The kernel's locks are loom's; its trees are lists. What is modelled is what lies in the protocol: the word, and the end of who owns it.

use crate::model;
use crate::protocol::pi::{
    Claim, Ended, Fault, HandedOver, OWNER, OWNER_DIED, WAITERS, Word, agrees, claim, hand_over, release,
    take,
};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;

struct UserWord(AtomicU32);

impl Word for UserWord {
    fn load(&self) -> Result<u32, Fault> {
        Ok(self.0.load(Ordering::Relaxed))
    }

    fn exchange(&self, old: u32, new: u32) -> Result<u32, Fault> {
        Ok(match self.0.compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(seen) | Err(seen) => seen,
        })
    }
}

/// The state of the futex, if somebody waits.
struct State {
    owner: Option<u32>,
    held: bool,
    waiters: Vec<u32>,
}

/// A futex and the task that owns it first, number 1.
struct World {
    word: UserWord,
    bucket: Mutex<Option<State>>,
    ended: Ended,
    /// The record of task 1, and under its lock whether the task has ended and whether it owns the state.
    record: AtomicU32,
    own: Mutex<(bool, bool)>,
    /// How many have the futex, in their own view.
    inside: AtomicU32,
}

/// What came of a wait.
#[derive(PartialEq, Eq)]
enum Came {
    Has,
    Waits,
    NoOwner,
    Wrong,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            word: UserWord(AtomicU32::new(1)),
            bucket: Mutex::new(None),
            ended: Ended::new(),
            record: AtomicU32::new(0),
            own: Mutex::new((false, false)),
            inside: AtomicU32::new(1),
        })
    }

    fn enters(&self) {
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0, "two have the futex");
    }

    fn leaves(&self) {
        self.inside.fetch_sub(1, Ordering::Relaxed);
    }

    /// Locks it for `tid`, whose priority is higher than that of those that wait if `urgent` is said. Who waits is looked at later.
    fn lock(&self, tid: u32, urgent: bool) -> Came {
        if self.word.exchange(0, tid) == Ok(0) {
            self.enters();
            return Came::Has;
        }
        loop {
            let mut bucket = self.bucket.lock().unwrap();
            let value = self.word.load().unwrap();
            if let Some(state) = &mut *bucket {
                if !agrees(value, state.owner) {
                    return Came::Wrong;
                }
                if !state.held && urgent {
                    take(&self.word, tid, state.owner.is_none()).unwrap();
                    (state.owner, state.held) = (Some(tid), true);
                    self.enters();
                    return Came::Has;
                }
                state.waiters.push(tid);
                return Came::Waits;
            }
            match claim(&self.word, value, tid, false).unwrap() {
                Claim::Taken => {
                    self.enters();
                    return Came::Has;
                }
                Claim::Again => thread::yield_now(),
                Claim::Owned(owner) => {
                    // The record, and then whether its task has ended.
                    self.record.store(1, Ordering::Relaxed);
                    let mut own = self.own.lock().unwrap();
                    if self.ended.has_ended() || own.0 {
                        return if self.word.load().unwrap() & OWNER == owner {
                            Came::NoOwner
                        } else {
                            Came::Wrong
                        };
                    }
                    own.1 = true;
                    *bucket = Some(State { owner: Some(owner), held: true, waiters: Vec::from([tid]) });
                    return Came::Waits;
                }
            }
        }
    }

    /// Unlocks it, of which `tid` is the owner.
    fn unlock(&self, tid: u32) {
        self.leaves();
        if self.word.exchange(tid, 0) == Ok(tid) {
            return;
        }
        loop {
            let mut bucket = self.bucket.lock().unwrap();
            let value = self.word.load().unwrap();
            let Some(state) = &mut *bucket else {
                if release(&self.word, value).unwrap() {
                    return;
                }
                continue;
            };
            assert_eq!(state.owner, Some(tid), "the state has another owner");
            match hand_over(&self.word, value, state.waiters[0]).unwrap() {
                HandedOver::Yes => {
                    (state.owner, state.held) = (Some(state.waiters[0]), false);
                    return;
                }
                HandedOver::Again => {}
                HandedOver::No => panic!("the word names another"),
            }
        }
    }

    /// Task 1 ends and has the futex.
    fn end(&self) {
        self.leaves();
        self.ended.end();
        if self.record.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut own = self.own.lock().unwrap();
        own.0 = true;
        if own.1 {
            drop(own);
            let mut bucket = self.bucket.lock().unwrap();
            let state = bucket.as_mut().unwrap();
            (state.owner, state.held) = (None, false);
        }
    }

    /// `tid`, which waits, is woken if the futex was left for it. False: nobody has woken it.
    fn wakes(&self, tid: u32) -> bool {
        let mut bucket = self.bucket.lock().unwrap();
        let state = bucket.as_mut().unwrap();
        if state.held || state.waiters.first() != Some(&tid) {
            return false;
        }
        if state.owner != Some(tid) {
            take(&self.word, tid, state.owner.is_none()).unwrap();
        }
        (state.owner, state.held) = (Some(tid), true);
        state.waiters.remove(0);
        if state.waiters.is_empty() {
            *bucket = None;
        }
        self.enters();
        true
    }

    fn word(&self) -> u32 {
        self.word.load().unwrap()
    }
}

/// The owner unlocks while another locks.
fn unlocking() {
    let world = World::new();
    let other = world.clone();
    let waiter = thread::spawn(move || other.lock(2, false));
    world.unlock(1);
    match waiter.join().unwrap() {
        Came::Has => assert_eq!(world.word(), 2),
        Came::Waits => assert!(world.wakes(2) && world.word() == 2 | WAITERS, "it sleeps for ever"),
        Came::NoOwner | Came::Wrong => panic!("the owner lives, and the word is right"),
    }
}

/// The owner ends while another locks.
fn ending() {
    let world = World::new();
    let other = world.clone();
    let waiter = thread::spawn(move || other.lock(2, false));
    world.end();
    match waiter.join().unwrap() {
        Came::Waits => {
            assert!(world.wakes(2), "it waits for one that has ended");
            assert_eq!(world.word(), 2 | WAITERS | OWNER_DIED);
        }
        Came::NoOwner => assert_eq!(world.word(), 1 | WAITERS),
        Came::Has | Came::Wrong => panic!("it was never unlocked, nor the word changed"),
    }
}

/// The futex is left for one while another, of a higher priority, comes.
fn overtaking() {
    let world = World::new();
    assert!(world.lock(2, false) == Came::Waits);
    let other = world.clone();
    let urgent = thread::spawn(move || {
        let came = other.lock(3, true);
        if came == Came::Has {
            assert_eq!(other.word() & OWNER, 3, "the word names another");
            other.unlock(3);
        }
        came
    });
    world.unlock(1);
    let first = world.wakes(2);
    let came = urgent.join().unwrap();
    assert!(came != Came::Wrong && came != Came::NoOwner, "the word does not fit the state");
    if first || world.wakes(2) {
        assert_eq!(world.word() & OWNER, 2, "the word names another");
        world.unlock(2);
        assert!(came != Came::Waits || world.wakes(3), "it sleeps for ever");
    }
}

model! { unlocking (3)
    breaks without_the_bit_that_says_that_one_waits: "pi.waiters"
}
model! { ending (3)
    breaks without_a_fence_of_the_end: "pi.end"
    breaks without_a_fence_of_who_attaches: "pi.record"
}
model! { overtaking (2)
    breaks when_who_takes_it_is_not_named: "pi.name"
}
