//! Leaves that a parent and its child use: each has what it wrote, and nothing of what the other wrote after the fork.
//!
//! The copy of a page for a write is made with the leaf locked here; how it is made unlocked is in busy.rs.

use crate::explore::in_turn;
use crate::model;
use crate::protocol::leaf;
use crate::protocol::share::{self, Claim, Pair, Write};
use crate::world::{Format, Frames, Leaf, OLD, Tlb, page, table, walk};
use loom::cell::UnsafeCell;
use loom::sync::MutexGuard;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;
use vm::{Entry, Machine};

const PARENT: usize = 0;
const CHILD: usize = 1;

/// Leaf 1 has a page in frame 1. A leaf's lock guards the number of its sharers.
struct World {
    uppers: [AtomicU64; 2],
    leaves: [Leaf<usize>; 3],
    frames: Frames,
    forking: AtomicBool,
    /// CPUs 0 and 1 are the parent's, CPU 2 the child's.
    tlbs: [Tlb; 3],
}

type Locked<'a> = MutexGuard<'a, usize>;

/// The leaves of a copy.
struct Pages<'a> {
    world: &'a World,
    old: &'a Leaf<usize>,
    copy: &'a Leaf<usize>,
}

impl Pair for Pages<'_> {
    fn restate(&mut self, entry: Entry) {
        leaf::fill(&self.old.cells[0], entry);
    }

    fn fill(&mut self, entry: Entry) {
        leaf::fill(&self.copy.cells[0], entry);
    }

    fn count(&mut self, entry: Entry) {
        self.world.frames.refs(entry).get();
    }

    fn hand_over(&mut self, _entry: Entry) -> bool {
        false
    }

    fn keep(&mut self, _entry: Entry) {}
}

impl World {
    /// `remembered`: what CPU 1 has in its TLB.
    fn new(sharers: usize, uppers: [Entry; 2], remembered: Entry) -> Arc<Self> {
        Arc::new(Self {
            uppers: uppers.map(|upper| AtomicU64::new(upper.0)),
            leaves: [
                Leaf::new(1, &[page(1, true)], sharers),
                Leaf::new(2, &[Entry::ABSENT], 1),
                Leaf::new(3, &[Entry::ABSENT], 1),
            ],
            frames: Frames::new([1; 4]),
            forking: AtomicBool::new(false),
            tlbs: [Entry::ABSENT, remembered, Entry::ABSENT].map(Tlb::new),
        })
    }

    fn below(&self, upper: Entry) -> Option<&Leaf<usize>> {
        self.leaves.iter().find(|leaf| leaf::leads_to::<Format>(upper, leaf.table))
    }

    fn walk(&self, space: usize) -> Entry {
        let upper = walk(&self.uppers[space]);
        let entry = self.below(upper).map_or(Entry::ABSENT, |leaf| walk(&leaf.cells[0]));
        if Format::is_writable(upper) { entry } else { Format::read_only(entry) }
    }

    fn read(&self, space: usize, word: usize) -> u64 {
        self.frames.read(self.walk(space), word)
    }

    fn flush(&self, space: usize) {
        let cpus = if space == PARENT { 0..2 } else { 2..3 };
        self.tlbs[cpus].iter().for_each(Tlb::flush);
    }

    /// A program writes, with leaf and frame `spare` for copies.
    fn write(&self, space: usize, cpu: usize, word: usize, spare: usize) {
        let store = |entry| self.frames.word(entry, word).store(spare as u64, Ordering::Relaxed);
        while !self.tlbs[cpu].write(|| self.walk(space), store) {
            if !self.fault(space, spare) {
                thread::yield_now();
            }
        }
    }

