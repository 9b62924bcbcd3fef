//! Large pages: each operation on a leaf that one block fills, on the software machine, whose TLB keeps a large translation for each of its pages until that page
//! is flushed.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{Alone, RW, anon, at, space};
use soft::{Soft, add, frame_at, free_frames, read, shows_block, switch_to, write};
use std::sync::Arc;
use sync::machine::hosted::{as_cpu, set_nodes};
use vm::large::{LargePages, set_large_pages};
use vm::*;

const LARGE: usize = LEAF_SPAN;
const PAGES: usize = LARGE / PAGE_SIZE;
/// Two leaves from here on are the tests'.
const AT: usize = 0x4000_0000;

/// Large pages for all; so tests hold in whatever order they run.
fn alone() -> Alone {
    let alone = soft::requests::alone();
    sync::machine::hosted::set_cpus(24);
    set_large_pages(LargePages::Always);
    alone
}

/// A space with two large pages at `AT`, of which each page holds its number.
fn large() -> Arc<Space<Soft>> {
    let s = space();
    s.map(&at(AT, 2 * LARGE, RW)).unwrap();
    for page in 0..2 * PAGES {
        write(&s, AT + page * PAGE_SIZE, page as u64 + 1).unwrap();
    }
    assert_eq!(large_pages(&s), 2);
    s
}

fn large_pages(s: &Space<Soft>) -> usize {
    s.large_pages_in(AT..AT + 2 * LARGE) / PAGES
}

fn holds(s: &Space<Soft>, pages: std::ops::Range<usize>) {
    pages.for_each(|page| assert_eq!(read(s, AT + page * PAGE_SIZE), Ok(page as u64 + 1), "page {page}"));
}

#[test]
fn one_write_fills_a_leaf_and_all_of_it_counts() {
    let _g = alone();
    let s = space();
    s.map(&at(AT, 2 * LARGE, RW)).unwrap();
    let free = free_frames();
    write(&s, AT + 7 * PAGE_SIZE, 5).unwrap();
    assert_eq!((s.usage().anon, s.resident_pages(), large_pages(&s)), (PAGES, PAGES, 1));
    assert!(shows_block(AT), "the hardware walks to single pages");
    assert_eq!(frame_at(&s, AT + PAGE_SIZE).addr().0, frame_at(&s, AT).addr().0 + PAGE_SIZE as u64);
    assert_eq!(frame_at(&s, AT).addr().0 % LARGE as u64, 0);
    assert_eq!((read(&s, AT), read(&s, AT + 7 * PAGE_SIZE)), (Ok(0), Ok(5)));
    s.unmap(VirtAddr(AT), 2 * LARGE).unwrap();
    assert_eq!(read(&s, AT), Err(FaultError::NotMapped));
    // The tables stay.
    assert!(free_frames() + 16 > free);
}

#[test]
fn who_does_not_ask_or_refuses_gets_single_pages() {
    let _g = alone();
    set_large_pages(LargePages::Asked);
    let s = space();
    s.map(&at(AT, 2 * LARGE, RW)).unwrap();
    write(&s, AT, 1).unwrap();
    assert_eq!((s.usage().anon, large_pages(&s)), (1, 0));
    s.advise(VirtAddr(AT), 2 * LARGE, Advice::Large).unwrap();
    write(&s, AT + LARGE, 1).unwrap();
    assert_eq!(large_pages(&s), 1);
    s.advise(VirtAddr(AT), 2 * LARGE, Advice::DontNeed).unwrap();
    s.advise(VirtAddr(AT), 2 * LARGE, Advice::NoLarge).unwrap();
    write(&s, AT + LARGE, 1).unwrap();
    assert_eq!(large_pages(&s), 0);
    s.advise(VirtAddr(AT), 2 * LARGE, Advice::DontNeed).unwrap();
    s.advise(VirtAddr(AT), 2 * LARGE, Advice::Large).unwrap();
    s.refuse_large(true);
    write(&s, AT, 1).unwrap();
    assert_eq!(large_pages(&s), 0);
    s.refuse_large(false);
    set_large_pages(LargePages::Never);
    write(&s, AT + LARGE, 1).unwrap();
    assert_eq!(large_pages(&s), 0);
}

