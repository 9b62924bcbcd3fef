//! Pooled pages: what is pooled is on the list of its leaf, nothing is freed twice or too early, and all in the end.

use crate::model;
use crate::protocol::share::{self, Pair, Write};
use crate::protocol::{leaf, pool};
use crate::world::{Format, Frames, Leaf, OLD, page, table, walk};
use loom::sync::atomic::{AtomicBool, AtomicU64};
use loom::thread;
use std::sync::{Arc, Mutex};
use vm::{Entry, Machine};

/// The references of a list.
struct List {
    entries: Vec<Entry>,
    frames: Arc<Frames>,
}

impl Drop for List {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.entries.iter().for_each(|entry| self.frames.put(*entry));
        }
    }
}

/// A count of a list.
type PoolShare = Arc<List>;

/// What the leaf's lock guards.
type State = Option<Arc<PoolShare>>;

/// Leaf 1, in which page 1 is pooled and page 2 owned, and shown by another leaf too, which counts it; and its copies 2 and 3.
struct World {
    leaves: [Leaf<State>; 3],
    frames: Arc<Frames>,
}

/// The leaves of a copy, at one entry.
struct Pages<'a> {
    world: &'a World,
    copy: &'a Leaf<State>,
    index: usize,
    list: Option<&'a mut List>,
}

impl Pair for Pages<'_> {
    fn restate(&mut self, entry: Entry) {
        leaf::fill(&self.world.leaves[0].cells[self.index], entry);
    }

    fn fill(&mut self, entry: Entry) {
        leaf::fill(&self.copy.cells[self.index], entry);
    }

    fn count(&mut self, entry: Entry) {
        self.world.frames.refs(entry).get();
    }

    fn hand_over(&mut self, entry: Entry) -> bool {
        let Some(list) = &mut self.list else { return false };
        list.entries.push(entry);
        true
    }

    fn keep(&mut self, entry: Entry) {
        if let Some(list) = &mut self.list {
            self.world.frames.refs(entry).get();
            list.entries.push(entry);
        }
    }
}

/// What a copier makes with the leaf unlocked.
#[derive(Clone, Copy)]
enum Made {
    /// A new list, which takes over what is counted.
    List,
    /// A count of the list that the leaf had.
    Count,
}

impl World {
    fn new() -> Arc<Self> {
        let frames = Arc::new(Frames::new([1, 2, 1, 1]));
        let list = Arc::new(List { entries: vec![page(1, false)], frames: frames.clone() });
        let old = [page(1, false).pooled(), page(2, false)];
        Arc::new(Self {
            leaves: [
                Leaf::new(1, &old, Some(Arc::new(list))),
                Leaf::new(2, &[Entry::ABSENT; 2], None),
                Leaf::new(3, &[Entry::ABSENT; 2], None),
            ],
            frames,
        })
    }

    /// Copies the leaf.
    fn copy(&self, made: Made, copy: &Leaf<State>) {
        let old = &self.leaves[0];
        let then = old.lock().clone();
        // Memory for a pool is taken here.
        let mut new = match (made, &then) {
            (Made::Count, Some(then)) => Arc::new((**then).clone()),
            _ => Arc::new(Arc::new(List { entries: Vec::new(), frames: self.frames.clone() })),
        };
        let mut locked = old.lock();
        let mut copy_locked = copy.lock();
        let fits = pool::fits(then.as_ref(), locked.as_ref());
        for index in 0..2 {
            let mut list = match made {
                Made::List => Arc::get_mut(&mut new).and_then(Arc::get_mut),
                Made::Count => None,
            };
            let list = if fits { list.take() } else { None };
            let mut pages = Pages { world: self, copy, index, list };
            share::copy_private::<Format>(&mut pages, walk(&old.cells[index]), true);
        }
        let replaced = if fits {
            pool::give(new, &mut locked, &mut copy_locked)
        } else {
            copy_locked.clone_from(&locked);
            None
        };
        drop((locked, copy_locked));
        drop(replaced);
    }

