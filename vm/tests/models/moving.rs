//! Moves of pages and forks of one space: no fork finds a page on its way, and who moves sees what the forks before have done.

use crate::model;
use crate::protocol::moving::{Forks, Moved};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;
use std::sync::Arc;

/// A CPU's lock, the common lock, and a page that is at two places while it is on its way. A fork writes down how often it came.
struct World {
    forks: Forks,
    moved: Moved,
    own: Mutex<()>,
    common: Mutex<()>,
    on_its_way: AtomicU32,
    forked: AtomicU32,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            forks: Forks::new(),
            moved: Moved::new(),
            own: Mutex::new(()),
            common: Mutex::new(()),
            on_its_way: AtomicU32::new(0),
            forked: AtomicU32::new(0),
        })
    }

    /// Gives how many forks the mover has seen the end of.
    fn go(&self) -> u32 {
        self.on_its_way.store(1, Relaxed);
        let forked = self.forked.load(Relaxed);
        self.on_its_way.store(0, Relaxed);
        assert_eq!(self.forked.load(Relaxed), forked, "a fork came while a page was on its way");
        forked
    }

    fn move_one(&self) -> u32 {
        let own = self.own.lock().unwrap();
        if self.forks.may_move(&self.moved) {
            return self.go();
        }
        drop(own);
        let _common = self.common.lock().unwrap();
        self.go()
    }

    fn fork(&self) {
        let _common = self.common.lock().unwrap();
        self.forks.announce();
        if self.moved.is_noted() {
            drop(self.own.lock().unwrap());
        }
        assert_eq!(self.on_its_way.load(Relaxed), 0, "the page is on its way");
        self.forked.store(self.forked.load(Relaxed) + 1, Relaxed);
        assert_eq!(self.on_its_way.load(Relaxed), 0, "the page is on its way");
        self.forks.end();
    }
}

fn moves_and_a_fork() {
    let world = World::new();
    let other = world.clone();
    let mover = thread::spawn(move || {
        other.move_one();
        other.move_one();
    });
    world.fork();
    mover.join().unwrap();
    assert_eq!(world.go(), 1);
}

model! { moves_and_a_fork (4)
    breaks without_the_fence_of_who_moves: "moving.note"
    breaks without_the_fence_of_who_forks: "moving.announce"
    breaks if_a_mover_does_not_look_for_forks: "moving.look"
}

/// Who moves without a lock in common with a fork that is over sees the fork.
fn a_fork_that_is_over() {
    let world = World::new();
    let other = world.clone();
    let told = Arc::new(AtomicU32::new(0));
    let tells = told.clone();
    let forker = thread::spawn(move || {
        // Announced before the mover comes, so that what it sees is the end.
        other.forks.announce();
        tells.store(1, Relaxed);
        other.forked.store(1, Relaxed);
        other.forks.end();
    });
    if told.load(Relaxed) == 1 {
        let moved = &world.moved;
        if world.forks.may_move(moved) {
            let seen = world.forked.load(Relaxed);
            assert_eq!(seen, 1, "a fork that was seen to end was not seen");
        }
    }
    forker.join().unwrap();
}

model! { a_fork_that_is_over (4)
    breaks if_the_end_is_seen_too_early: "moving.over"
    breaks if_the_end_is_shown_too_early: "moving.end"
}
