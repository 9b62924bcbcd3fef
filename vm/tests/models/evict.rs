//! Pages of an object that are taken away: nobody maps them afterwards, and nobody loses what is his own.

use crate::explore::in_turn;
use crate::model;
use crate::protocol::evict::{self, Slot};
use crate::protocol::leaf;
use crate::world::{Format, Leaf, Locked, address, page, walk};
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use std::mem::forget;
use std::sync::Arc;
use vm::{Entry, Prot};

/// An object with one page, in frame 1, and the leaf that maps it. The list of leaves is made when the first comes.
struct World {
    slot: Slot,
    /// Pages that the object reaches into.
    size: AtomicU64,
    list_made: AtomicBool,
    listed: Mutex<bool>,
    /// The lock guards: does the leaf know that it is on the list?
    leaf: Leaf<bool>,
    /// The frame's bytes: 1, and 0 when it is free.
    bytes: AtomicU64,
}

/// The frame, on its way to the allocator.
struct Batch<'a>(&'a World);

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.0.bytes.store(0, Ordering::Relaxed);
    }
}

fn object_page() -> Entry {
    Entry::page::<Format>(address(1), Prot::READ, false)
}

impl World {
    fn new(entry: Entry, listed: bool) -> Arc<Self> {
        let slot = Slot::new();
        assert!(slot.put(address(1)));
        Arc::new(Self {
            slot,
            size: AtomicU64::new(1),
            list_made: AtomicBool::new(listed),
            listed: Mutex::new(listed),
            leaf: Leaf::new(1, &[entry], listed),
            bytes: AtomicU64::new(1),
        })
    }

    fn lock(&self) -> Locked<'_, bool> {
        Locked::new(&self.leaf, self.leaf.lock())
    }

    /// A fault that maps the page, if it is there.
    fn map(&self) {
        let mut locked = self.lock();
        while evict::registers_first(*locked.state) {
            drop(locked);
            evict::register(|| {
                // The list is made, if there is none.
                let _ = self.list_made.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
                *self.listed.lock().unwrap() = true;
            });
            locked = self.lock();
            *locked.state = true;
        }
        if let Some(frame) = self.slot.frame_for(&locked) {
            leaf::fill(&self.leaf.cells[0], Entry::page::<Format>(frame, Prot::READ, false));
        }
    }

    /// A write fault that gives the leaf a copy of the page.
    fn copy(&self) {
        // The read section begins.
        let Some(source) = self.slot.frame() else { return };
        assert_eq!(self.bytes.load(Ordering::Relaxed), 1, "a page that is free was copied");
        let mut locked = self.lock();
        if evict::is_still(self.slot.frame_for(&locked), source) {
            locked.exchange(0, page(2, true));
        }
    }

    /// Takes the page away, with private copies; `defer` has the frame freed later.
    fn evict<'a>(&'a self, defer: impl FnMut(Batch<'a>)) {
        let visit = |tagged: &bool| {
            if !self.list_made.load(Ordering::Acquire) || !*self.listed.lock().unwrap() {
                return;
            }
            let mut locked = self.lock();
            let frame = self.slot.tagged().filter(|_| *tagged);
            let entry = locked.entry(0);
            let copied = entry.is_private() && self.size.load(Ordering::Relaxed) == 0;
            if copied || frame.is_some_and(|frame| evict::shows::<Format>(entry, frame)) {
                locked.exchange(0, Entry::ABSENT);
            }
            // Here the sharers flush.
        };
        evict::evict(
            || self.slot.tag(true).is_some(),
            visit,
            |_| self.slot.take_tagged().map(|_| Batch(self)),
            defer,
        );
    }
}

/// A fault that maps the page, in a leaf that may not be on the list yet.
fn mapped(listed: bool) {
    let world = World::new(Entry::ABSENT, listed);
    in_turn(&world, |world| world.evict(forget), World::map);
    assert!(walk(&world.leaf.cells[0]).is_absent(), "a freed frame is mapped");
}

fn mapped_first() {
    mapped(false);
}

fn mapped_again() {
    mapped(true);
}

impl World {
    /// A fault that maps the page in a leaf that is on the list for other pages, whose visits pass it.
    fn map_more(&self) {
        let mut locked = self.lock();
        while evict::registers_first(*locked.state) {
            drop(locked);
            let mut listed = self.listed.lock().unwrap();
            locked = self.lock();
            *locked.state = true;
            drop(locked);
            *listed = true;
            drop(listed);
            locked = self.lock();
        }
        if let Some(frame) = self.slot.frame_for(&locked) {
            leaf::fill(&self.leaf.cells[0], Entry::page::<Format>(frame, Prot::READ, false));
        }
    }
}