#[test]
fn a_mapping_that_has_not_all_of_a_leaf_gets_single_pages() {
    let _g = alone();
    let s = space();
    s.map(&at(AT, LARGE - PAGE_SIZE, RW)).unwrap();
    write(&s, AT, 1).unwrap();
    assert_eq!((s.usage().anon, large_pages(&s)), (1, 0));
    s.map(&at(AT + LARGE, LARGE, Prot::READ)).unwrap();
    assert_eq!(write(&s, AT + LARGE, 1), Err(FaultError::Denied));
    assert_eq!(read(&s, AT + LARGE), Ok(0));
    assert_eq!(large_pages(&s), 0);
}

#[test]
fn without_a_block_a_fault_takes_a_single_page() {
    let _g = alone();
    let s = space();
    s.map(&at(AT, LARGE, RW)).unwrap();
    let mut blocks = Vec::new();
    while let Some(block) = vm::frame::alloc_contiguous(9, 0) {
        blocks.push(block);
    }
    write(&s, AT, 1).unwrap();
    assert_eq!((s.usage().anon, large_pages(&s)), (1, 0));
    // SAFETY: taken just now, and used by nobody.
    blocks.into_iter().for_each(|block| unsafe { vm::frame::free_contiguous(block, 9) });
}

#[test]
fn a_part_that_is_unmapped_leaves_the_rest() {
    let _g = alone();
    let s = large();
    s.unmap(VirtAddr(AT + 3 * PAGE_SIZE), PAGE_SIZE).unwrap();
    assert_eq!((large_pages(&s), s.usage().anon), (1, 2 * PAGES - 1));
    assert_eq!(read(&s, AT + 3 * PAGE_SIZE), Err(FaultError::NotMapped));
    assert!(!shows_block(AT) && shows_block(AT + LARGE));
    holds(&s, 0..3);
    holds(&s, 4..2 * PAGES);
    write(&s, AT + 5 * PAGE_SIZE, 6).unwrap();
    s.unmap(VirtAddr(AT + LARGE / 2), LARGE).unwrap();
    assert_eq!((large_pages(&s), s.usage().anon), (0, PAGES - 1));
    holds(&s, 4..PAGES / 2);
    holds(&s, PAGES + PAGES / 2..2 * PAGES);
}

#[test]
fn dropped_pages_read_zero_and_a_whole_leaf_may_be_large_again() {
    let _g = alone();
    let s = large();
    s.advise(VirtAddr(AT), LARGE, Advice::DontNeed).unwrap();
    assert_eq!((large_pages(&s), s.usage().anon), (1, PAGES));
    write(&s, AT + PAGE_SIZE, 9).unwrap();
    assert_eq!((large_pages(&s), read(&s, AT), read(&s, AT + PAGE_SIZE)), (2, Ok(0), Ok(9)));
    assert!(shows_block(AT));
    s.advise(VirtAddr(AT + LARGE), PAGE_SIZE, Advice::DontNeed).unwrap();
    assert_eq!((large_pages(&s), read(&s, AT + LARGE)), (1, Ok(0)));
    holds(&s, PAGES + 1..2 * PAGES);
}

#[test]
fn zeros_that_were_read_make_room_for_a_large_page() {
    let _g = alone();
    let s = space();
    s.map(&at(AT, 2 * LARGE, RW)).unwrap();
    for page in [0, 7, 511, 512] {
        assert_eq!(read(&s, AT + page * PAGE_SIZE), Ok(0));
    }
    write(&s, AT + 8 * PAGE_SIZE, 1).unwrap();
    write(&s, AT + LARGE, 2).unwrap();
    assert_eq!((large_pages(&s), s.usage().anon), (2, 2 * PAGES));
    assert!(shows_block(AT) && shows_block(AT + LARGE));
    write(&s, AT + 7 * PAGE_SIZE, 3).unwrap();
    assert_eq!((read(&s, AT + 7 * PAGE_SIZE), read(&s, AT)), (Ok(3), Ok(0)));
}

