//! What forked users have in common: nobody sees what another has changed, and what is common ends once, with its last user.

use crate::model;
use crate::protocol::share::{RawShare, change_group, is_alone, look};
use loom::sync::atomic::{AtomicU32, Ordering::*};
use loom::thread;
use std::sync::Arc;

/// Users 0 and 1 begin in group 0, which has thing 0. A copy that user `n` makes is thing `n + 1` in group `n + 1`.
struct World {
    /// The group of each user: its cell.
    cells: [AtomicU32; 2],
    /// The thing that each group has.
    things: [AtomicU32; 3],
    group: [RawShare; 3],
    groups: [RawShare; 3],
    /// What each thing has in it.
    contents: [AtomicU32; 3],
    /// Things that have ended.
    ended: [AtomicU32; 3],
}

const FIRST: u32 = 7;

impl World {
    fn new() -> Arc<World> {
        let world = World {
            cells: [AtomicU32::new(0), AtomicU32::new(0)],
            things: [AtomicU32::new(0), AtomicU32::new(1), AtomicU32::new(2)],
            group: [RawShare::new(), RawShare::new(), RawShare::new()],
            groups: [RawShare::new(), RawShare::new(), RawShare::new()],
            contents: [AtomicU32::new(FIRST), AtomicU32::new(0), AtomicU32::new(0)],
            ended: [AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)],
        };
        world.group[0].join();
        Arc::new(world)
    }

    fn thing(&self, group: usize) -> usize {
        self.things[group].load(Relaxed) as usize
    }

    fn leave(&self, group: usize) {
        let thing = self.thing(group);
        if self.group[group].leave() && self.groups[thing].leave() {
            assert_eq!(self.ended[thing].fetch_add(1, Relaxed), 0, "it ends twice");
        }
    }

    /// User `me`, which is in group 0, changes what it has to `to`. Its lock is held.
    fn change(&self, me: usize, to: u32) {
        let (group, thing) = (0, 0);
        if is_alone(&self.group[group], &self.groups[thing]) {
            self.contents[thing].swap(to, AcqRel);
            return;
        }
        // A copy, changed before anybody finds it.
        self.contents[me + 1].store(to, Relaxed);
        self.cells[me].swap(me as u32 + 1, AcqRel);
        self.leave(group);
    }

    /// A thread of user `me` looks, without a lock.
    fn read(&self, me: usize) -> u32 {
        let place = || self.things.get(self.cells[me].load(Acquire) as usize);
        let contents = |thing: &AtomicU32| self.contents[thing.load(Relaxed) as usize].load(Acquire);
        look(place, |thing| thing.map_or(0, contents))
    }

    /// User `me`, which is in group 0, goes over to a group of its own, which has the same thing.
    fn regroup(&self, me: usize) {
        let (group, thing) = (0, 0);
        let old_is_empty = change_group(&self.group[group], || {
            self.things[me + 1].store(thing as u32, Relaxed);
            self.groups[thing].join();
            self.cells[me].swap(me as u32 + 1, AcqRel);
        });
        if old_is_empty {
            assert!(!self.groups[thing].leave(), "the new group has it");
        }
    }
}

/// Both change at once, while another thread of user 0 looks.
fn readers() {
    let world = World::new();
    let others = [0u32, 1].map(|me| {
        let world = world.clone();
        // User 0 changes something else: what is looked at stays as it was.
        thread::spawn(move || world.change(me as usize, if me == 0 { FIRST } else { 9 }))
    });
    assert_eq!(world.read(0), FIRST, "a reader sees what another user has changed");
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!([world.read(0), world.read(1)], [FIRST, 9]);
}

/// User 1 goes over to a group of its own, and then looks at what it has; user 0 changes what it has meanwhile.
fn groups() {
    let world = World::new();
    let other = {
        let world = world.clone();
        thread::spawn(move || world.change(0, 9))
    };
    world.regroup(1);
    assert_eq!(world.read(1), FIRST, "a user sees what another has changed");
    other.join().unwrap();
    assert_eq!([world.read(0), world.read(1)], [9, FIRST]);
}

/// Both change and end at once: each thing ends once, and no earlier than its users.
fn ends() {
    let world = World::new();
    let users = [0usize, 1].map(|me| {
        let world = world.clone();
        thread::spawn(move || {
            world.change(me, 9);
            world.leave(world.cells[me].load(Relaxed) as usize);
        })
    });
    users.into_iter().for_each(|user| user.join().unwrap());
    assert_eq!(world.ended[0].load(Relaxed), 1, "nobody ends what was common");
    let copies = world.ended[1].load(Relaxed) + world.ended[2].load(Relaxed);
    assert!((1..=2).contains(&copies));
}

model! { readers (3)
    breaks without_release_at_leaving: "share.leave"
    breaks without_acquire_where_alone: "share.alone"
    breaks without_a_second_look: "share.again"
}
model! { groups (3)
    breaks with_the_old_group_left_first: "share.count_first"
    breaks with_the_own_group_looked_at_last: "share.group_first"
}
model! { ends (3) }
