//! No CPU halts for good while a task is shown that it may take, and of several that come for one task one gets it.

use crate::model;
use crate::protocol::idle::Idle;
use crate::protocol::offer::Offer;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;

struct World {
    offer: Offer,
    /// Tasks that wait on the queue of who shows them.
    queue: Mutex<u32>,
    idle: [Idle; 2],
    kicked: [AtomicBool; 2],
    taken: AtomicU32,
}

impl World {
    fn new(cpus: usize) -> Arc<Self> {
        let world = World {
            offer: Offer::new(),
            queue: Mutex::new(0),
            idle: [Idle::new(), Idle::new()],
            kicked: [AtomicBool::new(false), AtomicBool::new(false)],
            taken: AtomicU32::new(0),
        };
        assert!(cpus <= world.idle.len());
        Arc::new(world)
    }

    fn come(&self) {
        let mut queue = self.queue.lock().unwrap();
        *queue += 1;
        self.offer.show(1);
    }

    fn tick(&self, cpus: usize) {
        for cpu in 0..cpus {
            if self.offer.shown() != 0 && self.offer.make(&self.idle[cpu]) {
                self.kicked[cpu].store(true, Ordering::Release);
            }
        }
    }

    /// A CPU that idles looks for a task. It does not wait for the lock.
    fn steal(&self) -> bool {
        if self.offer.shown() == 0 {
            return false;
        }
        let Ok(mut queue) = self.queue.try_lock() else { return false };
        if *queue == 0 {
            return false;
        }
        *queue -= 1;
        self.offer.show(u64::from(*queue));
        assert_eq!(self.taken.fetch_add(1, Ordering::Relaxed), 0, "two have the task");
        true
    }

    /// Does the CPU halt? It is given something once at most.
    fn idles(&self, cpu: usize) -> bool {
        for _ in 0..3 {
            if self.steal() {
                return false;
            }
            self.idle[cpu].show(true);
            if self.idle[cpu].halt() {
                return true;
            }
            self.idle[cpu].show(false);
        }
        panic!("it is given nothing again and again");
    }
}

/// It comes to idle while another begins to show a task, and ticks. After that all is as it is for long.
fn halting() {
    let world = World::new(1);
    let shows = thread::spawn({
        let world = world.clone();
        move || {
            world.come();
            world.tick(1);
        }
    });
    let halts = world.idles(0);
    shows.join().unwrap();
    world.tick(1);
    if halts {
        let kicked = world.kicked[0].load(Ordering::Acquire);
        assert!(kicked, "a CPU halts for good beside a task");
        world.idle[0].show(false);
        assert!(world.steal(), "a CPU is kicked for nothing");
    }
    assert_eq!(*world.queue.lock().unwrap(), 0);
}

/// Two idle, and one task is there.
fn taking() {
    let world = World::new(2);
    world.come();
    let others = [0, 1].map(|cpu| {
        let world = world.clone();
        thread::spawn(move || world.idles(cpu))
    });
    let halt = others.map(|other| other.join().unwrap());
    // Both may have missed it, one for the other's having the lock.
    world.tick(2);
    let kicked = [0, 1].map(|cpu| world.kicked[cpu].load(Ordering::Acquire));
    let gone = *world.queue.lock().unwrap() == 0;
    assert!(gone || (0..2).any(|cpu| halt[cpu] && kicked[cpu]), "both halt for good beside a task");
    assert_eq!(gone, world.taken.load(Ordering::Relaxed) == 1, "the task is lost");
}

model! { halting (3)
    breaks when_who_was_seen_is_taken_to_have_it: "offer.again"
}
model! { taking (3) }