fn mapped_beside() {
    let world = World::new(Entry::ABSENT, false);
    world.list_made.store(true, Ordering::Relaxed);
    in_turn(&world, |world| world.evict(forget), World::map_more);
    assert!(walk(&world.leaf.cells[0]).is_absent(), "a freed frame is mapped");
}

/// As `map_more`, by a second thread of the process: the leaf says already that it is on the list for the page.
fn mapped_beside_by_two() {
    let world = World::new(Entry::ABSENT, false);
    world.list_made.store(true, Ordering::Relaxed);
    let (one, other) = (world.clone(), world.clone());
    let threads = [thread::spawn(move || one.map_more()), thread::spawn(move || other.map_more())];
    world.evict(forget);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(walk(&world.leaf.cells[0]).is_absent(), "a freed frame is mapped");
}

model! { mapped_first (5)
    breaks without_the_fence_behind_the_tag: "evict.tag"
    breaks without_the_fence_behind_the_list: "evict.register"
    breaks if_the_leaf_maps_before_it_is_listed: "evict.first"
    breaks if_nobody_visits_the_leaves: "evict.visit"
}

model! { mapped_beside (5)
    breaks if_the_leaf_maps_before_it_is_listed: "evict.first"
    breaks if_nobody_visits_the_leaves: "evict.visit"
}

model! { mapped_beside_by_two (3) breaks if_the_leaf_maps_before_it_is_listed: "evict.first" }

model! { mapped_again (5) breaks if_nobody_visits_the_leaves: "evict.visit" }

impl World {
    /// Takes the page out of the leaf, which has another segment of the object (`named`) or none.
    fn unmap(&self, named: bool) {
        let mut locked = self.lock();
        locked.exchange(0, Entry::ABSENT);
        let leaves = evict::may_leave(named);
        *locked.state &= !leaves;
        drop(locked);
        // Here the space flushes.
        if leaves {
            *self.listed.lock().unwrap() = false;
        }
    }
}

/// A part of what the leaf maps is unmapped while the page is taken away, and then the rest touched.
fn unmapped_in_part() {
    let world = World::new(object_page(), true);
    in_turn(
        &world,
        |world| world.evict(forget),
        |world| {
            world.unmap(true);
            let locked = world.lock();
            if let Some(frame) = world.slot.frame_for(&locked) {
                leaf::fill(&world.leaf.cells[0], Entry::page::<Format>(frame, Prot::READ, false));
            }
        },
    );
    assert!(walk(&world.leaf.cells[0]).is_absent(), "a freed frame is mapped");
}

model! { unmapped_in_part (5)
    breaks if_it_leaves_a_list_that_it_needs: "evict.named"
    breaks if_nobody_visits_the_leaves: "evict.visit"
}

/// All of it is unmapped, and mapped again.
fn unmapped_whole() {
    let world = World::new(object_page(), true);
    in_turn(
        &world,
        |world| world.evict(forget),
        |world| {
            world.unmap(false);
            world.map();
        },
    );
    assert!(walk(&world.leaf.cells[0]).is_absent(), "a freed frame is mapped");
}

model! { unmapped_whole (5)
    breaks if_the_leaf_maps_before_it_is_listed: "evict.first"
    breaks if_nobody_visits_the_leaves: "evict.visit"
}

/// The file is made shorter while a private copy of the page is made.
fn copied() {
    let world = World::new(Entry::ABSENT, true);
    in_turn(
        &world,
        |world| {
            world.size.swap(0, Ordering::SeqCst);
            world.evict(forget);
        },
        World::copy,
    );
    assert!(walk(&world.leaf.cells[0]).is_absent(), "there is a copy of a page beyond the end");
}

model! { copied (5) breaks if_the_slot_is_not_looked_at_again: "evict.again" }

/// The page is punched out, and the leaf has the page itself, or a private copy or another page, which stay.
fn punched() {
    let other = Entry::page::<Format>(address(3), Prot::READ, false);
    for (entry, stays) in [(object_page(), false), (page(2, true), true), (other, true)] {
        let world = World::new(entry, true);
        world.evict(forget);
        assert_eq!(!walk(&world.leaf.cells[0]).is_absent(), stays, "a page is lost, or a freed one mapped");
    }
}

model! { punched (1)
    breaks if_any_entry_is_cleared: "evict.match"
    breaks if_nobody_visits_the_leaves: "evict.visit"
}

/// The frame is freed while its bytes are copied.
fn read_while_freed() {
    let world = World::new(Entry::ABSENT, true);
    let other = world.clone();
    let copier = thread::spawn(move || other.copy());
    // Callbacks run when the copier's read section has ended.
    let callbacks = std::sync::Mutex::new(Vec::new());
    world.evict(|batch| callbacks.lock().unwrap().push(batch));
    copier.join().unwrap();
    drop(callbacks);
    assert_eq!(world.bytes.load(Ordering::Relaxed), 0, "a page that nobody has is not freed");
}

