//! Pages whose contents a pager keeps: what is written while they are cleaned or taken away is not lost.

use crate::explore::in_turn;
use crate::model;
use crate::protocol::evict::{self, Slot};
use crate::protocol::leaf;
use crate::world::{Format, Leaf, Locked, Tlb, address, walk};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use vm::{Entry, Machine, Prot};

/// An object with one page, in frame 1, whose pager takes writes; the leaf that maps it, and the TLB of a CPU that writes by it.
struct Kept {
    slot: Slot,
    list_made: AtomicBool,
    listed: Mutex<bool>,
    leaf: Leaf<bool>,
    tlb: Tlb,
    bytes: AtomicU64,
    /// What the pager has.
    stored: AtomicU64,
}

impl Kept {
    /// The page is dirty, and `writable`: mapped so that it may be written.
    fn new(writable: bool, listed: bool) -> Arc<Self> {
        let slot = Slot::new();
        assert!(slot.put_dirty(address(1)));
        let rights = Prot::READ | if writable { Prot::WRITE } else { Prot::empty() };
        let entry = Entry::page::<Format>(address(1), rights, false);
        Arc::new(Self {
            slot,
            list_made: AtomicBool::new(listed),
            listed: Mutex::new(listed),
            leaf: Leaf::new(1, &[if listed { entry } else { Entry::ABSENT }], listed),
            tlb: Tlb::new(if writable { entry } else { Entry::ABSENT }),
            bytes: AtomicU64::new(1),
            stored: AtomicU64::new(0),
        })
    }

    fn lock(&self) -> Locked<'_, bool> {
        Locked::new(&self.leaf, self.leaf.lock())
    }

    fn clean(&self) {
        let visit = |frame: &Option<_>| {
            let Some(frame) = *frame else { return };
            if !self.list_made.load(Ordering::Acquire) || !*self.listed.lock().unwrap() {
                return;
            }
            let mut locked = self.lock();
            let entry = locked.entry(0);
            if evict::shows::<Format>(entry, frame) && Format::is_writable(entry) {
                locked.exchange(0, Format::read_only(entry));
            }
            drop(locked);
            self.tlb.flush();
        };
        if let Some(frame) = evict::clean(|| self.slot.begin_clean(), visit) {
            self.stored.store(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
            self.slot.end_clean(frame, false);
        }
    }

    /// A program writes. True: it could.
    fn store(&self) -> bool {
        self.tlb.write(|| walk(&self.leaf.cells[0]), |_| self.bytes.store(2, Ordering::Relaxed))
    }

    /// A program writes, and faults if it must.
    fn write(&self) {
        if self.store() {
            return;
        }
        // Marked with nothing locked. Where the page is clean again when the leaf is, the real one marks it again.
        self.slot.make_dirty();
        let mut locked = self.lock();
        while evict::registers_first(*locked.state) {
            drop(locked);
            evict::register(|| {
                let _ = self.list_made.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
                *self.listed.lock().unwrap() = true;
            });
            locked = self.lock();
            *locked.state = true;
        }
        if self.slot.is_dirty(address(1), &locked) {
            leaf::fill(
                &self.leaf.cells[0],
                Entry::page::<Format>(address(1), Prot::READ | Prot::WRITE, false),
            );
        }
        drop(locked);
        self.store();
    }

    /// The pager has what was written, or the page is dirty.
    fn check(&self) {
        let (has, stored) = (self.bytes.load(Ordering::Relaxed), self.stored.load(Ordering::Relaxed));
        assert!(self.slot.needs_cleaning() || has == stored, "what was written is lost");
    }
}

fn cleaned_while_mapped() {
    let world = Kept::new(true, true);
    in_turn(&world, Kept::clean, |world| _ = world.store());
    world.check();
}

fn cleaned_while_it_is_written_again() {
    let world = Kept::new(false, true);
    in_turn(&world, Kept::clean, Kept::write);
    world.check();
}

fn cleaned_while_it_is_mapped() {
    let world = Kept::new(false, false);
    in_turn(&world, Kept::clean, Kept::write);
    world.check();
}

/// By write(2).
fn cleaned_while_bytes_are_copied() {
    let world = Kept::new(false, true);
    in_turn(&world, Kept::clean, |world| {
        if let Some(frame) = world.slot.hold() {
            world.bytes.store(2, Ordering::Relaxed);
            world.slot.let_go(frame, true);
        }
    });
    world.check();
}

/// A page is taken away that can be had again, while it is written.
fn written_while_taken_away() {
    let world = Kept::new(false, true);
    let frame = world.slot.begin_clean().unwrap();
    world.slot.end_clean(frame, false);
    in_turn(
        &world,
        |world| {
            let tag = || world.slot.tag(false).is_some();
            evict::evict(tag, |_| {}, |_| world.slot.take_tagged().map(drop), |()| {});
        },
        |world| {
            if let Some(frame) = world.slot.hold() {
                world.bytes.store(2, Ordering::Relaxed);
                assert!(
                    world.slot.let_go(frame, true).is_some(),
                    "a page is gone that bytes were copied into"
                );
            }
        },
    );
    let written = world.bytes.load(Ordering::Relaxed) == 2;
    assert!(!written || world.slot.needs_cleaning(), "what was written is lost");
}

model! { cleaned_while_mapped (5)
    breaks if_the_right_to_write_stays: "evict.protect"
}

model! { cleaned_while_it_is_written_again (5)
    breaks if_the_mark_goes_after_the_bytes: "evict.clear"
    breaks if_the_mark_is_not_looked_at: "evict.dirty"
}

model! { cleaned_while_it_is_mapped (5)
    breaks if_the_mark_is_not_looked_at: "evict.dirty"
    breaks without_the_fence_behind_the_marks: "evict.clean"
    breaks without_the_fence_behind_the_list: "evict.register"
}

model! { cleaned_while_bytes_are_copied (5)
    breaks if_the_mark_goes_after_the_bytes: "evict.clear"
    breaks without_release_of_the_bytes: "evict.let_go"
    breaks without_the_fence_behind_the_marks: "evict.clean"
}

model! { written_while_taken_away (5) breaks if_marks_are_not_looked_at: "evict.marks" }
