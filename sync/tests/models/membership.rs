//! A task's pointer to its group, which nothing counts: no section comes upon a group that has ended.
//!
//! A section is here the time for which its CPU holds a lock, and a grace period a moment at which nobody does; `period` has the real thing.

use crate::model;
use crate::protocol::membership::{Membership, Place};
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use std::sync::Arc;

type Group = UnsafeCell<bool>;

struct World {
    section: Mutex<()>,
    queue: Mutex<()>,
    membership: Membership<Group>,
    place: Place<Group>,
    /// What is over: the membership, or the process's.
    left: AtomicBool,
    old: Group,
    new: Group,
}

// SAFETY: loom checks that nobody uses a group while it ends.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        let world = Arc::new(World {
            section: Mutex::new(()),
            queue: Mutex::new(()),
            membership: Membership::none(),
            place: Place::not_begun(),
            left: AtomicBool::new(false),
            old: UnsafeCell::new(true),
            new: UnsafeCell::new(true),
        });
        world.membership.set(&raw const world.old);
        world
    }

    fn section(&self, run: impl FnOnce(&World)) {
        let _section = self.section.lock().unwrap();
        run(self);
    }

    fn wait(&self) {
        drop(self.section.lock().unwrap());
    }

    /// The task's CPU looks at its group.
    fn look(&self) {
        // SAFETY: a group of this world.
        if let Some(group) = unsafe { self.place.get().as_ref() } {
            // SAFETY: loom checks that nobody ends it meanwhile.
            assert!(group.with(|is_there| unsafe { *is_there }), "the group has ended");
        }
    }

    /// What kept the old group lets it go.
    fn end(&self) {
        self.wait();
        // SAFETY: loom checks that nobody looks at it.
        self.old.with_mut(|is_there| unsafe { *is_there = false });
    }

    fn run(self: &Arc<Self>, task: fn(&World), other: fn(&World)) {
        let world = self.clone();
        let task = thread::spawn(move || task(&world));
        other(self);
        task.join().unwrap();
    }
}

/// A task begins while its process gets another group.
fn changing() {
    let world = World::new();
    let task = |world: &World| {
        world.section(|world| {
            world.place.begin(&world.membership);
            world.look();
        });
        world.section(World::look);
        world.section(World::look);
    };
    world.run(task, |world| {
        world.membership.set(&raw const world.new);
        let visit = || {
            let _queue = world.queue.lock().unwrap();
            world.membership.moves(&world.place).into_iter().for_each(|group| world.place.set(group));
        };
        world.membership.settle(|| world.wait(), visit);
        world.end();
    });
}

model! { changing (4)
    breaks without_a_wait: "membership.wait"
    breaks without_moving_who_has_begun: "membership.move"
}

/// A task ends, and its process leaves the group while it still runs.
fn ending() {
    let world = World::new();
    world.place.begin(&world.membership);
    let task = |world: &World| {
        world.section(|world| {
            world.look();
            world.left.store(true, Relaxed);
            let _queue = world.queue.lock().unwrap();
            world.place.leave();
        });
        // It has been switched away from, and runs for the last time.
        world.section(World::look);
    };
    world.run(task, |world| {
        if world.left.load(Relaxed) {
            world.end();
        }
    });
}

model! { ending (4)
    breaks without_leaving: "membership.leave"
}