#[test]
fn a_right_that_is_taken_from_a_part_is_gone_there_alone() {
    let _g = alone();
    let s = large();
    s.protect(VirtAddr(AT + 8 * PAGE_SIZE), PAGE_SIZE, Prot::READ).unwrap();
    assert_eq!(write(&s, AT + 8 * PAGE_SIZE, 1), Err(FaultError::Denied));
    write(&s, AT + 9 * PAGE_SIZE, 10).unwrap();
    holds(&s, 0..2 * PAGES);
    s.protect(VirtAddr(AT), 2 * LARGE, Prot::empty()).unwrap();
    assert_eq!(read(&s, AT + LARGE), Err(FaultError::Denied));
    s.protect(VirtAddr(AT), 2 * LARGE, RW).unwrap();
    write(&s, AT + LARGE, PAGES as u64 + 1).unwrap();
    holds(&s, 0..2 * PAGES);
}

#[test]
fn what_is_said_of_a_part_splits_and_of_all_does_not() {
    let _g = alone();
    let s = large();
    s.advise(VirtAddr(AT), 2 * LARGE, Advice::DontDump).unwrap();
    assert_eq!(large_pages(&s), 2);
    s.advise(VirtAddr(AT), PAGE_SIZE, Advice::DoDump).unwrap();
    assert_eq!(large_pages(&s), 1);
    holds(&s, 0..2 * PAGES);
}

#[test]
fn parent_and_child_write_apart() {
    let _g = alone();
    let parent = large();
    let child = parent.fork().unwrap();
    assert_eq!((large_pages(&parent), large_pages(&child)), (2, 2));
    write(&parent, AT, 100).unwrap();
    switch_to(&child);
    holds(&child, 0..2 * PAGES);
    write(&child, AT + PAGE_SIZE, 200).unwrap();
    write(&child, AT + LARGE, 201).unwrap();
    switch_to(&parent);
    assert_eq!((read(&parent, AT), read(&parent, AT + PAGE_SIZE)), (Ok(100), Ok(2)));
    holds(&parent, 1..2 * PAGES);
    drop(child);
    write(&parent, AT + 2 * PAGE_SIZE, 3).unwrap();
    holds(&parent, 1..2 * PAGES);
}

#[test]
fn who_is_left_alone_has_a_large_page_again() {
    let _g = alone();
    let parent = large();
    let child = parent.fork().unwrap();
    holds(&parent, 0..2 * PAGES);
    assert!(!shows_block(AT), "a shared leaf is shown whole");
    switch_to(&child);
    holds(&child, 0..2 * PAGES);
    switch_to(&parent);
    drop(child);
    write(&parent, AT, 1).unwrap();
    write(&parent, AT + LARGE, PAGES as u64 + 1).unwrap();
    assert!(shows_block(AT) && shows_block(AT + LARGE));
    assert_eq!(large_pages(&parent), 2);
    holds(&parent, 0..2 * PAGES);
    // The same for a child that outlives its parent.
    let child = parent.fork().unwrap();
    drop(parent);
    switch_to(&child);
    write(&child, AT, 1).unwrap();
    assert!(shows_block(AT));
    holds(&child, 0..2 * PAGES);
}

#[test]
fn a_child_that_gets_a_part_leaves_single_pages() {
    let _g = alone();
    let parent = large();
    parent.advise(VirtAddr(AT), 2 * LARGE, Advice::WipeOnFork).unwrap();
    let child = parent.fork().unwrap();
    switch_to(&child);
    assert_eq!(read(&child, AT), Ok(0));
    switch_to(&parent);
    write(&parent, AT, 1).unwrap();
    holds(&parent, 0..2 * PAGES);
    drop(child);
    parent.set_lock(VirtAddr(AT), 2 * LARGE, Some(Lock::Now)).unwrap();
    let child = parent.fork().unwrap();
    write(&parent, AT, 1).unwrap();
    holds(&parent, 0..2 * PAGES);
    drop(child);
}

