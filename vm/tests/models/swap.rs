//! Pages in swap: nobody's page comes back as another's, or as it was before it was written, and no slot is free that an entry has.

use crate::explore::in_turn;
use crate::model;
use crate::protocol::busy;
use crate::protocol::evict::Slot;
use crate::protocol::mask::{Loaded, SpaceCpus};
use crate::protocol::refs::Refs;
use crate::protocol::swap::{self, Taken};
use crate::world::{Format, Frames, Leaf, Locked, OLD, Tlb, address, page, walk};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use vm::Entry;

/// What a program has written.
const NEW: u64 = 7;

/// The entry of a page in slot `slot`.
fn in_swap(slot: usize) -> Entry {
    let entry = Entry(0b111 << 9 | (slot as u64) << 12);
    assert!(entry.swap_place().is_some());
    entry
}

fn slot_of(entry: Entry) -> Option<usize> {
    entry.swap_place().map(|place| place.slot as usize)
}

/// A leaf and its copy, an area of two slots with their cache and device, and a CPU that may have a translation.
struct World {
    cpus: SpaceCpus<1>,
    tlb: Tlb,
    leaf: Leaf<()>,
    copy: Leaf<()>,
    frames: Frames,
    taken: Taken,
    counts: [Refs; 2],
    cache: [Slot; 2],
    device: [AtomicU64; 2],
    /// The object's lock, and how often pages were given up.
    given_up: Mutex<u64>,
    is_closed: AtomicBool,
    is_removed: AtomicBool,
}

impl World {
    /// The first page of the leaf is `entry`; slot 0 is taken if that says so, and its page is in frame 1.
    fn new(entry: Entry) -> Arc<Self> {
        let is_out = slot_of(entry).is_some();
        let world = Self {
            cpus: SpaceCpus::new(),
            tlb: Tlb::new(if is_out { Entry::ABSENT } else { entry }),
            leaf: Leaf::new(1, &[entry], ()),
            copy: Leaf::new(2, &[Entry::ABSENT], ()),
            frames: Frames::new([1, 1, 1, 1]),
            taken: Taken::new(!0b11 | u64::from(is_out)),
            counts: [Refs::new(1), Refs::new(0)],
            cache: [Slot::new(), Slot::new()],
            device: [AtomicU64::new(0), AtomicU64::new(0)],
            given_up: Mutex::new(0),
            is_closed: AtomicBool::new(false),
            is_removed: AtomicBool::new(false),
        };
        assert!(!is_out || world.cache[0].put_dirty(address(1)));
        world.cpus.come(1, &Loaded::new(), 1, |_| ());
        Arc::new(world)
    }

