//! Locks: whoever holds one sees what the holders before did, nobody is in together, and everybody gets in.

use crate::model;
use crate::protocol::queue::{Node, Nodes, RawQueue};
use crate::protocol::shared::RawRwMutex;
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

struct Places([Node; 3]);

impl Nodes for (RawQueue, Places) {
    fn node(&self, code: u32) -> &Node {
        &self.1.0[code as usize - 1]
    }
}

fn queue_lock() -> Arc<Guarded<(RawQueue, Places)>> {
    Guarded::new((RawQueue::new(), Places([Node::new(), Node::new(), Node::new()])))
}

/// Two that wait behind a holder, and pass the turn.
fn queue() {
    let lock = queue_lock();
    assert!(lock.lock.0.try_lock());
    let wait = |code| {
        let shared = lock.clone();
        thread::spawn(move || {
            shared.lock.0.lock_queued(&shared.lock, code);
            shared.add_one();
            shared.lock.0.unlock();
        })
    };
    let others = [wait(2), wait(3)];
    lock.add_one();
    lock.lock.0.unlock();
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(lock.get(), 3);
}

model! { queue (2)
    breaks without_acquire_at_the_head: "queue.lock"
    breaks without_waiting_for_the_link: "queue.behind"
}

/// One that passes by beside one that may have to queue.
fn passing() {
    let lock = queue_lock();
    on_threads([(lock.clone(), 1), (lock.clone(), 2)], |(shared, code)| {
        if !shared.lock.0.try_lock() {
            shared.lock.0.lock_queued(&shared.lock, code);
        }
        shared.add_one();
        shared.lock.0.unlock();
    });
    assert!(lock.lock.0.try_lock());
    assert_eq!(lock.get(), 2);
}

model! { passing (3)
    breaks without_acquire_when_free: "queue.try"
    breaks without_release_on_unlock: "queue.unlock"
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

model! { handed (4) }

fn shared() {
    let lock = Guarded::new(RawRwMutex::new());
    on_threads([(lock.clone(), true), (lock.clone(), false), (lock.clone(), true)], |(shared, writes)| {
        if writes {
            if !shared.lock.try_write() {
                shared.lock.write_slow();
            }
            shared.add_one();
            shared.lock.unlock_write();
        } else {
            if !shared.lock.try_read() {
                shared.lock.read_slow();
            }
            shared.get();
            shared.lock.unlock_read();
        }
    });
    assert!(lock.lock.try_write());
    assert_eq!(lock.get(), 2);
}

model! { shared (2)
    breaks without_acquire_on_read: "shared.read"
    breaks without_acquire_on_write: "shared.write"
    breaks without_release_of_readers: "shared.unread"
    breaks without_release_of_the_writer: "shared.unwrite"
    breaks without_marking_the_lock_as_waited_for: "shared.mark"
}

/// Two readers and a writer that waits: what the first reader to leave did, the writer knows from the second.
fn readers() {
    let lock = Guarded::new(RawRwMutex::new());
    assert!(lock.lock.try_read());
    let shared = lock.clone();
    let reader = thread::spawn(move || {
        if shared.lock.try_read() {
            shared.get();
            shared.lock.unlock_read();
        }
    });
    let shared = lock.clone();
    let writer = thread::spawn(move || {
        if !shared.lock.try_write() {
            shared.lock.write_slow();
        }
        shared.add_one();
        shared.lock.unlock_write();
    });
    lock.get();
    lock.lock.unlock_read();
    reader.join().unwrap();
    writer.join().unwrap();
    assert_eq!(lock.get(), 1);
}

model! { readers (2) breaks without_gathering_what_readers_did: "shared.gather" }

/// A writer hands the lock to a reader, and another reader joins that one in passing: it sees what the writer wrote.
fn joining() {
    let lock = Guarded::new(RawRwMutex::new());
    assert!(lock.lock.try_write());
    let shared = lock.clone();
    let waits = thread::spawn(move || {
        if !shared.lock.try_read() {
            shared.lock.read_slow();
        }
        shared.get();
        shared.lock.unlock_read();
    });
    let shared = lock.clone();
    let joins = thread::spawn(move || {
        if shared.lock.try_read() {
            shared.get();
            shared.lock.unlock_read();
        }
    });
    lock.add_one();
    lock.lock.unlock_write();
    waits.join().unwrap();
    joins.join().unwrap();
}

model! { joining (2) breaks without_release_to_readers_that_join: "shared.release" }

/// Who is handed the lock leaves, and its node with it, only when the waker is done with the node; here it parks only if it finds
/// itself still waiting.
fn leaving() {
    let lock = Guarded::new(RawRwMutex::new());
    assert!(lock.lock.try_write());
    let shared = lock.clone();
    let waits = thread::spawn(move || {
        shared.lock.read_slow();
    });
    let shared = lock.clone();
    let wakes = thread::spawn(move || shared.lock.unlock_write());
    waits.join().unwrap();
    wakes.join().unwrap();
}

model! { leaving (4) breaks without_waiting_for_the_waker: "sleep.leave" }
