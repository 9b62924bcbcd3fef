//! A wake finds who sleeps on the word that was changed, in a bucket or in its child, wherever a split put it.

use crate::model;
use crate::protocol::presence::{Found, Presence, before_look};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use std::sync::Arc;

/// A bucket: a list of waiters (by number), and how many they are.
struct Bucket {
    list: Mutex<Vec<usize>>,
    presence: Presence,
}

impl Bucket {
    fn new() -> Self {
        Bucket { list: Mutex::new(Vec::new()), presence: Presence::new() }
    }
}

/// A word, a bucket with one child, and which waiters were woken.
struct World {
    word: AtomicU32,
    bucket: Bucket,
    child: Bucket,
    slept: [AtomicU32; 2],
    woken: [AtomicU32; 2],
}

impl World {
    fn new() -> Arc<Self> {
        let (slept, woken) = ([0; 2].map(AtomicU32::new), [0; 2].map(AtomicU32::new));
        Arc::new(World { word: AtomicU32::new(0), bucket: Bucket::new(), child: Bucket::new(), slept, woken })
    }

    /// Does `f` with the list that is not split locked.
    fn locked<R>(&self, f: impl FnOnce(&Bucket, &mut Vec<usize>) -> R) -> R {
        if self.bucket.presence.look() != Found::Split {
            let mut list = self.bucket.list.lock().unwrap();
            if self.bucket.presence.look() != Found::Split {
                return f(&self.bucket, &mut list);
            }
        }
        f(&self.child, &mut self.child.list.lock().unwrap())
    }

    /// Sleeps unless the word has changed.
    fn wait(&self, who: usize) {
        self.locked(|bucket, list| {
            bucket.presence.enter();
            if self.word.load(Ordering::Relaxed) == 0 {
                list.push(who);
                self.slept[who].store(1, Ordering::Relaxed);
            } else {
                bucket.presence.leave();
            }
        });
    }

    /// Changes the word and wakes all.
    fn wake(&self) {
        self.word.store(1, Ordering::Relaxed);
        before_look();
        let found = match self.bucket.presence.look() {
            Found::Split => self.child.presence.look(),
            found => found,
        };
        if found != Found::Nobody {
            self.locked(|bucket, list| {
                for who in list.drain(..) {
                    bucket.presence.leave();
                    self.woken[who].store(1, Ordering::Relaxed);
                }
            });
        }
    }

    fn split(&self) {
        let mut list = self.bucket.list.lock().unwrap();
        let mut to = self.child.list.lock().unwrap();
        for who in list.drain(..) {
            to.push(who);
            self.child.presence.receive();
        }
        drop(to);
        self.bucket.presence.split();
    }

    fn run<const N: usize>(self: Arc<Self>, all: [fn(&World); N]) {
        let threads = all.map(|run| {
            let world = self.clone();
            thread::spawn(move || run(&world))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for (slept, woken) in self.slept.iter().zip(&self.woken) {
            let (slept, woken) = (slept.load(Ordering::Relaxed), woken.load(Ordering::Relaxed));
            assert_eq!(slept, woken, "a waiter sleeps though the word has changed");
        }
    }
}

/// A waiter comes while the word is changed.
fn sleeping() {
    World::new().run([|world| world.wait(0), World::wake]);
}

/// One waits already, and the bucket is split.
fn splitting() {
    let world = World::new();
    world.wait(0);
    world.run([World::split, World::wake]);
}

/// A waiter comes into the child of a bucket that is split while the word is changed, and that was empty before.
fn following() {
    World::new().run([World::split, |world| world.wait(0), World::wake]);
}

model! { sleeping (3)
    breaks without_a_fence_of_the_waiter: "presence.enter"
    breaks without_a_fence_of_the_waker: "presence.look"
}
model! { splitting (3)
    breaks when_the_split_is_told_early: "presence.split"
    breaks when_the_split_is_seen_early: "presence.descend"
}
model! { following (3)
    breaks without_a_fence_of_the_waiter: "presence.enter"
    breaks without_a_fence_of_the_waker: "presence.look"
}
