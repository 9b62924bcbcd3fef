//! Per-CPU reference counts: the object is freed once, by whoever puts the last reference, when nobody uses it.

use crate::model;
use crate::protocol::count::{Locals, RawCount};
use crate::protocol::period::{Period, Seat};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicI64, Ordering};
use loom::thread;
use std::sync::Arc;

struct World {
    count: RawCount,
    counters: [AtomicI64; 2],
    period: Period,
    seats: [Seat; 2],
    object: UnsafeCell<u32>,
}

// SAFETY: loom checks what the count is for.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

/// The counters, seen from a CPU.
struct On<'a>(&'a World, usize);

impl Locals for On<'_> {
    fn this(&self, number: u32) -> &AtomicI64 {
        assert_eq!(number, 0);
        &self.0.counters[self.1]
    }

    fn sum(&self, number: u32) -> i64 {
        assert_eq!(number, 0);
        self.0.counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }
}

impl World {
    /// An object with the owner's reference.
    fn unshared() -> Self {
        World {
            count: RawCount::new(),
            // Left over from a use before: `warm` comes after they are zeroed.
            counters: [AtomicI64::new(5), AtomicI64::new(5)],
            period: Period::new(),
            seats: [Seat::new(), Seat::new()],
            object: UnsafeCell::new(7),
        }
    }

    /// The same, and with a reference of CPU 1's, counted per CPU if `warm`.
    fn new(warm: bool) -> Arc<Self> {
        let world = World::unshared();
        world.count.get(&On(&world, 0), 0);
        if warm {
            world.warm(0);
        }
        Arc::new(world)
    }

    fn warm(&self, _cpu: usize) {
        self.counters.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        self.count.warm(0);
    }

    fn section<R>(&self, cpu: usize, f: impl FnOnce() -> R) -> R {
        self.period.wake(&self.seats[cpu]);
        let result = f();
        self.seats[cpu].idle();
        result
    }

    fn use_object(&self) {
        // SAFETY: loom checks that it is not freed.
        self.object.with(|object| assert_eq!(unsafe { *object }, 7, "freed"));
    }

    fn put(&self, cpu: usize) {
        if self.section(cpu, || self.count.put(&On(self, cpu))) {
            self.free();
        }
    }

    fn free(&self) {
        // SAFETY: loom checks that nobody uses it.
        self.object.with_mut(|object| unsafe {
            assert_eq!(*object, 7, "freed twice");
            *object = 0;
        });
    }

    /// The owner, CPU 0, lets go.
    fn kill(&self) {
        assert!(self.count.kill());
        let tag = self.period.tag();
        while !self.period.is_over(tag) {
            self.period.begin();
            let _ = self.period.try_end(2, 1, |cpu| &self.seats[cpu as usize]);
            if !self.period.is_over(tag) {
                thread::yield_now();
            }
        }
        if self.count.finish(&On(self, 0)).1 {
            self.free();
        }
    }
}

/// The object is gone when all are done.
fn freed_once(world: &World) {
    // SAFETY: the threads were joined.
    world.object.with(|object| assert_eq!(unsafe { *object }, 0, "never freed"));
}

/// CPU 1 takes another reference by its own, and puts both.
fn user(world: &World) {
    world.use_object();
    world.section(1, || world.count.get(&On(world, 1), 1));
    world.put(1);
    world.use_object();
    world.put(1);
}

fn shared() {
    let world = World::new(false);
    let other = world.clone();
    let user = thread::spawn(move || user(&other));
    world.kill();
    user.join().unwrap();
    freed_once(&world);
}

model! { shared (2) breaks without_acquire_by_the_last: "count.last" }

/// CPU 1 only uses the object and puts its reference, with no fence of a read section on the way. (The count stays shared.)
fn bare() {
    let world = World::new(false);
    let other = world.clone();
    let user = thread::spawn(move || {
        other.use_object();
        if other.count.put(&On(&other, 1)) {
            other.free();
        }
    });
    world.kill();
    user.join().unwrap();
    freed_once(&world);
}

model! { bare (2) breaks without_release_on_put: "count.put" }

/// Nobody owns the object: CPU 0 made it and gave CPU 1 a reference, and each uses it and puts its own.
fn unowned() {
    let world = World { count: RawCount::unowned(), ..World::unshared() };
    world.count.get(&On(&world, 0), 0);
    let world = Arc::new(world);
    let drop_one = |world: &World, cpu| {
        world.use_object();
        if world.count.put(&On(world, cpu)) {
            world.free();
        }
    };
    let other = world.clone();
    let user = thread::spawn(move || drop_one(&other, 1));
    drop_one(&world, 0);
    user.join().unwrap();
    freed_once(&world);
}

model! { unowned (2)
    breaks without_release_on_put: "count.put"
    breaks without_acquire_by_the_last: "count.last"
}

/// CPU 0 frees the object at once if it has the only reference. CPU 1 has another, uses the object and gives it back.
fn leaving(world: &Arc<World>, put: impl Fn(&World) + Send + 'static) {
    let other = world.clone();
    let user = thread::spawn(move || {
        other.use_object();
        put(&other);
    });
    if world.count.is_alone() {
        world.free();
    } else {
        world.kill();
    }
    user.join().unwrap();
    freed_once(world);
}

/// Without the fence of a read section on the way.
fn alone() {
    leaving(&World::new(false), |world| {
        if world.count.put(&On(world, 1)) {
            world.free();
        }
    });
}

model! { alone (2) breaks without_acquire_by_the_owner_that_is_alone: "count.alone" }

/// The only reference beside the owner's is counted per CPU.
fn not_alone() {
    let world = World::unshared();
    world.warm(0);
    world.count.get(&On(&world, 0), 0);
    leaving(&Arc::new(world), |world| world.put(1));
}

model! { not_alone (2) breaks without_the_bias: "count.bias" }

fn per_cpu() {
    let world = World::new(true);
    let other = world.clone();
    let user = thread::spawn(move || user(&other));
    world.kill();
    user.join().unwrap();
    freed_once(&world);
}

model! { per_cpu (2)
    breaks without_the_bias: "count.bias"
    breaks without_the_sum: "count.sum"
}

/// CPU 0 goes over to per-CPU counters while CPU 1 counts.
fn warming() {
    let world = World::new(false);
    let other = world.clone();
    let user = thread::spawn(move || user(&other));
    world.section(0, || world.warm(0));
    world.kill();
    user.join().unwrap();
    freed_once(&world);
}

model! { warming (2)
    breaks without_release_of_zeroed_counters: "count.publish"
}