    /// PooledByFamily.
    fn assert_held(&self, leaf: &Leaf<State>) {
        let pool = leaf.lock();
        let listed = |entry: Entry| {
            pool.as_ref().is_some_and(|list| {
                list.entries.iter().any(|e| e.address::<Format>() == entry.address::<Format>())
            })
        };
        for entry in leaf.cells.iter().map(walk).filter(|entry| entry.is_pooled()) {
            assert!(listed(entry), "a pooled entry is on no list of its leaf");
        }
    }

    /// A leaf ends, and lets go what it has.
    fn end(&self, leaf: &Leaf<State>) {
        for entry in leaf.cells.iter().map(walk).filter(|entry| entry.owns_frame()) {
            self.frames.put(entry);
        }
        *leaf.lock() = None;
    }
}

/// Two sharers copy the leaf at the same time; then all leaves end.
fn two_copiers(other: Made) {
    let world = World::new();
    let second = {
        let world = world.clone();
        thread::spawn(move || world.copy(other, &world.leaves[2]))
    };
    world.copy(Made::List, &world.leaves[1]);
    second.join().unwrap();
    world.leaves.iter().for_each(|leaf| world.assert_held(leaf));
    world.leaves.iter().for_each(|leaf| world.end(leaf));
    assert!(world.frames.is_free(page(1, false)), "a page that nobody has is not freed");
    assert_eq!(world.frames.refs(page(2, false)).count(), 1, "the other leaf's page is freed or kept");
    world.frames.put(page(2, false));
    assert!(world.frames.is_free(page(2, false)));
}

fn list_and_count() {
    two_copiers(Made::Count);
}

fn list_and_list() {
    two_copiers(Made::List);
}

model! { list_and_count (5) breaks if_a_holder_does_not_fit: "pool.fits" }

model! { list_and_list (5)
    breaks if_a_new_list_has_not_what_the_last_had: "pool.keep"
    breaks if_an_entry_keeps_its_reference: "pool.mark"
}

/// What waits for the end of read sections.
type Callbacks = Mutex<Vec<Arc<PoolShare>>>;

/// A fault copies a pooled page, while another thread gives the page up and the list goes: with the leaf, or when a copy brings another.
fn copied_page_given_up(end: fn(&World, &mut State, &Callbacks)) {
    let world = World::new();
    let fault = {
        let world = world.clone();
        thread::spawn(move || {
            // The read section begins.
            let locked = world.leaves[0].lock();
            let entry = walk(&world.leaves[0].cells[0]);
            drop(locked);
            if entry.is_pooled() {
                assert_eq!(world.frames.read(entry, 0), OLD, "a page that is free was copied");
            }
        })
    };
    // Callbacks run when the fault's read section has ended.
    let callbacks = Mutex::new(Vec::new());
    let mut locked = world.leaves[0].lock();
    leaf::exchange(&world.leaves[0].cells[0], page(3, true));
    end(&world, &mut locked, &callbacks);
    drop(locked);
    fault.join().unwrap();
    drop(callbacks);
    assert!(world.frames.is_free(page(1, false)), "a page that nobody has is not freed");
}

fn list_replaced() {
    copied_page_given_up(|world, locked, callbacks| {
        let new = Arc::new(Arc::new(List { entries: Vec::new(), frames: world.frames.clone() }));
        if let Some(old) = pool::give(new, locked, &mut None) {
            pool::let_go(old, |old| callbacks.lock().unwrap().push(old));
        }
    });
}

model! { list_replaced (5) breaks if_it_goes_at_once: "pool.grace" }

fn leaf_ended() {
    copied_page_given_up(|_, locked, callbacks| {
        if let Some(old) = locked.take() {
            leaf::free(old, |old| callbacks.lock().unwrap().push(old));
        }
    });
}

model! { leaf_ended (5) breaks if_it_goes_at_once: "leaf.grace" }

/// A pooled page that only the list refers to, and so perhaps other leaves too, is not written in place.
fn held_written() {
    let entry = page(1, false).pooled();
    let upper = AtomicU64::new(table(1, true).0);
    assert!(Format::is_writable(walk(&upper)));
    assert_eq!(share::write::<Format>(entry, false, || 1, &AtomicBool::new(false)), Write::Copy);
}

model! { held_written (1) breaks if_the_mark_is_not_seen: "share.pooled" }
