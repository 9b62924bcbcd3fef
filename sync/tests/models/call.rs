//! A task that another CPU wakes by a call is woken, however its CPU comes to idle meanwhile; and its end gives its reference up once.

use crate::atomic::fence_at;
use crate::explore::in_turn;
use crate::model;
use crate::protocol::call::Call;
use crate::protocol::inbox::Inbox;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;

const RUNS: u32 = 0;
const SLEEPS: u32 = 1;
const ENDED: u32 = 2;

// SAFETY: loom checks what the call is for.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

/// A task and its CPU.
struct World {
    conditions: [AtomicU32; 2],
    state: AtomicU32,
    call: Call,
    inbox: Inbox,
    links: [AtomicU32; 2],
    kicked: AtomicBool,
    /// What the task is.
    task: UnsafeCell<u32>,
    /// How often the task's reference was given up.
    buried: AtomicU32,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            conditions: [0; 2].map(AtomicU32::new),
            state: AtomicU32::new(RUNS),
            call: Call::new(),
            inbox: Inbox::new(),
            links: [0; 2].map(AtomicU32::new),
            kicked: AtomicBool::new(false),
            task: UnsafeCell::new(0),
            buried: AtomicU32::new(0),
        })
    }

    /// Another CPU makes a condition true, and wakes who waits for it.
    fn wake(&self, which: usize) {
        self.conditions[which].store(1, Ordering::Relaxed);
        fence_at("waker");
        if self.state.load(Ordering::Relaxed) == SLEEPS
            && self.call.call()
            && self.inbox.put_as_first(1, |next| self.links[1].store(next as u32, Ordering::Relaxed))
        {
            self.kicked.store(true, Ordering::Release);
        }
    }

    /// The task's CPU wakes who was called.
    fn answer(&self) {
        if self.inbox.take() != 0 {
            assert_eq!(self.links[1].load(Ordering::Relaxed), 0, "a task is in the inbox twice");
            let wake = || {
                if self.state.load(Ordering::Relaxed) == SLEEPS {
                    self.state.store(RUNS, Ordering::Relaxed);
                }
            };
            if self.call.answer(wake) {
                self.bury();
            }
        }
    }

    fn bury(&self) {
        // SAFETY: loom checks that nobody else uses it.
        self.task.with_mut(|task| unsafe { *task = 0 });
        assert_eq!(self.buried.fetch_add(1, Ordering::Relaxed), 0, "its reference is given up twice");
    }

    /// The task runs for the last time.
    fn end(&self) {
        self.state.store(ENDED, Ordering::Relaxed);
        // SAFETY: as above.
        self.task.with_mut(|task| unsafe { *task = 1 });
        if self.call.end() {
            self.bury();
        }
    }

    /// The task sleeps until the condition holds. False: its CPU halts meanwhile.
    fn sleep(&self, which: usize) -> bool {
        for _ in 0..3 {
            self.state.store(SLEEPS, Ordering::Relaxed);
            fence_at("sleeper");
            if self.conditions[which].load(Ordering::Relaxed) == 1 {
                self.state.store(RUNS, Ordering::Relaxed);
                return true;
            }
            self.answer();
            if self.state.load(Ordering::Relaxed) == SLEEPS {
                // The CPU has nothing else to do. A kick ends the halt.
                return false;
            }
        }
        panic!("it is woken again and again");
    }

    /// Everybody has done what he does. The task, if it sleeps still, is not to be.
    fn check(&self, which: usize) {
        if self.kicked.load(Ordering::Acquire) {
            self.answer();
        }
        let sleeps = self.state.load(Ordering::Relaxed) == SLEEPS;
        assert!(
            !sleeps || self.conditions[which].load(Ordering::Relaxed) == 0,
            "it sleeps though it may go on"
        );
    }
}

fn run(world: &Arc<World>, wakers: usize, task: fn(&World)) {
    let mut threads = Vec::new();
    for which in 0..wakers {
        let world = world.clone();
        threads.push(thread::spawn(move || world.wake(which)));
    }
    task(world);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// It sleeps for one thing while another CPU makes that true.
fn waking() {
    let world = World::new();
    run(&world, 1, |world| {
        world.sleep(0);
    });
    world.check(0);
}

/// It sleeps for one thing, and goes on to sleep for another, while both come true: the call for the first may be under way yet as the second comes.
fn again() {
    let world = World::new();
    run(&world, 2, |world| {
        world.conditions[0].load(Ordering::Relaxed);
        world.state.store(SLEEPS, Ordering::Relaxed);
        fence_at("sleeper");
        if world.conditions[0].load(Ordering::Relaxed) == 1 {
            world.state.store(RUNS, Ordering::Relaxed);
            world.sleep(1);
        } else {
            world.conditions[1].store(1, Ordering::Relaxed);
        }
    });
    world.check(1);
}

/// It was called, went on by itself, and sleeps on another CPU while that call is answered and another comes.
fn moved() {
    let world = World::new();
    world.state.store(SLEEPS, Ordering::Relaxed);
    world.wake(0);
    world.state.store(RUNS, Ordering::Relaxed);
    let sleeps = {
        let world = world.clone();
        thread::spawn(move || {
            world.state.store(SLEEPS, Ordering::Relaxed);
            fence_at("sleeper");
            if world.conditions[1].load(Ordering::Relaxed) == 1 {
                world.state.store(RUNS, Ordering::Relaxed);
            }
        })
    };
    let wakes = {
        let world = world.clone();
        thread::spawn(move || world.wake(1))
    };
    world.answer();
    sleeps.join().unwrap();
    wakes.join().unwrap();
    world.check(1);
}

/// It has gone on, and ends elsewhere while it is called.
fn ending() {
    let world = World::new();
    world.state.store(SLEEPS, Ordering::Relaxed);
    let calls = |world: &World| {
        world.wake(0);
        world.answer();
    };
    in_turn(&world, calls, World::end);
    world.answer();
    assert_eq!(world.buried.load(Ordering::Relaxed), 1, "its reference is not given up");
}

model! { waking (3)
    breaks without_a_fence_of_the_waker: "waker"
    breaks without_a_fence_of_the_sleeper: "sleeper"
}
model! { again (3) }
model! { moved (3)
    breaks when_the_state_is_looked_at_first: "call.first"
    breaks without_release_when_called: "call.call"
    breaks without_acquire_when_answered: "call.answer"
}
model! { ending (3)
    breaks without_release_at_the_end: "call.end"
    breaks without_acquire_when_answered: "call.answer"
}
