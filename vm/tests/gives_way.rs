//! Operations over many leaves or pages put everything down between two of them if another thread should run.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{RW, alone, anon, file, space};
use soft::{LOCAL_FLUSHES, Soft, read, switch_to, write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use sync::machine::hosted::{killed, pressed};
use vm::*;

const LEAF: usize = 512 * 4096;
const LEAVES: usize = 40;

fn space_of(multithreaded: bool) -> Arc<Space<Soft>> {
    let s = space();
    if multithreaded {
        s.set_multithreaded();
    }
    switch_to(&s);
    s
}

#[test]
fn an_operation_over_many_leaves_gives_way_between_them_and_does_each_once() {
    let _g = alone();
    for multithreaded in [false, true] {
        let s = space_of(multithreaded);
        let a = s.map(&anon(LEAVES * LEAF)).unwrap().0;
        let (start, len) = (VirtAddr(a + 4096), LEAVES * LEAF - 2 * 4096);
        let fill = || (0..LEAVES).for_each(|n| write(&s, a + n * LEAF + 8192, n as u64 + 1).unwrap());
        fill();
        let often = LEAVES / 2;
        assert!(pressed(|| s.protect(start, len, Prot::READ).unwrap()) >= often);
        assert_eq!(read(&s, a + 3 * LEAF + 8192), Ok(4));
        assert_eq!(write(&s, a + 3 * LEAF + 8192, 0), Err(FaultError::Denied));
        s.protect(start, len, RW).unwrap();
        assert!(pressed(|| s.advise(start, len, Advice::DontNeed).unwrap()) >= often);
        assert!((0..LEAVES).all(|n| read(&s, a + n * LEAF + 8192) == Ok(0)));
        fill();
        // Leaves that lie whole in the range are taken out 16 at a time.
        assert!(pressed(|| s.unmap(start, len).unwrap()) >= 1);
        assert!((0..LEAVES).all(|n| read(&s, a + n * LEAF + 8192) == Err(FaultError::NotMapped)));
    }
}

#[test]
fn the_end_of_a_space_gives_way_after_each_leaf() {
    let _g = alone();
    let s = space();
    switch_to(&s);
    let a = s.map(&anon(LEAVES * LEAF)).unwrap().0;
    (0..LEAVES).for_each(|n| write(&s, a + n * LEAF, 1).unwrap());
    let mut mapped = 0;
    assert!(pressed(|| mapped = Space::try_end(s).ok().unwrap()) >= LEAVES);
    assert_eq!(mapped, LEAVES);
}

#[test]
fn an_object_gives_its_pages_back_in_parts() {
    let _g = alone();
    let object = Object::try_new(1).unwrap();
    const PAGES: u64 = 5000;
    object.set_size(PAGES * 4096).unwrap();
    (0..PAGES).for_each(|page| object.fill(page).unwrap());
    object.fill(1).unwrap();
    assert!(pressed(|| object.set_size(4096).unwrap()) >= 50);
    assert!(object.frame(0).is_some());
    assert!((1..PAGES).all(|page| object.frame(page).is_none()));
    assert_eq!(object.fill(1), Err(FaultError::Bus));
}

#[test]
fn who_looks_at_many_pieces_gives_way_between_them() {
    let _g = alone();
    let s = space();
    switch_to(&s);
    // Pieces of one page, and one mapping of a piece in each leaf below.
    let pieces = s.map(&anon(LEAF)).unwrap().0;
    (0..512).step_by(2).for_each(|n| s.protect(VirtAddr(pieces + n * 4096), 4096, Prot::READ).unwrap());
    let leaves = s.map(&anon(LEAVES * LEAF)).unwrap().0;
    (0..LEAVES).for_each(|n| write(&s, leaves + n * LEAF, 1).unwrap());
    let start = VirtAddr(pieces);
    assert!(pressed(|| s.sync(start, LEAF, false).unwrap()) >= 500);
    assert!(pressed(|| s.protect(start, LEAF - 4096, Prot::READ).unwrap()) >= 500);
    (0..512).step_by(2).for_each(|n| s.protect(VirtAddr(pieces + n * 4096), 4096, RW).unwrap());
    assert!(pressed(|| s.advise(start, LEAF, Advice::WipeOnFork).unwrap()) >= 500);
    assert!(pressed(|| s.set_lock(start, LEAF, None).unwrap()) >= 500);
    // Something may be locked from here on.
    assert!(pressed(|| s.advise(start, LEAF, Advice::DontNeed).unwrap()) >= 1000);
    assert!(pressed(|| assert_eq!(s.usage().resident_pages, LEAVES)) >= LEAVES);
    assert_eq!(s.resident_pages(), LEAVES);
    let mut moved = VirtAddr(0);
    let (from, len) = (VirtAddr(leaves), LEAVES * LEAF);
    let times = pressed(|| moved = s.remap(from, len, 2 * len, MremapFlags::MAYMOVE, VirtAddr(0)).unwrap());
    assert!(times >= 2 * LEAVES && moved != from);
    assert!((0..LEAVES).all(|n| read(&s, moved.0 + n * LEAF) == Ok(1)));
}

#[test]
fn fork_gives_way_between_leaves_and_ends_at_a_fatal_signal() {
    let _g = alone();
    for multithreaded in [false, true] {
        let s = space_of(multithreaded);
        // In three nodes of the level above leaves, and a leaf of which the child gets only a part.
        let a = s.map(&anon(1100 * LEAF)).unwrap().0;
        let place = |n: usize| a + n * 27 * LEAF;
        (0..LEAVES).for_each(|n| write(&s, place(n), n as u64 + 1).unwrap());
        write(&s, place(3) + 4096, 7).unwrap();
        s.advise(VirtAddr(place(3)), 4096, Advice::DontFork).unwrap();
        let mut forked = None;
        assert!(killed(|| forked = Some(s.fork().err())) >= 1);
        assert_eq!(forked, Some(Some(VmError::Interrupted)));
        let mut child = None;
        assert!(pressed(|| child = Some(s.fork().unwrap())) >= LEAVES - 1);
        let child = child.unwrap();
        assert!((0..LEAVES).all(|n| read(&s, place(n)) == Ok(n as u64 + 1)));
        write(&s, place(5), 99).unwrap();
        switch_to(&child);
        for n in 0..LEAVES {
            let wanted = if n == 3 { Err(FaultError::NotMapped) } else { Ok(n as u64 + 1) };
            assert_eq!(read(&child, place(n)), wanted);
        }
        assert_eq!(read(&child, place(3) + 4096), Ok(7));
        write(&child, place(6), 98).unwrap();
        switch_to(&s);
        assert_eq!(read(&s, place(6)), Ok(7));
        assert!(pressed(|| Space::let_go(child)) >= LEAVES - 1);
    }
}

#[test]
fn an_object_that_is_gone_is_taken_apart_in_parts() {
    let _g = alone();
    let object = Object::try_new(1).unwrap();
    object.set_size(1 << 45).unwrap();
    // Each page in a last table of its own.
    const PAGES: u64 = 2000;
    (0..PAGES).for_each(|n| object.fill(n * 4_000_001).unwrap());
    object.fill(3).unwrap();
    let mut turns = 0;
    pressed(|| {
        drop(object);
        while sync::rcu::pending() {
            let free = frame::free_frames();
            sync::rcu::poll();
            // Four parts of 64 tables at most.
            let more = frame::free_frames() - free;
            assert!(more <= 4 * 64, "{more} frames at once");
            turns += 1;
        }
    });
    assert!(turns >= 5, "{turns} turns");
}

#[test]
fn each_leaf_is_visited_once_however_many_pages_go() {
    let _g = alone();
    let s = space();
    switch_to(&s);
    let object = Object::try_new(1).unwrap();
    const PAGES: u64 = 10 * 512;
    object.set_size(PAGES * 4096).unwrap();
    let request = file(&object, true, PAGES as usize * 4096);
    let a = s.map(&request).unwrap().0;
    (0..PAGES as usize).for_each(|page| write(&s, a + page * 4096, 1).unwrap());
    let flushes = LOCAL_FLUSHES.load(Ordering::Relaxed);
    assert!(pressed(|| object.set_size(4096).unwrap()) >= 3 * 10);
    assert_eq!(LOCAL_FLUSHES.load(Ordering::Relaxed) - flushes, 10);
    assert_eq!(read(&s, a), Ok(1));
    assert!((1..PAGES as usize).all(|page| read(&s, a + page * 4096) == Err(FaultError::Bus)));
}
