//! A CPU does not halt beside work: it sees what it is given, or is kicked; and once for all.

use crate::model;
use crate::protocol::idle::Idle;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;

struct World {
    idle: Idle,
    work: [AtomicU32; 2],
    kicks: AtomicU32,
}

impl World {
    fn give(&self, n: usize) {
        self.work[n].store(1, Ordering::Relaxed);
        if self.idle.take() {
            self.kicks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Does the CPU halt?
    fn idles(&self) -> bool {
        self.idle.show(true);
        let halts = self.work.iter().all(|work| work.load(Ordering::Relaxed) == 0);
        if !halts {
            self.idle.show(false);
        }
        halts
    }
}

fn idling() {
    let world =
        Arc::new(World { idle: Idle::new(), work: [0; 2].map(AtomicU32::new), kicks: AtomicU32::new(0) });
    let givers = [0, 1].map(|n| {
        let world = world.clone();
        thread::spawn(move || world.give(n))
    });
    let halts = world.idles();
    givers.into_iter().for_each(|giver| giver.join().unwrap());
    let kicks = world.kicks.load(Ordering::Relaxed);
    assert!(!halts || kicks == 1, "a CPU that halts beside work is kicked {kicks} times");
    assert!(kicks <= 1, "a CPU is kicked {kicks} times");
}

model! { idling (3)
    breaks without_a_fence_of_who_idles: "idle.show"
    breaks without_a_fence_of_who_gives: "idle.give"
}
