//! Pages that move between NUMA nodes, with what comes meanwhile.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{Alone, anon, file, object, space};
use soft::{Soft, frame_at, read, switch_to, write};
use std::sync::{Arc, Mutex};
use sync::machine::hosted::{as_cpu, set_nodes};
use vm::policy::{Mode, Naming, Policy};
use vm::*;

const PAGES: usize = 8;
const LEN: usize = PAGES * PAGE_SIZE;
/// All nodes.
const ANY: u16 = u16::MAX;

/// Memory of two nodes. Even CPUs are of node 0.
fn alone() -> Alone {
    vm::frame::hosted::start(64 * 1024, 2);
    set_nodes(2);
    soft::requests::alone()
}

/// On a CPU of node 0, which gives back at the end what waits there.
fn here(f: impl FnOnce()) {
    as_cpu(10, f);
    as_cpu(10, sync::rcu::drain);
}

fn to(node: usize) -> Migration {
    Migration { from: ANY & !(1 << node), to: Some(Target::Node(node)), shared: false }
}

fn nodes(space: &Space<Soft>, at: usize) -> Vec<usize> {
    let mut nodes = Vec::new();
    assert!(space.for_each_page(at..at + LEN, &mut |page| nodes.push(page.frame.numa_node())));
    nodes
}

fn fill(space: &Space<Soft>, at: usize) {
    (0..PAGES).for_each(|n| write(space, at + n * PAGE_SIZE, n as u64 + 1).unwrap());
}

fn holds(space: &Space<Soft>, at: usize) {
    (0..PAGES).for_each(|n| assert_eq!(read(space, at + n * PAGE_SIZE), Ok(n as u64 + 1)));
}

#[test]
fn private_pages_move_and_keep_what_they_hold() {
    let _g = alone();
    here(|| {
        let space = space();
        let at = space.map(&anon(LEN)).unwrap().0;
        fill(&space, at);
        let there = nodes(&space, at)[0];
        assert_eq!(space.migrate(at..at + LEN, &to(1 - there)), 0);
        assert_eq!(nodes(&space, at), [1 - there; PAGES]);
        holds(&space, at);
        write(&space, at, 9).unwrap();
        assert_eq!(space.migrate_at(VirtAddr(at), &to(there)), Migrated::Done);
        assert_eq!(read(&space, at), Ok(9));
        assert_eq!(space.migrate_at(VirtAddr(at + LEN), &to(there)), Migrated::Absent);
    });
}

#[test]
fn new_pages_come_from_where_the_mapping_says_and_old_ones_go_there() {
    let _g = alone();
    here(|| {
        let space = space();
        let at = space.map(&anon(LEN)).unwrap().0;
        let policy = Policy::new(Mode::Interleave, Naming::Plain, 3).unwrap();
        space.set_policy(at..at + LEN / 2, policy).unwrap();
        assert_eq!(space.policy_at(VirtAddr(at)), Some(policy));
        assert_eq!(space.policy_at(VirtAddr(at + LEN / 2)), Some(Policy::NONE));
        fill(&space, at);
        let wanted = |n: usize| (at / PAGE_SIZE + n) % 2;
        assert_eq!(nodes(&space, at)[..4], [0, 1, 2, 3].map(wanted));
        let all = Migration { from: ANY, to: Some(Target::Policy(policy)), shared: false };
        assert_eq!(space.migrate(at..at + LEN, &all), 0);
        assert_eq!(nodes(&space, at)[..], (0..PAGES).map(wanted).collect::<Vec<_>>()[..]);
        holds(&space, at);
        // A child inherits it, and what it copies goes there.
        let child = space.fork().unwrap();
        assert_eq!(child.policy_at(VirtAddr(at)), Some(policy));
        switch_to(&child);
        let bound = Policy::new(Mode::Bind, Naming::Plain, 2).unwrap();
        child.set_policy(at..at + LEN, bound).unwrap();
        fill(&child, at);
        assert_eq!(nodes(&child, at), [1; PAGES]);
        assert_eq!(space.policy_at(VirtAddr(at)), Some(policy));
        switch_to(&space);
        drop(child);
    });
}

#[test]
fn what_a_child_has_too_stays_unless_all_moves() {
    let _g = alone();
    here(|| {
        let space = space();
        let at = space.map(&anon(LEN)).unwrap().0;
        fill(&space, at);
        let there = nodes(&space, at)[0];
        let child = space.fork().unwrap();
        assert_eq!(space.migrate(at..at + LEN, &to(1 - there)), 0);
        assert_eq!(nodes(&space, at), [there; PAGES]);
        assert_eq!(space.migrate_at(VirtAddr(at), &to(1 - there)), Migrated::Shared);
        let all = Migration { shared: true, ..to(1 - there) };
        assert_eq!(space.migrate(at..at + LEN, &all), 0);
        assert_eq!(nodes(&space, at), [1 - there; PAGES]);
        assert_eq!(nodes(&child, at), [there; PAGES]);
        fill(&space, at);
        switch_to(&child);
        holds(&child, at);
        switch_to(&space);
        drop(child);
        holds(&space, at);
    });
}

