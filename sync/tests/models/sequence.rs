//! Words that are read together: what is read was written together, and what a reader knows to be over is not missed.

use crate::model;
use crate::protocol::sequence::{HalfWord, Sequence, Word};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;

/// Two words that are always the same.
struct World {
    sequence: Sequence,
    first: Word,
    second: HalfWord,
    over: AtomicBool,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            sequence: Sequence::new(),
            first: Word::new(),
            second: HalfWord::new(),
            over: AtomicBool::new(false),
        })
    }

    fn write(&self, to: u32) {
        self.sequence.write(|| {
            self.first.store(to.into());
            self.second.store(to);
        });
    }

    fn read(&self) -> Option<u64> {
        let found = self.sequence.read(|| (self.first.load(), self.second.load()));
        found.map(|(first, second)| {
            assert_eq!(first, u64::from(second), "read in part");
            first
        })
    }
}

/// Two changes beside a reader.
fn whole() {
    let world = World::new();
    let writer = {
        let world = world.clone();
        thread::spawn(move || {
            world.write(1);
            world.write(2);
        })
    };
    world.read();
    writer.join().unwrap();
    assert_eq!(world.read(), Some(2), "a change is missed that is over");
}

/// A change that the reader has been told of.
fn told() {
    let world = World::new();
    let writer = {
        let world = world.clone();
        thread::spawn(move || {
            world.write(1);
            world.over.store(true, Ordering::Release);
        })
    };
    let over = world.over.load(Ordering::Acquire);
    let found = world.read();
    assert!(!over || found == Some(1), "a change is missed that is over");
    writer.join().unwrap();
}

model! { whole (3)
    breaks without_an_odd_number: "sequence.begin"
    breaks without_release_of_words: "sequence.store"
    breaks without_acquire_of_words: "sequence.load"
    breaks without_release_at_the_end: "sequence.over"
    breaks without_acquire_at_the_start: "sequence.look"
}

mod told_of {
    #[test]
    fn is_seen() {
        crate::explore::explore(3, super::told);
    }
}
