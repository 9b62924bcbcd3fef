//! Counts with a limit: no more than the limit is used, what fits is not refused, and what is given back can be used again.

use crate::model;
use crate::protocol::quota::{RawQuota, Refused, Spares};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

struct World {
    limit: u64,
    quota: RawQuota,
    spares: [AtomicU64; 2],
    /// What threads know to be used.
    used: AtomicU64,
}

/// The spares, seen from a CPU.
struct On<'a>(&'a World, usize);

impl Spares for On<'_> {
    const BATCH: u64 = 1;

    fn this(&self) -> Option<&AtomicU64> {
        self.0.spares.get(self.1)
    }

    fn each(&self, f: impl FnMut(&AtomicU64)) {
        self.0.spares.iter().for_each(f);
    }
}

impl World {
    fn new(limit: u64) -> Arc<Self> {
        Arc::new(World {
            limit,
            quota: RawQuota::new(),
            spares: [AtomicU64::new(0), AtomicU64::new(0)],
            used: AtomicU64::new(0),
        })
    }

    fn charge(&self, cpu: usize, n: u64) -> bool {
        match self.quota.charge(&On(self, cpu), n, self.limit) {
            Ok(()) => {
                let sum = self.used.fetch_add(n, Ordering::Relaxed) + n;
                assert!(sum <= self.limit, "more than the limit is used");
                true
            }
            Err(e) => {
                assert_eq!(e, Refused::Full);
                false
            }
        }
    }

    fn give_back(&self, cpu: usize, n: u64) {
        self.used.fetch_sub(n, Ordering::Relaxed);
        self.quota.give_back(&On(self, cpu), n);
    }

    /// With nobody else at it.
    fn check(&self) {
        assert_eq!(self.quota.used(&On(self, 0)), self.used.load(Ordering::Relaxed), "a count was lost");
        while self.used.load(Ordering::Relaxed) < self.limit {
            assert!(self.charge(0, 1), "what fits is refused");
        }
        assert!(!self.charge(1, 1), "more than the limit is given");
    }
}

/// Two CPUs use the last ones; one has put by what the other wants.
fn last() {
    let world = World::new(2);
    assert!(world.charge(0, 1));
    let others = [0, 1].map(|cpu| {
        let world = world.clone();
        thread::spawn(move || world.charge(cpu, 1))
    });
    let given = others.map(|other| other.join().unwrap());
    assert!(given[0] || given[1], "what fits is refused to all");
    world.check();
}

/// One CPU gives much back while the other calls in what it has put by.
fn back() {
    let world = World::new(2);
    assert!(world.charge(0, 2));
    let other = {
        let world = world.clone();
        thread::spawn(move || {
            world.give_back(0, 1);
            world.give_back(0, 1);
        })
    };
    world.charge(1, 1);
    other.join().unwrap();
    world.check();
}

/// As `back`, with more given back than a CPU keeps.
fn put_back() {
    let world = World::new(4);
    assert!(world.charge(0, 3));
    let other = {
        let world = world.clone();
        thread::spawn(move || world.charge(1, 1))
    };
    world.give_back(0, 3);
    assert!(other.join().unwrap(), "what fits is refused");
    world.check();
}

model! { last (3)
    breaks without_an_exchange_in_charge: "quota.charge"
    breaks without_lowering: "quota.lower"
}
model! { back (3)
    breaks without_an_exchange_in_call_in: "quota.call_in"
}
model! { put_back (3)
    breaks without_an_exchange_in_put_back: "quota.put_back"
}
