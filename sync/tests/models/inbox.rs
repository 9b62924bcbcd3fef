//! Objects given back to the CPU that owns them: each comes home once, and the owner sees what was last written to it.

use crate::model;
use crate::protocol::inbox::Inbox;
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

/// Objects 1 to 3: the link, and what the object holds.
struct World {
    inbox: Inbox,
    links: [UnsafeCell<u64>; 4],
    values: [UnsafeCell<u32>; 4],
}

// SAFETY: loom checks what the inbox is for.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            inbox: Inbox::new(),
            links: [(); 4].map(|()| UnsafeCell::new(0)),
            values: [(); 4].map(|()| UnsafeCell::new(0)),
        })
    }

    fn link(&self, object: u64, to: u64) {
        // SAFETY: loom checks that nobody else uses it.
        self.links[object as usize].with_mut(|link| unsafe { *link = to });
    }

    /// Uses the objects of a chain for the last time and gives them back.
    fn give_back(&self, objects: &[u64]) {
        for object in objects {
            // SAFETY: as above.
            self.values[*object as usize].with_mut(|value| unsafe { *value += 1 });
        }
        for pair in objects.windows(2) {
            self.link(pair[0], pair[1]);
        }
        self.inbox.put(objects[0], |next| self.link(objects[objects.len() - 1], next));
    }

    /// Takes home what is there, and writes to each object.
    fn take(&self) -> usize {
        let (mut object, mut taken) = (self.inbox.take(), 0);
        while object != 0 {
            // SAFETY: as above.
            self.values[object as usize].with_mut(|value| unsafe {
                assert_eq!(*value, 1, "object {object} comes home twice, or old");
                *value = 2;
            });
            // SAFETY: as above.
            object = self.links[object as usize].with(|link| unsafe { *link });
            taken += 1;
        }
        taken
    }
}

fn inbox() {
    let world = World::new();
    let others = [&[1, 2][..], &[3]].map(|chain| {
        let world = world.clone();
        thread::spawn(move || world.give_back(chain))
    });
    let mut taken = 0;
    while taken < 3 {
        taken += world.take();
        thread::yield_now();
    }
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(taken + world.take(), 3, "an object comes home that nobody gave back");
}

model! { inbox (3)
    breaks without_release_when_giving_back: "inbox.put"
    breaks without_acquire_when_taking: "inbox.take"
}
