//! Who claims a thing that somebody has open finds that, or is seen by him who opens it.

use crate::model;
use crate::protocol::period::{Period, Seat};
use crate::protocol::readers::{Claim, Count, Shared, open};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;

struct World {
    counts: [Count; 2],
    claim: Claim,
    period: Period,
    seats: [Seat; 2],
    /// Somebody has opened it and seen no claim.
    unaware: AtomicBool,
    /// Somebody has claimed it and seen nobody.
    alone: AtomicBool,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            counts: [Count::new(), Count::new()],
            claim: Claim::new(),
            period: Period::new(),
            seats: [Seat::new(), Seat::new()],
            unaware: AtomicBool::new(false),
            alone: AtomicBool::new(false),
        })
    }

    fn synchronize(&self) {
        let tag = self.period.tag();
        while !self.period.is_over(tag) {
            self.period.begin();
            let _ = self.period.try_end(2, 1, |cpu| &self.seats[cpu as usize]);
            if !self.period.is_over(tag) {
                thread::yield_now();
            }
        }
    }

    /// CPU 1 opens it.
    fn open(&self) {
        self.period.wake(&self.seats[1]);
        self.counts[1].open();
        if !self.claim.is_begun() {
            self.unaware.store(true, Ordering::Relaxed);
        }
        self.seats[1].idle();
    }

    /// CPU 0 claims it.
    fn claim(&self) {
        self.claim.begin(|| self.synchronize());
        if open(|| self.counts.iter()) == 0 {
            self.alone.store(true, Ordering::Relaxed);
        }
    }
}

/// One opens it while another claims it.
fn claiming() {
    let world = World::new();
    let opens = {
        let world = world.clone();
        thread::spawn(move || world.open())
    };
    world.claim();
    opens.join().unwrap();
    let unaware = world.unaware.load(Ordering::Relaxed);
    assert!(!(unaware && world.alone.load(Ordering::Relaxed)), "claimed by one, and open to another");
}

/// One opens it to write while another claims it, without a grace period.
fn writing() {
    let world = Arc::new((Shared::new(), Claim::new()));
    let writes = {
        let world = world.clone();
        thread::spawn(move || {
            world.0.open();
            world.1.is_begun()
        })
    };
    world.1.begin(|| ());
    let alone = world.0.count() == 0;
    assert!(writes.join().unwrap() || !alone, "claimed by one, and open to another");
}

/// It stays open, while it is opened once more on one CPU and closed on the other.
fn passing() {
    let world = World::new();
    world.counts[1].open();
    let looks = {
        let world = world.clone();
        thread::spawn(move || assert_ne!(open(|| world.counts.iter()), 0, "somebody has it open"))
    };
    world.counts[0].open();
    world.counts[1].close();
    looks.join().unwrap();
}

model! { claiming (3)
    breaks without_a_grace_period: "readers.period"
}
model! { writing (3)
    breaks without_a_fence_of_who_opens: "readers.write"
    breaks without_a_fence_of_who_claims: "readers.claim"
}
model! { passing (3)
    breaks when_closing_is_told_early: "readers.close"
    breaks when_who_opened_is_added_up_first: "readers.look"
}