model! { read_while_freed (5) breaks if_it_goes_at_once: "evict.grace" }

/// A page is put in beyond the end while the file is made shorter: one of the two takes it out.
fn filled_beyond_the_end() {
    let world = World::new(Entry::ABSENT, true);
    world.evict(forget);
    in_turn(
        &world,
        |world| {
            world.size.swap(0, Ordering::SeqCst);
            world.evict(forget);
        },
        |world| {
            assert!(world.slot.put(address(1)), "the slot is empty");
            if world.size.load(Ordering::SeqCst) == 0 {
                world.evict(forget);
            }
        },
    );
    assert!(world.slot.frame().is_none(), "a page lies beyond the end");
}

model! { filled_beyond_the_end (5)
    breaks without_the_fence_behind_the_page: "slot.put"
    breaks without_the_fence_behind_the_size: "evict.begin"
}

/// A page is found whole.
fn found() {
    struct World {
        slot: Slot,
        bytes: UnsafeCell<u64>,
    }
    // SAFETY: loom checks what the slot is for.
    unsafe impl Send for World {}
    // SAFETY: as above.
    unsafe impl Sync for World {}
    let put = |world: &World| {
        // SAFETY: loom checks that nobody else uses it.
        world.bytes.with_mut(|bytes| unsafe { *bytes = 5 });
        world.slot.put(address(1));
    };
    let find = |world: &World| {
        if world.slot.frame().is_some() {
            // SAFETY: loom checks that nobody writes it.
            world.bytes.with(|bytes| assert_eq!(unsafe { *bytes }, 5, "a page is found half made"));
        }
    };
    in_turn(&Arc::new(World { slot: Slot::new(), bytes: UnsafeCell::new(0) }), put, find);
}

model! { found (5)
    breaks without_release_of_the_page: "slot.fill"
    breaks without_acquire_of_the_page: "slot.look"
}

/// A page moves to frame 3 while a program's bytes are written to it within a read section: none is lost.
fn written_while_it_moves() {
    struct World {
        slot: Slot,
        /// Held by who reads the slot, as long as the read section lasts.
        section: Mutex<()>,
        old: AtomicU64,
        new: AtomicU64,
    }
    let [old, new] = [1, 2].map(|value| AtomicU64::new(value));
    let world = Arc::new(World { slot: Slot::new(), section: Mutex::new(()), old, new });
    assert!(world.slot.put(address(1)));
    let other = world.clone();
    let writer = thread::spawn(move || {
        let _section = other.section.lock().unwrap();
        match other.slot.frame() {
            Some(frame) if frame == address(1) => other.old.store(7, Ordering::Relaxed),
            Some(_) => other.new.store(7, Ordering::Relaxed),
            None => return false,
        }
        true
    });
    let tagged = evict::take_for_exchange(
        || world.slot.tag(false).is_some(),
        || (),
        || drop(world.section.lock().unwrap()),
    );
    assert!(tagged);
    world.new.store(world.old.load(Ordering::Relaxed), Ordering::Relaxed);
    assert_eq!(world.slot.exchange_tagged(address(3)), Some(address(1)));
    let wrote = writer.join().unwrap();
    let now = world.new.load(Ordering::Relaxed);
    assert_eq!(now, if wrote { 7 } else { 1 }, "a write is lost");
}

model! { written_while_it_moves (5) breaks if_it_is_copied_at_once: "exchange.grace" }

/// A page that has moved is found whole.
fn found_where_it_moved() {
    struct World {
        slot: Slot,
        bytes: UnsafeCell<u64>,
    }
    // SAFETY: loom checks what the slot is for.
    unsafe impl Send for World {}
    // SAFETY: as above.
    unsafe impl Sync for World {}
    let world = World { slot: Slot::new(), bytes: UnsafeCell::new(0) };
    assert!(world.slot.put(address(1)) && world.slot.tag(false).is_some());
    let exchange = |world: &World| {
        // SAFETY: loom checks that nobody else uses it.
        world.bytes.with_mut(|bytes| unsafe { *bytes = 5 });
        let _old = world.slot.exchange_tagged(address(3));
    };
    let find = |world: &World| {
        if world.slot.frame() == Some(address(3)) {
            // SAFETY: loom checks that nobody writes it.
            world.bytes.with(|bytes| assert_eq!(unsafe { *bytes }, 5, "a page is found half copied"));
        }
    };
    in_turn(&Arc::new(world), exchange, find);
}

model! { found_where_it_moved (5)
    breaks without_release_of_the_copy: "slot.exchange"
    breaks without_acquire_of_the_copy: "slot.look"
}
