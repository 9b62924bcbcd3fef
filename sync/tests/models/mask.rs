//! Signals that wait for a process, and masks that change meanwhile: none is left while a thread that does not block it sleeps.

use crate::model;
use crate::protocol::mask::{Mask, Waiting, before_choice, before_look};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::Arc;

/// The signal.
const SIGNAL: u64 = 1;

struct Thread {
    mask: Mask,
    /// It is to look before it sleeps.
    told: AtomicBool,
}

/// A process with a queue.
struct World<const N: usize> {
    queue: Mutex<()>,
    waiting: Waiting,
    threads: [Thread; N],
}

impl<const N: usize> World<N> {
    fn new(masks: [u64; N]) -> Arc<Self> {
        Arc::new(World {
            queue: Mutex::new(()),
            waiting: Waiting::new(),
            threads: masks
                .map(|mask| Thread { mask: Mask::new().inherit(mask), told: AtomicBool::new(false) }),
        })
    }

    fn queue(&self) {
        let _lock = self.queue.lock().unwrap();
        self.waiting.store(SIGNAL);
    }

    /// Tells a thread that does not block the signal.
    fn choose(&self) {
        before_choice();
        if let Some(thread) = self.threads.iter().find(|thread| thread.mask.get() & SIGNAL == 0)
            // As `Work::set`.
            && !thread.told.load(Ordering::Relaxed)
        {
            thread.told.swap(true, Ordering::SeqCst);
        }
    }

    fn send(&self) {
        self.queue();
        self.choose();
    }

    fn change(&self, thread: usize, to: u64) {
        let this = &self.threads[thread];
        let before = this.mask.change(to);
        let waits = self.waiting.set();
        if waits & !to != 0 {
            this.told.swap(true, Ordering::SeqCst);
        }
        if waits & to & !before != 0 {
            self.choose();
        }
    }

    /// A thread that was told takes the signal if it can.
    fn deliver(&self, thread: usize) {
        let this = &self.threads[thread];
        if !this.told.load(Ordering::Relaxed) {
            return;
        }
        this.told.swap(false, Ordering::SeqCst);
        before_look();
        if self.waiting.set() & !this.mask.get() != 0 {
            let _lock = self.queue.lock().unwrap();
            self.waiting.store(0);
        }
    }

    /// All threads look if they were told, and sleep.
    fn settle(&self) {
        (0..N).for_each(|thread| self.deliver(thread));
        let takers = self.threads.iter().filter(|thread| thread.mask.get() & SIGNAL == 0).count();
        assert!(takers == 0 || self.waiting.set() == 0, "a signal waits that nobody looks for");
    }

    /// Runs all of them at the same time.
    fn run<const M: usize>(self: &Arc<Self>, all: [fn(&World<N>); M]) {
        let threads = all.map(|run| {
            let world = self.clone();
            thread::spawn(move || run(&world))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        self.settle();
    }
}

/// A thread lets the signal while it is sent.
fn unblocking() {
    World::new([SIGNAL]).run([World::send, |world| world.change(0, 0)]);
}

/// The thread that is chosen blocks the signal; another does not.
fn blocking() {
    World::new([0, 0]).run([World::send, |world| world.change(0, SIGNAL)]);
}

/// Two threads of three block the signal: who was told passes it on to one that blocks it too.
fn passing_on() {
    let world = World::new([0, 0, 0]);
    world.run([World::send, |world| world.change(0, SIGNAL), |world| world.change(1, SIGNAL)]);
}

/// A thread that was told already looks while the signal is sent.
fn told_before() {
    let world = World::new([0]);
    world.threads[0].told.store(true, Ordering::SeqCst);
    world.run([World::send, |world| world.deliver(0)]);
}

/// A thread that sleeps until a signal that it blocks comes (sigtimedwait). It looks at what waits without the queue's lock, behind the fence with which it
/// came to its wait queue.
#[derive(Default)]
struct Sleeper {
    queue: Mutex<()>,
    waiting: Waiting,
    wants: AtomicU64,
    /// It is on its wait queue, whose wakers have a fence of their own.
    listed: AtomicBool,
    woken: AtomicBool,
}

impl Sleeper {
    fn send(&self) {
        {
            let _lock = self.queue.lock().unwrap();
            self.waiting.store(SIGNAL);
        }
        before_choice();
        if self.wants.load(Ordering::SeqCst) & SIGNAL != 0 {
            fence(Ordering::SeqCst);
            if self.listed.load(Ordering::Relaxed) {
                self.woken.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Does it sleep?
    fn sleeps(&self) -> bool {
        self.wants.store(SIGNAL, Ordering::SeqCst);
        if self.waiting.set() & SIGNAL != 0 {
            return false;
        }
        self.listed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.waiting.set() & SIGNAL == 0
    }
}

/// A thread begins to wait for a signal while it is sent.
fn waiting_for_what_is_blocked() {
    let sleeper = Arc::new(Sleeper::default());
    let other = sleeper.clone();
    let sender = thread::spawn(move || other.send());
    let sleeps = sleeper.sleeps();
    sender.join().unwrap();
    assert!(
        !sleeps || sleeper.woken.load(Ordering::Relaxed),
        "a thread sleeps beside the signal that it waits for"
    );
}

model! { waiting_for_what_is_blocked (3)
    breaks without_a_fence_of_the_sender: "mask.choose"
}
model! { unblocking (3)
    breaks without_a_fence_of_the_sender: "mask.choose"
    breaks without_a_fence_of_the_thread: "mask.changed"
}
model! { blocking (3)
    breaks without_a_fence_of_the_sender: "mask.choose"
    breaks without_a_fence_of_the_thread: "mask.changed"
}
model! { passing_on (3)
    breaks without_a_fence_of_the_chooser: "mask.choose"
    breaks without_a_fence_of_the_blocker: "mask.changed"
}
model! { told_before (3)
    breaks without_a_fence_of_the_sender: "mask.choose"
    breaks without_a_fence_before_the_look: "mask.look"
}