    fn lock(&self) -> Locked<'_, ()> {
        Locked::new(&self.leaf, self.leaf.lock())
    }

    fn take(&self) -> Option<usize> {
        let slot = self.taken.take()? as usize;
        self.counts[slot].begin();
        Some(slot)
    }

    /// What the cache has of the slot goes.
    fn forget(&self, slot: usize) {
        self.cache[slot].tag(true);
        let _gone = self.cache[slot].take_tagged();
    }

    fn put(&self, slot: usize) {
        swap::put(&self.counts[slot], || self.forget(slot), || self.taken.free(slot as u32));
    }

    fn fill(&self, slot: usize, frame: u64) {
        let put = |frame| if self.cache[slot].put_dirty(address(frame)) { Ok(()) } else { Err(frame) };
        swap::fill(frame, put, || self.forget(slot));
    }

    fn word(&self, frame: u64) -> &AtomicU64 {
        self.frames.word(page(frame, true), 0)
    }

    /// What the cache has of the slot, or else the device.
    fn content(&self, slot: usize) -> u64 {
        match self.cache[slot].frame() {
            Some(frame) => self.word(frame.0 >> 12).load(Ordering::Relaxed),
            None => self.device[slot].load(Ordering::Relaxed),
        }
    }

    /// A fault brings the page in, to `frame`.
    fn page_in(&self, frame: u64) {
        let locked = self.lock();
        let then = locked.entry(0);
        let Some(slot) = slot_of(then) else { return };
        let holds = swap::hold(&self.counts[slot]);
        drop(locked);
        self.word(frame).store(self.content(slot), Ordering::Relaxed);
        let mut locked = self.lock();
        let is_same = swap::is_same(locked.entry(0), then);
        let old = if is_same { locked.exchange(0, page(frame, true)) } else { Entry::ABSENT };
        drop(locked);
        if let Some(slot) = slot_of(old) {
            self.put(slot);
        }
        if holds {
            self.put(slot);
        }
    }

    /// CPU 0 takes the page out. The slot, if it is there.
    fn page_out(&self) -> Option<usize> {
        let slot = self.take()?;
        let mut locked = self.lock();
        if !locked.entry(0).owns_frame() {
            drop(locked);
            self.put(slot);
            return None;
        }
        let mark = busy::mark(0, || locked.entry(0));
        let old = locked.exchange(0, mark);
        drop(locked);
        if self.cpus.to_flush([0])[0] & 2 != 0 {
            self.tlb.flush();
        }
        self.fill(slot, old.address::<Format>().0 >> 12);
        let mut locked = self.lock();
        let is_own = busy::is_own(locked.entry(0), 0);
        if is_own {
            locked.exchange(0, in_swap(slot));
        }
        drop(locked);
        if !is_own {
            self.put(slot);
        }
        is_own.then_some(slot)
    }

    /// The page of the slot, which the caller counts, is written and given up.
    fn write_out(&self, slot: usize) {
        let Some(frame) = self.cache[slot].begin_clean() else { return };
        let value = self.word(frame.0 >> 12).load(Ordering::Relaxed);
        self.device[slot].store(value, Ordering::Relaxed);
        self.cache[slot].end_clean(frame, false);
        let mut given_up = self.given_up.lock().unwrap();
        *given_up += 1;
        if self.cache[slot].tag(false).is_some() {
            let _gone = self.cache[slot].take_tagged();
        }
    }

    /// The slot is read to `frame`, ahead of need.
    fn read_ahead(&self, slot: usize, frame: u64) {
        let begun = *self.given_up.lock().unwrap();
        self.word(frame).store(self.device[slot].load(Ordering::Relaxed), Ordering::Relaxed);
        let given_up = self.given_up.lock().unwrap();
        if swap::may_enter(begun, *given_up) {
            let _ = self.cache[slot].put(address(frame));
        }
    }

    /// What a program would read there.
    fn read(&self) -> u64 {
        let entry = walk(&self.leaf.cells[0]);
        match slot_of(entry) {
            Some(slot) => self.content(slot),
            None => self.frames.read(entry, 0),
        }
    }

    /// A slot that an entry has is taken.
    fn assert_taken(&self, entry: Entry) {
        if let Some(slot) = slot_of(entry) {
            assert!(self.taken.bits() >> slot & 1 != 0, "a slot is free that an entry has");
            assert!(self.counts[slot].count() > 0);
        }
    }
}

/// Two threads want the page. One writes it, and it goes out again, before the other has put its copy in.
fn out_again_while_it_is_read() {
    let world = World::new(in_swap(0));
    in_turn(
        &world,
        |world| {
            world.page_in(2);
            let entry = walk(&world.leaf.cells[0]);
            world.frames.word(entry, 0).store(NEW, Ordering::Relaxed);
            world.page_out();
        },
        |world| world.page_in(3),
    );
    assert_eq!(world.read(), NEW, "what was written is lost");
    world.assert_taken(walk(&world.leaf.cells[0]));
}

model! { out_again_while_it_is_read (4)
    breaks if_the_slot_is_not_held: "swap.hold"
    breaks if_the_entry_is_not_compared: "swap.same"
}

