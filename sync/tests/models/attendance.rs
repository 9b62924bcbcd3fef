//! What nobody uses any more is found to be so by who looks last, and nothing is found so that somebody uses.

use crate::model;
use crate::protocol::attendance::{Asked, Seat, is_over};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;

struct World {
    seats: [Seat; 2],
    asked: Asked,
    /// It was found that nobody is there.
    over: AtomicBool,
}

impl World {
    /// One is there, who came on the first CPU.
    fn new() -> Arc<Self> {
        let world =
            World { seats: [Seat::new(), Seat::new()], asked: Asked::new(), over: AtomicBool::new(false) };
        world.seats[0].come();
        Arc::new(world)
    }

    fn leave(&self, cpu: usize) {
        self.seats[cpu].leave();
        self.asked.ask();
    }

    fn look(&self) {
        if self.asked.take() && is_over(|| self.seats.iter()) {
            self.over.store(true, Ordering::Relaxed);
        }
    }

    fn is_found_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// One leaves after it has let another come, which stays, and is on the other CPU.
fn staying() {
    let world = World::new();
    let looks = {
        let world = world.clone();
        thread::spawn(move || {
            assert!(!is_over(|| world.seats.iter()), "somebody is there");
        })
    };
    world.seats[1].come();
    world.seats[0].leave();
    looks.join().unwrap();
}

/// Two are there and leave, each on the other's CPU, while somebody looks; he looks again if he is asked.
fn leaving() {
    let world = World::new();
    world.seats[1].come();
    let leaves = [0, 1].map(|cpu| {
        let world = world.clone();
        thread::spawn(move || world.leave(1 - cpu))
    });
    world.look();
    leaves.into_iter().for_each(|thread| thread.join().unwrap());
    world.look();
    assert!(world.is_found_over(), "nobody is there, and nobody is to look");
}

/// The last leaves, who was told that somebody has asked already.
fn asking() {
    let world = World::new();
    world.asked.ask();
    let leaves = {
        let world = world.clone();
        thread::spawn(move || world.leave(0))
    };
    world.look();
    leaves.join().unwrap();
    world.look();
    assert!(world.is_found_over(), "nobody is there, and nobody is to look");
}

model! { staying (3)
    breaks when_leaving_is_told_early: "attendance.leave"
    breaks when_who_came_is_added_up_first: "attendance.look"
}
model! { leaving (3) }
model! { asking (3)
    breaks without_a_fence_of_who_asks: "attendance.ask"
    breaks without_a_fence_of_who_looks: "attendance.take"
}
