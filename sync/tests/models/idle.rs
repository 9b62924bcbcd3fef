//! A CPU does not halt beside work: it sees what it is given, or is kicked, once for all; and one that was seen looking looks everywhere anew.

use crate::model;
use crate::protocol::idle::{Found, Idle};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;

struct World {
    idle: Idle,
    /// Where the CPU looks once more before it halts.
    own: [AtomicU32; 2],
    /// What it may take from another CPU. There it looks only before it shows that it idles.
    elsewhere: AtomicU32,
    kicks: AtomicU32,
}

impl World {
    fn give(&self, to: &AtomicU32) -> Found {
        to.store(1, Ordering::Relaxed);
        let found = self.idle.take();
        if found == Found::Halted {
            self.kicks.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Does the CPU halt?
    fn idles(&self) -> bool {
        loop {
            if self.elsewhere.load(Ordering::Relaxed) != 0 {
                return false;
            }
            self.idle.show(true);
            if self.idle.halt() {
                break;
            }
        }
        let halts = self.own.iter().all(|work| work.load(Ordering::Relaxed) == 0);
        if !halts {
            self.idle.end_halt();
        }
        halts
    }
}

fn world() -> Arc<World> {
    Arc::new(World {
        idle: Idle::new(),
        own: [0; 2].map(AtomicU32::new),
        elsewhere: AtomicU32::new(0),
        kicks: AtomicU32::new(0),
    })
}

fn idling() {
    let world = world();
    let givers = [0, 1].map(|n| {
        let world = world.clone();
        thread::spawn(move || world.give(&world.own[n]))
    });
    let halts = world.idles();
    givers.into_iter().for_each(|giver| _ = giver.join().unwrap());
    let kicks = world.kicks.load(Ordering::Relaxed);
    assert!(!halts || kicks == 1, "a CPU that halts beside work is kicked {kicks} times");
    assert!(kicks <= 1, "a CPU is kicked {kicks} times");
}

model! { idling (3)
    breaks without_a_fence_of_who_idles: "idle.halt"
    breaks without_a_fence_of_who_gives: "idle.give"
}

fn looking() {
    let world = world();
    let giver = thread::spawn({
        let world = world.clone();
        move || world.give(&world.elsewhere)
    });
    let halts = world.idles();
    let found = giver.join().unwrap();
    assert!(!halts || found != Found::Looking, "a CPU that was seen looking halts");
}

model! { looking (3)
    breaks where_a_halt_hides_that_it_was_taken: "idle.untaken"
    breaks where_it_does_not_see_what_was_there: "idle.taken"
}
