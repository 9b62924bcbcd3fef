//! The masks of a space: a CPU that comes, or goes over to a view, against one that changes an entry and flushes whom it finds.

use crate::model;
use crate::protocol::mask::SpaceCpus;
use crate::world::{Tlb, page, walk};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;
use vm::Entry;

const CPU: u32 = 1;

struct World {
    cpus: SpaceCpus<1>,
    entry: AtomicU64,
    tlb: Tlb,
}

impl World {
    fn new(held: bool) -> Arc<Self> {
        let entry = page(1, true);
        Arc::new(Self {
            cpus: SpaceCpus::new(),
            entry: AtomicU64::new(entry.0),
            tlb: Tlb::new(if held { entry } else { Entry::ABSENT }),
        })
    }

    /// Clears the entry and returns when no CPU holds a translation of before; `viewers`: those of the leaf.
    fn change(&self, viewers: u64) {
        self.entry.store(0, Ordering::Release);
        if self.cpus.to_flush([viewers])[0] & 1 << CPU != 0 {
            self.tlb.flush();
        }
    }
}

/// A CPU comes, and the hardware walks as soon as the root is loaded.
fn coming() {
    let world = World::new(false);
    let other = world.clone();
    let cpu = thread::spawn(move || {
        other.cpus.come(CPU, || {
            other.tlb.access(|| Entry(other.entry.load(Ordering::Relaxed)));
        });
    });
    world.change(0);
    cpu.join().unwrap();
    world.tlb.assert_empty();
}

model! { coming (5)
    breaks without_the_fence_of_who_comes: "mask.come"
    breaks without_the_fence_of_who_changes: "mask.flush"
}

/// A CPU of the root goes over to a view. It is among no leaf's viewers yet.
fn entering_a_view() {
    let world = World::new(true);
    world.cpus.come(CPU, || {});
    let other = world.clone();
    let cpu = thread::spawn(move || other.cpus.enter_view(CPU, || other.tlb.flush()));
    world.change(0);
    world.tlb.assert_empty();
    cpu.join().unwrap();
}

model! { entering_a_view (5) breaks if_it_keeps_its_translations: "mask.reload" }

/// A CPU of a view, which is among the leaf's viewers, is flushed.
fn viewing() {
    let world = World::new(false);
    world.cpus.come(CPU, || {});
    world.cpus.enter_view(CPU, || {});
    world.tlb.access(|| walk(&world.entry));
    world.change(1 << CPU);
    world.tlb.assert_empty();
}

model! { viewing (1) breaks if_it_is_not_among_the_views: "mask.view" }