#[test]
fn moved_pages_keep_what_they_hold() {
    let _g = alone();
    let s = large();
    let to = AT + 4 * LARGE;
    let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
    s.remap(VirtAddr(AT), 2 * LARGE, 2 * LARGE, flags, VirtAddr(to)).unwrap();
    assert_eq!(read(&s, AT), Err(FaultError::NotMapped));
    (0..2 * PAGES).for_each(|page| assert_eq!(read(&s, to + page * PAGE_SIZE), Ok(page as u64 + 1)));
    write(&s, to, 5).unwrap();
    s.map(&at(AT, 2 * LARGE, RW)).unwrap();
    write(&s, AT, 1).unwrap();
    assert_eq!((large_pages(&s), read(&s, AT + PAGE_SIZE)), (1, Ok(0)));
}

#[test]
fn a_new_mapping_in_the_place_of_a_large_page_is_empty() {
    let _g = alone();
    let s = large();
    s.map(&at(AT, LARGE, RW)).unwrap();
    assert_eq!((read(&s, AT), read(&s, AT + LARGE - PAGE_SIZE), large_pages(&s)), (Ok(0), Ok(0), 1));
    s.map(&at(AT + LARGE + PAGE_SIZE, PAGE_SIZE, RW)).unwrap();
    assert_eq!((read(&s, AT + LARGE + PAGE_SIZE), large_pages(&s)), (Ok(0), 0));
    holds(&s, PAGES..PAGES + 1);
    holds(&s, PAGES + 2..2 * PAGES);
}

#[test]
fn a_page_that_goes_to_another_node_leaves_the_others() {
    let _g = alone();
    vm::frame::hosted::start(64 * 1024, 1);
    set_nodes(1);
    let s = large();
    // To where it is: what matters is that it goes by way of a busy entry.
    let policy = vm::policy::Policy::new(vm::policy::Mode::Bind, vm::policy::Naming::Plain, 1).unwrap();
    let how = Migration { from: u16::MAX, to: Some(Target::Policy(policy)), shared: false };
    assert_eq!(s.migrate_at(VirtAddr(AT + 4 * PAGE_SIZE), &how), Migrated::Done);
    assert_eq!((large_pages(&s), s.usage().anon), (1, 2 * PAGES));
    holds(&s, 0..2 * PAGES);
}

#[test]
fn another_space_writes_through_a_large_page() {
    let _g = alone();
    let s = large();
    s.write_remote(VirtAddr(AT + 11 * PAGE_SIZE), &12u64.to_ne_bytes()).unwrap();
    let mut bytes = [0; 8];
    s.read_for_other(VirtAddr(AT + 12 * PAGE_SIZE), &mut bytes).unwrap();
    assert_eq!((u64::from_ne_bytes(bytes), large_pages(&s)), (13, 2));
    holds(&s, 0..2 * PAGES);
}

