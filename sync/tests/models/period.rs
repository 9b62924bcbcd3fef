//! Grace periods: what was unlinked is not freed while anybody who may have found it reads, and in the end it is freed.
//!
//! `reader` waits for the end. The others look once, without a loop, each at one part of the argument in
//! `src/protocol/period.rs`: CPU 0 unlinks and frees (if it may), CPU 1 reads, and another CPU, which never reads, ends periods.

use crate::model;
use crate::protocol::period::{Period, Seat};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;

/// A link to an object, and the object.
struct World {
    period: Period,
    seats: [Seat; 2],
    linked: AtomicU32,
    object: UnsafeCell<u32>,
}

// SAFETY: loom checks what the period is for.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            period: Period::new(),
            seats: [Seat::new(), Seat::new()],
            linked: AtomicU32::new(1),
            object: UnsafeCell::new(7),
        })
    }

    /// A read section: uses the object if it is linked.
    fn read(&self) {
        if self.linked.load(Ordering::Acquire) == 1 {
            self.use_object();
        }
    }

    fn use_object(&self) {
        // SAFETY: loom checks that it is not freed.
        self.object.with(|object| assert_eq!(unsafe { *object }, 7));
    }

    fn seat(&self, cpu: usize) -> &Seat {
        &self.seats[cpu]
    }

    fn begin(&self) {
        self.period.begin();
    }

    fn end(&self) {
        let _ = self.period.try_end(2, 1, |cpu| self.seat(cpu as usize));
    }

    fn unlink(&self) -> u64 {
        self.linked.store(0, Ordering::Release);
        self.period.tag()
    }

    fn free(&self) {
        // SAFETY: loom checks that nobody reads it.
        self.object.with_mut(|object| unsafe { *object = 0 });
    }

    fn free_if_over(&self, tag: u64) {
        if self.period.is_over(tag) {
            self.free();
        }
    }
}

/// Runs each of `parts` on a thread of its own, and `free` here.
fn run(world: &Arc<World>, parts: &[fn(&World)], free: fn(&World)) {
    let threads: Vec<_> = parts
        .iter()
        .map(|part| {
            let (world, part) = (world.clone(), *part);
            thread::spawn(move || part(&world))
        })
        .collect();
    free(world);
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A CPU reads, is quiescent, reads and goes idle, beside one that unlinks, waits and frees.
fn reader() {
    let read = |world: &World| {
        world.period.wake(world.seat(1));
        world.read();
        world.period.quiescent(world.seat(1));
        world.read();
        world.seat(1).idle();
    };
    let free = |world: &World| {
        world.period.wake(world.seat(0));
        let tag = world.unlink();
        while !world.period.is_over(tag) {
            world.begin();
            world.period.quiescent(world.seat(0));
            world.end();
            if !world.period.is_over(tag) {
                thread::yield_now();
            }
        }
        world.free();
    };
    run(&World::new(), &[read], free);
}

model! { reader (3) }

/// The reader has seen the new period, and so the unlinking; what it read before is over.
fn reporting() {
    let world = World::new();
    world.period.wake(world.seat(0));
    world.period.wake(world.seat(1));
    let read = |world: &World| {
        world.read();
        world.period.quiescent(world.seat(1));
        world.read();
    };
    run(&world, &[read, World::begin], |world| {
        let tag = world.unlink();
        world.period.quiescent(world.seat(0));
        world.end();
        world.free_if_over(tag);
    });
}

model! { reporting (4)
    breaks without_a_fence_before_the_tag: "period.tag"
    breaks without_a_fence_after_the_report: "period.quiescent"
    breaks without_release_of_the_report: "period.report"
}

/// The reader goes idle.
fn idling() {
    let world = World::new();
    world.period.wake(world.seat(0));
    world.period.wake(world.seat(1));
    let read = |world: &World| {
        world.read();
        world.seat(1).idle();
    };
    run(&world, &[read], |world| {
        let tag = world.unlink();
        world.begin();
        world.period.quiescent(world.seat(0));
        world.end();
        world.free_if_over(tag);
    });
}

model! { idling (3)
    breaks without_acquire_of_seats: "period.seen"
    breaks without_release_on_going_idle: "period.idle"
}

/// The reader was idle, and wakes up while periods end.
fn waking() {
    let read = |world: &World| {
        world.period.wake(world.seat(1));
        world.read();
    };
    let end = |world: &World| {
        world.begin();
        world.end();
    };
    run(&World::new(), &[read, end], |world| {
        let tag = world.unlink();
        world.free_if_over(tag);
    });
}

model! { waking (3)
    breaks without_a_fence_in_the_scan: "period.scan"
    breaks without_a_fence_on_waking: "period.wake"
}

/// Others end the periods; the freeing CPU knows of the reader, which had found the object before, only through the end.
fn ending() {
    let world = World::new();
    world.period.wake(world.seat(1));
    assert_eq!(world.unlink(), 1);
    let read = |world: &World| {
        world.use_object();
        world.seat(1).idle();
    };
    let end = |world: &World| {
        world.begin();
        world.end();
    };
    run(&world, &[read, end, |world| world.free_if_over(1)], |_| ());
}

model! { ending (3)
    breaks without_acquire_of_the_end: "period.over"
    breaks without_release_of_the_end: "period.end"
}
