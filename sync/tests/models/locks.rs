//! Locks: whoever holds one sees what the holders before did, nobody is in together, and everybody gets in.

use crate::model;
use crate::protocol::sleep::RawMutex;
use crate::protocol::spin::RawSpin;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

/// What a lock guards: loom notices two accesses of which one writes and nothing orders them.
struct Guarded<L> {
    lock: L,
    value: UnsafeCell<u32>,
}

// SAFETY: loom checks what a lock is for.
unsafe impl<L> Send for Guarded<L> {}
// SAFETY: as above.
unsafe impl<L> Sync for Guarded<L> {}

impl<L> Guarded<L> {
    fn new(lock: L) -> Arc<Self> {
        Arc::new(Guarded { lock, value: UnsafeCell::new(0) })
    }

    fn add_one(&self) {
        // SAFETY: loom checks that nobody else is here.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn get(&self) -> u32 {
        // SAFETY: loom checks that nobody writes.
        self.value.with(|value| unsafe { *value })
    }
}

/// Runs `f` on as many threads as there are arguments (the first is this one) and waits for them.
fn on_threads<A: 'static>(args: impl IntoIterator<Item = A>, f: fn(A)) {
    let mut args = args.into_iter();
    let mine = args.next();
    let others: Vec<_> = args.map(|arg| thread::spawn(move || f(arg))).collect();
    mine.into_iter().for_each(f);
    for other in others {
        other.join().unwrap();
    }
}

fn spin() {
    let lock = Guarded::new(RawSpin::new());
    on_threads([(lock.clone(), 1), (lock.clone(), 2)], |(shared, me)| {
        shared.lock.lock(me);
        shared.add_one();
        shared.lock.unlock();
    });
    lock.lock.lock(1);
    assert_eq!(lock.get(), 2);
}

model! { spin (3)
    breaks without_acquire_on_lock: "spin.lock"
    breaks without_release_on_unlock: "spin.unlock"
}

fn sleep() {
    let lock = Guarded::new(RawMutex::new());
    on_threads([lock.clone(), lock.clone()], |shared| {
        if !shared.lock.try_lock() {
            shared.lock.lock_slow(0);
        }
        shared.add_one();
        shared.lock.unlock();
    });
    assert!(lock.lock.try_lock());
    assert_eq!(lock.get(), 2);
}

model! { sleep (4)
    breaks without_acquire_on_lock: "sleep.lock"
    breaks without_acquire_on_retake: "sleep.retake"
    breaks without_release_on_unlock: "sleep.unlock"
    breaks without_marking_the_lock_as_waited_for: "sleep.mark"
}

/// One thread passes by again and again, so that the sleeper loses and is handed the lock.
fn handed() {
    let lock = Guarded::new(RawMutex::new());
    let sleeper = {
        let shared = lock.clone();
        thread::spawn(move || {
            if !shared.lock.try_lock() {
                shared.lock.lock_slow(0);
            }
            shared.add_one();
            shared.lock.unlock();
        })
    };
    for _ in 0..2 {
        if !lock.lock.try_lock() {
            lock.lock.lock_slow(0);
        }
        lock.add_one();
        lock.lock.unlock();
    }
    sleeper.join().unwrap();
    assert!(lock.lock.try_lock());
    assert_eq!(lock.get(), 3);
}

model! { handed (4) breaks without_waiting_for_the_waker: "sleep.leave" }
