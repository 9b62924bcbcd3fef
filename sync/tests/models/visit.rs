//! Visits to the members of a set on many lists: a member made meanwhile is visited, is told by its maker, or its maker begins again.

use crate::model;
use crate::protocol::visit::Visits;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use std::sync::Arc;

/// The maker is on the common list. A list has the others: whether each was visited.
struct World {
    visits: Visits,
    told: AtomicBool,
    common: Mutex<Vec<bool>>,
    own: Mutex<Vec<bool>>,
}

impl World {
    fn new() -> Arc<Self> {
        let (common, own) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        Arc::new(World { visits: Visits::new(), told: AtomicBool::new(false), common, own })
    }

    fn visit_own(&self) {
        self.own.lock().unwrap().iter_mut().for_each(|visited| *visited = true);
    }

    fn visit_common(&self) {
        let mut common = self.common.lock().unwrap();
        self.told.store(true, Relaxed);
        common.iter_mut().for_each(|visited| *visited = true);
    }

    fn visit(&self) {
        self.visits.begin();
        self.visit_common();
        if self.visits.is_spread() {
            self.visit_own();
        }
        self.visits.end();
    }

    /// As a visitor for whom the other list comes first.
    fn visit_own_first(&self) {
        self.visits.begin();
        self.visit_own();
        self.visit_common();
        self.visits.end();
    }

    fn spread(&self) {
        let _common = self.common.lock().unwrap();
        self.visits.spread();
    }

    fn make(&self) {
        let start = self.visits.start();
        if self.told.load(Relaxed) {
            return;
        }
        let mut list = if self.visits.is_spread() { self.own.lock() } else { self.common.lock() }.unwrap();
        if self.visits.are_none_since(start) {
            list.push(false);
            return;
        }
        drop(list);
        let mut common = self.common.lock().unwrap();
        // What the maker was told since its start, it tells.
        common.push(self.told.load(Relaxed));
    }

    fn run(self: &Arc<Self>, others: &[fn(&World)], own: fn(&World)) {
        let others: Vec<_> = others
            .iter()
            .map(|run| {
                let (world, run) = (self.clone(), *run);
                thread::spawn(move || run(&world))
            })
            .collect();
        own(self);
        for other in others {
            other.join().unwrap();
        }
        for list in [&self.common, &self.own] {
            assert!(list.lock().unwrap().iter().all(|visited| *visited), "a member escapes");
        }
    }
}

/// The set becomes spread meanwhile.
fn spreading() {
    World::new().run(&[World::spread, World::make], World::visit);
}

/// A set that is spread already.
fn visits() {
    let world = World::new();
    world.spread();
    world.run(&[World::make], World::visit_own_first);
}

model! { visits (3)
    breaks without_announcement: "visit.announce"
    breaks without_a_look: "visit.look"
    breaks without_release_at_the_end: "visit.over"
    breaks without_acquire_at_the_start: "visit.start"
}

model! { spreading (3)
    breaks without_release_of_lists: "visit.publish"
    breaks without_acquire_of_lists: "visit.find"
}
