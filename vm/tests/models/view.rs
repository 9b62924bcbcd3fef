//! Views: a CPU that comes to a leaf is known to whoever changes the leaf, or sees the change.

use crate::model;
use crate::protocol::{leaf, view};
use crate::world::{Format, Leaf, Tlb, address, page, table, walk};
use loom::sync::atomic::AtomicU64;
use loom::thread;
use std::sync::Arc;
use vm::{Entry, Machine};

/// A leaf with a page, attached, and its copy, which is not yet; the view and the TLB of a CPU that comes. A leaf's lock guards: is that CPU
/// among the viewers?
struct World {
    upper: AtomicU64,
    leaf: Leaf<bool>,
    copy: Leaf<bool>,
    place: AtomicU64,
    tlb: Tlb,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            upper: AtomicU64::new(table(1, true).0),
            leaf: Leaf::new(1, &[page(7, true)], false),
            copy: Leaf::new(2, &[page(8, true)], false),
            place: AtomicU64::new(0),
            tlb: Tlb::new(Entry::ABSENT),
        })
    }

    /// The leaf that an entry leads to.
    fn below(&self, entry: Entry) -> Option<&Leaf<bool>> {
        [&self.leaf, &self.copy].into_iter().find(|leaf| leaf::leads_to::<Format>(entry, leaf.table))
    }

    /// The CPU faults, links and goes on: the hardware walks as soon as there is a link.
    fn come(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || {
            let Some(leaf) = world.below(leaf::look(&world.upper)) else { return };
            let Some(mut viewer) = leaf.enter(&world.upper) else { return };
            view::link(&world.place, &world.upper, || *viewer = true, || world.tlb.flush());
            drop(viewer);
            world.tlb.access(|| world.walk());
        })
    }

    fn walk(&self) -> Entry {
        let link = walk(&self.place);
        let entry = self.below(link).map_or(Entry::ABSENT, |leaf| walk(&leaf.cells[0]));
        if Format::is_writable(link) { entry } else { Format::read_only(entry) }
    }

    /// Clears the entry of an attached leaf and returns when no CPU holds a translation of before.
    fn clear(&self, leaf: &Leaf<bool>) {
        let locked = leaf.enter(&self.upper).expect("nobody takes the leaf away");
        leaf::exchange(&leaf.cells[0], Entry::ABSENT);
        let viewer = *locked;
        drop(locked);
        self.flush(viewer);
    }

    /// Cuts the links to the leaf, to which the tree does not lead any more, or not so; `locked` is its lock.
    fn unlink(&self, locked: loom::sync::MutexGuard<'_, bool>) {
        view::cut::<Format>(&self.place, address(1), None);
        let viewer = *locked;
        drop(locked);
        self.flush(viewer);
    }

    fn flush(&self, viewer: bool) {
        if viewer {
            self.tlb.flush();
        }
    }
}

fn entry_cleared() {
    let world = World::new();
    let coming = world.come();
    world.clear(&world.leaf);
    // Here the frame is freed.
    coming.join().unwrap();
    world.tlb.assert_empty();
}

model! { entry_cleared (5) breaks if_the_cpu_is_not_noted: "view.note" }

fn leaf_detached() {
    let world = World::new();
    let coming = world.come();
    leaf::exchange(&world.upper, Entry::ABSENT);
    world.unlink(world.leaf.lock());
    // Here leaf and frame are freed.
    coming.join().unwrap();
    world.tlb.assert_empty();
    assert!(walk(&world.place).is_absent(), "a view links to a freed leaf");
}

model! { leaf_detached (5)
    breaks if_the_link_is_not_cut: "view.cut"
    breaks if_the_cpu_is_not_noted: "view.note"
}

/// A copy takes the leaf's place, and then its entry is cleared.
fn leaf_replaced() {
    let world = World::new();
    let coming = world.come();
    let locked = world.leaf.enter(&world.upper).expect("nobody takes the leaf away");
    leaf::exchange(&world.upper, table(2, true));
    world.unlink(locked);
    world.clear(&world.copy);
    // Here the old leaf and both frames are freed.
    coming.join().unwrap();
    world.tlb.assert_empty();
    assert_ne!(walk(&world.place), table(1, true), "a view links to a freed leaf");
}

model! { leaf_replaced (5)
    breaks if_the_link_is_not_cut: "view.cut"
    breaks if_a_link_is_made_below_a_stray_leaf: "leaf.enter"
}