    /// False: a fork is in the way.
    fn fault(&self, space: usize, spare: usize) -> bool {
        let upper = &self.uppers[space];
        let Some(leaf) = self.below(leaf::look(upper)) else { panic!("a leaf is lost") };
        let Some(locked) = leaf.enter(upper) else { return true };
        if !Format::is_writable(Entry(upper.load(Ordering::Relaxed))) {
            match share::claim::<Format>(upper, leaf.table, *locked > 1, &self.forking) {
                Claim::Again => {}
                Claim::Wait => return false,
                Claim::Copy => self.copy_leaf(space, leaf, locked, spare),
            }
            return true;
        }
        let cell = &leaf.cells[0];
        let old = walk(cell);
        let references = || self.frames.refs(old).count();
        match share::write::<Format>(old, false, references, &self.forking) {
            Write::There => {}
            Write::InPlace => _ = leaf::exchange(cell, page(old.address::<Format>().0 >> 12, true)),
            Write::Wait | Write::Dirty => return false,
            Write::Copy => {
                let new = page(spare as u64, true);
                self.frames.copy(old, new);
                leaf::exchange(cell, new);
                drop(locked);
                self.flush(space);
                self.frames.put(old);
            }
        }
        true
    }

    fn copy_leaf(&self, space: usize, old: &Leaf<usize>, locked: Locked<'_>, spare: usize) {
        let copy = &self.leaves[spare - 1];
        share::copy_private::<Format>(&mut Pages { world: self, old, copy }, walk(&old.cells[0]), true);
        let entry = table(spare as u64, true);
        let replaced = share::replace::<Format, _>(&self.uppers[space], old.table, entry, || ());
        assert!(replaced.is_some(), "nobody detaches the leaf");
        drop(locked);
        self.flush(space);
        let forget = |sharers: &mut Locked<'_>| {
            **sharers -= 1;
            **sharers == 0
        };
        if let Some(locked) = leaf::leave(old.lock(), forget) {
            drop(locked);
            self.frames.put(walk(&old.cells[0]));
        }
    }

    /// Frame 1 is counted once for each leaf that shows it, and freed if none does.
    fn assert_counted(&self) {
        let old = page(1, true).address::<Format>();
        let shows = |leaf: &&Leaf<usize>| {
            let entry = walk(&leaf.cells[0]);
            let attached = self.uppers.iter().any(|upper| leaf::leads_to::<Format>(walk(upper), leaf.table));
            attached && !entry.is_absent() && entry.address::<Format>() == old
        };
        let leaves = self.leaves.iter().filter(shows).count();
        let frame = page(1, true);
        assert_eq!(
            self.frames.is_free(frame),
            leaves == 0,
            "a page that nobody has is not freed, or one that somebody has"
        );
        assert!(leaves == 0 || self.frames.refs(frame).count() as usize == leaves, "references are lost");
    }
}

/// After a fork. Both write, each a word of its own.
fn both_write() {
    let world = World::new(2, [table(1, false); 2], Entry::ABSENT);
    let other = world.clone();
    let child = thread::spawn(move || other.write(CHILD, 2, 1, 3));
    world.write(PARENT, 0, 0, 2);
    child.join().unwrap();
    let seen = [PARENT, CHILD].map(|space| [world.read(space, 0), world.read(space, 1)]);
    assert_eq!(seen, [[2, OLD], [OLD, 3]]);
    world.assert_counted();
}

model! { both_write (3)
    breaks if_a_leaf_is_taken_over_that_is_shared: "share.alone"
    breaks if_a_copy_does_not_count_the_page: "share.count"
    breaks if_the_copy_is_left_writable: "share.copy"
    breaks if_a_page_that_others_have_is_written: "share.sole"
    breaks if_not_only_the_last_drains: "leaf.last"
}

/// The child copies the leaf, for another page of it, and goes on reading this one.
fn one_writes() {
    let world = World::new(2, [table(1, false); 2], Entry::ABSENT);
    let other = world.clone();
    let child = thread::spawn(move || {
        let old = &other.leaves[0];
        let Some(locked) = old.enter(&other.uppers[CHILD]) else { panic!("the leaf is the child's") };
        match share::claim::<Format>(&other.uppers[CHILD], old.table, *locked > 1, &other.forking) {
            Claim::Copy => other.copy_leaf(CHILD, old, locked, 3),
            _ => drop(locked),
        }
        assert_eq!(other.read(CHILD, 0), OLD, "the child sees what the parent writes");
    });
    world.write(PARENT, 0, 0, 2);
    child.join().unwrap();
    assert_eq!((world.read(PARENT, 0), world.read(CHILD, 0)), (2, OLD));
    world.assert_counted();
}

