//! Lists: a reader meets what is there throughout, whole and in order, while others put nodes at the end and take them out.

use crate::explore::in_turn;
use crate::model;
use crate::protocol::list::{Head, Link, Linked};
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::thread;
use std::sync::Arc;

struct Node {
    link: Link<Node>,
    value: UnsafeCell<u32>,
}

impl Linked for Node {
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

impl Node {
    fn value(&self) -> u32 {
        // SAFETY: loom checks that nobody writes it now.
        self.value.with(|value| unsafe { *value })
    }
}

struct World {
    head: Head<Node>,
    writer: Mutex<()>,
}

// SAFETY: loom checks what the list is for.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    /// A node that is given its value after its making, as a block that was used before is. Never freed: that is for grace periods.
    fn push(&self, value: u32) {
        let node = Box::leak(Box::new(Node { link: Link::new(), value: UnsafeCell::new(0) }));
        // SAFETY: loom checks that nobody else uses it.
        node.value.with_mut(|place| unsafe { *place = value });
        let _only = self.writer.lock().unwrap();
        // SAFETY: a new node, which stays, by the only writer.
        unsafe { self.head.push_back(node) };
    }

    fn remove(&self, value: u32) {
        let _only = self.writer.lock().unwrap();
        let mut at = self.head.first();
        // SAFETY: nodes stay, and this is the only writer.
        unsafe {
            while (*at).value() != value {
                at = (*at).link.next();
            }
            self.head.remove(at);
        }
    }

    fn values(&self) -> Vec<u32> {
        let mut values = Vec::new();
        let mut at = self.head.first();
        // SAFETY: nodes stay.
        while let Some(node) = unsafe { at.as_ref() } {
            values.push(node.value());
            at = node.link.next();
        }
        values
    }
}

fn list() {
    let world = Arc::new(World { head: Head::new(), writer: Mutex::new(()) });
    for value in [1, 2, 3] {
        world.push(value);
    }
    let threads = [
        |world: &World| {
            world.remove(1);
            world.push(4);
        },
        |world: &World| {
            world.remove(2);
            world.remove(3);
            world.push(5);
        },
        |world: &World| {
            let met = world.values();
            assert!(met.iter().all(|value| (1..=5).contains(value)), "{met:?}");
            let old: Vec<_> = met.iter().filter(|value| **value <= 3).collect();
            assert!(old.is_sorted(), "{met:?}");
        },
    ]
    .map(|run| {
        let world = world.clone();
        thread::spawn(move || run(&world))
    });
    for thread in threads {
        thread.join().unwrap();
    }
    let mut left = world.values();
    left.sort_unstable();
    assert_eq!(left, [4, 5]);
}

/// The last is met whole.
fn last() {
    let world = Arc::new(World { head: Head::new(), writer: Mutex::new(()) });
    in_turn(
        &world,
        |world| world.push(1),
        |world| {
            // SAFETY: nodes stay.
            if let Some(node) = unsafe { world.head.last().as_ref() } {
                assert_eq!(node.value(), 1);
            }
        },
    );
}

/// What is put into an empty list is met whole, and what stays is met beside what goes.
fn first() {
    let world = Arc::new(World { head: Head::new(), writer: Mutex::new(()) });
    let writer = world.clone();
    let writes = thread::spawn(move || {
        writer.push(1);
        writer.push(2);
        writer.push(3);
        writer.remove(2);
    });
    let met = world.values();
    assert!(met.is_empty() || met[0] == 1, "{met:?}");
    writes.join().unwrap();
    assert_eq!(world.values(), [1, 3]);
}

model! { list (2)
}

model! { first (3)
    breaks without_release_of_the_first: "list.begin"
    breaks without_release_of_a_link: "list.set"
    breaks without_acquire_of_the_first: "list.first"
    breaks without_acquire_of_a_link: "list.next"
}

model! { last (3)
    breaks without_release_of_the_last: "list.end"
    breaks without_acquire_of_the_last: "list.last"
}
