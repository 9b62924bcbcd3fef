//! The masks of a space: a CPU that comes, rests, goes elsewhere, or goes over to a view, against one that changes an entry and flushes whom it finds.

use crate::explore::in_turn;
use crate::model;
use crate::protocol::mask::{Kept, Loaded, SpaceCpus};
use crate::world::{Tlb, page, walk};
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;
use vm::Entry;

const CPU: u32 = 1;
/// The space, and another.
const SPACE: u64 = 5;
const OTHER: u64 = 6;

struct World {
    cpus: SpaceCpus<1>,
    others: SpaceCpus<1>,
    entry: AtomicU64,
    /// What the CPU has loaded, and what it holds.
    loaded: Loaded,
    tlb: Tlb,
    /// Whoever has it is not interrupted meanwhile.
    interrupts: Mutex<()>,
    /// The frame that the entry leads to, and the table that it lies in: are they still the space's?
    frame: UnsafeCell<bool>,
    table: UnsafeCell<bool>,
}

// SAFETY: loom fails a model in which a cell is written while somebody else may use it.
unsafe impl Sync for World {}

/// Uses what `cell` stands for.
fn assert_there(cell: &UnsafeCell<bool>) {
    // SAFETY: as for `World`.
    cell.with(|there| assert!(unsafe { *there }, "memory is used that is another's by now"));
}

fn give_away(cell: &UnsafeCell<bool>) {
    // SAFETY: as for `World`.
    cell.with_mut(|there| unsafe { *there = false });
}

impl World {
    fn new(held: bool) -> Arc<Self> {
        let entry = page(1, true);
        Arc::new(Self {
            cpus: SpaceCpus::new(),
            others: SpaceCpus::new(),
            entry: AtomicU64::new(entry.0),
            loaded: Loaded::new(),
            tlb: Tlb::new(if held { entry } else { Entry::ABSENT }),
            interrupts: Mutex::new(()),
            frame: UnsafeCell::new(true),
            table: UnsafeCell::new(true),
        })
    }

    /// A CPU on which the space has run before all else.
    fn loaded(held: bool) -> Arc<Self> {
        let world = Self::new(held);
        world.cpus.come(CPU, &world.loaded, SPACE, |_| {});
        world
    }

    /// The CPU comes, with interrupts off.
    fn come(&self) {
        let interrupts = self.interrupts.lock().unwrap();
        self.cpus.come(CPU, &self.loaded, SPACE, |kept| {
            if kept == Kept::Stale {
                self.tlb.flush();
            }
        });
        drop(interrupts);
    }

    /// Its program writes, if it may.
    fn use_page(&self) {
        self.tlb.write(|| walk(&self.entry), |_| assert_there(&self.frame));
    }

    /// Clears the entry and returns when no CPU uses a translation of before; `viewers`: those of the leaf.
    fn change(&self, viewers: u64, tables: bool) {
        self.entry.store(0, Ordering::Release);
        if self.cpus.to_flush([viewers])[0] & 1 << CPU != 0
            && self.cpus.must_ask(CPU, &self.loaded, SPACE, tables)
        {
            let _interrupt = self.interrupts.lock().unwrap();
            self.tlb.flush();
        }
    }
}

/// A CPU comes, and the hardware walks as soon as the root is loaded.
fn coming() {
    let world = World::new(false);
    let other = world.clone();
    let cpu = thread::spawn(move || {
        let _interrupts = other.interrupts.lock().unwrap();
        other.cpus.come(CPU, &other.loaded, SPACE, |_| {
            other.tlb.access(|| Entry(other.entry.load(Ordering::Relaxed)));
        });
    });
    world.change(0, false);
    cpu.join().unwrap();
    world.tlb.assert_empty();
}

model! { coming (5)
    breaks without_the_fence_of_who_comes: "mask.come"
    breaks without_the_fence_of_who_changes: "mask.flush"
}

