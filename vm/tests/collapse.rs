//! Leaves that become large afterwards (madvise(2), MADV_COLLAPSE), on the software machine.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test may die when memory is out.

mod soft;

use soft::requests::{Alone, RW, at, space};
use soft::{Soft, add, free_frames, read, shows_block, switch_to, write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sync::machine::hosted::as_cpu;
use vm::large::{LargePages, set_large_pages};
use vm::*;

const LARGE: usize = LEAF_SPAN;
const PAGES: usize = LARGE / PAGE_SIZE;
const AT: usize = 0x4000_0000;

/// Nothing is large unless it is collapsed.
fn alone() -> Alone {
    let alone = soft::requests::alone();
    sync::machine::hosted::set_cpus(24);
    set_large_pages(LargePages::Never);
    alone
}

/// A space with a leaf at `AT` in which every third page holds its number.
fn thirds() -> Arc<Space<Soft>> {
    let s = space();
    s.map(&at(AT, 2 * LARGE, RW)).unwrap();
    for page in (0..PAGES).step_by(3) {
        write(&s, AT + page * PAGE_SIZE, page as u64 + 1).unwrap();
    }
    s
}

fn holds_thirds(s: &Space<Soft>) {
    for page in 0..PAGES {
        let wanted = if page.is_multiple_of(3) { page as u64 + 1 } else { 0 };
        assert_eq!(read(s, AT + page * PAGE_SIZE), Ok(wanted), "page {page}");
    }
}

fn is_large(s: &Space<Soft>) -> bool {
    s.large_pages_in(AT..AT + LARGE) == PAGES
}

#[test]
fn scattered_pages_become_one_large_page() {
    let _g = alone();
    let s = thirds();
    assert_eq!(read(&s, AT + PAGE_SIZE), Ok(0), "a page of zeros that is read");
    let free = free_frames();
    assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::Done);
    assert!(is_large(&s));
    assert_eq!(s.usage().anon, PAGES);
    holds_thirds(&s);
    write(&s, AT, 1).unwrap();
    assert!(shows_block(AT));
    assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::Done, "it is large already");
    s.unmap(VirtAddr(AT), LARGE).unwrap();
    assert!(free_frames() > free, "the pages that were there before are free again");
}

#[test]
fn a_split_leaf_is_large_again() {
    let _g = alone();
    let s = thirds();
    assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::Done);
    s.advise(VirtAddr(AT + PAGE_SIZE), PAGE_SIZE, Advice::DontNeed).unwrap();
    assert!(!is_large(&s));
    assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::Done);
    assert!(is_large(&s));
    holds_thirds(&s);
}

#[test]
fn what_cannot_be_one_large_page_stays() {
    let _g = alone();
    let s = thirds();
    assert_eq!(s.collapse(VirtAddr(AT + PAGE_SIZE)), Collapsed::Refused);
    assert_eq!(s.collapse(VirtAddr(AT + LARGE)), Collapsed::NothingWritable, "nothing was touched there");
    read(&s, AT + LARGE).unwrap();
    assert_eq!(s.collapse(VirtAddr(AT + LARGE)), Collapsed::NothingWritable, "zeros were read");
    assert_eq!(s.collapse(VirtAddr(AT + 2 * LARGE)), Collapsed::NothingWritable, "nothing is mapped");
    s.advise(VirtAddr(AT), LARGE, Advice::NoLarge).unwrap();
    assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::Refused);
    s.advise(VirtAddr(AT), LARGE, Advice::Large).unwrap();
    s.refuse_large(true);
    assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::Refused);
    s.refuse_large(false);
    s.protect(VirtAddr(AT + PAGE_SIZE), PAGE_SIZE, Prot::READ).unwrap();
    assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::Refused, "a part of it is another mapping");
    s.protect(VirtAddr(AT), LARGE, Prot::READ).unwrap();
    assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::Refused);
    holds_thirds(&s);
}

#[test]
fn without_a_block_pages_stay_where_they_are() {
    let _g = alone();
    let s = thirds();
    let mut blocks = Vec::new();
    while let Some(block) = vm::frame::alloc_contiguous(9, 0) {
        blocks.push(block);
    }
    assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::NoMemory);
    holds_thirds(&s);
    // SAFETY: taken just now, and used by nobody.
    blocks.into_iter().for_each(|block| unsafe { vm::frame::free_contiguous(block, 9) });
}