model! { one_writes (5)
    breaks if_the_old_leaf_is_left_writable: "share.old"
    breaks if_a_page_that_others_have_is_written: "share.sole"
}

/// A fork, while CPU 1, which may have a translation, writes one word and CPU 0 another. Afterwards the child sees what it saw first, and the parent
/// has lost nothing.
fn fork_beside_writers(share: fn(&World)) {
    let world = World::new(1, [table(1, true), Entry::ABSENT], page(1, true));
    let (first, second) = (world.clone(), world.clone());
    let stale = thread::spawn(move || {
        let store = |entry| first.frames.word(entry, 1).store(7, Ordering::Relaxed);
        first.tlbs[1].write(|| first.walk(PARENT), store)
    });
    let writer = thread::spawn(move || second.write(PARENT, 0, 0, 2));
    share::fork(&world.forking, || share(&world), || world.flush(PARENT));
    let words = || [0, 1].map(|word| world.read(CHILD, word));
    let seen = words();
    let wrote = stale.join().unwrap();
    writer.join().unwrap();
    assert_eq!(words(), seen, "the child sees what its parent writes");
    let parent = [0, 1].map(|word| world.read(PARENT, word));
    assert_eq!(parent, [2, if wrote { 7 } else { OLD }], "the parent lost a write");
    world.assert_counted();
}

/// The leaf becomes the child's too.
fn fork_that_shares() {
    fork_beside_writers(|world| {
        let upper = &world.uppers[PARENT];
        let leaf = &world.leaves[0];
        let Some(mut locked) = leaf.enter(upper) else { panic!("nobody else shares it") };
        let now = Entry(upper.load(Ordering::Relaxed));
        let Some(entry) = share::protect::<Format>(upper, now, leaf.table, || false, || ()) else { panic!() };
        *locked += 1;
        drop(locked);
        leaf::fill(&world.uppers[CHILD], entry);
    });
}

model! { fork_that_shares (3)
    breaks if_the_leaf_stays_writable: "share.protect"
    breaks if_nobody_flushes: "share.flush"
}

/// The child gets a part of the leaf, so a copy is made at once (op/fork/inherit.rs).
fn fork_that_copies() {
    fork_beside_writers(|world| {
        let (old, copy) = (&world.leaves[0], &world.leaves[2]);
        let Some(locked) = old.enter(&world.uppers[PARENT]) else { panic!("nobody takes it away") };
        share::copy_private::<Format>(&mut Pages { world, old, copy }, walk(&old.cells[0]), true);
        drop(locked);
        leaf::fill(&world.uppers[CHILD], table(3, true));
    });
}

model! { fork_that_copies (3)
    breaks if_nobody_flushes: "share.flush"
    breaks if_a_page_is_copied_before_the_flush: "share.forking"
    breaks without_release_at_the_end: "share.flushed"
    breaks without_acquire_of_the_end: "share.over"
}

/// A copy of a leaf takes its place, and somebody finds it.
fn copy_found() {
    struct World {
        upper: AtomicU64,
        contents: UnsafeCell<u64>,
    }
    // SAFETY: loom checks what the entry is for.
    unsafe impl Send for World {}
    // SAFETY: as above.
    unsafe impl Sync for World {}
    let copy = |world: &World| {
        // SAFETY: loom checks that nobody else uses it.
        world.contents.with_mut(|contents| unsafe { *contents = 5 });
        let _ = share::replace::<Format, _>(
            &world.upper,
            table(1, false).address::<Format>(),
            table(2, true),
            || (),
        );
    };
    let find = |world: &World| {
        if leaf::look(&world.upper) == table(2, true) {
            // SAFETY: loom checks that nobody writes it.
            world.contents.with(|contents| assert_eq!(unsafe { *contents }, 5, "a leaf is found half made"));
        }
    };
    let upper = AtomicU64::new(table(1, false).0);
    in_turn(&Arc::new(World { upper, contents: UnsafeCell::new(0) }), copy, find);
}

model! { copy_found (5) breaks without_release_of_the_copy: "share.replace" }