/// The leaf is copied while its page comes in.
fn copied_while_it_comes_in() {
    let world = World::new(in_swap(0));
    in_turn(
        &world,
        |world| {
            let locked = world.lock();
            let mut copy = Locked::new(&world.copy, world.copy.lock());
            if let Some(slot) = slot_of(locked.entry(0)) {
                swap::share(&world.counts[slot]);
                copy.exchange(0, in_swap(slot));
            }
        },
        |world| world.page_in(3),
    );
    assert_eq!(world.read(), OLD);
    let copied = walk(&world.copy.cells[0]);
    world.assert_taken(copied);
    assert!(slot_of(copied).is_none_or(|slot| world.content(slot) == OLD));
}

model! { copied_while_it_comes_in (4) breaks if_the_copy_is_not_counted: "swap.count" }

/// A slot gets free while another takes one.
fn freed_and_taken() {
    let world = World::new(in_swap(0));
    in_turn(
        &world,
        |world| world.put(0),
        |world| {
            if let Some(slot) = world.take() {
                world.fill(slot, 2);
            }
        },
    );
    let filled = (0..2).any(|slot| world.cache[slot].frame() == Some(address(2)));
    assert!(filled, "a page has gone with the slot's owner before");
}

model! { freed_and_taken (4) breaks if_the_slot_is_free_before_its_page_is_gone: "swap.forget" }

/// A slot is read ahead that is free, and taken meanwhile.
fn read_ahead_and_filled() {
    let world = World::new(page(1, true));
    in_turn(
        &world,
        |world| world.read_ahead(0, 3),
        |world| {
            let slot = world.take().unwrap();
            world.fill(slot, 2);
        },
    );
    assert_eq!(world.cache[0].frame(), Some(address(2)), "what was read has taken the place of a page");
}

model! { read_ahead_and_filled (4) breaks if_what_was_read_stays: "swap.over" }

/// A slot is read before its page is written, and the page is given up.
fn read_before_it_is_written() {
    let world = World::new(in_swap(0));
    in_turn(&world, |world| world.write_out(0), |world| world.read_ahead(0, 3));
    assert_eq!(world.read(), OLD, "what was on the device before comes back");
}

model! { read_before_it_is_written (4) breaks if_a_late_read_is_put_in: "swap.late" }

/// The page goes out and is written, while a program on another CPU writes it.
fn written_while_it_goes_out() {
    let world = World::new(page(1, true));
    let other = world.clone();
    let program = loom::thread::spawn(move || {
        let store = |entry| other.frames.word(entry, 0).store(NEW, Ordering::Relaxed);
        other.tlb.write(|| walk(&other.leaf.cells[0]), store)
    });
    if let Some(slot) = world.page_out() {
        world.write_out(slot);
    }
    let wrote = program.join().unwrap();
    assert!(slot_of(walk(&world.leaf.cells[0])).is_some(), "the page stays");
    assert_eq!(world.read(), if wrote { NEW } else { OLD }, "a write is lost");
}

model! { written_while_it_goes_out (4) breaks if_its_entry_is_not_busy_on_its_way_out: "busy.mark" }

/// An area goes while a slot of it is taken.
fn closed_while_a_slot_is_taken() {
    let world = World::new(page(1, true));
    in_turn(
        &world,
        |world| {
            let slot = world.taken.take().unwrap();
            if !swap::may_keep(&world.is_closed) {
                world.taken.free(slot);
            }
        },
        |world| {
            swap::close(&world.is_closed);
            if world.taken.bits() == !0b11 {
                world.is_removed.store(true, Ordering::Relaxed);
            }
        },
    );
    let is_kept = world.taken.bits() != !0b11;
    assert!(
        !(is_kept && world.is_removed.load(Ordering::Relaxed)),
        "a slot of an area that is gone is taken"
    );
}

model! { closed_while_a_slot_is_taken (4)
    breaks if_who_takes_a_slot_does_not_fence: "swap.taken"
    breaks if_who_closes_does_not_fence: "swap.close"
}
