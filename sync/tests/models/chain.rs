//! Chains: a reader meets what is there throughout, whole, while two writers put nodes in, replace and remove them.

use crate::model;
use crate::protocol::chain::{Head, Link, Linked};
use loom::cell::UnsafeCell;
use loom::thread;
use std::ptr;
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
}

// SAFETY: loom checks what the chain is for.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

/// A node that is given its value after its making, as a block that was used before is. Never freed: that is for grace periods.
fn node(value: u32) -> *mut Node {
    let node = Box::leak(Box::new(Node { link: Link::new(), value: UnsafeCell::new(0) }));
    // SAFETY: loom checks that nobody else uses it.
    node.value.with_mut(|place| unsafe { *place = value });
    node
}

impl World {
    fn push(&self, value: u32) {
        let node = node(value);
        // SAFETY: a new node, which stays.
        unsafe { self.head.write().push(node) };
    }

    /// Replaces `old`, or removes it if there is no `new`.
    fn replace(&self, old: u32, new: Option<u32>) {
        let other = new.map_or(ptr::null_mut(), node);
        let mut writer = self.head.write();
        // SAFETY: nodes stay.
        unsafe {
            let (before, found) = writer.find(|node| (*node).value() == old);
            assert!(!found.is_null(), "{old} is lost");
            writer.replace(before, found, other);
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

fn chain() {
    let world = Arc::new(World { head: Head::new() });
    for value in [1, 2, 3] {
        world.push(value);
    }
    let threads = [
        |world: &World| world.replace(2, Some(4)),
        |world: &World| {
            world.push(5);
            world.replace(3, None);
        },
        |world: &World| {
            let met = world.values();
            assert_eq!(met.iter().filter(|v| matches!(v, 1)).count(), 1, "{met:?}");
            assert_eq!(met.iter().filter(|v| matches!(v, 2 | 4)).count(), 1, "{met:?}");
        },
    ]
    .map(|run| {
        let world = world.clone();
        thread::spawn(move || run(&world))
    });
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(world.values(), [5, 4, 1]);
}

model! { chain (3)
    breaks without_release_at_the_end: "chain.end"
    breaks without_release_of_a_link: "chain.set"
    breaks without_acquire_of_the_first: "chain.first"
    breaks without_acquire_of_a_link: "chain.next"
    breaks without_acquire_at_the_beginning: "chain.begin"
}
