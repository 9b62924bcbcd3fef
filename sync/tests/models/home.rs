//! A task goes from one queue to another while its affinity changes, and while it is woken: it is on one queue or runs on one CPU, and where it may be.

use crate::model;
use crate::protocol::home::Home;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::sync::{Mutex, MutexGuard};
use loom::thread;
use std::sync::Arc;

const RUNS: u32 = 0;
const SLEEPS: u32 = 1;

/// What a queue knows of the task, under its lock.
#[derive(Default)]
struct Queue {
    waits: bool,
    current: bool,
}

/// A task that waits on CPU 0 and may go to CPU 1.
struct World {
    queues: [Mutex<Queue>; 2],
    home: Home,
    /// It is on a queue: a word of the task's.
    linked: AtomicBool,
    /// CPUs that it may use.
    mask: AtomicU32,
    state: AtomicU32,
    /// It looks before it is next in user mode.
    told: AtomicBool,
    in_user_mode: AtomicBool,
    kicked: AtomicBool,
}

impl World {
    fn new(waits: bool) -> Arc<Self> {
        Arc::new(World {
            queues: [Mutex::new(Queue { waits, current: false }), Mutex::new(Queue::default())],
            home: Home::new(0),
            linked: AtomicBool::new(waits),
            mask: AtomicU32::new(0b11),
            state: AtomicU32::new(if waits { RUNS } else { SLEEPS }),
            told: AtomicBool::new(false),
            in_user_mode: AtomicBool::new(false),
            kicked: AtomicBool::new(false),
        })
    }

    fn lock(&self, cpu: u32) -> MutexGuard<'_, Queue> {
        self.queues[cpu as usize].lock().unwrap()
    }

    fn allows(&self, cpu: u32) -> bool {
        self.mask.load(Ordering::Relaxed) & 1 << cpu != 0
    }

    fn put(&self, cpu: u32) {
        let mut queue = self.lock(cpu);
        self.home.move_to(cpu);
        self.linked.store(true, Ordering::Relaxed);
        queue.waits = true;
    }

    fn take(&self, queue: &mut Queue) {
        assert!(queue.waits, "it does not wait on this queue");
        queue.waits = false;
        self.linked.store(false, Ordering::Relaxed);
    }

    /// CPU 1 takes it from CPU 0, and runs it.
    fn moves(&self) {
        {
            let mut queue = self.lock(0);
            if !queue.waits || !self.allows(1) {
                return;
            }
            self.take(&mut queue);
        }
        self.put(1);
        {
            let mut queue = self.lock(1);
            if !queue.waits {
                return;
            }
            self.take(&mut queue);
            queue.current = true;
            Home::taken();
        }
        if !self.told.load(Ordering::Relaxed) {
            self.in_user_mode.store(true, Ordering::Relaxed);
        }
    }

    /// It may run on CPU 0 alone from now on.
    fn restrict(&self) {
        self.mask.store(0b01, Ordering::Relaxed);
        let (mut queue, cpu) = self.home.lock(|cpu| self.lock(cpu));
        let waits = self.home.is_at(cpu, self.linked.load(Ordering::Relaxed));
        if waits && !self.allows(cpu) {
            self.take(&mut queue);
            drop(queue);
            return self.put(0);
        }
        if (waits || queue.current) && self.allows(cpu) {
            return;
        }
        drop(queue);
        let tell = || self.told.store(true, Ordering::Relaxed);
        let (queue, _) = self.home.tell(tell, |cpu| self.lock(cpu));
        if queue.current {
            self.kicked.store(true, Ordering::Relaxed);
        }
    }
}

fn moving() {
    let world = World::new(true);
    let other = thread::spawn({
        let world = world.clone();
        move || world.restrict()
    });
    world.moves();
    other.join().unwrap();
    let stays = world.in_user_mode.load(Ordering::Relaxed) && !world.kicked.load(Ordering::Relaxed);
    assert!(!stays, "it runs on where it may not, and nobody told its CPU");
    let places = [0, 1].map(|cpu| {
        let queue = world.lock(cpu);
        u32::from(queue.waits) + u32::from(queue.current)
    });
    assert_eq!(places[0] + places[1], 1, "it is lost, or in two places: {places:?}");
}

model! { moving (3)
    breaks where_the_link_is_seen_before_the_word: "home.moved"
    breaks where_the_word_is_read_before_the_link: "home.linked"
    breaks without_a_fence_of_who_tells: "home.told"
    breaks without_a_fence_of_who_runs_it: "home.taken"
}

/// It was woken on CPU 0 and runs on CPU 1, where it is about to sleep again, while another waker comes that saw it on CPU 0.
fn waking() {
    let world = World::new(false);
    let waker = thread::spawn({
        let world = world.clone();
        move || {
            let look = || world.state.load(Ordering::Relaxed);
            let (mut queue, cpu, state) = world.home.lock_seeing(|cpu| world.lock(cpu), look);
            if state != SLEEPS {
                return;
            }
            world.state.store(RUNS, Ordering::Relaxed);
            if !queue.current {
                queue.waits = true;
                assert_eq!(cpu, world.home.get(), "it was taken under another queue's lock");
            }
        }
    });
    let woken = {
        let _queue = world.lock(0);
        world.state.swap(RUNS, Ordering::Relaxed) == SLEEPS
    };
    if woken {
        {
            let mut queue = world.lock(1);
            world.home.move_to(1);
            queue.current = true;
        }
        world.state.store(SLEEPS, Ordering::Release);
        let mut queue = world.lock(1);
        queue.current = world.state.load(Ordering::Relaxed) == RUNS;
    }
    waker.join().unwrap();
    let places = [0, 1].map(|cpu| {
        let queue = world.lock(cpu);
        u32::from(queue.waits) + u32::from(queue.current)
    });
    let sleeps = world.state.load(Ordering::Relaxed) == SLEEPS;
    assert_eq!(places[0] + places[1], u32::from(!sleeps), "it sleeps and runs, or runs twice: {places:?}");
}

model! { waking (3)
    breaks where_the_word_is_not_read_again: "home.again"
    breaks where_the_word_is_read_before_the_state: "home.seen"
}