/// Fork takes the right to write away; afterwards nobody writes.
fn right_taken_away() {
    let world = World::new();
    let coming = world.come();
    let locked = world.leaf.enter(&world.upper).expect("nobody takes the leaf away");
    leaf::exchange(&world.upper, table(1, false));
    world.unlink(locked);
    coming.join().unwrap();
    assert!(!Format::is_writable(world.tlb.access(|| Entry::ABSENT)), "a shared leaf is written");
    assert!(!Format::is_writable(world.walk()), "a shared leaf can be written");
}

model! { right_taken_away (5) breaks if_the_link_is_not_cut: "view.cut" }

/// A large leaf whose block is shown by the view of a CPU that used it, or by the link to be made; it has a page that the leaf's table shows too.
struct LargeWorld {
    upper: AtomicU64,
    /// The lock guards: is the leaf large, and the CPU among the viewers?
    leaf: Leaf<(bool, bool)>,
    place: AtomicU64,
    tlb: Tlb,
}

/// The block begins with the page that the leaf's first entry shows: frame 512.
const BLOCK: u64 = 512;

impl LargeWorld {
    fn block() -> Entry {
        page(BLOCK, true).large_page::<Format>()
    }

    fn new(is_large: bool, link: Entry, cached: Entry) -> Arc<Self> {
        Arc::new(Self {
            upper: AtomicU64::new(table(1, true).0),
            leaf: Leaf::new(1, &[page(BLOCK, true)], (is_large, !link.is_absent())),
            place: AtomicU64::new(link.0),
            tlb: Tlb::new(cached),
        })
    }

    fn walk(&self) -> Entry {
        match walk(&self.place) {
            link if link.large_block::<Format>().is_some() => link,
            link if link.is_absent() || link.is_busy() => Entry::ABSENT,
            _ => walk(&self.leaf.cells[0]),
        }
    }

    /// The CPU faults, links as the leaf is, and goes on. What it has by then, by an access that this access meets, is of the link's size.
    fn come(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || {
            let Some(mut state) = world.leaf.enter(&world.upper) else { return };
            let is_large = state.0;
            if is_large {
                let note = || state.1 = true;
                view::link_block::<Format>(&world.place, Self::block(), note, || world.tlb.flush());
            } else {
                view::link(&world.place, &world.upper, || state.1 = true, || world.tlb.flush());
            }
            let cached = world.tlb.access(|| Entry::ABSENT);
            assert!(
                cached.is_absent() || cached.large_block::<Format>().is_some() == is_large,
                "a CPU has translations of both sizes"
            );
            drop(state);
            world.tlb.access(|| world.walk());
        })
    }

    /// The leaf is split, and an entry cleared. Returns when no CPU holds a translation of before.
    fn split_and_clear(&self) {
        let mut state = self.leaf.enter(&self.upper).expect("nobody takes the leaf away");
        let block = state.0.then(|| address(BLOCK));
        view::cut::<Format>(&self.place, address(1), block);
        state.0 = false;
        leaf::exchange(&self.leaf.cells[0], Entry::ABSENT);
        let viewer = state.1;
        drop(state);
        if viewer {
            self.tlb.flush();
        }
    }
}

/// A large leaf is split while the CPU that uses it comes again, or for the first time.
fn large_leaf_split(link: Entry) {
    let world = LargeWorld::new(true, link, link);
    let coming = world.come();
    world.split_and_clear();
    // Here the frame is freed.
    coming.join().unwrap();
    world.tlb.assert_empty();
    assert!(walk(&world.place).large_block::<Format>().is_none(), "a view shows a block that is split");
}

fn large_leaf_split_in_use() {
    large_leaf_split(LargeWorld::block());
}

model! { large_leaf_split_in_use (5)
    breaks if_the_link_is_not_cut: "view.cut"
    breaks if_the_cpu_keeps_what_it_had: "view.small"
}

fn large_leaf_split_at_first_use() {
    large_leaf_split(Entry::ABSENT);
}

model! { large_leaf_split_at_first_use (5) breaks if_the_cpu_is_not_noted: "view.note" }

/// A leaf that a CPU used page by page has become large.
fn leaf_linked_as_large() {
    let world = LargeWorld::new(true, table(1, true), page(BLOCK, true));
    world.come().join().unwrap();
}

model! { leaf_linked_as_large (5) breaks if_the_cpu_keeps_what_it_had: "view.large" }
