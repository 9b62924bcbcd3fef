//! Getting to a leaf: what is mapped there is lost to nobody, and what is found there is whole.

use crate::model;
use crate::protocol::leaf;
use crate::world::{Leaf, address, page, table};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;
use vm::Entry;

const LEAF: u64 = 1;
const FRAME: u64 = 7;

/// Two entries that may lead to a leaf, as two spaces have them, and what was taken out of the leaf at its end.
struct World {
    uppers: [AtomicU64; 2],
    /// The lock guards the number of sharers.
    leaf: Leaf<usize>,
    drained: AtomicU64,
}

impl World {
    fn new(sharers: usize, entry: Entry) -> Arc<Self> {
        Arc::new(Self {
            uppers: [(); 2].map(|()| AtomicU64::new(table(LEAF, true).0)),
            leaf: Leaf::new(LEAF, &[entry], sharers),
            drained: AtomicU64::new(0),
        })
    }

    /// A space detaches the leaf, flushes and leaves it; the last one takes out what is there.
    fn unmap(&self, space: usize) {
        let old = leaf::exchange(&self.uppers[space], Entry::ABSENT);
        assert!(leaf::leads_to::<crate::world::Format>(old, address(LEAF)));
        let forget = |sharers: &mut loom::sync::MutexGuard<'_, usize>| {
            **sharers -= 1;
            **sharers == 0
        };
        let Some(locked) = leaf::leave(self.leaf.lock(), forget) else { return };
        drop(locked);
        if !leaf::look(&self.leaf.cells[0]).is_absent() {
            self.drained.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A fault maps a page, if the leaf is still there. Says whether it did.
    fn fault(&self, space: usize) -> bool {
        if leaf::look(&self.uppers[space]).is_absent() {
            return false;
        }
        let entered = self.leaf.enter(&self.uppers[space]);
        if entered.is_some() {
            leaf::fill(&self.leaf.cells[0], page(FRAME, true));
        }
        entered.is_some()
    }

    fn assert_drained(&self, pages: u64) {
        assert_eq!(
            self.drained.load(Ordering::Relaxed),
            pages,
            "a page is lost in a leaf that is gone, or freed twice"
        );
    }
}

/// A fault against the unmapping that takes the leaf away.
fn fault_against_unmap() {
    let world = World::new(1, Entry::ABSENT);
    let other = world.clone();
    let fault = thread::spawn(move || other.fault(0));
    world.unmap(0);
    let mapped = fault.join().unwrap();
    world.assert_drained(u64::from(mapped));
}

model! { fault_against_unmap (5) breaks without_the_look_above: "leaf.enter" }

/// Two sharers leave at the same time.
fn two_leave() {
    let world = World::new(2, page(FRAME, false));
    let other = world.clone();
    let second = thread::spawn(move || other.unmap(1));
    world.unmap(0);
    second.join().unwrap();
    world.assert_drained(1);
}

model! { two_leave (5) breaks if_not_only_the_last_drains: "leaf.last" }

/// One writes something and fills in an entry that leads to it.
struct Published {
    cell: AtomicU64,
    contents: UnsafeCell<u64>,
}

// SAFETY: loom checks what the entry is for.
unsafe impl Send for Published {}
// SAFETY: as above.
unsafe impl Sync for Published {}

impl Published {
    fn publish(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || {
            // SAFETY: loom checks that nobody else uses it.
            world.contents.with_mut(|contents| unsafe { *contents = 5 });
            leaf::fill(&world.cell, table(LEAF, true));
        })
    }

    fn new() -> Arc<Self> {
        Arc::new(Self { cell: AtomicU64::new(0), contents: UnsafeCell::new(0) })
    }

    fn check(&self) {
        // SAFETY: loom checks that nobody writes it.
        self.contents.with(|contents| assert_eq!(unsafe { *contents }, 5, "a node is found half made"));
    }
}

fn found() {
    let world = Published::new();
    let other = world.publish();
    if !leaf::look(&world.cell).is_absent() {
        world.check();
    }
    other.join().unwrap();
}

model! { found (5)
    breaks without_release_of_a_new_node: "leaf.fill"
    breaks without_acquire_of_a_node_found: "leaf.look"
}

fn taken() {
    let world = Published::new();
    let other = world.publish();
    if !leaf::exchange(&world.cell, Entry::ABSENT).is_absent() {
        world.check();
    }
    other.join().unwrap();
}

model! { taken (5) breaks without_acquire_of_a_node_taken_out: "leaf.take" }