/// A CPU rests, and then runs the space's program again.
fn resting() {
    let cpu = |world: &World| {
        world.use_page();
        world.loaded.rest();
        world.come();
        world.use_page();
    };
    let changer = |world: &World| {
        world.change(0, false);
        give_away(&world.frame);
    };
    in_turn(&World::loaded(true), cpu, changer);
}

model! { resting (4)
    breaks if_it_does_not_see_the_mark: "mask.come"
    breaks if_it_is_not_marked: "mask.mark"
    breaks without_a_fence_behind_the_mark: "mask.ask"
    breaks if_it_keeps_marked_translations: "mask.stale"
    breaks if_it_rests_before_its_last_write: "mask.rest"
}

/// Two threads of the space change entries, one after the other and beside each other, while a CPU rests and comes.
fn two_change() {
    let world = World::loaded(true);
    world.loaded.rest();
    let (other, second) = (world.clone(), world.clone());
    let cpu = thread::spawn(move || {
        other.come();
        other.use_page();
    });
    let changer = thread::spawn(move || second.change(0, false));
    world.change(0, false);
    give_away(&world.frame);
    cpu.join().unwrap();
    changer.join().unwrap();
}

model! { two_change (3) breaks if_neither_marks_it: "mask.mark" }

impl World {
    /// The CPU goes to another space. Until it has loaded that, it may follow pointers to tables of the first.
    fn go_elsewhere(&self) {
        let interrupts = self.interrupts.lock().unwrap();
        self.others.come(CPU, &self.loaded, OTHER, |_| {
            self.tlb.write(|| walk(&self.entry), |_| assert_there(&self.table));
        });
        drop(interrupts);
    }
}

/// A table is taken out while a CPU goes.
fn going_elsewhere() {
    let changer = |world: &World| {
        world.change(0, true);
        give_away(&world.table);
    };
    in_turn(&World::loaded(true), World::go_elsewhere, changer);
}

model! { going_elsewhere (5)
    breaks if_it_shows_the_other_too_early: "mask.between"
    breaks if_it_is_there_before_it_has_left: "mask.there"
}

/// The space ends while a CPU goes.
fn ending() {
    let end = |world: &World| {
        world.entry.store(0, Ordering::Release);
        if world.cpus.all_to_flush()[0] & 1 << CPU != 0 && world.cpus.must_leave(&world.loaded, SPACE) {
            let _interrupt = world.interrupts.lock().unwrap();
            world.tlb.flush();
        }
        give_away(&world.table);
    };
    in_turn(&World::loaded(true), World::go_elsewhere, end);
}

model! { ending (5)
    breaks if_it_shows_the_other_too_early: "mask.between"
    breaks if_it_is_there_before_it_has_left: "mask.there"
    breaks if_tables_go_before_it_was_seen_to_leave: "mask.seen"
}

/// A CPU that rests may follow pointers to tables, too, and is interrupted.
fn tables_of_a_resting_cpu() {
    let world = World::loaded(true);
    world.loaded.rest();
    assert!(world.cpus.must_ask(CPU, &world.loaded, SPACE, true));
    assert!(!world.cpus.must_ask(CPU, &world.loaded, SPACE, false));
    assert!(world.cpus.must_leave(&world.loaded, SPACE));
}

model! { tables_of_a_resting_cpu (1) }

/// A CPU of the root goes over to a view. It is among no leaf's viewers yet.
fn entering_a_view() {
    let world = World::loaded(true);
    let other = world.clone();
    let cpu = thread::spawn(move || other.cpus.enter_view(CPU, || other.tlb.flush()));
    world.change(0, false);
    world.tlb.assert_empty();
    cpu.join().unwrap();
}

model! { entering_a_view (5) breaks if_it_keeps_its_translations: "mask.reload" }

/// A CPU of a view, which is among the leaf's viewers, is flushed.
fn viewing() {
    let world = World::loaded(false);
    world.cpus.enter_view(CPU, || {});
    world.tlb.access(|| walk(&world.entry));
    world.change(1 << CPU, false);
    world.tlb.assert_empty();
}

model! { viewing (1) breaks if_it_is_not_among_the_views: "mask.view" }
