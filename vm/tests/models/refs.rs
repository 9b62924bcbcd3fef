//! Counts of frames: who finds itself alone may write the page, and who puts the last reference may free it.

use crate::explore::in_turn;
use crate::model;
use crate::protocol::refs::Refs;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

/// A page that two have.
struct World {
    refs: Refs,
    page: UnsafeCell<u64>,
}

// SAFETY: loom checks what the count is for.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self { refs: Refs::new(2), page: UnsafeCell::new(1) })
    }

    fn read(&self) {
        // SAFETY: loom checks that nobody writes it.
        self.page.with(|page| assert_eq!(unsafe { *page }, 1));
    }

    fn write(&self) {
        // SAFETY: loom checks that nobody else uses it.
        self.page.with_mut(|page| unsafe { *page = 2 });
    }
}

/// One copies the page and puts its reference; the other writes the page, if it is alone.
fn writing() {
    let world = World::new();
    in_turn(
        &world,
        |world| {
            world.read();
            let _ = world.refs.put();
        },
        |world| {
            if world.refs.count() == 1 {
                world.write();
            }
        },
    );
}

model! { writing (5)
    breaks without_acquire_of_being_alone: "refs.sole"
    breaks without_release_of_a_reference: "refs.put"
}

/// Both put theirs, and the last frees the page.
fn freeing() {
    let world = World::new();
    let put = |world: &World| {
        world.read();
        let last = world.refs.put();
        if last {
            world.write();
        }
        last
    };
    let other = world.clone();
    let second = thread::spawn(move || put(&other));
    let first = put(&world);
    assert!(first != second.join().unwrap(), "the page is freed once");
}

model! { freeing (5)
    breaks without_acquire_by_the_last: "refs.last"
    breaks without_release_of_a_reference: "refs.put"
}