#[test]
fn what_a_fork_shares_becomes_two() {
    let _g = alone();
    let parent = thirds();
    let child = parent.fork().unwrap();
    assert_eq!(parent.collapse(VirtAddr(AT)), Collapsed::NothingWritable, "all is the child's too");
    write(&parent, AT, 1).unwrap();
    assert_eq!(parent.collapse(VirtAddr(AT)), Collapsed::Done);
    write(&parent, AT + PAGE_SIZE, 7).unwrap();
    switch_to(&child);
    holds_thirds(&child);
    write(&child, AT, 1).unwrap();
    assert_eq!(child.collapse(VirtAddr(AT)), Collapsed::Done);
    holds_thirds(&child);
    drop(parent);
    holds_thirds(&child);
}

#[test]
fn other_cpus_see_the_same_pages() {
    let _g = alone();
    let s = thirds();
    s.set_multithreaded();
    let everywhere = |f: &dyn Fn(usize)| {
        for cpu in [20, 21] {
            as_cpu(cpu, || {
                switch_to(&s);
                f(cpu as usize);
            });
        }
    };
    everywhere(&|_| holds_thirds(&s));
    as_cpu(20, || assert_eq!(s.collapse(VirtAddr(AT)), Collapsed::Done));
    everywhere(&|cpu| {
        write(&s, AT + (1 + 3 * (cpu - 20)) * PAGE_SIZE, cpu as u64).unwrap();
    });
    everywhere(&|_| {
        assert_eq!((read(&s, AT + PAGE_SIZE), read(&s, AT + 4 * PAGE_SIZE)), (Ok(20), Ok(21)));
    });
    as_cpu(21, || s.advise(VirtAddr(AT), LARGE, Advice::DontNeed).unwrap());
    everywhere(&|_| assert_eq!(read(&s, AT + PAGE_SIZE), Ok(0)));
    drop(s);
    for cpu in [20, 21] {
        as_cpu(cpu, sync::rcu::drain);
    }
}

/// Threads count in the pages of a leaf while others collapse it, split it, take rights from a part of it, drop a page and fork: no count is lost.
#[test]
fn what_threads_write_while_a_leaf_is_collapsed_is_not_lost() {
    const ROUNDS: u64 = 40;
    const ADDS: u64 = 400;
    let _g = alone();
    let s = space();
    s.set_multithreaded();
    // Nobody counts in the last pages.
    let part = VirtAddr(AT + (PAGES - 4) * PAGE_SIZE);
    let mut collapsed = 0;
    for round in 0..ROUNDS {
        s.map(&at(AT, LARGE, RW)).unwrap();
        let ends = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let (s, ends) = (&s, &ends);
            let adders: Vec<_> = (0..2usize)
                .map(|cpu| {
                    threads.spawn(move || {
                        switch_to(s);
                        for n in 0..ADDS as usize {
                            add(s, AT + (n * 7 + cpu) % (PAGES - 4) * PAGE_SIZE, 1).unwrap();
                        }
                    })
                })
                .collect();
            let collapser = threads.spawn(move || {
                switch_to(s);
                let mut done = 0u32;
                while !ends.load(Ordering::Relaxed) {
                    done += u32::from(s.collapse(VirtAddr(AT)) == Collapsed::Done);
                }
                done
            });
            threads.spawn(move || {
                switch_to(s);
                while !ends.load(Ordering::Relaxed) {
                    match round % 4 {
                        0 => s.advise(part, PAGE_SIZE, Advice::DontNeed).unwrap(),
                        1 => {
                            s.protect(part, PAGE_SIZE, Prot::READ).unwrap();
                            s.protect(part, PAGE_SIZE, RW).unwrap();
                        }
                        2 => {
                            s.unmap(part, PAGE_SIZE).unwrap();
                            s.map(&at(part.0, PAGE_SIZE, RW)).unwrap();
                        }
                        _ => drop(s.fork().unwrap()),
                    }
                    std::thread::yield_now();
                }
            });
            adders.into_iter().for_each(|adder| adder.join().unwrap());
            ends.store(true, Ordering::Relaxed);
            collapsed += collapser.join().unwrap();
        });
        switch_to(&s);
        let sum: u64 = (0..PAGES).map(|page| read(&s, AT + page * PAGE_SIZE).unwrap()).sum();
        assert_eq!(sum, 2 * ADDS, "round {round}");
        s.unmap(VirtAddr(AT), LARGE).unwrap();
    }
    assert!(collapsed > 0, "none was ever collapsed");
}