#[test]
fn pages_of_an_object_move_for_all_who_map_it() {
    let _g = alone();
    here(|| {
        let (space, object) = (space(), object(LEN as u64));
        let at = space.map(&file(&object, true, LEN)).unwrap().0;
        fill(&space, at);
        let there = frame_at(&space, at).numa_node();
        let own = space.map(&file(&object, false, LEN)).unwrap().0;
        write(&space, own, 77).unwrap();
        let all = Migration { shared: true, ..to(1 - there) };
        assert_eq!(space.migrate(at..at + LEN, &all), 0);
        assert_eq!(nodes(&space, at), [1 - there; PAGES]);
        holds(&space, at);
        assert_eq!((read(&space, own), read(&space, own + PAGE_SIZE)), (Ok(77), Ok(2)));
        assert_eq!(frame_at(&space, own + PAGE_SIZE).numa_node(), 1 - there);
        let mut bytes = [0; 8];
        object.read(0, 8, |page| page.copy_to(&mut bytes)).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), 1);
        object.keep_in_place();
        assert_eq!(space.migrate(at..at + LEN, &Migration { shared: true, ..to(there) }), PAGES);
    });
}

#[test]
fn an_objects_pages_come_from_where_it_says() {
    let _g = alone();
    here(|| {
        let (space, object) = (space(), object(LEN as u64));
        let at = space.map(&file(&object, true, LEN)).unwrap().0;
        let bound = Policy::new(Mode::Bind, Naming::Plain, 2).unwrap();
        space.set_policy(at..at + LEN / 2, bound).unwrap();
        let again = space.map(&file(&object, true, LEN)).unwrap().0;
        assert_eq!(space.policy_at(VirtAddr(again)), Some(bound));
        fill(&space, again);
        assert_eq!(nodes(&space, again)[..PAGES / 2], [1; PAGES / 2]);
    });
}

/// While a page that two CPUs may use is flushed to move, `meanwhile` runs. Returns the space, the page, and what became of it.
fn move_while(
    meanwhile: impl FnOnce(&Arc<Space<Soft>>, usize) + Send + 'static,
) -> (Arc<Space<Soft>>, usize, Migrated) {
    let space = space();
    let page = space.map(&anon(2 * PAGE_SIZE)).unwrap().0;
    space.set_multithreaded();
    for cpu in [11, 12] {
        as_cpu(cpu, || {
            switch_to(&space);
            write(&space, page, 5).unwrap();
        });
    }
    let there = frame_at(&space, page).numa_node();
    let (other, once) = (space.clone(), Mutex::new(Some(meanwhile)));
    soft::on_flush(Box::new(move || {
        let meanwhile = once.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            // In a read section nobody sleeps.
            std::thread::scope(|threads| threads.spawn(|| meanwhile(&other, page)).join()).unwrap();
        }
    }));
    let mut moved = Migrated::Busy;
    as_cpu(11, || moved = space.migrate_at(VirtAddr(page), &to(1 - there)));
    soft::on_flush(Box::new(|| ()));
    (space, page, moved)
}

fn leave(space: Arc<Space<Soft>>) {
    drop(space);
    for cpu in [10, 11, 12] {
        as_cpu(cpu, sync::rcu::drain);
    }
}

#[test]
fn what_is_unmapped_on_its_way_is_gone() {
    let _g = alone();
    let (space, page, moved) = move_while(|space, page| space.unmap(VirtAddr(page), PAGE_SIZE).unwrap());
    assert_eq!(moved, Migrated::Absent);
    as_cpu(12, || assert_eq!(read(&space, page), Err(FaultError::NotMapped)));
    leave(space);
}

#[test]
fn a_right_that_is_taken_while_a_page_moves_is_gone() {
    let _g = alone();
    let (space, page, moved) =
        move_while(|space, page| space.protect(VirtAddr(page), PAGE_SIZE, Prot::READ).unwrap());
    assert_eq!(moved, Migrated::Done);
    as_cpu(12, || {
        assert_eq!(write(&space, page, 6), Err(FaultError::Denied));
        assert_eq!(read(&space, page), Ok(5));
    });
    leave(space);
}