#[test]
fn every_cpu_that_uses_a_large_page_sees_it_change() {
    let _g = alone();
    let s = large();
    s.set_multithreaded();
    let stacks = s.map(&anon(16 * PAGE_SIZE)).unwrap().0;
    let everywhere = |f: &dyn Fn()| {
        for cpu in [20, 21, 22] {
            as_cpu(cpu, || {
                switch_to(&s);
                // A CPU has a view from its first fault on.
                write(&s, stacks + (cpu as usize - 20) * PAGE_SIZE, 1).unwrap();
                f();
            });
        }
    };
    everywhere(&|| {
        write(&s, AT, 1).unwrap();
        holds(&s, 0..2 * PAGES);
        assert!(shows_block(AT));
    });
    as_cpu(20, || s.protect(VirtAddr(AT + PAGE_SIZE), PAGE_SIZE, Prot::READ).unwrap());
    everywhere(&|| {
        assert_eq!(write(&s, AT + PAGE_SIZE, 1), Err(FaultError::Denied));
        holds(&s, 0..2 * PAGES);
        assert!(!shows_block(AT));
    });
    as_cpu(21, || s.advise(VirtAddr(AT + LARGE), LARGE, Advice::DontNeed).unwrap());
    everywhere(&|| assert_eq!(read(&s, AT + LARGE + 8 * PAGE_SIZE), Ok(0)));
    as_cpu(22, || s.unmap(VirtAddr(AT), 2 * LARGE).unwrap());
    everywhere(&|| assert_eq!(read(&s, AT), Err(FaultError::NotMapped)));
    drop(s);
    for cpu in [20, 21, 22] {
        as_cpu(cpu, sync::rcu::drain);
    }
}

/// A space that is not asked for large pages keeps what it has without views.
#[test]
fn a_mapping_without_an_address_may_be_large() {
    let _g = alone();
    let s = space();
    let start = s.map(&anon(4 * LARGE)).unwrap().0;
    write(&s, start, 1).unwrap();
    write(&s, start + 2 * LARGE, 2).unwrap();
    assert!(s.large_pages_in(start..start + 4 * LARGE) >= PAGES);
    assert_eq!((read(&s, start), read(&s, start + 2 * LARGE)), (Ok(1), Ok(2)));
}

/// Threads count in a large page while others split it, take rights from parts of it, and fork: no count is lost, and a child's stays as it was.
#[test]
fn what_threads_write_while_a_large_page_is_split_is_not_lost() {
    const ROUNDS: u64 = 40;
    const ADDS: u64 = 400;
    let _g = alone();
    let s = space();
    s.set_multithreaded();
    let part = VirtAddr(AT + 100 * PAGE_SIZE);
    for round in 0..ROUNDS {
        s.map(&at(AT, LARGE, RW)).unwrap();
        std::thread::scope(|threads| {
            for cpu in 0..2usize {
                let s = &s;
                threads.spawn(move || {
                    switch_to(s);
                    for n in 0..ADDS as usize {
                        add(s, AT + (n * 7 + cpu) % PAGES * PAGE_SIZE, 1).unwrap();
                    }
                });
            }
            let s = &s;
            threads.spawn(move || {
                switch_to(s);
                match round % 4 {
                    0 => s.advise(part, PAGE_SIZE, Advice::DoDump).unwrap(),
                    1 => {
                        let to = s.map(&anon(PAGE_SIZE)).unwrap();
                        let flags = MremapFlags::MAYMOVE | MremapFlags::FIXED;
                        s.remap(to, PAGE_SIZE, PAGE_SIZE, flags, VirtAddr(AT + 2 * LARGE)).unwrap();
                        s.set_lock(part, PAGE_SIZE, Some(Lock::Now)).unwrap();
                    }
                    2 => s.advise(part, 2 * PAGE_SIZE, Advice::DontDump).unwrap(),
                    _ => {
                        let child = s.fork().unwrap();
                        switch_to(&child);
                        let sum = |of: &Space<Soft>| -> u64 {
                            (0..PAGES).map(|page| read(of, AT + page * PAGE_SIZE).unwrap()).sum()
                        };
                        let before = sum(&child);
                        write(&child, AT + 3 * PAGE_SIZE, 0).unwrap();
                        assert!(sum(&child) <= before);
                        switch_to(s);
                    }
                }
            });
        });
        switch_to(&s);
        let sum: u64 = (0..PAGES).map(|page| read(&s, AT + page * PAGE_SIZE).unwrap()).sum();
        assert_eq!(sum, 2 * ADDS, "round {round}");
        s.unmap(VirtAddr(AT), LARGE).unwrap();
    }
}
